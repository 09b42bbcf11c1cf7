/* Random functions: launches, branches and plain C at random places, over arguments, states, outputs, temps, a workspace and what is bound
 * to a compiled graph. Each is called a few times by a manager that captures and by one that does not, and both must give the same.
 *
 * What a graph is said not to see is not drawn (docs/autograph.md): plain C that leaves the same bytes in memory outside of the call
 * in both runs of a capture, or that goes by values. With arguments it is for use by hand: FIRST COUNT are draws by number. */
#include "base/alloc.h"
#include "base/status.h"
#include "support/autographs.h"

enum { N = 8, CALLS = 5, MOST_STEPS = 12, DRAWS = 400 };

typedef enum memory { ARG0, ARG1, STATE, OUT0, OUT1, TEMP0, TEMP1, WORK, BOUND, MEMORIES } memory;

typedef enum step_kind {
    COPY,     /* of the stream */
    FILL,     /* likewise */
    COMPILED, /* y = 2 x + bound */
    C_COPY,   /* plain C from here on */
    C_AFFINE,
    C_ADD,
    C_NEXT,  /* 1 more */
    C_COUNT, /* a number of the function's own, another one in each run */
    KINDS
} step_kind;

typedef enum where { ALWAYS, TAKEN, NOT_TAKEN } where;

typedef struct step {
    step_kind kind;
    where where;
    memory to, from;
    int at, n; /* elements */
    float a, b;
    bool by_pointer; /* a state that is not asked for, but known */
} step;

typedef struct draw {
    step step[MOST_STEPS];
    int n;
    bool has_c;
    rp_output_policy policy;
} draw;

/* What one of both managers works on. */
typedef struct world {
    bench b;
    rp_compiled *c;
    float *work, bound[N], state[N], arg[2][N];
    float *at[MEMORIES]; /* in the run under way */
    const draw *d;
    int turn, runs; /* of this call */
    bool captures;
} world;

static uint32_t seed;

static int below(int n) {
    seed = seed * 1664525u + 1013904223u;
    return (int)((seed >> 8) % (uint32_t)n);
}

/* --- a draw ---------------------------------------------------------------------------------- */

static bool is_argument(memory m) {
    return m == ARG0 || m == ARG1;
}

static step draw_launch(void) {
    static const memory to[] = {STATE, OUT0, OUT1, TEMP0, TEMP1, WORK};
    step s = {
        .kind = (step_kind)below(C_COPY), .to = to[below(6)], .from = (memory)below(MEMORIES)};
    s.at = below(N - 1);
    s.n = 1 + below(N - s.at);
    s.where = (where)(below(4) ? ALWAYS : 1 + below(2));
    if (below(60) == 0) s.to = ARG0;
    if (s.from == s.to || s.from == BOUND) s.from = s.to == ARG1 ? ARG0 : ARG1;
    return s;
}

/* Outside of the call it depends on what differs between runs. */
static step draw_c(bool first) {
    step s = {.kind = (step_kind)(C_COPY + below(KINDS - C_COPY)), .to = (memory)below(MEMORIES)};
    static const memory from[] = {ARG0, ARG1, STATE, OUT0, TEMP0};
    s.from = from[below(first ? 3 : 5)];
    s.at = below(s.kind == C_NEXT ? 5 : N - 1);
    s.n = 1 + below(N - s.at);
    s.a = (float)(2 + below(3));
    s.b = (float)below(3);
    s.by_pointer = s.to == STATE && below(2);
    if (s.by_pointer && s.from == STATE) s.from = ARG0;
    if (s.kind == C_COPY && s.from == s.to) s.from = s.to == ARG0 ? ARG1 : ARG0;
    if (below(5) == 0) s.where = TAKEN;
    return s;
}

/* All that a function has of its own is written before it is read. */
static void draw_all(draw *d, uint32_t number) {
    seed = number * 2654435761u + 1;
    *d = (draw){.policy = (rp_output_policy)below(3), .has_c = below(2)};
    int n_c = d->has_c ? 1 + below(2) : 0, n = 1 + below(5);
    bool early = n_c && below(3) == 0;
    if (early) d->step[d->n++] = draw_c(true);
    for (int m = OUT0; m <= TEMP1; m++)
        d->step[d->n++] = below(2) ? (step){.kind = FILL, .to = (memory)m, .n = N}
                                   : (step){.kind = COPY, .to = (memory)m, .from = ARG1, .n = N};
    for (int i = 0; i < n; i++) d->step[d->n++] = draw_launch();
    for (int i = early; i < n_c; i++) {
        int at = 4 + early + below(d->n - 3 - early);
        memmove(&d->step[at + 1], &d->step[at], (size_t)(d->n++ - at) * sizeof(step));
        d->step[at] = draw_c(false);
    }
}

/* --- the function ---------------------------------------------------------------------------- */

