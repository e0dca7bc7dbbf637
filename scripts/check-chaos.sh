#!/bin/sh
# The tests of the virtual device with threads that are never on time (tests/chaos/chaos.h): every
# program at some seeds, then with one kind of thread late at a time.
# Usage: scripts/check-chaos.sh [SEEDS [FIRST]]     4 seeds from 1 on
#
# Left out: virt_steady counts the system calls of a step, and a nap is one; virt_footprint, virt_engine
# and the tests of single instructions have nothing to be late for; that the driver has no test hook is
# not so in this build. Where waves themselves are late, a model that others push out of its memory does
# not get on (virt_shared, e2e_shared), and where the timers are, a reset is over before it is looked at
# (virt_ioctl).
set -u
cd "$(dirname "$0")/../build/chaos" || exit 2
seeds=${1:-4} first=${2:-1}
log=build/tests/log
passed=0 failed=0
programs='vgpu_door vgpu_kfd vgpu_cp vgpu_cp_errors vgpu_cp_other vgpu_cp_debug vgpu_cwsr vgpu_mes vgpu_vm
	vgpu_counters vgpu_jit_registry vgpu_shared_talk virt_driver virt_cwsr virt_wave virt_memory
	virt_exec virt_load virt_reset virt_kernels virt_guard virt_ioctl virt_shared virt_shared_death
	virt_shared_files e2e_shared e2e_trap e2e_prof e2e_mem e2e_tools e2e_visible e2e_run'
export VGPU_JIT_CACHE="${VGPU_JIT_CACHE-$PWD/build/jit-cache}"
mkdir -p "$log"

program() { # name, VGPU_CHAOS
	set -- "$1" "$2" "build/tests/$1"
	case $1 in virt_*) set -- "$1" "$2" build/barewave vgpu -- "$3" ;; esac
	name=$1 chaos=$2
	shift 2
	[ "$name" = e2e_run ] && set -- "$@" --filter '!(run/driver_has_no_test_hook)'
	case $name:$chaos in
	virt_shared:*worker_main | e2e_shared:*worker_main | virt_ioctl:*timer_main) return ;;
	esac
	if VGPU_CHAOS=$chaos timeout -k 10 900 "$@" --color=never >"$log/chaos.txt" 2>&1; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAIL $name: VGPU_CHAOS=$chaos: exit $?"
		cp "$log/chaos.txt" "$log/chaos-$failed-$name.txt"
		grep -aE '^\[(FAIL|CRASH|----)\]|^line' "$log/chaos.txt" | head -20
	fi
}

s=$first
while [ "$s" -lt $((first + seeds)) ]; do
	for p in $programs; do
		program "$p" "seed=$s,every=20"
	done
	for late in irq_main cp_main worker_main timer_main news_main client vgpud; do
		for p in $programs; do
			program "$p" "seed=$s,every=40,late=$late"
		done
	done
	echo "seed $s: $passed passed, $failed failed"
	s=$((s + 1))
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
