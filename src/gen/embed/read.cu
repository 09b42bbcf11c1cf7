/* The limit of whatever reads each byte of much memory once: a block asks for 64 KB of it, each thread for all of its 16 bytes at once. */
extern "C" __global__ void __launch_bounds__(GEN_READ_THREADS) rk_read(const int4 *data, int4 *sink, long long items)
{
    enum { PART = 65536 / 16, EACH = PART / GEN_READ_THREADS };
    for (long long item = blockIdx.x; item < items; item += gridDim.x) {
        const int4 *from = data + item * PART + threadIdx.x;
        int4 v[EACH];
#pragma unroll
        for (int i = 0; i < EACH; i++) v[i] = from[i * GEN_READ_THREADS];
        int all = 0;
#pragma unroll
        for (int i = 0; i < EACH; i++) all |= v[i].x | v[i].y | v[i].z | v[i].w;
        if (all == 0x7fc01234) sink[threadIdx.x] = v[0]; /* so that the loads stay; which numbers come is nobody's business */
    }
}
