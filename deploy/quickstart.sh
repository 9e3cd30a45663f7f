#!/usr/bin/env bash
# From a bare Debian 12 to a running Callboard: installs what is missing, builds, starts a cluster on
# this machine only, and shows that it answers.
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
  printf '$ %s\n' "$*"
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

say "asking the director"
show $callboard queue-status --director.address="$director"
show tests/tools/node_modules/.bin/buf curl --http2-prior-knowledge --protocol grpc -d '{}' \
  "http://$director/grpc.health.v1.Health/Check" | tee "$work/health"
grep -q '"SERVING"' "$work/health"

if ! $once; then
  say "Callboard is up. Press Ctrl-C to stop."
  wait "$cluster"
fi
