/* Counts from the launch log: what one step is in each mode, what a warm start does, which pieces there are. */
#include "support/check.h"
#include "support/engines.h"

static const int32_t prompt[] = {10, 20, 30, 40, 50};

static void decode(rp_engine *e, uint32_t n) {
    int32_t out[64];
    assert_int_equal(engine_greedy(e, prompt, 5, n, out), n);
}

/* What n decode steps add to a count. */
static long long per_step(rp_engine *e, const char *path, uint32_t n) {
    decode(e, 1);
    long long a = engine_count(e, path);
    decode(e, 1 + n);
    long long b = engine_count(e, path);
    decode(e, 1);
    long long prefill = engine_count(e, path) - b;
    assert_int_equal((b - a - prefill) % n, 0);
    return (b - a - prefill) / n;
}

static void check_step(const char *model, const char *mode, long long graphs, long long single,
                       long long attention) {
    rp_engine *e = engine_must(model, (const char *[]){"level=3", mode, NULL});
    assert_int_equal(per_step(e, "launches.graph_launches", 4), graphs);
    assert_int_equal(per_step(e, "launches.single", 4), single);
    assert_int_equal(per_step(e, "launches.attention", 4), attention);
    rp_engine_close(e);
}

static void tiny_steps(void **state) {
    (void)state;
    /* 2 layers: 4 pieces, 2 compiled, and the head */
    check_step("synthetic:tiny", "cudagraph_mode=FULL", 1, 0, 0);
    check_step("synthetic:tiny", "cudagraph_mode=FULL_DECODE_ONLY", 1, 0, 0);
    check_step("synthetic:tiny", "cudagraph_mode=FULL_AND_PIECEWISE", 1, 0, 0);
    check_step("synthetic:tiny", "cudagraph_mode=PIECEWISE", 3, 2, 2);
    rp_engine *e =
        engine_must("synthetic:tiny", (const char *[]){"level=3", "cudagraph_mode=NONE", NULL});
    assert_int_equal(per_step(e, "launches.graph_launches", 4), 0);
    assert_int_equal(per_step(e, "launches.attention", 4), 2);
    rp_engine_close(e);
}

static const char *real(void) {
    const char *path = getenv("REPRISE_TEST_MODEL");
    if (!path) SKIP_TEST("REPRISE_TEST_MODEL names no GGUF file of SmolLM2");
    return path;
}

static void real_steps(void **state) {
    (void)state;
    check_step(real(), "cudagraph_mode=FULL", 1, 0, 0);
    /* 30 pieces and the head replay, attention runs behind each piece */
    check_step(real(), "cudagraph_mode=PIECEWISE", 31, 30, 30);
}

static void check_pieces(const char *model, const char *ops, long long total, long long compiled,
                         long long distinct) {
    rp_engine *e = engine_must(model, (const char *[]){"level=3", ops, NULL});
    assert_int_equal(engine_count(e, "pieces.total"), total);
    assert_int_equal(engine_count(e, "pieces.compiled"), compiled);
    assert_int_equal(engine_count(e, "pieces.distinct"), distinct);
    rp_engine_close(e);
}

static void pieces(void **state) {
    static const char attention[] = "splitting_ops=reprise::attention";
    (void)state;
    check_pieces("synthetic:tiny,layers=5", attention, 10, 5, 2);
    check_pieces("synthetic:tiny,layers=5", "splitting_ops=[]", 1, 1, 1);
    /* The stores of k and v are two in a row and share a piece; attention has its own, because the allocation of its
     * output lies between. */
    check_pieces("synthetic:tiny,layers=5", "splitting_ops=reprise::kv_store,reprise::attention",
                 15, 5, 2);
    check_pieces("synthetic:tiny,layers=5", "splitting_ops=reprise::kv_store", 11, 6, 3);
}

static void real_pieces(void **state) {
    (void)state;
    check_pieces(real(), "splitting_ops=reprise::attention", 60, 30, 2);
}

/* A second engine over the same cache traces and compiles nothing. */
static void warm(void **state) {
    (void)state;
    static const char *const how[] = {"level=3", "sealed=fatal", NULL};
    rp_engine *cold = engine_must("synthetic:tiny,seed=7", how);
    assert_int_equal(engine_count(cold, "traces"), 2);
    decode(cold, 3);
    rp_engine_close(cold);
    rp_engine *e = engine_must("synthetic:tiny,seed=7", how);
    assert_int_equal(engine_count(e, "traces"), 0);
    assert_int_equal(engine_count(e, "compiles"), 0);
    decode(e, 20);
    assert_int_equal(engine_count(e, "late_captures"), 0);
    rp_engine_close(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiny_steps),  cmocka_unit_test(real_steps), cmocka_unit_test(pieces),
        cmocka_unit_test(real_pieces), cmocka_unit_test(warm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
