/* Rows in registers: all loops over a row are written out and dealt alike, so that what one of them leaves for another, and what several
 * load, stays with the thread that takes the iteration, and everything is asked for before the first element is joined.
 *
 * Half a warp takes a short row. Its 16 threads are the lanes of a sum's definition: each adds its own elements in order, shuffles join
 * what they have, and no block waits for anything. Both halves of a warp do the same at any time; of a last row without a partner the
 * other half repeats it and stores nothing. A block takes a longer one: its sums are made in memory that it shares, each chunk by a half
 * warp of its own. */
#include "sched/rules.h"

enum {
    LONGEST = 8192, /* elements of a row */
    /* Of half a warp, where there are only reductions, where there are results as long as a row, too, and where rows are few. */
    LONGEST_SUM = 1024,
    LONGEST_MADE = 512,
    LONGEST_FEW = 128,
    LONGEST_PLAIN = 128, /* where nothing is reduced, .. */
    MANY_ITEMS = 1024,   /* .. of so many rows */
    FEW_ITEMS = 128,     /* rows; as many as multiprocessors */
    HALF_THREADS = 128,
    HALF_SHORT = 128, /* elements of a row of which .. */
    HALF_BLOCKS = 16, /* .. so many blocks of a multiprocessor take several in turn */
    /* Of a block: elements of a thread, and of few rows; threads. */
    EACH = 16,
    EACH_OF_FEW = 4,
    LEAST_THREADS = 64,
    MOST_THREADS = 256,
    WIDE = 4,             /* neighbours that a thread takes side by side */
    HELD_THREADS = 1024,  /* of a multiprocessor: of as many blocks it has registers, .. */
    HELD_WORDS = 64,      /* .. where a thread has no more of them, for temporaries */
    EXCHANGED = 40 << 10, /* bytes of a row that threads exchange */
    MOST_WORDS = 128,     /* of temporaries of a thread */
    MOST_WORK = 2048      /* operations of a thread, all of which are written out */
};

typedef struct rows {
    int64_t items, longest;
    bool made, aligned; /* loops store to memory; lengths are whole numbers of WIDE */
} rows;

/* Of a loop over rows the length; 0: it is not known, or none that there may be. */
static int64_t length_of(const kir_func *f, kir_ref at) {
    const kir_range n = f->ranges[f->insts[at].in[0]];
    return n.lo == n.hi && n.lo >= 1 && n.lo <= LONGEST ? n.lo : 0;
}

/* Element i belongs to iteration i: to the thread that takes it, everywhere. */
static bool is_own_element(const kir_func *f, kir_ref at) {
    const kir_inst *in = &f->insts[at];
    const kir_ref block = f->blocks[at];
    return f->bufs[in->u.buf].space == KIR_ARG || (in->in[0] == block && block != KIR_NONE);
}

static const char *block_refused(const kir_func *f, kir_ref at) {
    const kir_inst *in = &f->insts[at];
    if (in->op == KIR_IF) return "there are conditions";
    if (in->op == KIR_REDUCE && (in->u.reduce == KIR_PROD || in->u.reduce == KIR_CHAIN))
        return "a chain of all its elements";
    return length_of(f, at) ? NULL : "it is longer than 8192 elements, or nobody knows";
}

static void note_block(const kir_func *f, kir_ref at, rows *out) {
    const int64_t n = length_of(f, at);
    if (n > out->longest) out->longest = n;
    out->aligned = out->aligned && n % WIDE == 0;
}

/* Rows of which nothing is reduced: many short ones would be too little for a block each. */
static const char *plain_refused(const kir_func *f, const rows *r) {
    const bool short_ones = r->longest && r->longest <= LONGEST_PLAIN;
    return short_ones && r->items >= MANY_ITEMS && sched_parts_of(f).n == 1 ? NULL
                                                                            : "nothing is reduced";
}

/* What its form forbids; NULL: *out is what there is. */
static const char *form_refused(const kir_func *f, rows *out) {
    uint32_t depth = 0;
    bool reduces = false;
    const char *why = NULL;
    *out = (rows){.aligned = true};
    if (f->form != KIR_KERNEL) return "a fragment has none";
    for (kir_ref at = 0; at < f->n_insts && !why; at++) {
        const kir_op op = f->insts[at].op;
        const kir_shape shape = kir_op_table(op)->shape;
        const bool accesses = op == KIR_LOAD || op == KIR_STORE;
        depth -= shape == KIR_SHAPE_END;
        if (op == KIR_PAR) out->items = f->ranges[f->insts[at].in[0]].hi;
        if (shape == KIR_SHAPE_BEGIN && depth > 1) why = "a loop within another";
        if (shape == KIR_SHAPE_BEGIN && depth == 1) why = block_refused(f, at);
        if (shape == KIR_SHAPE_BEGIN && depth == 1 && !why) note_block(f, at, out);
        if (accesses && !is_own_element(f, at)) why = "temporaries that other iterations read";
        out->made = out->made || (op == KIR_STORE && depth > 1);
        reduces = reduces || op == KIR_REDUCE;
        depth += shape == KIR_SHAPE_BEGIN;
    }
    return why || reduces ? why : plain_refused(f, out);
}

