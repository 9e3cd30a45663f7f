#!/usr/bin/env bash
# Installs missing packages, builds everything, runs the tests and prints `N passed, N failed`.
#
#   tests/run.sh               all tiers listed below
#   tests/run.sh unit style    only these tiers
#   tests/run.sh soak          faults that last for minutes
#   tests/run.sh sanitize-all  AddressSanitizer and ThreadSanitizer on all C++ tests, with gRPC (slow)
#   tests/run.sh chaos [--seconds=60] [--seed=N]  random faults in a cluster, for the given time
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Tiers that are Bazel tests of the optimised build, selected by tag.
readonly TREE_TIERS=(style unit simulation integration crash e2e benchmark)
# Other tiers: clang on every file, the sanitizers, and the quick start of the README.
readonly OTHER_TIERS=(clang asan tsan quickstart)

# Tests that run under sanitizers: those without gRPC, except tests of programs with planted bugs.
readonly SANITIZED='kind("cc_test", //...) except rdeps(//..., //bazel/system:grpc)
  except attr(name, "^planted_bugs_test$", //...)'

passed=0
failed=0
failures=()

usage() {
  sed -n '2,/^set /{s/^# \{0,1\}//p}' tests/run.sh
  echo "tiers: ${TREE_TIERS[*]} ${OTHER_TIERS[*]}"
}

say() { printf '\n== %s\n' "$*"; }

# Runs `bazel test` with the given arguments and adds its tests to the totals.
bazel_test() {
  local events code=0 outcomes line
  events=$(mktemp)
  bazel test --keep_going --build_tests_only --build_event_json_file="$events" "$@" || code=$?
  outcomes=$(python3 tests/tally.py "$events")
  rm -f "$events"
  while read -r line; do
    case $line in
      "passed "*) passed=$((passed + 1)) ;;
      "failed "*) fail "${line#failed }" ;;
    esac
  done <<<"$outcomes"
  # Exit code 3 means that tests failed; these are already counted. Any other failure, such as a
  # package that does not load or no test at all, would otherwise only look like fewer tests.
  ((code == 0 || code == 3)) || fail "bazel test $* (exit code $code)"
}

# Runs bazel_test on the results of a query.
bazel_test_query() {
  local query=$1 tests
  shift
  mapfile -t tests <<<"$(bazel query "$query")"
  bazel_test "$@" "${tests[@]}"
}

# Runs a command that counts as one test.
check() {
  local name=$1
  shift
  if "$@"; then passed=$((passed + 1)); else fail "$name"; fi
}

fail() {
  failed=$((failed + 1))
  failures+=("$1")
}

run_tier() {
  case $1 in
    clang) check "clang" bazel build --config=clang --keep_going //... ;;
    asan)
      bazel_test_query "$SANITIZED" --config=asan
      ;;
    tsan)
      # A simulation has a single thread.
      bazel_test_query "$SANITIZED except //tests/simulation/..." --config=tsan
      ;;
    sanitize-all)
      # Crash tests and some e2e tests preload a library, but a sanitizer's library must come first.
      bazel_test_query 'kind("cc_test", //...) except attr(tags, "crash|e2e|soak", //...)' --config=asan
      bazel_test_query 'kind("cc_test", //...) except attr(tags, "crash|e2e|soak", //...)' --config=tsan
      ;;
    soak)
      # One after the other, because figures are compared; with all output.
      bazel_test --local_test_jobs=1 --test_output=all --test_tag_filters=soak //...
      ;;
    quickstart) check "deploy/quickstart.sh --once" deploy/quickstart.sh --once ;;
  esac
}

main() {
  local tree=() others=() tier
  if [[ ${1-} == chaos ]]; then
    deploy/setup.sh
    exec tests/e2e/chaos.sh "${@:2}"
  fi
  for tier in "${@:-all}"; do
    case " ${TREE_TIERS[*]} | ${OTHER_TIERS[*]} soak sanitize-all all -h --help " in
      *" $tier "*"|"*) tree+=("$tier") ;;
      *" $tier "*) others+=("$tier") ;;
      *) echo "tests/run.sh: no tier '$tier'" >&2 && usage >&2 && exit 2 ;;
    esac
  done
  case " ${others[*]-} " in
    *" -h "* | *" --help "*) usage && exit 0 ;;
    *" all "*) tree=("${TREE_TIERS[@]}") others=("${OTHER_TIERS[@]}") ;;
  esac

  local start=$SECONDS
  deploy/setup.sh
  if ((${#tree[@]})); then
    say "tests: ${tree[*]}"
    bazel_test --test_tag_filters="$(IFS=,; echo "${tree[*]}")" //...
  fi
  for tier in ${others[@]+"${others[@]}"}; do
    say "$tier"
    run_tier "$tier"
  done
  bazel/prune_cache.sh

  say "took $((SECONDS - start)) s"
  ((failed == 0)) || printf 'failed: %s\n' "${failures[@]}"
  printf '%d passed, %d failed\n' "$passed" "$failed"
  ((failed == 0 && passed > 0))
}

main "$@"
