"""Each guard must find the violations planted for it, and nothing else."""

import os
import subprocess
import tempfile
import unittest
from unittest import mock

from tests.style import guards

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
BUF = guards.buf(ROOT)


class GuardsTest(unittest.TestCase):
    def finds(self, guard, files, *expected):
        """Checks that `guard` has one finding for each of `expected`, which contains it, and no other."""
        findings = guard(guards.Tree(files))
        self.assertEqual(len(expected), len(findings), findings)
        for want, finding in zip(expected, findings):
            self.assertIn(want, finding)

    def test_layering_rejects_includes_against_the_direction(self):
        self.finds(guards.layering, {
            "libs/core/a.h": '#include "libs/base/check.h"\n#include "libs/director/engine.h"\n',
            "libs/director/engine.h": '#include "libs/core/a.h"\n',
        }, "libs/core/a.h:2: libs/core may not include libs/director/engine.h")

    def test_layering_keeps_engines_free_of_outside_libraries(self):
        for header in ["grpcpp/grpcpp.h", "rocksdb/db.h", "opentelemetry/trace/tracer.h",
                       "callboard/v1/queue.pb.h", "google/protobuf/message.h"]:
            self.finds(guards.layering, {"libs/director/engine.cc": f"#include <{header}>\n"},
                       f"libs/director may not include {header}")
        self.finds(guards.layering, {"libs/server/call.h": "#include <grpcpp/alarm.h>\n"})

    def test_layering_keeps_test_code_out_of_the_product(self):
        include = '#include "libs/testing/fake_clock.h"\n'
        self.finds(guards.layering, {"services/director/main.cc": include,
                                     "services/director/a_test.cc": include},
                   "only tests include libs/testing/fake_clock.h")

    def test_layering_keeps_system_headers_out_of_pure_code(self):
        for header in ["thread", "fstream", "unistd.h", "sys/socket.h", "absl/time/clock.h"]:
            self.finds(guards.layering, {"libs/core/a.h": f"#include <{header}>\n",
                                         "libs/director/driver.h": "#include <thread>\n",
                                         "libs/director/engine.cc": f"#include <{header}>\n"},
                       f"pure code may not include {header}", "libs/director/engine.cc:1")
        self.finds(guards.layering, {"libs/core/a.h": '#include "absl/time/time.h"\n'})

    def test_layering_keeps_implementations_of_ports_apart(self):
        self.finds(guards.layering, {
            "libs/runner/a.cc": '#include "libs/runner/a.h"\n#include "libs/link/b.h"\n',
        }, "libs/runner/a.cc:2")

    def test_layering_keeps_the_stored_form_in_its_folders(self):
        include = '#include "callboard/storage/v1/record.pb.h"\n'
        self.finds(guards.layering, {"libs/store/a.cc": include,
                                     "libs/link/a.cc": include},
                   "only libs/store/ includes callboard/storage/v1/record.pb.h")

    def test_layering_rejects_a_file_without_a_layer(self):
        self.finds(guards.layering, {"libs/misc/a.cc": ""}, "belongs to no layer")

    def test_each_banned_call_is_found(self):
        for call in ["std::this_thread::sleep_for(x);", "usleep(5);", "absl::SleepFor(x);",
                     "auto now = absl::Now();", "std::chrono::system_clock::now();",
                     "getenv(\"HOME\");", "int r = rand();", "std::random_device d;",
                     "std::mutex m;", "absl::Mutex m;", "std::lock_guard lock(m);",
                     "std::shared_lock lock(m);", "std::shared_timed_mutex m;",
                     "Clock::now();", "absl::GetCurrentTimeNanos();",
                     "message.ShortDebugString();", "gpr_now(x);", "time(nullptr);",
                     "TEST(A, DISABLED_B) {"]:
            self.finds(guards.banned_calls, {"libs/director/driver.cc": call + "\n"}, "is banned")

    def test_banned_calls_are_allowed_in_the_system_folder_and_comments(self):
        self.finds(guards.banned_calls, {
            "libs/system/system.cc": "absl::Now();\n",
            "libs/base/mutex.h": "std::mutex mutex_;\n",
            "libs/config/environment.cc": "getenv(name);\n",
            "libs/core/a.cc": "// never call absl::Now()\nint brand(int);\nstrand(x);\n",
        })

    def test_blocking_in_a_handler_is_found(self):
        for call in ["std::future<int> f;", "grpc::ClientContext context;", "thread.join();",
                     "base::CondVar c;", "server->Wait();", "std::binary_semaphore s(0);",
                     "latch.wait();", "std::async(f);", "std::jthread t;", "s.acquire();",
                     "grpc::CompletionQueue queue;", "p.get_future().get();"]:
            self.finds(guards.blocking_handlers, {
                "services/director/queue_service.cc": call + "\n",
                "services/cli/submit.cc": call + "\n",
            }, "services/director/queue_service.cc:1")

    def test_long_file_and_long_main_are_found(self):
        self.finds(guards.sizes, {
            "libs/core/a.cc": "\n" * 901, "libs/core/b.cc": "\n" * 900,
            "services/director/main.cc": "\n" * 51,
        }, "libs/core/a.cc:901", "services/director/main.cc:51")

    def test_small_file_without_a_reason_is_found(self):
        reasons = dict.fromkeys(guards.SMALL_FILES, "")
        self.finds(guards.small_files, {
            **reasons, "libs/core/a.h": "\n" * 39, "libs/core/b.h": "\n" * 20,
            "libs/core/b.cc": "\n" * 20, "tests/crash/c.h": "",
        }, "libs/core/a.h:1: 39 lines")

    def test_folder_without_a_test_is_found(self):
        self.finds(guards.untested_folders, {
            "libs/core/a.cc": "", "libs/core/b_test.cc": "", "libs/misc/c.cc": "",
            "libs/server/d_test.cc": "", "libs/server/workarounds/e.cc": "",
        }, "libs/misc:1")

    def test_rule_without_its_test_or_planted_bug_is_found(self):
        self.finds(guards.rules_without_tests, {
            "libs/core/a_test.cc": "TEST(ATest, Holds) {\n}\nTEST_F(BTest, Holds) {\n}\n",
            "tests/simulation/planted/bug.txt": "",
            "docs/RULES.md": "| rule | `ATest.Holds` | bug |\n| rule | `BTest.Holds` | |\n"
                             "| rule | `ATest.Gone` | other |\n",
        }, "docs/RULES.md:3: ATest.Gone does not exist", "docs/RULES.md:3: other is not planted")

    def test_missing_or_untested_fault_is_found(self):
        row = "| %s | fault | made by | expected | %s |\n"
        rows = [row % (f"F-{number:02}", "`ATest.Holds`; also `BTest.Holds`")
                for number in range(1, guards.FAULTS + 1)]
        rows[6] = row % ("F-07", "comes with the scheduler")
        self.finds(guards.faults_without_tests, {"docs/FAULTS.md": "".join(rows)})
        rows[2] = row % ("F-03", "it is obvious")
        rows[4] = rows[5]
        self.finds(guards.faults_without_tests, {"docs/FAULTS.md": "".join(rows)},
                   "F-03 has no test", "F-05 is there 0 times", "F-06 is there 2 times")

    def test_test_in_the_faults_page_must_exist(self):
        self.finds(guards.rules_without_tests, {
            "tests/a_test.cc": "TEST_P(ATest, Holds) {\n}\n",
            "docs/FAULTS.md": "| F-01 | | | | `ATest.Holds`, `ATest.Gone` |\n",
        }, "docs/FAULTS.md:1: ATest.Gone does not exist")

    def test_undocumented_limit_or_reason_is_found(self):
        tree = {
            "libs/core/limits.h": "inline constexpr size_t kA = 2 * 1024;\n"
                                  "inline constexpr uint32_t kB = 10'000;\n",
            "libs/core/a.cc": 'WithReason(E(F("x")), "ONE_REASON", {{"k", "v"}});\n',
            "libs/core/b.cc": 'constexpr char kTwo[] = "TWO_REASONS";\nWithReason(E(), kTwo);\n',
            "libs/core/b_test.cc": 'WithReason(E(), "OF_A_TEST");\n',
            "docs/API.md": "| a | 2048 bytes | `kA` |\n| b | 10000 | `kB` |\n"
                           "| `ONE_REASON` | x | y |\n| `TWO_REASONS` | x | y |\n",
        }
        self.finds(guards.undocumented_limits_and_reasons, tree)
        tree["docs/API.md"] = "| a | 2049 bytes | `kA` |\n| b | 10000 | `kB` |\n" \
                              "| `ONE_REASON` | x | y |\n| `OLD_REASON` | x | y |\n"
        self.finds(guards.undocumented_limits_and_reasons, tree, "no row has kA with the value 2048",
                   "does not explain the reason TWO_REASONS", "no code uses the reason OLD_REASON")

    def test_example_without_a_test_is_found(self):
        test = {"libs/flow/a_test.cc": "void F() {\n    int a = 1;\n    Use(a);\n}\n"}
        page = "text\n```cpp\n%s\n```\n```console\n$ anything\n```\n"
        self.finds(guards.unbacked_examples, {**test, "docs/A.md": page % "int a = 1;\n  Use(a);"})
        self.finds(guards.unbacked_examples, {**test, "docs/A.md": page % "int a = 2;"},
                   "docs/A.md:2: no test contains this example")

    def test_test_without_an_assertion_is_found(self):
        self.finds(guards.assertion_free_tests, {
            "libs/core/a_test.cc": "TEST(A, B) {\n  Run();\n}\n\nTEST(A, C) {\n  EXPECT_EQ(1, 1);\n}\n",
        }, "libs/core/a_test.cc:1: TEST(A, B) { asserts nothing")

    def test_untidy_text_is_found(self):
        guard = "#ifndef CALLBOARD_LIBS_CORE_A_H_\n#define CALLBOARD_LIBS_CORE_A_H_\n"
        self.finds(guards.tidiness, {"libs/core/a.h": guard})
        for text, finding in [("int a; \n", "space at the end"), ("\tint a;\n", "tab"),
                              ("int a;", "no newline"), ("// TODO: later\n", "unowned TODO"),
                              ("// see /home/me/notes\n", "a path of one machine")]:
            self.finds(guards.tidiness, {"libs/core/a.cc": text}, finding)
        self.finds(guards.tidiness, {"libs/core/a.cc": "// TODO(#41): once p99 > 20 ms.\n"})
        self.finds(guards.tidiness, {"libs/core/b.h": guard}, "must be CALLBOARD_LIBS_CORE_B_H_")
        self.finds(guards.tidiness, {"deploy/a.sh": "set -e\n"}, "set -euo pipefail")

    def test_target_that_bypasses_the_house_macros_is_found(self):
        self.finds(guards.house_macros, {
            "libs/core/BUILD": 'cc_library(name = "a")\ncallboard_cc_library(name = "b")\n',
            "bazel/system/BUILD": 'cc_library(name = "absl")\n',
        }, "libs/core/BUILD:1: use callboard_cc_library")

    def test_odd_language_is_found_above_its_limit(self):
        odd = {
            "libs/core/a.cc": "// What it does.\nint a;  // Of a task.\n"
                              'Fail("there is nobody");\n// It counts so\n// many tasks.\n',
            "proto/callboard/v1/a.proto": "  // Who calls.\n  string a = 1;\n",
            "deploy/a.sh": "# Whose folder it is, made\n# Of the same form anew.\n",
            "docs/A.md": "# What it is\n\nSomebody asks.\n",
        }
        plain = {
            "libs/core/b.cc": "// Returns a task.\n// Of two tasks the first.\nint Nobody();\n"
                              "// Often it is no longer there. Whatever it is.\n",
            "tests/style/b.py": "# What nobody reads.\n",
        }
        found = ["deploy/a.sh:1: a comment begins with 'Whose'", "deploy/a.sh:2: 'anew'",
                 "docs/A.md:3: 'Somebody'", "libs/core/a.cc:1: a comment begins with 'What'",
                 "libs/core/a.cc:2: a comment begins with 'Of'", "libs/core/a.cc:3: 'nobody'",
                 "libs/core/a.cc:4: 'so // many'",
                 "proto/callboard/v1/a.proto:1: a comment begins with 'Who'"]
        with mock.patch.object(guards, "ODD_LANGUAGE_MAX", len(found)):
            self.finds(guards.odd_language, {**odd, **plain})
        with mock.patch.object(guards, "ODD_LANGUAGE_MAX", len(found) - 1):
            self.finds(guards.odd_language, {**odd, **plain}, *found)


