/* Builders of everything but index arithmetic (index.c).
 *
 * Each checks its operands at once and records the first failure in the function; conversions that
 * change nothing are dropped. Nothing here moves or removes an instruction. */
#include "kir/inst.h"

#include <math.h>

static kir_ref make_global(kir_func *f, kir_inst in) {
    kir_ref r = f->failed ? KIR_NONE : kir_shared_find(f, &in);
    return r == KIR_NONE ? kir_append(f, in) : r;
}

kir_ref kir_const_i(kir_func *f, int64_t v) {
    return make_global(f, (kir_inst){.op = KIR_CONST_I, .cls = KIR_INDEX, .u.i = v});
}

kir_ref kir_const_f(kir_func *f, double v) {
    double single = isnan(v) ? (double)NAN : (double)(float)v;
    return make_global(f, (kir_inst){.op = KIR_CONST_F, .cls = KIR_F32, .u.f = single});
}

kir_ref kir_const_f64(kir_func *f, double v) {
    return make_global(
        f, (kir_inst){.op = KIR_CONST_F, .cls = KIR_F64, .u.f = isnan(v) ? (double)NAN : v});
}

kir_ref kir_dim(kir_func *f, const ir_dims *src, ir_dim d) {
    ir_dim own;
    int64_t v;

    if (f->failed) return KIR_NONE;
    own = src == f->dims ? d : ir_dim_import(f->dims, src, d);
    if (own == IR_DIM_BAD) {
        kir_fail(f, ir_dims_refusal(f->dims), "a size of the graph is too large for a kernel");
        return KIR_NONE;
    }
    if (ir_dim_is_const(f->dims, own, &v)) return kir_const_i(f, v);
    return make_global(f, (kir_inst){.op = KIR_DIM, .cls = KIR_INDEX, .u.dim = own});
}

kir_ref kir_param(kir_func *f, uint32_t which) {
    if (f->form != KIR_FRAGMENT) {
        kir_fail(f, RP_INVALID, "param %u in a kernel; only a fragment has parameters", which);
        return KIR_NONE;
    }
    if (which >= f->n_params) f->n_params = which + 1;
    return make_global(f, (kir_inst){.op = KIR_PARAM, .cls = KIR_INDEX, .u.i = which});
}

/* class KIR_VOID: any data. */
static bool operand_ok(kir_func *f, const char *op, kir_ref r, kir_class want) {
    kir_class have;

    if (f->failed) return false;
    if (!kir_is_visible(f, r)) {
        if (r == KIR_NONE)
            kir_fail(f, RP_INVALID, "%s: an operand is missing", op);
        else
            kir_fail(f, RP_INVALID, "%s: operand %%%u is not visible here", op, r);
        return false;
    }
    have = f->insts[r].cls;
    if (have == want || (want == KIR_VOID && (kir_is_float(have) || kir_is_int(have)))) return true;
    kir_fail(f, RP_INVALID, "%s: operand %%%u is %s, expected %s", op, r, kir_class_name(have),
             want == KIR_VOID ? "data" : kir_class_name(want));
    return false;
}

kir_ref kir_begin(kir_func *f, kir_op par_loop, kir_ref extent) {
    if (!operand_ok(f, kir_op_table(par_loop)->text, extent, KIR_INDEX)) return KIR_NONE;
    if (par_loop != KIR_PAR && par_loop != KIR_LOOP) {
        kir_fail(f, RP_INVALID, "%s opens no plain loop", kir_op_table(par_loop)->text);
        return KIR_NONE;
    }
    return kir_append(f, (kir_inst){.op = par_loop, .cls = KIR_INDEX, .in = {extent}, .n_in = 1});
}

kir_ref kir_begin_reduce(kir_func *f, kir_reduce how, kir_ref extent) {
    if (!operand_ok(f, "reduce", extent, KIR_INDEX)) return KIR_NONE;
    return kir_append(
        f,
        (kir_inst){.op = KIR_REDUCE, .cls = KIR_INDEX, .in = {extent}, .n_in = 1, .u.reduce = how});
}

static kir_op innermost(const kir_func *f) {
    return f->n_open ? f->insts[f->open[f->n_open - 1]].op : KIR_OP_COUNT_;
}

kir_ref kir_yield(kir_func *f, kir_ref value) {
    kir_inst in = {.op = KIR_YIELD, .in = {value}, .n_in = 1};

    if (!operand_ok(f, "yield", value, KIR_VOID)) return KIR_NONE;
    if (innermost(f) != KIR_REDUCE) {
        kir_fail(f, RP_INVALID, "yield: the innermost open block is no reduce");
        return KIR_NONE;
    }
    in.cls = f->insts[f->open[f->n_open - 1]].u.reduce == KIR_ARGMAX ? KIR_I32
                                                                     : f->insts[value].cls;
    return kir_append(f, in);
}

