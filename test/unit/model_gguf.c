/* The GGUF reader: values and tensors of good files, one clear error for each bad one, and no
 * crash whatever byte is changed or cut. */
#include "support/check.h"
#include "support/guarded.h"
#include "support/trees.h"
#include "support/gguf.h"

#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "model/weights.h"

static rp_status open_buf(const base_buf *file, model_gguf **out, rp_error *err) {
    return model_gguf_open_bytes(file->data, file->len, "test.gguf", out, err);
}

static void assert_has(const char *text, const char *part) {
    if (!strstr(text, part)) fail_msg("'%s' does not contain '%s'", text, part);
}

/* Writes b, opens it, expects this failure. */
static void bad_file(gguf_builder *b, rp_status code, const char *part) {
    base_buf file = {0};
    rp_error err = {0};
    model_gguf *g = NULL;
    gguf_write(b, &file);
    assert_int_equal(open_buf(&file, &g, &err), code);
    assert_null(g);
    assert_has(err.text, part);
    assert_null(strchr(err.text, '\n'));
    base_buf_done(&file);
}

static void values_of_every_kind(void **state) {
    (void)state;
    gguf_builder b = {.version = 2};
    base_buf file = {0};
    rp_error err = {0};
    model_gguf *g = NULL;
    uint32_t u = 0;
    float f = 0;
    bool on = false;
    base_str s;
    model_kv_array a;
    gguf_kv_u32(&b, "u32", 7);
    gguf_kv_f32(&b, "f32", 0.5f);
    gguf_kv_bool(&b, "yes", true);
    gguf_kv_str(&b, "str", "h\xc3\xa9");
    gguf_kv_strs(&b, "strs", (const char *[]){"a", "", "bcd"}, 3);
    gguf_kv_i32s(&b, "ints", (int32_t[]){1, -2}, 2);
    gguf_kv_head(&b, "u64", 10);
    gguf_put_u64(&b.kv, 1ull << 33);
    gguf_kv_head(&b, "minus", 1);
    base_buf_putc(&b.kv, -3);
    gguf_kv_head(&b, "i16", 3);
    base_buf_add(&b.kv, "\x39\x30", 2);
    gguf_kv_f32(&b, "nan", NAN);
    gguf_write(&b, &file);
    CHECK_OK(open_buf(&file, &g, &err), &err);
    assert_int_equal(model_gguf_version(g), 2);
    CHECK_OK(model_gguf_u32(g, "u32", &u, &err), &err);
    assert_int_equal(u, 7);
    CHECK_OK(model_gguf_u32(g, "i16", &u, &err), &err);
    assert_int_equal(u, 12345);
    CHECK_OK(model_gguf_f32(g, "f32", &f, &err), &err);
    assert_true(f == 0.5f);
    CHECK_OK(model_gguf_bool(g, "yes", &on, &err), &err);
    assert_true(on);
    CHECK_OK(model_gguf_str(g, "str", &s, &err), &err);
    assert_true(base_str_eq(s, "h\xc3\xa9"));
    CHECK_OK(model_gguf_array(g, "strs", MODEL_KV_STR, &a, &err), &err);
    assert_int_equal(a.n, 3);
    size_t at = 0;
    assert_true(base_str_eq(model_gguf_next_str(&a, &at), "a"));
    assert_true(base_str_eq(model_gguf_next_str(&a, &at), ""));
    assert_true(base_str_eq(model_gguf_next_str(&a, &at), "bcd"));
    assert_int_equal(at, a.size);
    CHECK_OK(model_gguf_array(g, "ints", MODEL_KV_I32, &a, &err), &err);
    assert_int_equal(a.size, 8);

    assert_int_equal(model_gguf_u32(g, "none", &u, &err), RP_NOT_FOUND);
    assert_has(err.text, "key 'none' is missing");
    err = (rp_error){0};
    assert_int_equal(model_gguf_u32(g, "u64", &u, &err), RP_CORRUPT);
    assert_has(err.text, "above 2^32");
    err = (rp_error){0};
    assert_int_equal(model_gguf_u32(g, "minus", &u, &err), RP_CORRUPT);
    assert_has(err.text, "negative");
    err = (rp_error){0};
    assert_int_equal(model_gguf_u32(g, "str", &u, &err), RP_CORRUPT);
    assert_has(err.text, "is of type string, expected an integer");
    err = (rp_error){0};
    assert_int_equal(model_gguf_f32(g, "nan", &f, &err), RP_CORRUPT);
    err = (rp_error){0};
    assert_int_equal(model_gguf_array(g, "ints", MODEL_KV_STR, &a, &err), RP_CORRUPT);
    assert_has(err.text, "array of i32, expected string");
    model_gguf_close(g);
    base_buf_done(&file);
}

static void tensors_by_name(void **state) {
    (void)state;
    base_buf file = {0};
    rp_error err = {0};
    model_gguf *g = NULL;
    model_tensor t;
    gguf_llama(&file);
    CHECK_OK(open_buf(&file, &g, &err), &err);
    assert_int_equal(model_gguf_n_tensors(g), 11);
    assert_true(model_gguf_tensor(g, "blk.0.attn_k.weight", &t));
    assert_int_equal(t.type, RP_DTYPE_Q4_1);
    assert_int_equal(t.n_dims, 2);
    assert_int_equal(t.dims[0], 32);
    assert_int_equal(t.dims[1], 16);
    assert_int_equal(t.size, 16 * 20);
    assert_ptr_equal(t.data, (uint8_t *)file.data + t.offset);
    assert_int_equal(t.data[1], 7 + 3); /* the builder's pattern: fourth tensor */
    assert_int_equal(t.idx, 3);
    base_hash128 h = model_gguf_tensor_hash(g, t.idx), same = base_hash(t.data, t.size);
    assert_true(h.lo == same.lo && h.hi == same.hi);
    h = model_gguf_tensor_hash(g, t.idx);
    assert_true(h.lo == same.lo && h.hi == same.hi);
    assert_false(model_gguf_stamp(g, &h));
    assert_false(model_gguf_tensor(g, "blk.1.attn_k.weight", &t));
    model_gguf_close(g);
    base_buf_done(&file);
}

