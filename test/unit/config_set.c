/* What the user types: JSON, dot notation, other names, and the text of each refusal. */
#include "support/check.h"

#include "base/alloc.h"
#include "config/config.h"
#include "config/table.h"

static rp_compilation_config *cfg;

static int setup(void **state) {
    (void)state;
    cfg = rp_config_new();
    return cfg == NULL;
}

static int teardown(void **state) {
    (void)state;
    rp_config_free(cfg);
    return base_live() != 0;
}

static void good(rp_status st, const rp_error *err) {
    if (st != RP_OK) fail_msg("%s: %s", rp_status_name(st), err->text);
}

static void json_ok(const char *json) {
    rp_error err = {0};
    good(rp_config_set_json(cfg, json, &err), &err);
}

static void dot_ok(const char *text) {
    rp_error err = {0};
    good(rp_config_set(cfg, text, &err), &err);
}

static void json_fails(const char *json, rp_status code, const char *text) {
    rp_error err = {0};
    assert_int_equal(rp_config_set_json(cfg, json, &err), code);
    assert_string_equal(err.text, text);
}

static void dot_fails(const char *assignment, rp_status code, const char *text) {
    rp_error err = {0};
    assert_int_equal(rp_config_set(cfg, assignment, &err), code);
    assert_string_equal(err.text, text);
}

static void is(const char *key, const char *expected) {
    rp_error err = {0};
    char *text = NULL;
    good(rp_config_get_json(cfg, key, &text, &err), &err);
    assert_string_equal(text, expected);
    rp_config_text_free(text);
}

static void nested_and_dotted_are_equal(void **state) {
    (void)state;
    json_ok("{\"pass_config\":{\"fuse_norm_quant\":true},\"level\":3,"
            "\"dynamic_shapes_config\":{\"type\":\"UNBACKED\"}}");
    json_ok("{\"pass_config.fuse_act_quant\":false,\"max-num-seqs\":7}");
    json_ok("{\"compilation_config\":{\"cudagraph_mode\":\"full_decode_only\"},"
            "\"compilation_config.use_inductor\":false}");
    dot_ok("pass_config={\"eliminate_noops\":true}");
    is("pass_config.fuse_norm_quant", "true");
    is("pass_config.fuse_act_quant", "false");
    is("pass_config.eliminate_noops", "true");
    is("dynamic_shapes_config.type", "\"unbacked\"");
    is("cudagraph_mode", "\"FULL_DECODE_ONLY\"");
    is("use_inductor", "false");
    is("max_num_seqs", "7");
    is("level", "3");
    dot_ok("compilation-config.level=2");
    json_ok("{\"compilation-config\":{\"max-num-seqs\":9}}");
    is("max_num_seqs", "9");
    is("level", "2");
}

static void dot_notation_reads_every_kind(void **state) {
    (void)state;
    dot_ok("use_inductor=False");
    dot_ok("enforce_eager=1");
    dot_ok("level=3");
    dot_ok("gpu_memory_utilization=0.5");
    dot_ok("debug_dump_path=/tmp/a=b");
    dot_ok("cudagraph_capture_sizes=1, 2,4");
    dot_ok("compile_sizes=[1,\"cudagraph_capture_sizes\"]");
    dot_ok("splitting_ops=[aiter.mla_attention,vllm::x]");
    dot_ok("inductor_compile_config={\"max_autotune\":true}");
    dot_ok("inductor_compile_config.depth=2");
    is("use_inductor", "false");
    is("enforce_eager", "true");
    dot_ok("enforce_eager=0");
    is("enforce_eager", "false");
    dot_ok("enforce_eager=TRUE");
    is("enforce_eager", "true");
    is("gpu_memory_utilization", "0.5");
    is("debug_dump_path", "\"/tmp/a=b\"");
    is("cudagraph_capture_sizes", "[1,2,4]");
    is("compile_sizes", "[1,\"cudagraph_capture_sizes\"]");
    is("splitting_ops", "[\"aiter.mla_attention\",\"vllm::x\"]");
    is("inductor_compile_config", "{\"depth\":2,\"max_autotune\":true}");
    dot_ok("cudagraph_capture_sizes=all");
    is("cudagraph_capture_sizes", "\"all\"");
    dot_ok("cudagraph_capture_sizes=[]");
    is("cudagraph_capture_sizes", "[]");
    dot_ok("splitting_ops=");
    is("splitting_ops", "[]");
    dot_ok("splitting_ops=['vllm::x', \"a::b\" ,c::d]");
    is("splitting_ops", "[\"vllm::x\",\"a::b\",\"c::d\"]");
    dot_ok("splitting_ops=7"); /* a name */
    is("splitting_ops", "[\"7\"]");
}

