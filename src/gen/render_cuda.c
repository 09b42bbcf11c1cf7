/* Kernel IR as CUDA C.
 *
 * A kernel of plain items gives one to each thread in a grid-stride loop. One with loops, reductions or
 * scratch gives each item to a block: every thread computes what belongs to the item, loops with independent
 * iterations and reductions are dealt to the threads, loops around such loops to the warps, all else runs in step with a
 * barrier where stores meet other accesses. Sums keep the 16 lanes of the host, so results are equal bit for bit. A fragment is run
 * in the same way by a warp, so that a template can run several side by side.
 *
 * Parameters: char *a0.. (arguments), long long d0.. (symbols), long long items. */
#include "gen/gen.h"
#include "gen/render.h"

#include "base/embed.h"

#include <inttypes.h>
#include <stdio.h>

BASE_EMBED(prelude_h);
BASE_EMBED(kernel_h);
BASE_EMBED(prelude_cuda_h);

#define MAX_THREADS 256       /* of plain items */
#define MAX_TEAM 1024         /* RK_BLOCK: of a block an item */
#define WARP_WORK 16          /* iterations that are worth a warp */
#define MAX_SHARED (40 << 10) /* of 48 KB; the rest is for reductions */

void gen_cuda_prelude(base_buf *out) {
    base_buf_add(out, rp_embed_prelude_cuda_h, rp_embed_prelude_cuda_h_size);
    base_buf_add(out, rp_embed_prelude_h, rp_embed_prelude_h_size);
    base_buf_add(out, rp_embed_kernel_h, rp_embed_kernel_h_size);
}

static bool has_blocks(const kir_func *f) {
    for (kir_ref at = 0; at < f->n_insts; at++) {
        if (f->insts[at].op == KIR_LOOP || f->insts[at].op == KIR_REDUCE) return true;
    }
    for (uint32_t i = 0; i < f->n_bufs; i++) {
        if (f->bufs[i].space == KIR_SCRATCH) return true;
    }
    return false;
}

static int64_t shared_bytes(const kir_func *f) {
    int64_t n = 0;

    for (uint32_t i = 0; i < f->n_bufs; i++) {
        const kir_buf *b = &f->bufs[i];
        if (b->space == KIR_SCRATCH) n += b->size * (int64_t)rp_dtype_block_bytes(b->dtype);
    }
    return n;
}

/* A loop or reduction inside of the one at `at` has enough for a warp. */
static bool holds_warp_work(const kir_func *f, kir_ref at) {
    uint32_t depth = 0;

    for (kir_ref i = at; i < f->n_insts; i++) {
        const kir_inst *in = &f->insts[i];
        kir_shape shape = kir_op_table(in->op)->shape;
        bool loops = in->op == KIR_LOOP || in->op == KIR_REDUCE;
        if (i > at && loops && f->ranges[in->in[0]].hi >= WARP_WORK) return true;
        if (shape == KIR_SHAPE_BEGIN) depth++;
        if (shape == KIR_SHAPE_END && --depth == 0) return false;
    }
    return false;
}

gen_cuda_launch gen_cuda_launch_of(const kir_func *f) {
    gen_cuda_launch l = {.threads = MAX_THREADS,
                         .n_args = gen_slots(f),
                         .n_dims = ir_dims_symbol_count(f->dims),
                         .block_per_item = has_blocks(f),
                         .parts = 1,
                         .shared = shared_bytes(f)};
    int64_t widest = 32;

    if (!l.block_per_item) return l;
    for (kir_ref at = 0; at < f->n_insts; at++) {
        const kir_inst *in = &f->insts[at];
        if (in->op != KIR_LOOP && in->op != KIR_REDUCE) continue;
        int64_t n = f->ranges[in->in[0]].hi;
        if (n < MAX_TEAM && holds_warp_work(f, at)) n *= 32;
        if (n > widest) widest = n;
    }
    l.parts = gen_parts_of(f).n;
    l.threads = (uint32_t)((widest < MAX_TEAM ? widest + 31 : MAX_TEAM) / 32 * 32);
    return l;
}

static void put_together(gen_render *r, kir_ref from, kir_ref to);

/* Who runs it in step: this thread's number among them, how many they are, and what their reductions are called. */
static const char *own_number(const gen_render *r) {
    return r->warp ? "rk_lane()" : "threadIdx.x";
}

static const char *team_size(const gen_render *r) {
    return r->warp ? "32" : "blockDim.x";
}

static const char *team_name(const gen_render *r) {
    return r->warp ? "warp" : "block";
}

static void put_barrier(gen_render *r) {
    gen_line(r, r->warp ? "__syncwarp();" : "__syncthreads();");
}