static void bad_headers(void **state) {
    (void)state;
    base_buf file = {0};
    rp_error err = {0};
    model_gguf *g = NULL;
    assert_int_equal(open_buf(&file, &g, &err), RP_CORRUPT);
    assert_has(err.text, "the file is empty");
    base_buf_puts(&file, "GGML");
    err = (rp_error){0};
    assert_int_equal(open_buf(&file, &g, &err), RP_CORRUPT);
    assert_has(err.text, "no GGUF file");
    base_buf_done(&file);
    bad_file(&(gguf_builder){.version = 1}, RP_UNSUPPORTED, "version 1 is not supported");
    bad_file(&(gguf_builder){.version = 0x03000000}, RP_UNSUPPORTED, "big-endian");
    bad_file(&(gguf_builder){.n_kv = 1ull << 60}, RP_CORRUPT, "1152921504606846976 metadata");
    bad_file(&(gguf_builder){.n_tensors = 1ull << 60}, RP_CORRUPT, "1152921504606846976 tensors");
    bad_file(&(gguf_builder){.n_kv = UINT64_MAX, .n_tensors = UINT64_MAX}, RP_CORRUPT,
             "do not fit");
}

static void bad_metadata(void **state) {
    (void)state;
    gguf_builder b = {0};
    gguf_kv_u32(&b, "twice", 1);
    gguf_kv_u32(&b, "twice", 2);
    bad_file(&b, RP_CORRUPT, "key 'twice' appears twice");
    b = (gguf_builder){0};
    gguf_kv_head(&b, "nest", 9);
    gguf_put_u32(&b.kv, 9);
    gguf_put_u64(&b.kv, 1);
    bad_file(&b, RP_UNSUPPORTED, "key 'nest': an array of arrays");
    b = (gguf_builder){0};
    gguf_kv_head(&b, "long", 9);
    gguf_put_u32(&b.kv, 4);
    gguf_put_u64(&b.kv, 0x4000000000000001ull); /* times 4 it wraps round to 4 */
    gguf_put_u32(&b.kv, 0);
    bad_file(&b, RP_CORRUPT, "key 'long': 4611686018427387905 elements");
    b = (gguf_builder){0};
    gguf_kv_head(&b, "text", 8);
    gguf_put_u64(&b.kv, UINT64_MAX);
    bad_file(&b, RP_CORRUPT, "a string value at byte 40 does not fit");
    b = (gguf_builder){0};
    gguf_kv_head(&b, "odd", 13);
    gguf_put_u64(&b.kv, 0);
    bad_file(&b, RP_CORRUPT, "key 'odd': unknown value type 13");
    b = (gguf_builder){0};
    gguf_kv_head(&b, "odd", 9);
    gguf_put_u32(&b.kv, 77);
    gguf_put_u64(&b.kv, 1);
    bad_file(&b, RP_CORRUPT, "key 'odd': unknown element type 77");
    b = (gguf_builder){0};
    gguf_kv_head(&b, "flag", 7);
    base_buf_putc(&b.kv, 2);
    bad_file(&b, RP_CORRUPT, "key 'flag': a bool is 2");
    b = (gguf_builder){0};
    gguf_kv_u32(&b, "general.alignment", 24);
    bad_file(&b, RP_CORRUPT, "general.alignment is 24");
    b = (gguf_builder){0};
    gguf_kv_u32(&b, "general.alignment", 1u << 21);
    bad_file(&b, RP_CORRUPT, "general.alignment is 2097152");
    b = (gguf_builder){0};
    gguf_kv_u32(&b, "\x1b[31mred~\x7f", 1);
    gguf_kv_u32(&b, "\x1b[31mred~\x7f", 1);
    bad_file(&b, RP_CORRUPT, "key '?[31mred~?' appears twice");
}

static void bad_tensors(void **state) {
    (void)state;
    gguf_builder b = {0};
    gguf_tensor(&b, "t", 12, 1, (uint64_t[]){256}, 144);
    bad_file(&b, RP_UNSUPPORTED, "tensor 't' has type Q4_K (12): supported are F32, F16");
    b = (gguf_builder){0};
    gguf_tensor(&b, "t", 99, 1, (uint64_t[]){256}, 144);
    bad_file(&b, RP_UNSUPPORTED, "tensor 't' has type unknown (99)");
    b = (gguf_builder){0};
    gguf_tensor(&b, "t", 3, 1, (uint64_t[]){40}, 144);
    bad_file(&b, RP_CORRUPT, "no multiple of the block of Q4_1");
    b = (gguf_builder){0};
    gguf_tensor(&b, "t", 0, 2, (uint64_t[]){1ull << 40, 1ull << 40}, 64);
    bad_file(&b, RP_CORRUPT, "are too large");
    b = (gguf_builder){0};
    gguf_tensor(&b, "t", 0, 1, (uint64_t[]){0}, 64);
    bad_file(&b, RP_CORRUPT, "dim 0 of tensor 't' is 0");
    b = (gguf_builder){0};
    gguf_tensor(&b, "t", 0, 5, (uint64_t[]){1, 1, 1, 1, 1}, 64);
    bad_file(&b, RP_CORRUPT, "has 5 dims");
    b = (gguf_builder){0};
    gguf_tensor(&b, "t", 0, 1, (uint64_t[]){8}, 32);
    gguf_tensor(&b, "t", 0, 1, (uint64_t[]){8}, 32);
    bad_file(&b, RP_CORRUPT, "tensor 't' appears twice");
    b = (gguf_builder){0};
    gguf_tensor(&b, "t", 0, 1, (uint64_t[]){16}, 32);
    bad_file(&b, RP_CORRUPT, "tensor 't' ends at byte 64 of the data, the file has 32");
    b = (gguf_builder){0};
    gguf_tensor(&b, "t", 0, 1, (uint64_t[]){8}, 64);
    gguf_tensor(&b, "u", 0, 1, (uint64_t[]){8}, 32);
    bad_file(&b, RP_CORRUPT, "tensor 'u' starts at byte 64 of the data, expected 32");
    b = (gguf_builder){.align = 16};
    gguf_tensor(&b, "t", 0, 1, (uint64_t[]){4}, 16);
    gguf_tensor(&b, "u", 0, 1, (uint64_t[]){8}, 48);
    bad_file(&b, RP_CORRUPT, "no multiple of the alignment 32");
}

