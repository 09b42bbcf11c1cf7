/* Products for any processor, and the tables of all. */
#define RP_ISA 0
#define TEMPLATES gen_templates_portable
#include "gen/templates.h"
#include "gen/templates_kernel.c.inc"

void *const gen_templates[3] = {(void *)&gen_templates_portable,
#if defined(__x86_64__)
                                (void *)&gen_templates_avx2, (void *)&gen_templates_avx512
#endif
};
