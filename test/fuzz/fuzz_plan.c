/* Stored plans from outside: any bytes are refused with one line, or are a plan that saves to the same bytes, prints, and
 * binds for its least sizes and the largest below 2^31 with every argument inside its own memory. Nothing runs. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "plan/exec.h"

#define CHECK(x) ((x) ? (void)0 : __builtin_trap())

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Stands for arena and weights, which are never touched: addresses are compared as numbers. */
static uint8_t *const far_arena = (uint8_t *)(UINT64_C(1) << 40);
static uint8_t *const far_weights = (uint8_t *)(UINT64_C(1) << 41);
#define FAR_SIZE (INT64_C(1) << 40)

static void no_kernel(void *const *arg, const long long *dim, long long begin, long long end,
                      void *scratch) {
    (void)arg, (void)dim, (void)begin, (void)end, (void)scratch;
}

static hal_host_fn any_builtin(const char *name) {
    CHECK(name[0]);
    return no_kernel;
}

static rp_status no_op(const rp_op_call *call, rp_buffer *args, uint32_t n, rp_error *err) {
    (void)call, (void)args, (void)n, (void)err;
    return RP_OK;
}

/* Arguments of one bound launch against the plan. */
static void check_args(const plan *p, const plan_launch *l, const hal_launch *h) {
    CHECK(h->n_arg == l->n_args && h->grain > 0);
    for (uint32_t i = 0; i < l->n_args; i++) {
        uintptr_t at = (uintptr_t)h->arg[i];
        CHECK(at);
        if (l->args[i].seg == PLAN_ARENA)
            CHECK(at >= (uintptr_t)far_arena &&
                  at - (uintptr_t)far_arena <= (uint64_t)p->arena_size);
        if (l->args[i].seg == PLAN_PACK)
            CHECK(at >= (uintptr_t)far_weights &&
                  at - (uintptr_t)far_weights <= (uint64_t)p->weights_size);
    }
}

static void bind_all(const plan *p, plan_exec *x, bool largest) {
    plan_bound *b = NULL;
    rp_error err = {0};
    int64_t *symbols = base_alloc_array(p->n_symbols + 1u, sizeof *symbols);
    CHECK(symbols && plan_bound_new(x, 0, p->n_pieces, &b, &err) == RP_OK);
    for (uint32_t i = 0; i < p->n_symbols; i++) {
        const plan_symbol *y = &p->symbols[i];
        symbols[i] = y->min;
        if (largest && y->max > y->min) symbols[i] = y->max < INT32_MAX ? y->max : INT32_MAX;
        if (symbols[i] < y->min) symbols[i] = y->min;
    }
    CHECK(plan_exec_bind(x, b, symbols, &err) == RP_OK);
    for (uint32_t i = 0; i < b->n; i++) check_args(p, &p->launches[i], &b->launches[i]);
    plan_bound_free(b);
    base_free(symbols);
}

/* Code comes from elsewhere, so every function is taken for a built-in one. */
static void bind(plan *p) {
    hal_device *d = NULL;
    plan_exec *x = NULL;
    rp_error err = {0};
    plan_exec_options o = {.builtin = any_builtin, .arena = far_arena, .weights = far_weights};
    static int leaf;
    if (p->arena_size > FAR_SIZE || p->weights_size > FAR_SIZE) return;
    p->n_modules = 0;
    for (uint32_t i = 0; i < p->n_functions; i++) p->functions[i].module = PLAN_BUILTIN;
    CHECK(hal_null_open(&d, &err) == RP_OK);
    o.device = d;
    rp_status st = plan_exec_new(p, &o, &x, &err);
    CHECK(st == RP_OK || (st == RP_UNSUPPORTED && err.text[0])); /* an op that is not registered */
    if (st == RP_OK) {
        for (int s = PLAN_INPUT; s <= PLAN_STATE; s++)
            for (uint32_t i = 0; i < p->n_inputs + p->n_outputs + p->n_params + p->n_states; i++)
                plan_exec_set(x, (plan_seg)s, i, &leaf);
        bind_all(p, x, false);
        bind_all(p, x, true);
    }
    plan_exec_free(x);
    hal_close(d);
}

static void use(plan *p, const uint8_t *data, size_t size) {
    char *again = NULL;
    size_t n = 0;
    rp_error err = {0};
    base_buf text;
    CHECK(plan_verify(p, &err) == RP_OK);
    CHECK(plan_save(p, &again, &n, &err) == RP_OK);
    CHECK(n == size && memcmp(again, data, n) == 0);
    base_free(again);
    base_buf_init(&text, 16u << 20);
    plan_print(p, &text);
    base_buf_clear(&text);
    plan_print_schedule(p, true, &text);
    base_buf_done(&text);
    bind(p);
}

static void register_op(void) {
    static bool done;
    const rp_op_desc desc = {.size = sizeof desc, .name = "plan_file::twice", .cpu = no_op};
    if (!done) CHECK(rp_op_register(&desc, NULL) == RP_OK);
    done = true;
}

/* A file of the corpus that is of another version tries nothing: it is to be made anew, or called old_version. */
static void check_file(const rp_error *err) {
    const char *file = getenv("FUZZ_FILE");
    bool old = strstr(err->text, "not a plan of this version");
    if (file) CHECK(old == (strcmp(file, "old_version") == 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    register_op();
    size_t live = base_live();
    plan *p = NULL;
    rp_error err = {0};
    rp_status st = plan_load(data, size, &p, &err);
    if (st == RP_OK)
        use(p, data, size);
    else
        CHECK(st == RP_CORRUPT && err.code == st && err.text[0] && !strchr(err.text, '\n'));
    check_file(&err);
    plan_free(p);
    CHECK(base_live() == live);
    return 0;
}