static void alignment_is_read(void **state) {
    (void)state;
    gguf_builder b = {.align = 8};
    base_buf file = {0};
    rp_error err = {0};
    model_gguf *g = NULL;
    model_tensor t;
    gguf_kv_u32(&b, "general.alignment", 8);
    gguf_tensor(&b, "t", 1, 1, (uint64_t[]){2}, 4);
    gguf_tensor(&b, "u", 1, 1, (uint64_t[]){1}, 2);
    gguf_write(&b, &file);
    CHECK_OK(open_buf(&file, &g, &err), &err);
    assert_true(model_gguf_tensor(g, "u", &t));
    assert_int_equal(t.offset, file.len - 2);
    model_gguf_close(g);
    base_buf_done(&file);
}

/* Every power of two from 8 to a megabyte, and nothing else. */
static void alignments_have_bounds(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 24; i++)
        for (uint32_t more = 0; more < 2; more++) {
            const uint32_t align = (1u << i) + more;
            const bool good = !more && i >= 3 && i <= 20;
            gguf_builder b = {.align = good ? align : 32};
            base_buf file = {0};
            rp_error err = {0};
            model_gguf *g = NULL;
            gguf_kv_u32(&b, "general.alignment", align);
            gguf_tensor(&b, "t", 1, 1, (uint64_t[]){2}, 4);
            gguf_write(&b, &file);
            const rp_status st = open_buf(&file, &g, &err);
            if (st != (good ? RP_OK : RP_CORRUPT)) fail_msg("%u: %s", align, err.text);
            if (!good) assert_non_null(strstr(err.text, "a power of two from 8 to 1048576"));
            model_gguf_close(g);
            base_buf_done(&file);
        }
}

/* Opens the file as a model and, when that works, uses everything in it. */
static bool use_all(const base_buf *file) {
    rp_error err = {0};
    model_source *s = NULL;
    model_ids ids = {0};
    base_buf text = {0};
    volatile uint64_t sum = 0;
    rp_status st = model_source_open_bytes(file->data, file->len, "flipped.gguf", &s, &err);
    if (st != RP_OK) {
        assert_true(st == RP_CORRUPT || st == RP_UNSUPPORTED || st == RP_NOT_FOUND);
        assert_true(err.text[0] != 0 && strchr(err.text, '\n') == NULL);
        return false;
    }
    for (size_t i = 0; i < model_source_n_tensors(s); i++) {
        model_tensor t = model_source_tensor_at(s, i);
        for (size_t k = 0; k < t.size; k++) sum += t.data[k];
    }
    model_tokenizer *tok = model_source_tokenizer(s);
    base_str x = base_str_of("<|im_start|>the aaaaaaa \xff\xe2\x82\xac<user>");
    st = model_tokenizer_encode(tok, x, MODEL_ENCODE_ADD_SPECIAL | MODEL_ENCODE_PARSE_SPECIAL, &ids,
                                NULL, &err);
    assert_true(st == RP_OK || st == RP_CORRUPT);
    for (uint32_t id = 0; id < model_tokenizer_n_vocab(tok); id++)
        assert_int_equal(model_tokenizer_bytes(tok, id, true, &text, &err), RP_OK);
    model_chat c;
    st = model_chat_init(&c, "auto", model_source_chat_template(s), NULL);
    assert_true(st == RP_OK || st == RP_UNSUPPORTED);
    model_chat_done(&c);
    model_ids_done(&ids);
    base_buf_done(&text);
    model_source_free(s);
    return true;
}

static void every_byte_changed_or_cut(void **state) {
    (void)state;
    base_buf file = {0}, copy = {0};
    size_t n_opened = 0, before = base_live();
    gguf_llama(&file);
    assert_true(use_all(&file));
    for (size_t i = 0; i < file.len; i++) {
        /* of 64 lengths one ends where nothing may be read */
        base_buf cut = {.data = guarded_new(i ? i : 1, true), .len = i};
        assert_non_null(cut.data);
        memcpy(cut.data, file.data, i);
        assert_false(use_all(&cut));
        guarded_free(cut.data);
    }
    base_buf_add(&copy, file.data, file.len);
    for (size_t i = 0; i < file.len; i++) {
        for (unsigned flip = 0; flip < 3; flip++) {
            copy.data[i] = (char)(file.data[i] ^ (flip == 0 ? 0xff : flip == 1 ? 0x01 : 0x80));
            n_opened += use_all(&copy);
        }
        copy.data[i] = file.data[i];
    }
    assert_true(n_opened > 0); /* data bytes have no checksum */
    base_buf_done(&copy);
    base_buf_done(&file);
    assert_int_equal(base_live(), before);
}

