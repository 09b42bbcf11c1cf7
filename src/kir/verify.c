/* The verifier: what every consumer of a function may rely on.
 *
 * Walks once with its own stack of open blocks, so it trusts nothing that a parser or builder kept. It
 * does not prove that indices stay inside buffers: the function does not know their sizes. */
#include "base/alloc.h"
#include "kir/inst.h"

#include <ctype.h>
#include <string.h>

#include "base/number.h"

typedef struct check {
    const kir_func *f;
    rp_error *err;
    kir_ref at;
    kir_ref open[KIR_MAX_DEPTH];
    uint32_t n_open;
    uint32_t n_par;
    kir_ref *block; /* beside insts: the block a value lives in */
} check;

#define BAD(c, ...) bad((c), __LINE__, __VA_ARGS__)

static rp_status bad(const check *c, int line, const char *fmt, ...) RP_PRINTF(3, 4);
static rp_status bad(const check *c, int line, const char *fmt, ...) {
    char text[256];
    va_list ap;

    va_start(ap, fmt);
    (void)base_vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return base_fail(c->err, RP_INVALID, __FILE__, line, "kernel %s: instruction %u (%s): %s",
                     c->f->name, c->at, kir_op_table(c->f->insts[c->at].op)->text, text);
}

static bool in_scope(const check *c, kir_ref r) {
    if (kir_is_global(c->f->insts[r].op) || c->block[r] == KIR_NONE) return true;
    for (uint32_t i = 0; i < c->n_open; i++) {
        if (c->open[i] == c->block[r]) return true;
    }
    return false;
}

static bool class_fits(char want, kir_class have) {
    switch (want) {
    case 'i': return have == KIR_INDEX;
    case 't': return have == KIR_I32;
    case 'n': return kir_is_int(have);
    case 'd': return kir_is_float(have) || kir_is_int(have);
    default: return false;
    }
}

static rp_status check_operands(check *c, const kir_inst *in) {
    const kir_op_info *info = kir_op_table(in->op);
    uint32_t n = info->n_in;

    if (in->op == KIR_ALU) {
        const ir_op_info *alu = in->u.alu < IR_OP_COUNT_ ? ir_op_table(in->u.alu) : NULL;
        if (!alu || alu->kind != IR_KIND_ELEMENTWISE) return BAD(c, "no elementwise op");
        n = (uint32_t)alu->arity;
    }
    if (in->n_in != n) return BAD(c, "%u operands, expected %u", in->n_in, n);
    for (uint32_t i = 0; i < n; i++) {
        kir_ref r = in->in[i];
        if (r >= c->at) return BAD(c, "operand %u is made later", i);
        if (!kir_makes_value(&c->f->insts[r])) return BAD(c, "operand %u makes no value", i);
        if (!in_scope(c, r)) return BAD(c, "operand %u was made in a block that has ended", i);
        if (!class_fits(info->in[i], c->f->insts[r].cls)) {
            return BAD(c, "operand %u is %s", i, kir_class_name(c->f->insts[r].cls));
        }
    }
    return RP_OK;
}

static kir_class in_class(const check *c, const kir_inst *in, int i) {
    return c->f->insts[in->in[i]].cls;
}

static rp_status check_class(check *c, const kir_inst *in) {
    kir_class want = in->cls;

    switch (kir_op_table(in->op)->out) {
    case 'i': want = KIR_INDEX; break;
    case 'f': want = KIR_F32; break;
    case 't': want = KIR_I32; break;
    case '-': want = KIR_VOID; break;
    case 's': want = in_class(c, in, 0); break;
    case 'b': want = kir_buf_class(c->f->bufs[in->u.buf].dtype); break;
    default:
        if (!kir_is_float(in->cls) && !kir_is_int(in->cls))
            return BAD(c, "makes %s", kir_class_name(in->cls));
    }
    if (in->op == KIR_YIELD && c->f->insts[c->open[c->n_open - 1]].u.reduce == KIR_ARGMAX)
        want = KIR_I32;
    if (in->op == KIR_YIELD && c->f->insts[c->open[c->n_open - 1]].u.reduce == KIR_CHAIN &&
        !kir_is_float(in->cls))
        return BAD(c, "a chain of %s; chunks of floats have one", kir_class_name(in->cls));
    if (want == in->cls) return RP_OK;
    return BAD(c, "makes %s, expected %s", kir_class_name(in->cls), kir_class_name(want));
}

