/* Rewrites nodes by the rules of simplify.rules, operands first, each until no rule applies; and takes two reductions that differ in
 * the axis that they keep for one, which no rule can say. Nodes that are no longer used stay; dce takes them. */
#include "pass/passes.h"
#include "pass/rebuild.h"
#include "pass/rules.h"

/* Every rule makes the term smaller or turns it into an op that no rule turns back, so few rounds are enough. */
#define MAX_ROUNDS 8

typedef struct simplifier {
    pass_rules rules;
    uint32_t n_applied;
} simplifier;

/* Of a reduction that is there already but for the axis that it keeps, or does not: a view of that. */
static rp_status see_twin(simplifier *s, ir_graph *g, ir_ref *r, rp_error *err) {
    const ir_node *n = ir_node_at(g, *r);
    if (ir_op_table(n->op)->kind != IR_KIND_REDUCE) return RP_OK;
    ir_ref twin = ir_twin_of(g, *r);
    if (twin == IR_NONE || twin > *r) return RP_OK;
    s->n_applied++;
    ir_attr shape = {.key = IR_ATTR_SHAPE, .n = n->shape.rank, .u.dims = n->shape.dim};
    return ir_add(g, IR_reshape, &twin, 1, &shape, 1, r, err);
}

static rp_status rewrite(pass_rebuild *b, ir_ref r, ir_ref *out) {
    simplifier *s = b->user;
    RP_TRY(ir_copy_node(b->out, b->in, r, b->map, out, b->err));
    RP_TRY(see_twin(s, b->out, out, b->err));
    for (int round = 0; round < MAX_ROUNDS; round++) {
        ir_ref made = IR_NONE;
        for (uint32_t i = 0; i < s->rules.n && made == IR_NONE; i++)
            RP_TRY(pass_rule_apply(&s->rules.rule[i], b->out, *out, &made, b->err));
        if (made == IR_NONE) return RP_OK;
        s->n_applied++;
        *out = made;
    }
    return RP_OK;
}

rp_status pass_simplify_counted(const ir_graph *in, ir_graph **out, uint32_t *n, rp_error *err) {
    simplifier s = {{0}, 0};
    RP_TRY(pass_rules_parse(pass_rules_text(), &s.rules, err));
    rp_status st = pass_rebuild_graph(in, rewrite, &s, out, err);
    pass_rules_done(&s.rules);
    *n += s.n_applied;
    return st;
}

rp_status pass_simplify(const ir_graph *in, ir_graph **out, rp_error *err) {
    uint32_t n = 0;
    return pass_simplify_counted(in, out, &n, err);
}