static void every_allocation_fails_once(void **state) {
    (void)state;
    base_buf file = {0};
    gguf_llama(&file);
    size_t before = base_live();
    FOR_EACH_ALLOC_FAILURE (n) {
        rp_error err = {0};
        model_source *s = NULL;
        model_ids ids = {0};
        rp_status st = model_source_open_bytes(file.data, file.len, "f.gguf", &s, &err);
        if (st == RP_OK) {
            st = model_tokenizer_encode(model_source_tokenizer(s), base_str_of("the th aaa"), 0,
                                        &ids, NULL, &err);
            model_ids_done(&ids);
            /* the failed encode left nothing half made */
            if (st != RP_OK)
                assert_int_equal(model_tokenizer_encode(model_source_tokenizer(s),
                                                        base_str_of("the"), 0, &ids, NULL, NULL),
                                 RP_OK);
        } else {
            assert_null(s);
        }
        assert_true(st == RP_OK || st == RP_NOMEM);
        model_ids_done(&ids);
        model_source_free(s);
        assert_int_equal(base_live(), before);
    }
    base_buf_done(&file);
}

/* Builds a llama with changes; expects the failure. */
static void bad_model(gguf_builder *b, rp_status code, const char *part) {
    base_buf file = {0};
    rp_error err = {0};
    model_source *s = NULL;
    gguf_write(b, &file);
    assert_int_equal(model_source_open_bytes(file.data, file.len, "m.gguf", &s, &err), code);
    assert_has(err.text, part);
    base_buf_done(&file);
}

static void models_that_do_not_fit(void **state) {
    (void)state;
    gguf_builder b = {0};
    gguf_kv_str(&b, "general.architecture", "qwen2");
    bad_model(&b, RP_UNSUPPORTED, "architecture 'qwen2' is not supported: 'llama' is");
    b = (gguf_builder){0};
    gguf_llama_keys(&b);
    gguf_llama_tokenizer(&b, "smollm");
    gguf_llama_tensors(&b);
    gguf_tensor(&b, "blk.0.attn_q.bias", 0, 1, (uint64_t[]){32}, 128);
    bad_model(&b, RP_UNSUPPORTED, "tensor 'blk.0.attn_q.bias' is no part of a dense llama");
    b = (gguf_builder){0};
    gguf_llama_keys(&b);
    gguf_kv_u32(&b, "llama.expert_count", 8);
    bad_model(&b, RP_UNSUPPORTED, "a mixture of 8 experts");
    b = (gguf_builder){0};
    gguf_llama_keys(&b);
    gguf_kv_str(&b, "llama.rope.scaling.type", "yarn");
    bad_model(&b, RP_UNSUPPORTED, "rope scaling 'yarn'");
    b = (gguf_builder){0};
    gguf_llama_keys(&b);
    gguf_llama_tokenizer(&b, "llama-bpe");
    gguf_llama_tensors(&b);
    bad_model(&b, RP_UNSUPPORTED, "pre-tokenizer 'llama-bpe'");
    b = (gguf_builder){0};
    gguf_llama_keys(&b);
    gguf_tensor(&b, "token_embd.weight", 8, 2, (uint64_t[]){32, 107}, 107 * 34);
    bad_model(&b, RP_NOT_FOUND, "tensor 'blk.0.attn_norm.weight' is missing");
    b = (gguf_builder){0};
    gguf_llama_keys(&b);
    gguf_tensor(&b, "token_embd.weight", 8, 2, (uint64_t[]){64, 107}, 2 * 107 * 34);
    bad_model(&b, RP_CORRUPT, "'token_embd.weight' has shape [64, 107, 1, 1], expected [32, 107]");
}

typedef struct plain_tensor {
    const char *name;
    uint64_t in, rows; /* rows 0: a vector */
} plain_tensor;
enum { PLAIN_TENSORS = 11 };

/* Tensors of a layer with q and kv rows of attention. */
static void list_plain(plain_tensor out[PLAIN_TENSORS], uint64_t q, uint64_t kv) {
    const plain_tensor t[PLAIN_TENSORS] = {{"token_embd.weight", 32, GGUF_LLAMA_VOCAB},
                                           {"blk.0.attn_norm.weight", 32, 0},
                                           {"blk.0.attn_q.weight", 32, q},
                                           {"blk.0.attn_k.weight", 32, kv},
                                           {"blk.0.attn_v.weight", 32, kv},
                                           {"blk.0.attn_output.weight", q, 32},
                                           {"blk.0.ffn_norm.weight", 32, 0},
                                           {"blk.0.ffn_gate.weight", 32, 64},
                                           {"blk.0.ffn_up.weight", 32, 64},
                                           {"blk.0.ffn_down.weight", 64, 32},
                                           {"output_norm.weight", 32, 0}};
    memcpy(out, t, sizeof t);
}

/* F32, or of another type of 2 bytes. */
static void put_plain(gguf_builder *b, const plain_tensor *t, bool half) {
    gguf_tensor(b, t->name, half, t->rows ? 2 : 1, (uint64_t[]){t->in, t->rows},
                (size_t)(t->in * (t->rows ? t->rows : 1) * (half ? 2 : 4)));
}

static void plain_tensors(gguf_builder *b, uint64_t q, uint64_t kv) {
    plain_tensor t[PLAIN_TENSORS];
    list_plain(t, q, kv);
    for (size_t i = 0; i < PLAIN_TENSORS; i++) put_plain(b, &t[i], false);
}

