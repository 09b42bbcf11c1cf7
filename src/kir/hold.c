/* Rows in temporaries, for a target that deals all loops over them alike and has element i in registers of who takes iteration i.
 *
 * What several loops load of the same place is loaded once: in front of the first of them a loop of its own reads the row. A loop that loads and stores
 * becomes two, since no compiler can know that what it stores is not what it loads next: the first computes, the second stores. */
#include <stdio.h>

#include "base/status.h"
#include "kir/rebuild.h"

#define MOST_ROWS 16 /* that are looked at */
#define MOST_INDEX 8 /* operations deep */

typedef struct row {
    kir_ref load, block; /* the first, and the block that it is in */
    uint32_t blocks;     /* that load it */
    kir_ref last;        /* of those */
    int64_t size;
    uint32_t temporary;
} row;

/* Of a loop that is cut what a store of it stores. */
typedef struct result {
    kir_ref store;
    uint32_t temporary;
} result;

typedef struct holder {
    const kir_func *f;
    kir_func *to;
    kir_ref *map;
    row rows[MOST_ROWS];
    uint32_t n;
    result results[MOST_ROWS];
    uint32_t n_results;
} holder;

static bool goes_over_rows(const kir_func *f, kir_ref block) {
    return block != KIR_NONE &&
           (f->insts[block].op == KIR_LOOP || f->insts[block].op == KIR_REDUCE);
}

static kir_ref end_of(const kir_func *f, kir_ref begin) {
    kir_ref at = begin + 1;
    while (kir_op_table(f->insts[at].op)->shape != KIR_SHAPE_END) at++;
    return at;
}

/* Items whose blocks have no others inside. */
static bool is_flat(const kir_func *f) {
    uint32_t depth = 0, pars = 0;
    for (kir_ref at = 0; at < f->n_insts; at++) {
        const kir_op op = f->insts[at].op;
        const kir_shape shape = kir_op_table(op)->shape;
        pars += op == KIR_PAR;
        depth += shape == KIR_SHAPE_BEGIN;
        depth -= shape == KIR_SHAPE_END;
        if (depth > 2 || op == KIR_IF) return false;
    }
    return f->form == KIR_KERNEL && pars == 1;
}

static bool is_inside(const holder *h, kir_ref r, kir_ref block) {
    return h->f->blocks[r] == block && !kir_is_global(h->f->insts[r].op);
}

static bool is_stored(const kir_func *f, uint32_t buf) {
    for (kir_ref at = 0; at < f->n_insts; at++)
        if (f->insts[at].op == KIR_STORE && f->bufs[f->insts[at].u.buf].slot == f->bufs[buf].slot &&
            f->bufs[f->insts[at].u.buf].space == KIR_ARG)
            return true;
    return false;
}

/* What is the same whenever its operands are: of indices, and an integer that nobody stores. */
static bool is_repeated(const holder *h, const kir_inst *in) {
    if (in->op != KIR_LOAD) return in->cls == KIR_INDEX;
    return kir_is_int(in->cls) && h->f->bufs[in->u.buf].space == KIR_ARG &&
           !is_stored(h->f, in->u.buf);
}

/* Whether r of block a is at each counter what q of block b is: made of the counter, and outside of both of the same. */
static bool is_same(const holder *h, kir_ref r, kir_ref a, kir_ref q, kir_ref b, int depth) {
    const kir_inst *x = &h->f->insts[r], *y = &h->f->insts[q];
    if (r == a || q == b) return r == a && q == b;
    if (!is_inside(h, r, a) || !is_inside(h, q, b)) return r == q;
    if (x->op != y->op || x->n_in != y->n_in || x->cls != y->cls || depth == 0 ||
        !is_repeated(h, x) || (x->op == KIR_LOAD && x->u.buf != y->u.buf))
        return false;
    for (uint32_t i = 0; i < x->n_in; i++)
        if (!is_same(h, x->in[i], a, y->in[i], b, depth - 1)) return false;
    return true;
}

/* Made of the counter of its block, by operations on indices. */
static bool counts(const holder *h, kir_ref r, kir_ref block, int depth) {
    const kir_inst *in = &h->f->insts[r];
    if (r == block) return true;
    if (!is_inside(h, r, block) || in->cls != KIR_INDEX || depth == 0) return false;
    for (uint32_t i = 0; i < in->n_in; i++)
        if (counts(h, in->in[i], block, depth - 1)) return true;
    return false;
}

/* The one of the rows that the load in `block` is of; NULL: none. */
static row *row_of(holder *h, kir_ref at, kir_ref block) {
    const kir_func *f = h->f;
    const kir_inst *in = &f->insts[at];
    for (uint32_t i = 0; i < h->n; i++) {
        row *r = &h->rows[i];
        int64_t size;
        if (f->insts[r->load].u.buf == in->u.buf &&
            kir_const_value(f, f->insts[block].in[0], &size) && size == r->size &&
            is_same(h, f->insts[r->load].in[0], r->block, in->in[0], block, MOST_INDEX))
            return r;
    }
    return NULL;
}

