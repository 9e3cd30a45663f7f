#!/usr/bin/env bash
# A client that knows nothing of Callboard finds its services by reflection and gets SERVING.
set -euo pipefail
director=$(readlink -f "$1")
buf=$(dirname "$(readlink -f WORKSPACE)")/tests/tools/node_modules/.bin/buf
curl=("$buf" curl --http2-prior-knowledge --protocol grpc)

mkfifo "$TEST_TMPDIR/log"
"$director" --grpc.listen=127.0.0.1:0 --http.listen=127.0.0.1:0 2>"$TEST_TMPDIR/log" &
trap 'kill %1' EXIT
listening=$(grep --max-count=1 server=listening "$TEST_TMPDIR/log")
address=${listening##* grpc=} address=http://${address%% *}

expect() {
  local what=$1
  shift
  "$@" | tee "$TEST_TMPDIR/answer"
  grep -q "$what" "$TEST_TMPDIR/answer"
}
for service in callboard.v1.QueueService grpc.health.v1.Health; do
  expect "^$service\$" "${curl[@]}" --list-services "$address"
done
expect '"SERVING"' "${curl[@]}" -d '{}' "$address/grpc.health.v1.Health/Check"
expect '"maxSize": 50' "${curl[@]}" -d '{}' "$address/callboard.v1.QueueService/GetQueueStatus"
