/* Tokenizer over a small vocabulary: pieces, merges, special tokens, bytes without a token, the
 * byte tokenizer, and time that grows no faster than the text. */
#include "support/check.h"
#include "support/gguf.h"

#include <pthread.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "model/detok.h"
#include "model/pretok.h"
#include "model/utf8.h"
#include "model/weights.h"

static model_source *open_small(base_buf *file) {
    rp_error err = {0};
    model_source *s = NULL;
    gguf_llama(file);
    CHECK_OK(model_source_open_bytes(file->data, file->len, "small", &s, &err), &err);
    return s;
}

/* Encodes text and expects these token texts, joined by '|'. */
static void encodes(model_tokenizer *t, const char *text, unsigned flags, const char *want) {
    rp_error err = {0};
    model_ids ids = {0};
    base_buf got = {0};
    CHECK_OK(model_tokenizer_encode(t, base_str_of(text), flags, &ids, NULL, &err), &err);
    for (size_t i = 0; i < ids.n; i++) {
        if (i) base_buf_putc(&got, '|');
        CHECK_OK(model_tokenizer_bytes(t, ids.ids[i], true, &got, &err), &err);
    }
    base_buf_putc(&got, 0);
    assert_string_equal(got.data, want);
    base_buf_done(&got);
    model_ids_done(&ids);
}

static void merges_apply_in_order(void **state) {
    (void)state;
    base_buf file = {0};
    model_source *s = open_small(&file);
    model_tokenizer *t = model_source_tokenizer(s);
    encodes(t, "the", 0, "the");
    encodes(t, "The", 0, "T|h|e");
    encodes(t, "a the", 0, "a| the");
    encodes(t, "aaaaaaa", 0, "aaaa|aa|a");
    encodes(t, "thth", 0, "th|th");
    encodes(t, "", 0, "");
    encodes(t, "a\nb", 0, "a|\n|b");
    model_source_free(s);
    base_buf_done(&file);
}

static model_source *open_named(const char *const *names, uint32_t n, const char *const *merges,
                                uint32_t n_merges, base_buf *file);

/* Of two equal merges the first has the rank, whatever lies between. */
static void the_first_of_equal_merges_counts(void **state) {
    static const char *const names[] = {"a", "b", "c", "ab", "bc"};
    static const char *const first[] = {"a b", "b c", "a b"}, *const last[] = {"b c", "a b", "b c"};
    base_buf file = {0}, other = {0};
    (void)state;
    model_source *s = open_named(names, 5, first, 3, &file);
    encodes(model_source_tokenizer(s), "abc", 0, "ab|c");
    model_source_free(s);
    s = open_named(names, 5, last, 3, &other);
    encodes(model_source_tokenizer(s), "abc", 0, "a|bc");
    model_source_free(s);
    base_buf_done(&file);
    base_buf_done(&other);
}

/* What a merge makes must be a token. */
static void merges_of_no_token_do_nothing(void **state) {
    static const char *const names[] = {"a", "b", "c", "bc"};
    static const char *const merges[] = {"a b", "b c", "a bc"};
    base_buf file = {0};
    (void)state;
    model_source *s = open_named(names, 4, merges, 3, &file);
    encodes(model_source_tokenizer(s), "abc", 0, "a|bc");
    encodes(model_source_tokenizer(s), "ab", 0, "a|b");
    model_source_free(s);
    base_buf_done(&file);
}

