/* Text to graph (docs/ir.md): a recursive-descent reader with one token of context.
 *
 * Every node goes through the builder, so whatever is read obeys the shape rules. Any bytes are safe
 * input: length, names, numbers and nesting are bounded, and the first error ends with "line N: ".
 * Unordered effects are ir_verify's matter, not this file's. */
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "base/map.h"
#include "ir/node.h"
#include "ir/text.h"

#define MAX_TEXT ((size_t)64 << 20)

typedef struct parser {
    const char *text, *p;
    ir_graph *g;
    base_map *names;         /* value name -> ref */
    const char *after_where; /* end of the where clause, read before the header's types */
    rp_error *err;
} parser;

bool ir_float_parse(const char *s, size_t n, double *out) {
    char buf[80];
    bool negative = n > 0 && s[0] == '-';
    if (n == 0 || n >= sizeof buf) return false;
    memcpy(buf, s, n);
    buf[n] = 0;
    if (strcmp(buf, "nan") == 0)
        *out = (double)NAN;
    else if (strcmp(buf + negative, "inf") == 0)
        *out = negative ? -(double)INFINITY : (double)INFINITY;
    else
        return base_parse_f64(buf, out);
    return true;
}

static rp_status fail_at(const parser *s, const char *at, rp_status code, const char *text) {
    unsigned line = 1;
    for (const char *q = s->text; q < at; q++) line += *q == '\n';
    return rp_fail(s->err, code, "line %u: %s", line, text);
}

static rp_status fail(const parser *s, const char *text) {
    return fail_at(s, s->p, RP_INVALID, text);
}

static void skip(parser *s) {
    for (;; s->p++) {
        if (*s->p == ';') s->p += strcspn(s->p, "\n");
        if (*s->p == 0 || !isspace((unsigned char)*s->p)) return;
    }
}

static bool accept(parser *s, char c) {
    skip(s);
    if (*s->p != c) return false;
    s->p++;
    return true;
}

static rp_status expect(parser *s, char c) {
    char text[80];
    if (accept(s, c)) return RP_OK;
    base_buf b;
    base_buf_init(&b, sizeof text);
    if (*s->p == 0)
        base_buf_printf(&b, "expected '%c', found the end", c);
    else if (isprint((unsigned char)*s->p))
        base_buf_printf(&b, "expected '%c', found '%c'", c, *s->p);
    else
        base_buf_printf(&b, "expected '%c', found byte 0x%02x", c, (unsigned char)*s->p);
    rp_status st = fail(s, b.data ? b.data : "unexpected character");
    base_buf_done(&b);
    return st;
}

/* A keyword, op, key, dtype or symbol. */
static rp_status word(parser *s, const char *what, char out[64]) {
    size_t n = 0;
    skip(s);
    while (isalnum((unsigned char)s->p[n]) || s->p[n] == '_') n++;
    if (n == 0 || n > 63) {
        char text[80] = "expected ";
        memcpy(text + 9, what, strlen(what) + 1);
        return fail(s, text);
    }
    memcpy(out, s->p, n);
    out[n] = 0;
    s->p += n;
    return RP_OK;
}

/* A name of value, leaf or graph, after its sigil. */
static rp_status name(parser *s, char sigil, char out[IR_MAX_NAME + 1]) {
    size_t n = 0;
    RP_TRY(expect(s, sigil));
    while (ir_name_char(s->p[n])) n++;
    if (n == 0 || n > IR_MAX_NAME)
        return fail(s, "expected a name of 1 to 255 letters, digits and _ . - /");
    memcpy(out, s->p, n);
    out[n] = 0;
    s->p += n;
    return RP_OK;
}

static rp_status integer(parser *s, int64_t *out) {
    char buf[24];
    size_t n = 0;
    skip(s);
    n += *s->p == '-';
    while (isdigit((unsigned char)s->p[n])) n++;
    if (n < sizeof buf) {
        memcpy(buf, s->p, n);
        buf[n] = 0;
        if (base_parse_i64(buf, out)) {
            s->p += n;
            return RP_OK;
        }
    }
    return fail(s, "expected an integer of 64 bits");
}

