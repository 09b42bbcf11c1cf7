/* Plans as bytes: what is saved comes back, and no other bytes do harm. */
#include "support/check.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "support/plans.h"

typedef struct bytes {
    char *data;
    size_t n;
} bytes;

static bytes save(const plan *p) {
    rp_error err = {0};
    bytes b = {0};
    CHECK_OK(plan_save(p, &b.data, &b.n, &err), &err);
    return b;
}

static char *text_of(const plan *p) {
    base_buf b;
    base_buf_init(&b, 0);
    plan_print(p, &b);
    assert_false(b.failed);
    return base_buf_take(&b);
}

static ir_graph *custom_graph(void) {
    static const char text[] = "graph @c(%x: f32[T,8]) -> f32[T,8] where T in [1,64] {\n"
                               "  %0 = neg %x : f32[T,8]\n"
                               "  %1 = custom %0 {name=\"plan_file::twice\"} : f32[T,8]\n"
                               "  %2 = neg %1 : f32[T,8]\n"
                               "  ret %2\n}\n";
    rp_error err = {0};
    ir_graph *g = NULL;
    CHECK_OK(ir_parse(text, sizeof text - 1, &g, &err), &err);
    return g;
}

static rp_status twice(const rp_op_call *call, rp_buffer *args, uint32_t n, rp_error *err) {
    (void)call, (void)args, (void)n, (void)err;
    return RP_OK;
}

static plan *plan_with_custom(void) {
    ir_graph *g = custom_graph();
    plan *p = plan_of(g);
    ir_graph_free(g);
    return p;
}

/* Each kind of plans within a plan, and one within one of these. */
static plan *plan_with_control(void) {
    static const char text[] =
        "graph @g(%b: bool[], %x: f32[2], %s: f32[T,2]) where T in [1,64] {\n"
        "  %h = scan %x, %s, %x {carried=1, sliced=1,\n"
        "    body=graph @step(%h: f32[2], %r: f32[2], %k: f32[2]) {\n"
        "      %c = call %r {body=graph @twice(%v: f32[2]) { %w = add %v, %v ret %w }}\n"
        "      %a = add %h, %c %m = mul %a, %k ret %m, %a }}\n"
        "  %w = while %b, %h {limit=70000,\n"
        "    cond=graph @always(%t: bool[], %y: f32[2]) { ret %t },\n"
        "    body=graph @double(%t: bool[], %y: f32[2]) { %z = add %y, %y ret %t, %z }}\n"
        "  %v = result %w {index=1}\n"
        "  %o = cond %b, %v, %x {\n"
        "    then=graph @sum(%p: f32[2], %q: f32[2]) { %r = add %p, %q ret %r },\n"
        "    else=graph @difference(%p: f32[2], %q: f32[2]) { %r = sub %p, %q ret %r }}\n"
        "  ret %o\n}\n";
    rp_error err = {0};
    ir_graph *g = NULL;
    CHECK_OK(ir_parse(text, sizeof text - 1, &g, &err), &err);
    plan *p = plan_of(g);
    ir_graph_free(g);
    return p;
}

static void check_round_trip(plan *p) {
    rp_error err = {0};
    plan *q = NULL;
    bytes a = save(p);
    CHECK_OK(plan_load(a.data, a.n, &q, &err), &err);
    bytes b = save(q);
    assert_int_equal(a.n, b.n);
    assert_memory_equal(a.data, b.data, a.n);
    char *s = text_of(p), *t = text_of(q);
    assert_string_equal(s, t);
    base_free(s);
    base_free(t);
    base_free(a.data);
    base_free(b.data);
    plan_free(q);
    plan_free(p);
}

static void saved_plans_come_back(void **state) {
    (void)state;
    check_round_trip(plan_of_llama(1));
    check_round_trip(plan_of_llama(5));
    check_round_trip(plan_with_custom());
    check_round_trip(plan_with_control());
    check_round_trip(plan_new("empty"));
}

/* --- field by field: what neither direction knows of would be equal bytes, too --- */

