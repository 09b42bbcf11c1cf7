/* Rewrites nodes by the rules of simplify.rules, operands first, each until no rule applies. Nodes that are no longer used
 * stay; dce takes them. */
#include "pass/passes.h"
#include "pass/rebuild.h"
#include "pass/rules.h"

/* Every rule makes the term smaller or turns it into an op that no rule turns back, so few rounds are enough. */
#define MAX_ROUNDS 8

typedef struct simplifier {
    pass_rules rules;
    uint32_t n_applied;
} simplifier;

static rp_status rewrite(pass_rebuild *b, ir_ref r, ir_ref *out) {
    simplifier *s = b->user;
    RP_TRY(ir_copy_node(b->out, b->in, r, b->map, out, b->err));
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
