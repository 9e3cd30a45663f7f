#!/usr/bin/env bash
# Runs the Python test module $1 in the repository that Bazel's copy of WORKSPACE leads back to; BINARIES
# are the paths that follow.
set -euo pipefail
module=$1
shift
BINARIES=$(readlink -f "$@")
export BINARIES
cd "$(dirname "$(readlink -f WORKSPACE)")"
exec python3 -B -m unittest "$module"
