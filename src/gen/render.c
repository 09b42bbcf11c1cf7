/* Expressions and plain statements, equal in C and CUDA C.
 *
 * Every value becomes a const named by its ref (i for indices, v for data), constants become
 * literals. Ranges from the kernel IR decide where saturation and floor division can be left out. */
#include "gen/render.h"

#include "base/alloc.h"
#include "base/number.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Backwards from stores and blocks. The extent of the items is the caller's business. */
static void mark_used(gen_render *r) {
    for (kir_ref at = r->f->n_insts; at-- > 0;) {
        const kir_inst *in = &r->f->insts[at];
        kir_shape shape = kir_op_table(in->op)->shape;
        bool root = shape != KIR_SHAPE_PLAIN;
        if (in->op == KIR_PAR) continue;
        for (uint32_t i = 0; (root || r->used[at]) && i < in->n_in; i++) r->used[in->in[i]] = true;
    }
}

rp_status gen_render_init(gen_render *r, const sched *s, base_buf *out, rp_error *err) {
    *r = (gen_render){.s = s, .f = s->f, .out = out};
    r->used = base_alloc_array(s->f->n_insts + 1, sizeof *r->used);
    if (!r->used) return rp_fail(err, RP_NOMEM, "kernel %s: renderer", s->f->name);
    mark_used(r);
    return RP_OK;
}

void gen_render_done(gen_render *r) {
    base_free(r->used);
}

static void indent(gen_render *r) {
    for (uint32_t i = 0; i < r->depth; i++) base_buf_puts(r->out, "    ");
}

void gen_line(gen_render *r, const char *fmt, ...) {
    va_list ap;

    indent(r);
    va_start(ap, fmt);
    base_buf_vprintf(r->out, fmt, ap);
    va_end(ap);
    base_buf_putc(r->out, '\n');
}

void gen_open(gen_render *r, const char *fmt, ...) {
    va_list ap;

    indent(r);
    va_start(ap, fmt);
    base_buf_vprintf(r->out, fmt, ap);
    va_end(ap);
    base_buf_puts(r->out, " {\n");
    r->depth++;
}

void gen_close(gen_render *r) {
    r->depth--;
    gen_line(r, "}");
}

static void double_text(gen_render *r, double v, char *buf, size_t size) {
    if (isnan(v))
        (void)snprintf(buf, size, r->cuda ? "((double)RP_NAN)" : "__builtin_nan(\"\")");
    else if (isinf(v))
        (void)snprintf(buf, size, "((double)%sRP_INF)", signbit(v) ? "-" : "");
    else if (v == rint(v) && fabs(v) < 1e7)
        (void)base_snprintf(buf, size, signbit(v) ? "(%.1f)" : "%.1f", v);
    else
        (void)base_snprintf(buf, size, signbit(v) ? "(%a)" : "%a", v);
}

static void float_text(gen_render *r, double v, char *buf, size_t size) {
    const char *sign = signbit(v) ? "-" : "";

    if (isnan(v))
        (void)snprintf(buf, size, r->cuda ? "RP_NAN" : "__builtin_nanf(\"\")");
    else if (isinf(v))
        (void)snprintf(buf, size, "(%sRP_INF)", sign);
    else if (v == rint(v) && fabs(v) < 1e7)
        (void)base_snprintf(buf, size, *sign ? "(%.1ff)" : "%.1ff", v);
    else
        (void)base_snprintf(buf, size, *sign ? "(%af)" : "%af", v);
}

const char *gen_text(gen_render *r, kir_ref ref, char *buf, size_t size) {
    const kir_inst *in = &r->f->insts[ref];
    long long i = (long long)in->u.i;

    if (in->op == KIR_CONST_I) {
        if (i == INT64_MIN)
            (void)snprintf(buf, size, "(-9223372036854775807LL - 1)");
        else
            (void)snprintf(buf, size, i < 0 ? "(%lldLL)" : "%lldLL", i);
    } else if (in->op == KIR_CONST_F) {
        if (in->cls == KIR_F64)
            double_text(r, in->u.f, buf, size);
        else
            float_text(r, in->u.f, buf, size);
    } else if (in->op == KIR_PARAM) {
        (void)snprintf(buf, size, "p%lld", i);
    } else {
        (void)snprintf(buf, size, "%c%u", in->cls == KIR_INDEX ? 'i' : 'v', ref);
    }
    return buf;
}