/* Some store in (at, end) needs barriers around. */
static bool stores_need_order(const gen_render *r, kir_ref at, kir_ref end) {
    for (; at <= end; at++) {
        if (r->f->insts[at].op == KIR_STORE && gen_needs_order(r->f, r->f->insts[at].u.buf))
            return true;
    }
    return false;
}

static void put_store(gen_render *r, kir_ref at) {
    bool order = stores_need_order(r, at, at);

    if (order) put_barrier(r);
    gen_open(r, "if (%s == 0)", own_number(r));
    gen_statement(r, at);
    gen_close(r);
    if (order) put_barrier(r);
}

/* Dealing pays where there is work for a warp, or nothing inside that could be dealt instead. */
static bool is_dealt(const gen_render *r, kir_ref at) {
    return gen_is_independent(r, at) &&
           (!r->nested[at] || r->f->ranges[r->f->insts[at].in[0]].hi >= 32);
}

/* A warp an iteration: the team inside is the warp. */
static void put_warps_loop(gen_render *r, kir_ref at, kir_ref end, const char *n) {
    gen_open(r, "for (long long i%u = threadIdx.x / 32; i%u < %s; i%u += blockDim.x / 32)", at, at,
             n, at);
    r->warp = true;
    put_together(r, at + 1, end);
    r->warp = false;
    gen_close(r);
}

static void put_loop(gen_render *r, kir_ref at, kir_ref end, const char *n) {
    bool apart = gen_is_independent(r, at);
    bool warps = apart && !r->warp && r->nested[at] && holds_warp_work(r->f, at);
    bool order = (warps || is_dealt(r, at)) && stores_need_order(r, at, end);

    if (order) put_barrier(r);
    if (warps) {
        put_warps_loop(r, at, end, n);
    } else if (is_dealt(r, at)) {
        gen_open(r, "for (long long i%u = %s; i%u < %s; i%u += %s)", at, own_number(r), at, n, at,
                 team_size(r));
        gen_serial(r, at + 1, end);
        gen_close(r);
    } else {
        gen_open(r, "for (long long i%u = 0; i%u < %s; i%u++)", at, at, n, at);
        put_together(r, at + 1, end);
        gen_close(r);
    }
    if (order) put_barrier(r);
}

static const char *how_name(kir_reduce how) {
    static const char *const names[] = {"RK_SUM", "RK_PROD", "RK_MAX", "RK_MIN"};
    return names[how];
}

/* Open: `c` counts rounds, each thread has element i<at> if that is below the extent. */
static void open_rounds(gen_render *r, kir_ref at, const char *n) {
    gen_open(r, "for (long long c%u = 0; c%u < %s; c%u += %s)", at, at, n, at, team_size(r));
    gen_line(r, "const long long i%u = c%u + %s;", at, at, own_number(r));
}

static void put_dealt_argmax(gen_render *r, kir_ref at, kir_ref end, const char *n) {
    kir_ref value = r->f->insts[end].in[0];
    const char *type = gen_class_type(r->f->insts[value].cls);
    char v[GEN_NAME_SIZE];

    gen_text(r, value, v, sizeof v);
    gen_line(r, "rk_best<%s> a%u = {0, -1};", type, at);
    open_rounds(r, at, n);
    gen_open(r, "if (i%u < %s)", at, n);
    gen_serial(r, at + 1, end);
    gen_line(r, "const rk_best<%s> e%u = {%s, i%u};", type, at, v, at);
    gen_line(r, "a%u = rk_better(a%u, e%u);", at, at, at);
    gen_close(r);
    gen_close(r);
    gen_line(r, "a%u = rk_%s_best(a%u);", at, team_name(r), at);
    gen_line(r, "v%u = a%u.at < 0 ? 0 : (rp_i32)a%u.at;", end, at, at);
}

/* A sum that may be of more than one chunk (src/kir/kir.h). */
static bool has_chunks(const gen_render *r, kir_ref at, kir_class cls) {
    const kir_inst *in = &r->f->insts[at];
    return in->u.reduce == KIR_SUM && kir_is_float(cls) && r->f->ranges[in->in[0]].hi > KIR_CHUNK;
}

