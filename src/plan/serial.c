/* Plans as bytes. One walk over the plan serves both directions, so that what is read is what was written.
 *
 * Little-endian, no padding, nothing that differs between processes: equal plans give equal bytes.
 * Reading trusts nothing: a count is believed only as far as the bytes behind it can hold that many
 * records, and the result must pass plan_verify. The walk goes on after a failure, with zeros. */
#include <string.h>

#include "base/alloc.h"
#include "plan/layout.h"

/* Raised with every change of the layout below. */
#define MAGIC "rpplan\004\n"

typedef struct wire {
    base_buf *out; /* saving; NULL when loading */
    const uint8_t *p, *end;
    base_arena *arena;
    rp_status st;
    const char *why;
    uint32_t depth;
} wire;

static void fail(wire *w, rp_status st, const char *why) {
    if (w->st == RP_OK) {
        w->st = st;
        w->why = why;
    }
    w->p = w->end;
}

static void raw(wire *w, void *p, size_t n) {
    if (w->out) {
        base_buf_add(w->out, p, n);
    } else if ((size_t)(w->end - w->p) < n) {
        memset(p, 0, n);
        fail(w, RP_CORRUPT, "it ends too early");
    } else {
        memcpy(p, w->p, n);
        w->p += n;
    }
}

static void number(wire *w, uint64_t *v, uint32_t n_bytes) {
    uint8_t b[8];
    for (uint32_t i = 0; i < n_bytes; i++) b[i] = (uint8_t)(*v >> (8 * i));
    raw(w, b, n_bytes);
    *v = 0;
    for (uint32_t i = 0; i < n_bytes; i++) *v |= (uint64_t)b[i] << (8 * i);
}

static void u32(wire *w, uint32_t *v) {
    uint64_t x = *v;
    number(w, &x, 4);
    *v = (uint32_t)x;
}

static void u64(wire *w, uint64_t *v) {
    number(w, v, 8);
}

static void i64(wire *w, int64_t *v) {
    uint64_t x = (uint64_t)*v;
    number(w, &x, 8);
    *v = (int64_t)x;
}

/* A value below `limit`, in one byte. */
static uint32_t small(wire *w, uint32_t v, uint32_t limit) {
    uint64_t x = v;
    number(w, &x, 1);
    if (x < limit) return (uint32_t)x;
    fail(w, RP_CORRUPT, "a field is out of its range");
    return 0;
}

static void flag(wire *w, bool *v) {
    *v = small(w, *v, 2) != 0;
}

/* Text without NUL. */
static void text(wire *w, const char **s) {
    uint32_t n = w->out ? (uint32_t)strlen(*s) : 0;
    u32(w, &n);
    if (w->out) {
        base_buf_add(w->out, *s, n);
        return;
    }
    *s = "";
    if (n > (size_t)(w->end - w->p) || (n > 0 && memchr(w->p, 0, n))) {
        fail(w, RP_CORRUPT, "a text is malformed");
        return;
    }
    const char *copy = base_arena_strn(w->arena, (const char *)w->p, n);
    if (!copy)
        fail(w, RP_NOMEM, "out of memory");
    else
        *s = copy;
    w->p += copy ? n : 0;
}

/* By name: the numbers of the enum may change. */
static void dtype(wire *w, rp_dtype *t) {
    const char *name = w->out ? rp_dtype_name(*t) : "";
    text(w, &name);
    if (!w->out && !rp_dtype_parse(name, t)) {
        *t = RP_DTYPE_F32;
        fail(w, RP_CORRUPT, "an element type is unknown");
    }
}

/* The count of a list and, when loading, its memory. min_wire: bytes that one record takes at least. */
static void *list(wire *w, void *items, uint32_t *n, size_t size, size_t min_wire) {
    u32(w, n);
    if (w->out) return items;
    if (*n > (size_t)(w->end - w->p) / min_wire) {
        *n = 0;
        fail(w, RP_CORRUPT, "a count is larger than the plan");
    }
    void *p = base_arena_array(w->arena, *n + 1u, size);
    if (!p) {
        *n = 0;
        fail(w, RP_NOMEM, "out of memory");
    }
    return p;
}
#define LIST(w, items, n, min_wire) ((items) = list(w, items, &(n), sizeof *(items), min_wire))

