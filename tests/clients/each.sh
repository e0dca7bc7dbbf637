#!/bin/bash
# Runs one program per test on the virtual device, each in a process group of its own that ends
# with it, and says how it went: pass, skip, fail, crash (a signal), timeout; "+left" when the
# test left a process behind.
#
#   each.sh LOGDIR SECONDS NAMES -- COMMAND...    the test's name replaces @ in COMMAND
#
# NAMES is a file with one test per line, its name in the first column. Output: NAME, result,
# seconds.
set -uo pipefail
log=$1 limit=$2 names=$3
shift 4
mkdir -p "$log"
set -m # every background job leads a process group

verdict() { # exit status, log file
	local r
	case $1 in
	0) r=pass ;;
	137) r=timeout ;;
	13[0-9] | 14[0-9]) r=crash ;;
	*) r=fail ;;
	esac
	if grep -aqE '^\[  (PASSED  \] 0 tests|SKIPPED )|^\[ *SKIPPED|Skipping|skipp' "$2" && [ $r = pass ]; then
		r=skip
	fi
	echo $r
}

while read -r name _; do
	case $name in '' | '#'*) continue ;; esac
	out=$log/${name//\//_}.txt
	t=$EPOCHREALTIME
	"${@//@/$name}" >"$out" 2>&1 </dev/null &
	pid=$!
	{ sleep "$limit" && kill -KILL -- -$pid; } 2>/dev/null &
	guard=$!
	rc=0
	wait $pid 2>/dev/null || rc=$?
	kill -KILL -- -$guard 2>/dev/null
	wait $guard 2>/dev/null
	result=$(verdict $rc "$out")
	# Whoever of the group is still there was left behind.
	if kill -0 -- -$pid 2>/dev/null; then
		[ "$result" = timeout ] || result=$result+left
		kill -KILL -- -$pid 2>/dev/null
	fi
	awk -v n="$name" -v r="$result" -v a="$t" -v b="$EPOCHREALTIME" \
		'BEGIN { printf "%s\t%s\t%.2f\n", n, r, b - a }'
done <"$names"