static void put_dealt_reduce(gen_render *r, kir_ref at, kir_ref end, const char *n) {
    kir_ref value = r->f->insts[end].in[0];
    kir_class cls = r->f->insts[value].cls;
    kir_reduce how = r->f->insts[at].u.reduce;
    const char *type = gen_class_type(cls), *start = gen_neutral(how, cls);
    char v[GEN_NAME_SIZE];

    bool chunks = has_chunks(r, at, cls);
    gen_text(r, value, v, sizeof v);
    gen_line(r, "%s a%u = %s;", type, at, start);
    if (chunks) gen_line(r, "double t%u = 0.0;", at);
    open_rounds(r, at, n);
    if (chunks) { /* rounds are of a power of two up to 256, so that chunks end with them */
        gen_open(r, "if (c%u && c%u %% %d == 0)", at, at, KIR_CHUNK);
        gen_line(r, "t%u += (double)rk_%s_end<RK_SUM>(a%u);", at, team_name(r), at);
        gen_line(r, "a%u = %s;", at, start);
        gen_close(r);
    }
    gen_line(r, "%s e%u = %s;", type, at, start);
    gen_open(r, "if (i%u < %s)", at, n);
    gen_serial(r, at + 1, end);
    gen_line(r, "e%u = %s;", at, v);
    gen_close(r);
    gen_line(r, "a%u = rk_%s_step<%s>(a%u, e%u, %s - c%u);", at, team_name(r), how_name(how), at,
             at, n, at);
    gen_close(r);
    if (chunks)
        gen_line(r, "v%u = (%s)(t%u + (double)rk_%s_end<RK_SUM>(a%u));", end, type, at,
                 team_name(r), at);
    else
        gen_line(r, "v%u = rk_%s_end<%s>(a%u);", end, team_name(r), how_name(how), at);
}

/* Every thread runs the whole reduction; what is inside may be dealt. */
static void put_stepped_reduce(gen_render *r, kir_ref at, kir_ref end, const char *n) {
    kir_ref value = r->f->insts[end].in[0];
    kir_class cls = r->f->insts[value].cls;
    kir_reduce how = r->f->insts[at].u.reduce;
    const char *type = gen_class_type(cls), *start = gen_neutral(how, cls);
    char v[GEN_NAME_SIZE];

    gen_text(r, value, v, sizeof v);
    if (how == KIR_ARGMAX) {
        gen_line(r, "rk_best<%s> a%u = {0, -1};", type, at);
    } else {
        gen_line(r, "%s l%u[16];", type, at);
        gen_line(r, "for (int k%u = 0; k%u < 16; k%u++) l%u[k%u] = %s;", at, at, at, at, at, start);
    }
    bool chunks = has_chunks(r, at, cls);
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
        const char *lane = how == KIR_PROD ? "0" : "";
        char index[32];
        (void)snprintf(index, sizeof index, *lane ? "0" : "i%u & 15", at);
        gen_line(r, "l%u[%s] = rk_join<%s>(l%u[%s], %s);", at, index, how_name(how), at, index, v);
    }
    gen_close(r);
    if (how == KIR_ARGMAX)
        gen_line(r, "v%u = a%u.at < 0 ? 0 : (rp_i32)a%u.at;", end, at, at);
    else if (how == KIR_PROD)
        gen_line(r, "v%u = l%u[0];", end, at);
    else if (chunks)
        gen_line(r, "v%u = (%s)(t%u + (double)rk_tree<RK_SUM>(l%u));", end, type, at, at);
    else
        gen_line(r, "v%u = rk_tree<%s>(l%u);", end, how_name(how), at);
}

static void put_reduce(gen_render *r, kir_ref at, kir_ref end, const char *n) {
    bool order = stores_need_order(r, at, end), dealt = is_dealt(r, at);

    gen_line(r, "%s v%u;", gen_class_type(r->f->insts[end].cls), end);
    gen_line(r, "{");
    r->depth++;
    if (dealt && order) put_barrier(r);
    if (!dealt)
        put_stepped_reduce(r, at, end, n);
    else if (r->f->insts[at].u.reduce == KIR_ARGMAX)
        put_dealt_argmax(r, at, end, n);
    else
        put_dealt_reduce(r, at, end, n);
    if (dealt && order) put_barrier(r);
    gen_close(r);
}

/* Instructions that all threads of a block run in step, on equal values. */
static void put_together(gen_render *r, kir_ref from, kir_ref to) {
    char n[GEN_NAME_SIZE];

    for (kir_ref at = from; at < to; at++) {
        const kir_inst *in = &r->f->insts[at];
        kir_ref end = r->partner[at];
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
            put_loop(r, at, end, n);
        } else {
            gen_open(r, "if (%s)", n);
            put_together(r, at + 1, end);
            gen_close(r);
        }
        at = end;
    }
}

