/* Attributes: checking, defaults, canonical form, hash and copy.
 *
 * Every node holds all its attributes, defaults included, sorted by key, so that nodes that mean the
 * same compare equal and the text form needs no knowledge of defaults. */
#include <math.h>
#include <assert.h>
#include <string.h>

#include "base/hash.h"
#include "ir/custom.h"
#include "ir/dim_form.h"
#include "ir/eval.h"
#include "ir/node.h"
#include "ir/op_attrs.h"

static const struct {
    const char *name;
    ir_attr_type type;
} table[] = {
#define ATTR_ROW(id, text, type) [IR_ATTR_##id] = {text, IR_ATTR_TYPE_##type},
    IR_ATTR_LIST(ATTR_ROW)
#undef ATTR_ROW
};

const char *ir_attr_key_name(ir_attr_key key) {
    return (unsigned)key < IR_ATTR_COUNT_ ? table[key].name : "?";
}

ir_attr_type ir_attr_key_type(ir_attr_key key) {
    return (unsigned)key < IR_ATTR_COUNT_ ? table[key].type : IR_ATTR_TYPE_INT;
}

ir_attr_key ir_attr_key_find(const char *name) {
    for (unsigned i = 0; i < IR_ATTR_COUNT_; i++)
        if (strcmp(table[i].name, name) == 0) return (ir_attr_key)i;
    return IR_ATTR_COUNT_;
}

const ir_attr *ir_attr_get(const ir_node *n, ir_attr_key key) {
    for (uint32_t i = 0; i < n->n_attrs; i++)
        if (n->attrs[i].key == key) return &n->attrs[i];
    return NULL;
}

int64_t ir_attr_int(const ir_node *n, ir_attr_key key, int64_t deflt) {
    const ir_attr *a = ir_attr_get(n, key);
    return a ? a->u.i : deflt;
}

double ir_attr_float(const ir_node *n, ir_attr_key key, double deflt) {
    const ir_attr *a = ir_attr_get(n, key);
    return a ? a->u.f : deflt;
}

/* Also one that may be anything: rules of ops ask for what they need of it. */
static bool valid_dims(const ir_dims *t, const ir_dim *d, uint32_t n) {
    uint32_t i = 0;
    while (i < n && dim_valid(t, d[i])) i++;
    return i == n;
}

/* The value by itself: ranges that hold for every op. */
static rp_status check_value(const ir_graph *g, const char *op, const ir_attr *a, rp_error *err) {
    const char *key = table[a->key].name;
    const ir_dims *t = ir_graph_dims(g);
    switch (table[a->key].type) {
    case IR_ATTR_TYPE_INTS:
    case IR_ATTR_TYPE_DIMS:
        if (a->n > IR_MAX_RANK)
            return rp_fail(err, RP_INVALID, "%s: %s has %u entries; a tensor has at most %d axes",
                           op, key, a->n, IR_MAX_RANK);
        if (table[a->key].type == IR_ATTR_TYPE_DIMS && !valid_dims(t, a->u.dims, a->n))
            return rp_fail(err, ir_dims_refusal(t), "%s: %s holds an invalid size", op, key);
        return RP_OK;
    case IR_ATTR_TYPE_DIM:
        if (valid_dims(t, &a->u.dim, 1)) return RP_OK;
        return rp_fail(err, ir_dims_refusal(t), "%s: %s is an invalid size", op, key);
    case IR_ATTR_TYPE_TYPES:
        if (a->n < 1 || a->n > IR_MAX_RESULTS)
            return rp_fail(err, RP_INVALID, "%s: %s has %u entries; 1 to %u are possible", op, key,
                           a->n, IR_MAX_RESULTS);
        for (uint32_t i = 0; i < a->n; i++)
            RP_TRY(ir_check_shape(g, op, a->u.types[i].dtype, &a->u.types[i].shape, err));
        return RP_OK;
    case IR_ATTR_TYPE_DTYPE:
        if (a->u.i >= 0 && a->u.i < RP_DTYPE_COUNT_) return RP_OK;
        return rp_fail(err, RP_INVALID, "%s: %s is not an element type", op, key);
    case IR_ATTR_TYPE_STR:
        if (a->u.s && ir_custom_name_ok(a->u.s)) return RP_OK;
        return rp_fail(err, RP_INVALID, "%s: %s is not of the form namespace::name", op, key);
    case IR_ATTR_TYPE_BOOL:
        if (a->u.i == 0 || a->u.i == 1) return RP_OK;
        return rp_fail(err, RP_INVALID, "%s: %s is neither true nor false", op, key);
    case IR_ATTR_TYPE_GRAPH:
        if (a->u.graph && ir_graph_is_finished(a->u.graph)) return RP_OK;
        return rp_fail(err, RP_INVALID, "%s: %s is not a finished graph", op, key);
    case IR_ATTR_TYPE_INT:
    case IR_ATTR_TYPE_FLOAT:
    case IR_ATTR_TYPE_VALUES: break;
    }
    return RP_OK;
}

