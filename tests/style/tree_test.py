"""Runs every guard, formatter and linter on the repository."""

import os
import subprocess
import unittest

from tests.style import guards

# The test runs outside of Bazel's sandbox: the path of this file leads to the repository.
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))


class TreeTest(unittest.TestCase):
    def test_guards_find_nothing(self):
        tree = guards.Tree.of_repository(ROOT)
        self.assertGreater(len(tree.files), 50)
        for guard in guards.GUARDS:
            with self.subTest(guard.__name__):
                self.assertEqual([], guard(tree))

    def run_tool(self, *command, folder=ROOT):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)

    def test_cpp_is_formatted(self):
        sources = [path for path, _ in guards.Tree.of_repository(ROOT).select(*guards.CPP)]
        self.run_tool("clang-format-14", "--dry-run", "--Werror", *sources)

    def test_protos_pass_buf_lint(self):
        self.run_tool(guards.buf(ROOT), "lint", folder=f"{ROOT}/proto")

    def test_protos_are_compatible_unless_a_commit_declares_a_break(self):
        code, output = guards.proto_breaks(ROOT, guards.buf(ROOT))
        self.assertEqual(0, code, output)


if __name__ == "__main__":
    unittest.main()