/* --- records ---------------------------------------------------------------- */

static void size(wire *w, plan_size *s) {
    s->n = (uint8_t)small(w, s->n, IR_DIM_CODE_MAX + 1);
    for (uint32_t i = 0; i < s->n; i++) {
        s->op[i] = (uint8_t)small(w, s->op[i], IR_DIM_CODE_OP_COUNT_);
        if (ir_dim_code_reads_k((ir_dim_code_op)s->op[i])) i64(w, &s->k[i]);
    }
}
#define SIZE_WIRE 1u

static void leaf(wire *w, plan_leaf *l) {
    text(w, &l->name);
    dtype(w, &l->dtype);
    l->rank = small(w, l->rank, RP_MAX_RANK + 1);
    for (uint32_t i = 0; i < l->rank; i++) size(w, &l->dim[i]);
    size(w, &l->bytes);
}
#define LEAF_WIRE (4u + 4u + 1u + SIZE_WIRE)

static void leaves(wire *w, plan_leaf **l, uint32_t *n) {
    *l = list(w, *l, n, sizeof **l, LEAF_WIRE);
    for (uint32_t i = 0; i < *n; i++) leaf(w, &(*l)[i]);
}

static void symbols(wire *w, plan *p) {
    LIST(w, p->symbols, p->n_symbols, 20);
    for (uint32_t i = 0; i < p->n_symbols; i++) {
        text(w, &p->symbols[i].name);
        i64(w, &p->symbols[i].min);
        i64(w, &p->symbols[i].max);
    }
}

static void values(wire *w, plan *p) {
    LIST(w, p->values, p->n_values, SIZE_WIRE + 16);
    for (uint32_t i = 0; i < p->n_values; i++) {
        size(w, &p->values[i].bytes);
        u32(w, &p->values[i].first);
        u32(w, &p->values[i].last);
        i64(w, &p->values[i].offset);
    }
}

static void section(wire *w, plan_section *s) {
    i64(w, &s->rows);
    s->n_params = small(w, s->n_params, 5);
    s->by_k = small(w, s->by_k, 16);
    for (uint32_t i = 0; i < s->n_params; i++) u32(w, &s->params[i]);
}

static void packs(wire *w, plan *p) {
    LIST(w, p->packs, p->n_packs, 32);
    for (uint32_t i = 0; i < p->n_packs; i++) {
        plan_pack *k = &p->packs[i];
        dtype(w, &k->dtype);
        i64(w, &k->k);
        flag(w, &k->swizzled);
        LIST(w, k->sections, k->n_sections, 10);
        for (uint32_t s = 0; s < k->n_sections; s++) section(w, &k->sections[s]);
        i64(w, &k->offset);
        i64(w, &k->size);
    }
}

static void consts(wire *w, plan *p) {
    LIST(w, p->consts, p->n_consts, 4);
    for (uint32_t i = 0; i < p->n_consts; i++) {
        plan_const *c = &p->consts[i];
        u32(w, &c->size);
        if (w->out) {
            base_buf_add(w->out, c->data, c->size);
            continue;
        }
        void *copy = c->size <= (size_t)(w->end - w->p) ? base_arena_alloc(w->arena, c->size + 1u)
                                                        : NULL;
        if (!copy) {
            fail(w, c->size <= (size_t)(w->end - w->p) ? RP_NOMEM : RP_CORRUPT,
                 "a record does not fit");
            c->size = 0;
            copy = base_arena_alloc(w->arena, 1);
        } else {
            raw(w, copy, c->size);
        }
        c->data = copy;
    }
}

