/* Floats of 8 bits: against torch's casts, every code, roundings of floats from everywhere, and graphs by all back ends. */
#include "support/both.h"

#include <math.h>

#include "gen/embed/prelude.h"
#include "ir/eval.h"

/* torch.tensor(x).to(torch.float8_e4m3fn) and .to(torch.float8_e5m2), viewed as bytes; torch 2.15 on a CPU. */
static const struct {
    float x;
    uint8_t e4m3fn, e5m2;
} casts[] = {{0.0f, 0x00, 0x00},
             {-0.0f, 0x80, 0x80},
             {0x1p+0f, 0x38, 0x3c},
             {-0x1p+0f, 0xb8, 0xbc},
             {0x1.99999ap-4f, 0x1d, 0x2e},
             {0x1.1p+0f, 0x38, 0x3c},
             {0x1.3p+0f, 0x3a, 0x3d},
             {0x1.2p+0f, 0x39, 0x3c},
             {0x1.bfp+8f, 0x7e, 0x5f},
             {0x1.cp+8f, 0x7e, 0x5f},
             {-0x1.cp+8f, 0xfe, 0xdf},
             {0x1.dp+8f, 0x7e, 0x5f},
             {0x1.d00002p+8f, 0x7e, 0x5f},
             {0x1.d1p+8f, 0x7e, 0x5f},
             {0x1.dfe666p+8f, 0x7e, 0x5f},
             {0x1.ep+8f, 0x7e, 0x60},
             {0x1.93e594p+99f, 0x7e, 0x7c},
             {INFINITY, 0x7e, 0x7c},
             {-INFINITY, 0xfe, 0xfc},
             {NAN, 0x7f, 0x7f},
             {0x1p-6f, 0x08, 0x24},
             {0x1p-7f, 0x04, 0x20},
             {0x1p-9f, 0x01, 0x18},
             {0x1p-10f, 0x00, 0x14},
             {0x1.8p-10f, 0x01, 0x16},
             {-0x1p-11f, 0x80, 0x90},
             {0x1.8p-9f, 0x02, 0x1a},
             {0x1.fp-7f, 0x08, 0x24},
             {0x1.eb851ep-7f, 0x08, 0x24},
             {0x1.cp+15f, 0x7e, 0x7b},
             {0x1.dffep+15f, 0x7e, 0x7b},
             {0x1.ep+15f, 0x7e, 0x7c},
             {-0x1.ep+15f, 0xfe, 0xfc},
             {0x1p+16f, 0x7e, 0x7c},
             {0x1p-14f, 0x00, 0x04},
             {0x1p-15f, 0x00, 0x02},
             {0x1p-16f, 0x00, 0x01},
             {0x1p-17f, 0x00, 0x00},
             {0x1.8p-17f, 0x00, 0x01},
             {0x1p-18f, 0x00, 0x00},
             {0x1.4p+0f, 0x3a, 0x3d},
             {0x1.2p+0f, 0x39, 0x3c},
             {0x1.6p+0f, 0x3b, 0x3e},
             {-0x1.ap+0f, 0xbd, 0xbe},
             {0x1.16c2p-133f, 0x00, 0x00},
             {0x1.ff933cp+127f, 0x7e, 0x7c}};

static uint8_t packed(rp_dtype t, double v) {
    uint8_t b = 0;
    ir_pack(t, &v, 1, &b);
    return b;
}

static void casts_are_those_of_torch(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof casts / sizeof *casts; i++) {
        float x = casts[i].x;
        uint8_t got[] = {rp_f32_to_e4m3fn(x), rp_f32_to_e5m2(x)};
        if (got[0] == casts[i].e4m3fn && (got[1] == casts[i].e5m2)) continue;
        fail_msg("%a gives 0x%02x and 0x%02x", (double)x, got[0], got[1]);
    }
}

