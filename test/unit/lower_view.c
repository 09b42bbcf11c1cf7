/* Strides of views against the interpreter: random chains of views of numbers that say where they lie. */
#include "support/check.h"
#include "support/random_graph.h"

#include "base/alloc.h"
#include "ir/eval.h"
#include "lower/view.h"

enum { MAX_DIMS = 5, LINKS = 4 };

static uint64_t rng;

static int pick(int lo, int hi) {
    rng = rng * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return lo + (int)((rng >> 33) % (uint64_t)(hi - lo + 1));
}

typedef struct sizes {
    int rank, dim[MAX_DIMS];
} sizes;

static void put_sizes(base_buf *b, const sizes *s) {
    for (int i = 0; i < s->rank; i++) base_buf_printf(b, "%s%d", i ? "," : "", s->dim[i]);
}

static void put_permute(base_buf *b, sizes *s) {
    sizes from = *s;
    int axes[MAX_DIMS];
    for (int i = 0; i < s->rank; i++) axes[i] = i;
    for (int i = s->rank; i-- > 1;) {
        int j = pick(0, i), t = axes[i];
        axes[i] = axes[j];
        axes[j] = t;
    }
    base_buf_puts(b, "{axes=[");
    for (int i = 0; i < s->rank; i++) {
        base_buf_printf(b, "%s%d", i ? "," : "", axes[i]);
        s->dim[i] = from.dim[axes[i]];
    }
    base_buf_puts(b, "]}");
}

static void put_slice(base_buf *b, sizes *s) {
    int axis = pick(0, s->rank - 1), start = pick(0, s->dim[axis] - 1);
    int stop = pick(start + 1, s->dim[axis]);
    base_buf_printf(b, "{axis=%d, start=%d, stop=%d}", axis, start, stop);
    s->dim[axis] = stop - start;
}

/* An axis or two in front, and some of those of one element larger. */
static void put_broadcast(base_buf *b, sizes *s) {
    sizes to = {.rank = s->rank + pick(0, MAX_DIMS - s->rank > 2 ? 2 : MAX_DIMS - s->rank)};
    int lead = to.rank - s->rank;
    for (int i = 0; i < to.rank; i++)
        to.dim[i] = i < lead || s->dim[i - lead] == 1 ? pick(1, 3) : s->dim[i - lead];
    *s = to;
    base_buf_puts(b, "{shape=[");
    put_sizes(b, s);
    base_buf_puts(b, "]}");
}

/* Two neighbours joined, or one axis in two. */
static void put_reshape(base_buf *b, sizes *s) {
    int at = pick(0, s->rank - 1), by = 0;
    for (int d = 2; d < s->dim[at]; d++)
        if (s->dim[at] % d == 0) by = d;
    if (s->rank > 1 && at + 1 < s->rank && pick(0, 1)) {
        s->dim[at] *= s->dim[at + 1];
        for (int i = at + 1; i + 1 < s->rank; i++) s->dim[i] = s->dim[i + 1];
        s->rank--;
    } else if (s->rank < MAX_DIMS) {
        for (int i = s->rank; i > at + 1; i--) s->dim[i] = s->dim[i - 1];
        s->dim[at + 1] = by ? by : 1;
        s->dim[at] /= by ? by : 1;
        s->rank++;
    }
    base_buf_puts(b, "{shape=[");
    put_sizes(b, s);
    base_buf_puts(b, "]}");
}

