#!/usr/bin/env bash
# Runs clang-tidy, with clang's thread-safety analysis, on one file:
#   clang_check.sh STAMP CONFIG SOURCE FLAG…
# Creates STAMP if there are no findings; otherwise prints them and fails.
set -euo pipefail
stamp=$1 config=$2 source=$3
shift 3
if ! report=$(clang-tidy-14 --quiet --config-file="$config" "$source" -- \
  -std=c++20 -Wall -Wextra -Wthread-safety "$@" 2>&1); then
  grep -v '^[0-9]* warnings\? ' <<<"$report"
  exit 1
fi
touch "$stamp"