void gen_put(gen_render *r, kir_ref ref) {
    char name[GEN_NAME_SIZE];
    base_buf_puts(r->out, gen_text(r, ref, name, sizeof name));
}

const char *gen_class_type(kir_class c) {
    return c == KIR_INDEX ? "long long"
           : c == KIR_F32 ? "float"
           : c == KIR_F64 ? "double"
           : c == KIR_I64 ? "rp_i64"
                          : "rp_i32";
}

const char *gen_elem_type(rp_dtype t) {
    switch (t) {
    case RP_DTYPE_F32: return "float";
    case RP_DTYPE_F64: return "double";
    case RP_DTYPE_F16:
    case RP_DTYPE_BF16: return "rp_u16";
    case RP_DTYPE_I64: return "rp_i64";
    case RP_DTYPE_I32: return "rp_i32";
    case RP_DTYPE_I16: return "rp_i16";
    case RP_DTYPE_I8: return "rp_i8";
    default: return "rp_u8";
    }
}

bool gen_buf_aliases(const kir_func *f, uint32_t buf) {
    for (uint32_t i = 0; i < f->n_bufs; i++)
        if (i != buf && kir_same_memory(f, i, buf) && (f->bufs[i].written || f->bufs[buf].written))
            return true;
    return false;
}

void gen_expr(gen_render *r, const char *expr, const kir_ref in[3]) {
    const char *p = expr;

    while (*p) {
        if (isalpha((unsigned char)*p) || *p == '_') {
            size_t n = 1;
            while (isalnum((unsigned char)p[n]) || p[n] == '_') n++;
            if (n == 1 && *p >= 'a' && *p <= 'c')
                gen_put(r, in[*p - 'a']);
            else
                base_buf_add(r->out, p, n);
            p += n;
        } else if (isdigit((unsigned char)*p)) {
            /* A number with its suffix: the f of 1.0f is no name. */
            while (isalnum((unsigned char)*p) || *p == '.') base_buf_putc(r->out, *p++);
        } else {
            base_buf_putc(r->out, *p++);
        }
    }
}

static bool fits_i32(kir_range r) {
    return r.lo >= INT32_MIN && r.hi <= INT32_MAX;
}
static bool fits_u32(kir_range r) {
    return r.lo >= 0 && r.hi <= UINT32_MAX;
}

/* Unsigned division needs no correction of the sign, 32 bits are cheaper than 64. */
static void put_divmod(gen_render *r, const kir_inst *in) {
    kir_range a = r->f->ranges[in->in[0]], b = r->f->ranges[in->in[1]];
    char x[GEN_NAME_SIZE], y[GEN_NAME_SIZE];
    bool div = in->op == KIR_IDIV;

    gen_text(r, in->in[0], x, sizeof x);
    gen_text(r, in->in[1], y, sizeof y);
    if (a.lo < 0) {
        base_buf_printf(r->out, "%s(%s, %s)", div ? "rk_floordiv" : "rk_mod", x, y);
    } else {
        const char *type = fits_u32(a) && fits_u32(b) ? "rp_u32" : "rp_u64";
        base_buf_printf(r->out, "(long long)((%s)%s %c (%s)%s)", type, x, div ? '/' : '%', type, y);
    }
}

static void put_infix(gen_render *r, const kir_inst *in, const char *op) {
    gen_put(r, in->in[0]);
    base_buf_printf(r->out, " %s ", op);
    gen_put(r, in->in[1]);
}

static void put_minmax(gen_render *r, const kir_inst *in, const char *op) {
    put_infix(r, in, op);
    base_buf_puts(r->out, " ? ");
    gen_put(r, in->in[0]);
    base_buf_puts(r->out, " : ");
    gen_put(r, in->in[1]);
}

/* In 32 bits where possible: the mask of a vectorised select has the width of the data then. */
static void put_less(gen_render *r, const kir_inst *in) {
    bool narrow = fits_i32(r->f->ranges[in->in[0]]) && fits_i32(r->f->ranges[in->in[1]]);
    const char *cast = narrow ? "(rp_i32)" : "";

    base_buf_puts(r->out, cast);
    gen_put(r, in->in[0]);
    base_buf_printf(r->out, " < %s", cast);
    gen_put(r, in->in[1]);
}

