#!/bin/sh
# clang-tidy (.clang-tidy) and cppcheck over the host code; any finding fails.
# Usage: scripts/lint.sh [FILE.c ...]; default: every C file that is tracked, kernels/ excepted
# (device code for another target, which its own -Wall -Wextra -Werror covers).
set -u
cd "$(dirname "$0")/.." || exit 2
for tool in clang-tidy-19 cppcheck; do
	command -v $tool >/dev/null || {
		echo "lint: $tool is missing: apt-get install clang-tidy-19 cppcheck" >&2
		exit 2
	}
done
[ $# -gt 0 ] || set -- $(git ls-files '*.c' | grep -v -e '^kernels/' -e '^tests/data/')
inc=$(pkg-config --cflags libdrm_amdgpu libelf libdw msgpack jansson libzstd)
rc=0
# shellcheck disable=SC2086 # $inc is a list of options
printf '%s\n' "$@" | xargs -P "$(nproc)" -n 4 sh -c '
	inc=$1
	shift
	clang-tidy-19 --quiet "$@" -- -std=gnu11 -D_GNU_SOURCE -I. -Itools/vgpu -march=x86-64-v3 \
		-Wall -Wextra -Wshadow $inc 2>/dev/null' lint "$inc" || rc=1
# Unused functions are the linker's business; the style checks that stay off contradict the
# kernel style (variable scope, const pointers) or repeat clang-tidy.
cppcheck --quiet --std=c11 --language=c -D_GNU_SOURCE -D__x86_64__ -I. -Itools/vgpu \
	--enable=warning,performance,portability --inline-suppr --error-exitcode=1 \
	--suppressions-list=scripts/cppcheck.txt -j "$(nproc)" "$@" || rc=1
[ $rc -eq 0 ] && echo "lint: clean"
exit $rc
