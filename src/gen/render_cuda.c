/* Scheduled kernel IR as CUDA C.
 *
 * Sums keep the 16 lanes of the host, so results are equal bit for bit.
 *
 * Parameters: char *a0.. (arguments), long long d0.. (symbols), long long items. */
#include "gen/gen.h"
#include "gen/render_cuda.h"

#include "base/alloc.h"
#include "base/embed.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

BASE_EMBED(prelude_h);
BASE_EMBED(kernel_h);
BASE_EMBED(prelude_cuda_h);

#define ROUNDS 8       /* of loads at once, of an item in another kernel */
#define WARP_ROUNDS 16 /* where a warp runs it */
#define MOST_TIMES 8   /* iterations of a thread that are written one behind the other */

void gen_cuda_prelude(base_buf *out) {
    base_buf_add(out, rp_embed_prelude_cuda_h, rp_embed_prelude_cuda_h_size);
    base_buf_add(out, rp_embed_prelude_h, rp_embed_prelude_h_size);
    base_buf_add(out, rp_embed_kernel_h, rp_embed_kernel_h_size);
}

static void put_together(gen_render *r, kir_ref from, kir_ref to);

/* Who runs `at` in step: this thread's number among them, how many they are, and what their reductions are called. */
bool gen_cuda_is_warp(const gen_render *r, kir_ref at) {
    return r->warp || r->s->steps[at].team == SCHED_OF_WARP;
}

int gen_cuda_rounds(const gen_render *r) {
    return r->warp ? WARP_ROUNDS : ROUNDS;
}

bool gen_cuda_is_half(const gen_render *r, kir_ref at) {
    return r->s->steps[at].team == SCHED_OF_HALF;
}

const char *gen_cuda_own(const gen_render *r, kir_ref at) {
    return gen_cuda_is_half(r, at)   ? "rk_half_lane()"
           : gen_cuda_is_warp(r, at) ? "rk_lane()"
                                     : "threadIdx.x";
}

const char *gen_cuda_team_size(const gen_render *r, kir_ref at) {
    return gen_cuda_is_warp(r, at) ? "32" : *r->size ? r->size : "blockDim.x";
}

const char *gen_cuda_team_name(const gen_render *r, kir_ref at) {
    return gen_cuda_is_warp(r, at) ? "warp" : "block";
}

/* Whether that is the last line: two loops in a row need one barrier between them. */
static bool ends_with(const base_buf *b, const char *line) {
    const size_t n = strlen(line);
    return b->len > n && memcmp(b->data + b->len - 1 - n, line, n) == 0;
}

void gen_cuda_barrier(gen_render *r, kir_ref at) {
    const bool warp = gen_cuda_is_warp(r, at) || gen_cuda_is_half(r, at);
    const char *text = warp ? "__syncwarp();" : "__syncthreads();";
    if (r->s->steps[at].barrier && !ends_with(r->out, text)) gen_line(r, text);
}

static void put_store(gen_render *r, kir_ref at) {
    gen_cuda_barrier(r, at);
    gen_open(r, gen_cuda_is_half(r, at) ? "if (mine && %s == 0)" : "if (%s == 0)",
             gen_cuda_own(r, at));
    gen_statement(r, at);
    gen_close(r);
    gen_cuda_barrier(r, at);
}

/* --- loops of which a thread takes several iterations --------------------------------------------- */

bool gen_cuda_is_vector(const gen_render *r, kir_ref loop, kir_ref at) {
    return sched_is_vector(r->s, loop, at, r->s->steps[loop].wide) &&
           (r->f->insts[at].op == KIR_STORE || r->used[at]);
}

/* Whether the buffers of its vectors begin where vectors may. */
void gen_cuda_aligned(gen_render *r, kir_ref loop) {
    base_buf b;
    base_buf_init(&b, 0);
    for (kir_ref at = loop + 1; at < r->s->steps[loop].end; at++)
        if (gen_cuda_is_vector(r, loop, at))
            base_buf_printf(&b, "%s(rp_size)b_%s", b.len ? " | " : "",
                            r->f->bufs[r->f->insts[at].u.buf].name);
    if (b.failed)
        r->out->failed = true;
    else if (b.len)
        gen_line(r, "const bool w%u = ((%s) & 15) == 0;", loop, b.data);
    base_buf_done(&b);
}

