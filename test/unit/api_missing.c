/* What every call needs and does not get: NULL in the place of each thing that must be given is refused as RP_INVALID, with a
 * line that names it, and nothing is left behind. */
#include "support/check.h"
#include "support/elsewhere.h"
#include "support/engines.h"
#include "support/trees.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "reprise/reprise.h"

/* Refused with and without a place for the reason, which holds that of an earlier call. */
#define REFUSES(call, word)                                                                   \
    do {                                                                                      \
        rp_error reason = {.code = RP_IO, .text = "earlier"}, *err = &reason;                 \
        rp_status refusal = (call);                                                           \
        if (refusal != RP_INVALID || reason.code != RP_INVALID || !strstr(reason.text, word)) \
            fail_msg("%s: %s: '%s'", #call, rp_status_name(refusal), reason.text);            \
        err = NULL;                                                                           \
        assert_int_equal((call), RP_INVALID);                                                 \
    } while (0)

static void configuration(void **state) {
    size_t live = base_live();
    rp_compilation_config *cfg = rp_config_new(), *copy = NULL;
    char *text = NULL;
    int64_t n = 0;
    (void)state;
    REFUSES(rp_config_clone(NULL, &copy, err), "cfg and out must be given");
    REFUSES(rp_config_clone(cfg, NULL, err), "cfg and out must be given");
    REFUSES(rp_config_set_json(NULL, "{}", err), "configuration must be given");
    REFUSES(rp_config_set_json(cfg, NULL, err), "json must be given");
    REFUSES(rp_config_set(NULL, "level=1", err), "configuration must be given");
    REFUSES(rp_config_set(cfg, NULL, err), "assignment must be given");
    REFUSES(rp_config_set_key(NULL, "level", "1", err), "configuration must be given");
    REFUSES(rp_config_set_key(cfg, NULL, "1", err), "key and value needed");
    REFUSES(rp_config_set_key(cfg, "level", NULL, err), "key and value needed");
    REFUSES(rp_config_set_olevel(NULL, 1, err), "configuration must be given");
    REFUSES(rp_config_apply_default_olevel(NULL, 1, err), "configuration must be given");
    REFUSES(rp_config_resolve(NULL, NULL, err), "configuration must be given");
    REFUSES(rp_config_get_int(NULL, "level", &n, err), "configuration and key must be given");
    REFUSES(rp_config_get_int(cfg, NULL, &n, err), "configuration and key must be given");
    REFUSES(rp_config_get_int(cfg, "level", NULL, err), "out must be given");
    REFUSES(rp_config_get_json(NULL, "level", &text, err), "configuration and key must be given");
    REFUSES(rp_config_get_json(cfg, "level", NULL, err), "out must be given");
    REFUSES(rp_config_to_json(NULL, &text, err), "cfg and out needed");
    REFUSES(rp_config_to_json(cfg, NULL, err), "cfg and out needed");
    REFUSES(rp_config_key_pieces(NULL, RP_KEY_OUTER, &text, err), "cfg and out needed");
    REFUSES(rp_config_key_pieces(cfg, RP_KEY_OUTER, NULL, err), "cfg and out needed");
    REFUSES(rp_config_help_text(NULL, err), "out must be given");
    REFUSES(rp_config_help_of(NULL, &text, err), "key and out needed");
    REFUSES(rp_config_help_of("level", NULL, err), "key and out needed");
    REFUSES(rp_config_doc_markdown(NULL, err), "out must be given");
    REFUSES(rp_env_help_text(NULL, err), "out must be given");
    REFUSES(rp_env_doc_markdown(NULL, err), "out must be given");
    assert_false(rp_config_is_typed(NULL, "level"));
    assert_false(rp_config_is_resolved(NULL));
    assert_int_equal(rp_config_level(NULL), RP_LEVEL_NO_COMPILATION);
    assert_int_equal(rp_config_cudagraph_mode(NULL), RP_CUDAGRAPH_NONE);
    rp_config_free(cfg);
    rp_config_free(NULL);
    assert_int_equal(base_live(), live);
}

static bool no_entry(void *user, const rp_cache_entry *e) {
    (void)user, (void)e;
    return false;
}

static bool no_share(void *user, const rp_cache_share *s) {
    (void)user, (void)s;
    return false;
}

static void cache(void **state) {
    size_t live = base_live();
    rp_error err_of_open = {0};
    rp_cache *c = NULL;
    char *text = NULL;
    uint64_t n = 0, bytes = 0;
    char folder[64];
    (void)state;
    assert_int_equal(tree_make(folder, sizeof folder), 0);
    CHECK_OK(rp_cache_open(folder, &c, &err_of_open), &err_of_open);
    REFUSES(rp_cache_open(folder, NULL, err), "out is NULL");
    REFUSES(rp_cache_list(NULL, false, no_entry, NULL, err), "cache and function must be given");
    REFUSES(rp_cache_list(c, false, NULL, NULL, err), "cache and function must be given");
    REFUSES(rp_cache_usage(NULL, no_share, NULL, err), "cache and function must be given");
    REFUSES(rp_cache_usage(c, NULL, NULL, err), "cache and function must be given");
    REFUSES(rp_cache_why(NULL, "synthetic:tiny", rp_config_new(), &text, err), "must be given");
    REFUSES(rp_cache_why(c, NULL, rp_config_new(), &text, err), "must be given");
    REFUSES(rp_cache_why(c, "synthetic:tiny", rp_config_new(), NULL, err), "must be given");
    REFUSES(rp_cache_why_json(NULL, "synthetic:tiny", NULL, &text, err), "must be given");
    REFUSES(rp_cache_why_json(c, NULL, NULL, &text, err), "must be given");
    REFUSES(rp_cache_why_json(c, "synthetic:tiny", NULL, NULL, err), "must be given");
    REFUSES(rp_cache_compare_json(NULL, "a", "b", &text, err), "two keys and out must be given");
    REFUSES(rp_cache_compare_json(c, NULL, "b", &text, err), "two keys and out must be given");
    REFUSES(rp_cache_compare_json(c, "a", NULL, &text, err), "two keys and out must be given");
    REFUSES(rp_cache_compare_json(c, "a", "b", NULL, err), "two keys and out must be given");
    REFUSES(rp_cache_prune(NULL, 0, &n, &bytes, err), "cache is NULL");
    REFUSES(rp_cache_export(NULL, "-", &n, &bytes, err), "cache is NULL");
    REFUSES(rp_cache_export(c, NULL, &n, &bytes, err), "path is NULL");
    REFUSES(rp_cache_import(NULL, "-", &n, &bytes, err), "cache and path must be given");
    REFUSES(rp_cache_import(c, NULL, &n, &bytes, err), "cache and path must be given");
    rp_cache_close(c);
    rp_cache_close(NULL);
    CHECK_OK(base_path_remove(folder, &err_of_open), &err_of_open);
    assert_int_equal(base_live(), live);
}

static void graphs(void **state) {
    size_t live = base_live();
    rp_error err_of_graph = {0};
    rp_graph *g = rp_graph_new("missing"), *other = NULL;
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(rp_dim_const(4)));
    rp_tensor w = rp_param(g, "w", RP_DTYPE_F32, RP_SHAPE(rp_dim_const(4)));
    rp_tensor y = rp_add(x, w);
    rp_compiled *c = NULL;
    rp_compiled_info info = RP_COMPILED_INFO_INIT;
    char *text = NULL;
    float in[4] = {0}, out[4];
    rp_buffer i = {RP_DTYPE_F32, 1, {4}, in}, o = {RP_DTYPE_F32, 1, {4}, out}, none = i;
    (void)state;
    none.data = NULL;
    REFUSES(rp_graph_finish(NULL, &y, 1, err), "graph is NULL");
    CHECK_OK(rp_graph_finish(g, &y, 1, &err_of_graph), &err_of_graph);
    REFUSES(rp_graph_finish(g, &y, 1, err), "graph @missing is finished already");
    REFUSES(rp_graph_verify(NULL, err), "graph is NULL");
    REFUSES(rp_graph_optimize(NULL, "", &other, err), "graph is NULL");
    REFUSES(rp_graph_optimize(g, "", NULL, err), "out is NULL");
    REFUSES(rp_graph_lower_text(NULL, "c", NULL, &text, err), "graph is NULL");
    REFUSES(rp_graph_lower_text(g, "c", NULL, NULL, err), "out is NULL");
    REFUSES(rp_graph_eval_text(NULL, RP_BACKEND_INTERP, 1, "", &text, err), "graph is NULL");
    REFUSES(rp_graph_eval_text(g, RP_BACKEND_INTERP, 1, "", NULL, err), "out is NULL");
    REFUSES(rp_compile(NULL, NULL, &c, err), "graph is NULL");
    REFUSES(rp_compile(g, NULL, NULL, err), "out is NULL");
    CHECK_OK(rp_compile(g, NULL, &c, &err_of_graph), &err_of_graph);
    REFUSES(rp_compiled_bind(NULL, "w", in, err), "graph and name must be given");
    REFUSES(rp_compiled_bind(c, NULL, in, err), "graph and name must be given");
    REFUSES(rp_compiled_bind(c, "w", NULL, err), "data must be given");
    REFUSES(rp_compiled_outputs(NULL, &i, 1, &o, 1, err), "compiled graph is NULL");
    REFUSES(rp_compiled_run(NULL, &i, 1, &o, 1, err), "compiled graph is NULL");
    REFUSES(rp_compiled_run(c, &i, 1, &o, 1, err), "param w of graph @missing has no data");
    CHECK_OK(rp_compiled_bind(c, "w", in, &err_of_graph), &err_of_graph);
    REFUSES(rp_compiled_run(c, NULL, 1, &o, 1, err), "input");
    REFUSES(rp_compiled_run(c, &i, 1, NULL, 1, err), "output");
    REFUSES(rp_compiled_run(c, &none, 1, &o, 1, err), "input x has no data");
    REFUSES(rp_compiled_get_info(NULL, &info, err), "graph must be given");
    REFUSES(rp_compiled_get_info(c, NULL, err), "rp_compiled_info is NULL");
    rp_compiled_free(c);
    rp_compiled_free(NULL);
    rp_graph_free(g);
    rp_graph_free(NULL);
    assert_int_equal(base_live(), live);
}