/* Which ops run by their own functions: the last base word, or the level and backend where there is none, and what is said of one. */
static void rules_of_custom_ops(void **state) {
    static const struct {
        const char *rules, *more;
        bool on, other; /* ns::one, ns::two */
    } all[] = {{"[]", "level=0", true, true},
               {"[]", "level=2", false, false},
               {"[]", "level=3", false, false},
               {"[]", "backend=eager", true, true},
               {"[\"all\"]", "level=3", true, true},
               {"[\"none\"]", "level=0", false, false},
               {"[\"all\",\"-one\"]", "level=3", false, true},
               {"[\"-ns::one\",\"all\"]", "level=3", false, true},
               {"[\"none\",\"+ns::two\"]", "level=0", false, true},
               {"[\"+two\"]", "level=3", false, true},
               {"[\"-two\"]", "level=0", true, false},
               {"[\"+twos\",\"+ns\",\"+:two\"]", "level=3", false, false}};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char text[96];
        rp_config_free(cfg);
        cfg = rp_config_new();
        (void)snprintf(text, sizeof text, "custom_ops=%s", all[i].rules);
        dot_ok("level=3");
        dot_ok("backend=inductor");
        dot_ok(all[i].more);
        dot_ok(text);
        if (config_custom_op_on(cfg, "ns::one") != all[i].on) fail_msg("one: %s", text);
        if (config_custom_op_on(cfg, "ns::two") != all[i].other) fail_msg("two: %s", text);
    }
    static const char *const ops[] = {"ns::one", "ns::two"};
    static const struct {
        const char *rules, *unknown;
    } names[] = {{"[\"all\",\"+one\",\"-ns::two\"]", NULL},
                 {"[\"none\",\"-three\",\"+four\"]", "-three"},
                 {"[\"+one\",\"+other::one\"]", "+other::one"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char text[96];
        (void)snprintf(text, sizeof text, "custom_ops=%s", names[i].rules);
        dot_ok(text);
        const char *got = config_custom_op_unknown(cfg, ops, 2), *want = names[i].unknown;
        if (!got != !want || (got && strcmp(got, want) != 0)) fail_msg("%s: %s", text, got);
    }
}

static void lists_can_be_appended_to(void **state) {
    (void)state;
    dot_ok("custom_ops+=+a,-b");
    dot_ok("custom_ops+=none");
    is("custom_ops", "[\"+a\",\"-b\",\"none\"]");
    rp_error err = {0};
    good(rp_config_set_key(cfg, "compile-sizes+", "8", &err), &err);
    good(rp_config_set_key(cfg, "compile_sizes+", "cudagraph_capture_sizes", &err), &err);
    is("compile_sizes", "[8,\"cudagraph_capture_sizes\"]");
    dot_ok("compile_ranges_split_points+=64");
    is("compile_ranges_endpoints", "[64]");
    dot_fails("level+=1", RP_CONFIG, "level+=1: only a list can be appended to; use level=");
    /* What was there stays, be it a list, a word or nothing. */
    dot_ok("compile_sizes=cudagraph_capture_sizes");
    dot_ok("compile_sizes+=4");
    is("compile_sizes", "[4,\"cudagraph_capture_sizes\"]");
    dot_ok("cudagraph_capture_sizes=all");
    dot_ok("cudagraph_capture_sizes+=4");
    is("cudagraph_capture_sizes", "[4,\"all\"]");
    dot_ok("cudagraph_capture_sizes=2");
    dot_ok("cudagraph_capture_sizes+=[8,4]");
    is("cudagraph_capture_sizes", "[2,8,4]");
    dot_ok("splitting_ops+=a::b");
    is("splitting_ops", "[\"a::b\"]");
}

