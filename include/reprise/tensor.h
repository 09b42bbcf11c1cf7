/* The tensor API: a transformer (or anything else) is written as C code over rp_tensor values.
 *
 * Tensors here are fake: they have a dtype and a shape with symbolic sizes (dim.h) and no data; each call
 * appends a node to the graph it is traced into. A failed call makes the graph fail: it and all later
 * calls give an invalid tensor, and rp_graph_finish reports the first failure with its call. So model
 * code needs no checks. */
#ifndef REPRISE_TENSOR_H
#define REPRISE_TENSOR_H

#include "reprise/dim.h"
#include "reprise/dtype.h"
#include "reprise/op.h"

/* Each call that makes a tensor tells its file and line: macros of the same names, at the end of this header, put RP_AT around it. An
 * error of the trace or of a compile begins with the line, one of the trace then with the call ("layer_norm: mul: ..."); logs, dumps
 * and comments of kernels name them. Nothing else depends on them. Define RP_NO_SITES before the first include to leave them out; a
 * call through a pointer, or with its name in parentheses, tells none, and what it made is counted to the next call that does. */
#ifdef RP_NO_SITES
#define RP_AT(name, call) (call)
#else
#define RP_AT(name, call) rp_at(call, name, __FILE__, __LINE__)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* It is of its graph: one that is kept until that is freed, or until the next call of a function that compiles itself, is
 * refused there. */
typedef struct rp_tensor {
    rp_graph *graph;
    uint32_t ref;
    uint32_t id; /* of the graph; 0: not told */
} rp_tensor;

/* What RP_AT stands for: gives `made`, which a call of that name at that place gave. The strings are copied. */
RP_API rp_tensor rp_at(rp_tensor made, const char *call, const char *file, int line);

/* name is copied. NULL when memory is exhausted. Free with rp_graph_free. */
RP_API rp_graph *rp_graph_new(const char *name);
RP_API void rp_graph_free(rp_graph *g);

/* Leaves. input: given at each call. param: immutable weight, may be of a block format along its
 * last dim. state: mutable memory at a fixed address. Names are unique in a graph and copied. */
RP_API rp_tensor rp_input(rp_graph *g, const char *name, rp_dtype dtype, rp_shape shape);
/* An input that the graph may write: the caller's memory changes at each call. Writing another input is refused. */
RP_API rp_tensor rp_mutable_input(rp_graph *g, const char *name, rp_dtype dtype, rp_shape shape);
RP_API rp_tensor rp_param(rp_graph *g, const char *name, rp_dtype dtype, rp_shape shape);
RP_API rp_tensor rp_state(rp_graph *g, const char *name, rp_dtype dtype, rp_shape shape);
/* Of an integer type less than 2^53, from which on a double does not have every integer; rp_const_int takes them all. What does not
 * fit into the type is rounded once, or saturates; of rp_const_int an integer type has the low bits. */
RP_API rp_tensor rp_const(rp_graph *g, rp_dtype dtype, double value);
RP_API rp_tensor rp_const_int(rp_graph *g, rp_dtype dtype, int64_t value);
RP_API rp_tensor rp_iota(rp_graph *g, rp_dtype dtype, rp_shape shape, int axis);
RP_API rp_tensor rp_empty(rp_graph *g, rp_dtype dtype, rp_shape shape);
/* A size as a value: f32, f64, i32 or i64 of rank 0. rp_iota has these types, too. */
RP_API rp_tensor rp_dim_value(rp_graph *g, rp_dim size, rp_dtype dtype);
#define rp_dim_value(g, size, dtype) RP_AT("rp_dim_value", (rp_dim_value)(g, RP_DIM(size), dtype))
/* No tensor: an operand that a call may do without. So is a zeroed rp_tensor. */
static inline rp_tensor rp_none(void) {
    rp_tensor none = {NULL, 0, 0};
    return none;
}

/* Rank 0 of an invalid tensor. */
RP_API rp_shape rp_tensor_shape(rp_tensor x);
/* The size of one axis; negative axes count from the last. */
RP_API rp_dim rp_tensor_dim(rp_tensor x, int axis);
RP_API rp_dtype rp_tensor_dtype(rp_tensor x);

/* Elementwise, numpy broadcasting: rp_neg(a), rp_add(a, b), rp_where(cond, a, b) and one call for each other such op of docs/ir.md, in
 * elementwise.h, which is part of this header. rp_round is half to even; comparisons (rp_lt, le, gt, ge, eq, ne) give bool; rp_not,
 * and, or, xor are of bool, and bit by bit of integers; rp_fma is a * b + c, rounded once.
 * Integers, of 8 to 64 bits, wrap around in their type. Of them: rp_floor_divide and rp_remainder as // and % in Python, torch and numpy: the quotient is rounded down, the
 * remainder has the sign of b. Division by 0 gives -1 (of u8 255) and the remainder a (torch raises an error on a CPU, and gives what the machine
 * does on a GPU); the smallest number by -1 wraps around. Of floats the remainder is exact but where the divisor is added to it, the quotient
 * is torch's, and by 0 they are a / b and NaN. rp_fmod cuts the quotient, so that the result has the sign of a, and is exact; an integer by 0 gives a. rp_shift_right keeps the sign; by less than 0 or by all bits and more, nothing
 * is left but that. */
