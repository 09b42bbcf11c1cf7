/* The coupling rules: what a typed configuration becomes, what is noted, what is refused. */
#include "support/check.h"

#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "config/ladder.h"

static const rp_model_facts always = RP_MODEL_FACTS_INIT;

static rp_status resolve(const char *json, int olevel, const rp_model_facts *facts,
                         rp_compilation_config **out, rp_error *err) {
    rp_compilation_config *cfg = rp_config_new();
    assert_non_null(cfg);
    rp_status st = rp_config_set_json(cfg, json, err);
    if (st == RP_OK && olevel >= 0) st = rp_config_set_olevel(cfg, olevel, err);
    if (st == RP_OK) st = rp_config_resolve(cfg, facts, err);
    if (st == RP_OK && out)
        *out = cfg;
    else
        rp_config_free(cfg);
    return st;
}

static rp_compilation_config *ok_with(const char *json, int olevel, const rp_model_facts *facts) {
    rp_compilation_config *cfg = NULL;
    rp_error err = {0};
    rp_status st = resolve(json, olevel, facts, &cfg, &err);
    if (st != RP_OK) fail_msg("%s: %s: %s", json, rp_status_name(st), err.text);
    return cfg;
}

static rp_compilation_config *ok(const char *json) {
    return ok_with(json, -1, &always);
}

static void refused(const char *json, rp_status code, const char *text) {
    rp_error err = {0};
    assert_int_equal(resolve(json, -1, &always, NULL, &err), code);
    assert_string_equal(err.text, text);
}

static void is(const rp_compilation_config *cfg, const char *key, const char *expected) {
    char *text = NULL;
    rp_error err = {0};
    CHECK_OK(rp_config_get_json(cfg, key, &text, &err), &err);
    if (strcmp(text, expected) != 0) fail_msg("%s is %s, expected %s", key, text, expected);
    rp_config_text_free(text);
}

/* Exactly these notes: what, reason, ..., NULL. */
static void notes_are(const rp_compilation_config *cfg, ...) {
    const rp_config_note *notes;
    size_t n = rp_config_notes(cfg, &notes), i = 0;
    va_list ap;
    va_start(ap, cfg);
    for (const char *what; (what = va_arg(ap, const char *)); i++) {
        const char *reason = va_arg(ap, const char *);
        if (i >= n) fail_msg("no note '%s: %s'", what, reason);
        assert_string_equal(notes[i].what, what);
        assert_string_equal(notes[i].reason, reason);
    }
    va_end(ap);
    if (i < n) fail_msg("unexpected note '%s: %s'", notes[i].what, notes[i].reason);
}

static void mode_is(const char *json, int olevel, rp_attention_support support, int level,
                    const char *mode) {
    rp_model_facts facts = RP_MODEL_FACTS_INIT;
    facts.attention = support;
    rp_compilation_config *cfg = ok_with(json, olevel, &facts);
    if ((int)rp_config_level(cfg) != level)
        fail_msg("%s: level %d", json, (int)rp_config_level(cfg));
    const char *got = rp_cudagraph_mode_name(rp_config_cudagraph_mode(cfg));
    if (strcmp(got, mode) != 0) fail_msg("%s -O%d: %s, expected %s", json, olevel, got, mode);
    rp_config_free(cfg);
}

static void levels_and_presets(void **state) {
    (void)state;
    const int A = RP_ATTENTION_ALWAYS;
    mode_is("{}", -1, A, 0, "NONE");
    mode_is("{\"level\":1}", -1, A, 1, "NONE");
    mode_is("{\"level\":2}", -1, A, 2, "NONE");
    mode_is("{\"level\":3}", -1, A, 3, "PIECEWISE");
    mode_is("{}", 0, A, 0, "NONE");
    mode_is("{}", 1, A, 3, "PIECEWISE");
    mode_is("{}", 2, A, 3, "FULL_AND_PIECEWISE");
    mode_is("{}", 3, A, 3, "FULL_AND_PIECEWISE");
    mode_is("{\"cudagraph_mode\":\"FULL\"}", 1, A, 3, "FULL"); /* what was typed stays */
    mode_is("{\"level\":0}", 2, A, 0, "NONE");
    mode_is("{\"level\":3}", 2, A, 3, "FULL_AND_PIECEWISE");
    mode_is("{\"level\":3}", 0, A, 3, "NONE");
    mode_is("{\"use_cudagraph\":false}", 2, A, 3, "NONE");
    mode_is("{\"optimization_level\":1}", -1, A, 3, "PIECEWISE");
}

