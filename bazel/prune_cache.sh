#!/usr/bin/env bash
# Keeps Bazel's disk cache below a limit by removing the least recently used files.
set -euo pipefail
cache=${1:-$HOME/.cache/callboard-bazel}
readonly MIB_MAX=${2:-10240}

[[ -d $cache ]] || exit 0
used=$(du -sm "$cache" | cut -f1)
((used > MIB_MAX)) || exit 0
echo "prune_cache: $cache has $used MiB; removing the oldest files"
find "$cache" -type f -printf '%A@ %s %p\n' | sort -n |
  awk -v excess="$(((used - MIB_MAX * 3 / 4) * 1048576))" '
    removed < excess { removed += $2; sub(/^[^ ]+ [^ ]+ /, ""); printf "%s%c", $0, 0 }' |
  xargs -0 -r rm -f
