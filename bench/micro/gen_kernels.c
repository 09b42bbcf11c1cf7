/* Speed of the CPU templates, without the rest of the engine.
 *
 * Compiles the templates with the host compiler for each granted instruction set, then measures
 * in one process, interleaved: a decode pass over the matrices of a 135M Llama (q4_1, q8_0
 * head; 97 MB) against a loop that only reads the same bytes; many rows at once; attention.
 * Usage: gen_kernels [threads [seconds]], from the repository root. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/spawn.h"
#include "gen/isa.h"
#include "gen/pack.h"

#define MAX_THREADS 16
#define MAX_JOBS 160

typedef void (*host_fn)(void *const *arg, const long long *dim, long long begin, long long end,
                        void *scratch);
typedef struct job {
    host_fn fn;
    void *arg[4];
    long long dim[4];
    long long items;
    size_t bytes; /* of weights */
} job;

static const char *const source =
    "#include \"src/gen/embed/prelude.h\"\n"
    "#include \"src/gen/embed/vector.c.inc\"\n"
    "#include \"src/gen/embed/matmul.c.inc\"\n"
    "RP_MM_QUANT(q4_1)\nRP_MM_QUANT(q8_0)\n"
    "#include \"src/gen/embed/matmul_float.c.inc\"\n"
    "#include \"src/gen/embed/attention.c.inc\"\n"
    "RP_ATTENTION(f16)\n"
    "#define HEAD(name) void name(void *const *arg, const long long *dim, long long begin, "
    "long long end, void *scratch)\n"
    "#define XROW(row, tmp) ((const char *)arg[0] + (row) * RP_QROW_SIZE(k))\n"
    "#define EPI(row0, n, item, acc) for (int r = 0; r < (n); r++) for (int c = 0; c < 32; c++) "
    "((float *)arg[2])[((row0) + r) * dim[2] + (item) * 32 + c] = (acc)[r * 32 + c]\n"
    "#define KERNEL(name, fmt) HEAD(name) { const long long k = dim[1]; "
    "RP_MM_LOOP(fmt, begin, end, dim[0], k, 2, arg[1], scratch, XROW, EPI); }\n"
    "static void put(const void *user, long long row0, int n, long long item, float *acc) { "
    "void *const *arg = ((const rp_mmf_call *)user)->arg; "
    "const long long *dim = ((const rp_mmf_call *)user)->dim; EPI(row0, n, item, acc); }\n"
    "#define KERNELF(name, fmt) HEAD(name) { const long long k = dim[1], items = dim[2] / 32; "
    "const rp_mmf_call call = {arg, dim}; "
    "const rp_mmf_part part = {items, 1, (const rp_u8 *)arg[1], put}; "
    "const rp_mmf p = {.rows = dim[0], .block = 168, .k = k, .items = items, .batch = {1, 1, 1, "
    "1}, "
    ".x = {(const rp_u8 *)arg[0], k, 1, {0}, rp_mmf_load_f32, 4}, .tile = rp_mmw_##fmt, "
    ".tile_size = RP_TILE_##fmt(k), .part = &part, .user = &call}; "
    "for (long long b = 0; b < (p.rows + p.block - 1) / p.block; b++) "
    "rp_mmf_run(&p, b * items + begin, b * items + end, scratch); }\n"
    "KERNEL(mm_q4_1, q4_1)\nKERNEL(mm_q8_0, q8_0)\nKERNELF(mf_bf16, bf16)\nKERNELF(mf_q4_1, "
    "q4_1)\nKERNELF(mf_f32, f32)\n"
    "HEAD(read_only) { typedef long long v __attribute__((vector_size(64), aligned(64)));\n"
    " const v *p = (const v *)(const void *)((const char *)arg[1] + begin * dim[3]), *e = (const v "
    "*)(const void *)((const char *)arg[1] + end * dim[3]);\n"
    " v a = {0}, b = {0}, c = {0}, d = {0}; (void)scratch; (void)dim;\n"
    " for (; p + 8 <= e; p += 8) { a |= p[0]; b |= p[1]; c |= p[2]; d |= p[3]; a |= p[4]; b |= "
    "p[5]; c |= p[6]; d |= p[7]; }\n"
    " a |= b; c |= d; a |= c; ((volatile long long *)arg[2])[begin & 1] = a[0] | a[3]; }\n"
    "void attend(const rp_attn *a, long long begin, long long end, void *scratch) "
    "{ rp_attn_f16(a, begin, end, scratch); }\n"
    "unsigned long long attend_scratch(long long r, long long g, long long hd) "
    "{ return RP_ATTN_SCRATCH(r, g, hd); }\n";

