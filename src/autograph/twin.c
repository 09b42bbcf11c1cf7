#include "autograph/twin.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/status.h"

/* Memory of the same use in both runs. */
typedef struct twin {
    uintptr_t at[2];
    size_t size;
} twin;

typedef struct twins {
    twin *v; /* n */
    uint32_t n, side;
} twins;

static void put(twins *t, const void *at, size_t size) {
    t->v[t->n].at[t->side] = (uintptr_t)at;
    t->v[t->n++].size = size;
}

static rp_status put_argument(void *user, rp_value *v, rp_error *err) {
    (void)err;
    put(user, v->tensor.data, v->indirect ? sizeof(void *) : autograph_place_extent(v));
    return RP_OK;
}

static void put_held(twins *t, const autograph_held *h, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        size_t bytes = 0;
        (void)autograph_bytes(&h->form[i], &bytes);
        put(t, h->form[i].data, bytes);
    }
}

static uint32_t least(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

/* Both asked for the same memory in the same order, or one of them for less. */
static rp_status find(const autograph_run runs[2], twins *t, rp_error *err) {
    uint32_t out = least(runs[0].call->out.n, runs[1].call->out.n);
    uint32_t temp = least(runs[0].call->temp.n, runs[1].call->temp.n);
    t->v = base_alloc_array(autograph_value_tensors(runs[0].args) + (size_t)out + temp + 1u,
                            sizeof *t->v);
    if (!t->v) return rp_fail(err, RP_NOMEM, "memory of two runs");
    for (uint32_t side = 0; side < 2; side++) {
        t->side = side;
        t->n = 0;
        RP_TRY(autograph_value_each((rp_value *)(uintptr_t)runs[side].args, put_argument, t, err));
        put_held(t, &runs[side].call->out, out);
        put_held(t, &runs[side].call->temp, temp);
    }
    return RP_OK;
}

/* What lies in none of them is the function's own. Arguments of one address in the first run are apart in the second. */
static bool same_memory(const twins *t, const hal_step *a, const hal_step *b) {
    bool own = true;
    if (a->size != b->size) return false;
    for (uint32_t i = 0; i < t->n; i++) {
        const twin *one = &t->v[i];
        uintptr_t offset = (uintptr_t)b->at - one->at[1];
        if ((uintptr_t)b->at < one->at[1] || offset >= one->size) continue;
        if (one->at[0] + offset == (uintptr_t)a->at) return true;
        own = false;
    }
    return own && a->at == b->at;
}

static bool same_step(const twins *t, const hal_step *a, const hal_step *b) {
    if (a->kind != b->kind || a->hash != b->hash || a->value != b->value) return false;
    return a->kind != HAL_STEP_MEMORY || same_memory(t, a, b);
}

static rp_status differ(const char *how, rp_error *err) {
    return rp_fail(
        err, RP_UNSUPPORTED,
        "the function makes other calls when it runs again to be captured: it decides by "
        "values of tensors, or by what an earlier run left (%s)",
        how);
}

/* Of step i, up to which they are alike. */
static rp_status tell(const hal_trace *a, const hal_trace *b, uint32_t i, rp_error *err) {
    char how[128];
    uint32_t call = i;
    bool one = i < a->n && i < b->n && a->v[i].kind == b->v[i].kind &&
               a->v[i].kind != HAL_STEP_CALL;
    while (one && a->v[call].kind != HAL_STEP_CALL) call--;
    if (one)
        (void)snprintf(how, sizeof how, "%s: %s differs", a->v[call].name, b->v[i].name);
    else
        (void)snprintf(how, sizeof how, "%s instead of %s", i < b->n ? b->v[i].name : "nothing",
                       i < a->n ? a->v[i].name : "nothing");
    return differ(how, err);
}

rp_status autograph_runs_alike(const autograph_run runs[2], rp_error *err) {
    const hal_trace *a = runs[0].trace, *b = runs[1].trace;
    twins t = {0};
    uint32_t i = 0, n = least(a->n, b->n);
    if (a->failed || b->failed) return rp_fail(err, RP_NOMEM, "calls of two runs");
    rp_status st = find(runs, &t, err);
    while (st == RP_OK && i < n && same_step(&t, &a->v[i], &b->v[i])) i++;
    base_free(t.v);
    RP_TRY(st);
    return i == a->n && i == b->n ? RP_OK : tell(a, b, i, err);
}
