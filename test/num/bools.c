/* A bool in memory is true for any byte but 0, by whatever reads it, and what is stored is 0 or 1. */
#include "support/check.h"
#include "support/elsewhere.h"

#include "reprise/reprise.h"

enum { N = 5 };

static const char text[] =
    "graph @f(%a: bool[5], %b: bool[5], %x: i32[5], %y: f32[5], %z: f64[5]) {\n"
    "  %0 = not %a\n  %1 = eq %a, %b\n  %2 = xor %a, %b\n  %3 = where %a, %x, %x\n"
    "  %4 = cast %a {dtype=i32}\n  %5 = cast %a {dtype=f16}\n  %6 = cast %5 {dtype=f32}\n"
    "  %n = neg %x\n  %7 = where %b, %n, %x\n  %8 = where %a, %6, %y\n  %9 = cast %b {dtype=i64}\n"
    "  %10 = cast %z {dtype=bool}\n"
    "  ret %0, %1, %2, %4, %6, %7, %8, %9, %10\n}\n";

typedef struct results {
    uint8_t is_not[N], equal[N], differ[N];
    int32_t number[N], chosen[N];
    float real[N], kept[N];
    int64_t wide[N];
    uint8_t some[N];
} results;

static void run(const char *level, results *r) {
    static uint8_t a[N] = {0, 1, 2, 128, 255}, b[N] = {7, 0, 1, 2, 0};
    static int32_t x[N] = {1, 2, 3, 4, 5};
    static float y[N] = {9, 9, 9, 9, 9};
    static double z[N] = {0, -0.0, 0x1p-1000, -0x1p-1074, 3}; /* of which f32 has three */
    rp_error err = {0};
    rp_graph *g = NULL;
    rp_compiled *c = NULL;
    rp_compilation_config *cfg = rp_config_new();
    CHECK_OK(rp_config_set(cfg, level, &err), &err);
    CHECK_OK(rp_graph_parse(text, sizeof text - 1, &g, &err), &err);
    CHECK_OK(rp_compile(g, cfg, &c, &err), &err);
    rp_buffer in[] = {{RP_DTYPE_BOOL, 1, {N}, a},
                      {RP_DTYPE_BOOL, 1, {N}, b},
                      {RP_DTYPE_I32, 1, {N}, x},
                      {RP_DTYPE_F32, 1, {N}, y},
                      {RP_DTYPE_F64, 1, {N}, z}};
    rp_buffer out[] = {{RP_DTYPE_BOOL, 1, {N}, r->is_not}, {RP_DTYPE_BOOL, 1, {N}, r->equal},
                       {RP_DTYPE_BOOL, 1, {N}, r->differ}, {RP_DTYPE_I32, 1, {N}, r->number},
                       {RP_DTYPE_F32, 1, {N}, r->real},    {RP_DTYPE_I32, 1, {N}, r->chosen},
                       {RP_DTYPE_F32, 1, {N}, r->kept},    {RP_DTYPE_I64, 1, {N}, r->wide},
                       {RP_DTYPE_BOOL, 1, {N}, r->some}};
    CHECK_OK(rp_compiled_run(c, in, 5, out, 9, &err), &err);
    rp_compiled_free(c);
    rp_graph_free(g);
    rp_config_free(cfg);
}

static void any_byte_but_zero_is_true(void **state) {
    static const results want = {.is_not = {1, 0, 0, 0, 0},
                                 .equal = {0, 0, 1, 1, 0},
                                 .differ = {1, 1, 0, 0, 1},
                                 .number = {0, 1, 1, 1, 1},
                                 .chosen = {-1, 2, -3, -4, 5},
                                 .real = {0, 1, 1, 1, 1},
                                 .kept = {9, 1, 1, 1, 1},
                                 .wide = {1, 0, 1, 1, 0},
                                 .some = {0, 0, 1, 1, 1}};
    static const char *const levels[] = {"level=0", "level=2"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        results r = {0};
        run(levels[i], &r);
        assert_memory_equal(&r, &want, sizeof r);
    }
}

/* --- what only moves bools ------------------------------------------------------------ */

enum { SIX = 6, ROOM = 96, MOST = 32 };

