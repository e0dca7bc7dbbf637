#!/bin/sh
# Runs the built test programs and closes with "N passed, N failed, N skipped".
# Usage: tests/run.sh [unit|san|vgpu|virt|e2e|chaos|tsan ...]; default: all but tsan.
set -u
cd "$(dirname "$0")/.." || exit 2
sets=${*:-unit san vgpu virt e2e chaos}
log=build/tests/log
# Compiled kernels stay in the build, not in the home of whoever tests.
export VGPU_JIT_CACHE="${VGPU_JIT_CACHE-$PWD/build/jit-cache}"
mkdir -p "$log"
# The device's own descriptors lie above 1000, and some tests count on room for more there.
# shellcheck disable=SC3045 # where -S or -H is unknown, the limit stays
[ "$(ulimit -n)" = unlimited ] || [ "$(ulimit -n)" -ge 4096 ] || ulimit -S -n 4096 2>/dev/null ||
	ulimit -S -n "$(ulimit -H -n)" 2>/dev/null || :
passed=0 failed=0 skipped=0 bad=

run() { # name, command...
	name=$1
	shift
	out=$log/$name.txt
	start=$(date +%s)
	timeout -k 10 3600 "$@" >"$out" 2>&1
	rc=$?
	# Criterion's synthesis line: Tested: N | Passing: N | Failing: N | Crashing: N
	set -- $(sed 's/\x1b\[[0-9;]*m//g' "$out" | grep -a 'Synthesis:' | tail -1 | grep -o '[0-9]\+')
	if [ $# -lt 4 ]; then
		echo "FAIL $name: no summary, exit $rc"
		tail -20 "$out"
		failed=$((failed + 1)) bad="$bad $name"
		return
	fi
	s=$(grep -ac 'SKIP:' "$out")
	passed=$((passed + $2)) failed=$((failed + $3 + $4)) skipped=$((skipped + s))
	[ "$s" -gt 0 ] && grep -a 'SKIP:' "$out" | sort -u
	if [ $(($3 + $4)) -gt 0 ] || [ $rc -ne 0 ]; then
		[ $(($3 + $4)) -gt 0 ] || failed=$((failed + 1))
		bad="$bad $name"
		echo "FAIL $name: exit $rc"
		sed 's/\x1b\[[0-9;]*m//g' "$out" | grep -aE 'FAIL|CRASH|ERR|----|^(line [0-9]+|device|wave): ' |
			head -60
	fi
	echo "$name: $2 of $1 passed in $(($(date +%s) - start)) s"
}

late() { # name, what VGPU_CHAOS adds to the seed
	if [ ! -x "build/chaos/build/tests/$1" ]; then
		echo "SKIP: chaos_$1: not built; make CHAOS=1 tests-chaos"
		skipped=$((skipped + 1))
		return
	fi
	case $1 in
	virt_*) set -- "$1" "$2" build/barewave vgpu -- "build/tests/$1" ;;
	*) set -- "$1" "$2" "build/tests/$1" ;;
	esac
	name=$1 how=$2
	shift 2
	run "chaos_$name" env -C build/chaos "VGPU_CHAOS=seed=1,$how" "$@" --color=never
}

for set in $sets; do
	case $set in
	unit) for t in build/tests/unit_*; do [ -x "$t" ] && run "$(basename "$t")" "$t" --color=never; done ;;
	san) for t in build/san/tests/unit_*; do
		[ -x "$t" ] && [ "${t%.d}" = "$t" ] && run "san_$(basename "$t")" "$t" --color=never
	done ;;
	tsan) for t in build/tsan/tests/vgpu_*; do
		[ -x "$t" ] && [ "${t%.d}" = "$t" ] && run "tsan_$(basename "$t")" "$t" --color=never
	done ;;
	vgpu) for t in build/tests/vgpu_*; do [ -x "$t" ] && run "$(basename "$t")" "$t" --color=never; done ;;
	virt) for t in build/tests/virt_*; do
		[ -x "$t" ] && run "$(basename "$t")" build/barewave vgpu -- "$t" --color=never
	done ;;
	# With threads that are late; make check-chaos has more of it.
	chaos)
		late vgpu_cp every=20
		late vgpu_cp_errors late=irq_main
		late vgpu_cp_other late=cp_main
		late vgpu_cwsr late=worker_main
		late virt_driver late=irq_main
		late virt_wave every=20
		late virt_reset late=timer_main
		late virt_shared_death late=vgpud
		;;
	e2e) for t in build/tests/e2e_*; do [ -x "$t" ] && run "$(basename "$t")" "$t" --color=never; done ;;
	esac
done
[ -z "$bad" ] || echo "failing:$bad (logs in $log)"
[ $((passed + failed)) -gt 0 ] || failed=1
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
