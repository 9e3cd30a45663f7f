#!/usr/bin/env bash
# Starts the director on stores with many pending tasks, and prints the time until it serves, its
# memory then (PSS, its share of the pages it maps), and its disk usage.
#
#   tests/benchmarks/memory.sh [pending...]      default: 100000 1000000
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

(($# > 0)) || set -- 100000 1000000
bazel build //tests/benchmarks:fill_store //services/director:callboard-director
folder=$(mktemp -d -p .)
director=
trap '[[ -z $director ]] || kill -9 "$director" || true; rm -rf "$folder"' EXIT

pss_kib() { awk '$1 == "Pss:" {print $2}' "/proc/$1/smaps_rollup"; }

printf '%10s %12s %10s %14s %12s %14s\n' \
  pending ms_to_serve pss_mib bytes_per_task disk_mib bytes_per_task
idle_kib=
for pending in 0 "$@"; do
  data=$folder/$pending
  mkdir "$data"
  ((pending == 0)) || bazel-bin/tests/benchmarks/fill_store "$data" "$pending"
  mkfifo "$data.log"
  started=$(date +%s%N)
  bazel-bin/services/director/callboard-director --data_dir="$data" --queue.max_size=0 \
    --grpc.listen=127.0.0.1:0 --http.listen=127.0.0.1:0 2>"$data.log" &
  director=$!
  exec 3<"$data.log"
  until read -r line <&3 && [[ $line == *server=listening* ]]; do
    kill -0 "$director" || { echo "memory: the director ended: $line" >&2 && exit 1; }
  done
  served=$(date +%s%N)
  kib=$(pss_kib "$director")
  [[ -n $idle_kib ]] || idle_kib=$kib
  disk_kib=$(du -sk "$data" | cut -f 1)
  printf '%10d %12d %10d %14d %12d %14d\n' "$pending" $(((served - started) / 1000000)) \
    $((kib / 1024)) $((pending == 0 ? 0 : (kib - idle_kib) * 1024 / pending)) \
    $((disk_kib / 1024)) $((pending == 0 ? 0 : disk_kib * 1024 / pending))
  kill "$director"
  wait "$director"
  director=
  exec 3<&-
done
