/* Synthetic models as files: the same sizes, weights and ids. */
#include "support/check.h"
#include "support/gguf.h"

#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/sys.h"
#include "model/gguf_write.h"
#include "reprise/model.h"

typedef struct both {
    model_source *made, *read;
} both;

/* Takes made. */
static both write_and_read(model_source *made) {
    rp_error err = {0};
    both b = {.made = made};
    base_target *to = NULL;
    char path[512];
    (void)snprintf(path, sizeof path, "%s/model.gguf", getenv("TMPDIR"));
    CHECK_OK(base_target_open(path, "a model", 0644, &to, &err), &err);
    CHECK_OK(base_target_close(to, model_gguf_write(b.made, to, &err), &err), &err);
    CHECK_OK(model_source_open_gguf(path, &b.read, &err), &err);
    return b;
}

static both open_both(const char *spec) {
    rp_error err = {0};
    model_source *made = NULL;
    CHECK_OK(model_source_open_synthetic(spec, &made, &err), &err);
    return write_and_read(made);
}

static void close_both(both *b) {
    model_source_free(b->made);
    model_source_free(b->read);
}

static void same_tensors(const both *b) {
    rp_error err = {0};
    assert_int_equal(model_source_n_tensors(b->made), model_source_n_tensors(b->read));
    for (size_t i = 0; i < model_source_n_tensors(b->made); i++) {
        model_tensor x = model_source_tensor_at(b->made, i), y = model_source_tensor_at(b->read, i);
        const uint8_t *made, *read;
        assert_int_equal(x.name.len, y.name.len);
        assert_memory_equal(x.name.ptr, y.name.ptr, x.name.len);
        assert_int_equal(x.type, y.type);
        assert_memory_equal(x.dims, y.dims, sizeof x.dims);
        assert_int_equal(x.size, y.size);
        CHECK_OK(model_source_data(b->made, i, &made, &err), &err);
        CHECK_OK(model_source_data(b->read, i, &read, &err), &err);
        assert_memory_equal(made, read, x.size);
        model_source_release(b->made, i);
    }
}

static void same_ids(const both *b) {
    static const char text[] = "a <|im_end|> \xc3\xa9\xff\n\t <300>";
    rp_error err = {0};
    model_tokenizer *t[] = {model_source_tokenizer(b->made), model_source_tokenizer(b->read)};
    for (unsigned flags = 0; flags < 4; flags++) {
        model_ids ids[2] = {{0}, {0}};
        for (int k = 0; k < 2; k++)
            CHECK_OK(model_tokenizer_encode(t[k], (base_str){text, sizeof text - 1}, flags, &ids[k],
                                            NULL, &err),
                     &err);
        assert_int_equal(ids[0].n, ids[1].n);
        assert_memory_equal(ids[0].ids, ids[1].ids, ids[0].n * sizeof *ids[0].ids);
        for (int k = 0; k < 2; k++) model_ids_done(&ids[k]);
    }
    assert_int_equal(model_tokenizer_bos(t[0]), model_tokenizer_bos(t[1]));
    assert_int_equal(model_tokenizer_n_vocab(t[0]), model_tokenizer_n_vocab(t[1]));
    for (uint32_t id = 0; id < model_tokenizer_n_vocab(t[0]); id++) {
        base_buf x, y;
        base_buf_init(&x, 0);
        base_buf_init(&y, 0);
        CHECK_OK(model_tokenizer_bytes(t[0], id, false, &x, &err), &err);
        CHECK_OK(model_tokenizer_bytes(t[1], id, false, &y, &err), &err);
        assert_int_equal(x.len, y.len);
        if (x.len) assert_memory_equal(x.data, y.data, x.len);
        assert_int_equal(model_tokenizer_is_end(t[0], id), model_tokenizer_is_end(t[1], id));
        base_buf_done(&x);
        base_buf_done(&y);
    }
}

static void files_hold_the_model(void **state) {
    static const char *const specs[] = {
        "synthetic:tiny", "synthetic:tiny,dtype=f32,seed=5", "synthetic:tiny,dtype=bf16,layers=3",
        "synthetic:smollm2-135m,layers=1", "synthetic:llama-1b,layers=1,dtype=q4_1"};
    (void)state;
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        both b = open_both(specs[i]);
        model_hparams x = *model_source_hparams(b.made), y = *model_source_hparams(b.read);
        assert_memory_equal(&x, &y, sizeof x);
        same_tensors(&b);
        same_ids(&b);
        close_both(&b);
    }
}

