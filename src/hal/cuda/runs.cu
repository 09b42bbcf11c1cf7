/* The kernel that copies runs (runs.c): its text for the driver is src/hal/embed/runs.ptx, which scripts/ptx.sh makes of this. The emulated GPU of the
 * tests compiles it as C.
 *
 * A block copies tiles of two axes, 1024 units of 1 to 16 bytes each, `across` of them along the first axis, along which threads go; both are what is next
 * to next in one of the memories, so that lines of neither are read or written in parts by different blocks. The other axes count tiles. */
typedef struct __align__(16) runs_16 {
    unsigned long long a, b;
} runs_16;


#define RUNS_COPY(type) *(type *)(to + t) = *(const type *)(from + f)
#define RUNS_MORE(k)                     \
    if (n##k > 1) {                      \
        at = rest % (unsigned)n##k;      \
        rest /= (unsigned)n##k;          \
        t0 += at * to##k;                \
        f0 += at * from##k;              \
    }

RUNS_KERNEL copy_runs(char *to, const char *from, long long first_to, long long first_from,
                      long long unit, long long log_across, long long n, long long n_to,
                      long long n_from, long long m, long long m_to, long long m_from,
                      long long n0, long long to0, long long from0, long long n1, long long to1,
                      long long from1, long long n2, long long to2, long long from2, long long n3,
                      long long to3, long long from3, long long n4, long long to4, long long from4,
                      long long tiles) {
    const unsigned log = (unsigned)log_across, across = 1u << log, down = 1024u >> log;
    const unsigned n_tiles = (unsigned)((n + across - 1) >> log);
    const unsigned m_tiles = (unsigned)((m + down - 1) >> (10 - log));
    for (unsigned tile = blockIdx.x; tile < (unsigned)tiles; tile += gridDim.x) {
        unsigned rest = tile / n_tiles, at;
        const long long i = ((long long)(tile % n_tiles) << log) + (threadIdx.x & (across - 1));
        const long long k = (long long)(rest % m_tiles) * down + (threadIdx.x >> log);
        long long t0 = first_to + i * n_to, f0 = first_from + i * n_from;
        rest /= m_tiles;
        RUNS_MORE(0)
        RUNS_MORE(1)
        RUNS_MORE(2)
        RUNS_MORE(3)
        RUNS_MORE(4)
        for (unsigned j = 0; j < 4; j++) {
            const long long row = k + j * (256 >> log), t = t0 + row * m_to, f = f0 + row * m_from;
            if (i >= n || row >= m) continue;
            switch (unit) {
            case 16: RUNS_COPY(runs_16); break;
            case 8: RUNS_COPY(unsigned long long); break;
            case 4: RUNS_COPY(unsigned); break;
            case 2: RUNS_COPY(unsigned short); break;
            default: RUNS_COPY(unsigned char);
            }
        }
    }
}
