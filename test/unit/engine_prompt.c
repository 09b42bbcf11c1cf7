/* Prompts against the model's vocabulary and chat template: a foreign template stops those alone who use one, bytes
 * without a token are counted, and so are skips that found the list full. */
#include "support/heard.h"

#include "base/alloc.h"
#include "engine/engine.h"
#include "support/engines.h"
#include "support/gguf.h"
#include "support/trees.h"

static const char *const settings[] = {"level=0", "threads=1", NULL};

/* A llama of one layer whose template nobody here knows; `first`: its prompts begin with a token. */
static const char *foreign_model_of(bool first) {
    static const char key[] = "tokenizer.ggml.add_bos_token";
    static char path[512];
    gguf_builder b = {0};
    base_buf file = {0};
    gguf_llama_keys(&b);
    gguf_llama_tokenizer(&b, "smollm");
    gguf_kv_str(&b, "tokenizer.chat_template",
                "{% for m in messages %}[INST]{{ m['content'] }}[/INST]{% endfor %}");
    gguf_llama_tensors(&b);
    gguf_write(&b, &file);
    char *at = memmem(file.data, file.len, key, strlen(key));
    assert_non_null(at);
    if (first) at[strlen(key) + sizeof(uint32_t)] = 1; /* behind its type */
    const char *dir = tree_new("foreign");
    tree_write(dir, "foreign.gguf", file.data, file.len);
    base_buf_done(&file);
    (void)snprintf(path, sizeof path, "%s/foreign.gguf", dir);
    return path;
}

static const char *foreign_model(void) {
    return foreign_model_of(false);
}

static rp_status submit(rp_engine *e, const rp_request_options *r, rp_error *err) {
    uint64_t id = 0;
    rp_status st = rp_engine_submit(e, r, &id, err);
    if (st == RP_OK) rp_engine_release(e, id);
    return st;
}

static void a_foreign_template_stops_its_users_alone(void **state) {
    static const int32_t ids[] = {1, 2, 3};
    int32_t *chat = NULL;
    uint32_t n = 0;
    rp_error err = {0};
    const rp_message m = {"user", "the"};
    (void)state;
    rp_engine *e = engine_must(foreign_model(), settings);
    rp_request_options r = RP_REQUEST_OPTIONS_INIT;
    r.max_tokens = 1;
    r.prompt_ids = ids;
    r.n_prompt_ids = 3;
    CHECK_OK(submit(e, &r, &err), &err);
    r.prompt_ids = NULL;
    r.n_prompt_ids = 0;
    r.prompt = "the";
    r.raw = true;
    CHECK_OK(submit(e, &r, &err), &err);
    r.raw = false;
    assert_int_equal(submit(e, &r, &err), RP_UNSUPPORTED);
    assert_non_null(strstr(err.text, "--chat-template chatml or --chat-template none"));
    r.prompt = NULL;
    r.messages = &m;
    r.n_messages = 1;
    assert_int_equal(submit(e, &r, &err), RP_UNSUPPORTED);
    assert_int_equal(rp_engine_chat_ids(e, &m, 1, &chat, &n, &err), RP_UNSUPPORTED);
    rp_engine_close(e);
}

/* Marks of the template are tokens. */
static void marks_of_a_template_are_tokens(void **state) {
    enum { START = 102, END = 103 };
    const rp_message m = {"user", "the"};
    rp_engine_options o = RP_ENGINE_OPTIONS_INIT;
    rp_engine *e = NULL;
    rp_error err = {0};
    int32_t *ids = NULL;
    uint32_t n = 0, starts = 0, ends = 0;
    (void)state;
    o.model = foreign_model();
    o.chat_template = "chatml";
    o.config = rp_config_new();
    for (size_t i = 0; settings[i]; i++) CHECK_OK(rp_config_set(o.config, settings[i], &err), &err);
    CHECK_OK(rp_engine_open(&o, &e, &err), &err);
    CHECK_OK(rp_engine_chat_ids(e, &m, 1, &ids, &n, &err), &err);
    for (uint32_t i = 0; i < n; i++) {
        starts += ids[i] == START;
        ends += ids[i] == END;
    }
    assert_int_equal(ids[0], START);
    assert_int_equal(starts, 2); /* the answer's, too */
    assert_int_equal(ends, 1);
    rp_engine_text_free(ids);
    rp_engine_close(e);
}

static uint32_t tokens_of(rp_engine *e, bool raw) {
    rp_error err = {0};
    uint64_t id = 0;
    rp_result got = RP_RESULT_INIT;
    rp_request_options r = RP_REQUEST_OPTIONS_INIT;
    r.max_tokens = 1;
    r.prompt = "the";
    r.raw = raw;
    CHECK_OK(rp_engine_submit(e, &r, &id, &err), &err);
    CHECK_OK(rp_engine_result(e, id, &got, &err), &err);
    const uint32_t n = got.n_prompt_ids;
    rp_engine_release(e, id);
    return n;
}

