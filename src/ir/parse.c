/* Text to graph (docs/ir.md): a recursive-descent reader with one token of context.
 *
 * Every node goes through the builder, so whatever is read obeys the shape rules. Any bytes are safe
 * input: length, names, numbers and nesting are bounded, and the first error ends with "line N: ".
 * What needs the whole graph is ir_verify's matter, not this file's. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "ir/lex.h"
#include "ir/op_attrs.h"
#include "ir/site.h"

#define MAX_TEXT ((size_t)64 << 20)

typedef struct parser {
    ir_reader in;
    base_map *names;         /* value name -> ref */
    const char *after_where; /* end of the where clause, read before the header's types */
    const char *counted;     /* up to here there are n_lines line breaks */
    uint32_t n_lines;
    uint32_t depth; /* graphs around this one */
} parser;

#define FAIL(...) ir_read_fail(&s->in, s->in.p, RP_INVALID, __VA_ARGS__)

static rp_status check_new(parser *s, const char *value) {
    uint64_t old;
    if (!base_map_get(s->names, value, strlen(value), &old)) return RP_OK;
    return FAIL("value %%%s exists already", value);
}

static rp_status define(parser *s, const char *value, ir_ref r) {
    return base_map_put(s->names, value, strlen(value), r, s->in.err);
}

static rp_status use(parser *s, ir_ref *out) {
    char value[IR_MAX_NAME + 1];
    uint64_t r;
    RP_TRY(ir_read_name(&s->in, '%', value));
    if (!base_map_get(s->names, value, strlen(value), &r))
        return FAIL("no value %%%s so far; values are defined before use", value);
    *out = (ir_ref)r;
    return RP_OK;
}

/* T in [1,8192] by 16 */
static rp_status symbol(parser *s) {
    char w[64], sym[64];
    int64_t lo, hi, by = 1;
    RP_TRY(ir_read_word(&s->in, "a size symbol", sym));
    RP_TRY(ir_read_word(&s->in, "'in'", w));
    if (strcmp(w, "in") != 0) return FAIL("expected 'in' after a size symbol");
    RP_TRY(ir_read_expect(&s->in, '['));
    RP_TRY(ir_read_integer(&s->in, &lo));
    RP_TRY(ir_read_expect(&s->in, ','));
    ir_read_skip(&s->in);
    if (strncmp(s->in.p, "inf", 3) == 0) {
        s->in.p += 3;
        hi = INT64_MAX;
    } else {
        RP_TRY(ir_read_integer(&s->in, &hi));
    }
    RP_TRY(ir_read_expect(&s->in, ']'));
    ir_read_skip(&s->in);
    if (strncmp(s->in.p, "by", 2) == 0) {
        s->in.p += 2;
        RP_TRY(ir_read_integer(&s->in, &by));
    }
    if (ir_dims_find(ir_graph_dims(s->in.g), sym) != UINT32_MAX)
        return FAIL("size symbol '%s' is declared already", sym);
    if (ir_dim_symbol(ir_graph_dims(s->in.g), sym, lo, hi, by) == IR_DIM_BAD)
        return ir_read_fail(
            &s->in, s->in.p, ir_dims_refusal(ir_graph_dims(s->in.g)),
            "bad size symbol: [min,max] by d wants a name, min <= max and a multiple of d in it");
    return RP_OK;
}

/* Reads the where clause ahead of the header's types, which use its symbols. */
static rp_status where(parser *s) {
    const char *start = s->in.p;
    bool found = false;
    for (; *s->in.p && *s->in.p != '{'; s->in.p++) {
        ir_read_skip(&s->in);
        if (strncmp(s->in.p, "where", 5) == 0 && s->in.p > s->in.text &&
            strchr(" \t\n\r", s->in.p[-1]) && strchr(" \t\n\r", s->in.p[5])) {
            found = true;
            break;
        }
        if (*s->in.p == 0 || *s->in.p == '{') break;
    }
    if (found) {
        s->in.p += 5;
        do RP_TRY(symbol(s));
        while (ir_read_accept(&s->in, ','));
        s->after_where = s->in.p;
    }
    s->in.p = start;
    return RP_OK;
}

/* A word that may be there. */
static bool accept_word(parser *s, const char *w) {
    size_t n = strlen(w);
    ir_read_skip(&s->in);
    if (strncmp(s->in.p, w, n) != 0 || ir_word_char(s->in.p[n])) return false;
    s->in.p += n;
    return true;
}

