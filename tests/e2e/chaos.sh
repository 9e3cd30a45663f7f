#!/usr/bin/env bash
# Runs a cluster under load whose parts are killed, stopped and cut off, and whose disk is slow,
# fails and fills up; then ends all faults, and every task must end. Prints each fault and the
# result; exits with 1 and keeps the folder if a guarantee was violated.
#
#   tests/e2e/chaos.sh [--seconds=60] [--seed=…]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

seconds=60
seed=$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')
for flag in "$@"; do
  case $flag in
    --seconds=*) seconds=${flag#*=} ;;
    --seed=*) seed=${flag#*=} ;;
    *) echo "tests/e2e/chaos.sh: no flag '$flag'; there are --seconds=N and --seed=N" >&2 && exit 2 ;;
  esac
done
bazel build //tests/e2e:chaos
folder=$(mktemp -d)
echo "works in $folder"
# The folder with the data of the program.
cd bazel-bin/tests/e2e/chaos.runfiles/callboard
TEST_TMPDIR=$folder tests/e2e/chaos "$folder/cluster" "$seconds" "$seed"
rm -rf "$folder"
