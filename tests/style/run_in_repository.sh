#!/usr/bin/env bash
# Runs the Python test module $1 in the repository, found through Bazel's link to WORKSPACE.
set -euo pipefail
cd "$(dirname "$(readlink -f WORKSPACE)")"
exec python3 -B -m unittest "$1"
