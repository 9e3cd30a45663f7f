#!/usr/bin/env bash
# A cluster under load whose parts are killed, stopped and cut off, and whose disk is slow, fails and
# fills up; then everything is healed, and every task has to end. Says what it does, and in the end
# what came of it; exits with 1 when a promise was broken, and then leaves the folder that it names.
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
# Where Bazel puts what the program needs.
cd bazel-bin/tests/e2e/chaos.runfiles/callboard
TEST_TMPDIR=$folder tests/e2e/chaos "$folder/cluster" "$seconds" "$seed"
rm -rf "$folder"