static rp_status input(parser *s) {
    char value[IR_MAX_NAME + 1];
    rp_dtype t;
    ir_shape shape;
    ir_ref r;
    rp_error e = {0};
    const char *at = s->in.p;
    RP_TRY(ir_read_name(&s->in, '%', value));
    RP_TRY(ir_read_expect(&s->in, ':'));
    RP_TRY(ir_read_type(&s->in, &t, &shape));
    rp_status st = ir_add_leaf(s->in.g, IR_LEAF_INPUT, value, t, shape, &r, &e);
    if (st != RP_OK) return ir_read_fail(&s->in, at, st, "%s", e.text);
    if (accept_word(s, "mutates")) ir_input_mutates(s->in.g, r);
    return define(s, value, r);
}

/* Declared result types, kept to be compared with what ret gives. */
typedef struct results {
    bool given;
    const char *at;
    uint32_t n;
    ir_type *type;
} results;

static rp_status result_list(parser *s, results *r) {
    uint32_t cap = 0;
    bool many = ir_read_accept(&s->in, '(');
    if (many && ir_read_accept(&s->in, ')')) return RP_OK;
    do {
        if (r->n == cap) { /* the graph's arena: dies with it */
            uint32_t cap2 = cap ? cap * 2 : 4;
            ir_type *t = base_arena_array(ir_graph_arena(s->in.g), cap2, sizeof *t);
            if (!t) return rp_fail(s->in.err, RP_NOMEM, "parse: out of memory");
            if (cap > 0) memcpy(t, r->type, cap * sizeof *t);
            r->type = t;
            cap = cap2;
        }
        RP_TRY(ir_read_type(&s->in, &r->type[r->n].dtype, &r->type[r->n].shape));
        r->n++;
    } while (many && ir_read_accept(&s->in, ','));
    return many ? ir_read_expect(&s->in, ')') : RP_OK;
}

static rp_status header(parser *s, results *r) {
    char w[64], graph_name[IR_MAX_NAME + 1];
    RP_TRY(ir_read_word(&s->in, "'graph'", w));
    if (strcmp(w, "graph") != 0) return FAIL("a graph begins with 'graph @name('");
    RP_TRY(ir_read_name(&s->in, '@', graph_name));
    if (!ir_name_ok(graph_name)) return FAIL("a graph's name begins with a letter or _");
    s->in.g = ir_graph_new(graph_name);
    s->names = base_map_new();
    if (!s->in.g || !s->names) return rp_fail(s->in.err, RP_NOMEM, "parse: out of memory");
    RP_TRY(where(s));
    RP_TRY(ir_read_expect(&s->in, '('));
    if (!ir_read_accept(&s->in, ')')) {
        do RP_TRY(input(s));
        while (ir_read_accept(&s->in, ','));
        RP_TRY(ir_read_expect(&s->in, ')'));
    }
    ir_read_skip(&s->in);
    if (strncmp(s->in.p, "->", 2) == 0) {
        r->given = true;
        r->at = s->in.p;
        s->in.p += 2;
        RP_TRY(result_list(s, r));
    }
    if (s->after_where) {
        ir_read_skip(&s->in);
        if (strncmp(s->in.p, "where", 5) != 0) return FAIL("expected 'where'");
        s->in.p = s->after_where;
    }
    return ir_read_expect(&s->in, '{');
}

static rp_status read_graph(parser *s);

/* A graph in the place of a value: the same text with names of its own. The caller frees it. */
static rp_status inner_graph(parser *s, ir_attr *a) {
    parser p = {.in = s->in, .counted = s->counted, .n_lines = s->n_lines, .depth = s->depth + 1};
    p.in.op = NULL;
    if (p.depth >= IR_MAX_DEPTH) return FAIL("graphs are nested %u deep at most", IR_MAX_DEPTH);
    p.in.g = NULL;
    rp_status st = read_graph(&p);
    base_map_free(p.names);
    if (st == RP_OK)
        a->u.graph = p.in.g;
    else
        ir_graph_free(p.in.g);
    s->in.p = p.in.p;
    s->counted = p.counted;
    s->n_lines = p.n_lines;
    return st;
}

/* Room for the arrays and strings that attributes point to. */
typedef struct attr_room {
    int64_t ints[IR_MAX_RANK];
    ir_dim dims[IR_MAX_RANK];
    ir_type types[IR_MAX_RESULTS];
    char str[2 * IR_MAX_NAME];
} attr_room;

