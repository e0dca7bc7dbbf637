/* The interrupt thread: what the device reports becomes events, faults and exceptions
 * (kfd_int_process_v11.c, gmc_v11_0.c:gmc_v11_0_process_interrupt). */
#include "internal.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>

#include "drm/drm_file.h"
#include "drm/submit.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_t thread;
static bool running;

/* Payload widths: an end-of-pipe interrupt carries the whole id. */
#define CP_EVENT_BITS 32

static const char *client_name(enum vm_client c)
{
	switch (c) {
	case VM_CLIENT_CPF:
		return "CPF";
	case VM_CLIENT_CPC:
		return "CPC";
	case VM_CLIENT_TCP:
		return "TCP";
	case VM_CLIENT_SQC_INST:
		return "SQC (inst)";
	case VM_CLIENT_SQC_DATA:
		return "SQC (data)";
	case VM_CLIENT_SDMA0:
		return "SDMA0";
	case VM_CLIENT_SDMA1:
		return "SDMA1";
	}
	return "unknown";
}

static void log_fault(const struct kfd_process *p, const struct vm_fault *f, uint32_t status)
{
	const unsigned vmid = 8, bus = vgpu_config.pci_bus;
	uint64_t page = f->va.a & ~4095ull;

	vgpu_log("amdgpu 0000:%02x:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:40 vmid:%u "
		 "pasid:%u)",
		 bus, vmid, p->pasid);
	vgpu_log("amdgpu 0000:%02x:00.0: amdgpu:  Process %s pid %d thread %s pid %d", bus, p->comm,
		 p->lead, p->acquire_comm, p->acquire_tid);
	vgpu_log("amdgpu 0000:%02x:00.0: amdgpu:   in page starting at address 0x%016llx from "
		 "client 10",
		 bus, (unsigned long long)page);
	vgpu_log("amdgpu 0000:%02x:00.0: amdgpu: GCVM_L2_PROTECTION_FAULT_STATUS:0x%08X", bus,
		 status);
	vgpu_log("amdgpu 0000:%02x:00.0: amdgpu: \t Faulty UTCL2 client ID: %s (0x%x)", bus,
		 client_name(f->client), f->client);
	vgpu_log("amdgpu 0000:%02x:00.0: amdgpu: \t MORE_FAULTS: 0x%x", bus, status & 1);
	vgpu_log("amdgpu 0000:%02x:00.0: amdgpu: \t WALKER_ERROR: 0x%x", bus, status >> 1 & 7);
	vgpu_log("amdgpu 0000:%02x:00.0: amdgpu: \t PERMISSION_FAULTS: 0x%x", bus,
		 status >> 4 & 0xf);
	vgpu_log("amdgpu 0000:%02x:00.0: amdgpu: \t MAPPING_ERROR: 0x%x", bus, status >> 8 & 1);
	vgpu_log("amdgpu 0000:%02x:00.0: amdgpu: \t RW: 0x%x", bus, status >> 18 & 1);
}

static void vm_fault(struct kfd_process *p, const struct cp_irq *irq)
{
	const struct vm_fault *f = &irq->fault;
	uint32_t status = vm_fault_status(f, 8);
	struct kfd_hsa_memory_exception_data data = {
		.failure = {.NotPresent = f->not_present, .ReadOnly = f->read_only},
		.va = f->va.a & ~4095ull,
		.gpu_id = vgpu_props.gpu_id,
	};
	bool taken;

	__atomic_fetch_add(&kfd_device.stats.vm_faults, 1, __ATOMIC_RELAXED);
	log_fault(p, f, status);
	if (irq->text[0])
		vgpu_log("vgpu: %s", irq->text);
	pthread_mutex_lock(&p->lock);
	if (p->pdd.drm) {
		p->pdd.drm->fault_addr = f->va.a & ~4095ull;
		p->pdd.drm->fault_status = status;
		p->pdd.drm->fault_vmhub = 0;
	}
	/* A debugger that asked for it decides what the process gets to know. */
	taken = dbg_raise(p, NULL, KFD_EC_MASK(EC_DEVICE_MEMORY_VIOLATION), &data);
	/* For good: nobody gives this count back. The event comes after the queues stopped. */
	if (!taken && vgpu_rule(RULE_vm_fault_evicts))
		kfd_process_evict_queues(p, -1);
	pthread_mutex_unlock(&p->lock);
	if (!taken && vgpu_rule(RULE_vm_fault_event))
		kfd_event_memory_exception(p, &data);
	smi_vmfault(p);
}