/* The body of an item: blocks of other parts than this one's are left to others. */
static void put_parts(gen_render *r, kir_ref from, kir_ref to, const gen_parts *p) {
    uint32_t n = 0;

    for (kir_ref at = from; at < to; at++) {
        if (kir_op_table(r->f->insts[at].op)->shape != KIR_SHAPE_BEGIN) {
            gen_statement(r, at);
            continue;
        }
        gen_open(r, "if (part == %u)", p->of[n++]);
        put_together(r, at, r->partner[at] + 1);
        gen_close(r);
        at = r->partner[at];
    }
}

static void put_par(gen_render *r, kir_ref at, bool block_per_item) {
    kir_ref end = r->partner[at];
    gen_parts parts = gen_parts_of(r->f);

    if (!block_per_item) {
        gen_open(r,
                 "for (long long i%u = blockIdx.x * (long long)blockDim.x + threadIdx.x; i%u < "
                 "items; i%u += "
                 "(long long)gridDim.x * blockDim.x)",
                 at, at, at);
        gen_serial(r, at + 1, end);
    } else if (parts.n > 1) {
        gen_open(r, "for (long long t = blockIdx.x; t < items; t += gridDim.x)");
        gen_line(r, "const long long i%u = t / %u;", at, parts.n);
        gen_line(r, "const int part = (int)(t %% %u);", parts.n);
        put_parts(r, at + 1, end, &parts);
    } else {
        gen_open(r, "for (long long i%u = blockIdx.x; i%u < items; i%u += gridDim.x)", at, at, at);
        put_together(r, at + 1, end);
        if (shared_bytes(r->f)) put_barrier(r); /* the next item reuses scratch */
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
        if (b->space == KIR_ARG) {
            gen_line(r, "%s%s *const b_%s = (%s%s *)(%s + %" PRId64 ");", c, type, b->name, c, type,
                     pointer, b->offset);
        } else if (f->form == KIR_KERNEL) {
            gen_line(r, "__shared__ %s b_%s[%" PRId64 "];", type, b->name, b->size ? b->size : 1);
        }
    }
}

static void put_kernel_head(gen_render *r, const gen_cuda_launch *l) {
    base_buf_printf(r->out, "extern \"C\" __global__ void __launch_bounds__(%u) %s(", l->threads,
                    r->f->name);
    for (uint32_t i = 0; i < l->n_args; i++) base_buf_printf(r->out, "char *a%u, ", i);
    for (uint32_t i = 0; i < l->n_dims; i++) base_buf_printf(r->out, "long long d%u, ", i);
    base_buf_puts(r->out, "long long items)\n{\n");
    r->depth++;
    gen_line(r, "rk_launch_dependents();");
    gen_line(r, "rk_wait();");
    if (!l->n_dims) return;
    gen_line(r, "const long long dim[%u] = {", l->n_dims);
    for (uint32_t i = 0; i < l->n_dims; i++) gen_line(r, "    d%u,", i);
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
static void put_kernel_body(gen_render *r, bool block_per_item) {
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
            put_together(r, at + 1, r->partner[at]);
        } else {
            put_par(r, at, block_per_item);
        }
        at = r->partner[at];
    }
}

rp_status gen_cuda_item(const kir_func *f, const char *name, base_buf *out, rp_error *err) {
    gen_render r;

    RP_TRY(gen_render_init(&r, f, out, err));
    r.cuda = r.item = true;
    base_buf_printf(
        out, "RP_INLINE void %s(char *const *arg, const long long *dim, long long item)\n{\n",
        name);
    r.depth++;
    put_kernel_body(&r, true);
    gen_close(&r);
    base_buf_putc(out, '\n');
    gen_render_done(&r);
    return base_buf_status(out, err);
}

rp_status gen_cuda_func(const kir_func *f, base_buf *out, rp_error *err) {
    gen_cuda_launch l;
    gen_render r;

    RP_TRY(gen_render_init(&r, f, out, err));
    r.cuda = true;
    r.warp = f->form == KIR_FRAGMENT;
    l = gen_cuda_launch_of(f);
    if (f->form == KIR_KERNEL && shared_bytes(f) > MAX_SHARED) {
        gen_render_done(&r);
        return rp_fail(err, RP_UNSUPPORTED,
                       "kernel %s: %" PRId64 " bytes of scratch an item; a CUDA block has %d",
                       f->name, shared_bytes(f), MAX_SHARED);
    }
    if (f->form == KIR_KERNEL)
        put_kernel_head(&r, &l);
    else
        put_fragment_head(&r);
    if (f->form == KIR_KERNEL) {
        put_kernel_body(&r, l.block_per_item);
    } else {
        put_bufs(&r);
        gen_dims(&r);
        put_together(&r, 0, f->n_insts);
    }
    gen_close(&r);
    base_buf_putc(out, '\n');
    gen_render_done(&r);
    return base_buf_status(out, err);
}
