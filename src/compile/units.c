/* Three steps: find who has each kernel, deal what a piece has to units of about equal length, write the units. */
#include "compile/units.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/str.h"

/* Text of kernels that one unit holds when there are more: a compiler run that is not long beside the others, and few
 * modules to load. Text in front of the kernels is not counted, it is parsed in milliseconds. */
enum { UNIT_BYTES = 20000 };
/* From here a graph of one unit becomes two, which two cores compile at once: a run costs as much as compiling 3000 bytes before it
 * meets the first kernel. */
enum { TWO_UNITS_FROM = 6000 };

typedef struct known {
    base_hash128 hash; /* of the text, the name left out */
    uint32_t piece, kernel;
} known;

typedef struct maker {
    const lower_piece *const *pieces;
    uint32_t n;
    gen_isa isa;
    known *known;
    uint32_t n_known;
    base_map *by_hash; /* places in known */
    uint32_t *owner;   /* by kernel of all pieces: its place in known */
    uint32_t *first;   /* by piece: where its kernels begin in owner */
    size_t unit_bytes;
    compile_units u;
} maker;

/* --- who has it ------------------------------------------------------------------ */

rp_status compile_kernel_hash(const lower_piece *p, const lower_kernel *k, base_hash128 *out,
                              rp_error *err) {
    const size_t name = strlen(k->name);
    base_buf b;
    base_buf_init(&b, 0);
    for (size_t at = k->begin; at < k->end;) {
        bool named = at + name <= k->end && memcmp(p->source + at, k->name, name) == 0;
        base_buf_putc(&b, named ? '@' : p->source[at]);
        at += named ? name : 1;
    }
    base_buf_printf(&b, " %" PRIx32 " %d %d %d", k->uses.quant, k->uses.floats, k->uses.attention,
                    k->uses.tensor);
    rp_status st = base_buf_status(&b, err);
    if (st == RP_OK) *out = base_hash(b.data, b.len);
    base_buf_done(&b);
    return st;
}

static rp_status find_or_add(maker *m, const known *k, uint32_t *out, rp_error *err) {
    uint64_t at = m->n_known;
    if (!base_map_get(m->by_hash, &k->hash, sizeof k->hash, &at)) {
        RP_TRY(base_map_put(m->by_hash, &k->hash, sizeof k->hash, at, err));
        m->known[m->n_known++] = *k;
    }
    *out = (uint32_t)at;
    return RP_OK;
}

static rp_status enter_piece(maker *m, uint32_t piece, rp_error *err) {
    const lower_piece *p = m->pieces[piece];
    for (uint32_t i = 0; i < p->n_kernels; i++) {
        known k = {.piece = piece, .kernel = i};
        RP_TRY(compile_kernel_hash(p, &p->kernels[i], &k.hash, err));
        RP_TRY(find_or_add(m, &k, &m->owner[m->first[piece] + i], err));
    }
    return RP_OK;
}