/* Types up to `end`; room for IR_MAX_RESULTS. */
static rp_status type_list(parser *s, char end, ir_type *types, uint32_t *n) {
    *n = 0;
    do {
        if (*n == IR_MAX_RESULTS) return FAIL("a node has at most %u results", IR_MAX_RESULTS);
        RP_TRY(ir_read_type(&s->in, &types[*n].dtype, &types[*n].shape));
        ++*n;
    } while (ir_read_accept(&s->in, ','));
    return ir_read_expect(&s->in, end);
}

static rp_status int_list(parser *s, attr_room *room, ir_attr *a) {
    a->n = 0;
    a->u.ints = room->ints;
    RP_TRY(ir_read_expect(&s->in, '['));
    if (ir_read_accept(&s->in, ']')) return RP_OK;
    do {
        if (a->n == IR_MAX_RANK) return FAIL("a tensor has at most 6 axes");
        RP_TRY(ir_read_integer(&s->in, &room->ints[a->n++]));
    } while (ir_read_accept(&s->in, ','));
    return ir_read_expect(&s->in, ']');
}

static rp_status string(parser *s, attr_room *room, ir_attr *a) {
    RP_TRY(ir_read_expect(&s->in, '"'));
    size_t n = strcspn(s->in.p, "\"\n");
    if (s->in.p[n] != '"' || n >= sizeof room->str)
        return FAIL("a string ends on its line, within 509 bytes");
    memcpy(room->str, s->in.p, n);
    room->str[n] = 0;
    a->u.s = room->str;
    s->in.p += n + 1;
    return RP_OK;
}

static rp_status boolean(parser *s, ir_attr *a) {
    char w[64];
    RP_TRY(ir_read_word(&s->in, "true or false", w));
    a->u.i = strcmp(w, "true") == 0;
    if (a->u.i || strcmp(w, "false") == 0) return RP_OK;
    return FAIL("expected true or false");
}

