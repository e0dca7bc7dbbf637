/* Loading: every way from the file to the device gives the same bytes, in bounded memory; a device that
 * hangs loses its queue before its buffers. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "codeobj/codeobj.h"
#include "engine/exec.h"
#include "kernels/kernels.h"
#include "tests/virt_model.h"

static const char *const sources[] = {"mmap", "pread", "direct"};
static const char *const copies[] = {"host", "sdma", "kernel"};

Test(load, every_way_gives_the_same_logits, .timeout = 600)
{
	const int32_t ids[5] = {1, 2, 3, 4, 5};
	float *want = NULL;
	uint64_t last = 0;

	open_all(DEMO);
	for (int s = 0; s < 3; s++) {
		for (int c = 0; c < 3; c++) {
			struct engine_opts o = {.n_ctx = 16, .strict = true};
			const float *logits;
			struct engine *e;
			size_t n = model->hp.n_vocab * sizeof(float);

			o.load.source = (enum load_source)s;
			o.load.copy = (enum load_copy)c;
			/* Small enough that every matrix is cut into parts. */
			o.load.staging = LOAD_STAGING_MIN;
			cr_assert_eq(engine_create(&dev, model, &o, &e, err, sizeof(err)), 0,
				     "%s %s: %s", sources[s], copies[c], err);
			cr_assert_eq(engine_step(e, ids, 5, 0, &logits, err, sizeof(err)), 0,
				     "%s %s: %s", sources[s], copies[c], err);
			if (!want) {
				want = malloc(n);
				memcpy(want, logits, n);
			}
			cr_expect_eq(memcmp(want, logits, n), 0, "%s %s differs", sources[s],
				     copies[c]);
			engine_destroy(e);
			/* Each leaves what it found: limits are the last engine's, so lift them. */
			cr_assert_eq(memory_limit(dev.memory, NULL, 0), 0);
			if (last)
				cr_expect_eq(memory_live(dev.memory), last);
			last = memory_live(dev.memory);
		}
	}
	free(want);
	close_all();
}

static uint64_t total_seen, calls;

static void progress(void *ctx, uint64_t done, uint64_t total)
{
	uint64_t *last = ctx;

	cr_assert(done > *last && done <= total);
	*last = done;
	total_seen = total;
	calls++;
}

Test(load, progress_ends_at_the_total_and_staging_is_bounded)
{
	struct engine_opts o = {.n_ctx = 16};
	struct engine *e;
	uint64_t last = 0;

	open_all(DEMO);
	o.load = (struct load_opts){.source = LOAD_PREAD,
				    .progress = progress,
				    .ctx = &last,
				    .staging = LOAD_STAGING_MIN};
	cr_assert_eq(engine_create(&dev, model, &o, &e, err, sizeof(err)), 0, "%s", err);
	cr_expect_eq(last, total_seen);
	cr_expect_gt(calls, 4);
	engine_destroy(e);
	cr_expect(load_host_bytes(&o.load) <= LOAD_STAGING_MIN + 16384);
	o.load.copy = LOAD_SDMA;
	cr_expect(load_host_bytes(&o.load) + load_staging_bytes(&o.load) <=
		  LOAD_STAGING_MIN + 32768);
	o.load.staging = LOAD_STAGING_MAX + 1;
	cr_expect_eq(engine_create(&dev, model, &o, &e, err, sizeof(err)), -EINVAL);
	cr_expect(strstr(err, "staging of 67108865 bytes"), "%s", err);
	close_all();
}

Test(load, a_model_that_is_no_file_is_mapped_or_refused)
{
	struct engine_opts o = {.n_ctx = 16, .load = {.source = LOAD_PREAD}};
	struct gguf *memory;
	struct engine *e;
	void *image;

	open_all(DEMO);
	image = mmap(NULL, gguf->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(image, gguf->base, gguf->size);
	model_free(model);
	cr_assert_eq(gguf_parse(image, gguf->size, "image", &memory, err, sizeof(err)), 0);
	cr_assert_eq(model_load(memory, &model, err, sizeof(err)), 0);
	cr_expect_eq(engine_create(&dev, model, &o, &e, err, sizeof(err)), -EINVAL);
	cr_expect(strstr(err, "only mmap can load it"), "%s", err);
	cr_assert_not_null(dev.queue, "nothing was under way");
	o.load.source = LOAD_MMAP;
	cr_assert_eq(engine_create(&dev, model, &o, &e, err, sizeof(err)), 0, "%s", err);
	engine_destroy(e);
	close_all();
}

/* ---- a device that hangs ---- */

static void write_all(const char *dir, const char *patched, const char *kernel, uint32_t word)
{
	for (const struct kernels_embedded *k = kernels_embedded; k->name; k++) {
		size_t n = (size_t)((const char *)k->end - (const char *)k->begin);
		char *copy = malloc(n), path[256];
		FILE *f;

		memcpy(copy, k->begin, n);
		if (!strcmp(k->name, patched)) {
			struct codeobj *co;
			const struct co_kernel *ck;

			cr_assert_eq(co_parse(copy, n, &co, err, sizeof(err)), 0, "%s", err);
			ck = co_find(co, kernel);
			for (uint32_t i = 0; i < co->n_segments; i++) {
				const struct co_segment *s = &co->segments[i];

				if (ck->entry_vaddr >= s->vaddr &&
				    ck->entry_vaddr < s->vaddr + s->filesz)
					memcpy(copy + s->offset + (ck->entry_vaddr - s->vaddr),
					       &word, 4);
			}
			co_free(co);
		}
		snprintf(path, sizeof(path), "%s/%s.co", dir, k->name);
		f = fopen(path, "wb");
		cr_assert(f);
		cr_assert_eq(fwrite(copy, 1, n, f), n);
		fclose(f);
		free(copy);
	}
}

#define S_BRANCH_SELF 0xbfa0ffffu /* s_branch -1 */

Test(load, a_step_that_never_ends_loses_its_queue_before_its_buffers, .timeout = 300)
{
	char dir[] = "/tmp/barewave-hang-XXXXXX", cmd[128];
	struct engine_opts o = {.n_ctx = 16, .timeout_ns = 5000000000};
	const int32_t id = 1;
	const float *logits;
	struct engine *e;

	cr_assert(mkdtemp(dir));
	write_all(dir, "finish", "finish", S_BRANCH_SELF);
	o.kernels_dir = dir;
	open_all(DEMO);
	cr_assert_eq(engine_create(&dev, model, &o, &e, err, sizeof(err)), 0, "%s", err);
	cr_expect_eq(engine_step(e, &id, 1, 0, &logits, err, sizeof(err)), -ETIMEDOUT);
	cr_expect(strstr(err, "did not finish"), "%s", err);
	engine_destroy(e);
	cr_expect_null(dev.queue, "buffers were freed under a running queue");
	cr_expect_eq(memory_live_count(dev.memory), 0);
	close_all();
	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	cr_assert_eq(system(cmd), 0);
}
