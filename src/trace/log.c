/* What is said of a finished trace: its size and time, its text, the assumptions that it was made under.
 *
 * What tracing asks of a size is true for all its values, so the assumptions are all there is to check at a call: types
 * and shapes of the leaves and the ranges of the symbols. */
#include "base/clock.h"
#include "base/log.h"
#include "ir/site.h"
#include "trace/trace.h"

static void put_symbols(const ir_dims *t, base_buf *b) {
    for (uint32_t i = 0; i < ir_dims_symbol_count(t); i++) {
        const ir_symbol *s = ir_dims_symbol(t, i);
        base_buf_printf(b, "- %lld <= %s <= %lld\n", (long long)s->min, s->name, (long long)s->max);
        if (s->divisor > 1)
            base_buf_printf(b, "- %s %% %lld == 0\n", s->name, (long long)s->divisor);
    }
}

static void put_leaves(const ir_graph *g, base_buf *b) {
    for (ir_ref r = 0; r < ir_graph_count(g); r++) {
        const ir_node *n = ir_node_at(g, r);
        if (n->op != IR_input && n->op != IR_param && n->op != IR_state) continue;
        base_buf_printf(b, "- tensor '%s' (%s): %s[", n->name, ir_op_table(n->op)->name,
                        rp_dtype_name(n->dtype));
        for (uint32_t i = 0; i < n->shape.rank; i++) {
            if (i) base_buf_putc(b, ',');
            ir_dim_print(ir_graph_dims(g), n->shape.dim[i], b);
        }
        base_buf_puts(b, "]\n");
    }
}

static void log_text(rp_log_channel ch, const base_buf *b) {
    if (!b->failed && b->data) base_log_ch(ch, false, "%s", b->data);
}

void trace_log_done(const rp_graph *g) {
    const char *name = ir_graph_name(g->ir);
    base_buf b;
    base_log_ch(RP_LOG_CH_DYNAMO, false,
                "Step 1: done tracing %s (%u nodes, %u outputs, %u symbols, %.1f ms)", name,
                ir_graph_count(g->ir), ir_output_count(g->ir),
                ir_dims_symbol_count(ir_graph_dims(g->ir)),
                (double)(base_now_ns() - g->began) / 1e6);
    base_buf_init(&b, 0);
    if (base_log_on(RP_LOG_CH_GRAPH, false)) {
        base_buf_printf(&b, "TRACED GRAPH\n===== %s =====\n", name);
        ir_print(g->ir, &b);
        log_text(RP_LOG_CH_GRAPH, &b);
        base_buf_clear(&b);
        base_buf_printf(&b, "CALL SITES of %s:\n", name);
        ir_sites_list(g->ir, &b);
        if (ir_has_sites(g->ir)) log_text(RP_LOG_CH_GRAPH, &b);
        base_buf_clear(&b);
    }
    if (base_log_on(RP_LOG_CH_GUARDS, false)) {
        base_buf_printf(&b, "GUARDS of %s:\n", name);
        put_symbols(ir_graph_dims(g->ir), &b);
        put_leaves(g->ir, &b);
        log_text(RP_LOG_CH_GUARDS, &b);
    }
    base_buf_done(&b);
}