/* Tokens with these texts, and others that nobody asks for. */
static model_source *open_named(const char *const *names, uint32_t n, const char *const *merges,
                                uint32_t n_merges, base_buf *file) {
    char others[GGUF_LLAMA_VOCAB][8];
    const char *tokens[GGUF_LLAMA_VOCAB];
    gguf_builder b = {0};
    rp_error err = {0};
    model_source *s = NULL;
    for (uint32_t i = 0; i < GGUF_LLAMA_VOCAB; i++) {
        (void)snprintf(others[i], sizeof others[i], "#%u", i);
        tokens[i] = i < n ? names[i] : others[i];
    }
    gguf_llama_keys(&b);
    gguf_kv_str(&b, "tokenizer.ggml.model", "gpt2");
    gguf_kv_str(&b, "tokenizer.ggml.pre", "smollm");
    gguf_kv_strs(&b, "tokenizer.ggml.tokens", tokens, GGUF_LLAMA_VOCAB);
    gguf_kv_strs(&b, "tokenizer.ggml.merges", merges, n_merges);
    gguf_llama_tensors(&b);
    gguf_write(&b, file);
    CHECK_OK(model_source_open_bytes(file->data, file->len, "named", &s, &err), &err);
    return s;
}

static model_source *open_five(base_buf *file) {
    static const char *const merges[] = {"t h", "a t"};
    static const char *const names[] = {"a", "t", "h", "th", "at"};
    return open_named(names, 5, merges, 2, file);
}

/* Tokens that begin and end anywhere in characters, some of them longer than a word of memory: their stream is the text of all their bytes. */
static void tokens_of_parts_of_characters_stream(void **state) {
    static const char *const parts[] = {"a",
                                        "\xe2",
                                        "\x82\xac",
                                        "a\xe2\x82",
                                        "\xacz",
                                        "\xff",
                                        "ordinary words, 20 b\xf0\x9f",
                                        "\x98\x80!",
                                        "\xc3\xa9t\xc3\xa9",
                                        " \xed\xa0"};
    enum { PARTS = sizeof parts / sizeof *parts };
    static const char *const merges[] = {"a a"};
    char names[PARTS][64] = {""};
    const char *texts[PARTS];
    base_buf file = {0}, bytes = {0}, want = {0}, out = {0};
    rp_error err = {0};
    (void)state;
    for (int i = 0; i < PARTS; i++) {
        size_t n = 0;
        for (const char *p = parts[i]; *p; p++)
            n += model_utf8_put(model_byte_to_char((uint8_t)*p), names[i] + n);
        texts[i] = names[i];
    }
    model_source *s = open_named(texts, PARTS, merges, 1, &file);
    model_detok d;
    model_detok_init(&d, model_source_tokenizer(s), false);
    srand(3);
    for (int round = 0; round < 500; round++) {
        base_buf_clear(&bytes);
        base_buf_clear(&want);
        base_buf_clear(&out);
        for (int i = 0; i < 12; i++) {
            const uint32_t id = (uint32_t)rand() % PARTS;
            base_buf_puts(&bytes, parts[id]);
            CHECK_OK(model_detok_push(&d, id, &out, &err), &err);
            assert_int_equal(strlen(out.data), out.len);
            assert_int_equal(model_utf8_valid(out.data, out.len), out.len);
        }
        CHECK_OK(model_detok_flush(&d, &out, &err), &err);
        for (size_t at = 0, len; at < bytes.len; at += len) {
            if (model_utf8_step(bytes.data + at, bytes.len - at, &len) == MODEL_UTF8_CHAR)
                base_buf_add(&want, bytes.data + at, len);
            else
                base_buf_puts(&want, "\xef\xbf\xbd");
        }
        assert_string_equal(out.data, want.data);
    }
    model_detok_done(&d);
    model_source_free(s);
    base_buf_done(&file);
    base_buf_done(&bytes);
    base_buf_done(&want);
    base_buf_done(&out);
}

/* "a t" waits behind "t h", and its t is another symbol when its turn comes. */
static void a_merge_whose_symbols_changed_is_skipped(void **state) {
    (void)state;
    base_buf file = {0};
    model_source *s = open_five(&file);
    model_tokenizer *t = model_source_tokenizer(s);
    encodes(t, "at", 0, "at");
    encodes(t, "ath", 0, "a|th");
    encodes(t, "atath", 0, "at|a|th");
    model_source_free(s);
    base_buf_done(&file);
}

