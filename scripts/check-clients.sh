#!/bin/bash
# Runs other people's KFD clients on the virtual device: Debian's rocminfo and libhsakmt, and
# programs that want nothing of it. Figures in docs/fidelity.md.
#
#   KFDTEST=binary             AMD's kfdtest, one process per test, against tests/clients/kfdtest.tsv
#   HSA=libhsa-runtime64.so    a ROCr that knows gfx1151: rocminfo and an HSA program over it
#   ONLY="debian same quiet kfdtest hsa"   some of the parts
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
DIR=build/clients
VECADD=tests/data/bench-kernels/vecadd.co
# A kernel from before 2026 without MES: what Debian's library makes its queues for.
OLDER=rule.queue_cwsr_vgprs=0,rule.queue_wptr_pinned=0
# The same for clients of 2024, whose write pointers MES can pin.
OLD=rule.queue_cwsr_vgprs=0
# kfdtest takes the node's sizes by its word and fills them: they must fit into this machine.
KFDTEST_SET=$OLD,ram=8G,gtt=2G
KFDTEST_SECONDS=${KFDTEST_SECONDS:-400}
ONLY=${ONLY:-debian same quiet kfdtest hsa}
bad=0 passed=0
# The caller's settings of the device are not ours.
unset VGPU_SET VGPU_CONFIG VGPU_TRACE VGPU_LOG

say() {
	echo "check-clients: $*"
}

pass() {
	passed=$((passed + 1))
	echo "ok    $*"
}

fail() {
	bad=$((bad + 1))
	echo "FAIL  $*"
}

vgpu() { # settings, command...
	local set=$1
	shift
	timeout -k 10 300 build/barewave vgpu ${set:+--set "$set"} -- "$@" </dev/null
}

build() { # client, libraries
	local flags="-std=gnu11 -D_GNU_SOURCE -O1 -g -I. -Wall -Wextra -Werror -Wshadow
		-Wstrict-prototypes -Wmissing-prototypes -Wvla"
	# shellcheck disable=SC2086
	clang-19 $flags "tests/clients/$1.c" -o "$DIR/$1" $2 || exit 1
}

# Runs a client of ours; its last line on stdout counts checks.
client() { # what, settings, command...
	local what=$1 set=$2 out
	shift 2
	if out=$(vgpu "$set" "$@" 2>"$DIR/client.err"); then
		pass "$what: ${out##*$'\n'}"
	else
		fail "$what: ${out##*$'\n'}"
		head -20 "$DIR/client.err"
	fi
}

# ---- Debian's ----

debian() {
	local out rc=0
	build hsakmt_client -lhsakmt
	out=$(vgpu "" rocminfo 2>&1) || rc=$?
	echo "$out" >$DIR/rocminfo-debian.txt
	# ROCr 5.2.3 knows no gfx1151 and says so; everything else runs to the end.
	if [ $rc -eq 0 ] && grep -q 'ROCk module is loaded' <<<"$out" && grep -q 'Done' <<<"$out" &&
		grep -q 'The GPU node has an unrecognized id' <<<"$out"; then
		pass "rocminfo 5.2.3: to completion, its runtime drops the GPU it does not know"
	else
		fail "rocminfo 5.2.3: exit $rc; see $DIR/rocminfo-debian.txt"
	fi
	client "libhsakmt 5.2.3, a kernel of 2026 (queues refused)" "" $DIR/hsakmt_client refused
	client "libhsakmt 5.2.3, an older kernel (everything)" $OLDER $DIR/hsakmt_client full $VECADD
	if vgpu $OLDER,isa=0 $DIR/hsakmt_client full $VECADD >/dev/null 2>&1; then
		fail "libhsakmt 5.2.3 without an instruction set: nobody noticed"
	else
		pass "libhsakmt 5.2.3 without an instruction set: fails, as it must"
	fi
}

# ---- the same arguments ----

