/* What each op of a graph is in ONNX. An op whose operator is defined otherwise where numbers are beyond the ordinary (a float that no integer holds) is left out, not
 * written nearly right. */
#include <math.h>
#include <string.h>

#include "backend/onnx_write.h"

enum { MOST_OPERANDS = 1024 };

static onnx_name result(const onnx_writer *w) {
    return onnx_value(w->at);
}

static onnx_name operand(const onnx_writer *w, uint32_t i) {
    return onnx_value(w->node.in[i]);
}

static rp_status operand_node(const onnx_writer *w, uint32_t i, rp_node *out) {
    *out = (rp_node)RP_NODE_INIT;
    return rp_graph_node(w->g, w->node.in[i], out, w->err);
}

static rp_status attr_of(const onnx_writer *w, const char *key, rp_attr *out) {
    *out = (rp_attr)RP_ATTR_INIT;
    return rp_node_attr(w->g, w->at, key, out, w->err);
}

static bool is_int(rp_dtype t) {
    return t == RP_DTYPE_I8 || t == RP_DTYPE_U8 || t == RP_DTYPE_I16 || t == RP_DTYPE_I32 ||
           t == RP_DTYPE_I64;
}

/* --- leaves --------------------------------------------------------------------------------------- */

/* The bits of v in a type that C has; its size, 0 for another type. */
static size_t bits_of(rp_dtype t, double v, void *out) {
#define PUT(type)                    \
    do {                             \
        type x_ = (type)v;           \
        memcpy(out, &x_, sizeof x_); \
        return sizeof x_;            \
    } while (0)
    switch (t) {
    case RP_DTYPE_F32: PUT(float);
    case RP_DTYPE_F64: PUT(double);
    case RP_DTYPE_I32: PUT(int32_t);
    case RP_DTYPE_I64: PUT(int64_t);
    case RP_DTYPE_I16: PUT(int16_t);
    case RP_DTYPE_I8: PUT(int8_t);
    case RP_DTYPE_U8:
    case RP_DTYPE_BOOL: PUT(uint8_t);
    default: return 0;
    }
#undef PUT
}

/* v as t, which is a float. */
static onnx_name number(onnx_writer *w, rp_dtype t, double v) {
    uint64_t bits;
    rp_dtype has = bits_of(t, v, &bits) ? t : RP_DTYPE_F32;
    onnx_name x = onnx_constant(w, has, NULL, 0, &bits, bits_of(has, v, &bits));
    return has == t ? x : onnx_cast(w, x, t);
}

static rp_status put_const(onnx_writer *w) {
    rp_attr a;
    uint64_t bits;
    RP_TRY(attr_of(w, "value", &a));
    if (w->narrow && isnan(a.f)) return onnx_refuse(w, "a factor that is NaN is left out there");
    rp_dtype t = bits_of(w->node.dtype, a.f, &bits) ? w->node.dtype : RP_DTYPE_F32;
    onnx_name x = onnx_constant(w, t, NULL, 0, &bits, bits_of(t, a.f, &bits));
    onnx_op(w, "Cast", &x, 1, result(w),
            &(onnx_attr){.name = "to", .i = backend_onnx_type(w->node.dtype)}, 1);
    return RP_OK;
}

static void cast_to_result(onnx_writer *w, onnx_name x) {
    onnx_op(w, "Cast", &x, 1, result(w),
            &(onnx_attr){.name = "to", .i = backend_onnx_type(w->node.dtype)}, 1);
}

static rp_status put_size(onnx_writer *w) {
    rp_attr a;
    RP_TRY(attr_of(w, "size", &a));
    cast_to_result(w, onnx_scalar(w, a.dim[0], 0));
    return RP_OK;
}

