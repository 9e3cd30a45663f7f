"""The guards: rules about the source tree that a program can check.

Each guard is a function from a Tree to a list of findings, `path:line: problem, and what to do instead`.
guards_test.py plants a violation for each; tree_test.py runs them all on the repository.
"""

import math
import re
import subprocess

CPP = (".cc", ".h")


class Tree:
    """The files of a source tree: path, relative to its root, to text."""

    def __init__(self, files):
        self.files = files

    @staticmethod
    def of_repository(root):
        """Returns the tree of all files that git tracks or would add; binary files are left out."""
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
            cwd=root, check=True, capture_output=True, text=True).stdout.split()
        files = {}
        for path in listed:
            try:
                with open(f"{root}/{path}", encoding="utf-8") as file:
                    files[path] = file.read()
            except (UnicodeDecodeError, FileNotFoundError):
                continue
        return Tree(files)

    def select(self, *suffixes, under=""):
        """Returns (path, text) of each file with one of the suffixes, in order."""
        return [(path, text) for path, text in sorted(self.files.items())
                if path.endswith(suffixes) and path.startswith(under)]


def find_lines(text, pattern):
    """Yields (line number, match) of each matching line; comments are ignored."""
    for number, line in enumerate(text.split("\n"), 1):
        match = re.search(pattern, re.sub(r"//.*", "", line))
        if match:
            yield number, match


# ---- Layers ------------------------------------------------------------------------------------

# Folders that a folder may include besides itself. The folders up to `scheduler` include neither gRPC,
# RocksDB, OpenTelemetry nor generated protos.
LAYERS = {
    "libs/base": [],
    "libs/core": ["libs/base"],
    "libs/ports": ["libs/base", "libs/core"],
    "libs/flow": ["libs/base", "libs/ports"],
    "libs/director": ["libs/base", "libs/core", "libs/ports", "libs/flow"],
    "libs/agent": ["libs/base", "libs/core", "libs/ports", "libs/flow"],
    "libs/scheduler": ["libs/base", "libs/core", "libs/ports", "libs/flow"],
    "libs/wire": ["libs/base", "libs/core"],
    "libs/system": ["libs/base", "libs/ports", "libs/flow"],
    # The agent defines the port of its journal, the scheduler that of its ledger.
    "libs/store": ["libs/base", "libs/core", "libs/ports", "libs/wire", "libs/agent",
                   "libs/scheduler"],
    "libs/runner": ["libs/base", "libs/core", "libs/ports"],
    # The scheduler defines the port to its director.
    "libs/link": ["libs/base", "libs/core", "libs/ports", "libs/wire", "libs/scheduler"],
    "libs/telemetry": ["libs/base", "libs/core", "libs/ports"],
    "libs/config": ["libs/base", "libs/core", "libs/ports", "libs/wire"],
    "libs/http": ["libs/base", "libs/wire"],
    "libs/server": ["libs/base", "libs/core", "libs/ports", "libs/flow", "libs/wire",
                    "libs/system", "libs/telemetry", "libs/config", "libs/http"],
    "libs/testing": ["libs"],
    "services": ["libs"],
    "tests": ["libs", "services"],
}

# External headers that a folder may include; every folder may use Abseil and the standard library.
OUTSIDE = {
    "libs/base": ["spdlog/"],
    "libs/core": [],
    "libs/ports": [],
    "libs/flow": [],
    "libs/director": [],
    "libs/agent": [],
    "libs/scheduler": [],
    "libs/wire": ["google/", "callboard/v1/", "grpcpp/alarm.h", "grpcpp/support/status.h", "nlohmann/"],
    "libs/system": [],
    # What the API has as well is stored in its form.
    "libs/store": ["rocksdb/", "google/protobuf/", "callboard/storage/", "callboard/v1/"],
    "libs/runner": [],
    "libs/link": ["grpc", "google/", "callboard/v1/"],
    "libs/telemetry": ["grpc", "google/protobuf/", "opentelemetry/", "prometheus/"],
    "libs/config": ["google/protobuf/", "callboard/config/v1/", "callboard/v1/", "yaml-cpp/"],
    "libs/http": ["boost/"],
    "libs/server": ["grpc", "prometheus/", "google/", "callboard/config/v1/"],
    "libs/testing": ["grpc", "google/", "callboard/", "opentelemetry/proto/"],
    "services": ["grpc", "google/", "callboard/", "CLI/", "prometheus/"],
    "tests": ["grpc", "google/", "callboard/", "rocksdb/", "opentelemetry/proto/", "benchmark/"],
}