static void put_index(gen_render *r, const kir_inst *in) {
    switch (in->op) {
    case KIR_IADD: put_infix(r, in, "+"); break;
    case KIR_ISUB: put_infix(r, in, "-"); break;
    case KIR_IMUL: put_infix(r, in, "*"); break;
    case KIR_IDIV:
    case KIR_IMOD: put_divmod(r, in); break;
    case KIR_IMIN: put_minmax(r, in, "<"); break;
    case KIR_IMAX: put_minmax(r, in, ">"); break;
    case KIR_ILT: put_less(r, in); break;
    case KIR_IAND: put_infix(r, in, "&&"); break;
    case KIR_ISELECT: gen_expr(r, "a ? b : c", in->in); break;
    default: gen_put(r, in->in[0]); break; /* TO_INDEX */
    }
}

/* An expression over integers of the class, whose types it writes S and U. */
static void int_expr(gen_render *r, const kir_inst *in, const char *expr) {
    const char *type = in->cls == KIR_I64 ? "64" : "32";
    base_buf b;

    base_buf_init(&b, 0);
    for (; *expr; expr++) {
        if (*expr == 'S' || *expr == 'U')
            base_buf_printf(&b, "rp_%c%s", *expr == 'S' ? 'i' : 'u', type);
        else
            base_buf_putc(&b, *expr);
    }
    if (b.failed)
        r->out->failed = true;
    else
        gen_expr(r, b.data, in->in);
    base_buf_done(&b);
}

/* Integer sums, differences and products wrap around, in unsigned arithmetic unless their range shows that they cannot leave
 * the class; so do divisions and shifts without what only other operands need. */
static void put_alu_int(gen_render *r, const kir_inst *in) {
    const char *expr = ir_op_table(in->u.alu)->ints;
    kir_range a = r->f->ranges[in->in[0]], b = in->n_in > 1 ? r->f->ranges[in->in[1]] : a;
    bool exact = kir_alu_exact(r->f, in), positive = a.lo >= 0 && b.lo > 0;
    bool inside = b.lo >= 0 && b.hi < (in->cls == KIR_I64 ? 64 : 32);

    switch (in->u.alu) {
    case IR_add: int_expr(r, in, exact ? "a + b" : "(S)((U)a + (U)b)"); break;
    case IR_sub: int_expr(r, in, exact ? "a - b" : "(S)((U)a - (U)b)"); break;
    case IR_mul: int_expr(r, in, exact ? "a * b" : "(S)((U)a * (U)b)"); break;
    case IR_neg: int_expr(r, in, exact ? "-a" : "(S)(0u - (U)a)"); break;
    case IR_abs: int_expr(r, in, exact ? "a < 0 ? -a : a" : "(S)(a < 0 ? 0u - (U)a : (U)a)"); break;
    case IR_floor_divide: int_expr(r, in, positive ? "a / b" : expr); break;
    case IR_remainder: int_expr(r, in, positive ? "a % b" : expr); break;
    case IR_shift_left: int_expr(r, in, inside ? "(S)((U)a << b)" : expr); break;
    case IR_shift_right: int_expr(r, in, inside ? "a >> b" : expr); break;
    default: int_expr(r, in, expr); break;
    }
}

/* The expression of single precision, with the functions of double. */
static void double_expr(gen_render *r, const kir_inst *in) {
    static const char *const names[][2] = {
        {"rp_absf", "rk_abs64"},  {"rp_sqrtf", "rk_sqrt64"},   {"rp_expf", "rk_exp64"},
        {"rp_logf", "rk_log64"},  {"rp_floorf", "rk_floor64"}, {"rp_roundf", "rk_round64"},
        {"rp_over", "rk_over64"}, {"rp_tanhf", "rk_tanh64"},   {"rp_erff", "rk_erf64"},
        {"rp_sinf", "rk_sin64"},  {"rp_cosf", "rk_cos64"},     {"rp_powf", "rk_pow64"},
        {"rp_fmaf", "rk_fma64"},  {"rp_fmodf", "rk_fmod64"}};
    const size_t n_names = sizeof names / sizeof *names;
    base_buf b;

    base_buf_init(&b, 0);
    for (const char *p = ir_op_table(in->u.alu)->expr; *p;) {
        size_t k = 0;
        while (k < n_names && strncmp(p, names[k][0], strlen(names[k][0])) != 0) k++;
        if (k < n_names)
            base_buf_puts(&b, names[k][1]);
        else
            base_buf_putc(&b, *p);
        p += k < n_names ? strlen(names[k][0]) : 1;
    }
    if (b.failed)
        r->out->failed = true;
    else
        gen_expr(r, b.data, in->in);
    base_buf_done(&b);
}