/* 0, 1, ... along one axis of ones, then as large as the result. */
static rp_status put_iota(onnx_writer *w) {
    static const int64_t zero = 0, one = 1;
    rp_attr a;
    rp_dim flat[RP_MAX_RANK];
    RP_TRY(attr_of(w, "axis", &a));
    const rp_shape *s = &w->node.shape;
    for (uint32_t d = 0; d < s->rank; d++)
        flat[d] = d == (uint32_t)a.i ? s->dim[d] : rp_dim_const(1);
    onnx_name range[] = {onnx_constant(w, RP_DTYPE_I64, NULL, 0, &zero, sizeof zero),
                         onnx_scalar(w, s->dim[a.i], 0),
                         onnx_constant(w, RP_DTYPE_I64, NULL, 0, &one, sizeof one)};
    onnx_name row = onnx_temp(w), turned = onnx_temp(w);
    onnx_op(w, "Range", range, 3, row, NULL, 0);
    onnx_name in[] = {onnx_cast(w, row, w->node.dtype), onnx_sizes(w, flat, s->rank, 0)};
    onnx_op(w, "Reshape", in, 2, turned, &(onnx_attr){.name = "allowzero", .i = 1}, 1);
    onnx_name all[] = {turned, onnx_sizes(w, s->dim, s->rank, 0)};
    onnx_op(w, "Expand", all, 2, result(w), NULL, 0);
    return RP_OK;
}

/* --- views and moves ----------------------------------------------------------------------------------- */

static rp_status put_reshape(onnx_writer *w) {
    onnx_name in[] = {operand(w, 0), onnx_sizes(w, w->node.shape.dim, w->node.shape.rank, 0)};
    onnx_op(w, "Reshape", in, 2, result(w), &(onnx_attr){.name = "allowzero", .i = 1}, 1);
    return RP_OK;
}

static rp_status put_broadcast(onnx_writer *w) {
    onnx_name in[] = {operand(w, 0), onnx_sizes(w, w->node.shape.dim, w->node.shape.rank, 0)};
    onnx_op(w, "Expand", in, 2, result(w), NULL, 0);
    return RP_OK;
}

static rp_status put_permute(onnx_writer *w) {
    rp_attr a;
    onnx_name x = operand(w, 0);
    RP_TRY(attr_of(w, "axes", &a));
    onnx_op(w, "Transpose", &x, 1, result(w), &(onnx_attr){"perm", 0, a.ints, a.n}, 1);
    return RP_OK;
}

static rp_status put_slice(onnx_writer *w) {
    rp_attr axis, start, stop;
    RP_TRY(attr_of(w, "axis", &axis));
    RP_TRY(attr_of(w, "start", &start));
    RP_TRY(attr_of(w, "stop", &stop));
    onnx_name in[] = {operand(w, 0), onnx_sizes(w, start.dim, 1, 0), onnx_sizes(w, stop.dim, 1, 0),
                      onnx_ints(w, &axis.i, 1)};
    onnx_op(w, "Slice", in, 4, result(w), NULL, 0);
    return RP_OK;
}

static rp_status put_concat(onnx_writer *w) {
    onnx_name in[MOST_OPERANDS];
    rp_attr a;
    RP_TRY(attr_of(w, "axis", &a));
    for (uint32_t i = 0; i < w->node.n_in; i++) in[i] = operand(w, i);
    onnx_op(w, "Concat", in, w->node.n_in, result(w), &(onnx_attr){.name = "axis", .i = a.i}, 1);
    return RP_OK;
}

/* Indices clamp. */
static rp_status put_gather(onnx_writer *w) {
    static const int64_t zero = 0;
    rp_node table;
    RP_TRY(operand_node(w, 0, &table));
    onnx_name low[] = {onnx_cast(w, operand(w, 1), RP_DTYPE_I64),
                       onnx_constant(w, RP_DTYPE_I64, NULL, 0, &zero, sizeof zero)};
    onnx_name above = onnx_temp(w), within = onnx_temp(w);
    onnx_op(w, "Max", low, 2, above, NULL, 0);
    onnx_name high[] = {above, onnx_scalar(w, table.shape.dim[0], -1)};
    onnx_op(w, "Min", high, 2, within, NULL, 0);
    onnx_name in[] = {operand(w, 0), within};
    onnx_op(w, "Gather", in, 2, result(w), NULL, 0);
    return RP_OK;
}

