"""The guards: rules about the source tree that a program can check.

Each guard is a function from a Tree to a list of findings, `path:line: what, and what to do instead`.
guards_test.py plants a violation for each; tree_test.py runs them all on the repository.
"""

import math
import re
import subprocess

from tests.style.tested_elsewhere import TESTED_ELSEWHERE

CPP = (".cc", ".h")


class Tree:
    """The files of a source tree: path, relative to its root, to text."""

    def __init__(self, files):
        self.files = files

    @staticmethod
    def of_repository(root):
        """What git tracks, or would once added; files that are not text are left out."""
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
        """(path, text) of each file with one of the suffixes, in order."""
        return [(path, text) for path, text in sorted(self.files.items())
                if path.endswith(suffixes) and path.startswith(under)]


def find_lines(text, pattern):
    """(line number, match) of each line that matches, comments cut off."""
    for number, line in enumerate(text.split("\n"), 1):
        match = re.search(pattern, re.sub(r"//.*", "", line))
        if match:
            yield number, match


# ---- Layers ------------------------------------------------------------------------------------

# Which of our own folders a folder may include, beside itself. Left of `adapters` nobody includes
# gRPC, RocksDB, OpenTelemetry or generated protos.
LAYERS = {
    "libs/base": [],
    "libs/core": ["libs/base"],
    "libs/ports": ["libs/base", "libs/core"],
    "libs/flow": ["libs/base", "libs/ports"],
    "libs/director": ["libs/base", "libs/core", "libs/ports", "libs/flow"],
    "libs/agent": ["libs/base", "libs/core", "libs/ports", "libs/flow"],
    "libs/scheduler": ["libs/base", "libs/core", "libs/ports", "libs/flow"],
    "libs/wire": ["libs/base", "libs/core"],
    "libs/adapters": ["libs/base", "libs/core", "libs/ports", "libs/flow", "libs/wire"],
    # Its port is the agent's own.
    "libs/adapters/file_journal": ["libs/base", "libs/core", "libs/agent"],
    "libs/adapters/jobs_file": ["libs/base", "libs/core", "libs/ports", "libs/wire"],
    # Its port is the scheduler's own.
    "libs/adapters/grpc_director_link": ["libs/base", "libs/core", "libs/ports", "libs/wire",
                                         "libs/scheduler", "libs/adapters/client_tracing"],
    # Its port is the scheduler's own; its database is opened, locked and looked after as the
    # director's is.
    "libs/adapters/rocksdb_ledger": ["libs/base", "libs/core", "libs/ports", "libs/wire",
                                     "libs/scheduler", "libs/adapters/rocksdb_store"],
    "libs/config": ["libs/base", "libs/wire"],
    "libs/http": ["libs/base", "libs/wire"],
    "libs/client": ["libs/base", "libs/wire"],
    "libs/server": ["libs/base", "libs/core", "libs/ports", "libs/flow", "libs/wire",
                    "libs/adapters", "libs/config", "libs/http"],
    "libs/testing": ["libs"],
    "services": ["libs"],
    "tests": ["libs", "services"],
}

# Which outside headers a folder may include; Abseil and the standard library are everybody's.
OUTSIDE = {
    "libs/base": ["spdlog/"],
    "libs/core": [],
    "libs/ports": [],
    "libs/flow": [],
    "libs/director": [],
    "libs/agent": [],
    "libs/scheduler": [],
    "libs/wire": ["google/", "callboard/v1/", "grpcpp/support/status.h", "nlohmann/"],
    "libs/adapters": ["grpc", "rocksdb/", "opentelemetry/", "google/", "callboard/"],
    "libs/adapters/file_journal": ["callboard/storage/v1/journal.pb.h"],
    "libs/adapters/grpc_director_link": ["grpc", "callboard/v1/"],
    "libs/adapters/jobs_file": ["yaml-cpp/", "google/protobuf/", "callboard/v1/"],
    "libs/adapters/rocksdb_ledger": ["rocksdb/", "callboard/storage/v1/ledger.pb.h"],
    "libs/config": ["google/protobuf/", "callboard/config/v1/", "yaml-cpp/"],
    "libs/http": ["boost/"],
    "libs/client": ["grpc", "google/", "callboard/v1/"],
    "libs/server": ["grpc", "prometheus/", "google/", "callboard/config/v1/"],
    "libs/testing": ["grpc", "google/", "callboard/", "opentelemetry/proto/"],
    "services": ["grpc", "google/", "callboard/", "CLI/", "prometheus/"],
    "tests": ["grpc", "google/", "callboard/", "rocksdb/", "opentelemetry/proto/", "benchmark/"],
}

# The rooms that read and write what is on disk; to others a store is a port.
STORAGE_PROTOS = "callboard/storage/"
STORAGE_ROOMS = ("libs/adapters/rocksdb_store/", "libs/adapters/file_journal/",
                 "libs/adapters/output_files/", "libs/adapters/rocksdb_ledger/")

