#!/bin/bash
# Runs many simulations on all cores: 100,000 by default, from a random first seed.
#
#   tests/simulation/run_many.sh [simulations [first seed]]
set -euo pipefail
cd "$(dirname "$0")/../.."

simulations=${1:-100000}
first=${2:-$(od -An -N6 -tu8 /dev/urandom | tr -d ' ')}
cores=$(nproc)
each=$(((simulations + cores - 1) / cores))
bazel build //tests/simulation:simulate
echo "simulations $first to $((first + each * cores - 1))"

runs=()
for ((core = 0; core < cores; ++core)); do
  bazel-bin/tests/simulation/simulate --first=$((first + core * each)) --count="$each" &
  runs+=($!)
done
failed=0
for run in "${runs[@]}"; do wait "$run" || failed=1; done
exit "$failed"
