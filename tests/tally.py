"""Prints `passed LABEL` or `failed LABEL` for each test in a file of Bazel's build events.

A test that did not run, because it did not build or timed out, has failed.
"""

import json
import sys


def tally(lines):
    """Returns label to whether it passed, for every configured test."""
    outcomes = {}
    for line in lines:
        event = json.loads(line)
        if "testSize" in event.get("configured", {}):
            outcomes.setdefault(event["id"]["targetConfigured"]["label"], False)
        if "testSummary" in event:
            status = event["testSummary"]["overallStatus"]
            outcomes[event["id"]["testSummary"]["label"]] = status == "PASSED"
    return outcomes


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as events:
        for label, passed in tally(events).items():
            print("passed" if passed else "failed", label)
