/* The door: the one place where a GPU address becomes bytes.
 *
 * Every access, whoever makes it, passes door_enter(), translate() and one of the two touch
 * functions: touch_lanes() for lanes, touch_span() for contiguous bytes. What hooks into memory
 * (caches, delays, checks, counters) hooks into these.
 */
#include <errno.h>
#include <string.h>

#include "vm/door.h"
#include "vm/tape.h"

typedef uint64_t u64x4 __attribute__((ext_vector_type(4)));
typedef int64_t i64x4 __attribute__((ext_vector_type(4)));
typedef uint64_t u64x4u __attribute__((ext_vector_type(4), aligned(8)));
typedef uint32_t u32x4 __attribute__((ext_vector_type(4)));
typedef uint32_t u32x4u __attribute__((ext_vector_type(4), aligned(4)));
typedef uint32_t u32x4b __attribute__((ext_vector_type(4), aligned(1)));

#define ALL_LANES 0xffffffffu
/* Longest stretch moved inside one door_enter(): bounds how long an unmap can wait. */
#define SPAN_MAX (64u << 10)

struct vm_watch *vm_watch_all;

void vm_port_init(struct vm_port *p, struct vm *vm, enum vm_client client)
{
	memset(p, 0, sizeof(*p));
	p->vm = vm;
	p->client = client;
	p->watch = vm_watch_all;
}

void vm_port_bind(struct vm_port *p)
{
	struct vm_reader *r = vm_reader_self();

	/* Without membarrier(2) every entry needs a fence, which the inline half leaves out. */
	p->reader = vm_reader_fences ? NULL : r;
}

/* ---- translate ----------------------------------------------------------- */

static inline struct vm_reader *door_enter(struct vm_port *p)
{
	struct vm_reader *r = vm_reader_self();
	uint64_t gen;

	__atomic_store_n(&r->seq, r->seq + 1, __ATOMIC_RELAXED);
	/* Pairs with vm_grace(): membarrier(2) there turns this into a full fence. */
	if (__builtin_expect(vm_reader_fences, 0))
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
	else
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
	gen = __atomic_load_n(&p->vm->generation, __ATOMIC_ACQUIRE);
	if (__builtin_expect(gen != p->generation, 0)) {
		for (unsigned i = 0; i < VM_TLB_SETS; i++)
			p->tlb[i].start = p->tlb[i].end = 0;
		p->generation = gen;
	}
	return r;
}

static inline void door_leave(struct vm_reader *r)
{
	/* Release: what was read or written is done before vm_grace() sees an even seq. */
	__atomic_store_n(&r->seq, r->seq + 1, __ATOMIC_RELEASE);
}

static inline bool op_writes(enum vm_op op)
{
	return op != VM_LOAD && op != VM_FETCH;
}

static __attribute__((noinline)) const struct vm_tlbe *
refuse(struct vm_port *p, enum vm_op op, uint64_t va, const struct vm_tlbe *present)
{
	p->fault = (struct vm_fault){
		.va = gva(va),
		.client = op == VM_FETCH ? VM_CLIENT_SQC_INST : p->client,
		.write = op_writes(op),
		.not_present = !present,
		.read_only = present && op_writes(op),
		.no_exec = present && op == VM_FETCH,
	};
	return NULL;
}

/* The translation that covers va and grants op, or NULL with p->fault set. Valid until the next
 * translate() of the port. */
static inline const struct vm_tlbe *translate(struct vm_port *p, enum vm_op op, uint64_t va)
{
	struct vm_tlbe *e = &p->tlb[vm_tlb_set(va)];
	unsigned need = op == VM_FETCH ? VM_X : op_writes(op) ? VM_W : 0;

	if (__builtin_expect(va - e->start >= e->end - e->start, 0)) {
		e->start = e->end = 0;
		if (!vm_walk(p->vm, va, e))
			return refuse(p, op, va, NULL);
	}
	if (__builtin_expect((e->perm & need) != need, 0))
		return refuse(p, op, va, e);
	return e;
}

/* ---- lanes --------------------------------------------------------------- */

