/* skip_passes and pass_config reach the passes by name, and what is left out is another piece key. */
#include "support/check.h"

#include "base/alloc.h"
#include "compile/skips.h"
#include "config/table.h"

static rp_compilation_config *config_of(const char *json) {
    rp_error err = {0};
    rp_compilation_config *cfg = rp_config_new();
    assert_non_null(cfg);
    CHECK_OK(rp_config_set_json(cfg, json, &err), &err);
    return cfg;
}

static void names_come_from_both(void **state) {
    rp_error err = {0};
    compile_skips s;
    rp_compilation_config *cfg =
        config_of("{\"skip_passes\": [\"fold\"], \"pass_config\": {\"fuse_norm_quant\": false, "
                  "\"fuse_act_quant\": true}}");
    (void)state;
    CHECK_OK(compile_skips_of(cfg, &s, &err), &err);
    assert_int_equal(s.n, 2);
    assert_string_equal(s.name[0], "fold");
    assert_string_equal(s.name[1], "fuse_norm_quant");
    rp_config_free(cfg);
}

/* Any of the switches of pass_config, each by its own name: off, on, or not given. */
static void every_switch_counts(void **state) {
    static const char *const names[] = {"eliminate_noops",
                                        "fuse_norm_quant",
                                        "fuse_act_quant",
                                        "fuse_rope_kvcache",
                                        "enable_qk_norm_rope_fusion",
                                        "fuse_qk_norm_rope_kvcache"};
    static const char *const values[] = {"null", "true", "false"};
    (void)state;
    for (unsigned at = 0; at < 729; at++) {
        rp_error err = {0};
        compile_skips s;
        char json[320] = "{\"pass_config\":{";
        for (unsigned i = 0, x = at; i < 6; i++, x /= 3)
            (void)snprintf(json + strlen(json), sizeof json - strlen(json), "%s\"%s\":%s",
                           i ? "," : "", names[i], values[x % 3]);
        (void)snprintf(json + strlen(json), sizeof json - strlen(json), "}}");
        rp_compilation_config *cfg = config_of(json);
        CHECK_OK(compile_skips_of(cfg, &s, &err), &err);
        uint32_t n = 0;
        for (unsigned i = 0, x = at; i < 6; i++, x /= 3)
            if (x % 3 == 2 && (n >= s.n || strcmp(s.name[n++], names[i]) != 0))
                fail_msg("%s is on with %s", names[i], json);
        assert_int_equal(s.n, n);
        rp_config_free(cfg);
    }
}

/* Each switch of pass_config that acts has a row in the table of passes, is on where code is generated, and leaves that out where it is off. */
static void fields_and_passes_agree(void **state) {
    uint32_t n_passes, n = 0;
    const pass_info *passes = pass_table(&n_passes);
    (void)state;
    for (int id = 0; id < CONFIG_ID_COUNT_; id++) {
        const char *name = config_fusion_name(id);
        rp_error err = {0};
        compile_skips s;
        char json[80];
        uint32_t at = 0;
        if (!name) continue;
        for (n++; at < n_passes && (!passes[at].config || strcmp(passes[at].config, name)); at++) {
        }
        if (at == n_passes) fail_msg("pass_config.%s switches no pass", name);
        (void)snprintf(json, sizeof json, "{\"level\":2,\"pass_config\":{\"%s\":false}}", name);
        rp_compilation_config *cfg = config_of(json);
        CHECK_OK(rp_config_resolve(cfg, NULL, &err), &err);
        CHECK_OK(compile_skips_of(cfg, &s, &err), &err);
        const bool asked = id == CONFIG_ID_pass_fuse_attn_quant; /* off unless it is */
        assert_int_equal(s.n, !asked);
        if (!asked) assert_string_equal(s.name[0], name);
        rp_config_free(cfg);
    }
    for (uint32_t i = 0; i < n_passes; i++) n -= passes[i].config != NULL;
    assert_int_equal(n, 0);
}