# What pure code has no use for: threads, files, sockets, the operating system.
WORLDLY = re.compile(r"(thread|future|mutex|fstream|iostream|filesystem|cstdio|unistd\.h|fcntl\.h|"
                     r"(sys|netinet|arpa)/.*|absl/synchronization/.*|absl/time/clock\.h)$")
PURE = ("libs/core/", "libs/ports/", "libs/director/", "libs/agent/engine",
        "libs/scheduler/engine")
# The files of a pure folder that have threads.
WORLDLY_FILES = ("libs/director/driver.h", "libs/director/driver.cc")

# Tests with real sockets need the real clock.
TEST_HEADERS = ("gtest/", "gmock/", "rapidcheck", "libs/testing/",
                "libs/adapters/system_clock/")


def layer_of(path):
    """The longest key of LAYERS that holds the path; None outside of them."""
    holders = [layer for layer in LAYERS if path.startswith(layer + "/")]
    return max(holders, key=len) if holders else None


def is_test(path):
    return (path.endswith("_test.cc") or path.startswith(("libs/testing/", "tests/")))


def is_outside(header):
    """Whether a header belongs to a library that only some layers may use."""
    known = {prefix for prefixes in OUTSIDE.values() for prefix in prefixes}
    return header.startswith(tuple(known)) or header.endswith(".pb.h")


def layering(tree):
    findings = []
    for path, text in tree.select(*CPP):
        layer = layer_of(path)
        if layer is None:
            findings.append(f"{path}:1: belongs to no layer; move it, or name its layer in guards.py")
            continue
        # Adapters know what they adapt, not each other.
        room = "/".join(path.split("/")[:3]) if layer == "libs/adapters" else layer
        own = LAYERS[layer] + [room]
        # A test may use what its subject's users use.
        outside = OUTSIDE[layer] + (["google/", "callboard/", "grpc", "spdlog/", "probe."]
                                    if is_test(path) else [])
        for number, match in find_lines(text, r'#include [<"]([^>"]+)[>"]'):
            header = match[1]
            if is_test(path) and header.startswith(TEST_HEADERS):
                continue
            is_pure = path.startswith(PURE) and path not in WORLDLY_FILES and not is_test(path)
            if is_pure and WORLDLY.match(header):
                findings.append(f"{path}:{number}: pure code may not include {header}; "
                                "the world comes in through a port")
            elif header.startswith(("libs/", "services/", "tests/")):
                if not header.startswith(tuple(folder + "/" for folder in own)):
                    findings.append(f"{path}:{number}: {layer} may not include {header}; "
                                    f"it may include {', '.join(own)}")
                elif header.startswith("libs/testing/") and not is_test(path):
                    findings.append(f"{path}:{number}: only tests include {header}")
            elif header.startswith(STORAGE_PROTOS) and not path.startswith(STORAGE_ROOMS):
                findings.append(f"{path}:{number}: only {', '.join(STORAGE_ROOMS)} include {header}")
            elif is_outside(header) and not header.startswith(tuple(outside)):
                findings.append(f"{path}:{number}: {layer} may not include {header}; "
                                "go through a port or the layer that wraps it")
    return findings


# ---- Banned calls ------------------------------------------------------------------------------

# Stands in for the kernel, in processes that know nothing of it.
FAULTY_DISK = "tests/crash/faulty_disk.cc"

# What, instead of what, and where it is allowed all the same.
BANNED = [
    (r"sleep_for|sleep_until|usleep\(|nanosleep\(|absl::SleepFor|(?<![\w.>])sleep\(",
     "wait for a condition with a deadline, or use a Timer", [FAULTY_DISK]),
    (r"absl::Now\(|absl::GetCurrentTimeNanos|\w*[cC]lock::now\b|\bgettimeofday\(|\bclock_gettime\("
     r"|(?<![\w.>])time\((nullptr|NULL|0)\)",
     "take time from a Clock, or as an argument",
     ["libs/adapters/system_clock/", "libs/base/log.cc", FAULTY_DISK]),
    (r"\bgpr_now\(", "take time from a Clock; a deadline for gRPC may be a GPR_TIMESPAN", []),
    (r"\b(secure_)?getenv\(|\bsetenv\(", "declare a setting (proto/callboard/config/v1)",
     ["libs/config/", FAULTY_DISK]),
    (r"(?<![\w.>])s?rand\(|std::random_device|std::mt19937|absl::BitGen|absl::InsecureBitGen",
     "take chance from a Random, or from a hash of what it is for", ["libs/adapters/"]),
    (r"std::\w*mutex\b|std::(lock_guard|unique_lock|scoped_lock|shared_lock)\b"
     r"|std::condition_variable|absl::Mutex|absl::CondVar|absl::Notification|pthread_mutex",
     "use base::Mutex, which TSan and clang both understand", ["libs/base/mutex.h"]),
    (r"\b(Short|Utf8)?DebugString\(\)", "log the fields you mean: messages hold prompts and secrets",
     []),
    (r"\bGTEST_SKIP\b|\bDISABLED_", "make it pass, or delete it", []),
]

# In handlers, which run on gRPC's two reaction threads.
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
# A service and its messages stand in one file, with a comment on every line of it.
PROTO_LINES_MAX = 1000