# The folder that reads and writes the stored form; other folders use a store through its port.
STORAGE_PROTOS = "callboard/storage/"
STORE = "libs/store/"

# Headers that pure code may not use: threads, files, sockets, the operating system.
SYSTEM_HEADERS = re.compile(r"(thread|future|mutex|fstream|iostream|filesystem|cstdio|unistd\.h|fcntl\.h|"
                     r"(sys|netinet|arpa)/.*|absl/synchronization/.*|absl/time/clock\.h)$")
PURE = ("libs/core/", "libs/ports/", "libs/director/", "libs/agent/engine",
        "libs/scheduler/engine")
# Files of a pure folder that may use threads.
THREADED_FILES = ("libs/director/driver.h", "libs/director/driver.cc")

# Tests may include these; tests with real sockets need the real clock.
TEST_HEADERS = ("gtest/", "gmock/", "rapidcheck", "libs/testing/",
                "libs/system/")


def layer_of(path):
    """Returns the longest key of LAYERS that contains the path; None if there is none."""
    holders = [layer for layer in LAYERS if path.startswith(layer + "/")]
    return max(holders, key=len) if holders else None


def is_test(path):
    return (path.endswith("_test.cc") or path.startswith(("libs/testing/", "tests/")))


def is_outside(header):
    """Returns whether a header belongs to a library that only some layers may use."""
    known = {prefix for prefixes in OUTSIDE.values() for prefix in prefixes}
    return header.startswith(tuple(known)) or header.endswith(".pb.h")


def layering(tree):
    findings = []
    for path, text in tree.select(*CPP):
        layer = layer_of(path)
        if layer is None:
            findings.append(f"{path}:1: belongs to no layer; move it, or name its layer in guards.py")
            continue
        own = LAYERS[layer] + [layer]
        # A test may use the libraries that the users of its subject use.
        outside = OUTSIDE[layer] + (["google/", "callboard/", "grpc", "spdlog/", "probe."]
                                    if is_test(path) else [])
        for number, match in find_lines(text, r'#include [<"]([^>"]+)[>"]'):
            header = match[1]
            if is_test(path) and header.startswith(TEST_HEADERS):
                continue
            is_pure = path.startswith(PURE) and path not in THREADED_FILES and not is_test(path)
            if is_pure and SYSTEM_HEADERS.match(header):
                findings.append(f"{path}:{number}: pure code may not include {header}; "
                                "use a port")
            elif header.startswith(("libs/", "services/", "tests/")):
                if not header.startswith(tuple(folder + "/" for folder in own)):
                    findings.append(f"{path}:{number}: {layer} may not include {header}; "
                                    f"it may include {', '.join(own)}")
                elif header.startswith("libs/testing/") and not is_test(path):
                    findings.append(f"{path}:{number}: only tests include {header}")
            elif header.startswith(STORAGE_PROTOS) and not path.startswith(STORE):
                findings.append(f"{path}:{number}: only {STORE} includes {header}")
            elif is_outside(header) and not header.startswith(tuple(outside)):
                findings.append(f"{path}:{number}: {layer} may not include {header}; "
                                "go through a port or the layer that wraps it")
    return findings


# ---- Banned calls ------------------------------------------------------------------------------