static void files_and_machines(void **state) {
    (void)state;
    REFUSES(rp_machine_report(NULL, NULL, err), "out is NULL");
    REFUSES(rp_model_synthesize(NULL, "a.gguf", NULL, err), "spec and path must be given");
    REFUSES(rp_model_synthesize("synthetic:tiny", NULL, NULL, err), "spec and path must be given");
}

static char heard[64];

static void hear(void *user, rp_log_level level, const char *text) {
    (void)user, (void)level;
    (void)snprintf(heard, sizeof heard, "%s", text);
}

/* No channels are those of none; what is wrong is told with and without a place for the reason. */
static void channels_and_variables(void **state) {
    static const char *const none[] = {NULL, ""};
    rp_error why = {0};
    (void)state;
    rp_log_set_callback(hear, NULL);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(rp_log_set_channels("cache", &why), &why);
        base_log_ch(RP_LOG_CH_CACHE, false, "%d", i);
        assert_string_equal(heard, i ? "[cache] 1" : "[cache] 0");
        assert_int_equal(rp_log_set_channels("cash", NULL), RP_CONFIG);
        assert_int_equal(rp_log_set_channels("cash", &why), RP_CONFIG);
        assert_non_null(strstr(why.text, "cash"));
        assert_int_equal(rp_log_set_channels(none[i], i ? NULL : &why), RP_OK);
        if (i == 0) assert_int_equal(why.code, RP_OK); /* the earlier reason is gone */
        base_log_ch(RP_LOG_CH_CACHE, false, "unheard");
        assert_string_equal(heard, i ? "[cache] 1" : "[cache] 0");
    }
    rp_log_set_callback(NULL, NULL);
    CHECK_OK(rp_env_check(&why), &why);
    assert_int_equal(setenv("REPRISE_LOGS", "cash", 1), 0);
    assert_int_equal(rp_env_check(NULL), RP_CONFIG);
    assert_int_equal(rp_env_check(&why), RP_CONFIG);
    assert_non_null(strstr(why.text, "REPRISE_LOGS=cash"));
    assert_int_equal(unsetenv("REPRISE_LOGS"), 0);
    assert_int_equal(rp_env_check(NULL), RP_OK);
    CHECK_OK(rp_env_check(&why), &why);
    assert_int_equal(why.code, RP_OK);
}

