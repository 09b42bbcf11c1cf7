/* Backends that keep what they made: handles in the compile cache, which the next one that compiles an equal graph loads. */
#include <stdatomic.h>
#include <unistd.h>

#include "support/at_once.h"
#include "support/heard.h"
#include "support/jits.h"

#include "backend/registry.h"

/* A compiler of graphs that give their input times a constant. */
static struct {
    char hash[64];
    int compiles;
    atomic_int loads, frees;
    bool refuses_handles, gives_nothing, saves_nothing;
} made;

static rp_status run(void *self, const rp_buffer *in, uint32_t n_in, rp_buffer *out, uint32_t n_out,
                     rp_error *err) {
    const double *factor = self;
    (void)n_in, (void)n_out, (void)err;
    for (int64_t i = 0; i < in[0].dim[0]; i++)
        ((float *)out[0].data)[i] = (float)(((const float *)in[0].data)[i] * *factor);
    return RP_OK;
}

static void release(void *self) {
    made.frees++;
    base_free(self);
}

static rp_status give(double factor, rp_callable *out, rp_error *err) {
    double *p = base_alloc(sizeof *p);
    if (!p) return rp_fail(err, RP_NOMEM, "a factor");
    *p = factor;
    *out = (rp_callable){run, release, p};
    return RP_OK;
}

static rp_status compile(void *user, const rp_graph *g, const rp_backend_options *options,
                         rp_callable *out, rp_error *err) {
    double factor = 1;
    (void)user, (void)options;
    for (uint32_t i = 0; i < rp_graph_count(g, RP_GRAPH_NODES); i++) {
        rp_attr value = RP_ATTR_INIT;
        if (rp_node_attr(g, i, "value", &value, NULL) == RP_OK) factor = value.f;
    }
    made.compiles++;
    return give(factor, out, err);
}

/* Who calls it at once, and for how long it waits for another call (ms). */
static struct {
    atomic_int inside, most;
    int patience;
} hashing;

static const char *hash(void *user) {
    (void)user;
    int now = atomic_fetch_add(&hashing.inside, 1) + 1, most = atomic_load(&hashing.most);
    while (most < now && !atomic_compare_exchange_weak(&hashing.most, &most, now)) {
    }
    for (int i = 0; i < hashing.patience && atomic_load(&hashing.most) < 2; i++) (void)usleep(1000);
    (void)atomic_fetch_sub(&hashing.inside, 1);
    return made.hash;
}

static rp_status save(void *user, const rp_callable *c, rp_backend_write write, void *to,
                      rp_error *err) {
    (void)user;
    if (made.saves_nothing) return rp_fail(err, RP_DEVICE, "no room for a handle");
    write(to, c->self, 4); /* in two parts */
    write(to, (const char *)c->self + 4, sizeof(double) - 4);
    return RP_OK;
}

static rp_status load(void *user, const rp_graph *g, const rp_backend_options *options,
                      const void *handle, size_t size, rp_callable *out, rp_error *err) {
    double factor;
    (void)user, (void)g, (void)options;
    if (made.refuses_handles || size != sizeof factor)
        return rp_fail(err, RP_INVALID, "not a handle of this compiler");
    memcpy(&factor, handle, sizeof factor);
    made.loads++;
    if (made.gives_nothing) return RP_OK;
    return give(factor, out, err);
}

static rp_status scaled(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                        rp_error *err) {
    (void)err;
    *result = rp_jit_value(
        call, rp_mul_scalar(rp_jit_tensor(call, &args->item[0]), *(const double *)user));
    return RP_OK;
}

/* A function of its own, as in another process; what was compiled and loaded for it. */
static void check(double factor, int compiles, int loads) {
    float x[4] = {1, 2, 3, 4};
    rp_jit_options o = jit_options(scaled);
    rp_value v = f32_of(x, 1, 4, 0), args = rp_value_tuple(&v, 1);
    o.user = &factor;
    made.compiles = made.loads = made.frees = 0;
    rp_jit *f = jit_by(o, "backend=keeper threads=1");
    rp_output *out = jit_ok(f, &args);
    for (int i = 0; i < 4; i++)
        assert_true(((float *)jit_result(out)->tensor.data)[i] == x[i] * (float)factor);
    rp_output_free(out);
    rp_jit_free(f);
    assert_int_equal(made.compiles, compiles);
    assert_int_equal(made.loads, loads);
    assert_int_equal(made.frees, 1);
}