/* --- elementwise ----------------------------------------------------------------------------------------- */

static void put_not_equal(onnx_writer *w, const onnx_name *in) {
    onnx_name same = onnx_temp(w);
    onnx_op(w, "Equal", in, 2, same, NULL, 0);
    onnx_op(w, "Not", &same, 1, result(w), NULL, 0);
}

/* Exact for every value: floats beyond the other type saturate here, of integers low bits are kept, and in ONNX both are anything. */
static bool casts_alike(rp_dtype from, rp_dtype to) {
    static const rp_dtype order[] = {RP_DTYPE_I8, RP_DTYPE_I16, RP_DTYPE_I32, RP_DTYPE_I64};
    int a = -1, b = -1;
    if (from == to || to == RP_DTYPE_BOOL || !is_int(to) || from == RP_DTYPE_BOOL) return true;
    if (!is_int(from)) return false;
    for (int i = 0; i < 4; i++) {
        if (order[i] == from) a = i;
        if (order[i] == to) b = i;
    }
    return b > a && (from != RP_DTYPE_U8 || b > 0);
}

static rp_status put_cast(onnx_writer *w) {
    rp_node x;
    RP_TRY(operand_node(w, 0, &x));
    if (!casts_alike(x.dtype, w->node.dtype))
        return onnx_refuse(w, "what does not fit has a value here, and in ONNX is undefined");
    if (w->node.dtype == RP_DTYPE_BOOL && x.dtype != RP_DTYPE_BOOL) { /* a NaN is true */
        static const int64_t zero = 0;
        onnx_name none = onnx_constant(w, RP_DTYPE_I64, NULL, 0, &zero, sizeof zero);
        onnx_name in[] = {operand(w, 0), onnx_cast(w, none, x.dtype)};
        put_not_equal(w, in);
        return RP_OK;
    }
    cast_to_result(w, operand(w, 0));
    return RP_OK;
}

static rp_status put_rsqrt(onnx_writer *w) {
    onnx_name x = operand(w, 0), root = onnx_temp(w);
    onnx_op(w, "Sqrt", &x, 1, root, NULL, 0);
    onnx_op(w, "Reciprocal", &root, 1, result(w), NULL, 0);
    return RP_OK;
}

static rp_status put_ne(onnx_writer *w) {
    onnx_name in[] = {operand(w, 0), operand(w, 1)};
    put_not_equal(w, in);
    return RP_OK;
}

/* Greater, by its mirror: of a NaN some libraries say that it is greater. */
static rp_status put_mirrored(onnx_writer *w, const char *op) {
    onnx_name in[] = {operand(w, 1), operand(w, 0)};
    onnx_op(w, op, in, 2, result(w), NULL, 0);
    return RP_OK;
}

static rp_status put_gt(onnx_writer *w) {
    return put_mirrored(w, "Less");
}

static rp_status put_ge(onnx_writer *w) {
    return put_mirrored(w, "LessOrEqual");
}

static onnx_name is_nan(onnx_writer *w, onnx_name x) {
    onnx_name out = onnx_temp(w);
    onnx_op(w, "IsNaN", &x, 1, out, NULL, 0);
    return out;
}

static onnx_name where(onnx_writer *w, onnx_name c, onnx_name yes, onnx_name no) {
    onnx_name in[] = {c, yes, no}, out = onnx_temp(w);
    onnx_op(w, "Where", in, 3, out, NULL, 0);
    return out;
}

static void where_to_result(onnx_writer *w, onnx_name c, onnx_name yes, onnx_name no) {
    onnx_name in[] = {c, yes, no};
    onnx_op(w, "Where", in, 3, result(w), NULL, 0);
}

