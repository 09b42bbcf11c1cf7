/* Random functions with random questions on sizes, called with random sizes. Each returns, beside its tensors, what it was answered: so
 * a call must give the bits of level 0, and an entry whose guards hold must have been traced with the answers that level 0 gets.
 * So must functions that break, too, and go on with what has other sizes than what crossed the break, or write an argument.
 * Arguments: how many functions (default 600, half of them under a sanitizer), the first one, and a setup (jit_setups.h) for all of them; one in 200 is compiled. */
#include "support/jit_setups.h"

#include "front/front.h"
#include "support/thorough.h"

enum { CALLS = 24, STEPS = 8, MOST = 8, ROOM = 4096 };

typedef struct program {
    uint32_t seed;
    uint64_t path; /* answers of the last run */
    bool breaks;
} program;

static uint32_t first_function, n_functions = SANITIZED ? 300 : 600;
static int setup_of = -1; /* drawn */

static float data[3][ROOM];

static uint32_t next(uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* Tensors of a run, and the draws that make it: equal for equal seeds and answers. */
typedef struct run {
    program *p;
    uint32_t seed;
    rp_tensor t[MOST];
    uint32_t n;
    rp_jit_call *call;
    rp_tensor memory;       /* the first argument as it was written last */
    const rp_value *number; /* (optional) an integer that is taken as a size, */
    bool both;              /* and as a number of C */
} run;

static bool answered(run *r, bool yes) {
    r->p->path = r->p->path * 3 + 1 + yes;
    return yes;
}

static rp_tensor pick(run *r) {
    return r->t[next(&r->seed) % r->n];
}

static void push(run *r, rp_tensor x) {
    r->t[r->n < MOST ? r->n++ : next(&r->seed) % MOST] = x;
}

static rp_dim pick_size(run *r) {
    rp_tensor x = pick(r);
    if (r->number && next(&r->seed) % 3 == 0) return rp_jit_dim(r->call, r->number);
    uint32_t rank = rp_tensor_shape(x).rank;
    return rank ? rp_tensor_dim(x, (int)(next(&r->seed) % rank)) : rp_dim_const(3);
}

/* A size, a sum or difference or product of two, a part or a rest of one. */
static rp_dim pick_form(run *r) {
    rp_dim a = pick_size(r), b = pick_size(r);
    int64_t k = 2 + next(&r->seed) % 4;
    switch (next(&r->seed) % 7) {
    case 0: return rp_dim_add(a, b);
    case 1: return rp_dim_sub(a, b);
    case 2: return rp_dim_mul(a, b);
    case 3: return rp_dim_floordiv(a, k);
    case 4: return rp_dim_mod(a, k);
    default: return a;
    }
}

static void ask(run *r) {
    rp_dim a = pick_form(r);
    rp_dim b = next(&r->seed) % 2 ? pick_form(r) : rp_dim_const(next(&r->seed) % 10);
    rp_relation rel = (rp_relation)(next(&r->seed) % 6);
    rp_tensor x = pick(r);
    push(r, answered(r, rp_dim_ask(a, rel, b, "fuzz.c", 1)) ? rp_neg(x) : rp_add_scalar(x, 1));
}

static void add(run *r) {
    rp_tensor a = pick(r), b = pick(r);
    rp_shape s = rp_tensor_shape(a), t = rp_tensor_shape(b);
    bool fit = s.rank == t.rank;
    for (uint32_t i = 0; fit && i < s.rank; i++) fit = answered(r, rp_dim_eq(s.dim[i], t.dim[i]));
    if (fit) push(r, rp_mul(a, b));
}

static void group(run *r) {
    rp_tensor a = pick(r);
    rp_shape s = rp_tensor_shape(a);
    int64_t k = 2 + next(&r->seed) % 3;
    if (s.rank == 0 || s.rank > 2) return;
    if (!answered(r, rp_dim_eq(rp_dim_mod(s.dim[0], k), 0))) return;
    rp_shape to = {.rank = s.rank + 1};
    to.dim[0] = rp_dim_floordiv(s.dim[0], k);
    to.dim[1] = rp_dim_const(k);
    if (s.rank == 2) to.dim[2] = s.dim[1];
    push(r, rp_sum(rp_reshape(a, to), 0, false));
}

/* What there is of a behind as many as a size; now and then it is not asked whether there are. */
static void rest(run *r, rp_tensor a) {
    rp_dim all = rp_tensor_dim(a, 0), n = pick_size(r);
    if (next(&r->seed) % 8 && !answered(r, rp_dim_le(n, all))) return;
    if (next(&r->seed) % 2)
        push(r, rp_slice(a, 0, n, all));
    else
        push(r, rp_slice(a, 0, 0, rp_dim_sub(all, n)));
}

static void cut(run *r) {
    rp_tensor a = pick(r);
    rp_shape s = rp_tensor_shape(a);
    int64_t from = next(&r->seed) % 3;
    if (s.rank == 0) return;
    if (next(&r->seed) % 2) {
        rest(r, a);
        return;
    }
    if (answered(r, rp_dim_ge(s.dim[0], from + 2)))
        push(r, rp_slice(a, 0, from, from + 2));
    else if (answered(r, rp_dim_gt(s.dim[0], 0)))
        push(r, rp_slice(a, 0, 0, rp_dim_sub(s.dim[0], 1)));
}

static void reduce(run *r) {
    rp_tensor a = pick(r);
    uint32_t rank = rp_tensor_shape(a).rank;
    if (rank) push(r, rp_sum(a, (int)(next(&r->seed) % rank), next(&r->seed) % 2));
}

static void join(run *r) {
    rp_tensor a = pick(r), both[2] = {a, a};
    if (rp_tensor_shape(a).rank) push(r, rp_concat(both, 2, 0));
}

/* An op that wants sizes to fit, without a question: what was not asked is needed. */
static void want(run *r) {
    rp_tensor a = pick(r);
    rp_shape s = rp_tensor_shape(a);
    if (r->both && next(&r->seed) % 2) a = rp_mul_scalar(a, (double)r->number->as.integer);
    if (s.rank == 1) push(r, rp_reshape(a, RP_SHAPE(1, s.dim[0])));
    if (s.rank == 2) push(r, rp_add(a, rp_transpose(rp_transpose(a, 0, 1), 0, 1)));
}

static void (*const step[])(run *) = {ask, ask, add, group, cut, reduce, join, want};

/* The same kinds of steps, on the arguments of a body: their questions are the function's. */
static void inside(rp_graph *g, const rp_tensor *in, uint32_t n_in, rp_tensor *out, uint32_t n_out,
                   void *user) {
    const run *around = user;
    run r = {.p = around->p, .seed = around->seed};
    (void)g, (void)n_out;
    for (uint32_t i = 0; i < n_in; i++) push(&r, in[i]);
    for (int i = 0; i < 3; i++) step[next(&r.seed) % 8](&r);
    out[0] = r.t[r.n - 1];
}

static void inside_negated(rp_graph *g, const rp_tensor *in, uint32_t n_in, rp_tensor *out,
                           uint32_t n_out, void *user) {
    inside(g, in, n_in, out, n_out, user);
    out[0] = rp_neg(out[0]);
}

static void body(run *r) {
    rp_tensor in[] = {pick(r), pick(r)}, sum = in[0], y;
    bool branches = next(&r->seed) % 2;
    while (rp_tensor_shape(sum).rank) sum = rp_sum(sum, 0, false);
    rp_tensor positive = rp_gt(sum, rp_mul_scalar(sum, 0));
    if (branches)
        rp_cond(positive, inside, inside_negated, r, in, 2, &y, 1);
    else
        rp_call_graph(sum.graph, inside, r, in, 2, &y, 1);
    push(r, y);
}

/* --- breaks ---------------------------------------------------------------------------------- */

static rp_tensor sum_of(rp_tensor a) {
    while (rp_tensor_shape(a).rank) a = rp_sum(a, 0, false);
    return a;
}

static void pause_here(run *r) {
    rp_jit_break(r->call, "drawn");
}

static void ask_value(run *r) {
    rp_tensor x = pick(r), sum = sum_of(pick(r));
    bool host = next(&r->seed) % 2;
    double is = host ? 0 : rp_item(sum);
    rp_buffer b = host ? rp_jit_read(r->call, sum) : (rp_buffer){.data = NULL};
    if (b.data) is = *(const float *)b.data;
    push(r, answered(r, is > 0) ? rp_neg(x) : rp_add_scalar(x, 1));
}

/* What was there is not read behind a break. */
static void write(run *r) {
    rp_tensor old = r->memory;
    r->memory = rp_update(old, next(&r->seed) % 2 ? rp_neg(old) : rp_add_scalar(old, 1));
    for (uint32_t i = 0; i < r->n; i++)
        if (r->t[i].ref == old.ref) r->t[i] = r->memory;
}

/* Values of which sizes alone are known. */
static void count(run *r) {
    rp_dim n = pick_size(r);
    push(r, rp_cast(rp_iota(rp_jit_graph(r->call), RP_DTYPE_I32, RP_SHAPE(n), 0), RP_DTYPE_F32));
}

static void size_as_value(run *r) {
    push(r, rp_dim_value(rp_jit_graph(r->call), pick_form(r), RP_DTYPE_F32));
}

static void spread(run *r) {
    rp_dim n = pick_size(r);
    push(r, rp_broadcast(sum_of(pick(r)), RP_SHAPE(n)));
}

static void (*const break_step[])(run *) = {pause_here, ask_value,     ask_value, write,
                                            count,      size_as_value, spread};

static rp_status random_function(void *user, rp_jit_call *call, const rp_value *args,
                                 rp_value *result, rp_error *err) {
    static rp_value out[MOST + 1];
    program *p = user;
    run r = {.p = p, .seed = p->seed, .call = call};
    (void)err;
    p->path = 1;
    const rp_value *last = &args->item[args->n - 1];
    if (last->kind == RP_VALUE_LIST) r.number = &last->item[0];
    r.both = r.number && p->seed % 8 == 0;
    for (uint32_t i = 0; i < args->n && args->item[i].kind == RP_VALUE_TENSOR; i++)
        push(&r, rp_jit_tensor(call, &args->item[i]));
    r.memory = r.t[0];
    for (int i = 0; i < (p->breaks ? 2 * STEPS : STEPS); i++) {
        uint32_t which = next(&r.seed) % (p->breaks ? 9 + 7 : 9);
        (which < 8 ? step[which] : which == 8 ? body : break_step[which - 9])(&r);
    }
    for (uint32_t i = 0; i < r.n; i++) out[i] = rp_jit_value(call, r.t[i]);
    out[r.n] = rp_value_int((int64_t)p->path);
    *result = rp_value_tuple(out, r.n + 1);
    return RP_OK;
}

static size_t bytes_of(const rp_buffer *b) {
    size_t n = sizeof(float);
    for (uint32_t i = 0; i < b->rank; i++) n *= (size_t)b->dim[i];
    return n;
}

static void check_equal(const rp_value *a, const rp_value *b) {
    assert_int_equal(a->n, b->n);
    assert_int_equal(a->item[a->n - 1].as.integer, b->item[b->n - 1].as.integer);
    for (uint32_t i = 0; i + 1 < a->n; i++) {
        const rp_buffer *x = &a->item[i].tensor, *y = &b->item[i].tensor;
        assert_int_equal(x->rank, y->rank);
        for (uint32_t d = 0; d < x->rank; d++) assert_int_equal(x->dim[d], y->dim[d]);
        assert_memory_equal(x->data, y->data, bytes_of(x));
    }
}

/* Every entry that would serve these arguments was traced with these answers. */
static void check_guards(rp_jit *f, const rp_value *args, int64_t path) {
    front_args a;
    rp_error err = {0};
    CHECK_OK(front_args_read(&a, args, &err), &err);
    for (front_entry *e = f->entries; e; e = e->behind) {
        const rp_value *r = &e->result.value;
        base_buf why;
        base_buf_init(&why, 0);
        bool holds = front_guards_hold(&e->guards, &a);
        (void)front_guards_why(&e->guards, &a, &why);
        assert_int_equal(holds, why.len == 0); /* a refusal has a reason */
        base_buf_done(&why);
        if (holds) assert_int_equal(r->item[r->n - 1].as.integer, path);
    }
    front_args_done(&a);
}

static rp_value draw_tensor(uint32_t *seed, uint32_t i, uint32_t rank) {
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 6, 8, 12, 0};
    rp_value v = f32_of(data[i], rank, 0, 0);
    for (uint32_t d = 0; d < rank; d++) {
        uint32_t k = next(seed);
        v.tensor.dim[d] = sizes[k % 40 ? k % 8 : 8];
    }
    return v;
}