# Replaces system calls in processes that it is preloaded into.
FAULTY_DISK = "tests/crash/faulty_disk.cc"

# Pattern, replacement, and the files in which it is allowed.
BANNED = [
    (r"sleep_for|sleep_until|usleep\(|nanosleep\(|absl::SleepFor|(?<![\w.>])sleep\(",
     "wait for a condition with a deadline, or use a Timer", [FAULTY_DISK]),
    (r"absl::Now\(|absl::GetCurrentTimeNanos|\w*[cC]lock::now\b|\bgettimeofday\(|\bclock_gettime\("
     r"|(?<![\w.>])time\((nullptr|NULL|0)\)",
     "take time from a Clock, or as an argument",
     ["libs/system/", "libs/base/log.cc", FAULTY_DISK]),
    (r"\bgpr_now\(", "take time from a Clock; a deadline for gRPC may be a GPR_TIMESPAN", []),
    (r"\b(secure_)?getenv\(|\bsetenv\(", "declare a setting (proto/callboard/config/v1)",
     ["libs/config/", FAULTY_DISK]),
    (r"(?<![\w.>])s?rand\(|std::random_device|std::mt19937|absl::BitGen|absl::InsecureBitGen",
     "take chance from a Random, or from a hash of what it is for", ["libs/system/"]),
    (r"std::\w*mutex\b|std::(lock_guard|unique_lock|scoped_lock|shared_lock)\b"
     r"|std::condition_variable|absl::Mutex|absl::CondVar|absl::Notification|pthread_mutex",
     "use base::Mutex, which both TSan and clang support", ["libs/base/mutex.h"]),
    (r"\b(Short|Utf8)?DebugString\(\)", "log the fields you mean: messages hold prompts and secrets",
     []),
    (r"\bGTEST_SKIP\b|\bDISABLED_", "make it pass, or delete it", []),
]

# Calls that may block; handlers run on gRPC's two reaction threads.
BLOCKING = (r"std::(future|promise|async|latch|barrier|\w*semaphore|j?thread)\b|\bCondVar\b"
            r"|(->|\.)([wW]ait(For|_for|_until)?|acquire|join)\(|\bget_future\b"
            r"|grpc::ClientContext\b|\bCompletionQueue\b")
HANDLERS = ("services/director/", "services/agent/", "services/scheduler/", "libs/server/call")


def banned_calls(tree):
    findings = []
    for path, text in tree.select(*CPP):
        for pattern, instead, allowed in BANNED:
            if path.startswith(tuple(allowed)):
                continue
            for number, match in find_lines(text, pattern):
                findings.append(f"{path}:{number}: {match[0]} is banned here: {instead}")
    return findings


def blocking_handlers(tree):
    findings = []
    for path, text in tree.select(*CPP):
        if not path.startswith(HANDLERS) or is_test(path):
            continue
        for number, match in find_lines(text, BLOCKING):
            findings.append(f"{path}:{number}: {match[0]} may block a gRPC reaction: "
                            "answer from a callback")
    return findings


# ---- Sizes, tests, tidiness --------------------------------------------------------------------

SOURCE = CPP + (".py", ".sh", ".bzl", ".ts", ".tsx", ".proto")
FILE_LINES_MAX = 900
MAIN_LINES_MAX = 50
# A service and its messages are in one file, with a comment on every declaration.
PROTO_LINES_MAX = 1000


def sizes(tree):
    findings = []
    for path, text in tree.select(*SOURCE):
        lines = text.count("\n")
        most = (MAIN_LINES_MAX if path.endswith("/main.cc") else
                PROTO_LINES_MAX if path.endswith(".proto") else FILE_LINES_MAX)
        if lines > most:
            findings.append(f"{path}:{lines}: {lines} lines are more than {most}: "
                            "split it into files with one purpose each")
    return findings


