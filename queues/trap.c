/* Finding the trap handler in its code object. Pure: no codeobj/, the arrows do not go there, and
 * a handler is one section of position-independent code. */
#include <elf.h>
#include <errno.h>
#include <string.h>

#include "queues/internal.h"

int trap_text(const void *image, size_t size, const void **text, size_t *len)
{
	const unsigned char *base = image;
	Elf64_Ehdr eh;
	Elf64_Shdr names, sh;

	if (size < sizeof(eh))
		return -EINVAL;
	memcpy(&eh, base, sizeof(eh));
	if (memcmp(eh.e_ident, ELFMAG, SELFMAG) || eh.e_shentsize != sizeof(sh) ||
	    eh.e_shoff > size || (size - eh.e_shoff) / sizeof(sh) < eh.e_shnum ||
	    eh.e_shstrndx >= eh.e_shnum)
		return -EINVAL;
	memcpy(&names, base + eh.e_shoff + eh.e_shstrndx * sizeof(sh), sizeof(sh));
	if (names.sh_offset > size || names.sh_size > size - names.sh_offset)
		return -EINVAL;
	for (unsigned i = 0; i < eh.e_shnum; i++) {
		static const char want[] = ".text";

		memcpy(&sh, base + eh.e_shoff + i * sizeof(sh), sizeof(sh));
		if (sh.sh_name > names.sh_size || names.sh_size - sh.sh_name < sizeof(want) ||
		    memcmp(base + names.sh_offset + sh.sh_name, want, sizeof(want)))
			continue;
		if (sh.sh_type != SHT_PROGBITS || !sh.sh_size || sh.sh_offset > size ||
		    sh.sh_size > size - sh.sh_offset)
			return -EINVAL;
		*text = base + sh.sh_offset;
		*len = sh.sh_size;
		return 0;
	}
	return -EINVAL;
}
