/* Rewrites nodes by the rules of simplify.rules, operands first, each until no rule applies. Nodes that are no longer used
 * stay; dce takes them. */
#include "pass/passes.h"
#include "pass/rebuild.h"
#include "pass/rules.h"

/* Every rule makes the term smaller or turns it into an op that no rule turns back, so few rounds are enough. */
#define MAX_ROUNDS 8

static rp_status rewrite(pass_rebuild *b, ir_ref r, ir_ref *out) {
    const pass_rules *rules = b->user;
    RP_TRY(ir_copy_node(b->out, b->in, r, b->map, out, b->err));
    for (int round = 0; round < MAX_ROUNDS; round++) {
        ir_ref made = IR_NONE;
        for (uint32_t i = 0; i < rules->n && made == IR_NONE; i++)
            RP_TRY(pass_rule_apply(&rules->rule[i], b->out, *out, &made, b->err));
        if (made == IR_NONE) return RP_OK;
        *out = made;
    }
    return RP_OK;
}

rp_status pass_simplify(const ir_graph *in, ir_graph **out, rp_error *err) {
    pass_rules rules = {0};
    RP_TRY(pass_rules_parse(pass_rules_text(), &rules, err));
    rp_status st = pass_rebuild_graph(in, rewrite, &rules, out, err);
    pass_rules_done(&rules);
    return st;
}