void gen_cuda_mark_index(const gen_render *r, kir_ref loop, kir_ref at, bool *needed) {
    if (at <= loop || needed[at]) return;
    needed[at] = true;
    for (uint32_t i = 0; i < r->f->insts[at].n_in; i++)
        gen_cuda_mark_index(r, loop, r->f->insts[at].in[i], needed);
}

/* Where its vectors are, by the first of the iterations; those that are read. */
void gen_cuda_vectors(gen_render *r, kir_ref loop, bool *needed) {
    const unsigned n = r->s->steps[loop].wide;
    char i[GEN_NAME_SIZE];
    for (kir_ref at = loop + 1; at < r->s->steps[loop].end; at++) {
        const kir_inst *in = &r->f->insts[at];
        if (!gen_cuda_is_vector(r, loop, at)) continue;
        const char *type = gen_elem_type(r->f->bufs[in->u.buf].dtype);
        gen_cuda_mark_index(r, loop, in->in[0], needed);
        gen_line(r, "rk_vec<%s, %u> x%u;", type, n, at);
        if (in->op == KIR_STORE) gen_line(r, "%s *p%u;", type, at);
    }
    gen_line(r, "{");
    r->depth++;
    gen_line(r, "const long long i%u = c%u;", loop, loop);
    for (kir_ref at = loop + 1; at < r->s->steps[loop].end; at++) {
        const kir_inst *in = &r->f->insts[at];
        if (needed[at]) gen_statement(r, at);
        if (!gen_cuda_is_vector(r, loop, at)) continue;
        gen_text(r, in->in[0], i, sizeof i);
        if (in->op == KIR_STORE)
            gen_line(r, "p%u = b_%s + %s;", at, r->f->bufs[in->u.buf].name, i);
        else
            gen_line(r, "x%u = rk_get<%u>(b_%s + %s, w%u);", at, n, r->f->bufs[in->u.buf].name, i,
                     loop);
    }
    gen_close(r);
}

/* What single iterations use: of vectors no index. */
static void mark_elements(const gen_render *r, kir_ref loop, kir_ref end, bool *used) {
    for (kir_ref at = 0; at < r->f->n_insts; at++)
        used[at] = (at < loop || at > end) && r->used[at];
    if (r->f->insts[end].op == KIR_YIELD) used[r->f->insts[end].in[0]] = true;
    for (kir_ref at = end; at-- > loop + 1;) {
        const kir_inst *in = &r->f->insts[at];
        if (in->op != KIR_STORE && !used[at]) continue;
        for (uint32_t i = gen_cuda_is_vector(r, loop, at); i < in->n_in; i++)
            used[in->in[i]] = true;
    }
}

void gen_cuda_elements(gen_render *r, kir_ref at, kir_ref end, bool *used) {
    bool *outer = r->used;
    mark_elements(r, at, end, used);
    if (used[at]) gen_line(r, "const long long i%u = c%u + k%u;", at, at, at);
    r->used = used;
    r->wide = at;
    gen_alone(r, at + 1, end);
    r->wide = 0;
    r->used = outer;
}

static void put_wide_loop(gen_render *r, kir_ref at, kir_ref end, const char *n) {
    const unsigned wide = r->s->steps[at].wide;
    bool *needed = base_alloc_array(2 * ((size_t)r->f->n_insts + 1), sizeof *needed);
    if (!needed) {
        r->out->failed = true;
        return;
    }
    gen_cuda_aligned(r, at);
    gen_open(r, "for (long long c%u = %s * %u; c%u < %s; c%u += %s * %u)", at, gen_cuda_own(r, at),
             wide, at, n, at, gen_cuda_team_size(r, at), wide);
    gen_cuda_vectors(r, at, needed);
    gen_line(r, "#pragma unroll");
    gen_open(r, "for (int k%u = 0; k%u < %u; k%u++)", at, at, wide, at);
    gen_cuda_elements(r, at, end, needed + r->f->n_insts + 1);
    gen_close(r);
    for (kir_ref i = at + 1; i < end; i++)
        if (r->f->insts[i].op == KIR_STORE && gen_cuda_is_vector(r, at, i))
            gen_line(r, "rk_put(p%u, x%u, w%u);", i, i, at);
    gen_close(r);
    base_free(needed);
}