static rp_status check_alu(check *c, const kir_inst *in) {
    for (uint32_t i = 1; i < in->n_in; i++) {
        if (in_class(c, in, (int)i) != in->cls) return BAD(c, "operands of different classes");
    }
    bool defined = kir_is_int(in->cls) ? ir_op_on_integers(in->u.alu) : ir_op_on_floats(in->u.alu);
    if (!defined) {
        return BAD(c, "%s is not defined on %s", ir_op_table(in->u.alu)->name,
                   kir_class_name(in->cls));
    }
    return RP_OK;
}

static rp_status check_bits(check *c, const kir_inst *in) {
    const bool wide = in->u.dtype == RP_DTYPE_F64;
    const kir_class floats = wide ? KIR_F64 : KIR_F32, ints = wide ? KIR_I64 : KIR_I32;
    if (!ir_dtype_is_real(in->u.dtype)) return BAD(c, "of %s", rp_dtype_name(in->u.dtype));
    if (in->cls == (in_class(c, in, 0) == ints ? floats : ints) &&
        (in_class(c, in, 0) == ints || in_class(c, in, 0) == floats))
        return RP_OK;
    return BAD(c, "%s of %s, as %s", rp_dtype_name(in->u.dtype), kir_class_name(in_class(c, in, 0)),
               kir_class_name(in->cls));
}

static rp_status check_data(check *c, const kir_inst *in) {
    switch (in->op) {
    case KIR_ALU: return check_alu(c, in);
    case KIR_SELECT:
        if (in_class(c, in, 1) != in->cls || in_class(c, in, 2) != in->cls) {
            return BAD(c, "operands of different classes");
        }
        return RP_OK;
    case KIR_CONST_F: return kir_is_float(in->cls) ? RP_OK : BAD(c, "a constant of integers");
    case KIR_CVT_ODD: return in_class(c, in, 0) == KIR_F32 ? BAD(c, "to the class it has") : RP_OK;
    case KIR_CVT: return in_class(c, in, 0) == in->cls ? BAD(c, "to the class it has") : RP_OK;
    case KIR_ROUND_TO:
        if (!kir_dtype_ok(in->u.dtype)) return BAD(c, "to %s", rp_dtype_name(in->u.dtype));
        if (kir_is_int(in->cls) && ir_dtype_is_real(in->u.dtype))
            return BAD(c, "%s to a float type", kir_class_name(in->cls));
        if (in->cls == KIR_F32 && in->u.dtype == RP_DTYPE_I64) return BAD(c, "f32 through i64");
        if (in->cls == KIR_F64 || in->u.dtype == RP_DTYPE_F64) return BAD(c, "f64 to a type");
        return RP_OK;
    case KIR_BITS: return check_bits(c, in);
    case KIR_SHR:
        return in->u.i < 0 || in->u.i > 31 ? BAD(c, "by %lld", (long long)in->u.i) : RP_OK;
    case KIR_BAND:
        return in->u.i < INT32_MIN || in->u.i > INT32_MAX ? BAD(c, "more than 32 bits") : RP_OK;
    case KIR_STORE:
        if (kir_buf_class(c->f->bufs[in->u.buf].dtype) != in_class(c, in, 1)) {
            return BAD(c, "%s into a buffer of %s", kir_class_name(in_class(c, in, 1)),
                       rp_dtype_name(c->f->bufs[in->u.buf].dtype));
        }
        if (!c->f->bufs[in->u.buf].written) return BAD(c, "buffer is not marked written");
        return RP_OK;
    case KIR_IDIV:
    case KIR_IMOD:
        if (c->f->ranges[in->in[1]].lo < 1) return BAD(c, "the divisor may be zero or negative");
        return RP_OK;
    case KIR_PARAM:
        if (c->f->form != KIR_FRAGMENT) return BAD(c, "in a kernel");
        return in->u.i < 0 || in->u.i >= c->f->n_params ? BAD(c, "of %u", c->f->n_params) : RP_OK;
    default: return RP_OK;
    }
}

static rp_status check_begin(check *c, const kir_inst *in) {
    if (in->op == KIR_PAR) {
        if (c->f->form != KIR_KERNEL) return BAD(c, "in a fragment");
        if (c->n_open) return BAD(c, "inside of another block");
        if (c->n_par++) return BAD(c, "a second one; a kernel has exactly one");
    }
    if (in->op == KIR_REDUCE && in->u.reduce >= KIR_REDUCE_COUNT_)
        return BAD(c, "unknown reduction");
    if (c->n_open == KIR_MAX_DEPTH) return BAD(c, "nested deeper than %d", KIR_MAX_DEPTH);
    c->open[c->n_open++] = c->at;
    c->block[c->at] = c->at;
    return RP_OK;
}

