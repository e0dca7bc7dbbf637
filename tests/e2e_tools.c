/* The barewave program as a person runs it: usage, refusals, code objects, launches. */
#include <criterion/criterion.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "tests/benchdata.h"
#include "tests/shell.h"

TestSuite(tools, .init = shell_setup, .fini = shell_teardown, .timeout = 600);

/* ---- usage ---- */

Test(tools, usage_errors_exit_2)
{
	static const char *const bad[] = {
		"",
		"nonsense",
		"--nonsense",
		"info --nonsense",
		"info word",
		"info --topology x --device=auto",
		"co",
		"co --json",
		"co -x f",
		"run",
		"run -m",
		"run -m x",
		"run -m x -p a --ids 1",
		"run -m x -p a -n many",
		"run -m x -p a --temp warm",
		"run -m x -p a --seed -1",
		"run -m x -p a --cpu --device=virt",
		"run -m x --ids 1,two",
		"launch",
		"launch f k",
		"launch f k --grid 1",
		"launch f k --block 1",
		"launch f k --grid 1 --items 1 --block 1",
		"launch f k --grid 0 --block 1",
		"launch f k --grid 1,1,1,1 --block 1",
		"launch f k --grid 1 --block 70000",
		"launch f k --grid 4294967295 --block 2",
		"launch f k --grid 1 --block 1 --arg 12",
		"launch f k --grid 1 --block 1 --arg bool:1",
		"launch f k --grid 1 --block 1 --arg u32:4294967296",
		"launch f k --grid 1 --block 1 --arg u8:-1",
		"launch f k --grid 1 --block 1 --arg i8:-129",
		"launch f k --grid 1 --block 1 --arg f32:one",
		"launch f k --grid 1 --block 1 --arg zero:0",
		"launch f k --grid 1 --block 1 --arg fill:4:xyz",
		"launch f k --grid 1 --block 1 --arg fill:4",
		"launch f k --grid 1 --block 1 --expect 0:x",
		"launch f k --grid 1 --block 1 --timeout -1",
		"vgpu",
		"vgpu --",
		"vgpu --set novalue -- true",
		"vgpu --nonsense -- true",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct result r = shell(BAREWAVE " %s 2>&1 >/dev/null", bad[i]);

		cr_assert_eq(r.status, 2, "'%s' exits %d: %s", bad[i], r.status, r.out);
		cr_assert(r.len > 0, "'%s' says nothing on stderr", bad[i]);
		free(r.out);
	}
}

Test(tools, help_goes_to_stdout)
{
	static const char *const commands[] = {"info", "run", "co", "launch", "vgpu"};
	struct result r = shell(BAREWAVE " --help 2>/dev/null");

	cr_assert_eq(r.status, 0);
	for (size_t i = 0; i < 5; i++) {
		char usage[64];

		cr_assert(strstr(r.out, commands[i]), "--help lists %s", commands[i]);
		snprintf(usage, sizeof(usage), "Usage: barewave %s", commands[i]);
		expect(0, usage, BAREWAVE " %s --help 2>/dev/null", commands[i]);
	}
	free(r.out);
}

/* ---- which device ---- */

Test(tools, no_device_one_sentence)
{
	if (access("/dev/kfd", F_OK) == 0)
		cr_skip_test("SKIP: no_device_one_sentence: this machine has /dev/kfd");
	refused("/dev/kfd", BAREWAVE " info 2>&1");
	refused("--device=virt", BAREWAVE " info --device=auto 2>&1");
	refused("no compute device: /nonexistent/kfd does not exist;",
		BAREWAVE " info --device=/nonexistent/kfd 2>&1");
	refused("--device=virt", BAREWAVE " launch tests/data/bench-kernels/vecadd.co vecadd"
					  " --grid 1 --block 256 --arg zero:4 --arg zero:4"
					  " --arg zero:4 --arg u32:1 2>&1");
}

