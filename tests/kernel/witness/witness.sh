# Sourced by scripts/check-kernel.sh: builds the witness program from Debian's kernel source.
# Wants DIR and fail().

source_archive() {
	local deb=$DIR/source-deb
	if [ -e /usr/src/linux-source-$KERNEL.tar.xz ]; then
		echo /usr/src/linux-source-$KERNEL.tar.xz
		return
	fi
	if [ ! -e $DIR/linux-source-$KERNEL.tar.xz ]; then
		rm -rf $deb
		mkdir -p $deb
		(cd $deb && apt-get download -q linux-source-$KERNEL >/dev/null 2>&1) || return 1
		dpkg-deb --fsys-tarfile $deb/*.deb |
			tar -xO ./usr/src/linux-source-$KERNEL.tar.xz >$DIR/source.part
		mv $DIR/source.part $DIR/linux-source-$KERNEL.tar.xz
		rm -rf $deb
	fi
	echo $DIR/linux-source-$KERNEL.tar.xz
}

# The kernel's files, and for every header they ask for one that brings ours.
witness_source() {
	local src=$DIR/source amd=drivers/gpu/drm/amd archive h
	local files=($amd/amdkfd/kfd_queue.c $amd/amdkfd/kfd_events.c $amd/amdkfd/kfd_events.h
		$amd/amdkfd/kfd_flat_memory.c $amd/amdgpu/amdgpu_vm.h include/uapi/linux/kfd_ioctl.h)
	archive=$(source_archive) || fail "cannot download linux-source-$KERNEL"
	if [ ! -e $src/complete ]; then
		rm -rf $src
		mkdir -p $src/include/uapi/linux
		tar -x --occurrence=1 -I 'xz -T0' -f "$archive" --strip-components=1 -C $src \
			"${files[@]/#/linux-source-$KERNEL/}"
		cp $src/$amd/amdkfd/kfd_*.[ch] $src
		# The reserved ranges of the address space, and nothing else of this header.
		sed -n '/^#define AMDGPU_VA_RESERVED/,/[^\\]$/p' $src/$amd/amdgpu/amdgpu_vm.h \
			>$src/include/amdgpu_vm.h
		for h in $(sed -n 's/^#include [<"]\(.*\)[>"]/\1/p' $src/*.[ch] \
			$src/include/uapi/linux/kfd_ioctl.h); do
			case $h in
			linux/ioctl.h | linux/types.h | uapi/linux/kfd_ioctl.h | kfd_events.h | \
				kfd_priv.h | amdgpu_vm.h) continue ;;
			esac
			mkdir -p "$src/include/$(dirname "$h")"
			echo '#include "shim.h"' >"$src/include/$h"
		done
		: >$src/complete
	fi
}

build_witness() {
	local here=tests/kernel/witness src=$DIR/source out=$DIR/witness f
	local flags="-std=gnu11 -D_GNU_SOURCE -O2 -g -fno-strict-aliasing"
	local warn="-Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla"
	mkdir -p $out
	witness_source
	for f in kfd_queue kfd_events kfd_flat_memory; do
		# shellcheck disable=SC2086
		clang-19 $flags -w -include $here/shim.h -I$src/include -I$here -c $src/$f.c -o $out/$f.o
	done
	for f in shim_idr kernel_side; do
		# shellcheck disable=SC2086
		clang-19 $flags $warn -isystem $src/include -I$here -c $here/$f.c -o $out/$f.o
	done
	# Only witness.h crosses: the kernel's function names are the virtual device's too.
	ld.lld-19 -r -o $out/all.o $out/{kfd_queue,kfd_events,kfd_flat_memory,shim_idr,kernel_side}.o
	objcopy --wildcard --keep-global-symbol='witness_*' $out/all.o $out/kernel.o
	# shellcheck disable=SC2086
	clang-19 $flags $warn -pthread -march=x86-64-v3 -I. -Itools/vgpu -I$here -I/usr/include/libdrm \
		$here/compare*.c tests/kernel/random.c $out/kernel.o build/libvgpu_core.a -lm -ldl \
		-o $out/compare
}
