/* The interpreter: runs a function on host memory, one element at a time.
 *
 * Follows the order that kir.h fixes for reductions, so generated host code gives the same
 * bits. Checks what a machine could not survive (divisors, negative extents and indices, scratch bounds);
 * the sizes of arguments are the caller's word. */
#include "kir/scalar.h"

#include <math.h>
#include <string.h>

typedef union slot {
    int64_t i;
    float f;
    int32_t d;
    double w;
} slot;

/* A reduction that is under way. */
typedef struct reduction {
    float f[16];
    double w[16];
    double chunks; /* SUM: of the chunks that are complete */
    int64_t i[16];
    int64_t best; /* ARGMAX: where; -1 before the first */
    double best_f;
    int64_t best_i;
} reduction;

typedef struct machine {
    const kir_func *f;
    void *const *args;
    const int64_t *symbols, *params;
    int64_t begin, end;
    slot *value;      /* beside insts */
    kir_ref *partner; /* beside insts: the end of a begin */
    void **base;      /* beside bufs: address of element 0 */
    rp_error *err;
} machine;

static rp_status fault(const machine *m, kir_ref at, const char *what, int64_t v) {
    return rp_fail(m->err, RP_INVALID, "kernel %s: instruction %u (%s): %s %lld", m->f->name, at,
                   kir_op_table(m->f->insts[at].op)->text, what, (long long)v);
}

static rp_status run_block(machine *m, kir_ref from, kir_ref to);

static rp_status run_index(machine *m, kir_ref at, const kir_inst *in) {
    int64_t a = in->n_in > 0 ? m->value[in->in[0]].i : 0;
    int64_t b = in->n_in > 1 ? m->value[in->in[1]].i : 0;
    int64_t *out = &m->value[at].i;

    switch (in->op) {
    case KIR_CONST_I: *out = in->u.i; break;
    case KIR_DIM: *out = ir_dim_eval(m->f->dims, in->u.dim, m->symbols); break;
    case KIR_PARAM: *out = m->params[in->u.i]; break;
    case KIR_IADD: *out = (int64_t)((uint64_t)a + (uint64_t)b); break;
    case KIR_ISUB: *out = (int64_t)((uint64_t)a - (uint64_t)b); break;
    case KIR_IMUL: *out = (int64_t)((uint64_t)a * (uint64_t)b); break;
    case KIR_IDIV:
    case KIR_IMOD:
        if (b < 1) return fault(m, at, "divisor", b);
        *out = in->op == KIR_IDIV ? kir_floordiv(a, b) : kir_mod(a, b);
        break;
    case KIR_IMIN: *out = a < b ? a : b; break;
    case KIR_IMAX: *out = a > b ? a : b; break;
    case KIR_ILT: *out = a < b; break;
    case KIR_IAND: *out = a && b; break;
    case KIR_ISELECT: *out = a ? b : m->value[in->in[2]].i; break;
    default: /* TO_INDEX */
        *out = m->f->insts[in->in[0]].cls == KIR_I64 ? a : m->value[in->in[0]].d;
        break;
    }
    return RP_OK;
}

static rp_status locate(machine *m, kir_ref at, const kir_inst *in, int64_t *out) {
    const kir_buf *b = &m->f->bufs[in->u.buf];
    int64_t i = m->value[in->in[0]].i;

    if (i < 0 || (b->space == KIR_SCRATCH && b->size && i >= b->size))
        return fault(m, at, "index", i);
    *out = i;
    return RP_OK;
}

static rp_status run_memory(machine *m, kir_ref at, const kir_inst *in) {
    rp_dtype t = m->f->bufs[in->u.buf].dtype;
    void *base = m->base[in->u.buf];
    int64_t i = 0;

    RP_TRY(locate(m, at, in, &i));
    if (in->op == KIR_LOAD) {
        if (in->cls == KIR_F32)
            m->value[at].f = kir_load_f32(t, base, i);
        else if (in->cls == KIR_F64)
            memcpy(&m->value[at].w, (const double *)base + i, sizeof(double));
        else if (in->cls == KIR_I64)
            m->value[at].i = kir_load_i64(base, i);
        else
            m->value[at].d = kir_load_i32(t, base, i);
    } else if (kir_buf_class(t) == KIR_F64) {
        memcpy((double *)base + i, &m->value[in->in[1]].w, sizeof(double));
    } else if (kir_buf_class(t) == KIR_I64) {
        kir_store_i64(base, i, m->value[in->in[1]].i);
    } else if (kir_buf_class(t) == KIR_F32) {
        kir_store_f32(t, base, i, m->value[in->in[1]].f);
    } else {
        kir_store_i32(t, base, i, m->value[in->in[1]].d);
    }
    return RP_OK;
}