/* Some are no sizes. */
static int64_t draw_number(uint32_t *seed) {
    static const int64_t numbers[] = {2, 3, 4, 5, 6, 8, 12, 1, 0, -1, -2, -3, -7, 40};
    uint32_t k = next(seed);
    return numbers[k % 3 ? k / 3 % 7 : k / 3 % 14];
}

/* Returns the calls that were right; those that fail at level 0 must fail. */
static uint32_t try_function(uint32_t seed, const jit_setup *setup, rp_dynamic dynamic,
                             bool breaks) {
    program p = {.seed = seed * 7919u + 1, .breaks = breaks};
    static float written[ROOM];
    rp_jit_options options = jit_options(random_function);
    options.user = &p;
    options.dynamic = dynamic;
    rp_jit *f = jit_set_up(options, setup);
    rp_jit *plain = jit_at(random_function, 0, dynamic, &p);
    uint32_t s = seed, n = 1 + next(&s) % 3, rank[3], right = 0;
    for (uint32_t i = 0; i < 3; i++) rank[i] = 1 + next(&s) % 2;
    for (int c = 0; c < CALLS; c++) {
        rp_error err = {0};
        rp_output *o = NULL, *q = NULL;
        rp_value v[4], number = rp_value_int(draw_number(&s));
        for (uint32_t i = 0; i < n; i++) v[i] = draw_tensor(&s, i, rank[i]);
        v[n] = rp_value_list(&number, 1);
        rp_value args = rp_value_tuple(v, n + seed % 2);
        memcpy(written, data[0], sizeof written);
        bool works = rp_jit_run(plain, &args, &q, &err) == RP_OK;
        v[0].tensor.data = written;
        rp_status st = rp_jit_run(f, &args, &o, &err);
        if (works && st != RP_OK)
            fail_msg("function %u, call %d, %s: %s", seed, c, setup->settings, err.text);
        if (works) {
            check_equal(jit_result(o), jit_result(q));
            assert_memory_equal(written, data[0], sizeof written);
            if (!breaks)
                check_guards(f, &args, jit_result(q)->item[jit_result(q)->n - 1].as.integer);
            right++;
        } else {
            assert_true(st != RP_OK);
        }
        rp_output_free(o);
        rp_output_free(q);
    }
    rp_jit_free(f);
    rp_jit_free(plain);
    return right;
}