Test(tools, info_on_the_virtual_device)
{
	struct result r = shell(BAREWAVE " info --device=virt");
	json_error_t e;
	json_t *o;

	cr_assert_eq(r.status, 0, "%s", r.out);
	cr_assert(strstr(r.out, "gfx1151"), "%s", r.out);
	free(r.out);
	r = shell(BAREWAVE " --device=virt info --json");
	cr_assert_eq(r.status, 0, "%s", r.out);
	o = json_loads(r.out, 0, &e);
	cr_assert(o, "%s: %s", e.text, r.out);
	cr_assert_str_eq(json_string_value(json_object_get(o, "arch")), "gfx1151");
	cr_assert_eq(json_integer_value(json_object_get(o, "compute_units")), 40);
	/* known-good vector: 40 CUs of gfx1151 (kernel formula and published topology) */
	cr_assert_eq(json_integer_value(json_object_get(json_object_get(o, "queue"), "cwsr_bytes")),
		     19185664);
	cr_assert_eq(json_integer_value(json_object_get(json_object_get(o, "queue"), "area_bytes")),
		     19226624);
	cr_assert(json_is_integer(json_object_get(json_object_get(o, "memory"), "binding_bytes")));
	json_decref(o);
	free(r.out);
}

/* The ceilings belong to one machine: GTT is half its RAM, whatever this host has. A program that
 * does not use the device sees the host. */
Test(tools, info_has_the_configured_memory)
{
	struct result r = shell(BAREWAVE " vgpu --set ram=8G -- " BAREWAVE " info --json");
	json_t *o, *m;

	cr_assert_eq(r.status, 0, "%s", r.out);
	o = json_loads(r.out, 0, NULL);
	cr_assert(o, "%s", r.out);
	m = json_object_get(o, "memory");
	cr_assert_eq(json_integer_value(json_object_get(m, "mem_total")), 8ll << 30);
	cr_assert_eq(json_integer_value(json_object_get(m, "gtt_total")), 4ll << 30);
	cr_assert_lt(json_integer_value(json_object_get(m, "mem_available")), 8ll << 30);
	cr_assert_gt(json_integer_value(json_object_get(m, "mem_available")), 7ll << 30);
	cr_assert_leq(json_integer_value(json_object_get(m, "binding_bytes")), 4ll << 30);
	json_decref(o);
	free(r.out);
	expect(0, "same",
	       "grep MemTotal /proc/meminfo >%s/host && " BAREWAVE
	       " vgpu --set ram=8G -- grep MemTotal /proc/meminfo | cmp - %s/host && echo same",
	       dir, dir);
}

Test(tools, info_from_a_copied_topology)
{
	struct result r;
	json_t *o;

	expect(0, "", BAREWAVE " vgpu -- cp -r /sys/class/kfd/kfd/topology %s/topology", dir);
	r = shell(BAREWAVE " info --json --topology %s/topology", dir);
	cr_assert_eq(r.status, 0, "%s", r.out);
	o = json_loads(r.out, 0, NULL);
	cr_assert(o, "%s", r.out);
	cr_assert_str_eq(json_string_value(json_object_get(o, "arch")), "gfx1151");
	cr_assert_eq(json_integer_value(json_object_get(o, "compute_units")), 40);
	cr_assert(json_is_null(json_object_get(o, "kfd_minor")), "what no device said is unknown");
	cr_assert(json_is_null(json_object_get(json_object_get(o, "memory"), "available")));
	json_decref(o);
	free(r.out);
	refused("/topology", BAREWAVE " info --topology %s/no/topology 2>&1", dir);
}

Test(tools, vgpu_passes_on_status_and_arguments)
{
	expect(0, "a b c", BAREWAVE " vgpu -- echo 'a b' c");
	expect(7, "", BAREWAVE " vgpu -- sh -c 'exit 7'");
	expect(1, "no-such-program", BAREWAVE " vgpu -- /no-such-program 2>&1");
	expect(1, "/no/such/file", BAREWAVE " vgpu --config /no/such/file -- true 2>&1");
	expect(0, "cus=20,seed=3",
	       "VGPU_SET= " BAREWAVE " vgpu --set cus=20 --set seed=3 -- printenv VGPU_SET");
}

/* Each run makes a tree of files for its device and sweeps those of dead ones: a live one is never
 * taken for dead, however many start at once. */
