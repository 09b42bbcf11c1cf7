/* The arena: what lives together never overlaps, and what does not shares; and what plan_verify refuses. */
#include "support/check.h"

#include "base/alloc.h"
#include "plan/layout.h"
#include "support/plans.h"

static uint64_t rng = 88172645463325252u;

static uint32_t pick(uint32_t n) {
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return (uint32_t)(rng >> 33) % n;
}

static void no_op(plan_launch *l) {
    *l = (plan_launch){.name = "k",
                       .n_alts = 1,
                       .alts = {{.max = INT64_MAX}},
                       .grain = 1,
                       .rows = {1, {IR_DIM_CODE_CONST}, {1}}};
}

/* n_launches kernels without arguments and n_values values with nothing said about them. */
static plan *bare_plan(uint32_t n_launches, uint32_t n_values) {
    plan *p = plan_new("bare");
    assert_non_null(p);
    p->n_launches = n_launches;
    p->launches = base_arena_array(p->arena, n_launches, sizeof *p->launches);
    for (uint32_t i = 0; i < n_launches; i++) no_op(&p->launches[i]);
    p->n_functions = p->n_dim_maps = p->n_pieces = p->n_compiled = p->n_distinct = p->n_symbols = 1;
    p->functions = base_arena_alloc(p->arena, sizeof *p->functions);
    p->functions[0] = (plan_function){PLAN_BUILTIN, "@k"};
    p->dim_maps = base_arena_alloc(p->arena, sizeof *p->dim_maps);
    p->pieces = base_arena_alloc(p->arena, sizeof *p->pieces);
    p->pieces[0].n = n_launches;
    p->symbols = base_arena_alloc(p->arena, sizeof *p->symbols);
    p->symbols[0] = (plan_symbol){"T", 1, 64};
    p->n_values = n_values;
    p->values = base_arena_array(p->arena, n_values + 1, sizeof *p->values);
    return p;
}

static int64_t bytes_of(const plan *p, uint32_t i) {
    int64_t n = -1;
    assert_true(plan_value_bytes(p, &p->values[i], &n));
    return n;
}

/* Bytes alive at the fullest launch: no layout can be smaller. */
static int64_t lower_bound(const plan *p) {
    int64_t most = 0;
    for (uint32_t l = 0; l < p->n_launches; l++) {
        int64_t sum = 0;
        for (uint32_t i = 0; i < p->n_values; i++)
            if (p->values[i].first <= l && l <= p->values[i].last) sum += bytes_of(p, i);
        if (sum > most) most = sum;
    }
    return most;
}

static void what_lives_together_never_overlaps(void **state) {
    int64_t used = 0, least = 0;
    (void)state;
    for (int round = 0; round < 300; round++) {
        rp_error err = {0};
        uint32_t n_launches = 1 + pick(30);
        plan *p = bare_plan(n_launches, pick(60));
        for (uint32_t i = 0; i < p->n_values; i++) {
            plan_value *v = &p->values[i];
            v->first = pick(n_launches);
            v->last = v->first + pick(n_launches - v->first < 6 ? n_launches - v->first : 6);
            v->bytes = (plan_size){1, {IR_DIM_CODE_CONST}, {pick(3) ? pick(5000) : 0}};
            if (pick(2)) {
                const int64_t factor = 4 * pick(300) + 1;
                v->bytes =
                    (plan_size){3,
                                {IR_DIM_CODE_SYMBOL, IR_DIM_CODE_MUL_CONST, IR_DIM_CODE_ADD_CONST},
                                {0, factor, v->bytes.k[0]}};
            }
        }
        CHECK_OK(plan_seal(p, &err), &err);
        for (uint32_t i = 0; i < p->n_values; i++)
            for (uint32_t j = 0; j < i; j++) {
                const plan_value *a = &p->values[i], *b = &p->values[j];
                bool together = a->first <= b->last && b->first <= a->last;
                bool overlap = a->offset < b->offset + bytes_of(p, j) &&
                               b->offset < a->offset + bytes_of(p, i);
                assert_false(together && overlap);
                assert_true(a->offset % PLAN_ALIGN == 0);
            }
        used += p->arena_size;
        least += lower_bound(p);
        plan_free(p);
    }
    assert_true(used * 100 <= least * 115); /* measured: 6 % above what is alive at once */
}

