/* What a nest of written-out loops reads of arguments, asked for before a team fills the temporaries that the nest reads, too: a compiler cannot
 * know that what one iteration stores is not what the next one reads, and nobody asks for anything while the team waits.
 *
 * ahead<load>[] has a thread's elements, by its iterations u<outer> and u<inner>. */
#include "gen/render_cuda.h"

#include "base/alloc.h"

enum {
    MOST_AHEAD = 16, /* values of a thread */
    MOST_INDEX = 12  /* operations deep */
};

typedef struct nest {
    kir_ref outer, inner;
    int times, inner_times;
} nest;

static bool opens(const gen_render *r, kir_ref at) {
    return kir_op_table(r->f->insts[at].op)->shape == KIR_SHAPE_BEGIN;
}

static kir_ref next_block(const gen_render *r, kir_ref from, kir_ref to) {
    while (from < to && !opens(r, from)) from++;
    return from;
}

static bool stores_to(const gen_render *r, kir_ref from, kir_ref to, sched_space space) {
    for (; from < to; from++)
        if (r->f->insts[from].op == KIR_STORE &&
            r->s->places[r->f->insts[from].u.buf].space == space)
            return true;
    return false;
}

/* The loop at `at`, if it is a nest of two whose iterations are all written out. */
static bool find_nest(const gen_render *r, kir_ref at, nest *out) {
    const kir_ref end = r->s->steps[at].end, inner = next_block(r, at + 1, end);
    if (r->s->steps[at].kind != SCHED_WARP || inner == end) return false;
    const kir_ref inner_end = r->s->steps[inner].end;
    if (r->f->insts[inner].op != KIR_LOOP || r->s->steps[inner].kind != SCHED_THREAD ||
        r->s->steps[inner].wide || next_block(r, inner + 1, inner_end) != inner_end ||
        next_block(r, inner_end + 1, end) != end)
        return false;
    *out = (nest){at, inner, gen_cuda_times(r, at), gen_cuda_times(r, inner)};
    return out->times && out->inner_times && stores_to(r, inner, inner_end, SCHED_ARG);
}

/* Whether `ref` is made of indices alone, and of what is known at `now`. */
static bool is_known(const gen_render *r, const nest *n, kir_ref now, kir_ref ref, int depth) {
    const kir_inst *in = &r->f->insts[ref];
    if (kir_is_global(in->op) || ref < now || ref == n->outer || ref == n->inner) return true;
    if (ref < n->outer || in->cls != KIR_INDEX || in->op == KIR_TO_INDEX || depth == 0)
        return false;
    for (uint32_t i = 0; i < in->n_in; i++)
        if (!is_known(r, n, now, in->in[i], depth - 1)) return false;
    return true;
}

/* The loads of the nest that can be asked for at `now`; needed: what their places are made of. Returns how many there are. */
static int find_loads(const gen_render *r, const nest *n, kir_ref now, bool *ahead, bool *needed) {
    const kir_ref end = r->s->steps[n->inner].end;
    int found = 0;
    for (kir_ref at = n->inner + 1; at < end; at++) {
        const kir_inst *in = &r->f->insts[at];
        if (in->op != KIR_LOAD || !r->used[at] || r->s->places[in->u.buf].space != SCHED_ARG ||
            (found + 1) * n->times * n->inner_times > MOST_AHEAD ||
            !is_known(r, n, now, in->in[0], MOST_INDEX))
            continue;
        gen_cuda_mark_index(r, n->outer, in->in[0], needed);
        ahead[at] = true;
        found++;
    }
    return found;
}

static void put_needed(gen_render *r, const bool *needed, kir_ref from, kir_ref to) {
    for (; from < to; from++)
        if (needed[from]) gen_statement(r, from);
}

static void put_loads(gen_render *r, const nest *n, const bool *ahead, const bool *needed) {
    const kir_ref end = r->s->steps[n->inner].end;
    for (kir_ref at = n->inner; at < end; at++)
        if (ahead[at])
            gen_line(r, "%s ahead%u[%d];", gen_class_type(r->f->insts[at].cls), at,
                     n->times * n->inner_times);
    gen_cuda_open_times(r, n->outer, n->times);
    put_needed(r, needed, n->outer + 1, n->inner);
    gen_cuda_open_times(r, n->inner, n->inner_times);
    put_needed(r, needed, n->inner + 1, end);
    for (kir_ref at = n->inner; at < end; at++) {
        char value[GEN_NAME_SIZE];
        if (!ahead[at]) continue;
        gen_statement(r, at);
        gen_line(r, "ahead%u[u%u * %d + u%u] = %s;", at, n->outer, n->inner_times, n->inner,
                 gen_text(r, at, value, sizeof value));
    }
    gen_close(r);
    gen_close(r);
}

void gen_ahead_ask(gen_render *r, kir_ref at, kir_ref to) {
    const size_t n_insts = (size_t)r->f->n_insts + 1;
    const kir_ref end = r->s->steps[at].end, next = next_block(r, end + 1, to);
    nest n;
    if (r->ahead || next == to || stores_to(r, at, next, SCHED_ARG) || !find_nest(r, next, &n))
        return;
    bool *ahead = base_alloc_array(2 * n_insts, sizeof *ahead);
    if (!ahead) {
        r->out->failed = true;
        return;
    }
    if (find_loads(r, &n, at, ahead, ahead + n_insts)) {
        put_loads(r, &n, ahead, ahead + n_insts);
        r->ahead = ahead;
        r->ahead_outer = n.outer;
        r->ahead_inner_times = n.inner_times;
    } else {
        base_free(ahead);
    }
}

void gen_ahead_done(gen_render *r, kir_ref at) {
    if (!r->ahead || at != r->ahead_outer) return;
    base_free(r->ahead);
    r->ahead = NULL;
}