/* The log has each refused call, with its arguments and what would have been taken. */
Test(tools, vgpu_logs_why)
{
	struct result r =
		shell("env -u BXFI_MAP " BAREWAVE
		      " vgpu --log %s/log -- build/tests/virt_exec --color=never"
		      " --filter '*/@(through_a_socket|dmabuf_file)' 2>&1 >/dev/null; cat %s/log",
		      dir, dir);

	cr_expect(strstr(r.out, "refused: ioctl kfd0 GET_VERSION"), "%s", r.out);
	cr_expect(strstr(r.out, ": -EBADF: the descriptor is of another process"), "%s", r.out);
	cr_expect(strstr(r.out, "refused: mmap dmabuf"), "%s", r.out);
	free(r.out);
	refused("wanted a file to write to", BAREWAVE " vgpu --log /no/such/log -- true 2>&1");
	refused("wanted a file to write to", BAREWAVE " vgpu --trace %s -- true 2>&1", dir);
	/* Pipes have no path but this one. */
	expect(0, "open /dev/kfd",
	       BAREWAVE " vgpu --trace /dev/stderr -- " BAREWAVE " info 2>&1 >/dev/null");
	expect(0, "open /dev/kfd",
	       "exec 3>&1; " BAREWAVE " vgpu --trace /dev/fd/3 -- " BAREWAVE " info >/dev/null");
	/* Where the program is by then does not matter. */
	expect(0, "open /dev/kfd",
	       "b=$PWD; cd %s && $b/" BAREWAVE " vgpu --trace here -- sh -c "
	       "'cd / && : < /dev/kfd; exec $0/" BAREWAVE " info' $b > /dev/null; cat %s/here",
	       dir, dir);
}

Test(tools, vgpu_many_at_once)
{
	expect(0, "120 2\n",
	       "seq 120 | xargs -P 16 -n 1 sh -c '" BAREWAVE
	       " vgpu -- cat /sys/class/kfd/kfd/topology/generation_id' 2>&1 | sort | uniq -c");
}

Test(tools, vgpu_configures_the_device)
{
	struct result r = shell(BAREWAVE " vgpu --set cus=20 -- " BAREWAVE " info --json");
	json_t *o;

	cr_assert_eq(r.status, 0, "%s", r.out);
	o = json_loads(r.out, 0, NULL);
	cr_assert(o, "%s", r.out);
	cr_assert_eq(json_integer_value(json_object_get(o, "compute_units")), 20);
	json_decref(o);
	free(r.out);
}

/* ---- code objects ---- */

Test(tools, co_lists_kernels)
{
	static const char *const names[][2] = {
		{"vecadd", "vecadd"}, {"sgemm", "sgemm"},    {"sgemm_cu", "sgemm"},
		{"q8dot", "q8dot"},   {"wmma", "wmma_gemm"},
	};

	for (size_t i = 0; i < 5; i++) {
		struct result r =
			shell(BAREWAVE " co --json tests/data/bench-kernels/%s.co", names[i][0]);
		json_t *o = json_loads(r.out, 0, NULL), *k;

		cr_assert_eq(r.status, 0);
		cr_assert(o, "%s", r.out);
		cr_assert_str_eq(json_string_value(json_object_get(o, "arch")), "gfx1151");
		k = json_array_get(json_object_get(o, "kernels"), 0);
		cr_assert_str_eq(json_string_value(json_object_get(k, "name")), names[i][1]);
		cr_assert_eq(json_integer_value(
				     json_object_get(json_object_get(k, "descriptor"), "wgp_mode")),
			     i == 2 ? 0 : 1);
		json_decref(o);
		free(r.out);
	}
	expect(0, "global_buffer", BAREWAVE " co tests/data/bench-kernels/vecadd.co vecadd");
	expect(0, "granulated_workitem_vgpr_count",
	       BAREWAVE " co -v tests/data/bench-kernels/vecadd.co");
	expect(0, "gfx1100", BAREWAVE " co tests/data/vecadd-gfx1100.co");
	refused("no kernel 'x'", BAREWAVE " co tests/data/bench-kernels/vecadd.co x 2>&1");
	refused("magic", BAREWAVE " co data/demo/README.md 2>&1");
	refused("No such file", BAREWAVE " co /no/such/file 2>&1");
	refused("directory", BAREWAVE " co tests/data 2>&1");
}

