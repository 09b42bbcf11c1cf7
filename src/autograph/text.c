/* The state of a manager in the words of MagiCompiler's formatted_cache_str: signatures and templates as Python prints its
 * dataclasses, tuples, lists and dicts. */
#include <inttypes.h>
#include <math.h>

#include "autograph/manager.h"
#include "base/alloc.h"
#include "base/number.h"
#include "base/status.h"

static const char *torch_dtype(rp_dtype t) {
    static const char *const names[RP_DTYPE_COUNT_] = {[RP_DTYPE_F32] = "torch.float32",
                                                       [RP_DTYPE_F16] = "torch.float16",
                                                       [RP_DTYPE_BF16] = "torch.bfloat16",
                                                       [RP_DTYPE_F64] = "torch.float64",
                                                       [RP_DTYPE_I64] = "torch.int64",
                                                       [RP_DTYPE_I32] = "torch.int32",
                                                       [RP_DTYPE_I16] = "torch.int16",
                                                       [RP_DTYPE_I8] = "torch.int8",
                                                       [RP_DTYPE_U8] = "torch.uint8",
                                                       [RP_DTYPE_BOOL] = "torch.bool",
                                                       [RP_DTYPE_F8E4M3FN] = "torch.float8_e4m3fn",
                                                       [RP_DTYPE_F8E5M2] = "torch.float8_e5m2"};
    return names[t] ? names[t] : rp_dtype_name(t); /* block formats are not torch's */
}

/* [2, 512, 1024] */
static void put_sizes(base_buf *b, const rp_buffer *t) {
    base_buf_putc(b, '[');
    for (uint32_t i = 0; i < t->rank; i++)
        base_buf_printf(b, "%s%" PRId64, i ? ", " : "", t->dim[i]);
    base_buf_putc(b, ']');
}

/* --- literals and trees ---------------------------------------------------------------------- */

static void put_string(base_buf *b, const char *z) {
    char quote = strchr(z, '\'') && !strchr(z, '"') ? '"' : '\'';
    base_buf_putc(b, quote);
    for (; *z; z++) {
        unsigned char c = (unsigned char)*z;
        if (c == (unsigned char)quote || c == '\\')
            base_buf_printf(b, "\\%c", c);
        else if (c == '\n' || c == '\t' || c == '\r')
            base_buf_puts(b, c == '\n' ? "\\n" : c == '\t' ? "\\t" : "\\r");
        else if (c < 32 || c == 127)
            base_buf_printf(b, "\\x%02x", c);
        else
            base_buf_putc(b, (char)c);
    }
    base_buf_putc(b, quote);
}

/* The fewest digits that give it back. */
static void put_float(base_buf *b, double x) {
    char text[40];
    if (!isfinite(x)) {
        base_buf_puts(b, isnan(x) ? "nan" : x > 0 ? "inf" : "-inf");
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        double back = 0.0;
        (void)base_snprintf(text, sizeof text, "%.*g", digits, x);
        if (base_parse_f64(text, &back) && back == x) break;
    }
    base_buf_puts(b, text);
    if (!strpbrk(text, ".e")) base_buf_puts(b, ".0");
}

static bool is_literal(const rp_value *v) {
    return v->kind == RP_VALUE_BOOL || v->kind == RP_VALUE_INT || v->kind == RP_VALUE_FLOAT ||
           v->kind == RP_VALUE_STRING;
}

static void put_literal(base_buf *b, const rp_value *v) {
    if (v->kind == RP_VALUE_BOOL) base_buf_puts(b, v->as.boolean ? "True" : "False");
    if (v->kind == RP_VALUE_INT) base_buf_printf(b, "%" PRId64, v->as.integer);
    if (v->kind == RP_VALUE_FLOAT) put_float(b, v->as.number);
    if (v->kind == RP_VALUE_STRING) put_string(b, v->as.string);
}

typedef void (*put_tensor)(base_buf *b, const rp_value *v, const rp_autograph *a);

