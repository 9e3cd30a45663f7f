#!/usr/bin/env bash
# run_benchmark_briefly.sh PROGRAM [FLAGS]: runs a benchmark as briefly as possible. It must start,
# measure and print a result; speed is not checked. The default flags are those of Google Benchmark.
set -euo pipefail
program=$1
shift
# Skip benchmarks with a million objects, because they need much memory.
(($# > 0)) || set -- --benchmark_min_time=0.001 --benchmark_filter=-/1000000
output=$("$program" "$@")
echo "$output"
grep -Eq '^BM_|[0-9] cycles/s' <<<"$output"
