/* Binding: addresses, variants and sizes of launches; custom ops; packed weights. */
#include "support/check.h"

#include "base/alloc.h"
#include "engine/args.h"
#include "gen/pack.h"
#include "plan/control.h"
#include "plan/pack.h"
#include "support/plans.h"
#include "support/trees.h"

static void kernel_small(void *const *arg, const long long *dim, long long begin, long long end,
                         void *scratch) {
    (void)arg, (void)dim, (void)begin, (void)end, (void)scratch;
}

static void kernel_large(void *const *arg, const long long *dim, long long begin, long long end,
                         void *scratch) {
    (void)arg, (void)dim, (void)begin, (void)end, (void)scratch;
}

static hal_host_fn find(const char *name) {
    return strcmp(name, "@small") == 0   ? kernel_small
           : strcmp(name, "@large") == 0 ? kernel_large
                                         : NULL;
}

static plan_leaf leaf_of(const char *name) {
    return (plan_leaf){.name = name,
                       .rank = 2,
                       .dim = {{1, {IR_DIM_CODE_SYMBOL}, {1}}, {1, {IR_DIM_CODE_CONST}, {8}}}};
}

/* Symbols S, T; in -> value -> out in one piece, then a custom op on the value in a second. */
static plan *small_plan(void) {
    static plan_symbol symbols[2];
    static plan_function functions[] = {{PLAN_BUILTIN, "@small"}, {PLAN_BUILTIN, "@large"}};
    static uint32_t map[] = {1, 0};
    static plan_dim_map maps[] = {{map, 2}};
    static plan_leaf in, out, operands[2];
    static plan_value values[2];
    static plan_arg args[3][2] = {{{PLAN_INPUT, 0, BASE_READS}, {PLAN_ARENA, 0, BASE_WRITES}},
                                  {{PLAN_ARENA, 0, BASE_READS}, {PLAN_ARENA, 1, BASE_WRITES}},
                                  {{PLAN_ARENA, 0, BASE_READS}, {PLAN_OUTPUT, 0, BASE_WRITES}}};
    static plan_launch launches[3];
    static plan_piece pieces[] = {{0, 0, 0, false, 0, 2}, {1, UINT32_MAX, 1, true, 2, 1}};
    const plan_size t8 = {2, {IR_DIM_CODE_SYMBOL, IR_DIM_CODE_MUL_CONST}, {1, 8}},
                    t32 = {2, {IR_DIM_CODE_SYMBOL, IR_DIM_CODE_MUL_CONST}, {1, 32}};
    rp_error err = {0};
    plan *p = plan_new("small");
    symbols[0] = (plan_symbol){"S", 1, 4};
    symbols[1] = (plan_symbol){"T", 1, 64};
    in = leaf_of("x");
    out = leaf_of("y");
    operands[0] = leaf_of("a");
    operands[1] = leaf_of("b");
    values[0] = (plan_value){.bytes = t32, .first = 0, .last = 2};
    values[1] = (plan_value){.first = 1, .last = 1}; /* a token: no bytes */
    for (int i = 0; i < 3; i++)
        launches[i] = (plan_launch){.name = "k",
                                    .alts = {{.max = 8, .function = 0, .scratch = 64},
                                             {.max = INT64_MAX, .function = 1, .scratch = 256}},
                                    .n_alts = 2,
                                    .rows = {1, {IR_DIM_CODE_SYMBOL}, {1}},
                                    .items = t8,
                                    .grain = 4,
                                    .args = args[i],
                                    .n_args = 2};
    launches[2].n_alts = 0;
    launches[2].custom = launches[2].name = "plan_exec::sizes";
    launches[2].attrs = "{}";
    launches[2].operands = operands;
    p->symbols = symbols, p->n_symbols = 2;
    p->functions = functions, p->n_functions = 2;
    p->dim_maps = maps, p->n_dim_maps = 1;
    p->inputs = &in, p->n_inputs = 1;
    p->outputs = &out, p->n_outputs = 1;
    p->values = values, p->n_values = 2;
    p->launches = launches, p->n_launches = 3;
    p->pieces = pieces, p->n_pieces = 2;
    p->n_compiled = p->n_distinct = 1;
    CHECK_OK(plan_seal(p, &err), &err);
    return p;
}

typedef struct fixture {
    hal_device *d;
    plan *p;
    plan_exec *x;
    plan_bound *b;
} fixture;

static void open_plan(fixture *f, const char *device, uint32_t first, uint32_t n) {
    rp_error err = {0};
    *f = (fixture){.p = small_plan()};
    CHECK_OK(hal_open(device, 1, &f->d, &err), &err);
    plan_exec_options opt = {.device = f->d, .builtin = find};
    CHECK_OK(plan_exec_new(f->p, &opt, &f->x, &err), &err);
    CHECK_OK(plan_bound_new(f->x, first, n, &f->b, &err), &err);
}

