/* Reads the text form. Input may come from outside: every byte is suspect.
 *
 * One statement a line; blanks and `;` comments between. Appends instructions as they stand (no
 * folding), then lets the verifier judge the whole. Errors carry "line N: ". */
#include "kir/inst.h"

#include "base/alloc.h"
#include "base/map.h"
#include "base/number.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#define MAX_WORD 200

typedef struct parser {
    const char *p; /* the text is copied, so it ends with 0 */
    unsigned line;
    kir_func *f;
    base_map *values; /* number -> ref */
    rp_error *err;
} parser;

#define BAD(ps, code, ...) bad((ps), (code), __LINE__, __VA_ARGS__)

static rp_status bad(const parser *ps, rp_status code, int line, const char *fmt, ...)
    RP_PRINTF(4, 5);
static rp_status bad(const parser *ps, rp_status code, int line, const char *fmt, ...) {
    char text[300];
    va_list ap;
    base_buf b;
    rp_status st;

    base_buf_init(&b, sizeof text);
    va_start(ap, fmt);
    base_buf_vprintf(&b, fmt, ap);
    va_end(ap);
    st = base_fail(ps->err, code, __FILE__, line, "line %u: %s", ps->line,
                   b.data ? b.data : "bad kernel");
    base_buf_done(&b);
    return st;
}

static void skip_blanks(parser *ps) {
    while (*ps->p == ' ' || *ps->p == '\t' || *ps->p == '\r') ps->p++;
    if (*ps->p == ';') {
        while (*ps->p && *ps->p != '\n') ps->p++;
    }
}

static void skip_lines(parser *ps) {
    skip_blanks(ps);
    while (*ps->p == '\n') {
        ps->p++;
        ps->line++;
        skip_blanks(ps);
    }
}

static bool accept(parser *ps, const char *z) {
    size_t n = strlen(z);

    skip_blanks(ps);
    if (strncmp(ps->p, z, n) != 0) return false;
    ps->p += n;
    return true;
}

/* Printable start of what stands here, for messages. */
static const char *here(const parser *ps, char buf[24]) {
    size_t n = 0;

    while (n < 20 && isprint((unsigned char)ps->p[n])) n++;
    memcpy(buf, ps->p, n);
    buf[n] = '\0';
    return n ? buf : "end of line";
}

static rp_status expect(parser *ps, const char *z) {
    char buf[24];
    if (accept(ps, z)) return RP_OK;
    return BAD(ps, RP_INVALID, "expected '%s' at '%s'", z, here(ps, buf));
}

static bool word_char(char c, bool dots) {
    return isalnum((unsigned char)c) || c == '_' || (dots && c == '.');
}

static rp_status read_word(parser *ps, bool dots, char word[MAX_WORD]) {
    size_t n = 0;
    char buf[24];

    skip_blanks(ps);
    while (word_char(ps->p[n], dots)) n++;
    if (!n) return BAD(ps, RP_INVALID, "expected a name at '%s'", here(ps, buf));
    if (n >= MAX_WORD)
        return BAD(ps, RP_INVALID, "a name of %zu characters; the limit is %d", n, MAX_WORD - 1);
    memcpy(word, ps->p, n);
    word[n] = '\0';
    ps->p += n;
    return RP_OK;
}

static rp_status read_int(parser *ps, int64_t *out) {
    char word[32], buf[24];
    size_t n = 0;

    skip_blanks(ps);
    if (ps->p[n] == '-') n++;
    while (isdigit((unsigned char)ps->p[n])) n++;
    if (n && n < sizeof word) {
        memcpy(word, ps->p, n);
        word[n] = '\0';
        if (base_parse_i64(word, out)) {
            ps->p += n;
            return RP_OK;
        }
    }
    return BAD(ps, RP_INVALID, "expected an integer at '%s'", here(ps, buf));
}

static rp_status read_u32(parser *ps, uint32_t max, uint32_t *out) {
    int64_t v = 0;

    RP_TRY(read_int(ps, &v));
    if (v < 0 || v > max)
        return BAD(ps, RP_INVALID, "%lld is out of range 0..%u", (long long)v, max);
    *out = (uint32_t)v;
    return RP_OK;
}

