/* The Llama graph: which ops it has is known without tracing it. */
#include "support/check.h"

#include <math.h>

#include "model/llama.h"
#include "trace/support.h"
#include "trace/trace.h"

static void mark_ops(const char *spec, rp_numerics numerics, bool *seen) {
    rp_error err = {0};
    model_source *source = NULL;
    rp_graph *g = NULL;
    const model_graph_options o = {numerics, 8, 8, 0, 0};
    CHECK_OK(model_source_open_synthetic(spec, &source, &err), &err);
    CHECK_OK(model_llama_graph(source, &o, &g, &err), &err);
    const ir_graph *ir = trace_graph_ir(g);
    for (uint32_t i = 0; i < ir_graph_count(ir); i++) seen[ir_node_at(ir, i)->op] = true;
    rp_graph_free(g);
    model_source_free(source);
}

static void ops_are_those_of_the_graphs(void **state) {
    (void)state;
    static const char *const specs[] = {"synthetic:tiny", "synthetic:tiny,dtype=f32",
                                        "synthetic:tiny,dtype=bf16"};
    bool seen[IR_OP_COUNT_] = {0};
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        mark_ops(specs[i], RP_NUMERICS_DEFAULT, seen);
        mark_ops(specs[i], RP_NUMERICS_EXACT, seen);
    }
    for (unsigned op = 0; op < IR_OP_COUNT_; op++)
        if (seen[op] != model_llama_has_op((ir_op)op))
            fail_msg("%s: the graphs %s it", ir_op_table((ir_op)op)->name,
                     seen[op] ? "have" : "do not have");
    assert_false(model_llama_has_op(IR_OP_COUNT_));
}

typedef rp_status make_graph(const model_source *, const model_graph_options *, rp_graph **,
                             rp_error *);

static bool reads(make_graph *make, const char *spec, const char *param) {
    rp_error err = {0};
    model_source *source = NULL;
    rp_graph *g = NULL;
    const model_graph_options o = {RP_NUMERICS_DEFAULT, 8, 8, 0, 0};
    bool found = false;
    CHECK_OK(model_source_open_synthetic(spec, &source, &err), &err);
    CHECK_OK(make(source, &o, &g, &err), &err);
    const ir_graph *ir = trace_graph_ir(g);
    for (uint32_t i = 0; i < ir_graph_count(ir); i++) {
        const ir_node *n = ir_node_at(ir, i);
        found |= n->op == IR_param && strcmp(n->name, param) == 0;
    }
    rp_graph_free(g);
    model_source_free(source);
    return found;
}

static bool head_reads(const char *spec, const char *param) {
    return reads(model_llama_head, spec, param);
}

/* What tokens without logits need of the last layer are its keys and values. */
static void the_head_begins_behind_the_last_attention(void **state) {
    (void)state;
    static const char spec[] = "synthetic:tiny,layers=2";
    static const char *const behind[] = {"attn_output", "ffn_norm", "ffn_gate", "ffn_up",
                                         "ffn_down"};
    static const char *const front[] = {"attn_norm", "attn_q", "attn_k", "attn_v"};
    char name[64];
    for (unsigned layer = 0; layer < 2; layer++) {
        for (size_t i = 0; i < sizeof behind / sizeof *behind; i++) {
            (void)snprintf(name, sizeof name, "blk.%u.%s.weight", layer, behind[i]);
            assert_int_equal(reads(model_llama_graph, spec, name), layer == 0);
            assert_int_equal(head_reads(spec, name), layer == 1);
        }
        for (size_t i = 0; i < sizeof front / sizeof *front; i++) {
            (void)snprintf(name, sizeof name, "blk.%u.%s.weight", layer, front[i]);
            assert_true(reads(model_llama_graph, spec, name));
            assert_false(head_reads(spec, name));
        }
    }
    assert_true(head_reads(spec, "output_norm.weight"));
}

/* What a norm adds is the model's own number, in every graph. */
static void norms_have_the_epsilon_of_the_model(void **state) {
    static make_graph *const make[] = {model_llama_graph, model_llama_head, model_llama_hidden};
    const model_graph_options o = {RP_NUMERICS_DEFAULT, 8, 8, 0, 0};
    (void)state;
    for (size_t i = 0; i < sizeof make / sizeof *make; i++) {
        rp_error err = {0};
        model_source *source = NULL;
        rp_graph *g = NULL;
        char *text = NULL;
        CHECK_OK(model_source_open_synthetic("synthetic:tiny", &source, &err), &err);
        ((model_hparams *)(uintptr_t)model_source_hparams(source))->rms_eps = 0.125f;
        CHECK_OK(make[i](source, &o, &g, &err), &err);
        CHECK_OK(rp_graph_print(g, &text, &err), &err);
        if (!strstr(text, "const 0x1p-3 ")) fail_msg("%s", text);
        rp_free(text);
        rp_graph_free(g);
        model_source_free(source);
    }
}