/* The offset of a value of `size` bytes, the slow way: behind any of those that are placed and live together with it, or at 0. */
static int64_t lowest_gap(const plan *p, const bool *placed, const plan_value *v, int64_t size) {
    int64_t lowest = -1;
    for (uint32_t i = 0; i <= p->n_values; i++) {
        int64_t at = 0;
        bool fits = i == p->n_values || placed[i];
        if (i < p->n_values) at = p->values[i].offset + bytes_of(p, i);
        for (uint32_t j = 0; fits && j < p->n_values; j++) {
            const plan_value *o = &p->values[j];
            fits = !placed[j] || o->first > v->last || v->first > o->last ||
                   o->offset >= at + size || o->offset + bytes_of(p, j) <= at;
        }
        if (fits && (lowest < 0 || at < lowest)) lowest = at;
    }
    return lowest;
}

/* The largest first, each as low as it fits: looked for among all values, it is the same place. */
static void each_is_as_low_as_it_fits(void **state) {
    (void)state;
    for (int round = 0; round < 200; round++) {
        rp_error err = {0};
        uint32_t n_launches = 1 + pick(40), n_sizes = 1 + pick(8), longest = 1 + pick(n_launches);
        bool placed[64] = {false};
        plan *p = bare_plan(n_launches, pick(64));
        for (uint32_t i = 0; i < p->n_values; i++) {
            plan_value *v = &p->values[i];
            v->first = pick(n_launches);
            v->last = v->first +
                      pick(n_launches - v->first < longest ? n_launches - v->first : longest);
            v->bytes = (plan_size){1, {IR_DIM_CODE_CONST}, {64 * (1 + pick(n_sizes))}};
        }
        CHECK_OK(plan_seal(p, &err), &err);
        for (uint32_t n = 0; n < p->n_values; n++) {
            uint32_t next = UINT32_MAX;
            for (uint32_t i = 0; i < p->n_values; i++)
                if (!placed[i] && (next == UINT32_MAX || bytes_of(p, i) > bytes_of(p, next)))
                    next = i;
            assert_int_equal(p->values[next].offset,
                             lowest_gap(p, placed, &p->values[next], bytes_of(p, next)));
            placed[next] = true;
        }
        plan_free(p);
    }
}

/* A chain: each value is read by the next launch. `far`: n launches later, so that n values live at once. */
static uint64_t steps_of_layout(uint32_t n, bool far) {
    rp_error err = {0};
    plan *p = bare_plan(2 * n, n);
    for (uint32_t i = 0; i < n; i++) {
        p->values[i].first = far ? i : 2 * i;
        p->values[i].last = far ? n + i : 2 * i + 1;
        p->values[i].bytes = (plan_size){1, {IR_DIM_CODE_CONST}, {64 * (1 + i % 3)}};
    }
    CHECK_OK(plan_layout_arena(p, &err), &err);
    if (!far) assert_int_equal(p->arena_size, 192);
    uint64_t steps = p->steps;
    plan_free(p);
    return steps;
}

/* Counted, not timed. */
static void work_grows_with_the_values(void **state) {
    (void)state;
    for (int far = 0; far < 2; far++) {
        uint64_t few = steps_of_layout(1000, far), many = steps_of_layout(8000, far);
        print_message("%s: %llu and %llu steps\n", far ? "all at once" : "chain",
                      (unsigned long long)few, (unsigned long long)many);
        assert_true(many <= few * 12);
    }
}

/* Of a plan of n kernels, each of a value and its transpose. */
static uint64_t steps_of_kernels(uint32_t n) {
    rp_error err = {0};
    ir_graph *g = NULL;
    base_buf b;
    base_buf_init(&b, 0);
    base_buf_puts(&b, "graph @chain(%a0: f32[48,48]) {\n");
    for (uint32_t i = 0; i < n; i++)
        base_buf_printf(&b, "  %%p%u = permute %%a%u {axes=[1,0]}\n  %%a%u = add %%a%u, %%p%u\n", i,
                        i, i + 1, i, i);
    base_buf_printf(&b, "  ret %%a%u\n}\n", n);
    CHECK_OK(ir_parse(b.data, b.len, &g, &err), &err);
    plan *p = plan_of(g);
    assert_int_equal(p->n_launches, n);
    uint64_t steps = p->steps;
    plan_free(p);
    ir_graph_free(g);
    base_buf_done(&b);
    return steps;
}

