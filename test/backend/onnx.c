/* The ONNX models of the graphs in test/backend/onnx.ir, read back by onnx.proto: each graph is followed by its model as text, below
 * "; ---", or by "; error: ..."; "; ====" separates cases, "; narrow" is for a library of narrow types. No library is needed.
 * Each node of a graph is one expression; what the model computes on the way, its constants and its sizes (here of T = 5) stand inside.
 * BLESS=1 rewrites the models. */
#include "support/check.h"

#include <inttypes.h>

#include "backend/onnx.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/str.h"
#include "reprise/reprise.h"

#define CASES "test/backend/onnx.ir"
#define SEPARATOR "; ====\n"
#define RESULT "; ---\n"

/* --- protocol buffers --------------------------------------------------------------------- */

typedef struct bytes {
    const unsigned char *p, *end;
} bytes;

typedef struct field {
    uint32_t id;
    uint64_t v; /* a varint */
    bytes in;   /* or what is delimited */
} field;

static uint64_t varint(bytes *b) {
    uint64_t v = 0;
    for (int shift = 0;; shift += 7) {
        assert_true(b->p < b->end && shift < 64);
        v |= (uint64_t)(*b->p & 0x7f) << shift;
        if (!(*b->p++ & 0x80)) return v;
    }
}

static bool next(bytes *b, field *f) {
    if (b->p == b->end) return false;
    const uint64_t tag = varint(b);
    *f = (field){.id = (uint32_t)(tag >> 3), .v = varint(b)};
    if ((tag & 7) == 0) return true;
    assert_int_equal(tag & 7, 2);
    assert_true(f->v <= (uint64_t)(b->end - b->p));
    f->in = (bytes){b->p, b->p + f->v};
    b->p += f->v;
    return true;
}

static void put_text(base_buf *b, bytes t) {
    base_buf_add(b, t.p, (size_t)(t.end - t.p));
}

/* --- what a model says ----------------------------------------------------------------------- */

/* name=i or name=[i, ...] */
static void put_attribute(base_buf *b, bytes a) {
    field f;
    bytes ints = a;
    uint64_t type = 0;
    for (bytes all = a; next(&all, &f);)
        if (f.id == 1)
            put_text(b, f.in);
        else if (f.id == 3)
            base_buf_printf(b, "=%" PRId64, (int64_t)f.v);
        else if (f.id == 20)
            type = f.v;
        else
            assert_int_equal(f.id, 8);
    assert_true(type == 2 || type == 7); /* INT, INTS */
    if (type == 2) return;
    const char *before = "=[";
    while (next(&ints, &f)) {
        if (f.id != 8) continue;
        base_buf_printf(b, "%s%" PRId64, before, (int64_t)f.v);
        before = ",";
    }
    base_buf_puts(b, "]");
}

static bool same_bytes(bytes a, bytes b) {
    return a.end - a.p == b.end - b.p && memcmp(a.p, b.p, (size_t)(a.end - a.p)) == 0;
}

/* The field of a message, which is there. */
static bytes only(bytes message, uint32_t id) {
    field f;
    while (next(&message, &f))
        if (f.id == id) return f.in;
    fail_msg("no field %u", id);
    return message;
}

/* The message `kind` of the graph whose field `id` is the name; false: there is none. */
static bool find(bytes graph, uint32_t kind, uint32_t id, bytes name, bytes *out) {
    field f;
    while (next(&graph, &f))
        if (f.id == kind && same_bytes(only(f.in, id), name)) {
            *out = f.in;
            return true;
        }
    return false;
}

enum { NODE = 1, NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_OP = 4, NODE_ATTRIBUTE = 5 };
enum { INITIALIZER = 5, INITIALIZER_NAME = 8 };

typedef struct reader {
    base_buf *b;
    const backend_model *m;
    uint32_t n_inputs; /* of the graph; sizes are behind */
    bytes graph;
    bytes size[8]; /* names of sizes, in the order in which they appear */
    uint32_t n_sizes;
} reader;