static void load_lane(const uint8_t *s, unsigned l, unsigned size, uint32_t *data)
{
	uint8_t b;
	uint16_t h;

	switch (size) {
	case 1:
		memcpy(&b, s, 1);
		data[l] = b;
		break;
	case 2:
		memcpy(&h, s, 2);
		data[l] = h;
		break;
	case 8: {
		uint64_t q; /* one piece: an aligned quadword must not tear */

		memcpy(&q, s, 8);
		data[l] = (uint32_t)q;
		data[VM_LANES + l] = (uint32_t)(q >> 32);
		break;
	}
	default:
		for (unsigned c = 0; c < size / 4; c++)
			memcpy(&data[c * VM_LANES + l], s + 4 * c, 4);
	}
}

static void store_lane(uint8_t *d, unsigned l, unsigned size, const uint32_t *data)
{
	switch (size) {
	case 1:
		memcpy(d, &data[l], 1);
		break;
	case 2:
		memcpy(d, &data[l], 2);
		break;
	case 8: {
		uint64_t q = data[l] | (uint64_t)data[VM_LANES + l] << 32;

		memcpy(d, &q, 8);
		break;
	}
	default:
		for (unsigned c = 0; c < size / 4; c++)
			memcpy(d + 4 * c, &data[c * VM_LANES + l], 4);
	}
}

/* host + addr[l] is the byte of lane l. All 32 lanes are active in load_all()/store_all(). */
static void load_all(const uint8_t *host, const uint64_t *addr, unsigned size, bool contiguous,
		     bool uniform, uint32_t *data)
{
	if (uniform) {
		load_lane(host + addr[0], 0, size, data);
		for (unsigned c = 0; c < (size + 3) / 4; c++) {
			uint32_t v = data[c * VM_LANES];

			for (unsigned l = 1; l < VM_LANES; l++)
				data[c * VM_LANES + l] = v;
		}
		return;
	}
	switch (size) {
	case 4:
		if (contiguous) {
			memcpy(data, host + addr[0], 4 * VM_LANES);
			return;
		}
		for (unsigned l = 0; l < VM_LANES; l++)
			memcpy(&data[l], host + addr[l], 4);
		return;
	case 8:
		for (unsigned l = 0; l < VM_LANES; l++) {
			uint64_t q;

			memcpy(&q, host + addr[l], 8);
			data[l] = (uint32_t)q;
			data[VM_LANES + l] = (uint32_t)(q >> 32);
		}
		return;
	case 16:
		for (unsigned l = 0; l < VM_LANES; l += 4) {
			vm_v4 r[4];

			for (unsigned i = 0; i < 4; i++)
				r[i] = *(const vm_v4b *)(host + addr[l + i]);
			vm_transpose4(r);
			for (unsigned c = 0; c < 4; c++)
				*(u32x4u *)&data[c * VM_LANES + l] = r[c];
		}
		return;
	default:
		for (unsigned l = 0; l < VM_LANES; l++)
			load_lane(host + addr[l], l, size, data);
	}
}

static void store_all(uint8_t *host, const uint64_t *addr, unsigned size, bool contiguous,
		      const uint32_t *data)
{
	switch (size) {
	case 4:
		if (contiguous) {
			memcpy(host + addr[0], data, 4 * VM_LANES);
			return;
		}
		for (unsigned l = 0; l < VM_LANES; l++)
			memcpy(host + addr[l], &data[l], 4);
		return;
	case 16:
		for (unsigned l = 0; l < VM_LANES; l += 4) {
			vm_v4 r[4];

			for (unsigned c = 0; c < 4; c++)
				r[c] = *(const u32x4u *)&data[c * VM_LANES + l];
			vm_transpose4(r);
			for (unsigned i = 0; i < 4; i++)
				*(vm_v4b *)(host + addr[l + i]) = r[i];
		}
		return;
	default:
		for (unsigned l = 0; l < VM_LANES; l++)
			store_lane(host + addr[l], l, size, data);
	}
}

/* One read-modify-write that has no instruction of its own on the host. */
#define CAS_LOOP(T, p, old, expr)                                                                  \
	({                                                                                         \
		T new_;                                                                            \
		old = __atomic_load_n(p, __ATOMIC_RELAXED);                                        \
		do {                                                                               \
			new_ = (expr);                                                             \
		} while (!__atomic_compare_exchange_n(p, &old, new_, true, __ATOMIC_SEQ_CST,       \
						      __ATOMIC_RELAXED));                          \
		old;                                                                               \
	})

static inline float f32(uint32_t b)
{
	float f;

	memcpy(&f, &b, 4);
	return f;
}
static inline uint32_t b32(float f)
{
	uint32_t b;

	memcpy(&b, &f, 4);
	return b;
}
static inline double f64(uint64_t b)
{
	double f;

	memcpy(&f, &b, 8);
	return f;
}
static inline uint64_t b64(double f)
{
	uint64_t b;

	memcpy(&b, &f, 8);
	return b;
}

