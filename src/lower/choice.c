/* What a tuner may choose of a kernel: values of knobs, their text, and what a kernel is called in tables.
 *
 * The lists are short: each knob alone, and the two that change how a compiler writes a loop together. Values that are idle for a
 * kernel (tiles that cannot be wider, rows that are all there are) give its own text again, which who measures leaves out. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lower/emit.h"

enum { MAX_VALUES = 8, MAX_SHAPES = 4 };

static const char *const knob_names[] = {
#define NAME(id, name, member) #name,
    LOWER_KNOB_LIST(NAME)
#undef NAME
};

static int knob_get(const lower_choice *c, lower_knob k) {
    switch (k) {
#define GET(id, name, member) \
    case LOWER_##id: return c->member;
        LOWER_KNOB_LIST(GET)
#undef GET
    case LOWER_KNOB_COUNT_: break;
    }
    return 0;
}

static void knob_set(lower_choice *c, lower_knob k, int v) {
    switch (k) {
    case LOWER_VECTOR: c->sched.vector = (uint16_t)v; break;
    case LOWER_UNROLL: c->sched.unroll = (uint8_t)v; break;
    case LOWER_GRAIN: c->sched.grain = (int8_t)v; break;
    case LOWER_TILE: c->tile = (int16_t)v; break;
    case LOWER_ROWS: c->rows = (uint16_t)v; break;
    case LOWER_THREADS: c->sched.threads = (uint16_t)v; break;
    case LOWER_KNOB_COUNT_: break;
    }
}

bool lower_choice_eq(const lower_choice *a, const lower_choice *b) {
    for (int k = 0; k < LOWER_KNOB_COUNT_; k++)
        if (knob_get(a, (lower_knob)k) != knob_get(b, (lower_knob)k)) return false;
    return true;
}

/* --- lists ------------------------------------------------------------------------- */

static uint32_t row_values(const lower_kernel *k, int out[MAX_VALUES]) {
    for (uint32_t i = 0; i < k->n_tiles; i++) out[i] = k->tiles[i] == k->own_rows ? 0 : k->tiles[i];
    if (k->n_tiles) return k->n_tiles;
    static const int rows[] = {12, 24, 48, 84, 168}; /* RP_MMF_ROWS at most, multiples of 12 */
    uint32_t n = 0;
    int before = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (before >= k->rows) break; /* all rows are in one */
        out[n++] = rows[i] == k->own_rows ? 0 : rows[i];
        before = rows[i];
    }
    return n;
}

/* What a knob may be, in order; 0 is the rules' own and always there. */
static uint32_t values(const lower_kernel *k, gen_isa isa, lower_knob knob, int out[MAX_VALUES]) {
    static const int unroll[] = {0, 2, 4, 8};
    static const int grain[] = {-4, -2, 0, 2, 4, SCHED_GRAIN_ALONE};
    static const int tile[] = {-3, -2, -1, 0, 1, 2};
    static const int threads[] = {0, 32, 64, 128, 256, 512, 1024};
    const int vector[] = {isa >= GEN_ISA_AVX512 ? 256 : 128, 0};
    const struct {
        const int *v;
        uint32_t n;
    } of[LOWER_KNOB_COUNT_] = {[LOWER_VECTOR] = {vector, isa >= GEN_ISA_AVX2 ? 2 : 0},
                               [LOWER_UNROLL] = {unroll, sizeof unroll / sizeof *unroll},
                               [LOWER_GRAIN] = {grain, sizeof grain / sizeof *grain},
                               [LOWER_TILE] = {tile, sizeof tile / sizeof *tile},
                               [LOWER_THREADS] = {threads, sizeof threads / sizeof *threads}};
    if (!(k->may >> knob & 1)) return 0;
    if (knob == LOWER_ROWS) return row_values(k, out);
    for (uint32_t i = 0; i < of[knob].n; i++) out[i] = of[knob].v[i];
    return of[knob].n;
}

/* Single steps of the first list: of a knob with many values the ones far from the rules' are left to who goes on from the best. */
static bool is_listed(lower_knob knob, int v) {
    switch (knob) {
    case LOWER_UNROLL: return v == 2 || v == 4;
    case LOWER_GRAIN: return v == -2 || v == 2 || v == SCHED_GRAIN_ALONE;
    case LOWER_TILE: return v >= -2 && v <= 1;
    default: return true;
    }
}

uint32_t lower_choices(const lower_kernel *k, gen_isa isa, lower_choice out[LOWER_MAX_CHOICES]) {
    uint32_t n = 1;
    int v[MAX_VALUES];
    out[0] = (lower_choice){0};
    for (int knob = 0; knob < LOWER_KNOB_COUNT_; knob++) {
        const uint32_t n_values = values(k, isa, (lower_knob)knob, v);
        for (uint32_t i = 0; i < n_values; i++) {
            if (v[i] == 0 || !is_listed((lower_knob)knob, v[i])) continue;
            out[n] = (lower_choice){0};
            knob_set(&out[n++], (lower_knob)knob, v[i]);
        }
    }
    if ((k->may & LOWER_MAY(UNROLL)) && values(k, isa, LOWER_VECTOR, v)) {
        out[n] = (lower_choice){.sched = {.vector = (uint16_t)v[0], .unroll = 4}};
        n++;
    }
    return n;
}