static void engine(void **state) {
    size_t live = base_live();
    rp_engine *e = engine_must("synthetic:tiny", (const char *[]){"level=0", NULL}), *none = NULL;
    rp_engine_options o = RP_ENGINE_OPTIONS_INIT;
    rp_request_options r = plain_request(1);
    rp_score_options score = RP_SCORE_OPTIONS_INIT;
    rp_hidden_options hidden = RP_HIDDEN_OPTIONS_INIT;
    rp_result result = RP_RESULT_INIT;
    rp_message message = {"user", "a"};
    uint64_t id = 0;
    int32_t *ids = NULL;
    uint32_t n = 0;
    char *text = NULL;
    (void)state;
    REFUSES(rp_engine_open(NULL, &none, err), "rp_engine_options is NULL");
    REFUSES(rp_engine_open(&o, NULL, err), "out is NULL");
    REFUSES(rp_engine_submit(NULL, &r, &id, err), "engine and out_id must be given");
    REFUSES(rp_engine_submit(e, &r, NULL, err), "engine and out_id must be given");
    REFUSES(rp_engine_submit(e, NULL, &id, err), "rp_request_options is NULL");
    id = must_submit(e, &r);
    REFUSES(rp_engine_step(NULL, NULL, err), "engine");
    REFUSES(rp_engine_result(NULL, id, &result, err), "engine");
    REFUSES(rp_engine_result(e, id, NULL, err), "rp_result is NULL");
    REFUSES(rp_engine_score(NULL, &score, NULL, err), "engine is NULL");
    REFUSES(rp_engine_score(e, NULL, NULL, err), "rp_score_options is NULL");
    REFUSES(rp_engine_hidden(NULL, &hidden, err), "rp_engine_hidden: engine is NULL");
    REFUSES(rp_engine_hidden(e, NULL, err), "rp_hidden_options is NULL");
    REFUSES(rp_engine_hidden(e, &hidden, err), "rp_engine_hidden: on_token is NULL");
    REFUSES(rp_engine_tokenize(NULL, "a", 1, &ids, &n, err), "engine");
    REFUSES(rp_engine_tokenize(e, NULL, 1, &ids, &n, err), "text");
    REFUSES(rp_engine_tokenize(e, "a", 1, NULL, &n, err), "out");
    REFUSES(rp_engine_tokenize(e, "a", 1, &ids, NULL, err), "out");
    REFUSES(rp_engine_detokenize(NULL, plain_prompt, 1, &text, err), "engine");
    REFUSES(rp_engine_detokenize(e, NULL, 1, &text, err), "ids");
    REFUSES(rp_engine_detokenize(e, plain_prompt, 1, NULL, err), "out");
    REFUSES(rp_engine_chat_ids(NULL, &message, 1, &ids, &n, err), "engine");
    REFUSES(rp_engine_chat_ids(e, NULL, 1, &ids, &n, err), "messages");
    REFUSES(rp_engine_chat_ids(e, &message, 1, NULL, &n, err), "out");
    REFUSES(rp_engine_chat_ids(e, &message, 1, &ids, NULL, err), "out");
    REFUSES(rp_engine_summary(NULL, &text, err), "engine");
    REFUSES(rp_engine_summary(e, NULL, err), "out");
    REFUSES(rp_engine_coverage(NULL, &text, err), "engine");
    REFUSES(rp_engine_coverage(e, NULL, err), "out must be given");
    REFUSES(rp_engine_coverage_json(NULL, &text, err), "engine");
    REFUSES(rp_engine_coverage_json(e, NULL, err), "out");
    REFUSES(rp_engine_profile(NULL, NULL, &text, err), "engine or out is NULL");
    REFUSES(rp_engine_profile(e, NULL, NULL, err), "engine or out is NULL");
    assert_null(rp_engine_config(NULL));
    rp_engine_abort(NULL, id);
    rp_engine_release(NULL, id);
    rp_engine_text_free(NULL);
    rp_engine_close(e);
    rp_engine_close(NULL);
    assert_int_equal(base_live(), live);
}