static void close_plan(fixture *f) {
    plan_bound_free(f->b);
    plan_exec_free(f->x);
    plan_free(f->p);
    hal_close(f->d);
}

static uint32_t n_caching;

static rp_status note_caching(hal_device *d, hal_function f, rp_error *err) {
    (void)d, (void)f, (void)err;
    n_caching++;
    return RP_OK;
}

/* Functions of a module, whose blocks share up to 32 KiB, or more in one variant of one launch. */
static void functions_have_the_cache_that_blocks_leave(void **state) {
    rp_error err = {0};
    cache_store *store = NULL;
    plan_module module = {.key = {1, 2}, .isa_bits = 3};
    char code[512], *path = NULL;
    const char *dir = tree_new("caches");
    (void)state;
    (void)snprintf(code, sizeof code, "%s/code", dir);
    CHECK_OK(base_file_write(code, "code", 4, &err), &err);
    CHECK_OK(cache_store_open(dir, &store, &err), &err);
    CHECK_OK(cache_put_code(store, module.key, module.isa_bits, code, &path, &err), &err);
    for (int64_t more = 0; more < 2; more++) {
        fixture f = {.p = small_plan()};
        CHECK_OK(hal_open("null", 1, &f.d, &err), &err);
        hal_device_ops ops = *f.d->ops;
        ops.function_caches = note_caching;
        f.d->ops = &ops;
        plan_function of_module[] = {{0, "small"}, {0, "large"}};
        f.p->modules = &module, f.p->n_modules = 1;
        f.p->functions = of_module;
        f.p->launches[1].alts[1].scratch = (32 << 10) + more;
        plan_exec_options opt = {.device = f.d, .store = store, .builtin = find};
        n_caching = 0;
        CHECK_OK(plan_exec_new(f.p, &opt, &f.x, &err), &err);
        assert_int_equal(n_caching, more ? 0 : 2);
        close_plan(&f);
    }
    base_free(path);
    cache_store_close(store);
}

static void a_variant_may_be_nothing(void **state) {
    rp_error err = {0};
    fixture f;
    base_buf text;
    float x[512], y[512];
    (void)state;
    open_plan(&f, "null", 0, 2);
    f.p->launches[1].alts[0].function = PLAN_NO_FUNCTION;
    CHECK_OK(plan_verify(f.p, &err), &err);
    plan_exec_set(f.x, PLAN_INPUT, 0, x);
    plan_exec_set(f.x, PLAN_OUTPUT, 0, y);
    CHECK_OK(plan_exec_bind(f.x, f.b, (int64_t[]){3, 8}, &err), &err);
    assert_int_equal(f.b->launches[1].items, 0);
    assert_null(f.b->launches[1].fn.host);
    assert_int_equal(f.b->launches[0].items, 64);
    CHECK_OK(plan_exec_bind(f.x, f.b, (int64_t[]){3, 9}, &err), &err);
    assert_int_equal(f.b->launches[1].items, 72);
    assert_ptr_equal(f.b->launches[1].fn.host, kernel_large);
    base_buf_init(&text, 0);
    plan_print(f.p, &text);
    CHECK_OK(base_buf_status(&text, &err), &err);
    assert_non_null(strstr(text.data, "by rows: <= 8 nothing | "));
    assert_null(strstr(text.data, "{}")); /* attributes, of which the call has none */
    base_buf_clear(&text);
    f.p->launches[2].attrs = "{times=3}";
    plan_print(f.p, &text);
    assert_non_null(strstr(text.data, "call plan_exec::sizes(%0, out output:y) {times=3}\n"));
    base_buf_done(&text);
    close_plan(&f);
}

