/* Products with float rows: the descriptor that the template reads (gen/embed/matmul_float.c.inc). */
#include <inttypes.h>

#include "pass/product.h"
#include "target/cpu/cpu.h"

static void field(lowerer *L, const char *name, ir_dim d) {
    base_buf_printf(&L->source, "        .%s = ", name);
    target_put_dim(L, d);
    base_buf_puts(&L->source, ",\n");
}

static void batch(lowerer *L, const lower_product *p, const ir_dim *d, const char *rest) {
    base_buf_putc(&L->source, '{');
    for (uint32_t i = 0; i < LOWER_PRODUCT_BATCH; i++) {
        if (i) base_buf_puts(&L->source, ", ");
        if (i < p->n_batch)
            target_put_dim(L, d[i]);
        else
            base_buf_puts(&L->source, rest);
    }
    base_buf_putc(&L->source, '}');
}

static void side(lowerer *L, const lower_product *p, const char *name, uint32_t arg,
                 const lower_side *s, rp_dtype dtype) {
    unsigned size = (unsigned)rp_dtype_block_bytes(dtype);
    base_buf_printf(&L->source, "        .%s = {(const rp_u8 *)arg[%u] + %uLL * ", name, arg, size);
    target_put_dim(L, s->offset);
    base_buf_puts(&L->source, ", ");
    target_put_dim(L, s->step);
    base_buf_puts(&L->source, ", ");
    target_put_dim(L, s->k_step);
    base_buf_puts(&L->source, ", ");
    batch(L, p, s->batch, "0");
    base_buf_printf(&L->source, ", rp_mmf_load_%s, %u},\n", rp_dtype_name(dtype), size);
}

/* The epilogue of a segment as a function of the template. */
static void done_function(lowerer *L, const char *frag) {
    base_buf_printf(&L->source,
                    "static void %s_done(const void *user, long long row0, int n, long long item, "
                    "float *acc)\n{\n"
                    "    void *const *arg = ((const rp_mmf_call *)user)->arg;\n"
                    "    const long long *dim = ((const rp_mmf_call *)user)->dim;\n"
                    "    %s_EPI(row0, n, item, acc);\n}\n",
                    frag, frag);
}

/* The table of parts; *items gets those of a block of rows. */
static rp_status parts(lowerer *L, const pass_group *gr, const char *name, const pass_weights *w,
                       ir_dim *items) {
    ir_dims *t = ir_graph_dims(L->g);
    int64_t tile = 0, n;
    *items = ir_dim_const(t, 0);
    base_buf_puts(&L->source, "    const rp_mmf_part part[] = {\n");
    for (uint32_t i = 0; i < gr->n_segs; i++) {
        const pass_segment *s = &gr->segs[i];
        if (s->dead) continue;
        ir_dim own = lower_column_items(L, s);
        const char *frag = lower_epilogue_name(L, name, i);
        if (!frag) return rp_fail(L->err, RP_NOMEM, "name of an epilogue");
        base_buf_puts(&L->source, "        {");
        target_put_dim(L, own);
        base_buf_printf(&L->source, ", %u, ", s->n_mats);
        if (w)
            base_buf_printf(&L->source,
                            "(const rp_u8 *)arg[1] + %" PRId64 "LL * RP_TILE_%s(%" PRId64 "LL)",
                            tile, rp_dtype_name(w->dtype), w->k);
        else
            base_buf_putc(&L->source, '0');
        base_buf_printf(&L->source, ", %s_done},\n", frag);
        if (w && ir_dim_is_const(t, own, &n)) tile += n * s->n_mats * 2;
        *items = ir_dim_add(t, *items, own);
    }
    base_buf_puts(&L->source, "    };\n");
    return RP_OK;
}

static void descriptor(lowerer *L, const lower_float_group *f, const pass_weights *w,
                       ir_dim items) {
    base_buf *b = &L->source;
    base_buf_puts(b, "    const rp_mmf p = {\n");
    field(L, "rows", f->p.rows);
    base_buf_printf(b, "        .block = %" PRId64 "LL,\n", f->p.block);
    field(L, "k", f->p.k);
    field(L, "columns", f->p.columns);
    field(L, "items", items);
    base_buf_puts(b, "        .batch = ");
    batch(L, &f->p, f->p.batch, "1");
    base_buf_puts(b, ",\n");
    side(L, &f->p, "x", 0, &f->p.x, f->x);
    if (w)
        base_buf_printf(b,
                        "        .tile = rp_mmw_%s,\n"
                        "        .tile_size = RP_TILE_%s(%" PRId64 "LL),\n",
                        rp_dtype_name(w->dtype), rp_dtype_name(w->dtype), w->k);
    else
        side(L, &f->p, "w", 1, &f->p.w, f->w);
    base_buf_puts(b, "        .part = part,\n        .user = &call,\n    };\n");
}

rp_status target_float_kernel(lowerer *L, const lower_matmul *m, ir_dim *items) {
    const pass_group *gr = m->gr;
    pass_weights w;
    bool packed = m->packed && pass_product_weights(L->g, gr->segs[0].mats[0], &w);
    ir_dim columns;
    for (uint32_t i = 0; i < gr->n_segs; i++) {
        if (gr->segs[i].dead) continue;
        const char *frag = lower_epilogue_name(L, m->name, i);
        if (!frag) return rp_fail(L->err, RP_NOMEM, "name of an epilogue");
        done_function(L, frag);
    }
    base_buf_printf(&L->source,
                    "void %s(void *const *arg, const long long *dim, long long begin, long long "
                    "end, void *scratch)\n{\n"
                    "    const rp_mmf_call call = {arg, dim};\n",
                    m->name);
    RP_TRY(parts(L, gr, m->name, packed ? &w : NULL, &columns));
    descriptor(L, &m->f, packed ? &w : NULL, columns);
    base_buf_puts(&L->source, "    rp_mmf_run(&p, begin, end, scratch);\n}\n");
    *items = lower_product_items(ir_graph_dims(L->g), &m->f.p, columns);
    return L->err->code;
}