static void put_tree(base_buf *b, const rp_value *v, put_tensor tensor, const rp_autograph *a) {
    const char *ends = v->kind == RP_VALUE_LIST ? "[]" : v->kind == RP_VALUE_MAP ? "{}" : "()";
    if (v->kind == RP_VALUE_TENSOR) {
        tensor(b, v, a);
    } else if (v->kind == RP_VALUE_NONE) {
        base_buf_puts(b, "None");
    } else if (is_literal(v)) {
        put_literal(b, v);
    } else {
        base_buf_putc(b, ends[0]);
        for (uint32_t i = 0; i < v->n; i++) {
            if (i) base_buf_puts(b, ", ");
            if (v->kind == RP_VALUE_MAP) {
                put_string(b, v->name[i]);
                base_buf_puts(b, ": ");
            }
            put_tree(b, &v->item[i], tensor, a);
        }
        if (v->kind == RP_VALUE_TUPLE && v->n == 1) base_buf_putc(b, ',');
        base_buf_putc(b, ends[1]);
    }
}

static void put_fake(base_buf *b, const rp_value *v, const rp_autograph *a) {
    base_buf_puts(b, "FakeTensor(shape=");
    put_sizes(b, &v->tensor);
    base_buf_printf(b, ", dtype='%s', device='%s')", torch_dtype(v->tensor.dtype),
                    device_name(a->device));
}

static void put_kind(base_buf *b, const rp_value *v, const rp_autograph *a) {
    (void)a;
    base_buf_puts(b, v->state ? "State" : v->indirect ? "Indirect" : "Tensor");
}

/* --- signatures --------------------------------------------------------------------------------- */

/* A tuple of Python. */
static void put_shapes(base_buf *b, const rp_buffer *t, bool fixed) {
    uint32_t n = fixed && t->rank == 0 ? 1 : t->rank;
    base_buf_putc(b, '(');
    for (uint32_t i = 0; i < n; i++) {
        bool last = i + 1 == t->rank && t->rank > 1;
        int64_t dim = last == fixed && t->rank ? t->dim[i] : -1;
        base_buf_printf(b, "%s%" PRId64, i ? ", " : "", dim);
    }
    base_buf_puts(b, n == 1 ? ",)" : ")");
}

static void put_static(base_buf *b, const autograph_static *s) {
    base_buf_puts(b, "StaticSignature: StaticSignature(_cached_hash=None, func_name=");
    put_string(b, s->name);
    base_buf_puts(b, ", tensor_static_infos=(");
    for (uint32_t i = 0; i < s->n_in; i++) {
        base_buf_printf(b, "%sTensorStaticInfo(_cached_hash=None, name='', shapes=", i ? ", " : "");
        put_shapes(b, &s->in[i].largest, true);
        base_buf_printf(b, ", dtype='%s')", torch_dtype(s->in[i].largest.dtype));
    }
    base_buf_puts(b, s->n_in == 1 ? ",))" : "))");
}

static void put_dynamic_tensors(base_buf *b, const rp_value *v, uint32_t *n) {
    if (v->kind == RP_VALUE_TENSOR && !v->state && !v->indirect) {
        base_buf_printf(
            b, "%sTensorDynamicInfo(_cached_hash=None, name='', shapes=", (*n)++ ? ", " : "");
        put_shapes(b, &v->tensor, false);
        base_buf_putc(b, ')');
    }
    for (uint32_t i = 0; i < v->n; i++) put_dynamic_tensors(b, &v->item[i], n);
}

static void put_literals(base_buf *b, const rp_value *v, uint32_t *n) {
    if (is_literal(v)) {
        if ((*n)++) base_buf_puts(b, ", ");
        put_literal(b, v);
    }
    for (uint32_t i = 0; i < v->n; i++) put_literals(b, &v->item[i], n);
}