/* Each tensor that a model has: missing, longer, with more and fewer rows, with an axis more, not as F32. */
static void every_tensor_is_checked(void **state) {
    enum { MISSING, LONGER, MORE_ROWS, FEWER_ROWS, A_ROW, HALF, WAYS };
    (void)state;
    for (size_t which = 0; which < PLAIN_TENSORS; which++)
        for (int how = 0; how < WAYS; how++) {
            plain_tensor t[PLAIN_TENSORS];
            gguf_builder b = {0};
            char want[200];
            list_plain(t, 32, 32);
            plain_tensor *bad = &t[which], was = *bad;
            bool vector = was.rows == 0;
            if (vector ? how == MORE_ROWS || how == FEWER_ROWS : how == A_ROW || how == HALF)
                continue;
            /* the vocabulary is as large as this one */
            if (which == 0 && (how == MORE_ROWS || how == FEWER_ROWS)) continue;
            bad->in *= how == LONGER ? 2 : 1;
            bad->rows = how == MORE_ROWS    ? was.rows + 1
                        : how == FEWER_ROWS ? was.rows - 1
                        : how == A_ROW      ? 1
                                            : was.rows;
            gguf_llama_least_keys(&b);
            gguf_llama_tokenizer(&b, "gpt-2");
            for (size_t i = 0; i < PLAIN_TENSORS; i++)
                if (i != which || how != MISSING) put_plain(&b, &t[i], i == which && how == HALF);
            if (how == MISSING)
                (void)snprintf(want, sizeof want, "tensor '%s' is missing", was.name);
            else if (how == HALF)
                (void)snprintf(want, sizeof want, "'%s' is not stored as F32", was.name);
            else if (vector)
                (void)snprintf(want, sizeof want, "'%s' has shape [%d, 1, 1, 1], expected [32, 1]",
                               was.name, (int)bad->in);
            else
                (void)snprintf(want, sizeof want,
                               "'%s' has shape [%d, %d, 1, 1], expected [%d, %d]", was.name,
                               (int)bad->in, (int)bad->rows, (int)was.in, (int)was.rows);
            bad_model(&b,
                      how == MISSING ? RP_NOT_FOUND
                      : how == HALF  ? RP_UNSUPPORTED
                                     : RP_CORRUPT,
                      want);
        }
}

/* Keys that a file may leave out, one at a time: what they are then, and what they are when they are there. */
static void keys_that_may_be_left_out(void **state) {
    static const struct {
        const char *key; /* NULL: none of them */
        uint32_t u;
        float f;
        uint32_t kv_heads, head_dim, rope_dim;
        float base, factor;
        model_rope_scaling scaling;
    } cases[] = {
        {NULL, 0, 0, 4, 8, 8, 10000, 1, MODEL_ROPE_PLAIN},
        {"llama.attention.head_count_kv", 1, 0, 1, 8, 8, 10000, 1, MODEL_ROPE_PLAIN},
        {"llama.attention.key_length", 8, 0, 4, 8, 8, 10000, 1, MODEL_ROPE_PLAIN},
        {"llama.attention.value_length", 8, 0, 4, 8, 8, 10000, 1, MODEL_ROPE_PLAIN},
        {"llama.rope.dimension_count", 4, 0, 4, 8, 4, 10000, 1, MODEL_ROPE_PLAIN},
        {"llama.rope.freq_base", 0, 500000, 4, 8, 8, 500000, 1, MODEL_ROPE_PLAIN},
        {"llama.rope.scale_linear", 0, 2, 4, 8, 8, 10000, 2, MODEL_ROPE_LINEAR},
        {"llama.rope.scaling.factor", 0, 4, 4, 8, 8, 10000, 1, MODEL_ROPE_PLAIN},
        {"llama.expert_count", 0, 0, 4, 8, 8, 10000, 1, MODEL_ROPE_PLAIN},
        {"llama.vocab_size", GGUF_LLAMA_VOCAB, 0, 4, 8, 8, 10000, 1, MODEL_ROPE_PLAIN},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gguf_builder b = {0};
        base_buf file = {0};
        rp_error err = {0};
        model_source *s = NULL;
        gguf_llama_least_keys(&b);
        if (cases[i].key && cases[i].f != 0) gguf_kv_f32(&b, cases[i].key, cases[i].f);
        if (cases[i].key && cases[i].f == 0) gguf_kv_u32(&b, cases[i].key, cases[i].u);
        gguf_llama_tokenizer(&b, "gpt-2");
        plain_tensors(&b, 32, cases[i].kv_heads * 8);
        gguf_write(&b, &file);
        const char *key = cases[i].key ? cases[i].key : "nothing";
        if (model_source_open_bytes(file.data, file.len, "m", &s, &err) != RP_OK)
            fail_msg("%s: %s", key, err.text);
        const model_hparams *hp = model_source_hparams(s);
        if (hp->n_head_kv != cases[i].kv_heads || hp->head_dim != cases[i].head_dim ||
            hp->rope_dim != cases[i].rope_dim || hp->rope_base != cases[i].base ||
            hp->rope_factor != cases[i].factor || hp->rope_scaling != cases[i].scaling || !hp->tied)
            fail_msg("with %s: kv heads %u, head %u, rope %u of %g, factor %g", key, hp->n_head_kv,
                     hp->head_dim, hp->rope_dim, (double)hp->rope_base, (double)hp->rope_factor);
        model_source_free(s);
        base_buf_done(&file);
    }
}

