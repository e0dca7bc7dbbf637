#!/bin/bash
# Programs that use no GPU, with everything that could differ between two runs pinned. Runs in the
# empty folder it is started in and leaves its files there; interference.sh compares two runs.
#
# One line per workload on stdout: name, exit status, and what the workload printed.
set -u
# shellcheck disable=SC2012,SC2016,SC2028,SC1003,SC2086 # what is printed is the point
export LC_ALL=C TZ=UTC GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
export GIT_AUTHOR_DATE='2024-01-01T00:00:00Z' GIT_COMMITTER_DATE='2024-01-01T00:00:00Z'

run() { # name, command...
	local name=$1 rc=0
	shift
	("$@") >"$name.out" 2>"$name.err" || rc=$?
	echo "$name: exit $rc, $(sha256sum <"$name.out" | cut -c1-16) $(sha256sum <"$name.err" | cut -c1-16)"
}

# A small tree: 300 files, links, a fifo, odd names, holes.
tree() {
	mkdir -p tree/{a,b,c}/{x,y} && cd tree || return
	for i in $(seq 300); do
		seq "$i" $((i * 7)) >"a/x/file$i"
	done
	ln -s ../a/x b/link && ln a/x/file1 b/hard && mkfifo c/fifo
	printf 'odd' >'c/y/with  spaces and "quotes"'
	truncate -s 1M c/hole && printf x >>c/hole
	find . -exec touch -h -d '2024-01-01 00:00:00' {} +
}

coreutils() {
	seq 100000 | shuf --random-source=<(yes) | sort -n | tail -3
	seq 5000 | split -l 100 - part. && cat part.* | md5sum && rm part.*
	cp -a tree copy && diff -r --no-dereference tree/a copy/a && du -s --apparent-size copy/a
	(cd tree && ls -lAR --time-style=+%s | awk '{ $2 = ""; print }')
	stat -c '%n %F %s %h %a %Y' tree/* tree/b/*
	chmod 600 copy/a/x/file2 && stat -c %a copy/a/x/file2
	mv copy moved && rm -rf moved && ls -d moved
	dd if=/dev/zero bs=4096 count=100 2>/dev/null | od | head -3
	cut -d1 -f2 tree/a/x/file30 | paste -s -d, | fold -w 40
	join <(seq 9) <(seq 3 12) | tac | tee teed | wc
	readlink -f tree/b/link | sed "s|$PWD||"
	test -r /dev/null && test ! -e /nonexistent && echo tested
	timeout 0.2 sleep 5
	echo "timeout gave $?"
	ls /nonexistent
}

finds() {
	find tree -type f -size +2k -printf '%P %s %T@ %m\n' | sort
	find tree -newer tree/a -o -name '*1?' -print0 | sort -z | xargs -0 -n5 echo
	find tree -type p -o -type l -exec ls -ld --time-style=+%s {} + | awk '{ print $1, $6, $7, $8, $9 }'
	find /nonexistent
}

tars() {
	tar --sort=name --owner=0 --group=0 --numeric-owner -cf t.tar tree && sha256sum <t.tar
	gzip -n9 <t.tar | sha256sum
	mkdir out && tar -xf t.tar -C out && (cd out && find . -type f -exec sha256sum {} + | sort -k2)
	tar -tvf t.tar | sha256sum
	tar -xf /nonexistent.tar
}

gits() {
	git init -q -b main repo && cd repo || return
	cp -r ../tree/a . && git add . && git commit -q -m one && git rev-parse HEAD
	git checkout -q -b side && seq 50 >a/x/file3 && git commit -qam two
	git checkout -q main && seq 60 >a/x/file4 && git commit -qam three
	git merge -q --no-edit side && git log --oneline --stat && git gc -q && git fsck
	git grep -c 77 | head -5
	git clone -q . ../clone && git -C ../clone status --short && git -C ../clone rev-parse HEAD
	git show nonexistent
}

# Compiler, linker and make, with parallel jobs over a pipe.
makes() {
	mkdir -p src && cd src || return
	for i in $(seq 12); do
		echo "int f$i(int v) { return v * $i + $((i * i)); }" >f$i.c
	done
	{
		seq 12 | sed 's/.*/int f&(int);/'
		echo '#include <stdio.h>'
		echo 'int main(void) { int v = 1;'
		seq 12 | sed 's/.*/v = f&(v);/'
		echo 'printf("%d\n", v); return v \& 15; }' | tr -d '\\' | sed 's/%dn/%d\\n/'
	} >main.c
	printf 'O = $(patsubst %%.c,%%.o,$(wildcard *.c))\nprog: $(O)\n\tcc -o $@ $^\n%%.o: %%.c\n\tcc -O1 -c $< -o $@\n' >Makefile
	make -s -j2 && ./prog
	echo "prog gave $?"
	make -q && touch f3.c && make -s && sha256sum prog && make nonexistent
}

