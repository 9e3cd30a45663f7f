#!/usr/bin/env bash
# Away from changes of the clocks, a schedule has the same occurrences as in npm's croner and
# cron-parser.
set -euo pipefail
triples=$(readlink -f "$1")
compare=$(readlink -f "$2")
tools=$(dirname "$(readlink -f WORKSPACE)")/tests/tools

"$triples" 100000 1 >"$TEST_TMPDIR/triples"
node "$compare" "$tools" cron-parser "$TEST_TMPDIR/triples" &
node "$compare" "$tools" croner "$TEST_TMPDIR/triples"
wait %1
