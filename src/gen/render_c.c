/* Scheduled kernel IR as C for the host compiler.
 *
 * Blocks become C blocks, so scopes carry over. A float SUM, MAX or MIN keeps `float l[16]` and runs the loops of its schedule
 * (a long SUM chunk by chunk): gcc and clang keep the lanes in vector registers, and the order of additions is the one that
 * kir.h fixes. */
#include "gen/gen.h"
#include "gen/render.h"

#include "base/embed.h"

#include <inttypes.h>
#include <stdio.h>

BASE_EMBED(prelude_h);
BASE_EMBED(kernel_h);

void gen_c_prelude(gen_isa isa, base_buf *out) {
    int number = isa > GEN_ISA_AVX512 ? GEN_ISA_AVX512 : (int)isa;

    base_buf_printf(out, "#ifndef RP_ISA\n#define RP_ISA %d\n#endif\n", number);
    base_buf_add(out, rp_embed_prelude_h, rp_embed_prelude_h_size);
    base_buf_add(out, rp_embed_kernel_h, rp_embed_kernel_h_size);
}

/* The 16 lanes l<at>, of class c, all at the starting value. */
static void put_lanes(gen_render *r, kir_ref at, kir_class c) {
    const char *start = gen_neutral(r->f->insts[at].u.reduce, c);
    gen_line(r, "%s l%u[16];", gen_class_type(c), at);
    gen_line(r, "for (int k%u = 0; k%u < 16; k%u++) l%u[k%u] = %s;", at, at, at, at, at, start);
}

/* to = to and then value, by the reduction's own rule. */
static void put_join(gen_render *r, kir_reduce how, const char *to, const char *value) {
    if (how == KIR_SUM)
        gen_line(r, "%s = %s + %s;", to, to, value);
    else
        gen_line(r, "%s = ((%s %c %s) | (%s != %s)) ? %s : %s;", to, to, how == KIR_MAX ? '>' : '<',
                 value, to, to, to, value);
}

static void put_lane_update(gen_render *r, kir_ref at, const char *lane, kir_ref value) {
    char v[GEN_NAME_SIZE], to[48];

    gen_text(r, value, v, sizeof v);
    (void)snprintf(to, sizeof to, "l%u[%s]", at, lane);
    put_join(r, r->f->insts[at].u.reduce, to, v);
}

static void put_tree(gen_render *r, kir_ref at, kir_ref end) {
    kir_reduce how = r->f->insts[at].u.reduce;
    const char *name = how == KIR_SUM ? "rk_sum16" : how == KIR_MAX ? "rk_max16" : "rk_min16";
    const char *wide = r->f->insts[end].cls == KIR_F64 ? "_f64" : "";

    gen_line(r, "v%u = %s%s(l%u);", end, name, wide, at);
}

static void put_counter(gen_render *r, kir_ref at, const char *value) {
    gen_line(r, "const long long i%u = %s;", at, value);
}

/* What loops over lanes run over: elements [from, from + n) of the reduction; from is "" for 0. */
typedef struct lanes {
    const char *from, *n;
} lanes;

/* Four elements of each lane become one before they meet it, in pairs. */
static void put_unrolled(gen_render *r, kir_ref at, kir_ref end, const lanes *s) {
    kir_reduce how = r->f->insts[at].u.reduce;
    char q[4][24], v[GEN_NAME_SIZE], counter[96];

    gen_open(r, "for (; c%u + 64 <= %s; c%u += 64)", at, s->n, at);
    gen_open(r, "for (int k%u = 0; k%u < 16; k%u++)", at, at, at);
    gen_line(r, "%s q%u[4];", gen_class_type(r->f->insts[end].cls), at);
    for (int i = 0; i < 4; i++) {
        (void)snprintf(q[i], sizeof q[i], "q%u[%d]", at, i);
        (void)snprintf(counter, sizeof counter, "%sc%u + %d + k%u", s->from, at, i * 16, at);
        gen_line(r, "{");
        r->depth++;
        put_counter(r, at, counter);
        gen_alone(r, at + 1, end);
        gen_line(r, "%s = %s;", q[i], gen_text(r, r->f->insts[end].in[0], v, sizeof v));
        gen_close(r);
    }
    put_join(r, how, q[0], q[1]);
    put_join(r, how, q[2], q[3]);
    put_join(r, how, q[0], q[2]);
    (void)snprintf(v, sizeof v, "l%u[k%u]", at, at);
    put_join(r, how, v, q[0]);
    gen_close(r);
    gen_close(r);
}

static void put_wide(gen_render *r, kir_ref at, kir_ref end, const char *steps,
                     const char *counter) {
    char lane[24];

    (void)snprintf(lane, sizeof lane, "k%u", at);
    gen_open(r, "for (int k%u = 0; k%u < %s; k%u++)", at, at, steps, at);
    put_counter(r, at, counter);
    gen_alone(r, at + 1, end);
    put_lane_update(r, at, lane, r->f->insts[end].in[0]);
    gen_close(r);
}