static void special_tokens_come_first(void **state) {
    (void)state;
    base_buf file = {0};
    model_source *s = open_small(&file);
    model_tokenizer *t = model_source_tokenizer(s);
    const unsigned parse = MODEL_ENCODE_PARSE_SPECIAL;
    encodes(t, "th<|im_start|>e", parse, "th|<|im_start|>|e");
    encodes(t, "<|im_start|>x<|im_start|>", parse, "<|im_start|>x|<|im_start|>");
    encodes(t, "<|im_end", parse, "<|||i|m|_|e|n|d");
    encodes(t, "<|im_end|>", 0, "<|||i|m|_|e|n|d|||>");
    encodes(t, "a<user>a", 0, "a|<user>|a"); /* user-defined tokens always count */
    assert_int_equal(model_tokenizer_bos(t), 102);
    assert_true(model_tokenizer_is_end(t, 103));
    assert_false(model_tokenizer_is_end(t, 102));
    assert_true(model_tokenizer_is_control(t, 103));
    rp_error err = {0};
    uint32_t id = 0;
    CHECK_OK(model_tokenizer_find(t, base_str_of("<|im_end|>"), &id, &err), &err);
    assert_int_equal(id, 103);
    CHECK_OK(model_tokenizer_find(t, base_str_of("<|im_end|>x"), &id, &err), &err);
    assert_int_equal(id, MODEL_NO_ID);
    base_buf out = {0};
    CHECK_OK(model_tokenizer_decode(t, (uint32_t[]){103, 105}, 2, false, &out, &err), &err);
    assert_string_equal(out.data, "<user>"); /* control tokens have no text of their own */
    assert_int_equal(model_tokenizer_bytes(t, 108, true, &out, &err), RP_INVALID);
    assert_string_equal(err.text, "token id 108 is outside the vocabulary of 108");
    err = (rp_error){0};
    assert_int_equal(model_tokenizer_bytes(t, 5000, true, &out, &err), RP_INVALID);
    assert_string_equal(err.text, "token id 5000 is outside the vocabulary of 108");
    base_buf_done(&out);
    model_source_free(s);
    base_buf_done(&file);
}

/* A vocabulary of control tokens, each of which is found. */
static void any_number_of_special_tokens(void **state) {
    char name[GGUF_LLAMA_VOCAB][8], text[32], want[32];
    const char *tokens[GGUF_LLAMA_VOCAB];
    int32_t kinds[GGUF_LLAMA_VOCAB];
    gguf_builder b = {0};
    base_buf file = {0};
    rp_error err = {0};
    model_gguf *g = NULL;
    model_tokenizer *t = NULL;
    (void)state;
    for (uint32_t i = 0; i < GGUF_LLAMA_VOCAB; i++) {
        (void)snprintf(name[i], sizeof name[i], i ? "<s%u>" : "a", i);
        tokens[i] = name[i];
        kinds[i] = i ? 3 : 1;
    }
    gguf_kv_str(&b, "tokenizer.ggml.model", "gpt2");
    gguf_kv_str(&b, "tokenizer.ggml.pre", "gpt-2");
    gguf_kv_strs(&b, "tokenizer.ggml.tokens", tokens, GGUF_LLAMA_VOCAB);
    gguf_kv_i32s(&b, "tokenizer.ggml.token_type", kinds, GGUF_LLAMA_VOCAB);
    gguf_kv_strs(&b, "tokenizer.ggml.merges", tokens, 0);
    gguf_write(&b, &file);
    CHECK_OK(model_gguf_open_bytes(file.data, file.len, "g", &g, &err), &err);
    CHECK_OK(model_tokenizer_new(g, &t, &err), &err);
    for (uint32_t i = 1; i < GGUF_LLAMA_VOCAB; i++) {
        const char *other = name[GGUF_LLAMA_VOCAB - i];
        (void)snprintf(text, sizeof text, "a%sa%s", name[i], other);
        (void)snprintf(want, sizeof want, "a|%s|a|%s", name[i], other);
        encodes(t, text, MODEL_ENCODE_PARSE_SPECIAL, want);
    }
    model_tokenizer_free(t);
    model_gguf_close(g);
    base_buf_done(&file);
}