/* A NaN stays one, which ONNX leaves open. */
static rp_status put_exp(onnx_writer *w) {
    onnx_name x = operand(w, 0), y = onnx_temp(w);
    onnx_op(w, "Exp", &x, 1, y, NULL, 0);
    where_to_result(w, is_nan(w, x), x, y);
    return RP_OK;
}

/* A NaN wins, which ONNX leaves open. */
static rp_status put_best_of_two(onnx_writer *w, const char *op, bool greatest) {
    onnx_name a = operand(w, 0), b = operand(w, 1), in[] = {a, b};
    if (is_int(w->node.dtype)) {
        onnx_op(w, op, in, 2, result(w), NULL, 0);
        return RP_OK;
    }
    onnx_name less[] = {greatest ? b : a, greatest ? a : b}, first[] = {onnx_temp(w), is_nan(w, a)};
    onnx_name chosen = onnx_temp(w);
    onnx_op(w, "Less", less, 2, first[0], NULL, 0);
    onnx_op(w, "Or", first, 2, chosen, NULL, 0);
    where_to_result(w, chosen, a, b);
    return RP_OK;
}

static rp_status put_max(onnx_writer *w) {
    return put_best_of_two(w, "Max", true);
}

static rp_status put_min(onnx_writer *w) {
    return put_best_of_two(w, "Min", false);
}

static rp_status put_fma(onnx_writer *w) {
    onnx_name in[] = {operand(w, 0), operand(w, 1)}, product = onnx_temp(w);
    onnx_op(w, "Mul", in, 2, product, NULL, 0);
    onnx_name sum[] = {product, operand(w, 2)};
    onnx_op(w, "Add", sum, 2, result(w), NULL, 0);
    return RP_OK;
}

/* --- reductions and products -------------------------------------------------------------------------------- */

/* Libraries reduce integers in floats, or saturate. */
static rp_status check_reduced(onnx_writer *w) {
    rp_node x;
    RP_TRY(operand_node(w, 0, &x));
    return is_int(x.dtype) ? onnx_refuse(w, "reductions of integers are not exact there") : RP_OK;
}

static rp_status put_sum(onnx_writer *w) {
    rp_attr axis, keep;
    RP_TRY(check_reduced(w));
    RP_TRY(attr_of(w, "axis", &axis));
    RP_TRY(attr_of(w, "keep", &keep));
    onnx_name in[] = {operand(w, 0), onnx_ints(w, &axis.i, 1)};
    onnx_op(w, "ReduceSum", in, 2, result(w), &(onnx_attr){.name = "keepdims", .i = keep.i}, 1);
    return RP_OK;
}

static rp_status put_prod(onnx_writer *w) {
    rp_attr axis, keep;
    onnx_name x = operand(w, 0);
    RP_TRY(check_reduced(w));
    RP_TRY(attr_of(w, "axis", &axis));
    RP_TRY(attr_of(w, "keep", &keep));
    const onnx_attr attr[] = {{"axes", 0, &axis.i, 1}, {"keepdims", keep.i, NULL, 0}};
    onnx_op(w, "ReduceProd", &x, 1, result(w), attr, 2);
    return RP_OK;
}

static onnx_name reduced(onnx_writer *w, const char *op, onnx_name x, const onnx_attr *attr) {
    onnx_name out = onnx_temp(w);
    onnx_op(w, op, &x, 1, out, attr, 2);
    return out;
}

/* A NaN wins, which ONNX leaves open: the others are reduced, with `last`, behind which there is none, in place of NaNs. */
static rp_status put_best(onnx_writer *w, const char *op, double last) {
    rp_attr axis, keep;
    onnx_name x = operand(w, 0);
    const rp_dtype t = w->node.dtype;
    RP_TRY(check_reduced(w));
    RP_TRY(attr_of(w, "axis", &axis));
    RP_TRY(attr_of(w, "keep", &keep));
    const onnx_attr attr[] = {{"axes", 0, &axis.i, 1}, {"keepdims", keep.i, NULL, 0}};
    onnx_name at = is_nan(w, x), rest = where(w, at, number(w, t, last), x);
    onnx_name any = reduced(w, "ReduceMax", onnx_cast(w, at, RP_DTYPE_F32), attr);
    where_to_result(w, onnx_cast(w, any, RP_DTYPE_BOOL), number(w, t, (double)NAN),
                    reduced(w, op, rest, attr));
    return RP_OK;
}

