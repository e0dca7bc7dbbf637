/* The policies of a shared device's daemon, without sockets: who is moved out for whom, whose turn
 * it is on the hardware, and what is given back. Time and messages are this test's. */
#include <criterion/criterion.h>

#include "../tools/vgpud/vgpud.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MB (1ull << 20)
#define MS 1000000ull

static struct share_page the_page;
struct share_page *page = &the_page;
struct client *clients;
struct vgpud_totals totals;

static uint64_t now; /* ns */
static struct {
	struct client *to;
	enum share_op op;
} told[64];
static unsigned n_told;
static struct share_msg answered;
static unsigned n_answered;

uint64_t now_ns(void)
{
	return now;
}

uint64_t real_ns(void)
{
	return now;
}

void tell(struct client *c, enum share_op op, const uint64_t a[2], const void *data, size_t len)
{
	(void)a;
	(void)data;
	(void)len;
	if (n_told < 64) {
		told[n_told].to = c;
		told[n_told++].op = op;
	}
}

void answer(int sock, struct share_msg *m, const void *data, size_t len)
{
	(void)sock;
	(void)data;
	(void)len;
	answered = *m;
	n_answered++;
}

int watch_end(int fd, void *who)
{
	(void)fd;
	(void)who;
	return 0;
}

static bool was_told(const struct client *c, enum share_op op)
{
	for (unsigned i = 0; i < n_told; i++) {
		if (told[i].to == c && told[i].op == op)
			return true;
	}
	return false;
}

static struct client *someone(void)
{
	struct client *c = calloc(1, sizeof(*c));

	c->next = clients;
	clients = c;
	return c;
}

static void open_memory(uint64_t vram, uint64_t gtt)
{
	now = 1000 * MS;
	vgpu_config.vram_bytes = vram;
	vgpu_config.gtt_bytes = gtt;
	vgpu_config.ram_bytes = 1024 * MB;
	vgpu_props_init(&vgpu_props);
	cr_assert_eq(memory_open(), 0);
}

/* 0 with the buffer; its error; 1: it waits for somebody. */
static int alloc(struct client *c, enum gem_domain domain, uint64_t size, struct bo **out)
{
	unsigned before = n_answered;
	struct share_msg m = {.op = SHARE_BO_ALLOC, .a = {domain, size}};

	job_add(c, &m);
	jobs_run();
	if (n_answered == before)
		return 1;
	if (!answered.err && out)
		*out = bo_find(answered.a[0]);
	return answered.err;
}

static int validate(struct client *c)
{
	unsigned before = n_answered;
	struct share_msg m = {.op = SHARE_VALIDATE};

	job_add(c, &m);
	jobs_run();
	return n_answered == before ? 1 : answered.err;
}

static void used_by_queues(struct bo *bo, struct client *c)
{
	const char *why;

	cr_assert_eq(memory_reserve(c, KFD_IOC_ALLOC_MEM_FLAGS_GTT, bo->size, &why), 0, "%s", why);
	cr_assert_eq(bo_charge(bo, c, KFD_IOC_ALLOC_MEM_FLAGS_GTT), 0);
}

TestSuite(vgpud);

Test(vgpud, the_oldest_goes_first)
{
	struct client *a = someone(), *b = someone();
	struct bo *old, *young, *bo;

	open_memory(16 * MB, 64 * MB);
	cr_assert_eq(alloc(a, GEM_GTT, 20 * MB, &old), 0);
	cr_assert_eq(alloc(a, GEM_GTT, 20 * MB, &young), 0);
	cr_assert_eq(alloc(b, GEM_GTT, 30 * MB, &bo), 0);
	cr_expect_eq(old->place, PLACE_SYSTEM);
	cr_expect_eq(young->place, PLACE_GTT);
	/* Nobody's queues use any of them: nobody is asked. */
	cr_expect_eq(n_told, 0);
	cr_expect_eq(page->placed_gtt, 50 * MB);
	cr_expect_eq(page->placed_system, 20 * MB);
	cr_expect_eq(alloc(b, GEM_GTT, 65 * MB, NULL), -ENOMEM, "larger than the place");
	bo_put(old, a);
	bo_put(young, a);
	bo_put(bo, b);
	cr_expect_eq(page->placed_gtt, 50 * MB, "published with the next request");
	memory_publish();
	cr_expect_eq(page->placed_gtt + page->placed_system, 0);
	/* The whole file is one hole again. */
	cr_assert_eq(alloc(a, GEM_GTT, 64 * MB, &bo), 0);
	cr_expect_eq(bo->offset, 0);
}