static void put_numbers(base_buf *b, uint64_t type, bytes raw) {
    for (const unsigned char *p = raw.p; p < raw.end;) {
        int64_t wide = 0;
        int32_t word = 0;
        double real = 0;
        float single = 0;
        const size_t n = type == 7 || type == 11 ? 8 : type == 6 || type == 1 ? 4 : 1;
        assert_true((size_t)(raw.end - p) >= n);
        if (type == 7) memcpy(&wide, p, n);
        if (type == 6) memcpy(&word, p, n), wide = word;
        if (type == 1) memcpy(&single, p, n), real = (double)single;
        if (type == 11) memcpy(&real, p, n);
        if (n == 1) wide = *p;
        if (type == 1 || type == 11)
            base_buf_printf(b, " %g", real);
        else
            base_buf_printf(b, " %" PRId64, wide);
        p += n;
    }
}

static void put_initializer(base_buf *b, bytes tensor) {
    field f, raw = {0};
    uint64_t type = 0;
    for (bytes all = tensor; next(&all, &f);)
        if (f.id == 2)
            type = f.v;
        else if (f.id == 9)
            raw = f;
    base_buf_printf(b, "<%" PRIu64 "[", type);
    const char *before = "";
    for (bytes all = tensor; next(&all, &f);) {
        if (f.id != 1) continue;
        base_buf_printf(b, "%s%" PRId64, before, (int64_t)f.v);
        before = ",";
    }
    base_buf_puts(b, "]:");
    put_numbers(b, type, raw.in);
    base_buf_puts(b, ">");
}

static void put_sizes(const reader *r, uint32_t i) {
    const int64_t five = 5;
    assert_true(i < r->m->n_sizes);
    const backend_sizes *s = &r->m->sizes[i];
    base_buf_puts(r->b, "<sizes:");
    for (uint32_t k = 0; k < s->n; k++)
        base_buf_printf(r->b, " %" PRId64, rp_dim_eval(s->dim[k], &five) + s->plus);
    base_buf_puts(r->b, ">");
}

static void put_operation(const reader *r, bytes node);

static void put_operand(const reader *r, bytes name) {
    bytes by;
    char z[24];
    uint32_t input;
    (void)snprintf(z, sizeof z, "%.*s", (int)(name.end - name.p), (const char *)name.p);
    if (*z == 't' && find(r->graph, INITIALIZER, INITIALIZER_NAME, name, &by))
        put_initializer(r->b, by);
    else if (*z == 't' && find(r->graph, NODE, NODE_OUTPUT, name, &by))
        put_operation(r, by);
    else if (sscanf(z, "in%u", &input) == 1 && input >= r->n_inputs)
        put_sizes(r, input - r->n_inputs);
    else if (*z == 'i' || find(r->graph, NODE, NODE_OUTPUT, name, &by))
        put_text(r->b, name);
    else
        fail_msg("nothing makes %s", z);
}

static void put_operation(const reader *r, bytes node) {
    field f;
    const char *before = "(";
    put_text(r->b, only(node, NODE_OP));
    for (bytes all = node; next(&all, &f);) {
        if (f.id != NODE_INPUT) continue;
        base_buf_puts(r->b, before);
        put_operand(r, f.in);
        before = ", ";
    }
    base_buf_puts(r->b, ")");
    before = "{";
    for (bytes all = node; next(&all, &f);) {
        if (f.id != NODE_ATTRIBUTE) continue;
        base_buf_puts(r->b, before);
        put_attribute(r->b, f.in);
        before = ", ";
    }
    base_buf_puts(r->b, *before == ',' ? "}" : "");
}

/* Equal sizes have equal names, which are the library's own: told as d0, d1, ... */
static uint32_t size_named(reader *r, bytes name) {
    uint32_t i = 0;
    while (i < r->n_sizes && !same_bytes(r->size[i], name)) i++;
    assert_true(i < sizeof r->size / sizeof *r->size);
    if (i == r->n_sizes) r->size[r->n_sizes++] = name;
    return i;
}

static void put_shape(reader *r, bytes shape) {
    base_buf *b = r->b;
    field f, d;
    const char *before = "[";
    while (next(&shape, &f)) {
        base_buf_puts(b, before);
        assert_true(next(&f.in, &d));
        if (d.id == 1)
            base_buf_printf(b, "%" PRId64, (int64_t)d.v);
        else
            base_buf_printf(b, "d%u", size_named(r, d.in));
        before = ",";
    }
    base_buf_puts(b, *before == '[' ? "[]" : "]");
}

