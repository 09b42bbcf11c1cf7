/* The keys of code: what the inductor compiler and the manager put into them. This program gives the hash of the sources
 * itself. */
#include "support/check.h"
#include "support/plans.h"

#include "base/alloc.h"

static const char *sources = "0123";

const char *compile_source_hash(void) {
    return sources;
}

static base_hash128 hash_with(const char *machine, gen_isa isa, const char *version) {
    compile_toolchain t = {.version = (char *)(uintptr_t)version};
    compile_host h = {.isa = isa, .toolchain = &t, .machine = machine};
    base_hash128 out = {0};
    rp_error err = {0};
    CHECK_OK(compile_inductor.compute_hash(&h, &out, &err), &err);
    return out;
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

/* ---- one piece under different options ----------------------------------------------------------------------- */

static base_hash128 met; /* the key of the last unit */

static rp_status no_store(const compile_host *h, rp_error *err) {
    (void)h, (void)err;
    return RP_OK;
}

static rp_status one_hash(const compile_host *h, base_hash128 *out, rp_error *err) {
    (void)h, (void)err;
    *out = (base_hash128){7, 7};
    return RP_OK;
}

static rp_status keep_key(const compile_host *h, const compile_unit *u, compile_code *out,
                          char **handle, rp_error *err) {
    (void)h, (void)out, (void)handle, (void)err;
    met = u->key;
    return RP_OK;
}

static base_hash128 key_with(const char *fields, const char *skipped, bool passes) {
    static const compile_toolchain none;
    rp_compiler keeps = {.name = "keeps",
                         .initialize_cache = no_store,
                         .compute_hash = one_hash,
                         .lower = lower_graph,
                         .compile = keep_key};
    const char *const skip[] = {skipped};
    compile_options opt = {.backend = &keeps,
                           .isa = GEN_ISA_PORTABLE,
                           .toolchain = &none,
                           .key_fields = fields,
                           .passes = passes,
                           .skip_passes = skip,
                           .n_skip_passes = skipped ? 1 : 0,
                           .threads = 1};
    static const char text[] = "graph @g(%x: f32[8]) -> f32[8] {\n"
                               "  %0 = neg %x : f32[8]\n  ret %0\n}\n";
    rp_error err = {0};
    ir_graph *g = NULL;
    plan *p = NULL;
    met = (base_hash128){0};
    CHECK_OK(ir_parse(text, sizeof text - 1, &g, &err), &err);
    CHECK_OK(compile_graph(g, &opt, &p, NULL, &err), &err);
    plan_free(p);
    ir_graph_free(g);
    assert_true(met.lo || met.hi);
    return met;
}

static void settings_and_passes_are_in_the_key(void **state) {
    (void)state;
    base_hash128 k = key_with("a=1", NULL, true);
    assert_true(same(k, key_with("a=1", NULL, true)));
    assert_false(same(k, key_with("a=2", NULL, true)));
    assert_false(same(k, key_with("a=1", "cse", true)));
    assert_false(same(k, key_with("a=1", NULL, false)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_compiler_is_all_that_it_depends_on),
        cmocka_unit_test(settings_and_passes_are_in_the_key),
    };
    return cmocka_run_group_tests_name("compile_key", tests, NULL, NULL);
}