/* A term of a sum: the atomic units flush denormal inputs of f32, whatever the shader's MODE (RDNA3.5
 * ISA, "Float memory atomics"). */
static inline float f32_term(uint32_t b)
{
	return f32(b & 0x7f800000 ? b : b & 0x80000000);
}

/* Minimum and maximum of the atomic units: a number wins over a NaN, -0 is below +0. */
#define FMIN_BITS(T, U, conv, a, b)                                                                \
	({                                                                                         \
		T x_ = conv(a), y_ = conv(b);                                                      \
		x_ != x_ ? (b) : y_ != y_ ? (a) : x_ < y_ ? (a) : y_ < x_ ? (b) : ((a) | (b));     \
	})
#define FMAX_BITS(T, U, conv, a, b)                                                                \
	({                                                                                         \
		T x_ = conv(a), y_ = conv(b);                                                      \
		x_ != x_ ? (b) : y_ != y_ ? (a) : x_ > y_ ? (a) : y_ > x_ ? (b) : ((a) & (b));     \
	})

#define ATOMIC_FN(name, U, S, F, conv, back, term)                                                 \
	static U name(U *p, enum vm_op op, U v, U cmp)                                             \
	{                                                                                          \
		U old;                                                                             \
                                                                                                   \
		switch (op) {                                                                      \
		case VM_SWAP:                                                                      \
			return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);                        \
		case VM_CMPSWAP:                                                                   \
			old = cmp;                                                                 \
			__atomic_compare_exchange_n(p, &old, v, false, __ATOMIC_SEQ_CST,           \
						    __ATOMIC_SEQ_CST);                             \
			return old;                                                                \
		case VM_ADD:                                                                       \
			return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST);                         \
		case VM_SUB:                                                                       \
			return __atomic_fetch_sub(p, v, __ATOMIC_SEQ_CST);                         \
		case VM_AND:                                                                       \
			return __atomic_fetch_and(p, v, __ATOMIC_SEQ_CST);                         \
		case VM_OR:                                                                        \
			return __atomic_fetch_or(p, v, __ATOMIC_SEQ_CST);                          \
		case VM_XOR:                                                                       \
			return __atomic_fetch_xor(p, v, __ATOMIC_SEQ_CST);                         \
		case VM_CSUB:                                                                      \
			return CAS_LOOP(U, p, old, old < v ? 0 : old - v);                         \
		case VM_SMIN:                                                                      \
			return CAS_LOOP(U, p, old, (S)old < (S)v ? old : v);                       \
		case VM_UMIN:                                                                      \
			return CAS_LOOP(U, p, old, old < v ? old : v);                             \
		case VM_SMAX:                                                                      \
			return CAS_LOOP(U, p, old, (S)old > (S)v ? old : v);                       \
		case VM_UMAX:                                                                      \
			return CAS_LOOP(U, p, old, old > v ? old : v);                             \
		case VM_INC:                                                                       \
			return CAS_LOOP(U, p, old, old >= v ? 0 : old + 1);                        \
		case VM_DEC:                                                                       \
			return CAS_LOOP(U, p, old, old == 0 || old > v ? v : old - 1);             \
		case VM_FADD:                                                                      \
			return CAS_LOOP(U, p, old, back(term(old) + term(v)));                     \
		case VM_FMIN:                                                                      \
			return CAS_LOOP(U, p, old, FMIN_BITS(F, U, conv, old, v));                 \
		case VM_FMAX:                                                                      \
			return CAS_LOOP(U, p, old, FMAX_BITS(F, U, conv, old, v));                 \
		case VM_FCMPSWAP:                                                                  \
			return CAS_LOOP(U, p, old, conv(old) == conv(cmp) ? v : old);              \
		case VM_LOAD:                                                                      \
		case VM_STORE:                                                                     \
		case VM_FETCH:                                                                     \
			break;                                                                     \
		}                                                                                  \
		__builtin_unreachable();                                                           \
	}

ATOMIC_FN(atomic32, uint32_t, int32_t, float, f32, b32, f32_term)
ATOMIC_FN(atomic64, uint64_t, int64_t, double, f64, b64, f64)