static ir_attr *find(ir_attr *a, uint32_t n, ir_attr_key key) {
    for (uint32_t i = 0; i < n; i++)
        if (a[i].key == key) return &a[i];
    return NULL;
}

/* Inserts in key order; the caller knows that key is absent. */
static void insert(ir_attr *a, uint32_t *n, ir_attr value) {
    assert(*n < IR_MAX_ATTRS && !find(a, *n, value.key));
    uint32_t i = (*n)++;
    for (; i > 0 && a[i - 1].key > value.key; i--) a[i] = a[i - 1];
    a[i] = value;
}

static void set_default(ir_attr *a, uint32_t *n, uint32_t mask, ir_attr value) {
    if ((mask >> value.key & 1) && !find(a, *n, value.key)) insert(a, n, value);
}

/* What axes of a node count over: its first operand, or the shape that iota gives. */
typedef struct axis_space {
    const ir_graph *g;
    const ir_node *n;
    const ir_attr *shape, *dtype; /* of iota */
} axis_space;

static ir_type_text space_text(const axis_space *s) {
    if (s->n->n_in > 0) return ir_type_of(s->g, s->n->in[0]);
    ir_shape shape = {.rank = s->shape->n};
    memcpy(shape.dim, s->shape->u.dims, shape.rank * sizeof *shape.dim);
    return ir_shape_text(s->g, s->dtype ? (rp_dtype)s->dtype->u.i : RP_DTYPE_F32, &shape);
}

/* *axis counted from the front. */
static rp_status front_axis(const axis_space *s, int64_t *axis, rp_error *err) {
    if (s->n->n_in == 0 && !s->shape) return RP_OK;
    int64_t rank = s->n->n_in > 0 ? ir_node_at(s->g, s->n->in[0])->shape.rank : s->shape->n;
    if (*axis < -rank || *axis >= rank)
        return rp_fail(err, RP_INVALID, "%s: axis %lld out of range for %s",
                       ir_op_table(s->n->op)->name, (long long)*axis, space_text(s).s);
    if (*axis < 0) *axis += rank;
    return RP_OK;
}

/* The axes of permute, in room of the caller. */
static rp_status front_axes(const axis_space *s, ir_attr *axes, int64_t *room, rp_error *err) {
    for (uint32_t i = 0; i < axes->n; i++) {
        room[i] = axes->u.ints[i];
        RP_TRY(front_axis(s, &room[i], err));
    }
    axes->u.ints = room;
    return RP_OK;
}

static rp_status round_const(const ir_attr *dtype, ir_attr *value, rp_error *err) {
    rp_dtype t = (rp_dtype)dtype->u.i;
    double v = value->u.f, r;
    if (rp_dtype_is_quant(t))
        return rp_fail(err, RP_INVALID, "const: no constants of block format %s", rp_dtype_name(t));
    r = ir_round(t, v);
    if (!ir_dtype_is_real(t) && r != v)
        return rp_fail(err, RP_INVALID, "const: %.17g is not a value of %s", v, rp_dtype_name(t));
    value->u.f = r != r ? (double)NAN : r == 0 && !ir_dtype_is_real(t) ? 0.0 : r;
    return RP_OK;
}

/* A write of everything has no offsets, so that it has one spelling. */
static void drop_offsets(const ir_graph *g, const ir_node *n, ir_attr *a, uint32_t *n_a) {
    if (n->n_in != 2 || *n_a != 1) return;
    const ir_shape *to = &ir_node_at(g, n->in[0])->shape, *x = &ir_node_at(g, n->in[1])->shape;
    bool whole = to->rank == x->rank && a->n == to->rank;
    for (uint32_t i = 0; whole && i < to->rank; i++) {
        int64_t v;
        whole = to->dim[i] == x->dim[i] && ir_dim_is_const(ir_graph_dims(g), a->u.dims[i], &v) &&
                v == 0;
    }
    if (whole) *n_a = 0;
}