static void bos_and_eos_when_asked_for(void **state) {
    (void)state;
    gguf_builder b = {0};
    base_buf file = {0};
    rp_error err = {0};
    model_gguf *g = NULL;
    model_tokenizer *t = NULL;
    gguf_llama_tokenizer(&b, "gpt-2");
    gguf_kv_bool(&b, "tokenizer.ggml.add_eos_token", true);
    gguf_write(&b, &file);
    CHECK_OK(model_gguf_open_bytes(file.data, file.len, "g", &g, &err), &err);
    CHECK_OK(model_tokenizer_new(g, &t, &err), &err);
    encodes(t, "the", MODEL_ENCODE_ADD_SPECIAL, "the|<|im_end|>");
    encodes(t, "the", 0, "the");
    model_tokenizer_free(t);
    model_gguf_close(g);
    base_buf_done(&file);
}

/* Each of three keys may name a token that ends an answer, and no other token does. */
static void which_tokens_end_an_answer(void **state) {
    static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    static const char *const tokens[] = {"a", "b", "c", "d", "e"};
    (void)state;
    for (unsigned given = 0; given < 16; given++) { /* 8: the last one that is given is no token */
        gguf_builder b = {0};
        base_buf file = {0};
        rp_error err = {0};
        model_gguf *g = NULL;
        model_tokenizer *t = NULL;
        int last = given & 4 ? 2 : given & 2 ? 1 : 0;
        bool wrong = given & 8 && given & 7;
        gguf_kv_str(&b, "tokenizer.ggml.model", "gpt2");
        gguf_kv_str(&b, "tokenizer.ggml.pre", "gpt-2");
        gguf_kv_strs(&b, "tokenizer.ggml.tokens", tokens, 5);
        gguf_kv_strs(&b, "tokenizer.ggml.merges", tokens, 0);
        for (int i = 0; i < 3; i++)
            if (given >> i & 1) gguf_kv_u32(&b, keys[i], wrong && i == last ? 5 : 1u + (uint32_t)i);
        gguf_write(&b, &file);
        CHECK_OK(model_gguf_open_bytes(file.data, file.len, "g", &g, &err), &err);
        rp_status st = model_tokenizer_new(g, &t, &err);
        assert_int_equal(st, wrong ? RP_CORRUPT : RP_OK);
        if (wrong) {
            char want[96];
            (void)snprintf(want, sizeof want, "g: %s is 5, but there are only 5 tokens",
                           keys[last]);
            assert_string_equal(err.text, want);
        } else {
            for (uint32_t id = 0; id < 5; id++)
                assert_int_equal(model_tokenizer_is_end(t, id),
                                 id >= 1 && id <= 3 && given >> (id - 1) & 1);
            assert_int_equal(model_tokenizer_eos(t), given & 1 ? 1 : MODEL_NO_ID);
            model_tokenizer_free(t);
        }
        model_gguf_close(g);
        base_buf_done(&file);
    }
}

static void bytes_without_a_token_are_counted(void **state) {
    (void)state;
    base_buf file = {0}, out = {0};
    rp_error err = {0};
    model_source *s = open_small(&file);
    model_tokenizer *t = model_source_tokenizer(s);
    model_ids ids = {0};
    size_t n_dropped = 0;
    /* of the three bytes of U+20AC the vocabulary has the first and the last */
    CHECK_OK(model_tokenizer_encode(t,
                                    base_str_of("a\xe2\x82\xac"
                                                "b\xff"),
                                    0, &ids, &n_dropped, &err),
             &err);
    assert_int_equal(n_dropped, 2);
    CHECK_OK(model_tokenizer_decode(t, ids.ids, ids.n, true, &out, &err), &err);
    assert_string_equal(out.data, "a\xe2\xac"
                                  "b");
    base_buf_done(&out);
    model_ids_done(&ids);
    model_source_free(s);
    base_buf_done(&file);
}