/* Made of the counter of its block and what is outside, by operations on indices. */
static bool is_remade(const holder *h, kir_ref r, kir_ref block, int depth) {
    const kir_inst *in = &h->f->insts[r];
    if (r == block || !is_inside(h, r, block)) return true;
    if (in->cls != KIR_INDEX || in->op == KIR_TO_INDEX || depth == 0) return false;
    for (uint32_t i = 0; i < in->n_in; i++)
        if (!is_remade(h, in->in[i], block, depth - 1)) return false;
    return true;
}

/* Floats: of integers it is known how large those of a buffer are. */
static void note_load(holder *h, kir_ref at, kir_ref block) {
    const kir_func *f = h->f;
    const kir_inst *in = &f->insts[at];
    int64_t size;
    if (f->bufs[in->u.buf].space != KIR_ARG || !kir_is_float(in->cls) ||
        !kir_const_value(f, f->insts[block].in[0], &size) || size < 1 || is_stored(f, in->u.buf) ||
        !counts(h, in->in[0], block, MOST_INDEX))
        return;
    row *r = row_of(h, at, block);
    if (!r && h->n < MOST_ROWS) {
        r = &h->rows[h->n++];
        *r = (row){.load = at, .block = block, .last = KIR_NONE, .size = size};
    }
    if (!r || r->last == block) return;
    r->last = block;
    r->blocks++;
}

static void find_rows(holder *h) {
    const kir_func *f = h->f;
    for (kir_ref at = 0; at < f->n_insts; at++)
        if (f->insts[at].op == KIR_LOAD && goes_over_rows(f, f->blocks[at]))
            note_load(h, at, f->blocks[at]);
}

static int64_t words_of(kir_class c) {
    return c == KIR_F64 || c == KIR_I64 ? 2 : 1;
}

/* Those that are loaded again, as far as there is room. Returns what is left of it. */
static int64_t take_rows(holder *h, int64_t most) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < h->n; i++) {
        const int64_t words = words_of(h->f->insts[h->rows[i].load].cls);
        if (h->rows[i].blocks < 2 || h->rows[i].size > most / words) continue;
        most -= h->rows[i].size * words;
        h->rows[n++] = h->rows[i];
    }
    h->n = n;
    return most;
}

/* Whether the loop loads what it does not find in temporaries, and stores, but to none of what is loaded. */
static bool is_to_be_cut(holder *h, kir_ref block, kir_ref end) {
    const kir_func *f = h->f;
    bool loads = false, stores = false;
    for (kir_ref at = block + 1; at < end; at++) {
        const kir_inst *in = &f->insts[at];
        const bool arg = (in->op == KIR_LOAD || in->op == KIR_STORE) &&
                         f->bufs[in->u.buf].space == KIR_ARG;
        if (!arg) continue;
        loads = loads || (in->op == KIR_LOAD && !row_of(h, at, block));
        stores = stores || in->op == KIR_STORE;
        if (in->op == KIR_STORE && !is_remade(h, in->in[0], block, MOST_INDEX)) return false;
        if (in->op == KIR_LOAD && is_stored(f, in->u.buf)) return false;
    }
    return loads && stores;
}

static void take_results(holder *h, int64_t most) {
    const kir_func *f = h->f;
    for (kir_ref block = 0; block < f->n_insts; block++) {
        int64_t size, words = 0;
        uint32_t n = h->n_results;
        if (f->insts[block].op != KIR_LOOP || !kir_const_value(f, f->insts[block].in[0], &size) ||
            size < 1)
            continue;
        const kir_ref end = end_of(f, block);
        if (!is_to_be_cut(h, block, end)) continue;
        for (kir_ref at = block + 1; at < end && n < MOST_ROWS; at++) {
            const kir_inst *in = &f->insts[at];
            if (in->op != KIR_STORE || f->bufs[in->u.buf].space != KIR_ARG) continue;
            h->results[n++].store = at;
            words += words_of(f->insts[in->in[1]].cls);
        }
        if (n == MOST_ROWS || size > most || size * words > most) continue;
        most -= size * words;
        h->n_results = n;
    }
}

static const result *result_of(const holder *h, kir_ref store) {
    for (uint32_t i = 0; i < h->n_results; i++)
        if (h->results[i].store == store) return &h->results[i];
    return NULL;
}

/* Constants may be made inside for the first time. */
static void make_index(holder *h, kir_ref r, kir_ref block) {
    const kir_inst *in = &h->f->insts[r];
    if (r == block || (!is_inside(h, r, block) && !kir_is_global(in->op))) return;
    for (uint32_t i = 0; i < in->n_in; i++) make_index(h, in->in[i], block);
    h->map[r] = kir_rebuild_inst(h->to, h->f, in, h->map);
}