static rp_status read_float(parser *ps, double *out) {
    char *stop, buf[24];
    double v;

    skip_blanks(ps);
    v = base_strtod(ps->p, &stop);
    if (stop == ps->p || word_char(*stop, true)) {
        return BAD(ps, RP_INVALID, "expected a number at '%s'", here(ps, buf));
    }
    *out = isnan(v) ? (double)NAN : v;
    ps->p = stop;
    return RP_OK;
}

static rp_status read_ref(parser *ps, kir_ref *out) {
    uint32_t number = 0;
    uint64_t v;

    RP_TRY(expect(ps, "%"));
    RP_TRY(read_u32(ps, UINT32_MAX - 1, &number));
    if (!base_map_get(ps->values, &number, sizeof number, &v)) {
        return BAD(ps, RP_INVALID, "%%%u is not defined before its use", number);
    }
    *out = (kir_ref)v;
    return RP_OK;
}

static rp_status read_dtype(parser *ps, rp_dtype *out) {
    char word[MAX_WORD];

    RP_TRY(read_word(ps, false, word));
    if (rp_dtype_parse(word, out) && kir_dtype_ok(*out)) return RP_OK;
    return BAD(ps, RP_INVALID, "'%s' is no element type of a kernel", word);
}

static rp_status read_symbol(parser *ps) {
    char name[MAX_WORD];
    int64_t lo = 0, hi = 0, by = 1;

    RP_TRY(read_word(ps, false, name));
    RP_TRY(expect(ps, ":"));
    RP_TRY(read_int(ps, &lo));
    RP_TRY(expect(ps, ".."));
    RP_TRY(read_int(ps, &hi));
    if (accept(ps, "by")) RP_TRY(read_int(ps, &by));
    if (ir_dims_find(ps->f->dims, name) != UINT32_MAX)
        return BAD(ps, RP_INVALID, "symbol %s twice", name);
    if (lo > hi || by < 1 || ir_dim_symbol(ps->f->dims, name, lo, hi, by) == IR_DIM_BAD) {
        return BAD(ps, ir_dims_refusal(ps->f->dims), "symbol %s: bad range %lld..%lld by %lld",
                   name, (long long)lo, (long long)hi, (long long)by);
    }
    return RP_OK;
}

static rp_status read_head(parser *ps) {
    char word[MAX_WORD];
    kir_form form;

    skip_lines(ps);
    RP_TRY(read_word(ps, false, word));
    if (strcmp(word, "kernel") == 0)
        form = KIR_KERNEL;
    else if (strcmp(word, "fragment") == 0)
        form = KIR_FRAGMENT;
    else
        return BAD(ps, RP_INVALID, "expected kernel or fragment, not '%s'", word);
    RP_TRY(expect(ps, "@"));
    RP_TRY(read_word(ps, false, word));
    ps->f = kir_new(word, form, NULL);
    if (!ps->f) return BAD(ps, RP_NOMEM, "out of memory");
    RP_TRY(expect(ps, "("));
    if (!accept(ps, ")")) {
        do RP_TRY(read_symbol(ps));
        while (accept(ps, ","));
        RP_TRY(expect(ps, ")"));
    }
    if (form == KIR_FRAGMENT) {
        RP_TRY(expect(ps, "params"));
        RP_TRY(read_u32(ps, 64, &ps->f->n_params));
    }
    return expect(ps, "{");
}

static rp_status read_buf(parser *ps) {
    char name[MAX_WORD];
    rp_dtype t;
    uint32_t slot = 0, buf;
    int64_t offset = 0, size = 0;
    kir_space space = KIR_ARG;

    RP_TRY(read_word(ps, false, name));
    RP_TRY(expect(ps, ":"));
    RP_TRY(read_dtype(ps, &t));
    RP_TRY(expect(ps, "="));
    if (accept(ps, "scratch")) {
        space = KIR_SCRATCH;
        RP_TRY(read_int(ps, &size));
    } else {
        RP_TRY(expect(ps, "arg"));
        RP_TRY(read_u32(ps, UINT16_MAX, &slot));
        if (accept(ps, "+")) RP_TRY(read_int(ps, &offset));
    }
    buf = kir_add_buf(ps->f, name, space, t, slot, offset, size);
    if (buf == KIR_NONE) return kir_status(ps->f, ps->err);
    if (accept(ps, ",")) {
        RP_TRY(expect(ps, "written"));
        ps->f->bufs[buf].written = true;
    }
    return RP_OK;
}

