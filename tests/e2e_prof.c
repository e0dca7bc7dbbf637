/* barewave prof as a person runs it: known programs, known counts. */
#include <criterion/criterion.h>

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/shell.h"

TestSuite(prof, .init = shell_setup, .fini = shell_teardown, .timeout = 600);

#define KERNELS "tests/data/bench-kernels/"
#define VECADD                                                                                     \
	BAREWAVE " launch --device=virt " KERNELS "vecadd.co vecadd --grid 16 --block 256"         \
		 " --arg zero:16384 --arg zero:16384 --arg zero:16384 --arg u32:4096"
#define MATRICES                                                                                   \
	" --arg zero:262144 --arg zero:262144 --arg zero:262144"                                   \
	" --arg u32:256 --arg u32:256 --arg u32:256"

/* The report of the one process in r, which is freed. */
static json_t *report(struct result r)
{
	json_error_t e;
	json_t *all, *one;

	cr_assert_eq(r.status, 0, "status %d: %s", r.status, r.out);
	all = json_loads(r.out, 0, &e);
	cr_assert(all, "%s: %.300s", e.text, r.out);
	cr_assert_eq(json_array_size(json_object_get(all, "processes")), 1);
	one = json_incref(json_array_get(json_object_get(all, "processes"), 0));
	json_decref(all);
	free(r.out);
	return one;
}

static json_t *at(json_t *o, const char *list, size_t i)
{
	json_t *v = json_array_get(json_object_get(o, list), i);

	cr_assert(v, "no %s[%zu]", list, i);
	return v;
}

static long long num(json_t *o, const char *group, const char *name)
{
	json_t *g = group ? json_object_get(o, group) : o, *v = json_object_get(g, name);

	cr_assert(json_is_integer(v), "no number %s.%s", group ? group : "", name);
	return json_integer_value(v);
}

static const char *name_of(json_t *o)
{
	const char *s = json_string_value(json_object_get(o, "name"));

	return s ? s : "(none)";
}

Test(prof, vecadd_by_hand)
{
	json_t *p = report(shell(BAREWAVE " prof --json --code " KERNELS "vecadd.co -- " VECADD
					  " 2>/dev/null"));
	json_t *k = at(p, "kernels", 0), *d = at(p, "dispatches", 0);
	unsigned whole = 0;

	cr_expect_eq(num(p, NULL, "dispatches_in_all"), 1);
	cr_expect_str_eq(name_of(k), "vecadd");
	cr_expect_eq(num(k, NULL, "waves"), 128);
	cr_expect_eq(num(k, NULL, "workgroups"), 16);
	/* a and b are read, c is written: four bytes per item, two lines of 64 per wave each */
	cr_expect_eq(num(k, "global", "bytes_read"), 2 * 16384);
	cr_expect_eq(num(k, "global", "bytes_written"), 16384);
	cr_expect_eq(num(k, "instructions", "vmem_load"), 2 * 128);
	cr_expect_eq(num(k, "instructions", "vmem_store"), 128);
	cr_expect_eq(num(k, "global", "distinct_lines_written"), 16384 / 128);
	cr_expect_eq(num(k, "global", "atomics"), 0);
	cr_expect_eq(num(k, "lds", "bank_clocks"), 0);
	cr_expect_eq(num(k, NULL, "barriers"), 0);
	cr_expect_eq(num(k, NULL, "vgprs"), 8);
	cr_expect(json_is_true(json_object_get(k, "wgp_mode")));
	cr_expect_eq(num(k, "occupancy", "waves_per_simd"), 16);
	cr_expect_eq(num(d, NULL, "wave_instructions"), num(k, NULL, "wave_instructions"));
	cr_expect(json_is_true(json_object_get(d, "finished")));
	/* of its buffers exactly three are touched whole: two read, one written */
	for (size_t i = 0; i < json_array_size(json_object_get(p, "buffers")); i++) {
		json_t *b = at(p, "buffers", i);

		whole += num(b, NULL, "bytes_read") == 16384 && !num(b, NULL, "bytes_written");
		whole += 16 *
			 (num(b, NULL, "bytes_written") == 16384 && !num(b, NULL, "bytes_read"));
	}
	cr_expect_eq(whole, 2 + 16, "%u", whole);
	json_decref(p);
}

