/* Composites of the tensor API, under the names of torch.nn.functional: each records the ops that it is made of.
 *
 * Where x is f16 or bf16 they compute in f32 and round the result to x's type, as torch does. Weights may be of any float
 * type. "(optional)" operands may be rp_none(). */
#ifndef REPRISE_NN_H
#define REPRISE_NN_H

#include "reprise/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- norms: over the last axis where nothing else is said ---- */

/* weight (optional). Gemma's 1 + w: rp_add_scalar(w, 1). */
RP_API rp_tensor rp_rms_norm(rp_tensor x, rp_tensor weight, double eps);
/* weight, bias (optional) */
RP_API rp_tensor rp_layer_norm(rp_tensor x, rp_tensor weight, rp_tensor bias, double eps);
/* x[N,C,...] normalised over C/groups channels and all axes behind; weight, bias [C] (optional). */
RP_API rp_tensor rp_group_norm(rp_tensor x, uint32_t groups, rp_tensor weight, rp_tensor bias,
                               double eps);
/* As at inference: x[N,C,...], mean and var [C] as trained; weight, bias [C] (optional). */
RP_API rp_tensor rp_batch_norm(rp_tensor x, rp_tensor mean, rp_tensor var, rp_tensor weight,
                               rp_tensor bias, double eps);
/* x over max(its Euclidean length along axis, eps). */
RP_API rp_tensor rp_l2_normalize(rp_tensor x, int axis, double eps);
RP_API rp_tensor rp_softmax(rp_tensor x, int axis);
RP_API rp_tensor rp_log_softmax(rp_tensor x, int axis);
/* logits [N,C], target i32[N] or i64[N], clamped into [0,C): -log_softmax(logits)[i, target[i]] of each row, f32[N]. C must be
 * known. torch.nn.functional.cross_entropy takes the mean of them by default. */
RP_API rp_tensor rp_cross_entropy(rp_tensor logits, rp_tensor target);
/* The same with what torch and others add: label_smoothing in [0,1] mixes in the mean over all classes; z_loss * logsumexp(logits)^2 keeps logits
 * small; rows whose target is ignore_index, where it `ignores`, give 0 (torch divides by the number of the others). */
typedef struct rp_cross_entropy_args {
    double label_smoothing, z_loss;
    bool ignores;
    int64_t ignore_index;
} rp_cross_entropy_args;
RP_API rp_tensor rp_cross_entropy_with(rp_tensor logits, rp_tensor target,
                                       const rp_cross_entropy_args *args);

/* ---- activations ---- */

RP_API rp_tensor rp_relu(rp_tensor x);
RP_API rp_tensor rp_leaky_relu(rp_tensor x, double slope);
RP_API rp_tensor rp_elu(rp_tensor x, double alpha);
RP_API rp_tensor rp_silu(rp_tensor x);
RP_API rp_tensor rp_gelu_erf(rp_tensor x);
RP_API rp_tensor rp_gelu_tanh(rp_tensor x);
/* silu, or gelu by erf, of the first half of the last axis, times the second (vLLM's SiluAndMul, GeluAndMul). */
RP_API rp_tensor rp_swiglu(rp_tensor x);
RP_API rp_tensor rp_geglu(rp_tensor x);
RP_API rp_tensor rp_quick_gelu(rp_tensor x);          /* x * sigmoid(1.702 x) */
RP_API rp_tensor rp_softplus(rp_tensor x);            /* log(1 + exp(x)) */
RP_API rp_tensor rp_softcap(rp_tensor x, double cap); /* cap * tanh(x / cap) */

/* ---- positions ---- */

/* Half-split rotary embedding (Llama, Qwen): x[T,H,D], cos and sin [T,D/2]; or x[...,D] with cos and sin that broadcast to
 * [...,D/2], such as [B,H,T,D] with [T,D/2]. */
RP_API rp_tensor rp_rope(rp_tensor x, rp_tensor cos, rp_tensor sin);
/* The same with neighbours (2i, 2i+1) as pairs (GPT-J, DeepSeek, GGUF's order of Llama weights). */
RP_API rp_tensor rp_rope_interleaved(rp_tensor x, rp_tensor cos, rp_tensor sin);