static rp_status put_amax(onnx_writer *w) {
    return put_best(w, "ReduceMax", -(double)INFINITY);
}

static rp_status put_amin(onnx_writer *w) {
    return put_best(w, "ReduceMin", (double)INFINITY);
}

/* Where the first NaN is, or else the first of the largest. */
static rp_status put_argmax(onnx_writer *w) {
    rp_attr axis, keep;
    rp_node of;
    onnx_name x = operand(w, 0);
    RP_TRY(check_reduced(w));
    RP_TRY(operand_node(w, 0, &of));
    RP_TRY(attr_of(w, "axis", &axis));
    RP_TRY(attr_of(w, "keep", &keep));
    const onnx_attr attr[] = {{"axis", axis.i, NULL, 0}, {"keepdims", keep.i, NULL, 0}};
    const onnx_attr axes[] = {{"axes", 0, &axis.i, 1}, {"keepdims", keep.i, NULL, 0}};
    onnx_name at = is_nan(w, x), rest = where(w, at, number(w, of.dtype, -(double)INFINITY), x);
    onnx_name flags = onnx_cast(w, at, RP_DTYPE_F32), any = reduced(w, "ReduceMax", flags, axes);
    cast_to_result(w, where(w, onnx_cast(w, any, RP_DTYPE_BOOL), reduced(w, "ArgMax", flags, attr),
                            reduced(w, "ArgMax", rest, attr)));
    return RP_OK;
}

static rp_status put_cumsum(onnx_writer *w) {
    rp_attr axis;
    RP_TRY(attr_of(w, "axis", &axis));
    onnx_name in[] = {operand(w, 0),
                      onnx_constant(w, RP_DTYPE_I64, NULL, 0, &axis.i, sizeof axis.i)};
    onnx_op(w, "CumSum", in, 2, result(w), NULL, 0);
    return RP_OK;
}

/* Operands of smaller floats are read as f32. */
static rp_status put_matmul(onnx_writer *w) {
    rp_attr t;
    onnx_name in[2];
    RP_TRY(attr_of(w, "trans_b", &t));
    for (uint32_t i = 0; i < 2; i++) {
        rp_node x;
        RP_TRY(operand_node(w, i, &x));
        if (!backend_onnx_type(x.dtype)) return onnx_refuse(w, "its weights are of a block format");
        in[i] = x.dtype == w->node.dtype ? operand(w, i)
                                         : onnx_cast(w, operand(w, i), w->node.dtype);
        if (i == 0 || !t.i) continue;
        int64_t perm[RP_MAX_RANK];
        for (uint32_t d = 0; d < x.shape.rank; d++) perm[d] = d;
        perm[x.shape.rank - 1] = x.shape.rank - 2;
        perm[x.shape.rank - 2] = x.shape.rank - 1;
        onnx_name turned = onnx_temp(w);
        onnx_op(w, "Transpose", &in[1], 1, turned, &(onnx_attr){"perm", 0, perm, x.shape.rank}, 1);
        in[1] = turned;
    }
    onnx_op(w, "MatMul", in, 2, result(w), NULL, 0);
    return RP_OK;
}

/* --- the table ---------------------------------------------------------------------------------------------- */

/* For which operands the operator is that of the graph. */
typedef enum onnx_for {
    ANY,
    FLOATS, /* of integers it changes nothing */
    BOOLS
} onnx_for;

