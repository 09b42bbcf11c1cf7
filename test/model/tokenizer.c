/* SmolLM2's tokenizer and chat template against two public implementations (test/model/oracle),
 * round trips over random Unicode and random bytes, and the time to the first ids. */
#include "support/check.h"

#include <jansson.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "model/detok.h"
#include "model/utf8.h"
#include "model/weights.h"

static model_source *source; /* NULL: there is no model file */

static int open_model(void **state) {
    (void)state;
    const char *path = getenv("REPRISE_TEST_MODEL");
    rp_error err = {0};
    if (!path) return 0;
    if (model_source_open_gguf(path, &source, &err) == RP_OK) return 0;
    printf("%s\n", err.text);
    return -1;
}

static int close_model(void **state) {
    (void)state;
    model_source_free(source);
    return 0;
}

#define NEEDS_MODEL() \
    if (!source) SKIP_TEST("REPRISE_TEST_MODEL names no GGUF file of SmolLM2")

static json_t *oracle(const char *name) {
    char path[256];
    json_error_t why;
    (void)snprintf(path, sizeof path, "test/model/oracle/%s", name);
    json_t *j = json_load_file(path, 0, &why);
    if (!j) fail_msg("%s: %s", path, why.text);
    return j;
}

static base_str json_text(const json_t *object, const char *key) {
    const json_t *s = json_object_get(object, key);
    return (base_str){json_string_value(s), json_string_length(s)};
}

static void encode(base_str text, model_ids *ids, size_t *n_dropped) {
    rp_error err = {0};
    ids->n = 0;
    CHECK_OK(model_tokenizer_encode(model_source_tokenizer(source), text,
                                    MODEL_ENCODE_ADD_SPECIAL | MODEL_ENCODE_PARSE_SPECIAL, ids,
                                    n_dropped, &err),
             &err);
}

static void check_ids(const model_ids *ids, const json_t *want, base_str text) {
    bool same = ids->n == json_array_size(want);
    for (size_t i = 0; same && i < ids->n; i++)
        same = ids->ids[i] == (uint32_t)json_integer_value(json_array_get(want, i));
    if (!same) fail_msg("other ids than the oracle's for '%.*s'", (int)text.len, text.ptr);
}

static void all_oracle_texts(void **state) {
    (void)state;
    NEEDS_MODEL();
    json_t *cases = oracle("smollm2_tokenizer.json");
    model_ids ids = {0};
    base_buf out = {0};
    rp_error err = {0};
    assert_int_equal(json_array_size(cases), 250);
    for (size_t i = 0; i < 250; i++) {
        const json_t *c = json_array_get(cases, i);
        base_str text = json_text(c, "text");
        encode(text, &ids, NULL);
        check_ids(&ids, json_object_get(c, "ids"), text);
        base_buf_clear(&out);
        CHECK_OK(model_tokenizer_decode(model_source_tokenizer(source), ids.ids, ids.n, true, &out,
                                        &err),
                 &err);
        assert_int_equal(out.len, text.len);
        assert_memory_equal(out.data, text.ptr, text.len);
    }
    base_buf_done(&out);
    model_ids_done(&ids);
    json_decref(cases);
}

/* The text between two marks of an oracle prompt. */
static base_str between(base_str s, const char *from, const char *to) {
    const char *start = strstr(s.ptr, from) + strlen(from);
    return (base_str){start, (size_t)(strstr(start, to) - start)};
}

static void all_oracle_prompts(void **state) {
    (void)state;
    NEEDS_MODEL();
    json_t *cases = oracle("smollm2_greedy.json");
    model_ids ids = {0};
    rp_error err = {0};
    model_chat chat;
    size_t n_chats = 0;
    CHECK_OK(model_chat_init(&chat, NULL, model_source_chat_template(source), &err), &err);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *c = json_array_get(cases, i);
        base_str text = json_text(c, "prompt");
        base_buf prompt = {0};
        if (base_str_eq(json_text(c, "kind"), "chat")) {
            model_message m = {base_str_of("user"),
                               between(text, "<|im_start|>user\n", "<|im_end|>")};
            CHECK_OK(model_chat_apply(&chat, &m, 1, true, &prompt, &err), &err);
            assert_string_equal(prompt.data, text.ptr);
            n_chats++;
        }
        if (!base_str_eq(json_text(c, "kind"), "long")) { /* that one was cut to 600 ids */
            encode(text, &ids, NULL);
            check_ids(&ids, json_object_get(c, "prompt_ids"), text);
        }
        base_buf_done(&prompt);
    }
    assert_int_equal(n_chats, 6);
    model_chat_done(&chat);
    model_ids_done(&ids);
    json_decref(cases);
}

/* The oracle's greedy ids, streamed: the text it has for them. */
static void oracle_outputs_stream(void **state) {
    (void)state;
    NEEDS_MODEL();
    json_t *cases = oracle("smollm2_greedy.json");
    rp_error err = {0};
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *c = json_array_get(cases, i), *ids = json_object_get(c, "greedy_ids");
        base_str text = json_text(c, "text");
        model_detok d;
        base_buf out = {0};
        model_detok_init(&d, model_source_tokenizer(source), true);
        for (size_t k = 0; k < json_array_size(ids); k++) {
            CHECK_OK(model_detok_push(&d, (uint32_t)json_integer_value(json_array_get(ids, k)),
                                      &out, &err),
                     &err);
            assert_int_equal(model_utf8_valid(out.data, out.len), out.len);
        }
        CHECK_OK(model_detok_flush(&d, &out, &err), &err);
        assert_int_equal(out.len, text.len);
        assert_memory_equal(out.data, text.ptr, text.len);
        model_detok_done(&d);
        base_buf_done(&out);
    }
    json_decref(cases);
}