# "name size" of a queue's buffers from the trace's line of CREATE_QUEUE type 2.
sizes() {
	sed -n 's/.*CREATE_QUEUE([^)]*) type=2 .* size=\([^ ]*\) rptr=[^+]*\(+[^ ]*\) wptr=[^+]*\(+[^ ]*\) eop=[^\/]*\/\([^ ]*\) cwsr=[^\/]*\/\([^ ]*\) ctl=\([^ ]*\) pct=\([^ ]*\) prio=\([^ ]*\) .*/ring \1\nrptr \2\nwptr \3\neop \4\ncwsr \5\nctl \6\npct \7\nprio \8/p' "$1" |
		head -8
	# The area behind it, as it was allocated or registered: header, stack, waves, debugger.
	sed -n 's/.*CREATE_QUEUE([^)]*) type=2 .* cwsr=\([^\/]*\)\/.*/\1/p' "$1" | head -1 | while read -r area; do
		sed -n "s/.*\(ALLOC_MEMORY_OF_GPU([^)]*) va\|SVM([^)]*) start\)=$area size=\([^ ]*\) .*/area \2/p" "$1" | head -1
	done
}

same() {
	local cus n=0 diff
	build hsakmt_client -lhsakmt
	for cus in 40 36 32 20 16 8 2; do
		rm -f $DIR/theirs.trace $DIR/ours.trace
		VGPU_TRACE=$DIR/theirs.trace vgpu $OLDER,cus=$cus $DIR/hsakmt_client queues >/dev/null 2>&1
		VGPU_TRACE=$DIR/ours.trace vgpu $OLDER,cus=$cus build/barewave launch $VECADD vecadd --grid 1 \
			--block 32 --arg zero:4096 --arg zero:4096 --arg out:4096 --arg u32:16 >/dev/null 2>&1
		sizes $DIR/theirs.trace >$DIR/theirs.txt
		sizes $DIR/ours.trace >$DIR/ours.txt
		if [ "$(wc -l <$DIR/ours.txt)" -eq 9 ] && cmp -s $DIR/theirs.txt $DIR/ours.txt; then
			n=$((n + 1))
		else
			fail "same arguments, $cus CUs:"
			diff $DIR/theirs.txt $DIR/ours.txt
		fi
	done
	[ $n -eq 7 ] && pass "same arguments: 9 sizes and offsets of an AQL queue, $n topologies, byte for byte"
	# On a kernel of 2026 ours follow it: 0x20000 bytes of registers more for each CU, nothing else.
	rm -f $DIR/theirs.trace $DIR/ours.trace
	VGPU_TRACE=$DIR/theirs.trace vgpu "" $DIR/hsakmt_client queues >/dev/null 2>&1
	VGPU_TRACE=$DIR/ours.trace vgpu "" build/barewave launch $VECADD vecadd --grid 1 \
		--block 32 --arg zero:4096 --arg zero:4096 --arg out:4096 --arg u32:16 >/dev/null 2>&1
	sizes $DIR/theirs.trace >$DIR/theirs.txt
	sizes $DIR/ours.trace >$DIR/ours.txt
	diff=$(diff $DIR/theirs.txt $DIR/ours.txt | grep '^[<>]' | tr '\n' ' ')
	if [ "$diff" = "< cwsr 0xd4c000 > cwsr 0x124c000 < area 0xd56000 > area 0x1256000 " ]; then
		pass "same arguments on a kernel of 2026: save area 40 * 0x20000 larger, nothing else"
	else
		fail "same arguments on a kernel of 2026: $diff"
	fi
}

# ---- programs without a GPU ----

quiet() {
	local out
	if out=$(tests/clients/interference.sh build/barewave $DIR/quiet 2>&1); then
		pass "no interference"
	else
		fail "no interference"
	fi
	awk '{ print "      " $0 }' <<<"$out"
}

# ---- kfdtest ----