static void run_alu(machine *m, slot *out, const kir_inst *in) {
    slot v[3] = {{0}, {0}, {0}};

    for (uint32_t i = 0; i < in->n_in; i++) v[i] = m->value[in->in[i]];
    if (in->cls == KIR_F32)
        out->f = kir_alu_f32(in->u.alu, v[0].f, v[1].f, v[2].f);
    else if (in->cls == KIR_F64)
        out->w = kir_alu_f64(in->u.alu, v[0].w, v[1].w, v[2].w);
    else if (in->cls == KIR_I64)
        out->i = kir_alu_i64(in->u.alu, v[0].i, v[1].i, v[2].i);
    else
        out->d = kir_alu_i32(in->u.alu, v[0].d, v[1].d, v[2].d);
}

/* From or to f64. */
static void convert_wide(kir_class to, kir_class from, slot a, slot *out) {
    if (to == KIR_F64)
        out->w = from == KIR_F32 ? (double)a.f : (double)(from == KIR_I64 ? a.i : a.d);
    else if (to == KIR_F32)
        out->f = (float)a.w;
    else if (to == KIR_I64)
        out->i = kir_f64_to_i64(a.w);
    else
        out->d = kir_f64_to_i32(a.w);
}

static void convert(const kir_inst *in, kir_class from, slot a, slot *out) {
    int64_t v = from == KIR_I64 ? a.i : a.d;

    if (from == KIR_F64 || in->cls == KIR_F64) {
        convert_wide(in->cls, from, a, out);
        return;
    }
    if (in->cls == KIR_F32)
        out->f = from == KIR_I64 ? (float)a.i : (float)a.d;
    else if (in->cls == KIR_I64)
        out->i = from == KIR_F32 ? kir_f32_to_i64(a.f) : v;
    else
        out->d = from == KIR_F32 ? kir_f32_to_i32(a.f)
                                 : kir_saturate(v, kir_dtype_range(RP_DTYPE_I32));
}

static void round_to(const kir_inst *in, slot a, slot *out) {
    kir_range range = kir_dtype_range(in->u.dtype);
    bool is_bool = in->u.dtype == RP_DTYPE_BOOL;

    if (in->cls == KIR_F32)
        out->f = kir_round_f32(in->u.dtype, a.f);
    else if (in->cls == KIR_I64)
        out->i = is_bool ? a.i != 0 : kir_saturate(a.i, range);
    else
        out->d = is_bool ? a.d != 0 : kir_saturate(a.d, range);
}

/* Between an f32 or f64 and the integer of its bits as an element of t: by memory that holds one. */
static void bits(const kir_inst *in, slot a, slot *out) {
    const rp_dtype t = in->u.dtype;
    const rp_dtype as = rp_dtype_block_bytes(t) == 2 ? RP_DTYPE_I16
                        : ir_dtype_is_f8(t)          ? RP_DTYPE_U8
                                                     : RP_DTYPE_I32;
    union { /* of one element */
        int64_t w;
        int32_t d;
        int16_t h;
        uint8_t b;
    } m = {.w = a.i};

    if (t == RP_DTYPE_F64) { /* a slot has both in the same bytes */
        *out = a;
    } else if (kir_is_int(in->cls)) {
        kir_store_f32(t, &m, 0, a.f);
        out->d = kir_load_i32(as, &m, 0);
    } else {
        m.d = a.d;
        if (as == RP_DTYPE_I16) m.h = (int16_t)(uint16_t)(uint32_t)a.d;
        if (as == RP_DTYPE_U8) m.b = (uint8_t)(uint32_t)a.d;
        out->f = kir_load_f32(t, &m, 0);
    }
}

