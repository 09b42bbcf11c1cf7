/* Custom ops in a model, where a pass of the user puts them: what they see of the step. */
#include "support/check.h"

#include <math.h>

#include "reprise/reprise.h"
#include "engine/engine.h"
#include "support/engines.h"
#include "support/trees.h"

enum { MOST = 4096, LAYERS = 2 };

/* What the calls saw: one entry each. */
static struct {
    int64_t rows;
    rp_forward_context context;
    int32_t first_position;
} seen[MOST];
static uint32_t n_seen, n_alone; /* in a step, and behind one */
static bool listening, alone, too_much;

static rp_status sigmoid(const rp_op_call *call, rp_buffer *args, uint32_t n_args, rp_error *err) {
    const float *x = args[0].data;
    float *y = args[1].data;
    (void)n_args, (void)err;
    for (int64_t i = 0; i < args[0].dim[0] * args[0].dim[1]; i++) y[i] = 1 / (1 + expf(-x[i]));
    if (too_much) y[args[0].dim[0] * args[0].dim[1]] = 0;
    n_alone += alone && !call->context;
    if (alone && !call->context) return RP_OK;
    assert_non_null(call->context);
    assert_true(n_seen < MOST);
    if (!listening) return RP_OK;
    seen[n_seen].rows = args[0].dim[0];
    seen[n_seen].first_position = call->context->context.positions[0];
    seen[n_seen++].context = *call->context;
    return RP_OK;
}

static rp_tensor pattern(void *user, rp_graph *g, const rp_tensor *in) {
    (void)user, (void)g;
    return rp_sigmoid(in[0]);
}

static rp_tensor replacement(void *user, rp_graph *g, const rp_tensor *in) {
    (void)user;
    return rp_custom(g, "context::sigmoid", in, 1, RP_DTYPE_F32, rp_tensor_shape(in[0]));
}

static void lowered(const rp_op_call *call, const rp_tensor *in, uint32_t n_in, rp_tensor *out,
                    uint32_t n_out) {
    (void)call, (void)n_in, (void)n_out;
    out[0] = rp_sigmoid(in[0]);
}

static int registered(void **state) {
    static const char *const types[] = {"f32[T,D]"};
    const rp_op_desc op = {
        .size = sizeof op, .name = "context::sigmoid", .cpu = sigmoid, .lower = lowered};
    const rp_pass_desc pass = {.size = sizeof pass,
                               .name = "own_sigmoid",
                               .types = types,
                               .n_types = 1,
                               .pattern = pattern,
                               .replacement = replacement};
    rp_error err = {0};
    (void)state;
    CHECK_OK(rp_op_register(&op, &err), &err);
    CHECK_OK(rp_pass_register(&pass, &err), &err);
    return 0;
}

static void check_layers(const rp_forward_context *c, bool split) {
    assert_int_equal(c->num_kv_cache_data, LAYERS);
    assert_int_equal(c->num_no_compile_layers, split ? LAYERS : 0);
    for (uint32_t i = 0; i < LAYERS; i++) {
        const rp_kv_cache_tensor *kv = &c->kv_cache_data[i];
        char name[32];
        (void)snprintf(name, sizeof name, "blk.%u.attn", i);
        assert_string_equal(kv->layer, name);
        if (split) assert_string_equal(c->no_compile_layers[i], name);
        assert_true(kv->size > 0 && kv->k && kv->v && kv->k != kv->v);
    }
    assert_ptr_not_equal(c->kv_cache_data[0].k, c->kv_cache_data[1].k);
}