static const struct {
    const char *op, *onnx;
    onnx_for of;
} same[] = {
    {"neg", "Neg", ANY},          {"abs", "Abs", ANY},        {"sqrt", "Sqrt", ANY},
    {"recip", "Reciprocal", ANY}, {"log", "Log", ANY},        {"sin", "Sin", ANY},
    {"cos", "Cos", ANY},          {"tanh", "Tanh", ANY},      {"erf", "Erf", ANY},
    {"sigmoid", "Sigmoid", ANY},  {"floor", "Floor", FLOATS}, {"ceil", "Ceil", FLOATS},
    {"round", "Round", FLOATS},   {"not", "Not", BOOLS},      {"add", "Add", ANY},
    {"sub", "Sub", ANY},          {"mul", "Mul", ANY},        {"div", "Div", ANY},
    {"pow", "Pow", ANY},          {"eq", "Equal", ANY},       {"lt", "Less", ANY},
    {"le", "LessOrEqual", ANY},   {"and", "And", BOOLS},      {"or", "Or", BOOLS},
    {"xor", "Xor", BOOLS},        {"where", "Where", ANY},    {"copy", "Identity", ANY},
};

static const struct {
    const char *op;
    rp_status (*put)(onnx_writer *w);
} others[] = {
    {"const", put_const},
    {"size", put_size},
    {"iota", put_iota},
    {"reshape", put_reshape},
    {"broadcast", put_broadcast},
    {"permute", put_permute},
    {"slice", put_slice},
    {"concat", put_concat},
    {"gather", put_gather},
    {"cast", put_cast},
    {"rsqrt", put_rsqrt},
    {"ne", put_ne},
    {"gt", put_gt},
    {"ge", put_ge},
    {"exp", put_exp},
    {"max", put_max},
    {"min", put_min},
    {"fma", put_fma},
    {"sum", put_sum},
    {"prod", put_prod},
    {"amax", put_amax},
    {"amin", put_amin},
    {"argmax", put_argmax},
    {"cumsum", put_cumsum},
    {"matmul", put_matmul},
};

/* What gives values of its operands, so that nothing is rounded. */
static bool moves(const char *op) {
    static const char *const all[] = {"const",  "reshape", "broadcast", "permute", "slice",
                                      "concat", "gather",  "where",     "copy"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i], op) == 0) return true;
    return false;
}

static rp_status put_same(onnx_writer *w, const char *op, onnx_for of) {
    onnx_name in[3];
    if (of == BOOLS && w->node.dtype != RP_DTYPE_BOOL)
        return onnx_refuse(w, "bit by bit it has no operator");
    if (of == FLOATS && is_int(w->node.dtype)) op = "Identity";
    for (uint32_t i = 0; i < w->node.n_in; i++) in[i] = operand(w, i);
    onnx_op(w, op, in, w->node.n_in, result(w), NULL, 0);
    return RP_OK;
}

/* Some libraries have no operators for them, others let what does not fit saturate. */
static rp_status check_small(onnx_writer *w) {
    rp_node x;
    for (uint32_t i = 0; i < w->node.n_in; i++) {
        RP_TRY(operand_node(w, i, &x));
        if (x.dtype == RP_DTYPE_I8 || x.dtype == RP_DTYPE_U8 || x.dtype == RP_DTYPE_I16)
            return onnx_refuse(w, "integers of 8 and 16 bits need not wrap around there");
    }
    return RP_OK;
}

rp_status onnx_node(onnx_writer *w) {
    const char *op = w->node.op;
    const rp_dtype t = w->node.dtype;
    if (strcmp(op, "bitcast") == 0) return onnx_refuse(w, "it has no operator");
    if ((t == RP_DTYPE_F16 || t == RP_DTYPE_BF16) && !moves(op))
        return onnx_refuse(w, "it is computed as f32 there, and need not be rounded");
    if (!moves(op) && strcmp(op, "cast") != 0) RP_TRY(check_small(w));
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (strcmp(same[i].op, op) == 0) return put_same(w, same[i].onnx, same[i].of);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(others[i].op, op) == 0) return others[i].put(w);
    return onnx_refuse(w, "it has no operator");
}