static void a_rule_must_be_known(void **state) {
    rp_error err = {0};
    model_pretok *p = NULL;
    (void)state;
    assert_int_equal(model_pretok_new(base_str_of("llama-bpe"), &p, &err), RP_UNSUPPORTED);
    assert_string_equal(err.text,
                        "pre-tokenizer 'llama-bpe' is not supported: 'smollm' and 'gpt-2' are");
    assert_null(p);
}

/* The pieces of text, each followed by '|'. */
static void splits(const char *rule, const char *text, const char *want) {
    rp_error err = {0};
    model_pretok *p = NULL;
    model_pretok_run *run = NULL;
    base_buf got = {0};
    CHECK_OK(model_pretok_new(base_str_of(rule), &p, &err), &err);
    CHECK_OK(model_pretok_run_new(p, &run, &err), &err);
    model_pretok_start(run, base_str_of(text));
    for (;;) {
        base_str piece;
        CHECK_OK(model_pretok_next(run, &piece, &err), &err);
        if (piece.len == 0) break;
        base_buf_add(&got, piece.ptr, piece.len);
        base_buf_putc(&got, '|');
    }
    assert_string_equal(got.data, want);
    model_pretok_run_free(run);
    model_pretok_free(p);
    base_buf_done(&got);
}

/* Said at the first use, with the file and what to do. */
static void a_token_that_appears_twice_is_damage(void **state) {
    (void)state;
    static const char was[] = "\1\0\0\0\0\0\0\0T";
    rp_error err = {0};
    base_buf file = {0};
    model_source *s = NULL;
    model_ids ids = {0};
    gguf_llama(&file);
    char *at = memmem(file.data, file.len, was, sizeof was - 1);
    assert_non_null(at);
    at[8] = 'h';
    CHECK_OK(model_source_open_bytes(file.data, file.len, "small", &s, &err), &err);
    assert_int_equal(
        model_tokenizer_encode(model_source_tokenizer(s), base_str_of("the"), 0, &ids, NULL, &err),
        RP_CORRUPT);
    assert_memory_equal(err.text, "small: tokens ", 14);
    assert_non_null(
        strstr(err.text, "have the same text 'h': the file is damaged, fetch it again"));
    model_ids_done(&ids);
    model_source_free(s);
    base_buf_done(&file);
}

static void pieces_of_both_rules(void **state) {
    (void)state;
    splits("gpt-2", "I'll pay 1234 now", "I|'ll| pay| 1234| now|");
    splits("smollm", "I'll pay 1234 now", "I|'ll| pay| |1|2|3|4| now|");
    splits("gpt-2", "a  b", "a| | b|");
    splits("smollm", "a  1", "a|  |1|"); /* a digit ends the text for the blanks before it */
    splits("gpt-2", "a  1", "a| | 1|");
    splits("smollm", "x \n\n y", "x| \n\n| y|");
    splits("smollm", "end  ", "end|  |");
    splits("smollm", "a\t\tb!? c", "a|\t|\t|b|!?| c|");
    /* Arabic-Indic, superscript and Roman digits are numbers, U+00A0 and U+0085 are spaces, U+180E is none */
    splits("smollm", "\xd9\xa1\xc2\xb2\xe2\x85\xa7", "\xd9\xa1|\xc2\xb2|\xe2\x85\xa7|");
    splits("smollm",
           "a\xc2\xa0\xc2\x85"
           "b",
           "a|\xc2\xa0|\xc2\x85|b|");
    splits("smollm",
           "a\xe1\xa0\x8e"
           "b",
           "a|\xe1\xa0\x8e|b|");
    splits("smollm", "\xf0\x9f\x98\x80!", "\xf0\x9f\x98\x80!|");
    /* what is not UTF-8 is a piece of its own and ends the text around it */
    splits("smollm", "a  \xff\xfe b", "a|  |\xff\xfe| b|");
    splits("smollm", "\xed\xa0\x80x\xe2\x82", "\xed\xa0\x80|x|\xe2\x82|");
    rp_error err = {0};
    assert_int_equal(model_pretok_known(base_str_of("llama3"), &err), RP_UNSUPPORTED);
    assert_string_equal(err.text,
                        "pre-tokenizer 'llama3' is not supported: 'smollm' and 'gpt-2' are");
}

