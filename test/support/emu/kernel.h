/* In front of CUDA C that the emulated GPU runs: what nvcc knows by itself, for a C++ compiler of the host.
 *
 * Threads of a block are fibers (emu.c), of which one runs at a time, and blocks run one after the other, so shared
 * memory is static memory. Undefined here is what generated code may not use. */
/* No header: the C++ compiler would read <cmath> for longer than it compiles most kernels. */
#define NAN __builtin_nanf("")
#define INFINITY __builtin_inff()
extern "C" {
int dprintf(int, const char *, ...);
float expf(float), exp2f(float), logf(float), log2f(float), powf(float, float), fabsf(float);
float fmaf(float, float, float), fmaxf(float, float), fminf(float, float), sqrtf(float);
double exp(double), exp2(double), log(double), log2(double), pow(double, double), fabs(double);
double fma(double, double, double), fmax(double, double), fmin(double, double), sqrt(double);
}

#define __CUDACC__ 1
#define __CUDA_ARCH__ 900
#define RK_EMULATED 1
#define __global__ __attribute__((visibility("default")))
#define __device__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __restrict__
#define __shared__ static
#define __launch_bounds__(...)

struct emu_dim {
    unsigned x, y, z;
};
struct emu_state { /* as in emu.c */
    emu_dim thread, block, block_size, grid;
    void (*sync)(int warp);
    unsigned long long *(*slot)(int flip); /* of lane 0 of this warp */
    void (*wait)(void);
    void (*give_way)();          /* others go on, whoever waits for nobody in particular */
    int (*guess)(const int *at); /* read before the wait, whatever kernels write there */
    void (*early)(const void *at, void *to); /* 16 bytes, which none in front writes */
    void (*launch)(void);                    /* the next kernel may start */
    int (*settled)(const int *at);           /* read before the wait, when its writers are done */
    /* What tensor cores compute, which is compiled once, and faster than a kernel. */
    void (*mma)(float *c, const unsigned (*lanes)[8]);
    void (*rows_by)(float *d, const double (*rows)[16], unsigned long long b, int n, int more,
                    int turned);
    void (*wgmma)(float *d, unsigned long long a, unsigned long long b, int n, int more);
    char *shared; /* dynamic shared memory */
    unsigned shared_size;
};
static emu_state *emu;

extern "C" __attribute__((visibility("default"))) void emu_open(emu_state *s) {
    emu = s;
}