# Sources with fewer lines than this belong into a file with what they change with.
FILE_LINES_MIN = 40
# Smaller files, and why they stay alone.
SMALL_FILES = {
    "libs/base/version.h": "a release changes nothing else",
    "libs/wire/alarm.h": "the only code that libs/server and libs/link share about gRPC's timers",
}


def small_files(tree):
    findings = []
    for path, text in tree.select(".h", under=""):
        stem = path[:-2]
        lines = text.count("\n") + tree.files.get(stem + ".cc", "").count("\n")
        if path.startswith(("libs/", "services/")) and lines < FILE_LINES_MIN and path not in SMALL_FILES:
            findings.append(f"{path}:1: {lines} lines, with its source, are fewer than "
                            f"{FILE_LINES_MIN}: merge it, or give a reason in SMALL_FILES")
    return findings + [f"tests/style/guards.py:1: SMALL_FILES names {path}, which does not exist"
                       for path in SMALL_FILES if tree.files and path not in tree.files]


def untested_folders(tree):
    """Checks that each folder with sources has tests."""
    def folders(suffix):
        return {path.rsplit("/", 1)[0].removesuffix("/workarounds")
                for path, _ in tree.select(suffix) if path.startswith(("libs/", "services/"))}
    return [f"{folder}:1: no test; test the rules of a folder in the folder"
            for folder in sorted(folders(".cc") - folders("_test.cc"))]


# The number of faults in docs/FAULTS.md.
FAULTS = 42


def rules_without_tests(tree):
    """Checks that every test that docs name exists, and every planted bug in docs/RULES.md."""
    tests = {f"{suite}.{name}" for _, text in tree.select("_test.cc") for suite, name in
             re.findall(r"^TEST(?:_F|_P)?\((\w+),\s+(\w+)\)", text, re.M)}
    findings = []
    for path, text in tree.select(".md", under="docs/"):
        for number, line in enumerate(text.split("\n"), 1):
            for test in re.findall(r"`(\w+Test\.\w+)`", line):
                if test not in tests:
                    findings.append(f"{path}:{number}: {test} does not exist")
            if path != "docs/RULES.md" or not line.startswith("| ") or line.count("|") != 4:
                continue
            for bug in filter(None, line.split("|")[3].strip().split(", ")) if "`" in line else []:
                if not any(f"tests/simulation/{folder}planted/{bug}.txt" in tree.files
                           for folder in ("", "scheduler/")):
                    findings.append(f"{path}:{number}: {bug} is not planted")
    return findings


def faults_without_tests(tree):
    """Checks that docs/FAULTS.md has each fault once, with a test or the feature that brings it."""
    text = tree.files.get("docs/FAULTS.md", "")
    rows = re.findall(r"^\| (F-\d\d) \|.*\| ([^|]*) \|$", text, re.M)
    findings = [f"docs/FAULTS.md:1: {fault} has no test"
                for fault, shown_by in rows
                if not re.search(r"`\w+Test\.\w+`|^comes with ", shown_by)]
    return findings + [f"docs/FAULTS.md:1: {fault} is there {count} times"
                       for fault in (f"F-{number:02}" for number in range(1, FAULTS + 1))
                       if (count := [row[0] for row in rows].count(fault)) != 1]


def undocumented_limits_and_reasons(tree):
    """Checks that docs/API.md has every limit of libs/core/limits.h and every error reason."""
    page = tree.files.get("docs/API.md", "")
    findings = []
    for name, factors in re.findall(r"constexpr \w+ (k\w+) = ([0-9 *']+);",
                                    tree.files.get("libs/core/limits.h", "")):
        value = math.prod(int(factor) for factor in factors.replace("'", "").split("*"))
        if not re.search(rf"^\|[^|]*\|[^|]*\b{value}\b[^|]*\| `{name}` \|$", page, re.M):
            findings.append(f"docs/API.md:1: no row has {name} with the value {value}")
    reasons = reasons_in(tree)
    listed = set(re.findall(r"^\| `([A-Z_]+)` \|", page, re.M))
    findings += [f"{reasons[name]}: docs/API.md does not explain the reason {name}"
                 for name in sorted(reasons.keys() - listed)]
    return findings + [f"docs/API.md:1: no code uses the reason {name}"
                       for name in sorted(listed - reasons.keys())]