const char *gen_cuda_sum_type(kir_reduce how, kir_class c) {
    return how == KIR_CHAIN ? "double" : gen_class_type(c);
}

const char *gen_cuda_how(kir_reduce how) {
    static const char *const names[] = {[KIR_SUM] = "RK_SUM",
                                        [KIR_PROD] = "RK_PROD",
                                        [KIR_MAX] = "RK_MAX",
                                        [KIR_MIN] = "RK_MIN",
                                        [KIR_CHAIN] = "RK_CHAIN"};
    return names[how];
}

int gen_cuda_times(const gen_render *r, kir_ref at) {
    const sched_kind kind = r->s->steps[at].kind;
    const int64_t threads = r->s->launch.threads;
    const int64_t team = kind == SCHED_WARP ? threads / 32 : gen_cuda_is_warp(r, at) ? 32 : threads;
    int64_t extent;
    if (r->item || r->warp || r->threads || r->f->form != KIR_KERNEL || gen_cuda_is_half(r, at))
        return 0;
    if ((kind != SCHED_WARP && kind != SCHED_THREAD) ||
        !kir_const_value(r->f, r->f->insts[at].in[0], &extent))
        return 0;
    return extent % team == 0 && extent / team <= MOST_TIMES ? (int)(extent / team) : 0;
}

void gen_cuda_open_times(gen_render *r, kir_ref at, int times) {
    gen_line(r, "#pragma unroll");
    gen_open(r, "for (int u%u = 0; u%u < %d; u%u++)", at, at, times, at);
    if (r->s->steps[at].kind == SCHED_WARP)
        gen_line(r, "const long long i%u = u%u * %u + threadIdx.x / 32;", at, at,
                 r->s->launch.threads / 32);
    else
        gen_line(r, "const long long i%u = u%u * %s + %s;", at, at, gen_cuda_team_size(r, at),
                 gen_cuda_own(r, at));
}

/* An item in another kernel has rounds of its own. */
static void put_loop(gen_render *r, kir_ref at, kir_ref end, const char *n) {
    const sched_kind kind = r->s->steps[at].kind;

    if (gen_held_is(r, at)) {
        gen_held_loop(r, at, end, n);
        return;
    }
    gen_cuda_barrier(r, at);
    if (r->s->steps[at].wide && !r->item) {
        put_wide_loop(r, at, end, n);
        gen_cuda_barrier(r, at);
        return;
    }
    const int times = gen_cuda_times(r, at);
    if (kind == SCHED_THREAD && r->threads) gen_line(r, "#pragma unroll %d", gen_cuda_rounds(r));
    if (times) {
        gen_cuda_open_times(r, at, times);
    } else if (kind == SCHED_WARP && !r->warp)
        gen_open(r, "for (long long i%u = threadIdx.x / 32; i%u < %s; i%u += %s / 32)", at, at, n,
                 at, gen_cuda_team_size(r, at));
    else if (kind == SCHED_THREAD)
        gen_open(r, "for (long long i%u = %s; i%u < %s; i%u += %s)", at, gen_cuda_own(r, at), at, n,
                 at, gen_cuda_team_size(r, at));
    else
        gen_open(r, "for (long long i%u = 0; i%u < %s; i%u++)", at, at, n, at);
    if (kind == SCHED_THREAD)
        gen_alone(r, at + 1, end);
    else
        put_together(r, at + 1, end);
    gen_close(r);
    gen_cuda_barrier(r, at);
}

