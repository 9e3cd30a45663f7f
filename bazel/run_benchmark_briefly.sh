#!/usr/bin/env bash
# Runs the benchmark program $1 as shortly as it can: it has to start, measure and print something.
set -euo pipefail
output=$("$1" --benchmark_min_time=0.001)
echo "$output"
grep -q '^BM_' <<<"$output"
