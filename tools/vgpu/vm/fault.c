/* The fault status word. Pure.
 *
 * GCVM_L2_PROTECTION_FAULT_STATUS on gfx11 (amdgpu/gmc_v11_0.c prints its fields, and
 * gc_11_0_0_sh_mask.h places them): 0 more faults, 3:1 walker error, 7:4 permission faults,
 * 8 mapping error, 17:9 UTCL2 client, 18 write, 23:20 vmid.
 *
 * Public kernel logs of accesses to unmapped pages whose page directory exists show walker error
 * 0, mapping error 0 and, in the permission field, "valid" together with the right that was
 * asked for: 3 for reads, 5 for writes. A present page that lacks a right reports that right
 * alone.
 */
#include "vm/vm.h"

enum { PERM_VALID = 1, PERM_READ = 2, PERM_WRITE = 4, PERM_EXEC = 8 };

uint32_t vm_fault_status_pack(const struct vm_fault_fields *f)
{
	return (f->more & 1u) | (f->walker & 7u) << 1 | (f->permission & 15u) << 4 |
	       (f->mapping & 1u) << 8 | (f->client & 0x1ffu) << 9 | (f->write & 1u) << 18 |
	       (f->vmid & 15u) << 20;
}

uint32_t vm_fault_status(const struct vm_fault *f, unsigned vmid)
{
	struct vm_fault_fields w = {
		.client = f->client,
		.write = f->write,
		.vmid = vmid,
	};

	if (f->not_present)
		w.permission = PERM_VALID | (f->write ? PERM_WRITE : PERM_READ);
	else if (f->read_only)
		w.permission = PERM_WRITE;
	else if (f->no_exec)
		w.permission = PERM_EXEC;
	return vm_fault_status_pack(&w);
}