/* What an engine without graphs cannot say or do. */
static void engine_without_capture(void **state) {
    rp_engine_options o = RP_ENGINE_OPTIONS_INIT;
    rp_request_options r = plain_request(1);
    rp_score_options score = RP_SCORE_OPTIONS_INIT;
    rp_profile_options profile = RP_PROFILE_OPTIONS_INIT;
    rp_hidden_options hidden = RP_HIDDEN_OPTIONS_INIT;
    rp_error why = {0};
    rp_engine *e = NULL;
    uint64_t id = 0;
    char *text = NULL;
    bool more = false;
    (void)state;
    o.model = "synthetic:tiny";
    o.no_capture = true;
    CHECK_OK(rp_engine_open(&o, &e, &why), &why);
    REFUSES(rp_engine_submit(e, &r, &id, err), "opened without capture and runs nothing");
    REFUSES(rp_engine_score(e, &score, NULL, err), "opened without capture and runs nothing");
    REFUSES(rp_engine_profile(e, &profile, &text, err), "opened without capture and runs nothing");
    REFUSES(rp_engine_hidden(e, &hidden, err), "opened without capture and runs nothing");
    REFUSES(rp_engine_step(e, &more, err), "wants an engine with graphs and out_more");
    assert_int_equal(rp_engine_result(e, 1, &(rp_result)RP_RESULT_INIT, NULL), RP_NOT_FOUND);
    CHECK_OK(rp_engine_summary(e, &text, &why), &why);
    rp_engine_text_free(text);
    rp_engine_close(e);
}

