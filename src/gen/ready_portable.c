/* Kernels compiled ahead, for every processor. */
#define RP_ISA 0
#define READY_TABLE gen_ready_portable
#define READY_TEMPLATES gen_templates_portable
#include "gen/ready.h"
#include "gen/ready_kernel.c.inc"
