/* What fusion says on its channel: a line a round, and with "+fusion" the candidates, who was fused with whom, and every refusal.
 *
 * The words are Inductor's, so that what reads its logs reads these. One walk joins all that may be joined, so the first round is the
 * last, unless nodes move from the epilogue of a product to the loop that reads them (settle.c), which is the second. */
#include "base/alloc.h"
#include "base/log.h"
#include "pass/fuser.h"
#include "pass/inplace.h"

typedef struct rounds {
    const fuser *u;
    uint32_t *number; /* by ref, of nodes that are in a group: op0, op1 .. */
    uint32_t *before; /* by ref: its group in the first round */
    uint32_t n, moved;
    base_buf *out;
} rounds;

#define NO_NODE UINT32_MAX

static void find_rounds(rounds *r) {
    const pass_fusion *f = r->u->f;
    for (ir_ref i = 0; i < ir_graph_count(r->u->g); i++) {
        r->before[i] = f->group_of[i];
        r->number[i] = f->group_of[i] == UINT32_MAX ? NO_NODE : r->n++;
    }
    for (uint32_t i = 0; i < f->n_refusals; i++) {
        if (!f->refusals[i].moved) continue;
        r->before[f->refusals[i].node] = f->refusals[i].group;
        r->moved++;
    }
}

/* "Reduction(f32[T,1], origins=[sum])" */
static void put_node(const rounds *r, ir_ref i) {
    const ir_node *n = ir_node_at(r->u->g, i);
    const pass_group *gr = &r->u->f->groups[r->u->f->group_of[i]];
    ir_kind kind = ir_op_table(n->op)->kind;
    const char *what = gr->kind == PASS_EXTERN  ? "ExternKernel"
                       : n->op == IR_matmul     ? "Template"
                       : kind == IR_KIND_REDUCE ? "Reduction"
                                                : "Pointwise";
    base_buf_printf(r->out, "%s(%s, origins=[%s])", what, ir_type_of(r->u->g, i).s,
                    ir_op_table(n->op)->name);
}

/* Members of a group in a round; the first of them is what it is called by. */
static uint32_t members(const rounds *r, const uint32_t *group_of, uint32_t group, ir_ref *first) {
    uint32_t n = 0;
    for (ir_ref i = 0; i < ir_graph_count(r->u->g); i++) {
        if (group_of[i] != group) continue;
        if (n++ == 0) *first = i;
    }
    return n;
}

static void put_single(const rounds *r, ir_ref i) {
    base_buf_printf(r->out, "- SchedulerNode(name='op%u'), ", r->number[i]);
    put_node(r, i);
    base_buf_putc(r->out, '\n');
}

static void put_fused(const rounds *r, const uint32_t *group_of, uint32_t group) {
    const char *join = "";
    base_buf_puts(r->out, "- FusedSchedulerNode(");
    for (ir_ref i = 0; i < ir_graph_count(r->u->g); i++) {
        if (group_of[i] != group) continue;
        base_buf_printf(r->out, "%sop%u", join, r->number[i]);
        join = "_";
    }
    base_buf_puts(r->out, "):\n");
    for (ir_ref i = 0; i < ir_graph_count(r->u->g); i++) {
        if (group_of[i] != group) continue;
        base_buf_printf(r->out, "    - op%u: ", r->number[i]);
        put_node(r, i);
        base_buf_putc(r->out, '\n');
    }
}

static void put_groups(const rounds *r, const uint32_t *group_of) {
    for (uint32_t g = 0; g < r->u->f->n_groups; g++) {
        ir_ref first = 0;
        uint32_t n = members(r, group_of, g, &first);
        if (n == 1) put_single(r, first);
        if (n > 1) put_fused(r, group_of, g);
    }
}

static void put_head(const rounds *r, uint32_t round) {
    base_buf_printf(r->out, "=== Fusion Round %u ===\nCandidates for fusion:\n", round);
}

static void put_found(const rounds *r, uint32_t n) {
    base_buf_printf(r->out, "Found %u possible fusion%s:\n", n, n == 1 ? "" : "s");
}