static void set_constant(const kir_inst *in, slot *out) {
    if (in->cls == KIR_F64)
        out->w = in->u.f;
    else
        out->f = (float)in->u.f;
}

static void run_data(machine *m, kir_ref at, const kir_inst *in) {
    slot a = in->n_in ? m->value[in->in[0]] : (slot){0};
    kir_class from = in->n_in ? m->f->insts[in->in[0]].cls : KIR_VOID;
    slot *out = &m->value[at];

    switch (in->op) {
    case KIR_CONST_F: set_constant(in, out); break;
    case KIR_FROM_INDEX:
        if (in->cls == KIR_F32)
            out->f = (float)a.i;
        else if (in->cls == KIR_F64)
            out->w = (double)a.i;
        else if (in->cls == KIR_I64)
            out->i = a.i;
        else
            out->d = kir_saturate(a.i, kir_dtype_range(RP_DTYPE_I32));
        break;
    case KIR_ALU: run_alu(m, out, in); break;
    case KIR_SELECT: *out = m->value[a.i ? in->in[1] : in->in[2]]; break;
    case KIR_CVT: convert(in, from, a, out); break;
    case KIR_CVT_ODD:
        out->f = from == KIR_F64 ? kir_f64_to_odd(a.w)
                                 : kir_i64_to_odd(from == KIR_I64 ? a.i : a.d);
        break;
    case KIR_ROUND_TO: round_to(in, a, out); break;
    case KIR_BITS: bits(in, a, out); break;
    case KIR_SHR: out->d = a.d >> in->u.i; break;
    default: out->d = a.d & (int32_t)in->u.i; break; /* BAND */
    }
}

static void start_reduction(const kir_inst *in, kir_class cls, reduction *r) {
    float f = 0.0f;
    int64_t i = 0;

    switch (in->u.reduce) {
    case KIR_PROD:
        f = 1.0f;
        i = 1;
        break;
    case KIR_MAX:
        f = -INFINITY;
        i = cls == KIR_I64 ? INT64_MIN : INT32_MIN;
        break;
    case KIR_MIN:
        f = INFINITY;
        i = cls == KIR_I64 ? INT64_MAX : INT32_MAX;
        break;
    default: break;
    }
    for (int l = 0; l < 16; l++) {
        r->f[l] = f;
        r->w[l] = (double)f;
        r->i[l] = i;
    }
    r->best = -1;
    r->chunks = 0.0;
}

static float tree(kir_reduce how, float *f) {
    ir_op op = how == KIR_SUM ? IR_add : how == KIR_MAX ? IR_max : IR_min;

    if (how == KIR_PROD) return f[0];
    for (int w = 8; w; w /= 2) {
        for (int l = 0; l < w; l++) f[l] = kir_alu_f32(op, f[l], f[l + w], 0);
    }
    return f[0];
}

static void end_chunk(reduction *r) {
    r->chunks += (double)tree(KIR_SUM, r->f);
    for (int l = 0; l < 16; l++) r->f[l] = 0.0f;
}

static void reduce_f32(kir_reduce how, reduction *r, int64_t n, float v) {
    float *acc = &r->f[n & 15];

    if (how == KIR_SUM && n && n % KIR_CHUNK == 0) end_chunk(r);

    switch (how) {
    case KIR_SUM: *acc = *acc + v; break;
    case KIR_PROD: r->f[0] = r->f[0] * v; break;
    case KIR_CHAIN: r->chunks += (double)v; break;
    case KIR_MAX: *acc = kir_alu_f32(IR_max, *acc, v, 0); break;
    case KIR_MIN: *acc = kir_alu_f32(IR_min, *acc, v, 0); break;
    default:
        if (r->best >= 0 && !((double)v > r->best_f) && !(v != v && r->best_f == r->best_f)) break;
        r->best = n;
        r->best_f = (double)v;
    }
}

/* Integer sums wrap, as 64 bits: what is left of that in 32 is the sum that wraps there. */
static void reduce_int(kir_reduce how, reduction *r, int64_t n, int64_t v) {
    switch (how) {
    case KIR_SUM: r->i[0] = (int64_t)((uint64_t)r->i[0] + (uint64_t)v); break;
    case KIR_PROD: r->i[0] = (int64_t)((uint64_t)r->i[0] * (uint64_t)v); break;
    case KIR_MAX: r->i[0] = v > r->i[0] ? v : r->i[0]; break;
    case KIR_MIN: r->i[0] = v < r->i[0] ? v : r->i[0]; break;
    default:
        if (r->best >= 0 && v <= r->best_i) break;
        r->best = n;
        r->best_i = v;
    }
}