/* A scan over slices is as long as they are many. */
static void set_loop_defaults(const ir_graph *g, const ir_node *n, ir_attr *a, uint32_t *n_a) {
    uint32_t mask = ir_op_table(n->op)->attr_mask;
    const ir_attr *carried = find(a, *n_a, IR_ATTR_CARRIED),
                  *sliced = find(a, *n_a, IR_ATTR_SLICED);
    set_default(a, n_a, mask, (ir_attr){.key = IR_ATTR_LIMIT, .u.i = INT32_MAX});
    if (!carried || !sliced || sliced->u.i < 1 || carried->u.i < 0 || carried->u.i >= n->n_in)
        return;
    const ir_shape *x = &ir_node_at(g, n->in[carried->u.i])->shape;
    if (x->rank > 0)
        set_default(a, n_a, mask, (ir_attr){.key = IR_ATTR_LENGTH, .u.dim = x->dim[0]});
}

/* A custom op whose schema names nothing has no list. Values that no schema has checked are read by nobody: an op that is not
 * registered is refused here. */
static rp_status complete_values(ir_attr *a, uint32_t *n_a, rp_op_attr *room, rp_error *err) {
    const ir_attr *name = find(a, *n_a, IR_ATTR_NAME);
    ir_attr *given = find(a, *n_a, IR_ATTR_ATTRS);
    if (!name) return rp_fail(err, RP_INVALID, "custom: attribute 'name' is missing");
    const rp_op_desc *d = ir_custom_find(name->u.s);
    if (!d)
        return rp_fail(err, RP_NOT_FOUND,
                       "custom: '%s' is not registered; call rp_op_register first", name->u.s);
    RP_TRY(
        ir_op_attrs_complete(d, given ? given->u.values : NULL, given ? given->n : 0, room, err));
    if (given) memmove(given, given + 1, (size_t)(&a[--*n_a] - given) * sizeof *a);
    if (d->n_attrs > 0)
        insert(a, n_a, (ir_attr){.key = IR_ATTR_ATTRS, .n = d->n_attrs, .u.values = room});
    return RP_OK;
}

/* a, *n_a: the attributes of node n so far. */
static rp_status add_defaults(const ir_graph *g, const ir_node *n, ir_attr *a, uint32_t *n_a,
                              ir_attr_room *room, rp_error *err) {
    const ir_op_info *info = ir_op_table(n->op);
    ir_attr *axis = find(a, *n_a, IR_ATTR_AXIS);
    ir_attr *axes = find(a, *n_a, IR_ATTR_AXES);
    axis_space space = {g, n, find(a, *n_a, IR_ATTR_SHAPE), find(a, *n_a, IR_ATTR_DTYPE)};
    if (axis) RP_TRY(front_axis(&space, &axis->u.i, err));
    if (axes) RP_TRY(front_axes(&space, axes, room->axes, err));
    set_default(a, n_a, info->attr_mask, (ir_attr){.key = IR_ATTR_KEEP, .u.i = 0});
    set_default(a, n_a, info->attr_mask, (ir_attr){.key = IR_ATTR_DESCENDING, .u.i = 0});
    set_default(a, n_a, info->attr_mask, (ir_attr){.key = IR_ATTR_TRANS_B, .u.i = 0});
    if (n->op == IR_slice && axis) {
        int64_t x = axis->u.i;
        set_default(a, n_a, info->attr_mask,
                    (ir_attr){.key = IR_ATTR_START, .u.dim = ir_dim_const(ir_graph_dims(g), 0)});
        set_default(a, n_a, info->attr_mask,
                    (ir_attr){.key = IR_ATTR_STOP, .u.dim = ir_node_at(g, n->in[0])->shape.dim[x]});
    }
    if (n->op == IR_update) drop_offsets(g, n, a, n_a);
    if (n->op == IR_custom) RP_TRY(complete_values(a, n_a, room->values, err));
    set_loop_defaults(g, n, a, n_a);
    const ir_attr *hd = find(a, *n_a, IR_ATTR_HEAD_DIM);
    if (n->op == IR_attention && hd && hd->u.i > 0) {
        ir_attr scale = {.key = IR_ATTR_SCALE, .u.f = (float)(1.0 / sqrt((double)hd->u.i))};
        set_default(a, n_a, info->attr_mask, scale);
    }
    const ir_attr *dt = find(a, *n_a, IR_ATTR_DTYPE);
    ir_attr *value = find(a, *n_a, IR_ATTR_VALUE);
    if (n->op == IR_const && dt && value) RP_TRY(round_const(dt, value, err));
    return RP_OK;
}

