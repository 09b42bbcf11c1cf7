/* Results into views: those that kernels cannot write where they lie are computed in dense memory of the call. */
#include <stdio.h>

#include "base/alloc.h"
#include "base/options.h"
#include "base/status.h"
#include "device/device.h"
#include "device/stream.h"
#include "device/view.h"
#include "front/front.h"

enum { FEW = 8, NAME = 32, ALIGN = 64 };

typedef struct given {
    base_view view;
    size_t bytes;
    bool copied;
    bool on_device; /* its dense memory is the device's, */
    void *dense;    /* this */
} given;

typedef struct views {
    rp_jit *f;
    const rp_view *v; /* n */
    given *given;     /* by v */
    rp_buffer *buffer;
    uint32_t n;
} views;

static rp_status read_views(views *k, bool no_copies, rp_error *err) {
    for (uint32_t i = 0; i < k->n; i++) {
        given *g = &k->given[i];
        bool dense = false;
        char what[NAME];
        (void)snprintf(what, sizeof what, "output %u", i);
        RP_TRY(device_view_of(&k->v[i], what, &g->view, &dense, err));
        k->buffer[i] = k->v[i].tensor;
        k->buffer[i].data = g->view.at;
        g->copied = !dense && base_view_bytes(&g->view, &g->bytes) && g->bytes > 0;
        front_copied c = {what, k->v[i].tensor.dtype, false, i};
        if (g->copied && no_copies) return front_refuse_copy(k->f, &c, &g->view, err);
    }
    return RP_OK;
}

static rp_status fail_repeats(const views *k, uint32_t i, rp_error *err) {
    base_buf b;
    base_buf_init(&b, 0);
    device_view_put(&b, k->v[i].tensor.dtype, &k->given[i].view);
    rp_status st = base_buf_status(&b, err);
    if (st == RP_OK)
        st = rp_fail(err, RP_INVALID,
                     "output %u, %s, is written, and several of its elements are one place; give "
                     "each a place of its own",
                     i, b.data);
    base_buf_done(&b);
    return st;
}

static rp_status check_apart(const views *k, rp_error *err) {
    for (uint32_t i = 0; i < k->n; i++) {
        const given *a = &k->given[i];
        if (a->copied && base_view_repeats(&a->view)) return fail_repeats(k, i, err);
        for (uint32_t j = 0; j < i; j++) {
            const given *b = &k->given[j];
            if ((a->copied || b->copied) && base_views_meet(&a->view, &b->view))
                return rp_fail(err, RP_INVALID,
                               "outputs %u and %u, which are written, share memory", j, i);
        }
    }
    return RP_OK;
}

/* Where the view is: of the device's memory there, else the host's. */
static rp_status make_dense(views *k, rp_error *err) {
    for (uint32_t i = 0; i < k->n; i++) {
        given *g = &k->given[i];
        if (!g->copied) continue;
        g->on_device = k->f->stream &&
                       device_view_reached(device_stream_queue(k->f->stream), &g->view);
        if (g->on_device)
            RP_TRY(device_alloc(k->f->device, g->bytes, &g->dense, err));
        else if (!(g->dense = base_alloc_aligned(g->bytes, ALIGN)))
            return rp_fail(err, RP_NOMEM, "%zu bytes for dense copies of views", g->bytes);
        k->buffer[i].data = g->dense;
    }
    return RP_OK;
}

static rp_status scatter(const views *k, rp_view_copies *copies, rp_error *err) {
    for (uint32_t i = 0; i < k->n; i++) {
        const given *g = &k->given[i];
        char what[NAME];
        if (!g->copied) continue;
        (void)snprintf(what, sizeof what, "output %u", i);
        front_tell_copy(k->f, &(front_copied){what, k->v[i].tensor.dtype, false, i}, &g->view);
        copies->scattered++;
        copies->bytes += g->bytes;
        if (g->on_device)
            RP_TRY(front_copy_view(k->f, &g->view, g->dense, false, err));
        else
            base_view_scatter(&g->view, g->dense);
    }
    return RP_OK;
}

static rp_status run_views(views *k, const rp_value *args, bool no_copies, rp_view_copies *copies,
                           rp_error *err) {
    front_out to = {.buffer = k->buffer, .n = k->n, .copies = copies, .no_copies = no_copies};
    RP_TRY(read_views(k, no_copies, err));
    RP_TRY(check_apart(k, err));
    RP_TRY(make_dense(k, err));
    RP_TRY(front_call(k->f, args, &to, err));
    return scatter(k, copies, err);
}

static void views_done(const views *k) {
    for (uint32_t i = 0; i < k->n; i++) {
        if (k->given[i].on_device)
            device_free(k->f->device, k->given[i].dense);
        else
            base_free(k->given[i].dense);
    }
}

rp_status rp_jit_run_views(rp_jit *f, const rp_value *args, const rp_view *outputs,
                           uint32_t n_outputs, const rp_run_options *options, rp_error *err) {
    base_error_clear(err);
    rp_run_options o = RP_RUN_OPTIONS_INIT;
    rp_view_copies copies = RP_VIEW_COPIES_INIT, none = copies;
    given few[FEW] = {0};
    rp_buffer few_buffers[FEW];
    if (!f || !args || (n_outputs && !outputs))
        return rp_fail(err, RP_INVALID, "rp_jit_run_views: function, args or outputs is NULL");
    if (options) RP_TRY(base_options_take(&o, sizeof o, options, "rp_run_options", err));
    if (o.stream)
        return rp_fail(err, RP_INVALID, "rp_jit_run_views: a stream is for compiled graphs");
    views k = {.f = f, .v = outputs, .given = few, .buffer = few_buffers, .n = n_outputs};
    if (k.n > FEW) {
        k.given = base_alloc_array(k.n, sizeof *k.given);
        k.buffer = base_alloc_array(k.n, sizeof *k.buffer);
    }
    rp_status st = k.given && k.buffer ? run_views(&k, args, o.no_copies, &copies, err)
                                       : rp_fail(err, RP_NOMEM, "outputs of a call of %s", f->name);
    if (o.copies) {
        rp_status told = base_result_give(o.copies, st == RP_OK ? &copies : &none, sizeof none,
                                          "rp_view_copies", err);
        if (st == RP_OK) st = told;
    }
    if (k.given) views_done(&k);
    if (k.given != few) base_free(k.given);
    if (k.buffer != few_buffers) base_free(k.buffer);
    return st;
}
