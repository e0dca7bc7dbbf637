#!/bin/sh
# Thousands of generated kernels against the host: interpreted, each at -O0 to -O3; then a tenth as
# many small ones at -O1 and -O3, compiled and in lock step.
# Usage: scripts/check-corpus.sh [FIRST [SEEDS]]
#
# Compiling takes seconds a kernel, so the second half is long. What passed is kept below
# build/tests/corpus and not run again until the device is built anew: an interrupted run, or one of
# a wider range, goes on where the last one was. PARTS="interpreted compiled" chooses, JOBS says how
# many at a time. Prints every chunk that fails with its seeds, then the sums. Exit 1 if any failed.
set -u
cd "$(dirname "$0")/.." || exit 2
first=${1:-0} seeds=${2:-4000}
jobs=${JOBS:-$(nproc)}
failed=0
export CORPUS_RESUME=1

# part NAME STEP SEEDS LEVELS MODES [small]
part() {
	name=$1 step=$2 n=$3
	shift 3
	case " ${PARTS-interpreted compiled} " in
	*" $name "*) ;;
	*) return ;;
	esac
	mkdir -p "${B-build}/tests/corpus"
	out=${B-build}/tests/corpus/$name.out
	# A line per chunk, so that chunks that end together do not mix theirs.
	# shellcheck disable=SC2016
	seq "$first" "$step" $((first + n - 1)) | xargs -P "$jobs" -I{} sh -c '
		r=$(scripts/corpus.sh "$@" 2>&1) || echo "seeds $1 to $(($1 + $2 - 1)): $r" >&2
		echo "$r" | grep "^[0-9]* \(passed\|compiled\)" | tr "\n" " "; echo' \
		sh {} "$step" "$@" >"$out"
	awk -v name="$name" -v first="$first" -v last=$((first + n - 1)) -v chunks=$(((n + step - 1) / step)) '
		{ ended++ }
		/compiled/ { c += $1; r += $3; sub(/^.* not /, "") }
		/passed/ { p += $1; f += $3; next }
		{ f++ }
		END {
			if (c + r)
				printf "%s: %d of %d runs were of compiled code\n", name, c, c + r
			printf "%s, seeds %d to %d: %d passed, %d failed\n", name, first, last, p, f
			exit f > 0 || ended != chunks
		}' "$out" || failed=1
}

part interpreted 20 "$seeds" "0 1 2 3" 0
part compiled 10 $((seeds / 10)) "1 3" "2 3" small
exit $failed
