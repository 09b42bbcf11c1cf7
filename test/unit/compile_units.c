/* Units: each kernel text once, in the longest piece that has it; what comes out is as the piece wrote it. */
#include "support/check.h"
#include "support/plans.h"

#include "base/alloc.h"
#include "compile/units.h"
#include "target/target.h"

enum { PIECES = 3 };

/* Sources as lowering gives them: a head, then kernels that are told by their names. */
static void make_piece(lower_piece *p, const char *const (*kernels)[2], uint32_t n) {
    base_buf b;
    base_buf_init(&b, 0);
    *p = (lower_piece){.arena = base_arena_new()};
    p->kernels = base_arena_array(p->arena, n, sizeof *p->kernels);
    base_buf_puts(&b, "head\n");
    for (uint32_t i = 0; i < n; i++) {
        size_t begin = b.len;
        base_buf_printf(&b, "int %s_body; %s void %s();\n", kernels[i][0], kernels[i][1],
                        kernels[i][0]);
        p->kernels[p->n_kernels++] =
            (lower_kernel){.name = kernels[i][0], .begin = begin, .end = b.len};
    }
    p->source = base_arena_str(p->arena, b.data);
    base_buf_done(&b);
}

static const char *unit_of(const compile_units *u, uint32_t piece, uint32_t kernel) {
    return u->units[u->places[piece][kernel].unit].text;
}

static void equal_texts_are_in_one_unit(void **state) {
    static const char *const a[][2] = {{"red_fused_add_0", "same"}, {"poi_fused_mul_1", "mine"}};
    static const char *const b[][2] = {
        {"poi_fused_mul_0", "other"}, {"red_fused_add_1", "same"}, {"mm_fused_2", "long and more"}};
    static const char *const c[][2] = {{"red_fused_add_2", "same"}};
    lower_piece p[PIECES];
    const lower_piece *const all[PIECES] = {&p[0], &p[1], &p[2]};
    compile_units u;
    rp_error err = {0};
    (void)state;
    make_piece(&p[0], a, 2);
    make_piece(&p[1], b, 3);
    make_piece(&p[2], c, 1);
    CHECK_OK(compile_units_make(all, PIECES, GEN_ISA_PORTABLE, &u, &err), &err);
    assert_int_equal(u.n_units, 2); /* the third piece has nothing of its own */
    assert_int_equal(u.units[0].n_kernels + u.units[1].n_kernels, 4);
    /* the longest has what all three need, under its own name */
    assert_int_equal(u.units[u.places[0][0].unit].piece, 1);
    assert_string_equal(u.places[0][0].symbol, "red_fused_add_1");
    assert_string_equal(u.places[2][0].symbol, "red_fused_add_1");
    assert_int_equal(u.places[2][0].unit, u.places[1][1].unit);
    assert_non_null(
        strstr(unit_of(&u, 0, 0), "int red_fused_add_1_body; same void red_fused_add_1();"));
    /* equal ops are not equal texts */
    assert_string_equal(u.places[0][1].symbol, "poi_fused_mul_1");
    assert_non_null(strstr(unit_of(&u, 0, 1), "mine"));
    assert_null(strstr(unit_of(&u, 0, 1), "same void"));
    assert_null(strstr(unit_of(&u, 1, 0), "mine"));
    compile_units_done(&u);
    for (int i = 0; i < PIECES; i++) lower_done(&p[i]);
}

static void lower_llama(lower_piece *out, const lower_piece **list, uint32_t *n, split_result *s,
                        rp_graph **g) {
    static const char *const ops[] = {"reprise::attention"};
    small_llama_options opt = {.layers = 3, .weights = RP_DTYPE_Q4_1};
    const lower_options lo = {.isa = GEN_ISA_AVX2};
    rp_error err = {0};
    CHECK_OK(small_llama_new(&opt, g, &err), &err);
    CHECK_OK(split_graph(trace_graph_ir(*g), ops, 1, s, &err), &err);
    for (uint32_t i = 0; i < s->n_pieces; i++)
        if (s->pieces[i].distinct == i) {
            CHECK_OK(target_lower(s->pieces[i].graph, &lo, &out[*n], &err), &err);
            list[*n] = &out[*n];
            ++*n;
        }
}

