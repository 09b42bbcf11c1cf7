/* A model whose layers are of blocks and whose head is of floats, as files are that keep the last matrix whole: the head needs more
 * memory to work in than all layers, and every way to run a step gives the same tokens. */
#include "support/check.h"

#include "base/alloc.h"
#include "base/file.h"
#include "engine/engine.h"
#include "support/engines.h"
#include "support/gguf.h"
#include "support/trees.h"

enum { HIDDEN = 32, FFN = 64, TOKENS = 8, Q8_0 = 8, F32 = 0 };

static uint64_t seed = 11;

static float drawn(void) {
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (float)(int32_t)(seed >> 33) * 0x1p-31f - 0.5f;
}

/* Where the bytes of a new tensor lie. */
static void *add(gguf_builder *b, const char *name, uint32_t type, uint64_t k, uint64_t rows) {
    const size_t size = type == Q8_0 ? rows * (k / 32) * 34 : rows * k * 4;
    gguf_tensor(b, name, type, rows > 1 ? 2 : 1, (uint64_t[]){k, rows}, size);
    return b->data.data + b->data.len - size;
}

static void add_blocks(gguf_builder *b, const char *name, uint64_t k, uint64_t rows) {
    uint8_t *at = add(b, name, Q8_0, k, rows);
    for (uint64_t i = 0; i < rows * (k / 32); i++, at += 34) {
        const uint16_t scale = 0x1800; /* 2^-9 */
        memcpy(at, &scale, sizeof scale);
        for (int j = 0; j < 32; j++) at[2 + j] = (uint8_t)(int)(drawn() * 254);
    }
}

static void add_floats(gguf_builder *b, const char *name, uint64_t k, uint64_t rows) {
    char *at = add(b, name, F32, k, rows);
    for (uint64_t i = 0; i < k * rows; i++) {
        float v = rows > 1 ? drawn() : 1.0f;
        memcpy(at + i * sizeof v, &v, sizeof v);
    }
}

static void write_model(const char *path) {
    gguf_builder b = {0};
    base_buf file = {0};
    rp_error err = {0};
    gguf_llama_keys(&b);
    gguf_llama_tokenizer(&b, "smollm");
    add_floats(&b, "token_embd.weight", HIDDEN, GGUF_LLAMA_VOCAB);
    add_floats(&b, "blk.0.attn_norm.weight", HIDDEN, 1);
    add_blocks(&b, "blk.0.attn_q.weight", HIDDEN, 32);
    add_blocks(&b, "blk.0.attn_k.weight", HIDDEN, 16);
    add_blocks(&b, "blk.0.attn_v.weight", HIDDEN, 16);
    add_blocks(&b, "blk.0.attn_output.weight", HIDDEN, 32);
    add_floats(&b, "blk.0.ffn_norm.weight", HIDDEN, 1);
    add_blocks(&b, "blk.0.ffn_gate.weight", HIDDEN, FFN);
    add_blocks(&b, "blk.0.ffn_up.weight", HIDDEN, FFN);
    add_blocks(&b, "blk.0.ffn_down.weight", FFN, HIDDEN);
    add_floats(&b, "output_norm.weight", HIDDEN, 1);
    add_floats(&b, "output.weight", HIDDEN, GGUF_LLAMA_VOCAB);
    gguf_write(&b, &file);
    CHECK_OK(base_file_write_atomic(path, file.data, file.len, &err), &err);
    base_buf_done(&file);
}

static int64_t most_scratch(const plan *p) {
    int64_t most = 0;
    for (uint32_t i = 0; i < p->n_launches; i++)
        for (uint32_t a = 0; a < p->launches[i].n_alts; a++)
            if (p->launches[i].alts[a].scratch > most) most = p->launches[i].alts[a].scratch;
    return most;
}

static void a_large_head_has_its_memory(void **state) {
    static const char *const ways[][2] = {{"level=0", "cudagraph_mode=NONE"},
                                          {"level=3", "cudagraph_mode=NONE"},
                                          {"level=3", "cudagraph_mode=PIECEWISE"},
                                          {"level=3", "cudagraph_mode=FULL"}};
    const int32_t prompt[] = {5, 17, 42, 99, 3};
    int32_t want[TOKENS], got[TOKENS];
    char path[512];
    (void)state;
    (void)snprintf(path, sizeof path, "%s/mixed.gguf", tree_new("mixed"));
    write_model(path);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        rp_engine *e = engine_must(path, (const char *[]){ways[i][0], ways[i][1], "threads=2",
                                                          "max_num_seqs=2", "max_model_len=32",
                                                          "max_num_batched_tokens=8", NULL});
        if (i > 0) /* else this test says nothing */
            assert_true(most_scratch(e->plans.head) > 2 * most_scratch(e->plans.model));
        assert_int_equal(engine_greedy(e, prompt, 5, TOKENS, i ? got : want), TOKENS);
        if (i) assert_memory_equal(got, want, sizeof want);
        rp_engine_close(e);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_large_head_has_its_memory)};
    return cmocka_run_group_tests_name("unit/engine_mixed", tests, NULL, NULL);
}