/* A sound model and one key more, or a tensor: why it is refused. */
static void keys_that_do_not_fit(void **state) {
    enum { U32, F32, TEXT, FREQS };
    static const struct {
        const char *key;
        int how;
        float v;
        const char *text, *why;
        rp_status code;
    } cases[] = {
        {"llama.attention.value_length", U32, 16, NULL, "key length 8 and value length 16 differ",
         RP_UNSUPPORTED},
        {"llama.vocab_size", U32, 107, NULL,
         "llama.vocab_size is 107, but token_embd.weight has 108 rows", RP_CORRUPT},
        {"llama.expert_count", U32, 1, NULL, "a mixture of 1 experts is not supported",
         RP_UNSUPPORTED},
        {"llama.rope.scale_linear", F32, -2, NULL,
         "rope scaling 'linear' has factor -2, expected one above 0", RP_CORRUPT},
        {"llama.rope.scaling.type", TEXT, 0, "linear",
         "rope scaling 'linear' has factor 0, expected one above 0", RP_CORRUPT},
        {"llama.rope.scaling.type", TEXT, 0, "llama3", "rope scaling 'llama3' is not supported",
         RP_UNSUPPORTED},
        {"llama.rope.scale_linear", FREQS, 2, NULL,
         "rope scaling 'linear' together with rope_freqs.weight", RP_UNSUPPORTED},
        {"llama.rope.scaling.type", U32, 1, NULL, "llama.rope.scaling.type", RP_CORRUPT},
        {"llama.rope.freq_base", TEXT, 0, "big", "llama.rope.freq_base", RP_CORRUPT},
        {"llama.attention.key_length", F32, 8, NULL, "llama.attention.key_length", RP_CORRUPT},
        {"tokenizer.ggml.add_eos_token", TEXT, 0, "yes", "tokenizer.ggml.add_eos_token",
         RP_CORRUPT},
        {"tokenizer.ggml.eot_token_id", U32, 108, NULL, "tokenizer.ggml.eot_token_id", RP_CORRUPT},
        {"tokenizer.ggml.eom_token_id", U32, 108, NULL, "tokenizer.ggml.eom_token_id", RP_CORRUPT},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gguf_builder b = {0};
        gguf_llama_least_keys(&b);
        gguf_llama_tokenizer(&b, "gpt-2");
        plain_tensors(&b, 32, 32);
        if (cases[i].how == U32) gguf_kv_u32(&b, cases[i].key, (uint32_t)cases[i].v);
        if (cases[i].how == F32 || cases[i].how == FREQS) gguf_kv_f32(&b, cases[i].key, cases[i].v);
        if (cases[i].how == TEXT) gguf_kv_str(&b, cases[i].key, cases[i].text);
        if (cases[i].how == FREQS) gguf_tensor(&b, "rope_freqs.weight", 0, 1, (uint64_t[]){4}, 16);
        bad_model(&b, cases[i].code, cases[i].why);
    }
}

/* A tokenizer of a few tokens whose parts do not fit together. */
static void tokenizers_that_do_not_fit(void **state) {
    static const char *const tokens[] = {"a", "b", "c"};
    static const int32_t kinds[] = {1, 1, 1, 1};
    (void)state;
    for (int how = 0; how < 5; how++) {
        gguf_builder b = {0};
        gguf_llama_least_keys(&b);
        plain_tensors(&b, 32, 32);
        gguf_kv_str(&b, "tokenizer.ggml.model", how == 0 ? "llama" : "gpt2");
        gguf_kv_str(&b, "tokenizer.ggml.pre", "gpt-2");
        gguf_kv_strs(&b, "tokenizer.ggml.tokens", tokens, how == 1 ? 0 : 3);
        gguf_kv_strs(&b, "tokenizer.ggml.merges", tokens, 0);
        gguf_kv_i32s(&b, "tokenizer.ggml.token_type", kinds,
                     how == 2   ? 2
                     : how == 1 ? 0
                     : how == 4 ? 4
                                : 3);
        gguf_kv_bool(&b, "tokenizer.ggml.add_bos_token", how == 3);
        bad_model(&b, how == 0 ? RP_UNSUPPORTED : RP_CORRUPT,
                  how == 0   ? "tokenizer 'llama' is not supported: 'gpt2' (byte-level BPE) is"
                  : how == 1 ? "0 tokens and 0 merges, expected 1 to 2^24 - 1"
                  : how == 2 ? "3 tokens, but 2 token types"
                  : how == 4 ? "3 tokens, but 4 token types"
                             : "the tokenizer adds a BOS or EOS that it does not name");
    }
}

/* Every number of a model has bounds: both are taken, what lies behind them is named with its value. */
static void numbers_of_a_model_have_bounds(void **state) {
    enum { MANY = 1 << 24 };
    static const model_hparams good = {.n_layer = 2,
                                       .n_embd = 64,
                                       .n_ff = 96,
                                       .n_vocab = 50,
                                       .n_head = 6,
                                       .n_head_kv = 3,
                                       .head_dim = 16,
                                       .rope_dim = 12,
                                       .n_ctx = 128,
                                       .rms_eps = 1e-5f,
                                       .rope_base = 10000};
#define FIELD(f) offsetof(model_hparams, f)
    static const struct {
        size_t field;
        uint32_t lo, hi;
        const char *what;
    } whole[] = {
        {FIELD(n_layer), 1, 4096, "the number of layers"},
        {FIELD(n_embd), 1, MANY, "the embedding length"},
        {FIELD(n_ff), 1, MANY, "the feed-forward length"},
        {FIELD(n_vocab), 1, MANY, "the vocabulary"},
        {FIELD(n_head), 3, 65535, NULL}, /* of 3 KV heads, which it must be a multiple of */
        {FIELD(n_head_kv), 1, 6, "the number of KV heads"},
        {FIELD(head_dim), 12, 65536, NULL}, /* of a rope dimension of 12 */
        {FIELD(rope_dim), 2, 16, "the rope dimension"},
        {FIELD(n_ctx), 1, 1 << 30, "the context length"}};
    static const struct {
        size_t field;
        float v;
        const char *text;
    } real[] = {{FIELD(rms_eps), 0, "m: the norm epsilon is 0, expected above 0 and below 1"},
                {FIELD(rms_eps), 1, "m: the norm epsilon is 1, expected above 0 and below 1"},
                {FIELD(rms_eps), 0.75f, NULL},
                {FIELD(rope_base), 1, "m: the rope base is 1, expected above 1"},
                {FIELD(rope_base), 1.5f, NULL}};
    static const struct {
        size_t field;
        uint32_t v;
        const char *text;
    } more[] = {{FIELD(n_head), 0, "m: the number of heads is 0, expected 1 to 65536"},
                {FIELD(n_head), 65537, "m: the number of heads is 65537, expected 1 to 65536"},
                {FIELD(n_head), 2, "m: the number of KV heads is 3, expected 1 to 2"},
                {FIELD(n_head), 7, "m: 7 heads cannot share 3 KV heads evenly"},
                {FIELD(head_dim), 1, "m: the head length is 1, expected 2 to 65536"},
                {FIELD(head_dim), 65537, "m: the head length is 65537, expected 2 to 65536"},
                {FIELD(head_dim), 11, "m: the rope dimension is 12, expected 2 to 11"},
                {FIELD(rope_dim), 5, "m: the rope dimension 5 is odd"}};
#undef FIELD
    char text[160];
    (void)state;
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        for (int k = 0; k < 4; k++) {
            model_hparams hp = good;
            rp_error err = {0};
            uint32_t v = k == 0   ? whole[i].lo - 1
                         : k == 1 ? whole[i].lo
                         : k == 2 ? whole[i].hi
                                  : whole[i].hi + 1;
            if (!whole[i].what && (k == 0 || k == 3)) continue;
            memcpy((char *)&hp + whole[i].field, &v, sizeof v);
            rp_status st = model_hparams_check(&hp, "m", &err);
            (void)snprintf(text, sizeof text, "m: %s is %u, expected %u to %u", whole[i].what, v,
                           whole[i].lo, whole[i].hi);
            bool taken = k == 1 || k == 2;
            if (st != (taken ? RP_OK : RP_CORRUPT) || (!taken && strcmp(err.text, text) != 0))
                fail_msg("%s: %u: %s", whole[i].what, v, err.text);
        }
    for (size_t i = 0; i < sizeof real / sizeof *real; i++) {
        model_hparams hp = good;
        rp_error err = {0};
        memcpy((char *)&hp + real[i].field, &real[i].v, sizeof real[i].v);
        assert_int_equal(model_hparams_check(&hp, "m", &err), real[i].text ? RP_CORRUPT : RP_OK);
        assert_string_equal(err.text, real[i].text ? real[i].text : "");
    }
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        model_hparams hp = good;
        rp_error err = {0};
        memcpy((char *)&hp + more[i].field, &more[i].v, sizeof more[i].v);
        assert_int_equal(model_hparams_check(&hp, "m", &err), RP_CORRUPT);
        assert_string_equal(err.text, more[i].text);
    }
}