static void utf8_steps(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        model_utf8_kind kind;
        size_t len;
    } cases[] = {
        {"a", MODEL_UTF8_CHAR, 1},
        {"\xc3\xa9", MODEL_UTF8_CHAR, 2},
        {"\xef\xbf\xbf", MODEL_UTF8_CHAR, 3},
        {"\xf4\x8f\xbf\xbf", MODEL_UTF8_CHAR, 4},
        {"\x80", MODEL_UTF8_BAD, 1},
        {"\xc0\xaf", MODEL_UTF8_BAD, 1},
        {"\xe0\x9f\x80", MODEL_UTF8_BAD, 1},     /* overlong */
        {"\xed\xa0\x80", MODEL_UTF8_BAD, 1},     /* surrogate */
        {"\xf4\x90\x80\x80", MODEL_UTF8_BAD, 1}, /* above U+10FFFF */
        {"\xf5\x80\x80\x80", MODEL_UTF8_BAD, 1},
        {"\xe2\x82z", MODEL_UTF8_BAD, 2},
        {"\xf0\x9f\x98z", MODEL_UTF8_BAD, 3},
        {"\xe2\x82", MODEL_UTF8_INCOMPLETE, 2},
        {"\xf0\x9f\x98", MODEL_UTF8_INCOMPLETE, 3},
        {"\xf4", MODEL_UTF8_INCOMPLETE, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t len = 0;
        model_utf8_kind kind = model_utf8_step(cases[i].bytes, strlen(cases[i].bytes), &len);
        if (kind != cases[i].kind || len != cases[i].len)
            fail_msg("case %zu: %d %zu", i, kind, len);
    }
}

static void byte_alphabet_is_a_bijection(void **state) {
    (void)state;
    for (unsigned b = 0; b < 256; b++)
        assert_int_equal(model_char_to_byte(model_byte_to_char((uint8_t)b)), b);
    int n = 0;
    for (uint32_t c = 0; c < 0x1000; c++) n += model_char_to_byte(c) >= 0;
    assert_int_equal(n, 256);
    assert_int_equal(model_byte_to_char(' '), 0x120);
    assert_int_equal(model_byte_to_char(0xad), 0x143);
}

static void byte_tokenizer(void **state) {
    (void)state;
    rp_error err = {0};
    model_tokenizer *t = NULL;
    model_ids ids = {0};
    base_buf text = {0}, out = {0};
    assert_int_equal(model_tokenizer_bytes_new(258, &t, &err), RP_INVALID);
    CHECK_OK(model_tokenizer_bytes_new(288, &t, &err), &err);
    for (uint32_t id = 0; id < 290; id++) /* end of text, end of a message */
        assert_int_equal(model_tokenizer_is_end(t, id), id == 256 || id == 258);
    for (unsigned i = 0; i < 256; i++) base_buf_putc(&text, (char)i);
    CHECK_OK(model_tokenizer_encode(t, (base_str){text.data, text.len}, 3, &ids, NULL, &err), &err);
    assert_int_equal(ids.n, 256);
    CHECK_OK(model_tokenizer_decode(t, ids.ids, ids.n, false, &out, &err), &err);
    assert_int_equal(out.len, 256);
    assert_memory_equal(out.data, text.data, 256);
    encodes(t, "a<|im_end|>", MODEL_ENCODE_PARSE_SPECIAL, "a|<|im_end|>");
    encodes(t, "<|im", MODEL_ENCODE_PARSE_SPECIAL, "<|||i|m");
    /* A token is what the whole text is. */
    static const struct {
        const char *text;
        uint32_t id;
    } found[] = {{"<|endoftext|>", 256},
                 {"<|im_start|>", 257},
                 {"<|im_end|>", 258},
                 {"<|im_end|>x", MODEL_NO_ID},
                 {"x<|im_end|>", MODEL_NO_ID},
                 {"a", 'a'},
                 {"ab", MODEL_NO_ID},
                 {"", MODEL_NO_ID},
                 {"\377", 255}};
    for (size_t i = 0; i < sizeof found / sizeof *found; i++) {
        uint32_t id = 0;
        CHECK_OK(model_tokenizer_find(t, base_str_of(found[i].text), &id, &err), &err);
        assert_int_equal(id, found[i].id);
    }
    base_buf_clear(&out);
    CHECK_OK(model_tokenizer_decode(t, (uint32_t[]){287, 257, 'x'}, 3, false, &out, &err), &err);
    assert_string_equal(out.data, "<287>x");
    base_buf_done(&text);
    base_buf_done(&out);
    model_ids_done(&ids);
    model_tokenizer_free(t);
}

