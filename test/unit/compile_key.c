/* The keys of code: what the inductor compiler and the manager put into them. This program gives the hash of the sources
 * itself. */
#include "support/check.h"
#include "support/plans.h"

#include "base/alloc.h"
#include "target/target.h"

static const char *sources = "0123";

const char *compile_source_hash(void) {
    return sources;
}

static base_hash128 hash_by(const rp_compiler *c, const char *machine, gen_isa isa,
                            const char *version) {
    compile_toolchain t = {.version = (char *)(uintptr_t)version};
    compile_host h = {.isa = isa, .toolchain = &t, .machine = machine};
    rp_error err = {0};
    cache_key *k = cache_key_new();
    assert_non_null(k);
    CHECK_OK(c->compute_hash(&h, k, &err), &err);
    base_hash128 out = cache_key_hash(k);
    cache_key_free(k);
    return out;
}

static base_hash128 hash_with(const char *machine, gen_isa isa, const char *version) {
    return hash_by(&compile_inductor, machine, isa, version);
}

static bool same(base_hash128 a, base_hash128 b) {
    return a.lo == b.lo && a.hi == b.hi;
}

static void the_compiler_is_all_that_it_depends_on(void **state) {
    (void)state;
    base_hash128 h = hash_with("m1", GEN_ISA_PORTABLE, "gcc 1");
    assert_true(same(h, hash_with("m1", GEN_ISA_PORTABLE, "gcc 1")));
    assert_false(same(h, hash_with("m2", GEN_ISA_PORTABLE, "gcc 1")));
    assert_false(same(h, hash_with("m1", GEN_ISA_AVX2, "gcc 1")));
    assert_false(same(h, hash_with("m1", GEN_ISA_PORTABLE, "gcc 2")));
    sources = "4567";
    assert_false(same(h, hash_with("m1", GEN_ISA_PORTABLE, "gcc 1")));
    sources = "0123";
}

/* Sizes of its launches are those of an instruction set. */
static void the_eager_compiler_depends_on_no_tool(void **state) {
    (void)state;
    base_hash128 h = hash_by(&compile_eager, "m1", GEN_ISA_PORTABLE, "gcc 1");
    assert_true(same(h, hash_by(&compile_eager, "m1", GEN_ISA_PORTABLE, "gcc 2")));
    assert_false(same(h, hash_by(&compile_eager, "m2", GEN_ISA_PORTABLE, "gcc 1")));
    assert_false(same(h, hash_by(&compile_eager, "m1", GEN_ISA_AVX2, "gcc 1")));
    sources = "4567";
    assert_false(same(h, hash_by(&compile_eager, "m1", GEN_ISA_PORTABLE, "gcc 1")));
    sources = "0123";
}

/* ---- one piece ----------------------------------------------------------------------- */

static base_hash128 met; /* the key of the last unit */
static uint64_t compiler_hash;

static rp_status no_store(const compile_host *h, rp_error *err) {
    (void)h, (void)err;
    return RP_OK;
}

static rp_status one_hash(const compile_host *h, cache_key *k, rp_error *err) {
    (void)h;
    return cache_key_addf(k, err, "compiler", "%d", (int)compiler_hash);
}

static rp_status keep_key(const compile_host *h, const compile_unit *u, compile_code *out,
                          char **handle, rp_error *err) {
    (void)h, (void)out, (void)handle, (void)err;
    met = u->key;
    return RP_OK;
}

static base_hash128 key_by(const char *text, rp_compiler keeps, compile_options opt,
                           uint64_t compiler) {
    static const compile_toolchain none;
    rp_error err = {0};
    ir_graph *g = NULL;
    plan *p = NULL;
    opt.backend = &keeps;
    opt.isa = GEN_ISA_PORTABLE;
    opt.toolchain = &none;
    opt.threads = 1;
    met = (base_hash128){0};
    compiler_hash = compiler;
    CHECK_OK(ir_parse(text, strlen(text), &g, &err), &err);
    CHECK_OK(compile_graph(g, &opt, &p, NULL, &err), &err);
    plan_free(p);
    ir_graph_free(g);
    assert_true(met.lo || met.hi);
    return met;
}

