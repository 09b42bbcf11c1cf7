/* Rows in registers, as CUDA C: all iterations of a thread are written out, u<at> counting rounds of a loop and k<at> neighbours in one, so that
 * temporaries and elements of a reduction are registers. */
#include "gen/render_cuda.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <stdio.h>

enum { HALF = 16 };

bool gen_held_is(const gen_render *r, kir_ref at) {
    return !r->item && (gen_cuda_is_half(r, at) || r->s->steps[at].held);
}

/* Threads that have a row, neighbours that each has side by side, and how often. */
static unsigned held_threads(const gen_render *r, kir_ref at) {
    return gen_cuda_is_half(r, at) ? HALF : r->s->launch.threads;
}

static unsigned held_wide(const gen_render *r, kir_ref at) {
    return r->s->steps[at].wide ? r->s->steps[at].wide : 1;
}

static unsigned held_rounds(const gen_render *r, kir_ref at) {
    const unsigned round = held_threads(r, at) * held_wide(r, at);
    return ((unsigned)r->f->ranges[r->f->insts[at].in[0]].hi + round - 1) / round;
}

static bool stores_to_memory(const gen_render *r, kir_ref at, kir_ref end) {
    for (; at < end; at++)
        if (r->f->insts[at].op == KIR_STORE &&
            r->s->places[r->f->insts[at].u.buf].space == SCHED_ARG)
            return true;
    return false;
}

/* A thread's iterations, u<at> counting rounds. Returns whether the last is to be looked at. */
static bool open_held(gen_render *r, kir_ref at, const char *n) {
    const unsigned threads = held_threads(r, at), wide = held_wide(r, at),
                   rounds = held_rounds(r, at);
    const char *own = gen_cuda_own(r, at), c = wide > 1 ? 'c' : 'i';
    gen_line(r, "#pragma unroll");
    gen_open(r, "for (int u%u = 0; u%u < %u; u%u++)", at, at, rounds, at);
    if (wide > 1)
        gen_line(r, "const long long c%u = (u%u * %u + %s) * %u;", at, at, threads, own, wide);
    else
        gen_line(r, "const long long i%u = u%u * %u + %s;", at, at, threads, own);
    const unsigned whole = (unsigned)r->f->ranges[r->f->insts[at].in[0]].hi / (threads * wide);
    if (whole == rounds) return false;
    if (whole)
        gen_open(r, "if (u%u < %u || %c%u < %s)", at, whole, c, at, n);
    else
        gen_open(r, "if (%c%u < %s)", c, at, n);
    return true;
}

static bool has_vectors(const gen_render *r, kir_ref at, kir_ref end) {
    for (kir_ref i = at + 1; i < end; i++)
        if (gen_cuda_is_vector(r, at, i)) return true;
    return false;
}

/* The body for the iterations of a round, and `behind` of each. */
static void put_held_body(gen_render *r, kir_ref at, kir_ref end, const char *behind) {
    const unsigned wide = held_wide(r, at);
    bool *needed;
    if (wide == 1) {
        gen_alone(r, at + 1, end);
        if (*behind) gen_line(r, "%s", behind);
        return;
    }
    needed = base_alloc_array(2 * ((size_t)r->f->n_insts + 1), sizeof *needed);
    if (!needed) {
        r->out->failed = true;
        return;
    }
    if (has_vectors(r, at, end)) gen_cuda_vectors(r, at, needed);
    gen_line(r, "#pragma unroll");
    gen_open(r, "for (int k%u = 0; k%u < %u; k%u++)", at, at, wide, at);
    gen_cuda_elements(r, at, end, needed + r->f->n_insts + 1);
    if (*behind) gen_line(r, "%s", behind);
    gen_close(r);
    for (kir_ref i = at + 1; i < end; i++)
        if (r->f->insts[i].op == KIR_STORE && gen_cuda_is_vector(r, at, i))
            gen_line(r, "rk_put(p%u, x%u, w%u);", i, i, at);
    base_free(needed);
}

void gen_held_loop(gen_render *r, kir_ref at, kir_ref end, const char *n) {
    const bool guards = gen_cuda_is_half(r, at) && stores_to_memory(r, at, end);
    gen_cuda_barrier(r, at);
    if (guards) gen_open(r, "if (mine)");
    if (held_wide(r, at) > 1) gen_cuda_aligned(r, at);
    const bool rest = open_held(r, at, n);
    put_held_body(r, at, end, "");
    if (rest) gen_close(r);
    gen_close(r);
    if (guards) gen_close(r);
    gen_cuda_barrier(r, at);
}