/* A prompt of five, then one token a step: rows, lengths, mode and key are those of each. */
static void check_steps(const char *mode, bool split, const char *sizes) {
    const char *const settings[] = {split ? "level=3" : "level=2",
                                    mode,
                                    "max_num_seqs=2",
                                    "max_model_len=64",
                                    sizes,
                                    "inductor_compile_config.max_autotune=false",
                                    "inductor_compile_config.coordinate_descent_tuning=false",
                                    NULL};
    rp_engine *e = engine_must("synthetic:tiny", settings);
    const rp_request_options r = plain_request(4);
    int32_t length = 5;
    n_seen = 0;
    listening = true;
    const uint64_t id = must_submit(e, &r);
    for (int step = 0; step < 4; step++, length++) {
        const uint32_t before = n_seen;
        must_run(e, 1);
        assert_true(n_seen > before);
        for (uint32_t i = before; i < n_seen; i++) {
            const rp_forward_context *c = &seen[i].context;
            const rp_attention_metadata *m = &c->attn_metadata;
            check_layers(c, split);
            assert_false(c->context.is_dummy);
            assert_int_equal(c->context.batch_size, 1);
            assert_int_equal(m->num_actual_tokens, step ? 1 : 5);
            assert_int_equal(m->max_seqlen_k, length);
            assert_int_equal(m->context_lens[0], length);
            assert_int_equal(seen[i].first_position, step ? length - 1 : 0);
            assert_int_equal(c->dispatch.num_tokens, step ? 1 : 5);
            assert_true(seen[i].rows == c->dispatch.padded ||
                        seen[i].rows == c->dispatch.padded_logits);
            assert_int_equal(c->batch_descriptor.num_tokens, c->dispatch.key.num_tokens);
            assert_int_equal(c->cudagraph_runtime_mode, c->dispatch.mode);
        }
    }
    /* The last step is a decode step, in the mode that was asked for. */
    assert_int_equal(must_result(e, id).n_output_ids, 4);
    const rp_cudagraph_mode last = seen[n_seen - 1].context.cudagraph_runtime_mode;
    assert_int_equal(last, strstr(mode, "NONE")        ? RP_CUDAGRAPH_NONE
                           : strstr(mode, "PIECEWISE") ? RP_CUDAGRAPH_PIECEWISE
                                                       : RP_CUDAGRAPH_FULL);
    listening = false;
    rp_engine_close(e);
}

static void ops_see_the_step(void **state) {
    (void)state;
    check_steps("cudagraph_mode=NONE", true, "compile_sizes=[]");
    check_steps("cudagraph_mode=PIECEWISE", true, "compile_sizes=[]");
    check_steps("cudagraph_mode=FULL", true, "compile_sizes=[]");
    check_steps("cudagraph_mode=FULL", false, "compile_sizes=[]");
    check_steps("cudagraph_mode=FULL", true, "compile_sizes=1"); /* code of its own sees it, too */
}

/* Captures warm up on a step of padding. */
static void captures_are_dummies(void **state) {
    const char *const settings[] = {
        "level=3",          "cudagraph_mode=FULL",        "max_num_seqs=2",
        "max_model_len=64", "cudagraph_num_of_warmups=1", NULL};
    (void)state;
    n_seen = 0;
    listening = true;
    rp_engine *e = engine_must("synthetic:tiny", settings);
    listening = false;
    assert_true(n_seen > 0);
    for (uint32_t i = 0; i < n_seen; i++) {
        check_layers(&seen[i].context, true);
        assert_true(seen[i].context.context.is_dummy);
        assert_int_equal(seen[i].context.attn_metadata.num_actual_tokens, 0);
    }
    rp_engine_close(e);
}

/* A row that is one too many lies in memory of the engine: without the setting nobody sees it. */
static void models_are_watched(void **state) {
    static const char *const levels[] = {"level=0", "level=2"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        const char *const settings[] = {"check_ops=true",      levels[i],
                                        "max_model_len=64",    "max_num_seqs=2",
                                        "cudagraph_mode=NONE", NULL};
        rp_engine *e = engine_must("synthetic:tiny", settings);
        const rp_request_options r = plain_request(4);
        rp_error err = {0};
        bool more;
        (void)must_submit(e, &r);
        too_much = i > 0; /* passes put nothing into what runs op by op */
        const rp_status st = rp_engine_step(e, &more, &err);
        too_much = false;
        if (i == 0)
            CHECK_OK(st, &err);
        else if (st != RP_INVALID || !strstr(err.text, "context::sigmoid writes behind its result"))
            fail_msg("%s", err.text);
        rp_engine_close(e);
    }
}

static void forget(void *user, uint32_t position, const float *row, uint32_t width) {
    (void)user, (void)position, (void)row, (void)width;
}

/* What a pass puts behind the last layer runs without a step; settings of the engine hold there, too. */
static void hidden_states_keep_the_settings(void **state) {
    static const struct {
        const char *setting;
        bool called;
    } cases[] = {{"skip_passes=[]", true},
                 {"skip_passes=own_sigmoid", false},
                 {"inductor_passes.own_sigmoid=false", false},
                 {"backend=eager", false}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const settings[] = {"level=3",        cases[i].setting,  "max_model_len=64",
                                        "max_num_seqs=2", "compile_sizes=1", NULL};
        rp_engine *e = engine_must("synthetic:tiny", settings);
        rp_error err = {0};
        rp_hidden_options o = RP_HIDDEN_OPTIONS_INIT;
        o.prompt_ids = plain_prompt;
        o.n_prompt_ids = 5;
        o.on_token = forget;
        n_alone = 0;
        alone = true;
        CHECK_OK(rp_engine_hidden(e, &o, &err), &err);
        alone = false;
        if ((n_alone > 0) != cases[i].called)
            fail_msg("%s: %u calls behind the step", cases[i].setting, n_alone);
        rp_engine_close(e);
    }
}