static rp_status number(parser *s, double *out) {
    size_t n = 0;
    skip(s);
    const char *p = s->p;
    bool hex = strncmp(p + (*p == '-'), "0x", 2) == 0;
    while (isalnum((unsigned char)p[n]) || p[n] == '.' ||
           ((p[n] == '-' || p[n] == '+') && (n == 0 || strchr(hex ? "pP" : "eE", p[n - 1]))))
        n++;
    if (!ir_float_parse(p, n, out))
        return fail(s, "expected a number (0x1.8p+1, 3, -0.5, inf, nan)");
    s->p += n;
    return RP_OK;
}

/* A size; line numbers come from here, the text from the dim reader. */
static rp_status dim(parser *s, ir_dim *out) {
    rp_error e = {0};
    skip(s);
    rp_status st = ir_dim_parse(ir_graph_dims(s->g), &s->p, out, &e);
    return st == RP_OK ? st : fail_at(s, s->p, st, e.text);
}

static rp_status dim_list(parser *s, char end, ir_dim *out, uint32_t *n) {
    *n = 0;
    if (accept(s, end)) return RP_OK;
    do {
        if (*n == IR_MAX_RANK) return fail(s, "a tensor has at most 6 axes");
        RP_TRY(dim(s, &out[(*n)++]));
    } while (accept(s, ','));
    return expect(s, end);
}

static rp_status dtype(parser *s, rp_dtype *out) {
    char w[64];
    RP_TRY(word(s, "an element type", w));
    if (rp_dtype_parse(w, out)) return RP_OK;
    return fail(s,
                "unknown element type; known: f32 f16 bf16 i32 i64 i16 i8 u8 bool q4_0 q4_1 q8_0 "
                "i16b32 token");
}

static rp_status type(parser *s, rp_dtype *t, ir_shape *shape) {
    *shape = (ir_shape){0};
    RP_TRY(dtype(s, t));
    RP_TRY(expect(s, '['));
    return dim_list(s, ']', shape->dim, &shape->rank);
}

static rp_status define(parser *s, const char *value, ir_ref r) {
    uint64_t old;
    if (base_map_get(s->names, value, strlen(value), &old))
        return fail(s, "a value of this name exists already");
    return base_map_put(s->names, value, strlen(value), r, s->err);
}

static rp_status use(parser *s, ir_ref *out) {
    char value[IR_MAX_NAME + 1];
    uint64_t r;
    RP_TRY(name(s, '%', value));
    if (!base_map_get(s->names, value, strlen(value), &r))
        return fail(s, "no such value so far; values are defined before use");
    *out = (ir_ref)r;
    return RP_OK;
}

/* T in [1,8192] by 16 */
static rp_status symbol(parser *s) {
    char w[64], sym[64];
    int64_t lo, hi, by = 1;
    RP_TRY(word(s, "a size symbol", sym));
    RP_TRY(word(s, "'in'", w));
    if (strcmp(w, "in") != 0) return fail(s, "expected 'in' after a size symbol");
    RP_TRY(expect(s, '['));
    RP_TRY(integer(s, &lo));
    RP_TRY(expect(s, ','));
    skip(s);
    if (strncmp(s->p, "inf", 3) == 0) {
        s->p += 3;
        hi = INT64_MAX;
    } else {
        RP_TRY(integer(s, &hi));
    }
    RP_TRY(expect(s, ']'));
    skip(s);
    if (strncmp(s->p, "by", 2) == 0) {
        s->p += 2;
        RP_TRY(integer(s, &by));
    }
    if (ir_dims_find(ir_graph_dims(s->g), sym) != UINT32_MAX)
        return fail(s, "this size symbol is declared already");
    if (ir_dim_symbol(ir_graph_dims(s->g), sym, lo, hi, by) == IR_DIM_BAD)
        return fail(
            s,
            "bad size symbol: [min,max] by d wants a name, min <= max and a multiple of d in it");
    return RP_OK;
}

/* Reads the where clause ahead of the header's types, which use its symbols. */
static rp_status where(parser *s) {
    const char *start = s->p;
    bool found = false;
    for (; *s->p && *s->p != '{'; s->p++) {
        skip(s);
        if (strncmp(s->p, "where", 5) == 0 && s->p > s->text && isspace((unsigned char)s->p[-1]) &&
            isspace((unsigned char)s->p[5])) {
            found = true;
            break;
        }
        if (*s->p == 0 || *s->p == '{') break;
    }
    if (found) {
        s->p += 5;
        do RP_TRY(symbol(s));
        while (accept(s, ','));
        s->after_where = s->p;
    }
    s->p = start;
    return RP_OK;
}

