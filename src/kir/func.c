/* The function object: memory, buffers, raw append, and the table of ops.
 *
 * Everything lives in one arena that dies with the function. insts, ranges, blocks and lists of shared values
 * (shared.c) grow together. Appending keeps the stack of open blocks, so builders and parser agree on scopes; whether the
 * text makes sense is the verifier's business. */
#include "kir/inst.h"

#include <string.h>

#include "base/number.h"

#define PLAIN KIR_SHAPE_PLAIN

static const kir_op_info op_infos[KIR_OP_COUNT_] = {
    [KIR_CONST_I] = {"const.i", PLAIN, 0, "", 'i'},
    [KIR_CONST_F] = {"const.f", PLAIN, 0, "", 'd'},
    [KIR_DIM] = {"dim", PLAIN, 0, "", 'i'},
    [KIR_PARAM] = {"param", PLAIN, 0, "", 'i'},
    [KIR_PAR] = {"par", KIR_SHAPE_BEGIN, 1, "i", 'i'},
    [KIR_LOOP] = {"loop", KIR_SHAPE_BEGIN, 1, "i", 'i'},
    [KIR_REDUCE] = {"reduce", KIR_SHAPE_BEGIN, 1, "i", 'i'},
    [KIR_YIELD] = {"yield", KIR_SHAPE_END, 1, "d", 's'},
    [KIR_IF] = {"if", KIR_SHAPE_BEGIN, 1, "i", '-'},
    [KIR_END] = {"end", KIR_SHAPE_END, 0, "", '-'},
    [KIR_IADD] = {"iadd", PLAIN, 2, "ii", 'i'},
    [KIR_ISUB] = {"isub", PLAIN, 2, "ii", 'i'},
    [KIR_IMUL] = {"imul", PLAIN, 2, "ii", 'i'},
    [KIR_IDIV] = {"idiv", PLAIN, 2, "ii", 'i'},
    [KIR_IMOD] = {"imod", PLAIN, 2, "ii", 'i'},
    [KIR_IMIN] = {"imin", PLAIN, 2, "ii", 'i'},
    [KIR_IMAX] = {"imax", PLAIN, 2, "ii", 'i'},
    [KIR_ILT] = {"ilt", PLAIN, 2, "ii", 'i'},
    [KIR_IAND] = {"iand", PLAIN, 2, "ii", 'i'},
    [KIR_ISELECT] = {"iselect", PLAIN, 3, "iii", 'i'},
    [KIR_TO_INDEX] = {"to_index", PLAIN, 1, "n", 'i'},
    [KIR_FROM_INDEX] = {"from_index", PLAIN, 1, "i", 'd'},
    [KIR_ALU] = {"alu", PLAIN, 0, "ddd", 's'},
    [KIR_SELECT] = {"select", PLAIN, 3, "idd", 'd'},
    [KIR_CVT] = {"cvt", PLAIN, 1, "d", 'd'},
    [KIR_CVT_ODD] = {"cvt_odd", PLAIN, 1, "d", 'f'},
    [KIR_ROUND_TO] = {"round_to", PLAIN, 1, "d", 's'},
    [KIR_BITS] = {"bits", PLAIN, 1, "d", 'd'},
    [KIR_SHR] = {"shr", PLAIN, 1, "t", 't'},
    [KIR_BAND] = {"band", PLAIN, 1, "t", 't'},
    [KIR_LOAD] = {"load", PLAIN, 1, "i", 'b'},
    [KIR_STORE] = {"store", KIR_SHAPE_EFFECT, 2, "id", '-'},
};

const kir_op_info *kir_op_table(kir_op op) {
    return &op_infos[op];
}

const char *kir_class_name(kir_class c) {
    static const char *const names[] = {"index", "f32", "i32", "i64", "f64", "void"};
    return names[c];
}

rp_dtype kir_class_dtype(kir_class c) {
    static const rp_dtype types[] = {RP_DTYPE_I32, RP_DTYPE_F32, RP_DTYPE_I32,
                                     RP_DTYPE_I64, RP_DTYPE_F64, RP_DTYPE_I32};
    return types[c];
}

const char *kir_reduce_name(kir_reduce r) {
    static const char *const names[] = {"sum", "prod", "max", "min", "argmax", "chain"};
    return names[r];
}

bool kir_is_global(kir_op op) {
    return op == KIR_CONST_I || op == KIR_CONST_F || op == KIR_DIM || op == KIR_PARAM;
}

bool kir_dtype_ok(rp_dtype t) {
    return ir_dtype_is_real(t) || t == RP_DTYPE_I64 || t == RP_DTYPE_I32 || t == RP_DTYPE_I16 ||
           t == RP_DTYPE_I8 || t == RP_DTYPE_U8 || t == RP_DTYPE_BOOL;
}

static bool is_bytes(const kir_buf *b) {
    return b->dtype == RP_DTYPE_U8 && b->offset == 0;
}

bool kir_same_memory(const kir_func *f, uint32_t a, uint32_t b) {
    const kir_buf *x = &f->bufs[a], *y = &f->bufs[b];
    if (a == b) return true;
    return x->space == KIR_ARG && y->space == KIR_ARG && x->slot == y->slot &&
           (x->offset == y->offset || is_bytes(x) || is_bytes(y));
}

kir_class kir_buf_class(rp_dtype t) {
    if (t == RP_DTYPE_I64) return KIR_I64;
    if (t == RP_DTYPE_F64) return KIR_F64;
    return ir_dtype_is_real(t) ? KIR_F32 : KIR_I32;
}