/* Neither as a float nor as a double; and a double that no float is as large as. */
static void numbers_must_be_finite(void **state) {
    static const double bad[] = {INFINITY, -INFINITY, NAN, 1e300};
    (void)state;
    for (size_t i = 0; i < 4; i++)
        for (int wide = 0; wide < 2; wide++) {
            gguf_builder b = {0};
            uint64_t bits;
            gguf_llama_tokenizer(&b, "gpt-2");
            gguf_kv_str(&b, "general.architecture", "llama");
            static const char *const ints[] = {
                "llama.block_count", "llama.context_length", "llama.embedding_length",
                "llama.feed_forward_length", "llama.attention.head_count"};
            for (size_t k = 0; k < 5; k++) gguf_kv_u32(&b, ints[k], k == 2 ? 32 : 1);
            if (wide) {
                memcpy(&bits, &bad[i], sizeof bits);
                gguf_kv_head(&b, "llama.attention.layer_norm_rms_epsilon", 12);
                gguf_put_u64(&b.kv, bits);
            } else {
                gguf_kv_f32(&b, "llama.attention.layer_norm_rms_epsilon", (float)bad[i]);
            }
            gguf_llama_tensors(&b);
            bad_model(&b, RP_CORRUPT,
                      "key 'llama.attention.layer_norm_rms_epsilon' is not a finite number");
        }
}

static void rope_scaling_is_read(void **state) {
    (void)state;
    for (int freqs = 0; freqs < 2; freqs++) {
        gguf_builder b = {0};
        base_buf file = {0};
        rp_error err = {0};
        model_source *s = NULL;
        gguf_llama_keys(&b);
        if (!freqs) {
            gguf_kv_str(&b, "llama.rope.scaling.type", "linear");
            gguf_kv_f32(&b, "llama.rope.scaling.factor", 4.0f);
        }
        gguf_llama_tokenizer(&b, "gpt-2");
        gguf_llama_tensors(&b);
        gguf_tensor(&b, "output.weight", 8, 2, (uint64_t[]){32, GGUF_LLAMA_VOCAB},
                    GGUF_LLAMA_VOCAB * 34);
        if (freqs) gguf_tensor(&b, "rope_freqs.weight", 0, 1, (uint64_t[]){4}, 16);
        gguf_write(&b, &file);
        CHECK_OK(model_source_open_bytes(file.data, file.len, "m", &s, &err), &err);
        const model_hparams *hp = model_source_hparams(s);
        assert_int_equal(hp->rope_scaling, freqs ? MODEL_ROPE_FREQS : MODEL_ROPE_LINEAR);
        assert_true(hp->rope_factor == (freqs ? 1.0f : 4.0f));
        assert_false(hp->tied);
        assert_int_equal(hp->head_dim, 8);
        assert_int_equal(hp->n_vocab, GGUF_LLAMA_VOCAB);
        model_source_free(s);
        base_buf_done(&file);
    }
}

/* As programs do that put times back behind a change. */
static void rewrite_with_old_times(const char *path) {
    struct stat was;
    struct timespec now;
    char byte;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0 && fstat(fd, &was) == 0);
    do { /* until a change has another time */
        (void)usleep(1000);
        (void)clock_gettime(CLOCK_REALTIME_COARSE, &now);
    } while (now.tv_sec == was.st_ctim.tv_sec && now.tv_nsec <= was.st_ctim.tv_nsec);
    assert_true(pread(fd, &byte, 1, was.st_size - 1) == 1);
    byte ^= 1;
    assert_true(pwrite(fd, &byte, 1, was.st_size - 1) == 1);
    const struct timespec times[] = {was.st_atim, was.st_mtim};
    assert_int_equal(futimens(fd, times), 0);
    (void)close(fd);
}

