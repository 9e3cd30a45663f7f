#!/usr/bin/env bash
# From a bare Debian 12 to a running Callboard: installs what is missing, builds, starts it on this
# machine only, and shows that it answers.
#
#   deploy/quickstart.sh          runs until Ctrl-C, on ports 7070 (gRPC) and 8080 (HTTP)
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

grpc=127.0.0.1:7070 http=127.0.0.1:8080
if $once; then grpc=127.0.0.1:0 http=127.0.0.1:0; fi
work=$(mktemp -d)
director=
stop() {
  if [[ -n $director ]]; then
    kill -TERM "$director" 2>/dev/null || true
    wait "$director" || true
  fi
  rm -rf "$work"
}
trap stop EXIT

say "starting the director"
mkfifo "$work/log"
# In a session of its own: Ctrl-C is for this script, which then stops it in order.
setsid bazel-bin/services/director/callboard-director --grpc.listen="$grpc" --http.listen="$http" \
  2>"$work/log" &
director=$!
exec 3<"$work/log"
listening=
while [[ -z $listening ]] && read -r line <&3; do
  echo "$line"
  [[ $line == *" server=listening "* ]] && listening=$line
done
if [[ -z $listening ]]; then
  wait "$director" || true
  director=
  echo "deploy/quickstart.sh: the director did not start; its last line says why" >&2
  exit 1
fi
cat <&3 >&2 &
grpc=${listening##* grpc=} grpc=${grpc%% *}
http=${listening##* http=} http=${http%% *}

call() {
  show tests/tools/node_modules/.bin/buf curl --http2-prior-knowledge --protocol grpc \
    -d '{}' "http://$grpc/$1"
}
say "asking it over gRPC"
call grpc.health.v1.Health/Check | tee "$work/health"
grep -q '"SERVING"' "$work/health"
call callboard.v1.QueueService/GetQueueStatus

say "Callboard is up: gRPC on $grpc, status page at http://$http/status"
if ! $once; then
  echo "Press Ctrl-C to stop."
  wait "$director"
fi
