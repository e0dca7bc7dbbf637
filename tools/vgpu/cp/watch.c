/* Address watch points: what the L1 vector cache (TCP) compares accesses with.
 *
 * Only vector memory passes it: scalar loads, instruction fetches, the command processor and SDMA are
 * not watched, as the registers that the kernel sets are the TCP's alone. A line of 128 bytes is the
 * finest that can be told apart; scratch goes by the address its bytes have in memory.
 */
#include "cp/internal.h"

#define LINE 127ull
/* Address bits that MASK chooses. */
#define CHOSEN ((uint64_t)CP_WATCH_MASK << CP_WATCH_MASK_SHIFT)
/* TCP_WATCHi_ADDR has 48 bits. */
#define ADDRESS ((1ull << 48) - 1)

static bool mode_wants(uint32_t cntl, enum vm_op op)
{
	bool atomic = op != VM_LOAD && op != VM_STORE;

	switch (cntl >> CP_WATCH_MODE_SHIFT & 3) {
	case CP_WATCH_READ:
		return op == VM_LOAD;
	case CP_WATCH_NONREAD:
		return op != VM_LOAD;
	case CP_WATCH_ATOMIC:
		return atomic;
	default:
		return true;
	}
}

static bool meets(const struct cp_watch_point *p, uint32_t cntl, const uint64_t *addr,
		  uint32_t lanes, unsigned size)
{
	uint64_t compared = ADDRESS & ~CHOSEN & ~LINE;

	compared |= (uint64_t)(cntl & CP_WATCH_MASK) << CP_WATCH_MASK_SHIFT;
	for (; lanes; lanes &= lanes - 1) {
		uint64_t a = addr[__builtin_ctz(lanes)];

		/* An access may lie in two lines. */
		if (!((a ^ p->addr) & compared) || !(((a + size - 1) ^ p->addr) & compared))
			return true;
	}
	return false;
}

static void lanes(struct vm_watch *w, const struct vm_port *port, enum vm_op op,
		  const uint64_t *addr, uint32_t mask, unsigned size, unsigned cache)
{
	struct cp_watcher *c = (struct cp_watcher *)w;

	(void)port;
	(void)cache;
	for (unsigned i = 0; i < CP_WATCH_POINTS; i++) {
		const struct cp_watch_point *p = &c->debug->watch[i];
		/* Acquire: pairs with the release that set it, behind its address. */
		uint32_t cntl = __atomic_load_n(&p->cntl, __ATOMIC_ACQUIRE);

		if (cntl & CP_WATCH_VALID && mode_wants(cntl, op) &&
		    meets(p, cntl, addr, mask, size))
			c->hit |= 1u << i;
	}
}

_Static_assert(!__builtin_offsetof(struct cp_watcher, watch), "lanes() goes from one to the other");

void cp_watcher_put(struct cp_watcher *c, struct vm_port *port)
{
	c->watch = (struct vm_watch){.next = port->watch, .lanes = lanes};
	port->watch = &c->watch;
}
