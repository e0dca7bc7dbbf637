# What unittest says of each test, as "name (class) verdict". A test's name begins a line, with or
# without its verdict: tests print, and a busy machine makes asyncio tell of slow steps in between.
match($0, /^test[A-Za-z0-9_]* \([a-zA-Z0-9_.]+\)/) {
	name = substr($0, 1, RLENGTH)
}
name != "" && match($0, /(^|\.\.\. )(ok|FAIL|ERROR|skipped .*|expected failure)$/) {
	verdict = substr($0, RSTART)
	sub(/^\.\.\. /, "", verdict)
	sub(/@test_[0-9]*_tmp/, "@test_N_tmp", verdict)
	print name " " verdict
	name = ""
}
