#!/bin/sh
# Programs that wait enough are the same with delayed memory (docs/virtual-device.md, key delay), at
# many seeds: the bundled model's text, generated kernels at -O0 to -O3, public vectors where they
# are, and the tests of driver, kernels and engine.
# Usage: scripts/check-delay.sh [SEEDS [MOST]]     20 seeds, up to 64 instructions late
set -u
cd "$(dirname "$0")/.." || exit 2
seeds=${1:-20} most=${2:-64}
b=build
passed=0 failed=0
vectors=${BAREWAVE_SHARED_DATA-../shared/data}/isa-vectors/gfx11-half.json

result() { # name, seed, status
	if [ "$3" -eq 0 ]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAIL $1: delay=$most,seed=$2"
	fi
}

text() { # settings
	VGPU_SET=$1 "$b/barewave" run --device=virt -m data/demo/story-4m-q8_0.gguf \
		-p "Once upon a time, there was a little fox named" -n 64 --temp 0.7 --seed 7 |
		sed '/^bytes by owner/,$d'
}

want=$(text jit=0)
[ -n "$want" ] || exit 2
[ -e "$vectors" ] || echo "SKIP: check-delay: isa-vectors/gfx11-half.json is not here"
s=0
while [ "$s" -lt "$seeds" ]; do
	set="delay=$most,seed=$s,waits=report"
	[ "$(text "$set" 2>"$b/tests/delay.err")" = "$want" ] && ! grep -q 'missing wait' "$b/tests/delay.err"
	result "model, 64 tokens" "$s" $?
	VGPU_SET=$set scripts/corpus.sh $((s * 20)) 20 "0 1 2 3" 0 >"$b/tests/delay.err" 2>&1 &&
		! grep -q 'missing wait' "$b/tests/delay.err"
	result "20 generated kernels at four levels" "$s" $?
	if [ -e "$vectors" ]; then
		"$b/tests/isa_vectors" --delay "$most,$s" "$vectors" >/dev/null
		result "public vectors" "$s" $?
	fi
	for t in virt_kernels virt_wave virt_driver virt_memory virt_cwsr; do
		VGPU_SET=$set "$b/barewave" vgpu -- "$b/tests/$t" --color=never >"$b/tests/delay.err" 2>&1 &&
			! grep -q 'missing wait' "$b/tests/delay.err"
		result "$t" "$s" $?
	done
	s=$((s + 1))
done
VGPU_SET="delay=$most,seed=1" "$b/barewave" vgpu -- "$b/tests/virt_engine" --color=never >/dev/null 2>&1
result virt_engine 1 $?
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