static void atomic_lane(uint8_t *host, enum vm_op op, unsigned l, unsigned size, uint32_t *data)
{
	if (size == 4) {
		data[l] = atomic32((uint32_t *)host, op, data[l], data[VM_LANES + l]);
	} else {
		uint64_t v = data[l] | (uint64_t)data[VM_LANES + l] << 32;
		uint64_t cmp = 0;

		if (op == VM_CMPSWAP || op == VM_FCMPSWAP)
			cmp = data[2 * VM_LANES + l] | (uint64_t)data[3 * VM_LANES + l] << 32;
		v = atomic64((uint64_t *)host, op, v, cmp);
		data[l] = (uint32_t)v;
		data[VM_LANES + l] = (uint32_t)(v >> 32);
	}
}

static inline bool needs_compare(enum vm_op op)
{
	return op == VM_CMPSWAP || op == VM_FCMPSWAP;
}

/* Performs op for the lanes of mask; host + addr[l] is valid for size bytes in each of them. */
static inline void touch_lanes(struct vm_port *p, enum vm_op op, uint8_t *host,
			       const uint64_t *addr, uint32_t mask, unsigned size, unsigned cache,
			       bool contiguous, bool uniform, uint32_t *data)
{
	uint64_t bytes = (uint64_t)__builtin_popcount(mask) * size;

	(void)cache; /* coherent model: no cache stands between a lane and memory */
	if (op == VM_LOAD || op == VM_FETCH) {
		p->bytes_read += bytes;
		if (mask == ALL_LANES)
			load_all(host, addr, size, contiguous, uniform, data);
		else
			for (uint32_t m = mask; m; m &= m - 1) {
				unsigned l = (unsigned)__builtin_ctz(m);

				load_lane(host + addr[l], l, size, data);
			}
	} else if (op == VM_STORE) {
		p->bytes_written += bytes;
		if (mask == ALL_LANES)
			store_all(host, addr, size, contiguous, data);
		else
			for (uint32_t m = mask; m; m &= m - 1) {
				unsigned l = (unsigned)__builtin_ctz(m);

				store_lane(host + addr[l], l, size, data);
			}
	} else {
		p->bytes_read += bytes;
		p->bytes_written += bytes;
		for (uint32_t m = mask; m; m &= m - 1) {
			unsigned l = (unsigned)__builtin_ctz(m);

			if (size == 4 && !needs_compare(op))
				data[l] = atomic32((uint32_t *)(host + addr[l]), op, data[l], 0);
			else
				atomic_lane(host + addr[l], op, l, size, data);
		}
	}
}

/* One lane whose bytes do not all lie in one mapping: byte by byte, all or nothing. */
static bool touch_split(struct vm_port *p, enum vm_op op, uint64_t va, unsigned l, unsigned size,
			uint32_t *data)
{
	uint8_t *at[64];

	for (unsigned i = 0; i < size; i++) {
		const struct vm_tlbe *e = translate(p, op, va + i);

		if (!e)
			return false;
		at[i] = e->host + (va + i - e->start);
	}
	if (op == VM_STORE) {
		p->bytes_written += size;
		for (unsigned i = 0; i < size; i++)
			*at[i] = (uint8_t)(data[i / 4 * VM_LANES + l] >> i % 4 * 8);
		return true;
	}
	p->bytes_read += size;
	for (unsigned c = 0; c < (size + 3) / 4; c++) {
		uint32_t v = 0;

		for (unsigned i = 4 * c; i < size && i < 4 * c + 4; i++)
			v |= (uint32_t)*at[i] << i % 4 * 8;
		data[c * VM_LANES + l] = v;
	}
	return true;
}

/* Lane by lane, each with its own translation. */
static __attribute__((noinline)) uint32_t access_slow(struct vm_port *p, enum vm_op op,
						      const uint64_t *addr, uint32_t mask,
						      unsigned size, unsigned cache, uint32_t *data)
{
	bool atomic = op > VM_FETCH;
	struct vm_fault first = {0};
	uint32_t faulted = 0;

	for (uint32_t m = mask; m; m &= m - 1) {
		unsigned l = (unsigned)__builtin_ctz(m);
		uint64_t va = addr[l];
		const struct vm_tlbe *e;
		bool ok;

		e = translate(p, op, va);
		ok = e != NULL;
		if (ok && atomic && va % size) {
			p->fault = (struct vm_fault){.va = gva(va),
						     .client = p->client,
						     .write = true,
						     .misaligned = true};
			ok = false;
		}
		if (ok) {
			if (e->end - va >= size)
				touch_lanes(p, op, e->host - e->start, addr, 1u << l, size, cache,
					    false, false, data);
			else
				ok = touch_split(p, op, va, l, size, data);
		}
		if (ok)
			continue;
		if (!faulted)
			first = p->fault;
		faulted |= 1u << l;
		if (op != VM_STORE)
			for (unsigned c = 0; c < (size + 3) / 4; c++)
				data[c * VM_LANES + l] = 0;
	}
	if (faulted) {
		p->fault = first;
		p->fault.lanes = faulted;
	}
	return faulted;
}