static void modules(wire *w, plan *p) {
    LIST(w, p->modules, p->n_modules, 20);
    for (uint32_t i = 0; i < p->n_modules; i++) {
        u64(w, &p->modules[i].key.lo);
        u64(w, &p->modules[i].key.hi);
        u32(w, &p->modules[i].isa_bits);
    }
}

static void functions(wire *w, plan *p) {
    LIST(w, p->functions, p->n_functions, 8);
    for (uint32_t i = 0; i < p->n_functions; i++) {
        u32(w, &p->functions[i].module);
        text(w, &p->functions[i].symbol);
    }
}

static void dim_maps(wire *w, plan *p) {
    LIST(w, p->dim_maps, p->n_dim_maps, 4);
    for (uint32_t i = 0; i < p->n_dim_maps; i++) {
        LIST(w, p->dim_maps[i].map, p->dim_maps[i].n, 4);
        for (uint32_t k = 0; k < p->dim_maps[i].n; k++) u32(w, &p->dim_maps[i].map[k]);
    }
}

static void custom(wire *w, plan_launch *l) {
    bool is_custom = l->custom != NULL;
    uint32_t n = l->n_args;
    flag(w, &is_custom);
    if (!is_custom) return;
    text(w, &l->custom);
    text(w, &l->attrs);
    LIST(w, l->operands, n, LEAF_WIRE);
    if (n != l->n_args) fail(w, RP_CORRUPT, "a custom op has no type for every argument");
    for (uint32_t i = 0; i < n; i++) leaf(w, &l->operands[i]);
}

static void numbers(wire *w, plan_launch *l) {
    if (l->dim_map != PLAN_NUMBERS) return;
    LIST(w, l->numbers, l->n_numbers, SIZE_WIRE);
    for (uint32_t i = 0; i < l->n_numbers; i++) size(w, &l->numbers[i]);
}

static void control(wire *w, plan_launch *l) {
    bool is_control = l->control != NULL;
    flag(w, &is_control);
    if (!is_control) return;
    if (!w->out) l->control = base_arena_alloc(w->arena, sizeof *l->control);
    plan_control none = {0}, *c = l->control ? l->control : &none;
    if (c == &none) fail(w, RP_NOMEM, "out of memory");
    c->kind = (plan_control_kind)small(w, (uint32_t)c->kind, PLAN_CONTROL_COUNT_);
    u32(w, &c->inner[0]);
    u32(w, &c->inner[1]);
    u32(w, &c->n_operands);
    u32(w, &c->n_results);
    u32(w, &c->carried);
    u32(w, &c->sliced);
    i64(w, &c->limit);
    size(w, &c->length);
}

static void launch(wire *w, plan_launch *l) {
    text(w, &l->name);
    l->n_alts = small(w, l->n_alts, PLAN_MAX_ALTS + 1);
    for (uint32_t i = 0; i < l->n_alts; i++) {
        i64(w, &l->alts[i].max);
        u32(w, &l->alts[i].function);
        i64(w, &l->alts[i].scratch);
        u32(w, &l->alts[i].threads);
        u32(w, &l->alts[i].per_sm);
        u32(w, &l->alts[i].per_block);
        u32(w, &l->alts[i].blocks);
    }
    size(w, &l->rows);
    size(w, &l->items);
    i64(w, &l->grain);
    u32(w, &l->threads);
    u32(w, &l->per_block);
    u32(w, &l->dim_map);
    flag(w, &l->attention);
    LIST(w, l->args, l->n_args, 6);
    for (uint32_t i = 0; i < l->n_args; i++) {
        l->args[i].seg = (plan_seg)small(w, (uint32_t)l->args[i].seg, PLAN_SEG_COUNT_);
        u32(w, &l->args[i].idx);
        l->args[i].access = (uint8_t)small(w, l->args[i].access, BASE_READS + BASE_WRITES + 1);
    }
    custom(w, l);
    control(w, l);
    numbers(w, l);
}

