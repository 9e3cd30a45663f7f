#!/usr/bin/env bash
# Example of a command for an agent, with what a task finds and leaves: docs/RUNNER.md describes it.
#
#   callboard-agent --runner.argv=deploy/examples/run_task.sh,{model}
#
# Counts the words of its prompt. The model of the task is its first argument.
set -euo pipefail

model=${1:-none}

# A cancelled task gets SIGTERM and has 10 s (lease.kill_grace) to put things in order.
trap 'echo "stopped early" >&2; exit 1' TERM

# Output is shown live by `callboard logs -f`.
echo "task ${CALLBOARD_TASK_ID} of ${CALLBOARD_QUEUE_ID}" >&2

# The prompt is the standard input; CALLBOARD_PROMPT_FILE has the same bytes.
words=$(wc -w)
words=$((words))

# In a session this folder is kept: the next task of the session finds what this one wrote.
if [ -n "${CALLBOARD_SESSION_ID:-}" ]; then
  echo "${CALLBOARD_TASK_ID} ${words}" >>history
fi

# Files to keep. They are put into place only when this exits with 0.
cp "${CALLBOARD_PROMPT_FILE}" "${CALLBOARD_ARTIFACTS}/prompt.txt"

# The result: this file, or the standard output when there is none. At most 64 KiB are kept.
printf '{"words": %d, "model": "%s"}\n' "${words}" "${model}" >"${CALLBOARD_RESULT_FILE}"
