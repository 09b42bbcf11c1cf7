/* Keys, printed forms and the pages made from the tables; the loop over every setting. */
#include "support/check.h"

#include "base/alloc.h"
#include "config/config.h"
#include "config/table.h"

static char *key_text(const rp_compilation_config *cfg, rp_key_scope scope) {
    char *text = NULL;
    rp_error err = {0};
    CHECK_OK(rp_config_key_pieces(cfg, scope, &text, &err), &err);
    return text;
}

/* A value of the field that is neither its default nor off. */
static json_t *other_value(const config_field *f) {
    int64_t low = f->min == INT64_MIN ? 1 : f->min;
    switch (f->kind) {
    case CONFIG_KIND_BOOL: return json_boolean(strcmp(f->deflt, "true") != 0);
    case CONFIG_KIND_OBOOL: return json_true();
    case CONFIG_KIND_INT: return json_integer(atoi(f->deflt) + 1);
    case CONFIG_KIND_OINT: return json_integer(low + 1);
    case CONFIG_KIND_FLOAT: return json_real(0.25);
    case CONFIG_KIND_STR: return json_string("cuda:7");
    case CONFIG_KIND_ENUM:
    case CONFIG_KIND_OENUM:
        for (size_t i = 0; i < f->names->n; i++)
            if (f->names->v[i].value != f->names->v[0].value &&
                strcmp(f->names->v[i].name, f->deflt) != 0)
                return json_string(f->names->v[i].name);
        return NULL;
    case CONFIG_KIND_INTS:
    case CONFIG_KIND_SIZES: return json_pack("[I]", (json_int_t)low + 2);
    case CONFIG_KIND_STRS: return json_pack("[s]", "+a::b");
    case CONFIG_KIND_DICT: return json_pack("{s:b}", "max_autotune", 1);
    }
    return NULL;
}

/* Law: each setting changes the keys that it is said to change, and no other. */
static void each_setting_changes_the_key_or_is_declared_not_to(void **state) {
    (void)state;
    rp_compilation_config *base = rp_config_new();
    char *outer = key_text(base, RP_KEY_OUTER), *piece = key_text(base, RP_KEY_PIECE);
    for (int i = 0; i < CONFIG_ID_COUNT_; i++) {
        const config_field *f = &config_table[i];
        rp_error err = {0};
        rp_compilation_config *cfg = rp_config_new();
        json_t *value = other_value(f);
        assert_non_null(value);
        CHECK_OK(config_value_set(f, config_slot(cfg, i), value, &err), &err);
        assert_false(config_value_is_default(f, config_slot(cfg, i)));
        char *new_outer = key_text(cfg, RP_KEY_OUTER), *new_piece = key_text(cfg, RP_KEY_PIECE);
        bool in_outer = strcmp(outer, new_outer) != 0, in_piece = strcmp(piece, new_piece) != 0;
        if (in_outer != (f->key != CONFIG_KEY_NONE) || in_piece != (f->key == CONFIG_KEY_PIECE))
            fail_msg("%s: plan key changes %d, piece key changes %d", f->name, in_outer, in_piece);
        if (f->key == CONFIG_KEY_NONE && (!f->key_reason || !f->key_reason[0]))
            fail_msg("%s: no reason why it is not in the key", f->name);
        rp_config_text_free(new_outer);
        rp_config_text_free(new_piece);
        json_decref(value);
        rp_config_free(cfg);
    }
    rp_config_text_free(outer);
    rp_config_text_free(piece);
    rp_config_free(base);
}