static rp_status read_op(parser *ps, kir_inst *in) {
    char word[MAX_WORD];
    ir_op alu;

    RP_TRY(read_word(ps, true, word));
    for (int op = 0; op < KIR_OP_COUNT_; op++) {
        if (op == KIR_ALU || op == KIR_END || strcmp(word, kir_op_table((kir_op)op)->text) != 0)
            continue;
        in->op = (kir_op)op;
        in->n_in = kir_op_table(in->op)->n_in;
        return RP_OK;
    }
    alu = ir_op_find(word);
    if (alu == IR_OP_COUNT_ || ir_op_table(alu)->kind != IR_KIND_ELEMENTWISE) {
        return BAD(ps, RP_INVALID, "no such operation: %s", word);
    }
    in->op = KIR_ALU;
    in->u.alu = alu;
    in->n_in = (uint32_t)ir_op_table(alu)->arity;
    return RP_OK;
}

static rp_status read_reduce(parser *ps, kir_inst *in) {
    char word[MAX_WORD];

    RP_TRY(read_word(ps, false, word));
    for (int how = KIR_SUM; how < KIR_REDUCE_COUNT_; how++) {
        if (strcmp(word, kir_reduce_name((kir_reduce)how)) != 0) continue;
        in->u.reduce = (kir_reduce)how;
        return RP_OK;
    }
    return BAD(ps, RP_INVALID, "no such reduction: %s", word);
}

static rp_status read_access(parser *ps, kir_inst *in) {
    char word[MAX_WORD];

    RP_TRY(read_word(ps, false, word));
    for (in->u.buf = 0; in->u.buf < ps->f->n_bufs; in->u.buf++) {
        if (strcmp(ps->f->bufs[in->u.buf].name, word) == 0) break;
    }
    if (in->u.buf == ps->f->n_bufs) return BAD(ps, RP_INVALID, "no buffer named %s", word);
    RP_TRY(expect(ps, "["));
    RP_TRY(read_ref(ps, &in->in[0]));
    RP_TRY(expect(ps, "]"));
    if (in->op == KIR_LOAD) return RP_OK;
    RP_TRY(expect(ps, ","));
    return read_ref(ps, &in->in[1]);
}

static rp_status read_dim(parser *ps, kir_inst *in) {
    rp_error why = {0};

    skip_blanks(ps);
    if (ir_dim_parse(ps->f->dims, &ps->p, &in->u.dim, &why) != RP_OK) {
        return BAD(ps, why.code, "%s", why.text);
    }
    return in->u.dim == IR_DIM_BAD ? BAD(ps, RP_INVALID, "a dim out of range") : RP_OK;
}

static rp_status read_operands(parser *ps, kir_inst *in) {
    if (in->op == KIR_LOAD || in->op == KIR_STORE) return read_access(ps, in);
    if (in->op == KIR_REDUCE) RP_TRY(read_reduce(ps, in));
    for (uint32_t i = 0; i < in->n_in; i++) {
        if (i) RP_TRY(expect(ps, ","));
        RP_TRY(read_ref(ps, &in->in[i]));
    }
    switch (in->op) {
    case KIR_CONST_I:
    case KIR_PARAM: return read_int(ps, &in->u.i);
    case KIR_CONST_F: return read_float(ps, &in->u.f);
    case KIR_DIM: return read_dim(ps, in);
    case KIR_SHR:
    case KIR_BAND: RP_TRY(expect(ps, ",")); return read_int(ps, &in->u.i);
    case KIR_BITS:
    case KIR_ROUND_TO: RP_TRY(expect(ps, ",")); return read_dtype(ps, &in->u.dtype);
    default: return RP_OK;
    }
}