/* cos and sin of positions, i32 or i64 of any shape, f32[...,D/2], as the two above take them: pair i turns by position * f(i), f(i) = base^(-2i/D).
 * - RP_ROPE_LINEAR: f / factor.
 * - RP_ROPE_LLAMA3 (Llama 3.1): r f + (1 - r) f / factor, r = (original f / 2 pi - low_freq_factor) / (high_freq_factor - low_freq_factor), cut to [0,1].
 * - RP_ROPE_YARN (Peng et al., arXiv 2309.00071; transformers' _compute_yarn_parameters): (1 - r) f + r f / factor, r = (i - lo) / (hi - lo), cut to [0,1], where
 *   lo = floor(at(beta_fast)), hi = ceil(at(beta_slow)) within [0, D-1], and at(n) = D log(original / (2 pi n)) / (2 log base) is the pair that turns n
 *   times within the original positions. cos and sin are multiplied by attention_factor; where that is 0, by m(mscale) / m(mscale_all_dim),
 *   m(s) = 0.1 s log(factor) + 1 (1 where factor <= 1), or by m(1) where these are 0.
 * NTK is another base: base * factor^(D/(D-2)). Angles are computed in double precision, where others round the frequencies to f32. */
typedef enum rp_rope_scaling {
    RP_ROPE_PLAIN,
    RP_ROPE_LINEAR,
    RP_ROPE_LLAMA3,
    RP_ROPE_YARN
} rp_rope_scaling;
#define RP_ROPE_SECTIONS 4
typedef struct rp_rope_args {
    int64_t dim; /* D, of a head, as far as it is turned */
    double base; /* 0: 10000 */
    rp_rope_scaling scaling;
    double factor;                            /* of what scales */
    int64_t original;                         /* positions of the training; of Llama 3 and YaRN */
    double low_freq_factor, high_freq_factor; /* 0: 1 and 4 */
    double beta_fast, beta_slow;              /* 0: 32 and 1 */
    double mscale, mscale_all_dim;            /* DeepSeek's */
    double attention_factor;
    /* mRoPE (Qwen2-VL): the first sections[0] pairs have the positions [0,...], the next sections[1] the positions [1,...], and so on, as
     * {16, 24, 24} of time, height and width; zeros: one position for all */
    uint32_t sections[RP_ROPE_SECTIONS];
} rp_rope_args;
RP_API void rp_rope_tables(rp_tensor positions, const rp_rope_args *args, rp_tensor *cos,
                           rp_tensor *sin);

/* ---- attention over dense operands ---- */

typedef struct rp_sdpa_args {
    rp_tensor q;    /* [...,H,T,D] */
    rp_tensor k, v; /* [...,KV,S,D] and [...,KV,S,DV]; KV divides H: heads of a group share */
    rp_tensor mask; /* (optional) bool that broadcasts to [...,H,T,S]; false: not seen */
    rp_tensor bias; /* (optional) is added to the scaled scores; broadcasts so, too */
    double scale;   /* 0: 1/sqrt(D) */
    double softcap; /* 0: none; else the scores become softcap * tanh(scores / softcap) */
    bool causal;    /* row i sees columns 0 to i, as torch's is_causal */
    int64_t
        window; /* 0: none, negative: refused; else row i sees no column at i - window or before, nor at i + window or behind */
} rp_sdpa_args;
/* softmax(q k^T * scale + bias) v as f32[...,H,T,DV] (of f64 operands f64); a row that sees nothing gives zeros, as torch's does. */
RP_API rp_tensor rp_scaled_dot_product_attention(const rp_sdpa_args *a);
/* The same, and the log-sum-exp of each row's scores, as they are behind scale, softcap, bias and masks: *lse f32[...,H,T] (of f64 f64), -inf for a row that
 * sees nothing. The natural logarithm, as torch's _scaled_dot_product_flash_attention and flash-attn give it: with it attention over parts of the columns
 * is joined. Compiled, it keeps all columns, also those that a mask by position hides (docs/ir.md). lse may be NULL. */
RP_API rp_tensor rp_sdpa_lse(const rp_sdpa_args *a, rp_tensor *lse);

/* Attention over B sequences of several lengths, which lie one behind the other: sequence i has rows cu_q[i] to cu_q[i+1] - 1 of q and rows
 * cu_k[i] to cu_k[i+1] - 1 of k and v, and its rows see those columns alone. torch.nn.attention.varlen, flash_attn_varlen_func. */