static void handles_are_loaded(void **state) {
    (void)state;
    (void)snprintf(made.hash, sizeof made.hash, "first %d", (int)getpid());
    check(3, 1, 0);
    check(3, 0, 1);
    check(5, 1, 0); /* another graph */
    check(3, 0, 1);
    (void)snprintf(made.hash, sizeof made.hash, "second %d", (int)getpid());
    check(3, 1, 0); /* another version of the compiler */
    check(3, 0, 1);
}

static rp_status not_today(void *user, rp_error *err) {
    (void)user;
    return rp_fail(err, RP_UNSUPPORTED, "it has the day off");
}

/* What opens it says, before anything is loaded. */
static void who_is_not_ready_loads_nothing(void **state) {
    const rp_backend_desc d = {.size = sizeof d,
                               .name = "idle",
                               .ready = not_today,
                               .compile = compile,
                               .hash = hash,
                               .save = save,
                               .load = load};
    const rp_backend_options o = {.threads = 1};
    const double factor = 2;
    rp_callable c = {0};
    rp_error err = {0};
    bool refused = true;
    (void)state;
    made.compiles = made.loads = 0;
    assert_int_equal(backend_load(&d, NULL, &o, &factor, sizeof factor, &c, &err), RP_UNSUPPORTED);
    assert_string_equal(err.text, "backend idle: it has the day off");
    err = (rp_error){0};
    assert_int_equal(backend_compile(&d, NULL, &o, &c, &refused, &err), RP_UNSUPPORTED);
    assert_string_equal(err.text, "backend idle: it has the day off");
    assert_false(refused); /* the graph was not looked at */
    assert_int_equal(made.compiles + made.loads, 0);
}

static rp_status mute(void *user, const rp_graph *g, const rp_backend_options *options,
                      rp_callable *out, rp_error *err) {
    (void)g, (void)options, (void)out, (void)err;
    return *(const rp_status *)user;
}

static rp_status half_made(void *user, const rp_graph *g, const rp_backend_options *options,
                           const void *handle, size_t size, rp_callable *out, rp_error *err) {
    (void)g, (void)options, (void)handle, (void)size, (void)err;
    out->self = user;
    return RP_OK;
}

/* A failure has a text, whoever gives it. */
static void who_gives_no_reason_is_told_so(void **state) {
    static const struct {
        rp_status st;
        bool refused;
        const char *text;
    } all[] = {{RP_UNSUPPORTED, true, "it gave no reason"},
               {RP_DEVICE, false, "backend mute: compiling failed (device) and gave no reason"},
               {RP_OK, false, "backend mute gave a callable without `run`"}};
    rp_status st = RP_OK;
    const rp_backend_desc d = {
        .size = sizeof d, .name = "mute", .compile = mute, .load = half_made, .user = &st};
    const rp_backend_options o = {.threads = 1};
    rp_callable c = {0};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        rp_error err = {0};
        bool refused = !all[i].refused;
        st = all[i].st;
        const rp_status got = backend_compile(&d, NULL, &o, &c, &refused, &err);
        assert_int_equal(got, st == RP_OK ? RP_INVALID : st);
        assert_int_equal(refused, all[i].refused);
        assert_string_equal(err.text, all[i].text);
    }
    rp_error err = {0};
    assert_int_equal(backend_load(&d, NULL, &o, "", 0, &c, &err), RP_INVALID);
    assert_string_equal(err.text, "backend mute gave a callable without `run`");
}