RP_API rp_tensor rp_isnan(rp_tensor a);
/* Floats are rounded to nearest even; float to integer truncates. A float that does not fit saturates, NaN gives 0, where torch gives what the
 * machine does; of an integer that does not fit the low bits are kept, as in torch. */
RP_API rp_tensor rp_cast(rp_tensor a, rp_dtype dtype);
/* torch's a.view(dtype), of a dtype of as many bytes an element: every bit as it is, those of a NaN and of -0 included. Between floats and
 * integers of 8, 16, 32 and 64 bits in any direction; bool and block formats, and dtypes of other sizes, are refused. */
RP_API rp_tensor rp_bitcast(rp_tensor a, rp_dtype dtype);
/* Numbers of four bits, two a byte, the first in its low half: of i8 or u8 [...,2*K] the low four bits of each, u8[...,K], whose last axis must be
 * known to be even; and u8[...,K] as [...,2*K] of i8, -8 to 7, or of u8, 0 to 15. */
RP_API rp_tensor rp_pack_i4(rp_tensor a);
RP_API rp_tensor rp_unpack_i4(rp_tensor a, rp_dtype dtype);
/* a op scalar, in the dtype of a: rp_const says which doubles an integer type takes, here and in the calls below; rp_add_int and
 * rp_mul_int take any integer, and others rp_const_int as a tensor. */
RP_API rp_tensor rp_add_scalar(rp_tensor a, double s);
RP_API rp_tensor rp_mul_scalar(rp_tensor a, double s);
RP_API rp_tensor rp_add_int(rp_tensor a, int64_t s);
RP_API rp_tensor rp_mul_int(rp_tensor a, int64_t s);
RP_API rp_tensor rp_clamp(rp_tensor a, double lo, double hi);           /* NaN stays */
RP_API rp_tensor rp_masked_fill(rp_tensor a, rp_tensor mask, double s); /* s where mask is true */
RP_API rp_tensor rp_log1p(rp_tensor a); /* log(1 + a), also where a is small */
RP_API rp_tensor rp_expm1(rp_tensor a); /* exp(a) - 1, also where a is small */
/* Of floats, as in torch also where an argument is 0, -0, infinite or NaN; outside of its domain a function is NaN. exp2 is that of pow; tan
 * is computed in float32; the others in double precision and rounded once (docs/ir.md has what they may be off by). */
RP_API rp_tensor rp_exp2(rp_tensor a);
RP_API rp_tensor rp_log2(rp_tensor a); /* exact for powers of two */
RP_API rp_tensor rp_tan(rp_tensor a);
RP_API rp_tensor rp_asin(rp_tensor a);
RP_API rp_tensor rp_acos(rp_tensor a);
RP_API rp_tensor rp_atan(rp_tensor a);
RP_API rp_tensor rp_atan2(rp_tensor y, rp_tensor x); /* the angle of (x, y), in [-pi, pi] */
RP_API rp_tensor rp_sinh(rp_tensor a);
RP_API rp_tensor rp_cosh(rp_tensor a);
RP_API rp_tensor rp_erfinv(rp_tensor a); /* x with erf(x) = a */
/* sign: 0 of 0, of -0 and of NaN. trunc: towards 0. Both also of integers, as isfinite, which gives bool. */
RP_API rp_tensor rp_sign(rp_tensor a);
RP_API rp_tensor rp_trunc(rp_tensor a);
RP_API rp_tensor rp_isfinite(rp_tensor a);
/* |a| with the sign of b, which -0 has and a NaN has not: a NaN is taken for positive, where torch reads its sign bit. */
RP_API rp_tensor rp_copysign(rp_tensor a, rp_tensor b);
/* a + weight (b - a), from the nearer end: b - (b - a) (1 - weight) where |weight| is 0.5 or more. Each step is rounded (those of f16 and
 * bf16 in f32); kernels of torch fuse a product with a sum on some machines. */
RP_API rp_tensor rp_lerp(rp_tensor a, rp_tensor b, rp_tensor weight);
/* Between tensors, either of which may be rp_none(): hi where lo is greater. NaN of any of them stays. */
RP_API rp_tensor rp_clamp_tensor(rp_tensor a, rp_tensor lo, rp_tensor hi);

/* Reductions along axis (negative counts from the end); keep leaves a size of 1. Sums of f16 and bf16 are taken in f32. Sums and
 * products of i8, u8 and i16, also cumulative ones, are i64, as in torch; those of i32 stay i32. */
RP_API rp_tensor rp_sum(rp_tensor a, int axis, bool keep);
RP_API rp_tensor rp_prod(rp_tensor a, int axis, bool keep);
RP_API rp_tensor rp_amax(rp_tensor a, int axis, bool keep);
RP_API rp_tensor rp_amin(rp_tensor a, int axis, bool keep);
RP_API rp_tensor rp_mean(rp_tensor a, int axis, bool keep); /* NaN where the axis is empty */
/* The mean squared distance from the mean, over size - correction, or over 0 where that is less: NaN, or infinite, as torch's. Its
 * correction is 1 by default. */