/* Threads of a block, items of one, and how many blocks there are, where a variant says; else the launch's. Nothing runs for no rows. */
static void blocks_are_those_of_the_variant(void **state) {
    rp_error err = {0};
    fixture f;
    float x[512];
    (void)state;
    open_plan(&f, "null", 0, 1);
    plan_launch *l = &f.p->launches[0];
    f.p->symbols[1].min = 0;
    l->threads = 64;
    l->per_block = 2;
    l->alts[0].blocks = 6;
    l->alts[0].per_sm = 3;
    l->alts[1].threads = 256;
    l->alts[1].per_block = 4;
    l->alts[1].per_sm = 3;
    CHECK_OK(plan_verify(f.p, &err), &err);
    plan_exec_set(f.x, PLAN_INPUT, 0, x);
    const hal_launch *h = &f.b->launches[0];
    static const struct {
        int64_t rows, items;
        uint32_t threads, per_block, per_sm, shared;
    } want[] = {{0, 0, 64, 2, 3, 64},
                {1, 12, 64, 2, 0, 64},
                {8, 12, 64, 2, 0, 64},
                {9, 72, 256, 4, 3, 256}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        CHECK_OK(plan_exec_bind(f.x, f.b, (int64_t[]){1, want[i].rows}, &err), &err);
        assert_int_equal(h->items, want[i].items);
        assert_int_equal(h->threads, want[i].threads);
        assert_int_equal(h->per_block, want[i].per_block);
        assert_int_equal(h->per_sm, want[i].per_sm);
        assert_int_equal(h->shared, want[i].shared);
    }
    close_plan(&f);
}

/* The first list that a launch runs may want more scratch than the second. */
static void scratch_is_that_of_the_largest(void **state) {
    static const char text[] =
        "graph @g(%b: bool[], %x: f32[2]) {\n  %o = cond %b, %x {\n"
        "    then=graph @more(%p: f32[2]) { %r = add %p, %p ret %r },\n"
        "    else=graph @less(%p: f32[2]) { %r = neg %p ret %r }}\n  ret %o\n}\n";
    (void)state;
    for (int first = 0; first < 2; first++) {
        rp_error err = {0};
        ir_graph *g = NULL;
        fixture f = {0};
        CHECK_OK(ir_parse(text, strlen(text), &g, &err), &err);
        f.p = plan_of(g);
        assert_int_equal(f.p->n_inner, 2);
        f.p->n_modules = 0;
        for (int i = 0; i < 2; i++) {
            plan *in = f.p->inner[i];
            in->n_modules = 0;
            for (uint32_t k = 0; k < in->n_functions; k++)
                in->functions[k] = (plan_function){PLAN_BUILTIN, "@small"};
            in->launches[0].alts[0].scratch = i == first ? 512 : 64;
        }
        for (uint32_t k = 0; k < f.p->n_functions; k++)
            f.p->functions[k] = (plan_function){PLAN_BUILTIN, "@small"};
        CHECK_OK(hal_open("null", 1, &f.d, &err), &err);
        plan_exec_options opt = {.device = f.d, .builtin = find};
        CHECK_OK(plan_exec_new(f.p, &opt, &f.x, &err), &err);
        CHECK_OK(plan_bound_new(f.x, 0, f.p->n_pieces, &f.b, &err), &err);
        float x[2], y[2];
        plan_exec_set(f.x, PLAN_INPUT, 0, x);
        plan_exec_set(f.x, PLAN_INPUT, 1, x);
        plan_exec_set(f.x, PLAN_OUTPUT, 0, y);
        CHECK_OK(plan_exec_bind(f.x, f.b, NULL, &err), &err);
        assert_int_equal(f.b->scratch, 512);
        close_plan(&f);
        ir_graph_free(g);
    }
}

/* Of each variant of each launch of p and of the plans within it in turn. */
static uint32_t raise_each(const plan *whole, plan *p) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->n_launches; i++) {
        plan_launch *l = &p->launches[i];
        if (l->n_alts == 1) l->alts[l->n_alts++] = l->alts[0];
        for (uint32_t a = 0; a < l->n_alts; a++, n++) {
            const int64_t own = l->alts[a].scratch;
            l->alts[a].scratch = 1 << 20;
            assert_int_equal(plan_most_scratch(whole), 1 << 20);
            l->alts[a].scratch = own;
        }
    }
    for (uint32_t i = 0; i < p->n_inner; i++) n += raise_each(whole, p->inner[i]);
    return n;
}

static void scratch_is_that_of_the_largest_within(void **state) {
    static const char text[] =
        "graph @g(%b: bool[], %x: f32[4]) {\n  %o = cond %b, %b, %x {\n"
        "    then=graph @one(%c: bool[], %p: f32[4]) {\n      %e = exp %p\n"
        "      %r = scan %p, %p {carried=1, sliced=1,\n"
        "        body=graph @step(%h: f32[4], %q: f32[]) { %s = mul %h, %q ret %s }}\n"
        "      %t = add %e, %r\n      ret %t },\n"
        "    else=graph @two(%c: bool[], %p: f32[4]) {\n      %r = cond %c, %p {\n"
        "        then=graph @more(%p: f32[4]) { %s = sum %p {axis=0, keep=true}\n"
        "          %b = broadcast %s {shape=[4]} ret %b },\n"
        "        else=graph @less(%p: f32[4]) { %s = neg %p ret %s }}\n      ret %r }}\n"
        "  %z = tanh %o\n  ret %z\n}\n";
    rp_error err = {0};
    ir_graph *g = NULL;
    (void)state;
    CHECK_OK(ir_parse(text, strlen(text), &g, &err), &err);
    plan *p = plan_of(g);
    assert_true(plan_most_scratch(p) < 1 << 20);
    assert_true(raise_each(p, p) >= 12);
    plan_free(p);
    ir_graph_free(g);
}

