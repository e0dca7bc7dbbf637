/* Bounded residency: weights that take turns in one buffer give the same results, in the bytes that were
 * planned, also when the file they come from goes wrong in between. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/exec.h"
#include "tests/virt_model.h"

#define STEPS 4

/* What a load has had by the time the engine is there. */
static uint64_t gone_after_load(const struct plan *p)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < p->n_rows; i++)
		if (!strcmp(p->rows[i].owner, "staging") || !strncmp(p->rows[i].owner, "sdma ", 5))
			bytes += p->rows[i].granted;
	return bytes;
}

/* A prompt of 20 in steps of 16 and 4, then single tokens: logits of each of STEPS + 2 steps. */
static float *run(const struct engine_opts *o, uint64_t *total)
{
	const size_t vocab = model->hp.n_vocab;
	float *out = malloc((STEPS + 2) * vocab * sizeof(float));
	int32_t ids[20 + STEPS];
	const float *logits;
	struct engine *e;
	uint64_t entries, live;
	uint32_t pos = 0;

	for (int i = 0; i < 20 + STEPS; i++)
		ids[i] = 37 * i % (int32_t)vocab;
	cr_assert_eq(engine_create(&dev, model, o, &e, err, sizeof(err)), 0, "%s", err);
	entries = memory_ledger(dev.memory, 0, NULL, 0);
	live = memory_live(dev.memory);
	*total = engine_plan(e)->total;
	cr_expect_eq(live + gone_after_load(engine_plan(e)), *total, "ledger and plan differ");
	for (unsigned s = 0; s < STEPS + 2; s++) {
		uint32_t n = s == 0 ? 16 : s == 1 ? 4 : 1;

		cr_assert_eq(engine_step(e, ids + pos, n, pos, &logits, err, sizeof(err)), 0, "%s",
			     err);
		memcpy(out + s * vocab, logits, vocab * sizeof(float));
		pos += n;
	}
	cr_expect_eq(memory_ledger(dev.memory, 0, NULL, 0), entries, "a step entered something");
	engine_destroy(e);
	cr_assert_eq(memory_limit(dev.memory, NULL, 0), 0);
	return out;
}

Test(residency, any_number_of_blocks_in_turn, .timeout = 600)
{
	uint64_t total, before = 0;
	size_t bytes;
	float *want;

	open_all(DEMO);
	bytes = (STEPS + 2) * model->hp.n_vocab * sizeof(float);
	want = run(&(struct engine_opts){.n_ctx = 32, .strict = true}, &total);
	for (uint32_t n = 1; n <= model->hp.n_layer; n++) {
		struct engine_opts o = {.n_ctx = 32, .strict = true, .refilled = n};
		float *got = run(&o, &total);

		cr_expect_eq(memcmp(got, want, bytes), 0, "%u blocks in turn", n);
		free(got);
		cr_expect(n == 1 || total < before, "%u blocks in turn save nothing", n);
		before = total;
	}
	free(want);
	close_all();
}

Test(residency, any_way_from_the_file, .timeout = 600)
{
	uint64_t total;
	size_t bytes;
	float *want;

	open_all(DEMO);
	bytes = (STEPS + 2) * model->hp.n_vocab * sizeof(float);
	want = run(&(struct engine_opts){.n_ctx = 32}, &total);
	for (int source = 0; source < 3; source++) {
		for (int copy = 0; copy < 3; copy++) {
			struct engine_opts o = {.n_ctx = 32, .strict = true, .refilled = 4};
			float *got;

			o.load.source = (enum load_source)source;
			o.load.copy = (enum load_copy)copy;
			o.load.staging = LOAD_STAGING_MIN;
			got = run(&o, &total);
			cr_expect_eq(memcmp(got, want, bytes), 0, "source %d, copy %d", source,
				     copy);
			free(got);
		}
	}
	free(want);
	close_all();
}

/* The file is needed as long as the engine lives. Where it becomes shorter the step says so, however it
 * is read; nothing else breaks. */
Test(residency, a_file_that_becomes_shorter, .timeout = 300)
{
	for (int source = 0; source < 2; source++) {
		char path[] = "/tmp/barewave-turn-XXXXXX", cmd[128];
		struct engine_opts o = {.n_ctx = 32, .refilled = 5};
		const int32_t ids[2] = {1, 2};
		const float *logits;
		struct engine *e;
		struct stat st;

		o.load.source = source ? LOAD_PREAD : LOAD_MMAP;
		cr_assert(mkstemp(path) >= 0);
		snprintf(cmd, sizeof(cmd), "env -u LD_PRELOAD cp " DEMO " %s", path);
		cr_assert_eq(system(cmd), 0);
		cr_assert_eq(stat(path, &st), 0);
		open_all(path);
		cr_assert_eq(engine_create(&dev, model, &o, &e, err, sizeof(err)), 0, "%s", err);
		cr_assert_eq(engine_step(e, ids, 1, 0, &logits, err, sizeof(err)), 0, "%s", err);
		cr_assert_eq(truncate(path, st.st_size / 2), 0);
		cr_expect_eq(engine_step(e, ids + 1, 1, 1, &logits, err, sizeof(err)), -ENODATA);
		cr_expect(strstr(err, "the file ends there"), "%s", err);
		cr_expect_eq(engine_step(e, ids + 1, 1, 1, &logits, err, sizeof(err)), -EIO);
		engine_destroy(e);
		close_all();
		unlink(path);
	}
}

/* A file that is replaced stays in use where it is mapped; where it is opened anew, what has its name by
 * then is not taken for it. */
Test(residency, a_file_that_is_replaced, .timeout = 300)
{
	for (int source = 0; source < 2; source++) {
		char path[] = "/tmp/barewave-turn-XXXXXX", cmd[256];
		struct engine_opts o = {.n_ctx = 32, .refilled = 5};
		const int32_t ids[2] = {1, 2};
		const float *logits;
		struct engine *e;
		int fd = mkstemp(path);

		o.load.source = source ? LOAD_PREAD : LOAD_MMAP;
		cr_assert(fd >= 0);
		close(fd);
		snprintf(cmd, sizeof(cmd), "env -u LD_PRELOAD cp " DEMO " %s", path);
		cr_assert_eq(system(cmd), 0);
		open_all(path);
		cr_assert_eq(engine_create(&dev, model, &o, &e, err, sizeof(err)), 0, "%s", err);
		cr_assert_eq(engine_step(e, ids, 1, 0, &logits, err, sizeof(err)), 0, "%s", err);
		snprintf(cmd, sizeof(cmd),
			 "env -u LD_PRELOAD sh -c 'cp " DEMO " %s.new && mv %s.new %s'", path, path,
			 path);
		cr_assert_eq(system(cmd), 0);
		cr_expect_eq(engine_step(e, ids + 1, 1, 1, &logits, err, sizeof(err)),
			     source ? -ESTALE : 0, "%s", err);
		cr_expect(!source || strstr(err, "wanted the file that was opened"), "%s", err);
		engine_destroy(e);
		close_all();
		unlink(path);
	}
}