RP_API rp_tensor rp_var(rp_tensor a, int axis, bool keep, int64_t correction);
/* The mean of those where mask, which broadcasts to a, is true; NaN of none. */
RP_API rp_tensor rp_masked_mean(rp_tensor a, rp_tensor mask, int axis, bool keep);
RP_API rp_tensor rp_logsumexp(rp_tensor a, int axis, bool keep); /* -inf where the axis is empty */
/* i32, the first of equals; a NaN is both largest and smallest. */
RP_API rp_tensor rp_argmax(rp_tensor a, int axis, bool keep);
RP_API rp_tensor rp_argmin(rp_tensor a, int axis, bool keep);
RP_API rp_tensor rp_any(rp_tensor a, int axis, bool keep); /* of bool; false along an empty axis */
RP_API rp_tensor rp_all(rp_tensor a, int axis, bool keep); /* of bool; true along an empty axis */

/* Along an axis. cumsum: element i is the sum of elements 0 to i. topk: the k largest of the last axis, the largest first and of
 * equals the first, a NaN as largest; indices are i32. sort: equals keep their order in both directions, a NaN as largest; of
 * floats and integers; topk of f64 and i64 sorts. A result that is NULL is not given. */
RP_API rp_tensor rp_cumsum(rp_tensor a, int axis);
/* The product, largest and least of elements 0 to i, values alone: loops of the graph, a step an element. A NaN stays; cummax and cummin want an axis that is not
 * empty. */
RP_API rp_tensor rp_cumprod(rp_tensor a, int axis);
RP_API rp_tensor rp_cummax(rp_tensor a, int axis);
RP_API rp_tensor rp_cummin(rp_tensor a, int axis);
RP_API void rp_topk(rp_tensor a, int64_t k, rp_tensor *values, rp_tensor *indices);
RP_API void rp_topk_along(rp_tensor a, int64_t k, int axis, rp_tensor *values, rp_tensor *indices);
RP_API void rp_sort(rp_tensor a, int axis, bool descending, rp_tensor *values, rp_tensor *indices);
RP_API rp_tensor rp_argsort(rp_tensor a, int axis, bool descending);
/* Mean and variance as rp_mean and rp_var give them. */
RP_API void rp_var_mean(rp_tensor a, int axis, bool keep, int64_t correction, rp_tensor *var,
                        rp_tensor *mean);

/* Views and moves. Axes, negative ones too, must be those of a; a shape says every size (none is inferred). A slice is
 * [start, stop) with 0 <= start <= stop <= size known for all values of the symbols: count from the end by
 * rp_dim_sub(size, n). */
RP_API rp_tensor rp_reshape(rp_tensor a, rp_shape shape);
RP_API rp_tensor rp_permute(rp_tensor a, const int *axes, uint32_t n);
RP_API rp_tensor rp_slice(rp_tensor a, int axis, rp_dim start, rp_dim stop);
#define rp_slice(a, axis, start, stop) \
    RP_AT("rp_slice", (rp_slice)(a, axis, RP_DIM(start), RP_DIM(stop)))
RP_API rp_tensor rp_broadcast(rp_tensor a, rp_shape shape);
/* Every step-th of [start, stop), step > 0: ceil((stop - start) / step) of them. */
RP_API rp_tensor rp_slice_step(rp_tensor a, int axis, rp_dim start, rp_dim stop, int64_t step);
#define rp_slice_step(a, axis, start, stop, step) \
    RP_AT("rp_slice_step", (rp_slice_step)(a, axis, RP_DIM(start), RP_DIM(stop), step))
RP_API rp_tensor rp_transpose(rp_tensor a, int i, int j); /* axes i and j exchanged */
RP_API rp_tensor rp_unsqueeze(rp_tensor a, int axis);     /* the result has a size of 1 at axis */
RP_API rp_tensor rp_squeeze(rp_tensor a, int axis);       /* which has the size 1 */
RP_API rp_tensor rp_flatten(rp_tensor a, int first, int last); /* axes first to last as one */
RP_API rp_tensor rp_flip(rp_tensor a, int axis);
RP_API rp_tensor rp_concat(const rp_tensor *parts, uint32_t n, int axis);
RP_API rp_tensor rp_stack(const rp_tensor *parts, uint32_t n, int axis); /* along a new axis */
/* before and after more elements of `value` along axis; a negative number, or a size that is known not to be above 0, takes as many away. */
RP_API rp_tensor rp_pad(rp_tensor a, int axis, rp_dim before, rp_dim after, double value);
#define rp_pad(a, axis, before, after, value) \
    RP_AT("rp_pad", (rp_pad)(a, axis, RP_DIM(before), RP_DIM(after), value))

/* Random numbers as a function of key and offset, both i64 of rank 0: the same on every device and for any number of threads.
 * Element i, row-major, is made of the bits of Philox 4x32-10 with that key and counter offset + i; numbers of a next call begin
 * at offset + the count of this. rp_philox: those bits themselves, of a counter and a key, i64 or i32. */
RP_API rp_tensor rp_rand(rp_tensor key, rp_tensor offset,
                         rp_shape shape); /* f32 in [0, 1), 24 bits */
