/* A model and the device it is for, opened and closed in a test, each a process of its own. */
#ifndef TESTS_VIRT_MODEL_H
#define TESTS_VIRT_MODEL_H

#include <criterion/criterion.h>

#include "engine/gguf.h"
#include "engine/model.h"
#include "queues/device.h"

#define DEMO "data/demo/story-4m-q4_k_m.gguf"

static char err[512];
static struct bw_device dev;
static struct gguf *gguf;
static struct model *model;

static void open_all(const char *path)
{
	cr_assert_eq(gguf_open(path, &gguf, err, sizeof(err)), 0, "%s", err);
	cr_assert_eq(model_load(gguf, &model, err, sizeof(err)), 0, "%s", err);
	cr_assert_eq(bw_device_open(NULL, &dev, err, sizeof(err)), 0, "%s", err);
}

static void close_all(void)
{
	struct bw_teardown t;

	cr_assert_eq(bw_device_close(&dev, &t), 0);
	cr_assert(!t.bos && !t.bytes && !t.queues);
	model_free(model);
	gguf_close(gguf);
}

#endif