/* asm volatile("griddepcontrol.wait;" ::: "memory") and its like, without operands. */
__attribute__((always_inline)) static inline void emu_asm(const char *text) {
    if (__builtin_strstr(text, "griddepcontrol.wait")) emu->wait();
    if (__builtin_strstr(text, "griddepcontrol.launch_dependents")) emu->launch();
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
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(8) float2 {
    float x, y;
};

template <class T> static inline T __ldcs(const T *at) {
    return *at;
}

template <class T> static inline T atomicAdd(T *at, T v) {
    T old = *at;
    *at += v;
    return old;
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
    __builtin_memcpy(&bits, &v, sizeof v);
    at[emu->thread.x % 32] = bits;
    emu->sync(1);
    __builtin_memcpy(&v, &at[from % 32], sizeof v);
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

static inline int __any_sync(unsigned, int p) {
    for (int o = 1; o < 32; o *= 2) p |= __shfl_xor_sync(0, p, o);
    return p != 0;
}

/* What each lane has, as the bits of v. */
template <class T> static inline const unsigned long long *emu_gather(T v) {
    unsigned long long *at = emu->slot(1), bits = 0;
    __builtin_memcpy(&bits, &v, sizeof v);
    at[emu->thread.x % 32] = bits;
    emu->sync(1);
    return at;
}
static inline unsigned __ballot_sync(unsigned, int p) {
    const unsigned long long *all = emu_gather(p != 0);
    unsigned r = 0;
    for (unsigned i = 0; i < 32; i++) r |= (unsigned)all[i] << i;
    return r;
}
static inline unsigned __reduce_or_sync(unsigned, unsigned v) {
    const unsigned long long *all = emu_gather(v);
    unsigned r = 0;
    for (unsigned i = 0; i < 32; i++) r |= (unsigned)all[i];
    return r;
}
static inline unsigned __reduce_add_sync(unsigned, unsigned v) {
    const unsigned long long *all = emu_gather(v);
    unsigned r = 0;
    for (unsigned i = 0; i < 32; i++) r += (unsigned)all[i];
    return r;
}
template <class T> static inline unsigned __match_any_sync(unsigned, T v) {
    const unsigned long long *all = emu_gather(v);
    unsigned r = 0;
    for (unsigned i = 0; i < 32; i++) r |= (unsigned)(all[i] == all[emu->thread.x % 32]) << i;
    return r;
}
static inline int __popc(unsigned x) {
    return __builtin_popcount(x);
}
static inline int __ffs(int x) {
    return __builtin_ffs(x);
}

template <class To, class From> static inline To emu_bits(From x) {
    To y;
    static_assert(sizeof x == sizeof y, "as many bits");
    __builtin_memcpy(&y, &x, sizeof y);
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
    return fmaf(a, b, c);
}
static inline double __fma_rn(double a, double b, double c) {
    return fma(a, b, c);
}
static inline double __dsqrt_rn(double x) {
    return sqrt(x);
}
static inline float __fsqrt_rn(float x) {
    return sqrtf(x);
}

/* As prelude.h, which is not there yet. */
static inline float emu_f16_to_f32(unsigned short h) {
    const int e = h >> 10 & 31, m = h & 1023;
    const float x = e == 31 ? (m ? NAN : INFINITY)
                            : __builtin_ldexpf((float)(e ? m + 1024 : m), (e ? e : 1) - 25);
    return h >> 15 ? -x : x;
}
#define rk_f16_to_f32 emu_f16_to_f32

static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned s) {
    unsigned long long all = (unsigned long long)b << 32 | a;
    unsigned r = 0;
    for (int i = 0; i < 4; i++) r |= (unsigned)(all >> (s >> 4 * i & 7) * 8 & 255) << 8 * i;
    return r;
}
static inline int emu_dp2a(int a, int b, int c, int first) {
    short x[2];
    signed char y[4];
    __builtin_memcpy(x, &a, 4);
    __builtin_memcpy(y, &b, 4);
    return c + x[0] * y[first] + x[1] * y[first + 1];
}
static inline int __dp2a_lo(int a, int b, int c) {
    return emu_dp2a(a, b, c, 0);
}
static inline int __dp2a_hi(int a, int b, int c) {
    return emu_dp2a(a, b, c, 2);
}

/* --- what tensor.cu has as instructions ---------------------------------------------- */

#define RK_EMULATED 1
#define rk_dynamic (emu->shared)

static inline void emu_fail(const char *what) {
    dprintf(2, "emulated GPU: %s\n", what);
    __builtin__Exit(134);
}
/* Addresses from EMU_STATIC / 2 on are of static shared memory, around this. */
#define EMU_STATIC 0xc0000000u
alignas(1024) static char emu_anchor[1024];
static inline char *emu_shared(unsigned at, unsigned bytes, unsigned aligned) {
    if (at >= EMU_STATIC / 2 && at % aligned == 0) return emu_anchor + (int)(at - EMU_STATIC);
    if (at % aligned || at > emu->shared_size || bytes > emu->shared_size - at)
        emu_fail("an access beside the shared memory of the launch, or not aligned");
    return emu->shared + at;
}
static inline unsigned rk_shared(const void *p) {
    const char *at = (const char *)p;
    if (at >= emu->shared && at <= emu->shared + emu->shared_size)
        return (unsigned)(at - emu->shared);
    return EMU_STATIC + (unsigned)(at - emu_anchor);
}

/* Copies arrive at once; a phase ends with the last arrival. */
struct emu_barrier {
    int bytes;
    unsigned char phase, arrivals, left, made;
};
static inline emu_barrier *emu_barrier_at(unsigned at) {
    emu_barrier *b = (emu_barrier *)emu_shared(at, 8, 8);
    if (b->made != 77) emu_fail("a barrier that was not initialised");
    return b;
}
static inline void emu_settle(emu_barrier *b) {
    if (b->left || b->bytes) return;
    b->phase ^= 1;
    b->left = b->arrivals;
}
static inline void rk_barrier_init(unsigned at, unsigned arrivals) {
    emu_barrier b = {0, 0, (unsigned char)arrivals, (unsigned char)arrivals, 77};
    __builtin_memcpy(emu_shared(at, 8, 8), &b, 8);
}
static inline void rk_barriers_visible() {
}
static inline void rk_barrier_arrive(unsigned at) {
    emu_barrier *b = emu_barrier_at(at);
    if (!b->left) emu_fail("more arrivals than a barrier expects");
    b->left--;
    emu_settle(b);
}
static inline void rk_barrier_expect(unsigned at, unsigned bytes) {
    emu_barrier_at(at)->bytes += (int)bytes;
    rk_barrier_arrive(at);
}
static inline void rk_barrier_wait(unsigned at, unsigned parity) {
    while (emu_barrier_at(at)->phase == parity) emu->give_way();
}
static inline void rk_fetch(unsigned to, const void *from, unsigned bytes, unsigned at) {
    emu_barrier *b = emu_barrier_at(at);
    if (bytes % 16 || (unsigned long long)from % 16) emu_fail("a bulk copy that is not aligned");
    __builtin_memcpy(emu_shared(to, bytes, 16), from, bytes);
    b->bytes -= (int)bytes;
    emu_settle(b);
}
static inline void rk_fetch_once(unsigned to, const void *from, unsigned bytes, unsigned at) {
    rk_fetch(to, from, bytes, at);
}
/* A barrier of THREADS of a block. */
template <unsigned THREADS> static inline void emu_meet() {
    static unsigned here, round;
    unsigned mine = round;
    if (++here == THREADS) {
        here = 0;
        round++;
    }
    while (round == mine) emu->give_way();
}
static inline void rk_sync_workers() {
    emu_meet<256>();
}
static inline void rk_sync_copiers() {
    emu_meet<128>();
}

/* What every lane of the warp brings, by lane; two tables in turn, as in emu_exchange. */
typedef unsigned emu_words[32][8];
static inline const emu_words &emu_share(const unsigned *v, int n) {
    static emu_words tables[32][2];
    static unsigned turns[1024];
    const unsigned me = emu->thread.x;
    emu_words &t = tables[me / 32][++turns[me] & 1];
    for (int i = 0; i < n; i++) t[me % 32][i] = v[i];
    emu->sync(1);
    return t;
}

/* Row i of matrix m is at the address that lane 8 m + i gives. */
static inline void emu_matrices(unsigned *v, unsigned at, int n, bool turned) {
    const unsigned g = emu->thread.x % 32 / 4, t = emu->thread.x % 4;
    const emu_words &all = emu_share(&at, 1);
    for (int m = 0; m < n; m++) {
        unsigned short one[8][8];
        for (int i = 0; i < 8; i++)
            __builtin_memcpy(one[i], emu_shared(all[8 * m + i][0], 16, 16), 16);
        v[m] = turned ? one[2 * t][g] | (unsigned)one[2 * t + 1][g] << 16
                      : one[g][2 * t] | (unsigned)one[g][2 * t + 1] << 16;
    }
}
static inline void rk_matrix_2(unsigned *v, unsigned at) {
    emu_matrices(v, at, 2, false);
}
static inline void rk_matrix_4(unsigned *v, unsigned at) {
    emu_matrices(v, at, 4, false);
}
static inline void rk_matrix_4_turned(unsigned *v, unsigned at) {
    emu_matrices(v, at, 4, true);
}

static inline unsigned rk_turned(unsigned two) {
    const unsigned g = emu->thread.x % 32 / 4, t = emu->thread.x % 4;
    const emu_words &all = emu_share(&two, 1);
    const unsigned lo = all[8 * t + g / 2][0], hi = all[8 * t + 4 + g / 2][0];
    return g % 2 ? lo >> 16 | (hi & 0xffff0000u) : (lo & 0xffffu) | hi << 16;
}

static inline float emu_bf16(unsigned two, int high) {
    return __uint_as_float(high ? two & 0xffff0000u : two << 16);
}
static inline void rk_mma(float *c, const unsigned *a, const unsigned *b) {
    const unsigned mine[6] = {a[0], a[1], a[2], a[3], b[0], b[1]};
    emu->mma(c, emu_share(mine, 6));
}
static inline unsigned emu_round(float x) {
    unsigned u = __float_as_uint(x), r = (u + 0x7fff + (u >> 16 & 1)) >> 16;
    return (u & 0x7fffffff) > 0x7f800000 ? 0x7fff : r;
}
static inline unsigned rk_pack(float lo, float hi) {
    return emu_round(lo) | emu_round(hi) << 16;
}
static inline float rk_exp2(float x) {
    return exp2f(x);
}
static inline float rk_approx_over(float x) {
    return 1.0f / x;
}
static inline unsigned rk_low_halves(unsigned a, unsigned b) {
    return (a & 0xffffu) | b << 16;
}
static inline unsigned rk_lesser_halves(unsigned a, unsigned b) {
    const unsigned high = (a >> 16) < (b >> 16) ? a : b;
    return (high & 0xffff0000u) | ((a & 0xffffu) < (b & 0xffffu) ? a & 0xffffu : b & 0xffffu);
}
static inline int4 rk_load(const void *p) {
    if ((unsigned long long)p % 16) emu_fail("a load of 16 bytes that is not aligned");
    return *(const int4 *)p;
}
static inline int4 rk_load_early(const void *p) {
    int4 v;
    if ((unsigned long long)p % 16) emu_fail("a load of 16 bytes that is not aligned");
    emu->early(p, &v);
    return v;
}

static inline void rk_fetch_early(unsigned to, const void *from, unsigned bytes, unsigned at) {
    emu_barrier *b = emu_barrier_at(at);
    char *there = emu_shared(to, bytes, 16);
    if (bytes % 16 || (unsigned long long)from % 16) emu_fail("a bulk copy that is not aligned");
    for (unsigned i = 0; i < bytes; i += 16) emu->early((const char *)from + i, there + i);
    b->bytes -= (int)bytes;
    emu_settle(b);
}

static inline void rk_fetch_ahead(const void *from, unsigned bytes) {
    if (bytes % 16 || (unsigned long long)from % 16) emu_fail("a prefetch that is not aligned");
}
static inline int rk_peek(const int *p) {
    return *p;
}
static inline int rk_settled(const int *p) {
    return emu->settled(p);
}
static inline int rk_guess(const int *p) {
    return emu->guess(p);
}

static inline void rk_copy(unsigned to, const void *from, bool has) {
    static const char zeros[16] = {0};
    if ((unsigned long long)from % 16) emu_fail("a copy of 16 bytes that is not aligned");
    __builtin_memcpy(emu_shared(to, 16, 16), has ? from : zeros, 16);
}
static inline void rk_copied() {
}
static inline void rk_copies_arrive(unsigned at) {
    rk_barrier_arrive(at);
}
static inline void rk_copies_visible() {
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
static inline void rk_wgmma_begin() {
}
static inline void rk_wgmma_end() {
}
template <int N> static inline void rk_wgmma_wait() {
}
template <int N> void rk_wgmma(float *d, unsigned long long a, unsigned long long b, int more) {
    emu->wgmma(d, a, b, N, more);
}
template <class T> static inline void rk_is_there(T &) {
}
/* A warp has 16 rows of a in registers, as in rk_mma. */
template <int N>
static inline void emu_from_registers(float *d, const unsigned *a, unsigned long long b, int more,
                                      bool turned) {
    const unsigned g = emu->thread.x % 32 / 4;
    const emu_words &all = emu_share(a, 4);
    double row[2][16];
    for (unsigned k = 0; k < 32; k++)
        row[k / 16][k % 16] =
            emu_bf16(all[4 * g + k % 8 / 2][k / 16 + k % 16 / 8 * 2], (int)(k % 2));
    emu->rows_by(d, row, b, N, more, turned);
}
template <int N> void rk_wgmma_keys(float *d, const unsigned *a, unsigned long long b, int more) {
    emu_from_registers<N>(d, a, b, more, false);
}
template <int N> void rk_wgmma_values(float *d, const unsigned *a, unsigned long long b) {
    emu_from_registers<N>(d, a, b, 1, true);
}
#endif