/* The same in double precision. */
static double tree_f64(kir_reduce how, double *w) {
    ir_op op = how == KIR_SUM ? IR_add : how == KIR_MAX ? IR_max : IR_min;

    if (how == KIR_PROD) return w[0];
    for (int n = 8; n; n /= 2) {
        for (int l = 0; l < n; l++) w[l] = kir_alu_f64(op, w[l], w[l + n], 0);
    }
    return w[0];
}

static void end_chunk_f64(reduction *r) {
    r->chunks += tree_f64(KIR_SUM, r->w);
    for (int l = 0; l < 16; l++) r->w[l] = 0.0;
}

static void reduce_f64(kir_reduce how, reduction *r, int64_t n, double v) {
    double *acc = &r->w[n & 15];

    if (how == KIR_SUM && n && n % KIR_CHUNK == 0) end_chunk_f64(r);
    switch (how) {
    case KIR_SUM: *acc = *acc + v; break;
    case KIR_PROD: r->w[0] = r->w[0] * v; break;
    case KIR_CHAIN: r->chunks += v; break;
    case KIR_MAX: *acc = kir_alu_f64(IR_max, *acc, v, 0); break;
    case KIR_MIN: *acc = kir_alu_f64(IR_min, *acc, v, 0); break;
    default:
        if (r->best >= 0 && !(v > r->best_f) && !(v != v && r->best_f == r->best_f)) break;
        r->best = n;
        r->best_f = v;
    }
}

static double reduced_f64(kir_reduce how, reduction *r) {
    if (how != KIR_SUM && how != KIR_CHAIN) return tree_f64(how, r->w);
    if (how == KIR_SUM) end_chunk_f64(r);
    return r->chunks;
}

static float reduced_f32(kir_reduce how, reduction *r) {
    if (how != KIR_SUM && how != KIR_CHAIN) return tree(how, r->f);
    if (how == KIR_SUM) end_chunk(r);
    return (float)r->chunks;
}

static rp_status run_reduce(machine *m, kir_ref at, int64_t extent) {
    const kir_inst *in = &m->f->insts[at];
    kir_ref end = m->partner[at];
    kir_ref value = m->f->insts[end].in[0];
    kir_class cls = m->f->insts[value].cls;
    reduction r;

    start_reduction(in, cls, &r);
    for (int64_t n = 0; n < extent; n++) {
        m->value[at].i = n;
        RP_TRY(run_block(m, at + 1, end));
        if (cls == KIR_F32)
            reduce_f32(in->u.reduce, &r, n, m->value[value].f);
        else if (cls == KIR_F64)
            reduce_f64(in->u.reduce, &r, n, m->value[value].w);
        else
            reduce_int(in->u.reduce, &r, n, cls == KIR_I64 ? m->value[value].i : m->value[value].d);
    }
    if (in->u.reduce == KIR_ARGMAX)
        m->value[end].d = r.best < 0 ? 0 : (int32_t)r.best;
    else if (cls == KIR_F32)
        m->value[end].f = reduced_f32(in->u.reduce, &r);
    else if (cls == KIR_F64)
        m->value[end].w = reduced_f64(in->u.reduce, &r);
    else if (cls == KIR_I64)
        m->value[end].i = r.i[0];
    else
        m->value[end].d = (int32_t)(uint32_t)r.i[0];
    return RP_OK;
}

static rp_status run_begin(machine *m, kir_ref at, const kir_inst *in) {
    int64_t extent = m->value[in->in[0]].i, from = 0;
    kir_ref end = m->partner[at];

    if (in->op == KIR_IF) return extent ? run_block(m, at + 1, end) : RP_OK;
    if (extent < 0) return fault(m, at, "extent", extent);
    if (in->op == KIR_REDUCE) return run_reduce(m, at, extent);
    if (in->op == KIR_PAR) {
        if (m->begin < 0 || m->end > extent) return fault(m, at, "items beyond extent", extent);
        from = m->begin;
        extent = m->end;
    }
    for (int64_t n = from; n < extent; n++) {
        m->value[at].i = n;
        RP_TRY(run_block(m, at + 1, end));
    }
    return RP_OK;
}

