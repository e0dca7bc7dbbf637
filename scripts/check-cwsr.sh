#!/bin/bash
# Saves and restores random waves with the kernel's own gfx11 trap handler, run in the interpreter,
# and with the virtual device's own path; both must agree in every byte. The handler comes from
# Debian's linux-source package, is unpacked below build/cwsr and never installed or committed.
#
#   GROUPS_TO_RUN=1000 SEED=7 scripts/check-cwsr.sh
set -euo pipefail
cd "$(dirname "$0")/.."
SOURCE=linux-source-6.12
DIR=build/cwsr
HEADER=drivers/gpu/drm/amd/amdkfd/cwsr_trap_handler.h

archive=
for f in "/usr/src/$SOURCE.tar.xz" "build/kernel/$SOURCE.tar.xz"; do
	[ ! -e "$f" ] || { archive=$f && break; }
done
if [ ! -s "$DIR/gfx11.bin" ]; then
	if [ -z "$archive" ]; then
		echo "SKIP: check-cwsr: the package $SOURCE is not installed"
		exit 0
	fi
	mkdir -p "$DIR"
	# tar reads the archive to its end; one file is enough, so the pipe may break.
	xz -dc "$archive" 2>/dev/null |
		tar -xO --occurrence=1 "$SOURCE/$HEADER" >"$DIR/handler.h" || [ -s "$DIR/handler.h" ]
	# The words of one array, as bytes.
	sed -n '/cwsr_trap_gfx11_hex\[\]/,/};/p' "$DIR/handler.h" | grep -o '0x[0-9a-f]\{8\}' |
		sed 's/0x\(..\)\(..\)\(..\)\(..\)/\\x\4\\x\3\\x\2\\x\1/' | tr -d '\n' >"$DIR/escapes"
	printf '%b' "$(cat "$DIR/escapes")" >"$DIR/gfx11.part"
	mv "$DIR/gfx11.part" "$DIR/gfx11.bin"
fi
echo "check-cwsr: $(stat -c %s "$DIR/gfx11.bin") bytes of handler, $(md5sum <"$DIR/gfx11.bin" | cut -c1-12)"
build/tests/cwsr_witness "$DIR/gfx11.bin" "${GROUPS_TO_RUN:-300}" ${SEED:+"$SEED"}