/* Of equally long pieces the first has what both need. */
static void equal_pieces_keep_their_order(void **state) {
    static const char *const a[][2] = {{"red_fused_add_0", "same"}};
    static const char *const b[][2] = {{"red_fused_add_1", "same"}};
    lower_piece p[2];
    const lower_piece *const all[] = {&p[0], &p[1]};
    compile_units u;
    rp_error err = {0};
    (void)state;
    make_piece(&p[0], a, 1);
    make_piece(&p[1], b, 1);
    CHECK_OK(compile_units_make(all, 2, GEN_ISA_PORTABLE, &u, &err), &err);
    assert_int_equal(u.n_units, 1);
    assert_int_equal(u.units[0].piece, 0);
    assert_string_equal(u.places[1][0].symbol, "red_fused_add_0");
    compile_units_done(&u);
    for (int i = 0; i < 2; i++) lower_done(&p[i]);
}

/* What a kernel uses tells it apart; the bytes between do not. */
static void uses_are_compared_by_value(void **state) {
    static const char *const text[][2] = {{"mm_fused_0", "same"}};
    lower_piece p[PIECES];
    const lower_piece *const all[PIECES] = {&p[0], &p[1], &p[2]};
    compile_units u;
    rp_error err = {0};
    (void)state;
    for (int i = 0; i < PIECES; i++) {
        make_piece(&p[i], text, 1);
        gen_matmul_uses *uses = &p[i].kernels[0].uses;
        memset(uses, i == 1 ? 0xff : 0, sizeof *uses);
        uses->quant = 1;
        uses->floats = uses->attention = false;
        uses->tensor = i == 2;
    }
    CHECK_OK(compile_units_make(all, PIECES, GEN_ISA_PORTABLE, &u, &err), &err);
    assert_int_equal(u.n_units, 2);
    assert_int_equal(u.places[1][0].unit, u.places[0][0].unit);
    assert_int_not_equal(u.places[2][0].unit, u.places[0][0].unit);
    compile_units_done(&u);
    for (int i = 0; i < PIECES; i++) lower_done(&p[i]);
}

/* One unit that is not short is two for two cores; what has several stays as it is. */
static void a_long_unit_is_two(void **state) {
    static char body[3100];
    static const char *const text[4][2] = {
        {"a_0", body}, {"b_1", body + 1}, {"c_2", body + 2}, {"d_3", body + 3}};
    static const char *const other[1][2] = {{"e_0", body + 4}};
    lower_piece p[2];
    const lower_piece *const all[2] = {&p[0], &p[1]};
    compile_units u;
    rp_error err = {0};
    (void)state;
    memset(body, 'x', sizeof body - 1);
    make_piece(&p[0], text, 4);
    make_piece(&p[1], other, 1);
    CHECK_OK(compile_units_make(all, 1, GEN_ISA_PORTABLE, &u, &err), &err);
    assert_int_equal(u.n_units, 2);
    assert_int_equal(u.units[0].n_kernels, 2);
    assert_int_equal(u.units[1].n_kernels, 2);
    compile_units_done(&u);
    CHECK_OK(compile_units_make(all, 2, GEN_ISA_PORTABLE, &u, &err), &err);
    assert_int_equal(u.n_units, 2);
    assert_int_equal(u.units[0].n_kernels, 4);
    compile_units_done(&u);
    p[0].n_kernels = 1;
    CHECK_OK(compile_units_make(all, 1, GEN_ISA_PORTABLE, &u, &err), &err);
    assert_int_equal(u.n_units, 1);
    compile_units_done(&u);
    for (int i = 0; i < 2; i++) lower_done(&p[i]);
}

static void how_long_a_unit_is_that_becomes_two(void **state) {
    static const struct {
        size_t bytes;
        uint32_t units;
    } all[] = {{5999, 1}, {6000, 2}, {20000, 2}, {20001, 2}, {40000, 2}, {40001, 3}};
    static char body[3][20001];
    static const char *const text[3][2] = {{"a_0", body[0]}, {"b_1", body[1]}, {"c_2", body[2]}};
    (void)state;
    for (int i = 0; i < 3; i++) memset(body[i], 'x' + i, sizeof body[i] - 1);
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        lower_piece p;
        const lower_piece *const one[1] = {&p};
        compile_units u;
        rp_error err = {0};
        make_piece(&p, text, 3);
        for (uint32_t i = 0; i < 3; i++)
            p.kernels[i].end = p.kernels[i].begin + all[k].bytes / 3 + (i < all[k].bytes % 3);
        CHECK_OK(compile_units_make(one, 1, GEN_ISA_PORTABLE, &u, &err), &err);
        if (u.n_units != all[k].units) fail_msg("%zu bytes are %u units", all[k].bytes, u.n_units);
        compile_units_done(&u);
        lower_done(&p);
    }
}

