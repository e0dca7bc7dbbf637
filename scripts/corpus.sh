#!/bin/sh
# Generated kernels on the virtual device, compared with the host (tests/corpus).
# Usage: scripts/corpus.sh FIRST COUNT "LEVELS" "JIT MODES" [small]
#   scripts/corpus.sh 0 25 "0 1 2 3" "0"          seeds 0..24, four optimisation levels, interpreted
#   scripts/corpus.sh 0 8 "2" "0 2 3" small       small ones, interpreted, compiled, in lock step
# LEVELS "any": one of the four, by FIRST. Closes with "N passed, N failed"; before it, when modes
# compile, in how many of the runs the kernel was compiled; which stayed interpreted, with the reason.
#
# CORPUS_RESUME=1: what passed before is not run again unless the device was built anew.
# VGPU_SET: more settings of the device, for all modes.
set -u
cd "$(dirname "$0")/.." || exit 2
first=$1 count=$2 levels=$3 modes=$4 small=${5-}
b=${B-build}
d=$b/tests/corpus/$first-$count-$small
kept=$d/passed-$(echo "$levels/$modes" | tr ' /' '-_')
mkdir -p "$d"
[ "$levels" != any ] || levels=$((first / count % 4))
same="-std=gnu11 -ffp-contract=off -fno-strict-aliasing -w -Itests/corpus"
new=
"$b/tests/corpus_gen" "$first" "$count" $small >"$d/new.c" || exit 2
# The same source compiles to the same code: keep what is there.
if ! cmp -s "$d/new.c" "$d/k.c" || [ tests/corpus/corpus.h -nt "$d/k.c" ]; then
	rm -f "$d"/k.so "$d"/k*.co "$d"/passed-*
	mv "$d/new.c" "$d/k.c"
fi
if [ "${CORPUS_RESUME-0}" = 1 ] && [ -e "$kept" ]; then
	stale=
	for f in libvgpu.so vgpu-jitc tests/corpus_run; do
		[ "$kept" -nt "$b/$f" ] || stale=1
	done
	[ "$stale" ] || { cat "$kept" && exit; }
fi
rm -f "$kept"
[ -e "$d/k.so" ] || clang-19 $same -O1 -march=x86-64-v3 -Xclang -ffloat16-excess-precision=none \
	-shared -fPIC "$d/k.c" -o "$d/k.so" || exit 2
for o in $levels; do
	new="$new $d/k$o.co"
	[ -e "$d/k$o.co" ] && continue
	clang-19 $same -target amdgcn-amd-amdhsa -mcpu=gfx1151 -nogpulib -ffreestanding \
		-mcode-object-version=5 "-O$o" -c "$d/k.c" -o "$d/k$o.o" &&
		ld.lld-19 -shared "$d/k$o.o" -o "$d/k$o.co" || exit 2
done
p=0 f=0 compiled=0 refused=0
for m in $modes; do
	# A folder of objects of its own: one compiles at a time in each, and they are of no further use.
	# shellcheck disable=SC2086
	VGPU_SET="jit=$m${VGPU_SET:+,$VGPU_SET}" VGPU_JIT_LOG=1 VGPU_JIT_CACHE="$d/jit" \
		"$b/barewave" vgpu -- "$b/tests/corpus_run" "$d/k.so" $new >"$d/out" 2>&1
	sed -e '$d' -e '/^jit: .*: \(compiled\|cached\)/d' "$d/out" | sed "s/^/jit=$m: /"
	compiled=$((compiled + $(grep -c '^jit: .*: \(compiled\|cached\)' "$d/out")))
	refused=$((refused + $(grep -c '^jit: .*: refused' "$d/out")))
	set -- $(tail -1 "$d/out" | grep '^[0-9]* passed, [0-9]* failed$' | grep -o '[0-9]\+')
	if [ $# -ne 2 ]; then
		tail -1 "$d/out"
		f=$((f + 1))
		continue
	fi
	p=$((p + $1)) f=$((f + $2))
done
rm -rf "$d/jit"
{
	[ "$modes" = 0 ] || echo "$compiled compiled, $refused not"
	echo "$p passed, $f failed"
} >"$d/result"
cat "$d/result"
[ "$f" -eq 0 ] && mv "$d/result" "$kept"