def reasons_in(tree):
    """Returns the error reasons of servers (base::WithReason), each with a file that uses it."""
    sources = [(path, text) for suffix in (".cc", ".h") for path, text in tree.select(suffix)
               if path.startswith(("libs/", "services/")) and not is_test(path)
               and not path.startswith(("libs/testing/", "services/cli/"))]
    constants = {name: value for _, text in sources for name, value in re.findall(
        r'constexpr (?:absl::string_view|char) (k\w+)(?:\[\])? =\s*"([A-Z][A-Z_]+)";', text)}
    reasons = {}
    for path, text in sources:
        for call in re.finditer(r"WithReason\(", text):
            end, depth = call.end(), 1
            while depth > 0 and end < len(text):
                depth += {"(": 1, ")": -1}.get(text[end], 0)
                end += 1
            arguments = text[call.end():end]
            names = re.findall(r'"([A-Z][A-Z_]+)"', arguments)
            names += [constants[name] for name in re.findall(r"\bk[A-Z]\w+", arguments) if name in constants]
            reasons.update({name: path for name in names})
    return reasons


def unbacked_examples(tree):
    """Checks that every C++ example in docs is part of a test, except for its indentation."""
    def folded(text):
        return "\n".join(line.strip() for line in text.strip().split("\n"))

    tests = [folded(text) for _, text in tree.select("_test.cc")]
    findings = []
    for path, text in tree.select(".md", under="docs/"):
        for example in re.finditer(r"^```cpp\n(.*?)^```", text, re.M | re.S):
            if not any(folded(example[1]) in test for test in tests):
                number = text.count("\n", 0, example.start()) + 1
                findings.append(f"{path}:{number}: no test contains this example; add it to one so that it compiles")
    return findings


def assertion_free_tests(tree):
    findings = []
    for path, text in tree.select("_test.cc"):
        starts = [(m.start(), m[0]) for m in re.finditer(r"^(TYPED_)?TEST(_F|_P)?\(.*", text, re.M)]
        for (start, name), (end, _) in zip(starts, starts[1:] + [(len(text), "")]):
            if not re.search(r"\b(EXPECT|Expect|ASSERT|RC_ASSERT|RC_GTEST|FAIL|CHECK)\w*\(|WaitForLine\(",
                             text[start:end]):
                number = text.count("\n", 0, start) + 1
                findings.append(f"{path}:{number}: {name} asserts nothing")
    return findings


def tidiness(tree):
    findings = []
    for path, text in tree.select(*SOURCE, ".md", "BUILD", "WORKSPACE", ".yaml"):
        if text and not text.endswith("\n"):
            findings.append(f"{path}:{text.count(chr(10)) + 1}: no newline at the end")
        for number, line in enumerate(text.split("\n"), 1):
            if line != line.rstrip():
                findings.append(f"{path}:{number}: space at the end of the line")
            if "\t" in line:
                findings.append(f"{path}:{number}: tab")
            if path.startswith("tests/style/"):
                continue
            if re.search(r"\b(FIXME|XXX)\b|\bTODO\b(?!\(#\d+\):)", line):
                findings.append(f"{path}:{number}: unowned TODO: write TODO(#issue): trigger")
            if re.search(r"(?<![\w/])/(root|home/\w+)/", line):
                findings.append(f"{path}:{number}: a path of one machine")
    for path, text in tree.select(".sh"):
        if "set -euo pipefail" not in text:
            findings.append(f"{path}:1: write `set -euo pipefail`: errors must not be ignored")
    for path, text in tree.select(".h"):
        guard = "CALLBOARD_" + re.sub(r"[/.]", "_", path).upper() + "_"
        if f"#ifndef {guard}\n#define {guard}\n" not in text:
            findings.append(f"{path}:1: the include guard must be {guard}")
    return findings