#define SAME(f)                                                  \
    do {                                                         \
        if (a->f != b->f) fail_msg("%s does not come back", #f); \
    } while (0)

static void same_sizes(const plan_size *a, const plan_size *b) {
    SAME(n);
    for (uint32_t i = 0; i < a->n; i++) {
        SAME(op[i]);
        if (ir_dim_code_reads_k((ir_dim_code_op)a->op[i])) SAME(k[i]);
    }
}

static void same_leaves(const plan_leaf *a, const plan_leaf *b, uint32_t n) {
    for (; n > 0; n--, a++, b++) {
        assert_string_equal(a->name, b->name);
        SAME(dtype);
        SAME(rank);
        for (uint32_t d = 0; d < a->rank; d++) same_sizes(&a->dim[d], &b->dim[d]);
        same_sizes(&a->bytes, &b->bytes);
    }
}

static void same_packs(const plan_pack *a, const plan_pack *b) {
    SAME(dtype);
    SAME(k);
    SAME(swizzled);
    SAME(n_sections);
    SAME(offset);
    SAME(size);
    for (uint32_t i = 0; i < a->n_sections; i++) {
        SAME(sections[i].rows);
        SAME(sections[i].by_k);
        SAME(sections[i].n_params);
        for (uint32_t k = 0; k < a->sections[i].n_params; k++) SAME(sections[i].params[k]);
    }
}

static void same_control(const plan_control *a, const plan_control *b) {
    SAME(kind);
    SAME(inner[0]);
    SAME(inner[1]);
    SAME(n_operands);
    SAME(n_results);
    SAME(carried);
    SAME(sliced);
    SAME(limit);
    same_sizes(&a->length, &b->length);
}

static void same_launches(const plan_launch *a, const plan_launch *b) {
    assert_string_equal(a->name, b->name);
    SAME(n_alts);
    for (uint32_t i = 0; i < a->n_alts; i++) {
        SAME(alts[i].max);
        SAME(alts[i].function);
        SAME(alts[i].scratch);
        SAME(alts[i].threads);
        SAME(alts[i].per_sm);
        SAME(alts[i].per_block);
        SAME(alts[i].blocks);
    }
    same_sizes(&a->rows, &b->rows);
    same_sizes(&a->items, &b->items);
    SAME(grain);
    SAME(threads);
    SAME(per_block);
    SAME(dim_map);
    SAME(attention);
    SAME(n_args);
    for (uint32_t i = 0; i < a->n_args; i++) {
        SAME(args[i].seg);
        SAME(args[i].idx);
    }
    assert_int_equal(a->custom != NULL, b->custom != NULL);
    if (a->custom) assert_string_equal(a->custom, b->custom);
    if (a->custom) assert_string_equal(a->attrs, b->attrs);
    if (a->custom) same_leaves(a->operands, b->operands, a->n_args);
    assert_int_equal(a->control != NULL, b->control != NULL);
    if (a->control) same_control(a->control, b->control);
}

static void same_code(const plan *a, const plan *b) {
    SAME(n_modules);
    for (uint32_t i = 0; i < a->n_modules; i++) {
        SAME(modules[i].key.lo);
        SAME(modules[i].key.hi);
        SAME(modules[i].isa_bits);
    }
    SAME(n_functions);
    for (uint32_t i = 0; i < a->n_functions; i++) {
        SAME(functions[i].module);
        assert_string_equal(a->functions[i].symbol, b->functions[i].symbol);
    }
    SAME(n_consts);
    for (uint32_t i = 0; i < a->n_consts; i++) {
        SAME(consts[i].size);
        assert_memory_equal(a->consts[i].data, b->consts[i].data, a->consts[i].size);
    }
    SAME(n_dim_maps);
    for (uint32_t i = 0; i < a->n_dim_maps; i++) {
        SAME(dim_maps[i].n);
        for (uint32_t k = 0; k < a->dim_maps[i].n; k++) SAME(dim_maps[i].map[k]);
    }
}

static void same_plans(const plan *a, const plan *b) {
    assert_string_equal(a->name, b->name);
    SAME(n_symbols);
    for (uint32_t i = 0; i < a->n_symbols; i++) {
        assert_string_equal(a->symbols[i].name, b->symbols[i].name);
        SAME(symbols[i].min);
        SAME(symbols[i].max);
    }
    SAME(n_inputs);
    SAME(n_outputs);
    SAME(n_params);
    SAME(n_states);
    same_leaves(a->inputs, b->inputs, a->n_inputs);
    same_leaves(a->outputs, b->outputs, a->n_outputs);
    same_leaves(a->params, b->params, a->n_params);
    same_leaves(a->states, b->states, a->n_states);
    SAME(n_values);
    for (uint32_t i = 0; i < a->n_values; i++) {
        same_sizes(&a->values[i].bytes, &b->values[i].bytes);
        SAME(values[i].first);
        SAME(values[i].last);
        SAME(values[i].offset);
    }
    SAME(n_packs);
    for (uint32_t i = 0; i < a->n_packs; i++) same_packs(&a->packs[i], &b->packs[i]);
    same_code(a, b);
    SAME(n_launches);
    for (uint32_t i = 0; i < a->n_launches; i++) same_launches(&a->launches[i], &b->launches[i]);
    SAME(n_pieces);
    SAME(n_compiled);
    SAME(n_distinct);
    for (uint32_t i = 0; i < a->n_pieces; i++) {
        SAME(pieces[i].submod);
        SAME(pieces[i].graph_index);
        SAME(pieces[i].distinct);
        SAME(pieces[i].splitting);
        SAME(pieces[i].first);
        SAME(pieces[i].n);
    }
    SAME(arena_size);
    SAME(weights_size);
    SAME(n_inner);
    for (uint32_t i = 0; i < a->n_inner; i++) same_plans(a->inner[i], b->inner[i]);
}

/* What only plans of a GPU have is made up: numbers of more than one byte, as large as they may be. */
static void every_field_comes_back(void **state) {
    (void)state;
    for (int which = 0; which < 3; which++) {
        plan *p = which == 0   ? plan_of_llama(2)
                  : which == 1 ? plan_with_custom()
                               : plan_with_control();
        plan *q = NULL;
        rp_error err = {0};
        for (uint32_t i = 0; i < p->n_launches; i++) {
            plan_launch *l = &p->launches[i];
            if (!plan_launch_is_plain(l)) continue;
            l->threads = 0x0102 + i;
            l->per_block = 0x05060708 + i;
            l->attention = i % 2;
            for (uint32_t k = 0; k < l->n_alts; k++) {
                l->alts[k].scratch = 0x01020304 + i;
                l->alts[k].threads = 0x0304 + k;
                l->alts[k].per_sm = 0x0d0e0f10 + k;
                l->alts[k].per_block = 0x15161718 + k;
                l->alts[k].blocks = 0x191a1b1c + k;
            }
        }
        if (p->n_symbols) { /* a size of as many operations as there may be */
            plan_size *longest = &p->launches[0].items;
            *longest = (plan_size){.n = IR_DIM_CODE_MAX, .op = {IR_DIM_CODE_SYMBOL}};
            for (uint32_t k = 1; k < IR_DIM_CODE_MAX; k++) {
                longest->op[k] = IR_DIM_CODE_ADD_CONST;
                longest->k[k] = k;
            }
        }
        for (uint32_t i = 0; i < p->n_packs; i++) p->packs[i].swizzled = i % 2 == 0;
        for (uint32_t i = 0; i < p->n_modules; i++) p->modules[i].isa_bits = 0x11121314 + i;
        bytes a = save(p);
        CHECK_OK(plan_load(a.data, a.n, &q, &err), &err);
        same_plans(p, q);
        base_free(a.data);
        plan_free(q);
        plan_free(p);
    }
}

/* What device code has of its own is in the text. */
static void blocks_are_printed(void **state) {
    plan *p = plan_of_llama(1);
    plan_launch *l = &p->launches[0];
    (void)state;
    l->threads = 96;
    l->per_block = 4;
    l->n_alts = 2;
    l->alts[1] = l->alts[0];
    l->alts[0].max = 8;
    l->alts[1].threads = 288;
    l->alts[1].per_sm = 3;
    p->packs[0].swizzled = true;
    char *text = text_of(p);
    if (!strstr(text, ", 4 a block of 96 threads by rows: <= 8 ") ||
        !strstr(text, ", 288 threads, 3 blocks a multiprocessor\n") ||
        !strstr(text, ", swizzled: "))
        fail_msg("%s", text);
    base_free(text);
    plan_free(p);
}

/* Law 9 in small: built twice, with other memory around, the bytes are the same. */
static void equal_plans_are_equal_bytes(void **state) {
    (void)state;
    plan *p = plan_of_llama(3);
    void *gap = base_alloc(12345);
    memset(gap, 0xa5, 12345);
    base_free(gap);
    plan *q = plan_of_llama(3);
    bytes a = save(p), b = save(q);
    assert_int_equal(a.n, b.n);
    assert_memory_equal(a.data, b.data, a.n);
    base_free(a.data);
    base_free(b.data);
    plan_free(p);
    plan_free(q);
}

/* RP_CORRUPT, or a plan that verifies and saves to the same bytes. */
static bool check_bytes(const char *data, size_t n) {
    rp_error err = {0};
    plan *q = NULL;
    rp_status st = plan_load(data, n, &q, &err);
    if (st != RP_OK) {
        if (st != RP_CORRUPT) fail_msg("%s: %s", rp_status_name(st), err.text);
        assert_true(err.text[0] && !strchr(err.text, '\n'));
        return false;
    }
    CHECK_OK(plan_verify(q, &err), &err);
    bytes b = save(q);
    assert_int_equal(b.n, n);
    assert_memory_equal(b.data, data, n);
    base_free(b.data);
    plan_free(q);
    return true;
}

static void every_cut_is_corrupt(void **state) {
    plan *p = plan_of_llama(2);
    bytes a = save(p);
    (void)state;
    for (size_t n = 0; n < a.n; n++) assert_false(check_bytes(a.data, n));
    char *longer = base_alloc(a.n + 1);
    memcpy(longer, a.data, a.n);
    assert_false(check_bytes(longer, a.n + 1));
    base_free(longer);
    base_free(a.data);
    plan_free(p);
}

/* What is said of a file that is none: the first thing that is wrong with it. */
static void damage_has_its_reason(void **state) {
    /* magic of 8, the name's length of 4 and the name itself, then the count of symbols */
    enum { NAME = 8 + 4, AFTER_NAME = NAME + 5 };
    static const struct {
        size_t at;
        const char *bytes;
        size_t n;
        const char *why;
    } cases[] = {
        {6, "\377", 1, "it is not a plan of this version"},
        {8, "\377\377\377\177", 4, "a text is malformed"},
        {NAME + 1, "", 1, "a text is malformed"},
        {AFTER_NAME, "\377\377\377\177", 4, "a count is larger than the plan"},
    };
    char want[80];
    plan *p = plan_of_llama(1), *q = NULL;
    rp_error err = {0};
    (void)state;
    assert_int_equal(strlen(p->name), AFTER_NAME - NAME);
    bytes a = save(p);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *bad = base_alloc(a.n);
        memcpy(bad, a.data, a.n);
        memcpy(bad + cases[i].at, cases[i].bytes, cases[i].n);
        err = (rp_error){0};
        assert_int_equal(plan_load(bad, a.n, &q, &err), RP_CORRUPT);
        (void)snprintf(want, sizeof want, "stored plan of %zu bytes: %s", a.n, cases[i].why);
        assert_string_equal(err.text, want);
        base_free(bad);
    }
    for (int longer = 0; longer < 2; longer++) {
        char *bad = base_alloc(a.n + 1);
        size_t n = longer ? a.n + 1 : a.n - 1;
        memcpy(bad, a.data, a.n);
        bad[a.n] = 0;
        err = (rp_error){0};
        assert_int_equal(plan_load(bad, n, &q, &err), RP_CORRUPT);
        (void)snprintf(want, sizeof want, "stored plan of %zu bytes: %s", n,
                       longer ? "bytes follow its end" : "it ends too early");
        assert_string_equal(err.text, want);
        base_free(bad);
    }
    base_free(a.data);
    plan_free(p);
}