/* A body without inner loops, written for each loop of the schedule. */
static void put_vector_loops(gen_render *r, kir_ref at, kir_ref end, const lanes *s) {
    const sched_step *step = &r->s->steps[at];
    const bool wide = step->unroll || step->whole;
    char tail[GEN_NAME_SIZE + 32], counter[96];

    (void)snprintf(counter, sizeof counter, wide ? "%sc%u + k%u" : "%sk%u", s->from, at, at);
    if (wide) gen_line(r, "long long c%u = 0;", at);
    if (step->unroll) put_unrolled(r, at, end, s);
    if (step->whole) {
        gen_open(r, "for (; c%u + 16 <= %s; c%u += 16)", at, s->n, at);
        put_wide(r, at, end, "16", counter);
        gen_close(r);
    }
    if (step->tail == 0) return;
    if (step->tail > 0)
        (void)snprintf(tail, sizeof tail, "%d", step->tail);
    else if (wide)
        (void)snprintf(tail, sizeof tail, "(int)(%s - c%u)", s->n, at);
    else
        (void)snprintf(tail, sizeof tail, "(int)%s", s->n);
    put_wide(r, at, end, tail, counter);
}

static void open_loop(gen_render *r, kir_ref at, const char *from, const char *to) {
    gen_open(r, "for (long long i%u = %s; i%u < %s; i%u++)", at, from, at, to, at);
}

/* One chunk, or all: into the lanes l<at>. */
static void put_lane_loop(gen_render *r, kir_ref at, kir_ref end, const lanes *s) {
    char lane[24], from[48], to[GEN_NAME_SIZE + 48];

    put_lanes(r, at, r->f->insts[end].cls);
    if (r->s->steps[at].kind == SCHED_VECTOR) {
        put_vector_loops(r, at, end, s);
        return;
    }
    (void)snprintf(lane, sizeof lane, "i%u & 15", at);
    (void)snprintf(from, sizeof from, *s->from ? "o%u" : "0", at);
    (void)snprintf(to, sizeof to, "%s%s", s->from, s->n);
    open_loop(r, at, from, to);
    gen_alone(r, at + 1, end);
    put_lane_update(r, at, lane, r->f->insts[end].in[0]);
    gen_close(r);
}

/* A sum of more than one chunk: o<at> is where a chunk begins, m<at> its length, t<at> the sum of those before. */
static void put_chunks(gen_render *r, kir_ref at, kir_ref end, const char *n) {
    char from[24], size[24];

    (void)snprintf(from, sizeof from, "o%u + ", at);
    (void)snprintf(size, sizeof size, "m%u", at);
    const lanes s = {from, size};
    gen_line(r, "double t%u = 0.0;", at);
    gen_open(r, "for (long long o%u = 0; o%u < %s; o%u += %d)", at, at, n, at, KIR_CHUNK);
    gen_line(r, "const long long m%u = %s - o%u < %d ? %s - o%u : %d;", at, n, at, KIR_CHUNK, n, at,
             KIR_CHUNK);
    put_lane_loop(r, at, end, &s);
    bool wide = r->f->insts[end].cls == KIR_F64;
    gen_line(r, wide ? "t%u += rk_sum16_f64(l%u);" : "t%u += (double)rk_sum16(l%u);", at, at);
    gen_close(r);
    gen_line(r, wide ? "v%u = t%u;" : "v%u = (float)t%u;", end, at);
}

static void put_lane_reduce(gen_render *r, kir_ref at, kir_ref end, const char *n) {
    if (r->s->steps[at].chunks) {
        put_chunks(r, at, end, n);
        return;
    }
    put_lane_loop(r, at, end, &(lanes){"", n});
    put_tree(r, at, end);
}

/* Integer reductions have no order; PROD has one. */
static void put_plain_reduce(gen_render *r, kir_ref at, kir_ref end, const char *n) {
    kir_ref value = r->f->insts[end].in[0];
    kir_class cls = r->f->insts[value].cls;
    kir_reduce how = r->f->insts[at].u.reduce;
    char v[GEN_NAME_SIZE];

    gen_text(r, value, v, sizeof v);
    gen_line(r, "%s a%u = %s;", gen_class_type(cls), at, gen_neutral(how, cls));
    open_loop(r, at, "0", n);
    gen_alone(r, at + 1, end);
    if (how == KIR_SUM || how == KIR_PROD) {
        const char *op = how == KIR_SUM ? "+" : "*";
        if (kir_is_float(cls))
            gen_line(r, "a%u = a%u %s %s;", at, at, op, v);
        else if (cls == KIR_I64)
            gen_line(r, "a%u = (rp_i64)((rp_u64)a%u %s (rp_u64)%s);", at, at, op, v);
        else
            gen_line(r, "a%u = (rp_i32)((rp_u32)a%u %s (rp_u32)%s);", at, at, op, v);
    } else {
        gen_line(r, "a%u = %s %c a%u ? %s : a%u;", at, v, how == KIR_MAX ? '>' : '<', at, v, at);
    }
    gen_close(r);
    gen_line(r, "v%u = a%u;", end, at);
}

