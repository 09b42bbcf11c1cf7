/* What computes a graph of a function: what the function's configuration asks for, or what takes its place. */
#include "front/front.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"

rp_status front_compile(rp_jit *f, const rp_graph *g, const rp_compilation_config *config,
                        rp_compiled **out, rp_error *err) {
    rp_compilation_config *own = NULL; /* compiling resolves it */
    RP_TRY(rp_config_clone(config, &own, err));
    rp_status st = rp_compile_on(f->device, g, own, out, err);
    rp_config_free(own);
    return st;
}

void front_warn_suppressed(const rp_jit *f, const char *why) {
    base_log(RP_LOG_WARNING, "WON'T CONVERT %s %s line %d: %s", f->name, f->file, f->line, why);
}

static rp_status keep_reason(front_code *c, const char *text, rp_error *err) {
    c->reason = base_strdup(text);
    return c->reason ? RP_OK : rp_fail(err, RP_NOMEM, "why a graph is not compiled");
}

static rp_status make(rp_jit *f, const rp_graph *g, uint32_t number, front_code *out,
                      rp_error *err) {
    rp_compiled_info info = RP_COMPILED_INFO_INIT;
    int64_t start = base_now_ns();
    RP_TRY(front_compile(f, g, f->config, &out->compiled, err));
    front_log_compiled(f, number, out->compiled, start);
    if (f->graphs_of) RP_TRY(front_graphs_new(f, out->compiled, g, &out->graphs, err));
    RP_TRY(rp_compiled_get_info(out->compiled, &info, err));
    return info.reason ? keep_reason(out, info.reason, err) : RP_OK;
}

/* Whether f goes on without what st says of its compiler. */
static bool goes_on(const rp_jit *f, rp_status st, bool last) {
    return f->suppress_errors && st != RP_OK && st != RP_NOMEM && (last || st != RP_UNSUPPORTED);
}

rp_status front_code_make(rp_jit *f, const rp_graph *g, uint32_t number, bool last, front_code *out,
                          rp_error *err) {
    front_code made = {0};
    rp_error why = {0};
    rp_status st = make(f, g, number, &made, &why);
    if (goes_on(f, st, last)) {
        front_warn_suppressed(f, why.text);
        front_code_done(&made);
        made.eager = true;
        st = keep_reason(&made, why.text, err);
        if (st == RP_OK) st = front_compile(f, g, f->eager_config, &made.compiled, err);
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
    rp_compiled_free(c->compiled);
    base_free(c->reason);
    *c = (front_code){0};
}

void front_code_tell(const front_code *c, front_out *to) {
    if (!c->reason || to->ran == RP_RAN_EAGER) return;
    if (c->eager) to->ran = RP_RAN_EAGER;
    to->reason = c->reason;
}

rp_status front_code_run(rp_jit *f, const front_code *c, const rp_buffer *in, uint32_t n_in,
                         rp_buffer *out, uint32_t n_out, rp_error *err) {
    return c->graphs ? front_graphs_run(f, c->graphs, in, out, err)
                     : rp_compiled_run(c->compiled, in, n_in, out, n_out, err);
}
