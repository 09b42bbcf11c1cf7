/* Kernel IR text from outside: what parses must verify, print and parse to the same text again, render in
 * both languages. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "support/render.h"

#undef assert /* also checked with NDEBUG */
#define assert(x) ((x) ? (void)0 : __builtin_trap())

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void print_again(const kir_func *f) {
    kir_func *again = NULL;
    base_buf a, b;

    base_buf_init(&a, 0);
    base_buf_init(&b, 0);
    kir_print(f, &a);
    assert(!a.failed && kir_parse(a.data, a.len, &again, NULL) == RP_OK);
    kir_print(again, &b);
    assert(!b.failed && strcmp(a.data, b.data) == 0);
    base_buf_done(&a);
    base_buf_done(&b);
    kir_free(again);
}

static void render(const kir_func *f) {
    base_buf text;
    int64_t scratch = -1;
    rp_error err = {0};
    rp_status st;

    base_buf_init(&text, 64u << 20);
    assert(render_c(f, &text, &scratch, &err) == RP_OK && scratch >= 0);
    base_buf_clear(&text);
    st = render_cuda(f, &text, &err);
    assert(st == RP_OK || (st == RP_UNSUPPORTED && err.text[0]));
    base_buf_done(&text);
}

/* A schedule prints and parses to the same text again. */
static void schedule_again(const sched *s) {
    sched *again = NULL;
    base_buf a, b;

    base_buf_init(&a, 0);
    base_buf_init(&b, 0);
    sched_print(s, &a);
    assert(!a.failed && sched_parse(a.data, a.len, &again, NULL) == RP_OK);
    sched_print(again, &b);
    assert(!b.failed && strcmp(a.data, b.data) == 0);
    base_buf_done(&a);
    base_buf_done(&b);
    sched_free(again);
}

static void schedule(const kir_func *f, const sched_target *t) {
    sched *s = NULL;
    rp_error err = {0};
    rp_status st = sched_make(t, f, &s, &err);

    assert(st == RP_OK || (st == RP_UNSUPPORTED && err.text[0]));
    if (st != RP_OK) return;
    schedule_again(s);
    sched_free(s);
}

/* A kernel with its schedule. */
static void read_schedule(const uint8_t *data, size_t size) {
    sched *s = NULL;
    rp_error err = {0};
    base_buf text;

    if (sched_parse((const char *)data, size, &s, &err) != RP_OK) {
        assert(!s && err.text[0] && !strchr(err.text, '\n'));
        return;
    }
    schedule_again(s);
    base_buf_init(&text, 64u << 20);
    assert(gen_func(s, &text, &err) == RP_OK);
    base_buf_done(&text);
    sched_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    kir_func *f = NULL;
    rp_error err = {0};

    read_schedule(data, size);
    rp_status st = kir_parse((const char *)data, size, &f, &err);

    if (st != RP_OK) {
        assert(!f && err.code == st && err.text[0] && !strchr(err.text, '\n'));
        return 0;
    }
    assert(kir_verify(f, NULL) == RP_OK);
    print_again(f);
    render(f);
    for (uint32_t i = 0; sched_target_at(i); i++) schedule(f, sched_target_at(i));
    kir_free(f);
    return 0;
}