/* Sizes of a launch are those of its piece, in its order; behind them is what the caller says of the binding. */
static void sizes_follow_the_piece(void **state) {
    rp_error err = {0};
    fixture f;
    float x[512], y[512];
    (void)state;
    open_plan(&f, "null", 0, 2);
    plan_exec_set(f.x, PLAN_INPUT, 0, x);
    plan_exec_set(f.x, PLAN_OUTPUT, 0, y);
    for (int settled = 0; settled < 2; settled++) {
        f.b->settled = settled;
        CHECK_OK(plan_exec_bind(f.x, f.b, (int64_t[]){3, 9}, &err), &err);
        for (uint32_t i = 0; i < 2; i++) {
            const hal_launch *h = &f.b->launches[i];
            assert_int_equal(h->n_dim, 2);
            assert_int_equal(h->dim[0], 9);
            assert_int_equal(h->dim[1], 3);
            assert_int_equal(h->dim[2], settled);
        }
    }
    close_plan(&f);
}

/* Of inputs that a piece reads: rows, bytes of one and of all. */
static void inputs_of_steps_have_rows(void **state) {
    static const char *const nothing[] = {NULL}, *const x_is_none[] = {"x", NULL};
    const int64_t most[] = {4, 64};
    rp_error err = {0};
    fixture f;
    float x[512];
    engine_args a = {0};
    (void)state;
    open_plan(&f, "null", 0, 2);
    plan_exec_set(f.x, PLAN_INPUT, 0, x);
    engine_args_source from = {.x = f.x, .p = f.p, .symbols = most, .except = x_is_none};
    CHECK_OK(engine_args_add(&a, &from, 0, 2, &err), &err);
    assert_int_equal(a.n, 0);
    from.except = nothing;
    CHECK_OK(engine_args_add(&a, &from, 1, 1, &err), &err);
    assert_int_equal(a.n, 0); /* the second piece reads none */
    CHECK_OK(engine_args_add(&a, &from, 0, 1, &err), &err);
    assert_int_equal(a.n, 1);
    assert_int_equal(a.of[0].rows, 'T');
    assert_int_equal(a.of[0].row_bytes, 8 * sizeof *x);
    assert_int_equal(a.of[0].max_bytes, 64 * 8 * sizeof *x);
    assert_int_equal(engine_args_bytes(&a), 64 * 8 * sizeof *x);
    assert_ptr_equal(a.in[0].ptr, x);
    engine_args_done(&a);
    close_plan(&f);
}

static void launches_have_addresses_and_sizes(void **state) {
    rp_error err = {0};
    fixture f;
    float x[512], y[512];
    (void)state;
    open_plan(&f, "null", 0, 2);
    assert_int_equal(f.b->n, 3);
    plan_exec_set(f.x, PLAN_INPUT, 0, x);
    plan_exec_set(f.x, PLAN_OUTPUT, 0, y);
    size_t live = base_live();
    uint64_t allocs = base_alloc_count();
    CHECK_OK(plan_exec_bind(f.x, f.b, (int64_t[]){3, 8}, &err), &err);
    const hal_launch *l = f.b->launches;
    assert_ptr_equal(l[0].arg[0], x);
    assert_ptr_equal(l[0].arg[1], l[1].arg[0]);
    assert_ptr_equal(l[2].arg[1], y);
    assert_non_null(l[1].arg[1]);
    assert_ptr_equal(l[0].fn.host, kernel_small);
    assert_int_equal(l[0].items, 64);
    assert_int_equal(l[0].grain, 4);
    assert_int_equal(l[0].n_dim, 2);
    assert_int_equal(l[0].dim[0], 8); /* the function's own order of symbols */
    assert_int_equal(l[0].dim[1], 3);
    assert_int_equal(l[2].dim[0], 3); /* a custom op sees the plan's */
    assert_int_equal(f.b->scratch, 64);
    CHECK_OK(plan_exec_bind(f.x, f.b, (int64_t[]){3, 9}, &err), &err);
    assert_ptr_equal(l[0].fn.host, kernel_large);
    assert_int_equal(f.b->scratch, 256);
    assert_int_equal(base_alloc_count(), allocs);
    assert_int_equal(base_live(), live);
    close_plan(&f);
}

