"""What libs/ports/telemetry.h calls spans, events and attributes is what docs/OPERATIONS.md lists; so for
the variables of OpenTelemetry."""

import re
import unittest

from tests.observability.names import ROOT, text_of

OPERATIONS = text_of(f"{ROOT}/docs/OPERATIONS.md")


def named(section):
    """What the header defines in its sections of that name."""
    parts = re.split(r"^// ---- ", text_of(f"{ROOT}/libs/ports/telemetry.h"), flags=re.M)[1:]
    return {value for part in parts if part.startswith(section)
            for value in re.findall(r'constexpr char k\w+\[\] =\s+"([^"]+)";', part)}


def rows(heading):
    """The cells of the table of the section on traces that has such a head."""
    section = OPERATIONS.split("\n## The traces\n")[1].split("\n## ")[0]
    table = section.split(f"\n| {heading} |")[1].split("\n\n")[0]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.split("\n")[2:]]


def quoted(text):
    return set(re.findall(r"`([^`]+)`", text))


class SpansTest(unittest.TestCase):
    def test_documents_list_every_span_and_no_other(self):
        # Calls have the name of their method.
        listed = {name for row in rows("span") for name in quoted(row[0]) if "/" not in name}
        self.assertEqual(named("Spans"), listed)
        self.assertIn("server.start", listed)

    def test_documents_list_every_event_and_no_other(self):
        self.assertEqual(named("Events"), {name for row in rows("span") for name in quoted(row[3])})

    def test_documents_list_every_attribute_and_no_other(self):
        # Values are there, too; names have dots.
        attributes = {name for name in named("Attributes") if "." in name}
        self.assertEqual(attributes, {name for row in rows("attribute") for name in quoted(row[0])})

    def test_attributes_are_said_to_be_on_spans_that_exist(self):
        for row in rows("attribute"):
            with self.subTest(row[0]):
                self.assertEqual(set(), quoted(row[1]) - named("Spans"))

    def test_documents_list_every_variable_that_is_looked_at(self):
        code = text_of(f"{ROOT}/libs/telemetry/otel_telemetry.cc")
        looked_at = set(re.findall(r'"(OTEL_\w+)"', code))
        self.assertIn("OTEL_BSP_SCHEDULE_DELAY", looked_at)
        listed = {name for row in rows("variable") for name in quoted(row[0])}
        self.assertEqual(set(), looked_at - listed)


if __name__ == "__main__":
    unittest.main()