/* Functions, modules and packs are found by name, not gone through. */
static void work_grows_with_the_kernels(void **state) {
    uint64_t few = steps_of_kernels(250), many = steps_of_kernels(2000);
    (void)state;
    print_message("kernels: %llu and %llu steps\n", (unsigned long long)few,
                  (unsigned long long)many);
    assert_true(many <= few * 12);
}

static void layers_reuse_the_arena(void **state) {
    (void)state;
    plan *one = plan_of_llama(2), *many = plan_of_llama(12);
    assert_int_equal(one->arena_size, many->arena_size);
    assert_true(many->n_values > one->n_values);
    assert_true(many->arena_size * 10 <= lower_bound(many) * 12);
    plan_free(one);
    plan_free(many);
}

static void unbounded_values_lie_outside(void **state) {
    rp_error err = {0};
    base_buf text;
    plan *p = bare_plan(1, 1);
    (void)state;
    p->symbols[0].max = INT64_MAX;
    p->values[0].bytes = (plan_size){2, {IR_DIM_CODE_SYMBOL, IR_DIM_CODE_MUL_CONST}, {0, 4}};
    CHECK_OK(plan_seal(p, &err), &err);
    assert_int_equal(p->values[0].offset, PLAN_GROWS);
    assert_int_equal(p->arena_size, 0);
    CHECK_OK(plan_verify(p, &err), &err);
    base_buf_init(&text, 0);
    plan_print_schedule(p, true, &text);
    assert_non_null(strstr(text.data, "%0 of its own = "));
    base_buf_done(&text);
    p->symbols[0].max = 1000;
    assert_int_equal(plan_verify(p, &err), RP_CORRUPT);
    plan_free(p);
}

/* Two equal pieces: launches and values of the second are told where all is asked for. */
static void the_schedule_is_told_whole(void **state) {
    static const char *const equal = "submod_1, graph 1, same as submod_0, launches 2..3\n";
    static const char *const own[] = {"  2 k() items 1, beside the next\n  3 k() items 1\n",
                                      "  %2 [0, 128) = 128 bytes, launches 2..3, reuses %1\n"};
    rp_error err = {0};
    plan *p = bare_plan(4, 4);
    (void)state;
    p->pieces = base_arena_array(p->arena, 2, sizeof *p->pieces);
    p->n_pieces = p->n_compiled = 2;
    p->pieces[0] = (plan_piece){.n = 2};
    p->pieces[1] = (plan_piece){.first = 2, .n = 2, .submod = 1, .graph_index = 1};
    for (uint32_t i = 0; i < 4; i++) {
        p->launches[i].items = p->launches[i].rows;
        p->values[i].bytes = (plan_size){1, {IR_DIM_CODE_CONST}, {i == 3 ? 0 : 128}};
        p->values[i].first = i;
        p->values[i].last = i < 3 ? i + (i == 2) : i;
    }
    p->launches[0].grain = 7;
    p->launches[1].threads = 64;
    p->launches[1].per_block = 2;
    CHECK_OK(plan_seal(p, &err), &err);
    for (int all = 0; all < 2; all++) {
        base_buf text;
        char want[1024];
        base_buf_init(&text, 0);
        plan_print_schedule(p, all, &text);
        (void)snprintf(want, sizeof want, "%s%s%s%s%s",
                       "schedule of bare: 2 pieces, 4 launches\n"
                       "submod_0, graph 0, launches 0..1\n"
                       "  0 k() items 1 grain 7, beside the next\n"
                       "  1 k() items 1, 2 a block of 64 threads, beside the next\n",
                       equal, all ? own[0] : "",
                       "arena of bare: 128 bytes at the largest sizes\n"
                       "  %0 [0, 128) = 128 bytes, launches 0..0\n"
                       "  %1 [0, 128) = 128 bytes, launches 1..1, reuses %0\n",
                       all ? own[1] : "");
        assert_string_equal(text.data, want);
        base_buf_done(&text);
    }
    plan_free(p);
}