/* Every thread runs the whole reduction; what is inside may be dealt. */
static void put_stepped_reduce(gen_render *r, kir_ref at, kir_ref end, const char *n) {
    kir_ref value = r->f->insts[end].in[0];
    kir_class cls = r->f->insts[value].cls;
    kir_reduce how = r->f->insts[at].u.reduce;
    const char *type = gen_cuda_sum_type(how, cls), *start = gen_neutral(how, cls);
    char v[GEN_NAME_SIZE];

    gen_text(r, value, v, sizeof v);
    if (how == KIR_ARGMAX) {
        gen_line(r, "rk_best<%s> a%u = {0, -1};", type, at);
    } else {
        gen_line(r, "%s l%u[16];", type, at);
        gen_line(r, "for (int k%u = 0; k%u < 16; k%u++) l%u[k%u] = %s;", at, at, at, at, at, start);
    }
    bool chunks = r->s->steps[at].chunks;
    if (chunks) gen_line(r, "double t%u = 0.0;", at);
    gen_open(r, "for (long long i%u = 0; i%u < %s; i%u++)", at, at, n, at);
    if (chunks) {
        gen_open(r, "if (i%u && i%u %% %d == 0)", at, at, KIR_CHUNK);
        gen_line(r, "t%u += (double)rk_tree<RK_SUM>(l%u);", at, at);
        gen_line(r, "for (int k%u = 0; k%u < 16; k%u++) l%u[k%u] = %s;", at, at, at, at, at, start);
        gen_close(r);
    }
    put_together(r, at + 1, end);
    if (how == KIR_ARGMAX) {
        gen_line(r, "const rk_best<%s> e%u = {%s, i%u};", type, at, v, at);
        gen_line(r, "a%u = rk_better(a%u, e%u);", at, at, at);
    } else {
        const char *lane = how == KIR_PROD || how == KIR_CHAIN ? "0" : "";
        char index[32];
        (void)snprintf(index, sizeof index, *lane ? "0" : "i%u & 15", at);
        gen_line(r, "l%u[%s] = rk_join<%s>(l%u[%s], %s%s);", at, index, gen_cuda_how(how), at,
                 index, how == KIR_CHAIN ? "(double)" : "", v);
    }
    gen_close(r);
    if (how == KIR_ARGMAX)
        gen_line(r, "v%u = a%u.at < 0 ? 0 : (rp_i32)a%u.at;", end, at, at);
    else if (how == KIR_CHAIN)
        gen_line(r, "v%u = (%s)l%u[0];", end, gen_class_type(cls), at);
    else if (how == KIR_PROD)
        gen_line(r, "v%u = l%u[0];", end, at);
    else if (chunks)
        gen_line(r, "v%u = (%s)(t%u + (double)rk_tree<RK_SUM>(l%u));", end, type, at, at);
    else
        gen_line(r, "v%u = rk_tree<%s>(l%u);", end, gen_cuda_how(how), at);
}

static void put_reduce(gen_render *r, kir_ref at, kir_ref end, const char *n) {
    gen_line(r, "%s v%u;", gen_class_type(r->f->insts[end].cls), end);
    gen_line(r, "{");
    r->depth++;
    gen_cuda_barrier(r, at);
    if (gen_held_is(r, at) && r->f->insts[at].u.reduce == KIR_ARGMAX)
        gen_held_argmax(r, at, end, n);
    else if (gen_held_is(r, at))
        gen_held_reduce(r, at, end, n);
    else if (r->s->steps[at].kind != SCHED_THREAD)
        put_stepped_reduce(r, at, end, n);
    else
        gen_dealt_reduce(r, at, end, n);
    gen_cuda_barrier(r, at);
    gen_close(r);
}

