#!/bin/sh
# Runs the bundled model: on this machine's gfx1151 if it has one we may use, else on the virtual.
# Arguments are passed on to `barewave run`.
set -eu
cd "$(dirname "$0")/.."
device=virt
if [ -r /dev/kfd ] && [ -w /dev/kfd ] && build/barewave info --json >/dev/null 2>&1; then
	device=auto
fi
echo "demo: barewave run --device=$device -m data/demo/story-4m-q8_0.gguf" >&2
exec build/barewave run "--device=$device" -m data/demo/story-4m-q8_0.gguf \
	-p "Once upon a time, there was a little fox named" -n 64 --temp 0.7 --seed 7 "$@"