# Forks, threads, signals, memory and descriptors, as a program may use them.
pythons() {
	python3 - <<'EOF'
import ctypes, fcntl, mmap, multiprocessing as mp, os, select, signal, socket, struct, threading
r, w = os.pipe()
pid = os.fork()
if pid == 0:
    os.write(w, b"child")
    os._exit(7)
print(os.read(r, 9), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
a, b = socket.socketpair()
socket.send_fds(a, [b"fd"], [os.open("/dev/null", os.O_RDWR)])
msg, fds, _, _ = socket.recv_fds(b, 9, 1)
print(msg, os.fstat(fds[0]).st_rdev)
print(fcntl.fcntl(r, fcntl.F_GETFL), os.dup2(r, 77), select.select([], [w], [], 0)[1] == [w])
ep = select.epoll()
ep.register(r, select.EPOLLIN)
os.write(w, b"x")
print(len(ep.poll(1)))
m = mmap.mmap(-1, 1 << 20)
m[4096:4100] = b"abcd"
m.resize(2 << 20)
print(m[4096:4100], len(m))
with open("mapped", "w+b") as f:
    f.truncate(8192)
    with mmap.mmap(f.fileno(), 8192) as n:
        n[100:103] = b"xyz"
    print(f.seek(100), f.read(3))
hits = []
signal.signal(signal.SIGUSR1, lambda *_: hits.append(1))
for _ in range(50):
    os.kill(os.getpid(), signal.SIGUSR1)
print(len(hits) > 0, signal.getsignal(signal.SIGSEGV), signal.getsignal(signal.SIGBUS))
total = [0]
lock = threading.Lock()
def add():
    for _ in range(1000):
        with lock:
            total[0] += 1
t = [threading.Thread(target=add) for _ in range(8)]
[x.start() for x in t], [x.join() for x in t]
print(total, threading.active_count())
with mp.Pool(4) as p:
    print(sum(p.map(abs, range(-500, 500))))
libc = ctypes.CDLL(None, use_errno=True)
print(libc.open(b"/nonexistent", 0), ctypes.get_errno())
print(libc.syscall(39) == os.getpid(), sorted(os.environ.get("HOME", "")) == sorted(os.environ["HOME"]))
os.posix_spawnp("true", ["true"], os.environ)
print(os.wait()[1], os.path.exists("/sys/class/net"), os.stat("/dev/zero").st_rdev)
EOF
}

# Shell plumbing: many short processes, job control, traps.
shells() {
	for i in $(seq 100); do echo "$i" | /bin/sh -c 'read v; echo $((v * 2))'; done | md5sum
	trap 'echo trapped' TERM
	kill -TERM $BASHPID && (sleep 0.1 & wait) && jobs
	{ bash -c 'kill -SEGV $$'; } 2>/dev/null
	echo "killed: $?"
	diff <(seq 10) <(seq 2 11)
	perl -e 'fork && wait; print "$$\n" =~ /^\d+$/ ? "perl\n" : "no\n"'
	awk 'BEGIN { while (("ls -d / /tmp" | getline l) > 0) print l; exit 3 }'
}

sanitized() {
	cat >s.c <<'EOF'
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static void *f(void *p) { return memset(p, 3, 100); }
int main(void) {
	struct sigaction s;
	pthread_t t;
	char *p = malloc(100);
	pthread_create(&t, NULL, f, p);
	pthread_join(t, NULL);
	printf("%d", p[99]);
	free(p);
	sigaction(SIGSEGV, NULL, &s);
	printf(" %d\n", s.sa_handler != SIG_DFL);
	return p == NULL;
}
EOF
	clang-19 -fsanitize=address,undefined s.c -o s.asan && ./s.asan
	clang-19 -fsanitize=thread s.c -o s.tsan && setarch -R ./s.tsan
	clang-19 s.c -o s.plain && ./s.plain
}

(tree)
run coreutils coreutils
run finds finds
run tars tars
run gits gits
run makes makes
run pythons pythons
run shells shells
run sanitized sanitized
