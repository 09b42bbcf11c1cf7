/* What computes a graph of a function: what the function's configuration asks for, or what takes its place. */
#include "front/front.h"

#include "backend/registry.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/str.h"
#include "config/config.h"
#include "front/report.h"
#include "front/unlowered.h"
#include "trace/trace.h"

/* By a copy of config, which compiling resolves. */
static rp_status compile(rp_device *device, const rp_graph *g, const rp_compilation_config *config,
                         rp_compiled **out, rp_error *err) {
    rp_compilation_config *own = NULL;
    RP_TRY(rp_config_clone(config, &own, err));
    rp_status st = rp_compile_on(device, g, own, out, err);
    rp_config_free(own);
    return st;
}

rp_status front_compile_host(rp_jit *f, const rp_graph *g, rp_compiled **out, rp_error *err) {
    rp_status st = RP_OK;
    (void)pthread_mutex_lock(&f->lock);
    if (!f->host) st = rp_device_open("cpu", 1, &f->host, err);
    (void)pthread_mutex_unlock(&f->lock);
    return st == RP_OK ? compile(f->host, g, f->eager_config, out, err) : st;
}

void front_warn_suppressed(rp_jit *f, const char *why) {
    const uint64_t hash = base_hash64(why, strlen(why));
    (void)pthread_mutex_lock(&f->lock);
    const bool again = f->suppressed == hash;
    f->suppressed = hash;
    (void)pthread_mutex_unlock(&f->lock);
    base_log(again ? RP_LOG_DEBUG : RP_LOG_WARNING, "WON'T CONVERT %s %s line %d: %s", f->name,
             f->file, f->line, why);
}

static rp_status keep_reason(front_code *c, const char *text, rp_error *err) {
    base_free(c->reason);
    c->reason = base_strdup(text);
    return c->reason ? RP_OK : rp_fail(err, RP_NOMEM, "why a graph is not compiled");
}

/* --- making ------------------------------------------------------------------------------ */

/* Each graph has a name of its own: graphs of one name are taken for forms of one function. */
static rp_status capture(rp_jit *f, const rp_graph *g, const front_made_of *of, front_code *out,
                         rp_error *err) {
    base_buf name;
    if (f->capture.mode == RP_CUDAGRAPH_NONE || of->uncaptured) return RP_OK;
    base_buf_init(&name, 0);
    base_buf_printf(&name, "%s [%u/%u]", f->name, f->id, of->number);
    if (of->piece) base_buf_printf(&name, " piece %u", of->piece);
    if (of->link) base_buf_printf(&name, " part %u", of->link);
    rp_status st = base_buf_status(&name, err);
    bool whole = of->piece == 0 && of->link == 0;
    if (st == RP_OK)
        st = front_graphs_new(f, out->compiled, g, name.data, f->capture.in_place && whole,
                              &out->graphs, err);
    base_buf_done(&name);
    /* A graph writes where it wrote when it was captured. */
    out->writes = of->writes;
    return st == RP_OK && of->moving ? front_graphs_skip(f, out->graphs, err) : st;
}

rp_status front_code_link(rp_jit *f, const rp_graph *g, const rp_compilation_config *config,
                          const front_made_of *of, front_code *out, rp_error *err) {
    rp_compiled_info info = RP_COMPILED_INFO_INIT;
    int64_t start = base_now_ns();
    RP_TRY(compile(f->device, g, config, &out->compiled, err));
    RP_TRY(rp_compiled_get_info(out->compiled, &info, err));
    front_log_compiled(f, of->number, &info, start);
    front_note_graph(f, g, of->number, (double)(base_now_ns() - start) / 1e6, &info);
    RP_TRY(capture(f, g, of, out, err));
    return info.reason ? keep_reason(out, info.reason, err) : RP_OK;
}

static const rp_compilation_config *config_of(const rp_jit *f, const front_made_of *of) {
    return of->own_size && f->tuned ? f->tuned : f->config;
}

/* Splitting ops are the library's own, whoever compiles what is between them. */
static rp_status split_config(const rp_compilation_config *whole, rp_compilation_config **out,
                              rp_error *err) {
    if (!backend_find(whole->backend)) return RP_OK;
    RP_TRY(rp_config_clone(whole, out, err));
    RP_TRY(rp_config_set(*out, "use_inductor=true", err));
    return rp_config_set(*out, "backend=inductor", err);
}

/* The pieces between splitting ops, each compiled as a whole. */
static rp_status make_chain(rp_jit *f, const rp_graph *g, const front_made_of *of, front_code *out,
                            rp_error *err) {
    rp_compilation_config *whole = NULL, *resolved = NULL, *splitting = NULL;
    rp_status st = RP_OK;
    RP_TRY_OUT(front_resolve(f->config, &resolved, err));
    RP_TRY_OUT(rp_config_clone(config_of(f, of), &whole, err));
    RP_TRY_OUT(rp_config_set(whole, "splitting_ops=[]", err));
    RP_TRY_OUT(split_config(whole, &splitting, err));
    front_cut cut = {.ops = (const char *const *)resolved->splitting_ops.v,
                     .n_ops = (uint32_t)resolved->splitting_ops.n,
                     .config = whole,
                     .splitting = splitting ? splitting : whole,
                     .numerics = g->numerics,
                     .of = *of,
                     .in_place = f->capture.in_place && of->piece == 0};
    RP_TRY_OUT(front_chain_new(f, g, &cut, &out->chain, err));
    const char *reason = front_chain_reason(out->chain);
    if (reason) st = keep_reason(out, reason, err);
out:
    rp_config_free(splitting);
    rp_config_free(whole);
    rp_config_free(resolved);
    return st;
}