def house_macros(tree):
    findings = []
    for path, text in tree.select("BUILD"):
        if path.startswith("bazel/"):
            continue
        for number, match in find_lines(text, r"^\s*(?:native\.)?(cc_\w+)\("):
            findings.append(f"{path}:{number}: use callboard_{match[1]}: flags live in one place")
    return findings


# ---- Language ----------------------------------------------------------------------------------

# A comment that begins with one of these is a clause without a subject.
CLAUSE = re.compile(r"(?:^|\s)(?://|#)\s+((?:What|Of|Who|Whom|Whose)\b)")
# Neither a line break nor the marker of a comment line separates the words of a phrase.
ODD_WORDS = re.compile(r"\b(?:anew|nobody|somebody|so(?:\s|//|#)+many)\b", re.IGNORECASE)
LANGUAGE = CPP + (".proto", ".py", ".sh", ".bzl", ".mjs", "BUILD", ".md")
# The total in the whole tree. A few are quotations, or the plainest word.
ODD_LANGUAGE_MAX = 10


# Comments and string literals of C++ and protos.
PROSE = re.compile(r'//[^\n]*|"(?:\\.|[^"\\\n])*"')


def prose_of(path, text):
    """Returns the text with the code of C++ and protos blanked out."""
    if not path.endswith(CPP + (".proto",)):
        return text
    parts, end = [], 0
    for match in PROSE.finditer(text):
        parts += [re.sub(r"[^\n]", " ", text[end:match.start()]), match[0]]
        end = match.end()
    return "".join(parts)


def is_comment_line(line):
    return line.lstrip().startswith(("//", "#"))


def odd_language(tree):
    """Comments that begin with a clause, and words that few programmers use, if they are many."""
    findings = []
    for path, text in tree.select(*LANGUAGE):
        # The guard and its test name the words.
        if path.startswith("tests/style/"):
            continue
        for match in ODD_WORDS.finditer(prose_of(path, text)):
            number = text.count("\n", 0, match.start()) + 1
            findings.append((path, number, f"'{' '.join(match[0].split())}' is an odd word here"))
        if path.endswith(".md"):
            continue
        lines = text.split("\n")
        for number, line in enumerate(lines, 1):
            match = CLAUSE.search(line)
            continues = is_comment_line(line) and number > 1 and is_comment_line(lines[number - 2])
            if match and not continues:
                findings.append((path, number, f"a comment begins with '{match[1]}'"))
    if len(findings) <= ODD_LANGUAGE_MAX:
        return []
    return [f"{path}:{number}: {what}: write short sentences, subject first"
            for path, number, what in sorted(findings)]


# ---- Protos ------------------------------------------------------------------------------------


def buf(root):
    """Returns the path of buf, which deploy/setup.sh installs."""
    return f"{root}/tests/tools/node_modules/.bin/buf"


def proto_breaks(root, buf_path):
    """Compares the protos with those of the last commit with `API-break: why`, or of the first one.

    Returns the exit code and the output of buf.
    """
    def git(*arguments):
        return subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True,
                              text=True).stdout.split()

    base = (git("log", "-1", "--format=%H", "--grep=^API-break: ", "HEAD") or
            git("log", "--reverse", "--format=%H", "--", "proto/buf.yaml"))
    done = subprocess.run([buf_path, "breaking", "proto", "--against",
                           f".git#ref={base[0]},subdir=proto"],
                          cwd=root, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


GUARDS = [layering, banned_calls, blocking_handlers, sizes, small_files, untested_folders,
          rules_without_tests,
          faults_without_tests, undocumented_limits_and_reasons, unbacked_examples,
          assertion_free_tests, tidiness, house_macros, odd_language]