void kir_begin_if(kir_func *f, kir_ref cond) {
    if (!operand_ok(f, "if", cond, KIR_INDEX)) return;
    (void)kir_append(f, (kir_inst){.op = KIR_IF, .cls = KIR_VOID, .in = {cond}, .n_in = 1});
}

void kir_end(kir_func *f) {
    if (f->failed) return;
    if (innermost(f) == KIR_REDUCE || !f->n_open) {
        kir_fail(f, RP_INVALID, "end: %s",
                 f->n_open ? "a reduce ends with yield" : "no block is open");
        return;
    }
    (void)kir_append(f, (kir_inst){.op = KIR_END, .cls = KIR_VOID});
}

/* The comparison that r is, in whatever class; KIR_NONE for any other value. */
static kir_ref comparison(const kir_func *f, kir_ref r) {
    while (f->insts[r].op == KIR_CVT) r = f->insts[r].in[0];
    return f->insts[r].op == KIR_ALU && ir_op_compares(f->insts[r].u.alu) ? r : KIR_NONE;
}

/* The condition of where takes the class of the values it chooses between. A comparison gives 0 or 1 there, without a way through f32. */
static kir_ref match_condition(kir_func *f, ir_op op, kir_ref cond, kir_ref value) {
    kir_class to = f->insts[value].cls;
    if (op != IR_where || f->insts[cond].cls == to) return cond;
    const kir_ref asked = comparison(f, cond);
    if (asked != KIR_NONE) return kir_cvt(f, to, asked);
    if (f->insts[cond].cls != KIR_F32) return kir_cvt(f, to, cond);
    /* 0.5 is true, but truncates to 0. */
    return kir_cvt(f, to, kir_alu(f, IR_ne, cond, kir_const_f(f, 0.0), KIR_NONE));
}

kir_ref kir_alu(kir_func *f, ir_op op, kir_ref a, kir_ref b, kir_ref c) {
    const ir_op_info *info = ir_op_table(op);
    kir_inst in = {.op = KIR_ALU, .in = {a, b, c}, .u.alu = op};

    if (info->kind != IR_KIND_ELEMENTWISE) {
        kir_fail(f, RP_INVALID, "%s is no elementwise op", info->name);
        return KIR_NONE;
    }
    in.n_in = (uint32_t)info->arity;
    for (uint32_t i = 0; i < in.n_in; i++) {
        if (!operand_ok(f, info->name, in.in[i], KIR_VOID)) return KIR_NONE;
    }
    if (op == IR_where) in.in[0] = match_condition(f, op, a, b);
    if (f->failed) return KIR_NONE;
    in.cls = f->insts[in.in[0]].cls;
    for (uint32_t i = 1; i < in.n_in; i++) {
        if (f->insts[in.in[i]].cls == in.cls) continue;
        kir_fail(f, RP_INVALID, "%s: operand %u is %s, the first is %s; convert one", info->name, i,
                 kir_class_name(f->insts[in.in[i]].cls), kir_class_name(in.cls));
        return KIR_NONE;
    }
    if (kir_is_int(in.cls) && !ir_op_on_integers(op)) {
        kir_fail(f, RP_UNSUPPORTED, "%s is not defined on integers; convert to f32 first",
                 info->name);
        return KIR_NONE;
    }
    if (kir_is_float(in.cls) && !ir_op_on_floats(op)) {
        kir_fail(f, RP_UNSUPPORTED, "%s is not defined on floats; convert to i32 first",
                 info->name);
        return KIR_NONE;
    }
    if (op == IR_cast || op == IR_bitcast) return a; /* cvt, bits */
    if (kir_is_int(in.cls) && (op == IR_floor || op == IR_ceil || op == IR_round)) return a;
    return kir_append(f, in);
}

kir_ref kir_select(kir_func *f, kir_ref c, kir_ref a, kir_ref b) {
    kir_range r;

    if (!operand_ok(f, "select", c, KIR_INDEX) || !operand_ok(f, "select", a, KIR_VOID) ||
        !operand_ok(f, "select", b, f->insts[a].cls)) {
        return KIR_NONE;
    }
    r = f->ranges[c];
    if (a == b || r.lo > 0 || r.hi < 0) return a;
    if (r.lo == 0 && r.hi == 0) return b;
    return kir_append(
        f, (kir_inst){.op = KIR_SELECT, .cls = f->insts[a].cls, .in = {c, a, b}, .n_in = 3});
}

