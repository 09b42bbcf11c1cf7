/* Where neighbours of one memory are far apart in the other, and the other way round (a matrix that is turned), squares go through a block of the
 * first cache, so that each line of either memory is read or written once, as a whole. Else run by run. */
#include "base/runs.h"

#include <string.h>

enum { LINE = 64, LEAST_TURNED = 4, SQUARES = 8 };

size_t base_runs_bytes(const base_runs *r) {
    size_t bytes = r->run;
    for (uint32_t i = 0; i < r->n; i++) bytes *= (size_t)r->dim[i];
    return bytes;
}

void base_runs_span(const base_runs *r, const int64_t *step, size_t *before, size_t *behind) {
    *before = 0;
    *behind = r->run;
    for (uint32_t i = 0; i < r->n; i++)
        if (step[i] < 0)
            *before += (size_t)(-step[i] * (r->dim[i] - 1));
        else
            *behind += (size_t)(step[i] * (r->dim[i] - 1));
}

/* --- two axes -------------------------------------------------------------------------------- */

/* Runs of an axis that is next to next where they go, and of one that is so where they come from. */
typedef struct turned {
    int64_t n_to, n_from;
    int64_t to, from; /* bytes from one to the next along the other's axis */
} turned;

/* Elements of a square of such sides, one by one. */
static void turn_each(const turned *t, char *to, const char *from, int64_t n_to, int64_t n_from,
                      size_t size) {
#define EACH(bytes)                        \
    for (int64_t k = 0; k < n_from; k++)   \
        for (int64_t i = 0; i < n_to; i++) \
    memcpy(to + k * t->to + i * (bytes), from + i * t->from + k * (bytes), bytes)
    switch (size) {
    case 1: EACH(1); return;
    case 2: EACH(2); return;
    case 4: EACH(4); return;
    default: EACH(8);
    }
#undef EACH
}

static uint64_t word_at(const char *p) {
    uint64_t w;
    memcpy(&w, p, sizeof w);
    return w;
}

static void put_word(char *p, uint64_t w) {
    memcpy(p, &w, sizeof w);
}

/* A whole square, of lines: first brought together, then turned in words of 8 bytes, so that a line is written at once. */
#define SQUARE(size)               \
    enum { SIDE = LINE / (size) }; \
    char square[SIDE][LINE];       \
    for (int i = 0; i < SIDE; i++) memcpy(square[i], from + i * t->from, LINE)

static void turn_8(const turned *t, char *to, const char *from) {
    SQUARE(8);
    for (int k = 0; k < SIDE; k++)
        for (int i = 0; i < SIDE; i++) put_word(to + k * t->to + i * 8, word_at(square[i] + k * 8));
}

static const uint64_t low_half = UINT64_C(0xffffffff), even = UINT64_C(0x0000ffff0000ffff);

static void turn_4(const turned *t, char *to, const char *from) {
    SQUARE(4);
    for (int k = 0; k < SIDE; k += 2)
        for (int i = 0; i < SIDE; i += 2) {
            uint64_t a = word_at(square[i] + k * 4), b = word_at(square[i + 1] + k * 4);
            char *at = to + k * t->to + i * 4;
            put_word(at, (a & low_half) | b << 32);
            put_word(at + t->to, a >> 32 | (b & ~low_half));
        }
}