/* A value of class c in the range of t. */
static void put_clamped(gen_render *r, kir_class c, rp_dtype t, const char *value) {
    kir_range to = kir_dtype_range(t);

    if (t == RP_DTYPE_I64 || (t == RP_DTYPE_I32 && c != KIR_I64))
        base_buf_puts(r->out, value);
    else
        base_buf_printf(r->out, "rk_clamp%s(%s, %lld, %lld)", c == KIR_I64 ? "64" : "", value,
                        (long long)to.lo, (long long)to.hi);
}

/* What conversions of a float narrower than f32 have in their names: rp_f16_to_f32, rp_f32_to_f16, rp_round_f16. NULL: none. */
static const char *narrow_name(rp_dtype t) {
    switch (t) {
    case RP_DTYPE_F16: return "f16";
    case RP_DTYPE_BF16: return "bf16";
    case RP_DTYPE_F8E4M3FN: return "e4m3fn";
    case RP_DTYPE_F8E5M2: return "e5m2";
    default: return NULL;
    }
}

static void put_round(gen_render *r, const kir_inst *in) {
    char x[GEN_NAME_SIZE], trunc[GEN_NAME_SIZE + 16];
    rp_dtype t = in->u.dtype;

    gen_text(r, in->in[0], x, sizeof x);
    if (narrow_name(t)) {
        base_buf_printf(r->out, "rp_round_%s(%s)", narrow_name(t), x);
    } else if (t == RP_DTYPE_F32) {
        base_buf_puts(r->out, x);
    } else if (t == RP_DTYPE_BOOL) {
        base_buf_printf(r->out, in->cls == KIR_F32 ? "%s != 0.0f ? 1.0f : 0.0f" : "%s != 0", x);
    } else if (kir_is_int(in->cls)) {
        put_clamped(r, in->cls, t, x);
    } else {
        (void)snprintf(trunc, sizeof trunc, "rk_to_i32(%s)", x);
        base_buf_puts(r->out, "rk_from_i32(");
        put_clamped(r, KIR_I32, t, trunc);
        base_buf_putc(r->out, ')');
    }
}

/* The bits of a float as an element of a type, or that float. A cast to the unsigned type takes as many as there are. */
static void put_bits(gen_render *r, const kir_inst *in) {
    const rp_dtype t = in->u.dtype;
    const char *narrow = narrow_name(t);
    char x[GEN_NAME_SIZE];

    gen_text(r, in->in[0], x, sizeof x);
    if (t == RP_DTYPE_F64)
        base_buf_printf(
            r->out, kir_is_int(in->cls) ? "(rp_i64)rp_bits64(%s)" : "rp_from_bits64((rp_u64)%s)",
            x);
    else if (t == RP_DTYPE_F32)
        base_buf_printf(
            r->out, kir_is_int(in->cls) ? "(rp_i32)rp_bits(%s)" : "rp_from_bits((rp_u32)%s)", x);
    else if (kir_is_int(in->cls))
        base_buf_printf(r->out, "%srp_f32_to_%s(%s)", ir_dtype_is_f8(t) ? "" : "(rp_i16)", narrow,
                        x);
    else
        base_buf_printf(r->out, "rp_%s_to_f32((%s)%s)", narrow, gen_elem_type(t), x);
}

/* An element of a buffer, or of the vector that a wide loop has of it. */
static void put_place(gen_render *r, const kir_inst *in) {
    const kir_ref at = (kir_ref)(in - r->f->insts);
    if (r->wide && sched_is_vector(r->s, r->wide, at, r->s->steps[r->wide].wide)) {
        base_buf_printf(r->out, "x%u.v[k%u]", at, r->wide);
        return;
    }
    if (r->s->places[in->u.buf].space == SCHED_REGISTER) { /* by the thread's own iterations */
        const kir_ref loop = r->f->blocks[at];
        const unsigned wide = r->s->steps[loop].wide;
        base_buf_printf(r->out, "b_%s[u%u", r->f->bufs[in->u.buf].name, loop);
        if (wide) base_buf_printf(r->out, " * %u + k%u", wide, loop);
        base_buf_putc(r->out, ']');
        return;
    }
    base_buf_printf(r->out, "b_%s[", r->f->bufs[in->u.buf].name);
    gen_put(r, in->in[0]);
    base_buf_putc(r->out, ']');
}