static rp_status make_whole(rp_jit *f, const rp_graph *g, const front_made_of *of, front_code *out,
                            rp_error *err) {
    rp_cudagraph_mode mode = f->capture.mode;
    if (rp_cudagraph_requires_piecewise_compilation(mode)) RP_TRY(make_chain(f, g, of, out, err));
    return mode == RP_CUDAGRAPH_PIECEWISE ? RP_OK
                                          : front_code_link(f, g, config_of(f, of), of, out, err);
}

/* The pieces between ops that the compiler does not take, which splitting compiles. RP_UNSUPPORTED: it takes each, or nobody takes one. */
static rp_status make_broken(rp_jit *f, const rp_graph *g, const front_made_of *of,
                             const rp_compilation_config *config,
                             const rp_compilation_config *splitting, front_code *out,
                             rp_error *err) {
    front_unlowered u = {0};
    RP_TRY(front_unlowered_find(f, g, &u, err));
    front_cut cut = {.ops = (const char *const *)u.op,
                     .n_ops = u.n,
                     .config = config,
                     .splitting = splitting,
                     .elsewhere = f->stream != NULL,
                     .numerics = g->numerics,
                     .of = *of,
                     .in_place = f->capture.in_place && of->piece == 0};
    rp_status st = u.n ? front_chain_new(f, g, &cut, &out->chain, err) : RP_UNSUPPORTED;
    if (st == RP_OK && config != f->eager_config) st = front_unlowered_tell(f, &u, g, err);
    front_unlowered_done(&u);
    return st;
}

static rp_status make(rp_jit *f, const rp_graph *g, const front_made_of *of, front_code *out,
                      rp_error *err) {
    rp_error why = {0}, other = {0};
    rp_status st = make_whole(f, g, of, out, &why);
    if (st == RP_UNSUPPORTED) {
        front_code_done(out);
        st = make_broken(f, g, of, config_of(f, of), f->eager_config, out, &other);
        if (other.text[0] && (st != RP_UNSUPPORTED || f->fullgraph)) why = other;
    }
    return st == RP_OK ? RP_OK : rp_fail(err, st, "%s", why.text);
}

rp_status front_code_eager(rp_jit *f, const rp_graph *g, front_code *out, rp_error *err) {
    rp_error why = {0};
    front_made_of of = {.uncaptured = true};
    rp_status st = compile(f->device, g, f->eager_config, &out->compiled, &why);
    if (st == RP_UNSUPPORTED && f->stream) {
        rp_error other = {0};
        st = make_broken(f, g, &of, f->eager_config, f->eager_config, out, &other);
        if (st != RP_UNSUPPORTED) why = other;
    }
    return st == RP_OK ? RP_OK : rp_fail(err, st, "%s", why.text);
}

/* Whether f goes on without what st says of its compiler. */
static bool goes_on(const rp_jit *f, rp_status st, bool last) {
    return f->suppress_errors && st != RP_OK && st != RP_NOMEM && (last || st != RP_UNSUPPORTED);
}

rp_status front_code_make(rp_jit *f, const rp_graph *g, const front_made_of *of, front_code *out,
                          rp_error *err) {
    front_code made = {0};
    rp_error why = {0};
    rp_status st = make(f, g, of, &made, &why);
    if (goes_on(f, st, of->last)) {
        front_warn_suppressed(f, why.text);
        front_code_done(&made);
        made.eager = true;
        st = keep_reason(&made, why.text, err);
        if (st == RP_OK) st = front_code_eager(f, g, &made, err);
    } else if (st != RP_OK) {
        st = rp_fail(err, st, "%s", why.text);
    }
    if (st == RP_OK)
        *out = made;
    else
        front_code_done(&made);
    return st;
}

void front_code_done(front_code *c) {
    front_graphs_free(c->graphs);
    front_chain_free(c->chain);
    rp_compiled_free(c->compiled);
    base_free(c->reason);
    *c = (front_code){0};
}

/* --- running ------------------------------------------------------------------------------ */

rp_status front_code_outputs(const front_code *c, const rp_buffer *in, uint32_t n_in,
                             rp_buffer *out, uint32_t n_out, rp_error *err) {
    return c->compiled ? rp_compiled_outputs(c->compiled, in, n_in, out, n_out, err)
                       : front_chain_outputs(c->chain, in, out, err);
}

void front_code_tell(const front_code *c, front_out *to) {
    if (!c->reason || to->ran == RP_RAN_EAGER) return;
    if (c->eager) to->ran = RP_RAN_EAGER;
    to->reason = c->reason;
}

static bool in_pieces(const front_code *c, const front_io *io) {
    return c->chain && (io->mode == RP_CUDAGRAPH_PIECEWISE || !c->compiled);
}

bool front_code_replays(const front_code *c, const front_io *io) {
    return c->graphs && io->mode != RP_CUDAGRAPH_NONE && !in_pieces(c, io) &&
           (!c->writes || front_graphs_still(c->graphs, io));
}

/* A chain, or calls that are captured. */
static RP_APART rp_status run_graphs(rp_jit *f, const front_code *c, const front_io *io,
                                     rp_error *err) {
    if (in_pieces(c, io)) return front_chain_run(f, c->chain, io, err);
    if (front_code_replays(c, io)) return front_graphs_run(f, c->graphs, io, err);
    if (c->graphs && io->mode != RP_CUDAGRAPH_NONE) RP_TRY(front_graphs_skip(f, c->graphs, err));
    return rp_compiled_run(c->compiled, io->in, io->n_in, io->out, io->n_out, err);
}

rp_status front_code_run(rp_jit *f, const front_code *c, const front_io *io, rp_error *err) {
    if (c->chain || c->graphs) return run_graphs(f, c, io, err);
    return rp_compiled_run(c->compiled, io->in, io->n_in, io->out, io->n_out, err);
}