/* Law 6 stands on it. */
static void poison_is_nan_in_every_byte_of_the_arena(void **state) {
    rp_error err = {0};
    fixture f;
    float x[512], y[512];
    (void)state;
    open_plan(&f, "cpu", 0, 1);
    plan_exec_set(f.x, PLAN_INPUT, 0, x);
    plan_exec_set(f.x, PLAN_OUTPUT, 0, y);
    CHECK_OK(plan_exec_bind(f.x, f.b, (int64_t[]){1, 64}, &err), &err);
    uint8_t *value = f.b->launches[0].arg[1];
    memset(value, 0, 64 * 32);
    CHECK_OK(plan_exec_poison(f.x, &err), &err);
    for (size_t i = 0; i < 64 * 32; i++) assert_int_equal(value[i], 0xff);
    close_plan(&f);
}

/* The same of what has no bound, once there is some. */
static void poison_is_in_what_grows(void **state) {
    rp_error err = {0};
    fixture f = {.p = small_plan()};
    float x[512];
    (void)state;
    f.p->symbols[1].max = INT64_MAX;
    CHECK_OK(plan_seal(f.p, &err), &err);
    assert_int_equal(f.p->values[0].offset, PLAN_GROWS);
    CHECK_OK(hal_open("cpu", 1, &f.d, &err), &err);
    plan_exec_options opt = {.device = f.d, .builtin = find};
    CHECK_OK(plan_exec_new(f.p, &opt, &f.x, &err), &err);
    CHECK_OK(plan_bound_new(f.x, 0, 1, &f.b, &err), &err);
    plan_exec_set(f.x, PLAN_INPUT, 0, x);
    CHECK_OK(plan_exec_poison(f.x, &err), &err);
    CHECK_OK(plan_exec_bind(f.x, f.b, (int64_t[]){1, 16}, &err), &err);
    uint8_t *value = f.b->launches[0].arg[1];
    memset(value, 0, 16 * 32);
    CHECK_OK(plan_exec_poison(f.x, &err), &err);
    for (size_t i = 0; i < 16 * 32; i++) assert_int_equal(value[i], 0xff);
    close_plan(&f);
}

/* Half as much again as these sizes want, and nothing of what there was before. */
static void what_grows_gives_back_what_it_had(void **state) {
    static const int64_t sizes[] = {16, 64, 90, 100, 3};
    static const size_t bytes[] = {16 * 48, 64 * 48, 64 * 48, 100 * 48, 100 * 48};
    rp_error err = {0};
    fixture f = {.p = small_plan()};
    float x[4096];
    (void)state;
    f.p->symbols[1].max = INT64_MAX;
    CHECK_OK(plan_seal(f.p, &err), &err);
    CHECK_OK(hal_open("cpu", 1, &f.d, &err), &err);
    plan_exec_options opt = {.device = f.d, .builtin = find};
    CHECK_OK(plan_exec_new(f.p, &opt, &f.x, &err), &err);
    CHECK_OK(plan_bound_new(f.x, 0, 1, &f.b, &err), &err);
    plan_exec_set(f.x, PLAN_INPUT, 0, x);
    const uint64_t before = hal_live_bytes(f.d);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        CHECK_OK(plan_exec_bind(f.x, f.b, (int64_t[]){1, sizes[i]}, &err), &err);
        assert_int_equal(hal_live_bytes(f.d) - before, bytes[i]);
    }
    close_plan(&f);
}