static void put_load(gen_render *r, const kir_inst *in) {
    const kir_buf *b = &r->f->bufs[in->u.buf];
    const char *narrow = narrow_name(b->dtype);
    const kir_ref at = (kir_ref)(in - r->f->insts);

    if (r->ahead && r->ahead[at]) {
        base_buf_printf(r->out, "ahead%u[u%u * %d + u%u]", at, r->ahead_outer, r->ahead_inner_times,
                        r->f->blocks[at]);
        return;
    }

    if (r->loads == GEN_ASKS && b->space == KIR_SCRATCH) {
        base_buf_puts(r->out, "0"); /* is not there yet, and nothing that is asked for needs it */
        return;
    }
    if (r->loads != GEN_LOADS && b->space == KIR_ARG && in->cls == KIR_F32) {
        base_buf_printf(r->out, "asked[%u]", r->n_asked++);
        if (r->loads == GEN_ASKED) return;
        base_buf_puts(r->out, " = ");
    }
    if (narrow) base_buf_printf(r->out, "rp_%s_to_f32(", narrow);
    put_place(r, in);
    base_buf_puts(r->out, narrow ? ")" : b->dtype == RP_DTYPE_BOOL ? " != 0" : "");
}

/* An integer that a float may have been converted to, and nothing computed since. */
static bool was_float(const gen_render *r, kir_ref ref) {
    const kir_inst *in = &r->f->insts[ref];
    bool was = in->op == KIR_CVT;
    if (in->op == KIR_SELECT) return was_float(r, in->in[1]) || was_float(r, in->in[2]);
    if (in->op != KIR_ROUND_TO && in->op != KIR_ALU) return was;
    for (uint32_t i = 0; i < in->n_in; i++) was = was || was_float(r, in->in[i]);
    return was;
}

/* An integer as a float; from a float it goes through rk_from_i32 or rk_from_i64, which say why. */
static void put_from_int(gen_render *r, const kir_inst *in) {
    bool wide = r->f->insts[in->in[0]].cls == KIR_I64;
    const char *guarded = wide ? "rk_from_i64(a)" : "rk_from_i32(a)";
    gen_expr(r, was_float(r, in->in[0]) ? guarded : "(float)a", in->in);
}

/* From or to f64. A comparison is asked, not converted: ptxas 13.0 takes one 0 or 1 in f64 for another where they share a register. */
static void put_convert_wide(gen_render *r, const kir_inst *in) {
    const kir_inst *from = &r->f->insts[in->in[0]];
    bool was_int = kir_is_int(from->cls);
    if (r->cuda && from->op == KIR_ALU && ir_op_compares(from->u.alu) && from->cls == KIR_F64)
        gen_expr(r, in->cls == KIR_F32 ? "a != 0.0 ? 1.0f : 0.0f" : "a != 0.0 ? 1 : 0", in->in);
    else if (in->cls == KIR_F64)
        gen_expr(r, was_int && was_float(r, in->in[0]) ? "rk_f64_from_int(a)" : "(double)a",
                 in->in);
    else
        gen_expr(r,
                 in->cls == KIR_F32   ? "(float)a"
                 : in->cls == KIR_I64 ? "rk_f64_to_i64(a)"
                                      : "rk_f64_to_i32(a)",
                 in->in);
}

static void put_convert(gen_render *r, const kir_inst *in) {
    kir_range a = r->f->ranges[in->in[0]];
    bool is_float = r->f->insts[in->in[0]].cls == KIR_F32;

    if (in->cls == KIR_F64 || r->f->insts[in->in[0]].cls == KIR_F64)
        put_convert_wide(r, in);
    else if (in->cls == KIR_F32)
        put_from_int(r, in);
    else if (in->cls == KIR_I64)
        gen_expr(r, is_float ? "rk_to_i64(a)" : "(rp_i64)a", in->in);
    else
        gen_expr(r, fits_i32(a) ? "(rp_i32)a" : is_float ? "rk_to_i32(a)" : "rk_sat(a)", in->in);
}

