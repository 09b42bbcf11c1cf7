/* Text of a function: what kir_parse reads back.
 *
 * Values are numbered in order of printing; floats are hex. Nothing depends on addresses or on how the
 * function was built. */
#include "kir/inst.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <math.h>

typedef struct printer {
    const kir_func *f;
    base_buf *out;
    uint32_t *number; /* beside insts */
    uint32_t depth;
} printer;

static void put_head(const kir_func *f, base_buf *out) {
    base_buf_printf(out, "%s @%s(", f->form == KIR_KERNEL ? "kernel" : "fragment", f->name);
    for (uint32_t i = 0; i < ir_dims_symbol_count(f->dims); i++) {
        const ir_symbol *s = ir_dims_symbol(f->dims, i);
        base_buf_printf(out, "%s%s: %" PRId64 "..%" PRId64, i ? ", " : "", s->name, s->min, s->max);
        if (s->divisor != 1) base_buf_printf(out, " by %" PRId64, s->divisor);
    }
    base_buf_puts(out, ")");
    if (f->form == KIR_FRAGMENT) base_buf_printf(out, " params %u", f->n_params);
    base_buf_puts(out, " {\n");
    for (uint32_t i = 0; i < f->n_bufs; i++) {
        const kir_buf *b = &f->bufs[i];
        base_buf_printf(out, "  buf %s: %s = ", b->name, rp_dtype_name(b->dtype));
        if (b->space == KIR_ARG)
            base_buf_printf(out, "arg %u", b->slot);
        else
            base_buf_printf(out, "scratch %" PRId64, b->size);
        if (b->space == KIR_ARG && b->offset) base_buf_printf(out, " + %" PRId64, b->offset);
        base_buf_puts(out, b->written ? ", written\n" : "\n");
    }
}

static void put_float(base_buf *out, double v) {
    if (isnan(v))
        base_buf_puts(out, "nan");
    else
        base_buf_printf(out, "%a", v);
}

/* What follows the op's name, without type. */
static void put_operands(printer *p, const kir_inst *in) {
    const char *sep = " ";

    if (in->op == KIR_REDUCE) base_buf_printf(p->out, " %s", kir_reduce_name(in->u.reduce));
    if (in->op == KIR_LOAD || in->op == KIR_STORE) {
        base_buf_printf(p->out, " %s[%%%u]", p->f->bufs[in->u.buf].name, p->number[in->in[0]]);
        if (in->op == KIR_STORE) base_buf_printf(p->out, ", %%%u", p->number[in->in[1]]);
        return;
    }
    for (uint32_t i = 0; i < in->n_in; i++) {
        base_buf_printf(p->out, "%s%%%u", sep, p->number[in->in[i]]);
        sep = ", ";
    }
    switch (in->op) {
    case KIR_CONST_I:
    case KIR_PARAM: base_buf_printf(p->out, " %" PRId64, in->u.i); break;
    case KIR_CONST_F:
        base_buf_putc(p->out, ' ');
        put_float(p->out, in->u.f);
        break;
    case KIR_DIM:
        base_buf_putc(p->out, ' ');
        ir_dim_print(p->f->dims, in->u.dim, p->out);
        break;
    case KIR_SHR:
    case KIR_BAND: base_buf_printf(p->out, ", %" PRId64, in->u.i); break;
    case KIR_BITS:
    case KIR_ROUND_TO: base_buf_printf(p->out, ", %s", rp_dtype_name(in->u.dtype)); break;
    default: break;
    }
}

static void put_inst(printer *p, kir_ref at, uint32_t *next) {
    const kir_inst *in = &p->f->insts[at];
    kir_shape shape = kir_op_table(in->op)->shape;

    if (shape == KIR_SHAPE_END && p->depth) p->depth--;
    for (uint32_t i = 0; i <= p->depth; i++) base_buf_puts(p->out, "  ");
    if (shape == KIR_SHAPE_END) base_buf_puts(p->out, in->op == KIR_YIELD ? "} " : "}\n");
    if (in->op == KIR_END) return;
    if (kir_makes_value(in)) {
        p->number[at] = (*next)++;
        base_buf_printf(p->out, "%%%u = ", p->number[at]);
    }
    base_buf_puts(p->out,
                  in->op == KIR_ALU ? ir_op_table(in->u.alu)->name : kir_op_table(in->op)->text);
    put_operands(p, in);
    if (kir_is_float(in->cls) || kir_is_int(in->cls))
        base_buf_printf(p->out, " : %s", kir_class_name(in->cls));
    if (shape == KIR_SHAPE_BEGIN) {
        base_buf_puts(p->out, " {");
        p->depth++;
    }
    base_buf_putc(p->out, '\n');
}

void kir_print(const kir_func *f, base_buf *out) {
    printer p = {.f = f, .out = out};
    uint32_t next = 0;

    p.number = base_alloc_array(f->n_insts + 1, sizeof *p.number);
    if (!p.number) {
        out->failed = true;
        return;
    }
    put_head(f, out);
    for (kir_ref at = 0; at < f->n_insts; at++) put_inst(&p, at, &next);
    base_buf_puts(out, "}\n");
    base_free(p.number);
}
