"""Tests which tests count as passed in tests/run.sh."""

import json
import unittest

from tests import tally


def configured(label):
    return json.dumps({"id": {"targetConfigured": {"label": label}},
                       "configured": {"targetKind": "cc_test rule", "testSize": "SMALL"}})


def summary(label, status):
    return json.dumps({"id": {"testSummary": {"label": label}},
                       "testSummary": {"overallStatus": status}})


class TallyTest(unittest.TestCase):
    def test_only_a_passed_test_has_passed(self):
        lines = [configured("//a"), configured("//b"), configured("//c"), configured("//d"),
                 summary("//a", "PASSED"), summary("//b", "FAILED"), summary("//c", "FLAKY")]
        self.assertEqual({"//a": True, "//b": False, "//c": False, "//d": False},
                         tally.tally(lines))

    def test_other_targets_do_not_count(self):
        lines = [json.dumps({"id": {"targetConfigured": {"label": "//lib"}},
                             "configured": {"targetKind": "cc_library rule"}})]
        self.assertEqual({}, tally.tally(lines))


if __name__ == "__main__":
    unittest.main()