/* Sums of chunks. */
static void put_chain(gen_render *r, kir_ref at, kir_ref end, const char *n) {
    char v[GEN_NAME_SIZE];

    gen_text(r, r->f->insts[end].in[0], v, sizeof v);
    gen_line(r, "double t%u = 0.0;", at);
    open_loop(r, at, "0", n);
    gen_alone(r, at + 1, end);
    gen_line(r, "t%u += (double)%s;", at, v);
    gen_close(r);
    gen_line(r, "v%u = (%s)t%u;", end, gen_class_type(r->f->insts[end].cls), at);
}

static void put_argmax(gen_render *r, kir_ref at, kir_ref end, const char *n) {
    kir_ref value = r->f->insts[end].in[0];
    kir_class cls = r->f->insts[value].cls;
    char v[GEN_NAME_SIZE];

    gen_text(r, value, v, sizeof v);
    gen_line(r, "%s a%u = 0;", gen_class_type(cls), at);
    gen_line(r, "long long w%u = 0;", at);
    open_loop(r, at, "0", n);
    gen_alone(r, at + 1, end);
    gen_line(r, "if (i%u == 0 || %s > a%u || (%s != %s && a%u == a%u)) {", at, v, at, v, v, at, at);
    gen_line(r, "    a%u = %s;", at, v);
    gen_line(r, "    w%u = i%u;", at, at);
    gen_line(r, "}");
    gen_close(r);
    gen_line(r, "v%u = (rp_i32)w%u;", end, at);
}

/* Whether what stands in the block is done once or not at all, which vectors of the host do under a mask. */
static bool is_masked(const gen_render *r, kir_ref at) {
    const kir_func *f = r->f;
    const kir_inst *in = &f->insts[at];
    int64_t n;

    return !r->cuda && (in->op == KIR_IF || in->op == KIR_REDUCE) &&
           !kir_const_value(f, in->in[0], &n) && f->ranges[in->in[0]].lo >= 0 &&
           f->ranges[in->in[0]].hi <= 1;
}

static bool has_masks(const gen_render *r) {
    for (kir_ref at = 0; at < r->f->n_insts; at++)
        if (is_masked(r, at)) return true;
    return false;
}

/* What the block at is begun with. */
static void put_condition(gen_render *r, kir_ref at, char *out, size_t size) {
    char n[GEN_NAME_SIZE];

    gen_text(r, r->f->insts[at].in[0], n, sizeof n);
    (void)snprintf(out, size, is_masked(r, at) ? "(%s & one)" : "%s", n);
}

static void put_reduce(gen_render *r, kir_ref at, kir_ref end) {
    const kir_inst *in = &r->f->insts[at];
    char n[GEN_NAME_SIZE + 8];

    put_condition(r, at, n, sizeof n);
    gen_line(r, "%s v%u;", gen_class_type(r->f->insts[end].cls), end);
    gen_line(r, "{");
    r->depth++;
    if (in->u.reduce == KIR_ARGMAX)
        put_argmax(r, at, end, n);
    else if (in->u.reduce == KIR_CHAIN)
        put_chain(r, at, end, n);
    else if (in->u.reduce == KIR_PROD || kir_is_int(r->f->insts[end].cls))
        put_plain_reduce(r, at, end, n);
    else
        put_lane_reduce(r, at, end, n);
    gen_close(r);
}

static void put_unroll(gen_render *r, kir_ref at) {
    if (r->s->steps[at].unroll) gen_line(r, "RP_UNROLL(%u)", r->s->steps[at].unroll);
}

static void put_begin(gen_render *r, kir_ref at, kir_ref end) {
    const kir_inst *in = &r->f->insts[at];
    char n[GEN_NAME_SIZE + 8];

    put_condition(r, at, n, sizeof n);
    switch (in->op) {
    case KIR_REDUCE: put_reduce(r, at, end); return;
    case KIR_PAR:
        put_unroll(r, at);
        open_loop(r, at, "begin", "end");
        break;
    case KIR_LOOP:
        put_unroll(r, at);
        open_loop(r, at, "0", n);
        break;
    default: gen_open(r, "if (%s)", n); break;
    }
    gen_alone(r, at + 1, end);
    gen_close(r);
}

