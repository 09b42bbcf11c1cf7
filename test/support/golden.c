#include "support/golden.h"

#include "base/alloc.h"
#include "base/file.h"
#include "support/check.h"

static int line_size(const char *text, size_t at, size_t size) {
    const char *end = at < size ? memchr(text + at, '\n', size - at) : NULL;
    return (int)(end ? (size_t)(end - text) - at : at < size ? size - at : 0);
}

void check_golden(const char *path, base_buf *b) {
    char *want = NULL;
    size_t size = 0, begin = 0;
    rp_error err = {0};
    CHECK_OK(base_buf_status(b, &err), &err);
    if (BLESSING()) CHECK_OK(base_file_write_atomic(path, b->data, b->len, &err), &err);
    CHECK_OK(base_file_read(path, 1 << 24, &want, &size, &err), &err);
    for (size_t at = 0, line = 1; at < b->len || at < size; at++) {
        if (at >= size || at >= b->len || want[at] != b->data[at])
            fail_msg("%s: line %zu was\n%.*s\nand is\n%.*s\n(BLESS=1 rewrites it)", path, line,
                     line_size(want, begin, size), want + begin, line_size(b->data, begin, b->len),
                     b->data + begin);
        if (want[at] != '\n') continue;
        begin = at + 1;
        line++;
    }
    base_free(want);
    base_buf_done(b);
}

void golden_runs_begin(golden_runs *r, base_buf *out) {
    *r = (golden_runs){.out = out};
    base_buf_init(&r->last, 0);
}

static void put_run(golden_runs *r) {
    if (!r->last.len) return;
    base_buf_printf(r->out, "  %lld", r->from);
    if (r->to != r->from) base_buf_printf(r->out, "..%lld", r->to);
    base_buf_printf(r->out, ": %.*s\n", (int)r->last.len, r->last.data);
}

void golden_runs_add(golden_runs *r, long long size, base_buf *text) {
    if (r->last.len != text->len || memcmp(r->last.data, text->data, text->len) != 0) {
        put_run(r);
        base_buf_done(&r->last);
        r->last = *text;
        r->from = size;
    } else {
        base_buf_done(text);
    }
    r->to = size;
}

void golden_runs_end(golden_runs *r) {
    put_run(r);
    base_buf_done(&r->last);
}
