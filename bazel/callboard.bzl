"""Macros for C++ targets. They are the only place for compiler flags, tags and defaults."""

_WARNINGS = [
    "-Wall",
    "-Wextra",
    "-Werror",
]

# The test tiers and their tags. Tests with real processes are `external`: they run again even if
# nothing has changed.
_TIERS = {
    "unit": [],
    "simulation": [],
    "integration": ["external"],
    "crash": ["external"],
    "e2e": ["external"],
    # Takes too long for a run of `tests/run.sh` without arguments.
    "soak": ["external"],
}

def callboard_cc_library(name, **kwargs):
    """A C++ library."""
    native.cc_library(
        name = name,
        copts = _WARNINGS + kwargs.pop("copts", []),
        # Build static libraries only. Shared libraries would compile every file twice.
        linkstatic = True,
        **kwargs
    )

def callboard_cc_binary(name, **kwargs):
    """A program with jemalloc, which is fast when one thread frees what another one allocated."""
    if not kwargs.get("linkshared"):
        kwargs["malloc"] = "//bazel/system:jemalloc"
    native.cc_binary(
        name = name,
        copts = _WARNINGS + kwargs.pop("copts", []),
        **kwargs
    )

def callboard_cc_test(name, deps, tier = "unit", size = "small", data = [], tags = [], **kwargs):
    """A GoogleTest program. `tests/run.sh` selects tests by `tier`."""
    if tier not in _TIERS:
        fail("tier must be one of %s, not %s" % (", ".join(_TIERS.keys()), tier))
    native.cc_test(
        name = name,
        size = size,
        copts = _WARNINGS + kwargs.pop("copts", []),
        linkstatic = True,
        tags = [tier] + _TIERS[tier] + tags,
        data = data + ["//tests:tsan_suppressions.txt"],
        deps = deps + ["//bazel/system:gtest"],
        **kwargs
    )

def callboard_cc_benchmark(name, deps, **kwargs):
    """A Google Benchmark program, and a test that runs it briefly, so that it keeps working."""
    callboard_cc_binary(
        name = name,
        testonly = True,
        deps = deps + ["//bazel/system:benchmark"],
        **kwargs
    )
    native.sh_test(
        name = name + "_smoke_test",
        size = "small",
        srcs = ["//bazel:run_benchmark_briefly.sh"],
        args = ["$(location :%s)" % name],
        data = [":" + name],
        tags = ["benchmark"],
    )