RP_API rp_tensor rp_randn(rp_tensor key, rp_tensor offset, rp_shape shape);
/* x with each element 0 with probability p, else over 1 - p (torch's F.dropout in training); and, i32 of all but the last axis, a place of it drawn by softmax(logits). */
RP_API rp_tensor rp_dropout(rp_tensor x, double p, rp_tensor key, rp_tensor offset);
RP_API rp_tensor rp_categorical(rp_tensor logits, rp_tensor key,
                                rp_tensor offset); /* f32, normal (Box and Muller) */

/* By index. Indices are i32 or i64 and clamped into the axis that they count along, where torch fails or counts from the end. */
/* table[V,...], idx [N...] -> [N...,...]: rows of a table, as of an embedding. */
RP_API rp_tensor rp_gather(rp_tensor table, rp_tensor idx);
/* Along axis, idx [N]: the result has N there. */
RP_API rp_tensor rp_index_select(rp_tensor a, int axis, rp_tensor idx);
/* idx has a's shape but along axis: r[i][j] = a[i][idx[i][j]] for axis 1; torch.gather. */
RP_API rp_tensor rp_take_along(rp_tensor a, int axis, rp_tensor idx);
/* idx[N...] -> [N...,n] with 1 at idx and 0 elsewhere; no 1 where idx is outside of [0,n). */
RP_API rp_tensor rp_one_hot(rp_tensor idx, int64_t n, rp_dtype dtype);
/* i32: how many of the ascending bounds [K] are below each element (right: below or equal); all of them for NaN. torch.bucketize. Up to 64 bounds,
 * as many as a symbol says, and those of rows that may be none, are compared all with each; more are searched by halves. */
RP_API rp_tensor rp_bucketize(rp_tensor x, rp_tensor bounds, bool right);
/* The same of rows: sorted [...,N], ascending, and values [...,M] give i32[...,M], each in its own row; of sorted [N] those of any shape. Without a
 * NaN in sorted. torch.searchsorted. */
RP_API rp_tensor rp_searchsorted(rp_tensor sorted, rp_tensor values, bool right);
/* i32[n]: how many elements of x, integers of any shape, are i. Others count nowhere. */
RP_API rp_tensor rp_bincount(rp_tensor x, int64_t n);
/* i32[n,axes of x]: where the first n elements of x are that are not 0 (NaN is not), an index along each axis, in order, then rows of `fill`. A size does not depend on data,
 * so n is given, as to torch.nonzero_static and jax's nonzero(size=); how many there are is the rp_sum of rp_ne(x, 0) as i32. */
RP_API rp_tensor rp_nonzero(rp_tensor x, int64_t n, int64_t fill);
/* x with the elements of source, in order, where mask, which broadcasts to x, is true. Source has as many; its last stands for what it lacks. */
RP_API rp_tensor rp_masked_scatter(rp_tensor x, rp_tensor mask, rp_tensor source);
/* a with the elements of src at their idx along axis, in ascending order of where they are in src: r[i][idx[i][j]] = src[i][j] for
 * axis 1, or is joined with that: sums, products, the largest, the smallest (torch's scatter_reduce with include_self). Of equal
 * indices the last is left of a plain scatter. src has the sizes of a but along axis, and idx those of src. */
RP_API rp_tensor rp_scatter(rp_tensor a, int axis, rp_tensor idx, rp_tensor src);
RP_API rp_tensor rp_scatter_add(rp_tensor a, int axis, rp_tensor idx, rp_tensor src);
RP_API rp_tensor rp_scatter_prod(rp_tensor a, int axis, rp_tensor idx, rp_tensor src);
RP_API rp_tensor rp_scatter_amax(rp_tensor a, int axis, rp_tensor idx, rp_tensor src);
RP_API rp_tensor rp_scatter_amin(rp_tensor a, int axis, rp_tensor idx, rp_tensor src);
/* The same with idx [K]: row j of src along axis is added to (or put in the place of) row idx[j] of a. */
RP_API rp_tensor rp_index_add(rp_tensor a, int axis, rp_tensor idx, rp_tensor src);
RP_API rp_tensor rp_index_copy(rp_tensor a, int axis, rp_tensor idx, rp_tensor src);
/* a with a[idx[0], ..., idx[n-1]] = values, or += values; idx are of one shape S, values broadcasts to [S..., rest of a]. */
RP_API rp_tensor rp_index_put(rp_tensor a, const rp_tensor *idx, uint32_t n, rp_tensor values,
                              bool accumulate);
/* Whether row i may see column j of [rows,cols], as bool: j <= i + offset. */
RP_API rp_tensor rp_tril_mask(rp_graph *g, rp_dim rows, rp_dim cols, int64_t offset);
#define rp_tril_mask(g, rows, cols, offset) \
    RP_AT("rp_tril_mask", (rp_tril_mask)(g, RP_DIM(rows), RP_DIM(cols), offset))

/* a[...,M,K] x b[...,K,N], or b[...,N,K] with trans_b; leading axes broadcast; f32, f16 and bf16 in any mix, sums and result in
 * f32 (a cast of it is part of the same kernel), or f64 both, sums and result in f64, in a kernel without tiles. As in numpy, a[K] is a row and b[K] a column, and the result does not have that axis. */
RP_API rp_tensor rp_matmul(rp_tensor a, rp_tensor b, bool trans_b);
/* A product with any batch and contracted axes (negative ones count from the last), pair by pair of equal size. The result
 * has the batch axes, then the other axes of a, then those of b. At most RP_MAX_RANK - 2 batch axes. */