static void what_cannot_be_loaded_is_made_anew(void **state) {
    base_buf told;
    (void)state;
    (void)snprintf(made.hash, sizeof made.hash, "third %d", (int)getpid());
    heard_start(&told, "");
    check(3, 1, 0);
    made.refuses_handles = true;
    check(3, 1, 0);
    CHECK_HEARD(&told, "backend keeper: not a handle of this compiler; it is compiled again");
    made.refuses_handles = false;
    made.gives_nothing = true;
    check(3, 1, 1);
    CHECK_HEARD(&told, "backend keeper gave a callable without `run`; it is compiled again");
    made.gives_nothing = false;
    made.saves_nothing = true;
    check(7, 1, 0);
    CHECK_HEARD(&told, "backend keeper: no room for a handle; the next process compiles it again");
    made.saves_nothing = false;
    check(7, 1, 0);
    check(7, 0, 1);
    heard_done(&told);
}

static rp_compiled_info compile_with(const char *threads, rp_numerics numerics) {
    rp_error err = {0};
    rp_compiled *c = NULL;
    rp_compiled_info info = RP_COMPILED_INFO_INIT;
    rp_compilation_config *cfg = rp_config_new();
    rp_graph *g = rp_graph_new("one");
    rp_tensor y = rp_mul_scalar(rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(4)), 2);
    CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
    CHECK_OK(rp_config_set(cfg, "level=2", &err), &err);
    CHECK_OK(rp_config_set(cfg, "backend=keeper", &err), &err);
    CHECK_OK(rp_config_set(cfg, threads, &err), &err);
    rp_graph_set_numerics(g, numerics);
    CHECK_OK(rp_compile(g, cfg, &c, &err), &err);
    CHECK_OK(rp_compiled_get_info(c, &info, &err), &err);
    rp_compiled_free(c);
    rp_graph_free(g);
    rp_config_free(cfg);
    return info;
}

static rp_compiled_info compile_one(void) {
    return compile_with("threads=1", RP_NUMERICS_DEFAULT);
}

/* What a compiler is told beside the graph may change its code. */
static void handles_are_of_what_was_told(void **state) {
    static const char *const threads[] = {"threads=1", "threads=2"};
    static const rp_numerics numerics[] = {RP_NUMERICS_DEFAULT, RP_NUMERICS_EXACT,
                                           RP_NUMERICS_FAST};
    (void)state;
    (void)snprintf(made.hash, sizeof made.hash, "fifth %d", (int)getpid());
    for (uint32_t again = 0; again < 2; again++)
        for (int t = 0; t < 2; t++)
            for (int k = 0; k < 3; k++) {
                rp_compiled_info info = compile_with(threads[t], numerics[k]);
                if (info.cache_hits != again)
                    fail_msg("%s, numerics %d: %u hits", threads[t], k, (unsigned)info.cache_hits);
            }
}

static void a_hit_is_counted(void **state) {
    (void)state;
    (void)snprintf(made.hash, sizeof made.hash, "fourth %d", (int)getpid());
    for (uint32_t i = 0; i < 2; i++) {
        rp_compiled_info info = compile_one();
        assert_int_equal(info.compiles, 1 - i);
        assert_int_equal(info.cache_hits, i);
    }
}

static void *hit(void *item) {
    *(uint32_t *)item = compile_one().cache_hits;
    return NULL;
}

/* Its text is its own until the next call: no other thread calls it before the text is copied. */
static void calls_of_hash_take_turns(void **state) {
    uint32_t hits[4] = {0};
    (void)state;
    (void)compile_one();
    atomic_store(&hashing.most, 0);
    hashing.patience = 50;
    at_once(hit, hits, sizeof *hits, 4);
    hashing.patience = 0;
    assert_int_equal(atomic_load(&hashing.most), 1);
    for (int i = 0; i < 4; i++) assert_int_equal(hits[i], 1);
}

/* Behind a break, too, a compiler is told which roundings the function asked for. */
static rp_status fast_and_broken(void *user, rp_jit_call *call, const rp_value *args,
                                 rp_value *result, rp_error *err) {
    rp_tensor x = rp_jit_tensor(call, &args->item[0]);
    (void)user, (void)err;
    rp_graph_set_numerics(rp_jit_graph(call), RP_NUMERICS_FAST);
    x = rp_mul_scalar(x, 2);
    rp_jit_break(call, "builtin: print");
    *result = rp_jit_value(call, rp_mul_scalar(x, 3));
    return RP_OK;
}