/* Of a graph and what is made of it. */
static void nodes_and_searches(void **state) {
    size_t live = base_live();
    rp_graph *g = rp_graph_new("missing"), *other = NULL;
    rp_compilation_config *cfg = rp_config_new();
    rp_bisection *b = NULL;
    rp_bisect_info info = RP_BISECT_INFO_INIT;
    rp_compiled *c = NULL;
    rp_node node;
    rp_attr attr;
    rp_error why = {0};
    char *text = NULL;
    int64_t n = 0;
    (void)state;
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(4)), y = rp_exp(x);
    CHECK_OK(rp_graph_finish(g, &y, 1, &why), &why);
    REFUSES(rp_graph_print(NULL, &text, err), "rp_graph_print: graph and out must be given");
    REFUSES(rp_graph_print(g, NULL, err), "rp_graph_print: graph and out must be given");
    REFUSES(rp_graph_parse(NULL, 1, &other, err), "rp_graph_parse: text and out must be given");
    REFUSES(rp_graph_parse("", 0, NULL, err), "rp_graph_parse: text and out must be given");
    REFUSES(rp_graph_node(NULL, 0, &node, err), "graph is NULL");
    REFUSES(rp_graph_node(g, 0, NULL, err), "rp_node is NULL");
    REFUSES(rp_graph_node(g, 99, &node, err),
            "rp_graph_node: graph @missing has 2 nodes, none is number 99");
    REFUSES(rp_node_attr_at(NULL, 0, 0, &attr, err), "graph is NULL");
    REFUSES(rp_node_attr_at(g, 0, 0, NULL, err),
            "rp_node_attr_at: node 0 (input) has 0 attributes");
    REFUSES(rp_node_attr(NULL, 0, "name", &attr, err), "graph is NULL");
    REFUSES(rp_node_attr(g, 0, NULL, &attr, err), "rp_node_attr: key is NULL");
    REFUSES(rp_node_graph(NULL, 0, "body", &other, err), "graph is NULL");
    REFUSES(rp_node_graph(g, 0, NULL, &other, err), "rp_node_graph: key is NULL");
    REFUSES(rp_node_graph(g, 0, "body", NULL, err), "rp_node_graph: out is NULL");
    REFUSES(rp_graph_read_symbols(NULL, NULL, 0, &n, err), "graph is NULL");
    REFUSES(rp_graph_read_symbols(g, NULL, 1, &n, err),
            "rp_graph_read_symbols: graph @missing has 1 inputs; 1 were given");
    REFUSES(rp_compile_on(NULL, NULL, cfg, &c, err), "graph is NULL");
    REFUSES(rp_compile_on(NULL, g, cfg, NULL, err), "out is NULL");
    REFUSES(rp_compiled_run_views(NULL, NULL, 0, NULL, 0, NULL, err), "compiled graph is NULL");
    REFUSES(rp_compiled_run_on(NULL, NULL, NULL, 0, NULL, 0, err), "compiled graph is NULL");
    REFUSES(rp_graph_explain(NULL, cfg, NULL, &text, err), "graph is NULL");
    REFUSES(rp_graph_explain(g, cfg, NULL, NULL, err), "out is NULL");
    REFUSES(rp_graph_bisect(NULL, cfg, NULL, &b, err), "graph is NULL");
    REFUSES(rp_graph_bisect(g, cfg, NULL, NULL, err), "out is NULL");
    REFUSES(rp_bisection_get_info(NULL, &info, err),
            "rp_bisection_get_info: bisection must be given");
    REFUSES(rp_pass_register(NULL, err), "rp_pass_desc is NULL");
    REFUSES(rp_op_register(NULL, err), "rp_op_desc is NULL");
    REFUSES(rp_backend_register(NULL, err), "rp_backend_desc is NULL");
    REFUSES(rp_rewrite_replace(NULL, 0, y, err), "rp_rewrite_replace: no rewrite");
    rp_config_free(cfg);
    rp_graph_free(g);
    assert_int_equal(base_live(), live);
}