/* What is long for itself has units of some 20000 bytes, alone as among others. */
static void a_long_piece_is_several(void **state) {
    enum { KERNELS = 10 };
    static char body[8001];
    static const char *const text[KERNELS][2] = {
        {"k_0", body},     {"k_1", body + 1}, {"k_2", body + 2}, {"k_3", body + 3},
        {"k_4", body + 4}, {"k_5", body + 5}, {"k_6", body + 6}, {"k_7", body + 7},
        {"k_8", body + 8}, {"k_9", body + 9}};
    lower_piece p;
    const lower_piece *const all[1] = {&p};
    compile_units u;
    rp_error err = {0};
    (void)state;
    memset(body, 'x', sizeof body - 1);
    make_piece(&p, text, KERNELS);
    CHECK_OK(compile_units_make(all, 1, GEN_ISA_PORTABLE, &u, &err), &err);
    assert_in_range(u.n_units, 4, 5);
    for (uint32_t i = 0; i < u.n_units; i++) assert_in_range(u.units[i].n_kernels, 1, 3);
    compile_units_done(&u);
    lower_done(&p);
}

/* A piece alone is its own source; a model's pieces share kernels, and long ones have several units. */
static void a_model_has_each_kernel_once(void **state) {
    lower_piece p[16];
    const lower_piece *list[16];
    uint32_t n = 0, lowered = 0, compiled = 0;
    split_result s = {0};
    rp_graph *g = NULL;
    compile_units u, again;
    rp_error err = {0};
    (void)state;
    lower_llama(p, list, &n, &s, &g);
    for (uint32_t i = 0; i < n; i++) {
        compile_units alone;
        lowered += p[i].n_kernels;
        CHECK_OK(compile_units_make(&list[i], 1, GEN_ISA_AVX2, &alone, &err), &err);
        if (alone.n_units == 1) assert_string_equal(alone.units[0].text, p[i].source);
        assert_int_equal(alone.n_units == 0, p[i].n_kernels == 0);
        compile_units_done(&alone);
    }
    CHECK_OK(compile_units_make(list, n, GEN_ISA_AVX2, &u, &err), &err);
    CHECK_OK(compile_units_make(list, n, GEN_ISA_AVX2, &again, &err), &err);
    assert_int_equal(u.n_units, again.n_units);
    for (uint32_t i = 0; i < u.n_units; i++) {
        compiled += u.units[i].n_kernels;
        assert_true(u.units[i].n_kernels > 0);
        assert_string_equal(u.units[i].text, again.units[i].text);
    }
    assert_true(compiled < lowered);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < p[i].n_kernels; k++) {
            char head[128];
            (void)snprintf(head, sizeof head, "\nvoid %s(", u.places[i][k].symbol);
            assert_non_null(strstr(unit_of(&u, i, k), head));
        }
    compile_units_done(&u);
    compile_units_done(&again);
    for (uint32_t i = 0; i < n; i++) lower_done(&p[i]);
    split_done(&s);
    rp_graph_free(g);
}

static void lost_memory_leaves_nothing(void **state) {
    static const char *const a[][2] = {{"red_fused_add_0", "same"}, {"poi_fused_mul_1", "mine"}};
    lower_piece p;
    const lower_piece *const all[] = {&p, &p};
    (void)state;
    make_piece(&p, a, 2);
    size_t live = base_live();
    FOR_EACH_ALLOC_FAILURE (n) {
        rp_error err = {0};
        compile_units u = {0};
        rp_status st = compile_units_make(all, 2, GEN_ISA_PORTABLE, &u, &err);
        assert_true(st == RP_OK || st == RP_NOMEM);
        compile_units_done(&u);
        assert_int_equal(base_live(), live);
    }
    lower_done(&p);
}

static int nothing_left(void **state) {
    (void)state;
    return base_live() != 0;
}
#define T(name) cmocka_unit_test_teardown(name, nothing_left)

int main(void) {
    const struct CMUnitTest tests[] = {
        T(a_long_unit_is_two),
        T(a_long_piece_is_several),
        T(how_long_a_unit_is_that_becomes_two),
        T(equal_texts_are_in_one_unit),
        T(equal_pieces_keep_their_order),
        T(uses_are_compared_by_value),
        T(a_model_has_each_kernel_once),
        T(lost_memory_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