/* A word of a megabyte: a quadratic merge would take hours. */
static void long_words_are_no_trap(void **state) {
    (void)state;
    base_buf file = {0}, out = {0};
    rp_error err = {0};
    model_source *s = open_small(&file);
    model_ids ids = {0};
    size_t n = 1 << 20;
    char *text = malloc(n);
    int64_t start = base_now_ns();
    for (int round = 0; round < 2; round++) {
        memset(text, round ? ' ' : 'a', n);
        ids.n = 0;
        CHECK_OK(model_tokenizer_encode(model_source_tokenizer(s), (base_str){text, n}, 0, &ids,
                                        NULL, &err),
                 &err);
        assert_int_equal(ids.n, round ? n : n / 4);
    }
    assert_true(base_now_ns() - start < 60ll * 1000 * 1000 * 1000);
    CHECK_OK(model_tokenizer_decode(model_source_tokenizer(s), ids.ids, ids.n, true, &out, &err),
             &err);
    assert_memory_equal(out.data, text, n);
    free(text);
    base_buf_done(&out);
    model_ids_done(&ids);
    model_source_free(s);
    base_buf_done(&file);
}

/* Several threads start with the first encode at once. */
static void *encode_often(void *user) {
    model_tokenizer *t = user;
    intptr_t bad = 0;
    for (int i = 0; i < 200; i++) {
        model_ids ids = {0};
        if (model_tokenizer_encode(t, base_str_of("a the<|im_end|>"), MODEL_ENCODE_PARSE_SPECIAL,
                                   &ids, NULL, NULL) != RP_OK ||
            ids.n != 3 || ids.ids[2] != 103)
            bad++;
        model_ids_done(&ids);
    }
    return (void *)bad;
}

static void threads_may_share(void **state) {
    (void)state;
    base_buf file = {0};
    model_source *s = open_small(&file);
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, encode_often, model_source_tokenizer(s)),
                         0);
    for (size_t i = 0; i < 4; i++) {
        void *bad = NULL;
        assert_int_equal(pthread_join(threads[i], &bad), 0);
        assert_null(bad);
    }
    model_source_free(s);
    base_buf_done(&file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rule_must_be_known),
        cmocka_unit_test(merges_apply_in_order),
        cmocka_unit_test(the_first_of_equal_merges_counts),
        cmocka_unit_test(merges_of_no_token_do_nothing),
        cmocka_unit_test(a_merge_whose_symbols_changed_is_skipped),
        cmocka_unit_test(special_tokens_come_first),
        cmocka_unit_test(any_number_of_special_tokens),
        cmocka_unit_test(bos_and_eos_when_asked_for),
        cmocka_unit_test(which_tokens_end_an_answer),
        cmocka_unit_test(bytes_without_a_token_are_counted),
        cmocka_unit_test(a_token_that_appears_twice_is_damage),
        cmocka_unit_test(pieces_of_both_rules),
        cmocka_unit_test(utf8_steps),
        cmocka_unit_test(byte_alphabet_is_a_bijection),
        cmocka_unit_test(tokens_of_parts_of_characters_stream),
        cmocka_unit_test(byte_tokenizer),
        cmocka_unit_test(long_words_are_no_trap),
        cmocka_unit_test(threads_may_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