static rp_status run_block(machine *m, kir_ref from, kir_ref to) {
    for (kir_ref at = from; at < to; at++) {
        const kir_inst *in = &m->f->insts[at];
        if (kir_op_table(in->op)->shape == KIR_SHAPE_BEGIN) {
            RP_TRY(run_begin(m, at, in));
            at = m->partner[at];
        } else if (in->op == KIR_LOAD || in->op == KIR_STORE) {
            RP_TRY(run_memory(m, at, in));
        } else if (in->cls == KIR_INDEX) {
            RP_TRY(run_index(m, at, in));
        } else if (in->cls != KIR_VOID) {
            run_data(m, at, in);
        }
    }
    return RP_OK;
}

/* Globals may be used in blocks beside the one they were made in. */
static rp_status run_globals(machine *m) {
    for (kir_ref at = 0; at < m->f->n_insts; at++) {
        const kir_inst *in = &m->f->insts[at];
        if (in->op == KIR_CONST_F)
            set_constant(in, &m->value[at]);
        else if (kir_is_global(in->op))
            RP_TRY(run_index(m, at, in));
    }
    return RP_OK;
}

static void find_partners(machine *m) {
    kir_ref open[KIR_MAX_DEPTH];
    uint32_t n = 0;

    for (kir_ref at = 0; at < m->f->n_insts; at++) {
        kir_shape shape = kir_op_table(m->f->insts[at].op)->shape;
        if (shape == KIR_SHAPE_BEGIN) open[n++] = at;
        if (shape == KIR_SHAPE_END && n > 0) m->partner[open[--n]] = at;
    }
}

static rp_status place_bufs(machine *m, base_arena *arena) {
    const kir_func *f = m->f;
    uint32_t n_slots = 0, n_scratch = 0;

    for (uint32_t i = 0; i < f->n_bufs; i++) {
        if (f->bufs[i].space == KIR_ARG && f->bufs[i].slot >= n_slots)
            n_slots = f->bufs[i].slot + 1;
    }
    for (uint32_t i = 0; i < f->n_bufs; i++) {
        const kir_buf *b = &f->bufs[i];
        if (b->space == KIR_ARG) {
            m->base[i] = (char *)m->args[b->slot] + b->offset;
        } else if (f->form == KIR_FRAGMENT) {
            m->base[i] = m->args[n_slots + n_scratch++];
        } else {
            m->base[i] = base_arena_array(arena, (size_t)b->size, rp_dtype_block_bytes(b->dtype));
            if (!m->base[i])
                return rp_fail(m->err, RP_NOMEM, "kernel %s: scratch %s", f->name, b->name);
        }
    }
    return RP_OK;
}

rp_status kir_run(const kir_func *f, void *const *args, const int64_t *symbols,
                  const int64_t *params, int64_t begin, int64_t end, rp_error *err) {
    machine m = {.f = f,
                 .args = args,
                 .symbols = symbols,
                 .params = params,
                 .begin = begin,
                 .end = end,
                 .err = err};
    base_arena *arena;
    rp_status st;

    RP_TRY(kir_verify(f, err));
    arena = base_arena_new();
    if (!arena) return rp_fail(err, RP_NOMEM, "kernel %s: interpreter", f->name);
    m.value = base_arena_array(arena, f->n_insts + 1, sizeof *m.value);
    m.partner = base_arena_array(arena, f->n_insts + 1, sizeof *m.partner);
    m.base = base_arena_array(arena, f->n_bufs + 1, sizeof *m.base);
    if (!m.value || !m.partner || !m.base) {
        st = rp_fail(err, RP_NOMEM, "kernel %s: interpreter", f->name);
        goto out;
    }
    find_partners(&m);
    RP_TRY_OUT(place_bufs(&m, arena));
    RP_TRY_OUT(run_globals(&m));
    RP_TRY_OUT(run_block(&m, 0, f->n_insts));
out:
    base_arena_free(arena);
    return st;
}