typedef struct rp_dot_dims {
    uint32_t n_batch, n_contract;
    int a_batch[RP_MAX_RANK], b_batch[RP_MAX_RANK];
    int a_contract[RP_MAX_RANK], b_contract[RP_MAX_RANK];
} rp_dot_dims;
RP_API rp_tensor rp_dot_general(rp_tensor a, rp_tensor b, const rp_dot_dims *d);
/* Groups of rows, each times a matrix of its own, as of experts: rows ends[g-1] to ends[g] - 1 (from 0) of a[M,K] times b[g], of b[G,K,N], or [G,N,K]
 * with trans_b; ends i32[G] or i64[G], ascending, and a group may be empty. f32[M,N] as of rp_matmul; rows behind the last group are 0. torch.nn.functional.grouped_mm,
 * whose product of equally long groups is rp_matmul. Its loop computes M rows, rounded up to tiles in each group, and copies a matrix a tile. */
RP_API rp_tensor rp_grouped_mm(rp_tensor a, rp_tensor b, bool trans_b, rp_tensor ends);
/* torch.einsum of 1 to RP_EINSUM_OPERANDS tensors, "bqd,bkd->bqk": a letter an axis, each once in a term, which has none for a scalar; without
 * "->" as numpy. Products are of two at a time, from the left; of f16 and bf16 they are f32. */
#define RP_EINSUM_OPERANDS 8
RP_API rp_tensor rp_einsum(const char *equation, const rp_tensor *x, uint32_t n);
/* Rounds f32[...,K] to a block format (RP_DTYPE_I16B32) and back. */
RP_API rp_tensor rp_quantize(rp_tensor a, rp_dtype format);
RP_API rp_tensor rp_dequant(rp_tensor a);

/* x[...,K] w[N,K]^T with the rounding points of the graph's numerics: block-quantised weights take
 * activations rounded to i16b32 (default) or as they are (exact); f16 and bf16 weights take activations cast
 * to that type; f32 weights take f32. */
RP_API rp_tensor rp_linear(rp_tensor x, rp_tensor w);

/* Writes. What is written is a version of memory: a state, an input made by rp_mutable_input, an rp_empty, or what an earlier
 * write gave; the result is its next version, and only that can be written again. A tensor always means the contents that it
 * had: to read what was written, read the result. The memory itself is written in place, and a state or an input ends as its
 * last version, returned or not. */
/* All of memory; value has its type and shape. */
RP_API rp_tensor rp_update(rp_tensor memory, rp_tensor value);
/* A box of value's shape, known to lie inside; offsets: of its first element along each axis, RP_SHAPE(2, T). */
RP_API rp_tensor rp_update_at(rp_tensor memory, rp_tensor value, rp_shape offsets);
/* What the custom op that gave `result` left of memory, an operand that it mutates. */
RP_API rp_tensor rp_written(rp_tensor memory, rp_tensor result);

/* Paged attention. Caches are [blocks, kv_heads, block_size, head_dim]. The store gives the cache with row t of x in
 * slots[t], for the attention to read. */
RP_API rp_tensor rp_kv_store(rp_tensor cache, rp_tensor x, rp_tensor slots);
typedef struct rp_attention_args {
    rp_tensor q;            /* f32[T, heads*head_dim] */
    rp_tensor k, v;         /* caches, as the stores gave them */
    rp_tensor seqs;         /* i32[T]: row of block_tables, < 0 = padding */
    rp_tensor positions;    /* i32[T] */
    rp_tensor block_tables; /* i32[S, B] */
    uint32_t heads, kv_heads, head_dim;
    double scale;
} rp_attention_args;
RP_API rp_tensor rp_attention(const rp_attention_args *a); /* f32[T, heads*head_dim] */

/* A registered op "namespace::name". shape and dtype: the result, where the op does not take them from an
 * operand (then ignored). */
RP_API rp_tensor rp_custom(rp_graph *g, const char *name, const rp_tensor *args, uint32_t n,
                           rp_dtype dtype, rp_shape shape);
/* One of several results (rp_op_desc.n_results): out[i] is of types[i]. rp_written takes out[0]. */
typedef struct rp_tensor_type {
    rp_dtype dtype;
    rp_shape shape;
} rp_tensor_type;
RP_API void rp_custom_results(rp_graph *g, const char *name, const rp_tensor *args, uint32_t n,
                              const rp_tensor_type *types, uint32_t n_out, rp_tensor *out);
/* A call with attributes (rp_op_desc.attrs), in any order; those that are left out have their defaults. */
typedef struct rp_custom_args {
    size_t size; /* sizeof(rp_custom_args); may be an older, smaller one */
    const char *name;
    const rp_tensor *args;
    uint32_t n;
    const struct rp_op_attr *attrs;
    uint32_t n_attrs;
    const rp_tensor_type *types; /* n_out of them, where the op asks calls for types; else NULL */
} rp_custom_args;
RP_API void rp_custom_call(rp_graph *g, const rp_custom_args *call, rp_tensor *out, uint32_t n_out);

