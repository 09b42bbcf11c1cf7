/* Parts of an item that need not wait for each other.
 *
 * The blocks that a body is made of (loops and conditions one after the other) belong to one part where one of them stores to an argument
 * that the other touches. What is computed between them is the same for all parts. */
#include "sched/rules.h"

typedef struct top_block {
    kir_ref begin, end;
} top_block;

static kir_ref end_of(const kir_func *f, kir_ref begin) {
    uint32_t depth = 0;

    for (kir_ref at = begin; at < f->n_insts; at++) {
        kir_shape shape = kir_op_table(f->insts[at].op)->shape;
        depth += shape == KIR_SHAPE_BEGIN;
        depth -= shape == KIR_SHAPE_END;
        if (depth == 0) return at;
    }
    return f->n_insts;
}

static bool touches(const kir_func *f, const top_block *b, uint32_t slot) {
    for (kir_ref at = b->begin; at <= b->end; at++) {
        kir_op op = f->insts[at].op;
        if ((op == KIR_LOAD || op == KIR_STORE) && f->bufs[f->insts[at].u.buf].slot == slot)
            return true;
    }
    return false;
}

static bool stores_what_is_touched(const kir_func *f, const top_block *a, const top_block *b) {
    for (kir_ref at = a->begin; at <= a->end; at++) {
        const kir_inst *in = &f->insts[at];
        if (in->op == KIR_STORE && touches(f, b, f->bufs[in->u.buf].slot)) return true;
    }
    return false;
}

/* The blocks of the body from `at` on; 0 where there are too many, or other instructions than pure ones between. */
static uint32_t find_blocks(const kir_func *f, kir_ref at, top_block *out) {
    uint32_t n = 0;

    for (; at < f->n_insts && kir_op_table(f->insts[at].op)->shape != KIR_SHAPE_END; at++) {
        kir_op op = f->insts[at].op;
        if (op == KIR_STORE || op == KIR_REDUCE) return 0;
        if (kir_op_table(op)->shape != KIR_SHAPE_BEGIN) continue;
        if (n == SCHED_MAX_PARTS) return 0;
        out[n] = (top_block){at, end_of(f, at)};
        at = out[n++].end;
    }
    return n;
}

/* What is loaded between blocks is loaded by all parts, so none may store it. */
static bool loads_between(const kir_func *f, kir_ref body, const top_block *b, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        const top_block gap = {i ? b[i - 1].end + 1 : body, b[i].begin - 1};
        for (uint32_t k = 0; k < n && gap.begin <= gap.end; k++)
            if (stores_what_is_touched(f, &b[k], &gap)) return true;
    }
    return false;
}

/* A part has the number of its first block. */
static void join(sched_parts *p, uint32_t n, uint8_t a, uint8_t b) {
    const uint8_t first = a < b ? a : b, other = a < b ? b : a;
    for (uint32_t i = 0; i < n; i++)
        if (p->of[i] == other) p->of[i] = first;
}

sched_parts sched_parts_of(const kir_func *f) {
    sched_parts p = {.n = 1};
    top_block b[SCHED_MAX_PARTS];
    uint8_t number[SCHED_MAX_PARTS];
    kir_ref par = 0;

    for (uint32_t i = 0; i < f->n_bufs; i++)
        if (f->bufs[i].space == KIR_SCRATCH) return p;
    while (par < f->n_insts && f->insts[par].op != KIR_PAR) par++;
    if (par == f->n_insts || end_of(f, par) + 1 != f->n_insts) return p;
    uint32_t n = find_blocks(f, par + 1, b);
    if (n < 2 || loads_between(f, par + 1, b, n)) return p;
    for (uint32_t i = 0; i < n; i++) p.of[i] = (uint8_t)i;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < i; k++)
            if (stores_what_is_touched(f, &b[i], &b[k]) || stores_what_is_touched(f, &b[k], &b[i]))
                join(&p, n, p.of[k], p.of[i]);
    p.n = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (p.of[i] == i) number[i] = (uint8_t)p.n++;
        p.of[i] = number[p.of[i]];
    }
    return p;
}