void kfd_exception_to_runtime(struct kfd_process *p, const struct kfd_queue *q, uint64_t reason)
{
	struct kfd_context_save_area_header h;
	uint64_t word;

	/* The kernel writes through the client's own addresses: a save area that the CPU does not
	 * see at its GPU address gets no report. */
	if (user_read(&h, q->cwsr_va, sizeof(h)) ||
	    user_read(&word, h.err_payload_addr, sizeof(word))) {
		vgpu_log("amdgpu: queue %u: exception 0x%llx cannot be delivered: save area header "
			 "0x%llx or its error word is not mapped for the CPU",
			 q->id, (unsigned long long)reason, (unsigned long long)q->cwsr_va);
		return;
	}
	word |= reason;
	user_write(h.err_payload_addr, &word, sizeof(word));
	kfd_event_set(p, h.err_event_id);
}

/* An exception of one queue: to a debugger that asked for it, else to the runtime through the
 * word and the event that its save-area header names. */
static void queue_error(struct kfd_process *p, const struct cp_irq *irq)
{
	uint64_t reason = irq->code ? KFD_EC_MASK(irq->code) : 0;
	struct kfd_queue *q;

	pthread_mutex_lock(&p->lock);
	q = kfd_queue_by_id(p, irq->queue_id);
	if (q && !dbg_raise(p, q, reason, NULL) && kfd_runtime_enabled(p) &&
	    vgpu_rule(RULE_queue_error_to_runtime))
		kfd_exception_to_runtime(p, q, reason);
	pthread_mutex_unlock(&p->lock);
}

static void serve(struct kfd_process *p, void *ctx)
{
	const struct cp_irq *irq = ctx;

	switch (irq->kind) {
	case CP_IRQ_EVENT:
		kfd_event_signal_interrupt(p, irq->event_id, CP_EVENT_BITS);
		break;
	case CP_IRQ_VM_FAULT:
		vm_fault(p, irq);
		break;
	case CP_IRQ_QUEUE_ERROR:
		queue_error(p, irq);
		break;
	case CP_IRQ_RING: /* no process's */
		break;
	}
}

static void *irq_main(void *arg)
{
	struct cp_irq irq;

	(void)arg;
	while (cp_irq_next(&irq)) {
		if (irq.ring || irq.kind == CP_IRQ_RING)
			drm_ring_irq(&irq);
		else if (irq.process)
			kfd_process_with(irq.process, serve, &irq);
	}
	return NULL;
}

int kfd_irq_start(void)
{
	sigset_t all, old;
	int err = 0;

	pthread_mutex_lock(&lock);
	if (running)
		goto out;
	err = cp_start(vgpu_config.deterministic ? 1 : vgpu_config.workers);
	if (err)
		goto out;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = -pthread_create(&thread, NULL, irq_main, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err)
		goto out;
	pthread_setname_np(thread, "kfd-irq");
	running = true;
out:
	pthread_mutex_unlock(&lock);
	return err;
}

int vgpu_device_start(void)
{
	return kfd_irq_start();
}

void kfd_irq_after_fork(void)
{
	pthread_mutex_init(&lock, NULL);
	running = false;
}

void kfd_irq_drain(void)
{
	/* Not for ever: the thread may want a lock that the exiting thread holds. */
	const uint64_t patience = 2000000000u;

	pthread_mutex_lock(&lock);
	if (running)
		cp_irq_drain(patience);
	pthread_mutex_unlock(&lock);
}

void kfd_irq_stop(void)
{
	pthread_mutex_lock(&lock);
	if (running) {
		/* Detached before it is told to stop: it may be waiting for a lock that the
		 * exiting thread holds for ever. */
		pthread_detach(thread);
		cp_stop();
		running = false;
	}
	pthread_mutex_unlock(&lock);
}