# Compares NAME RESULT SECONDS lines with a column of the list; prints what differs.
compare() { # results, column of the expectation
	awk -F'\t' -v col="$2" '
	FILENAME == ARGV[1] {
		if ($0 !~ /^#/ && NF)
			want[$1] = $col
		next
	}
	{
		n[$2]++
		if (want[$1] != $2) {
			print "  " $1 ": " $2 ", wanted " want[$1]
			bad++
		}
		delete want[$1]
	}
	END {
		for (t in want) {
			print "  " t ": did not run"
			bad++
		}
		for (r in n)
			s = s ", " n[r] " " r
		print substr(s, 3)
		exit bad > 0
	}' tests/clients/kfdtest.tsv "$1"
}

kfdtest() {
	local out
	if [ -z "${KFDTEST:-}" ]; then
		echo "SKIP  kfdtest: no KFDTEST=binary"
		return
	fi
	HSA_DEBUG=1 tests/clients/each.sh $DIR/kfdtest "$KFDTEST_SECONDS" tests/clients/kfdtest.tsv -- \
		build/barewave vgpu --set $KFDTEST_SET -- "$KFDTEST" --node=1 --gtest_filter=@ \
		>$DIR/kfdtest.tsv
	if out=$(compare $DIR/kfdtest.tsv 2); then
		pass "kfdtest: as expected: ${out##*$'\n'}"
	else
		fail "kfdtest: $out"
	fi
	# Without an instruction set exactly those may pass that cannot notice. Timeouts are short: a
	# dispatch that does not come never comes.
	HSA_DEBUG=1 tests/clients/each.sh $DIR/kfdtest-noisa 15 \
		<(awk -F'\t' '!/^#/ && $3 != "-"' tests/clients/kfdtest.tsv) -- \
		build/barewave vgpu --set $KFDTEST_SET,isa=0 -- "$KFDTEST" --node=1 --gtest_filter=@ \
		>$DIR/kfdtest-noisa.tsv
	if out=$(awk -F'\t' '$2 == "pass" { n++; print "  passes without an instruction set: " $1 }
		END { exit n > 0 || !NR }' $DIR/kfdtest-noisa.tsv); then
		pass "kfdtest without an instruction set: $(wc -l <$DIR/kfdtest-noisa.tsv) tests fail, as they must"
	else
		fail "kfdtest without an instruction set: $out"
	fi
}

# ---- ROCr ----

hsa() {
	local lib out rc=0
	if [ -z "${HSA:-}" ]; then
		echo "SKIP  HSA: no HSA=libhsa-runtime64.so"
		return
	fi
	lib=$(realpath "$HSA")
	mkdir -p $DIR/hsa
	ln -sf "$lib" $DIR/hsa/libhsa-runtime64.so.1
	build hsa_client -ldl
	clang-19 -target amdgcn-amd-amdhsa -mcpu=gfx1151 -nogpulib -O2 -std=gnu11 -ffreestanding \
		-mcode-object-version=5 -c tests/clients/scratch.c -o $DIR/scratch.o &&
		ld.lld-19 -shared $DIR/scratch.o -o $DIR/scratch.co || exit 1
	out=$(LD_LIBRARY_PATH=$DIR/hsa vgpu $OLD rocminfo 2>&1) || rc=$?
	echo "$out" >$DIR/rocminfo-hsa.txt
	# The GPU's part of it, value by value.
	if [ $rc -eq 0 ] && out=$(awk -F'\t' '
		FILENAME == ARGV[1] { if (!/^#/) want[++n] = $1; next }
		/^Agent 2/ { gpu = 1 }
		gpu { gsub(/ +/, " "); sub(/^ /, ""); sub(/ $/, ""); line[$0]++ }
		END {
			for (i = 1; i <= n; i++)
				if (!line[want[i]]--) { print "  missing: " want[i]; bad++ }
			print n " values"
			exit bad > 0
		}' tests/clients/rocminfo.txt $DIR/rocminfo-hsa.txt); then
		pass "rocminfo over $(basename "$lib"): $out of the GPU right"
	else
		fail "rocminfo over $(basename "$lib"): exit $rc $out"
	fi
	client "HSA program: queue, code objects, SDMA, scratch" $OLD $DIR/hsa_client "$lib" $VECADD $DIR/scratch.co
	client "HSA program: a memory fault" $OLD $DIR/hsa_client "$lib" $VECADD
	if vgpu $OLD,isa=0 $DIR/hsa_client "$lib" $VECADD $DIR/scratch.co >/dev/null 2>&1; then
		fail "HSA program without an instruction set: nobody noticed"
	else
		pass "HSA program without an instruction set: fails, as it must"
	fi
}

if [ ! -x build/barewave ] || [ ! -e build/libvgpu.so ]; then
	say "build/barewave and build/libvgpu.so are missing; make check-clients builds them" >&2
	exit 2
fi
mkdir -p $DIR
scripts/setup.sh scripts/packages-clients.txt || exit 2
for part in $ONLY; do
	case $part in
	debian | same | quiet | kfdtest | hsa) $part ;;
	*)
		say "ONLY: no part is called $part" >&2
		exit 2
		;;
	esac
done
echo "$passed as expected, $bad not"
[ $bad -eq 0 ]
