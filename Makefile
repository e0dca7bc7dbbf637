# barewave: one build. `make help` lists the targets.
#
# Rooms are folders; every .c in a room belongs to it, so adding a file needs
# no change here. SAN=1 builds everything under build/san with ASan and UBSan, DEBUG=1 under build/debug
# with the driver's debug checks (docs/memory.md), CHAOS=1 under build/chaos/build with threads that are
# never on time (tests/chaos/chaos.h).

CC       := clang-19
LD_GPU   := ld.lld-19
CFLAGS   ?= -O2 -g
WARN     := -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla
B        := build
ifeq ($(SAN),1)
B        := build/san
SANFLAGS := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
endif
ifeq ($(TSAN),1)
B        := build/tsan
SANFLAGS := -fsanitize=thread -fno-omit-frame-pointer
CRITERION := -Itests/plain
else
CRITERION := -lcriterion
endif

ifeq ($(DEBUG),1)
B        := build/debug
DEFS     := -DBAREWAVE_DEBUG
endif

ifeq ($(CHAOS),1)
B        := build/chaos/build
DEFS     := -DCHAOS -include tests/chaos/chaos.h
WARN     += -Wno-unused-value
CHAOS_O  := $(B)/tests/chaos/chaos.o
# Not in itself, nor where the thread pointer may still be the client's.
$(CHAOS_O) $(patsubst %.c,$(B)/%.o,$(wildcard tools/vgpu/trap/*.c)): CFLAGS += -DCHAOS_NONE
endif

PKGS     := libdrm_amdgpu libelf libdw msgpack jansson libzstd
PKGINC    = $(shell pkg-config --cflags $(PKGS))
PKGLIB    = $(shell pkg-config --libs $(PKGS))

STD      := -std=gnu11 -D_GNU_SOURCE $(DEFS) -I. -pthread
# The interpreter is written over 32-lane vectors; x86-64-v3 is checked at start-up.
VGPUARCH := -march=x86-64-v3
DEPS      = -MMD -MP

ROOMS    := kfd memory queues codeobj engine
LIB_SRC  := $(wildcard $(ROOMS:%=%/*.c))
LIB_OBJ  := $(LIB_SRC:%.c=$(B)/%.o) $(B)/kernels/embed.o $(CHAOS_O)
TOOL_SRC := $(wildcard tools/*.c)
TOOL_OBJ := $(TOOL_SRC:%.c=$(B)/%.o)
# The same device behind seccomp instead of libc: a static program at a fixed address.
TRAP_SRC := $(wildcard tools/vgpu/trap/*.c)
TRAP_OBJ := $(TRAP_SRC:%.c=$(B)/%.o) $(B)/tools/vgpu/trap/entry.o \
            $(patsubst tools/vgpu/%.c,$(B)/tools/vgpu/trap/%.o,$(wildcard tools/vgpu/preload/*.c))
# LLVM is in the compiler's process alone.
JIT_LLVM := tools/vgpu/isa/jit_llvm.c
VGPU_SRC := $(filter-out $(JIT_LLVM) tools/vgpu/trap/%,$(wildcard tools/vgpu/*.c tools/vgpu/*/*.c))
VGPU_OBJ := $(VGPU_SRC:%.c=$(B)/%.o) $(CHAOS_O)
JITC_SRC := tools/jitc/jitc.c $(JIT_LLVM) $(addprefix tools/vgpu/isa/,jit_cfg.c decode.c decode_tab.c \
            decode_vop.c)