/* Instructions that a team runs in step, on equal values. */
static void put_together(gen_render *r, kir_ref from, kir_ref to) {
    char n[GEN_NAME_SIZE];

    for (kir_ref at = from; at < to; at++) {
        const kir_inst *in = &r->f->insts[at];
        kir_ref end = r->s->steps[at].end;
        if (kir_op_table(in->op)->shape != KIR_SHAPE_BEGIN) {
            if (in->op == KIR_STORE)
                put_store(r, at);
            else
                gen_statement(r, at);
            continue;
        }
        gen_text(r, in->in[0], n, sizeof n);
        if (in->op == KIR_REDUCE) {
            put_reduce(r, at, end, n);
        } else if (in->op == KIR_LOOP) {
            gen_ahead_ask(r, at, to);
            put_loop(r, at, end, n);
            gen_ahead_done(r, at);
        } else {
            gen_open(r, "if (%s)", n);
            put_together(r, at + 1, end);
            gen_close(r);
        }
        at = end;
    }
}

/* The body of an item: blocks of other parts than this one's are left to others. */
static void put_parts(gen_render *r, kir_ref from, kir_ref to) {
    for (kir_ref at = from; at < to; at++) {
        const sched_step *step = &r->s->steps[at];
        if (kir_op_table(r->f->insts[at].op)->shape != KIR_SHAPE_BEGIN) {
            gen_statement(r, at);
            continue;
        }
        gen_open(r, "if (part == %u)", step->part);
        put_together(r, at, step->end + 1);
        gen_close(r);
        at = step->end;
    }
}

static void put_items(gen_render *r, kir_ref at) {
    const sched_step *step = &r->s->steps[at];

    if (step->kind == SCHED_GRID) {
        gen_open(r,
                 "for (long long i%u = blockIdx.x * (long long)blockDim.x + threadIdx.x; i%u < "
                 "items; i%u += "
                 "(long long)gridDim.x * blockDim.x)",
                 at, at, at);
        gen_alone(r, at + 1, step->end);
    } else if (step->kind == SCHED_HALF) {
        gen_open(r,
                 "for (long long t = blockIdx.x * %uLL + threadIdx.x / 32 * 2; t < items; t += "
                 "gridDim.x * %uLL)",
                 r->s->launch.per_block, r->s->launch.per_block);
        gen_line(r, "const bool mine = t + rk_half_rank() < items;");
        gen_line(r, "const long long i%u = mine ? t + rk_half_rank() : items - 1;", at);
        put_together(r, at + 1, step->end);
    } else if (r->s->launch.parts > 1) {
        gen_open(r, "for (long long t = blockIdx.x; t < items; t += gridDim.x)");
        gen_line(r, "const long long i%u = t / %u;", at, r->s->launch.parts);
        gen_line(r, "const int part = (int)(t %% %u);", r->s->launch.parts);
        put_parts(r, at + 1, step->end);
    } else {
        gen_open(r, "for (long long i%u = blockIdx.x; i%u < items; i%u += gridDim.x)", at, at, at);
        put_together(r, at + 1, step->end);
        gen_cuda_barrier(r, at);
    }
    gen_close(r);
}

static const char *constness(const kir_buf *b) {
    return b->written ? "" : "const ";
}

/* No __restrict__: what is only read would then be read past the coherent caches, even before rk_wait, while the kernel in
 * front still writes it. */
static void put_bufs(gen_render *r) {
    const kir_func *f = r->f;

    for (uint32_t i = 0; i < f->n_bufs; i++) {
        const kir_buf *b = &f->bufs[i];
        const char *type = gen_elem_type(b->dtype), *c = constness(b);
        const char *slot = f->form == KIR_KERNEL && !r->item ? "a%u" : "arg[%u]";
        char pointer[24];
        (void)snprintf(pointer, sizeof pointer, slot, b->slot);
        if (r->s->places[i].space == SCHED_ARG)
            gen_line(r, "%s%s *const b_%s = (%s%s *)(%s + %" PRId64 ");", c, type, b->name, c, type,
                     pointer, b->offset);
        else if (r->s->places[i].space == SCHED_SHARED)
            gen_line(r, "__shared__ %s b_%s[%" PRId64 "];", type, b->name, b->size ? b->size : 1);
        else if (r->s->places[i].space == SCHED_REGISTER)
            gen_line(r, "%s b_%s[%" PRId64 "];", type, b->name, gen_held_elements(r, b->size));
    }
}

