#!/bin/bash
# Runs one conformance program on Debian's own kernel (in QEMU, without any GPU) and on the virtual
# device configured without a GPU, and compares them call by call. Then gives the virtual device
# and the kernel's own queue and event code, compiled from Debian's source, the same calls.
#
#   SECTIONS="open wait"   only these sections (then unused explanations are no failure)
#
# Everything is made under build/kernel; nothing of the kernel is installed.
set -euo pipefail
cd "$(dirname "$0")/.."
KERNEL=6.12
DIR=build/kernel
PROBE=build/tests/kernel/kfdprobe
EXPLAINED=tests/kernel/explained.tsv
# The virtual device as that guest: no GPU, and like Debian's kernels built without SVM.
VIRTUAL="gpus=0,kernel=$KERNEL,rule.svm_api=0"
started=$EPOCHREALTIME

# shellcheck source=tests/kernel/witness/witness.sh
. tests/kernel/witness/witness.sh

fail() {
	echo "check-kernel: $*" >&2
	exit 1
}

since() { # seconds since $1
	awk -v a="$1" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }'
}

# The sections that change their identity want root on the host too, as they have it in the guest.
as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	else
		sudo -n "$@"
	fi
}

install_packages() {
	local p missing=()
	while read -r p; do
		[ "$(dpkg-query -W -f='${db:Status-Status}' "$p" 2>/dev/null)" = installed ] ||
			missing+=("$p")
	done < <(grep -vE '^(#|unpack )' scripts/packages-kernel.txt)
	[ ${#missing[@]} -gt 0 ] || return 0
	echo "check-kernel: installing ${missing[*]}" >&2
	as_root apt-get update -q >/dev/null
	DEBIAN_FRONTEND=noninteractive as_root apt-get install -y -q --no-install-recommends \
		"${missing[@]}" >/dev/null
}

# The package that an "unpack" line beginning with $1 means.
newest() {
	local pattern
	pattern=$(sed -n "s/^unpack \($1.*\)/^\1\$/p" scripts/packages-kernel.txt)
	apt-cache search --names-only "$pattern" | cut -d' ' -f1 | sort -V | tail -1
}

# Leaves vmlinuz and the modules amdgpu needs, in load order, in $DIR/$release.
fetch_kernel() {
	local package root=$DIR/unpack tables module
	package=$(newest linux-image)
	if [ -z "$package" ]; then
		as_root apt-get update -q >/dev/null
		package=$(newest linux-image)
	fi
	[ -n "$package" ] || fail "the package lists have no kernel as scripts/packages-kernel.txt says"
	release=${package#linux-image-}
	release=${release%-unsigned}
	[ ! -e "$DIR/$release/modules/order" ] || return 0
	rm -rf "$root" "${DIR:?}/$release"
	mkdir -p "$root" "$DIR/$release/modules"
	(cd "$root" && apt-get download -q "$package" >/dev/null 2>&1) || fail "cannot download $package"
	dpkg-deb -x "$root"/*.deb "$root"
	depmod -b "$root" "$release"
	cp "$root/boot/vmlinuz-$release" "$DIR/$release/vmlinuz"
	# The tables that patch the module's code at load time (tracing, branch hardening) cost most of
	# the boot under emulation; without them the module runs unpatched, its own code unchanged.
	tables=(.BTF .BTF_ids __mcount_loc .rela__mcount_loc .retpoline_sites .rela.retpoline_sites
		.return_sites .rela.return_sites)
	tables=("${tables[@]/#/--remove-section=}")
	# modules.dep names a module first and then what it needs, the deepest last.
	grep '^[^:]*/amdgpu\.ko[^:]*:' "$root/lib/modules/$release/modules.dep" | tr -d : | tr ' ' '\n' |
		tac | while read -r module; do
		local name=${module##*/}
		name=${name%.xz}
		case $module in
		*.xz) xz -dc "$root/lib/modules/$release/$module" ;;
		*) cat "$root/lib/modules/$release/$module" ;;
		esac >"$DIR/$release/modules/$name"
		objcopy "${tables[@]}" "$DIR/$release/modules/$name"
		echo "$name" >>"$DIR/$release/order"
	done
	mv "$DIR/$release/order" "$DIR/$release/modules/order"
	rm -rf "$root"
}

build_probe() {
	local flags="-std=gnu11 -D_GNU_SOURCE -O2 -g -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes
		-Wmissing-prototypes -Wvla -pthread -Itools/vgpu"
	mkdir -p "${PROBE%/*}"
	# shellcheck disable=SC2086
	clang-19 $flags tests/kernel/*.c -o $PROBE
	# shellcheck disable=SC2086
	clang-19 $flags -static tests/kernel/*.c -o $PROBE-static
}

boot() {
	local root=$DIR/initrd
	rm -rf $root
	mkdir -p $root/{bin,proc,sys,dev,tmp}
	cp /bin/busybox $root/bin/
	cp tests/kernel/init.sh $root/init
	cp $PROBE-static $root/kfdprobe
	cp -r "$DIR/$release/modules" $root/modules
	tr ' ' '\n' <<<"$SECTIONS" >$root/sections
	(cd $root && find . | cpio -o -H newc --quiet) >$DIR/initrd.cpio
	rm -f $DIR/results-kernel.tsv
	timeout 150 qemu-system-x86_64 -accel tcg,thread=multi -cpu qemu64 -smp 1 -m 1024 -display none \
		-monitor none -no-reboot -nic none -vga none -serial file:$DIR/console.log \
		-serial file:$DIR/results-kernel.tsv -kernel "$DIR/$release/vmlinuz" \
		-initrd $DIR/initrd.cpio \
		-append "console=ttyS0 panic=-1 oops=panic quiet loglevel=1 nokaslr" </dev/null \
		2>$DIR/qemu.log || fail "qemu: $(tail -1 $DIR/qemu.log)"
	tr -d '\r' <$DIR/console.log | grep -a '^guest:' >$DIR/guest.log || true
	grep -q "^guest: $release done" $DIR/guest.log ||
		fail "the guest did not reach its end; see $DIR/console.log"
	if grep -E ' ended with [^0]' $DIR/guest.log; then
		fail "a section ended badly in the guest"
	fi
}

virtual() { # program, settings (and other options), output, sections...
	local program=$1 settings=$2 out=$3 s rc
	shift 3
	: >"$out"
	for s in "$@"; do
		rc=0
		# shellcheck disable=SC2086
		as_root timeout 120 build/barewave vgpu --set $settings -- $program "$s" >>"$out" \
			2>>$DIR/virtual.log </dev/null || rc=$?
		[ $rc -eq 0 ] || echo "$s	probe	exit status	$rc	-	" >>"$out"
	done
}

# Prints the differences that no explanation covers, then the counts. An explanation is a regular
# expression over "SECTION CALL INPUT | kernel: RET ERRNO OUT | virtual: RET ERRNO OUT".
compare() { # kernel's, virtual's, list of differences, require every explanation to match
	awk -F'\t' -v list="$3" -v strict="$4" '
	function result() {
		return $4 " " $5 ($6 == "" ? "" : " " $6)
	}
	function key(		k) {
		k = $1 " " $2 " " $3
		seen[FILENAME, k]++
		return k SUBSEP seen[FILENAME, k]
	}
	FILENAME == ARGV[1] {
		if ($0 !~ /^#/ && NF >= 2)
			pattern[++patterns] = $1
		next
	}
	FILENAME == ARGV[2] {
		k = key()
		kernel[k] = result()
		order[++rows] = k
		next
	}
	{
		k = key()
		virt[k] = result()
		if (!(k in kernel))
			order[++rows] = k
	}
	END {
		printf "" >list
		for (i = 1; i <= rows; i++) {
			k = order[i]
			a = k in kernel ? kernel[k] : "nothing"
			b = k in virt ? virt[k] : "nothing"
			if (a == b) {
				equal++
				continue
			}
			split(k, part, SUBSEP)
			d = part[1] " | kernel: " a " | virtual: " b
			found = 0
			for (p = 1; p <= patterns && !found; p++)
				if (d ~ pattern[p])
					found = p
			if (found) {
				used[found]++
				explained++
				print "explained: " d >list
				continue
			}
			print "unexplained: " d >list
			if (unexplained++ < 40)
				print "  " d
		}
		for (p = 1; p <= patterns; p++)
			if (strict && !used[p]) {
				print "  explanation matches nothing: " pattern[p]
				idle++
			}
		printf "%d compared, %d equal, %d explained, %d unexplained\n", rows, equal, explained,
			unexplained
		exit unexplained || idle || !equal
	}' $EXPLAINED "$1" "$2"
}

for f in build/barewave build/libvgpu.so build/libvgpu_core.a build/vgpu-trap; do
	[ -e $f ] || fail "$f is missing; make check-kernel builds it"
done
mkdir -p $DIR
install_packages
fetch_kernel
build_probe
strict=1
if [ -n "${SECTIONS:-}" ]; then
	strict=0
else
	SECTIONS=$($PROBE)
fi
prepared=$(since "$started")
t=$EPOCHREALTIME
boot
booted=$(since "$t")
t=$EPOCHREALTIME
: >$DIR/virtual.log
# shellcheck disable=SC2086
virtual $PROBE "$VIRTUAL" $DIR/results-virtual.tsv $SECTIONS
ran=$(since "$t")
echo "kernel $release: $(wc -l <$DIR/results-kernel.tsv) observations in $booted s" \
	"(preparation $prepared s); virtual device in $ran s"
rc=0
compare $DIR/results-kernel.tsv $DIR/results-virtual.tsv $DIR/differences.txt $strict || rc=1
# The very program that the guest ran, which does not go through libc's loader.
# shellcheck disable=SC2086
virtual $PROBE-static "$VIRTUAL --trap" $DIR/results-trap.tsv $SECTIONS
echo "the guest's program behind seccomp:"
compare $DIR/results-kernel.tsv $DIR/results-trap.tsv $DIR/differences-trap.txt $strict || rc=1
# The comparison must be able to fail: with one kernel check switched off, it has to say so.
if [ $strict -eq 1 ]; then
	virtual $PROBE "$VIRTUAL,rule.fork_ebadf=0" $DIR/results-broken.tsv fork
	grep -a '^fork	' $DIR/results-kernel.tsv >$DIR/results-fork.tsv
	if compare $DIR/results-fork.tsv $DIR/results-broken.tsv $DIR/broken.txt 0 >/dev/null; then
		echo "control: a switched-off check was not noticed"
		rc=1
	else
		echo "control: a switched-off check was noticed"
	fi
	t=$EPOCHREALTIME
	witness_source
	build_witness
	check_witness || rc=1
	echo "the kernel's own code: $(since "$t") s; all: $(since "$started") s"
fi
exit $rc
