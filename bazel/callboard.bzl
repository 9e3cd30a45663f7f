"""House macros: the flags, tags and defaults of every C++ target live here and nowhere else."""

_WARNINGS = [
    "-Wall",
    "-Wextra",
    "-Werror",
]

# Each tier, and whether its tests run again although nothing changed: those of real processes do.
_TIERS = {
    "unit": [],
    "simulation": [],
    "integration": ["external"],
    "crash": ["external"],
    "e2e": ["external"],
    # Longer than anybody wants to wait; not part of a run without arguments.
    "soak": ["external"],
}

def callboard_cc_library(name, **kwargs):
    """A library: one header pair."""
    native.cc_library(
        name = name,
        copts = _WARNINGS + kwargs.pop("copts", []),
        # Archives only: a shared library beside each would compile everything twice.
        linkstatic = True,
        **kwargs
    )

def callboard_cc_binary(name, **kwargs):
    """A program, with an allocator that stands it when one thread frees what another one got."""
    if not kwargs.get("linkshared"):
        kwargs["malloc"] = "//bazel/system:jemalloc"
    native.cc_binary(
        name = name,
        copts = _WARNINGS + kwargs.pop("copts", []),
        **kwargs
    )

def callboard_cc_test(name, deps, tier = "unit", size = "small", data = [], tags = [], **kwargs):
    """A GoogleTest program. `tier` is what `tests/run.sh` selects it by."""
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
    """A Google Benchmark program, and a test that runs it for a moment so that it never rots."""
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
