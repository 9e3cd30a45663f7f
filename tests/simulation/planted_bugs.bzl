"""Programs that simulate a director with a bug in it, to see that the simulation finds it."""

load("//bazel:callboard.bzl", "callboard_cc_binary", "callboard_cc_test")

# The file of libs/director that has the bug, and the median number of simulations until it is
# found, from 20 searches (tests/simulation/measure_planted_bugs.sh).
PLANTED_BUGS = {
    "act_before_commit": ("director.cc", 6),
    "backoff_without_a_timer": ("engine.cc", 2),
    "bound_off_by_one": ("engine_admission.cc", 3),
    "broken_session_means_lost": ("engine_agents.cc", 5),
    "busy_keeps_its_place": ("engine_dispatch.cc", 2),
    "cancel_overwrites_the_end": ("engine_control.cc", 2),
    "copy_with_a_newer_time": ("engine_agents.cc", 2),
    "epoch_not_begun": ("director.cc", 5),
    "event_number_of_its_record": ("engine.cc", 1),
    "forgotten_dispatches_not_counted": ("engine.cc", 7),
    "heartbeat_renews_what_it_does_not_list": ("engine_agents.cc", 111),
    "leases_in_memory_only": ("engine.cc", 20),
    "new_store_begins_at_one": ("engine.cc", 1),
    "not_started_goes_to_the_back": ("engine_dispatch.cc", 2),
    "not_started_is_not_counted": ("engine_dispatch.cc", 1),
    "not_started_never_cordons": ("engine_dispatch.cc", 17),
    "order_by_wall_clock": ("engine_admission.cc", 3),
    "queue_one_beside_those_that_run": ("engine.cc", 6),
    "queue_one_waits_for_ever": ("engine.cc", 7),
    "reply_before_commit": ("director.cc", 2),
    "request_id_forgotten_by_restart": ("director.cc", 1),
    "request_id_ignored": ("engine_admission.cc", 1),
    "result_not_fenced_off": ("engine_agents.cc", 15),
    "same_request_left_waiting": ("engine_admission.cc", 8),
    "second_agent_too_early": ("engine_dispatch.cc", 3),
    "session_ends_the_suspicion": ("engine_agents.cc", 9),
    "session_order_ignored": ("engine.cc", 3),
    "session_renews_a_start_it_does_not_list": ("engine_agents.cc", 2),
    "success_does_not_reset_failures": ("engine_dispatch.cc", 8),
    "unwritten_copy_means_unreachable": ("engine_agents.cc", 92),
    "waiter_not_admitted": ("engine.cc", 19),
    "waiters_last_come_first_served": ("waiter_queue.cc", 5),
    "waiting_not_shown": ("director.cc", 2),
}

def planted_bugs_test(name, srcs, deps):
    """A program per planted bug, and the test that runs them.

    The planted file is compiled into the program itself, where the linker prefers it to the healthy
    one in its library.
    """
    for bug, (source, _) in PLANTED_BUGS.items():
        native.genrule(
            name = bug + "_source",
            testonly = True,
            srcs = ["//libs/director:" + source, "planted/%s.txt" % bug],
            outs = ["planted/%s.cc" % bug],
            cmd = "python3 $(location plant.py) $(SRCS) $@",
            tools = ["plant.py"],
        )
        callboard_cc_binary(
            name = bug,
            testonly = True,
            srcs = ["planted/%s.cc" % bug, "simulate.cc"],
            deps = [":simulation"],
        )
    callboard_cc_test(
        name = name,
        size = "medium",
        srcs = srcs,
        args = ["%s=%d" % (bug, median) for bug, (_, median) in PLANTED_BUGS.items()],
        data = [":" + bug for bug in PLANTED_BUGS],
        tier = "simulation",
        deps = deps,
    )