/* As clang-offload-bundler lays it out, unaligned entries included. */
static void write_bundle(const char *path, bool with_ours)
{
	static const char *const ids[] = {"host-x86_64-unknown-linux--",
					  "hipv4-amdgcn-amd-amdhsa--gfx1100",
					  "hipv4-amdgcn-amd-amdhsa--gfx1151"};
	static const char *const files[] = {NULL, "tests/data/vecadd-gfx1100.co",
					    "tests/data/bench-kernels/vecadd.co"};
	static char image[2][65536];
	uint64_t n = with_ours ? 3 : 2, at = 32, size[3] = {0};
	FILE *f = fopen(path, "wb");

	cr_assert(f);
	fwrite("__CLANG_OFFLOAD_BUNDLE__", 1, 24, f);
	fwrite(&n, 8, 1, f);
	for (unsigned i = 0; i < n; i++)
		at += 24 + strlen(ids[i]);
	for (unsigned i = 0; i < n; i++) {
		uint64_t len = strlen(ids[i]);
		FILE *in = files[i] ? fopen(files[i], "rb") : NULL;

		if (in) {
			size[i] = fread(image[i - 1], 1, sizeof(image[0]), in);
			fclose(in);
		}
		fwrite(&at, 8, 1, f);
		fwrite(&size[i], 8, 1, f);
		fwrite(&len, 8, 1, f);
		fwrite(ids[i], 1, len, f);
		at += size[i];
	}
	for (unsigned i = 1; i < n; i++)
		fwrite(image[i - 1], 1, size[i], f);
	fclose(f);
}

Test(tools, bundles)
{
	char path[300], other[300];

	snprintf(path, sizeof(path), "%s/both.hipfb", dir);
	snprintf(other, sizeof(other), "%s/other.hipfb", dir);
	write_bundle(path, true);
	write_bundle(other, false);
	expect(0, "amdgcn-amd-amdhsa--gfx1151, code object", BAREWAVE " co %s", path);
	expect(0, "gfx1100, code object", BAREWAVE " co --target gfx1100 %s", path);
	expect(0, "\"shown\": \"hipv4-amdgcn-amd-amdhsa--gfx1151\"", BAREWAVE " co --json %s",
	       path);
	expect(0, "gfx1100, code object", BAREWAVE " co %s", other);
	expect(1, "gfx1151; wanted an entry for gfx942", BAREWAVE " co --target gfx942 %s 2>&1",
	       path);
	expect(1, "wanted an offload bundle",
	       BAREWAVE " co --target gfx1151 tests/data/bench-kernels/vecadd.co 2>&1");
	expect(0, "workgroups",
	       BAREWAVE " launch --device=virt %s vecadd --grid 1 --block 256 --arg zero:1024 "
			"--arg zero:1024 --arg zero:1024 --arg u32:256 2>&1",
	       path);
	expect(1, "wanted an entry for gfx1151 or gfx11-generic",
	       BAREWAVE " launch --device=virt %s vecadd --grid 1 --block 256 2>&1", other);
}

#define VECADD_ARGS "--arg zero:1024 --arg zero:1024 --arg zero:1024 --arg u32:256"

Test(tools, bad_code_objects)
{
	char image[8192];
	FILE *f = fopen("tests/data/bench-kernels/vecadd.co", "rb");
	size_t n;

	cr_assert(f);
	n = fread(image, 1, sizeof(image), f);
	fclose(f);
	save("short.co", image, 700);
	save("empty.co", image, 0);
	refused("tests/data/vecadd-gfx1100.co: e_flags mach 0x41 (gfx1100), wanted 0x4a (gfx1151)",
		BAREWAVE " launch --device=virt tests/data/vecadd-gfx1100.co vecadd --grid 1"
			 " --block 256 " VECADD_ARGS " 2>&1");
	refused("short.co: ",
		BAREWAVE " launch --device=virt %s/short.co vecadd --grid 1"
			 " --block 256 " VECADD_ARGS " 2>&1",
		dir);
	refused("file size 0",
		BAREWAVE " launch --device=virt %s/empty.co vecadd --grid 1"
			 " --block 256 " VECADD_ARGS " 2>&1",
		dir);
	cr_assert_gt(n, 700u);
}

#define LAUNCH_VECADD BAREWAVE " launch --device=virt tests/data/bench-kernels/vecadd.co "

