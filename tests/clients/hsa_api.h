/* The part of the HSA runtime's interface that hsa_client.c uses, declared anew: the library is
 * opened at run time, so nothing of it is needed to build. Handles are 64-bit opaque values in
 * structs of their own. */
#ifndef TESTS_CLIENTS_HSA_API_H
#define TESTS_CLIENTS_HSA_API_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint32_t hsa_status;
#define HANDLE(name)                                                                               \
	typedef struct {                                                                           \
		uint64_t handle;                                                                   \
	} name
HANDLE(hsa_agent);
HANDLE(hsa_signal);
HANDLE(hsa_pool);
HANDLE(hsa_reader);
HANDLE(hsa_executable);
HANDLE(hsa_code);
HANDLE(hsa_symbol);

struct hsa_queue {
	uint32_t type, features;
	void *base;
	hsa_signal doorbell;
	uint32_t size, reserved;
	uint64_t id;
};

struct hsa_event {
	uint32_t type; /* 0: memory fault */
	uint32_t pad;
	hsa_agent agent;
	uint64_t address;
	uint32_t reason;
};

struct hsa_times {
	uint64_t start, end;
};

enum { HSA_NAME = 0, HSA_WAVE = 6, HSA_NODE = 16, HSA_DEVICE = 17 };
enum {
	HSA_CHIP = 0xa000,
	HSA_CUS = 0xa002,
	HSA_WATCHES = 0xa005,
	HSA_BDF = 0xa006,
	HSA_WAVES_PER_CU = 0xa00a,
	HSA_SIMDS_PER_CU = 0xa00b,
	HSA_ENGINES = 0xa00c,
	HSA_ARRAYS_PER_ENGINE = 0xa00d,
};
enum { HSA_CPU = 0, HSA_GPU = 1 };
enum { HSA_POOL_SEGMENT = 0, HSA_POOL_FLAGS = 1, HSA_POOL_SIZE = 2 };
enum { HSA_POOL_KERNARG = 1, HSA_POOL_FINE = 2, HSA_POOL_COARSE = 4 };
enum {
	HSA_SYMBOL_KERNARG = 11,
	HSA_SYMBOL_GROUP = 13,
	HSA_SYMBOL_PRIVATE = 14,
	HSA_SYMBOL_KERNEL = 22
};
enum { HSA_EQ = 0, HSA_LT = 2 };
enum { HSA_INFO_BREAK = 1, HSA_INVALID_ARGUMENT = 0x1001 };

/* F(name without hsa_, result, parameters) */
#define HSA_FUNCTIONS(F)                                                                           \
	F(init, hsa_status, (void))                                                                \
	F(shut_down, hsa_status, (void))                                                           \
	F(iterate_agents, hsa_status, (hsa_status(*)(hsa_agent, void *), void *))                  \
	F(agent_get_info, hsa_status, (hsa_agent, uint32_t, void *))                               \
	F(amd_agent_iterate_memory_pools, hsa_status,                                              \
	  (hsa_agent, hsa_status(*)(hsa_pool, void *), void *))                                    \
	F(amd_memory_pool_get_info, hsa_status, (hsa_pool, uint32_t, void *))                      \
	F(amd_memory_pool_allocate, hsa_status, (hsa_pool, size_t, uint32_t, void **))             \
	F(amd_memory_pool_free, hsa_status, (void *))                                              \
	F(amd_agents_allow_access, hsa_status,                                                     \
	  (uint32_t, const hsa_agent *, const uint32_t *, const void *))                           \
	F(amd_memory_async_copy, hsa_status,                                                       \
	  (void *, hsa_agent, const void *, hsa_agent, size_t, uint32_t, const hsa_signal *,       \
	   hsa_signal))                                                                            \
	F(amd_memory_fill, hsa_status, (void *, uint32_t, size_t))                                 \
	F(amd_memory_lock, hsa_status, (void *, size_t, hsa_agent *, int, void **))                \
	F(amd_memory_unlock, hsa_status, (void *))                                                 \
	F(amd_profiling_set_profiler_enabled, hsa_status, (struct hsa_queue *, int))               \
	F(amd_profiling_get_dispatch_time, hsa_status,                                             \
	  (hsa_agent, hsa_signal, struct hsa_times *))                                             \
	F(amd_register_system_event_handler, hsa_status,                                           \
	  (hsa_status(*)(const struct hsa_event *, void *), void *))                               \
	F(signal_create, hsa_status, (int64_t, uint32_t, const hsa_agent *, hsa_signal *))         \
	F(signal_destroy, hsa_status, (hsa_signal))                                                \
	F(signal_store_screlease, void, (hsa_signal, int64_t))                                     \
	F(signal_load_scacquire, int64_t, (hsa_signal))                                            \
	F(signal_wait_scacquire, int64_t, (hsa_signal, uint32_t, int64_t, uint64_t, uint32_t))     \
	F(queue_create, hsa_status,                                                                \
	  (hsa_agent, uint32_t, uint32_t, void (*)(hsa_status, struct hsa_queue *, void *),        \
	   void *, uint32_t, uint32_t, struct hsa_queue **))                                       \
	F(queue_destroy, hsa_status, (struct hsa_queue *))                                         \
	F(queue_add_write_index_screlease, uint64_t, (const struct hsa_queue *, uint64_t))         \
	F(queue_load_read_index_scacquire, uint64_t, (const struct hsa_queue *))                   \
	F(code_object_reader_create_from_memory, hsa_status, (const void *, size_t, hsa_reader *)) \
	F(code_object_reader_destroy, hsa_status, (hsa_reader))                                    \
	F(executable_create_alt, hsa_status, (uint32_t, uint32_t, const char *, hsa_executable *)) \
	F(executable_load_agent_code_object, hsa_status,                                           \
	  (hsa_executable, hsa_agent, hsa_reader, const char *, hsa_code *))                       \
	F(executable_freeze, hsa_status, (hsa_executable, const char *))                           \
	F(executable_destroy, hsa_status, (hsa_executable))                                        \
	F(executable_get_symbol_by_name, hsa_status,                                               \
	  (hsa_executable, const char *, const hsa_agent *, hsa_symbol *))                         \
	F(executable_symbol_get_info, hsa_status, (hsa_symbol, uint32_t, void *))

static struct {
#define F(name, result, parameters) result(*name) parameters;
	HSA_FUNCTIONS(F)
#undef F
} hsa;

/* NULL, or what is missing. */
static inline const char *hsa_open(const char *path)
{
	void *lib = dlopen(path, RTLD_NOW);

	if (!lib)
		return dlerror();
#define F(name, result, parameters)                                                                \
	*(void **)&hsa.name = dlsym(lib, "hsa_" #name);                                            \
	if (!hsa.name)                                                                             \
		return "hsa_" #name;
	HSA_FUNCTIONS(F)
#undef F
	return NULL;
}

#endif
