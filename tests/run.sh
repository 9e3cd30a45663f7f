#!/usr/bin/env bash
# Installs what is missing, builds everything, runs the tests, and ends with `N passed, N failed`.
#
#   tests/run.sh               every tier below
#   tests/run.sh unit style    some of them
#   tests/run.sh soak          faults that last for minutes
#   tests/run.sh sanitize-all  AddressSanitizer and ThreadSanitizer on all C++ tests, gRPC's too (slow)
#   tests/run.sh chaos [--seconds=60] [--seed=N]  a cluster in trouble, for as long as one likes
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Tiers that are tests of the one optimised tree, by tag.
readonly TREE_TIERS=(style unit simulation integration crash e2e benchmark)
# What runs besides: clang on every file, the sanitizers, and the README's other command.
readonly OTHER_TIERS=(clang asan tsan quickstart)

# What sanitizers look at: tests without gRPC, and not the programs that have bugs planted in them.
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

# Runs `bazel test` with the given arguments and adds its tests to the tally.
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
  # 3 says that tests failed, which the tally has. Anything else, as a package that does not load or
  # no test at all, would otherwise look like fewer tests.
  ((code == 0 || code == 3)) || fail "bazel test $* (exit code $code)"
}

# Runs bazel_test on the tests that a query finds.
bazel_test_query() {
  local query=$1 tests
  shift
  mapfile -t tests <<<"$(bazel query "$query")"
  bazel_test "$@" "${tests[@]}"
}

# Runs a command that is one test by itself.
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
      # A simulated world has one thread.
      bazel_test_query "$SANITIZED except //tests/simulation/..." --config=tsan
      ;;
    sanitize-all)
      # Crash tests and some of e2e preload a library, which sanitizers want to be the first to do.
      bazel_test_query 'kind("cc_test", //...) except attr(tags, "crash|e2e|soak", //...)' --config=asan
      bazel_test_query 'kind("cc_test", //...) except attr(tags, "crash|e2e|soak", //...)' --config=tsan
      ;;
    soak) bazel_test --test_tag_filters=soak //... ;;
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