/* Code is the first one's, arena and inputs are its own, params and states what they are when it is made. */
static void one_of_a_family_begins_with_params_and_states(void **state) {
    static const plan_seg segs[] = {PLAN_INPUT, PLAN_OUTPUT, PLAN_PARAM, PLAN_STATE};
    rp_error err = {0};
    fixture f = {.p = small_plan()};
    plan_leaf w[2] = {leaf_of("v"), leaf_of("w")}, kept[2] = {leaf_of("r"), leaf_of("s")};
    plan_bound *b = NULL;
    plan_exec *y = NULL;
    float at[4][2], other;
    (void)state;
    f.p->params = w, f.p->n_params = 2;
    f.p->states = kept, f.p->n_states = 2;
    CHECK_OK(hal_open("cpu", 1, &f.d, &err), &err);
    plan_exec_options opt = {.device = f.d, .builtin = find};
    CHECK_OK(plan_exec_new(f.p, &opt, &f.x, &err), &err);
    CHECK_OK(plan_bound_new(f.x, 0, 1, &f.b, &err), &err);
    for (int s = 0; s < 4; s++)
        for (uint32_t i = 0; i < 2; i++) plan_exec_set(f.x, segs[s], i, &at[s][i]);
    CHECK_OK(plan_exec_bind(f.x, f.b, (int64_t[]){1, 1}, &err), &err);
    CHECK_OK(plan_exec_again(f.x, f.d, &y, &err), &err);
    for (int s = 0; s < 4; s++)
        for (uint32_t i = 0; i < 2; i++)
            assert_ptr_equal(plan_exec_get(y, segs[s], i), s < 2 ? NULL : &at[s][i]);
    CHECK_OK(plan_bound_new(y, 0, 1, &b, &err), &err);
    assert_int_equal(plan_exec_bind(y, b, (int64_t[]){1, 1}, &err), RP_INVALID);
    assert_string_equal(err.text, "plan small: x is not set");
    err = (rp_error){0};
    plan_exec_set(y, PLAN_INPUT, 0, &other);
    plan_exec_set(y, PLAN_STATE, 1, &other);
    assert_ptr_equal(plan_exec_get(f.x, PLAN_INPUT, 0), &at[0][0]);
    assert_ptr_equal(plan_exec_get(f.x, PLAN_STATE, 1), &at[3][1]);
    CHECK_OK(plan_exec_bind(y, b, (int64_t[]){1, 9}, &err), &err);
    assert_ptr_equal(b->launches[0].fn.host, kernel_large);
    assert_ptr_not_equal(plan_exec_arena(y), plan_exec_arena(f.x));
    assert_ptr_equal(b->launches[0].arg[0], &other);
    assert_ptr_equal(f.b->launches[0].arg[0], &at[0][0]);
    plan_bound_free(b);
    plan_exec_free(y);
    CHECK_OK(plan_exec_bind(f.x, f.b, (int64_t[]){1, 9}, &err), &err);
    assert_ptr_equal(f.b->launches[0].fn.host, kernel_large);
    close_plan(&f);
}

static void a_list_of_one_piece_holds_its_launches(void **state) {
    rp_error err = {0};
    fixture f;
    float y[512];
    (void)state;
    open_plan(&f, "null", 1, 1);
    plan_exec_set(f.x, PLAN_OUTPUT, 0, y);
    CHECK_OK(plan_exec_bind(f.x, f.b, (int64_t[]){1, 1}, &err), &err);
    assert_int_equal(f.b->n, 1);
    assert_int_equal(f.b->launches[0].kind, HAL_HOST_CALL);
    plan_bound *none = NULL;
    assert_int_equal(plan_bound_new(f.x, 1, 2, &none, &err), RP_INVALID);
    close_plan(&f);
}

static void what_is_missing_is_named(void **state) {
    fixture f;
    float x[512];
    (void)state;
    open_plan(&f, "null", 0, 2);
    rp_error e1 = {0}, e2 = {0}, e3 = {0};
    assert_int_equal(plan_exec_bind(f.x, f.b, (int64_t[]){1, 65}, &e1), RP_INVALID);
    assert_non_null(strstr(e1.text, "T = 65 is outside [1, 64]"));
    assert_int_equal(plan_exec_bind(f.x, f.b, (int64_t[]){1, 64}, &e2), RP_INVALID);
    assert_string_equal(e2.text, "plan small: x is not set");
    plan_exec_set(f.x, PLAN_INPUT, 0, x);
    assert_int_equal(plan_exec_bind(f.x, f.b, (int64_t[]){1, 64}, &e3), RP_INVALID);
    assert_string_equal(e3.text, "plan small: y is not set");
    close_plan(&f);
}

static void unknown_code_is_refused(void **state) {
    hal_device *d = NULL;
    plan *p = small_plan();
    plan_exec *x = NULL;
    rp_error err = {0}, e1 = {0}, e2 = {0};
    (void)state;
    CHECK_OK(hal_null_open(&d, &err), &err);
    plan_exec_options opt = {.device = d};
    assert_int_equal(plan_exec_new(p, &opt, &x, &e1), RP_CORRUPT);
    size_t live = base_live(); /* the device's table of ranges has been made */
    assert_non_null(strstr(e1.text, "@small"));
    opt.builtin = find;
    const char *known = p->functions[1].symbol;
    p->functions[1].symbol = "nowhere";
    e1 = (rp_error){0};
    assert_int_equal(plan_exec_new(p, &opt, &x, &e1), RP_CORRUPT);
    assert_string_equal(e1.text, "plan small wants built-in kernel nowhere, which is not here");
    p->functions[1].symbol = known;
    p->launches[2].custom = "plan_exec::unknown";
    assert_int_equal(plan_exec_new(p, &opt, &x, &e2), RP_UNSUPPORTED);
    assert_non_null(strstr(e2.text, "plan_exec::unknown is not registered"));
    p->launches[2].custom = "plan_exec::elsewhere";
    e2 = (rp_error){0};
    assert_int_equal(plan_exec_new(p, &opt, &x, &e2), RP_UNSUPPORTED);
    assert_non_null(strstr(e2.text, "plan_exec::elsewhere has no implementation for cpu"));
    assert_int_equal(base_live(), live);
    FOR_EACH_ALLOC_FAILURE (n) {
        rp_error e = {0};
        p->launches[2].custom = "plan_exec::sizes";
        rp_status st = plan_exec_new(p, &opt, &x, &e);
        if (st == RP_OK)
            plan_exec_free(x);
        else
            assert_int_equal(st, RP_NOMEM);
        assert_int_equal(base_live(), live);
    }
    plan_free(p);
    hal_close(d);
}

