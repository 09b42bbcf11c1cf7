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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_byte_but_zero_is_true)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