/* What the host does while the graph runs, in the order in which it was recorded, at every run and replay, whether or not anybody reads what
 * is computed. On a GPU a function that compiles itself breaks its graph there; rp_compile says RP_UNSUPPORTED. message: of up to 255 bytes, or NULL.
 *
 * assert: all of a bool must hold, of any shape. The run fails with RP_INVALID otherwise, and says the line of the call, the first element that
 * does not hold and the message; results and memory that it writes are not defined then. Gives cond. */
RP_API rp_tensor rp_assert_at(rp_tensor cond, const char *message, const char *file, int line);
#define rp_assert(cond, message) rp_assert_at(cond, message, __FILE__, __LINE__)
/* print: a line "message: f32[2] [1, 2]" to the callback of rp_log_set_callback, whatever the level; to standard error where none was
 * set. Of more than 1000 elements, three from either end of each axis. Gives x. */
RP_API rp_tensor rp_print(rp_tensor x, const char *message);

typedef enum rp_numerics { RP_NUMERICS_DEFAULT, RP_NUMERICS_EXACT, RP_NUMERICS_FAST } rp_numerics;
/* Before the first op. New graphs are RP_NUMERICS_EXACT. */
RP_API void rp_graph_set_numerics(rp_graph *g, rp_numerics n);
RP_API rp_numerics rp_graph_numerics(const rp_graph *g);

/* Ends tracing. n may be 0 where the graph writes states alone. RP_INVALID with the first failure of the trace. */
RP_API rp_status rp_graph_finish(rp_graph *g, const rp_tensor *outputs, uint32_t n,
                                 rp_error *err) RP_MUST_USE;

/* The text form (docs/ir.md), owned by the caller (rp_free); and its inverse. */
RP_API rp_status rp_graph_print(const rp_graph *g, char **out, rp_error *err) RP_MUST_USE;
RP_API rp_status rp_graph_parse(const char *text, size_t len, rp_graph **out,
                                rp_error *err) RP_MUST_USE;
/* Frees what the library handed over. */
RP_API void rp_free(void *p);

#ifndef RP_NO_SITES
static inline void rp_topk_at(rp_tensor a, int64_t k, rp_tensor *values, rp_tensor *indices,
                              const char *file, int line) {
    rp_topk(a, k, values, indices);
    (void)rp_at(a, "rp_topk", file, line);
}
#define rp_topk(a, k, values, indices) rp_topk_at(a, k, values, indices, __FILE__, __LINE__)
/* NOLINTNEXTLINE(readability-function-size): the call and its place */
static inline void rp_topk_along_at(rp_tensor a, int64_t k, int axis, rp_tensor *values,
                                    rp_tensor *indices, const char *file, int line) {
    rp_topk_along(a, k, axis, values, indices);
    (void)rp_at(a, "rp_topk_along", file, line);
}
#define rp_topk_along(a, k, axis, values, indices) \
    rp_topk_along_at(a, k, axis, values, indices, __FILE__, __LINE__)
static inline void rp_sort_at(rp_tensor a, int axis, bool descending, rp_tensor *values,
                              rp_tensor *indices, const char *file, int line) {
    rp_sort(a, axis, descending, values, indices);
    (void)rp_at(a, "rp_sort", file, line);
}
#define rp_sort(a, axis, descending, values, indices) \
    rp_sort_at(a, axis, descending, values, indices, __FILE__, __LINE__)
/* NOLINTNEXTLINE(readability-function-size): the call and its place */
static inline void rp_var_mean_at(rp_tensor a, int axis, bool keep, int64_t correction,
                                  rp_tensor *var, rp_tensor *mean, const char *file, int line) {
    rp_var_mean(a, axis, keep, correction, var, mean);
    (void)rp_at(a, "rp_var_mean", file, line);
}
#define rp_var_mean(a, axis, keep, correction, var, mean) \
    rp_var_mean_at(a, axis, keep, correction, var, mean, __FILE__, __LINE__)
/* The results are told by the first of them. */
#define rp_custom_results(g, name, args, n, types, n_out, out) \
    ((rp_custom_results)(g, name, args, n, types, n_out, out), \
     (void)rp_at((out)[0], "rp_custom_results", __FILE__, __LINE__))
#define rp_custom_call(g, call, out, n_out) \
    ((rp_custom_call)(g, call, out, n_out), \
     (void)rp_at((out)[0], "rp_custom_call", __FILE__, __LINE__))