/* Every link of a chain is an output. */
static void put_graph(base_buf *b) {
    static const struct {
        const char *name;
        void (*put)(base_buf *, sizes *);
    } ops[] = {{"permute", put_permute},
               {"slice", put_slice},
               {"broadcast", put_broadcast},
               {"reshape", put_reshape}};
    sizes s = {.rank = pick(1, 3)};
    for (int i = 0; i < s.rank; i++) s.dim[i] = pick(1, 4);
    base_buf_puts(b, "graph @views(%x: f32[");
    put_sizes(b, &s);
    base_buf_puts(b, "]) {\n");
    for (int i = 0; i < LINKS; i++) {
        int op = pick(0, 3);
        base_buf_printf(b, "  %%v%d = %s ", i, ops[op].name);
        base_buf_printf(b, i ? "%%v%d " : "%%x ", i - 1);
        ops[op].put(b, &s);
        base_buf_putc(b, '\n');
    }
    base_buf_puts(b, "  ret ");
    for (int i = 0; i < LINKS; i++) base_buf_printf(b, "%s%%v%d", i ? ", " : "", i);
    base_buf_puts(b, "\n}\n");
}

/* Where element i of a view of that shape lies. */
static int64_t place(const ir_graph *g, const lower_view *v, const ir_value *x, int64_t i) {
    int64_t at = ir_dim_eval(ir_graph_dims(g), v->offset, NULL);
    for (uint32_t d = x->rank; d-- > 0; i /= x->dim[d])
        at += i % x->dim[d] * ir_dim_eval(ir_graph_dims(g), v->stride[d], NULL);
    return at;
}

/* Follows the chain down from output r; false where strides cannot say it. */
static bool view_of(ir_graph *g, ir_ref r, lower_view *out) {
    const ir_node *n = ir_node_at(g, r);
    ir_dims *t = ir_graph_dims(g);
    lower_view from;
    if (n->op == IR_input) {
        lower_view_dense(t, (lower_ref){.seg = LOWER_INPUT, .idx = 0}, n, out);
        return true;
    }
    return view_of(g, n->in[0], &from) &&
           lower_view_of(t, n, &ir_node_at(g, n->in[0])->shape, &from, out);
}

static void strides_are_what_the_interpreter_moves(void **state) {
    enum { CASES = 4000 };
    uint32_t strided = 0, all = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= CASES; seed++) {
        rp_error err = {0};
        ir_graph *g = NULL;
        random_leaves l = {0};
        ir_value got[LINKS] = {0};
        base_buf text;
        rng = seed;
        base_buf_init(&text, 0);
        put_graph(&text);
        if (ir_parse(text.data, text.len, &g, &err) != RP_OK)
            fail_msg("%s: %s", text.data, err.text);
        CHECK_OK(random_leaves_new(g, seed, &l, &err), &err);
        ir_value *x = &l.leaf[IR_LEAF_INPUT][0];
        for (int64_t i = 0; i < x->n; i++) x->data[i] = (double)i;
        CHECK_OK(ir_eval(g, x, NULL, NULL, l.symbols, got, &err), &err);
        for (uint32_t k = 0; k < LINKS; k++) {
            lower_view v;
            bool good = view_of(g, ir_output_at(g, k), &v);
            for (int64_t i = 0; good && i < got[k].n; i++)
                if (place(g, &v, &got[k], i) != (int64_t)got[k].data[i])
                    fail_msg("element %lld of %%v%u lies at %lld, not %lld:\n%s", (long long)i, k,
                             (long long)got[k].data[i], (long long)place(g, &v, &got[k], i),
                             text.data);
            bool in_order = true;
            for (int64_t i = 0; good && i < got[k].n; i++) in_order &= got[k].data[i] == (double)i;
            if (good)
                assert_int_equal(lower_view_is_dense(ir_graph_dims(g), &v,
                                                     &ir_node_at(g, ir_output_at(g, k))->shape),
                                 in_order);
            strided += good;
            all++;
            ir_value_done(&got[k]);
        }
        random_leaves_done(&l);
        ir_graph_free(g);
        base_buf_done(&text);
    }
    print_message("%u of %u views have strides\n", strided, all);
    assert_true(strided * 2 > all);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(strides_are_what_the_interpreter_moves)};
    return cmocka_run_group_tests_name("lower_view", tests, NULL, NULL);
}
