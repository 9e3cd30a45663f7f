"""Which metrics the files of this repository name."""

import glob
import json
import os
import re

import yaml

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
FOLDER = f"{ROOT}/deploy/observability"

SUFFIXES = ("_bucket", "_count", "_sum")


def text_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def alerts():
    """Every alert of the rules."""
    rules = yaml.safe_load(text_of(f"{FOLDER}/alerts.yaml"))
    return [rule for group in rules["groups"] for rule in group["rules"]]


def panels():
    """Every panel of the dashboards that shows something."""
    folder = f"{FOLDER}/grafana/dashboards"
    dashboards = [json.loads(text_of(f"{folder}/{name}")) for name in sorted(os.listdir(folder))]
    return [panel for dashboard in dashboards for panel in dashboard["panels"]
            if panel["type"] != "row"]


def expressions():
    """Every expression of rules and dashboards."""
    return ([alert["expr"] for alert in alerts()] +
            [target["expr"] for panel in panels() for target in panel["targets"]
             if "expr" in target])


def families(text):
    """The metrics named in a text; a histogram by the name of its family."""
    found = set()
    for name in re.findall(r"\bcallboard_[a-z_]+[a-z]\b", text):
        ends = [suffix for suffix in SUFFIXES if name.endswith(suffix)]
        found.add(name[:-len(ends[0])] if ends else name)
    return found


def _sources():
    """The text of every source file of the product."""
    return [text_of(path) for folder in ("libs", "services")
            for path in sorted(glob.glob(f"{ROOT}/{folder}/**/*.cc", recursive=True))
            if not path.endswith("_test.cc")]


def _names_in(path, function):
    """The texts that a function of a source file may return."""
    body = text_of(f"{ROOT}/{path}").split(f"Name({function}) {{")[1].split("\n}\n")[0]
    return re.findall(r'return "(\w+)";', body)


def outcomes():
    """The events of occurrences: `schedule=fired`."""
    return {f"schedule={name}"
            for name in _names_in("libs/core/job.h", "FiringOutcome outcome")}


def logged_events():
    """Every event that a binary may log, `area=event`."""
    text = "\n".join(_sources())
    found = {f"{area}={event}" for area, event in
             re.findall(r'(?:base::Log\w+|WriteLine)\([^"{]*?"(\w+)",\s*"(\w+)"', text)}
    # An area whose events are not literals needs a place here.
    composed = set(re.findall(r'base::Log\w+\([^"{]*?"(\w+)",\s*[^"\s]', text))
    assert composed == {"queue", "schedule", "scheduler"}, composed
    found |= {f"queue={name}"
              for name in _names_in("services/director/task_log.cc", "QueueEvent event")}
    told = re.findall(r'\bAddNotice\(([^,]*),', "\n".join(
        text_of(path) for path in glob.glob(f"{ROOT}/libs/scheduler/engine*.cc")))
    found |= {f"scheduler={name}" for event in told for name in re.findall(r'"(\w+)"', event)}
    return found | outcomes()


def documented_events():
    """The events that the tables of docs/OPERATIONS.md list: those of their first columns."""
    lines = text_of(f"{ROOT}/docs/OPERATIONS.md").split("\n")
    firsts = [line.split("|")[1] for line in lines if re.match(r"\| `[a-z_]+=", line)]
    return set(re.findall(r"`([a-z_]+=[^`]+)`", " ".join(firsts)))


def with_exemplars():
    """The histograms that say of their buckets which trace fell into them."""
    return set(re.findall(r'_\(registries, "(callboard_\w+)"',
                          text_of(f"{ROOT}/services/director/queue_metrics.cc")))


def documented():
    """The metrics that the tables of docs/OPERATIONS.md list: those of their first columns."""
    lines = text_of(f"{ROOT}/docs/OPERATIONS.md").split("\n")
    firsts = [line.split("|")[1] for line in lines
              if re.match(r"\| `callboard_.*\| (gauge|counter|histogram) \|", line)]
    return families(" ".join(firsts))