void gen_held_argmax(gen_render *r, kir_ref at, kir_ref end, const char *n) {
    const kir_ref value = r->f->insts[end].in[0];
    const char *type = gen_class_type(r->f->insts[value].cls);
    char v[GEN_NAME_SIZE], behind[2 * GEN_NAME_SIZE + 80], counter[32];

    gen_text(r, value, v, sizeof v);
    if (held_wide(r, at) > 1)
        (void)snprintf(counter, sizeof counter, "c%u + k%u", at, at);
    else
        (void)snprintf(counter, sizeof counter, "i%u", at);
    (void)snprintf(behind, sizeof behind, "a%u = rk_better(a%u, rk_best<%s>{%s, %s});", at, at,
                   type, v, counter);
    gen_line(r, "rk_best<%s> a%u = {0, -1};", type, at);
    if (held_wide(r, at) > 1) gen_cuda_aligned(r, at);
    const bool rest = open_held(r, at, n);
    put_held_body(r, at, end, behind);
    if (rest) gen_close(r);
    gen_close(r);
    gen_line(r, "a%u = rk_%s_best(a%u);", at, gen_cuda_is_half(r, at) ? "half" : "block", at);
    gen_line(r, "v%u = a%u.at < 0 ? 0 : (rp_i32)a%u.at;", end, at, at);
}

/* What a thread has beyond the end changes nothing: no lane is -0, which alone would notice. */
static void put_beyond(gen_render *r, kir_ref at, const char *start) {
    const unsigned wide = held_wide(r, at);
    r->depth--;
    gen_line(r, "} else {");
    r->depth++;
    if (wide > 1) gen_line(r, "#pragma unroll");
    if (wide > 1)
        gen_line(r, "for (int k%u = 0; k%u < %u; k%u++) e%u[u%u * %u + k%u] = %s;", at, at, wide,
                 at, at, at, wide, at, start);
    else
        gen_line(r, "e%u[u%u] = %s;", at, at, start);
}

void gen_held_reduce(gen_render *r, kir_ref at, kir_ref end, const char *n) {
    const kir_ref value = r->f->insts[end].in[0];
    const kir_class cls = r->f->insts[value].cls;
    const kir_reduce how = r->f->insts[at].u.reduce;
    const unsigned wide = held_wide(r, at), own = held_rounds(r, at) * wide;
    const char *type = gen_class_type(cls), *start = gen_neutral(how, cls);
    char v[GEN_NAME_SIZE], behind[GEN_NAME_SIZE + 80];

    gen_text(r, value, v, sizeof v);
    if (wide > 1)
        (void)snprintf(behind, sizeof behind, "e%u[u%u * %u + k%u] = %s;", at, at, wide, at, v);
    else
        (void)snprintf(behind, sizeof behind, "e%u[u%u] = %s;", at, at, v);
    gen_line(r, "%s e%u[%u];", type, at, own);
    if (wide > 1) gen_cuda_aligned(r, at);
    const bool rest = open_held(r, at, n);
    put_held_body(r, at, end, behind);
    if (rest) put_beyond(r, at, start);
    if (rest) gen_close(r);
    gen_close(r);
    if (gen_cuda_is_half(r, at))
        gen_line(r, "v%u = rk_half<%s, %u, %s>(e%u, %s);", end, gen_cuda_how(how), own, type, at,
                 start);
    else
        gen_line(r, "v%u = rk_held<%s, %" PRId64 ", %u, %u, %s>(e%u, %s);", end, gen_cuda_how(how),
                 r->f->ranges[r->f->insts[at].in[0]].hi, r->s->launch.threads, wide, type, at,
                 start);
}

/* Of a temporary of which each thread has its own iterations' elements. */
int64_t gen_held_elements(const gen_render *r, int64_t size) {
    for (kir_ref at = 0; at < r->f->n_insts; at++) {
        if (r->f->insts[at].op != KIR_LOOP && r->f->insts[at].op != KIR_REDUCE) continue;
        const int64_t wide = held_wide(r, at), round = held_threads(r, at) * wide;
        return size ? (size + round - 1) / round * wide : 1;
    }
    return 1;
}
