/* One line for the caller's error buffer, and the errno it goes with. */
#ifndef ENGINE_REFUSE_H
#define ENGINE_REFUSE_H

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

/* err may be NULL. Returns ret. */
__attribute__((format(printf, 4, 5))) static inline int refuse(char *err, size_t errlen, int ret,
							       const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (err)
		vsnprintf(err, errlen, fmt, ap);
	va_end(ap);
	return ret;
}

#endif