static kir_ref end_of(const kir_func *f, kir_ref at) {
    while (kir_op_table(f->insts[at].op)->shape != KIR_SHAPE_END) at++;
    return at;
}

static bool is_dealt(const kir_func *f, kir_ref at) {
    return f->insts[at].op == KIR_LOOP || f->insts[at].op == KIR_REDUCE;
}

/* Of loops without others inside. */
static bool all_apart(const kir_func *f) {
    for (kir_ref at = 0; at < f->n_insts; at++)
        if (is_dealt(f, at) && !sched_is_apart(f, at, end_of(f, at + 1))) return false;
    return true;
}

static bool all_in_order(const kir_func *f) {
    for (kir_ref at = 0; at < f->n_insts; at++)
        if (is_dealt(f, at) && !sched_is_in_order(f, at, end_of(f, at + 1))) return false;
    return true;
}

bool sched_may_be_held(const kir_func *f) {
    rows r;
    return !form_refused(f, &r) && all_apart(f);
}

bool sched_may_be_half(const kir_func *f) {
    rows r;
    return !form_refused(f, &r) && r.longest <= LONGEST_SUM && all_apart(f);
}

int64_t sched_exchanged(const kir_func *f, kir_ref at) {
    const kir_class c = f->insts[end_of(f, at + 1)].cls;
    const bool exchanges = f->insts[at].u.reduce != KIR_ARGMAX && kir_is_float(c);
    return exchanges ? length_of(f, at) * (c == KIR_F64 ? 8 : 4) : 0;
}

/* Words of temporaries of an item. */
static int64_t words_of(const kir_func *f) {
    int64_t n = 0;
    for (uint32_t i = 0; i < f->n_bufs; i++)
        if (f->bufs[i].space == KIR_SCRATCH)
            n += f->bufs[i].size * (((int64_t)rp_dtype_block_bytes(f->bufs[i].dtype) + 3) / 4);
    return n;
}

/* Threads of half a warp, or of a block, that have a row. */
static uint32_t team_of(const kir_func *f, const rows *r) {
    const bool few = r->items < FEW_ITEMS;
    const int64_t most = few ? LONGEST_FEW : r->made ? LONGEST_MADE : LONGEST_SUM;
    const int64_t each = few ? EACH_OF_FEW : EACH;
    const uint32_t limit = few ? sched_cuda.max_threads : MOST_THREADS;
    uint32_t threads = LEAST_THREADS;
    const bool light = kir_item_cost(f, NULL) <= (double)MOST_WORK * SCHED_LANES;
    if (r->longest <= most && light) return SCHED_LANES;
    while (threads < limit && threads * each < r->longest) threads *= 2;
    return threads;
}

const char *sched_registers_refused(const kir_func *f) {
    rows r;
    const char *why = form_refused(f, &r);
    if (why) return why;
    const uint32_t team = team_of(f, &r);
    if (words_of(f) > (int64_t)MOST_WORDS * team) return "more temporaries than registers";
    if (kir_item_cost(f, NULL) > (double)MOST_WORK * team) return "too much work for an element";
    for (kir_ref at = 0; at < f->n_insts; at++)
        if (f->insts[at].op == KIR_REDUCE && sched_exchanged(f, at) > EXCHANGED)
            return "more than a block exchanges";
    return all_apart(f) ? NULL : "iterations touch what others store";
}

static void decide(sched *s, kir_ref at, void *user) {
    const kir_op op = s->f->insts[at].op;
    const bool *half = user;
    sched_step *step = &s->steps[at];
    if (op == KIR_PAR) step->kind = *half ? SCHED_HALF : SCHED_BLOCK;
    if (is_dealt(s->f, at)) {
        step->kind = SCHED_THREAD;
        step->held = !*half;
        step->chunks = op == KIR_REDUCE && sched_needs_chunks(s, at);
    }
    step->barrier = sched_needs_barrier(s, at);
}

rp_status sched_make_registers(const kir_func *f, sched **out, rp_error *err) {
    kir_func *held = NULL;
    rows r;
    (void)form_refused(f, &r);
    const uint32_t team = team_of(f, &r);
    bool half = team == SCHED_LANES;
    RP_TRY(kir_hold_rows(f, (int64_t)MOST_WORDS * team - words_of(f), &held, err));
    RP_TRY(sched_new(&sched_cuda, held ? held : f, held, out, err));
    sched *s = *out;
    sched_place_all(s, SCHED_REGISTER, 1);
    sched_decide(s, decide, &half);
    for (kir_ref at = 0; !half && r.aligned && all_in_order(s->f) && at < s->f->n_insts; at++)
        if (is_dealt(s->f, at)) s->steps[at].wide = WIDE;
    s->launch.threads = half ? HALF_THREADS : team;
    s->launch.per_block = half ? HALF_THREADS / SCHED_LANES : 1;
    if (!half && words_of(s->f) <= (int64_t)HELD_WORDS * team)
        s->launch.at_once = HELD_THREADS / team;
    if (half && r.longest <= HALF_SHORT) s->launch.per_sm = HALF_BLOCKS;
    s->launch.grain = sched_grain_of(s->f);
    return RP_OK;
}