static void run_c(world *w, const step *s) {
    float *to = s->by_pointer ? w->state : w->at[s->to];
    const float *from = w->at[s->from];
    if (s->kind == C_COPY) memcpy(to + s->at, from + s->at, (size_t)s->n * sizeof *to);
    for (int i = s->at; i < s->at + s->n; i++) {
        if (s->kind == C_AFFINE) to[i] = from[i] * s->a + s->b;
        if (s->kind == C_ADD) to[i] += from[i] * s->a + s->b + 1;
        if (s->kind == C_NEXT) to[i] += 1;
        if (s->kind == C_COUNT) to[i] = (float)(w->turn * 16 + i + 1000 * w->runs);
    }
}

static rp_status run_step(world *w, const step *s, rp_call *call, rp_error *err) {
    rp_stream *stream = rp_call_stream(call);
    rp_buffer x = {RP_DTYPE_F32, 1, {N}, w->at[s->from]}, y = {RP_DTYPE_F32, 1, {N}, w->at[s->to]};
    size_t bytes = (size_t)s->n * sizeof(float);
    if (s->kind == COMPILED) return rp_compiled_run_on(w->c, stream, &x, 1, &y, 1, err);
    if (s->kind == COPY)
        return rp_stream_copy(stream, w->at[s->to] + s->at, w->at[s->from] + s->at, bytes, err);
    if (s->kind == FILL) return rp_stream_fill(stream, w->at[s->to] + s->at, 64, bytes, err);
    run_c(w, s);
    return RP_OK;
}

typedef struct body {
    world *w;
    const step *s;
} body;

static rp_status run_body(void *user, rp_call *call, rp_error *err) {
    const body *b = user;
    return run_step(b->w, b->s, call, err);
}

static rp_status ask(world *w, rp_call *call, rp_value *item, rp_error *err) {
    for (int m = OUT0; m <= TEMP1; m++) {
        rp_buffer b = {RP_DTYPE_F32, 1, {N}, NULL};
        RP_TRY(m < TEMP0 ? rp_call_output(call, &b, err) : rp_call_temp(call, &b, err));
        if (m < TEMP0) item[m - OUT0] = rp_value_tensor(b);
        w->at[m] = b.data;
    }
    return RP_OK;
}

static rp_status run_drawn(void *user, rp_call *call, const rp_value *args, rp_value *result,
                           rp_error *err) {
    static rp_value item[2];
    world *w = user;
    rp_buffer pred = {RP_DTYPE_BOOL, 1, {1}, NULL};
    w->runs++;
    for (int i = 0; i < 2; i++) w->at[ARG0 + i] = args->item[i].tensor.data;
    w->at[STATE] = args->item[2].tensor.data;
    w->at[WORK] = w->work;
    w->at[BOUND] = w->bound;
    RP_TRY(ask(w, call, item, err));
    RP_TRY(rp_call_temp(call, &pred, err));
    for (const step *s = w->d->step; s < w->d->step + w->d->n; s++) {
        body b = {w, s};
        if (s->where != ALWAYS)
            RP_TRY(rp_stream_fill(rp_call_stream(call), pred.data, s->where == TAKEN, 1, err));
        RP_TRY(s->where == ALWAYS ? run_step(w, s, call, err)
                                  : rp_call_if(call, &pred, run_body, &b, err));
    }
    *result = rp_value_tuple(item, 2);
    return RP_OK;
}

static bool wanted(void *user) {
    return ((const world *)user)->captures;
}

/* --- both ------------------------------------------------------------------------------------ */

static void world_open(world *w, bool captures) {
    rp_error err = {0};
    void *p = NULL;
    memset(w, 0, sizeof *w);
    w->captures = captures;
    bench_open(&w->b, "cpu", RP_GROWTH_RESERVE);
    CHECK_OK(rp_device_alloc(w->b.device, sizeof w->bound, &p, &err), &err);
    w->work = p;
    rp_graph *g = rp_graph_new("drawn");
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(N));
    rp_tensor y = rp_add(rp_add(x, x), rp_param(g, "bound", RP_DTYPE_F32, RP_SHAPE(N)));
    CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
    CHECK_OK(rp_compile_on(w->b.device, g, NULL, &w->c, &err), &err);
    CHECK_OK(rp_compiled_bind(w->c, "bound", w->bound, &err), &err);
    rp_graph_free(g);
}

static void world_close(world *w) {
    rp_compiled_free(w->c);
    rp_device_free(w->b.device, w->work);
    bench_close(&w->b);
}

static rp_function *world_start(world *w, const draw *d) {
    rp_function_options o = RP_FUNCTION_OPTIONS_INIT;
    o.name = "drawn";
    o.fn = run_drawn;
    o.user = w;
    o.enable_if = wanted;
    o.output = d->policy;
    o.ring = d->policy == RP_OUTPUT_RING ? 2 : 0;
    w->d = d;
    for (int i = 0; i < N; i++) {
        w->work[i] = (float)i;
        w->bound[i] = (float)(100 + i);
        w->state[i] = (float)(200 + i);
    }
    return function_with(&w->b, o);
}

static rp_output *call_once(world *w, rp_function *f, int turn) {
    w->turn = turn;
    w->runs = 0;
    for (int i = 0; i < N; i++) {
        w->arg[0][i] = (float)(turn * 3 + i + 1);
        w->arg[1][i] = (float)(-turn - 2 * i);
    }
    rp_value in[3] = {floats(w->arg[0], N), floats(w->arg[1], N),
                      rp_value_state((rp_buffer){RP_DTYPE_F32, 1, {N}, w->state})};
    return run_items(f, in, 3);
}

