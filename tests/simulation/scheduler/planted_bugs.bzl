"""Programs that simulate schedulers with a bug in them, to see that the simulation finds it."""

load("//bazel:callboard.bzl", "callboard_cc_binary", "callboard_cc_test")

# The file of libs/scheduler that has the bug, and the median number of simulations until it is
# found, from 20 searches (tests/simulation/measure_planted_bugs.sh scheduler). The number of
# trigger_leaves_no_row is from one search; those of director_that_is_back_noticed_late and
# suppressed_occurrence_ends_a_wait are from three.
PLANTED_BUGS = {
    "act_before_commit": ("scheduler.cc", 1),
    "catch_up_ignores_pause": ("due.cc", 1),
    "clock_set_back_fires_again": ("engine.cc", 1),
    "cursor_before_the_row": ("scheduler.cc", 1),
    "deduplicated_is_a_failure": ("engine_attempts.cc", 1),
    "direct_although_unknown": ("engine_attempts.cc", 4),
    "director_that_is_back_noticed_late": ("engine_requests.cc", 24),
    "failures_pause_one_late": ("engine_operator_calls.cc", 4),
    "full_queue_asked_when_it_says": ("engine_attempts.cc", 4),
    "intent_not_written": ("engine_attempts.cc", 1),
    "jitter_changes_the_request_id": ("engine_requests.cc", 1),
    "pause_forgotten_by_a_restart": ("engine_attempts.cc", 11),
    "rejection_counts_too_early": ("engine_attempts.cc", 28),
    "repeated_trigger_has_a_second_row": ("engine_operator_calls.cc", 10),
    "restart_forgets_open_triggers": ("engine.cc", 10),
    "restart_forgets_what_was_sent": ("engine.cc", 2),
    "suppressed_occurrence_ends_a_wait": ("engine_attempts.cc", 42),
    "trigger_leaves_no_row": ("engine_operator_calls.cc", 7),
    "unknown_is_given_up": ("engine_attempts.cc", 1),
}

def planted_bugs_test(name, srcs, deps):
    """A program per planted bug, and the test that runs them, as //tests/simulation has them."""
    for bug, (source, _) in PLANTED_BUGS.items():
        native.genrule(
            name = bug + "_source",
            testonly = True,
            srcs = ["//libs/scheduler:" + source, "planted/%s.txt" % bug],
            outs = ["planted/%s.cc" % bug],
            cmd = "python3 $(location //tests/simulation:plant.py) $(SRCS) $@",
            tools = ["//tests/simulation:plant.py"],
        )
        callboard_cc_binary(
            name = bug,
            testonly = True,
            srcs = ["planted/%s.cc" % bug, "simulate.cc"],
            deps = [":scheduler"],
        )
    callboard_cc_test(
        name = name,
        size = "medium",
        srcs = srcs,
        args = ["scheduler/%s=%d" % (bug, median) for bug, (_, median) in PLANTED_BUGS.items()],
        data = [":" + bug for bug in PLANTED_BUGS],
        tier = "simulation",
        deps = deps,
    )
