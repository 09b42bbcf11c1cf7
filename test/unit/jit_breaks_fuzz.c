/* Drawn functions with graph breaks: each op is done by the host as well, exactly, so every value that is read, every state and every
 * result is compared with what it must be, whatever way a call takes. Arguments: how many functions (default 120), the first one, and a setup
 * (jit_setups.h) for all of them; one in 40 is compiled. */
#include "support/jit_setups.h"

enum { MOST = 24, ROWS = 7, CALLS = 7 };

/* x, which is op of a and b, and what it must be. */
typedef struct drawn {
    rp_tensor x;
    float is[ROWS];
    uint64_t op;
    rp_tensor a, b;
} drawn;

/* What a run does: drawn anew in each call, by the same seed, so that it differs by values alone. */
typedef struct program {
    uint64_t seed;
    int64_t n, number; /* that is taken as a size, and added */
    float *memory;     /* of the state */
    float x[ROWS], before[ROWS];
    float state[ROWS], result[ROWS]; /* what they must be */
    int wrong, breaks;
} program;

static uint64_t next(uint64_t *s) {
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    return *s >> 33;
}

/* 0 and -0 are one number here. */
static bool same(const float *a, const float *b, int64_t n) {
    int64_t i = 0;
    while (i < n && a[i] == b[i]) i++;
    return i == n;
}

enum { VIEW = 6, GIVEN = 7 };

/* The same numbers through views alone. */
static rp_tensor view_of(rp_tensor a) {
    rp_dim n = rp_tensor_dim(a, 0);
    rp_tensor two = rp_broadcast(a, RP_SHAPE(2, n));
    return rp_reshape(rp_slice(two, 0, 1, 2), RP_SHAPE(n));
}

static rp_tensor apply(uint64_t op, rp_tensor a, rp_tensor b) {
    return op == 0      ? rp_add(a, b)
           : op == 1    ? rp_mul_scalar(a, 0.5)
           : op == 2    ? rp_neg(a)
           : op == 3    ? rp_abs(a)
           : op == 4    ? rp_max(a, b)
           : op == VIEW ? view_of(a)
                        : rp_add_scalar(a, 1);
}

static void put_op(uint64_t op, const drawn *a, const drawn *b, int64_t n, drawn *out) {
    for (int64_t i = 0; i < n; i++) {
        float x = a->is[i], y = b->is[i];
        out->is[i] = op == 0      ? x + y
                     : op == 1    ? x * 0.5f
                     : op == 2    ? -x
                     : op == 3    ? (x < 0 ? -x : x)
                     : op == 4    ? (x > y ? x : y)
                     : op == VIEW ? x
                                  : x + 1;
    }
    out->op = op;
    out->a = a->x;
    out->b = b->x;
    out->x = apply(op, a->x, b->x);
}

/* What was made before is asked for again. */
static void put_again(const drawn *of, drawn *out) {
    *out = *of;
    if (of->op != GIVEN) out->x = apply(of->op, of->a, of->b);
}

/* The integer as a value, and for some functions as the number that it is. */
static void put_number(const program *p, rp_jit_call *call, const rp_value *number, const drawn *a,
                       drawn *out) {
    rp_tensor is = rp_dim_value(rp_jit_graph(call), rp_jit_dim(call, number), RP_DTYPE_F32);
    for (int64_t i = 0; i < p->n; i++) out->is[i] = a->is[i] + (float)p->number;
    out->x = p->seed % 5 ? rp_add(a->x, is) : rp_add_scalar(a->x, (double)number->as.integer);
    out->op = GIVEN;
}

static void check_state(program *p) {
    p->breaks++;
    if (!same(p->memory, p->state, p->n)) p->wrong++;
}

static void read_back(program *p, rp_jit_call *call, const drawn *a) {
    rp_buffer b = rp_jit_read(call, a->x);
    if (!b.data || !same(b.data, a->is, p->n)) p->wrong++;
    check_state(p);
}

/* Which way by the largest number. */
static bool is_large(program *p, const drawn *a) {
    float top = a->is[0];
    for (int64_t i = 1; i < p->n; i++) top = a->is[i] > top ? a->is[i] : top;
    double is = rp_item(rp_amax(a->x, 0, false));
    if (is != (double)top) p->wrong++;
    check_state(p);
    return is > 2;
}

