/* The products of the library as tables of functions, one for each instruction set, for generated code to call
 * (gen/embed/product.h has the type and the calls). */
#ifndef GEN_TEMPLATES_H
#define GEN_TEMPLATES_H

/* The function of a generated unit that takes gen_templates; missing where the unit calls none. */
#define GEN_LINK_SYMBOL "rp_link"

struct rp_templates;
extern const struct rp_templates gen_templates_portable;
#if defined(__x86_64__)
extern const struct rp_templates gen_templates_avx2, gen_templates_avx512;
#endif

/* By RP_ISA; NULL where this library has none. As the arguments of a kernel, which rp_link has the type of. */
extern void *const gen_templates[3];

#endif