static void put_data(gen_render *r, const kir_inst *in) {
    kir_range a = in->n_in ? r->f->ranges[in->in[0]] : KIR_RANGE_ALL;

    switch (in->op) {
    case KIR_FROM_INDEX:
        if (in->cls == KIR_F64)
            gen_expr(r, "(double)a", in->in);
        else if (in->cls == KIR_F32)
            gen_expr(r, fits_i32(a) ? "(float)(rp_i32)a" : "(float)a", in->in);
        else if (in->cls == KIR_I64)
            gen_put(r, in->in[0]);
        else
            gen_expr(r, fits_i32(a) ? "(rp_i32)a" : "rk_sat(a)", in->in);
        break;
    case KIR_ALU:
        if (kir_is_int(in->cls))
            put_alu_int(r, in);
        else if (in->cls == KIR_F64)
            double_expr(r, in);
        else
            gen_expr(r, ir_op_table(in->u.alu)->expr, in->in);
        break;
    case KIR_SELECT: gen_expr(r, "a ? b : c", in->in); break;
    case KIR_CVT: put_convert(r, in); break;
    case KIR_CVT_ODD:
        gen_expr(r, r->f->insts[in->in[0]].cls == KIR_F64 ? "rk_f64_to_odd(a)" : "rk_to_odd(a)",
                 in->in);
        break;
    case KIR_ROUND_TO: put_round(r, in); break;
    case KIR_BITS: put_bits(r, in); break;
    case KIR_SHR:
        gen_put(r, in->in[0]);
        base_buf_printf(r->out, " >> %d", (int)in->u.i);
        break;
    case KIR_BAND:
        gen_put(r, in->in[0]);
        base_buf_printf(r->out, " & 0x%x", (unsigned)(uint32_t)in->u.i);
        break;
    default: put_load(r, in); break;
    }
}

static void put_store(gen_render *r, const kir_inst *in) {
    const kir_buf *b = &r->f->bufs[in->u.buf];
    kir_range to = kir_dtype_range(b->dtype), have = r->f->ranges[in->in[1]];
    char v[GEN_NAME_SIZE];

    gen_text(r, in->in[1], v, sizeof v);
    put_place(r, in);
    base_buf_puts(r->out, " = ");
    if (b->dtype == RP_DTYPE_F32 || b->dtype == RP_DTYPE_I32 || b->dtype == RP_DTYPE_I64 ||
        b->dtype == RP_DTYPE_F64)
        base_buf_puts(r->out, v);
    else if (narrow_name(b->dtype))
        base_buf_printf(r->out, "rp_f32_to_%s(%s)", narrow_name(b->dtype), v);
    else if (have.lo >= to.lo && have.hi <= to.hi)
        base_buf_printf(r->out, "(%s)%s", gen_elem_type(b->dtype), v);
    else {
        base_buf_printf(r->out, "(%s)", gen_elem_type(b->dtype));
        put_clamped(r, KIR_I32, b->dtype, v);
    }
}

void gen_statement(gen_render *r, kir_ref at) {
    const kir_inst *in = &r->f->insts[at];
    char name[GEN_NAME_SIZE];

    if (kir_is_global(in->op) || (in->op != KIR_STORE && !r->used[at])) return;
    if (in->op == KIR_STORE && r->loads == GEN_ASKS) return;
    indent(r);
    if (in->op == KIR_STORE) {
        put_store(r, in);
    } else {
        base_buf_printf(r->out, "const %s %s = ", gen_class_type(in->cls),
                        gen_text(r, at, name, sizeof name));
        if (in->cls == KIR_INDEX)
            put_index(r, in);
        else
            put_data(r, in);
    }
    base_buf_puts(r->out, ";\n");
}

void gen_dims(gen_render *r) {
    for (kir_ref at = 0; at < r->f->n_insts; at++) {
        if (r->f->insts[at].op != KIR_DIM || !r->used[at]) continue;
        indent(r);
        base_buf_printf(r->out, "const long long i%u = ", at);
        ir_dim_print_c(r->f->dims, r->f->insts[at].u.dim, "dim", r->out);
        base_buf_puts(r->out, ";\n");
    }
}

const char *gen_neutral(kir_reduce how, kir_class c) {
    static const char *const texts[][KIR_VOID] = {
        [KIR_SUM] = {"0", "0.0f", "0", "0", "0.0"},
        [KIR_PROD] = {"1", "1.0f", "1", "1", "1.0"},
        [KIR_MAX] = {"0", "-RP_INF", "-2147483647 - 1", "-9223372036854775807LL - 1", "-RP_INF"},
        [KIR_MIN] = {"0", "RP_INF", "2147483647", "9223372036854775807LL", "RP_INF"},
        [KIR_ARGMAX] = {"0", "0.0f", "0", "0", "0.0"},
        [KIR_CHAIN] = {"0", "0.0f", "0", "0", "0.0"}};
    return texts[how][c];
}
