#!/usr/bin/env bash
# Example command for an agent. It uses all inputs and outputs of a task; docs/RUNNER.md describes
# them.
#
#   callboard-agent --runner.argv=deploy/examples/run_task.sh,{model}
#
# It counts the words of the prompt. Its first argument is the model of the task.
set -euo pipefail

model=${1:-none}

# A cancelled task gets SIGTERM and has 10 s (lease.kill_grace) to clean up.
trap 'echo "stopped early" >&2; exit 1' TERM

# `callboard logs -f` shows the output live.
echo "task ${CALLBOARD_TASK_ID} of ${CALLBOARD_QUEUE_ID}" >&2

# The prompt is the standard input. CALLBOARD_PROMPT_FILE has the same content.
words=$(wc -w)
words=$((words))

# In a session the working folder is kept: the next task of the session finds these files.
if [ -n "${CALLBOARD_SESSION_ID:-}" ]; then
  echo "${CALLBOARD_TASK_ID} ${words}" >>history
fi

# Files to keep. They are kept only if this script exits with 0.
cp "${CALLBOARD_PROMPT_FILE}" "${CALLBOARD_ARTIFACTS}/prompt.txt"

# The result is this file, or the standard output if there is no file. The last 64 KiB are kept.
printf '{"words": %d, "model": "%s"}\n' "${words}" "${model}" >"${CALLBOARD_RESULT_FILE}"