Test(tools, bad_launches)
{
	refused("no kernel 'add'", LAUNCH_VECADD "add --grid 1 --block 256 " VECADD_ARGS " 2>&1");
	refused("workgroup of 2048 work-items, wanted at most 1024",
		LAUNCH_VECADD "vecadd --grid 1 --block 1024,2 " VECADD_ARGS " 2>&1");
	refused("LDS 70000 bytes, wanted at most 65536",
		LAUNCH_VECADD "vecadd --grid 1 --block 256 --lds 70000 " VECADD_ARGS " 2>&1");
	refused("0 --arg given, wanted 4", LAUNCH_VECADD "vecadd --grid 1 --block 256 2>&1");
	refused("argument 3 is zero:4, wanted a number",
		LAUNCH_VECADD "vecadd --grid 1 --block 256 --arg zero:4 --arg zero:4 --arg zero:4"
			      " --arg zero:4 2>&1");
	refused("argument 0 is u64:0, wanted a buffer",
		LAUNCH_VECADD "vecadd --grid 1 --block 256 --arg u64:0 --arg zero:4 --arg zero:4"
			      " --arg u32:1 2>&1");
	refused("argument 3 is u64 of 8 bytes, wanted 4",
		LAUNCH_VECADD "vecadd --grid 1 --block 256 --arg zero:4 --arg zero:4 --arg zero:4"
			      " --arg u64:1 2>&1");
	refused("/no/such/file", LAUNCH_VECADD "vecadd --grid 1 --block 256 --arg in:/no/such/file"
					       " 2>&1");
}

/* ---- launches with known results ---- */

static void run_bench(int which)
{
	struct bench b;
	char scalars[128] = "";
	struct result r;
	json_t *o, *c;

	bench_make(which, &b);
	cr_assert_eq(bench_crc32(b.a.data, b.a.bytes), b.a.crc, "%s", b.a.name);
	cr_assert_eq(bench_crc32(b.b.data, b.b.bytes), b.b.crc, "%s", b.b.name);
	cr_assert_eq(bench_crc32(b.want.data, b.want.bytes), b.want.crc, "%s", b.want.name);
	save("a", b.a.data, b.a.bytes);
	save("b", b.b.data, b.b.bytes);
	save("want", b.want.data, b.want.bytes);
	for (unsigned i = 0; i < b.scalars; i++)
		snprintf(scalars + strlen(scalars), sizeof(scalars) - strlen(scalars),
			 " --arg u32:%u", b.scalar);
	r = shell(BAREWAVE
		  " launch --device=virt --json tests/data/bench-kernels/%s %s --grid %u,%u"
		  " --block %u --arg in:%s/a --arg in:%s/b --arg expect:%s/want%s",
		  b.file, b.kernel, b.grid[0], b.grid[1], b.block, dir, dir, dir, scalars);
	cr_assert_eq(r.status, 0, "%s: %s", b.file, r.out);
	o = json_loads(r.out, 0, NULL);
	cr_assert(o, "%s", r.out);
	c = json_array_get(json_object_get(o, "comparisons"), 0);
	cr_assert(json_is_true(json_object_get(c, "equal")), "%s", r.out);
	cr_assert_eq(json_integer_value(json_object_get(c, "bytes")), (json_int_t)b.want.bytes);
	cr_assert_eq(json_integer_value(json_object_get(o, "waves")),
		     (json_int_t)b.grid[0] * b.grid[1] * b.block / 32);
	json_decref(o);
	free(r.out);
	bench_free(&b);
}

Test(tools, launch_vecadd)
{
	run_bench(0);
}
Test(tools, launch_sgemm)
{
	run_bench(1);
}
Test(tools, launch_sgemm_cu_mode)
{
	run_bench(2);
}
Test(tools, launch_q8dot)
{
	run_bench(3);
}
Test(tools, launch_wmma)
{
	run_bench(4);
}

Test(tools, launch_reports_the_first_difference)
{
	float a[256], b[256], c[256];
	struct result r;
	float got[256];

	for (int i = 0; i < 256; i++) {
		a[i] = (float)i;
		b[i] = 1000;
		c[i] = a[i] + b[i];
	}
	save("a", a, sizeof(a));
	save("b", b, sizeof(b));
	save("good", c, sizeof(c));
	c[77] = -1;
	save("bad", c, sizeof(c));
	r = shell(LAUNCH_VECADD "vecadd --grid 1 --block 256 --arg in:%s/a --arg in:%s/b"
				" --arg expect:%s/bad --arg u32:256",
		  dir, dir, dir);
	cr_assert_eq(r.status, 1, "%s", r.out);
	/* 1077.0f is 0x4486a000, -1.0f is 0xbf800000: byte 309 is the first that differs */
	cr_assert(strstr(r.out, "at offset 309 (0xa0, wanted 0x00)"), "%s", r.out);
	free(r.out);
	/* the same through out: and --expect, and the bytes on disk */
	expect(0, "1024 bytes equal",
	       LAUNCH_VECADD "vecadd --items 256 --block 256 --arg in:%s/a --arg in:%s/b"
			     " --arg out:1K:%s/c --arg u32:256 --expect 2:%s/good",
	       dir, dir, dir, dir);
	cr_assert_eq(load("c", got, sizeof(got)), sizeof(got));
	c[77] = 1077;
	for (int i = 0; i < 256; i++)
		cr_assert_eq(got[i], c[i], "element %d", i);
}

