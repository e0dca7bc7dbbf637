/* Opening and closing the device in a test, each a process of its own. */
#ifndef TESTS_VIRT_DEVICE_H
#define TESTS_VIRT_DEVICE_H

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

#include "queues/device.h"
#include "queues/internal.h"

/* For what the device is to do, ns: rather a test's time-out than a limit that a busy machine meets. */
#define PATIENCE 100000000000u

static struct bw_device dev;
static struct queue_fault fault;

static void open_device(void)
{
	char why[512] = "";

	cr_assert_eq(bw_device_open(NULL, &dev, why, sizeof(why)), 0, "%s", why);
}

/* Queues the kernel still lists for this process; -1 when it has no such list. */
static int kernel_queues(void)
{
	char path[128];
	struct dirent *e;
	int n = 0;
	DIR *d;

	snprintf(path, sizeof(path), "/sys/class/kfd/kfd/proc/%d/queues", getpid());
	d = opendir(path);
	if (!d)
		return -1;
	while ((e = readdir(d)))
		n += e->d_name[0] != '.';
	closedir(d);
	return n;
}

static void close_device(void)
{
	struct bw_teardown left;

	cr_assert_eq(bw_device_close(&dev, &left), 0, "%s", kfd_reason());
	cr_expect_eq(left.bos, 0);
	cr_expect_eq(left.bytes, 0);
	cr_expect_eq(left.queues, 0);
	cr_expect(kernel_queues() <= 0);
}

#endif