static void files_on_disk(void **state) {
    (void)state;
    char path[4096];
    base_buf file = {0};
    rp_error err = {0};
    model_gguf *g = NULL;
    (void)snprintf(path, sizeof path, "%s/model.gguf", tree_new("gguf"));
    assert_int_equal(model_gguf_open(path, &g, &err), RP_NOT_FOUND);
    assert_has(err.text, path);
    gguf_llama(&file);
    CHECK_OK(base_file_write_atomic(path, file.data, file.len, &err), &err);
    err = (rp_error){0};
    CHECK_OK(model_gguf_open(path, &g, &err), &err);
    assert_int_equal(model_gguf_size(g), file.len);
    model_gguf_tensor_drop(g, 0);
    base_hash128 stamp, other, kept = {1, 2};
    assert_true(model_gguf_stamp(g, &stamp));
    model_gguf_hash_set(g, 0, kept);
    assert_int_equal(model_gguf_tensor_hash(g, 0).hi, 2);
    assert_int_equal(model_gguf_tensor_at(g, 0).data[1], 7);
    model_gguf_close(g);
    CHECK_OK(model_gguf_open(path, &g, &err), &err);
    assert_true(model_gguf_stamp(g, &other) && other.lo == stamp.lo && other.hi == stamp.hi);
    model_gguf_close(g);
    rewrite_with_old_times(path);
    CHECK_OK(model_gguf_open(path, &g, &err), &err);
    assert_true(model_gguf_stamp(g, &other) && other.lo != stamp.lo);
    stamp = other;
    model_gguf_close(g);
    /* the same bytes written again are another file */
    CHECK_OK(base_file_write_atomic(path, file.data, file.len, &err), &err);
    CHECK_OK(model_gguf_open(path, &g, &err), &err);
    assert_true(model_gguf_stamp(g, &other) && other.lo != stamp.lo);
    model_gguf_close(g);
    CHECK_OK(base_file_write_atomic(path, "", 0, &err), &err);
    assert_int_equal(model_gguf_open(path, &g, &err), RP_CORRUPT);
    assert_has(err.text, "the file is empty");
    CHECK_OK(base_path_remove(path, &err), &err);
    base_buf_done(&file);
}

/* Bytes of a file in messages: 64 of them, and what is no letter is a question mark. */
static void labels_are_cut(void **state) {
    char text[70];
    (void)state;
    memset(text, 'n', sizeof text);
    assert_string_equal(model_label_of((base_str){"", 0}).text, "");
    assert_string_equal(model_label_of((base_str){" a~\x7f\x1f\xc3\n\0", 8}).text, " a~?????");
    for (size_t n = 62; n < sizeof text; n++) {
        const model_label label = model_label_of((base_str){text, n});
        assert_int_equal(strlen(label.text), n > 64 ? 67 : n);
        assert_string_equal(label.text + (n > 64 ? 64 : n), n > 64 ? "..." : "");
    }
}

/* The table of stored types, and sizes of rows and tensors, whatever a file says. */
static void types_and_sizes_are_known(void **state) {
    static const struct {
        uint32_t ggml;
        const char *name;
        rp_dtype type;
        size_t block, bytes;
    } of[] = {{0, "F32", RP_DTYPE_F32, 1, 4},     {1, "F16", RP_DTYPE_F16, 1, 2},
              {2, "Q4_0", RP_DTYPE_Q4_0, 32, 18}, {3, "Q4_1", RP_DTYPE_Q4_1, 32, 20},
              {8, "Q8_0", RP_DTYPE_Q8_0, 32, 34}, {30, "BF16", RP_DTYPE_BF16, 1, 2}};
    const uint64_t huge[] = {UINT64_C(1) << 32, UINT64_C(1) << 30, 4}, none[] = {32, 0};
    rp_dtype t;
    size_t n = 77;
    (void)state;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        assert_true(model_type_of_ggml(of[i].ggml, &t) && t == of[i].type);
        assert_int_equal(model_ggml_of_type(of[i].type), of[i].ggml);
        assert_string_equal(model_ggml_name(of[i].ggml), of[i].name);
        assert_non_null(strstr(model_types_supported(), of[i].name));
        assert_true(model_row_size(of[i].type, 3 * of[i].block, &n) && n == 3 * of[i].bytes);
        assert_int_equal(model_row_size(of[i].type, 3 * of[i].block + 1, &n), of[i].block == 1);
    }
    assert_false(model_type_of_ggml(12, &t));
    assert_string_equal(model_ggml_name(12), "Q4_K");
    assert_false(model_type_of_ggml(4, &t)); /* a hole in the numbers */
    assert_string_equal(model_ggml_name(4), "unknown");
    assert_true(model_ggml_of_type(RP_DTYPE_I64) == UINT32_MAX);
    n = 77;
    assert_false(model_dims_size(RP_DTYPE_F32, huge, 3, &n));
    assert_false(model_dims_size(RP_DTYPE_F32, huge, 0, &n));
    assert_int_equal(n, 77);
    assert_true(model_dims_size(RP_DTYPE_F32, huge, 1, &n) && n == (size_t)1 << 34);
    assert_true(model_dims_size(RP_DTYPE_Q4_0, none, 2, &n) && n == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels_are_cut),
        cmocka_unit_test(types_and_sizes_are_known),
        cmocka_unit_test(values_of_every_kind),
        cmocka_unit_test(tensors_by_name),
        cmocka_unit_test(bad_headers),
        cmocka_unit_test(bad_metadata),
        cmocka_unit_test(bad_tensors),
        cmocka_unit_test(alignment_is_read),
        cmocka_unit_test(alignments_have_bounds),
        cmocka_unit_test(every_byte_changed_or_cut),
        cmocka_unit_test(every_allocation_fails_once),
        cmocka_unit_test(models_that_do_not_fit),
        cmocka_unit_test(every_tensor_is_checked),
        cmocka_unit_test(keys_that_may_be_left_out),
        cmocka_unit_test(keys_that_do_not_fit),
        cmocka_unit_test(tokenizers_that_do_not_fit),
        cmocka_unit_test(numbers_of_a_model_have_bounds),
        cmocka_unit_test(numbers_must_be_finite),
        cmocka_unit_test(rope_scaling_is_read),
        cmocka_unit_test(files_on_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