static void check_flips(plan *p) {
    bytes a = save(p);
    size_t n_loaded = 0;
    for (size_t i = 0; i < a.n; i++)
        for (int bit = 0; bit < 9; bit++) {
            char was = a.data[i];
            a.data[i] = bit < 8 ? (char)(was ^ 1 << bit) : (char)~was;
            n_loaded += check_bytes(a.data, a.n);
            a.data[i] = was;
        }
    print_message("%zu bytes: %zu of %zu flips gave a plan\n", a.n, n_loaded, 9 * a.n);
    base_free(a.data);
    plan_free(p);
}

static void every_flip_is_harmless(void **state) {
    (void)state;
    check_flips(plan_of_llama(1));
    check_flips(plan_with_custom());
}

/* Counts of 4 GiB at every place of the file must not become allocations: loading takes a bounded multiple of the input. */
/* Each use of each value, before and after its life. */
static void uses_outside_of_a_life_are_refused(void **state) {
    uint32_t tried = 0;
    (void)state;
    plan *p = plan_with_custom();
    for (uint32_t i = 0; i < p->n_launches; i++)
        for (uint32_t a = 0; a < p->launches[i].n_args; a++) {
            const plan_arg *arg = &p->launches[i].args[a];
            if (arg->seg != PLAN_ARENA) continue;
            plan_value *v = &p->values[arg->idx], good = *v;
            for (int late = 0; late < 2; late++) {
                rp_error err = {0};
                if (late ? i == 0 || v->first == i : i + 1 == p->n_launches || v->last == i)
                    continue;
                if (late)
                    v->last = i - 1;
                else
                    v->first = i + 1;
                assert_int_equal(plan_verify(p, &err), RP_CORRUPT);
                assert_non_null(strstr(err.text, "outside its life"));
                *v = good;
                tried++;
            }
        }
    assert_true(tried >= 2);
    plan_free(p);
}