static rp_status no_function(void *user, rp_call *call, const rp_value *args, rp_value *result,
                             rp_error *err) {
    (void)user, (void)call, (void)args, (void)result;
    return rp_graph_finish(NULL, NULL, 0, err);
}

/* Devices, streams, and functions that are captured there. */
static void devices_and_functions(void **state) {
    size_t live = base_live();
    rp_device *d = NULL;
    rp_device_info info = RP_DEVICE_INFO_INIT;
    rp_stream *s = NULL, *no_stream = NULL;
    rp_event *e = NULL, *no_event = NULL;
    rp_autograph *a = NULL, *no_graphs = NULL;
    rp_autograph_info counts = RP_AUTOGRAPH_INFO_INIT;
    rp_function_options o = RP_FUNCTION_OPTIONS_INIT;
    rp_function *f = NULL;
    rp_output *out = NULL;
    const rp_value *value = NULL;
    rp_value args = rp_value_tuple(NULL, 0), result;
    rp_buffer buffer = {RP_DTYPE_F32, 1, {4}, NULL};
    rp_error why = {0};
    void *p = NULL;
    char *text = NULL;
    (void)state;
    CHECK_OK(rp_device_open("cpu", 1, &d, &why), &why);
    CHECK_OK(rp_stream_open(d, &s, &why), &why);
    CHECK_OK(rp_event_new(d, &e, &why), &why);
    CHECK_OK(rp_autograph_create(s, NULL, &a, &why), &why);
    REFUSES(rp_device_open("cpu", 1, NULL, err), "rp_device_open: out is NULL");
    REFUSES(rp_device_get_info(NULL, &info, err), "rp_device_get_info: device is NULL");
    REFUSES(rp_device_get_info(d, NULL, err), "rp_device_info is NULL");
    REFUSES(rp_device_alloc(NULL, 4, &p, err), "rp_device_alloc: device or out is NULL");
    REFUSES(rp_device_alloc(d, 4, NULL, err), "rp_device_alloc: device or out is NULL");
    REFUSES(rp_stream_open(NULL, &no_stream, err), "rp_stream_open: device or out is NULL");
    REFUSES(rp_stream_open(d, NULL, err), "rp_stream_open: device or out is NULL");
    REFUSES(rp_stream_copy(NULL, &text, &p, 4, err),
            "rp_stream_copy: stream or an address is NULL");
    REFUSES(rp_stream_copy(s, NULL, &p, 4, err), "rp_stream_copy: stream or an address is NULL");
    REFUSES(rp_stream_copy(s, &p, NULL, 4, err), "rp_stream_copy: stream or an address is NULL");
    REFUSES(rp_stream_fill(NULL, &p, 0, 4, err), "rp_stream_fill: stream or address is NULL");
    REFUSES(rp_stream_fill(s, NULL, 0, 4, err), "rp_stream_fill: stream or address is NULL");
    REFUSES(rp_stream_synchronize(NULL, err), "rp_stream_synchronize: stream is NULL");
    REFUSES(rp_event_new(NULL, &no_event, err), "rp_event_new: device or out is NULL");
    REFUSES(rp_event_new(d, NULL, err), "rp_event_new: device or out is NULL");
    REFUSES(rp_event_record(NULL, s, err), "rp_event_record: event or stream is NULL");
    REFUSES(rp_event_record(e, NULL, err), "rp_event_record: event or stream is NULL");
    REFUSES(rp_event_wait(NULL, s, err), "rp_event_wait: event or stream is NULL");
    REFUSES(rp_event_wait(e, NULL, err), "rp_event_wait: event or stream is NULL");
    REFUSES(rp_event_synchronize(NULL, err), "rp_event_synchronize: event is NULL");
    REFUSES(rp_autograph_create(NULL, NULL, &no_graphs, err),
            "rp_autograph_create: stream or out is NULL");
    REFUSES(rp_autograph_create(s, NULL, NULL, err), "rp_autograph_create: stream or out is NULL");
    REFUSES(rp_autograph_default(NULL, &no_graphs, err),
            "rp_autograph_default: device or out is NULL");
    REFUSES(rp_autograph_default(d, NULL, err), "rp_autograph_default: device or out is NULL");
    REFUSES(rp_autograph_get_info(NULL, &counts, err), "rp_autograph_get_info: manager is NULL");
    REFUSES(rp_autograph_get_info(a, NULL, err), "rp_autograph_info is NULL");
    REFUSES(rp_autograph_text(NULL, &text, err), "rp_autograph_text: manager or out is NULL");
    REFUSES(rp_autograph_text(a, NULL, err), "rp_autograph_text: manager or out is NULL");
    REFUSES(rp_function_new(NULL, &o, &f, err), "rp_function_new: manager or out is NULL");
    REFUSES(rp_function_new(a, NULL, &f, err), "rp_function_options is NULL");
    REFUSES(rp_function_new(a, &o, &f, err), "rp_function_options: name and fn must be given");
    o.fn = no_function;
    o.name = "f";
    REFUSES(rp_function_new(a, &o, NULL, err), "rp_function_new: manager or out is NULL");
    CHECK_OK(rp_function_new(a, &o, &f, &why), &why);
    REFUSES(rp_autograph_run(NULL, &args, &out, err),
            "rp_autograph_run: function, args or out is NULL");
    REFUSES(rp_autograph_run(f, NULL, &out, err),
            "rp_autograph_run: function, args or out is NULL");
    REFUSES(rp_autograph_run(f, &args, NULL, err),
            "rp_autograph_run: function, args or out is NULL");
    REFUSES(rp_output_value(NULL, &value, err), "rp_output_value: output or out is NULL");
    REFUSES(rp_call_if(NULL, &buffer, NULL, NULL, err),
            "rp_call_if: call, pred, its data or body is NULL");
    REFUSES(rp_call_while(NULL, &buffer, NULL, NULL, err),
            "rp_call_while: call, pred, its data or body is NULL");
    REFUSES(rp_call_output(NULL, &buffer, err), "rp_call_output: call or buffer is NULL");
    REFUSES(rp_call_temp(NULL, &buffer, err), "rp_call_temp: call or buffer is NULL");
    REFUSES(rp_call_compiled(NULL, NULL, NULL, 0, NULL, 0, err), "rp_call_compiled: call is NULL");
    REFUSES(rp_call_check(NULL, "x", 1, err), "rp_call_check: call or what is NULL");
    REFUSES(rp_call_function(NULL, f, &args, &result, err),
            "rp_call_function: an argument is NULL");
    rp_function_free(f);
    rp_autograph_destroy(a);
    rp_event_free(e);
    rp_stream_close(s);
    rp_device_close(d);
    assert_int_equal(base_live(), live);
}