static void put_first(const rounds *r) {
    uint32_t n_groups = r->u->f->n_groups;
    put_head(r, 1);
    for (ir_ref i = 0; i < ir_graph_count(r->u->g); i++)
        if (r->number[i] != NO_NODE) put_single(r, i);
    put_found(r, r->n - n_groups);
    for (ir_ref i = 0; i < ir_graph_count(r->u->g); i++) {
        ir_ref first = i;
        if (r->number[i] == NO_NODE) continue;
        (void)members(r, r->before, r->before[i], &first);
        if (first != i)
            base_buf_printf(r->out, "- Fusing `op%u` with `op%u`\n", r->number[first],
                            r->number[i]);
    }
    base_buf_printf(r->out, "Result:\n- Fused %u nodes into %u nodes\n", r->n, n_groups);
}

static void put_second(const rounds *r) {
    const pass_fusion *f = r->u->f;
    put_head(r, 2);
    put_groups(r, r->before);
    put_found(r, r->moved);
    for (uint32_t i = 0; i < f->n_refusals; i++) {
        ir_ref node = f->refusals[i].node, reader = node;
        if (!f->refusals[i].moved) continue;
        for (ir_ref k = ir_graph_count(r->u->g); k-- > 0;)
            if (k != node && f->group_of[k] == f->group_of[node]) reader = k;
        base_buf_printf(r->out, "- Fusing `op%u` with `op%u`, instead of what it was fused with\n",
                        r->number[node], r->number[reader]);
    }
    if (r->moved)
        base_buf_printf(r->out, "Result:\n- Moved %u node%s\n", r->moved, r->moved == 1 ? "" : "s");
}

static void put_rounds(const rounds *r) {
    uint32_t n = r->u->f->n_groups;
    put_first(r);
    put_second(r);
    if (r->moved) {
        put_head(r, 3);
        put_groups(r, r->u->f->group_of);
        put_found(r, 0);
    }
    base_buf_printf(r->out, "- Nodes remain unchanged (%u -> %u)\n", n, n);
}

static void log_rounds(const fuser *u) {
    size_t n = ir_graph_count(u->g) + (size_t)1;
    base_buf b;
    base_buf_init(&b, 0);
    rounds r = {.u = u,
                .number = base_arena_array(u->f->arena, n, sizeof *r.number),
                .before = base_arena_array(u->f->arena, n, sizeof *r.before),
                .out = &b};
    if (r.number && r.before) {
        find_rounds(&r);
        put_rounds(&r);
        if (!b.failed && b.data) base_log_ch(RP_LOG_CH_FUSION, true, "%s", b.data);
    }
    base_buf_done(&b);
}

static void log_copies(const fuser *u) {
    for (ir_ref r = 0; r < ir_graph_count(u->g); r++) {
        base_buf why;
        if (ir_node_at(u->g, r)->op != IR_copy) continue;
        base_buf_init(&why, 0);
        pass_copy_reason(u->g, r, &why);
        if (why.len && !why.failed)
            base_log_ch(RP_LOG_CH_FUSION, false, "copy %s of %s: %s", ir_name_of(u->g, r).s,
                        ir_type_of(u->g, r).s, why.data);
        base_buf_done(&why);
    }
}

void pass_log_fusion(const fuser *u) {
    const pass_fusion *f = u->f;
    if ((u->opt && u->opt->quiet) || !base_log_on(RP_LOG_CH_FUSION, false)) return;
    uint32_t before = 0;
    for (ir_ref r = 0; r < ir_graph_count(u->g); r++) before += f->group_of[r] != UINT32_MAX;
    base_log_ch(RP_LOG_CH_FUSION, false, "Fusion Round 1: fused %u nodes into %u", before,
                f->n_groups);
    log_copies(u);
    if (!base_log_on(RP_LOG_CH_FUSION, true)) return;
    log_rounds(u);
    for (uint32_t i = 0; i < f->n_refusals; i++)
        base_log_ch(RP_LOG_CH_FUSION, true, "cannot fuse %s with group %u: %s",
                    ir_op_table(ir_node_at(u->g, f->refusals[i].node)->op)->name,
                    f->refusals[i].group, f->refusals[i].reason);
    for (uint32_t i = 0; i < f->n_far; i++)
        base_log_ch(
            RP_LOG_CH_FUSION, true,
            "cannot fuse %s with %u more groups that touch %s: too far back to be looked at",
            ir_op_table(ir_node_at(u->g, f->far[i].node)->op)->name, f->far[i].n_groups,
            ir_name_of(u->g, f->far[i].value).s);
}