static rp_status input(parser *s) {
    char value[IR_MAX_NAME + 1];
    rp_dtype t;
    ir_shape shape;
    ir_ref r;
    rp_error e = {0};
    const char *at = s->p;
    RP_TRY(name(s, '%', value));
    RP_TRY(expect(s, ':'));
    RP_TRY(type(s, &t, &shape));
    rp_status st = ir_add_leaf(s->g, IR_LEAF_INPUT, value, t, shape, &r, &e);
    if (st != RP_OK) return fail_at(s, at, st, e.text);
    return define(s, value, r);
}

/* Declared result types, kept to be compared with what ret gives. */
typedef struct results {
    bool given;
    const char *at;
    uint32_t n;
    rp_dtype *dtype;
    ir_shape *shape;
} results;

static rp_status result_list(parser *s, results *r) {
    uint32_t cap = 0;
    bool many = accept(s, '(');
    if (many && accept(s, ')')) return RP_OK;
    do {
        if (r->n == cap) { /* the graph's arena: dies with it */
            uint32_t cap2 = cap ? cap * 2 : 4;
            rp_dtype *d = base_arena_array(ir_graph_arena(s->g), cap2, sizeof *d);
            ir_shape *h = base_arena_array(ir_graph_arena(s->g), cap2, sizeof *h);
            if (!d || !h) return rp_fail(s->err, RP_NOMEM, "parse: out of memory");
            if (cap > 0) {
                memcpy(d, r->dtype, cap * sizeof *d);
                memcpy(h, r->shape, cap * sizeof *h);
            }
            r->dtype = d;
            r->shape = h;
            cap = cap2;
        }
        RP_TRY(type(s, &r->dtype[r->n], &r->shape[r->n]));
        r->n++;
    } while (many && accept(s, ','));
    return many ? expect(s, ')') : RP_OK;
}

static rp_status header(parser *s, results *r) {
    char w[64], graph_name[IR_MAX_NAME + 1];
    RP_TRY(word(s, "'graph'", w));
    if (strcmp(w, "graph") != 0) return fail(s, "a graph begins with 'graph @name('");
    RP_TRY(name(s, '@', graph_name));
    if (!ir_name_ok(graph_name)) return fail(s, "a graph's name begins with a letter or _");
    s->g = ir_graph_new(graph_name);
    s->names = base_map_new();
    if (!s->g || !s->names) return rp_fail(s->err, RP_NOMEM, "parse: out of memory");
    RP_TRY(where(s));
    RP_TRY(expect(s, '('));
    if (!accept(s, ')')) {
        do RP_TRY(input(s));
        while (accept(s, ','));
        RP_TRY(expect(s, ')'));
    }
    skip(s);
    if (strncmp(s->p, "->", 2) == 0) {
        r->given = true;
        r->at = s->p;
        s->p += 2;
        RP_TRY(result_list(s, r));
    }
    if (s->after_where) {
        skip(s);
        if (strncmp(s->p, "where", 5) != 0) return fail(s, "expected 'where'");
        s->p = s->after_where;
    }
    return expect(s, '{');
}

/* Room for the arrays and strings that attributes point to. */
typedef struct attr_room {
    int64_t ints[IR_MAX_RANK];
    ir_dim dims[IR_MAX_RANK];
    char str[2 * IR_MAX_NAME];
} attr_room;

static rp_status int_list(parser *s, attr_room *room, ir_attr *a) {
    a->n = 0;
    a->u.ints = room->ints;
    RP_TRY(expect(s, '['));
    if (accept(s, ']')) return RP_OK;
    do {
        if (a->n == IR_MAX_RANK) return fail(s, "a tensor has at most 6 axes");
        RP_TRY(integer(s, &room->ints[a->n++]));
    } while (accept(s, ','));
    return expect(s, ']');
}