static void launches(wire *w, plan *p) {
    LIST(w, p->launches, p->n_launches, 4 + 1 + 2 * SIZE_WIRE + 8 + 4 + 1 + 4 + 2);
    for (uint32_t i = 0; i < p->n_launches; i++) launch(w, &p->launches[i]);
}

static void pieces(wire *w, plan *p) {
    LIST(w, p->pieces, p->n_pieces, 21);
    for (uint32_t i = 0; i < p->n_pieces; i++) {
        plan_piece *q = &p->pieces[i];
        u32(w, &q->submod);
        u32(w, &q->graph_index);
        u32(w, &q->distinct);
        flag(w, &q->splitting);
        u32(w, &q->first);
        u32(w, &q->n);
    }
    u32(w, &p->n_compiled);
    u32(w, &p->n_distinct);
}

static void walk(wire *w, plan *p);

/* Plans have arenas of their own. */
static void inner_plans(wire *w, plan *p) {
    uint32_t n = p->n_inner;
    base_arena *arena = w->arena;
    p->n_inner = 0; /* those that are there, whatever fails */
    LIST(w, p->inner, n, 64);
    if (n && ++w->depth >= PLAN_MAX_DEPTH) fail(w, RP_CORRUPT, "plans are nested too deep");
    for (; p->n_inner < n && w->st == RP_OK; p->n_inner++) {
        if (!w->out) p->inner[p->n_inner] = plan_new("");
        if (!p->inner[p->n_inner]) {
            fail(w, RP_NOMEM, "out of memory");
            break;
        }
        if (!w->out) w->arena = p->inner[p->n_inner]->arena;
        walk(w, p->inner[p->n_inner]);
    }
    w->arena = arena;
    if (n) w->depth--;
}

static void walk(wire *w, plan *p) {
    char magic[] = MAGIC;
    raw(w, magic, sizeof magic - 1);
    if (memcmp(magic, MAGIC, sizeof magic - 1) != 0)
        fail(w, RP_CORRUPT, "it is not a plan of this version");
    text(w, &p->name);
    symbols(w, p);
    leaves(w, &p->inputs, &p->n_inputs);
    leaves(w, &p->outputs, &p->n_outputs);
    leaves(w, &p->params, &p->n_params);
    leaves(w, &p->states, &p->n_states);
    values(w, p);
    packs(w, p);
    consts(w, p);
    modules(w, p);
    functions(w, p);
    dim_maps(w, p);
    launches(w, p);
    pieces(w, p);
    i64(w, &p->arena_size);
    i64(w, &p->weights_size);
    inner_plans(w, p);
}

rp_status plan_save(const plan *p, char **out, size_t *out_size, rp_error *err) {
    base_buf b;
    base_buf_init(&b, 0);
    wire w = {.out = &b};
    walk(&w, (plan *)(uintptr_t)p); /* saving changes nothing */
    rp_status st = w.st == RP_OK ? base_buf_status(&b, err)
                                 : rp_fail(err, RP_INTERNAL, "plan %s: %s", p->name, w.why);
    if (st == RP_OK) {
        *out_size = b.len;
        *out = base_buf_take(&b);
    }
    base_buf_done(&b);
    return st;
}

rp_status plan_load(const void *data, size_t n, plan **out, rp_error *err) {
    plan *p = plan_new("");
    if (!p) return rp_fail(err, RP_NOMEM, "plan of %zu bytes", n);
    wire w = {.p = data, .end = (const uint8_t *)data + n, .arena = p->arena};
    walk(&w, p);
    if (w.st == RP_OK && w.p != w.end) fail(&w, RP_CORRUPT, "bytes follow its end");
    rp_status st = w.st == RP_OK ? plan_verify(p, err)
                                 : rp_fail(err, w.st, "stored plan of %zu bytes: %s", n, w.why);
    if (st == RP_OK) st = plan_find_barriers(p, err);
    if (st != RP_OK) {
        plan_free(p);
        return st;
    }
    plan_mark_read(p);
    *out = p;
    return RP_OK;
}
