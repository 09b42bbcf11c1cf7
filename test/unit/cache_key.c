/* Keys: what changes them, their JSON, and why a plan was not found. */
#include "support/check.h"
#include "support/stored_plan.h"
#include "support/trees.h"

#include <jansson.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "cache/key.h"

static char root[64];

static int set_up(void **state) {
    (void)state;
    return tree_make(root, sizeof root);
}

static int tear_down(void **state) {
    (void)state;
    return base_path_remove(root, NULL) == RP_OK ? 0 : -1;
}

/* Pairs of name and value, ended by NULL. */
static cache_key *make_key(const char *const *pairs) {
    cache_key *k = cache_key_new();
    rp_error err = {0};
    assert_non_null(k);
    for (; *pairs; pairs += 2) CHECK_OK(cache_key_add(k, pairs[0], pairs[1], &err), &err);
    return k;
}

#define KEY(...) make_key((const char *const[]){__VA_ARGS__, NULL})

static bool equal(cache_key *a, cache_key *b) {
    base_hash128 x = cache_key_hash(a), y = cache_key_hash(b);
    cache_key_free(a);
    cache_key_free(b);
    return x.lo == y.lo && x.hi == y.hi;
}

static void every_part_counts(void **state) {
    (void)state;
    assert_true(equal(KEY("isa", "avx2", "rows", "8"), KEY("isa", "avx2", "rows", "8")));
    assert_false(equal(KEY("isa", "avx2", "rows", "8"), KEY("isa", "avx2", "rows", "9")));
    assert_false(equal(KEY("isa", "avx2", "rows", "8"), KEY("isa", "avx2", "row", "8")));
    assert_false(equal(KEY("isa", "avx2", "rows", "8"), KEY("isa", "avx2")));
    assert_false(equal(KEY("a", "bc"), KEY("ab", "c"))); /* borders between parts count */
    assert_false(equal(KEY("a", "b", "c", "d"), KEY("a", "bc", "d", "")));
    assert_false(equal(KEY("a", ""), cache_key_new()));
}

static void a_factor_is_added_once(void **state) {
    (void)state;
    rp_error err = {0};
    cache_key *k = KEY("isa", "avx2");
    base_hash128 before = cache_key_hash(k);
    assert_int_equal(cache_key_add(k, "isa", "avx512", &err), RP_INTERNAL);
    assert_non_null(strstr(err.text, "isa"));
    base_hash128 after = cache_key_hash(k);
    assert_memory_equal(&before, &after, sizeof before);
    CHECK_OK(cache_key_addf(k, &err, "rows", "%d..%d", 1, 8), &err);
    CHECK_OK(cache_key_addf(k, &err, "empty", "%s", ""), &err);
    assert_true(equal(k, KEY("isa", "avx2", "rows", "1..8", "empty", "")));
}

/* Whichever of them it is. */
static void no_factor_is_added_again(void **state) {
    static const char *const names[] = {"one", "two", "three", "four"};
    cache_key *k = KEY("one", "1", "two", "2", "three", "3", "four", "4");
    (void)state;
    for (int i = 0; i < 4; i++) {
        rp_error err = {0};
        assert_int_equal(cache_key_add(k, names[i], "5", &err), RP_INTERNAL);
    }
    cache_key_free(k);
}

static void json_is_readable_whatever_the_bytes(void **state) {
    (void)state;
    rp_error err = {0};
    char *text = NULL;
    cache_key *k = KEY("plain", "avx2", "quote\"d", "a\\b\n\x01\x10\x1f", "utf8",
                       "na\xc3\xafve \xf0\x9f\x8c\x8a", "broken", "\xff\xc3(\xed\xa0\x80\xe2\x82",
                       "empty", "");
    CHECK_OK(cache_key_json(k, &text, &err), &err);
    json_t *j = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(j);
    assert_int_equal(json_object_size(j), 5);
    assert_string_equal(json_string_value(json_object_get(j, "plain")), "avx2");
    assert_string_equal(json_string_value(json_object_get(j, "quote\"d")), "a\\b\n\x01\x10\x1f");
    assert_string_equal(json_string_value(json_object_get(j, "utf8")),
                        "na\xc3\xafve \xf0\x9f\x8c\x8a");
    json_decref(j);
    base_free(text);
    cache_key_free(k);
    k = cache_key_new();
    CHECK_OK(cache_key_json(k, &text, &err), &err);
    j = json_loads(text, 0, NULL);
    assert_true(json_is_object(j));
    json_decref(j);
    base_free(text);
    cache_key_free(k);
    cache_key_free(NULL);
}