typedef struct rp_varlen_args {
    rp_tensor q;          /* [T,H,D]; T and S may be 0 */
    rp_tensor k, v;       /* [S,KV,D] and [S,KV,DV]; KV divides H: heads of a group share */
    rp_tensor cu_q, cu_k; /* [B+1], i32 or i64, ascending; a sequence may be empty */
    rp_dim max_q, max_k;  /* the rows, and the columns, that any sequence has; zero: T and S */
    double scale;         /* 0: 1/sqrt(D) */
    double softcap;       /* 0: none; as above */
    /* Positions count from the ends of a sequence: its last row sees its last column. */
    bool causal;
    int64_t window; /* 0: none; as above, from the ends, too */
} rp_varlen_args;
/* f32[T,H,DV] (of f64 f64), and, where lse is not NULL, the log-sum-exps as of rp_sdpa_lse, f32[H,T]. It computes B * max_q * max_k scores a head, so tell the
 * longest. Rows of no sequence, those behind max_q of one, and rows that see nothing, are 0 and -inf; columns behind max_k are not seen. */
RP_API rp_tensor rp_varlen_attention(const rp_varlen_args *a, rp_tensor *lse);

/* ---- numbers of 8 bits with scales ---- */

/* x is near (q - zero) * scale, with q of i8, u8, f8e4m3fn or f8e5m2. Scales, f32, lie as x does, with a size of 1 along each axis that
 * they are shared along, and broadcast: one of all, one of each place of an axis (a channel), one of each row of the last axis (a token).
 * Of groups along the last axis: reshape it to [...,K/group,group]. torchao's choose_qparams_affine, quantize_affine, dequantize_affine. */
typedef enum rp_granularity { RP_PER_TENSOR, RP_PER_AXIS, RP_PER_ROW } rp_granularity;
typedef struct rp_qparams_args {
    rp_dtype dtype; /* of q */
    rp_granularity per;
    int axis; /* of RP_PER_AXIS; negative ones count from the last */
    /* Of i8 and u8: from the least to the greatest; else, and of f8 always, from -most to most. */
    bool affine;
} rp_qparams_args;
/* By what x holds. affine: scale = (max(x, 0) - min(x, 0)) / 255 and zero = least q - round(min(x, 0) / scale), within q, as
 * quantized_decomposed.choose_qparams of torch. Else scale = max |x| / the greatest q (127 of i8 and u8, 448 of f8e4m3fn, 57344 of f8e5m2)
 * and zero = 0 (128 of u8), as choose_qparams_per_token. A scale is at least 2^-23. zero, i32, lies as scale does. One that is NULL is not given. */
RP_API void rp_choose_qparams(rp_tensor x, const rp_qparams_args *args, rp_tensor *scale,
                              rp_tensor *zero);
/* round(x * (1 / scale)) + zero, in f32 and half to even; of f8 rounded to that alone. What does not fit saturates, an infinity too; NaN is 0, of f8
 * NaN. zero (optional). */
RP_API rp_tensor rp_quantize_affine(rp_tensor x, rp_tensor scale, rp_tensor zero, rp_dtype dtype);
/* f32: (q - zero) * scale. zero (optional). */
RP_API rp_tensor rp_dequantize_affine(rp_tensor q, rp_tensor scale, rp_tensor zero);
/* (a * scale_a) (b * scale_b) + bias in f32, a[M,K] and b[K,N], or [N,K] with trans_b, of i8, u8, f8 or f32, f16, bf16: torch._scaled_mm,
 * torch.nn.functional.scaled_mm. Scales along K multiply operands, the others the product, whose sums are of f32: those of i8 are exact up to a K of 1040. */
typedef struct rp_scaled_mm_args {
    /* As their operands lie: one element; or along each axis 1, its size, or one for each block. */
    rp_tensor scale_a, scale_b;
    rp_tensor bias; /* (optional) [N] */
    bool trans_b;
    int64_t block; /* elements, 0: 128; the last one of an axis may have fewer */
} rp_scaled_mm_args;
RP_API rp_tensor rp_scaled_mm(rp_tensor a, rp_tensor b, const rp_scaled_mm_args *args);

/* ---- images and sequences ---- */

/* Zero: 1 for stride, dilation and groups, none for padding (of zeros, on both sides). Index 0: height, 1: width. Kernels have
 * up to 1024 elements of a channel, more only where windows are known to lie side by side and to cover x (patches of an image). */