static rp_status check_complete(const ir_node *n, ir_attr *a, uint32_t n_a, rp_error *err) {
    const ir_op_info *info = ir_op_table(n->op);
    /* attrs and types only where the op asks for them; no offsets: all of it */
    if (n->op == IR_custom || n->op == IR_update) return RP_OK;
    for (unsigned k = 0; k < IR_ATTR_COUNT_; k++)
        if ((info->attr_mask >> k & 1) && !find(a, n_a, (ir_attr_key)k))
            return rp_fail(err, RP_INVALID, "%s: attribute '%s' is missing", info->name,
                           table[k].name);
    return RP_OK;
}

rp_status ir_attrs_normalise(const ir_graph *g, const ir_node *n, ir_attr *out, uint32_t *n_out,
                             ir_attr_room *room, rp_error *err) {
    const ir_op_info *info = ir_op_table(n->op);
    *n_out = 0;
    if (info->attr_mask == 0 && n->n_attrs == 0) return RP_OK;
    for (uint32_t i = 0; i < n->n_attrs; i++) {
        ir_attr a = n->attrs[i];
        if ((unsigned)a.key >= IR_ATTR_COUNT_ || !(info->attr_mask >> a.key & 1))
            return rp_fail(err, RP_INVALID, "%s: takes no attribute '%s'", info->name,
                           ir_attr_key_name(a.key));
        if (find(out, *n_out, a.key))
            return rp_fail(err, RP_INVALID, "%s: attribute '%s' is given twice", info->name,
                           table[a.key].name);
        RP_TRY(check_value(g, info->name, &a, err));
        if (table[a.key].type == IR_ATTR_TYPE_FLOAT && a.u.f != a.u.f) a.u.f = (double)NAN;
        insert(out, n_out, a);
    }
    /* What scalars become, at every call of a function that is recorded: nothing of it has a default. */
    if (n->op == IR_const && *n_out == 2)
        return round_const(find(out, 2, IR_ATTR_DTYPE), find(out, 2, IR_ATTR_VALUE), err);
    RP_TRY(add_defaults(g, n, out, n_out, room, err));
    return check_complete(n, out, *n_out, err);
}

