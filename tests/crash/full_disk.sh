#!/usr/bin/env bash
# Runs a director under load on a small tmpfs that is full for 30 seconds by default. Needs root, or
# a kernel that allows user namespaces.
#
#   tests/crash/full_disk.sh [seconds]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

bazel build //tests/crash:crash_runs
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd bazel-bin/tests/crash/crash_runs.runfiles/callboard
tests/crash/crash_runs full "$folder" "${1:-30}"