static void keeps(rp_graph *g, const rp_tensor *in, uint32_t n, rp_tensor *out, uint32_t n_out,
                  void *user) {
    (void)g;
    (void)n;
    (void)user;
    for (uint32_t i = 0; i < n_out; i++) out[i] = in[i];
}

/* x[0], which is false. */
static rp_tensor first(rp_tensor x) {
    return rp_reshape(rp_slice(x, 0, 0, 1), (rp_shape){0});
}

static void never(rp_graph *g, const rp_tensor *in, uint32_t n, rp_tensor *out, uint32_t n_out,
                  void *user) {
    (void)g;
    (void)n;
    (void)n_out;
    (void)user;
    out[0] = first(in[0]);
}

/* Views, moves and scatters. */
static uint32_t moves(rp_graph *g, rp_tensor x, rp_tensor y, rp_tensor *o) {
    uint32_t n = 0;
    rp_tensor i = rp_iota(g, RP_DTYPE_I32, RP_SHAPE(SIX), 0), two[] = {x, y};
    rp_tensor grid = rp_reshape(y, RP_SHAPE(2, 3)), other = rp_reshape(x, RP_SHAPE(2, 3));
    rp_tensor wide = rp_broadcast(rp_unsqueeze(y, 1), RP_SHAPE(SIX, 5));
    o[n++] = grid;
    o[n++] = rp_flip(y, 0);
    o[n++] = rp_transpose(grid, 0, 1);
    o[n++] = rp_slice(y, 0, 1, 4);
    o[n++] = rp_concat(two, 2, 0);
    o[n++] = rp_gather(y, i);
    o[n++] = rp_take_along(y, 0, i);
    o[n++] = wide;
    o[n++] = rp_cast(y, RP_DTYPE_BOOL);
    o[n++] = rp_where(x, y, x);
    o[n++] = rp_scatter(x, 0, rp_slice(i, 0, 0, 3), rp_slice(y, 0, 1, 4));
    o[n++] = rp_scatter(other, 0, rp_reshape(rp_slice(i, 0, 1, 2), RP_SHAPE(1, 1)),
                        rp_slice(grid, 0, 0, 1));
    o[n++] = rp_scatter(rp_transpose(wide, 0, 1), 1,
                        rp_reshape(rp_slice(i, 0, 2, 3), RP_SHAPE(1, 1)),
                        rp_broadcast(rp_slice(y, 0, 1, 2), RP_SHAPE(5, 1)));
    return n;
}

/* What runs of other graphs carry, stack and hand through. */
static uint32_t bodies(rp_graph *g, rp_tensor x, rp_tensor y, rp_tensor *o) {
    uint32_t n = 0;
    rp_tensor q[2], in[] = {x, y};
    rp_scan_args six = {.carried = &x, .sliced = &y, .n_carried = 1, .n_sliced = 1, .axis = 0};
    rp_tensor empty = rp_slice(y, 0, 0, 0);
    rp_scan_args none = {.carried = &x, .sliced = &empty, .n_carried = 1, .n_sliced = 1, .axis = 0};
    rp_scan(g, keeps, NULL, &six, q, 2);
    o[n++] = q[0];
    o[n++] = q[1];
    rp_scan(g, keeps, NULL, &none, q, 2);
    o[n++] = q[0];
    rp_while(never, keeps, NULL, in, 2, q, 2);
    o[n++] = q[0];
    o[n++] = q[1];
    rp_cond(first(x), keeps, keeps, NULL, in, 2, q, 2);
    o[n++] = q[0];
    rp_call_graph(g, keeps, NULL, in, 2, q, 2);
    o[n++] = q[1];
    return n;
}

/* Memory that is written, and what is there and returned. */
static uint32_t writes(rp_graph *g, rp_tensor x, rp_tensor y, rp_tensor *o) {
    uint32_t n = 0;
    rp_tensor s = rp_state(g, "s", RP_DTYPE_BOOL, RP_SHAPE(SIX));
    rp_tensor w = rp_state(g, "w", RP_DTYPE_BOOL, RP_SHAPE(2, 3));
    o[n++] = rp_update(s, y);
    o[n++] = rp_update(w, rp_reshape(y, RP_SHAPE(2, 3)));
    o[n++] = y;
    o[n++] = x;
    return n;
}

typedef uint32_t made(rp_graph *g, rp_tensor x, rp_tensor y, rp_tensor *o);