typedef struct rp_conv_args {
    int64_t stride[2], padding[2], dilation[2];
    uint32_t groups;
} rp_conv_args;
/* x[N,C,H,W], weight [O,C/groups,KH,KW], bias [O] (optional): [N,O,H',W']. args NULL: all zero. */
RP_API rp_tensor rp_conv2d(rp_tensor x, rp_tensor weight, rp_tensor bias, const rp_conv_args *args);
/* x[N,C,L], weight [O,C/groups,K]: [N,O,L']; index 1 of args counts. */
RP_API rp_tensor rp_conv1d(rp_tensor x, rp_tensor weight, rp_tensor bias, const rp_conv_args *args);
/* x[N,C,D,H,W], weight [O,C/groups,KD,KH,KW]: [N,O,D',H',W']. Index 0 of args: the depth. KD is up to 256, KH and KW as of rp_conv2d. */
typedef struct rp_conv3d_args {
    int64_t stride[3], padding[3], dilation[3];
    uint32_t groups;
} rp_conv3d_args;
RP_API rp_tensor rp_conv3d(rp_tensor x, rp_tensor weight, rp_tensor bias,
                           const rp_conv3d_args *args);
/* The transpose of a convolution: x[N,C,H,W], weight [C,O/groups,KH,KW]: [N,O,(H-1)*stride - 2*padding + dilation*(KH-1) + 1 +
 * extra, W' likewise]; extra is torch's output_padding, from 0 to below the strides. Of [N,C,L] index 1 of args counts. */
RP_API rp_tensor rp_conv_transpose2d(rp_tensor x, rp_tensor weight, rp_tensor bias,
                                     const rp_conv_args *args, int64_t extra);
RP_API rp_tensor rp_conv_transpose1d(rp_tensor x, rp_tensor weight, rp_tensor bias,
                                     const rp_conv_args *args, int64_t extra);
RP_API rp_tensor rp_conv_transpose3d(rp_tensor x, rp_tensor weight, rp_tensor bias,
                                     const rp_conv3d_args *args, int64_t extra);
/* x[N,C,H,W] by windows of size x size, stride apart (0: size), padding at most half of one. The mean counts padding as zeros, as
 * torch's does. */
RP_API rp_tensor rp_max_pool2d(rp_tensor x, int64_t size, int64_t stride, int64_t padding);
RP_API rp_tensor rp_avg_pool2d(rp_tensor x, int64_t size, int64_t stride, int64_t padding);
/* x[N,C,H,W] with each element times x times. */
RP_API rp_tensor rp_upsample_nearest2d(rp_tensor x, int64_t times);

/* As at the end of tensor.h. */
#ifndef RP_NO_SITES
/* NOLINTNEXTLINE(readability-function-size): the call and its place */
static inline void rp_choose_qparams_at(rp_tensor x, const rp_qparams_args *args, rp_tensor *scale,
                                        rp_tensor *zero, const char *file, int line) {
    rp_choose_qparams(x, args, scale, zero);
    (void)rp_at(x, "rp_choose_qparams", file, line);
}
#define rp_choose_qparams(...) rp_choose_qparams_at(__VA_ARGS__, __FILE__, __LINE__)
/* NOLINTNEXTLINE(readability-function-size): the call and its place */
static inline void rp_rope_tables_at(rp_tensor positions, const rp_rope_args *args, rp_tensor *cos,
                                     rp_tensor *sin, const char *file, int line) {
    rp_rope_tables(positions, args, cos, sin);
    (void)rp_at(positions, "rp_rope_tables", file, line);
}
#define rp_rope_tables(...) rp_rope_tables_at(__VA_ARGS__, __FILE__, __LINE__)
#define rp_rms_norm(...) RP_AT("rp_rms_norm", (rp_rms_norm)(__VA_ARGS__))
#define rp_layer_norm(...) RP_AT("rp_layer_norm", (rp_layer_norm)(__VA_ARGS__))
#define rp_group_norm(...) RP_AT("rp_group_norm", (rp_group_norm)(__VA_ARGS__))
#define rp_batch_norm(...) RP_AT("rp_batch_norm", (rp_batch_norm)(__VA_ARGS__))
#define rp_l2_normalize(...) RP_AT("rp_l2_normalize", (rp_l2_normalize)(__VA_ARGS__))
#define rp_softmax(...) RP_AT("rp_softmax", (rp_softmax)(__VA_ARGS__))
#define rp_log_softmax(...) RP_AT("rp_log_softmax", (rp_log_softmax)(__VA_ARGS__))
#define rp_cross_entropy(...) RP_AT("rp_cross_entropy", (rp_cross_entropy)(__VA_ARGS__))
#define rp_relu(...) RP_AT("rp_relu", (rp_relu)(__VA_ARGS__))
#define rp_leaky_relu(...) RP_AT("rp_leaky_relu", (rp_leaky_relu)(__VA_ARGS__))
#define rp_elu(...) RP_AT("rp_elu", (rp_elu)(__VA_ARGS__))
#define rp_silu(...) RP_AT("rp_silu", (rp_silu)(__VA_ARGS__))
#define rp_gelu_erf(...) RP_AT("rp_gelu_erf", (rp_gelu_erf)(__VA_ARGS__))
#define rp_gelu_tanh(...) RP_AT("rp_gelu_tanh", (rp_gelu_tanh)(__VA_ARGS__))
#define rp_cross_entropy_with(...) \
    RP_AT("rp_cross_entropy_with", (rp_cross_entropy_with)(__VA_ARGS__))