static void turn_2(const turned *t, char *to, const char *from) {
    SQUARE(2);
    for (int k = 0; k < SIDE; k += 4)
        for (int i = 0; i < SIDE; i += 4) {
            uint64_t a = word_at(square[i] + k * 2), b = word_at(square[i + 1] + k * 2);
            uint64_t c = word_at(square[i + 2] + k * 2), d = word_at(square[i + 3] + k * 2);
            uint64_t ab = (a & even) | (b & even) << 16, ba = (a >> 16 & even) | (b & ~even);
            uint64_t cd = (c & even) | (d & even) << 16, dc = (c >> 16 & even) | (d & ~even);
            char *at = to + k * t->to + i * 2;
            put_word(at, (ab & low_half) | cd << 32);
            put_word(at + t->to, (ba & low_half) | dc << 32);
            put_word(at + 2 * t->to, ab >> 32 | (cd & ~low_half));
            put_word(at + 3 * t->to, ba >> 32 | (dc & ~low_half));
        }
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static void turn_square(const turned *t, char *to, const char *from, int64_t n_to, int64_t n_from,
                        size_t size) {
    const int64_t side = LINE / (int64_t)size;
    bool whole = n_to >= side && n_from >= side;
    if (whole && size == 2)
        turn_2(t, to, from);
    else if (whole && size == 4)
        turn_4(t, to, from);
    else if (whole && size == 8)
        turn_8(t, to, from);
    else
        turn_each(t, to, from, least(n_to, side), least(n_from, side), size);
}

/* Squares of squares, so that there are no more pages at a time than the processor knows. */
static void copy_turned(const turned *t, char *to, const char *from, size_t run) {
    const int64_t size = (int64_t)run, side = LINE / size, block = SQUARES * side;
    for (int64_t i = 0; i < t->n_to; i += block)
        for (int64_t k = 0; k < t->n_from; k += block)
            for (int64_t m = k; m < least(t->n_from, k + block); m += side)
                for (int64_t j = i; j < least(t->n_to, i + block); j += side)
                    turn_square(t, to + m * t->to + j * size, from + j * t->from + m * size,
                                t->n_to - j, t->n_from - m, run);
}

/* n runs. A size that is known makes each copy a move. */
static void copy_row(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n,
                     size_t run) {
#define RUNS(size) \
    for (int64_t i = 0; i < n; i++) memcpy(to + i * to_step, from + i * from_step, size)
    switch (run) {
    case 1: RUNS(1); return;
    case 2: RUNS(2); return;
    case 4: RUNS(4); return;
    case 8: RUNS(8); return;
    default: RUNS(run);
    }
#undef RUNS
}

/* --- all of them ----------------------------------------------------------------------------- */

/* The axis along which runs lie next to next, of LEAST_TURNED at least; n: none. */
static uint32_t next_to_next(const base_runs *r, const int64_t *step) {
    uint32_t i = r->n;
    while (i-- > 0)
        if (step[i] == (int64_t)r->run && r->dim[i] >= LEAST_TURNED) return i;
    return r->n;
}

/* What a step of the loop over the other axes copies. */
typedef struct inner {
    uint32_t first, second; /* axes of it; n: none */
    bool turns;
} inner;

static inner inner_of(const base_runs *r) {
    uint32_t to = next_to_next(r, r->to), from = next_to_next(r, r->from);
    bool size = r->run == 1 || r->run == 2 || r->run == 4 || r->run == 8;
    if (size && to < r->n && from < r->n && to != from) return (inner){to, from, true};
    return (inner){r->n ? r->n - 1 : 0, r->n, false};
}

static void copy_inner(const base_runs *r, const inner *in, char *to, const char *from) {
    uint32_t a = in->first, b = in->second;
    if (r->n == 0) {
        memcpy(to, from, r->run);
    } else if (in->turns) {
        const turned t = {r->dim[a], r->dim[b], r->to[b], r->from[a]};
        copy_turned(&t, to, from, r->run);
    } else {
        copy_row(to, r->to[a], from, r->from[a], r->dim[a], r->run);
    }
}

void base_runs_copy(const base_runs *r, void *to, const void *from) {
    const inner in = inner_of(r);
    int64_t at[BASE_RUNS_AXES] = {0};
    for (bool more = base_runs_bytes(r) > 0; more;) {
        char *out = to;
        const char *of = from;
        for (uint32_t i = 0; i < r->n; i++) {
            out += at[i] * r->to[i];
            of += at[i] * r->from[i];
        }
        copy_inner(r, &in, out, of);
        more = false;
        for (uint32_t i = r->n; i-- > 0 && !more;) {
            if (i == in.first || i == in.second) continue;
            more = ++at[i] < r->dim[i];
            if (!more) at[i] = 0;
        }
    }
}