/* What the cache has lost is named with its cure. */
static void code_that_is_gone_is_told(void **state) {
    static plan_module module = {.key = {1, 2}, .isa_bits = 1};
    hal_device *d = NULL;
    cache_store *store = NULL;
    plan *p = small_plan();
    plan_exec *x = NULL;
    rp_error err = {0}, why = {0};
    (void)state;
    p->modules = &module;
    p->n_modules = 1;
    CHECK_OK(hal_null_open(&d, &err), &err);
    plan_exec_options opt = {.device = d, .builtin = find};
    assert_int_equal(plan_exec_new(p, &opt, &x, &why), RP_INVALID);
    assert_string_equal(why.text, "plan small has code but no cache to load it from");
    CHECK_OK(cache_store_open(NULL, &store, &err), &err);
    opt.store = store;
    why = (rp_error){0};
    assert_int_equal(plan_exec_new(p, &opt, &x, &why), RP_NOT_FOUND);
    assert_string_equal(why.text, "code of plan small is no longer in the cache; run it again");
    cache_store_close(store);
    plan_free(p);
    hal_close(d);
}

/* --- custom ops ---------------------------------------------------------------- */

static int64_t seen_rows;
static uint32_t seen_args;

static rp_status sizes(const rp_op_call *call, rp_buffer *args, uint32_t n, rp_error *err) {
    (void)call, (void)err;
    seen_args = n;
    seen_rows = args[0].dim[0];
    assert_int_equal(args[1].dim[0], args[0].dim[0]);
    assert_int_equal(args[0].dim[1], 8);
    return RP_OK;
}

static void custom_ops_see_the_sizes_of_their_binding(void **state) {
    rp_error err = {0};
    fixture f;
    hal_graph *five = NULL;
    float x[512], y[512];
    (void)state;
    open_plan(&f, "cpu", 0, 2);
    plan_exec_set(f.x, PLAN_INPUT, 0, x);
    plan_exec_set(f.x, PLAN_OUTPUT, 0, y);
    CHECK_OK(plan_exec_bind(f.x, f.b, (int64_t[]){1, 5}, &err), &err);
    CHECK_OK(f.d->ops->launch(f.d, f.b->launches, f.b->n, f.b->scratch, &err), &err);
    assert_int_equal(seen_args, 2);
    assert_int_equal(seen_rows, 5);
    CHECK_OK(f.d->ops->graph_build(f.d, f.b->launches, f.b->n, f.b->scratch, "five", &five, &err),
             &err);
    CHECK_OK(plan_exec_bind(f.x, f.b, (int64_t[]){1, 7}, &err), &err);
    CHECK_OK(f.d->ops->launch(f.d, f.b->launches, f.b->n, f.b->scratch, &err), &err);
    assert_int_equal(seen_rows, 7);
    /* A captured list keeps the sizes of its capture, even when the list it came from is gone. */
    plan_bound_free(f.b);
    f.b = NULL;
    CHECK_OK(f.d->ops->graph_launch(five, &err), &err);
    assert_int_equal(seen_rows, 5);
    f.d->ops->graph_free(five);
    close_plan(&f);
}

/* --- packed weights -------------------------------------------------------------- */

static uint8_t *bytes_with_pattern(size_t n, uint32_t seed) {
    uint8_t *p = base_alloc(n);
    for (size_t i = 0; i < n; i++) p[i] = (uint8_t)((seed * 131 + i) * 2654435761u >> 24);
    return p;
}