static void memory_is_proportional_to_the_input(void **state) {
    plan *p = plan_of_llama(1);
    bytes a = save(p);
    size_t most = 0;
    (void)state;
    for (size_t i = 8; i + 4 <= a.n; i++) {
        char was[4];
        rp_error err = {0};
        plan *q = NULL;
        memcpy(was, a.data + i, 4);
        memcpy(a.data + i, "\x00\x00\x01\x00", 4);
        if (plan_load(a.data, a.n, &q, &err) == RP_OK) {
            if (base_arena_used(q->arena) > most) most = base_arena_used(q->arena);
            plan_free(q);
        }
        memcpy(a.data + i, was, 4);
    }
    assert_true(most < 40 * a.n);
    base_free(a.data);
    plan_free(p);
}

static void failed_allocations_leave_nothing(void **state) {
    plan *p = plan_of_llama(1);
    bytes a = save(p);
    size_t live = base_live();
    (void)state;
    FOR_EACH_ALLOC_FAILURE (n) {
        rp_error err = {0};
        plan *q = NULL;
        rp_status st = plan_load(a.data, a.n, &q, &err);
        if (st == RP_OK)
            plan_free(q);
        else
            assert_int_equal(st, RP_NOMEM);
        assert_int_equal(base_live(), live);
    }
    FOR_EACH_ALLOC_FAILURE (n) {
        rp_error err = {0};
        bytes b = {0};
        rp_status st = plan_save(p, &b.data, &b.n, &err);
        if (st != RP_OK) assert_int_equal(st, RP_NOMEM);
        base_free(b.data);
        assert_int_equal(base_live(), live);
    }
    base_free(a.data);
    plan_free(p);
}