uint32_t vm_access(struct vm_port *p, enum vm_op op, const uint64_t addr[VM_LANES], uint32_t mask,
		   unsigned size, unsigned cache, uint32_t *data)
{
	static const u64x4 step = {0, 1, 2, 3};
	uint64_t packed[VM_LANES] __attribute__((aligned(32)));
	const uint64_t *a = addr;
	const struct vm_tlbe *e;
	struct vm_reader *r;
	uint32_t faulted = 0;
	uint64_t a0;

	if (!mask)
		return 0;
	if (__builtin_expect(p->tape != NULL, 0))
		return vm_tape_access(p, op, addr, mask, size, cache, data);
	for (struct vm_watch *w = p->watch; __builtin_expect(w != NULL, 0); w = w->next)
		if (w->lanes)
			w->lanes(w, p, op, addr, mask, size, cache);
	a0 = addr[__builtin_ctz(mask)];
	p->accesses++;
	p->repeats += a0 == p->last;
	p->last = a0;
	if (mask != ALL_LANES) {
		/* Addresses of lanes that are off are noise: give them a harmless one. */
		for (unsigned l = 0; l < VM_LANES; l++)
			packed[l] = mask >> l & 1 ? addr[l] : a0;
		a = packed;
	}
	r = door_enter(p);
	e = translate(p, op, a0);
	if (__builtin_expect(e && e->end - e->start >= size, 1)) {
		i64x4 out = 0;
		u64x4 differs = 0, strides = 0, low = 0;
		u64x4 start = e->start;
		u64x4 sign = 1ull << 63;
		i64x4 limit = (i64x4)((u64x4)(e->end - e->start - size) ^ sign);

		for (unsigned l = 0; l < VM_LANES; l += 4) {
			u64x4 v = *(const u64x4u *)&a[l];
			u64x4 d = v - a0;

			out |= (i64x4)((v - start) ^ sign) > limit;
			differs |= d;
			strides |= d ^ (step + l) * size;
			low |= v;
		}
		out |= __builtin_shufflevector(out, out, 2, 3, 0, 1);
		differs |= __builtin_shufflevector(differs, differs, 2, 3, 0, 1);
		strides |= __builtin_shufflevector(strides, strides, 2, 3, 0, 1);
		low |= __builtin_shufflevector(low, low, 2, 3, 0, 1);
		if (!(out[0] | out[1]) && !(op > VM_FETCH && (low[0] | low[1]) % size)) {
			touch_lanes(p, op, e->host - e->start, a, mask, size, cache,
				    !(strides[0] | strides[1]), !(differs[0] | differs[1]), data);
			door_leave(r);
			return 0;
		}
	}
	faulted = access_slow(p, op, addr, mask, size, cache, data);
	door_leave(r);
	return faulted;
}

/* ---- contiguous bytes ---------------------------------------------------- */

/* Moves n bytes that lie in one mapping. Aligned pieces of the usual sizes move whole. */
static inline void touch_span(struct vm_port *p, bool write, uint8_t *host, void *buf, size_t n,
			      unsigned cache)
{
	void *d = write ? (void *)host : buf;
	const void *s = write ? buf : (void *)host;

	(void)cache;
	if (write)
		p->bytes_written += n;
	else
		p->bytes_read += n;
	switch (n) {
	case 2:
		memcpy(d, s, 2);
		break;
	case 4:
		memcpy(d, s, 4);
		break;
	case 8:
		memcpy(d, s, 8);
		break;
	case 16:
		memcpy(d, s, 16);
		break;
	case 32:
		memcpy(d, s, 32);
		break;
	case 64:
		memcpy(d, s, 64);
		break;
	default:
		memmove(d, s, n);
	}
}