/* A number is what its JSON says; of a name it is the value of the name. */
static void numbers_are_what_the_text_says(void **state) {
    (void)state;
    for (int i = 0; i < CONFIG_ID_COUNT_; i++) {
        const config_field *f = &config_table[i];
        rp_error err = {0};
        rp_compilation_config *cfg = rp_config_new(), *none = rp_config_new();
        json_t *value = other_value(f);
        int64_t v = -7, want = -7;
        rp_status expected = RP_OK;
        bool optional = f->kind == CONFIG_KIND_OBOOL || f->kind == CONFIG_KIND_OINT ||
                        f->kind == CONFIG_KIND_OENUM;
        if (optional && strcmp(f->deflt, "null") == 0)
            assert_int_equal(rp_config_get_int(none, f->name, &v, NULL), RP_NOT_FOUND);
        CHECK_OK(config_value_set(f, config_slot(cfg, i), value, &err), &err);
        switch (f->kind) {
        case CONFIG_KIND_BOOL:
        case CONFIG_KIND_OBOOL: want = json_is_true(value); break;
        case CONFIG_KIND_INT:
        case CONFIG_KIND_OINT: want = json_integer_value(value); break;
        case CONFIG_KIND_ENUM:
        case CONFIG_KIND_OENUM:
            for (size_t k = 0; k < f->names->n; k++)
                if (strcmp(f->names->v[k].name, json_string_value(value)) == 0)
                    want = f->names->v[k].value;
            break;
        default: expected = RP_CONFIG;
        }
        rp_status st = rp_config_get_int(cfg, f->name, &v, &err);
        if (st != expected || v != want)
            fail_msg("%s: %s, %lld, expected %lld", f->name, rp_status_name(st), (long long)v,
                     (long long)want);
        json_decref(value);
        rp_config_free(cfg);
        rp_config_free(none);
    }
}

static void names_are_unique_and_targets_exist(void **state) {
    (void)state;
    for (int i = 0; i < CONFIG_ID_COUNT_; i++)
        assert_int_equal(config_find(config_table[i].name), i);
    for (size_t i = 0; i < config_n_aliases; i++) {
        assert_true(config_find(config_aliases[i].name) < 0);
        assert_true(config_find(config_aliases[i].target) >= 0);
    }
    for (size_t i = 0; i < config_n_readonly; i++)
        assert_true(config_find(config_readonly[i].name) < 0);
}

/* What is printed can be given again and means the same. */
static void printed_json_reads_back(void **state) {
    (void)state;
    rp_error err = {0};
    char *a = NULL, *b = NULL;
    rp_compilation_config *cfg = rp_config_new(), *again = rp_config_new();
    for (int i = 0; i < CONFIG_ID_COUNT_; i++) {
        const config_field *f = &config_table[i];
        if (f->status == CONFIG_DERIVED) continue;
        json_t *value = other_value(f);
        CHECK_OK(config_value_set(f, config_slot(cfg, i), value, &err), &err);
        json_decref(value);
    }
    CHECK_OK(rp_config_to_json(cfg, &a, &err), &err);
    assert_null(strchr(a, '\n'));
    CHECK_OK(rp_config_set_json(again, "{\"level\":2}", &err), &err);
    json_t *root = json_loads(a, 0, NULL);
    json_object_del(root, "graph_bs"); /* computed ones cannot be given */
    json_object_del(root, "decode_capture_sizes");
    json_object_del(root, "mixed_capture_sizes");
    char *text = config_json_text(root);
    CHECK_OK(rp_config_set_json(again, text, &err), &err);
    CHECK_OK(rp_config_to_json(again, &b, &err), &err);
    assert_string_equal(a, b);
    json_decref(root);
    base_free(text);
    rp_config_text_free(a);
    rp_config_text_free(b);
    rp_config_free(cfg);
    rp_config_free(again);
}