Test(tools, launch_leaves_the_unwritten_marked)
{
	uint8_t got[64 * 4];

	/* n = 16 of 64: the rest keeps the byte no kernel wrote */
	expect(0, "workgroups",
	       LAUNCH_VECADD "vecadd --grid 1 --block 64 --arg fill:256:00"
			     " --arg zero:256 --arg out:256:%s/c --arg u32:16",
	       dir);
	cr_assert_eq(load("c", got, sizeof(got)), sizeof(got));
	for (int i = 0; i < 256; i++)
		cr_assert_eq(got[i], i < 64 ? 0 : 0xa5, "byte %d is 0x%02x", i, got[i]);
}

Test(tools, launch_relocates)
{
	static const int values[4] = {20, 8, 40, 0}; /* what table[i] points at in reloc.c */
	int got[32];

	for (int i = 0; i < 4; i++) {
		expect(0, "1 waves",
		       BAREWAVE " launch --device=virt tests/data/codeobj/reloc.co pick"
				" --grid 1 --block 32 --arg out:128:%s/o --arg u32:%d",
		       dir, i);
		cr_assert_eq(load("o", got, sizeof(got)), sizeof(got));
		for (int lane = 0; lane < 32; lane++)
			cr_assert_eq(got[lane], values[i] + lane, "table[%d] lane %d: %d", i, lane,
				     got[lane]);
	}
}

Test(tools, launch_fills_hidden_arguments)
{
	uint32_t w[32];
	uint16_t h[64];
	uint64_t q[3];

	expect(0, "waves",
	       BAREWAVE " launch --device=virt tests/data/codeobj/hidden.co hidden"
			" --items 70,9,3 --block 32,2,1 --arg out:128:%s/o",
	       dir);
	cr_assert_eq(load("o", w, sizeof(w)), sizeof(w));
	memcpy(h, w, sizeof(h));
	cr_assert_eq(w[0], 2u); /* complete workgroups */
	cr_assert_eq(w[1], 4u);
	cr_assert_eq(w[2], 3u);
	cr_assert_eq(h[6], 32);
	cr_assert_eq(h[7], 2);
	cr_assert_eq(h[8], 1);
	cr_assert_eq(h[9], 6);
	cr_assert_eq(h[10], 1);
	cr_assert_eq(h[11], 0);
	for (int i = 10; i < 16; i++)
		cr_assert_eq(w[i], 0u, "global offsets are 0");
	cr_assert_eq(h[32], 3, "grid dimensions");
	expect(0, "waves",
	       BAREWAVE
	       " launch --device=virt tests/data/codeobj/hidden.co queue --grid 1 --block 1"
	       " --arg out:24:%s/o",
	       dir);
	cr_assert_eq(load("o", q, sizeof(q)), sizeof(q));
	cr_assert_neq(q[0], 0u);
	cr_assert_eq(q[1], 1024u, "packets of the queue that hidden_queue_ptr points at");
}

/* 64 KiB of work on 4 KiB buffers. */
#define TOO_FAR                                                                                    \
	"vecadd --grid 64 --block 256 --arg zero:%s --arg zero:%s --arg zero:%s --arg u32:16384"

Test(tools, launch_names_a_faulting_buffer)
{
	static const char *const sizes[3][3] = {
		{"4K", "64K", "64K"}, {"64K", "4K", "64K"}, {"64K", "64K", "4K"}};

	for (int i = 0; i < 3; i++) {
		struct result r =
			shell(LAUNCH_VECADD TOO_FAR " 2>&1", sizes[i][0], sizes[i][1], sizes[i][2]);
		char where[64];

		snprintf(where, sizeof(where), "past the end of \"arg%d\" (0x1000 bytes", i);
		cr_assert_eq(r.status, 1, "%s", r.out);
		cr_assert(strstr(r.out, "vecadd: memory fault: "), "%s", r.out);
		cr_assert(strstr(r.out, i == 2 ? "write to" : "read of"), "%s", r.out);
		cr_assert(strstr(r.out, where), "no '%s' in: %s", where, r.out);
		free(r.out);
	}
}