#define rp_swiglu(...) RP_AT("rp_swiglu", (rp_swiglu)(__VA_ARGS__))
#define rp_geglu(...) RP_AT("rp_geglu", (rp_geglu)(__VA_ARGS__))
#define rp_quick_gelu(...) RP_AT("rp_quick_gelu", (rp_quick_gelu)(__VA_ARGS__))
#define rp_softplus(...) RP_AT("rp_softplus", (rp_softplus)(__VA_ARGS__))
#define rp_softcap(...) RP_AT("rp_softcap", (rp_softcap)(__VA_ARGS__))
#define rp_rope(...) RP_AT("rp_rope", (rp_rope)(__VA_ARGS__))
#define rp_rope_interleaved(...) RP_AT("rp_rope_interleaved", (rp_rope_interleaved)(__VA_ARGS__))
#define rp_scaled_dot_product_attention(...) \
    RP_AT("rp_scaled_dot_product_attention", (rp_scaled_dot_product_attention)(__VA_ARGS__))
#define rp_sdpa_lse(...) RP_AT("rp_sdpa_lse", (rp_sdpa_lse)(__VA_ARGS__))
#define rp_varlen_attention(...) RP_AT("rp_varlen_attention", (rp_varlen_attention)(__VA_ARGS__))
#define rp_quantize_affine(...) RP_AT("rp_quantize_affine", (rp_quantize_affine)(__VA_ARGS__))
#define rp_dequantize_affine(...) RP_AT("rp_dequantize_affine", (rp_dequantize_affine)(__VA_ARGS__))
#define rp_scaled_mm(...) RP_AT("rp_scaled_mm", (rp_scaled_mm)(__VA_ARGS__))
#define rp_conv2d(...) RP_AT("rp_conv2d", (rp_conv2d)(__VA_ARGS__))
#define rp_conv_transpose2d(...) RP_AT("rp_conv_transpose2d", (rp_conv_transpose2d)(__VA_ARGS__))
#define rp_conv_transpose1d(...) RP_AT("rp_conv_transpose1d", (rp_conv_transpose1d)(__VA_ARGS__))
#define rp_conv_transpose3d(...) RP_AT("rp_conv_transpose3d", (rp_conv_transpose3d)(__VA_ARGS__))
#define rp_conv3d(...) RP_AT("rp_conv3d", (rp_conv3d)(__VA_ARGS__))
#define rp_conv1d(...) RP_AT("rp_conv1d", (rp_conv1d)(__VA_ARGS__))
#define rp_max_pool2d(...) RP_AT("rp_max_pool2d", (rp_max_pool2d)(__VA_ARGS__))
#define rp_avg_pool2d(...) RP_AT("rp_avg_pool2d", (rp_avg_pool2d)(__VA_ARGS__))
#define rp_upsample_nearest2d(...) \
    RP_AT("rp_upsample_nearest2d", (rp_upsample_nearest2d)(__VA_ARGS__))
#endif

#ifdef __cplusplus
}
#endif
#endif