static base_hash128 key_of(const char *text, const char *fields, uint64_t compiler) {
    const rp_compiler keeps = {.name = "keeps",
                               .initialize_cache = no_store,
                               .compute_hash = one_hash,
                               .lower = target_lower,
                               .compile = keep_key};
    return key_by(text, keeps, (compile_options){.key_fields = fields}, compiler);
}

/* Whatever decides about code shows in its text; the compiler does not. */
static void code_is_keyed_by_its_text_and_the_compiler(void **state) {
    static const char neg[] = "graph @g(%x: f32[8]) -> f32[8] {\n  %0 = neg %x\n  ret %0\n}\n";
    static const char abs_of[] = "graph @g(%x: f32[8]) -> f32[8] {\n  %0 = abs %x\n  ret %0\n}\n";
    (void)state;
    base_hash128 k = key_of(neg, "a=1", 7);
    assert_true(same(k, key_of(neg, "a=1", 7)));
    assert_true(same(k, key_of(neg, "a=2", 7)));
    assert_false(same(k, key_of(neg, "a=1", 8)));
    assert_false(same(k, key_of(abs_of, "a=1", 7)));
}

/* Of a piece without kernels there is no text to key it by: what it is made of, and all that is asked of it, is in the key. */
static void a_piece_is_keyed_by_all_that_is_asked(void **state) {
    static const char neg[] = "graph @g(%x: f32[8]) -> f32[8] {\n  %0 = neg %x\n  ret %0\n}\n";
    static const char abs_of[] = "graph @g(%x: f32[8]) -> f32[8] {\n  %0 = abs %x\n  ret %0\n}\n";
    static const char *const skips[] = {"cse", "fold", "cs", "efold"};
    const rp_compiler keeps = {.name = "keeps",
                               .initialize_cache = no_store,
                               .compute_hash = one_hash,
                               .lower = compile_eager.lower,
                               .compile = keep_key};
    rp_compiler other = keeps;
    const compile_options plain = {.key_fields = "a=1"};
    const struct {
        const char *text;
        compile_options opt;
        uint64_t compiler;
    } all[] = {{neg, plain, 7},
               {abs_of, plain, 7},
               {neg, plain, 8},
               {neg, {.key_fields = "a=2"}, 7},
               {neg, {.key_fields = NULL}, 7},
               {neg, {.key_fields = "a=1", .passes = true}, 7},
               {neg, {.key_fields = "a=1", .skip_passes = skips, .n_skip_passes = 1}, 7},
               {neg, {.key_fields = "a=1", .skip_passes = skips, .n_skip_passes = 2}, 7},
               {neg, {.key_fields = "a=1", .skip_passes = skips + 2, .n_skip_passes = 2}, 7}};
    enum { N = sizeof all / sizeof *all };
    base_hash128 keys[N + 1];
    (void)state;
    other.name = "others";
    for (int i = 0; i < N; i++) {
        keys[i] = key_by(all[i].text, keeps, all[i].opt, all[i].compiler);
        assert_true(same(keys[i], key_by(all[i].text, keeps, all[i].opt, all[i].compiler)));
    }
    keys[N] = key_by(neg, other, plain, 7);
    for (int i = 0; i <= N; i++)
        for (int k = 0; k < i; k++)
            if (same(keys[i], keys[k])) fail_msg("%d and %d have one key", i, k);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_compiler_is_all_that_it_depends_on),
        cmocka_unit_test(the_eager_compiler_depends_on_no_tool),
        cmocka_unit_test(code_is_keyed_by_its_text_and_the_compiler),
        cmocka_unit_test(a_piece_is_keyed_by_all_that_is_asked),
    };
    return cmocka_run_group_tests_name("compile_key", tests, NULL, NULL);
}