/* Which elements of what lies outside launches name. */
static void find_named(const draw *d, bool named[MEMORIES][N]) {
    memset(named, 0, MEMORIES * sizeof *named);
    for (const step *s = d->step; s < d->step + d->n; s++) {
        bool all = s->kind == COMPILED;
        if (s->kind >= C_COPY || s->where == NOT_TAKEN) continue;
        for (int i = 0; i < N; i++) {
            bool in = all || (i >= s->at && i < s->at + s->n);
            named[s->to][i] |= in;
            if (s->kind != FILL) named[s->from][i] |= in;
            named[BOUND][i] |= all;
        }
    }
}

static void print_draw(const draw *d, uint32_t number) {
    static const char *const kind[] = {"copy",     "fill",  "compiled", "c copy",
                                       "c affine", "c add", "c next",   "c count"};
    static const char *const name[] = {"arg0",  "arg1",  "state", "out0", "out1",
                                       "temp0", "temp1", "work",  "bound"};
    static const char *const place[] = {"", " taken", " not taken"};
    print_message("draw %u, policy %d\n", number, (int)d->policy);
    for (const step *s = d->step; s < d->step + d->n; s++)
        print_message("  %s %s%s <- %s [%d, +%d) %g %g%s\n", kind[s->kind], name[s->to],
                      s->by_pointer ? " by its pointer" : "", name[s->from], s->at, s->n,
                      (double)s->a, (double)s->b, place[s->where]);
}

typedef struct both {
    world *w;
    const draw *d;
    uint32_t number;
    int turn;
    rp_output *o[2];
} both;

static void check_same(const both *t, const char *what, int i, float got, float want) {
    if (memcmp(&got, &want, sizeof got) == 0) return;
    print_draw(t->d, t->number);
    fail_msg("draw %u, call %d (ran %d, '%s'): %s[%d] is %g, not %g", t->number, t->turn,
             (int)rp_output_ran(t->o[0]), rp_output_reason(t->o[0]), what, i, (double)got,
             (double)want);
}

static void check_outputs(const both *t) {
    const rp_value *v[2] = {result_of(t->o[0]), result_of(t->o[1])};
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < N; i++)
            check_same(t, k ? "out1" : "out0", i, ((float *)v[0]->item[k].tensor.data)[i],
                       ((float *)v[1]->item[k].tensor.data)[i]);
}

static void check_rest(const both *t, bool named[MEMORIES][N]) {
    const world *a = &t->w[0], *b = &t->w[1];
    for (int i = 0; i < N; i++) {
        check_same(t, "state", i, a->state[i], b->state[i]);
        check_same(t, "arg0", i, a->arg[0][i], b->arg[0][i]);
        check_same(t, "arg1", i, a->arg[1][i], b->arg[1][i]);
        if (named[WORK][i]) check_same(t, "work", i, a->work[i], b->work[i]);
        if (named[BOUND][i]) check_same(t, "bound", i, a->bound[i], b->bound[i]);
    }
}

/* Gives whether its last call was a replay. */
static bool run_draw(world w[2], uint32_t number) {
    draw d;
    bool named[MEMORIES][N], replayed = false, writes = false;
    draw_all(&d, number);
    find_named(&d, named);
    for (const step *s = d.step; s < d.step + d.n; s++) writes |= is_argument(s->to);
    rp_function *f[2] = {world_start(&w[0], &d), world_start(&w[1], &d)};
    both t = {.w = w, .d = &d, .number = number};
    for (; t.turn < CALLS; t.turn++) {
        for (int k = 0; k < 2; k++) {
            w[k].work[N - 1] += 1; /* between calls it is anybody's */
            t.o[k] = call_once(&w[k], f[k], t.turn);
        }
        check_outputs(&t);
        check_rest(&t, named);
        replayed = rp_output_ran(t.o[0]) == RP_RAN_REPLAY;
        if (!d.has_c && !writes && t.turn && !replayed) {
            print_draw(&d, number);
            fail_msg("draw %u is not captured: %s", number, rp_output_reason(t.o[0]));
        }
        for (int k = 0; k < 2; k++) rp_output_free(t.o[k]);
    }
    for (int k = 0; k < 2; k++) rp_function_free(f[k]);
    return replayed;
}

static uint32_t first = 1, count = DRAWS;

static void draws_give_the_same(void **state) {
    world w[2];
    uint32_t replayed = 0;
    (void)state;
    for (int k = 0; k < 2; k++) world_open(&w[k], k == 0);
    for (uint32_t i = 0; i < count; i++) replayed += run_draw(w, first + i);
    assert_true(count < DRAWS || (replayed > count / 4 && replayed < count * 3 / 4));
    for (int k = 0; k < 2; k++) world_close(&w[k]);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(draws_give_the_same)};
    if (argc > 1) first = (uint32_t)strtoul(argv[1], NULL, 10);
    if (argc > 2) count = (uint32_t)strtoul(argv[2], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
