/* One element of arithmetic, as the generated code does it. Implemented by gen, which owns the text of the
 * prelude that both are compiled from. */
#ifndef KIR_SCALAR_H
#define KIR_SCALAR_H

#include "kir/inst.h"

float kir_alu_f32(ir_op op, float a, float b, float c);
double kir_alu_f64(ir_op op, double a, double b, double c);
/* Sums, differences and products wrap around. */
int32_t kir_alu_i32(ir_op op, int32_t a, int32_t b, int32_t c);
int64_t kir_alu_i64(ir_op op, int64_t a, int64_t b, int64_t c);
/* Truncate, saturate; NaN gives 0. */
int32_t kir_f32_to_i32(float x);
int64_t kir_f32_to_i64(float x);
int32_t kir_f64_to_i32(double x);
int64_t kir_f64_to_i64(double x);
/* Rounded to odd, so that rounding to a narrower type after it rounds once. */
float kir_i64_to_odd(int64_t v);
float kir_f64_to_odd(double v);
int32_t kir_saturate(int64_t v, kir_range to);
/* f32 rounded through a dtype. */
float kir_round_f32(rp_dtype t, float x);
/* One element of a buffer. */
float kir_load_f32(rp_dtype t, const void *base, int64_t i);
int32_t kir_load_i32(rp_dtype t, const void *base, int64_t i);
int64_t kir_load_i64(const void *base, int64_t i);
void kir_store_f32(rp_dtype t, void *base, int64_t i, float v);
void kir_store_i32(rp_dtype t, void *base, int64_t i, int32_t v);
void kir_store_i64(void *base, int64_t i, int64_t v);

#endif
