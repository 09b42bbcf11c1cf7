/* The instruction set: setting and variable bound it alike, and what they cannot have is a note, never silence. */
#include "support/heard.h"

#include "base/alloc.h"
#include "engine/isa.h"

static const char *const names[] = {"portable", "avx2", "avx512", "amx"};

/* isa and notes for a bound given as a setting or as the variable. */
static gen_isa choose(const char *name, bool variable, char note[512]) {
    rp_error err = {0};
    gen_isa isa = GEN_ISA_PORTABLE;
    const rp_config_note *notes;
    rp_compilation_config *cfg = rp_config_new();
    if (variable)
        (void)setenv("REPRISE_ISA", name, 1);
    else
        CHECK_OK(rp_config_set_key(cfg, "isa", name, &err), &err);
    CHECK_OK(rp_config_resolve(cfg, NULL, &err), &err);
    CHECK_OK(engine_isa_choose(cfg, &isa, &err), &err);
    size_t n = rp_config_notes(cfg, &notes);
    assert_true(n < 2);
    (void)snprintf(note, 512, "%s: %s", n ? notes[0].what : "", n ? notes[0].reason : "");
    rp_config_free(cfg);
    (void)unsetenv("REPRISE_ISA");
    return isa;
}

static void setting_and_variable_do_the_same(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        char by_setting[512], by_variable[512], want[96];
        gen_isa bound = GEN_ISA_PORTABLE;
        base_buf heard;
        assert_true(gen_isa_parse(names[i], &bound));
        heard_start(&heard, "");
        gen_isa isa = choose(names[i], false, by_setting);
        assert_int_equal(choose(names[i], true, by_variable), isa);
        assert_true(isa <= bound && gen_isa_has_templates(isa));
        assert_true(gen_isa_granted() & GEN_ISA_BIT(isa));
        const char *why = gen_isa_granted() & GEN_ISA_BIT(bound) ? "no amx templates yet"
                                                                 : "this machine does not grant";
        if (isa == bound) {
            assert_string_equal(by_setting, ": ");
            assert_string_equal(by_variable, ": ");
            assert_int_equal(heard.len, 0);
        } else {
            (void)snprintf(want, sizeof want, "isa=%s becomes %s: ", names[i], gen_isa_name(isa));
            if (strncmp(by_setting, want, strlen(want)) != 0 || !strstr(by_setting, why))
                fail_msg("'%s' is not '%s%s'", by_setting, want, why);
            (void)snprintf(want, sizeof want, "REPRISE_ISA=%s becomes %s: ", names[i],
                           gen_isa_name(isa));
            if (strncmp(by_variable, want, strlen(want)) != 0 || !strstr(by_variable, why))
                fail_msg("'%s' is not '%s%s'", by_variable, want, why);
            CHECK_HEARD(&heard, want);
        }
        heard_done(&heard);
    }
}

/* What is typed counts, whatever the variable says, which is not looked at then. */
static void the_setting_wins(void **state) {
    static const char *const variables[] = {"portable", "avx512", "nonsense"};
    (void)state;
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 3; k++) {
            char alone[512], both[512];
            gen_isa isa = choose(names[i], false, alone);
            (void)setenv("REPRISE_ISA", variables[k], 1);
            assert_int_equal(choose(names[i], false, both), isa);
            assert_string_equal(both, alone);
        }
}

static void nobody_asked_nothing_is_noted(void **state) {
    char note[512];
    (void)state;
    assert_int_equal(choose("auto", false, note), gen_isa_best());
    assert_string_equal(note, ": ");
}

static void unknown_names_are_refused(void **state) {
    rp_error err = {0};
    gen_isa isa;
    rp_compilation_config *cfg = rp_config_new();
    (void)state;
    (void)setenv("REPRISE_ISA", "sse9", 1);
    assert_int_equal(engine_isa_choose(cfg, &isa, &err), RP_CONFIG);
    assert_non_null(strstr(err.text, "REPRISE_ISA=sse9"));
    (void)unsetenv("REPRISE_ISA");
    rp_config_free(cfg);
}

static int nothing_left(void **state) {
    (void)state;
    return base_live() != 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(setting_and_variable_do_the_same, nothing_left),
        cmocka_unit_test_teardown(the_setting_wins, nothing_left),
        cmocka_unit_test_teardown(nobody_asked_nothing_is_noted, nothing_left),
        cmocka_unit_test_teardown(unknown_names_are_refused, nothing_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
