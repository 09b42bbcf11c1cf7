/* In front of CUDA C that the emulated GPU runs: what nvcc knows by itself, for a C++ compiler of the host.
 *
 * Threads of a block are fibers (emu.c), of which one runs at a time, and blocks run one after the other, so shared
 * memory is static memory. Undefined here is what generated code may not use. */
#include <cmath>
#include <cstring>

#define __CUDACC__ 1
#define __CUDA_ARCH__ 900
#define __global__ __attribute__((visibility("default")))
#define __device__
#define __forceinline__ inline
#define __restrict__
#define __shared__ static
#define __launch_bounds__(n)

struct emu_dim {
    unsigned x, y, z;
};
struct emu_state { /* as in emu.c */
    emu_dim thread, block, block_size, grid;
    void (*sync)(int warp);
    unsigned long long *(*slot)(int flip); /* of lane 0 of this warp */
    void (*wait)(void);
};
static emu_state *emu;
extern "C" __attribute__((visibility("default"))) void emu_open(emu_state *s) {
    emu = s;
}

/* asm volatile("griddepcontrol.wait;" ::: "memory") and its like, without operands. */
static inline void emu_asm(const char *text) {
    if (std::strstr(text, "griddepcontrol.wait")) emu->wait();
}
#define asm
#define volatile(...) emu_asm(#__VA_ARGS__)

#define threadIdx (emu->thread)
#define blockIdx (emu->block)
#define blockDim (emu->block_size)
#define gridDim (emu->grid)

struct alignas(16) int4 {
    int x, y, z, w;
};
struct int2 {
    int x, y;
};

template <class T> static inline T __ldcs(const T *at) {
    return *at;
}

static inline void __syncthreads() {
    emu->sync(0);
}
static inline void __syncwarp() {
    emu->sync(1);
}

/* All lanes write, meet, read; two sets of slots in turn, so that nobody writes over what another has still to read. */
template <class T> static inline T emu_exchange(T v, unsigned from) {
    unsigned long long *at = emu->slot(1), bits = 0;
    std::memcpy(&bits, &v, sizeof v);
    at[emu->thread.x % 32] = bits;
    emu->sync(1);
    std::memcpy(&v, &at[from % 32], sizeof v);
    return v;
}
template <class T> static inline T __shfl_sync(unsigned, T v, int lane) {
    return emu_exchange(v, (unsigned)lane);
}
template <class T> static inline T __shfl_down_sync(unsigned, T v, int n) {
    unsigned me = emu->thread.x % 32;
    return emu_exchange(v, me + n < 32 ? me + n : me);
}
template <class T> static inline T __shfl_xor_sync(unsigned, T v, int n) {
    return emu_exchange(v, emu->thread.x % 32 ^ n);
}

template <class To, class From> static inline To emu_bits(From x) {
    To y;
    static_assert(sizeof x == sizeof y, "as many bits");
    std::memcpy(&y, &x, sizeof y);
    return y;
}
static inline unsigned __float_as_uint(float x) {
    return emu_bits<unsigned>(x);
}
static inline float __uint_as_float(unsigned x) {
    return emu_bits<float>(x);
}
static inline float __int_as_float(int x) {
    return emu_bits<float>(x);
}
static inline long long __double_as_longlong(double x) {
    return emu_bits<long long>(x);
}
static inline double __longlong_as_double(long long x) {
    return emu_bits<double>(x);
}
static inline float __fmaf_rn(float a, float b, float c) {
    return std::fma(a, b, c);
}
static inline float __fsqrt_rn(float x) {
    return std::sqrt(x);
}

static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned s) {
    unsigned long long all = (unsigned long long)b << 32 | a;
    unsigned r = 0;
    for (int i = 0; i < 4; i++) r |= (unsigned)(all >> (s >> 4 * i & 7) * 8 & 255) << 8 * i;
    return r;
}
static inline int emu_dp2a(int a, int b, int c, int first) {
    short x[2];
    signed char y[4];
    std::memcpy(x, &a, 4);
    std::memcpy(y, &b, 4);
    return c + x[0] * y[first] + x[1] * y[first + 1];
}
static inline int __dp2a_lo(int a, int b, int c) {
    return emu_dp2a(a, b, c, 0);
}
static inline int __dp2a_hi(int a, int b, int c) {
    return emu_dp2a(a, b, c, 2);
}