#define rp_tensor_dim(x, axis) RP_DIM_AT((rp_tensor_dim)(x, axis))
#define rp_input(...) RP_AT("rp_input", (rp_input)(__VA_ARGS__))
#define rp_mutable_input(...) RP_AT("rp_mutable_input", (rp_mutable_input)(__VA_ARGS__))
#define rp_param(...) RP_AT("rp_param", (rp_param)(__VA_ARGS__))
#define rp_state(...) RP_AT("rp_state", (rp_state)(__VA_ARGS__))
#define rp_const(...) RP_AT("rp_const", (rp_const)(__VA_ARGS__))
#define rp_const_int(...) RP_AT("rp_const_int", (rp_const_int)(__VA_ARGS__))
#define rp_iota(...) RP_AT("rp_iota", (rp_iota)(__VA_ARGS__))
#define rp_empty(...) RP_AT("rp_empty", (rp_empty)(__VA_ARGS__))
#define rp_cast(...) RP_AT("rp_cast", (rp_cast)(__VA_ARGS__))
#define rp_bitcast(...) RP_AT("rp_bitcast", (rp_bitcast)(__VA_ARGS__))
#define rp_pack_i4(...) RP_AT("rp_pack_i4", (rp_pack_i4)(__VA_ARGS__))
#define rp_unpack_i4(...) RP_AT("rp_unpack_i4", (rp_unpack_i4)(__VA_ARGS__))
#define rp_rand(...) RP_AT("rp_rand", (rp_rand)(__VA_ARGS__))
#define rp_randn(...) RP_AT("rp_randn", (rp_randn)(__VA_ARGS__))
#define rp_isnan(...) RP_AT("rp_isnan", (rp_isnan)(__VA_ARGS__))
#define rp_add_scalar(...) RP_AT("rp_add_scalar", (rp_add_scalar)(__VA_ARGS__))
#define rp_mul_scalar(...) RP_AT("rp_mul_scalar", (rp_mul_scalar)(__VA_ARGS__))
#define rp_add_int(...) RP_AT("rp_add_int", (rp_add_int)(__VA_ARGS__))
#define rp_mul_int(...) RP_AT("rp_mul_int", (rp_mul_int)(__VA_ARGS__))
#define rp_clamp(...) RP_AT("rp_clamp", (rp_clamp)(__VA_ARGS__))
#define rp_masked_fill(...) RP_AT("rp_masked_fill", (rp_masked_fill)(__VA_ARGS__))
#define rp_log1p(...) RP_AT("rp_log1p", (rp_log1p)(__VA_ARGS__))
#define rp_expm1(...) RP_AT("rp_expm1", (rp_expm1)(__VA_ARGS__))
#define rp_exp2(...) RP_AT("rp_exp2", (rp_exp2)(__VA_ARGS__))
#define rp_log2(...) RP_AT("rp_log2", (rp_log2)(__VA_ARGS__))
#define rp_tan(...) RP_AT("rp_tan", (rp_tan)(__VA_ARGS__))
#define rp_asin(...) RP_AT("rp_asin", (rp_asin)(__VA_ARGS__))
#define rp_acos(...) RP_AT("rp_acos", (rp_acos)(__VA_ARGS__))
#define rp_atan(...) RP_AT("rp_atan", (rp_atan)(__VA_ARGS__))
#define rp_atan2(...) RP_AT("rp_atan2", (rp_atan2)(__VA_ARGS__))
#define rp_sinh(...) RP_AT("rp_sinh", (rp_sinh)(__VA_ARGS__))
#define rp_cosh(...) RP_AT("rp_cosh", (rp_cosh)(__VA_ARGS__))
#define rp_erfinv(...) RP_AT("rp_erfinv", (rp_erfinv)(__VA_ARGS__))
#define rp_sign(...) RP_AT("rp_sign", (rp_sign)(__VA_ARGS__))
#define rp_trunc(...) RP_AT("rp_trunc", (rp_trunc)(__VA_ARGS__))
#define rp_isfinite(...) RP_AT("rp_isfinite", (rp_isfinite)(__VA_ARGS__))
#define rp_copysign(...) RP_AT("rp_copysign", (rp_copysign)(__VA_ARGS__))
#define rp_lerp(...) RP_AT("rp_lerp", (rp_lerp)(__VA_ARGS__))
#define rp_clamp_tensor(...) RP_AT("rp_clamp_tensor", (rp_clamp_tensor)(__VA_ARGS__))
#define rp_assert_at(...) RP_AT("rp_assert", (rp_assert_at)(__VA_ARGS__))
#define rp_print(...) RP_AT("rp_print", (rp_print)(__VA_ARGS__))
#define rp_sum(...) RP_AT("rp_sum", (rp_sum)(__VA_ARGS__))
#define rp_prod(...) RP_AT("rp_prod", (rp_prod)(__VA_ARGS__))
#define rp_amax(...) RP_AT("rp_amax", (rp_amax)(__VA_ARGS__))
#define rp_amin(...) RP_AT("rp_amin", (rp_amin)(__VA_ARGS__))
#define rp_mean(...) RP_AT("rp_mean", (rp_mean)(__VA_ARGS__))
#define rp_var(...) RP_AT("rp_var", (rp_var)(__VA_ARGS__))
#define rp_logsumexp(...) RP_AT("rp_logsumexp", (rp_logsumexp)(__VA_ARGS__))
#define rp_argmax(...) RP_AT("rp_argmax", (rp_argmax)(__VA_ARGS__))
#define rp_argmin(...) RP_AT("rp_argmin", (rp_argmin)(__VA_ARGS__))
#define rp_any(...) RP_AT("rp_any", (rp_any)(__VA_ARGS__))
#define rp_all(...) RP_AT("rp_all", (rp_all)(__VA_ARGS__))
#define rp_cumprod(...) RP_AT("rp_cumprod", (rp_cumprod)(__VA_ARGS__))
#define rp_cummax(...) RP_AT("rp_cummax", (rp_cummax)(__VA_ARGS__))
#define rp_cummin(...) RP_AT("rp_cummin", (rp_cummin)(__VA_ARGS__))
#define rp_cumsum(...) RP_AT("rp_cumsum", (rp_cumsum)(__VA_ARGS__))
#define rp_reshape(...) RP_AT("rp_reshape", (rp_reshape)(__VA_ARGS__))
#define rp_permute(...) RP_AT("rp_permute", (rp_permute)(__VA_ARGS__))
#define rp_broadcast(...) RP_AT("rp_broadcast", (rp_broadcast)(__VA_ARGS__))
#define rp_transpose(...) RP_AT("rp_transpose", (rp_transpose)(__VA_ARGS__))
#define rp_unsqueeze(...) RP_AT("rp_unsqueeze", (rp_unsqueeze)(__VA_ARGS__))
#define rp_squeeze(...) RP_AT("rp_squeeze", (rp_squeeze)(__VA_ARGS__))
#define rp_flatten(...) RP_AT("rp_flatten", (rp_flatten)(__VA_ARGS__))
#define rp_flip(...) RP_AT("rp_flip", (rp_flip)(__VA_ARGS__))
#define rp_concat(...) RP_AT("rp_concat", (rp_concat)(__VA_ARGS__))
#define rp_stack(...) RP_AT("rp_stack", (rp_stack)(__VA_ARGS__))
#define rp_gather(...) RP_AT("rp_gather", (rp_gather)(__VA_ARGS__))
#define rp_index_select(...) RP_AT("rp_index_select", (rp_index_select)(__VA_ARGS__))
#define rp_take_along(...) RP_AT("rp_take_along", (rp_take_along)(__VA_ARGS__))
#define rp_bucketize(...) RP_AT("rp_bucketize", (rp_bucketize)(__VA_ARGS__))
#define rp_searchsorted(...) RP_AT("rp_searchsorted", (rp_searchsorted)(__VA_ARGS__))
#define rp_bincount(...) RP_AT("rp_bincount", (rp_bincount)(__VA_ARGS__))
#define rp_nonzero(...) RP_AT("rp_nonzero", (rp_nonzero)(__VA_ARGS__))
#define rp_masked_scatter(...) RP_AT("rp_masked_scatter", (rp_masked_scatter)(__VA_ARGS__))
#define rp_masked_mean(...) RP_AT("rp_masked_mean", (rp_masked_mean)(__VA_ARGS__))
#define rp_grouped_mm(...) RP_AT("rp_grouped_mm", (rp_grouped_mm)(__VA_ARGS__))
#define rp_einsum(...) RP_AT("rp_einsum", (rp_einsum)(__VA_ARGS__))
#define rp_dropout(...) RP_AT("rp_dropout", (rp_dropout)(__VA_ARGS__))
#define rp_categorical(...) RP_AT("rp_categorical", (rp_categorical)(__VA_ARGS__))
#define rp_one_hot(...) RP_AT("rp_one_hot", (rp_one_hot)(__VA_ARGS__))
#define rp_scatter(...) RP_AT("rp_scatter", (rp_scatter)(__VA_ARGS__))
#define rp_scatter_add(...) RP_AT("rp_scatter_add", (rp_scatter_add)(__VA_ARGS__))
#define rp_scatter_prod(...) RP_AT("rp_scatter_prod", (rp_scatter_prod)(__VA_ARGS__))
#define rp_scatter_amax(...) RP_AT("rp_scatter_amax", (rp_scatter_amax)(__VA_ARGS__))
#define rp_scatter_amin(...) RP_AT("rp_scatter_amin", (rp_scatter_amin)(__VA_ARGS__))
#define rp_index_add(...) RP_AT("rp_index_add", (rp_index_add)(__VA_ARGS__))
#define rp_index_copy(...) RP_AT("rp_index_copy", (rp_index_copy)(__VA_ARGS__))
#define rp_index_put(...) RP_AT("rp_index_put", (rp_index_put)(__VA_ARGS__))
#define rp_argsort(...) RP_AT("rp_argsort", (rp_argsort)(__VA_ARGS__))
#define rp_matmul(...) RP_AT("rp_matmul", (rp_matmul)(__VA_ARGS__))
#define rp_dot_general(...) RP_AT("rp_dot_general", (rp_dot_general)(__VA_ARGS__))
#define rp_quantize(...) RP_AT("rp_quantize", (rp_quantize)(__VA_ARGS__))
#define rp_dequant(...) RP_AT("rp_dequant", (rp_dequant)(__VA_ARGS__))
#define rp_linear(...) RP_AT("rp_linear", (rp_linear)(__VA_ARGS__))
#define rp_update(...) RP_AT("rp_update", (rp_update)(__VA_ARGS__))
#define rp_update_at(...) RP_AT("rp_update_at", (rp_update_at)(__VA_ARGS__))
#define rp_written(...) RP_AT("rp_written", (rp_written)(__VA_ARGS__))
#define rp_kv_store(...) RP_AT("rp_kv_store", (rp_kv_store)(__VA_ARGS__))
#define rp_attention(...) RP_AT("rp_attention", (rp_attention)(__VA_ARGS__))
#define rp_custom(...) RP_AT("rp_custom", (rp_custom)(__VA_ARGS__))
#endif

#ifdef __cplusplus
}
#endif

#include "reprise/elementwise.h"
#endif
