/* Iteration spaces: reductions over any axis, broadcasts, permutes and concats of values of rank 1 to 4, also of odd and
 * unknown sizes. Compiled with two threads they are eager's bits with one, and near the interpreter. */
#include "support/both.h"

#define BOUND 1e-4

static const char *const graphs[] = {
    /* columns: whole, odd, few, one; with what comes before and after */
    "(%x: f32[37,96]) -> f32[96] {\n  %0 = sum %x {axis=0}\n  ret %0\n}",
    "(%x: f32[5000,8]) -> f32[8] {\n  %0 = sum %x {axis=0}\n  ret %0\n}",
    "(%x: f32[5,97]) -> f32[1,97] {\n  %0 = amax %x {axis=0, keep=true}\n  ret %0\n}",
    "(%x: f32[300,4096]) -> (f32[4096], f32[4096]) {\n  %0 = sum %x {axis=0}\n  %1 = exp %0\n"
    "  %2 = amin %x {axis=0}\n  %3 = add %1, %2\n  ret %3, %2\n}",
    "(%x: f16[33,40]) -> f16[40] {\n  %0 = sum %x {axis=0}\n  ret %0\n}",
    "(%x: i32[33,40]) -> i32[40] {\n  %0 = sum %x {axis=0}\n  ret %0\n}",
    "(%x: f32[T,64]) -> (f32[64], i32[64]) where T in [1,64] {\n  %0 = sum %x {axis=0}\n"
    "  %1 = argmax %x {axis=0}\n  ret %0, %1\n}",
    "(%x: f32[6,N]) -> f32[N] where N in [1,64] {\n  %0 = sum %x {axis=0}\n  ret %0\n}",
    /* the middle of three and four dims, with the mean of a mask */
    "(%x: f32[3,17,48], %m: f32[3,17]) -> f32[3,48] {\n  %0 = reshape %m {shape=[3,17,1]}\n"
    "  %1 = mul %x, %0\n  %2 = sum %1 {axis=1}\n  %3 = sum %m {axis=1, keep=true}\n"
    "  %4 = div %2, %3\n  ret %4\n}",
    "(%x: f32[2,5,3,40]) -> f32[2,5,40] {\n  %0 = tanh %x\n  %1 = amax %0 {axis=2}\n  ret %1\n}",
    "(%x: f32[2,5,33,40]) -> f32[2,33,40] {\n  %0 = sum %x {axis=1}\n  %1 = sum %x {axis=1}\n"
    "  %2 = mul %0, %1\n  ret %2\n}",
    /* softmax over each axis */
    "(%x: f32[2,3,40]) -> f32[2,3,40] {\n  %0 = amax %x {axis=2, keep=true}\n  %1 = sub %x, %0\n"
    "  %2 = exp %1\n  %3 = sum %2 {axis=2, keep=true}\n  %4 = div %2, %3\n  ret %4\n}",
    "(%x: f32[2,30,40]) -> f32[2,30,40] {\n  %0 = amax %x {axis=1, keep=true}\n  %1 = sub %x, %0\n"
    "  %2 = exp %1\n  %3 = sum %2 {axis=1, keep=true}\n  %4 = div %2, %3\n  ret %4\n}",
    "(%x: f32[20,3,40]) -> f32[20,3,40] {\n  %0 = amax %x {axis=0, keep=true}\n  %1 = sub %x, %0\n"
    "  %2 = exp %1\n  %3 = sum %2 {axis=0, keep=true}\n  %4 = div %2, %3\n  ret %4\n}",
    /* elementwise with broadcasts, one row, odd tails, unknown sizes */
    "(%x: f32[1,5000], %b: f32[5000]) -> f32[1,5000] {\n  %0 = add %x, %b\n  %1 = exp %0\n"
    "  %2 = mul %1, %0\n  ret %2\n}",
    "(%x: f32[7,1009], %b: f32[1009]) -> f32[7,1009] {\n  %0 = add %x, %b\n  ret %0\n}",
    "(%x: f32[3,5,7], %b: f32[5,1]) -> f32[3,5,7] {\n  %0 = mul %x, %b\n  ret %0\n}",
    "(%x: f32[1,4099]) -> f32[1,4099] {\n  %0 = neg %x\n  ret %0\n}",
    "(%x: f32[B,T,7], %b: f32[T,1]) -> f32[B,T,7] where B in [0,5], T in [0,9] {\n"
    "  %0 = add %x, %b\n  %1 = neg %0\n  ret %1\n}",
    "(%x: f32[B,T], %b: f32[T]) -> (f32[B,T], f32[B]) where B in [1,5], T in [1,9] {\n"
    "  %0 = add %x, %b\n  %1 = sum %0 {axis=1}\n  ret %0, %1\n}",
    "(%x: f32[], %y: f32[1,1]) -> f32[1,1] {\n  %0 = exp %x\n  %1 = add %y, %0\n  ret %1\n}",
    /* reshapes and permutes between values of one loop */
    "(%x: f32[B,T,24], %y: f32[24]) -> f32[B,T,4,6] where B in [1,4], T in [1,9] {\n"
    "  %0 = mul %x, %y\n  %1 = reshape %0 {shape=[B,T,4,6]}\n  %2 = exp %1\n  %3 = reshape %y "
    "{shape=[4,6]}\n"
    "  %4 = add %2, %3\n  ret %4\n}",
    "(%x: f32[40,24], %y: f32[24,40]) -> (f32[24,40], f32[40,24]) {\n  %0 = exp %x\n"
    "  %1 = permute %0 {axes=[1,0]}\n  %2 = add %1, %y\n  ret %2, %0\n}",
    "(%x: f32[2,3,4,8]) -> f32[2,4,24] {\n  %0 = permute %x {axes=[0,2,1,3]}\n  %1 = neg %0\n"
    "  %2 = reshape %1 {shape=[2,4,24]}\n  %3 = exp %2\n  ret %3\n}",
    "(%x: f32[2,3,8], %y: f32[2,5,8]) -> f32[2,8,8] {\n  %0 = neg %x\n"
    "  %1 = concat %0, %y {axis=1}\n  %2 = exp %1\n  ret %2\n}",
    "(%x: f32[3,8], %y: f32[5,8]) -> f32[8,8] {\n  %0 = neg %x\n  %1 = concat %0, %y {axis=0}\n"
    "  %2 = exp %1\n  ret %2\n}",
    "(%x: f32[50,24], %i: i32[2,3]) -> f32[2,3,24] {\n  %0 = gather %x, %i\n  %1 = exp %0\n  ret "
    "%1\n}",
    "(%x: bf16[96,80], %y: f32[80,96]) -> f32[80,96] {\n  %0 = permute %x {axes=[1,0]}\n"
    "  %1 = cast %0 {dtype=f32}\n  %2 = add %1, %y\n  ret %2\n}",
    "(%x: bf16[128,96], %y: f32[96,128]) -> f32[96,128] {\n  %0 = permute %x {axes=[1,0]}\n"
    "  %1 = cast %0 {dtype=f32}\n  %2 = add %1, %y\n  ret %2\n}",
    "(%x: f32[3,34,64], %y: f16[3,34,64]) -> f32[3,64,34] {\n  %0 = permute %x {axes=[0,2,1]}\n"
    "  %1 = permute %y {axes=[0,2,1]}\n  %2 = cast %1 {dtype=f32}\n  %3 = mul %0, %2\n"
    "  ret %3\n}",
    "(%x: f32[B,33,64]) -> f32[B,64,33] where B in [0,5] {\n  %0 = permute %x {axes=[0,2,1]}\n"
    "  %1 = neg %0\n  ret %1\n}",
    /* rows that are chosen by what is known to be equal */
    "(%t: f32[4,2]) -> (f32[1,2], i32[1]) {\n  %0 = iota {axis=0, dtype=i32, shape=[1]}\n"
    "  %1 = neg %0\n  %2 = eq %0, %1\n  %3 = cast %2 {dtype=i32}\n  %4 = gather %t, %3\n"
    "  ret %4, %3\n}",
    /* products by columns */
    "(%x: f32[5,33], %w: f32[33,40]) -> f32[5,40] {\n  %0 = matmul %x, %w\n  %1 = tanh %0\n  ret "
    "%1\n}",
    "(%x: f32[2,3,5,17], %w: f32[2,3,17,24]) -> f32[2,3,5,24] {\n  %0 = matmul %x, %w\n"
    "  %1 = exp %x\n  %2 = matmul %1, %w\n  %3 = add %0, %2\n  ret %3\n}",
    "(%x: f32[1,20,17], %w: f32[17,1009]) -> f32[1,20,1009] {\n  %0 = matmul %x, %w\n  ret %0\n}",
};

static void each_space_agrees(void **state) {
    (void)state;
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
        char text[1024];
        (void)snprintf(text, sizeof text, "graph @g%s\n", graphs[i]);
        both b = both_of(text, 3 + i);
        both_agree(&b, text, BOUND);
        both_done(&b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_space_agrees)};
    return cmocka_run_group_tests(tests, both_set_up, both_tear_down);
}
