#!/usr/bin/env bash
# Takes a bare Debian 12 to a running Callboard: installs missing packages, builds, starts a cluster
# for this machine only, and runs example tasks on it.
#
#   deploy/quickstart.sh          runs until Ctrl-C, on the ports of `callboard dev`
#   deploy/quickstart.sh --once   stops after the examples, on free ports
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

once=false
case ${1-} in
  "") ;;
  --once) once=true ;;
  -h | --help) sed -n '2,/^set /{s/^# \{0,1\}//p}' deploy/quickstart.sh; exit 0 ;;
  *) echo "deploy/quickstart.sh: unknown argument '$1'; try --help" >&2 && exit 2 ;;
esac

say() { printf '\n== %s\n' "$*"; }
fail() {
  [[ -n ${work-} && -s $work/log ]] && tail -n 20 "$work/log" >&2
  echo "deploy/quickstart.sh: $*" >&2
  exit 1
}
# Prints a command in a form that can be pasted, then runs it.
show() {
  local word line=
  for word in "$@"; do
    [[ $word == *[[:space:]]* ]] && word="'$word'"
    line+=" $word"
  done
  echo "\$$line"
  "$@"
}

deploy/setup.sh
say "building (a few minutes the first time)"
bazel build //services/...

callboard=bazel-bin/services/cli/callboard
work=$(mktemp -d)
cp deploy/examples/scheduler.yaml "$work"
flags=(--port_file="$work/ports.json" --jobs_file="$work/scheduler.yaml")
if $once; then
  flags+=(--data_dir="$work/data" --grpc.listen=127.0.0.1:0 --http.listen=127.0.0.1:0
    --scheduler.grpc.listen=127.0.0.1:0 --scheduler.http.listen=127.0.0.1:0)
fi
cluster=
stop() {
  if [[ -n $cluster ]]; then
    kill -TERM "$cluster" 2>/dev/null || true
    wait "$cluster" || true
  fi
  rm -rf "$work"
}
trap stop EXIT

say "starting a director, a scheduler and two agents"
mkfifo "$work/out"
# The cluster runs in its own session: Ctrl-C reaches only this script, which then stops the cluster.
# The log goes to a file, because it would disturb the live view below.
setsid $callboard dev "${flags[@]}" >"$work/out" 2>"$work/log" &
cluster=$!
exec 3<"$work/out"
up=false
while ! $up && IFS= read -r line <&3; do
  echo "$line"
  [[ $line == "Ctrl-C stops it." ]] && up=true
done
if ! $up; then
  wait "$cluster" || true
  cluster=
  fail "the cluster did not start; the last line of its log says why"
fi
# Prints a value of the JSON document on standard input.
field() { python3 -c "import json, sys; print(json.load(sys.stdin)$1)"; }
director=127.0.0.1:$(field '["grpc"]' <"$work/ports.json")
scheduler=127.0.0.1:$(field '["scheduler"]["grpc"]' <"$work/ports.json")

# Run the CLI as a user would type it: with the address only if that is not the default.
ask() {
  if [[ $director == 127.0.0.1:7070 ]]; then
    show $callboard "$@"
  else
    show $callboard "$@" --director.address="$director"
  fi
}
ask_scheduler() {
  if [[ $scheduler == 127.0.0.1:7072 ]]; then
    show $callboard "$@"
  else
    show $callboard "$@" --scheduler.address="$scheduler"
  fi
}

say "submitting a dozen tasks: one fails, one is retried, one is cancelled"
ids=()
submit() {
  ask queue "$@" | tee "$work/submitted"
  ids+=("$(sed -n 's/^\(queue-[^ ]*\).*/\1/p' "$work/submitted")")
}
for i in 1 2 3 4 5; do submit "echo task $i says hello"; done
for i in 0.5 1 2 3; do submit "sleep $i; echo slept for $i s"; done
completed=("${ids[@]}")
submit "echo this one fails; exit 7"
failed=${ids[-1]}
# The task id of a run ends with the number of its dispatch.
submit 'case $CALLBOARD_TASK_ID in *-1) echo not yet >&2; exit 3 ;; esac; echo the second time' --retry_on=exit:3
retried=${ids[-1]}
submit "sleep 600"
cancelled=${ids[-1]}
ask queue-cancel "$cancelled"

say "watching the tasks until all have ended"
echo "\$ $callboard watch ${ids[0]} ... ${ids[-1]}"
code=0
$callboard watch "${ids[@]}" --director.address="$director" &
watcher=$!
# A watch waits for an unreachable director to return. If the cluster has ended, it never does.
wait -n "$watcher" "$cluster" || code=$?
if ! kill -0 "$cluster" 2>/dev/null; then
  kill "$watcher" 2>/dev/null || true
  fail "the cluster has ended"
fi
((code == 130)) && exit 130
((code == 1)) || fail "watch exited with $code; expected 1, because two tasks did not complete"

expect() {
  local id=$1 line
  shift
  $callboard queue-status "$id" --director.address="$director" >"$work/status"
  for line in "$@"; do
    grep -qE "^$line\$" "$work/status" && continue
    cat "$work/status" >&2
    fail "expected '$line' in the status of this task"
  done
}
for id in "${completed[@]}"; do expect "$id" "state +completed" 'runs +[0-9]+ dispatch.*, 0 failed attempts of 3 allowed'; done
expect "$failed" "state +failed, EXEC_FAILED" "exit code +7"
expect "$retried" "state +completed" 'runs +[0-9]+ dispatches.*, 1 failed attempt of 3 allowed' 'result +"the second time\\n"'
expect "$cancelled" "state +cancelled"
ask queue-status "$retried"
ask logs "${completed[-1]}" | tee "$work/logs"
grep -qx "slept for 3 s" "$work/logs" || fail "expected the output of the task"
ask agents

say "running a cron job: hello, every five seconds"
# An earlier run of this script may have left it paused.
$callboard resume hello --scheduler.address="$scheduler" >/dev/null
ask_scheduler jobs
# The job started with the cluster, so its first task exists by now or will in a moment.
task=
for _ in {1..100}; do
  task=$($callboard jobs hello -o json --scheduler.address="$scheduler" | field '["last_queue_id"]')
  [[ -n $task ]] && break
  sleep 0.2
done
[[ -n $task ]] || fail "the job 'hello' has not submitted a task"
$callboard watch "$task" --director.address="$director" >"$work/watched" ||
  fail "the task of the job 'hello' did not complete"
ask logs "$task" | tee "$work/logs"
grep -q "^hello from cron" "$work/logs" || fail "expected the output of the job"
ask_scheduler preview --schedule='30 2 * * *' --time_zone=Europe/Berlin --from=2026-03-28 --until=2026-03-30

if ! $once; then
  say "Callboard is up; its log is $work/log. Press Ctrl-C to stop."
  wait "$cluster"
fi