static rp_status check_inst(check *c) {
    const kir_inst *in = &c->f->insts[c->at];
    const kir_op_info *info;

    if (in->op >= KIR_OP_COUNT_)
        return rp_fail(c->err, RP_INVALID, "kernel %s: bad op", c->f->name);
    info = kir_op_table(in->op);
    if ((in->op == KIR_LOAD || in->op == KIR_STORE) && in->u.buf >= c->f->n_bufs) {
        return BAD(c, "buffer %u of %u", in->u.buf, c->f->n_bufs);
    }
    RP_TRY(check_operands(c, in));
    if (info->shape == KIR_SHAPE_END) {
        if (!c->n_open) return BAD(c, "no block is open");
        if ((c->f->insts[c->open[c->n_open - 1]].op == KIR_REDUCE) != (in->op == KIR_YIELD)) {
            return BAD(c, "does not end a %s",
                       kir_op_table(c->f->insts[c->open[c->n_open - 1]].op)->text);
        }
    }
    RP_TRY(check_class(c, in));
    RP_TRY(check_data(c, in));
    if (info->shape == KIR_SHAPE_END) c->n_open--;
    c->block[c->at] = c->n_open ? c->open[c->n_open - 1] : KIR_NONE;
    if (info->shape == KIR_SHAPE_BEGIN) return check_begin(c, in);
    if (c->f->form == KIR_KERNEL && info->shape == KIR_SHAPE_EFFECT && !c->n_open) {
        return BAD(c, "outside of par; every thread would do it");
    }
    return RP_OK;
}

static bool is_name(const char *s) {
    if (!isalpha((unsigned char)*s) && *s != '_') return false;
    for (; *s; s++) {
        if (!isalnum((unsigned char)*s) && *s != '_') return false;
    }
    return true;
}

static rp_status check_bufs(const kir_func *f, rp_error *err) {
    for (uint32_t i = 0; i < f->n_bufs; i++) {
        const kir_buf *b = &f->bufs[i];
        if (!is_name(b->name)) {
            return rp_fail(err, RP_INVALID, "kernel %s: buffer name '%s' is no identifier", f->name,
                           b->name);
        }
        for (uint32_t j = 0; j < i; j++) {
            if (strcmp(f->bufs[j].name, b->name) == 0) {
                return rp_fail(err, RP_INVALID, "kernel %s: two buffers named %s", f->name,
                               b->name);
            }
        }
        if (!kir_dtype_ok(b->dtype)) {
            return rp_fail(err, RP_INVALID, "kernel %s: buffer %s of %s", f->name, b->name,
                           rp_dtype_name(b->dtype));
        }
        if (b->offset < 0 || b->size < 0 || b->size > INT64_MAX / 64 || b->slot > UINT16_MAX ||
            (b->space == KIR_ARG && b->offset % (int64_t)rp_dtype_block_bytes(b->dtype))) {
            return rp_fail(err, RP_INVALID,
                           "kernel %s: buffer %s: slot %u, offset %lld (a multiple of the element) "
                           "or size %lld",
                           f->name, b->name, b->slot, (long long)b->offset, (long long)b->size);
        }
    }
    return RP_OK;
}

rp_status kir_verify(const kir_func *f, rp_error *err) {
    rp_status st = RP_OK;
    check c = {.f = f, .err = err};

    RP_TRY(kir_status(f, err));
    if (!is_name(f->name))
        return rp_fail(err, RP_INVALID, "kernel name '%s' is no identifier", f->name);
    RP_TRY(check_bufs(f, err));
    c.block = base_alloc_array(f->n_insts ? f->n_insts : 1, sizeof *c.block);
    if (!c.block) return rp_fail(err, RP_NOMEM, "kernel %s: verifier", f->name);
    for (c.at = 0; c.at < f->n_insts; c.at++) RP_TRY_OUT(check_inst(&c));
    if (c.n_open) {
        st = rp_fail(err, RP_INVALID, "kernel %s: %s is never closed", f->name,
                     kir_op_table(f->insts[c.open[c.n_open - 1]].op)->text);
    } else if (f->form == KIR_KERNEL && c.n_par != 1) {
        st = rp_fail(err, RP_INVALID, "kernel %s has no par loop", f->name);
    }
out:
    base_free(c.block);
    return st;
}