Test(prof, sgemm_barriers_and_lds)
{
	json_t *p = report(shell(BAREWAVE " prof --json --code " KERNELS "sgemm_cu.co -- " BAREWAVE
					  " launch --device=virt " KERNELS "sgemm_cu.co sgemm"
					  " --grid 4,4 --block 256" MATRICES " 2>/dev/null"));
	json_t *k = at(p, "kernels", 0);
	const long long waves = 4 * 4 * 8, steps = 256 / 16;

	cr_expect_str_eq(name_of(k), "sgemm");
	cr_expect_eq(num(k, NULL, "waves"), waves);
	cr_expect_eq(num(k, NULL, "barriers"), waves * steps * 2);
	/* every group stages a 64 x 16 and a 16 x 64 tile of floats per step, from memory to LDS */
	cr_expect_eq(num(k, "lds", "bytes_written"), 16 * steps * 2 * 64 * 16 * 4);
	cr_expect_eq(num(k, "global", "bytes_read"), 16 * steps * 2 * 64 * 16 * 4);
	cr_expect_eq(num(k, "global", "bytes_written"), 256 * 256 * 4);
	/* each of the two inputs is 256 KiB: 2048 lines; the kernel arguments are one more */
	cr_expect_eq(num(k, "global", "distinct_lines_read"), 2 * 2048 + 1);
	cr_expect(!json_is_true(json_object_get(k, "wgp_mode")));
	json_decref(p);
}

Test(prof, wmma_counts_matrix_products)
{
	json_t *p = report(
		shell(BAREWAVE " prof --json -- " BAREWAVE " launch --device=virt " KERNELS
			       "wmma.co wmma_gemm --grid 4,4 --block 128" MATRICES " 2>/dev/null"));
	json_t *k = at(p, "kernels", 0);

	cr_expect(json_is_null(json_object_get(k, "name")), "a stranger's kernel has no name");
	cr_expect_eq(num(k, "instructions", "wmma"), 256ll * 256 * 256 / (16 * 16 * 16));
	cr_expect_eq(num(k, NULL, "waves"), 64);
	json_decref(p);
}

Test(prof, counts_do_not_depend_on_the_run)
{
	json_t *a = report(shell(BAREWAVE " prof --json -- " VECADD " 2>/dev/null"));
	json_t *b = report(
		shell(BAREWAVE " prof --json -- env VGPU_SET=workers=1 " VECADD " 2>/dev/null"));
	json_t *x = at(a, "kernels", 0), *y = at(b, "kernels", 0);

	/* addresses may differ, counts may not */
	cr_expect(
		json_equal(json_object_get(x, "instructions"), json_object_get(y, "instructions")));
	cr_expect(json_equal(json_object_get(x, "global"), json_object_get(y, "global")));
	cr_expect(json_equal(json_object_get(x, "waits"), json_object_get(y, "waits")));
	json_decref(a);
	json_decref(b);
}

Test(prof, own_kernels_and_buffers_have_names)
{
	static const char *const kernels[] = {"matmul_q4_k", "rmsnorm", "attn_h64", "kv_store"};
	static const char *const buffers[] = {"weights", "kv", "kernargs"};
	json_t *p =
		report(shell(BAREWAVE " prof --json -- " BAREWAVE " run --device=virt -m "
				      "data/demo/story-4m-q4_k_m.gguf -n 2 -p Once 2>/dev/null"));
	json_t *o;
	size_t j;

	for (size_t i = 0; i < sizeof(kernels) / sizeof(*kernels); i++) {
		bool found = false;

		json_array_foreach(json_object_get(p, "kernels"), j, o)
		{
			found |= !strcmp(name_of(o), kernels[i]);
		}
		cr_expect(found, "no kernel %s", kernels[i]);
	}
	for (size_t i = 0; i < sizeof(buffers) / sizeof(*buffers); i++) {
		bool found = false;

		json_array_foreach(json_object_get(p, "buffers"), j, o)
		{
			found |= !strcmp(name_of(o), buffers[i]);
		}
		cr_expect(found, "no buffer %s", buffers[i]);
	}
	json_array_foreach(json_object_get(p, "buffers"), j, o)
	{
		if (strcmp(name_of(o), "weights"))
			continue;
		cr_expect(json_is_true(json_object_get(o, "never_written")));
		cr_expect(!json_is_true(json_object_get(o, "never_read")));
		/* every weight is read, but for the last line's padding */
		cr_expect_geq(num(o, NULL, "distinct_bytes_read") + 4096, num(o, NULL, "bytes"));
	}
	json_decref(p);
}