Test(vgpud, vram_goes_to_gtt_then_to_system)
{
	struct client *a = someone(), *b = someone();
	struct bo *x, *y, *z;

	open_memory(16 * MB, 64 * MB);
	cr_assert_eq(alloc(a, GEM_VRAM, 10 * MB, &x), 0);
	cr_assert_eq(alloc(b, GEM_VRAM, 10 * MB, &y), 0);
	cr_expect_eq(x->place, PLACE_GTT);
	cr_assert_eq(alloc(b, GEM_GTT, 60 * MB, &z), 0);
	cr_expect_eq(x->place, PLACE_SYSTEM);
	/* No room in GTT: from VRAM straight to system memory. */
	cr_assert_eq(alloc(a, GEM_VRAM, 10 * MB, NULL), 0);
	cr_expect_eq(y->place, PLACE_SYSTEM);
	/* Page tables count in VRAM, too. */
	cr_expect_eq(memory_placed(a, GEM_VRAM, 6 * MB), 0);
	cr_expect_eq(memory_placed(a, GEM_VRAM, 4096), -ENOMEM);
	cr_expect_eq(memory_placed(a, GEM_VRAM, -7 * (int64_t)MB), -EINVAL, "never placed");
}

Test(vgpud, users_stop_before_it_moves)
{
	struct client *a = someone(), *b = someone(), *c = someone();
	struct bo *x, *y;

	open_memory(16 * MB, 64 * MB);
	cr_assert_eq(alloc(a, GEM_GTT, 40 * MB, &x), 0);
	used_by_queues(x, a);
	/* Not for its own sake. */
	cr_assert_eq(alloc(a, GEM_GTT, 40 * MB, NULL), -ENOMEM);
	/* Imported by another one: both have to stop. */
	bo_hold(x, c)->kfd = true;
	cr_assert_eq(alloc(b, GEM_GTT, 40 * MB, NULL), 1);
	cr_expect(was_told(a, SHARE_NEWS_EVICT) && was_told(c, SHARE_NEWS_EVICT));
	cr_expect_eq(n_told, 2, "once each");
	cr_expect_eq(x->place, PLACE_GTT);
	a->stopping = false;
	a->stopped = true;
	jobs_run();
	cr_expect_eq(x->place, PLACE_GTT, "one is still running");
	c->stopped = true;
	jobs_run();
	cr_expect_eq(x->place, PLACE_SYSTEM);
	cr_assert_eq(answered.err, 0);
	y = bo_find(answered.a[0]);
	/* Back again, and the other one out: nobody's queues use that. */
	cr_assert_eq(validate(a), 0);
	cr_expect_not(a->stopped);
	cr_expect(c->stopped, "has to ask for itself");
	cr_expect_eq(x->place, PLACE_GTT);
	cr_expect_eq(y->place, PLACE_SYSTEM);
	cr_assert_eq(validate(c), 0);
	cr_expect_eq(totals.evictions, 2);
	cr_expect_eq(totals.moves, 3);
}

Test(vgpud, what_is_pinned_stays)
{
	struct client *a = someone(), *b = someone();
	struct bo *x, *y;

	open_memory(16 * MB, 64 * MB);
	cr_assert_eq(alloc(a, GEM_GTT, 20 * MB, &x), 0);
	cr_assert_eq(alloc(a, GEM_GTT, 20 * MB, &y), 0);
	cr_assert_eq(bo_pin(x, x->holders, 1), 0);
	cr_expect_eq(bo_pin(y, y->holders, -1), -EINVAL);
	cr_assert_eq(alloc(b, GEM_GTT, 40 * MB, NULL), 0);
	cr_expect_eq(x->place, PLACE_GTT, "though it is older");
	cr_expect_eq(y->place, PLACE_SYSTEM);
	cr_expect_eq(alloc(b, GEM_GTT, 50 * MB, NULL), -ENOMEM);
	cr_assert_eq(bo_pin(x, x->holders, -1), 0);
	cr_assert_eq(alloc(b, GEM_GTT, 50 * MB, NULL), 0);
	cr_expect_eq(x->place, PLACE_SYSTEM);
}