/* The first and last sequences of each length, and what is beside them. */
static void json_has_utf8_alone(void **state) {
    static const char *const valid[] = {"\xc2\x80",         "\xdf\xbf",        "\xe0\xa0\x80",
                                        "\xed\x9f\xbf",     "\xee\x80\x80",    "\xef\xbf\xbd",
                                        "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"},
                             *const broken[] = {"\x80",
                                                "\xc2",
                                                "\xc1\xbf",
                                                "\xe1\x80",
                                                "\xe0\x9f\xbf",
                                                "\xed\xa0\x80",
                                                "\xf0\x8f\xbf\xbf",
                                                "\xf4\x90\x80\x80",
                                                "\xf5\x80\x80\x80",
                                                "\xff"};
    (void)state;
    for (size_t i = 0; i < 18; i++) {
        rp_error err = {0};
        char *text = NULL, want[80] = "{\n  \"x\": \"";
        const char *z = i < 8 ? valid[i] : broken[i - 8];
        for (const char *p = z; *p; p++)
            (void)snprintf(want + strlen(want), sizeof want - strlen(want),
                           i < 8 ? "%c" : "\\u%04x", (unsigned char)*p);
        (void)snprintf(want + strlen(want), sizeof want - strlen(want), "\"\n}\n");
        cache_key *k = KEY("x", z);
        CHECK_OK(cache_key_json(k, &text, &err), &err);
        assert_string_equal(text, want);
        base_free(text);
        cache_key_free(k);
    }
}

static void why_names_what_differs(void **state) {
    (void)state;
    rp_error err = {0};
    cache_store *s = NULL;
    base_buf out;
    base_buf_init(&out, 0);
    CHECK_OK(cache_store_open(root, &s, &err), &err);
    cache_key *k = KEY("arch", "llama", "numerics", "exact", "isa", "avx512", "rows", "8");
    CHECK_OK(cache_why(s, k, &out, &err), &err);
    assert_string_equal(out.data, "no plan is stored\n");
    store_plan(s, KEY("arch", "llama", "numerics", "default", "isa", "avx2", "rows", "8"));
    store_plan(s, KEY("arch", "llama", "numerics", "default", "isa", "avx512", "rows", "8"));
    store_plan(s, KEY("arch", "llama", "numerics", "exact", "isa", "avx512", "sources", "12"));
    /* A damaged one is passed over. */
    CHECK_OK(cache_put_text(s, (base_hash128){1, 2}, "key_factors.json", "{\"arch\":", &err), &err);
    base_buf_clear(&out);
    CHECK_OK(cache_why(s, k, &out, &err), &err);
    char *line[4] = {out.data, NULL, NULL, NULL};
    for (int i = 1; i < 4; i++) {
        line[i] = strchr(line[i - 1], '\n');
        assert_non_null(line[i]);
        *line[i]++ = 0;
    }
    assert_string_equal(line[3], "");
    assert_string_equal(line[0] + 39, "1 of 4 factors differ: numerics \"default\" -> \"exact\"");
    /* the two with two differences come in the order of their keys */
    bool swapped = strstr(line[1], "sources") != NULL;
    assert_non_null(strstr(line[1 + !swapped], "rows (none) -> \"8\"; sources \"12\" -> (none)"));
    assert_non_null(
        strstr(line[1 + swapped], "numerics \"default\" -> \"exact\"; isa \"avx2\" -> \"avx512\""));
    /* Among those of one arch, and of one that nothing stored has. */
    cache_key *other = KEY("arch", "gpt2", "numerics", "exact", "isa", "avx512", "rows", "8");
    base_buf_clear(&out);
    CHECK_OK(cache_why_same(s, k, "arch", &out, &err), &err);
    assert_memory_equal(out.data + 38, " 1 of 4 factors differ: numerics", 30);
    base_buf_clear(&out);
    CHECK_OK(cache_why_same(s, other, "arch", &out, &err), &err);
    assert_int_equal(out.len, 0);
    CHECK_OK(cache_why_same(s, k, "sources", &out, &err), &err);
    assert_int_equal(out.len, 0); /* not a factor of k */
    cache_key_free(other);
    base_hash128 near = {0}, want;
    CHECK_OK(cache_key_find_but(s, k, "numerics", &near, &err), &err);
    other = KEY("arch", "llama", "numerics", "default", "isa", "avx512", "rows", "8");
    want = cache_key_hash(other);
    assert_memory_equal(&near, &want, sizeof near);
    cache_key_free(other);
    assert_int_equal(cache_key_find_but(s, k, "isa", &near, &err), RP_NOT_FOUND);
    store_plan(s, k);
    k = KEY("arch", "llama", "numerics", "exact", "isa", "avx512", "rows", "8");
    assert_int_equal(cache_key_find_but(s, k, "arch", &near, &err), RP_NOT_FOUND);
    base_buf_clear(&out);
    CHECK_OK(cache_why_same(s, k, "arch", &out, &err), &err);
    assert_non_null(strstr(out.data, ": all 4 factors equal, but it or code of it"));
    base_buf_clear(&out);
    CHECK_OK(cache_why(s, k, &out, &err), &err);
    assert_non_null(strstr(out.data, ": all 4 factors equal\n"));
    base_buf_done(&out);
    cache_key_free(k);
    cache_store_close(s);
}

