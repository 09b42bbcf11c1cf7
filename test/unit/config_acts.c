/* Every line of fields.def: what is taken acts, holds in any case and says so, or is refused with its reason. */
#include "support/check.h"

#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "config/table.h"

/* RP_OK with *out resolved: level 3, and one setting more. */
static rp_status resolve(const char *name, const char *value, rp_compilation_config **out,
                         rp_error *err) {
    rp_compilation_config *cfg = rp_config_new();
    assert_non_null(cfg);
    rp_status st = rp_config_set(cfg, "level=3", err);
    if (st == RP_OK && name) st = rp_config_set_key(cfg, name, value, err);
    if (st == RP_OK) st = rp_config_resolve(cfg, NULL, err);
    if (st == RP_OK)
        *out = cfg;
    else
        rp_config_free(cfg);
    return st;
}

static bool is_free(const config_field *f, const char *value) {
    rp_compilation_config *cfg = NULL;
    rp_error err = {0};
    rp_status st = resolve(f->name, value, &cfg, &err);
    bool noted = st == RP_OK && rp_config_notes(cfg, NULL) > 0;
    if (st == RP_OK) rp_config_free(cfg);
    return st == RP_OK && !noted;
}

static void a_default_asks_for_nothing(void **state) {
    (void)state;
    for (int i = 0; i < CONFIG_ID_COUNT_; i++) {
        const config_field *f = &config_table[i];
        if (f->status == CONFIG_DERIVED) continue;
        if (!is_free(f, f->deflt)) fail_msg("%s=%s is refused or noted", f->name, f->deflt);
        if (f->same && !is_free(f, f->same))
            fail_msg("%s=%s is refused or noted", f->name, f->same);
    }
}

/* Values other than the default, of every kind: text i, false when there are no more. */
static bool other_value(const config_field *f, size_t i, char text[64]) {
    int64_t low = f->min == INT64_MIN ? 1 : f->min;
    switch (f->kind) {
    case CONFIG_KIND_BOOL:
    case CONFIG_KIND_OBOOL:
        (void)snprintf(text, 64, "%s", strcmp(f->deflt, "true") == 0 ? "false" : "true");
        return i == 0;
    case CONFIG_KIND_ENUM:
    case CONFIG_KIND_OENUM:
        if (i < f->names->n) (void)snprintf(text, 64, "%s", f->names->v[i].name);
        return i < f->names->n;
    case CONFIG_KIND_INT:
    case CONFIG_KIND_OINT:
        (void)snprintf(text, 64, "%lld", (long long)(i == 0 ? f->max : low));
        return i < 2;
    case CONFIG_KIND_FLOAT: (void)snprintf(text, 64, "%s", i ? "0" : "0.25"); return i < 2;
    case CONFIG_KIND_STR: (void)snprintf(text, 64, "other"); return i == 0;
    case CONFIG_KIND_INTS: (void)snprintf(text, 64, "[%lld]", (long long)low + 2); return i == 0;
    case CONFIG_KIND_SIZES:
        (void)snprintf(text, 64, "[%lld]", (long long)low + 2);
        if (i) (void)snprintf(text, 64, "%s", f->word);
        return i < 2;
    case CONFIG_KIND_STRS: (void)snprintf(text, 64, "%s", i ? "all" : "+a::b"); return i < 2;
    case CONFIG_KIND_DICT:
        (void)snprintf(text, 64, "{\"a\":false,\"b\":%s}", i ? "{\"c\":0}" : "1");
        return i < 2;
    }
    return false;
}

/* Off is a way to say nothing where the default is off as well, and a wish where it is not. */
static bool asks_nothing(const config_field *f, const char *text) {
    static const char *const off[] = {"false", "0", "[]", "{}", "null"};
    bool is_off = false, deflt_off = false;
    if (strcmp(text, f->deflt) == 0) return true;
    for (size_t i = 0; i < sizeof off / sizeof *off; i++) {
        is_off |= strcmp(text, off[i]) == 0;
        deflt_off |= strcmp(f->deflt, off[i]) == 0;
    }
    return is_off && deflt_off;
}