def sizes(tree):
    findings = []
    for path, text in tree.select(*SOURCE):
        lines = text.count("\n")
        most = (MAIN_LINES_MAX if path.endswith("/main.cc") else
                PROTO_LINES_MAX if path.endswith(".proto") else FILE_LINES_MAX)
        if lines > most:
            findings.append(f"{path}:{lines}: {lines} lines are more than {most}: "
                            "it has two jobs, give each a file")
    return findings


def needs_test(path, text, tree):
    """Sources do, and headers that hold code of their own."""
    if not path.startswith(("libs/", "services/")) or path.endswith(("_test.cc", "/main.cc")):
        return False
    if path.endswith(".cc"):
        return True
    return path[:-1] + "cc" not in tree.files and re.search(r"\)( const| override)* \{", text)


def missing_tests(tree):
    findings = []
    for path, text in tree.select(*CPP):
        if not needs_test(path, text, tree):
            continue
        test = TESTED_ELSEWHERE.get(path, path[:path.rindex(".")] + "_test.cc")
        if test not in tree.files:
            findings.append(f"{path}:1: {test} is missing: test it there, "
                            "or name the test that covers it in tested_elsewhere.py")
    for path in TESTED_ELSEWHERE:
        if path not in tree.files:
            findings.append(f"tests/style/tested_elsewhere.py:1: TESTED_ELSEWHERE names {path}, "
                            "which does not exist")
    return findings


# As many as the matrix of faults has.
FAULTS = 42


def rules_without_tests(tree):
    """Every test that a page of docs names exists, and every bug that docs/RULES.md says is planted."""
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
    """docs/FAULTS.md has each fault once, and each names a test or what it comes with."""
    text = tree.files.get("docs/FAULTS.md", "")
    rows = re.findall(r"^\| (F-\d\d) \|.*\| ([^|]*) \|$", text, re.M)
    findings = [f"docs/FAULTS.md:1: {fault} has no test, and does not come with anything"
                for fault, shown_by in rows
                if not re.search(r"`\w+Test\.\w+`|^comes with ", shown_by)]
    return findings + [f"docs/FAULTS.md:1: {fault} is there {count} times"
                       for fault in (f"F-{number:02}" for number in range(1, FAULTS + 1))
                       if (count := [row[0] for row in rows].count(fault)) != 1]


def undocumented_limits_and_reasons(tree):
    """docs/API.md has every limit of libs/core/limits.h with its value, and every reason of an error."""
    page = tree.files.get("docs/API.md", "")
    findings = []
    for name, factors in re.findall(r"constexpr \w+ (k\w+) = ([0-9 *']+);",
                                    tree.files.get("libs/core/limits.h", "")):
        value = math.prod(int(factor) for factor in factors.replace("'", "").split("*"))
        if not re.search(rf"^\|[^|]*\|[^|]*\b{value}\b[^|]*\| `{name}` \|$", page, re.M):
            findings.append(f"docs/API.md:1: no row says that {name} is {value}")
    reasons = reasons_in(tree)
    listed = set(re.findall(r"^\| `([A-Z_]+)` \|", page, re.M))
    findings += [f"{reasons[name]}: docs/API.md does not explain the reason {name}"
                 for name in sorted(reasons.keys() - listed)]
    return findings + [f"docs/API.md:1: no code gives the reason {name}"
                       for name in sorted(listed - reasons.keys())]


def reasons_in(tree):
    """Reasons that errors of servers have (base::WithReason), each with a file that gives it."""
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
            said = text[call.end():end]
            names = re.findall(r'"([A-Z][A-Z_]+)"', said)
            names += [constants[name] for name in re.findall(r"\bk[A-Z]\w+", said) if name in constants]
            reasons.update({name: path for name in names})
    return reasons


def unbacked_examples(tree):
    """Every example in C++ of a page of docs stands, but for its indentation, in a test."""
    def folded(text):
        return "\n".join(line.strip() for line in text.strip().split("\n"))

    tests = [folded(text) for _, text in tree.select("_test.cc")]
    findings = []
    for path, text in tree.select(".md", under="docs/"):
        for example in re.finditer(r"^```cpp\n(.*?)^```", text, re.M | re.S):
            if not any(folded(example[1]) in test for test in tests):
                number = text.count("\n", 0, example.start()) + 1
                findings.append(f"{path}:{number}: no test holds this example; keep it compiled")
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
            findings.append(f"{path}:1: write `set -euo pipefail`: errors must not pass silently")
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


# ---- Protos ------------------------------------------------------------------------------------


def buf(root):
    """The path of buf, which deploy/setup.sh installs."""
    return f"{root}/tests/tools/node_modules/.bin/buf"


def proto_breaks(root, buf_path):
    """Compares the protos with those of the last commit that says `API-break: why`, or of the first.

    Returns buf's exit code and what it printed.
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


GUARDS = [layering, banned_calls, blocking_handlers, sizes, missing_tests, rules_without_tests,
          faults_without_tests, undocumented_limits_and_reasons, unbacked_examples, assertion_free_tests, tidiness, house_macros]