static void every_code_is_its_value(void **state) {
    static const rp_dtype types[] = {RP_DTYPE_F8E4M3FN, RP_DTYPE_F8E5M2};
    (void)state;
    for (int t = 0; t < 2; t++)
        for (int c = 0; c < 256; c++) {
            int bits = t ? 2 : 3, bias = t ? 15 : 7, e = (c & 0x7f) >> bits,
                m = c & ((1 << bits) - 1);
            double v = e ? ldexp((1 << bits) + m, e - bias - bits) : ldexp(m, 1 - bias - bits), got;
            uint8_t byte = (uint8_t)c;
            bool nan = t ? e == 31 && m : (c & 0x7f) == 0x7f;
            float f = t ? rp_e5m2_to_f32(byte) : rp_e4m3fn_to_f32(byte);
            if (t && e == 31 && !m) v = (double)INFINITY;
            if (c >> 7) v = -v;
            ir_unpack(types[t], &byte, 1, &got);
            if (nan) {
                assert_true(isnan(got) && isnan(f));
                continue;
            }
            assert_true(got == v && signbit(got) == signbit(v));
            assert_true((double)f == v && !signbit(f) == !signbit(v));
            assert_int_equal(packed(types[t], v), c);
        }
}

/* Of every exponent: around each step of the fraction, and strided. */
static void casts_round_as_the_interpreter(void **state) {
    (void)state;
    for (uint64_t u = 0; u <= UINT32_MAX;
         u += u % 0x80000 < 3 || u % 0x80000 > 0x7fffb ? 1 : 4093) {
        float x = rp_from_bits((uint32_t)u);
        bool nan = isnan(x);
        uint8_t a = packed(RP_DTYPE_F8E4M3FN, (double)x), b = packed(RP_DTYPE_F8E5M2, (double)x);
        if (nan ? isnan(rp_round_e4m3fn(x)) && isnan(rp_round_e5m2(x))
                : rp_f32_to_e4m3fn(x) == a && rp_f32_to_e5m2(x) == b)
            continue;
        fail_msg("%a gives 0x%02x and 0x%02x", (double)x, rp_f32_to_e4m3fn(x), rp_f32_to_e5m2(x));
    }
}

/* Casts from and to all types, moves, comparisons, weights of a product and memory. */
static void graphs_agree(void **state) {
    static const char text[] =
        "graph @f(%x: f32[9,32], %i: i32[9,32], %l: i64[9,32], %q: f8e4m3fn[9,32], %r: "
        "f8e5m2[9,32]) {\n"
        "  %0 = cast %x {dtype=f8e4m3fn}\n  %1 = cast %x {dtype=f8e5m2}\n"
        "  %2 = cast %i {dtype=f8e4m3fn}\n  %3 = cast %l {dtype=f8e5m2}\n"
        "  %4 = cast %q {dtype=f32}\n  %5 = cast %r {dtype=bf16}\n  %6 = cast %q {dtype=i32}\n"
        "  %7 = cast %r {dtype=i64}\n  %8 = cast %q {dtype=f8e5m2}\n  %9 = cast %r {dtype=bool}\n"
        "  %10 = permute %q {axes=[1,0]}\n  %11 = concat %r, %1 {axis=1}\n  %12 = eq %q, %0\n"
        "  %13 = where %12, %q, %0\n  %h = cast %q {dtype=f16}\n  %14 = mul %h, %h\n"
        "  %w = param @w : f8e4m3fn[16,32]\n  %wf = cast %w {dtype=f32}\n"
        "  %15 = matmul %x, %wf {trans_b=true}\n  %s = state @s : f8e5m2[9,32]\n"
        "  %16 = update %s, %1\n  %k = const 448 : f8e4m3fn[]\n  %17 = ne %q, %k\n"
        "  %18 = gather %q, %i\n"
        "  ret %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
        "%18\n}\n";
    (void)state;
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    both b = both_of(text, 5);
    ir_value *x = &b.l.leaf[IR_LEAF_INPUT][0];
    for (int64_t i = 0; i < x->n; i++)
        x->data[i] = (double)casts[(size_t)i % (sizeof casts / sizeof *casts)].x;
    both_agree(&b, "float8", 1e-5);
    both_done(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(casts_are_those_of_torch),
        cmocka_unit_test(every_code_is_its_value),
        cmocka_unit_test(casts_round_as_the_interpreter),
        cmocka_unit_test(graphs_agree),
    };
    return cmocka_run_group_tests(tests, both_set_up, both_tear_down);
}