static uint64_t next_random(uint64_t *x) {
    *x ^= *x << 13;
    *x ^= *x >> 7;
    *x ^= *x << 17;
    return *x;
}

static void put_char(base_buf *b, uint32_t c) {
    char p[4];
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n; i-- > 1; c >>= 6) p[i] = (char)(0x80 | (c & 0x3f));
    p[0] = (char)(n == 1 ? c : (0xf00u >> n & 0xf0) | c);
    base_buf_add(b, p, n);
}

/* Removes from text the bytes for which the vocabulary has no token. */
static void drop_missing(base_buf *text) {
    static const char missing[] = "\x04\x06\x13\x14\x16\x1d\xc0\xc1\xf1\xf2\xf5\xf6\xf7\xf8\xf9"
                                  "\xfa\xfb\xfc\xfd\xfe\xff";
    size_t w = 0;
    for (size_t i = 0; i < text->len; i++)
        if (!memchr(missing, text->data[i], sizeof missing - 1)) text->data[w++] = text->data[i];
    text->len = w;
}

static void round_trip(base_buf *text, model_ids *ids) {
    rp_error err = {0};
    base_buf out = {0};
    size_t n_dropped = 0, len = text->len;
    encode((base_str){text->data, text->len}, ids, &n_dropped);
    CHECK_OK(
        model_tokenizer_decode(model_source_tokenizer(source), ids->ids, ids->n, true, &out, &err),
        &err);
    drop_missing(text);
    assert_int_equal(n_dropped, len - text->len);
    assert_int_equal(out.len, text->len);
    if (out.len) assert_memory_equal(out.data, text->data, out.len);
    base_buf_done(&out);
}

static void random_unicode_comes_back(void **state) {
    (void)state;
    NEEDS_MODEL();
    uint64_t x = 0x5eed;
    model_ids ids = {0};
    base_buf text = {0};
    for (int round = 0; round < 3000; round++) {
        base_buf_clear(&text);
        for (uint64_t n = next_random(&x) % 60; n > 0; n--) {
            static const uint32_t tops[] = {0x80, 0x80, 0x250, 0x3000, 0x10000, 0x40000, 0x110000};
            uint32_t c = (uint32_t)(next_random(&x) % tops[next_random(&x) % 7]);
            if (c < 0xd800 || c > 0xdfff) put_char(&text, c);
        }
        round_trip(&text, &ids);
    }
    base_buf_done(&text);
    model_ids_done(&ids);
}

static void random_bytes_come_back(void **state) {
    (void)state;
    NEEDS_MODEL();
    uint64_t x = 0xb17e5;
    model_ids ids = {0};
    base_buf text = {0};
    for (int round = 0; round < 3000; round++) {
        base_buf_clear(&text);
        for (uint64_t n = next_random(&x) % 60; n > 0; n--) {
            uint64_t r = next_random(&x);
            if (r % 50 == 0) base_buf_puts(&text, "<|im_end|>");
            base_buf_putc(&text, (char)(r >> 8));
        }
        round_trip(&text, &ids);
    }
    base_buf_done(&text);
    model_ids_done(&ids);
}

/* Process start to first token is budgeted at 200 ms; the floor here allows for busy machines. */
static void loading_is_fast(void **state) {
    (void)state;
    NEEDS_MODEL();
    double best = 1e9;
    for (int round = 0; round < 10; round++) {
        rp_error err = {0};
        model_source *s = NULL;
        model_ids ids = {0};
        int64_t start = base_now_ns();
        CHECK_OK(model_source_open_gguf(getenv("REPRISE_TEST_MODEL"), &s, &err), &err);
        CHECK_OK(model_tokenizer_encode(model_source_tokenizer(s), base_str_of("The capital"), 0,
                                        &ids, NULL, &err),
                 &err);
        double ms = (double)(base_now_ns() - start) * 1e-6;
        if (ms < best) best = ms;
        model_ids_done(&ids);
        model_source_free(s);
    }
    printf("open and first encode: %.2f ms\n", best);
    assert_true(best < 50.0);
}

static void hyperparameters(void **state) {
    (void)state;
    NEEDS_MODEL();
    const model_hparams *hp = model_source_hparams(source);
    assert_int_equal(hp->n_layer, 30);
    assert_int_equal(hp->n_embd, 576);
    assert_int_equal(hp->n_ff, 1536);
    assert_int_equal(hp->n_head, 9);
    assert_int_equal(hp->n_head_kv, 3);
    assert_int_equal(hp->head_dim, 64);
    assert_int_equal(hp->n_vocab, 49152);
    assert_int_equal(hp->n_ctx, 8192);
    assert_int_equal(hp->rope_dim, 64);
    assert_int_equal(hp->rope_scaling, MODEL_ROPE_PLAIN);
    assert_true(hp->rope_base == 100000.0f && hp->rms_eps == 1e-5f && hp->tied);
    assert_int_equal(model_source_n_tensors(source), 272);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_oracle_texts),       cmocka_unit_test(all_oracle_prompts),
        cmocka_unit_test(oracle_outputs_stream),  cmocka_unit_test(random_unicode_comes_back),
        cmocka_unit_test(random_bytes_come_back), cmocka_unit_test(loading_is_fast),
        cmocka_unit_test(hyperparameters),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
