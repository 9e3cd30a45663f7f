"""The files of deploy/observability fit together. No engine runs them here."""

import os
import re
import subprocess
import unittest

import yaml

from tests.observability import names
from tests.observability.names import FOLDER, ROOT, text_of


def anchors(text):
    """How the headings of a page are linked to."""
    headings = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


class FilesTest(unittest.TestCase):
    def run_promtool(self, *arguments):
        done = subprocess.run([f"{ROOT}/tests/tools/bin/promtool", *arguments], cwd=FOLDER,
                              capture_output=True, text=True, check=False)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)

    def test_promtool_finds_rules_and_configuration_right(self):
        self.run_promtool("check", "rules", "--lint-fatal", "alerts.yaml")
        self.run_promtool("check", "config", "prometheus.yaml")

    def test_alerts_fire_when_they_should(self):
        self.run_promtool("test", "rules", "alerts_test.yaml")

    def test_each_alert_has_a_test_of_when_it_fires(self):
        tests = yaml.safe_load(text_of(f"{FOLDER}/alerts_test.yaml"))["tests"]
        fired = set(re.findall(r'alertname="(\w+)"', str(tests)))
        self.assertEqual({alert["alert"] for alert in names.alerts()}, fired)
        for test in tests:
            checks = test.get("promql_expr_test")
            if checks is not None:
                self.assertTrue(any(not check["exp_samples"] for check in checks), test["name"])

    def test_each_alert_says_how_bad_it_is_and_what_to_do(self):
        page = text_of(f"{ROOT}/docs/OPERATIONS.md")
        for alert in names.alerts():
            with self.subTest(alert["alert"]):
                self.assertIn(alert["labels"]["severity"], ("critical", "warning", "info"))
                for annotation in ("summary", "description"):
                    self.assertRegex(alert["annotations"][annotation], r"\.$")
                path, anchor = alert["annotations"]["runbook"].split("#")
                self.assertEqual("docs/OPERATIONS.md", path)
                self.assertIn(anchor, anchors(page))
                self.assertIn(f"| `{alert['alert']}` | {alert['labels']['severity']} |", page)

    def test_documents_list_no_alert_that_does_not_exist(self):
        listed = re.findall(r"^\| `(Callboard\w+)` \|", text_of(f"{ROOT}/docs/OPERATIONS.md"), re.M)
        self.assertEqual(sorted(alert["alert"] for alert in names.alerts()), sorted(listed))

    def test_documents_list_every_event_of_the_log_and_no_other(self):
        # The outcomes of occurrences are one line of the table, which leads to their own page.
        self.assertEqual(names.logged_events() - names.outcomes(),
                         names.documented_events() - {"schedule=<outcome>"})
        page = text_of(f"{ROOT}/docs/JOBS.md")
        for event in names.outcomes():
            self.assertIn(f"\n| `{event.removeprefix('schedule=')}` | ", page)

    def test_every_reason_for_which_a_submit_is_rejected_is_counted_from_the_start_and_listed(self):
        code = "".join(text_of(f"{ROOT}/libs/{path}.cc") for path in (
            "wire/spec", "director/engine_admission", "director/director",
            "director/driver", "wire/fields"))
        given = {reason.lower() for reason in re.findall(r'"([A-Z]+(?:_[A-Z]+)*)"', code)}
        # Of calls that are no submits.
        given -= {"not_redrivable", "too_many_tickets"}
        # An environment variable.
        given -= {"traceparent"}
        header = text_of(f"{ROOT}/services/director/task_log.h")
        counted = re.findall(r'"(\w+)"', re.search(r"kRejectReasons\[\] = \{([^}]*)\}", header)[1])
        self.assertEqual(sorted(given), sorted(counted))
        page = text_of(f"{ROOT}/docs/OPERATIONS.md")
        listed = re.search(r"_rejected_total\{reason\}` \| counter \| [^:]*: ([^|]*) \|", page)[1]
        self.assertEqual(counted, listed.split(", "))

    def test_what_the_containers_mount_exists(self):
        services = yaml.safe_load(text_of(f"{FOLDER}/compose.yaml"))["services"]
        self.assertEqual({"jaeger", "prometheus", "grafana"}, set(services))
        for name, service in services.items():
            with self.subTest(name):
                self.assertRegex(service["image"], r"^[a-z]+/[a-z-]+:v?\d+\.\d+")
                for volume in service.get("volumes", []):
                    self.assertTrue(os.path.exists(f"{FOLDER}/{volume.split(':')[0]}"), volume)
                for port in service.get("ports", []):
                    self.assertRegex(port, r"^127\.0\.0\.1:")

    def test_what_the_configuration_names_is_mounted_there(self):
        services = yaml.safe_load(text_of(f"{FOLDER}/compose.yaml"))["services"]
        mounted = {volume.split(":")[1] for service in services.values()
                   for volume in service.get("volumes", [])}
        config = yaml.safe_load(text_of(f"{FOLDER}/prometheus.yaml"))
        for path in config["rule_files"]:
            self.assertIn(f"/etc/prometheus/{path}", mounted)
        provider = yaml.safe_load(text_of(f"{FOLDER}/grafana/provisioning/dashboards/callboard.yaml"))
        self.assertIn(provider["providers"][0]["options"]["path"], mounted)

    def test_panels_ask_a_datasource_that_is_provisioned(self):
        provisioned = yaml.safe_load(
            text_of(f"{FOLDER}/grafana/provisioning/datasources/callboard.yaml"))["datasources"]
        known = {(source["type"], source["uid"]) for source in provisioned}
        self.assertEqual({"prometheus", "jaeger"}, {kind for kind, _ in known})
        for panel in names.panels():
            with self.subTest(panel["title"]):
                self.assertTrue(panel["targets"])
                for asker in [panel] + panel["targets"]:
                    source = asker["datasource"]
                    self.assertIn((source["type"], source["uid"]), known)

    def test_points_of_histograms_with_exemplars_lead_to_their_traces(self):
        sources = {source["uid"]: source for source in yaml.safe_load(
            text_of(f"{FOLDER}/grafana/provisioning/datasources/callboard.yaml"))["datasources"]}
        link, = sources["prometheus"]["jsonData"]["exemplarTraceIdDestinations"]
        # As libs/telemetry/metrics.cc writes them.
        self.assertEqual("trace_id", link["name"])
        self.assertEqual("jaeger", sources[link["datasourceUid"]]["type"])
        asked = {family for panel in names.panels() for target in panel["targets"]
                 if target.get("exemplar") for family in names.families(target["expr"])}
        self.assertEqual(names.with_exemplars(), asked)

    def test_prometheus_keeps_exemplars_and_whoever_looks_may_follow_them(self):
        services = yaml.safe_load(text_of(f"{FOLDER}/compose.yaml"))["services"]
        self.assertIn("--enable-feature=exemplar-storage", services["prometheus"]["command"])
        # By default it asks for OpenMetrics, without which there are none.
        self.assertNotIn("scrape_protocols", text_of(f"{FOLDER}/prometheus.yaml"))
        grafana = services["grafana"]["environment"]
        self.assertEqual("true", grafana["GF_USERS_VIEWERS_CAN_EDIT"])
        self.assertEqual("127.0.0.1", grafana["GF_SERVER_HTTP_ADDR"])

    def test_panels_are_in_nobodys_way(self):
        taken = {}
        for panel in names.panels():
            place = panel["gridPos"]
            for x in range(place["x"], place["x"] + place["w"]):
                for y in range(place["y"], place["y"] + place["h"]):
                    self.assertLess(x, 24, panel["title"])
                    self.assertNotIn((x, y), taken, panel["title"])
                    taken[x, y] = panel["title"]

    def test_ports_that_are_scraped_are_those_of_the_settings(self):
        page = text_of(f"{ROOT}/docs/SETTINGS.md")
        ports = dict(re.findall(
            r"^## (callboard-\w+)$(?:(?!^## ).)*?^\| `http\.listen` \| text \| `([^`]+)`", page,
            re.M | re.S))
        config = yaml.safe_load(text_of(f"{FOLDER}/prometheus.yaml"))
        scraped = {job["job_name"]: job["static_configs"][0]["targets"]
                   for job in config["scrape_configs"] if "static_configs" in job}
        self.assertEqual({name: [ports[name]] for name in scraped}, scraped)
        # Of the one that cannot be scraped unasked the file says where it is.
        agent, = set(ports) - set(scraped)
        self.assertIn(f"default settings is {ports[agent]}.", text_of(f"{FOLDER}/prometheus.yaml"))

    def test_scrape_jobs_are_those_that_alerts_and_panels_know(self):
        config = yaml.safe_load(text_of(f"{FOLDER}/prometheus.yaml"))
        jobs = {job["job_name"] for job in config["scrape_configs"]}
        named = set(re.findall(r'job="([\w-]+)"', " ".join(names.expressions())))
        self.assertEqual({"callboard-director", "callboard-scheduler", "callboard-agent"}, jobs)
        self.assertEqual(jobs, named)


if __name__ == "__main__":
    unittest.main()