/* One byte too few: found with the buffer end-flush, to the byte. */
Test(tools, launch_end_flush_finds_a_short_overrun)
{
	struct result r;

	/* 4,096 floats wanted; two fewer end in the middle of the last page but one */
	r = shell(LAUNCH_VECADD "vecadd --grid 16 --block 256 --arg zero:16376 --arg zero:16K"
				" --arg zero:16K --arg u32:4096 2>&1");
	cr_assert_eq(r.status, 0, "inside the page nobody notices: %s", r.out);
	free(r.out);
	r = shell(LAUNCH_VECADD "vecadd --grid 16 --block 256 --arg zero:16376 --arg zero:16K"
				" --arg zero:16K --arg u32:4096 --align arg0=8 --guard arg0=end"
				" 2>&1");
	cr_assert_eq(r.status, 1, "%s", r.out);
	cr_assert(strstr(r.out, "0x0 bytes past the end of \"arg0\""), "%s", r.out);
	free(r.out);
}

/* Every wave of 100 workgroups dies: the log has them all, the terminal one line of the device's
 * and the driver's own. Either names what happened, and the device the very instruction. */
Test(tools, launch_reports_what_waves_die_of)
{
	static const struct {
		uint32_t code[7];
		const char *device, *driver;
	} t[] = {
		{{0xbf800000, 0xbf900002}, "an abort (exception 1) at PC 0x", "wave aborted"},
		{{0xbf800000, 0xbf900007}, "a trap (exception 2) at PC 0x", "wave trap"},
		{{0xbf800000, 0xbfff0000},
		 "an illegal instruction (exception 4) at PC 0x",
		 "illegal instruction"},
		/* v_add_nc_u32 v0, s0, 2;  v_mov_b32 v1, s1;  v_mov_b32 v2, 1;
		 * global_atomic_add_u32 v[0:1], v2, off: askew in the arguments */
		{{0xd5250000, 0x00010400, 0x7e020201, 0x7e040281, 0xdcd60000, 0x007c0200},
		 "an aperture violation (exception 6) at PC 0x",
		 "aperture violation"},
	};

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct result r, log;
		char *line;
		long n;

		save_patched("bad.co", t[i].code, sizeof(t[i].code));
		r = shell("VGPU_LOG=%s/log%zu " BAREWAVE " launch --device=virt %s/bad.co vecadd"
			  " --grid 100 --block 32 --arg zero:64K --arg zero:64K --arg zero:64K"
			  " --arg u32:3200 2>&1",
			  dir, i, dir);
		cr_assert_eq(r.status, 1, "%s", r.out);
		cr_assert_eq(lines(r.out), 2u, "%s", r.out);
		cr_assert(strstr(r.out, t[i].device), "no '%s' in: %s", t[i].device, r.out);
		cr_assert(strstr(r.out, t[i].driver), "no '%s' in: %s", t[i].driver, r.out);
		/* the second instruction, or the fourth */
		line = strstr(r.out, "(kernel 0x");
		cr_assert(line && strstr(line, i == 3 ? " +16): global_atomic_add_u32" : " +4): "),
			  "%s", r.out);
		/* the driver takes the queue away as soon as it knows: not all come so far */
		log = shell("grep -c 'trap handler reports' %s/log%zu", dir, i);
		n = strtol(log.out, NULL, 10);
		cr_assert(n >= 1 && n <= 100, "%s", log.out);
		free(log.out);
		log = shell("sed -n 's/.*queue 0: \\([0-9]*\\) exceptions in all/\\1/p' %s/log%zu",
			    dir, i);
		cr_assert(strtol(log.out, NULL, 10) <= n, "%s of %ld", log.out, n);
		free(log.out);
		free(r.out);
	}
}