uint32_t lower_choices_near(const lower_kernel *k, gen_isa isa, const lower_choice *c,
                            lower_choice out[LOWER_MAX_CHOICES]) {
    uint32_t n = 0;
    int v[MAX_VALUES];
    for (int knob = 0; knob < LOWER_KNOB_COUNT_; knob++) {
        const uint32_t n_values = values(k, isa, (lower_knob)knob, v);
        uint32_t at = 0;
        while (at < n_values && v[at] != knob_get(c, (lower_knob)knob)) at++;
        for (int step = -1; step <= 1; step += 2) {
            const int64_t to = (int64_t)at + step;
            if (at == n_values || to < 0 || to >= n_values) continue;
            out[n] = *c;
            knob_set(&out[n++], (lower_knob)knob, v[to]);
        }
    }
    return n;
}

/* --- text --------------------------------------------------------------------------- */

void lower_choice_print(const lower_choice *c, bool upper, base_buf *out) {
    const char *between = "";
    for (int k = 0; k < LOWER_KNOB_COUNT_; k++) {
        const int v = knob_get(c, (lower_knob)k);
        if (v == 0) continue;
        base_buf_puts(out, between);
        for (const char *p = knob_names[k]; *p; p++)
            base_buf_putc(out, upper ? (char)toupper((unsigned char)*p) : *p);
        base_buf_printf(out, "=%d", v);
        between = upper ? ", " : " ";
    }
}

static bool is_value(const lower_kernel *k, gen_isa isa, lower_knob knob, int v) {
    int all[MAX_VALUES];
    const uint32_t n = values(k, isa, knob, all);
    for (uint32_t i = 0; i < n; i++)
        if (all[i] == v) return v != 0;
    return false;
}

bool lower_choice_parse(const lower_kernel *k, gen_isa isa, const char *text, lower_choice *out) {
    lower_choice c = {0};
    for (int n = 0; *text; text += n) {
        char name[16];
        int v, knob = 0;
        n = 0;
        if (sscanf(text, "%15[a-z]=%d%n", name, &v, &n) != 2 || n == 0) return false;
        while (knob < LOWER_KNOB_COUNT_ && strcmp(knob_names[knob], name) != 0) knob++;
        if (knob == LOWER_KNOB_COUNT_ || !is_value(k, isa, (lower_knob)knob, v)) return false;
        knob_set(&c, (lower_knob)knob, v);
        if (text[n] == ' ' && text[n + 1]) n++;
    }
    *out = c;
    return true;
}

/* --- labels -------------------------------------------------------------------------- */

static void put_shape(const lowerer *L, const ir_shape *s, base_buf *b) {
    if (s->rank == 0) base_buf_puts(b, "1");
    for (uint32_t i = 0; i < s->rank; i++)
        base_buf_printf(b, "%s%" PRId64, i ? "x" : "",
                        ir_dim_nominal(ir_graph_dims(L->g), s->dim[i]));
}

/* Columns of all that is multiplied side by side. */
static int64_t all_columns(const lowerer *L, const pass_group *gr) {
    int64_t n = 0;
    for (uint32_t i = 0; i < gr->n_segs; i++) {
        if (gr->segs[i].dead) continue;
        const ir_shape *s = &ir_node_at(L->g, gr->segs[i].mats[0])->shape;
        n += ir_dim_nominal(ir_graph_dims(L->g), s->dim[s->rank - 1]) * gr->segs[i].n_mats;
    }
    return n;
}

static void put_product(const lowerer *L, const pass_group *gr, base_buf *b) {
    const ir_dims *t = ir_graph_dims(L->g);
    const ir_node *n = ir_node_at(L->g, gr->segs[0].mats[0]), *x = ir_node_at(L->g, n->in[0]);
    base_buf_puts(b, n->shape.rank > 2 ? "bmm(" : "mm(");
    put_shape(L, &x->shape, b);
    base_buf_puts(b, ", ");
    for (uint32_t i = 0; i + 2 < n->shape.rank; i++)
        base_buf_printf(b, "%" PRId64 "x", ir_dim_nominal(t, n->shape.dim[i]));
    base_buf_printf(b, "%" PRId64 "x%" PRId64 ")",
                    ir_dim_nominal(t, x->shape.dim[x->shape.rank - 1]), all_columns(L, gr));
}

static bool is_member(const pass_group *gr, ir_ref r) {
    for (uint32_t i = 0; i < gr->n_nodes; i++)
        if (gr->nodes[i] == r) return true;
    return false;
}

/* What the group reads, the first few, each shape once in a row. */
static void put_operands(const lowerer *L, const pass_group *gr, base_buf *b) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < gr->n_nodes; i++) {
        const ir_node *x = ir_node_at(L->g, gr->nodes[i]);
        for (uint32_t k = 0; k < x->n_in && n < MAX_SHAPES; k++) {
            const ir_node *in = ir_node_at(L->g, x->in[k]);
            if (is_member(gr, x->in[k]) || in->op == IR_const) continue;
            base_buf_puts(b, n++ ? ", " : "");
            put_shape(L, &in->shape, b);
        }
    }
}

const char *lower_label(lowerer *L, const pass_group *gr, const char *name) {
    const char *end = strrchr(name, '_');
    base_buf b;
    base_buf_init(&b, 0);
    if (gr->kind == PASS_MATMUL) {
        put_product(L, gr, &b);
    } else {
        base_buf_add(&b, name, end ? (size_t)(end - name) : strlen(name));
        base_buf_putc(&b, '(');
        put_operands(L, gr, &b);
        base_buf_putc(&b, ')');
    }
    const char *label = b.failed ? NULL : base_arena_str(L->arena, b.data);
    base_buf_done(&b);
    return label;
}
