/* What neighbours of a tile read far apart, and neighbouring items side by side (a transposed value), through temporaries.
 *
 * An item becomes KIR_STAGED_ROWS items: first their elements are read with the items inside, then each item computes its tile
 * from temporaries. Rows of these are one element longer than need be, so that a GPU finds neither way in one bank of memory. */
#include <stdio.h>

#include "base/status.h"
#include "kir/affine.h"
#include "kir/rebuild.h"

#define ROWS KIR_STAGED_ROWS
#define FAR 16       /* elements between neighbours that share no cache line */
#define MOST_LOADS 3 /* whose temporaries a block has room for */

typedef struct stager {
    const kir_func *f;
    kir_func *to;
    kir_ref *map;
    kir_ref par, loop, end; /* the items, the tile and its end */
    int64_t items, width;
    kir_ref load[MOST_LOADS];
    uint32_t temporary[MOST_LOADS], n;
} stager;

/* Which of `ROWS` neighbouring items it is, of an instruction of theirs; or what they all have alike. */
static bool divides_items(const stager *s, const kir_inst *in, int64_t *by) {
    return (in->op == KIR_IDIV || in->op == KIR_IMOD) && in->in[0] == s->par &&
           kir_const_value(s->f, in->in[1], by) && *by % ROWS == 0 && s->items % *by == 0;
}

static bool is_plain(const kir_inst *in) {
    return kir_op_table(in->op)->shape == KIR_SHAPE_PLAIN;
}

/* Items of plain instructions and one loop of plain instructions and stores. */
static bool find_tile(stager *s) {
    const kir_func *f = s->f;
    kir_ref at = 0;
    while (at < f->n_insts && f->insts[at].op != KIR_PAR) at++;
    s->par = at;
    if (at == f->n_insts || !kir_const_value(f, f->insts[at].in[0], &s->items) || s->items < 1 ||
        s->items % ROWS)
        return false;
    for (at++; at < f->n_insts && is_plain(&f->insts[at]);) at++;
    s->loop = at;
    if (at == f->n_insts || f->insts[at].op != KIR_LOOP ||
        !kir_const_value(f, f->insts[at].in[0], &s->width))
        return false;
    for (at++; at < f->n_insts && (is_plain(&f->insts[at]) || f->insts[at].op == KIR_STORE);) at++;
    s->end = at;
    return at + 2 == f->n_insts && f->insts[at].op == KIR_END && f->insts[at + 1].op == KIR_END;
}

static bool is_stored(const stager *s, uint32_t buf) {
    for (kir_ref at = s->loop; at < s->end; at++) {
        const kir_inst *in = &s->f->insts[at];
        if (in->op == KIR_STORE && s->f->bufs[in->u.buf].slot == s->f->bufs[buf].slot) return true;
    }
    return false;
}

static bool reads_across(const stager *s, const kir_inst *in) {
    kir_affine a = {0};
    bool far = false, beside = false;
    int64_t by;
    if (in->op != KIR_LOAD || s->f->bufs[in->u.buf].space != KIR_ARG) return false;
    kir_affine_add(s->f, in->in[0], 1, &a);
    for (uint32_t i = 0; i < a.n && !a.overflow; i++) {
        const kir_ref r = a.term[i].ref;
        const kir_inst *term = &s->f->insts[r];
        if (r == s->loop)
            far = a.term[i].k >= FAR || a.term[i].k <= -FAR;
        else if (r == s->par || (term->op == KIR_IMOD && divides_items(s, term, &by)))
            beside = a.term[i].k == 1;
        else if (r > s->loop && !kir_is_global(term->op))
            return false;
    }
    return !a.overflow && far && beside && !is_stored(s, in->u.buf);
}

/* What ROWS items have alike, outside of loops over them, so that these are seen to store apart; place_item finds it again. */
static void place_common(const stager *s, kir_ref q) {
    for (kir_ref at = s->par + 1; at < s->loop; at++) {
        const kir_inst *in = &s->f->insts[at];
        int64_t by;
        if (divides_items(s, in, &by))
            (void)kir_bin(s->to, in->op, q, kir_const_i(s->to, by / ROWS));
    }
}