/* Rows whose first load is in `block` are read in front of it. */
static void read_rows(holder *h, kir_ref block) {
    const kir_func *f = h->f;
    for (uint32_t i = 0; i < h->n; i++) {
        const row *r = &h->rows[i];
        if (r->block != block) continue;
        h->map[block] = kir_begin(h->to, KIR_LOOP, h->map[f->insts[block].in[0]]);
        make_index(h, f->insts[r->load].in[0], block);
        kir_store(h->to, r->temporary, h->map[block],
                  kir_load(h->to, f->insts[r->load].u.buf, h->map[f->insts[r->load].in[0]]));
        kir_end(h->to);
    }
}

static void copy_inst(holder *h, kir_ref at) {
    const kir_inst *in = &h->f->insts[at];
    const kir_ref block = h->f->blocks[at];
    const result *kept = in->op == KIR_STORE ? result_of(h, at) : NULL;
    if (kept) {
        kir_store(h->to, kept->temporary, h->map[block], h->map[in->in[1]]);
        return;
    }
    const row *r = in->op == KIR_LOAD && goes_over_rows(h->f, block) ? row_of(h, at, block) : NULL;
    h->map[at] = r ? kir_load(h->to, r->temporary, h->map[block])
                   : kir_rebuild_inst(h->to, h->f, in, h->map);
}

/* The second of two loops. */
static void store_results(holder *h, kir_ref block, kir_ref end) {
    const kir_func *f = h->f;
    bool open = false;
    for (kir_ref at = block + 1; at < end; at++) {
        const kir_inst *in = &f->insts[at];
        const result *r = in->op == KIR_STORE ? result_of(h, at) : NULL;
        if (!r) continue;
        if (!open) h->map[block] = kir_begin(h->to, KIR_LOOP, h->map[f->insts[block].in[0]]);
        open = true;
        make_index(h, in->in[0], block);
        kir_store(h->to, in->u.buf, h->map[in->in[0]],
                  kir_load(h->to, r->temporary, h->map[block]));
    }
    if (open) kir_end(h->to);
}

static void copy_block(holder *h, kir_ref block) {
    const kir_func *f = h->f;
    const kir_inst *in = &f->insts[block];
    const kir_ref end = end_of(f, block);
    read_rows(h, block);
    h->map[block] = in->op == KIR_REDUCE ? kir_begin_reduce(h->to, in->u.reduce, h->map[in->in[0]])
                                         : kir_begin(h->to, in->op, h->map[in->in[0]]);
    for (kir_ref at = block + 1; at < end; at++) copy_inst(h, at);
    if (in->op == KIR_REDUCE)
        h->map[end] = kir_yield(h->to, h->map[f->insts[end].in[0]]);
    else
        kir_end(h->to);
    store_results(h, block, end);
}

static uint32_t add_temporary(holder *h, const char *name, uint32_t i, kir_class c, int64_t size) {
    char text[24];
    (void)snprintf(text, sizeof text, "%s%u", name, i);
    return kir_add_buf(h->to, text, KIR_SCRATCH, kir_class_dtype(c), 0, 0, size);
}

static void add_temporaries(holder *h) {
    const kir_func *f = h->f;
    for (uint32_t i = 0; i < h->n; i++)
        h->rows[i].temporary =
            add_temporary(h, "held", i, f->insts[h->rows[i].load].cls, h->rows[i].size);
    for (uint32_t i = 0; i < h->n_results; i++) {
        const kir_ref store = h->results[i].store;
        int64_t size = 0;
        (void)kir_const_value(f, f->insts[f->blocks[store]].in[0], &size);
        h->results[i].temporary =
            add_temporary(h, "made", i, f->insts[f->insts[store].in[1]].cls, size);
    }
}

static rp_status rebuild(holder *h, rp_error *err) {
    const kir_func *f = h->f;
    add_temporaries(h);
    for (kir_ref at = 0; at < f->n_insts; at++) {
        const kir_op op = f->insts[at].op;
        if (op == KIR_PAR) {
            h->map[at] = kir_begin(h->to, KIR_PAR, h->map[f->insts[at].in[0]]);
        } else if (goes_over_rows(f, at)) {
            copy_block(h, at);
            at = end_of(f, at);
        } else if (op == KIR_END) {
            kir_end(h->to);
        } else {
            copy_inst(h, at);
        }
    }
    return kir_status(h->to, err);
}

rp_status kir_hold_rows(const kir_func *f, int64_t most, kir_func **out, rp_error *err) {
    holder h = {.f = f};
    *out = NULL;
    if (!is_flat(f)) return RP_OK;
    find_rows(&h);
    take_results(&h, take_rows(&h, most));
    if (!h.n && !h.n_results) return RP_OK;
    RP_TRY(kir_rebuild_new(f, &h.to, &h.map, err));
    rp_status st = rebuild(&h, err);
    if (st != RP_OK) {
        kir_free(h.to);
        return st;
    }
    *out = h.to;
    return RP_OK;
}