Test(prof, tables)
{
	struct result r = shell(BAREWAVE " prof --dispatches --code " KERNELS "vecadd.co -- " VECADD
					 " 2>/dev/null");

	cr_assert_eq(r.status, 0);
	cr_expect(strstr(r.out, "\nvecadd\n"), "%s", r.out);
	cr_expect(strstr(r.out, "1 dispatches, 16 workgroups of 256 items, 128 waves of 32"), "%s",
		  r.out);
	cr_expect(strstr(r.out, "read 32.0 KiB, written 16.0 KiB"), "%s", r.out);
	cr_expect(strstr(r.out, "gfx1151 estimate"), "%s", r.out);
	cr_expect(strstr(r.out, "never read by the device:"), "%s", r.out);
	cr_expect(strstr(r.out, "dispatches (1 of 1)"), "%s", r.out);
	cr_expect(strstr(r.out, "fidelity of process"), "%s", r.out);
	free(r.out);
}

Test(prof, fidelity_alone_and_from_vgpu)
{
	struct result r = shell(BAREWAVE " prof --fidelity -- " VECADD " 2>/dev/null");

	cr_assert_eq(r.status, 0);
	cr_expect(strstr(r.out, "not executed           0\n"), "%s", r.out);
	cr_expect(strstr(r.out, "within a tolerance     0\n"), "%s", r.out);
	cr_expect(!strstr(r.out, "occupancy"), "%s", r.out);
	free(r.out);
	/* there stdout is the program's */
	r = shell(BAREWAVE " vgpu --fidelity -- " VECADD " 2>/dev/null");
	cr_assert_eq(r.status, 0);
	cr_expect(!strstr(r.out, "fidelity of process"), "%s", r.out);
	free(r.out);
	expect(0, "fidelity of process", BAREWAVE " vgpu --fidelity -- " VECADD " 2>&1 >/dev/null");
}

Test(prof, what_the_device_cannot_do_is_named)
{
	/* vecadd with its first instruction replaced by one that has no meaning without a graphics
	 * pipeline: image_load v0, v0, s[0:7] */
	static const uint32_t image_load[] = {0xf0000f00, 0x00000000};
	char path[256];
	struct result r;
	uint8_t *co = malloc(1 << 16);
	FILE *f = fopen(KERNELS "vecadd.co", "rb");
	size_t n;

	cr_assert(f);
	n = fread(co, 1, 1 << 16, f);
	fclose(f);
	/* .text is at file offset 0x600 (entry 5632 = 0x1600) */
	memcpy(co + 0x600, image_load, sizeof(image_load));
	save("image.co", co, n);
	free(co);
	snprintf(path, sizeof(path), "%s/image.co", dir);
	r = shell(BAREWAVE " prof --fidelity -- " BAREWAVE
			   " launch --device=virt %s vecadd --grid 1 --block 32 --arg zero:128"
			   " --arg zero:128 --arg zero:128 --arg u32:32 2>/dev/null",
		  path);
	cr_expect_eq(r.status, 1, "%d", r.status);
	cr_expect(strstr(r.out, "not executed           1\n    image_load"), "%s", r.out);
	free(r.out);
}

Test(prof, exit_status_and_refusals)
{
	refused("has not used the device", BAREWAVE " prof -- true 2>&1");
	expect(7, "", BAREWAVE " prof -- sh -c 'exit 7' 2>&1");
	expect(127, "/nonexistent", BAREWAVE " prof -- /nonexistent 2>&1");
	refused("/nonexistent.co", BAREWAVE " prof --code /nonexistent.co -- true 2>&1");
	expect(2, "no program", BAREWAVE " prof 2>&1");
	expect(2, "nonsense", BAREWAVE " prof --nonsense -- true 2>&1");
	expect(0, "Usage: barewave prof", BAREWAVE " prof --help");
}