static rp_status nothing_traced(void *user, rp_jit_call *call, const rp_value *args,
                                rp_value *result, rp_error *err) {
    (void)user, (void)err;
    *result = rp_jit_value(call, rp_exp(rp_jit_tensor(call, &args->item[0])));
    return RP_OK;
}

/* Functions that compile themselves. */
static void compiled_functions(void **state) {
    size_t live = base_live();
    rp_jit_options o = RP_JIT_OPTIONS(nothing_traced);
    rp_jit_info info = RP_JIT_INFO_INIT;
    rp_jit *f = NULL, *none = NULL;
    rp_value args = rp_value_tuple(NULL, 0);
    rp_output *out = NULL;
    rp_error why = {0};
    char *text = NULL;
    (void)state;
    REFUSES(rp_jit_new(NULL, &none, err), "rp_jit_options is NULL");
    o.fn = NULL;
    REFUSES(rp_jit_new(&o, &none, err), "rp_jit_new: fn and out must be given");
    o.fn = nothing_traced;
    o.name = "f";
    REFUSES(rp_jit_new(&o, NULL, err), "rp_jit_new: fn and out must be given");
    CHECK_OK(rp_jit_new(&o, &f, &why), &why);
    REFUSES(rp_jit_get_info(NULL, &info, err), "rp_jit_get_info: function must be given");
    REFUSES(rp_jit_get_info(f, NULL, err), "rp_jit_info is NULL");
    REFUSES(rp_jit_guards_text(NULL, &text, err), "rp_jit_guards_text: function or out is NULL");
    REFUSES(rp_jit_guards_text(f, NULL, err), "rp_jit_guards_text: function or out is NULL");
    REFUSES(rp_jit_run(NULL, &args, &out, err), "rp_jit_run: function, args or out is NULL");
    REFUSES(rp_jit_run(f, NULL, &out, err), "rp_jit_run: function, args or out is NULL");
    REFUSES(rp_jit_run(f, &args, NULL, err), "rp_jit_run: function, args or out is NULL");
    REFUSES(rp_jit_run_into(NULL, &args, NULL, 0, err),
            "rp_jit_run_into: function, args or outputs is NULL");
    REFUSES(rp_jit_run_into(f, NULL, NULL, 0, err),
            "rp_jit_run_into: function, args or outputs is NULL");
    REFUSES(rp_jit_run_views(NULL, &args, NULL, 0, NULL, err),
            "rp_jit_run_views: function, args or outputs is NULL");
    REFUSES(rp_jit_run_views(f, NULL, NULL, 0, NULL, err),
            "rp_jit_run_views: function, args or outputs is NULL");
    REFUSES(rp_jit_mark_dynamic(NULL, "L[0]", 0, 0, 4, err),
            "mark: function and tensor must be given");
    REFUSES(rp_jit_mark_dynamic(f, NULL, 0, 0, 4, err), "mark: function and tensor must be given");
    REFUSES(rp_jit_mark_static(NULL, "L[0]", 0, err), "mark: function and tensor must be given");
    REFUSES(rp_jit_mark_static(f, NULL, 0, err), "mark: function and tensor must be given");
    REFUSES(rp_jit_mark_unbacked(NULL, "L[0]", 0, 0, 4, err),
            "mark: function and tensor must be given");
    REFUSES(rp_jit_mark_unbacked(f, NULL, 0, 0, 4, err), "mark: function and tensor must be given");
    rp_jit_free(f);
    assert_int_equal(base_live(), live);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(configuration),
        cmocka_unit_test(cache),
        cmocka_unit_test(graphs),
        cmocka_unit_test(files_and_machines),
        cmocka_unit_test(channels_and_variables),
        cmocka_unit_test(engine),
        cmocka_unit_test(engine_without_capture),
        cmocka_unit_test(nodes_and_searches),
        cmocka_unit_test(devices_and_functions),
        cmocka_unit_test(compiled_functions),
    };
    return cmocka_run_group_tests_name("api_missing", tests, NULL, NULL);
}