static kir_ref unary(kir_func *f, kir_op op, kir_class cls, kir_ref a, int64_t imm) {
    return kir_append(f, (kir_inst){.op = op, .cls = cls, .in = {a}, .n_in = 1, .u.i = imm});
}

static bool fits(kir_range r, kir_range in) {
    return r.lo >= in.lo && r.hi <= in.hi;
}

kir_ref kir_cvt(kir_func *f, kir_class to, kir_ref a) {
    if (!operand_ok(f, "cvt", a, KIR_VOID)) return KIR_NONE;
    if (!kir_is_float(to) && !kir_is_int(to)) {
        kir_fail(f, RP_INVALID, "cvt to %s; use to_index for an index", kir_class_name(to));
        return KIR_NONE;
    }
    return f->insts[a].cls == to ? a : unary(f, KIR_CVT, to, a, 0);
}

/* Integers up to 2^24 are exact in f32. */
kir_ref kir_cvt_odd(kir_func *f, kir_ref a) {
    if (!operand_ok(f, "cvt_odd", a, KIR_VOID)) return KIR_NONE;
    if (f->insts[a].cls == KIR_F32 ||
        (kir_is_int(f->insts[a].cls) && fits(f->ranges[a], (kir_range){-(1 << 24), 1 << 24})))
        return kir_cvt(f, KIR_F32, a);
    return unary(f, KIR_CVT_ODD, KIR_F32, a, 0);
}

kir_ref kir_to_index(kir_func *f, kir_ref a) {
    if (!operand_ok(f, "to_index", a, KIR_VOID)) return KIR_NONE;
    if (!kir_is_int(f->insts[a].cls)) {
        kir_fail(f, RP_INVALID, "to_index: operand %%%u is %s, expected an integer", a,
                 kir_class_name(f->insts[a].cls));
        return KIR_NONE;
    }
    return unary(f, KIR_TO_INDEX, KIR_INDEX, a, 0);
}

kir_ref kir_from_index(kir_func *f, kir_class to, kir_ref a) {
    if (!operand_ok(f, "from_index", a, KIR_INDEX)) return KIR_NONE;
    if (!kir_is_float(to) && !kir_is_int(to)) {
        kir_fail(f, RP_INVALID, "from_index to %s", kir_class_name(to));
        return KIR_NONE;
    }
    return unary(f, KIR_FROM_INDEX, to, a, 0);
}

kir_ref kir_round_to(kir_func *f, rp_dtype t, kir_ref a) {
    if (!operand_ok(f, "round_to", a, KIR_VOID)) return KIR_NONE;
    bool is_int = kir_is_int(f->insts[a].cls);
    bool wide = f->insts[a].cls == KIR_F64;
    if (!kir_dtype_ok(t) || wide != (t == RP_DTYPE_F64) ||
        (is_int ? ir_dtype_is_real(t) : t == RP_DTYPE_I64)) {
        kir_fail(f, RP_UNSUPPORTED, "round_to %s of %s", rp_dtype_name(t),
                 kir_class_name(f->insts[a].cls));
        return KIR_NONE;
    }
    if (t == RP_DTYPE_F32 || wide) return a;
    if (is_int && fits(f->ranges[a], kir_dtype_range(t))) return a;
    return kir_append(
        f,
        (kir_inst){.op = KIR_ROUND_TO, .cls = f->insts[a].cls, .in = {a}, .n_in = 1, .u.dtype = t});
}

static bool bits_ok(kir_func *f, rp_dtype t, kir_ref a, bool of_float) {
    if (!operand_ok(f, "bits", a, KIR_VOID)) return false;
    const kir_class floats = t == RP_DTYPE_F64 ? KIR_F64 : KIR_F32;
    const kir_class want = of_float ? floats : floats == KIR_F64 ? KIR_I64 : KIR_I32;
    if (ir_dtype_is_real(t) && f->insts[a].cls == want) return true;
    kir_fail(f, RP_INVALID, "bits: %s of %s", rp_dtype_name(t), kir_class_name(f->insts[a].cls));
    return false;
}

static kir_ref put_bits(kir_func *f, rp_dtype t, kir_class cls, kir_ref a) {
    const kir_inst *from = &f->insts[a];
    /* There and back. Of fewer bits an integer may have others above, which are gone then. */
    if (from->op == KIR_BITS && from->u.dtype == t && f->insts[from->in[0]].cls == cls &&
        rp_dtype_block_bytes(t) >= 4)
        return from->in[0];
    return kir_append(f,
                      (kir_inst){.op = KIR_BITS, .cls = cls, .in = {a}, .n_in = 1, .u.dtype = t});
}

