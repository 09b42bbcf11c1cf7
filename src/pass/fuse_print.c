/* Fusion groups as text for people and tests. */
#include "base/alloc.h"
#include "pass/inplace.h"
#include "pass/fuse.h"

typedef struct printer {
    const ir_graph *g;
    const pass_fusion *f;
    base_buf *out;
    uint32_t *number; /* as ir_print numbers them */
} printer;

static void print_value(const printer *p, ir_ref r) {
    const ir_node *n = ir_node_at(p->g, r);
    if (n->op == IR_input)
        base_buf_printf(p->out, "%%%s", n->name);
    else
        base_buf_printf(p->out, "%%%u", p->number[r]);
}

static void print_member(const printer *p, ir_ref r) {
    const ir_node *n = ir_node_at(p->g, r);
    base_buf_putc(p->out, ' ');
    print_value(p, r);
    base_buf_printf(p->out, "=%s", ir_op_table(n->op)->name);
    if (p->f->split[r]) base_buf_puts(p->out, "(runs)");
    if (p->f->stored[r]) base_buf_putc(p->out, '!');
}

static void print_segments(const printer *p, const pass_group *gr) {
    for (uint32_t i = 0; i < gr->n_segs; i++) {
        const pass_segment *s = &gr->segs[i];
        if (s->dead) continue;
        base_buf_puts(p->out, "  segment:");
        for (uint32_t k = 0; k < s->n_mats; k++) print_member(p, s->mats[k]);
        base_buf_puts(p->out, s->n_nodes ? " |" : "");
        for (uint32_t k = 0; k < s->n_nodes; k++) print_member(p, s->nodes[k]);
        base_buf_putc(p->out, '\n');
    }
}

static void print_group(const printer *p, uint32_t i) {
    static const char *const kinds[] = {
        [PASS_LOOP] = "loop", [PASS_MATMUL] = "matmul", [PASS_EXTERN] = "extern"};
    const pass_group *gr = &p->f->groups[i];
    base_buf_printf(p->out, "group %u: %s, rows ", i, kinds[gr->kind]);
    ir_dim_print(ir_graph_dims(p->g), gr->rows, p->out);
    if (gr->kind == PASS_MATMUL) {
        base_buf_puts(p->out, ", left ");
        print_value(p, gr->lhs);
        base_buf_putc(p->out, '\n');
        print_segments(p, gr);
        return;
    }
    base_buf_puts(p->out, "\n ");
    for (uint32_t k = 0; k < gr->n_nodes; k++) print_member(p, gr->nodes[k]);
    base_buf_putc(p->out, '\n');
}

static void print_copy(const printer *p, ir_ref r) {
    base_buf why;
    base_buf_init(&why, 0);
    pass_copy_reason(p->g, r, &why);
    if (why.len) {
        base_buf_puts(p->out, "copied:");
        print_member(p, r);
        base_buf_printf(p->out, ": %s\n", why.data);
    }
    p->out->failed |= why.failed;
    base_buf_done(&why);
}

void pass_fusion_print(const ir_graph *g, const pass_fusion *f, base_buf *out) {
    printer p = {.g = g, .f = f, .out = out};
    uint32_t n = ir_graph_count(g), next = 0;
    p.number = base_alloc_array(n + 1u, sizeof *p.number);
    if (!p.number) {
        out->failed = true;
        return;
    }
    for (ir_ref r = 0; r < n; r++) p.number[r] = ir_node_at(g, r)->op == IR_input ? 0 : next++;
    for (uint32_t i = 0; i < f->n_groups; i++) print_group(&p, i);
    for (ir_ref r = 0; r < n; r++)
        if (ir_node_at(g, r)->op == IR_copy) print_copy(&p, r);
    for (uint32_t i = 0; i < f->n_refusals; i++) {
        base_buf_puts(out, "refused:");
        print_member(&p, f->refusals[i].node);
        base_buf_printf(out, " with group %u: %s\n", f->refusals[i].group, f->refusals[i].reason);
    }
    for (uint32_t i = 0; i < f->n_far; i++) {
        base_buf_puts(out, "refused:");
        print_member(&p, f->far[i].node);
        base_buf_printf(out, " with %u more that touch ", f->far[i].n_groups);
        print_value(&p, f->far[i].value);
        base_buf_puts(out, ": too far back to be looked at\n");
    }
    base_free(p.number);
}
