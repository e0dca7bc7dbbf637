#!/bin/bash
# Runs workloads.sh and a part of Python's own test-suite without the virtual device, with it
# preloaded, and behind seccomp, and wants the same output, exit statuses and files. Then what starting
# a program costs.
#
#   interference.sh BAREWAVE DIR
set -uo pipefail
barewave=$(realpath "$1")
here=$(realpath "$(dirname "$0")")
mkdir -p "$2"
dir=$(realpath "$2")
suites="test_os test_posix test_posixpath test_shutil test_mmap test_select test_epoll test_fcntl
	test_fileio test_tempfile test_pathlib test_glob test_stat test_wait4 test_subprocess"
rc=0

# The same path for both runs, so that no name differs.
once() { # label, prefix...
	local label=$1
	shift
	rm -rf "$dir/at"
	mkdir -p "$dir/at"
	(cd "$dir/at" && "$@" "$here/workloads.sh") >"$dir/$label.lines" 2>&1 </dev/null
	# What the files are, except for the compiler's and git's scratch.
	(cd "$dir/at" && find . -path ./repo/.git -prune -o -path ./clone/.git -prune -o \
		-type f ! -name 's.*san' -exec sha256sum {} + | sort -k2) >"$dir/$label.files"
	rm -rf "$dir/$label.tree"
	mv "$dir/at" "$dir/$label.tree"
}

once plain env
once preloaded "$barewave" vgpu --
once trapped "$barewave" vgpu --trap --
for how in preloaded trapped; do
	if cmp -s "$dir/plain.lines" "$dir/$how.lines" && cmp -s "$dir/plain.files" "$dir/$how.files"; then
		echo "workloads, $how: $(wc -l <"$dir/plain.lines") the same," \
			"$(wc -l <"$dir/plain.files") files the same"
	else
		rc=1
		diff "$dir/plain.lines" "$dir/$how.lines"
		diff "$dir/plain.files" "$dir/$how.files" | head
		diff -r "$dir/plain.tree" "$dir/$how.tree" 2>&1 | head -40
	fi
done

# Python's test-suite: the verdict on every single test.
python() { # label, prefix...
	local label=$1
	shift
	# shellcheck disable=SC2086
	(cd "$dir" && "$@" /usr/bin/python3 -m test -v --timeout 3000 $suites) >"$dir/$label.log" 2>&1 </dev/null
	echo "exit $?" >"$dir/$label.tests"
	# As bytes: file names in messages have any.
	LC_ALL=C awk -f "$here/verdicts.awk" "$dir/$label.log" | sort >>"$dir/$label.tests"
}

if [ -x /usr/bin/python3 ] && /usr/bin/python3 -c 'import test.test_os' 2>/dev/null; then
	python python-plain env &
	python python-preloaded "$barewave" vgpu --
	wait
	python python-trapped "$barewave" vgpu --trap --
	for how in preloaded trapped; do
		if cmp -s "$dir/python-plain.tests" "$dir/python-$how.tests"; then
			echo "python's own tests, $how:" \
				"$(($(wc -l <"$dir/python-plain.tests") - 1)) verdicts the same," \
				"$(head -1 "$dir/python-plain.tests")"
		else
			rc=1
			diff "$dir/python-plain.tests" "$dir/python-$how.tests" | head -40
		fi
	done
else
	echo "SKIP: python's own tests: libpython3.11-testsuite is not installed"
fi

# Milliseconds to start and end a program, the fastest of 41 times: others use the machine too.
start() {
	local t i
	for ((i = 0; i < 41; i++)); do
		t=$EPOCHREALTIME
		"$@" >/dev/null
		awk -v a="$t" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.3f\n", (b - a) * 1000 }'
	done | sort -n | head -1
}
so=$(dirname "$barewave")/libvgpu.so
plain=$(start env /bin/true)
preloaded=$(start env LD_PRELOAD="$so" /bin/true)
trapped=$(start "$(dirname "$barewave")/vgpu-trap" /bin/true true)
echo "start-up: $plain ms, preloaded $preloaded ms, trapped $trapped ms"
exit $rc