static int span(struct vm_port *p, enum vm_op op, uint64_t va, void *buf, size_t n, unsigned cache)
{
	uint8_t *b = buf;

	if (__builtin_expect(p->tape != NULL, 0))
		return vm_tape_span(p, op, va, buf, n, cache);
	for (struct vm_watch *w = p->watch; __builtin_expect(w != NULL, 0); w = w->next)
		if (w->span)
			w->span(w, p, op, va, n, cache);
	p->accesses++;
	p->repeats += va == p->last;
	p->last = va;
	while (n) {
		struct vm_reader *r = door_enter(p);
		const struct vm_tlbe *e = translate(p, op, va);
		size_t part = n < SPAN_MAX ? n : SPAN_MAX;

		if (!e) {
			p->fault.lanes = 1;
			door_leave(r);
			return -EFAULT;
		}
		if (part > e->end - va)
			part = e->end - va;
		touch_span(p, op_writes(op), e->host + (va - e->start), b, part, cache);
		door_leave(r);
		va += part;
		b += part;
		n -= part;
	}
	return 0;
}

int vm_read(struct vm_port *p, enum vm_op op, gva_t va, void *dst, size_t n, unsigned cache)
{
	return span(p, op, va.a, dst, n, cache);
}

int vm_write(struct vm_port *p, gva_t va, const void *src, size_t n, unsigned cache)
{
	return span(p, VM_STORE, va.a, (void *)src, n, cache);
}

/* ---- single words with ordering ------------------------------------------ */

/* A naturally aligned word lies in one page, so one translation does; others fault as
 * misaligned (rings and signals are aligned by their own rules). */
static int word(struct vm_port *p, enum vm_op op, uint64_t va, unsigned size, uint64_t *v)
{
	const struct vm_tlbe *e;
	struct vm_reader *r;
	uint8_t *h;
	int ret = 0;

	for (struct vm_watch *w = p->watch; __builtin_expect(w != NULL, 0); w = w->next)
		if (w->span)
			w->span(w, p, op, va, size, 0);
	r = door_enter(p);
	e = translate(p, op, va);
	p->accesses++;
	if (!e || va % size) {
		if (e)
			p->fault = (struct vm_fault){.va = gva(va),
						     .client = p->client,
						     .write = op_writes(op),
						     .misaligned = true};
		p->fault.lanes = 1;
		ret = -EFAULT;
		goto out;
	}
	h = e->host + (va - e->start);
	if (op == VM_LOAD) {
		p->bytes_read += size;
		*v = size == 8 ? __atomic_load_n((uint64_t *)h, __ATOMIC_ACQUIRE)
			       : __atomic_load_n((uint32_t *)h, __ATOMIC_ACQUIRE);
	} else if (op == VM_STORE) {
		p->bytes_written += size;
		if (size == 8)
			__atomic_store_n((uint64_t *)h, *v, __ATOMIC_RELEASE);
		else if (size == 4)
			__atomic_store_n((uint32_t *)h, (uint32_t)*v, __ATOMIC_RELEASE);
		else
			__atomic_store_n((uint16_t *)h, (uint16_t)*v, __ATOMIC_RELEASE);
	} else {
		p->bytes_read += size;
		p->bytes_written += size;
		*v = size == 8 ? atomic64((uint64_t *)h, op, *v, 0)
			       : atomic32((uint32_t *)h, op, (uint32_t)*v, 0);
	}
out:
	door_leave(r);
	return ret;
}

int vm_load64(struct vm_port *p, gva_t va, uint64_t *v)
{
	return word(p, VM_LOAD, va.a, 8, v);
}

int vm_store64(struct vm_port *p, gva_t va, uint64_t v)
{
	return word(p, VM_STORE, va.a, 8, &v);
}

int vm_add64(struct vm_port *p, gva_t va, int64_t delta, uint64_t *before)
{
	uint64_t v = (uint64_t)delta;
	int r = word(p, VM_ADD, va.a, 8, &v);

	if (!r && before)
		*before = v;
	return r;
}

int vm_store16(struct vm_port *p, gva_t va, uint16_t v)
{
	uint64_t w = v;

	return word(p, VM_STORE, va.a, 2, &w);
}

int vm_load32(struct vm_port *p, gva_t va, uint32_t *v)
{
	uint64_t w = 0;
	int r = word(p, VM_LOAD, va.a, 4, &w);

	if (!r)
		*v = (uint32_t)w;
	return r;
}

int vm_store32(struct vm_port *p, gva_t va, uint32_t v)
{
	uint64_t w = v;

	return word(p, VM_STORE, va.a, 4, &w);
}