static uint64_t float_bits(double v) {
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

static bool types_equal(const ir_attr *a, const ir_attr *b) {
    bool equal = a->n == b->n;
    for (uint32_t i = 0; equal && i < a->n; i++) {
        const ir_type *x = &a->u.types[i], *y = &b->u.types[i];
        equal = x->dtype == y->dtype && x->shape.rank == y->shape.rank &&
                memcmp(x->shape.dim, y->shape.dim, x->shape.rank * sizeof *x->shape.dim) == 0;
    }
    return equal;
}

static bool graphs_equal(const ir_graph *a, const ir_graph *b) {
    const char *x = a == b ? NULL : ir_graph_text(a), *y = x ? ir_graph_text(b) : NULL;
    return a == b || (x && y && strcmp(x, y) == 0);
}

static bool value_equal(const ir_attr *a, const ir_attr *b) {
    switch (table[a->key].type) {
    case IR_ATTR_TYPE_INTS:
        return a->n == b->n &&
               (a->n == 0 || memcmp(a->u.ints, b->u.ints, a->n * sizeof *a->u.ints) == 0);
    case IR_ATTR_TYPE_DIMS:
        return a->n == b->n &&
               (a->n == 0 || memcmp(a->u.dims, b->u.dims, a->n * sizeof *a->u.dims) == 0);
    case IR_ATTR_TYPE_FLOAT:
        return float_bits(a->u.f) == float_bits(b->u.f); /* -0 and 0 differ, NaN equals NaN */
    case IR_ATTR_TYPE_STR: return strcmp(a->u.s, b->u.s) == 0;
    case IR_ATTR_TYPE_DIM: return a->u.dim == b->u.dim;
    case IR_ATTR_TYPE_TYPES: return types_equal(a, b);
    case IR_ATTR_TYPE_GRAPH: return graphs_equal(a->u.graph, b->u.graph);
    case IR_ATTR_TYPE_VALUES:
        return a->n == b->n && ir_op_attrs_equal(a->u.values, b->u.values, a->n);
    case IR_ATTR_TYPE_INT:
    case IR_ATTR_TYPE_BOOL:
    case IR_ATTR_TYPE_DTYPE: break;
    }
    return a->u.i == b->u.i;
}

bool ir_attrs_equal(const ir_attr *a, const ir_attr *b, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        if (a[i].key != b[i].key || !value_equal(&a[i], &b[i])) return false;
    return true;
}

static uint64_t mix_type(uint64_t h, const ir_type *t) {
    h = base_hash_mix(base_hash_mix(h, t->dtype), t->shape.rank);
    for (uint32_t i = 0; i < t->shape.rank; i++) h = base_hash_mix(h, t->shape.dim[i]);
    return h;
}

/* By its text, so that bodies that say the same are one. */
static uint64_t mix_graph(uint64_t h, const ir_graph *g) {
    const char *text = ir_graph_text(g);
    return text ? base_hash_mix(h, base_hash(text, strlen(text)).lo) : h;
}

uint64_t ir_attrs_hash(const ir_attr *a, uint32_t n) {
    uint64_t h = n;
    for (uint32_t i = 0; i < n; i++) {
        h = base_hash_mix(h, a[i].key);
        switch (table[a[i].key].type) {
        case IR_ATTR_TYPE_INTS:
            for (uint32_t j = 0; j < a[i].n; j++) h = base_hash_mix(h, (uint64_t)a[i].u.ints[j]);
            break;
        case IR_ATTR_TYPE_DIMS:
            for (uint32_t j = 0; j < a[i].n; j++) h = base_hash_mix(h, a[i].u.dims[j]);
            break;
        case IR_ATTR_TYPE_FLOAT: h = base_hash_mix(h, float_bits(a[i].u.f)); break;
        case IR_ATTR_TYPE_STR:
            for (const char *s = a[i].u.s; *s; s++) h = base_hash_mix(h, (unsigned char)*s);
            break;
        case IR_ATTR_TYPE_DIM: h = base_hash_mix(h, a[i].u.dim); break;
        case IR_ATTR_TYPE_TYPES:
            for (uint32_t j = 0; j < a[i].n; j++) h = mix_type(h, &a[i].u.types[j]);
            break;
        case IR_ATTR_TYPE_GRAPH: h = mix_graph(h, a[i].u.graph); break;
        case IR_ATTR_TYPE_VALUES: h = ir_op_attrs_hash(h, a[i].u.values, a[i].n); break;
        case IR_ATTR_TYPE_INT:
        case IR_ATTR_TYPE_BOOL:
        case IR_ATTR_TYPE_DTYPE: h = base_hash_mix(h, (uint64_t)a[i].u.i); break;
        }
    }
    return h;
}

static bool copy_value(base_arena *arena, ir_attr *a) {
    if (table[a->key].type == IR_ATTR_TYPE_STR) {
        a->u.s = base_arena_str(arena, a->u.s);
        return a->u.s != NULL;
    }
    if (table[a->key].type == IR_ATTR_TYPE_VALUES && a->n > 0) {
        a->u.values = ir_op_attrs_copy(arena, a->u.values, a->n);
        return a->u.values != NULL;
    }
    if (table[a->key].type == IR_ATTR_TYPE_TYPES) {
        ir_type *p = base_arena_array(arena, a->n, sizeof *p);
        if (p) memcpy(p, a->u.types, a->n * sizeof *p);
        a->u.types = p;
        return p != NULL;
    }
    if (table[a->key].type == IR_ATTR_TYPE_INTS && a->n > 0) {
        int64_t *p = base_arena_array(arena, a->n, sizeof *p);
        if (p) memcpy(p, a->u.ints, a->n * sizeof *p);
        a->u.ints = p;
        return p != NULL;
    }
    if (table[a->key].type == IR_ATTR_TYPE_DIMS && a->n > 0) {
        ir_dim *p = base_arena_array(arena, a->n, sizeof *p);
        if (p) memcpy(p, a->u.dims, a->n * sizeof *p);
        a->u.dims = p;
        return p != NULL;
    }
    return true;
}

const ir_attr *ir_attrs_copy(base_arena *arena, const ir_attr *a, uint32_t n) {
    ir_attr *copy = base_arena_array(arena, n, sizeof *copy);
    if (!copy) return NULL;
    memcpy(copy, a, n * sizeof *copy);
    for (uint32_t i = 0; i < n; i++)
        if (!copy_value(arena, &copy[i])) return NULL;
    return copy;
}
