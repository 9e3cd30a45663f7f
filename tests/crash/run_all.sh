#!/usr/bin/env bash
# Kills directors at every call that persists or answers, five times each by default, cuts the power
# after every such call of some runs, and fills the disk for 30 seconds. Takes about half an hour;
# the data of failed runs is kept in the folder that it prints.
#
#   tests/crash/run_all.sh [times]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

times=${1:-5}
bazel build //tests/crash:crash_runs
folder=$(mktemp -d)
echo "works in $folder"
# The folder with the data of the program.
cd bazel-bin/tests/crash/crash_runs.runfiles/callboard
failed=0
for job in "kill $times" "cut 4" "full 30"; do
  read -r what number <<<"$job"
  started=$SECONDS
  tests/crash/crash_runs "$what" "$folder/$what" "$number" || failed=1
  echo "$what took $((SECONDS - started)) s"
done
((failed == 1)) || rm -rf "$folder"
exit "$failed"