static void text_tells_the_whole_plan(void **state) {
    plan *p = plan_of_llama(2);
    char *s = text_of(p);
    (void)state;
    assert_non_null(strstr(s, "plan small: 5 pieces, 3 compiled, 3 distinct,"));
    assert_non_null(strstr(s, "symbol T in [1,64]\n"));
    assert_non_null(strstr(s, "l0.q [64] | l0.k [32] | l0.v [32]\n"));
    assert_non_null(strstr(s, "l0.gate l0.up [96]\n"));
    assert_non_null(strstr(s, "submod_3, splitting, same as submod_1:\n"));
    for (uint32_t i = 0; i < p->n_launches; i++) assert_non_null(strstr(s, p->launches[i].name));
    base_free(s);
    plan_free(p);
}

/* Loops one behind the other, each with a loop inside, are no deeper than one of them. */
static void plans_side_by_side_are_not_deep(void **state) {
    rp_error err = {0};
    ir_graph *g = NULL;
    plan *q = NULL;
    base_buf b;
    (void)state;
    base_buf_init(&b, 0);
    base_buf_puts(&b, "graph @g(%n: i32[]) -> i32[] {\n  %w0 = neg %n\n");
    for (int i = 1; i <= PLAN_MAX_DEPTH + 4; i++)
        base_buf_printf(
            &b,
            "  %%w%d = while %%w%d {limit=3,\n"
            "    cond=graph @c(%%n: i32[]) { %%z = const %d : i32[] %%m = lt %%n, %%z ret %%m },\n"
            "    body=graph @b(%%n: i32[]) { %%v = while %%n {limit=3,\n"
            "      cond=graph @d(%%n: i32[]) { %%z = const %d : i32[] %%m = lt %%n, %%z ret %%m "
            "},\n"
            "      body=graph @e(%%n: i32[]) { %%l = add %%n, %%n ret %%l }} ret %%v }}\n",
            i, i - 1, i, i);
    base_buf_printf(&b, "  ret %%w%d\n}\n", PLAN_MAX_DEPTH + 4);
    CHECK_OK(ir_parse(b.data, b.len, &g, &err), &err);
    plan *p = plan_of(g);
    assert_true(p->n_inner > PLAN_MAX_DEPTH);
    bytes a = save(p);
    CHECK_OK(plan_load(a.data, a.n, &q, &err), &err);
    assert_int_equal(q->n_inner, p->n_inner);
    base_free(a.data);
    base_buf_done(&b);
    plan_free(p);
    plan_free(q);
    ir_graph_free(g);
}