/* Without a template a prompt is the text of a request, with the token that texts begin with. */
static void a_prompt_without_a_template_is_text(void **state) {
    (void)state;
    for (int first = 0; first < 2; first++) {
        rp_engine_options o = RP_ENGINE_OPTIONS_INIT;
        rp_engine *e = NULL;
        rp_error err = {0};
        o.model = foreign_model_of(first);
        o.chat_template = "none";
        o.config = rp_config_new();
        for (size_t i = 0; settings[i]; i++)
            CHECK_OK(rp_config_set(o.config, settings[i], &err), &err);
        CHECK_OK(rp_engine_open(&o, &e, &err), &err);
        const uint32_t n = tokens_of(e, true);
        assert_int_equal(tokens_of(e, false), n);
        assert_true(n > (uint32_t)first);
        rp_engine_close(e);
    }
}

static void bytes_without_a_token_are_told(void **state) {
    rp_error err = {0};
    char *summary = NULL;
    base_buf heard;
    (void)state;
    rp_engine *e = engine_must(foreign_model(), settings);
    heard_start(&heard, "");
    rp_request_options r = RP_REQUEST_OPTIONS_INIT;
    r.max_tokens = 1;
    r.raw = true;
    r.prompt = "the";
    CHECK_OK(submit(e, &r, &err), &err);
    if (heard.len) fail_msg("a prompt that has tokens: %s", heard.data);
    CHECK_OK(rp_engine_summary(e, &summary, &err), &err);
    assert_null(strstr(summary, "bytes of prompts"));
    rp_engine_text_free(summary);
    r.prompt = "the\x01\xff the\xff";
    CHECK_OK(submit(e, &r, &err), &err);
    CHECK_HEARD(&heard, "3 bytes of the prompt have no token");
    r.prompt = "the\xff";
    CHECK_OK(submit(e, &r, &err), &err);
    CHECK_OK(rp_engine_summary(e, &summary, &err), &err);
    if (!strstr(summary, "{\"what\":\"bytes of prompts\",\"reason\":\"the vocabulary has no token "
                         "for them\",\"count\":4}"))
        fail_msg("%s", summary);
    rp_engine_text_free(summary);
    heard_done(&heard);
    rp_engine_close(e);
}

static void skips_beyond_the_list_are_counted(void **state) {
    rp_error err = {0};
    char *summary = NULL, what[32];
    (void)state;
    rp_engine *e = engine_must("synthetic:tiny", settings);
    graph_state s = *engine_runner_state(e->runner),
                *own = (graph_state *)(uintptr_t)engine_runner_state(e->runner);
    for (int i = 0; i < GRAPH_MAX_SKIPS + 3; i++) {
        (void)snprintf(what, sizeof what, "kind %d", i);
        graph_state_skip(own, what, "a test");
    }
    CHECK_OK(rp_engine_summary(e, &summary, &err), &err);
    if (!strstr(summary, "{\"what\":\"skips of other kinds\",\"reason\":\"the list of kinds is "
                         "full\",\"count\":3}"))
        fail_msg("%s", summary);
    rp_engine_text_free(summary);
    *own = s;
    rp_engine_close(e);
}

/* Ids of texts and of messages: all of them, or none and nothing left behind. */
static void tokenizing_survives_each_failure(void **state) {
    static const char text[] = "one two three four five six seven";
    const rp_message messages[] = {{"user", text}, {"assistant", "eight"}, {"user", text}};
    (void)state;
    rp_engine *e = engine_must("synthetic:tiny", settings);
    for (int chat = 0; chat < 2; chat++) {
        int32_t *ids = NULL, *first = NULL;
        uint32_t n = 0, n_first = 0;
        rp_status st = RP_NOMEM;
        rp_error err = {0};
        /* the first time makes what every later one uses */
        CHECK_OK(chat ? rp_engine_chat_ids(e, messages, 3, &first, &n_first, &err)
                      : rp_engine_tokenize(e, text, sizeof text - 1, &first, &n_first, &err),
                 &err);
        FOR_EACH_ALLOC_FAILURE (nth) {
            rp_error why = {0};
            size_t live = base_live();
            st = chat ? rp_engine_chat_ids(e, messages, 3, &ids, &n, &why)
                      : rp_engine_tokenize(e, text, sizeof text - 1, &ids, &n, &why);
            if (st == RP_OK) break;
            assert_int_equal(st, RP_NOMEM);
            assert_int_equal(base_live(), live);
        }
        (void)base_alloc_fail_nth(0);
        assert_int_equal(st, RP_OK);
        assert_int_equal(n, n_first);
        assert_memory_equal(ids, first, n * sizeof *ids);
        rp_engine_text_free((char *)ids);
        rp_engine_text_free((char *)first);
    }
    rp_engine_close(e);
}

static int nothing_left(void **state) {
    (void)state;
    return base_live() != 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_foreign_template_stops_its_users_alone, nothing_left),
        cmocka_unit_test_teardown(marks_of_a_template_are_tokens, nothing_left),
        cmocka_unit_test_teardown(a_prompt_without_a_template_is_text, nothing_left),
        cmocka_unit_test_teardown(bytes_without_a_token_are_told, nothing_left),
        cmocka_unit_test_teardown(skips_beyond_the_list_are_counted, nothing_left),
        cmocka_unit_test_teardown(tokenizing_survives_each_failure, nothing_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
