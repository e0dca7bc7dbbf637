#!/bin/sh
# Installs what a list of Debian packages names and is missing. Silent when nothing is.
# Usage: scripts/setup.sh [LIST]; default: scripts/packages.txt
set -eu
list=${1:-$(dirname "$0")/packages.txt}
missing=
for p in $(grep -v '^#' "$list"); do
	s=$(dpkg-query -W -f='${db:Status-Status}' "$p" 2>/dev/null || true)
	[ "$s" = installed ] || missing="$missing $p"
done
[ -n "$missing" ] || exit 0
sudo=
if [ "$(id -u)" -ne 0 ]; then
	command -v sudo >/dev/null || {
		echo "setup: not root and no sudo; as root: apt-get install$missing" >&2
		exit 1
	}
	sudo=sudo
fi
echo "setup: installing$missing" >&2
$sudo apt-get update -q >/dev/null
# shellcheck disable=SC2086
DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -q --no-install-recommends $missing >/dev/null
