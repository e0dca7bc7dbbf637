/* Counters for the end of a run: what is still alive. */
#include "internal.h"

#include <stdio.h>
#include <unistd.h>

#include "drm/submit.h"
#include "share/share.h"

void kfd_stats_bo(int n, int64_t bytes)
{
	struct vgpu_stats *s = &kfd_device.stats;

	s->bos += (uint64_t)(int64_t)n;
	s->bo_bytes += (uint64_t)bytes;
	if (s->bo_bytes > s->peak_bo_bytes)
		s->peak_bo_bytes = s->bo_bytes;
}

struct vm_memory {
	const struct drm_file *f;
	uint64_t *gtt, *vram;
};

static void add_vm_memory(struct kfd_process *p, void *ctx)
{
	struct vm_memory *m = ctx;
	uint64_t *gtt = m->gtt, *vram = m->vram;

	if (p->pdd.drm != m->f)
		return;
	pthread_mutex_lock(&p->lock);
	for (struct kfd_bo *bo = p->pdd.bo_list; bo; bo = bo->next) {
		if (bo->attached && bo->gem->domain == GEM_GTT)
			*gtt += bo->size;
		else if (bo->attached && bo->gem->domain == GEM_VRAM)
			*vram += bo->size;
	}
	if (p->pdd.cwsr_kernel)
		*gtt += p->pdd.cwsr_kernel->size;
	pthread_mutex_unlock(&p->lock);
}

void kfd_vm_memory(const struct drm_file *f, uint64_t *gtt, uint64_t *vram)
{
	*gtt = *vram = 0;
	kfd_process_each(add_vm_memory, &(struct vm_memory){f, gtt, vram});
}

void vgpu_count_gem_handle(int n)
{
	__atomic_fetch_add(&kfd_device.stats.gem_handles, (uint64_t)(int64_t)n, __ATOMIC_RELAXED);
}

void vgpu_count_dmabuf(int n)
{
	__atomic_fetch_add(&kfd_device.stats.dmabufs, (uint64_t)(int64_t)n, __ATOMIC_RELAXED);
}

static void add_process(struct kfd_process *p, void *ctx)
{
	struct vgpu_stats *out = ctx;

	out->queues += p->n_queues;
	out->events += kfd_event_count(p);
	out->svm_ranges += svm_range_count(p);
	for (struct kfd_bo *bo = p->pdd.bo_list; bo; bo = bo->next) {
		out->mappings += bo->mapped ? 1u + bo->aql : 0;
		if (bo->user_addr)
			out->user_pages += bo->size >> 12;
	}
	/* The event page cannot be freed: from its CREATE_EVENT on it is the kernel's. */
	if (p->signal_gem) {
		out->bos--;
		out->bo_bytes -= p->signal_gem->size;
		out->kernel_bos++;
		out->kernel_bytes += p->signal_gem->size;
	}
	if (p->pdd.cwsr_kernel) {
		out->kernel_bos++;
		out->kernel_bytes += p->pdd.cwsr_kernel->size;
	}
	if (p->pdd.proc_ctx) {
		out->kernel_bos++;
		out->kernel_bytes += p->pdd.proc_ctx->size;
	}
}

void vgpu_stats(struct vgpu_stats *out)
{
	*out = kfd_device.stats;
	out->gtt_used = kfd_device.gtt_used;
	out->page_tables = vm_tables_used();
	out->vram_used = kfd_device.vram_placed + out->page_tables;
	out->preempt_used = kfd_device.preempt_used;
	out->sys_reserved = kfd_device.limits.sys_used;
	out->ttm_reserved = kfd_device.limits.ttm_used;
	out->vram_reserved = kfd_device.limits.vram_used;
	if (share_active() && share_page) {
		/* Of the device, whoever has them. */
		out->gtt_used = share_page->placed_gtt;
		out->vram_used = share_page->placed_vram;
		out->preempt_used = share_page->placed_preempt;
		out->sys_reserved = share_page->sys_used;
		out->ttm_reserved = share_page->ttm_used;
		out->vram_reserved = share_page->kfd_vram_used;
	}
	out->contexts = drm_ctxs_alive();
	out->bo_lists = drm_lists_alive();
	out->syncobjs = drm_syncobjs_alive();
	out->fences = drm_fences_alive();
	out->queues = out->events = out->svm_ranges = out->mappings = out->user_pages = 0;
	kfd_process_each(add_process, out);
}

int vgpu_stats_json(char *buf, size_t n)
{
	struct vgpu_stats s;
	struct cp_stats c = {0};
	bool clean;

	vgpu_stats(&s);
	cp_stats(&c);
	clean = !(s.bos | s.mappings | s.queues | s.events | s.doorbell_maps | s.bo_maps |
		  s.user_pages | s.svm_ranges | s.gem_handles | s.dmabufs | s.smi_clients |
		  s.contexts | s.bo_lists | s.syncobjs | s.fences);
#define U(x) (unsigned long long)(x)
	return snprintf(
		buf, n,
		"{\"pid\": %d, \"clean\": %s, \"live\": {\"bos\": %llu, \"bo_bytes\": %llu, "
		"\"mappings\": %llu, "
		"\"queues\": %llu, \"events\": %llu, \"doorbell_maps\": %llu, \"bo_maps\": %llu, "
		"\"user_pages\": %llu, \"svm_ranges\": %llu, \"gem_handles\": %llu, "
		"\"dmabufs\": %llu, \"smi_clients\": %llu, \"contexts\": %llu, "
		"\"bo_lists\": %llu, \"syncobjs\": %llu, \"fences\": %llu}, "
		"\"kernel\": {\"bos\": %llu, \"bytes\": %llu}, "
		"\"used\": {\"gtt\": %llu, \"vram\": %llu, \"page_tables\": %llu, \"preempt\": "
		"%llu, \"system\": %llu, "
		"\"ttm\": %llu, \"kfd_vram\": %llu}, \"peak_bo_bytes\": %llu, \"ioctls\": %llu, "
		"\"evictions\": %llu, \"vm_faults\": %llu, "
		"\"cp\": {\"packets\": %llu, \"dispatches\": %llu, \"groups\": %llu, "
		"\"waves\": %llu, \"insns\": %llu, \"approximated\": %llu, \"faults\": %llu, "
		"\"unsupported\": %llu, \"missing_waits\": %llu, \"saved_waves\": %llu, "
		"\"switches\": %llu}}",
		(int)(kfd_process_exists() ? kfd_process_pid() : getpid()),
		clean ? "true" : "false", U(s.bos), U(s.bo_bytes), U(s.mappings), U(s.queues),
		U(s.events), U(s.doorbell_maps), U(s.bo_maps), U(s.user_pages), U(s.svm_ranges),
		U(s.gem_handles), U(s.dmabufs), U(s.smi_clients), U(s.contexts), U(s.bo_lists),
		U(s.syncobjs), U(s.fences), U(s.kernel_bos), U(s.kernel_bytes), U(s.gtt_used),
		U(s.vram_used), U(s.page_tables), U(s.preempt_used), U(s.sys_reserved),
		U(s.ttm_reserved), U(s.vram_reserved), U(s.peak_bo_bytes), U(s.ioctls),
		U(s.evictions), U(s.vm_faults), U(c.packets), U(c.dispatches), U(c.groups),
		U(c.waves), U(c.insns), U(c.approximated), U(c.faults), U(c.unsupported),
		U(c.missing_waits), U(c.saved_waves), U(c.switches));
#undef U
}