/* The graph is what its declaration says, of any step and of one size; and one line tells what is not. */
static void the_model_keeps_its_declaration(void **state) {
    static const rp_arg_dim fewer[] = {{"token_ids", 0},
                                       {"positions", -1},
                                       {"slots", 0},
                                       {"seqs", 0},
                                       {"block_tables", 0}},
                            wrong[] = {{"block_tables", 2}};
    static const char *const keys[] = {"k"}, *const more[] = {"k", "v", "w"},
                             *const input[] = {"slots", "k", "v"};
    static const model_graph_options o[] = {{RP_NUMERICS_DEFAULT, 8, 8, 0, 0},
                                            {RP_NUMERICS_DEFAULT, 8, 8, 4, 4},
                                            {RP_NUMERICS_DEFAULT, 8, 8, 2, 7}};
    (void)state;
    for (int i = 0; i < 3; i++) {
        rp_error err = {0};
        model_source *source = NULL;
        rp_graph *g = NULL;
        rp_support s = model_llama_support;
        CHECK_OK(model_source_open_synthetic("synthetic:tiny", &source, &err), &err);
        CHECK_OK(model_llama_graph(source, &o[i], &g, &err), &err);
        CHECK_OK(trace_support_check(&s, g, &err), &err);
        s.n_mutates = 1;
        s.mutates = keys;
        assert_int_equal(trace_support_check(&s, g, &err), RP_INVALID);
        assert_non_null(strstr(err.text, "v.0 is written, which `mutates` of the model"));
        s.n_mutates = 3;
        s.mutates = more;
        assert_int_equal(trace_support_check(&s, g, &(rp_error){0}), RP_INVALID);
        s.mutates = input; /* as many as there are, of either kind */
        err = (rp_error){0};
        CHECK_OK(trace_support_check(&s, g, &err), &err);
        s.mutates = model_llama_support.mutates;
        s.n_mutates = 2;
        s.dynamic_arg_dims = fewer;
        s.n_dynamic_arg_dims = 5;
        err = (rp_error){0};
        assert_int_equal(trace_support_check(&s, g, &err), RP_INVALID);
        assert_non_null(strstr(err.text, "axis 1 of block_tables is no number"));
        s.dynamic_arg_dims = wrong;
        s.n_dynamic_arg_dims = 1;
        assert_int_equal(trace_support_check(&s, g, &(rp_error){0}), RP_INVALID);
        s.dynamic_arg_dims = NULL; /* axis 0 of each */
        err = (rp_error){0};
        assert_int_equal(trace_support_check(&s, g, &err), RP_INVALID);
        assert_non_null(strstr(err.text, "axis 1 of block_tables is no number"));
        rp_graph_free(g);
        model_source_free(source);
    }
}

static void the_head_is_the_embedding_only_when_tied(void **state) {
    (void)state;
    assert_true(head_reads("synthetic:smollm2-135m", "token_embd.weight"));
    assert_false(head_reads("synthetic:smollm2-135m", "output.weight"));
    assert_true(head_reads("synthetic:llama-8b,layers=1", "output.weight"));
    assert_false(head_reads("synthetic:llama-8b,layers=1", "token_embd.weight"));
}

/* What the tables hold is the angle of the scaled position, for all positions alike. */
static void check_rope(model_rope_scaling scaling, float factor, const float *freqs) {
    static const int64_t at[] = {0, 1, 2, 511, 512, 699, 700, 701, 1023, 1024, 1025, 4095};
    enum { DIM = 8, HALF = DIM / 2, N = 4096 };
    static float c[N * HALF], s[N * HALF];
    model_hparams hp = {.head_dim = 2 * DIM,
                        .rope_dim = DIM,
                        .rope_base = 10000.0f,
                        .rope_scaling = scaling,
                        .rope_factor = factor};
    model_rope_rows(&hp, freqs, 0, 700, c, s);
    model_rope_rows(&hp, freqs, 700, N, c, s);
    for (size_t k = 0; k < sizeof at / sizeof *at; k++)
        for (int i = 0; i < HALF; i++) {
            double divisor = freqs ? (double)freqs[i] : 1;
            double position = scaling == MODEL_ROPE_LINEAR ? (double)at[k] / (double)factor
                                                           : (double)at[k];
            double angle = position / divisor * pow(10000.0, -2.0 * i / DIM);
            double bound = 1e-6 + angle * 1e-6; /* of the angle in single */
            if (fabs((double)c[at[k] * HALF + i] - cos(angle)) > bound ||
                fabs((double)s[at[k] * HALF + i] - sin(angle)) > bound)
                fail_msg("position %d, pair %d: %g, %g, not of the angle %g", (int)at[k], i,
                         (double)c[at[k] * HALF + i], (double)s[at[k] * HALF + i], angle);
        }
}

static void rope_turns_by_the_scaled_position(void **state) {
    static const float freqs[] = {1.0f, 1.5f, 4.0f, 32.0f};
    (void)state;
    check_rope(MODEL_ROPE_PLAIN, 1.0f, NULL);
    check_rope(MODEL_ROPE_LINEAR, 4.0f, NULL);
    check_rope(MODEL_ROPE_FREQS, 1.0f, freqs);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ops_are_those_of_the_graphs),
        cmocka_unit_test(the_head_begins_behind_the_last_attention),
        cmocka_unit_test(the_model_keeps_its_declaration),
        cmocka_unit_test(norms_have_the_epsilon_of_the_model),
        cmocka_unit_test(the_head_is_the_embedding_only_when_tied),
        cmocka_unit_test(rope_turns_by_the_scaled_position),
    };
    return cmocka_run_group_tests_name("model_llama", tests, NULL, NULL);
}
