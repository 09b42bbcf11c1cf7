/* Memory between two pages that nobody may touch: an access beside it ends the program where it happens. */
#ifndef SUPPORT_GUARDED_H
#define SUPPORT_GUARDED_H

#include <stdbool.h>
#include <stddef.h>

/* size bytes, aligned to 64. at_end: they end within 64 bytes of the page behind, else they begin at the end of the page in
 * front. What is writable behind them (at most 64 bytes are looked at) holds a mark. NULL when memory is exhausted. */
void *guarded_new(size_t size, bool at_end);
/* Whether the marks behind the memory are as they were. */
bool guarded_is_whole(const void *p);
/* NULL is fine. */
void guarded_free(void *p);

#endif
