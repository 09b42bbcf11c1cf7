/* The host: C for its instruction set, and kernels of the library. */
#include "target/target.h"

#include "gen/builtin.h"
#include "ir/custom.h"
#include "target/cpu/cpu.h"

static bool swizzles(const lowerer *L, const lower_matmul *m) {
    (void)L, (void)m;
    return false;
}

/* A kernel of the library, which reads the record. */
static rp_status attention(lowerer *L, const ir_node *n, const gen_attention_record *r,
                           lower_launch *l) {
    (void)n;
    l->alts[0] = (lower_alt){.max = INT64_MAX,
                             .symbol = gen_attention_name(L->opt->isa),
                             .scratch = gen_attention_scratch(r)};
    l->n_alts = 1;
    l->items = gen_attention_items(L->out->dims, l->rows, r);
    return lower_add_const(L, r, sizeof *r, &L->args[L->n_args++]);
}

static bool has_source(const rp_op_desc *d) {
    return d->c_source != NULL;
}

/* A thread reads it in several times what two launches take. An axis of any length is mostly a short one, of which that is not true. */
#define LONG_AXIS 131072
#define SIDE_BY_SIDE LOWER_RUN
#define NARROW 8 /* fewer neighbours are not made together */

const lower_target target_cpu = {.id = GEN_HOST,
                                 .splits = {LONG_AXIS, 0, SIDE_BY_SIDE, NARROW, true, true},
                                 .split_for_threads = true,
                                 .in_place = true,
                                 .strided_rows = true,
                                 .calls_host = true,
                                 .swizzles = swizzles,
                                 .matmul = target_cpu_matmul,
                                 .attention = attention,
                                 .has_source = has_source,
                                 .source = target_cpu_source,
                                 .ready = target_ready};