static rp_status string(parser *s, attr_room *room, ir_attr *a) {
    RP_TRY(expect(s, '"'));
    size_t n = strcspn(s->p, "\"\n");
    if (s->p[n] != '"' || n >= sizeof room->str)
        return fail(s, "a string ends on its line, within 509 bytes");
    memcpy(room->str, s->p, n);
    room->str[n] = 0;
    a->u.s = room->str;
    s->p += n + 1;
    return RP_OK;
}

static rp_status boolean(parser *s, ir_attr *a) {
    char w[64];
    RP_TRY(word(s, "true or false", w));
    a->u.i = strcmp(w, "true") == 0;
    if (a->u.i || strcmp(w, "false") == 0) return RP_OK;
    return fail(s, "expected true or false");
}

static rp_status attr_value(parser *s, attr_room *room, ir_attr *a) {
    rp_dtype t;
    switch (ir_attr_key_type(a->key)) {
    case IR_ATTR_TYPE_INT: return integer(s, &a->u.i);
    case IR_ATTR_TYPE_INTS: return int_list(s, room, a);
    case IR_ATTR_TYPE_FLOAT: return number(s, &a->u.f);
    case IR_ATTR_TYPE_BOOL: return boolean(s, a);
    case IR_ATTR_TYPE_STR: return string(s, room, a);
    case IR_ATTR_TYPE_DTYPE:
        RP_TRY(dtype(s, &t));
        a->u.i = t;
        return RP_OK;
    case IR_ATTR_TYPE_DIM: return dim(s, &a->u.dim);
    case IR_ATTR_TYPE_DIMS:
        a->u.dims = room->dims;
        RP_TRY(expect(s, '['));
        return dim_list(s, ']', room->dims, &a->n);
    }
    return RP_OK;
}

/* One statement under construction. */
typedef struct statement {
    ir_op op;
    ir_ref in[IR_MAX_OPERANDS];
    uint32_t n_in;
    ir_attr attr[IR_MAX_ATTRS];
    attr_room room[IR_MAX_ATTRS];
    uint32_t n_attrs;
    char leaf[IR_MAX_NAME + 1];
    bool typed;
    rp_dtype dtype;
    ir_shape shape;
} statement;

static rp_status attrs(parser *s, statement *m) {
    if (!accept(s, '{') || accept(s, '}')) return RP_OK;
    do {
        char key[64];
        ir_attr *a = &m->attr[m->n_attrs];
        if (m->n_attrs == IR_MAX_ATTRS) return fail(s, "too many attributes");
        *a = (ir_attr){0};
        RP_TRY(word(s, "an attribute", key));
        a->key = ir_attr_key_find(key);
        if (a->key == IR_ATTR_COUNT_) return fail(s, "unknown attribute");
        RP_TRY(expect(s, '='));
        RP_TRY(attr_value(s, &m->room[m->n_attrs], a));
        m->n_attrs++;
    } while (accept(s, ','));
    return expect(s, '}');
}

static rp_status operands(parser *s, statement *m) {
    skip(s);
    if (*s->p != '%') return RP_OK;
    do {
        if (m->n_in == IR_MAX_OPERANDS) return fail(s, "too many operands");
        RP_TRY(use(s, &m->in[m->n_in++]));
    } while (accept(s, ','));
    return RP_OK;
}

/* The part between op and type. */
static rp_status arguments(parser *s, statement *m) {
    if (m->op == IR_param || m->op == IR_state) return name(s, '@', m->leaf);
    if (m->op != IR_const) {
        RP_TRY(operands(s, m));
        return attrs(s, m);
    }
    m->attr[0] = (ir_attr){.key = IR_ATTR_DTYPE, .u.i = RP_DTYPE_F32};
    m->attr[1] = (ir_attr){.key = IR_ATTR_VALUE};
    m->n_attrs = 2;
    return number(s, &m->attr[1].u.f);
}

static rp_status build(parser *s, statement *m, ir_ref *r, rp_error *e) {
    bool leaf = m->op == IR_param || m->op == IR_state;
    if (m->op == IR_const && m->typed) m->attr[0].u.i = m->dtype;
    if (!leaf) return ir_add(s->g, m->op, m->in, m->n_in, m->attr, m->n_attrs, r, e);
    if (!m->typed) return rp_fail(e, RP_INVALID, "param and state need a type: param @w : f32[4]");
    return ir_add_leaf(s->g, m->op == IR_param ? IR_LEAF_PARAM : IR_LEAF_STATE, m->leaf, m->dtype,
                       m->shape, r, e);
}