static void put_kernel_head(gen_render *r) {
    const sched_launch *l = &r->s->launch;
    const uint32_t n_dims = ir_dims_symbol_count(r->f->dims);

    base_buf_printf(r->out, "extern \"C\" __global__ void __launch_bounds__(%u", l->threads);
    if (l->at_once) base_buf_printf(r->out, ", %u", l->at_once);
    base_buf_printf(r->out, ") %s(", r->f->name);
    for (uint32_t i = 0; i < l->n_args; i++) base_buf_printf(r->out, "char *a%u, ", i);
    for (uint32_t i = 0; i < n_dims; i++) base_buf_printf(r->out, "long long d%u, ", i);
    base_buf_puts(r->out, "long long items)\n{\n");
    r->depth++;
    gen_line(r, "rk_launch_dependents();");
    gen_line(r, "rk_wait();");
    if (!n_dims) return;
    gen_line(r, "const long long dim[%u] = {", n_dims);
    for (uint32_t i = 0; i < n_dims; i++) gen_line(r, "    d%u,", i);
    gen_line(r, "};");
}

static void put_fragment_head(gen_render *r) {
    const kir_func *f = r->f;

    base_buf_printf(r->out, "RP_INLINE void %s(char *const *arg, const long long *dim", f->name);
    for (uint32_t i = 0; i < f->n_params; i++) base_buf_printf(r->out, ", long long p%u", i);
    for (uint32_t i = 0; i < f->n_bufs; i++) {
        const kir_buf *b = &f->bufs[i];
        if (b->space != KIR_SCRATCH) continue;
        base_buf_printf(r->out, ",\n    %s%s *__restrict__ b_%s", constness(b),
                        gen_elem_type(b->dtype), b->name);
    }
    base_buf_puts(r->out, ")\n{\n");
    r->depth++;
}

/* The body, with buffers and dims in front; one item where r->item. */
static void put_kernel_body(gen_render *r) {
    const kir_func *f = r->f;

    put_bufs(r);
    gen_dims(r);
    for (kir_ref at = 0; at < f->n_insts; at++) {
        if (f->insts[at].op != KIR_PAR) {
            gen_statement(r, at);
            continue;
        }
        if (r->item) {
            gen_line(r, "const long long i%u = item;", at);
            put_together(r, at + 1, r->s->steps[at].end);
        } else {
            put_items(r, at);
        }
        at = r->s->steps[at].end;
    }
}

rp_status gen_cuda_item(const sched *s, const char *name, uint32_t threads, base_buf *out,
                        rp_error *err) {
    gen_render r;

    RP_TRY(gen_render_init(&r, s, out, err));
    r.cuda = r.item = true;
    r.threads = threads;
    r.warp = threads == 32;
    (void)snprintf(r.size, sizeof r.size, "%u", threads);
    base_buf_printf(
        out, "RP_INLINE void %s(char *const *arg, const long long *dim, long long item)\n{\n",
        name);
    r.depth++;
    put_kernel_body(&r);
    gen_close(&r);
    base_buf_putc(out, '\n');
    gen_render_done(&r);
    return base_buf_status(out, err);
}

rp_status gen_cuda_func(const sched *s, base_buf *out, rp_error *err) {
    gen_render r;

    RP_TRY(gen_render_init(&r, s, out, err));
    r.cuda = true;
    if (s->f->form == KIR_KERNEL) {
        (void)snprintf(r.size, sizeof r.size, "%u", s->launch.threads);
        put_kernel_head(&r);
        put_kernel_body(&r);
    } else {
        put_fragment_head(&r);
        put_bufs(&r);
        gen_dims(&r);
        put_together(&r, 0, s->f->n_insts);
    }
    gen_close(&r);
    base_buf_putc(out, '\n');
    gen_render_done(&r);
    return base_buf_status(out, err);
}