static struct { int fast, others; } asked_for;

static rp_status note_numerics(void *user, const rp_graph *g, const rp_backend_options *options,
                               rp_callable *out, rp_error *err) {
    ++*(rp_graph_numerics(g) == RP_NUMERICS_FAST ? &asked_for.fast : &asked_for.others);
    return compile(user, g, options, out, err);
}

static void pieces_have_the_numerics_of_the_function(void **state) {
    const rp_backend_desc d = {.size = sizeof d, .name = "noting", .compile = note_numerics};
    float x[4] = {1, 2, 3, 4};
    rp_error err = {0};
    rp_value v = f32_of(x, 1, 4, 0), args = rp_value_tuple(&v, 1);
    (void)state;
    CHECK_OK(rp_backend_register(&d, &err), &err);
    rp_jit *f = jit_by(jit_options(fast_and_broken), "backend=noting threads=1");
    rp_output *out = jit_ok(f, &args);
    for (int i = 0; i < 4; i++) assert_true(((float *)jit_result(out)->tensor.data)[i] == x[i] * 6);
    rp_output_free(out);
    rp_jit_free(f);
    assert_true(asked_for.fast > 0);
    assert_int_equal(asked_for.others, 0);
}

static void some_of_the_three_are_refused(void **state) {
    (void)state;
    for (int some = 1; some < 7; some++) {
        rp_error err = {0};
        rp_backend_desc d = {.size = sizeof d,
                             .name = "half",
                             .compile = compile,
                             .hash = some & 1 ? hash : NULL,
                             .save = some & 2 ? save : NULL,
                             .load = some & 4 ? load : NULL};
        assert_int_equal(rp_backend_register(&d, &err), RP_INVALID);
        assert_non_null(strstr(err.text, "give all three or none"));
    }
}

/* As many as there is room for; the last one is found as the first. */
static void there_is_room_for_64(void **state) {
    uint32_t n = 0, own = 0;
    (void)state;
    for (const char *name; (name = rp_backend_name(n)); n++)
        own += strcmp(name, "keeper") != 0 && strcmp(name, "noting") != 0;
    for (uint32_t i = n - own; i < 66; i++) {
        char name[16];
        rp_error err = {0};
        rp_backend_desc d = {.size = sizeof d, .name = name, .compile = compile};
        (void)snprintf(name, sizeof name, "many_%u", i);
        if (i < 64) {
            CHECK_OK(rp_backend_register(&d, &err), &err);
            assert_string_equal(rp_backend_name(own + i), name);
            (void)snprintf(name, sizeof name, "another"); /* it has a copy */
            const rp_backend_desc *found = backend_find(rp_backend_name(own + i));
            assert_non_null(found);
            assert_string_equal(found->name, rp_backend_name(own + i));
        } else {
            assert_int_equal(rp_backend_register(&d, &err), RP_UNSUPPORTED);
            assert_string_equal(err.text, "more than 64 backends");
            assert_null(rp_backend_name(own + 64));
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(handles_are_loaded),
        cmocka_unit_test(what_cannot_be_loaded_is_made_anew),
        cmocka_unit_test(who_is_not_ready_loads_nothing),
        cmocka_unit_test(who_gives_no_reason_is_told_so),
        cmocka_unit_test(a_hit_is_counted),
        cmocka_unit_test(handles_are_of_what_was_told),
        cmocka_unit_test(calls_of_hash_take_turns),
        cmocka_unit_test(pieces_have_the_numerics_of_the_function),
        cmocka_unit_test(some_of_the_three_are_refused),
        cmocka_unit_test(there_is_room_for_64),
    };
    rp_error err = {0};
    rp_backend_desc d = {.size = sizeof d,
                         .name = "keeper",
                         .compile = compile,
                         .hash = hash,
                         .save = save,
                         .load = load};
    if (rp_backend_register(&d, &err) != RP_OK) {
        (void)fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
