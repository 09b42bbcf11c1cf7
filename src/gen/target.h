/* What each target has: rules that schedule a function, a language that it is printed in, what stands in front of a unit. */
#ifndef GEN_TARGET_H
#define GEN_TARGET_H

#include "gen/gen.h"
#include "gen/template.h"

typedef struct gen_language {
    const sched_target *schedules; /* that func prints */
    rp_status (*func)(const sched *s, base_buf *out, rp_error *err);
    /* Adds to out what stands in front of functions, which are text that uses such templates. */
    rp_status (*head)(gen_isa isa, const gen_matmul_uses *uses, base_str functions, base_buf *out,
                      rp_error *err);
} gen_language;

/* Of a target; static. */
const gen_language *gen_language_of(gen_target t);
/* Prints a function in the language of its schedule. */
rp_status gen_func(const sched *s, base_buf *out, rp_error *err) RP_MUST_USE;

#endif