static void what_has_no_machinery_is_refused(void **state) {
    unsigned n = 0;
    (void)state;
    for (int id = 0; id < CONFIG_ID_COUNT_; id++) {
        const config_field *f = &config_table[id];
        char text[64], end[64];
        if (f->status != CONFIG_UNSUP) continue;
        for (size_t i = 0; other_value(f, i, text); i++) {
            rp_compilation_config *cfg = NULL;
            rp_error err = {0};
            if (asks_nothing(f, text)) {
                if (!is_free(f, text)) fail_msg("%s=%s asks for nothing", f->name, text);
                continue;
            }
            if (resolve(f->name, text, &cfg, &err) != RP_UNSUPPORTED)
                fail_msg("%s=%s is not refused as unsupported: %s", f->name, text, err.text);
            assert_int_equal(rp_status_exit_code(RP_UNSUPPORTED), 3);
            (void)snprintf(end, sizeof end, "; leave it at %s", f->deflt);
            if (strncmp(err.text, f->name, strlen(f->name)) != 0 ||
                !strstr(err.text, f->status_reason) || !strstr(err.text, end))
                fail_msg("%s=%s is told as '%s'", f->name, text, err.text);
            n++;
        }
    }
    assert_true(n > 30);
    /* Every option off: none is asked for. */
    assert_true(
        is_free(&config_table[CONFIG_ID_inductor_compile_config],
                "{\"max_autotune\":false,\"depth\":0,\"name\":\"\",\"list\":[],\"more\":{}}"));
}

