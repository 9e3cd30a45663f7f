#!/bin/bash
# Prints for each planted bug, or for the named ones, the median and the largest number of
# simulations until it is found, from 20 searches. planted_bugs.bzl records the medians.
#
#   tests/simulation/measure_planted_bugs.sh [scheduler] [bug ...]
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=tests/simulation
if [[ ${1-} == scheduler ]]; then folder+=/scheduler && shift; fi
bazel build "//$folder:all" >&2
bugs=("$@")
if [ $# = 0 ]; then mapfile -t bugs < <(basename -s .txt "$folder"/planted/*.txt); fi
for bug in "${bugs[@]}"; do
  for search in $(seq 1 20); do
    first=$((search * 10000 + 1))
    seed=$({ "bazel-bin/$folder/$bug" --first=$first --count=3000 2>&1 || true; } |
      sed -n 's/^seed=\([0-9]*\):.*/\1/p' | head -1)
    echo $((${seed:-$((first + 2999))} - first + 1))
  done | sort -n | awk -v bug="$bug" '{ n[NR] = $1 } END { print bug, n[int((NR + 1) / 2)], n[NR] }'
done