/* Tensors whose sizes are no multiples of the alignment. */
static void tensors_of_any_size_come_back(void **state) {
    rp_error err = {0};
    model_source *s = NULL;
    base_buf file;
    char path[512];
    (void)state;
    (void)snprintf(path, sizeof path, "%s/odd.gguf", getenv("TMPDIR"));
    base_buf_init(&file, 0);
    gguf_llama(&file);
    CHECK_OK(base_file_write_atomic(path, file.data, file.len, &err), &err);
    base_buf_done(&file);
    CHECK_OK(model_source_open_gguf(path, &s, &err), &err);
    both b = write_and_read(s);
    same_tensors(&b);
    close_both(&b);
}

/* Every system call that fails gives a message and leaves nothing. */
static void failures_leave_nothing(void **state) {
    rp_error err = {0};
    model_source *s = NULL;
    char path[512];
    (void)state;
    (void)snprintf(path, sizeof path, "%s/failed.gguf", getenv("TMPDIR"));
    CHECK_OK(model_source_open_synthetic("synthetic:tiny", &s, &err), &err);
    for (uint64_t n = 1;; n++) {
        base_target *to = NULL;
        (void)base_sys_fail_nth(n);
        rp_status st = base_target_open(path, "a model", 0644, &to, &err);
        if (st == RP_OK) st = model_gguf_write(s, to, &err);
        st = base_target_close(to, st, &err);
        if (!base_sys_fail_nth(0)) {
            assert_int_equal(st, RP_OK);
            assert_true(n > 5);
            break;
        }
        assert_int_equal(st, RP_IO);
        assert_non_null(strstr(err.text, "failed.gguf"));
        assert_int_not_equal(access(path, F_OK), 0);
    }
    model_source_free(s);
}

/* Wherever memory runs out: a message, or the whole file. */
static void lost_memory_writes_no_other_file(void **state) {
    rp_error err = {0};
    model_source *s = NULL;
    char path[512], *whole = NULL;
    size_t size = 0;
    (void)state;
    (void)snprintf(path, sizeof path, "%s/memory.gguf", getenv("TMPDIR"));
    CHECK_OK(model_source_open_synthetic("synthetic:tiny,layers=1", &s, &err), &err);
    for (uint64_t n = 0, more = 1; more; n++) { /* 0: nothing fails */
        base_target *to = NULL;
        err = (rp_error){0};
        base_alloc_fail_nth(n);
        rp_status st = base_target_open(path, "a model", 0644, &to, &err);
        if (st == RP_OK) st = base_target_close(to, model_gguf_write(s, to, &err), &err);
        more = base_alloc_fail_nth(0) || n == 0;
        if (st != RP_OK) {
            assert_int_equal(st, RP_NOMEM);
            assert_true(n > 0);
            continue;
        }
        char *text = NULL;
        size_t n_text = 0;
        CHECK_OK(base_file_read(path, 64u << 20, &text, &n_text, &err), &err);
        if (!whole) {
            whole = text;
            size = n_text;
            continue;
        }
        if (n_text != size || memcmp(text, whole, size) != 0)
            fail_msg("allocation %llu fails, and another file is written", (unsigned long long)n);
        base_free(text);
    }
    base_free(whole);
    model_source_free(s);
}

/* A model is written whole and has its name, or the call fails: whichever call of the system does. */
static void no_failure_is_passed_over(void **state) {
    char path[512];
    bool failed = true;
    int told = 0;
    (void)state;
    (void)snprintf(path, sizeof path, "%s/whole.gguf", getenv("TMPDIR"));
    for (uint64_t n = 1; failed; n++) {
        rp_error err = {0};
        uint64_t bytes = 0;
        (void)unlink(path);
        (void)base_sys_fail_nth(n);
        const rp_status st = rp_model_synthesize("tiny", path, &bytes, &err);
        failed = base_sys_fail_nth(0);
        if ((st == RP_OK) == failed) fail_msg("call %d: %s", (int)n, err.text);
        assert_int_equal(access(path, F_OK) == 0, st == RP_OK);
        assert_int_equal(bytes > 0, st == RP_OK);
        told += failed;
    }
    assert_true(told > 3);
    (void)unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_hold_the_model),
        cmocka_unit_test(tensors_of_any_size_come_back),
        cmocka_unit_test(failures_leave_nothing),
        cmocka_unit_test(no_failure_is_passed_over),
        cmocka_unit_test(lost_memory_writes_no_other_file),
    };
    return cmocka_run_group_tests_name("unit/model_gguf_write", tests, NULL, NULL);
}
