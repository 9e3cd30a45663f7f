#!/usr/bin/env bash
# From a bare Debian 12 to a running Callboard: installs what is missing, builds, starts a cluster on
# this machine only, and shows tasks that run on it.
#
#   deploy/quickstart.sh          runs until Ctrl-C, on the ports of `callboard dev`
#   deploy/quickstart.sh --once   stops after showing it, on free ports
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
# Shows a command before it runs.
show() {
  local word line=
  for word in "$@"; do
    [[ $word == *[[:space:]]* ]] && word="\"$word\""
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
flags=(--port_file="$work/ports.json")
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
# In a session of its own: Ctrl-C is for this script, which then stops it in order.
setsid $callboard dev "${flags[@]}" >"$work/out" &
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
  echo "deploy/quickstart.sh: it did not start; its last line says why" >&2
  exit 1
fi
director=127.0.0.1:$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["grpc"])' "$work/ports.json")

# As people type it; the address only where it is not the usual one.
ask() {
  if [[ $director == 127.0.0.1:7070 ]]; then
    show $callboard "$@"
  else
    show $callboard "$@" --director.address="$director"
  fi
}

say "submitting tasks: short ones, longer ones, one that fails and one that is cancelled"
ids=()
submit() {
  ask queue "$1" | tee "$work/submitted"
  ids+=("$(sed -n 's/^\(queue-[^ ]*\).*/\1/p' "$work/submitted")")
}
for i in 1 2 3 4 5 6; do submit "echo task $i says hello"; done
for i in 0.3 0.6 0.9; do submit "sleep $i; echo slept for $i s"; done
submit "echo this one fails; exit 7"
submit "sleep 600"
ask queue-cancel "${ids[-1]}"

say "following them until all have ended"
# One line for each change.
ended=0
last=
while ((ended < ${#ids[@]})); do
  now=$($callboard queue-status --director.address="$director" | grep -E '^(pending|running|ended)' | xargs)
  [[ $now == "$last" ]] || echo "$now"
  last=$now
  ended=0
  for id in "${ids[@]}"; do
    if $callboard queue-status "$id" --director.address="$director" |
      grep -qE '^state +(completed|failed|cancelled)'; then
      ended=$((ended + 1))
    fi
  done
done
ask queue-status "${ids[0]}"
ask queue-status "${ids[-2]}"
ask agents
$callboard queue-status "${ids[0]}" --director.address="$director" | grep -q '^state  *completed'

if ! $once; then
  say "Callboard is up. Press Ctrl-C to stop."
  wait "$cluster"
fi