typedef struct attn_args { /* rp_attn of attention.c.inc */
    const float *q;
    const void *k, *v;
    const int *table, *row_req, *row_pos;
    float *out;
    long long rows, n_heads, n_kv, hd, table_stride, q_stride, out_stride, row_tile;
    float scale;
    long long block_size;
} attn_args;

static int n_threads = 2;

/* With one thread its own processor time, which other load disturbs less. */
static double now(void) {
    struct timespec t;
    clock_gettime(n_threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* --- a team of threads that runs a list of jobs, a barrier after each ------- */

static atomic_int arrived, generation, quit;
static const job *team_jobs;
static int team_n;
static void *team_scratch[MAX_THREADS];

static void barrier(int *local) {
    *local = !*local;
    if (atomic_fetch_add(&arrived, 1) == n_threads - 1) {
        atomic_store(&arrived, 0);
        atomic_store(&generation, *local);
    } else {
        while (atomic_load_explicit(&generation, memory_order_acquire) != *local)
            __asm__ volatile("pause");
    }
}

static void run_share(int me, int *local) {
    for (int j = 0; j < team_n; j++) {
        const job *b = &team_jobs[j];
        long long from = b->items * me / n_threads, to = b->items * (me + 1) / n_threads;
        if (to > from) b->fn(b->arg, b->dim, from, to, team_scratch[me]);
        barrier(local);
    }
}

static void *worker(void *p) {
    int me = (int)(size_t)p, local = 0;
    for (;;) {
        barrier(&local);
        if (atomic_load(&quit)) return NULL;
        run_share(me, &local);
    }
}

static int main_local;

static double run_team(const job *jobs, int n) {
    team_jobs = jobs;
    team_n = n;
    double t = now();
    barrier(&main_local);
    run_share(0, &main_local);
    return now() - t;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *v, int n) {
    qsort(v, (size_t)n, sizeof *v, by_value);
    return v[n / 2];
}

static void *fill(size_t n, unsigned seed) {
    uint64_t *p = aligned_alloc(64, (n + 63) / 64 * 64), s = seed * 2654435761u + 1;
    for (size_t i = 0; i < (n + 7) / 8; i++) {
        s = s * 6364136223846793005ull + 1442695040888963407ull;
        p[i] = ((s >> 8) & 0x83ff83ff83ff83ffull) |
               0x3c003c003c003c00ull; /* sane in every float type */
    }
    return p;
}

static void *lib_open(gen_isa isa, double *ms) {
    char c[64], so[64];
    size_t n = 0;
    const char *argv[40] = {"cc"};
    const char *const *flags = gen_isa_flags(isa, GEN_CC_GCC, &n);
    snprintf(c, sizeof c, "/tmp/rp_bench_%d.c", (int)getpid());
    snprintf(so, sizeof so, "/tmp/rp_bench_%d_%d.so", (int)getpid(), (int)isa);
    FILE *f = fopen(c, "w");
    if (!f || fputs(source, f) < 0 || fclose(f)) return NULL;
    for (size_t i = 0; i < n; i++) argv[1 + i] = flags[i];
    const char *rest[] = {"-I.", "-shared", "-fPIC", c, "-o", so, NULL};
    memcpy(argv + 1 + n, rest, sizeof rest);
    base_buf out;
    int code = 0;
    base_buf_init(&out, 0);
    double t = now();
    rp_status st = base_spawn(argv, &out, &code, NULL);
    *ms = (now() - t) * 1e3;
    if (st != RP_OK || code != 0) printf("%s\n", out.data ? out.data : "no compiler");
    base_buf_done(&out);
    void *h = st == RP_OK && code == 0 ? dlopen(so, RTLD_NOW) : NULL;
    unlink(c);
    unlink(so);
    return h;
}

static host_fn find(void *h, const char *name) {
    host_fn f;
    *(void **)&f = dlsym(h, name);
    return f;
}

/* The matrices of one step, rows = M; returns their number. */
static int make_model(job *jobs, void *h, void *const *weights, void *x, void *y, int rows,
                      int layers) {
    static const int shape[4][2] = {{960, 576}, {576, 576}, {3072, 576}, {576, 1536}};
    int n = 0;
    for (int l = 0; l <= layers; l++)
        for (int m = 0; m < (l < layers ? 4 : 1); m++) {
            int head = l == layers, N = head ? 49152 : shape[m][0], K = head ? 576 : shape[m][1];
            rp_dtype t = head ? RP_DTYPE_Q8_0 : RP_DTYPE_Q4_1;
            jobs[n] = (job){find(h, head ? "mm_q8_0" : "mm_q4_1"),
                            {x, weights[n], y, NULL},
                            {rows, K, N, 2 * (long long)gen_pack_tile_size(t, K)},
                            N / 32,
                            gen_pack_size(t, N, K)};
            n++;
        }
    return n;
}

static void bench_decode(void *h, const char *name, void *const *weights, double seconds) {
    static job jobs[MAX_JOBS], reads[MAX_JOBS];
    void *y = fill(49152 * 4 * 16, 7), *x = fill(1536 * 4 * 16, 8);
    double tm[4000], tr[4000], bytes = 0;
    int n = make_model(jobs, h, weights, x, y, 1, 30), reps = 0;
    memcpy(reads, jobs, sizeof jobs);
    for (int i = 0; i < n; i++) reads[i].fn = find(h, "read_only"), bytes += (double)jobs[i].bytes;
    for (double t0 = now(); now() - t0 < seconds && reps < 4000; reps++) {
        tm[reps] = run_team(jobs, n);
        tr[reps] = run_team(reads, n);
    }
    double m = median(tm, reps), r = median(tr, reps);
    printf("%-8s decode, %d threads: %.2f ms = %.1f GB/s; read only %.2f ms = %.1f GB/s; %.0f %% "
           "(best %.0f %%)\n",
           name, n_threads, m * 1e3, bytes / m * 1e-9, r * 1e3, bytes / r * 1e-9, 100 * r / m,
           100 * tr[0] / tm[0]);
    free(y);
    free(x);
}

static void bench_rows(void *h, const char *name, void *const *weights, double seconds) {
    static const int counts[] = {2, 4, 7, 8, 12, 16, 32, 64, 480};
    static job jobs[MAX_JOBS];
    float *y = fill(3072 * 4 * 480, 7);
    char *x = fill(1536 / 32 * 72 * 480, 8);
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        double tm[2000], macs = 0;
        int n = make_model(jobs, h, weights, x, y, counts[c], 30) - 1, reps = 0;
        for (int i = 0; i < n; i++)
            macs += (double)jobs[i].dim[1] * (double)jobs[i].dim[2] * counts[c];
        for (double t0 = now(); (now() - t0 < seconds || reps < 2) && reps < 2000; reps++)
            tm[reps] = run_team(jobs, n);
        double m = median(tm, reps);
        printf("%-8s %3d rows: %.2f ms a step without head, %.0f rows/s, %.1f G int16 MAC/s a "
               "thread (best %.1f)\n",
               name, counts[c], m * 1e3, counts[c] / m, macs / m * 1e-9 / n_threads,
               macs / tm[0] * 1e-9 / n_threads);
    }
    free(y);
    free(x);
}

static void bench_float(void *h, const char *name, double seconds) {
    static const char *const fn[] = {"mf_bf16", "mf_q4_1", "mf_f32"};
    static const rp_dtype type[] = {RP_DTYPE_BF16, RP_DTYPE_Q4_1, RP_DTYPE_F32};
    for (int f = 0; f < 3; f++) {
        int K = 576, N = 3072 * 4;
        size_t size = gen_pack_size(type[f], N, K);
        void *w = fill(size, 3), *x = fill((size_t)K * 4 * 96, 4), *y = fill((size_t)N * 4 * 96, 5);
        for (int rows = 1; rows <= 96; rows += 95) {
            job b = {find(h, fn[f]), {x, w, y, NULL}, {rows, K, N, 0}, N / 32, size};
            double tm[2000];
            int reps = 0;
            for (double t0 = now(); (now() - t0 < seconds / 2 || reps < 2) && reps < 2000; reps++)
                tm[reps] = run_team(&b, 1);
            double m = median(tm, reps);
            printf("%-8s %s %3d rows: %.1f GFLOP/s a thread, %.1f GB/s\n", name, fn[f], rows,
                   2.0 * K * N * rows / m * 1e-9 / n_threads, (double)size / m * 1e-9);
        }
        free(w);
        free(x);
        free(y);
    }
}

static void (*attend)(const attn_args *, long long, long long, void *);

static void attn_job(void *const *arg, const long long *dim, long long begin, long long end,
                     void *scratch) {
    (void)dim;
    attend(arg[0], begin, end, scratch);
}

static void bench_attention(void *h, const char *name, double seconds) {
    *(void **)&attend = dlsym(h, "attend");
    if (!attend) return;
    static const int cases[][2] = {{1, 128}, {1, 512}, {1, 2048}, {480, 480}, {1024, 1024}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        int rows = cases[c][0], ctx = cases[c][1], hd = 64, heads = 9, kv = 3,
            blocks = (ctx + 15) / 16;
        size_t cache = (size_t)blocks * 16 * (size_t)(hd * kv) * 2;
        void *k = fill(cache, 1), *v = fill(cache, 2);
        float *q = fill((size_t)(rows * heads * hd) * 4, 3),
              *out = fill((size_t)(rows * heads * hd) * 4, 4);
        int *table = calloc((size_t)blocks + 1, 4), *req = calloc((size_t)rows, 4),
            *pos = calloc((size_t)rows, 4);
        for (int i = 0; i < blocks; i++) table[i] = blocks - 1 - i;
        for (int i = 0; i < rows; i++) pos[i] = ctx - rows + i;
        for (int i = 0; i < rows * heads * hd; i++) q[i] = (float)(i % 13) * 0.1f - 0.6f;
        attn_args a = {q,      k,      v,          table,      req,
                       pos,    out,    rows,       heads,      kv,
                       hd,     blocks, heads * hd, heads * hd, rows > 4 ? 8 : 1,
                       0.125f, 16};
        job b = {attn_job, {&a}, {0}, rows * heads, 0};
        double tm[4000], flops = 0;
        int reps = 0;
        for (int i = 0; i < rows; i++) flops += 4.0 * heads * hd * (pos[i] + 1);
        for (double t0 = now(); (now() - t0 < seconds || reps < 2) && reps < 4000; reps++)
            tm[reps] = run_team(&b, 1);
        double m = median(tm, reps);
        printf("%-8s attention %4d rows, context %4d: %.1f us a layer, %.1f GFLOP/s a thread (best "
               "%.1f)\n",
               name, rows, ctx, m * 1e6, flops / m * 1e-9 / n_threads,
               flops / tm[0] * 1e-9 / n_threads);
        free(k), free(v), free(q), free(out), free(table), free(req), free(pos);
    }
}

int main(int argc, char **argv) {
    double seconds = argc > 2 ? atof(argv[2]) : 1.0;
    static void *weights[MAX_JOBS];
    static job jobs[MAX_JOBS];
    pthread_t t[MAX_THREADS];
    if (argc > 1) n_threads = atoi(argv[1]);
    if (n_threads < 1 || n_threads > MAX_THREADS) return 2;
    printf("features: %s\n", gen_isa_features());
    for (int i = 0; i < n_threads; i++) team_scratch[i] = aligned_alloc(64, 64 << 20);
    for (int i = 1; i < n_threads; i++) pthread_create(&t[i], NULL, worker, (void *)(size_t)i);
    for (int isa = GEN_ISA_AVX512; isa >= GEN_ISA_PORTABLE; isa--) {
        double ms;
        if (!(gen_isa_granted() & GEN_ISA_BIT(isa))) {
            printf("%s: skipped, this machine does not grant it\n", gen_isa_name((gen_isa)isa));
            continue;
        }
        void *h = lib_open((gen_isa)isa, &ms);
        if (!h) return 1;
        const char *name = gen_isa_name((gen_isa)isa);
        printf("%-8s compiled in %.0f ms\n", name, ms);
        if (!weights[0]) {
            int n = make_model(jobs, h, weights, NULL, NULL, 1, 30);
            for (int i = 0; i < n; i++) weights[i] = fill(jobs[i].bytes, (unsigned)i);
        }
        bench_decode(h, name, weights, seconds);
        bench_rows(h, name, weights, seconds / 4);
        bench_float(h, name, seconds / 2);
        bench_attention(h, name, seconds / 4);
    }
    atomic_store(&quit, 1);
    barrier(&main_local);
    for (int i = 1; i < n_threads; i++) pthread_join(t[i], NULL);
    return 0;
}
