#!/usr/bin/env bash
# Runs the two commands of the README on an empty machine: creates a minimal Debian in a folder, clones
# the last commit into it, and runs both there.
#
#   tests/bare_machine.sh [FOLDER]   a folder that does not exist yet; a temporary one by default
#
# Needs root and the package mmdebstrap. Uses the configured package archive, name server and
# certificates of this machine.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [[ -z ${OWN_MOUNTS-} ]]; then
  command -v mmdebstrap >/dev/null || { echo "bare_machine: install mmdebstrap first" >&2 && exit 2; }
  # The mounts below end with the process.
  OWN_MOUNTS=1 exec unshare --mount "$0" "$@"
fi
root=${1:-$(mktemp -d)/root}
archive=$(apt-get indextargets --format '$(CODENAME) $(REPO_URI)' | awk '$1 == "bookworm" { print $2; exit }')
[[ -n $archive ]] || { echo "bare_machine: run apt-get update first" >&2 && exit 2; }

echo "bare_machine: making $root"
mmdebstrap --quiet --variant=apt bookworm "$root" "$archive"
mount --bind /proc "$root/proc"
mount --rbind /dev "$root/dev"
cp /etc/resolv.conf "$root/etc/resolv.conf"
mkdir -p "$root/etc/ssl/certs"
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/callboard-ca.crt"
git clone --quiet . "$root/srv/callboard"

inside() {
  chroot "$root" env -i HOME=/srv PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
    NODE_EXTRA_CA_CERTS=/etc/callboard-ca.crt npm_config_cafile=/etc/callboard-ca.crt \
    bash -c "cd /srv/callboard && $1"
}
for command in "tests/run.sh" "tests/run.sh" "deploy/quickstart.sh --once"; do
  echo "bare_machine: $command"
  started=$SECONDS
  inside "$command"
  echo "bare_machine: $command took $((SECONDS - started)) s"
done