static void options_of_inductor_act_or_are_refused(void **state) {
    static const struct {
        const char *value;
        rp_status st;
        const char *text; /* NULL: taken, with both bits */
        bool list, descend;
    } cases[] = {
        {"{\"max_autotune\":true}", RP_OK, NULL, true, false},
        {"{\"coordinate_descent_tuning\":true,\"max_autotune\":false}", RP_OK, NULL, false, true},
        {"{\"max_autotune\":true,\"coordinate_descent_tuning\":true,\"triton\":{}}", RP_OK, NULL,
         true, true},
        {"{\"max_autotune\":2}", RP_CONFIG,
         "inductor_compile_config.max_autotune=2: expected true or false", false, false},
        {"{\"max_autotune\":true,\"epilogue_fusion\":true}", RP_UNSUPPORTED,
         "inductor_compile_config.epilogue_fusion=true is not supported: only max_autotune and "
         "coordinate_descent_tuning have anything to choose here; leave it out",
         false, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rp_compilation_config *cfg = NULL;
        config_autotune on;
        rp_error err = {0};
        rp_status st = resolve("inductor_compile_config", cases[i].value, &cfg, &err);
        assert_int_equal(st, cases[i].st);
        if (cases[i].text) assert_string_equal(err.text, cases[i].text);
        if (st != RP_OK) continue;
        CHECK_OK(config_autotune_of(cfg, &on, &err), &err);
        assert_int_equal(on.list, cases[i].list);
        assert_int_equal(on.descend, cases[i].descend);
        assert_int_equal(rp_config_notes(cfg, NULL), 0);
        rp_config_free(cfg);
    }
}

/* What runs nothing cannot be measured, and op by op there is nothing to choose. */
static void tuning_wants_generated_code(void **state) {
    const rp_config_note *notes;
    rp_error err = {0};
    (void)state;
    static const char *const options[] = {"max_autotune", "coordinate_descent_tuning"};
    for (int i = 0; i < 4; i++) {
        const bool eager = i % 2;
        const char *option = options[i / 2];
        char setting[96], what[96];
        rp_compilation_config *cfg = rp_config_new();
        (void)snprintf(setting, sizeof setting, "inductor_compile_config.%s=true", option);
        (void)snprintf(what, sizeof what, "inductor_compile_config={\"%s\":true}", option);
        CHECK_OK(rp_config_set(cfg, eager ? "level=1" : "device=null", &err), &err);
        CHECK_OK(rp_config_set(cfg, setting, &err), &err);
        rp_status st = rp_config_resolve(cfg, NULL, &err);
        assert_int_equal(st, eager ? RP_OK : RP_UNSUPPORTED);
        if (eager) {
            assert_int_equal(rp_config_notes(cfg, &notes), 1);
            assert_string_equal(notes->what, what);
            assert_string_equal(notes->reason, "only backend=inductor generates code");
        } else {
            assert_non_null(strstr(err.text, "a device that runs nothing cannot be measured"));
        }
        rp_config_free(cfg);
        err = (rp_error){0};
    }
}

static void what_holds_in_any_case_is_noted(void **state) {
    unsigned n = 0;
    (void)state;
    for (int id = 0; id < CONFIG_ID_COUNT_; id++) {
        const config_field *f = &config_table[id];
        const rp_config_note *notes;
        rp_compilation_config *cfg = NULL;
        rp_error err = {0};
        char text[64], what[128];
        if (f->status != CONFIG_HOLDS) continue;
        assert_true(other_value(f, 0, text));
        CHECK_OK(resolve(f->name, text, &cfg, &err), &err);
        assert_int_equal(rp_config_notes(cfg, &notes), 1);
        (void)snprintf(what, sizeof what, "%s=%s", f->name, text);
        assert_string_equal(notes[0].what, what);
        assert_string_equal(notes[0].reason, f->status_reason);
        rp_config_free(cfg);
        n++;
    }
    assert_int_equal(n, 2);
}

static void what_is_computed_cannot_be_set(void **state) {
    (void)state;
    for (int id = 0; id < CONFIG_ID_COUNT_; id++) {
        const config_field *f = &config_table[id];
        rp_compilation_config *cfg = NULL;
        rp_error err = {0};
        char text[64];
        if (f->status != CONFIG_DERIVED) continue;
        assert_true(other_value(f, 0, text));
        assert_int_equal(resolve(f->name, text, &cfg, &err), RP_CONFIG);
        assert_non_null(strstr(err.text, f->name));
        assert_non_null(strstr(err.text, f->status_reason)); /* what to set in its place */
    }
}

/* Settings that work: a value that changes another one or what is refused (value), or the file beyond this room that
 * reads it (where). */
static const struct effect {
    config_id id;
    const char *value, *where;
} effects[] = {
    {CONFIG_ID_level, "1", NULL},
    {CONFIG_ID_optimization_level, "2", NULL},
    {CONFIG_ID_enforce_eager, "true", NULL},
    {CONFIG_ID_backend, "none", NULL},
    {CONFIG_ID_use_inductor, "false", NULL},
    {CONFIG_ID_splitting_ops, "[]", NULL},
    {CONFIG_ID_compile_sizes, "1", "src/engine/sized.c"},
    {CONFIG_ID_compile_ranges_endpoints, "8", "src/engine/sized.c"},
    {CONFIG_ID_inductor_compile_config, "{\"max_autotune\":true}", "src/config/check.c"},
    {CONFIG_ID_skip_passes, "simplify", "src/compile/skips.c"},
    {CONFIG_ID_inductor_passes, "{}", "src/compile/skips.c"},
    {CONFIG_ID_custom_ops, "sum", NULL},
    {CONFIG_ID_check_ops, "true", "src/api/compiled.c"},
    {CONFIG_ID_built_in_products, "false", "src/compile/tuner.c"},
    {CONFIG_ID_decode_kernels, "false", "src/engine/decode.c"},
    {CONFIG_ID_suppress_errors, "true", "src/engine/plans.c"},
    {CONFIG_ID_use_cudagraph, "false", NULL},
    {CONFIG_ID_cudagraph_mode, "FULL", NULL},
    {CONFIG_ID_cudagraph_capture_sizes, "3", NULL},
    {CONFIG_ID_cuda_graph_sizes, "16", NULL},
    {CONFIG_ID_max_cudagraph_capture_size, "4", NULL},
    {CONFIG_ID_cudagraph_num_of_warmups, "1", "src/engine/parts.c"},
    {CONFIG_ID_cudagraph_copy_inputs, "true", "src/engine/parts.c"},
    {CONFIG_ID_require_graph, "true", "src/graph/state.c"},
    {CONFIG_ID_performance_mode, "interactivity", NULL},
    {CONFIG_ID_numerics, "exact", "src/engine/plans.c"},
    {CONFIG_ID_batch_invariant, "true", "src/engine/isa.c"},
    {CONFIG_ID_max_num_seqs, "1024", NULL},
    {CONFIG_ID_max_num_batched_tokens, "16", NULL},
    {CONFIG_ID_long_prefill_token_threshold, "8", "src/engine/engine.c"},
    {CONFIG_ID_async_scheduling, "true", "src/engine/engine.c"},
    {CONFIG_ID_max_model_len, "64", "src/engine/engine.c"},
    {CONFIG_ID_gpu_memory_utilization, "0.5", "src/engine/kv_cache.c"},
    {CONFIG_ID_device, "other", NULL},
    {CONFIG_ID_isa, "portable", "src/engine/isa.c"},
    {CONFIG_ID_threads, "1", "src/engine/engine.c"},
    {CONFIG_ID_sealed, "off", "src/graph/state.c"},
    {CONFIG_ID_cache_dir, "other", "src/engine/engine.c"},
    {CONFIG_ID_compile_cache_save_format, "unpacked", "src/engine/plans.c"},
    {CONFIG_ID_debug_dump_path, "other", "src/compile/dump.c"},
};

/* Every setting but `id` as text. */
static char *others(const rp_compilation_config *cfg, int id) {
    base_buf b;
    base_buf_init(&b, 0);
    for (int i = 0; i < CONFIG_ID_COUNT_; i++) {
        char *text = config_value_text(&config_table[i], config_slot_const(cfg, i));
        if (i != id) base_buf_printf(&b, "%s=%s\n", config_table[i].name, text);
        base_free(text);
    }
    assert_false(b.failed);
    return base_buf_take(&b);
}

static bool changes_others(int id, const char *value) {
    rp_compilation_config *with = NULL, *without = NULL;
    rp_error err = {0};
    if (resolve(config_table[id].name, value, &with, &err) != RP_OK) return true;
    CHECK_OK(resolve(NULL, NULL, &without, &err), &err);
    char *a = others(with, id), *b = others(without, id);
    bool changes = strcmp(a, b) != 0;
    base_free(a);
    base_free(b);
    rp_config_free(with);
    rp_config_free(without);
    return changes;
}

/* Does the file read this member of a configuration? */
static bool is_read_in(const char *file, const config_field *f, const char *member) {
    char *text = NULL, want[96];
    size_t size;
    rp_error err = {0};
    rp_status st = base_file_read(file, 1 << 20, &text, &size, &err);
    if (st != RP_OK) fail_msg("%s, which reads %s: %s", file, f->name, err.text);
    (void)snprintf(want, sizeof want, "->%s", member);
    bool found = strstr(text, want) != NULL;
    base_free(text);
    return found;
}

static void what_is_taken_acts(void **state) {
    static const char *const members[] = {
#define FIELD(kind, id, name, extra, deflt, key, status, help) #id,
#include "config/fields.def"
    };
    bool sources = access("src/config/fields.def", R_OK) == 0;
    (void)state;
    for (int id = 0; id < CONFIG_ID_COUNT_; id++) {
        const config_field *f = &config_table[id];
        const struct effect *e = effects;
        size_t n = sizeof effects / sizeof *effects;
        if (f->status != CONFIG_WORKS || config_fusion_name(id))
            continue; /* compile_skips.c has those */
        while (n && e->id != (config_id)id) e++, n--;
        if (!n) fail_msg("%s works: what it changes is wanted here", f->name);
        if (!e->where && !changes_others(id, e->value))
            fail_msg("%s=%s changes nothing", f->name, e->value);
        if (e->where && sources && !is_read_in(e->where, f, members[id]))
            fail_msg("%s does not read %s", e->where, f->name);
    }
}

static bool is_noted(const rp_compilation_config *cfg, const char *name) {
    const rp_config_note *notes;
    size_t n = rp_config_notes(cfg, &notes);
    for (size_t i = 0; i < n; i++)
        if (strstr(notes[i].what, name)) return true;
    return false;
}

/* One setting beside others: what was typed is what resolving leaves, or a note names it. True where it is not refused. */
static bool check_holds(const config_field *f, const char *value, const char *const others[2]) {
    rp_compilation_config *cfg = rp_config_new();
    rp_error err = {0};
    char *typed = NULL, *left = NULL;
    rp_status st = RP_OK;
    for (int i = 0; i < 2; i++) CHECK_OK(rp_config_set(cfg, others[i], &err), &err);
    st = rp_config_set_key(cfg, f->name, value, &err);
    if (st == RP_OK) CHECK_OK(rp_config_get_json(cfg, f->name, &typed, &err), &err);
    if (st == RP_OK) st = rp_config_resolve(cfg, NULL, &err);
    if (st == RP_OK) {
        CHECK_OK(rp_config_get_json(cfg, f->name, &left, &err), &err);
        if (strcmp(typed, left) != 0 && !is_noted(cfg, f->name))
            fail_msg("%s=%s with %s and %s became %s without a note", f->name, typed, others[0],
                     others[1], left);
    } else if (!err.text[0]) {
        fail_msg("%s=%s with %s and %s is refused without a reason", f->name, value, others[0],
                 others[1]);
    }
    rp_config_text_free(typed);
    rp_config_text_free(left);
    rp_config_free(cfg);
    return st == RP_OK;
}

/* Law: no setting is lost in silence, whatever is beside it. A word for a list becomes the list, and -O0 is what enforce_eager
 * does. */
static void what_is_typed_holds_or_is_noted(void **state) {
    static const char *const levels[] = {"level=0", "level=1", "level=2", "level=3",
                                         "enforce_eager=true"},
                             *const modes[] = {"cudagraph_mode=NONE", "cudagraph_mode=FULL",
                                               "cudagraph_mode=PIECEWISE",
                                               "cudagraph_mode=FULL_AND_PIECEWISE"};
    size_t held = 0;
    char value[64];
    (void)state;
    for (int id = 0; id < CONFIG_ID_COUNT_; id++) {
        const config_field *f = &config_table[id];
        if (f->status != CONFIG_WORKS) continue;
        for (size_t i = 0; other_value(f, i, value); i++)
            for (int level = 0; level < 5; level++)
                for (int mode = 0; mode < 4; mode++)
                    if (!(f->word && strcmp(value, f->word) == 0) &&
                        !(id == CONFIG_ID_optimization_level && level == 4))
                        held += check_holds(f, value, (const char *[]){levels[level], modes[mode]});
    }
    assert_true(held > 200);
}

/* Names of vLLM and ATOM with the values of their defaults, as a log of theirs holds them. */
static void a_pasted_configuration_is_taken(void **state) {
    static const char pasted[] =
        "{\"mode\":3,\"debug_dump_path\":null,\"cache_dir\":\"\",\"backend\":\"inductor\","
        "\"custom_ops\":[\"none\"],\"compile_mm_encoder\":false,\"compile_sizes\":[],"
        "\"compile_ranges_split_points\":[],"
        "\"inductor_compile_config\":{\"enable_auto_functionalized_v2\":false},"
        "\"inductor_passes\":{},\"cudagraph_mode\":\"FULL_AND_PIECEWISE\","
        "\"cudagraph_num_of_warmups\":1,\"cudagraph_capture_sizes\":null,"
        "\"cudagraph_copy_inputs\":false,\"cudagraph_specialize_lora\":true,"
        "\"use_inductor_graph_partition\":false,\"fast_moe_cold_start\":false,"
        "\"pass_config\":{\"fuse_norm_quant\":true,\"fuse_attn_quant\":false,\"eliminate_noops\":"
        "true,"
        "\"enable_sp\":false,\"fuse_gemm_comms\":false,\"fuse_allreduce_rms\":false,"
        "\"enable_qk_norm_rope_fusion\":false},"
        "\"dynamic_shapes_config\":{\"type\":\"backed\",\"evaluate_guards\":false}}";
    rp_compilation_config *cfg = rp_config_new();
    rp_error err = {0};
    (void)state;
    CHECK_OK(rp_config_set_json(cfg, pasted, &err), &err);
    CHECK_OK(rp_config_resolve(cfg, NULL, &err), &err);
    assert_int_equal(rp_config_notes(cfg, NULL), 0);
    rp_config_free(cfg);
}

/* So is our own, resolved. */
static void a_resolved_configuration_is_taken(void **state) {
    (void)state;
    for (int level = 0; level < 4; level++) {
        rp_compilation_config *cfg = rp_config_new(), *again = rp_config_new();
        rp_error err = {0};
        char text[32], *json = NULL, *back = NULL;
        (void)snprintf(text, sizeof text, "level=%d", level);
        CHECK_OK(rp_config_set(cfg, text, &err), &err);
        CHECK_OK(rp_config_resolve(cfg, NULL, &err), &err);
        CHECK_OK(rp_config_to_json(cfg, &json, &err), &err);
        json_t *all = json_loads(json, 0, NULL);
        for (int i = 0; i < CONFIG_ID_COUNT_; i++)
            if (config_table[i].status == CONFIG_DERIVED)
                (void)json_object_del(all, config_table[i].name);
        char *settable = config_json_text(all);
        CHECK_OK(rp_config_set_json(again, settable, &err), &err);
        CHECK_OK(rp_config_resolve(again, NULL, &err), &err);
        CHECK_OK(rp_config_to_json(again, &back, &err), &err);
        assert_string_equal(back, json);
        json_decref(all);
        base_free(settable);
        rp_config_text_free(json);
        rp_config_text_free(back);
        rp_config_free(cfg);
        rp_config_free(again);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_default_asks_for_nothing),
        cmocka_unit_test(what_has_no_machinery_is_refused),
        cmocka_unit_test(options_of_inductor_act_or_are_refused),
        cmocka_unit_test(tuning_wants_generated_code),
        cmocka_unit_test(what_holds_in_any_case_is_noted),
        cmocka_unit_test(what_is_computed_cannot_be_set),
        cmocka_unit_test(what_is_taken_acts),
        cmocka_unit_test(what_is_typed_holds_or_is_noted),
        cmocka_unit_test(a_pasted_configuration_is_taken),
        cmocka_unit_test(a_resolved_configuration_is_taken),
    };
    return cmocka_run_group_tests_name("config_acts", tests, NULL, NULL);
}