/* A guard that a size fits 32 bits says nothing about memory. */
static void what_fits_32_bits_has_no_bound(void **state) {
    static const int64_t most[] = {INT32_MAX, INT64_C(1) << 31, INT32_MAX - 1};
    (void)state;
    for (int i = 0; i < 3; i++) {
        rp_error err = {0};
        plan *p = bare_plan(1, 1);
        p->symbols[0].max = most[i];
        p->values[0].bytes = (plan_size){2, {IR_DIM_CODE_SYMBOL, IR_DIM_CODE_MUL_CONST}, {0, 4}};
        CHECK_OK(plan_seal(p, &err), &err);
        assert_int_equal(p->values[0].offset, i < 2 ? PLAN_GROWS : 0);
        CHECK_OK(plan_verify(p, &err), &err);
        plan_free(p);
    }
    int64_t bytes = 0; /* one that is nothing else is a bound */
    plan *p = bare_plan(1, 1);
    p->symbols[0].min = p->symbols[0].max = INT32_MAX;
    p->values[0].bytes = (plan_size){1, {IR_DIM_CODE_SYMBOL}, {0}};
    assert_true(plan_value_bytes(p, &p->values[0], &bytes));
    assert_int_equal(bytes, INT64_C(1) << 31);
    p->symbols[0].min--;
    assert_false(plan_value_bytes(p, &p->values[0], &bytes));
    plan_free(p);
}

/* One is read in the launch that writes the other: they live together, and a launch later no more. */
static void values_that_meet_in_a_launch_are_apart(void **state) {
    (void)state;
    for (uint32_t first = 1; first < 3; first++) {
        rp_error err = {0};
        plan *p = bare_plan(3, 2);
        for (uint32_t i = 0; i < 2; i++) {
            p->values[i].bytes = (plan_size){1, {IR_DIM_CODE_CONST}, {64}};
            p->values[i].first = i ? first : 0;
            p->values[i].last = i ? 2 : 1;
        }
        CHECK_OK(plan_seal(p, &err), &err);
        assert_int_equal(p->arena_size, first == 1 ? 128 : 64);
        p->values[0].offset = p->values[1].offset = 0;
        p->arena_size = 64;
        assert_int_equal(plan_verify(p, &err), first == 1 ? RP_CORRUPT : RP_OK);
        if (first == 1) assert_non_null(strstr(err.text, "share memory while both live"));
        plan_free(p);
    }
}

static void packs_of_nothing_are_refused(void **state) {
    rp_error err = {0};
    plan_section s = {.n_params = 1, .rows = 16};
    plan_pack k = {.dtype = RP_DTYPE_Q4_1, .k = 64, .sections = &s, .n_sections = 1};
    plan p = {.name = "p", .packs = &k, .n_packs = 1};
    (void)state;
    CHECK_OK(plan_layout_packs(&p, &err), &err);
    assert_true(k.size > 0 && p.weights_size >= k.size);
    s.rows = 0;
    assert_int_equal(plan_layout_packs(&p, &err), RP_UNSUPPORTED);
    assert_non_null(strstr(err.text, "of 64 columns cannot be packed"));
}

/* --- what verify refuses ------------------------------------------------------ */

typedef struct damage {
    const char *message;
    void (*apply)(plan *p);
} damage;

static void share_memory(plan *p) {
    /* Two values that live together and are apart get one place. */
    for (uint32_t i = 0; i < p->n_values; i++)
        for (uint32_t j = 0; j < i; j++) {
            plan_value *a = &p->values[i], *b = &p->values[j];
            if (a->first > b->last || b->first > a->last || !bytes_of(p, i) || !bytes_of(p, j))
                continue;
            int64_t low = a->offset < b->offset ? a->offset : b->offset;
            a->offset = b->offset = low;
            return;
        }
}

