#!/bin/sh
# clang-format, clang-tidy (.clang-tidy) and cppcheck over the host code; any finding fails.
# Usage: scripts/lint.sh [FILE.c ...]; default: everything that is tracked. Left out by clang-tidy
# and cppcheck: device code, which is for another target (its own -Wall -Wextra -Werror covers it),
# and what is compiled against the kernel's source.
set -u
cd "$(dirname "$0")/.." || exit 2
scripts/setup.sh scripts/packages.txt && scripts/setup.sh scripts/packages-lint.txt || exit 2
rc=0
if [ $# -gt 0 ]; then
	clang-format-19 --dry-run -Werror "$@" || rc=1
else
	git ls-files -z '*.c' '*.h' | xargs -0 clang-format-19 --dry-run -Werror || rc=1
	set -- $(git ls-files '*.c' |
		grep -v -e '^kernels/' -e '^tests/data/' -e '^tests/kernel/witness/' |
		xargs grep -L '__builtin_amdgcn_')
fi
# Who waits in a loop of yields is put seconds back by Linux 6.6 and later: vm/rawsys.h, raw_nap().
git ls-files '*.c' '*.h' | xargs grep -n 'sched_yield *(\|SYS_sched_yield' && rc=1
inc="$(pkg-config --cflags libdrm_amdgpu libelf libdw msgpack jansson libzstd)"
inc="$inc -isystem /usr/lib/llvm-19/include"
# shellcheck disable=SC2016 # $inc is a list of options, for the inner shell
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
