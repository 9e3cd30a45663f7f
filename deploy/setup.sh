#!/usr/bin/env bash
# Installs the missing packages that Callboard needs to build and test on Debian 12.
#
# There are three sources: Debian's packages, the backports suite of the archive that this machine
# already uses, and npm packages pinned by a lockfile. If nothing is missing, it changes nothing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly PACKAGES=(
  # Build.
  bazel-bootstrap bazel-platforms bazel-rules-java bazel-rules-proto bazel-skylib
  ca-certificates g++ git python3 unzip
  # Libraries.
  libabsl-dev libboost-dev libcli11-dev libgrpc++-dev libjemalloc-dev libprotobuf-dev librocksdb-dev
  libspdlog-dev libyaml-cpp-dev nlohmann-json3-dev prometheus-cpp-dev protobuf-compiler
  protobuf-compiler-grpc
  # Tests and guards.
  clang-14 clang-format-14 clang-tidy-14 libbenchmark-dev libgmock-dev libgtest-dev
  librapidcheck-dev
)
# Programs and data that only tests use.
readonly TOOLS=(fish openssl python3-yaml tzdata zsh)
readonly BACKPORTS=(libopentelemetry-proto-dev opentelemetry-cpp-dev)
# promtool checks rules and metrics. Its package, prometheus, would start a server when installed, so
# it is only unpacked.
readonly PROMTOOL=tests/tools/bin/promtool

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

as_root() {
  if [[ $(id -u) == 0 ]]; then
    "$@"
  else
    command -v sudo >/dev/null || die "run this as root, or install sudo"
    sudo "$@"
  fi
}

# Prints the given packages that are not installed.
missing() {
  comm -23 <(printf '%s\n' "$@" | sort) \
    <(dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' 2>/dev/null | sed -n 's/^ii  *//p' | sort)
}

install_packages() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" \
    -o Dpkg::Use-Pty=0 >/dev/null
}

# Adds the backports suite of the archive that the machine installs from, with Debian's signing key.
enable_backports() {
  local codename suite uri key
  codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
  suite="$codename-backports"
  if apt-get indextargets --format '$(CODENAME)' | grep -qx "$suite"; then return; fi
  uri=$(apt-get indextargets --format '$(CODENAME) $(REPO_URI)' |
    awk -v codename="$codename" '$1 == codename { print $2; exit }')
  [[ -n $uri ]] || die "no apt source serves '$codename'; add Debian's archive to the apt sources"
  key=/usr/share/keyrings/debian-archive-keyring.gpg
  say "adding the apt suite $suite"
  printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: main\nSigned-By: %s\n' "$uri" "$suite" "$key" |
    as_root tee /etc/apt/sources.list.d/callboard-backports.sources >/dev/null
  as_root apt-get update -qq
}

unpack_promtool() {
  local folder
  folder=$(mktemp -d)
  (cd "$folder" && apt-get download -qq -o APT::Sandbox::User=root prometheus &&
    dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x ./usr/bin/promtool)
  mkdir -p "$(dirname $PROMTOOL)"
  mv "$folder/usr/bin/promtool" $PROMTOOL
  rm -r "$folder"
}

main() {
  [[ -r /etc/os-release ]] && grep -q '^VERSION_CODENAME=bookworm' /etc/os-release ||
    die "this script supports Debian 12 (bookworm) only; install the packages it lists by hand"

  local wanted=("${PACKAGES[@]}" "${TOOLS[@]}")
  # Any npm works; Debian's is installed only if there is none.
  command -v npm >/dev/null || wanted+=(nodejs npm)
  local packages backports
  mapfile -t packages < <(missing "${wanted[@]}")
  mapfile -t backports < <(missing "${BACKPORTS[@]}")
  if ((${#packages[@]} + ${#backports[@]})) || [[ ! -x $PROMTOOL ]]; then
    say "reading the package lists"
    as_root apt-get update -qq
  fi
  if ((${#packages[@]})); then
    say "installing ${packages[*]}"
    install_packages "${packages[@]}"
  fi
  if ((${#backports[@]})); then
    enable_backports
    say "installing from backports ${backports[*]}"
    install_packages -t "$(. /etc/os-release && echo "$VERSION_CODENAME")-backports" "${backports[@]}"
  fi
  if [[ ! -x $PROMTOOL ]]; then
    say "unpacking promtool"
    unpack_promtool
  fi

  local tools=tests/tools
  if ! cmp -s $tools/package-lock.json $tools/node_modules/.installed-lock; then
    say "installing the npm packages of $tools"
    (cd $tools && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null)
    cp $tools/package-lock.json $tools/node_modules/.installed-lock
  fi

  # Bazel does not track headers under /usr as inputs. Therefore the versions of the installed
  # packages are part of every cache key.
  local versions
  versions=$(dpkg-query -W -f '${Package} ${Version}\n' "${PACKAGES[@]}" "${BACKPORTS[@]}" |
    sha256sum | cut -c1-16)
  echo "build --action_env=DEBIAN_PACKAGES=$versions" >.packages.bazelrc.new
  if cmp -s .packages.bazelrc.new .packages.bazelrc; then
    rm .packages.bazelrc.new
  else
    mv .packages.bazelrc.new .packages.bazelrc
  fi
  say "everything is installed"
}

main "$@"