static void leave_the_arena(plan *p) {
    p->values[0].offset = p->arena_size;
}
static void go_negative(plan *p) {
    p->values[0].offset = -64;
}
static void lie_askew(plan *p) {
    p->values[0].offset += 4;
}
static void live_too_short(plan *p) {
    for (uint32_t i = 0; i < p->n_values; i++)
        if (p->values[i].last > p->values[i].first) {
            p->values[i].last--;
            return;
        }
}
static void name_no_input(plan *p) {
    p->launches[2].args[1] = (plan_arg){.seg = PLAN_INPUT, .idx = p->n_inputs};
}
static void name_no_segment(plan *p) {
    p->launches[1].args[0] = (plan_arg){.seg = PLAN_SEG_COUNT_, .idx = 0};
}
static void name_no_function(plan *p) {
    p->launches[1].alts[0].function = p->n_functions;
}
static void name_no_module(plan *p) {
    p->functions[0].module = 77;
}
static void name_no_symbol(plan *p) {
    p->launches[0].items = (plan_size){1, {IR_DIM_CODE_SYMBOL}, {p->n_symbols}};
}
static void map_no_symbol(plan *p) {
    p->dim_maps[0].map[0] = p->n_symbols;
}
static void no_variant(plan *p) {
    p->launches[0].n_alts = 0;
}
static void no_grain(plan *p) {
    p->launches[0].grain = 0;
}
static void skip_launches(plan *p) {
    p->pieces[1].first++;
}
static void lose_a_piece(plan *p) {
    p->n_pieces--;
}
static void miscount(plan *p) {
    p->n_distinct++;
}
static void larger_arena(plan *p) {
    p->arena_size += 64;
}
static void pack_another_matrix(plan *p) {
    p->packs[0].sections[0].rows += 16;
}
static void pack_no_param(plan *p) {
    p->packs[0].sections[0].params[0] = p->n_params;
}
static void move_a_pack(plan *p) {
    p->packs[1].offset += 64;
}
static void more_weights(plan *p) {
    p->weights_size += 64;
}
static void endless_value(plan *p) {
    p->values[0].bytes = (plan_size){1, {IR_DIM_CODE_CONST}, {INT64_MAX}};
}
static void empty_range(plan *p) {
    p->symbols[0].min = p->symbols[0].max + 1;
}

static void write_weights(plan *p) {
    for (uint32_t i = 0; i < p->n_launches; i++)
        for (uint32_t k = 0; k < p->launches[i].n_args; k++)
            if (p->launches[i].args[k].seg == PLAN_PACK)
                p->launches[i].args[k].access |= BASE_WRITES;
}
/* The launch that makes the first value says no longer that it writes it. */
static void make_nothing(plan *p) {
    for (uint32_t k = 0; k < p->launches[0].n_args; k++)
        if (p->launches[0].args[k].seg == PLAN_ARENA) p->launches[0].args[k].access = BASE_READS;
}
static void touch_otherwise(plan *p) {
    p->launches[0].args[0].access = 4;
}

static void verify_names_what_is_wrong(void **state) {
    static const damage damages[] = {
        {"share memory while both live", share_memory},
        {"lies outside the arena", leave_the_arena},
        {"lies outside the arena", go_negative},
        {"lies outside the arena", lie_askew},
        {"outside its life", live_too_short},
        {"launch 2, argument 1 is out of range", name_no_input},
        {"launch 1, argument 0 is out of range", name_no_segment},
        {"has no function", name_no_function},
        {"has no module", name_no_module},
        {"launch 0 is malformed", name_no_symbol},
        {"symbol map 0 is out of range", map_no_symbol},
        {"launch 0 is malformed", no_variant},
        {"launch 0 is malformed", no_grain},
        {"piece 1 has launches out of order", skip_launches},
        {"do not add up", lose_a_piece},
        {"do not add up", miscount},
        {"larger than its values", larger_arena},
        {"packed weights 0 are malformed", pack_another_matrix},
        {"packed weights 0 are malformed", pack_no_param},
        {"packed weights 1 are malformed", move_a_pack},
        {"its weights are not", more_weights},
        {"value 0 has no bounded size", endless_value},
        {"symbol 0 is malformed", empty_range},
        {"which nothing may write", write_weights},
        {"which nothing has written", make_nothing},
        {"is used in no known way", touch_otherwise},
    };
    (void)state;
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        rp_error err = {0};
        plan *p = plan_of_llama(2);
        CHECK_OK(plan_verify(p, &err), &err);
        damages[i].apply(p);
        rp_status st = plan_verify(p, &err);
        if (st != RP_CORRUPT || !strstr(err.text, damages[i].message))
            fail_msg("damage %zu: %s '%s', not '%s'", i, rp_status_name(st), err.text,
                     damages[i].message);
        plan_free(p);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_lives_together_never_overlaps),
        cmocka_unit_test(each_is_as_low_as_it_fits),
        cmocka_unit_test(work_grows_with_the_values),
        cmocka_unit_test(work_grows_with_the_kernels),
        cmocka_unit_test(layers_reuse_the_arena),
        cmocka_unit_test(unbounded_values_lie_outside),
        cmocka_unit_test(values_that_meet_in_a_launch_are_apart),
        cmocka_unit_test(the_schedule_is_told_whole),
        cmocka_unit_test(what_fits_32_bits_has_no_bound),
        cmocka_unit_test(packs_of_nothing_are_refused),
        cmocka_unit_test(verify_names_what_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