static rp_status check_type(parser *s, const char *at, ir_ref r, rp_dtype t,
                            const ir_shape *shape) {
    const ir_node *n = ir_node_at(s->g, r);
    bool ok = n->dtype == t && n->shape.rank == shape->rank;
    for (uint32_t i = 0; ok && i < shape->rank; i++) ok = n->shape.dim[i] == shape->dim[i];
    if (ok) return RP_OK;
    base_buf b;
    base_buf_init(&b, 0);
    base_buf_printf(&b, "type %s is given, but %s gives %s", ir_shape_text(s->g, t, shape).s,
                    ir_op_table(n->op)->name, ir_type_of(s->g, r).s);
    rp_status st = fail_at(s, at, RP_INVALID, b.data ? b.data : "wrong type");
    base_buf_done(&b);
    return st;
}

static rp_status line(parser *s, statement *m) {
    char value[IR_MAX_NAME + 1], op[64];
    rp_error e = {0};
    ir_ref r;
    skip(s);
    const char *at = s->p;
    m->n_in = m->n_attrs = 0;
    m->typed = false;
    RP_TRY(name(s, '%', value));
    RP_TRY(expect(s, '='));
    RP_TRY(word(s, "an op", op));
    m->op = ir_op_find(op);
    if (m->op == IR_OP_COUNT_) return fail(s, "unknown op");
    if (m->op == IR_input) return fail(s, "inputs belong in the header: graph @f(%x: f32[4])");
    RP_TRY(arguments(s, m));
    if (accept(s, ':')) {
        m->typed = true;
        RP_TRY(type(s, &m->dtype, &m->shape));
    }
    rp_status st = build(s, m, &r, &e);
    if (st != RP_OK) return fail_at(s, at, st, e.text);
    if (m->typed) RP_TRY(check_type(s, at, r, m->dtype, &m->shape));
    return define(s, value, r);
}

static bool at_ret(parser *s) {
    skip(s);
    if (strncmp(s->p, "ret", 3) != 0 || ir_name_char(s->p[3])) return false;
    s->p += 3;
    return true;
}

static rp_status finish(parser *s, statement *m, const results *res) {
    rp_error e = {0};
    const char *at = s->p;
    m->n_in = 0;
    RP_TRY(operands(s, m));
    if (res->given && res->n != m->n_in) {
        return fail_at(s, at, RP_INVALID,
                       "ret gives another number of values than the header names");
    }
    for (uint32_t i = 0; res->given && i < res->n; i++)
        RP_TRY(check_type(s, res->at, m->in[i], res->dtype[i], &res->shape[i]));
    RP_TRY(expect(s, '}'));
    skip(s);
    if (*s->p != 0) return fail(s, "text after the graph's end");
    rp_status st = ir_graph_finish(s->g, m->in, m->n_in, &e);
    return st == RP_OK ? st : fail_at(s, at, st, e.text);
}

static rp_status parse(parser *s) {
    results res = {0};
    statement *m = base_alloc(sizeof *m);
    rp_status st = RP_OK;
    if (!m) return rp_fail(s->err, RP_NOMEM, "parse: out of memory");
    RP_TRY_OUT(header(s, &res));
    while (!at_ret(s)) RP_TRY_OUT(line(s, m));
    RP_TRY_OUT(finish(s, m, &res));
out:
    base_free(m);
    return st;
}

rp_status ir_parse(const char *text, size_t len, ir_graph **out, rp_error *err) {
    parser s = {.err = err};
    rp_status st = RP_OK;
    if (len > MAX_TEXT)
        return rp_fail(err, RP_INVALID, "IR text of %zu bytes; %zu are the most", len, MAX_TEXT);
    char *copy = base_strndup(text, len);
    if (!copy) return rp_fail(err, RP_NOMEM, "parse: out of memory");
    s.text = s.p = copy;
    if (memchr(text, 0, len)) {
        s.p = copy + strlen(copy);
        st = fail(&s, "a zero byte");
    } else {
        st = parse(&s);
    }
    base_map_free(s.names);
    base_free(copy);
    if (st == RP_OK)
        *out = s.g;
    else
        ir_graph_free(s.g);
    return st;
}