static rp_status attr_value(parser *s, attr_room *room, ir_attr *a) {
    rp_dtype t;
    switch (ir_attr_key_type(a->key)) {
    case IR_ATTR_TYPE_INT: return ir_read_integer(&s->in, &a->u.i);
    case IR_ATTR_TYPE_INTS: return int_list(s, room, a);
    case IR_ATTR_TYPE_FLOAT: return ir_read_number(&s->in, &a->u.f);
    case IR_ATTR_TYPE_BOOL: return boolean(s, a);
    case IR_ATTR_TYPE_STR: return string(s, room, a);
    case IR_ATTR_TYPE_DTYPE:
        RP_TRY(ir_read_dtype(&s->in, &t));
        a->u.i = t;
        return RP_OK;
    case IR_ATTR_TYPE_DIM: return ir_read_dim(&s->in, &a->u.dim);
    case IR_ATTR_TYPE_DIMS:
        a->u.dims = room->dims;
        RP_TRY(ir_read_expect(&s->in, '['));
        return ir_read_dims(&s->in, ']', room->dims, &a->n);
    case IR_ATTR_TYPE_TYPES:
        a->u.types = room->types;
        RP_TRY(ir_read_expect(&s->in, '['));
        return type_list(s, ']', room->types, &a->n);
    case IR_ATTR_TYPE_GRAPH: return inner_graph(s, a);
    case IR_ATTR_TYPE_VALUES:
        return ir_op_attrs_read(&s->in, ir_graph_arena(s->in.g), &a->u.values, &a->n);
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
    ir_type type[IR_MAX_RESULTS];
    uint32_t n_types;   /* 0: none are given */
    const char *number; /* of a constant, as written */
} statement;

/* Nodes have shares of their own. */
static void drop_graphs(statement *m) {
    for (uint32_t i = 0; i < m->n_attrs; i++)
        if (ir_attr_key_type(m->attr[i].key) == IR_ATTR_TYPE_GRAPH)
            ir_graph_free((ir_graph *)(uintptr_t)m->attr[i].u.graph);
    m->n_attrs = 0;
}

static rp_status attrs(parser *s, statement *m) {
    if (!ir_read_accept(&s->in, '{') || ir_read_accept(&s->in, '}')) return RP_OK;
    do {
        char key[64];
        ir_attr *a = &m->attr[m->n_attrs];
        if (m->n_attrs == IR_MAX_ATTRS) return FAIL("too many attributes");
        *a = (ir_attr){0};
        RP_TRY(ir_read_word(&s->in, "an attribute", key));
        a->key = ir_attr_key_find(key);
        if (a->key == IR_ATTR_COUNT_) return FAIL("unknown attribute '%s'", key);
        RP_TRY(ir_read_expect(&s->in, '='));
        RP_TRY(attr_value(s, &m->room[m->n_attrs], a));
        m->n_attrs++;
    } while (ir_read_accept(&s->in, ','));
    return ir_read_expect(&s->in, '}');
}

static rp_status operands(parser *s, statement *m) {
    ir_read_skip(&s->in);
    if (*s->in.p != '%') return RP_OK;
    do {
        if (m->n_in == IR_MAX_OPERANDS) return FAIL("too many operands");
        RP_TRY(use(s, &m->in[m->n_in++]));
    } while (ir_read_accept(&s->in, ','));
    return RP_OK;
}

/* The part between op and type. */
static rp_status arguments_of(parser *s, statement *m) {
    if (m->op == IR_param || m->op == IR_state) return ir_read_name(&s->in, '@', m->leaf);
    if (m->op != IR_const) {
        RP_TRY(operands(s, m));
        return attrs(s, m);
    }
    m->attr[0] = (ir_attr){.key = IR_ATTR_DTYPE, .u.i = RP_DTYPE_F32};
    m->attr[1] = (ir_attr){.key = IR_ATTR_VALUE};
    m->n_attrs = 2;
    ir_read_skip(&s->in);
    m->number = s->in.p;
    return ir_read_number(&s->in, &m->attr[1].u.f);
}

/* A constant is held as a double, which does not have all integers of 64 bits: one that it would change is no constant. */
static bool is_held(const char *number, double as) {
    ir_reader digits = {.text = number, .p = number};
    int64_t n;
    if (fabs(as) < 0x1p53 || ir_read_integer(&digits, &n) != RP_OK ||
        (*digits.p && strchr(".eExX", *digits.p)))
        return true;
    return as < 0x1p63 && (int64_t)as == n;
}

static rp_status arguments(parser *s, statement *m) {
    s->in.op = ir_op_table(m->op)->name;
    RP_TRY(arguments_of(s, m));
    s->in.op = NULL;
    return RP_OK;
}

static rp_status build(parser *s, statement *m, ir_ref *r, rp_error *e) {
    bool leaf = m->op == IR_param || m->op == IR_state;
    if (m->op == IR_const && m->n_types) m->attr[0].u.i = m->type->dtype;
    if (m->op == IR_const && m->attr[0].u.i == RP_DTYPE_I64 && !is_held(m->number, m->attr[1].u.f))
        return rp_fail(e, RP_INVALID,
                       "const: %.*s has more than the 53 bits of a constant of i64; shift and add",
                       (int)strspn(m->number, "-0123456789"), m->number);
    if (!leaf) return ir_add(s->in.g, m->op, m->in, m->n_in, m->attr, m->n_attrs, r, e);
    if (!m->n_types)
        return rp_fail(e, RP_INVALID, "param and state need a type: param @w : f32[4]");
    return ir_add_leaf(s->in.g, m->op == IR_param ? IR_LEAF_PARAM : IR_LEAF_STATE, m->leaf,
                       m->type->dtype, m->type->shape, r, e);
}

/* Result i of node r. */
static rp_status check_type(parser *s, const char *at, ir_ref r, uint32_t i, const ir_type *t) {
    const ir_node *n = ir_node_at(s->in.g, r);
    ir_type is = i ? n->more[i - 1] : (ir_type){n->dtype, n->shape};
    bool ok = is.dtype == t->dtype && is.shape.rank == t->shape.rank;
    for (uint32_t d = 0; ok && d < is.shape.rank; d++) ok = is.shape.dim[d] == t->shape.dim[d];
    if (ok) return RP_OK;
    return ir_read_fail(&s->in, at, RP_INVALID, "type %s is given, but %s gives %s",
                        ir_shape_text(s->in.g, t->dtype, &t->shape).s, ir_op_table(n->op)->name,
                        ir_shape_text(s->in.g, is.dtype, &is.shape).s);
}

static rp_status check_types(parser *s, const char *at, ir_ref r, const statement *m) {
    const ir_node *n = ir_node_at(s->in.g, r);
    if (m->n_types && m->n_types != n->n_more + 1)
        return ir_read_fail(&s->in, at, RP_INVALID, "%u type%s given, but %s has %u result%s",
                            m->n_types, m->n_types == 1 ? " is" : "s are", ir_op_table(n->op)->name,
                            n->n_more + 1, n->n_more ? "s" : "");
    for (uint32_t i = 0; i < m->n_types; i++) RP_TRY(check_type(s, at, r, i, &m->type[i]));
    return RP_OK;
}

/* f32[4], or (f32[4], i32[4]) */
static rp_status types(parser *s, statement *m) {
    if (ir_read_accept(&s->in, '(')) return type_list(s, ')', m->type, &m->n_types);
    m->n_types = 1;
    return ir_read_type(&s->in, &m->type->dtype, &m->type->shape);
}

/* The line of `at`, which is behind that of the last call. */
static uint32_t line_of(parser *s, const char *at) {
    if (!s->counted) s->counted = s->in.text;
    for (; s->counted < at; s->counted++) s->n_lines += *s->counted == '\n';
    return s->n_lines + 1;
}

static rp_status line(parser *s, statement *m) {
    char value[IR_MAX_NAME + 1], op[64];
    rp_error e = {0};
    ir_ref r;
    ir_read_skip(&s->in);
    const char *at = s->in.p;
    uint32_t number = line_of(s, at);
    drop_graphs(m);
    m->n_in = m->n_types = 0;
    RP_TRY(ir_read_name(&s->in, '%', value));
    RP_TRY(check_new(s, value));
    RP_TRY(ir_read_expect(&s->in, '='));
    RP_TRY(ir_read_word(&s->in, "an op", op));
    m->op = ir_op_find(op);
    if (m->op == IR_OP_COUNT_) return FAIL("unknown op '%s'", op);
    if (m->op == IR_input) return FAIL("inputs belong in the header: graph @f(%%x: f32[4])");
    RP_TRY(arguments(s, m));
    if (ir_read_accept(&s->in, ':')) RP_TRY(types(s, m));
    rp_status st = build(s, m, &r, &e);
    if (st != RP_OK) return ir_read_fail(&s->in, at, st, "%s", e.text);
    RP_TRY(check_types(s, at, r, m));
    if (!ir_site_add(s->in.g, r, &(ir_site){.line = number}))
        return rp_fail(s->in.err, RP_NOMEM, "parse: out of memory");
    return define(s, value, r);
}

static bool at_ret(parser *s) {
    ir_read_skip(&s->in);
    if (strncmp(s->in.p, "ret", 3) != 0 || ir_name_char(s->in.p[3])) return false;
    s->in.p += 3;
    return true;
}

static rp_status finish(parser *s, statement *m, const results *res) {
    rp_error e = {0};
    const char *at = s->in.p;
    m->n_in = 0;
    s->in.op = "ret";
    RP_TRY(operands(s, m));
    s->in.op = NULL;
    if (res->given && res->n != m->n_in) {
        return ir_read_fail(&s->in, at, RP_INVALID,
                            "ret gives another number of values than the header names");
    }
    for (uint32_t i = 0; res->given && i < res->n; i++)
        RP_TRY(check_type(s, res->at, m->in[i], 0, &res->type[i]));
    RP_TRY(ir_read_expect(&s->in, '}'));
    ir_read_skip(&s->in);
    if (s->depth == 0 && *s->in.p != 0) return FAIL("text after the graph's end");
    rp_status st = ir_graph_finish(s->in.g, m->in, m->n_in, &e);
    return st == RP_OK ? st : ir_read_fail(&s->in, at, st, "%s", e.text);
}

static rp_status read_graph(parser *s) {
    results res = {0};
    statement *m = base_alloc(sizeof *m);
    rp_status st = RP_OK;
    if (!m) return rp_fail(s->in.err, RP_NOMEM, "parse: out of memory");
    RP_TRY_OUT(header(s, &res));
    while (!at_ret(s)) RP_TRY_OUT(line(s, m));
    RP_TRY_OUT(finish(s, m, &res));
out:
    drop_graphs(m);
    base_free(m);
    return st;
}

rp_status ir_parse(const char *text, size_t len, ir_graph **out, rp_error *err) {
    parser s = {.in.err = err};
    rp_status st = RP_OK;
    if (len > MAX_TEXT)
        return rp_fail(err, RP_INVALID, "IR text of %zu bytes; %zu are the most", len, MAX_TEXT);
    char *copy = base_strndup(text, len);
    if (!copy) return rp_fail(err, RP_NOMEM, "parse: out of memory");
    s.in.text = s.in.p = copy;
    if (strlen(copy) != len) {
        s.in.p = copy + strlen(copy);
        st = ir_read_fail(&s.in, s.in.p, RP_INVALID, "a zero byte");
    } else {
        st = read_graph(&s);
    }
    base_map_free(s.names);
    base_free(copy);
    if (st == RP_OK)
        *out = s.in.g;
    else
        ir_graph_free(s.in.g);
    return st;
}
