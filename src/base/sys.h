/* Shared by all that call the system: fault injection and errno texts. */
#ifndef BASE_SYS_H
#define BASE_SYS_H

#include <stdbool.h>

#include "base/status.h"

/* True when this call is the one that base_sys_fail_nth chose; errno is EIO then. */
bool base_sys_fails(void);
/* Text of an errno value; static. */
const char *base_errno_text(int code);
/* RP_NOT_FOUND, RP_NOMEM or RP_IO, whichever fits code. */
rp_status base_errno_status(int code);

#endif