static cache_store *open_empty(void) {
    cache_store *s = NULL;
    rp_error err = {0};
    CHECK_OK(base_path_remove(root, &err), &err);
    CHECK_OK(base_dir_make(root, &err), &err);
    CHECK_OK(cache_store_open(root, &s, &err), &err);
    return s;
}

/* Up to 80 characters are shown whole; what is no JSON is quoted. */
static void values_are_shown_up_to_a_length(void **state) {
    static const char *const firsts[] = {"x", "[", "{", "\""};
    (void)state;
    for (size_t f = 0; f < 4; f++)
        for (size_t len = 78; len <= 83; len++) {
            rp_error err = {0};
            char value[96], want[128];
            base_buf out;
            cache_store *s = open_empty();
            memset(value, 'x', len);
            value[0] = firsts[f][0];
            value[len] = 0;
            store_plan(s, KEY("a", value));
            cache_key *k = KEY("a", "y");
            base_buf_init(&out, 0);
            CHECK_OK(cache_why(s, k, &out, &err), &err);
            const char *quote = f ? "" : "\"";
            (void)snprintf(want, sizeof want, " a %s%.80s%s%s -> \"y\"\n", quote, value,
                           len > 80 ? "..." : "", quote);
            if (!strstr(out.data, want)) fail_msg("no '%s' in '%s'", want, out.data);
            base_buf_done(&out);
            cache_key_free(k);
            cache_store_close(s);
        }
}

/* No character is cut in two. */
static void values_are_cut_between_characters(void **state) {
    (void)state;
    for (size_t ascii = 76; ascii <= 80; ascii++) {
        rp_error err = {0};
        char value[96] = {0}, want[128];
        base_buf out;
        cache_store *s = open_empty();
        memset(value, 'x', ascii);
        for (size_t i = 0; i < 3; i++) memcpy(value + ascii + 4 * i, "\xf0\x9f\x8c\x8a", 4);
        store_plan(s, KEY("a", value));
        cache_key *k = KEY("a", "y");
        base_buf_init(&out, 0);
        CHECK_OK(cache_why(s, k, &out, &err), &err);
        size_t kept = ascii + (80 - ascii) / 4 * 4;
        (void)snprintf(want, sizeof want, " a \"%.*s...\" -> \"y\"\n", (int)kept, value);
        if (!strstr(out.data, want)) fail_msg("no '%s' in '%s'", want, out.data);
        base_buf_done(&out);
        cache_key_free(k);
        cache_store_close(s);
    }
}

/* Stores a plan of model m that differs from the asked one ("m0", all 0) in the first n of its five other factors. */
static base_hash128 store_differing(cache_store *s, const char *m, uint32_t n) {
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    const char *pairs[13] = {"model", m};
    for (uint32_t i = 0; i < 5; i++) {
        pairs[2 + 2 * i] = names[i];
        pairs[3 + 2 * i] = i < n ? m : "0";
    }
    cache_key *k = make_key(pairs);
    base_hash128 hash = cache_key_hash(k);
    store_plan(s, k);
    return hash;
}