/* Sections one after the other; within one, 32 rows (two tiles) of each matrix in turn. */
static void packs_deal_tiles_in_turns(void **state) {
    enum { K = 64, ROWS_A = 80, ROWS_B = 33 };
    const rp_dtype type = RP_DTYPE_Q4_1;
    size_t row = K / 32 * rp_dtype_block_bytes(type), tile = gen_pack_tile_size(type, K);
    plan_section sections[] = {{.params = {0, 1}, .n_params = 2, .rows = ROWS_A},
                               {.params = {2}, .n_params = 1, .rows = ROWS_B}};
    plan_pack pack = {.dtype = type, .k = K, .sections = sections, .n_sections = 2};
    plan p = {.name = "p", .packs = &pack, .n_packs = 1};
    const void *params[3] = {bytes_with_pattern(ROWS_A * row, 1),
                             bytes_with_pattern(ROWS_A * row, 2),
                             bytes_with_pattern(ROWS_B * row, 3)};
    uint8_t *plain[3];
    (void)state;
    for (int i = 0; i < 3; i++) {
        int64_t n = i < 2 ? ROWS_A : ROWS_B;
        plain[i] = base_alloc(gen_pack_size(type, n, K));
        for (int64_t t = 0; t < gen_pack_tiles(n); t++)
            gen_pack_tile(type, params[i], n, K, t, plain[i] + (size_t)t * tile);
    }
    /* 80 rows: 3 items of 2 tiles (the last half empty) of 2 matrices; 33 rows: 2 items of 2 tiles (the last one empty) */
    assert_int_equal(plan_pack_bytes(&pack), (int64_t)(tile * (3 * 2 * 2 + 2 * 2)));
    pack.size = plan_pack_bytes(&pack);
    uint8_t *image = base_alloc((size_t)pack.size), *zero = base_alloc(tile);
    memset(image, 0xee, (size_t)pack.size); /* every byte is written */
    plan_pack_fill(&p, 0, params, image);
    const uint8_t *at = image;
    for (int item = 0; item < 3; item++)
        for (int m = 0; m < 2; m++)
            for (int t = 2 * item; t < 2 * item + 2; t++, at += tile)
                assert_memory_equal(at, t < 5 ? plain[m] + (size_t)t * tile : zero, tile);
    for (int t = 0; t < 4; t++, at += tile)
        assert_memory_equal(at, t < 3 ? plain[2] + (size_t)t * tile : zero, tile);
    assert_ptr_equal(at, image + pack.size);
    for (int i = 0; i < 3; i++) {
        base_free((void *)(uintptr_t)params[i]);
        base_free(plain[i]);
    }
    base_free(image);
    base_free(zero);
}

static void huge_packs_have_no_size(void **state) {
    plan_section s = {.n_params = 4, .rows = INT64_MAX};
    plan_pack k = {.dtype = RP_DTYPE_F32, .k = INT64_MAX / 128, .sections = &s, .n_sections = 1};
    (void)state;
    assert_int_equal(plan_pack_bytes(&k), -1);
    s.rows = INT64_MAX - 31;
    assert_int_equal(plan_pack_bytes(&k), -1);
    s.rows = 16;
    k.dtype = RP_DTYPE_I16B32;
    assert_int_equal(plan_pack_bytes(&k), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scratch_is_that_of_the_largest),
        cmocka_unit_test(scratch_is_that_of_the_largest_within),
        cmocka_unit_test(sizes_follow_the_piece),
        cmocka_unit_test(inputs_of_steps_have_rows),
        cmocka_unit_test(launches_have_addresses_and_sizes),
        cmocka_unit_test(functions_have_the_cache_that_blocks_leave),
        cmocka_unit_test(a_variant_may_be_nothing),
        cmocka_unit_test(poison_is_nan_in_every_byte_of_the_arena),
        cmocka_unit_test(blocks_are_those_of_the_variant),
        cmocka_unit_test(poison_is_in_what_grows),
        cmocka_unit_test(what_grows_gives_back_what_it_had),
        cmocka_unit_test(one_of_a_family_begins_with_params_and_states),
        cmocka_unit_test(code_that_is_gone_is_told),
        cmocka_unit_test(a_list_of_one_piece_holds_its_launches),
        cmocka_unit_test(what_is_missing_is_named),
        cmocka_unit_test(unknown_code_is_refused),
        cmocka_unit_test(custom_ops_see_the_sizes_of_their_binding),
        cmocka_unit_test(packs_deal_tiles_in_turns),
        cmocka_unit_test(huge_packs_have_no_size),
    };
    rp_op_desc desc = {.size = sizeof desc, .name = "plan_exec::sizes", .cpu = sizes};
    rp_op_desc elsewhere = {.size = sizeof elsewhere, .name = "plan_exec::elsewhere"};
    rp_error err = {0};
    if (rp_op_register(&desc, &err) != RP_OK) return 1;
    if (rp_op_register(&elsewhere, &err) != RP_OK) return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