Test(tools, launch_in_an_arena)
{
	struct result r;

	/* side by side, 256 bytes apart: nobody notices that 4,096 floats do not fit in 16,376 */
	expect(0, "waves",
	       LAUNCH_VECADD "vecadd --grid 16 --block 256 --arg zero:16K --arg zero:16K"
			     " --arg zero:16368 --arg u32:4096 --arena 1M 2>&1");
	/* with red zones the write past the end is found, to the byte */
	r = shell(LAUNCH_VECADD "vecadd --grid 16 --block 256 --arg zero:16K --arg zero:16K"
				" --arg zero:16368 --arg u32:4096 --arena 1M --redzone 'arg*=64'"
				" --align 'arg2=4096' 2>&1");
	cr_assert_eq(r.status, 1, "%s", r.out);
	cr_assert(strstr(r.out, "red zone of \"arg2\" (16368 bytes at 0x") &&
			  strstr(r.out,
				 "16 bytes were written, the first 16368 bytes from its start"),
		  "%s", r.out);
	free(r.out);
	expect(1,
	       "argument 2 (zero:16K): 16384 bytes, aligned to 256, with red zones of 0, in the "
	       "arena 0x",
	       LAUNCH_VECADD "vecadd --grid 16 --block 256 --arg zero:16K --arg zero:16K"
			     " --arg zero:16K --arg u32:4096 --arena 40K 2>&1");
}

/* Red zones need no arena: the argument's own buffer has them. */
Test(tools, launch_red_zones)
{
	refused("red zone of \"arg2\" (16368 bytes at 0x",
		LAUNCH_VECADD "vecadd --grid 16 --block 256 --arg zero:16K --arg zero:16K"
			      " --arg zero:16368 --arg u32:4096 --redzone 128 2>&1");
	expect(0, "waves",
	       LAUNCH_VECADD "vecadd --grid 16 --block 256 --arg zero:16K --arg zero:16K"
			     " --arg zero:16K --arg u32:4096 --redzone 128 --align 64K --poison 1"
			     " 2>&1");
}

/* The least alignment for everything, and every buffer end-flush: what the hardware and the code objects
 * need stays, and the argument that is too short is found. */
Test(tools, launch_end_flush_everything)
{
	expect(0, "waves",
	       LAUNCH_VECADD "vecadd --grid 16 --block 256 --arg zero:16K --arg zero:16K"
			     " --arg zero:16K --arg u32:4096 --guard end --align 4 2>&1");
	expect(1, "0x0 bytes past the end of \"arg1\"",
	       LAUNCH_VECADD "vecadd --grid 16 --block 256 --arg zero:16K --arg zero:16380"
			     " --arg zero:16K --arg u32:4096 --guard end --align 4 2>&1");
}

#define VECADD_16K                                                                                 \
	"vecadd --grid 16 --block 256 --arg zero:16K --arg zero:16K --arg zero:16K --arg u32:4096"

/* A rule that changes nothing is said; one that cannot be followed is refused with its window. */
Test(tools, launch_rules_without_effect)
{
	expect(0, "--align 'arg9' changes nothing: no buffer has that name",
	       LAUNCH_VECADD VECADD_16K " --align arg9=64K 2>&1");
	expect(0, "--place 'arg0' changes nothing: what has that name lies inside a buffer",
	       LAUNCH_VECADD VECADD_16K " --arena 1M --place arg0=vram 2>&1");
	expect(0, "0",
	       LAUNCH_VECADD VECADD_16K " --arena 1M --guard args=end --align arg0=64K"
					" --place 'arg1=random' 2>&1 | grep -c 'changes nothing'"
					"; true");
	refused("at 0x212345678000 in the window 0x200000000000",
		LAUNCH_VECADD VECADD_16K " --place arg0=at:0x212345678000 2>&1");
	/* What is inside an arena is in the ledger. */
	expect(0, "resident twice: 0 of 3 things",
	       LAUNCH_VECADD VECADD_16K " --arena 1M --ledger %s/l >/dev/null && " BAREWAVE
					" mem --ledger %s/l",
	       dir, dir);
}

Test(tools, no_isa_no_result)
{
	struct result r =
		shell(BAREWAVE " vgpu --set isa=0 -- " BAREWAVE
			       " launch tests/data/bench-kernels/vecadd.co vecadd --grid 1"
			       " --block 256 " VECADD_ARGS " 2>&1");

	cr_assert_eq(r.status, 1, "a dispatch without an instruction set must fail: %s", r.out);
	free(r.out);
}