kir_ref kir_bits_of(kir_func *f, rp_dtype t, kir_ref a) {
    if (!bits_ok(f, t, a, true)) return KIR_NONE;
    return put_bits(f, t, t == RP_DTYPE_F64 ? KIR_I64 : KIR_I32, a);
}

kir_ref kir_of_bits(kir_func *f, rp_dtype t, kir_ref a) {
    if (!bits_ok(f, t, a, false)) return KIR_NONE;
    return put_bits(f, t, t == RP_DTYPE_F64 ? KIR_F64 : KIR_F32, a);
}

kir_ref kir_shr(kir_func *f, kir_ref a, int64_t bits) {
    if (!operand_ok(f, "shr", a, KIR_I32)) return KIR_NONE;
    if (bits < 0 || bits > 31) {
        kir_fail(f, RP_INVALID, "shr by %lld; expected 0 to 31", (long long)bits);
        return KIR_NONE;
    }
    return bits ? unary(f, KIR_SHR, KIR_I32, a, bits) : a;
}

kir_ref kir_band(kir_func *f, kir_ref a, int64_t mask) {
    if (!operand_ok(f, "band", a, KIR_I32)) return KIR_NONE;
    if (mask < INT32_MIN || mask > INT32_MAX) {
        kir_fail(f, RP_INVALID, "band with %lld; expected 32 bits", (long long)mask);
        return KIR_NONE;
    }
    return unary(f, KIR_BAND, KIR_I32, a, mask);
}

/* To the left and back, which extends the sign; an unsigned one is what a mask leaves. */
static kir_ref wrap_bits(kir_func *f, rp_dtype t, kir_ref a) {
    const int64_t bits = (int64_t)rp_dtype_block_bytes(t) * 8;
    const kir_class c = f->insts[a].cls;
    if (t == RP_DTYPE_U8)
        return kir_alu(f, IR_and, a, kir_from_index(f, c, kir_const_i(f, UINT8_MAX)), KIR_NONE);
    kir_ref by = kir_from_index(f, c, kir_const_i(f, (c == KIR_I64 ? 64 : 32) - bits));
    return kir_alu(f, IR_shift_right, kir_alu(f, IR_shift_left, a, by, KIR_NONE), by, KIR_NONE);
}

kir_ref kir_wrap_to(kir_func *f, rp_dtype t, kir_ref a) {
    if (!operand_ok(f, "wrap_to", a, KIR_VOID)) return KIR_NONE;
    if (!ir_dtype_is_integer(t) || !kir_is_int(f->insts[a].cls)) {
        kir_fail(f, RP_UNSUPPORTED, "wrap_to %s of %s", rp_dtype_name(t),
                 kir_class_name(f->insts[a].cls));
        return KIR_NONE;
    }
    if (!fits(f->ranges[a], kir_dtype_range(t))) a = wrap_bits(f, t, a);
    return a == KIR_NONE ? a : kir_cvt(f, kir_buf_class(t), a);
}

static bool buf_ok(kir_func *f, const char *op, uint32_t buf) {
    if (f->failed) return false;
    if (buf < f->n_bufs) return true;
    kir_fail(f, RP_INVALID, "%s: buffer %u of %u", op, buf, f->n_bufs);
    return false;
}

kir_ref kir_load(kir_func *f, uint32_t buf, kir_ref index) {
    if (!buf_ok(f, "load", buf) || !operand_ok(f, "load", index, KIR_INDEX)) return KIR_NONE;
    return kir_append(f, (kir_inst){.op = KIR_LOAD,
                                    .cls = kir_buf_class(f->bufs[buf].dtype),
                                    .in = {index},
                                    .n_in = 1,
                                    .u.buf = buf});
}

void kir_store(kir_func *f, uint32_t buf, kir_ref index, kir_ref value) {
    if (!buf_ok(f, "store", buf) || !operand_ok(f, "store", index, KIR_INDEX) ||
        !operand_ok(f, "store", value, KIR_VOID)) {
        return;
    }
    if (f->bufs[buf].dtype == RP_DTYPE_BOOL) value = kir_round_to(f, RP_DTYPE_BOOL, value);
    if (value == KIR_NONE) return;
    value = kir_cvt(f, kir_buf_class(f->bufs[buf].dtype), value);
    if (value == KIR_NONE) return;
    f->bufs[buf].written = true;
    (void)kir_append(
        f, (kir_inst){
               .op = KIR_STORE, .cls = KIR_VOID, .in = {index, value}, .n_in = 2, .u.buf = buf});
}