/* Data values say their class; the class of the rest follows from the op. */
static rp_status read_class(parser *ps, kir_inst *in) {
    char out = kir_op_table(in->op)->out;

    in->cls = out == '-' ? KIR_VOID : KIR_INDEX;
    if (out == '-' || out == 'i') return RP_OK;
    RP_TRY(expect(ps, ":"));
    if (accept(ps, "f32"))
        in->cls = KIR_F32;
    else if (accept(ps, "i32"))
        in->cls = KIR_I32;
    else if (accept(ps, "i64"))
        in->cls = KIR_I64;
    else if (accept(ps, "f64"))
        in->cls = KIR_F64;
    else
        return BAD(ps, RP_INVALID, "expected f32, f64, i32 or i64 after ':'");
    return RP_OK;
}

static rp_status define(parser *ps, uint32_t number, kir_ref r) {
    uint64_t old;

    if (base_map_get(ps->values, &number, sizeof number, &old)) {
        return BAD(ps, RP_INVALID, "%%%u is defined twice", number);
    }
    return base_map_put(ps->values, &number, sizeof number, r, ps->err);
}

static rp_status read_inst(parser *ps, bool must_yield) {
    kir_inst in = {0};
    uint32_t number = 0;
    bool named = accept(ps, "%");
    kir_ref r;

    if (named) {
        RP_TRY(read_u32(ps, UINT32_MAX - 1, &number));
        RP_TRY(expect(ps, "="));
    }
    RP_TRY(read_op(ps, &in));
    RP_TRY(read_operands(ps, &in));
    RP_TRY(read_class(ps, &in));
    if (in.op == KIR_CONST_F && in.cls == KIR_F32) in.u.f = (double)(float)in.u.f;
    if ((in.op == KIR_YIELD) != must_yield)
        return BAD(ps, RP_INVALID, "yield stands behind the } of a reduce");
    if (named != (in.cls != KIR_VOID)) {
        return BAD(ps, RP_INVALID, named ? "it makes no value" : "its value needs a name");
    }
    if (kir_op_table(in.op)->shape == KIR_SHAPE_BEGIN) RP_TRY(expect(ps, "{"));
    r = kir_append(ps->f, in);
    if (r == KIR_NONE) return BAD(ps, ps->f->error.code, "%s", ps->f->error.text);
    return named ? define(ps, number, r) : RP_OK;
}

/* After "}": the end of a block, of a reduce, or of the function (*done). */
static rp_status read_close(parser *ps, bool *done) {
    if (!ps->f || !ps->f->n_open) {
        *done = true;
        return RP_OK;
    }
    if (ps->f->insts[ps->f->open[ps->f->n_open - 1]].op == KIR_REDUCE) return read_inst(ps, true);
    if (kir_append(ps->f, (kir_inst){.op = KIR_END, .cls = KIR_VOID}) != KIR_NONE) return RP_OK;
    return BAD(ps, ps->f->error.code, "%s", ps->f->error.text);
}

static rp_status read_body(parser *ps) {
    bool done = false;
    char buf[24];

    while (!done) {
        skip_lines(ps);
        if (!*ps->p) return BAD(ps, RP_INVALID, "a } is missing");
        if (accept(ps, "}"))
            RP_TRY(read_close(ps, &done));
        else if (strncmp(ps->p, "buf ", 4) == 0 && accept(ps, "buf "))
            RP_TRY(read_buf(ps));
        else
            RP_TRY(read_inst(ps, false));
        skip_blanks(ps);
        if (*ps->p && *ps->p != '\n')
            return BAD(ps, RP_INVALID, "text after the statement: '%s'", here(ps, buf));
    }
    skip_lines(ps);
    return *ps->p ? BAD(ps, RP_INVALID, "text after the function: '%s'", here(ps, buf)) : RP_OK;
}

rp_status kir_parse(const char *text, size_t len, kir_func **out, rp_error *err) {
    parser ps = {.line = 1, .err = err};
    char *copy = base_strndup(text, len);
    rp_status st;

    ps.values = base_map_new();
    if (!copy || !ps.values) {
        st = rp_fail(err, RP_NOMEM, "kernel text: out of memory");
        goto out;
    }
    ps.p = copy;
    RP_TRY_OUT(read_head(&ps));
    RP_TRY_OUT(read_body(&ps));
    RP_TRY_OUT(kir_verify(ps.f, err));
    *out = ps.f;
    ps.f = NULL;
out:
    kir_free(ps.f);
    base_map_free(ps.values);
    base_free(copy);
    return st;
}
