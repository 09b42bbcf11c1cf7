/* A custom op in PTX, ptx::scale: out = x * factor + offset + the columns of x, of f32[rows, columns]. */
#ifndef SUPPORT_PTX_OP_H
#define SUPPORT_PTX_OP_H

#include "reprise/reprise.h"

static const char ptx_scale[] =
    ".version 7.8\n"
    ".target sm_90\n"
    ".address_size 64\n"
    ".visible .entry scale(.param .u64 x, .param .u64 out,\n"
    "                      .param .s64 x_rows, .param .s64 x_columns,\n"
    "                      .param .s64 out_rows, .param .s64 out_columns,\n"
    "                      .param .f64 factor, .param .s64 offset, .param .s64 items)\n"
    "{\n"
    "    .reg .pred %past;\n"
    "    .reg .b32 %r<4>;\n"
    "    .reg .b64 %i<5>;\n"
    "    .reg .f32 %f;\n"
    "    .reg .f64 %d<3>;\n"
    "    griddepcontrol.wait;\n"
    "    mov.u32 %r1, %ctaid.x;\n"
    "    mov.u32 %r2, %ntid.x;\n"
    "    mov.u32 %r3, %tid.x;\n"
    "    mul.wide.u32 %i1, %r1, %r2;\n"
    "    cvt.u64.u32 %i2, %r3;\n"
    "    add.s64 %i1, %i1, %i2;\n"
    "    ld.param.s64 %i2, [items];\n"
    "    setp.ge.s64 %past, %i1, %i2;\n"
    "    @%past bra done;\n"
    "    shl.b64 %i1, %i1, 2;\n"
    "    ld.param.u64 %i2, [x];\n"
    "    add.s64 %i2, %i2, %i1;\n"
    "    ld.global.f32 %f, [%i2];\n"
    "    cvt.f64.f32 %d1, %f;\n"
    "    ld.param.f64 %d2, [factor];\n"
    "    mul.rn.f64 %d1, %d1, %d2;\n"
    "    ld.param.s64 %i3, [offset];\n"
    "    ld.param.s64 %i4, [x_columns];\n"
    "    add.s64 %i3, %i3, %i4;\n"
    "    cvt.rn.f64.s64 %d2, %i3;\n"
    "    add.rn.f64 %d1, %d1, %d2;\n"
    "    cvt.rn.f32.f64 %f, %d1;\n"
    "    ld.param.u64 %i2, [out];\n"
    "    add.s64 %i2, %i2, %i1;\n"
    "    st.global.f32 [%i2], %f;\n"
    "done:\n"
    "    ret;\n"
    "}\n";

static const rp_op_attr ptx_schema[] = {{.name = "factor", .kind = RP_OP_F64, .f = 1},
                                        {.name = "offset", .kind = RP_OP_I64}};
static const rp_op_desc ptx_desc = {.size = sizeof(rp_op_desc),
                                    .name = "ptx::scale",
                                    .attrs = ptx_schema,
                                    .n_attrs = 2,
                                    .threads = 128,
                                    .ptx = ptx_scale,
                                    .ptx_entry = "scale"};

/* x * -0.5 + offset + columns, of an x that is computed, which is then negated. */
static inline rp_tensor ptx_scaled(rp_tensor x, int64_t offset) {
    const rp_op_attr given[] = {{.name = "offset", .kind = RP_OP_I64, .i = offset},
                                {.name = "factor", .kind = RP_OP_F64, .f = -0.5}};
    rp_tensor in = rp_add_scalar(x, 1), out;
    const rp_custom_args a = {
        .size = sizeof a, .name = "ptx::scale", .args = &in, .n = 1, .attrs = given, .n_attrs = 2};
    rp_custom_call(x.graph, &a, &out, 1);
    return rp_neg(out);
}

#endif