/* On a GPU most of them are none. */
static const jit_setup *setup_for(uint32_t seed) {
    if (setup_of >= 0) return &jit_setups[setup_of % JIT_SETUPS];
    return &jit_setups[runs_elsewhere() ? 0 : seed / 2 % JIT_SETUPS];
}

static void fill(void) {
    for (int i = 0; i < ROOM; i++)
        for (int k = 0; k < 3; k++) data[k][i] = (float)((i * (k + 3)) % 11) / 4 - 1;
}

static void entries_serve_what_they_were_traced_for(void **state) {
    uint32_t right = 0;
    (void)state;
    fill();
    for (uint32_t i = first_function; i < first_function + n_functions; i++)
        right += try_function(i, setup_for(i), (rp_dynamic)(i % 3), false);
    assert_true(right > n_functions * CALLS / 2);
}

static void compiled_ones_too(void **state) {
    (void)state;
    fill();
    const uint32_t setups = runs_elsewhere() ? JIT_SETUPS_ELSEWHERE : JIT_SETUPS_COMPILED;
    uint32_t first = 1000 + first_function;
    for (uint32_t i = first; i < first + (n_functions + 199) / 200; i++) {
        const uint32_t k = setup_of >= 0 ? (uint32_t)setup_of : 2 * i;
        const jit_setup *all = jit_setups_compiled;
        (void)try_function(i, &all[k % setups], RP_DYNAMIC_ALL, false);
        (void)try_function(i, &all[(k + (setup_of < 0)) % setups], (rp_dynamic)(i % 3), true);
    }
}

/* A slice whose result is not used, behind what a branch teaches and in front of a break: its need is asked once. */
static void needs_of_dead_ops_stay(void **state) {
    (void)state;
    fill();
    (void)try_function(7102495, &jit_setups[0], RP_DYNAMIC_ALL, true);
}

static void functions_with_breaks_are_right(void **state) {
    uint32_t right = 0, n = (n_functions + 3) / 4;
    (void)state;
    fill();
    for (uint32_t i = first_function; i < first_function + n; i++)
        right += try_function(i, setup_for(i), (rp_dynamic)(i % 3), true);
    assert_true(right > n * CALLS / 2);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_serve_what_they_were_traced_for),
        cmocka_unit_test(compiled_ones_too),
        cmocka_unit_test(needs_of_dead_ops_stay),
        cmocka_unit_test(functions_with_breaks_are_right),
    };
    if (runs_elsewhere()) n_functions /= 60; /* each graph is compiled */
    if (argc > 1) n_functions = (uint32_t)atoi(argv[1]);
    if (argc > 2) first_function = (uint32_t)atoi(argv[2]);
    if (argc > 3) setup_of = atoi(argv[3]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