/* A tuple of tensors and literals, which the signature says already. */
static bool is_plain(const rp_value *args) {
    if (args->kind != RP_VALUE_TUPLE) return false;
    for (uint32_t i = 0; i < args->n; i++)
        if (!is_literal(&args->item[i]) && (args->item[i].kind != RP_VALUE_TENSOR ||
                                            args->item[i].state || args->item[i].indirect))
            return false;
    return true;
}

static void put_dynamic(base_buf *b, const autograph_dynamic *d, const rp_autograph *a) {
    uint32_t n = 0;
    base_buf_puts(b, "\n  DynamicSignature: DynamicSignature(_cached_hash=None, "
                     "tensor_dynamic_infos=(");
    put_dynamic_tensors(b, &d->args, &n);
    base_buf_puts(b, n == 1 ? ",), literals_info=LiteralsInfo(_cached_hash=None, literals=("
                            : "), literals_info=LiteralsInfo(_cached_hash=None, literals=(");
    n = 0;
    put_literals(b, &d->args, &n);
    base_buf_puts(b, n == 1 ? ",)))" : ")))");
    if (is_plain(&d->args)) return;
    base_buf_puts(b, " structure=");
    put_tree(b, &d->args, put_kind, a);
}

/* --- memory and graphs ------------------------------------------------------------------------------ */

static void put_slots(base_buf *b, const autograph_slot *slot, uint32_t n, bool first) {
    for (uint32_t i = 0; i < n; i++) {
        base_buf_puts(b, first && i == 0 ? "[shape=" : " [shape=");
        put_sizes(b, &slot[i].largest);
        base_buf_printf(b, ",dtype=%s]", torch_dtype(slot[i].largest.dtype));
    }
}

static void put_entry(base_buf *b, const autograph_entry *e) {
    if (e->f->o.layer == RP_LAYER_NONE)
        base_buf_puts(b, "\n    Layer None: Graph Status: ");
    else
        base_buf_printf(b, "\n    Layer %lld: Graph Status: ", (long long)e->f->o.layer);
    if (e->inconsistent)
        base_buf_printf(b, "Inconsistent (%s)", e->inconsistent);
    else
        base_buf_puts(b, e->graph ? "Valid" : "Invalid");
}

static void put_all(base_buf *b, const rp_autograph *a) {
    for (const autograph_static *s = a->graphs.statics; s; s = s->next) {
        if (s != a->graphs.statics) base_buf_putc(b, '\n');
        put_static(b, s);
        base_buf_puts(b, "\n  Input Static Tensors: ");
        put_slots(b, s->in, s->n_in, true);
        base_buf_puts(b, "\n  Output Static Tensors: ");
        for (const autograph_outs *o = s->outs; o; o = o->next)
            put_slots(b, o->slot, o->n, o == s->outs);
        for (const autograph_dynamic *d = s->dynamics; d; d = d->next) {
            put_dynamic(b, d, a);
            const autograph_entry *first = d->entries;
            while (first && !first->result) first = first->next;
            base_buf_puts(b, "\n    Output Template: ");
            if (first) put_tree(b, first->result, put_fake, a);
            for (const autograph_entry *e = d->entries; e; e = e->next) put_entry(b, e);
        }
    }
}

rp_status rp_autograph_text(rp_autograph *a, char **out, rp_error *err) {
    base_error_clear(err);
    if (!a || !out) return rp_fail(err, RP_INVALID, "rp_autograph_text: manager or out is NULL");
    base_buf b;
    base_buf_init(&b, 0);
    bool locked = pthread_mutex_lock(&a->lock) == 0; /* else by a function of it, which may look */
    put_all(&b, a);
    if (locked) (void)pthread_mutex_unlock(&a->lock);
    rp_status st = base_buf_status(&b, err);
    char *text = st == RP_OK ? (b.data ? base_buf_take(&b) : base_strdup("")) : NULL;
    base_buf_done(&b);
    if (st == RP_OK && !text) st = rp_fail(err, RP_NOMEM, "text of automatic graphs");
    if (st == RP_OK) *out = text;
    return st;
}
