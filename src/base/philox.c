/* Philox 4x32-10 (Salmon and others, 2011), as in Random123. */
#include "base/philox.h"

void base_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4]) {
    uint32_t k0 = key[0], k1 = key[1];
    uint32_t c[4] = {counter[0], counter[1], counter[2], counter[3]};

    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c[0];
        uint64_t p1 = (uint64_t)0xCD9E8D57u * c[2];
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c[1] ^ k0;
        uint32_t n2 = (uint32_t)(p0 >> 32) ^ c[3] ^ k1;

        c[1] = (uint32_t)p1;
        c[3] = (uint32_t)p0;
        c[0] = n0;
        c[2] = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    for (int i = 0; i < 4; i++) out[i] = c[i];
}

uint64_t base_philox_bits(uint64_t key, uint64_t counter) {
    uint32_t k[2] = {(uint32_t)key, (uint32_t)(key >> 32)};
    uint32_t c[4] = {(uint32_t)counter, (uint32_t)(counter >> 32), 0, 0}, r[4];

    base_philox(k, c, r);
    return (uint64_t)r[0] << 32 | r[1];
}