static rp_status run_drawn(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                           rp_error *err) {
    program *p = user;
    drawn v[MOST + 8] = {{.op = GIVEN}};
    uint64_t s = p->seed;
    uint32_t n = 2, steps = 4 + (uint32_t)next(&s) % (MOST - 4);
    (void)err;
    bool plain = p->seed % 2; /* no state, whose sizes are numbers */
    rp_tensor memory = rp_jit_tensor(call, &args->item[1]);
    memcpy(v[0].is, p->x, sizeof v[0].is);
    memcpy(p->state, p->before, sizeof p->state);
    v[0].x = rp_jit_tensor(call, &args->item[0]);
    p->wrong = 0; /* a trace without a break may be made again */
    memcpy(v[1].is, plain ? p->x : p->before, sizeof v[1].is);
    v[1].x = plain ? v[0].x : rp_mul_scalar(memory, 1);
    v[0].op = v[1].op = GIVEN;
    if (!plain) { /* a view of memory, which is written meanwhile */
        drawn is = {.x = memory};
        memcpy(is.is, p->before, sizeof is.is);
        put_op(VIEW, &is, &is, p->n, &v[n++]);
    }
    for (uint32_t i = 0; i < steps && !rp_jit_failed(call); i++) {
        uint64_t what = next(&s) % 20;
        const drawn *a = &v[next(&s) % n], *b = &v[next(&s) % n];
        if (what < 10) {
            put_op(what % 6, a, b, p->n, &v[n]);
            n++;
        } else if (what < 12) {
            if (is_large(p, a)) s ^= 0x9e3779b97f4a7c15u;
        } else if (what == 12) {
            read_back(p, call, a);
        } else if (what == 13) {
            rp_jit_break(call, "drawn");
            check_state(p);
        } else if (what == 14 && rp_dim_gt(rp_tensor_dim(a->x, 0), (int)(next(&s) % 5))) {
            s += 3;
        } else if (what == 15 && !plain) {
            memory = rp_update(memory, a->x);
            memcpy(p->state, a->is, (size_t)p->n * sizeof(float));
            drawn is = *a;
            is.x = memory;
            put_op(VIEW, &is, &is, p->n, &v[n++]);
        } else if (what == 16) {
            put_op(VIEW, a, a, p->n, &v[n++]);
        } else if (what == 19) {
            put_number(p, call, &args->item[2].item[0], a, &v[n++]);
        } else if (what > 16) {
            put_again(a, &v[n++]);
        }
    }
    memcpy(p->result, v[n - 1].is, (size_t)p->n * sizeof(float));
    *result = rp_jit_value(call, v[n - 1].x);
    return RP_OK;
}

static int n_breaks;

static void check_one(uint64_t seed, const jit_setup *setup) {
    float memory[ROWS], x[ROWS];
    uint64_t s = seed * 77 + 5;
    bool is_state = seed % 4 !=
                    2; /* else an argument that is written, whose size may be a symbol */
    program p = {.seed = seed, .memory = memory};
    rp_jit_options options = jit_options(run_drawn);
    options.user = &p;
    options.dynamic = seed % 3 == 0 ? RP_DYNAMIC_ALL : RP_DYNAMIC_AUTO;
    rp_jit *f = jit_set_up(options, setup);
    const char *by = setup->settings;
    for (int i = 0; i < CALLS; i++) {
        rp_error err = {0};
        rp_output *o = NULL;
        p.n = 1 + (int64_t)(next(&s) % ROWS);
        for (int k = 0; k < ROWS; k++) {
            x[k] = p.x[k] = (float)(int)(next(&s) % 9) - 4;
            memory[k] = p.before[k] = (float)(int)(next(&s) % 7) - 3;
        }
        p.number = (int64_t)(next(&s) % 12) - 3;
        rp_value number = rp_value_int(p.number);
        rp_value v[] = {f32_of(x, 1, p.n, 0), f32_of(memory, 1, p.n, 0), rp_value_list(&number, 1)};
        v[1].state = is_state;
        rp_value args = rp_value_tuple(v, 3);
        p.wrong = p.breaks = 0;
        rp_status st = rp_jit_run(f, &args, &o, &err);
        if (st != RP_OK) fail_msg("seed %d call %d %s: %s", (int)seed, i, by, err.text);
        if (p.wrong) fail_msg("seed %d call %d %s: wrong in between", (int)seed, i, by);
        n_breaks += p.breaks;
        /* A function without a break may not have run: what it must give is then not known here. */
        if (p.breaks || rp_output_ran(o) != RP_RAN_REPLAY) {
            const rp_buffer *y = &jit_result(o)->tensor;
            if (y->dim[0] != p.n || !same(y->data, p.result, p.n) || !same(memory, p.state, p.n))
                fail_msg("seed %d call %d %s: wrong", (int)seed, i, by);
        }
        rp_output_free(o);
    }
    rp_jit_free(f);
}

static int first_function, n_functions = 120, setup_of = -1; /* drawn */

/* On a GPU most of them are none. */
static const jit_setup *setup_for(int i) {
    if (i % 40 == 7)
        return &jit_setups_compiled[(setup_of >= 0 ? setup_of : i / 40) % JIT_SETUPS_COMPILED];
    if (setup_of >= 0) return &jit_setups[setup_of % JIT_SETUPS];
    return &jit_setups[runs_elsewhere() ? 0 : i / 2 % JIT_SETUPS];
}

static void drawn_functions_are_right(void **state) {
    (void)state;
    for (int i = first_function; i < first_function + n_functions; i++) {
        check_one((uint64_t)i, &(jit_setup){"level=0", NULL});
        check_one((uint64_t)i, setup_for(i));
    }
    assert_true(n_breaks > n_functions);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(drawn_functions_are_right)};
    if (runs_elsewhere()) n_functions /= 10; /* each graph is compiled */
    if (argc > 1) n_functions = atoi(argv[1]);
    if (argc > 2) first_function = atoi(argv[2]);
    if (argc > 3) setup_of = atoi(argv[3]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
