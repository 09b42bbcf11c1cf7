/* What every call needs and does not get: NULL in the place of each thing that must be given is refused as RP_INVALID, with a
 * line that names it, and nothing is left behind. */
#include "support/check.h"
#include "support/elsewhere.h"
#include "support/engines.h"
#include "support/trees.h"

#include "base/alloc.h"
#include "base/file.h"
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

static void engine(void **state) {
    size_t live = base_live();
    rp_engine *e = engine_must("synthetic:tiny", (const char *[]){"level=0", NULL}), *none = NULL;
    rp_engine_options o = RP_ENGINE_OPTIONS_INIT;
    rp_request_options r = plain_request(1);
    rp_score_options score = RP_SCORE_OPTIONS_INIT;
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
    REFUSES(rp_engine_step(e, &more, err), "wants an engine with graphs and out_more");
    assert_int_equal(rp_engine_result(e, 1, &(rp_result)RP_RESULT_INIT, NULL), RP_NOT_FOUND);
    CHECK_OK(rp_engine_summary(e, &text, &why), &why);
    rp_engine_text_free(text);
    rp_engine_close(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(configuration), cmocka_unit_test(cache),
        cmocka_unit_test(graphs),        cmocka_unit_test(files_and_machines),
        cmocka_unit_test(engine),        cmocka_unit_test(engine_without_capture),
    };
    return cmocka_run_group_tests_name("api_missing", tests, NULL, NULL);
}