/* A bracket that opens or closes alone is no list. */
static void brackets_come_in_pairs(void **state) {
    static const char must[] = "expected a list of integers from 1 to 1048576 or \"all\"";
    static const char *const lists[][2] = {
        {"[1,2", "[\"[1\",2]"},   {"1,2]", "[1,\"2]\"]"}, {"[", "\"[\""},      {"]", "\"]\""},
        {"[1,,2]", "[1,\"\",2]"}, {"1,2,", "[1,2,\"\"]"}, {"[1,]", "[1,\"\"]"}};
    (void)state;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        char set[64], text[160];
        (void)snprintf(set, sizeof set, "cudagraph_capture_sizes=%s", lists[i][0]);
        (void)snprintf(text, sizeof text, "cudagraph_capture_sizes=%s: %s", lists[i][1], must);
        dot_fails(set, RP_CONFIG, text);
    }
    dot_ok("cudagraph_capture_sizes=[]");
    is("cudagraph_capture_sizes", "[]");
    dot_ok("cudagraph_capture_sizes=[4]");
    is("cudagraph_capture_sizes", "[4]");
}

static void levels_have_the_names_of_both_seeds(void **state) {
    (void)state;
    static const struct {
        const char *text, *level;
    } cases[] = {
        {"level=no_compilation", "0"},
        {"level=DYNAMO_AS_IS", "1"},
        {"level=dynamo-once", "2"},
        {"level=Piecewise", "3"},
        {"mode=NONE", "0"},
        {"mode=STOCK_TORCH_COMPILE", "1"},
        {"mode=DYNAMO_TRACE_ONCE", "2"},
        {"mode=vllm_compile", "3"},
        {"mode=1", "1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        json_ok("{\"level\":null}");
        dot_ok(cases[i].text);
        is("level", cases[i].level);
        is("mode", cases[i].level);
    }
}

static void two_names_of_one_setting_may_not_differ(void **state) {
    (void)state;
    dot_ok("mode=3");
    dot_ok("level=3");
    dot_fails("mode=2", RP_CONFIG,
              "mode=2 contradicts level=3: two names of one setting; give one of them");
    is("level", "3");
    dot_ok("level=1"); /* the same name again: the last one counts */
    is("level", "1");
    dot_ok("pass_config.enable_fusion=true");
    is("pass_config.fuse_norm_quant", "true");
    is("pass_config.fuse_act_quant", "true");
}

static void null_takes_a_setting_back(void **state) {
    (void)state;
    assert_false(rp_config_is_typed(cfg, "cuda_graph_sizes"));
    json_ok("{\"cuda_graph_sizes\":[8],\"cudagraph_mode\":\"FULL\",\"mode\":3}");
    assert_true(rp_config_is_typed(cfg, "cuda_graph_sizes"));
    assert_true(rp_config_is_typed(cfg, "level"));
    json_ok("{\"cuda_graph_sizes\":null,\"cudagraph_mode\":null,\"mode\":null}");
    assert_false(rp_config_is_typed(cfg, "cuda_graph_sizes"));
    assert_false(rp_config_is_typed(cfg, "mode"));
    is("cuda_graph_sizes", "[512]");
    is("cudagraph_mode", "null");
    assert_false(rp_config_is_typed(cfg, "no_such_thing"));
    static const char *const typed[] = {"level=3", "max_num_seqs=4", "numerics=exact",
                                        "device=cpu"};
    for (size_t i = 0; i < 4; i++) dot_ok(typed[i]);
    for (size_t i = 0; i < 4; i++) {
        char back[64];
        (void)snprintf(back, sizeof back, "%.*s=null", (int)strcspn(typed[i], "="), typed[i]);
        dot_ok(back);
    }
    assert_false(rp_config_is_typed(cfg, "level"));
    assert_false(rp_config_is_typed(cfg, "max_num_seqs"));
    dot_ok("max_num_seqs=8");
    dot_ok("cuda_graph_sizes=[8]");
    dot_ok("max_num_seqs=NULL"); /* however it is written */
    dot_ok("cuda_graph_sizes=Null");
    assert_false(rp_config_is_typed(cfg, "max_num_seqs"));
    is("cuda_graph_sizes", "[512]");
    is("numerics", "\"default\"");
    is("device", "\"null\""); /* a device of that name */
}

static void unknown_names_get_the_nearest(void **state) {
    (void)state;
    json_fails("{\"cudagraph_mod\":1}", RP_CONFIG,
               "unknown setting cudagraph_mod; did you mean cudagraph_mode? 'reprise help config' "
               "lists all");
    json_fails("{\"fuse_norm_quant\":true}", RP_CONFIG,
               "unknown setting fuse_norm_quant; did you mean pass_config.fuse_norm_quant? "
               "'reprise help config' lists all");
    json_fails("{\"pass_config\":{\"fuse_norm_quantt\":true}}", RP_CONFIG,
               "unknown setting pass_config.fuse_norm_quantt; did you mean "
               "pass_config.fuse_norm_quant? 'reprise help config' lists all");
    dot_fails("qqqqqqqqqqqqqq=1", RP_CONFIG,
              "unknown setting qqqqqqqqqqqqqq; 'reprise help config' lists all");
    json_fails("{\"a\\nb\":1}", RP_CONFIG, "unknown setting a?b; 'reprise help config' lists all");
    json_fails("{\"compilation_time\":1}", RP_CONFIG,
               "compilation_time cannot be set: the run measures it");
    json_fails("{\"graph_bs\":[1]}", RP_CONFIG,
               "graph_bs is computed; set cudagraph_capture_sizes");
}

static void wrong_types_name_key_value_and_expected(void **state) {
    (void)state;
    json_fails("{\"use_inductor\":1}", RP_CONFIG, "use_inductor=1: expected true or false");
    json_fails("{\"max_num_seqs\":0}", RP_CONFIG,
               "max_num_seqs=0: expected an integer from 1 to 65536");
    json_fails("{\"max_num_seqs\":1.5}", RP_CONFIG,
               "max_num_seqs=1.5: expected an integer from 1 to 65536");
    dot_fails("max_num_seqs=lots", RP_CONFIG,
              "max_num_seqs=\"lots\": expected an integer from 1 to 65536");
    json_fails("{\"level\":4}", RP_CONFIG,
               "level=4: expected 0 to 3 or one of NO_COMPILATION, NONE, DYNAMO_AS_IS, "
               "STOCK_TORCH_COMPILE, DYNAMO_ONCE, DYNAMO_TRACE_ONCE, PIECEWISE, VLLM_COMPILE");
    json_fails("{\"cudagraph_mode\":3}", RP_CONFIG,
               "cudagraph_mode=3: expected 0 to 2 or one of NONE, PIECEWISE, FULL, "
               "FULL_DECODE_ONLY, FULL_AND_PIECEWISE");
    json_fails("{\"numerics\":\"double\"}", RP_CONFIG,
               "numerics=\"double\": expected one of default, exact");
    json_fails("{\"cudagraph_capture_sizes\":[1,-2]}", RP_CONFIG,
               "cudagraph_capture_sizes=[1,-2]: expected a list of integers from 1 to 1048576 or "
               "\"all\"");
    json_fails("{\"cuda_graph_sizes\":\"all\"}", RP_CONFIG,
               "cuda_graph_sizes=\"all\": expected a list of integers from 1 to 1048576");
    json_fails("{\"splitting_ops\":[1]}", RP_CONFIG,
               "splitting_ops=[1]: expected a list of strings");
    json_fails("{\"inductor_compile_config\":[]}", RP_CONFIG,
               "inductor_compile_config=[]: expected an object");
    json_fails("{\"cache_dir\":{\"a\":1}}", RP_CONFIG, "cache_dir={\"a\":1}: expected a string");
    json_fails("{\"gpu_memory_utilization\":2}", RP_CONFIG,
               "gpu_memory_utilization=2: expected a number from 0 to 1");
    json_fails("{\"pass_config\":true}", RP_CONFIG,
               "pass_config: expected an object or pass_config.key=value");
    /* What is typed is of the kind or it is text. */
    dot_fails("use_inductor=maybe", RP_CONFIG, "use_inductor=\"maybe\": expected true or false");
    dot_fails("use_inductor=2", RP_CONFIG, "use_inductor=\"2\": expected true or false");
    dot_fails("use_inductor=", RP_CONFIG, "use_inductor=\"\": expected true or false");
    dot_fails("gpu_memory_utilization=half", RP_CONFIG,
              "gpu_memory_utilization=\"half\": expected a number from 0 to 1");
    dot_fails("gpu_memory_utilization=nan", RP_CONFIG,
              "gpu_memory_utilization=\"nan\": expected a number from 0 to 1");
    dot_fails("inductor_compile_config=deep", RP_CONFIG,
              "inductor_compile_config=\"deep\": expected an object");
    dot_fails("level", RP_CONFIG, "level is no assignment; write key=value");
    dot_fails("=3", RP_CONFIG, "a setting has no name; write key=value");
    json_fails("[1]", RP_CONFIG, "configuration must be a JSON object, as in {\"level\":3}");
    json_fails("{\"level\":0,\"level\":3}", RP_CONFIG,
               "configuration is not JSON: duplicate object key near '\"level\"' at line 1 column "
               "18; write {\"level\":3}");
    json_fails("{\"cudagraph_mode\":\"AF_PIECEWISE\"}", RP_UNSUPPORTED,
               "cudagraph_mode=AF_PIECEWISE is not supported: attention is not captured layer by "
               "layer; use FULL_AND_PIECEWISE");
}

static void long_values_are_cut_at_characters(void **state) {
    (void)state;
    rp_error err = {0};
    char json[4096] = "{\"level\":\"", *end = json + strlen(json);
    for (int i = 0; i < 1000; i++) memcpy(end + 3 * i, "\xe2\x82\xac", 3);
    memcpy(end + 3000, "\"}", 3);
    assert_int_equal(rp_config_set_json(cfg, json, &err), RP_CONFIG);
    const char *dots = strstr(err.text, "...: expected");
    assert_non_null(dots);
    assert_memory_equal(dots - 3, "\xe2\x82\xac", 3);
}

static void a_failed_call_changes_nothing(void **state) {
    (void)state;
    rp_error err = {0};
    json_ok("{\"level\":2}");
    json_fails("{\"level\":3,\"cudagraph_capture_sizes\":[1],\"splitting_ops\":3}", RP_CONFIG,
               "splitting_ops=3: expected a list of strings");
    is("level", "2");
    is("cudagraph_capture_sizes", "null");
    assert_false(rp_config_is_typed(cfg, "cudagraph_capture_sizes"));
    good(rp_config_resolve(cfg, NULL, &err), &err);
    dot_fails("level=3", RP_INVALID,
              "the configuration is resolved and cannot change; start from a new one");
}

static void optimisation_levels(void **state) {
    (void)state;
    rp_error err = {0};
    assert_int_equal(rp_config_set_olevel(cfg, 4, &err), RP_CONFIG);
    assert_string_equal(err.text, "-O4: there are -O0, -O1, -O2 and -O3");
    good(rp_config_apply_default_olevel(cfg, 2, &err), &err);
    is("optimization_level", "2");
    assert_false(rp_config_is_typed(cfg, "optimization_level"));
    good(rp_config_set_olevel(cfg, 1, &err), &err);
    good(rp_config_apply_default_olevel(cfg, 3, &err), &err);
    is("optimization_level", "1");
}

static void a_typed_level_replaces_the_default(void **state) {
    (void)state;
    rp_error err = {0};
    dot_ok("mode=2");
    good(rp_config_apply_default_olevel(cfg, 2, &err), &err);
    is("optimization_level", "null");
}

static void integers_can_be_read(void **state) {
    (void)state;
    rp_error err = {0};
    int64_t v = 0;
    dot_ok("max_num_seqs=9");
    good(rp_config_get_int(cfg, "max_num_seqs", &v, &err), &err);
    assert_int_equal(v, 9);
    assert_int_equal(rp_config_get_int(cfg, "max_model_len", &v, &err), RP_NOT_FOUND);
    err = (rp_error){0};
    assert_int_equal(rp_config_get_int(cfg, "cache_dir", &v, &err), RP_CONFIG);
    assert_string_equal(err.text, "cache_dir is not an integer; read it as JSON");
    err = (rp_error){0};
    assert_int_equal(rp_config_get_int(cfg, "leve", &v, &err), RP_CONFIG);
    assert_string_equal(err.text, "unknown setting leve; did you mean level");
    assert_int_equal(rp_config_get_int(NULL, "level", &v, NULL), RP_INVALID);
}

/* No setting has such a name, whatever its length; from where it has no room on, the line is the same. */
static void names_of_any_length_are_refused(void **state) {
    char text[400], longest[480] = "";
    (void)state;
    for (size_t n = 300; n > 0; n--) {
        rp_error err = {0};
        memset(text, 'x', n);
        (void)strcpy(text + n, "=1");
        assert_int_equal(rp_config_set(cfg, text, &err), RP_CONFIG);
        assert_int_equal(strncmp(err.text, "unknown setting x", 17), 0);
        assert_int_equal(strstr(err.text, "no name is that long") != NULL, n >= 128);
        if (n == 300) memcpy(longest, err.text, sizeof longest);
        if (n >= 130) assert_string_equal(err.text, longest);
    }
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    static const char json[] =
        "{\"level\":3,\"splitting_ops\":[\"a::b\"],\"compile_sizes\":[],\"fullgraph\":true,"
        "\"custom_ops\":[\"none\"],\"inductor_compile_config\":{\"x\":0}}";
    size_t before = base_live();
    FOR_EACH_ALLOC_FAILURE (n) {
        rp_error err = {0};
        char *text = NULL;
        rp_compilation_config *c = rp_config_new();
        rp_status st = c ? rp_config_set_json(c, json, &err) : RP_NOMEM;
        if (st == RP_OK) st = rp_config_set(c, "splitting_ops+=c::d", &err);
        if (st == RP_OK) st = rp_config_resolve(c, NULL, &err);
        if (st == RP_OK) st = rp_config_to_json(c, &text, &err);
        assert_true(st == RP_OK || st == RP_NOMEM);
        rp_config_text_free(text);
        rp_config_free(c);
        assert_int_equal(base_live(), before);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* The texts of one integer for a field of this kind; false for kinds that have no range. */
static bool range_text(const config_field *f, int64_t v, char *out, size_t size) {
    bool list = f->kind == CONFIG_KIND_INTS || f->kind == CONFIG_KIND_SIZES;
    if (!list && f->kind != CONFIG_KIND_INT && f->kind != CONFIG_KIND_OINT &&
        f->kind != CONFIG_KIND_FLOAT)
        return false;
    (void)snprintf(out, size, list ? "{\"%s\":[%lld]}" : "{\"%s\":%lld}", f->name, (long long)v);
    return true;
}

/* Every RANGE of the table: its ends are taken, what lies beyond is refused with a text that names the setting. */
static void every_range_holds(void **state) {
    (void)state;
    size_t n = 0;
    for (size_t i = 0; i < CONFIG_ID_COUNT_; i++) {
        const config_field *f = &config_table[i];
        char text[200];
        if (f->min == f->max || f->min == INT64_MIN || f->status == CONFIG_DERIVED) continue;
        for (int end = 0; end < 4; end++) {
            int64_t v = end < 2 ? f->min : f->max;
            bool beyond = end % 2;
            rp_error err = {0};
            if (beyond) v += end < 2 ? -1 : 1;
            if (!range_text(f, v, text, sizeof text)) continue;
            rp_status st = rp_config_set_json(cfg, text, &err);
            if (st != (beyond ? RP_CONFIG : RP_OK))
                fail_msg("%s: %s: %s", text, rp_status_name(st), err.text);
            if (beyond && !strstr(err.text, f->name)) fail_msg("%s: %s", text, err.text);
            n++;
        }
    }
    assert_true(n > 30);
}

/* --- switches --- */

typedef struct heard_switches {
    char text[64];
    const char *refused; /* this one fails */
} heard_switches;

static rp_status hear_switch(void *user, const char *name, bool on, rp_error *err) {
    heard_switches *h = user;
    const size_t n = strlen(h->text);
    if (h->refused && strcmp(name, h->refused) == 0)
        return rp_fail(err, RP_UNSUPPORTED, "no %s", name);
    (void)snprintf(h->text + n, sizeof h->text - n, "%s=%d ", name, on);
    return RP_OK;
}

static void switches_end_with_the_first_that_is_none(void **state) {
    static const struct {
        const char *dict, *refused, *heard;
        rp_status st;
    } all[] = {{"{}", NULL, "", RP_OK},
               {"{\"a\":true,\"b\":false}", NULL, "a=1 b=0 ", RP_OK},
               {"{\"a\":3,\"b\":false}", NULL, "", RP_CONFIG},
               {"{\"a\":true,\"b\":\"false\",\"c\":true}", NULL, "a=1 ", RP_CONFIG},
               {"{\"a\":true,\"b\":null}", NULL, "a=1 ", RP_CONFIG},
               {"{\"a\":true,\"b\":true,\"c\":true}", "b", "a=1 ", RP_UNSUPPORTED}};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        heard_switches h = {.refused = all[i].refused};
        rp_error err = {0};
        assert_int_equal(config_each_switch("field", all[i].dict, hear_switch, &h, &err),
                         all[i].st);
        assert_string_equal(h.text, all[i].heard);
        assert_int_equal(err.code, all[i].st);
    }
}

/* An item of a list is a number up to 31 digits, and refused with more: never read in part. */
static void long_items_are_read_whole_or_refused(void **state) {
    (void)state;
    for (int n = 2; n <= 100; n++) {
        char text[160];
        rp_error err = {0};
        (void)snprintf(text, sizeof text, "cudagraph_capture_sizes=4,%0*d", n, 12);
        rp_status st = rp_config_set(cfg, text, &err);
        if (st != (n <= 31 ? RP_OK : RP_CONFIG)) fail_msg("%d digits: %s", n, err.text);
        if (st == RP_OK) is("cudagraph_capture_sizes", "[4,12]");
        if (st != RP_OK) assert_non_null(strstr(err.text, "cudagraph_capture_sizes"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(nested_and_dotted_are_equal),
        TEST(dot_notation_reads_every_kind),
        TEST(lists_can_be_appended_to),
        TEST(brackets_come_in_pairs),
        TEST(rules_of_custom_ops),
        TEST(levels_have_the_names_of_both_seeds),
        TEST(two_names_of_one_setting_may_not_differ),
        TEST(null_takes_a_setting_back),
        TEST(unknown_names_get_the_nearest),
        TEST(wrong_types_name_key_value_and_expected),
        TEST(long_values_are_cut_at_characters),
        TEST(a_failed_call_changes_nothing),
        TEST(optimisation_levels),
        TEST(a_typed_level_replaces_the_default),
        TEST(integers_can_be_read),
        TEST(names_of_any_length_are_refused),
        TEST(every_range_holds),
        TEST(long_items_are_read_whole_or_refused),
        TEST(switches_end_with_the_first_that_is_none),
        TEST(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
