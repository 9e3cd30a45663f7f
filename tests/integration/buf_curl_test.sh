#!/usr/bin/env bash
# A client without the protos of Callboard finds its services by reflection, and runs the examples
# of the README.
set -euo pipefail
callboard=$(readlink -f "$1")
buf=$(dirname "$(readlink -f WORKSPACE)")/tests/tools/node_modules/.bin/buf
curl=("$buf" curl --http2-prior-knowledge --protocol grpc)

mkfifo "$TEST_TMPDIR/log"
"$callboard" dev --data_dir="$TEST_TMPDIR/data" --grpc.listen=127.0.0.1:0 --http.listen=127.0.0.1:0 \
  --scheduler.grpc.listen=127.0.0.1:0 --scheduler.http.listen=127.0.0.1:0 2>"$TEST_TMPDIR/log" &
trap 'kill %1' EXIT
exec 3<"$TEST_TMPDIR/log"
listening=$(grep --max-count=1 "server=listening.*service=callboard-director" <&3)
address=${listening##* grpc=} address=http://${address%% *}
# Keeps reading the log so that the program is not blocked.
cat <&3 >/dev/null &

expect() {
  local what=$1
  shift
  "$@" | tee "$TEST_TMPDIR/answer"
  grep -q "$what" "$TEST_TMPDIR/answer"
}
call() {
  local what=$1 method=$2
  expect "$what" "${curl[@]}" -d "$3" "$address/callboard.v1.QueueService/$method"
}
for service in callboard.v1.QueueService grpc.health.v1.Health; do
  expect "^$service\$" "${curl[@]}" --list-services "$address"
done
expect '"SERVING"' "${curl[@]}" -d '{}' "$address/grpc.health.v1.Health/Check"
call '"maxSize": 50' GetQueueStatus '{}'

# Submits a task and prints its id.
submit() {
  call '"STATE_PENDING"' SubmitTask "$1" >&2
  sed -n '/"queueId"/{s/.*: "\(.*\)".*/\1/p;q}' "$TEST_TMPDIR/answer"
}
task=$(submit '{"prompt": "echo hello from $CALLBOARD_TASK_ID"}')
call '"STATE_COMPLETED"' WatchTasks "{\"queue_ids\": [\"$task\"]}"
call '"STATE_COMPLETED"' GetTask "{\"queue_id\": \"$task\", \"view\": \"TASK_VIEW_FULL\"}"
[[ $(sed -n 's/.*"result": "\(.*\)".*/\1/p' "$TEST_TMPDIR/answer" | base64 -d) == "hello from task-${task#queue-}-1" ]]
call '"STREAM_STDOUT"' TailTaskLogs "{\"queue_id\": \"$task\"}"
[[ $(sed -n 's/.*"data": "\(.*\)".*/\1/p' "$TEST_TMPDIR/answer" | base64 -d) == "hello from task-${task#queue-}-1" ]]

late=$(submit '{"prompt": "sleep 600"}')
call '"OUTCOME_\(REQUESTED\|CANCELLED\)"' CancelTask "{\"queue_id\": \"$late\", \"why\": \"no longer needed\"}"
call '"STATE_CANCELLED"' WatchTasks "{\"queue_ids\": [\"$late\"]}"