static void piecewise_needs_level_three(void **state) {
    (void)state;
    static const char *const modes[] = {"NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY",
                                        "FULL_AND_PIECEWISE"};
    static const char *const below[] = {"NONE", "NONE", "FULL", "FULL_DECODE_ONLY",
                                        "FULL_DECODE_ONLY"};
    for (int level = 0; level < 4; level++)
        for (int m = 0; m < 5; m++) {
            char json[128];
            (void)snprintf(json, sizeof json, "{\"level\":%d,\"cudagraph_mode\":\"%s\"}", level,
                           modes[m]);
            mode_is(json, -1, RP_ATTENTION_ALWAYS, level, level == 3 ? modes[m] : below[m]);
        }
    rp_compilation_config *cfg = ok("{\"level\":2,\"cudagraph_mode\":\"FULL_AND_PIECEWISE\"}");
    notes_are(cfg, "cudagraph_mode=FULL_AND_PIECEWISE becomes FULL_DECODE_ONLY",
              "PIECEWISE graphs need level 3", NULL);
    rp_config_free(cfg);
}

/* A size that was typed and does not become what was typed is named, with the reason. */
static void sizes_that_count_for_nothing_are_named(void **state) {
    static const char none[] = "cudagraph_mode is NONE",
                      whole[] = "cudagraph_capture_sizes is the whole list",
                      limit[] = "a step holds no more than max_num_batched_tokens";
    static const struct {
        const char *json, *what, *why, *what2, *why2;
    } cases[] = {
        {"{\"level\":3,\"cudagraph_mode\":\"NONE\",\"cuda_graph_sizes\":[64],"
         "\"performance_mode\":\"interactivity\"}",
         "cuda_graph_sizes", none, "performance_mode=interactivity", none},
        {"{\"level\":3,\"cudagraph_capture_sizes\":[1,2],\"cuda_graph_sizes\":[64],"
         "\"performance_mode\":\"interactivity\"}",
         "cuda_graph_sizes", whole, "performance_mode=interactivity", whole},
        {"{\"level\":3,\"max_num_batched_tokens\":128,\"max_cudagraph_capture_size\":1000}",
         "max_cudagraph_capture_size=1000 becomes 128", limit, NULL, NULL},
        {"{\"level\":3,\"max_num_batched_tokens\":128,\"cuda_graph_sizes\":[1000]}",
         "cuda_graph_sizes=[1000] becomes [128]", limit, NULL, NULL},
        {"{\"level\":3,\"max_cudagraph_capture_size\":64,\"cuda_graph_sizes\":[32]}",
         "cuda_graph_sizes", "max_cudagraph_capture_size makes the ladder", NULL, NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rp_compilation_config *cfg = ok(cases[i].json);
        notes_are(cfg, cases[i].what, cases[i].why, cases[i].what2, cases[i].why2, NULL);
        rp_config_free(cfg);
    }
}

static void an_unsplit_model_has_no_pieces(void **state) {
    (void)state;
    rp_compilation_config *cfg = ok("{\"level\":3,\"splitting_ops\":[]}");
    is(cfg, "cudagraph_mode", "\"NONE\"");
    is(cfg, "splitting_ops", "[]");
    notes_are(cfg, "cudagraph_mode=PIECEWISE becomes NONE",
              "splitting_ops is empty, so attention is inside the one piece", NULL);
    rp_config_free(cfg);
    cfg = ok_with("{\"splitting_ops\":[]}", 2, &always);
    is(cfg, "cudagraph_mode", "\"FULL\"");
    rp_config_free(cfg);
    cfg = ok("{\"level\":3}");
    is(cfg, "splitting_ops", "[\"aiter.unified_attention_with_output\",\"aiter.mla_attention\"]");
    rp_config_free(cfg);
    cfg = ok("{\"level\":2,\"splitting_ops\":[\"a::b\"]}");
    is(cfg, "splitting_ops", "[]");
    notes_are(cfg, "splitting_ops at level 2", "only level 3 splits the graph", NULL);
    rp_config_free(cfg);
}

/* The graph of this test has attention and relu. */
static rp_status has_op(void *user, const char *name, bool *out, rp_error *err) {
    ++*(int *)user;
    if (!strcmp(name, "bad::one")) return rp_fail(err, RP_NOMEM, "no memory to look");
    *out = !strcmp(name, "aiter.attention") || !strcmp(name, "test::relu");
    return RP_OK;
}

static void splitting_ops_that_are_not_there_are_dropped(void **state) {
    (void)state;
    int asked = 0;
    rp_error err = {0};
    rp_model_facts facts = RP_MODEL_FACTS_INIT;
    static const char absent[] = "no op of the graph has this name";
    facts.has_op = has_op;
    facts.user = &asked;
    rp_compilation_config *cfg = ok_with(
        "{\"level\":3,\"splitting_ops\":[\"relu\",\"test::relu\",\"test::rleu\"]}", -1, &facts);
    is(cfg, "splitting_ops", "[\"test::relu\"]");
    is(cfg, "cudagraph_mode", "\"PIECEWISE\"");
    notes_are(cfg, "splitting_ops: relu", absent, "splitting_ops: test::rleu", absent, NULL);
    rp_config_free(cfg);
    cfg = ok_with("{\"level\":3,\"splitting_ops\":[\"atention\"]}", -1, &facts);
    is(cfg, "splitting_ops", "[]");
    notes_are(cfg, "splitting_ops: atention", absent, "cudagraph_mode=PIECEWISE becomes NONE",
              "splitting_ops is empty, so attention is inside the one piece", NULL);
    rp_config_free(cfg);
    asked = 0; /* what was not given is not asked for */
    cfg = ok_with("{\"level\":3}", -1, &facts);
    notes_are(cfg, NULL);
    assert_int_equal(asked, 0);
    rp_config_free(cfg);
    assert_int_equal(resolve("{\"level\":3,\"splitting_ops\":[\"x\",\"bad::one\",\"test::relu\"]}",
                             -1, &facts, NULL, &err),
                     RP_NOMEM);
}

static void registered_splitting_ops_are_a_default(void **state) {
    (void)state;
    static const char *const registered[] = {"mine::cumsum", "mine::sort"};
    rp_model_facts facts = RP_MODEL_FACTS_INIT;
    facts.splitting_ops = registered;
    facts.n_splitting_ops = 2;
    rp_compilation_config *cfg = ok_with("{\"level\":3}", -1, &facts);
    is(cfg, "splitting_ops",
       "[\"aiter.unified_attention_with_output\",\"aiter.mla_attention\","
       "\"mine::cumsum\",\"mine::sort\"]");
    rp_config_free(cfg);
    cfg = ok_with("{\"level\":3,\"splitting_ops\":[\"mine::sort\"]}", -1, &facts);
    is(cfg, "splitting_ops", "[\"mine::sort\"]"); /* what is given is all */
    rp_config_free(cfg);
    cfg = ok_with("{\"level\":2}", -1, &facts);
    is(cfg, "splitting_ops", "[]");
    rp_config_free(cfg);
}

static void attention_bounds_the_mode(void **state) {
    (void)state;
    static const char full[] = "{\"level\":3,\"cudagraph_mode\":\"FULL\"}";
    mode_is(full, -1, RP_ATTENTION_ALWAYS, 3, "FULL");
    mode_is(full, -1, RP_ATTENTION_UNIFORM_BATCH, 3, "FULL_AND_PIECEWISE");
    mode_is(full, -1, RP_ATTENTION_UNIFORM_SINGLE_TOKEN_DECODE, 3, "FULL_AND_PIECEWISE");
    mode_is("{\"level\":2,\"cudagraph_mode\":\"FULL\"}", -1, RP_ATTENTION_UNIFORM_BATCH, 2,
            "FULL_DECODE_ONLY");
    mode_is("{\"level\":3,\"cudagraph_mode\":\"FULL\",\"splitting_ops\":[]}", -1,
            RP_ATTENTION_UNIFORM_BATCH, 3, "FULL_DECODE_ONLY");
    mode_is("{}", 2, RP_ATTENTION_NEVER, 3, "PIECEWISE");
    mode_is("{}", 2, RP_ATTENTION_UNIFORM_SINGLE_TOKEN_DECODE, 3, "FULL_AND_PIECEWISE");
    mode_is("{\"level\":0,\"cudagraph_mode\":\"FULL_DECODE_ONLY\"}", -1, RP_ATTENTION_NEVER, 0,
            "NONE");
    rp_error err = {0};
    rp_model_facts facts = RP_MODEL_FACTS_INIT;
    facts.attention = RP_ATTENTION_NEVER;
    assert_int_equal(resolve(full, -1, &facts, NULL, &err), RP_UNSUPPORTED);
    assert_string_equal(err.text, "cudagraph_mode=FULL: this attention cannot be captured; use "
                                  "cudagraph_mode=PIECEWISE");
}

/* Several tokens a request need more of attention than one does. */
static void speculation_bounds_the_mode(void **state) {
    (void)state;
    for (int support = RP_ATTENTION_UNIFORM_SINGLE_TOKEN_DECODE;
         support <= RP_ATTENTION_UNIFORM_BATCH; support++) {
        rp_error err = {0};
        rp_model_facts facts = RP_MODEL_FACTS_INIT;
        rp_compilation_config *cfg = rp_config_new();
        facts.attention = (rp_attention_support)support;
        CHECK_OK(rp_config_set_olevel(cfg, 2, &err), &err);
        cfg->num_speculative_tokens = 1; /* not typed: there is no draft model yet */
        CHECK_OK(rp_config_resolve(cfg, &facts, &err), &err);
        if (support < RP_ATTENTION_UNIFORM_BATCH) {
            is(cfg, "cudagraph_mode", "\"PIECEWISE\"");
            notes_are(cfg, "cudagraph_mode=FULL_AND_PIECEWISE becomes PIECEWISE",
                      "this attention can be captured for one token a request only", NULL);
        } else {
            is(cfg, "cudagraph_mode", "\"FULL_AND_PIECEWISE\"");
            is(cfg, "decode_capture_sizes", "[1,2,4,8,16,32,48,64]");
            const config_ints *sizes = &cfg->cudagraph_capture_sizes;
            assert_true(config_ints_has(sizes, 96)); /* 48 requests of two tokens */
            assert_false(config_ints_has(sizes, 95));
        }
        rp_config_free(cfg);
    }
}

/* Decode sizes count requests, capture sizes tokens. */
static void speculation_multiplies_captured_tokens(void **state) {
    rp_error err = {0};
    rp_model_facts facts = RP_MODEL_FACTS_INIT;
    (void)state;
    rp_compilation_config *cfg = rp_config_new();
    facts.attention = RP_ATTENTION_ALWAYS;
    CHECK_OK(rp_config_set(cfg, "level=3", &err), &err);
    CHECK_OK(rp_config_set(cfg, "cudagraph_mode=FULL_DECODE_ONLY", &err), &err);
    cfg->num_speculative_tokens = 2;
    CHECK_OK(rp_config_resolve(cfg, &facts, &err), &err);
    is(cfg, "decode_capture_sizes", "[1,2,4,8,16,32,48,64]");
    is(cfg, "cudagraph_capture_sizes", "[3,6,12,24,48,96,144,192]");
    rp_config_free(cfg);
}

static int warnings;
static char last_warning[256];
static void on_log(void *user, rp_log_level level, const char *text) {
    (void)user;
    if (level != RP_LOG_WARNING) return;
    warnings++;
    (void)snprintf(last_warning, sizeof last_warning, "%s", text);
}

static void enforce_eager_names_what_it_overrides(void **state) {
    (void)state;
    warnings = 0;
    rp_log_set_callback(on_log, NULL);
    rp_compilation_config *cfg =
        ok_with("{\"enforce_eager\":true,\"mode\":3,\"cudagraph_mode\":\"FULL\","
                "\"cudagraph_capture_sizes\":[1,2]}",
                2, &always);
    rp_log_set_callback(NULL, NULL);
    is(cfg, "level", "0");
    is(cfg, "cudagraph_mode", "\"NONE\"");
    is(cfg, "cudagraph_capture_sizes", "[]");
    is(cfg, "max_cudagraph_capture_size", "0");
    is(cfg, "graph_bs", "[]");
    is(cfg, "backend", "\"eager\"");
    static const char why[] = "enforce_eager overrides it";
    notes_are(cfg, "mode=3", why, "optimization_level=2", why, "cudagraph_mode=\"FULL\"", why,
              "cudagraph_capture_sizes=[1,2]", why, NULL);
    assert_int_equal(warnings, 4);
    assert_string_equal(last_warning, "cudagraph_capture_sizes=[1,2]: enforce_eager overrides it");
    rp_config_free(cfg);
    static const char *const agree[] = {"\"level\":0,\"cudagraph_mode\":\"NONE\"",
                                        "\"optimization_level\":0", "\"use_cudagraph\":false"};
    for (size_t i = 0; i < sizeof agree / sizeof *agree; i++) {
        char text[100];
        (void)snprintf(text, sizeof text, "{\"enforce_eager\":true,%s}", agree[i]);
        cfg = ok(text);
        notes_are(cfg, NULL); /* nothing was overridden */
        rp_config_free(cfg);
    }
    cfg = ok("{\"enforce_eager\":true,\"optimization_level\":1}");
    notes_are(cfg, "optimization_level=1", why, NULL);
    rp_config_free(cfg);
    cfg = ok("{\"enforce_eager\":true,\"use_cudagraph\":true}");
    notes_are(cfg, "use_cudagraph=true", why, NULL);
    rp_config_free(cfg);
}

static const char of_a_model[] =
    "backend=mine: models take only inductor and eager, at each level; functions (rp_jit_new) and "
    "graphs (rp_compile) take others";

static void contradictions_are_refused(void **state) {
    (void)state;
    refused("{\"use_cudagraph\":false,\"cudagraph_mode\":\"FULL\"}", RP_CONFIG,
            "use_cudagraph=false contradicts cudagraph_mode=FULL; give one of the two");
    refused("{\"use_inductor\":false,\"backend\":\"Inductor\"}", RP_CONFIG,
            "use_inductor=false contradicts backend=inductor; give one of the two");
    refused("{\"level\":3,\"backend\":\"mine\"}", RP_CONFIG, of_a_model);
    refused("{\"level\":2,\"backend\":\"mine\"}", RP_CONFIG, of_a_model);
    refused("{\"level\":1,\"backend\":\"mine\"}", RP_CONFIG, of_a_model);
    refused("{\"level\":1,\"backend\":\"inductor\"}", RP_CONFIG,
            "backend=inductor needs level 2 or 3: level 1 runs the graph op by op");
    refused("{\"device\":\"gpu\"}", RP_CONFIG, "device=gpu: expected cpu, null, cuda or cuda:N");
    refused("{\"device\":\"cuda:x\"}", RP_CONFIG,
            "device=cuda:x: expected cpu, null, cuda or cuda:N");
    refused("{\"device\":\"cuda:-1\"}", RP_CONFIG,
            "device=cuda:-1: expected cpu, null, cuda or cuda:N");
    refused("{\"device\":\"cuda:1024\"}", RP_CONFIG,
            "device=cuda:1024: expected cpu, null, cuda or cuda:N");
    rp_config_free(ok("{\"device\":\"cuda:1023\"}"));
    refused(
        "{\"max_num_seqs\":64,\"max_num_batched_tokens\":8}", RP_CONFIG,
        "max_num_batched_tokens=8 is less than max_num_seqs=64: each request needs a token in a "
        "step; raise the first or lower the second");
}

static void backends(void **state) {
    (void)state;
    static const struct {
        const char *json, *backend;
    } cases[] = {
        {"{}", "\"eager\""},
        {"{\"level\":1}", "\"eager\""},
        {"{\"level\":2}", "\"inductor\""},
        {"{\"level\":3}", "\"inductor\""},
        {"{\"level\":3,\"backend\":\"EAGER\"}", "\"eager\""},
        {"{\"level\":3,\"use_inductor\":false}", "\"eager\""},
        {"{\"level\":0,\"backend\":\"inductor\"}", "\"eager\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rp_compilation_config *cfg = ok(cases[i].json);
        is(cfg, "backend", cases[i].backend);
        rp_config_free(cfg);
    }
}

/* Compilers of the caller take levels 1 to 3, by the names that they have. */
static void backends_of_others(void **state) {
    static const char *const names[] = {"openvino", "mine"};
    static const struct {
        const char *json;
        rp_status code;
        const char *text;
    } cases[] = {
        {"{\"level\":2,\"backend\":\"yours\"}", RP_CONFIG,
         "backend=yours is not registered; there are openvino, mine"},
        {"{\"level\":2,\"backend\":\"Mine\"}", RP_CONFIG,
         "backend=Mine is not registered; there are openvino, mine"},
        {"{\"level\":3,\"backend\":\"yours\"}", RP_CONFIG,
         "backend=yours is not registered; there are openvino, mine"},
        {"{\"level\":2,\"backend\":\"TVM\"}", RP_UNSUPPORTED,
         "backend=TVM: TVM compiles by its Python packages, which no C library replaces"},
        {"{\"level\":0,\"backend\":\"ipex\"}", RP_UNSUPPORTED,
         "backend=ipex: Intel's extension runs inside of PyTorch's process alone"},
    };
    rp_model_facts facts = RP_MODEL_FACTS_INIT;
    (void)state;
    facts.backends = names;
    facts.n_backends = 2;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rp_error err = {0};
        assert_int_equal(resolve(cases[i].json, -1, &facts, NULL, &err), cases[i].code);
        assert_string_equal(err.text, cases[i].text);
    }
    for (int i = 1; i < 4; i++) {
        char json[48];
        (void)snprintf(json, sizeof json, "{\"level\":%d,\"backend\":\"%s\"}", i,
                       i == 1 ? "openvino" : "mine");
        rp_compilation_config *cfg = ok_with(json, -1, &facts);
        is(cfg, "backend", i == 1 ? "\"openvino\"" : "\"mine\"");
        rp_config_free(cfg);
    }
    refused("{\"level\":2,\"backend\":\"mine\"}", RP_CONFIG, of_a_model);
}

static void batch_limits(void **state) {
    (void)state;
    static const struct {
        const char *json, *seqs, *tokens;
    } cases[] = {
        {"{}", "64", "512"},
        {"{\"device\":\"CUDA:1\"}", "512", "16384"},
        {"{\"max_num_seqs\":1000}", "1000", "1000"},
        {"{\"max_num_batched_tokens\":16}", "16", "16"},
        {"{\"max_num_seqs\":4,\"max_num_batched_tokens\":8}", "4", "8"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rp_compilation_config *cfg = ok(cases[i].json);
        is(cfg, "max_num_seqs", cases[i].seqs);
        is(cfg, "max_num_batched_tokens", cases[i].tokens);
        rp_config_free(cfg);
    }
    rp_model_facts facts = RP_MODEL_FACTS_INIT;
    facts.max_model_len = 8192;
    rp_compilation_config *cfg = ok_with("{}", -1, &facts);
    is(cfg, "max_model_len", "8192");
    rp_config_free(cfg);
    cfg = ok_with("{\"max_model_len\":8192}", -1, &facts); /* all of them */
    is(cfg, "max_model_len", "8192");
    rp_config_free(cfg);
    rp_error err = {0};
    assert_int_equal(resolve("{\"max_model_len\":9000}", -1, &facts, NULL, &err), RP_CONFIG);
    assert_string_equal(err.text,
                        "max_model_len=9000 exceeds the 8192 positions that the model was "
                        "trained for; lower it");
    facts.size = 4;
    err = (rp_error){0};
    assert_int_equal(resolve("{}", -1, &facts, NULL, &err), RP_INVALID);
}

/* A largest size that is just the most of a step is no contradiction, one more is. */
static void a_largest_size_may_be_all_of_a_step(void **state) {
    (void)state;
    rp_compilation_config *cfg = ok("{\"level\":3,\"max_num_batched_tokens\":64,"
                                    "\"max_num_seqs\":8,\"max_cudagraph_capture_size\":64}");
    notes_are(cfg, NULL);
    rp_config_free(cfg);
    cfg = ok("{\"level\":3,\"max_num_batched_tokens\":64,"
             "\"max_num_seqs\":8,\"max_cudagraph_capture_size\":65}");
    notes_are(cfg, "max_cudagraph_capture_size=65 becomes 64",
              "a step holds no more than max_num_batched_tokens", NULL);
    rp_config_free(cfg);
}

static void ladders_become_lists(void **state) {
    (void)state;
    rp_compilation_config *cfg =
        ok("{\"level\":3,\"cudagraph_mode\":\"FULL_AND_PIECEWISE\",\"max_num_seqs\":5,"
           "\"cuda_graph_sizes\":[20]}");
    is(cfg, "decode_capture_sizes", "[1,2,4,5]");
    is(cfg, "mixed_capture_sizes", "[1,2,4,8,16,20]");
    is(cfg, "cudagraph_capture_sizes", "[1,2,4,5,8,16,20]");
    is(cfg, "graph_bs", "[1,2,4,5]");
    is(cfg, "max_cudagraph_capture_size", "20");
    rp_config_free(cfg);
    cfg = ok("{\"level\":3,\"cuda_graph_sizes\":[4]}");
    is(cfg, "decode_capture_sizes", "[]");
    is(cfg, "graph_bs", "[1,2,4]");
    rp_config_free(cfg);
    cfg = ok("{\"level\":3,\"cuda_graph_sizes\":[]}"); /* empty is the default */
    is(cfg, "max_cudagraph_capture_size", "512");
    rp_config_free(cfg);
    cfg = ok("{\"level\":2,\"cudagraph_capture_sizes\":[4],\"max_cudagraph_capture_size\":8}");
    is(cfg, "cudagraph_capture_sizes", "[]");
    notes_are(cfg, "cudagraph_capture_sizes", "cudagraph_mode is NONE",
              "max_cudagraph_capture_size=8", "cudagraph_mode is NONE", NULL);
    rp_config_free(cfg);
    refused(
        "{\"level\":3,\"cudagraph_capture_sizes\":[]}", RP_CONFIG,
        "cudagraph_capture_sizes=[] leaves nothing to capture for cudagraph_mode=PIECEWISE; give "
        "sizes, or cudagraph_mode=NONE");
    cfg = ok("{\"cudagraph_capture_sizes\":[],\"max_cudagraph_capture_size\":0}"); /* NONE: fine */
    notes_are(cfg, NULL);
    rp_config_free(cfg);
}

/* Numbers of a step, of which the word is as many as there are graphs. */
static void sizes_with_code_of_their_own(void **state) {
    static const struct {
        const char *json, *sizes;
    } cases[] = {
        {"{\"level\":3,\"compile_sizes\":[8,1,8]}", "[1,8]"},
        {"{\"level\":2,\"compile_sizes\":[512]}", "[512]"},
        {"{\"level\":3,\"cudagraph_mode\":\"FULL_AND_PIECEWISE\",\"max_num_seqs\":5,"
         "\"cuda_graph_sizes\":[20],\"compile_sizes\":[\"cudagraph_capture_sizes\",2,3]}",
         "[1,2,3,4,5,8,16,20]"},
        {"{\"level\":3,\"compile_sizes\":[]}", "[]"},
        {"{\"level\":3}", "null"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rp_compilation_config *cfg = ok(cases[i].json);
        is(cfg, "compile_sizes", cases[i].sizes);
        notes_are(cfg, NULL);
        rp_config_free(cfg);
    }
    static const char none[] = "only backend=inductor has code for a size";
    rp_compilation_config *cfg = ok("{\"level\":1,\"compile_sizes\":[1,2]}");
    is(cfg, "compile_sizes", "[]");
    notes_are(cfg, "compile_sizes=[1,2]", none, NULL);
    rp_config_free(cfg);
    cfg = ok("{\"level\":1,\"compile_sizes\":[\"cudagraph_capture_sizes\",2]}");
    is(cfg, "compile_sizes", "[]");
    rp_config_free(cfg);
    cfg = ok("{\"enforce_eager\":true,\"compile_sizes\":[1,2]}");
    is(cfg, "compile_sizes", "[]");
    notes_are(cfg, "compile_sizes=[1,2]", "enforce_eager overrides it", NULL);
    rp_config_free(cfg);
    cfg = ok("{\"level\":2,\"compile_sizes\":[3,\"cudagraph_capture_sizes\"]}");
    is(cfg, "compile_sizes", "[3]");
    notes_are(cfg, "compile_sizes=\"cudagraph_capture_sizes\"", "no size is captured", NULL);
    rp_config_free(cfg);
    refused("{\"level\":3,\"compile_sizes\":[1,600]}", RP_CONFIG,
            "compile_sizes: 600 exceeds max_num_batched_tokens=512; drop it or raise the limit");
}

static void ranges_end_within_a_step(void **state) {
    static const struct {
        const char *json, *ends, *what, *reason;
    } cases[] = {
        {"{\"level\":3,\"compile_ranges_endpoints\":[64,8,64]}", "[8,64]", NULL, NULL},
        {"{\"level\":2,\"compile_ranges_split_points\":[512]}", "[512]", NULL, NULL},
        {"{\"level\":3,\"compile_ranges_endpoints\":[8,8192]}", "[8]",
         "compile_ranges_endpoints: 8192", "a step holds no more than max_num_batched_tokens"},
        {"{\"level\":1,\"compile_ranges_endpoints\":[8]}", "[]", "compile_ranges_endpoints=[8]",
         "only backend=inductor has code for a size"},
        {"{\"enforce_eager\":true,\"compile_ranges_endpoints\":[8]}", "[]",
         "compile_ranges_endpoints=[8]", "enforce_eager overrides it"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rp_compilation_config *cfg = ok(cases[i].json);
        is(cfg, "compile_ranges_endpoints", cases[i].ends);
        if (cases[i].what)
            notes_are(cfg, cases[i].what, cases[i].reason, NULL);
        else
            notes_are(cfg, NULL);
        rp_config_free(cfg);
    }
}

static void passes_follow_the_level(void **state) {
    (void)state;
    rp_compilation_config *cfg = ok("{\"level\":3,\"pass_config\":{\"fuse_act_quant\":false}}");
    is(cfg, "pass_config.fuse_norm_quant", "true");
    is(cfg, "pass_config.fuse_act_quant", "false");
    rp_config_free(cfg);
    cfg = ok_with("{\"level\":3}", 0, &always);
    is(cfg, "pass_config.fuse_norm_quant", "false");
    rp_config_free(cfg);
    cfg = ok("{\"level\":1}");
    is(cfg, "pass_config.eliminate_noops", "false");
    rp_config_free(cfg);
}

static void require_graph_refuses_downgrades(void **state) {
    (void)state;
    refused("{\"level\":2,\"cudagraph_mode\":\"PIECEWISE\",\"require_graph\":true}", RP_CONFIG,
            "require_graph: cudagraph_mode=PIECEWISE becomes NONE: PIECEWISE graphs need level 3");
    refused("{\"level\":2,\"cudagraph_mode\":\"FULL_AND_PIECEWISE\",\"require_graph\":true}",
            RP_CONFIG,
            "require_graph: cudagraph_mode=FULL_AND_PIECEWISE becomes FULL_DECODE_ONLY: PIECEWISE "
            "graphs need level 3");
    refused("{\"require_graph\":true}", RP_CONFIG,
            "require_graph: cudagraph_mode is NONE; give a cudagraph_mode, as in --level 3");
    refused("{\"require_graph\":true,\"level\":3,\"use_cudagraph\":false}", RP_CONFIG,
            "require_graph: use_cudagraph=false switches graphs off; give a cudagraph_mode, as in "
            "--level 3");
    refused(
        "{\"require_graph\":true,\"level\":3,\"enforce_eager\":true}", RP_CONFIG,
        "require_graph: enforce_eager switches graphs off; give a cudagraph_mode, as in --level "
        "3");
    rp_config_free(ok("{\"require_graph\":true,\"level\":3}"));
}

static void only_pieces_copy_inputs(void **state) {
    (void)state;
    rp_compilation_config *cfg = ok("{\"cudagraph_copy_inputs\":true}");
    notes_are(cfg, "cudagraph_copy_inputs=true", "only PIECEWISE graphs copy inputs", NULL);
    rp_config_free(cfg);
    static const struct {
        const char *mode;
        bool copies;
    } modes[] = {{"NONE", false},
                 {"FULL", false},
                 {"FULL_DECODE_ONLY", false},
                 {"PIECEWISE", true},
                 {"FULL_AND_PIECEWISE", true}};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        char json[128];
        (void)snprintf(json, sizeof json,
                       "{\"level\":3,\"cudagraph_copy_inputs\":true,\"cudagraph_mode\":\"%s\"}",
                       modes[i].mode);
        cfg = ok(json);
        const rp_config_note *notes;
        size_t n = rp_config_notes(cfg, &notes), said = 0;
        for (size_t k = 0; k < n; k++) said += !strcmp(notes[k].what, "cudagraph_copy_inputs=true");
        if (said != !modes[i].copies) fail_msg("%s: said %zu times", modes[i].mode, said);
        rp_config_free(cfg);
    }
}

static void the_environment_fills_in(void **state) {
    (void)state;
    setenv("REPRISE_COMPILE_CACHE_SAVE_FORMAT", "unpacked", 1);
    setenv("REPRISE_DEBUG_DUMP_PATH", "/tmp/dump", 1);
    rp_compilation_config *cfg = ok("{\"debug_dump_path\":\"/tmp/typed\"}");
    is(cfg, "compile_cache_save_format", "\"unpacked\"");
    is(cfg, "debug_dump_path", "\"/tmp/dump\"");
    rp_config_free(cfg);
    cfg = ok("{\"compile_cache_save_format\":\"binary\"}"); /* what was typed stays */
    is(cfg, "compile_cache_save_format", "\"binary\"");
    rp_config_free(cfg);
    setenv("REPRISE_COMPILE_CACHE_SAVE_FORMAT", "zip", 1);
    refused(
        "{}", RP_CONFIG,
        "REPRISE_COMPILE_CACHE_SAVE_FORMAT sets compile_cache_save_format=\"zip\": expected one "
        "of binary, unpacked");
    unsetenv("REPRISE_COMPILE_CACHE_SAVE_FORMAT");
    unsetenv("REPRISE_DEBUG_DUMP_PATH");
    setenv("REPRISE_DEBUG", "1", 1);
    char own[64];
    (void)snprintf(own, sizeof own, "\"reprise_debug/run-%ld\"", (long)getpid());
    cfg = ok("{}");
    is(cfg, "debug_dump_path", own);
    rp_config_free(cfg);
    cfg = ok("{\"debug_dump_path\":\"/tmp/typed\"}");
    is(cfg, "debug_dump_path", "\"/tmp/typed\"");
    rp_config_free(cfg);
    setenv("REPRISE_DEBUG", "0", 1);
    cfg = ok("{}");
    is(cfg, "debug_dump_path", "\"\"");
    rp_config_free(cfg);
    unsetenv("REPRISE_DEBUG");
}

static void resolving_twice_changes_nothing(void **state) {
    (void)state;
    rp_error err = {0};
    char *a = NULL, *b = NULL;
    rp_compilation_config *copy = NULL;
    rp_compilation_config *cfg = ok("{\"level\":2,\"cudagraph_mode\":\"PIECEWISE\"}");
    CHECK_OK(rp_config_to_json(cfg, &a, &err), &err);
    CHECK_OK(rp_config_resolve(cfg, NULL, &err), &err);
    CHECK_OK(rp_config_clone(cfg, &copy, &err), &err);
    assert_true(rp_config_is_resolved(copy));
    assert_true(rp_config_is_typed(copy, "cudagraph_mode"));
    assert_int_equal(rp_config_notes(copy, NULL), 1);
    CHECK_OK(rp_config_to_json(copy, &b, &err), &err);
    assert_string_equal(a, b);
    rp_config_text_free(a);
    rp_config_text_free(b);
    rp_config_free(copy);
    rp_config_free(cfg);
}

static int nothing_left(void **state) {
    (void)state;
    return base_live() != 0;
}
#define TEST(name) cmocka_unit_test_teardown(name, nothing_left)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(levels_and_presets),
        TEST(piecewise_needs_level_three),
        TEST(sizes_that_count_for_nothing_are_named),
        TEST(an_unsplit_model_has_no_pieces),
        TEST(splitting_ops_that_are_not_there_are_dropped),
        TEST(registered_splitting_ops_are_a_default),
        TEST(attention_bounds_the_mode),
        TEST(speculation_bounds_the_mode),
        TEST(speculation_multiplies_captured_tokens),
        TEST(enforce_eager_names_what_it_overrides),
        TEST(contradictions_are_refused),
        TEST(backends),
        TEST(backends_of_others),
        TEST(batch_limits),
        TEST(a_largest_size_may_be_all_of_a_step),
        TEST(ladders_become_lists),
        TEST(sizes_with_code_of_their_own),
        TEST(ranges_end_within_a_step),
        TEST(passes_follow_the_level),
        TEST(require_graph_refuses_downgrades),
        TEST(only_pieces_copy_inputs),
        TEST(the_environment_fills_in),
        TEST(resolving_twice_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