/* The order of typing, spelling and names do not matter to a key. */
static void equal_settings_give_equal_keys(void **state) {
    (void)state;
    static const char *const ways[] = {
        "{\"level\":3,\"inductor_compile_config\":{\"a\":0,\"b\":{}},\"numerics\":\"exact\"}",
        "{\"numerics\":\"EXACT\",\"mode\":\"vllm_compile\",\"compilation_config\":"
        "{\"inductor_compile_config\":{\"b\":{},\"a\":0}}}",
    };
    char *keys[2];
    for (int i = 0; i < 2; i++) {
        rp_error err = {0};
        rp_compilation_config *cfg = rp_config_new();
        CHECK_OK(rp_config_set_json(cfg, ways[i], &err), &err);
        CHECK_OK(rp_config_set(cfg, i ? "threads=2" : "cache_dir=/somewhere", &err), &err);
        CHECK_OK(rp_config_resolve(cfg, NULL, &err), &err);
        keys[i] = key_text(cfg, RP_KEY_OUTER);
        rp_config_free(cfg);
    }
    assert_string_equal(keys[0], keys[1]);
    assert_non_null(strstr(keys[0], "backend=\"inductor\"\n"));
    assert_null(strstr(keys[0], "somewhere"));
    rp_config_text_free(keys[0]);
    rp_config_text_free(keys[1]);
}

static void help_shows_every_setting(void **state) {
    (void)state;
    char *text = NULL;
    rp_error err = {0};
    CHECK_OK(rp_config_help_text(&text, &err), &err);
    for (int i = 0; i < CONFIG_ID_COUNT_; i++) {
        char line[128];
        (void)snprintf(line, sizeof line, "\n  %s=", config_table[i].name);
        if (!strstr(text, line)) fail_msg("%s is not in the help text", config_table[i].name);
    }
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1)
        if (end - line > 100) fail_msg("a line of %d characters: %.60s", (int)(end - line), line);
    rp_config_text_free(text);
}

/* A setting by its name and by its others, of which one may stand for several. */
static void help_shows_one_setting(void **state) {
    static const struct {
        const char *key, *begins, *has;
    } cases[] = {
        {"level", "  level=0\n", "or one of NO_COMPILATION, "},
        {"mode", "  mode is level\n  level=0\n", "or one of NO_COMPILATION, "},
        {"pass_config.enable_fusion",
         "  pass_config.enable_fusion is pass_config.fuse_norm_quant\n",
         "  pass_config.enable_fusion is pass_config.fuse_act_quant\n"},
    };
    char *text = NULL;
    rp_error err = {0};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK_OK(rp_config_help_of(cases[i].key, &text, &err), &err);
        if (strncmp(text, cases[i].begins, strlen(cases[i].begins)) != 0 ||
            !strstr(text, cases[i].has))
            fail_msg("%s: %s", cases[i].key, text);
        assert_null(strstr(text, "cudagraph_mode"));
        rp_config_text_free(text);
    }
    assert_int_equal(rp_config_help_of("levl", &text, &err), RP_CONFIG);
    assert_string_equal(err.text, "unknown setting levl; did you mean level");
    assert_int_equal(rp_config_help_of("xyzzyxyzzy", &text, &err), RP_CONFIG);
    assert_string_equal(err.text, "unknown setting xyzzyxyzzy");
}

/* The page on disk, or "" when there is none. */
static void current(const char *path, char *(*make)(void)) {
    char *want = make(), *have = calloc(1, 1 << 20);
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(have, 1, (1 << 20) - 1, f) : 0;
    if (f) (void)fclose(f);
    if (strlen(want) != n || memcmp(want, have, n) != 0) {
        if (BLESSING()) {
            f = fopen(path, "w");
            assert_non_null(f);
            assert_int_equal(fwrite(want, 1, strlen(want), f), strlen(want));
            assert_int_equal(fclose(f), 0);
        } else
            fail_msg("%s is not current; BLESS=1 make test rewrites it", path);
    }
    free(have);
    rp_config_text_free(want);
}

static char *config_page(void) {
    char *text = NULL;
    rp_error err = {0};
    CHECK_OK(rp_config_doc_markdown(&text, &err), &err);
    return text;
}

static char *env_page(void) {
    char *text = NULL;
    rp_error err = {0};
    CHECK_OK(rp_env_doc_markdown(&text, &err), &err);
    return text;
}