void kir_fail(kir_func *f, rp_status code, const char *fmt, ...) {
    va_list ap;
    char text[sizeof f->error.text];

    if (f->failed) return;
    f->failed = true;
    va_start(ap, fmt);
    (void)base_vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    (void)rp_fail(&f->error, code, "kernel %s: %s", f->name ? f->name : "?", text);
}

/* Symbols keep their order: dim[i] of a launch is symbol i. */
static bool import_symbols(kir_func *f, const ir_dims *src) {
    uint32_t n = src ? ir_dims_symbol_count(src) : 0;

    for (uint32_t i = 0; i < n; i++) {
        const ir_symbol *s = ir_dims_symbol(src, i);
        if (ir_dim_symbol(f->dims, s->name, s->min, s->max, s->divisor) == IR_DIM_BAD) return false;
    }
    return true;
}

kir_func *kir_new(const char *name, kir_form form, const ir_dims *dims) {
    base_arena *arena = base_arena_new();
    kir_func *f = arena ? base_arena_alloc(arena, sizeof *f) : NULL;

    if (!f) {
        base_arena_free(arena);
        return NULL;
    }
    f->arena = arena;
    f->form = form;
    f->name = base_arena_str(arena, name);
    f->dims = ir_dims_new(arena);
    if (!f->name || !f->dims || !import_symbols(f, dims)) {
        kir_free(f);
        return NULL;
    }
    return f;
}

void kir_free(kir_func *f) {
    if (f) base_arena_free(f->arena);
}

rp_status kir_status(const kir_func *f, rp_error *err) {
    if (!f) return rp_fail(err, RP_NOMEM, "kernel: out of memory");
    if (!f->failed) return RP_OK;
    return rp_fail(err, f->error.code, "%s", f->error.text);
}

/* Old arrays stay in the arena until the function dies; doubling keeps that below one more copy. */
static void *grow(kir_func *f, const void *old, uint32_t n, uint32_t cap, size_t size) {
    void *p = base_arena_array(f->arena, cap, size);
    if (p && n) memcpy(p, old, n * size);
    return p;
}

static bool reserve_inst(kir_func *f) {
    uint32_t cap = f->cap_insts ? f->cap_insts * 2 : 64;
    kir_inst *insts;
    kir_range *ranges;
    kir_ref *blocks;

    if (f->n_insts < f->cap_insts) return true;
    if (f->n_insts >= (UINT32_MAX >> 2)) return false;
    insts = grow(f, f->insts, f->n_insts, cap, sizeof *insts);
    ranges = grow(f, f->ranges, f->n_insts, cap, sizeof *ranges);
    blocks = grow(f, f->blocks, f->n_insts, cap, sizeof *blocks);
    if (!insts || !ranges || !blocks || !kir_shared_grow(f, cap)) return false;
    f->insts = insts;
    f->ranges = ranges;
    f->blocks = blocks;
    f->cap_insts = cap;
    for (kir_ref i = 0; i < f->n_insts; i++) kir_shared_add(f, i);
    return true;
}

kir_ref kir_append(kir_func *f, kir_inst in) {
    const kir_op_info *info = kir_op_table(in.op);
    kir_ref r = f->n_insts;

    if (f->failed) return KIR_NONE;
    if (!reserve_inst(f)) {
        kir_fail(f, RP_NOMEM, "out of memory at instruction %u", r);
        return KIR_NONE;
    }
    if (info->shape == KIR_SHAPE_END) {
        if (!f->n_open) {
            kir_fail(f, RP_INVALID, "%s without an open block", info->text);
            return KIR_NONE;
        }
        f->n_open--;
    }
    f->insts[r] = in;
    f->blocks[r] = f->n_open ? f->open[f->n_open - 1] : KIR_NONE;
    f->ranges[r] = kir_range_of(f, &in);
    f->n_insts++;
    kir_shared_add(f, r);
    if (info->shape == KIR_SHAPE_BEGIN) {
        if (f->n_open == KIR_MAX_DEPTH) {
            kir_fail(f, RP_UNSUPPORTED, "blocks nest deeper than %d", KIR_MAX_DEPTH);
            return KIR_NONE;
        }
        f->open[f->n_open++] = r;
        /* The counter of a loop belongs to its body. */
        f->blocks[r] = r;
    }
    return r;
}

bool kir_is_visible(const kir_func *f, kir_ref r) {
    if (r >= f->n_insts) return false;
    if (kir_is_global(f->insts[r].op) || f->blocks[r] == KIR_NONE) return true;
    for (uint32_t i = 0; i < f->n_open; i++) {
        if (f->open[i] == f->blocks[r]) return true;
    }
    return false;
}

uint32_t kir_add_buf(kir_func *f, const char *name, kir_space space, rp_dtype dtype, uint32_t slot,
                     int64_t offset, int64_t size) {
    uint32_t cap = f->cap_bufs ? f->cap_bufs * 2 : 8;
    kir_buf *b;

    if (f->failed) return KIR_NONE;
    if (!kir_dtype_ok(dtype)) {
        kir_fail(f, RP_UNSUPPORTED, "buffer %s cannot be %s", name, rp_dtype_name(dtype));
        return KIR_NONE;
    }
    if (f->n_bufs == f->cap_bufs) {
        b = grow(f, f->bufs, f->n_bufs, cap, sizeof *b);
        if (b) {
            f->bufs = b;
            f->cap_bufs = cap;
        }
    }
    name = f->n_bufs < f->cap_bufs ? base_arena_str(f->arena, name) : NULL;
    if (!name) {
        kir_fail(f, RP_NOMEM, "out of memory at buffer %u", f->n_bufs);
        return KIR_NONE;
    }
    f->bufs[f->n_bufs] = (kir_buf){name, space, dtype, slot, offset, size, false};
    return f->n_bufs++;
}