Test(vgpud, one_that_is_halted_is_not_waited_for_for_ever)
{
	struct client *a = someone(), *b = someone();
	struct bo *x;

	open_memory(16 * MB, 64 * MB);
	cr_assert_eq(alloc(a, GEM_GTT, 40 * MB, &x), 0);
	used_by_queues(x, a);
	cr_assert_eq(alloc(b, GEM_GTT, 40 * MB, NULL), 1);
	now += 4900 * MS;
	jobs_run();
	cr_expect_eq(x->place, PLACE_GTT);
	now += 200 * MS;
	jobs_run();
	cr_expect_eq(x->place, PLACE_SYSTEM);
	cr_expect_eq(answered.err, 0);
}

Test(vgpud, what_dies_gives_back)
{
	struct client *a = someone(), *b = someone();
	struct share_msg m = {.op = SHARE_FILE_ADD, .a = {SHARE_DMABUF, 77}};
	struct share_bo got;
	const char *why;
	struct bo *x;
	size_t n = 0;

	open_memory(16 * MB, 64 * MB);
	cr_assert_eq(alloc(a, GEM_GTT, 40 * MB, &x), 0);
	used_by_queues(x, a);
	cr_assert_eq(memory_reserve(a, KFD_IOC_ALLOC_MEM_FLAGS_USERPTR, 8 * MB, &why), 0);
	cr_assert_eq(memory_placed(a, GEM_PREEMPT, 8 * MB), 0);
	cr_expect_eq(limits.sys_used, 48 * MB);
	m.a[2] = x->number;
	cr_assert_eq(file_add(a, &m, 1000), 0);
	cr_expect_eq(file_add(a, &m, 1000), -EINVAL, "one name each");
	/* Something that waits, of a client that does not live to see it. */
	cr_assert_eq(alloc(b, GEM_GTT, 40 * MB, NULL), 1);
	memory_drop(b);
	n = n_answered;
	jobs_run();
	cr_expect_eq(n_answered, n);
	memory_drop(a);
	memory_publish();
	cr_expect_eq(page->placed_preempt, 0);
	cr_expect_eq(limits.sys_used, 40 * MB, "the buffer lives, with its charge, in the dma-buf");
	m.a[0] = 77;
	cr_assert_eq(file_find(b, &m, &got, &n), 0);
	cr_expect_eq(got.size, 40 * MB);
	cr_expect_eq(bo_put(x, a), -EINVAL);
	cr_assert_eq(bo_put(x, b), 0);
	cr_expect_eq(memory_count(&got.size), 1);
	/* The last copy is closed. */
	m.a[0] = 77;
	cr_assert_eq(file_find(b, &m, &got, &n), 0);
	bo_put(x, b);
	cr_expect_not(file_hung_up(&m));
	files_drop(a);
	cr_expect_eq(files_count(), 1, "not a matter of who is alive");
}

Test(vgpud, limits_take_back_only_what_was_reserved)
{
	struct client *a = someone(), *b = someone();
	const char *why = "";

	open_memory(16 * MB, 64 * MB);
	cr_assert_eq(memory_reserve(a, KFD_IOC_ALLOC_MEM_FLAGS_GTT, 60 * MB, &why), 0);
	cr_expect_eq(memory_reserve(b, KFD_IOC_ALLOC_MEM_FLAGS_GTT, 5 * MB, &why), -ENOMEM);
	cr_expect_str_eq(why, "TTM memory limit");
	memory_unreserve(b, KFD_IOC_ALLOC_MEM_FLAGS_GTT, 60 * MB);
	cr_expect_eq(limits.ttm_used, 60 * MB);
	memory_unreserve(a, KFD_IOC_ALLOC_MEM_FLAGS_GTT, 60 * MB);
	cr_expect_eq(limits.ttm_used, 0);
}

/* ---- places --------------------------------------------------------------- */

/* What a client's CP thread does with an answer. */
static struct share_need state[32];
static struct client *owner[32];
static unsigned queues, turns[32];

static unsigned add(struct client *c, uint64_t vm, unsigned priority, bool hangs)
{
	struct share_msg m = {.op = SHARE_MES_ADD, .a = {queues, vm, priority, hangs}};

	cr_assert_eq(place_add(c, &m), 0);
	state[queues] = (struct share_need){.queue = queues, .on = m.a[0] == SHARE_ENTER};
	owner[queues] = c;
	return queues++;
}