static void run_made(made *of, int level, bool raw, uint8_t out[MOST][ROOM],
                     uint8_t state[2][SIX]) {
    uint8_t x[SIX] = {0, 1, 2, 128, 255, 0}, y[SIX] = {1, 2, 255, 0, 1, 0};
    rp_error err = {0};
    rp_tensor o[MOST];
    rp_buffer given[] = {{RP_DTYPE_BOOL, 1, {SIX}, x}, {RP_DTYPE_BOOL, 1, {SIX}, y}};
    rp_buffer to[MOST] = {0};
    rp_compiled *c = NULL;
    char setting[16];
    for (int i = 0; !raw && i < SIX; i++) x[i] = x[i] != 0, y[i] = y[i] != 0;
    rp_graph *g = rp_graph_new("bools");
    rp_tensor in[] = {rp_input(g, "x", RP_DTYPE_BOOL, RP_SHAPE(SIX)),
                      rp_input(g, "y", RP_DTYPE_BOOL, RP_SHAPE(SIX))};
    const uint32_t n = of(g, in[0], in[1], o);
    CHECK_OK(rp_graph_finish(g, o, n, &err), &err);
    rp_compilation_config *cfg = rp_config_new();
    (void)snprintf(setting, sizeof setting, "level=%d", level);
    CHECK_OK(rp_config_set(cfg, setting, &err), &err);
    CHECK_OK(rp_compile(g, cfg, &c, &err), &err);
    if (of == writes) {
        CHECK_OK(rp_compiled_bind(c, "s", state[0], &err), &err);
        CHECK_OK(rp_compiled_bind(c, "w", state[1], &err), &err);
    }
    CHECK_OK(rp_compiled_outputs(c, given, 2, to, n, &err), &err);
    for (uint32_t i = 0; i < n; i++) to[i].data = out[i];
    CHECK_OK(rp_compiled_run(c, given, 2, to, n, &err), &err);
    rp_compiled_free(c);
    rp_graph_free(g);
    rp_config_free(cfg);
}

static void what_is_stored_is_0_or_1(void **state) {
    static made *const all[] = {moves, bodies, writes};
    static uint8_t got[MOST][ROOM], want[MOST][ROOM];
    (void)state;
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        for (int level = 0; level < 4; level++) {
            uint8_t left[2][SIX] = {{3, 0, 9}, {0, 4, 0, 7}}, clean[2][SIX] = {{0}};
            memset(got, 1, sizeof got);
            memset(want, 1, sizeof want);
            run_made(all[k], level, true, got, left);
            run_made(all[k], level, false, want, clean);
            for (int i = 0; i < MOST; i++)
                for (int j = 0; j < ROOM; j++)
                    if (got[i][j] > 1 || got[i][j] != want[i][j])
                        fail_msg("graph %zu, level %d, result %d, byte %d: %d, not %d", k, level, i,
                                 j, got[i][j], want[i][j]);
            if (all[k] == writes) assert_memory_equal(left, clean, sizeof left);
        }
}

/* What moves true and false leaves them what they are. */
static void moved_bools_keep_their_value(void **state) {
    static const struct {
        int result;
        uint8_t want[SIX];
    } all[] = {{1, {0, 1, 0, 1, 1, 1}},  {2, {1, 0, 1, 1, 1, 0}}, {5, {1, 1, 1, 0, 1, 0}},
               {6, {1, 1, 1, 0, 1, 0}},  {9, {0, 1, 1, 0, 1, 0}}, {10, {1, 1, 0, 1, 1, 0}},
               {11, {0, 1, 1, 1, 1, 1}}, {12, {1, 1, 1, 0, 1, 0}}};
    static uint8_t got[MOST][ROOM];
    (void)state;
    for (int level = 0; level < 4; level++) {
        uint8_t none[2][SIX] = {{0}};
        run_made(moves, level, true, got, none);
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            for (int j = 0; j < SIX; j++)
                if (got[all[i].result][j] != all[i].want[j])
                    fail_msg("level %d, result %d, element %d: %d", level, all[i].result, j,
                             got[all[i].result][j]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_byte_but_zero_is_true),
                                       cmocka_unit_test(what_is_stored_is_0_or_1),
                                       cmocka_unit_test(moved_bools_keep_their_value)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
