#!/bin/bash
# Simulates many worlds, 100,000 unless told otherwise, on all cores, from a seed that nobody chose.
#
#   tests/simulation/run_many.sh [worlds [first seed]]
set -euo pipefail
cd "$(dirname "$0")/../.."

worlds=${1:-100000}
first=${2:-$(od -An -N6 -tu8 /dev/urandom | tr -d ' ')}
cores=$(nproc)
each=$(((worlds + cores - 1) / cores))
bazel build //tests/simulation:simulate
echo "worlds $first to $((first + each * cores - 1))"

runs=()
for ((core = 0; core < cores; ++core)); do
  bazel-bin/tests/simulation/simulate --first=$((first + core * each)) --count="$each" &
  runs+=($!)
done
failed=0
for run in "${runs[@]}"; do wait "$run" || failed=1; done
exit "$failed"