static void nothing_is_left_out_by_default(void **state) {
    rp_error err = {0};
    compile_skips s;
    rp_compilation_config *cfg = config_of("{}");
    (void)state;
    CHECK_OK(compile_skips_of(cfg, &s, &err), &err);
    assert_int_equal(s.n, 0);
    rp_config_free(cfg);
}

static void unknown_names_are_refused(void **state) {
    rp_error err = {0};
    compile_skips s;
    rp_compilation_config *cfg = config_of("{\"skip_passes\": [\"folt\"]}");
    (void)state;
    assert_int_equal(compile_skips_of(cfg, &s, &err), RP_CONFIG);
    assert_string_equal(err.text, "no pass folt; nearest: fold");
    rp_config_free(cfg);
}

/* All places taken: as many names as are allowed, and what the configuration adds. */
static void places_suffice(void **state) {
    enum { SWITCHES = 6, MOST = COMPILE_MAX_SKIPS - SWITCHES - 2 };
    (void)state;
    for (int n = MOST - 1; n <= MOST + 1; n++)
        for (int gpu = 0; gpu < 2; gpu++) {
            rp_error err = {0};
            compile_skips s;
            char json[1600];
            size_t at = (size_t)snprintf(json, sizeof json, "{\"device\":\"%s\",\"skip_passes\":[",
                                         gpu ? "cuda:0" : "cpu");
            for (int i = 1; i < n; i++)
                at += (size_t)snprintf(json + at, sizeof json - at, "\"fold\",");
            (void)snprintf(
                json + at, sizeof json - at,
                "\"dce\"],\"pass_config\":{\"eliminate_noops\":false,\"fuse_norm_quant\":false,"
                "\"fuse_act_quant\":false,\"fuse_rope_kvcache\":false,\"enable_qk_norm_rope_"
                "fusion\":false,\"fuse_qk_norm_rope_kvcache\":false,\"fuse_attn_quant\":true}}");
            rp_compilation_config *cfg = config_of(json);
            rp_status st = compile_skips_of(cfg, &s, &err);
            if (n > MOST) {
                assert_int_equal(st, RP_CONFIG);
                assert_string_equal(err.text, "skip_passes names 57 passes; at most 56");
            } else {
                CHECK_OK(st, &err);
                assert_int_equal(s.n, n + SWITCHES + 1);
                assert_string_equal(s.name[n - 1], "dce");
                bool quant = false;
                for (uint32_t i = 0; i < s.n; i++)
                    quant = quant || strcmp(s.name[i], "+fuse_attn_quant") == 0;
                assert_int_equal(quant, !gpu);
                if (gpu) assert_string_equal(s.name[n + SWITCHES], "attention");
            }
            rp_config_free(cfg);
        }
}

static void key_of(const char *name, const char *uuid, char hex[33]) {
    rp_error err = {0};
    cache_key *k = cache_key_new();
    const pass_extra one = {.name = name, .uuid = uuid};
    CHECK_OK(compile_skips_key(&one, 1, k, &err), &err);
    base_hash_hex(cache_key_hash(k), hex);
    cache_key_free(k);
}

/* A pass that is another, or another version of it, is another key. */
static void passes_are_in_the_key_by_name_and_version(void **state) {
    static const char *const passes[][2] = {
        {"a", "1"}, {"a", "2"}, {"b", "1"}, {"b", "2"}, {"a", "b"}};
    char hex[5][33], again[33];
    (void)state;
    for (int i = 0; i < 5; i++) {
        key_of(passes[i][0], passes[i][1], hex[i]);
        key_of(passes[i][0], passes[i][1], again);
        assert_string_equal(hex[i], again);
        for (int k = 0; k < i; k++) assert_string_not_equal(hex[i], hex[k]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_come_from_both),
        cmocka_unit_test(every_switch_counts),
        cmocka_unit_test(fields_and_passes_agree),
        cmocka_unit_test(nothing_is_left_out_by_default),
        cmocka_unit_test(unknown_names_are_refused),
        cmocka_unit_test(places_suffice),
        cmocka_unit_test(passes_are_in_the_key_by_name_and_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
