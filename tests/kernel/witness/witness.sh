# shellcheck shell=bash
# Sourced by scripts/check-kernel.sh: the kernel's own source as a witness. DIR, KERNEL, VIRTUAL
# and fail() are its.

source_archive() {
	local name=linux-source-$KERNEL deb=$DIR/source-deb
	if [ -e "/usr/src/$name.tar.xz" ]; then
		echo "/usr/src/$name.tar.xz"
		return
	fi
	if [ ! -e "$DIR/$name.tar.xz" ]; then
		rm -rf "$deb"
		mkdir -p "$deb"
		(cd "$deb" && apt-get download -q "$(newest linux-source)" >/dev/null 2>&1) || return 1
		dpkg-deb --fsys-tarfile "$deb"/*.deb |
			tar -xO "./usr/src/$name.tar.xz" >"$DIR/source.part"
		mv "$DIR/source.part" "$DIR/$name.tar.xz"
		rm -rf "$deb"
	fi
	echo "$DIR/$name.tar.xz"
}

# The kernel's files, and for every header they ask for one that brings ours.
witness_source() {
	local src=$DIR/source amd=drivers/gpu/drm/amd archive h
	local uapi=include/uapi/linux/kfd_ioctl.h
	local files=("$amd"/amdkfd/kfd_{queue.c,events.c,events.h,flat_memory.c,smi_events.c}
		"$amd/amdgpu/amdgpu_vm.h" "$uapi")
	[ ! -e "$src/complete" ] || return 0
	archive=$(source_archive) || fail "cannot download linux-source-$KERNEL"
	rm -rf "$src"
	mkdir -p "$src"
	tar -x --occurrence=1 -I 'xz -T0' -f "$archive" --strip-components=1 -C "$src" \
		"${files[@]/#/linux-source-$KERNEL/}"
	cp "$src/$amd"/amdkfd/kfd_*.[ch] "$src"
	# The reserved ranges of the address space, and nothing else of this header.
	sed -n '/^#define AMDGPU_VA_RESERVED/,/[^\\]$/p' "$src/$amd/amdgpu/amdgpu_vm.h" \
		>"$src/include/amdgpu_vm.h"
	sed -n 's/^#include [<"]\(.*\)[>"]/\1/p' "$src"/*.[ch] "$src/$uapi" | while read -r h; do
		case $h in
		linux/ioctl.h | linux/types.h | uapi/* | kfd_events.h | kfd_priv.h | amdgpu_vm.h) ;;
		*)
			mkdir -p "$src/include/$(dirname "$h")"
			echo '#include "shim.h"' >"$src/include/$h"
			;;
		esac
	done
	: >"$src/complete"
}

witness_flags=(-std=gnu11 -D_GNU_SOURCE -O2 -g -fno-strict-aliasing)
witness_warn=(-Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla)

build_witness() {
	local here=tests/kernel/witness src=$DIR/source out=$DIR/witness f
	mkdir -p "$out"
	for f in kfd_queue kfd_events kfd_flat_memory kfd_smi_events; do
		clang-19 "${witness_flags[@]}" -w -include $here/shim.h -I"$src/include" -I$here \
			-c "$src/$f.c" -o "$out/$f.o"
	done
	for f in shim_idr kernel_side; do
		clang-19 "${witness_flags[@]}" "${witness_warn[@]}" -isystem "$src/include" -I$here \
			-c $here/$f.c -o "$out/$f.o"
	done
	# Only witness.h crosses: the kernel's function names are the virtual device's too.
	ld.lld-19 -r -o "$out/all.o" \
		"$out"/{kfd_queue,kfd_events,kfd_flat_memory,kfd_smi_events,shim_idr,kernel_side}.o
	objcopy --wildcard --keep-global-symbol='witness_*' "$out/all.o" "$out/kernel.o"
	clang-19 "${witness_flags[@]}" "${witness_warn[@]}" -pthread -march=x86-64-v3 -I. -Itools/vgpu \
		-I$here -I/usr/include/libdrm $here/compare*.c tests/kernel/random.c "$out/kernel.o" \
		build/libvgpu_core.a -lm -ldl -o "$out/compare"
}

# Every name that the kernel's interface header and the device's own one both define as a number
# must have the same value; a command's number carries the size of its structure. The device's names are
# those that the compiler sees, in whichever file they stand.
compare_definitions() {
	local src=$DIR/source out=$DIR/witness names n
	rm -f "$out"/definitions*
	names=$(grep -oE '\b(AMDKFD_IOC_|KFD_|EC_|DEBUG_RUNTIME_|NUM_OF_)[A-Z0-9_]+\b' \
		"$src/include/uapi/linux/kfd_ioctl.h" | sort -u |
		grep -xF -f <(clang-19 -E -dD -x c tools/vgpu/kfd/abi.h |
			grep -oE '\b[A-Z][A-Z0-9_]{3,}\b' | sort -u))
	{
		echo 'int main(void) {'
		for n in $names; do
			# Macros with arguments are no numbers.
			grep -qE "#define $n\(" "$src/include/uapi/linux/kfd_ioctl.h" || echo "SHOW($n);"
		done
		echo 'return 0; }'
	} >"$out/definitions.c"
	cat >"$out/definitions.h" <<-'END'
		#include <stdio.h>
		#define SHOW(name) printf("%s 0x%x\n", #name, (unsigned)(name))
	END
	clang-19 "${witness_flags[@]}" -w -I"$src/include" -Itests/kernel/witness \
		-include "$out/definitions.h" -include "$src/include/uapi/linux/kfd_ioctl.h" \
		"$out/definitions.c" -o "$out/definitions-kernel"
	clang-19 "${witness_flags[@]}" -w -include "$out/definitions.h" \
		-include tools/vgpu/kfd/abi.h "$out/definitions.c" -o "$out/definitions-ours"
	"$out/definitions-kernel" >"$out/definitions-kernel.txt"
	"$out/definitions-ours" >"$out/definitions-ours.txt"
	n=$(wc -l <"$out/definitions-kernel.txt")
	if diff "$out/definitions-kernel.txt" "$out/definitions-ours.txt"; then
		echo "definitions: $n numbers of the interface compared, 0 different"
	else
		echo "definitions: $n numbers of the interface compared, some different"
		return 1
	fi
	[ "$n" -ge 160 ] || {
		echo "definitions: $n are fewer than the 160 there were: some are not looked at"
		return 1
	}
}

# The rules whose absence the comparison must notice, each switched off by itself.
witness_controls=(queue_wptr_mapping queue_rptr_mapping queue_ring_mapping queue_eop_size
	queue_eop_mapping queue_ctl_stack_size queue_cwsr_size queue_cwsr_mapping unmap_queue_busy
	event_slot_ack event_slot_scan)

check_witness() {
	local rule missed=() settings=kernel=$KERNEL,rule.svm_api=0 rc=0
	compare_definitions || rc=1
	VGPU_SET=$settings "$DIR/witness/compare" || rc=1
	for rule in "${witness_controls[@]}"; do
		! VGPU_SET=$settings,rule.$rule=0 "$DIR/witness/compare" >"$DIR/witness/control.txt" 2>&1 ||
			missed+=("$rule")
	done
	echo "control: ${#witness_controls[@]} checks switched off one by one," \
		"$((${#witness_controls[@]} - ${#missed[@]})) noticed${missed[*]:+; not ${missed[*]}}"
	# A newer kernel's streams hold more and carry other messages.
	VGPU_SET=kernel=7.3,rule.svm_api=0 "$DIR/witness/compare" >"$DIR/witness/control.txt" 2>&1 || :
	if ! grep -qE '^SMI streams: .* [1-9][0-9]* different' "$DIR/witness/control.txt"; then
		echo "control: another kernel's SMI streams were not noticed"
		rc=1
	fi
	[ ${#missed[@]} -eq 0 ] || rc=1
	return $rc
}
