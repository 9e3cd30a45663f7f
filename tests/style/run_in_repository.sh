#!/usr/bin/env bash
# Runs the Python test module $1 in the repository that Bazel's copy of WORKSPACE leads back to.
set -euo pipefail
cd "$(dirname "$(readlink -f WORKSPACE)")"
exec python3 -B -m unittest "$1"