static const char *text_in(const json_t *o, const char *key) {
    return json_string_value(json_object_get(o, key));
}

/* More plans than the first list holds: those of the same model first, then by the number of differences, then by key. */
static void all_plans_as_json_nearest_first(void **state) {
    (void)state;
    rp_error err = {0};
    char *text = NULL;
    cache_store *s = open_empty();
    cache_key *k = make_key((const char *const[]){"model", "m0", "a", "0", "b", "0", "c", "0", "d",
                                                  "0", "e", "0", NULL});
    for (uint32_t i = 0; i < 4; i++)
        for (uint32_t n = 0; n < 6; n++) {
            char model[8];
            (void)snprintf(model, sizeof model, "m%u", (i + 2) % 4);
            (void)store_differing(s, model, (n + 3) % 6);
        }
    CHECK_OK(cache_why_json(s, k, "model", &text, &err), &err);
    json_t *all = json_loads(text, 0, NULL), *o;
    base_free(text);
    assert_int_equal(json_array_size(all), 24);
    size_t i, before = 0;
    bool same = true;
    const char *last = "";
    json_array_foreach(all, i, o) {
        json_t *differ = json_object_get(o, "differ"), *d;
        bool now = json_is_true(json_object_get(o, "same_model"));
        size_t n = json_array_size(differ), j;
        assert_int_equal(now, i < 6);
        assert_int_equal(json_integer_value(json_object_get(o, "factors")), 6);
        if (i < 6) assert_int_equal(n, i);
        if (i > 0 && now == same && n == before)
            assert_true(strcmp(last, text_in(o, "plan")) < 0);
        else
            assert_true(i == 0 || now != same || n > before);
        json_array_foreach(differ, j, d) {
            assert_string_equal(text_in(d, "now"),
                                strcmp(text_in(d, "factor"), "model") ? "0" : "m0");
            assert_int_equal(text_in(d, "stored")[0], 'm');
        }
        same = now;
        before = n;
        last = text_in(o, "plan");
    }
    json_decref(all);
    cache_key_free(k);
    cache_store_close(s);
}

/* By the starts of their keys: what the first has is "stored", what the second has is "now". */
static void two_entries_are_compared(void **state) {
    (void)state;
    rp_error err = {0};
    char *text = NULL, a[33], b[33];
    cache_store *s = open_empty();
    base_hash128 ha = {0x1234567800000000, 0xab00000000000000}, hb = {1, 0xac00000000000000};
    base_hash_hex(ha, a);
    base_hash_hex(hb, b);
    CHECK_OK(
        cache_put_text(s, ha, "key_factors.json", "{\"x\":\"1\",\"y\":\"2\",\"z\":\"3\"}", &err),
        &err);
    CHECK_OK(cache_put_text(s, hb, "key_factors.json",
                            "{\"x\":\"1\",\"y\":\"4\",\"w\":\"5\",\"v\":\"6\"}", &err),
             &err);
    CHECK_OK(cache_compare_json(s, "ab", b, &text, &err), &err);
    json_t *o = json_loads(text, 0, NULL);
    base_free(text);
    assert_string_equal(text_in(o, "kind"), "plan");
    assert_string_equal(text_in(o, "key"), a);
    assert_string_equal(text_in(o, "with"), b);
    assert_int_equal(json_integer_value(json_object_get(o, "factors")), 4);
    json_free_t give;
    json_get_alloc_funcs(NULL, &give);
    char *differ = json_dumps(json_object_get(o, "differ"), JSON_COMPACT);
    assert_string_equal(differ, "[{\"factor\":\"y\",\"stored\":\"2\",\"now\":\"4\"},"
                                "{\"factor\":\"w\",\"stored\":null,\"now\":\"5\"},"
                                "{\"factor\":\"v\",\"stored\":null,\"now\":\"6\"},"
                                "{\"factor\":\"z\",\"stored\":\"3\",\"now\":null}]");
    give(differ);
    json_decref(o);
    assert_int_equal(cache_compare_json(s, "a", b, &text, &err), RP_INVALID);
    assert_string_equal(err.text, "2 entries begin with 'a'; give more of the key");
    err = (rp_error){0};
    assert_int_equal(cache_compare_json(s, a, "abc", &text, &err), RP_NOT_FOUND);
    assert_non_null(strstr(err.text, "no entry begins with 'abc'"));
    /* Code, too, but not with a plan; a folder of texts without factors is none of them. */
    cache_key *k = KEY("isa", "avx2", "source", "1");
    char *json = NULL;
    base_hash_hex(cache_key_hash(k), b);
    err = (rp_error){0};
    CHECK_OK(cache_put_factors(s, CACHE_CODE, k, &err), &err);
    CHECK_OK(cache_put_text(s, (base_hash128){7, 0xab11000000000000}, "x", "y", &err), &err);
    CHECK_OK(cache_compare_json(s, b, b, &json, &err), &err);
    o = json_loads(json, 0, NULL);
    assert_string_equal(text_in(o, "kind"), "code");
    assert_int_equal(json_array_size(json_object_get(o, "differ")), 0);
    json_decref(o);
    base_free(json);
    assert_int_equal(cache_compare_json(s, a, b, &text, &err), RP_INVALID);
    assert_non_null(strstr(err.text, "is plan and"));
    err = (rp_error){0};
    assert_int_equal(cache_compare_json(s, "ab11", b, &text, &err), RP_NOT_FOUND);
    cache_key_free(k);
    cache_store_close(s);
}