static void committed_pages_are_current(void **state) {
    (void)state;
    current("docs/config.md", config_page);
    current("docs/env.md", env_page);
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    rp_status (*const makers[])(char **, rp_error *) = {rp_config_help_text, rp_config_doc_markdown,
                                                        rp_env_doc_markdown};
    size_t before = base_live();
    for (int i = 0; i < 3; i++)
        FOR_EACH_ALLOC_FAILURE (n) {
            rp_error err = {0};
            char *text = NULL;
            rp_status st = makers[i](&text, &err);
            assert_true(st == RP_OK || (st == RP_NOMEM && !text));
            rp_config_text_free(text);
            assert_int_equal(base_live(), before);
        }
}

/* In a message: no byte that a terminal acts on, whole characters, and so many of them. */
static void text_is_shown_in_a_line(void **state) {
    static const char *const cases[][2] = {
        {"", ""},
        {"a\nb\tc", "a?b?c"},
        {"\x1b[1m\x7f~ ", "?[1m?~ "},
        {"\xc3\xa9", "\xc3\xa9"},
        {"\xff\xc3\xa9", "???"},
    };
    char text[CONFIG_SHOWN + 8], out[CONFIG_SHOWN], want[CONFIG_SHOWN + 8];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(config_shown(cases[i][0], out), cases[i][1]);
    for (size_t n = CONFIG_SHOWN - 2; n < CONFIG_SHOWN + 2; n++) {
        memset(text, 'x', n);
        text[n] = 0;
        memcpy(want, text, n + 1);
        if (n >= CONFIG_SHOWN) memcpy(want + CONFIG_SHOWN - 4, "...", 4);
        assert_string_equal(config_shown(text, out), want);
    }
    memcpy(text + CONFIG_SHOWN - 5, "\xc3\xa9", 2); /* half of it would be kept */
    memcpy(want, text, CONFIG_SHOWN - 5);
    memcpy(want + CONFIG_SHOWN - 5, "...", 4);
    assert_string_equal(config_shown(text, out), want);
}

/* A path is text of any bytes: what is no UTF-8 is shown as U+FFFD, byte by byte, and nothing else is lost. */
static void text_of_any_bytes_is_json(void **state) {
    static const char *const cases[][2] = {
        {"", ""},
        {"/a/\xc3\xa9", "/a/\xc3\xa9"},
        {"\xff/x", "\xef\xbf\xbd/x"},
        {"\xc3\xa9\xc3", "\xc3\xa9\xef\xbf\xbd"},
        {"\xe2\x82z", "\xef\xbf\xbd\xef\xbf\xbdz"},
        {"\xff\xf0\x9f\x98\x80", "\xef\xbf\xbd\xf0\x9f\x98\x80"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *j = config_text_json(cases[i][0]);
        assert_string_equal(json_string_value(j), cases[i][1]);
        json_decref(j);
    }
    json_t *none = config_text_json(NULL);
    assert_true(json_is_null(none));
    json_decref(none);
    rp_error err = {0};
    char *text = NULL;
    rp_compilation_config *cfg = rp_config_new();
    base_free(cfg->debug_dump_path);
    cfg->debug_dump_path = base_strdup("d\xff"); /* as from the environment */
    CHECK_OK(rp_config_to_json(cfg, &text, &err), &err);
    assert_non_null(strstr(text, "\"debug_dump_path\":\"d\xef\xbf\xbd\""));
    rp_config_text_free(text);
    rp_config_free(cfg);
}

static int nothing_left(void **state) {
    (void)state;
    return base_live() != 0;
}
#define TEST(name) cmocka_unit_test_teardown(name, nothing_left)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(each_setting_changes_the_key_or_is_declared_not_to),
        TEST(numbers_are_what_the_text_says),
        TEST(names_are_unique_and_targets_exist),
        TEST(printed_json_reads_back),
        TEST(text_is_shown_in_a_line),
        TEST(text_of_any_bytes_is_json),
        TEST(equal_settings_give_equal_keys),
        TEST(help_shows_every_setting),
        TEST(help_shows_one_setting),
        TEST(committed_pages_are_current),
        TEST(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