/* Calls of the op that a step makes, and how often the summary says that it was lowered. */
static void check_ops(const char *const *settings, bool stays, long long lowered_in) {
    rp_engine *e = engine_must("synthetic:tiny", settings);
    const rp_request_options r = plain_request(2);
    char *text = NULL, want[64];
    rp_error err = {0};
    (void)must_submit(e, &r);
    n_seen = 0;
    listening = true;
    must_run(e, 1);
    listening = false;
    if ((n_seen > 0) != stays) fail_msg("%s: %u calls", settings[2], n_seen);
    CHECK_OK(rp_engine_summary(e, &text, &err), &err);
    (void)snprintf(want, sizeof want, "{\"name\":\"custom_ops\",\"matches\":%lld}", lowered_in);
    if ((strstr(text, want) != NULL) != (lowered_in > 0)) fail_msg("%s: %s", settings[2], text);
    rp_engine_text_free(text);
    must_run(e, -1);
    rp_engine_close(e);
}

/* What a pass has put there is what it is made of, where the setting says so, and where there is none it stays. From the
 * cache, too, where each has a plan of its own. */
static void ops_of_passes_follow_the_setting(void **state) {
    static const struct {
        const char *setting;
        bool stays;
    } cases[] = {{"custom_ops=[]", true},
                 {"custom_ops=[\"all\"]", true},
                 {"custom_ops=[\"none\"]", false},
                 {"custom_ops=[\"all\",\"-sigmoid\"]", false},
                 {"custom_ops=[\"none\",\"+context::sigmoid\"]", true}};
    char cache[600];
    (void)state;
    (void)snprintf(cache, sizeof cache, "cache_dir=%s", tree_new("ops"));
    for (int turn = 0; turn < 2; turn++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            check_ops((const char *[]){"level=2", "max_model_len=64", cases[i].setting, cache,
                                       "cudagraph_mode=NONE", NULL},
                      cases[i].stays, cases[i].stays ? 0 : LAYERS);
}

/* Ops of the model itself have no kernel to keep. */
static void ops_of_models_are_compiled_with_others(void **state) {
    static const struct {
        const char *setting, *note, *refusal;
    } cases[] = {
        {"custom_ops=[\"none\"]", NULL, NULL},
        {"custom_ops=[\"none\",\"-rms_norm\",\"-silu_and_mul\"]", NULL, NULL},
        {"custom_ops=[\"none\",\"+of_nobody\"]", NULL, NULL},
        {"custom_ops=[\"all\"]", "custom_ops=all", NULL},
        {"custom_ops=[\"none\",\"+rms_norm\"]", NULL,
         "custom_ops=+rms_norm is not supported in a model"},
        {"custom_ops=[\"+rotary_embedding\"]", NULL,
         "custom_ops=+rotary_embedding is not supported in a model"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rp_error err = {0};
        const rp_config_note *notes;
        rp_engine *e = engine_with("synthetic:tiny",
                                   (const char *[]){"level=2", cases[i].setting, NULL}, &err);
        assert_int_equal(err.code, cases[i].refusal ? RP_UNSUPPORTED : RP_OK);
        if (cases[i].refusal) assert_non_null(strstr(err.text, cases[i].refusal));
        if (cases[i].refusal) continue;
        const size_t n = rp_config_notes(e->config, &notes);
        bool noted = false;
        for (size_t k = 0; k < n; k++)
            noted |= cases[i].note && strcmp(notes[k].what, cases[i].note) == 0;
        assert_int_equal(noted, cases[i].note != NULL);
        rp_engine_close(e);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ops_see_the_step),
        cmocka_unit_test(captures_are_dummies),
        cmocka_unit_test(models_are_watched),
        cmocka_unit_test(ops_of_passes_follow_the_setting),
        cmocka_unit_test(ops_of_models_are_compiled_with_others),
        cmocka_unit_test(hidden_states_keep_the_settings),
    };
    return cmocka_run_group_tests(tests, registered, NULL);
}