/* Of settings with a usual value only what is another, of switches of fusion only where something is fused. */
static void settings_are_told_where_they_are_not_usual(void **state) {
    static const struct {
        const char *factors, *want;
    } cases[] = {
        {"\"backend\":\"\\\"inductor\\\"\",\"skip_passes\":\"[]\",\"target.sums\":\"tensor cores\"",
         "backend=\"inductor\""},
        {"\"target.sums\":\"exact\",\"skip_passes\":\"[\\\"fold\\\"]\",\"max_num_seqs\":\"7\"",
         "target.sums=exact max_num_seqs=7 skip_passes=[\"fold\"]"},
        {"\"backend\":\"x\",\"pass_config.fuse_attn_quant\":\"false\",\"pass_config.fuse_act_"
         "quant\":\"true\"",
         "backend=x"},
        {"\"backend\":\"x\",\"pass_config.fuse_attn_quant\":\"true\"",
         "backend=x pass_config.fuse_attn_quant=true"},
        {"\"backend\":\"x\",\"pass_config.fuse_act_quant\":\"false\"",
         "backend=x pass_config.fuse_act_quant=false"},
        {"\"backend\":\"\\\"eager\\\"\",\"pass_config.fuse_act_quant\":\"false\"",
         "backend=\"eager\""},
        {"\"function\":\"f\",\"program\":\"p\",\"other\":\"o\"", "program=p function=f"}};
    rp_error err = {0};
    cache_store *s = open_empty();
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[400], hex[33], *model = NULL, *settings = NULL;
        const base_hash128 h = {5, i + 1};
        base_hash_hex(h, hex);
        (void)snprintf(text, sizeof text, "{%s}", cases[i].factors);
        CHECK_OK(cache_put_text(s, h, "key_factors.json", text, &err), &err);
        CHECK_OK(cache_about(s, hex, &model, &settings, &err), &err);
        assert_null(model);
        assert_string_equal(settings, cases[i].want);
        base_free(settings);
    }
    cache_store_close(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_part_counts),
        cmocka_unit_test(a_factor_is_added_once),
        cmocka_unit_test(no_factor_is_added_again),
        cmocka_unit_test(json_is_readable_whatever_the_bytes),
        cmocka_unit_test(json_has_utf8_alone),
        cmocka_unit_test(why_names_what_differs),
        cmocka_unit_test(values_are_shown_up_to_a_length),
        cmocka_unit_test(values_are_cut_between_characters),
        cmocka_unit_test(all_plans_as_json_nearest_first),
        cmocka_unit_test(two_entries_are_compared),
        cmocka_unit_test(settings_are_told_where_they_are_not_usual),
    };
    return cmocka_run_group_tests_name("cache_key", tests, set_up, tear_down);
}
