"""What the binaries show at /metrics is what documents, alerts and dashboards say they do."""

import re
import subprocess
import tempfile
import unittest

from tests.observability import binaries, names


class MetricsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            cluster = binaries.Cluster(folder)
            try:
                cls.pages = {name: server.metrics() for name, server in cluster.servers.items()}
            finally:
                cluster.stop()
        cls.shown = {name for page in cls.pages.values()
                     for name in re.findall(r"^# TYPE (\S+)", page, re.M)}

    def test_promtool_finds_nothing_to_complain_about(self):
        for name, page in self.pages.items():
            with self.subTest(name):
                done = subprocess.run([f"{names.ROOT}/tests/tools/bin/promtool", "check", "metrics"],
                                      input=page, capture_output=True, text=True, check=False)
                self.assertEqual((0, ""), (done.returncode, done.stdout + done.stderr))

    def test_documents_list_what_there_is_and_nothing_else(self):
        self.assertEqual(set(), self.shown - names.documented(), "not in docs/OPERATIONS.md")
        self.assertEqual(set(), names.documented() - self.shown, "does not exist")

    def test_alerts_and_dashboards_name_metrics_that_exist(self):
        for expression in names.expressions():
            with self.subTest(expression):
                self.assertEqual(set(), names.families(expression) - self.shown)

    def test_labels_that_expressions_select_exist(self):
        samples = [line for page in self.pages.values() for line in page.split("\n")]
        for expression in names.expressions():
            for metric, selector in re.findall(r"\b(callboard_\w+)\{([^}]*)\}", expression):
                for label in re.findall(r"(\w+)[!=]=?~?\"", selector):
                    with self.subTest(expression):
                        self.assertTrue(any(line.startswith(metric + "{") and f'{label}="' in line
                                            for line in samples), f"{metric}{{{label}}}")


if __name__ == "__main__":
    unittest.main()
