/* What a tuner may choose of a kernel, whatever the kernel: each choice has a text that is read back, and what lies near one is a step of
 * one knob away. */
#include "support/check.h"

#include "base/str.h"
#include "lower/lower.h"

static const gen_isa isas[] = {GEN_ISA_PORTABLE, GEN_ISA_AVX2, GEN_ISA_AVX512};
static const int64_t all_rows[] = {1, 13, 100, 1000}, own_rows[] = {0, 12, 36, 84};

static uint32_t differing(const lower_choice *a, const lower_choice *b) {
    uint32_t n = 0;
#define DIFFERS(id, name, member) n += a->member != b->member;
    LOWER_KNOB_LIST(DIFFERS)
#undef DIFFERS
    return n;
}

/* Its text, if it has one, is that of no other choice, and each knob of it is one that turns. */
static void check_choice(const lower_kernel *k, gen_isa isa, const lower_choice *c) {
    const lower_choice none = {0};
    lower_choice again;
    base_buf b;
#define TURNS(id, name, member) \
    if (c->member && !(k->may & LOWER_MAY(id))) fail_msg("%s is idle", #name);
    LOWER_KNOB_LIST(TURNS)
#undef TURNS
    base_buf_init(&b, 0);
    lower_choice_print(c, false, &b);
    assert_int_equal(b.len > 0, differing(c, &none) > 0);
    const char *text = b.data ? b.data : "";
    if (!lower_choice_parse(k, isa, text, &again) || differing(c, &again))
        fail_msg("'%s' is not read back", text);
    base_buf_done(&b);
}

static void check_near(const lower_kernel *k, gen_isa isa, const lower_choice *c) {
    lower_choice near[LOWER_MAX_CHOICES];
    const uint32_t n = lower_choices_near(k, isa, c, near);
    assert_true(n <= LOWER_MAX_CHOICES);
    for (uint32_t i = 0; i < n; i++) {
        check_choice(k, isa, &near[i]);
        assert_int_equal(differing(c, &near[i]), 1);
        for (uint32_t j = 0; j < i; j++) assert_true(differing(&near[i], &near[j]) > 0);
        /* The rules' own rows have neighbours where they are one of the numbers that there are. */
        if (k->own_rows == 36 && c->rows == 0) assert_int_equal(near[i].rows, 0);
    }
}

static void check_kernel(const lower_kernel *k, gen_isa isa) {
    lower_choice all[LOWER_MAX_CHOICES];
    const lower_choice none = {0};
    const uint32_t n = lower_choices(k, isa, all);
    assert_true(n >= 1 && n <= LOWER_MAX_CHOICES);
    assert_int_equal(differing(&all[0], &none), 0);
    for (uint32_t i = 0; i < n; i++) {
        check_choice(k, isa, &all[i]);
        check_near(k, isa, &all[i]);
        for (uint32_t j = 0; j < i; j++) assert_true(differing(&all[i], &all[j]) > 0);
    }
}

static void each_choice_has_a_text(void **state) {
    (void)state;
    for (uint32_t may = 0; may < 1u << LOWER_KNOB_COUNT_; may++)
        for (size_t i = 0; i < sizeof isas / sizeof *isas; i++)
            for (size_t r = 0; r < sizeof all_rows / sizeof *all_rows; r++)
                for (size_t o = 0; o < sizeof own_rows / sizeof *own_rows; o++) {
                    const lower_kernel k = {
                        .may = may, .rows = all_rows[r], .own_rows = own_rows[o]};
                    check_kernel(&k, isas[i]);
                }
}

/* What the rules have chosen themselves is no choice beside theirs, and what lies beside it lies beside theirs. */
static void own_rows_are_the_rules(void **state) {
    static const uint16_t tiles[] = {64, 128, 256};
    const lower_kernel host = {.may = LOWER_MAY(ROWS), .rows = 1000, .own_rows = 24};
    lower_kernel gpu = {.may = LOWER_MAY(ROWS), .own_rows = 128, .n_tiles = 3};
    const struct {
        const lower_kernel *k;
        int rows[5], n, near[2], n_near;
    } of[] = {{&host, {0, 12, 48, 84, 168}, 5, {12, 48}, 2}, {&gpu, {0, 64, 256}, 3, {64, 256}, 2}};
    lower_choice all[LOWER_MAX_CHOICES];
    (void)state;
    memcpy(gpu.tiles, tiles, sizeof tiles);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        assert_int_equal(lower_choices(of[i].k, GEN_ISA_AVX2, all), of[i].n);
        for (int k = 0; k < of[i].n; k++) assert_int_equal(all[k].rows, of[i].rows[k]);
        const lower_choice none = {0};
        assert_int_equal(lower_choices_near(of[i].k, GEN_ISA_AVX2, &none, all), of[i].n_near);
        for (int k = 0; k < of[i].n_near; k++) assert_int_equal(all[k].rows, of[i].near[k]);
    }
}

/* Where a number holds all rows, a larger one is no other choice. */
static void no_rows_beyond_all(void **state) {
    static const struct {
        int64_t rows;
        int last;
    } of[] = {{1, 12}, {12, 12}, {13, 24}, {24, 24}, {84, 84}, {85, 168}, {96, 168}, {1000, 168}};
    (void)state;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        const lower_kernel k = {.may = LOWER_MAY(ROWS), .rows = of[i].rows};
        lower_choice all[LOWER_MAX_CHOICES];
        const uint32_t n = lower_choices(&k, GEN_ISA_AVX2, all);
        assert_int_equal(all[n - 1].rows, of[i].last);
    }
}

/* A record of another version, or of another machine, is none. */
static void other_texts_are_refused(void **state) {
    static const char *const texts[] = {
        "unroll",     "unroll=",          "unroll=3",    "unroll=0",
        "unroll=2x",  "unroll=2,grain=2", "UNROLL=2",    "width=2",
        "grain=1",    "unroll=2 grain=5", "=2",          "threads=48",
        "vector=256", "rows=13",          "unroll=2 x",  "tile=-4",
        "tile=3",     "vector=64",        "unroll= two", "rows=1000",
    };
    const lower_kernel k = {.may = (1u << LOWER_KNOB_COUNT_) - 1, .rows = 1000, .own_rows = 12};
    lower_kernel idle = k;
    lower_choice c;
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (lower_choice_parse(&k, GEN_ISA_AVX2, texts[i], &c)) fail_msg("'%s' is read", texts[i]);
    assert_true(lower_choice_parse(&k, GEN_ISA_AVX512, "vector=256 unroll=2", &c));
    assert_true(lower_choice_parse(&k, GEN_ISA_AVX2, "tile=-3 rows=168", &c));
    assert_int_equal(c.tile, -3);
    assert_int_equal(c.rows, 168);
    idle.may = LOWER_MAY(TILE);
    assert_false(lower_choice_parse(&idle, GEN_ISA_AVX2, "tile=-3 rows=168", &c));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_choice_has_a_text),
        cmocka_unit_test(own_rows_are_the_rules),
        cmocka_unit_test(no_rows_beyond_all),
        cmocka_unit_test(other_texts_are_refused),
    };
    return cmocka_run_group_tests_name("lower_choice", tests, NULL, NULL);
}