/* The values of item q * ROWS + row that its tile wants. */
static void place_item(stager *s, kir_ref q, kir_ref row) {
    kir_func *to = s->to;
    const kir_ref rows = kir_const_i(to, ROWS);
    s->map[s->par] = kir_bin(to, KIR_IADD, kir_bin(to, KIR_IMUL, q, rows), row);
    for (kir_ref at = s->par + 1; at < s->loop; at++) {
        const kir_inst *in = &s->f->insts[at];
        int64_t by;
        if (!divides_items(s, in, &by)) {
            s->map[at] = kir_rebuild_inst(to, s->f, in, s->map);
            continue;
        }
        kir_ref at_q = kir_bin(to, in->op, q, kir_const_i(to, by / ROWS));
        s->map[at] = in->op == KIR_IDIV
                         ? at_q
                         : kir_bin(to, KIR_IADD, kir_bin(to, KIR_IMUL, at_q, rows), row);
    }
}

static void add_temporaries(stager *s) {
    for (uint32_t i = 0; i < s->n; i++) {
        char name[24];
        (void)snprintf(name, sizeof name, "staged%u", i);
        s->temporary[i] = kir_add_buf(s->to, name, KIR_SCRATCH,
                                      kir_class_dtype(s->f->insts[s->load[i]].cls), 0, 0,
                                      s->width * (ROWS + 1));
    }
}

static kir_ref element(const stager *s, kir_ref j, kir_ref row) {
    return kir_bin(s->to, KIR_IADD, kir_bin(s->to, KIR_IMUL, j, kir_const_i(s->to, ROWS + 1)), row);
}

static void need(const stager *s, kir_ref at, bool *needed) {
    if (at <= s->loop || needed[at]) return;
    needed[at] = true;
    for (uint32_t i = 0; i < s->f->insts[at].n_in; i++) need(s, s->f->insts[at].in[i], needed);
}

static void read_rows(stager *s, kir_ref q, bool *needed) {
    kir_ref j = kir_begin(s->to, KIR_LOOP, kir_const_i(s->to, s->width));
    kir_ref row = kir_begin(s->to, KIR_LOOP, kir_const_i(s->to, ROWS));
    place_item(s, q, row);
    s->map[s->loop] = j;
    for (uint32_t i = 0; i < s->n; i++) need(s, s->load[i], needed);
    for (kir_ref at = s->loop + 1; at < s->end; at++)
        if (needed[at]) s->map[at] = kir_rebuild_inst(s->to, s->f, &s->f->insts[at], s->map);
    for (uint32_t i = 0; i < s->n; i++)
        kir_store(s->to, s->temporary[i], element(s, j, row), s->map[s->load[i]]);
    kir_end(s->to);
    kir_end(s->to);
}

static void compute_rows(stager *s, kir_ref q) {
    kir_ref row = kir_begin(s->to, KIR_LOOP, kir_const_i(s->to, ROWS));
    place_item(s, q, row);
    kir_ref j = kir_begin(s->to, KIR_LOOP, kir_const_i(s->to, s->width));
    s->map[s->loop] = j;
    for (kir_ref at = s->loop + 1; at < s->end; at++) {
        uint32_t i = 0;
        while (i < s->n && s->load[i] != at) i++;
        s->map[at] = i < s->n ? kir_load(s->to, s->temporary[i], element(s, j, row))
                              : kir_rebuild_inst(s->to, s->f, &s->f->insts[at], s->map);
    }
    kir_end(s->to);
    kir_end(s->to);
}

rp_status kir_stage_rows(const kir_func *f, kir_func **out, rp_error *err) {
    stager s = {.f = f};
    *out = NULL;
    if (!find_tile(&s)) return RP_OK;
    for (kir_ref at = s.loop + 1; at < s.end && s.n < MOST_LOADS; at++)
        if (reads_across(&s, &f->insts[at])) s.load[s.n++] = at;
    if (!s.n) return RP_OK;
    RP_TRY(kir_rebuild_new(f, &s.to, &s.map, err));
    bool *needed = base_arena_array(s.to->arena, f->n_insts + 1, sizeof *needed);
    rp_status st = needed ? RP_OK : rp_fail(err, RP_NOMEM, "kernel %s: temporaries", f->name);
    if (st == RP_OK) {
        add_temporaries(&s);
        for (kir_ref at = 0; at < s.par; at++)
            s.map[at] = kir_rebuild_inst(s.to, f, &f->insts[at], s.map);
        kir_ref q = kir_begin(s.to, KIR_PAR, kir_const_i(s.to, s.items / ROWS));
        place_common(&s, q);
        read_rows(&s, q, needed);
        compute_rows(&s, q);
        kir_end(s.to);
        st = kir_status(s.to, err);
    }
    if (st != RP_OK) {
        kir_free(s.to);
        return st;
    }
    *out = s.to;
    return RP_OK;
}