/* As deep as graphs may be: parsed, compiled, stored and read; one more is not parsed. */
static void the_deepest_plan_comes_back(void **state) {
    (void)state;
    for (uint32_t depth = IR_MAX_DEPTH - 1; depth <= IR_MAX_DEPTH + 1; depth++) {
        rp_error err = {0};
        ir_graph *g = NULL;
        base_buf b;
        base_buf_init(&b, 0);
        for (uint32_t i = 1; i < depth; i++)
            base_buf_printf(&b, "graph @g%u(%%x: f32[2]) -> f32[2] { %%y = call %%x {body=", i);
        base_buf_puts(&b, "graph @leaf(%x: f32[2]) -> f32[2] { %y = neg %x ret %y }");
        for (uint32_t i = 1; i < depth; i++) base_buf_puts(&b, "} ret %y }");
        rp_status st = ir_parse(b.data, b.len, &g, &err);
        base_buf_done(&b);
        if (depth > IR_MAX_DEPTH) {
            assert_int_equal(st, RP_INVALID);
            assert_non_null(strstr(err.text, "graphs are nested 16 deep at most"));
            continue;
        }
        CHECK_OK(st, &err);
        assert_int_equal(ir_graph_depth(g), depth);
        check_round_trip(plan_of(g));
        ir_graph_free(g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_side_by_side_are_not_deep),
        cmocka_unit_test(the_deepest_plan_comes_back),
        cmocka_unit_test(saved_plans_come_back),
        cmocka_unit_test(every_field_comes_back),
        cmocka_unit_test(blocks_are_printed),
        cmocka_unit_test(equal_plans_are_equal_bytes),
        cmocka_unit_test(every_cut_is_corrupt),
        cmocka_unit_test(damage_has_its_reason),
        cmocka_unit_test(every_flip_is_harmless),
        cmocka_unit_test(uses_outside_of_a_life_are_refused),
        cmocka_unit_test(memory_is_proportional_to_the_input),
        cmocka_unit_test(failed_allocations_leave_nothing),
        cmocka_unit_test(text_tells_the_whole_plan),
    };
    rp_op_desc desc = {.size = sizeof desc, .name = "plan_file::twice", .cpu = twice};
    rp_error err = {0};
    if (rp_op_register(&desc, &err) != RP_OK) return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
