/* Custom ops in a model, where a pass of the user puts them: what they see of the step. */
#include "support/check.h"

#include <math.h>

#include "reprise/reprise.h"
#include "support/engines.h"

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

/* A setting that would replace an op says that it does not, once. */
static void ops_stay_in_models(void **state) {
    static const struct {
        const char *setting;
        size_t notes;
    } cases[] = {{"custom_ops=[]", 0},
                 {"custom_ops=[\"all\"]", 0},
                 {"custom_ops=[\"none\"]", 1},
                 {"custom_ops=[\"-sigmoid\"]", 1}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const settings[] = {"level=2", "max_model_len=64", cases[i].setting, NULL};
        rp_engine *e = engine_must("synthetic:tiny", settings);
        char *text = NULL, *at;
        rp_error err = {0};
        size_t n = 0;
        CHECK_OK(rp_engine_summary(e, &text, &err), &err);
        for (at = text; (at = strstr(at, "custom_ops: context::sigmoid stays")) != NULL; at++) n++;
        if (n != cases[i].notes) fail_msg("%s: %s", cases[i].setting, text);
        rp_engine_text_free(text);
        rp_engine_close(e);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ops_see_the_step),
        cmocka_unit_test(captures_are_dummies),
        cmocka_unit_test(models_are_watched),
        cmocka_unit_test(ops_stay_in_models),
        cmocka_unit_test(hidden_states_keep_the_settings),
    };
    return cmocka_run_group_tests(tests, registered, NULL);
}
