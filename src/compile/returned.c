/* A copy of bytes, or of bools, by the portable kernel. How many there are its items say. */
#include "compile/returned.h"

#include <string.h>

#include "compile/portable/record.h"

#define GRAIN 65536

static rp_status add_record(plan *p, const plan_leaf *leaf, uint32_t *out, rp_error *err) {
    const ir_dim_code one = {.n = 1, .op = {IR_DIM_CODE_CONST}, .k = {1}};
    uint32_t n = eager_record_forms(1, 2, 0);
    size_t size = sizeof(eager_record) + n * sizeof(ir_dim_code);
    eager_record *r = base_arena_alloc(p->arena, size);
    if (!r) return rp_fail(err, RP_NOMEM, "plan record");
    r->rank = 1;
    r->n_operands = 2;
    r->unit = 1;
    r->mem[0].dtype = r->mem[1].dtype = leaf->dtype == RP_DTYPE_BOOL ? RP_DTYPE_BOOL : RP_DTYPE_U8;
    for (uint32_t k = 0; k < 2; k++) r->form[eager_record_operand(r, k) + 1] = one;
    p->consts[p->n_consts] = (plan_const){r, (uint32_t)size};
    *out = p->n_consts++;
    return RP_OK;
}

rp_status compile_return_copy(plan *p, plan_arg from, uint32_t i, uint32_t function,
                              rp_error *err) {
    uint32_t record;
    plan_arg *args = base_arena_array(p->arena, 3, sizeof *args);
    if (!args) return rp_fail(err, RP_NOMEM, "plan launch");
    RP_TRY(add_record(p, &p->outputs[i], &record, err));
    args[0] = (plan_arg){from.seg, from.idx, BASE_READS};
    args[1] = (plan_arg){PLAN_OUTPUT, i, BASE_WRITES};
    args[2] = (plan_arg){PLAN_CONST, record, BASE_READS};
    plan_launch *l = &p->launches[p->n_launches++];
    *l = (plan_launch){.name = "return_copy",
                       .n_alts = 1,
                       .grain = GRAIN,
                       .dim_map = p->n_dim_maps - 1, /* any: it reads no size */
                       .args = args,
                       .n_args = 3};
    l->alts[0] = (plan_alt){.max = INT64_MAX, .function = function};
    l->rows = l->items = p->outputs[i].bytes;
    if (from.seg == PLAN_ARENA) p->values[from.idx].last = p->n_launches - 1;
    p->pieces[p->n_pieces - 1].n++;
    return RP_OK;
}