/* One look of every client, 0.5 ms apart. obeys: NULL, or who does not answer. */
static void tick(const struct client *deaf)
{
	now += MS / 2;
	for (unsigned i = 0; i < queues; i++) {
		struct share_turn t[32];
		size_t n;

		if (owner[i] == deaf)
			continue;
		state[i].turned = state[i].on;
		n = place_tick(owner[i], &state[i], 1, t, 32);
		for (size_t k = 0; k < n; k++) {
			unsigned q = t[k].queue;

			state[q].on = t[k].act == SHARE_ENTER;
			turns[q] += state[q].on;
			if (!state[q].on)
				cr_assert_eq(place_left(owner[q], q, true), 0);
		}
	}
}

static unsigned on_hardware(void)
{
	unsigned n;

	places_count(&n);
	return n;
}

Test(vgpud, everybody_gets_turns)
{
	for (unsigned i = 0; i < 20; i++)
		add(someone(), 1, 7, false);
	cr_expect_eq(on_hardware(), 8);
	cr_expect_eq(page->mes_waiting, 12);
	for (unsigned i = 0; i < 20; i++)
		state[i].need = 2;
	for (unsigned i = 0; i < 2000; i++)
		tick(NULL); /* a second */
	cr_expect_eq(on_hardware(), 8);
	for (unsigned i = 0; i < 20; i++)
		cr_expect(turns[i] >= 20 && turns[i] <= 60, "queue %u: %u turns", i, turns[i]);
	for (unsigned i = 0; i < 20; i++)
		places_drop(owner[i]);
	cr_expect_eq(on_hardware(), 0);
	cr_expect_eq(page->mes_waiting, 0);
}

Test(vgpud, idle_ones_make_room)
{
	for (unsigned i = 0; i < 8; i++)
		add(someone(), 1, 7, false);
	add(someone(), 1, 7, false);
	/* Nobody has anything to do: everybody stays where he is. */
	for (unsigned i = 0; i < 50; i++)
		tick(NULL);
	cr_expect_not(state[8].on);
	cr_expect_eq(n_told, 0, "and nobody is woken");
	state[8].need = 2;
	for (unsigned i = 0; i < 4; i++)
		tick(NULL);
	cr_expect(state[8].on);
	cr_expect_eq(on_hardware(), 8);
}

Test(vgpud, priority_within_a_process)
{
	struct client *c = someone();

	for (unsigned i = 0; i < 12; i++)
		add(c, 1, i < 8 ? 5 : 9, false);
	for (unsigned i = 0; i < 12; i++)
		state[i].need = 2;
	for (unsigned i = 0; i < 2000; i++)
		tick(NULL);
	/* The four higher ones hardly ever leave; of the others each has its turns. */
	for (unsigned i = 0; i < 8; i++)
		cr_expect_geq(turns[i], 3u, "queue %u starves", i);
	for (unsigned i = 8; i < 12; i++)
		cr_expect(state[i].on || turns[i] > 3, "queue %u", i);
}

Test(vgpud, a_queue_that_hangs_is_left_alone)
{
	for (unsigned i = 0; i < 12; i++)
		add(someone(), 1, 7, i == 0);
	for (unsigned i = 0; i < 12; i++)
		state[i].need = 2;
	for (unsigned i = 0; i < 500; i++)
		tick(NULL);
	cr_expect(state[0].on);
	cr_expect_eq(turns[0], 0);
	cr_expect_geq(turns[11], 1u);
}

Test(vgpud, a_process_that_is_halted_loses_its_place)
{
	struct client *deaf;

	for (unsigned i = 0; i < 9; i++)
		add(someone(), 1, 7, false);
	deaf = owner[0];
	for (unsigned i = 0; i < 9; i++)
		state[i].need = 2;
	place_tick(deaf, &state[0], 1, (struct share_turn[1]){{0}}, 1);
	for (unsigned i = 0; i < 24000; i++)
		tick(deaf); /* twelve seconds */
	cr_expect_eq(on_hardware(), 8);
	for (unsigned i = 1; i < 9; i++)
		cr_expect(state[i].on, "queue %u: eight for eight places", i);
	/* It comes back to life: off first, then in its turn. */
	tick(NULL);
	cr_expect_not(state[0].on);
	for (unsigned i = 0; i < 200; i++)
		tick(NULL);
	cr_expect_geq(turns[0], 1u);
}