void gen_alone(gen_render *r, kir_ref from, kir_ref to) {
    for (kir_ref at = from; at < to; at++) {
        if (kir_op_table(r->f->insts[at].op)->shape == KIR_SHAPE_BEGIN) {
            put_begin(r, at, r->s->steps[at].end);
            at = r->s->steps[at].end;
        } else {
            gen_statement(r, at);
        }
    }
}

static const char *constness(const kir_buf *b) {
    return b->written ? "" : "const ";
}

static void put_param(gen_render *r, uint32_t buf) {
    const kir_buf *b = &r->f->bufs[buf];
    base_buf_printf(r->out, "%s%s *%sb_%s", constness(b), gen_elem_type(b->dtype),
                    gen_buf_aliases(r->f, buf) ? "" : "restrict ", b->name);
}

static void put_vector(gen_render *r) {
    if (r->s->launch.vector) gen_line(r, "RP_VECTOR(%u)", r->s->launch.vector);
}

/* The work: buffers are parameters, because only there a compiler trusts restrict. */
static void put_body(gen_render *r) {
    const kir_func *f = r->f;

    put_vector(r);
    base_buf_printf(r->out, "RP_INLINE void %s_body(const long long *dim", f->name);
    if (f->form == KIR_KERNEL) base_buf_puts(r->out, ", long long begin, long long end");
    for (uint32_t i = 0; i < f->n_params; i++) base_buf_printf(r->out, ", long long p%u", i);
    for (uint32_t i = 0; i < f->n_bufs; i++) {
        base_buf_puts(r->out, ",\n    ");
        put_param(r, i);
    }
    base_buf_puts(r->out, ")\n{\n");
    r->depth++;
    gen_line(r, "(void)dim;");
    if (has_masks(r)) {
        gen_line(r, "int one = 1;");
        gen_line(r, "RP_HIDE(one);");
    }
    gen_dims(r);
    gen_alone(r, 0, f->n_insts);
    gen_close(r);
    base_buf_putc(r->out, '\n');
}

static void put_head(gen_render *r) {
    const kir_func *f = r->f;

    if (f->form == KIR_KERNEL) {
        gen_line(r, "__attribute__((visibility(\"default\")))");
        put_vector(r);
        gen_line(r,
                 "void %s(void *const *arg, const long long *dim, long long begin, long long end,",
                 f->name);
        gen_line(r, "    void *scratch)");
    } else {
        base_buf_printf(r->out, "RP_INLINE void %s(void *const *arg, const long long *dim",
                        f->name);
        for (uint32_t i = 0; i < f->n_params; i++) base_buf_printf(r->out, ", long long p%u", i);
        for (uint32_t i = 0; i < f->n_bufs; i++) {
            if (f->bufs[i].space != KIR_SCRATCH) continue;
            base_buf_puts(r->out, ",\n    ");
            put_param(r, i);
        }
        base_buf_puts(r->out, ")\n");
    }
    gen_line(r, "{");
    r->depth++;
}

/* Calls the body with the addresses of the buffers. */
static void put_call(gen_render *r) {
    const kir_func *f = r->f;

    gen_line(r, f->form == KIR_KERNEL ? "(void)arg, (void)scratch;" : "(void)arg;");
    base_buf_printf(r->out, "    %s_body(dim%s", f->name,
                    f->form == KIR_KERNEL ? ", begin, end" : "");
    for (uint32_t i = 0; i < f->n_params; i++) base_buf_printf(r->out, ", p%u", i);
    for (uint32_t i = 0; i < f->n_bufs; i++) {
        const kir_buf *b = &f->bufs[i];
        const char *type = gen_elem_type(b->dtype), *c = constness(b);
        base_buf_puts(r->out, ",\n        ");
        switch (r->s->places[i].space) {
        case SCHED_ARG:
            base_buf_printf(r->out, "(%s%s *)((char *)arg[%u] + %" PRId64 ")", c, type, b->slot,
                            b->offset);
            break;
        case SCHED_LOCAL:
            base_buf_printf(r->out,
                            "(%s%s *)__builtin_assume_aligned((char *)scratch + %" PRId64 ", %d)",
                            c, type, r->s->places[i].offset, SCHED_LOCAL_ALIGN);
            break;
        default: base_buf_printf(r->out, "b_%s", b->name); break;
        }
    }
    base_buf_puts(r->out, ");\n");
}

rp_status gen_c_func(const sched *s, base_buf *out, rp_error *err) {
    gen_render r;

    RP_TRY(gen_render_init(&r, s, out, err));
    put_body(&r);
    put_head(&r);
    put_call(&r);
    gen_close(&r);
    base_buf_putc(out, '\n');
    gen_render_done(&r);
    return base_buf_status(out, err);
}