/* Inputs that are sizes, i64 vectors, are told where they are used. */
static void put_info(reader *r, const char *what, bytes info) {
    base_buf *b = r->b;
    field name, type, tensor, f;
    uint32_t input;
    assert_true(next(&info, &name) && next(&info, &type) && next(&type.in, &tensor));
    if (*what == 'i' && sscanf((const char *)name.in.p, "in%u", &input) == 1 &&
        input >= r->n_inputs) {
        field element, shape, dim, n;
        assert_true(next(&tensor.in, &element) && next(&tensor.in, &shape));
        assert_true(next(&shape.in, &dim) && next(&dim.in, &n));
        assert_int_equal(element.v, 7);
        assert_int_equal(n.v, r->m->sizes[input - r->n_inputs].n);
        return;
    }
    base_buf_puts(b, what);
    put_text(b, name.in);
    while (next(&tensor.in, &f))
        if (f.id == 1)
            base_buf_printf(b, ": type %" PRIu64 " ", f.v);
        else
            put_shape(r, f.in);
    base_buf_puts(b, "\n");
}

static void put_graph(reader *r) {
    field f;
    for (bytes all = r->graph; next(&all, &f);) {
        if (f.id == NODE && *only(f.in, NODE_OUTPUT).p != 't') {
            put_text(r->b, only(f.in, NODE_OUTPUT));
            base_buf_puts(r->b, " = ");
            put_operation(r, f.in);
            base_buf_puts(r->b, "\n");
        } else if (f.id == 2) {
            base_buf_puts(r->b, "graph ");
            put_text(r->b, f.in);
            base_buf_puts(r->b, "\n");
        } else if (f.id == 11)
            put_info(r, "input ", f.in);
        else if (f.id == 12)
            put_info(r, "output ", f.in);
        else
            assert_true(f.id == NODE || f.id == INITIALIZER);
    }
}

/* --- cases -------------------------------------------------------------------------------------- */

static void put_result(base_buf *b, const char *text, size_t n) {
    rp_graph *g = NULL;
    backend_model m = {0};
    rp_error err = {0};
    field f;
    CHECK_OK(rp_graph_parse(text, n, &g, &err), &err);
    if (backend_onnx_write(g, strstr(text, "; narrow\n") == text, &m, &err) == RP_OK)
        for (bytes all = {(const unsigned char *)m.data, (const unsigned char *)m.data + m.n};
             next(&all, &f);) {
            if (f.id == 7)
                put_graph(&(reader){b, &m, rp_graph_count(g, RP_GRAPH_INPUTS), f.in, .n_sizes = 0});
        }
    else
        base_buf_printf(b, "; error: %s\n", err.text);
    backend_onnx_done(&m);
    rp_graph_free(g);
}

static void graphs_become_models(void **state) {
    char *text = NULL;
    size_t size;
    rp_error err = {0};
    base_buf all;
    (void)state;
    base_buf_init(&all, 0);
    CHECK_OK(base_file_read(CASES, 1 << 20, &text, &size, &err), &err);
    for (char *at = text, *end; *at; at = end) {
        char *result = strstr(at, RESULT);
        end = strstr(at, SEPARATOR);
        end = end ? end + strlen(SEPARATOR) : at + strlen(at);
        assert_true(result && result < end);
        base_buf_add(&all, at, (size_t)(result - at) + strlen(RESULT));
        *result = 0;
        put_result(&all, at, (size_t)(result - at));
        if (*end) base_buf_puts(&all, SEPARATOR);
        *result = ';';
    }
    CHECK_OK(base_buf_status(&all, &err), &err);
    if (BLESSING())
        CHECK_OK(base_file_write_atomic(CASES, all.data, all.len, &err), &err);
    else
        for (size_t i = 0, line = 1; i <= all.len; i++) {
            if (all.data[i] != text[i])
                fail_msg("%s:%zu is not what is written now; BLESS=1 rewrites it", CASES, line);
            line += all.data[i] == '\n';
        }
    base_buf_done(&all);
    base_free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(graphs_become_models)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