/* The longest first, equal ones in their order. */
static rp_status enter_all(maker *m, rp_error *err) {
    rp_status st = RP_OK;
    uint32_t *order = base_alloc_array(m->n + 1u, sizeof *order);
    if (!order) return rp_fail(err, RP_NOMEM, "%u pieces", m->n);
    for (uint32_t i = 0; i < m->n; i++) {
        uint32_t at = i;
        size_t size = strlen(m->pieces[i]->source);
        for (; at > 0 && strlen(m->pieces[order[at - 1]]->source) < size; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    for (uint32_t i = 0; i < m->n; i++) RP_TRY_OUT(enter_piece(m, order[i], err));
out:
    base_free(order);
    return st;
}

/* --- units of a piece -------------------------------------------------------------- */

static bool is_own(const maker *m, uint32_t piece, uint32_t kernel) {
    const known *k = &m->known[m->owner[m->first[piece] + kernel]];
    return k->piece == piece && k->kernel == kernel;
}

static size_t own_bytes(const maker *m, uint32_t piece) {
    const lower_piece *p = m->pieces[piece];
    size_t n = 0;
    for (uint32_t i = 0; i < p->n_kernels; i++)
        if (is_own(m, piece, i) && !p->kernels[i].ptx) n += p->kernels[i].end - p->kernels[i].begin;
    return n;
}

static rp_status write_unit(maker *m, uint32_t piece, uint32_t unit, rp_error *err) {
    const lower_piece *p = m->pieces[piece];
    compile_source *s = &m->u.units[unit];
    rp_status st = RP_OK;
    base_buf b;
    bool *wanted = base_alloc_array(p->n_kernels + 1u, sizeof *wanted);
    base_buf_init(&b, 0);
    if (!wanted) return rp_fail(err, RP_NOMEM, "%u kernels", p->n_kernels);
    for (uint32_t i = 0; i < p->n_kernels; i++) {
        wanted[i] = is_own(m, piece, i) && !p->kernels[i].ptx && m->u.places[piece][i].unit == unit;
        s->n_kernels += wanted[i];
    }
    RP_TRY_OUT(lower_unit(p, m->isa, wanted, &b, err));
    s->piece = piece;
    s->text = base_buf_take(&b);
out:
    base_buf_done(&b);
    base_free(wanted);
    return st;
}

/* Each is a unit. */
static rp_status deal_ptx(maker *m, uint32_t piece, rp_error *err) {
    const lower_piece *p = m->pieces[piece];
    for (uint32_t i = 0; i < p->n_kernels; i++) {
        const lower_kernel *k = &p->kernels[i];
        if (!k->ptx || !is_own(m, piece, i)) continue;
        compile_source *s = &m->u.units[m->u.n_units];
        *s = (compile_source){piece, 1, base_strdup(k->ptx), true};
        if (!s->text) return rp_fail(err, RP_NOMEM, "PTX of %zu bytes", strlen(k->ptx));
        m->u.places[piece][i] = (compile_place){m->u.n_units++, k->entry};
    }
    return RP_OK;
}

/* Kernels in their order, a unit after the other: neighbours share most of what they include. */
static rp_status deal_piece(maker *m, uint32_t piece, rp_error *err) {
    const lower_piece *p = m->pieces[piece];
    size_t all = own_bytes(m, piece), n = (all + m->unit_bytes - 1) / m->unit_bytes, before = 0;
    uint32_t first = m->u.n_units, last = first;
    if (all == 0) return RP_OK;
    for (uint32_t i = 0; i < p->n_kernels; i++) {
        if (!is_own(m, piece, i) || p->kernels[i].ptx) continue;
        size_t size = p->kernels[i].end - p->kernels[i].begin;
        /* By the middle of a kernel; no unit stays empty. */
        uint32_t unit = first + (uint32_t)((before + size / 2) * n / all);
        if (unit > last) last++;
        m->u.places[piece][i] = (compile_place){last, p->kernels[i].name};
        before += size;
    }
    m->u.n_units = last + 1;
    for (uint32_t i = first; i <= last; i++) RP_TRY(write_unit(m, piece, i, err));
    return RP_OK;
}

static void choose_unit_bytes(maker *m) {
    size_t most = 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->n; i++) {
        size_t size = own_bytes(m, i);
        n += size > 0;
        if (size > most) most = size;
    }
    bool two = n == 1 && most >= TWO_UNITS_FROM && most <= UNIT_BYTES;
    m->unit_bytes = two ? (most + 1) / 2 : UNIT_BYTES;
}

static void borrow(maker *m, uint32_t piece) {
    for (uint32_t i = 0; i < m->pieces[piece]->n_kernels; i++) {
        const known *k = &m->known[m->owner[m->first[piece] + i]];
        m->u.places[piece][i] = m->u.places[k->piece][k->kernel];
    }
}

/* --- all ------------------------------------------------------------------------------- */

static rp_status make(maker *m, rp_error *err) {
    uint32_t n = 0;
    m->first = base_alloc_array(m->n + 1u, sizeof *m->first);
    m->u.places = base_alloc_array(m->n + 1u, sizeof *m->u.places);
    if (!m->first || !m->u.places) return rp_fail(err, RP_NOMEM, "%u pieces", m->n);
    m->u.n_pieces = m->n;
    for (uint32_t i = 0; i < m->n; i++) {
        m->first[i] = n;
        n += m->pieces[i]->n_kernels;
        m->u.places[i] = base_alloc_array(m->pieces[i]->n_kernels + 1u, sizeof **m->u.places);
        if (!m->u.places[i]) return rp_fail(err, RP_NOMEM, "%u kernels", n);
    }
    m->known = base_alloc_array(n + 1u, sizeof *m->known);
    m->owner = base_alloc_array(n + 1u, sizeof *m->owner);
    m->u.units = base_alloc_array(n + 1u, sizeof *m->u.units);
    m->by_hash = base_map_new();
    if (!m->known || !m->owner || !m->u.units || !m->by_hash)
        return rp_fail(err, RP_NOMEM, "%u kernels", n);
    RP_TRY(enter_all(m, err));
    choose_unit_bytes(m);
    for (uint32_t i = 0; i < m->n; i++) RP_TRY(deal_piece(m, i, err));
    for (uint32_t i = 0; i < m->n; i++) RP_TRY(deal_ptx(m, i, err));
    for (uint32_t i = 0; i < m->n; i++) borrow(m, i);
    return RP_OK;
}

rp_status compile_units_make(const lower_piece *const *pieces, uint32_t n, gen_isa isa,
                             compile_units *out, rp_error *err) {
    maker m = {.pieces = pieces, .n = n, .isa = isa};
    rp_status st = make(&m, err);
    base_free(m.known);
    base_map_free(m.by_hash);
    base_free(m.owner);
    base_free(m.first);
    if (st == RP_OK)
        *out = m.u;
    else
        compile_units_done(&m.u);
    return st;
}

void compile_units_done(compile_units *u) {
    for (uint32_t i = 0; u->units && i < u->n_units; i++) base_free(u->units[i].text);
    for (uint32_t i = 0; u->places && i < u->n_pieces; i++) base_free(u->places[i]);
    base_free(u->units);
    base_free(u->places);
    *u = (compile_units){0};
}