JITC_OBJ := $(JITC_SRC:%.c=$(B)/%.o) $(B)/tools/vgpu/isa/sem_bc.o $(CHAOS_O)
# The daemon of a shared device: its own code, and what says what the device is.
VGPUD_SRC := $(wildcard tools/vgpud/*.c) $(addprefix tools/vgpu/,clock.c config.c log.c ownfd.c rules.c \
             share/client.c kfd/limits.c kfd/personality.c kfd/props.c)
VGPUD_OBJ := $(VGPUD_SRC:%.c=$(B)/%.o) $(CHAOS_O)
# The opcode functions once more as bitcode, for the JIT to inline.
SEM_BC   := $(patsubst %.c,$(B)/%.bc,$(wildcard tools/vgpu/isa/sem_*.c) \
            $(addprefix tools/vgpu/isa/,valu.c operands.c buffer.c))
LLVMINC  := -isystem /usr/lib/llvm-19/include
# The device without the libc surface, for unit tests of its parts. Linked whole: the meaning of an
# opcode is found through a weak symbol, which pulls nothing out of an archive.
VGPU_ALL := -Wl,--whole-archive $(B)/libvgpu_core.a -Wl,--no-whole-archive
VGPU_CORE := $(filter-out $(B)/tools/vgpu/preload/%,$(VGPU_OBJ))

KSRC     := $(wildcard kernels/*.c)
KASM     := $(wildcard kernels/*.s)
KCO      := $(KSRC:kernels/%.c=$(B)/kernels/%.co) $(KASM:kernels/%.s=$(B)/kernels/%.co)
KFLAGS   := -target amdgcn-amd-amdhsa -mcpu=gfx1151 -nogpulib -O3 -std=gnu11 -ffreestanding \
            -mcode-object-version=5 -Wall -Wextra -Werror -I.

# tests/unit_*.c   pure code, no device; also built and run under sanitizers
# tests/vgpu_*.c   parts of the virtual device, linked directly
# tests/virt_*.c   the driver on the virtual device (run with it preloaded)
# tests/e2e_*.c    run the built programs
UNIT     := $(patsubst tests/%.c,$(B)/tests/%,$(wildcard tests/unit_*.c))
VGPUT    := $(patsubst tests/%.c,$(B)/tests/%,$(wildcard tests/vgpu_*.c))
VIRT     := $(patsubst tests/%.c,$(B)/tests/%,$(wildcard tests/virt_*.c)) $(B)/tests/virt_guard
E2E      := $(patsubst tests/%.c,$(B)/tests/%,$(wildcard tests/e2e_*.c))
RUNNERS  := $(patsubst tests/runners/%.c,$(B)/tests/%,$(wildcard tests/runners/*.c))
TESTS    := $(UNIT) $(VGPUT) $(VIRT) $(E2E)

.DELETE_ON_ERROR:
.SECONDARY:
.PHONY: all setup demo check check-kernel check-clients check-cwsr check-unit check-san bench-vgpu format lint clean help

# No sanitizer has a static runtime.
TRAP     := $(if $(SANFLAGS),,$(B)/vgpu-trap)
all: $(B)/barewave $(B)/libvgpu.so $(TRAP) $(B)/vgpu-jitc $(B)/vgpud $(KCO) ## build the program, the virtual device and the kernels

setup: ## install missing Debian packages (scripts/packages.txt)
	@scripts/setup.sh

demo: ## set up, build, and run the bundled model on the virtual gfx1151
	@scripts/setup.sh
	@$(MAKE) --no-print-directory -j$$(nproc) all
	@scripts/demo.sh

check: ## set up, build, and run every test; the last line is the count
	@scripts/setup.sh
	@$(MAKE) --no-print-directory -j$$(nproc) all tests
	@$(MAKE) --no-print-directory -j$$(nproc) SAN=1 tests-unit
	@$(MAKE) --no-print-directory -j$$(nproc) CHAOS=1 tests-chaos
	@tests/run.sh

tests: $(TESTS) $(RUNNERS) $(B)/tests/libinject.so
tests-unit: $(UNIT)
check-clients: $(B)/barewave $(B)/libvgpu.so $(B)/vgpu-jitc ## other people's clients; takes KFDTEST=binary HSA=libhsa-runtime64.so
	@KFDTEST="$(KFDTEST)" HSA="$(HSA)" scripts/check-clients.sh
check-kernel: $(B)/barewave $(B)/libvgpu.so $(B)/vgpu-trap $(B)/libvgpu_core.a ## compare with Debian's own kernel in QEMU, call by call
	@scripts/check-kernel.sh
check-cwsr: $(B)/tests/cwsr_witness ## compare preemption with the kernel's own trap handler
	@scripts/check-cwsr.sh

bench-vgpu: all $(B)/tests/bench_vgpu $(B)/tests/make_model ## measure the virtual device against its bars
	$(B)/tests/bench_vgpu

check-memory: $(B)/barewave $(B)/libvgpu.so $(B)/vgpu-jitc $(B)/tests/virt_footprint $(B)/tests/make_model ## footprint on a 4B-shaped model: 2.4 GB of disk, many minutes
	@VGPU_JIT_CACHE="$${VGPU_JIT_CACHE-$(CURDIR)/$(B)/jit-cache}" CHECK_MEMORY=1 \
		$(B)/barewave vgpu -- $(B)/tests/virt_footprint --jobs 1

# The emulator's own data structures under ThreadSanitizer, workgroups on many threads. What tested
# programs do to GPU memory is theirs: tests/tsan.txt.
TSAN_TESTS := $(patsubst %,$(B)/tests/%,vgpu_vm vgpu_cp vgpu_cp_errors vgpu_cp_other vgpu_isa_run \
              vgpu_isa_memory)
.PHONY: tests-tsan check-tsan
tests-tsan: $(TSAN_TESTS)
check-tsan: ## the emulator's tests under ThreadSanitizer
	@$(MAKE) --no-print-directory -j$$(nproc) TSAN=1 tests-tsan
	@TEST_WORKERS=8 TSAN_OPTIONS="suppressions=$(CURDIR)/tests/tsan.txt:exitcode=66:die_after_fork=0" \
		tests/run.sh tsan

# Programs below build/chaos run there, in a folder that looks like this one. FIRST_CHAOS, CHAOS_SEEDS:
# which seeds.
CHAOS_TESTS := $(patsubst %,$(B)/tests/%,vgpu_cp vgpu_cp_errors vgpu_cp_other vgpu_cwsr virt_driver \
               virt_wave virt_reset virt_shared_death)
CHAOS_SEEDS ?= 4
FIRST_CHAOS ?= 1
.PHONY: chaos-folder tests-chaos check-chaos
chaos-folder:
	@mkdir -p build/chaos
	@for f in $(filter-out build,$(wildcard *)); do ln -sfn ../../$$f build/chaos/$$f; done
tests-chaos: chaos-folder $(B)/barewave $(B)/libvgpu.so $(B)/vgpud $(CHAOS_TESTS)
check-chaos: ## the device's tests with threads that are late, many seeds (long)
	@$(MAKE) --no-print-directory -j$$(nproc) CHAOS=1 chaos-folder all tests
	@scripts/check-chaos.sh $(CHAOS_SEEDS) $(FIRST_CHAOS)

# FIRST and SEEDS choose others: make check-corpus FIRST=100000 SEEDS=20000. PARTS=interpreted or
# PARTS=compiled runs one half. What passed is not run again: an interrupted run goes on.
FIRST    ?= 0
SEEDS    ?= 4000
.PHONY: check-corpus check-delay
check-corpus: all $(B)/tests/corpus_gen $(B)/tests/corpus_run ## thousands of generated kernels against the host (long)
	@scripts/check-corpus.sh $(FIRST) $(SEEDS)

# DELAY_SEEDS, MOST: how many seeds, and how many instructions late memory may be.
DELAY_SEEDS ?= 20
MOST        ?= 64
check-delay: all tests ## programs that wait are the same with delayed memory (minutes)
	@scripts/check-delay.sh $(DELAY_SEEDS) $(MOST)

.PHONY: check-manual
check-manual: all $(B)/tests/isa_vectors $(addprefix $(B)/tests/,vgpu_isa_every vgpu_manual vgpu_isa_memory vgpu_isa_buffer) ## own instruction vectors, also compiled and in lock step (long); TABLES=folder makes them anew
	@[ -z "$(TABLES)" ] || { tests/manual/vectors.py "$(TABLES)" $(B)/manual.json && \
		cmp $(B)/manual.json tests/data/manual/alu.json; }
	$(B)/tests/isa_vectors tests/data/manual/alu.json
	$(B)/tests/isa_vectors --jit tests/data/manual/alu.json
	$(B)/tests/isa_vectors --lockstep tests/data/manual/alu.json
	for t in vgpu_isa_every vgpu_manual vgpu_isa_memory vgpu_isa_buffer; do \
		ISA_MACHINE=lockstep $(B)/tests/$$t --jobs 1 || exit 1; done

check-unit: tests-unit ## the host-only tests alone
	@tests/run.sh unit

# --- host objects -----------------------------------------------------------
$(B)/tools/vgpu/%.o: tools/vgpu/%.c
	@mkdir -p $(@D)
	$(CC) $(STD) $(CFLAGS) $(WARN) $(SANFLAGS) -O3 $(VGPUARCH) -fPIC -fvisibility=hidden -Itools/vgpu $(LLVMINC) $(PKGINC) $(DEPS) -c $< -o $@

$(B)/tools/jitc/%.o: tools/jitc/%.c
	@mkdir -p $(@D)
	$(CC) $(STD) $(CFLAGS) $(WARN) $(SANFLAGS) $(VGPUARCH) -Itools/vgpu $(DEPS) -c $< -o $@

$(B)/tools/vgpud/%.o: tools/vgpud/%.c
	@mkdir -p $(@D)
	$(CC) $(STD) $(CFLAGS) $(WARN) $(SANFLAGS) $(VGPUARCH) -Itools/vgpu $(PKGINC) $(DEPS) -c $< -o $@

$(B)/vgpud: $(VGPUD_OBJ)
	$(CC) -pthread $(SANFLAGS) $^ -o $@

$(B)/vgpu-jitc: $(JITC_OBJ)
	$(CC) -pthread $(SANFLAGS) $^ -ldl -o $@

$(B)/tools/vgpu/isa/%.bc: tools/vgpu/isa/%.c
	@mkdir -p $(@D)
	$(CC) $(STD) $(WARN) -O2 -g0 $(VGPUARCH) -fPIC -DISA_JIT -Itools/vgpu $(DEPS) -MF $@.d -emit-llvm -c $< -o $@

$(B)/tools/vgpu/isa/sem.bc: $(SEM_BC)
	llvm-link-19 $^ -o $@

$(B)/tools/vgpu/isa/sem_bc.o: $(B)/tools/vgpu/isa/sem.bc scripts/embed-one.sh
	scripts/embed-one.sh jit_sem_bitcode $< > $(@:.o=.S)
	$(CC) -c $(@:.o=.S) -o $@

$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(STD) $(CFLAGS) $(WARN) $(SANFLAGS) -fPIC $(PKGINC) $(DEPS) -c $< -o $@

$(B)/libbarewave.a: $(LIB_OBJ)
	@rm -f $@
	llvm-ar-19 rcs $@ $^

$(B)/libvgpu_core.a: $(VGPU_CORE)
	@rm -f $@
	llvm-ar-19 rcs $@ $^

$(B)/barewave: $(TOOL_OBJ) $(B)/libbarewave.a
	$(CC) -pthread $(SANFLAGS) $^ $(PKGLIB) -lm -o $@

$(B)/libvgpu.so: $(VGPU_OBJ)
	$(CC) -shared -pthread $(SANFLAGS) -Wl,-z,now $^ -lm -ldl -o $@

# The hooks once more, under names of their own: the libc that they replace is the client's.
$(B)/tools/vgpu/trap/names.h: $(wildcard tools/vgpu/preload/*.c)
	@mkdir -p $(@D)
	sed -n 's/^HOOK [^(]*[ *]\([A-Za-z0-9_]*\)(.*/#define \1 hook_\1/p' $^ | sort -u > $@

$(B)/tools/vgpu/trap/preload/%.o: tools/vgpu/preload/%.c $(B)/tools/vgpu/trap/names.h
	@mkdir -p $(@D)
	$(CC) $(STD) $(CFLAGS) $(WARN) $(SANFLAGS) -O3 $(VGPUARCH) -fPIC -fvisibility=hidden -ffunction-sections -DVGPU_TRAP -include $(B)/tools/vgpu/trap/names.h -Itools/vgpu $(PKGINC) $(DEPS) -c $< -o $@

$(B)/tools/vgpu/trap/%.o: tools/vgpu/trap/%.S
	@mkdir -p $(@D)
	$(CC) $(DEPS) -c $< -o $@

# At TRAP_IMAGE (tools/vgpu/trap/layout.h). So far up, a call to a weak symbol that nobody defines is
# out of range: those of libc's that exist are taken, and its old start-up hook is a function of its
# own that does nothing. GCC's crtbeginT.o has 32-bit addresses, and nothing that is needed.
TRAP_WEAK := __call_tls_dtors __glibc_tls_internal_free __nss_database_fork_prepare_parent \
             __nss_database_fork_subprocess __mq_notify_fork_subprocess __timer_fork_subprocess
crt       = $(shell $(CC) -print-file-name=$(1))
$(B)/vgpu-trap: $(TRAP_OBJ) $(B)/libvgpu_core.a
	$(CC) -nostartfiles -static -pthread -fuse-ld=lld $(call crt,crt1.o) $(call crt,crti.o) $(TRAP_OBJ) -Wl,--whole-archive $(B)/libvgpu_core.a -Wl,--no-whole-archive $(call crt,crtn.o) -lm -Wl,--gc-sections -Wl,--image-base=0x550050000000 $(TRAP_WEAK:%=-Wl,-u,%) -Wl,--defsym=__pthread_initialize_minimal=_dl_relocate_static_pie -o $@

# --- device code ------------------------------------------------------------
$(B)/kernels/%.o: kernels/%.c
	@mkdir -p $(@D)
	$(CC) $(KFLAGS) $(DEPS) -c $< -o $@

$(B)/kernels/%.o: kernels/%.s
	@mkdir -p $(@D)
	$(CC) -target amdgcn-amd-amdhsa -mcpu=gfx1151 -mcode-object-version=5 -c $< -o $@

$(B)/kernels/%.co: $(B)/kernels/%.o
	$(LD_GPU) -shared $< -o $@

$(B)/kernels/embed.S: $(KCO) scripts/embed.sh
	scripts/embed.sh $(KCO) > $@

$(B)/kernels/embed.o: $(B)/kernels/embed.S
	$(CC) -c $< -o $@

# --- tests ------------------------------------------------------------------
$(B)/tests/unit_%: tests/unit_%.c $(B)/libbarewave.a
	@mkdir -p $(@D)
	$(CC) $(STD) $(CFLAGS) $(WARN) -Wno-missing-prototypes $(SANFLAGS) $(PKGINC) $(DEPS) $< $(B)/libbarewave.a $(PKGLIB) -lcriterion -lm -o $@

$(B)/tests/virt_%: tests/virt_%.c $(B)/libbarewave.a
	@mkdir -p $(@D)
	$(CC) $(STD) $(CFLAGS) $(WARN) -Wno-missing-prototypes $(SANFLAGS) $(PKGINC) $(DEPS) $< $(B)/libbarewave.a $(PKGLIB) -lcriterion -lm -o $@

# The debug build's checks in one program of the ordinary build: memory/ and who calls it, once more.
GUARDED  := $(patsubst %.c,$(B)/guarded/%.o,$(wildcard memory/*.c engine/*.c queues/*.c))
$(B)/guarded/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(STD) -DBAREWAVE_DEBUG $(CFLAGS) $(WARN) $(PKGINC) $(DEPS) -c $< -o $@

$(B)/tests/virt_guard: tests/visible/guard.c $(GUARDED) $(B)/libbarewave.a
	@mkdir -p $(@D)
	$(CC) $(STD) -DBAREWAVE_DEBUG $(CFLAGS) $(WARN) -Wno-missing-prototypes $(PKGINC) $(DEPS) $< $(GUARDED) $(B)/libbarewave.a $(PKGLIB) -lcriterion -lm -Wl,--wrap=signal_wait -o $@

$(B)/tests/vgpu_%: tests/vgpu_%.c $(B)/libvgpu_core.a
	@mkdir -p $(@D)
	$(CC) $(STD) $(CFLAGS) $(WARN) -Wno-missing-prototypes $(SANFLAGS) $(VGPUARCH) -Itools/vgpu $(PKGINC) $(DEPS) $< $(VGPU_ALL) $(PKGLIB) $(CRITERION) -ldl -lm -o $@

# The daemon's policies, without its sockets.
VGPUD_POLICY := $(addprefix $(B)/tools/vgpud/,files.o memory.o places.o)
$(B)/tests/vgpu_shared_talk $(VIRT): $(B)/vgpud
$(B)/tests/vgpu_shared: tests/vgpu_shared.c $(VGPUD_POLICY) $(B)/libvgpu_core.a
	@mkdir -p $(@D)
	$(CC) $(STD) $(CFLAGS) $(WARN) -Wno-missing-prototypes $(SANFLAGS) $(VGPUARCH) -Itools/vgpu $(PKGINC) $(DEPS) $< $(VGPUD_POLICY) $(VGPU_ALL) $(PKGLIB) $(CRITERION) -ldl -lm -o $@

# Hand-written programs that tests/vgpu_jit.c reads from beside itself.
$(B)/tests/vgpu_jit_registry: $(B)/vgpu-jitc
$(B)/tests/vgpu_jit: $(B)/tests/jit_kernels.o $(B)/tests/jit_kernels64.o $(B)/vgpu-jitc
$(B)/tests/jit_kernels.o: tests/jit_kernels.s
	@mkdir -p $(@D)
	$(CC) -target amdgcn-amd-amdhsa -mcpu=gfx1151 -c $< -o $@

$(B)/tests/jit_kernels64.o: tests/jit_kernels64.s
	@mkdir -p $(@D)
	$(CC) -target amdgcn-amd-amdhsa -mcpu=gfx1151 -mwavefrontsize64 -c $< -o $@

# Preloaded to make the Nth call of a program fail.
$(B)/tests/libinject.so: CFLAGS += -DCHAOS_NONE
$(B)/tests/libinject.so: tests/inject.c
	@mkdir -p $(@D)
	$(CC) $(STD) $(CFLAGS) $(WARN) -Wno-missing-prototypes -shared -fPIC $< -ldl -o $@

# Generated kernels, compared with the host: tests/corpus.
$(B)/tests/corpus_gen: tests/corpus/gen.c $(CHAOS_O)
	@mkdir -p $(@D)
	$(CC) $(STD) $(CFLAGS) $(WARN) $(DEPS) $< $(CHAOS_O) -o $@

$(B)/tests/corpus_run: tests/corpus/run.c $(B)/libbarewave.a
	@mkdir -p $(@D)
	$(CC) $(STD) $(CFLAGS) $(WARN) $(PKGINC) $(DEPS) $< $(B)/libbarewave.a $(PKGLIB) -ldl -lm -o $@

# A client with planted mistakes: tests/e2e_visible.c.
$(B)/tests/visible_client: tests/visible/client.c $(B)/libbarewave.a
	@mkdir -p $(@D)
	$(CC) $(STD) $(CFLAGS) $(WARN) $(PKGINC) $(DEPS) $< $(B)/libbarewave.a $(PKGLIB) -lm -o $@

$(B)/tests/e2e_corpus: $(B)/tests/corpus_gen $(B)/tests/corpus_run
$(B)/tests/e2e_visible: $(B)/tests/visible_client
$(B)/tests/e2e_%: tests/e2e_%.c $(CHAOS_O)
	@mkdir -p $(@D)
	$(CC) $(STD) $(CFLAGS) $(WARN) -Wno-missing-prototypes $(SANFLAGS) $(PKGINC) $(DEPS) $< $(CHAOS_O) $(PKGLIB) -lcriterion -lm -o $@

# Clients of the trap backend, in four ways: tests/trap.
TRAP_CLIENTS := $(addprefix $(B)/tests/trap_,static pie bare raw)
TRAPCC    = $(CC) -std=gnu11 -D_GNU_SOURCE -I. -pthread $(CFLAGS) $(WARN) -Wno-missing-prototypes $(DEPS) tests/trap/client.c
$(B)/tests/trap_static: tests/trap/client.c
	@mkdir -p $(@D)
	$(TRAPCC) -static -o $@
$(B)/tests/trap_pie: tests/trap/client.c
	@mkdir -p $(@D)
	$(TRAPCC) -static-pie -fPIE -o $@
$(B)/tests/trap_bare: tests/trap/client.c
	@mkdir -p $(@D)
	$(TRAPCC) -DUSE_RAW -DBARE -fno-builtin -fno-stack-protector -nostdlib -static -o $@
$(B)/tests/trap_raw: tests/trap/client.c
	@mkdir -p $(@D)
	$(TRAPCC) -DUSE_RAW -o $@

# Preloaded: its sanitizer sees the device's threads.
$(B)/tests/trap_tsan: tests/trap/client.c
	@mkdir -p $(@D)
	$(TRAPCC) -fsanitize=thread -o $@

# exit(7), for a machine that the filter does not know.
$(B)/tests/trap_i386: tests/trap/i386.s
	@mkdir -p $(@D)
	$(CC) -m32 -nostdlib -static -fuse-ld=lld $< -o $@

$(B)/tests/e2e_inject: $(B)/tests/libinject.so
$(B)/tests/e2e_trap: $(TRAP_CLIENTS) $(B)/tests/trap_tsan $(B)/tests/trap_i386 $(addprefix $(B)/tests/virt_,driver wave files exec)

$(B)/tests/%: tests/runners/%.c $(B)/libvgpu_core.a $(B)/libbarewave.a
	@mkdir -p $(@D)
	$(CC) $(STD) $(CFLAGS) $(WARN) $(SANFLAGS) $(VGPUARCH) -Itools/vgpu $(PKGINC) $(DEPS) $< $(VGPU_ALL) $(B)/libbarewave.a $(PKGLIB) -ldl -lm -o $@

# The benchmark's own kernels: for gfx1151, and the FMA one for the host too.
BENCH_CO := $(patsubst tests/bench/%.c,$(B)/bench/%.co,$(wildcard tests/bench/*.c))

$(B)/bench/%.o: tests/bench/%.c
	@mkdir -p $(@D)
	$(CC) $(KFLAGS) $(DEPS) -c $< -o $@

$(B)/bench/%.co: $(B)/bench/%.o
	$(LD_GPU) -shared $< -o $@

$(B)/bench/fma_native.o: tests/bench/fma.c
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -O3 -mavx2 -mfma $(WARN) -I. $(DEPS) -c $< -o $@

$(B)/tests/bench_vgpu: tests/runners/bench_vgpu.c $(B)/bench/fma_native.o $(BENCH_CO) $(B)/libvgpu_core.a $(B)/libbarewave.a
	@mkdir -p $(@D)
	$(CC) $(STD) $(CFLAGS) $(WARN) $(SANFLAGS) $(VGPUARCH) -Itools/vgpu $(PKGINC) $(DEPS) $< $(B)/bench/fma_native.o $(VGPU_ALL) $(B)/libbarewave.a $(PKGLIB) -ldl -lm -o $@

# --- housekeeping -----------------------------------------------------------
format: ## apply .clang-format to every C file
	@scripts/setup.sh scripts/packages-lint.txt
	git ls-files -z '*.c' '*.h' | xargs -0 clang-format-19 -i

lint: ## clang-format, clang-tidy and cppcheck; any finding fails
	@scripts/lint.sh

clean: ## remove build/
	rm -rf build

help: ## this list
	@grep -hE '^[a-z][a-z-]*:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14
	@echo "with SAN=1, TSAN=1, DEBUG=1 or CHAOS=1, all and tests are built in a folder of their own"

-include $(shell find $(B) -name '*.d' 2>/dev/null)