class ToolsTest(unittest.TestCase):
    """The configured tools find a violation."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def plant(self, name, text):
        path = os.path.join(self.folder.name, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def outcome(self, *command, folder=ROOT):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def clang_check(self, text):
        source = self.plant("libs/core/planted.cc", text)
        return self.outcome(f"{ROOT}/bazel/clang_check.sh", f"{self.folder.name}/stamp",
                            f"{ROOT}/.clang-tidy", source, f"-iquote{ROOT}")

    def test_clang_check_passes_clean_code(self):
        code, output = self.clang_check("int Three() { return 3; }\n")
        self.assertEqual(0, code, output)
        self.assertTrue(os.path.exists(f"{self.folder.name}/stamp"))

    def test_clang_check_finds_an_unguarded_access(self):
        code, output = self.clang_check(
            '#include "libs/base/mutex.h"\n'
            "struct Guarded {\n"
            "  callboard::base::Mutex mutex;\n"
            "  int value ABSL_GUARDED_BY(mutex) = 0;\n"
            "};\n"
            "int Read(Guarded& guarded) { return guarded.value; }\n")
        self.assertEqual(1, code)
        self.assertIn("thread-safety-analysis", output)

    def test_clang_check_finds_wrong_names_long_functions_and_use_after_move(self):
        lines = "  value += 1;\n" * 80
        for text, check in [
                ("int wrong_name() { return 3; }\n", "readability-identifier-naming"),
                (f"int Long(int value) {{\n{lines}  return value;\n}}\n", "readability-function-size"),
                ("#include <string>\n#include <utility>\n"
                 "std::string Twice(std::string text) {\n"
                 "  std::string taken = std::move(text);\n  return taken + text;\n}\n",
                 "bugprone-use-after-move")]:
            code, output = self.clang_check(text)
            self.assertEqual(1, code, check)
            self.assertIn(check, output)

    def test_clang_format_finds_unformatted_code(self):
        path = self.plant("a.cc", "int  a( ){return 1;}\n")
        code, _ = self.outcome("clang-format-14", f"--style=file:{ROOT}/.clang-format", "--dry-run",
                               "--Werror", path)
        self.assertEqual(1, code)

    def test_buf_lint_finds_an_uncommented_misnamed_field(self):
        with open(f"{ROOT}/proto/buf.yaml", encoding="utf-8") as config:
            self.plant("buf.yaml", config.read())
        self.plant("callboard/v1/planted.proto",
                   'syntax = "proto3";\npackage callboard.v1;\nmessage Planted {\n'
                   "  string badName = 1;\n}\n")
        code, output = self.outcome(BUF, "lint", folder=self.folder.name)
        self.assertNotEqual(0, code)
        self.assertIn("lower_snake_case", output)
        self.assertIn("comment", output)

    def commit_proto(self, field, message):
        """Commits a proto with one field to a separate repository."""
        with open(f"{ROOT}/proto/buf.yaml", encoding="utf-8") as config:
            self.plant("proto/buf.yaml", config.read())
        self.plant("proto/callboard/v1/planted.proto",
                   'syntax = "proto3";\npackage callboard.v1;\n// A.\nmessage A {\n  // B.\n'
                   f"  {field}\n}}\n")
        for command in [["init", "-q"], ["add", "."],
                        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", message]]:
            subprocess.run(["git", *command], cwd=self.folder.name, check=True)

    def test_buf_breaking_finds_a_changed_field_until_a_commit_declares_it(self):
        self.commit_proto("string b = 1;", "first")
        self.commit_proto("int32 b = 1;", "second")
        code, output = guards.proto_breaks(self.folder.name, BUF)
        self.assertNotEqual(0, code)
        self.assertIn("changed type", output)
        self.commit_proto("int64 b = 1;", "third\n\nAPI-break: it was never right")
        self.assertEqual((0, ""), guards.proto_breaks(self.folder.name, BUF))


if __name__ == "__main__":
    unittest.main()
