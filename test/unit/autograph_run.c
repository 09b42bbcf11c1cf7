/* Automatic graphs: what MagiCompiler's documentation says of execution flow and sequence lengths, each as it is here; growth,
 * states, views, nesting, switches and budgets. */
#include "support/autographs.h"

#include "base/alloc.h"
#include "base/status.h"

static float first_of(rp_output *o) {
    float y = values_of(o)[0];
    rp_output_free(o);
    return y;
}

static rp_output *run_one(rp_function *f, float x) {
    static float in[1];
    rp_value v = floats(in, 1);
    in[0] = x;
    return run_items(f, &v, 1);
}

/* --- execution flow ---------------------------------------------------------------------------- */

typedef struct counted {
    affine m;
    int runs;
} counted;

static rp_status counted_call(void *user, rp_call *call, const rp_value *args, rp_value *result,
                              rp_error *err) {
    counted *c = user;
    c->runs++;
    return affine_call(&c->m, call, args, result, err);
}

/* Slow path: run, capture, give what the run gave. Fast path: the body is not run. On null nothing is computed. */
static void a_call_runs_then_replays(void **state) {
    static const char *const names[] = {"cpu", "null"};
    (void)state;
    for (int k = 0; k < 2; k++) {
        bench b;
        counted c = {.runs = 0};
        float x[] = {1, 2, 3};
        bench_open(&b, names[k], RP_GROWTH_RESERVE);
        affine_open(&c.m, b.device, 0, 3, 1);
        rp_function *f = function_of(&b, "f", counted_call, &c);
        for (int i = 0; i < 5; i++, x[2]++) {
            rp_value in = floats(x, 3);
            rp_output *o = run_items(f, &in, 1);
            assert_int_equal(rp_output_ran(o), i ? RP_RAN_REPLAY : RP_RAN_CAPTURE);
            assert_string_equal(rp_output_reason(o), "");
            if (k == 0) assert_true(values_of(o)[2] == 3 * x[2] + 1);
            assert_int_equal(c.runs, 2);
            rp_output_free(o);
        }
        rp_autograph_info info = bench_info(&b);
        assert_int_equal(info.graph_count, 1);
        assert_int_equal(info.tensor_entry_count, 1);
        assert_int_equal(info.tensor_mem_bytes, 24);
        assert_true(info.graph_mem_pool_bytes > 0);
        affine_close(&c.m);
        bench_close(&b);
    }
}

/* Nothing in, nothing out: a graph like any other. */
static void empty_tensors(void **state) {
    bench b;
    affine m;
    (void)state;
    bench_open(&b, "cpu", RP_GROWTH_RESERVE);
    affine_open(&m, b.device, 0, 2, 1);
    rp_function *f = function_of(&b, "f", affine_call, &m);
    rp_value in = floats(NULL, 0);
    for (int i = 0; i < 3; i++) {
        rp_output *o = run_items(f, &in, 1);
        assert_int_equal(rp_output_ran(o), i ? RP_RAN_REPLAY : RP_RAN_CAPTURE);
        assert_int_equal(result_of(o)->tensor.dim[0], 0);
        rp_output_free(o);
    }
    affine_close(&m);
    bench_close(&b);
}

/* Magi's own test of FULL: a network of a batch of 4, 4, 2, 6, 4. graphs and entries after each. */
static void exact_growth_counts(void **state) {
    static const int batch[] = {4, 4, 2, 6, 4}, graphs[] = {1, 1, 2, 1, 2};
    float x[60];
    bench b;
    affine m;
    (void)state;
    for (int i = 0; i < 60; i++) x[i] = (float)i;
    bench_open(&b, "cpu", RP_GROWTH_EXACT);
    affine_open(&m, b.device, 10, 2, 0);
    rp_function *f = function_of(&b, "net", affine_call, &m);
    for (int i = 0; i < 5; i++) {
        rp_value in = rows_of(x, batch[i], 10);
        rp_output *o = run_items(f, &in, 1);
        for (int k = 0; k < batch[i] * 10; k++) assert_true(values_of(o)[k] == 2 * x[k]);
        assert_int_equal(bench_info(&b).graph_count, graphs[i]);
        assert_int_equal(bench_info(&b).tensor_entry_count, 1);
        rp_output_free(o);
    }
    assert_int_equal(bench_info(&b).tensor_mem_bytes, 2 * 6 * 10 * sizeof(float));
    affine_close(&m);
    bench_close(&b);
}

/* The same of PIECEWISE: two pieces with what is not captured between them. */
static void exact_growth_counts_of_pieces(void **state) {
    static const int batch[] = {4, 4, 2, 6, 4, 4}, graphs[] = {2, 2, 4, 2, 4, 4};
    float x[60], between[60];
    bench b;
    affine m[2];
    (void)state;
    for (int i = 0; i < 60; i++) x[i] = (float)i;
    bench_open(&b, "cpu", RP_GROWTH_EXACT);
    affine_open(&m[0], b.device, 10, 2, 0);
    affine_open(&m[1], b.device, 10, 1, 3);
    rp_function *piece[] = {function_of(&b, "piece_0", affine_call, &m[0]),
                            function_of(&b, "piece_1", affine_call, &m[1])};
    for (int i = 0; i < 6; i++) {
        rp_value in = rows_of(x, batch[i], 10), next = rows_of(between, batch[i], 10);
        rp_output *o = run_items(piece[0], &in, 1);
        memcpy(between, values_of(o), (size_t)batch[i] * 10 * sizeof *between);
        rp_output_free(o);
        o = run_items(piece[1], &next, 1);
        for (int k = 0; k < batch[i] * 10; k++) assert_true(values_of(o)[k] == 2 * x[k] + 3);
        assert_int_equal(bench_info(&b).graph_count, graphs[i]);
        assert_int_equal(bench_info(&b).tensor_entry_count, 2);
        rp_output_free(o);
    }
    for (int i = 0; i < 2; i++) affine_close(&m[i]);
    bench_close(&b);
}

/* Params of a compiled graph are no arguments: six of them and one input have one slot, which is not the caller's memory. */
static void params_have_no_slots(void **state) {
    enum { PARAMS = 6 };
    static const char *const name[PARAMS] = {"a", "b", "c", "d", "e", "f"};
    float x[4] = {1, 2, 3, 4}, p[PARAMS] = {1, 2, 3, 4, 5, 6};
    bench b;
    rp_error err = {0};
    affine m = {.c = NULL};
    (void)state;
    bench_open(&b, "cpu", RP_GROWTH_EXACT);
    rp_graph *g = rp_graph_new("six");
    rp_tensor y = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(4));
    for (int i = 0; i < PARAMS; i++) y = rp_add(y, rp_param(g, name[i], RP_DTYPE_F32, RP_SHAPE(1)));
    CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
    CHECK_OK(rp_compile_on(b.device, g, NULL, &m.c, &err), &err);
    for (int i = 0; i < PARAMS; i++) CHECK_OK(rp_compiled_bind(m.c, name[i], &p[i], &err), &err);
    rp_graph_free(g);
    rp_function *f = function_of(&b, "six", affine_call, &m);
    for (int i = 0; i < 2; i++) {
        rp_value in = floats(x, 4);
        assert_true(first_of(run_items(f, &in, 1)) == 22);
    }
    char *text = bench_text(&b);
    assert_non_null(strstr(text, "\n  Input Static Tensors: [shape=[4],dtype=torch.float32]\n"
                                 "  Output Static Tensors: [shape=[4],dtype=torch.float32]\n"));
    printf("%s\n", text);
    assert_int_equal(bench_info(&b).tensor_entry_count, 1);
    rp_free(text);
    affine_close(&m);
    bench_close(&b);
}

/* A param and a state of a captured graph lie where they were bound last. */
static void what_is_bound_anew_is_used(void **state) {
    float x = 1, params[2] = {10, 20}, states[2] = {100, 300};
    float *const from[] = {params, states};
    static const char *const names[] = {"p", "s"};
    bench b;
    rp_error err = {0};
    affine m = {.c = NULL};
    (void)state;
    bench_open(&b, "cpu", RP_GROWTH_EXACT);
    rp_graph *g = rp_graph_new("bound");
    rp_tensor y = rp_add(rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(1)),
                         rp_param(g, "p", RP_DTYPE_F32, RP_SHAPE(1)));
    y = rp_add(y, rp_state(g, "s", RP_DTYPE_F32, RP_SHAPE(1)));
    CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
    CHECK_OK(rp_compile_on(b.device, g, NULL, &m.c, &err), &err);
    rp_graph_free(g);
    for (int k = 0; k < 2; k++) CHECK_OK(rp_compiled_bind(m.c, names[k], from[k], &err), &err);
    rp_function *f = function_of(&b, "bound", affine_call, &m);
    int at[2] = {0, 0};
    for (int i = 0; i < 12; i++) {
        for (int again = 0; again < 3; again++) {
            rp_value in = floats(&x, 1);
            float got = first_of(run_items(f, &in, 1)), want = x + params[at[0]] + states[at[1]];
            if (got != want) fail_msg("%d, %d: %g, want %g", i, again, got, want);
        }
        const int k = i / 2 % 2;
        at[k] = !at[k];
        CHECK_OK(rp_compiled_bind(m.c, names[k], &from[k][at[k]], &err), &err);
    }
    assert_true(bench_info(&b).replays > 0);
    affine_close(&m);
    bench_close(&b);
}

/* One for all who ask, until the last has given it back; another device has another. */
static void a_device_has_a_manager(void **state) {
    static const char *const names[] = {"cpu", "null"};
    rp_error err = {0};
    rp_autograph *of[2][2];
    rp_device *d[2];
    size_t live = base_live();
    (void)state;
    for (int i = 0; i < 2; i++) {
        CHECK_OK(rp_device_open(names[i], 1, &d[i], &err), &err);
        for (int k = 0; k < 2; k++) CHECK_OK(rp_autograph_default(d[i], &of[i][k], &err), &err);
        assert_ptr_equal(of[i][0], of[i][1]);
        assert_ptr_equal(rp_stream_device(rp_autograph_stream(of[i][0])), d[i]);
    }
    assert_ptr_not_equal(of[0][0], of[1][0]);
    affine m;
    affine_open(&m, d[0], 0, 2, 1);
    bench b = {.device = d[0], .graphs = of[0][0]};
    rp_function *f = function_of(&b, "f", affine_call, &m);
    rp_autograph_destroy(of[0][0]);
    for (int i = 0; i < 2; i++) assert_true(first_of(run_one(f, 4)) == 9); /* the other has it */
    assert_int_equal(bench_info(&b).replays, 1);
    affine_close(&m);
    rp_autograph_destroy(of[0][1]);
    for (int k = 0; k < 2; k++) rp_autograph_destroy(of[1][k]);
    for (int i = 0; i < 2; i++) rp_device_close(d[i]);
    assert_int_equal(base_live(), live);
    assert_int_equal(rp_autograph_default(NULL, of[0], &err), RP_INVALID);
    assert_null(rp_autograph_stream(NULL));
}

/* Who comes when the last has gone gets one of his own. */
static void a_device_makes_its_manager_anew(void **state) {
    rp_error err = {0};
    rp_device *d = NULL;
    rp_autograph *a = NULL;
    (void)state;
    CHECK_OK(rp_device_open("cpu", 1, &d, &err), &err);
    for (int turn = 0; turn < 3; turn++) {
        size_t live = base_live();
        CHECK_OK(rp_autograph_default(d, &a, &err), &err);
        assert_true(base_live() > live);
        rp_autograph_destroy(a);
        assert_int_equal(base_live(), live);
    }
    rp_device_close(d);
}

/* It belongs to nobody who could set a limit, so it has one. */
static void the_manager_of_a_device_keeps_so_many(void **state) {
    enum { GRAPHS = 1024, MORE = 3 };
    static float x[GRAPHS + MORE];
    rp_error err = {0};
    affine m;
    bench b = {0};
    (void)state;
    CHECK_OK(rp_device_open("cpu", 1, &b.device, &err), &err);
    CHECK_OK(rp_autograph_default(b.device, &b.graphs, &err), &err);
    affine_open(&m, b.device, 0, 1, 0);
    rp_function *f = function_of(&b, "f", affine_call, &m);
    for (int i = 0; i < 2 * (GRAPHS + MORE);
         i++) { /* twice: forms that never come again are not captured */
        rp_value in =
            floats(x, GRAPHS + MORE - i / 2); /* none needs more memory than the one before */
        rp_output_free(run_items(f, &in, 1));
    }
    assert_int_equal(bench_info(&b).graph_count, GRAPHS);
    assert_int_equal(bench_info(&b).evicted, MORE);
    affine_close(&m);
    rp_autograph_destroy(b.graphs);
    rp_device_close(b.device);
}

/* The same sizes twice cost three captures, and nothing becomes invalid. */
static void reserved_growth_counts(void **state) {
    static const int batch[] = {4, 4, 2, 6, 4, 2, 6, 4};
    float x[60] = {1};
    bench b;
    affine m;
    (void)state;
    bench_open(&b, "cpu", RP_GROWTH_RESERVE);
    affine_open(&m, b.device, 10, 2, 0);
    rp_function *f = function_of(&b, "net", affine_call, &m);
    for (int i = 0; i < 8; i++) {
        rp_value in = rows_of(x, batch[i], 10);
        assert_true(first_of(run_items(f, &in, 1)) == 2);
    }
    assert_int_equal(bench_info(&b).captures, 3);
    assert_int_equal(bench_info(&b).invalidated, 0);
    assert_int_equal(bench_info(&b).graph_count, 3);
    affine_close(&m);
    bench_close(&b);
}

/* Beyond the reservation memory moves, and graphs are made again. */
static void growth_beyond_the_reservation(void **state) {
    enum { LARGE = 4096, COLUMNS = 512 };
    bench b;
    affine m;
    float *x = calloc((size_t)LARGE * COLUMNS, sizeof *x);
    (void)state;
    bench_open(&b, "cpu", RP_GROWTH_RESERVE);
    affine_open(&m, b.device, COLUMNS, 1, 1);
    rp_function *f = function_of(&b, "net", affine_call, &m);
    for (int i = 0; i < 2; i++)
        for (int rows = 1; rows <= LARGE; rows += LARGE - 1) {
            rp_value in = rows_of(x, rows, COLUMNS);
            rp_output *o = run_items(f, &in, 1);
            assert_true(values_of(o)[(size_t)rows * COLUMNS - 1] == 1);
            rp_output_free(o);
        }
    assert_int_equal(bench_info(&b).invalidated, 1);
    assert_int_equal(bench_info(&b).graph_count, 2);
    free(x);
    affine_close(&m);
    bench_close(&b);
}

/* --- sequence lengths ---------------------------------------------------------------------------- */

static rp_status gives_back(void *user, rp_call *call, const rp_value *args, rp_value *result,
                            rp_error *err) {
    (void)user, (void)call, (void)err;
    *result = args->item[0];
    return RP_OK;
}

/* Of no dimension torch has one that is not static. */
static void a_number_is_static(void **state) {
    float x = 1;
    bench b;
    (void)state;
    bench_open(&b, "cpu", RP_GROWTH_RESERVE);
    rp_function *f = function_of(&b, "s", gives_back, NULL);
    rp_value in = rp_value_tensor((rp_buffer){RP_DTYPE_F32, 0, {0}, &x});
    rp_output_free(run_items(f, &in, 1));
    char *text = bench_text(&b);
    assert_non_null(strstr(text, "name='', shapes=(-1,), dtype='torch.float32'),))"));
    assert_non_null(strstr(text, "TensorDynamicInfo(_cached_hash=None, name='', shapes=()),)"));
    rp_free(text);
    bench_close(&b);
}

/* Of several dimensions the last alone is static, of one none. */
static void what_is_static(void **state) {
    float x[24] = {1};
    bench b;
    affine one, six, four;
    (void)state;
    bench_open(&b, "cpu", RP_GROWTH_RESERVE);
    affine_open(&one, b.device, 0, 1, 0);
    affine_open(&six, b.device, 6, 1, 0);
    affine_open(&four, b.device, 4, 1, 0);
    rp_function *f = function_of(&b, "one", affine_call, &one);
    rp_function *g = function_of(&b, "two", affine_call, &six);
    rp_function *h = function_of(&b, "two", affine_call, &four);
    rp_value in[] = {floats(x, 3), floats(x, 5), rows_of(x, 2, 6), rows_of(x, 4, 6),
                     rows_of(x, 2, 4)};
    static const int entries[] = {1, 1, 2, 2, 3};
    for (int i = 0; i < 5; i++) {
        rp_output_free(run_items(i < 2 ? f : i < 4 ? g : h, &in[i], 1));
        assert_int_equal(bench_info(&b).tensor_entry_count, entries[i]);
    }
    char *text = bench_text(&b);
    assert_non_null(strstr(text, "shapes=(-1,), dtype='torch.float32'),))"));
    assert_non_null(strstr(text, "TensorDynamicInfo(_cached_hash=None, name='', shapes=(5,)),)"));
    assert_non_null(strstr(text, "shapes=(-1, 6), dtype='torch.float32'),))"));
    assert_non_null(
        strstr(text, "TensorDynamicInfo(_cached_hash=None, name='', shapes=(4, -1)),)"));
    rp_free(text);
    affine_close(&one);
    affine_close(&six);
    affine_close(&four);
    bench_close(&b);
}

/* --- states, views, nesting ---------------------------------------------------------------------- */

/* total += x; gives total. args: (x, total). */
static rp_status accumulate(void *user, rp_call *call, const rp_value *args, rp_value *result,
                            rp_error *err) {
    rp_compiled *c = user;
    rp_buffer in[] = {args->item[0].tensor, args->item[1].tensor}, y;
    rp_status st = rp_call_compiled(call, c, in, 2, &y, 1, err);
    if (st == RP_OK)
        st = rp_stream_copy(rp_call_stream(call), args->item[1].tensor.data, y.data, 4, err);
    if (st == RP_OK) *result = rp_value_tensor(y);
    return st;
}

static rp_compiled *compile_sum(rp_device *d) {
    rp_error err = {0};
    rp_compiled *c = NULL;
    rp_graph *g = rp_graph_new("sum");
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(1));
    rp_tensor y = rp_add(x, rp_input(g, "y", RP_DTYPE_F32, RP_SHAPE(1)));
    CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
    CHECK_OK(rp_compile_on(d, g, NULL, &c, &err), &err);
    rp_graph_free(g);
    return c;
}

/* Effects on the device happen once a call, the capturing one included; a state elsewhere is another graph. */
static void effects_happen_once(void **state) {
    bench b;
    float x = 1, total[2] = {0, 100};
    (void)state;
    bench_open(&b, "cpu", RP_GROWTH_RESERVE);
    rp_compiled *c = compile_sum(b.device);
    rp_function *f = function_of(&b, "accumulate", accumulate, c);
    for (int i = 1; i <= 10; i++)
        for (int k = 0; k < 2; k++) {
            rp_buffer t = {RP_DTYPE_F32, 1, {1}, &total[k]};
            rp_value item[] = {floats(&x, 1), rp_value_state(t)};
            assert_true(first_of(run_items(f, item, 2)) == (float)(100 * k + i));
            assert_true(total[k] == (float)(100 * k + i));
        }
    assert_int_equal(bench_info(&b).captures, 2);
    assert_int_equal(bench_info(&b).replays, 18);
    char *text = bench_text(&b);
    assert_non_null(strstr(text, " structure=(Tensor, State)"));
    rp_free(text);
    rp_compiled_free(c);
    bench_close(&b);
}

/* total = x + total, then total + x, whose x is what it was when the call began. */
static rp_status write_then_read(void *user, rp_call *call, const rp_value *args, rp_value *result,
                                 rp_error *err) {
    rp_buffer in[] = {args->item[1].tensor, args->item[0].tensor}, y;
    RP_TRY(accumulate(user, call, args, result, err));
    RP_TRY(rp_call_compiled(call, user, in, 2, &y, 1, err));
    *result = rp_value_tensor(y);
    return RP_OK;
}

/* The first run and replays see the same where an argument lies in a state. */
static void an_argument_may_lie_in_a_state(void **state) {
    bench b;
    (void)state;
    bench_open(&b, "cpu", RP_GROWTH_RESERVE);
    rp_compiled *c = compile_sum(b.device);
    rp_function *f = function_of(&b, "write_then_read", write_then_read, c);
    float total;
    for (int i = 0; i < 3; i++) {
        total = 5;
        rp_buffer t = {RP_DTYPE_F32, 1, {1}, &total};
        rp_value item[] = {floats(&total, 1), rp_value_state(t)};
        rp_output *o = run_items(f, item, 2);
        assert_int_equal(rp_output_ran(o), i ? RP_RAN_REPLAY : RP_RAN_CAPTURE);
        assert_true(first_of(o) == 15);
        assert_true(total == 10);
    }
    rp_compiled_free(c);
    bench_close(&b);
}

/* A view is packed; the graph is that of the dense tensor of its sizes, and of its prefixes each its own. */
static void views_are_packed(void **state) {
    float x[24];
    bench b;
    affine m;
    (void)state;
    for (int i = 0; i < 24; i++) x[i] = (float)i;
    bench_open(&b, "cpu", RP_GROWTH_RESERVE);
    affine_open(&m, b.device, 3, 1, 0);
    rp_function *f = function_of(&b, "f", affine_call, &m);
    static const int64_t stride[][2] = {{6, 2}, {1, 4}, {3, 1}, {0, 1}};
    for (int i = 0; i < 8; i++) {
        const int64_t *s = stride[i % 4];
        rp_buffer t = {RP_DTYPE_F32, 2, {4, 3}, x + 1};
        rp_value in = rp_value_strided(t, s);
        rp_output *o = run_items(f, &in, 1);
        for (int r = 0; r < 4; r++)
            for (int k = 0; k < 3; k++)
                assert_true(values_of(o)[r * 3 + k] == (float)(1 + r * s[0] + k * s[1]));
        rp_output_free(o);
    }
    assert_int_equal(bench_info(&b).captures, 1);
    affine_close(&m);
    bench_close(&b);
}

typedef struct placed {
    affine m;
    const void *at; /* what the last run was given: of a call that captures, the slot */
} placed;

static rp_status placed_call(void *user, rp_call *call, const rp_value *args, rp_value *result,
                             rp_error *err) {
    placed *p = user;
    assert_false(args->item[0].strided);
    p->at = args->item[0].tensor.data;
    return affine_call(&p->m, call, args, result, err);
}

/* Of one memory the front is bound, dense, for each size; a view with gaps is never bound. */
static void smaller_calls_have_the_front(void **state) {
    enum { COLUMNS = 4, MOST = 9 };
    static const int rows[] = {6, 2, 4, MOST, 1};
    static const int64_t gaps[] = {2 * COLUMNS, 1};
    float x[2 * MOST * COLUMNS];
    const void *front = NULL;
    bench b;
    placed p;
    (void)state;
    for (int i = 0; i < 2 * MOST * COLUMNS; i++) x[i] = (float)i;
    bench_open(&b, "cpu", RP_GROWTH_RESERVE);
    affine_open(&p.m, b.device, COLUMNS, 2, 1);
    rp_function *f = function_of(&b, "f", placed_call, &p);
    for (int i = 0; i < 10; i++) {
        const int n = rows[i / 2];
        rp_value in = rows_of(x, n, COLUMNS), view = rp_value_strided(in.tensor, gaps);
        p.at = NULL;
        rp_output *o = run_items(f, i % 2 ? &view : &in, 1);
        assert_int_equal(rp_output_ran(o), i % 2 ? RP_RAN_REPLAY : RP_RAN_CAPTURE);
        if (!front) front = p.at;
        assert_ptr_equal(p.at, i % 2 ? NULL : front);
        assert_ptr_not_equal(p.at, x);
        for (int k = 0; k < n * COLUMNS; k++)
            assert_true(values_of(o)[k] == 2 * x[i % 2 ? k + k / COLUMNS * COLUMNS : k] + 1);
        rp_output_free(o);
    }
    affine_close(&p.m);
    bench_close(&b);
}

typedef struct chain {
    rp_function *inner;
    affine m;
} chain;

/* inner(inner(x)) by the compiled graph: one graph of three launches. */
static rp_status nested(void *user, rp_call *call, const rp_value *args, rp_value *result,
                        rp_error *err) {
    chain *c = user;
    rp_value y, z;
    rp_status st = rp_call_function(call, c->inner, args, &y, err);
    rp_value again = rp_value_tuple(&y, 1);
    if (st == RP_OK) st = rp_call_function(call, c->inner, &again, &z, err);
    rp_value last = rp_value_tuple(&z, 1);
    return st == RP_OK ? affine_call(&c->m, call, &last, result, err) : st;
}

static rp_status runs_inside(void *user, rp_call *call, const rp_value *args, rp_value *result,
                             rp_error *err) {
    rp_output *o = NULL;
    (void)call, (void)result;
    return rp_autograph_run(((chain *)user)->inner, args, &o, err);
}

static void functions_nest(void **state) {
    bench b;
    affine m;
    chain c;
    float x = 1;
    rp_error err = {0};
    rp_output *o = NULL;
    (void)state;
    bench_open(&b, "cpu", RP_GROWTH_RESERVE);
    affine_open(&m, b.device, 0, 2, 1);
    affine_open(&c.m, b.device, 0, 10, 0);
    c.inner = function_of(&b, "inner", affine_call, &m);
    rp_function *f = function_of(&b, "outer", nested, &c);
    rp_value in = floats(&x, 1), args = rp_value_tuple(&in, 1);
    rp_output_free(run_ok(c.inner, &args)); /* a graph of its own does not matter */
    for (int i = 0; i < 3; i++) assert_true(first_of(run_ok(f, &args)) == 70);
    assert_int_equal(bench_info(&b).graph_count, 2);
    rp_function *g = function_of(&b, "g", runs_inside, &c);
    assert_int_equal(rp_autograph_run(g, &args, &o, &err), RP_INVALID);
    assert_string_equal(err.text,
                        "g: rp_autograph_run of inner inside of a call of the same manager; "
                        "there it is rp_call_function");
    affine_close(&m);
    affine_close(&c.m);
    bench_close(&b);
}

/* --- switches and budgets ------------------------------------------------------------------------- */

static bool ask(void *user) {
    return ((counted *)user)->runs >= 0 && ((counted *)user)->m.shift == 0;
}

static void enable_if_is_asked_each_time(void **state) {
    bench b;
    counted c = {.runs = 0};
    (void)state;
    bench_open(&b, "cpu", RP_GROWTH_RESERVE);
    affine_open(&c.m, b.device, 0, 2, 0);
    rp_function_options o = RP_FUNCTION_OPTIONS_INIT;
    o.name = "f";
    o.fn = counted_call;
    o.user = &c;
    o.enable_if = ask;
    rp_function *f = function_with(&b, o);
    for (int i = 0; i < 6; i++) {
        c.m.shift = (float)(i % 2);
        rp_output *y = run_one(f, 3);
        assert_int_equal(rp_output_ran(y), i % 2 ? RP_RAN_EAGER
                                           : i   ? RP_RAN_REPLAY
                                                 : RP_RAN_CAPTURE);
        assert_string_equal(rp_output_reason(y), i % 2 ? "enable_if says no" : "");
        assert_true(first_of(y) == 6 + (float)(i % 2));
    }
    affine_close(&c.m);
    bench_close(&b);
}

/* n times x. */
static void ran(rp_function *f, rp_value x, uint32_t n, rp_ran how) {
    const rp_value items[] = {x, x, x, x, x};
    rp_output *y = run_items(f, items, n);
    assert_int_equal(rp_output_ran(y), how);
    rp_output_free(y);
}

static void a_function_takes_its_own_graphs_along(void **state) {
    static float x[4];
    bench b;
    affine m;
    (void)state;
    bench_open(&b, "cpu", RP_GROWTH_RESERVE);
    affine_open(&m, b.device, 0, 2, 1);
    rp_function *f[2];
    for (int i = 0; i < 2; i++) {
        f[i] = function_of(&b, i ? "second" : "first", affine_call, &m);
        ran(f[i], floats(x, 4), 1, RP_RAN_CAPTURE);
    }
    assert_int_equal(bench_info(&b).graph_count, 2);
    rp_function_free(f[0]);
    assert_int_equal(bench_info(&b).graph_count, 1);
    ran(f[1], floats(x, 4), 1, RP_RAN_REPLAY);
    affine_close(&m);
    bench_close(&b);
}

/* The budget holds after each call, and a graph that is larger than all of it is not made again. */
static void max_bytes_is_kept(void **state) {
    static float x[4096];
    bench b;
    affine m;
    rp_autograph_options o = RP_AUTOGRAPH_OPTIONS_INIT;
    (void)state;
    o.max_bytes = 24 << 10; /* the graph's own memory, of the largest size, is 16 KB */
    bench_open_with(&b, "cpu", &o);
    affine_open(&m, b.device, 0, 1, 0);
    rp_function *f = function_of(&b, "f", affine_call, &m);
    for (int round = 0; round < 3; round++)
        for (int n = 1; n <= 200; n += 7) {
            rp_value in = floats(x, n);
            rp_output_free(run_items(f, &in, 1));
            rp_autograph_info info = bench_info(&b);
            assert_true(info.tensor_mem_bytes + info.graph_mem_pool_bytes <= o.max_bytes);
        }
    assert_true(bench_info(&b).evicted > 0 && bench_info(&b).graph_count > 1);
    affine_close(&m);
    bench_close(&b);
    bench_open_with(&b, "cpu", &o);
    affine_open(&m, b.device, 0, 1, 0);
    f = function_of(&b, "f", affine_call, &m);
    rp_value in = floats(x, 4096), large[] = {in, in, in, in, in};
    for (int i = 0; i < 2; i++) {
        rp_output *y = run_items(f, large, 5);
        assert_int_equal(rp_output_ran(y), RP_RAN_EAGER);
        assert_non_null(strstr(rp_output_reason(y), "max_bytes is 24576"));
        rp_output_free(y);
    }
    /* Other forms are not concerned, nor are smaller ones, which take what they need themselves. */
    for (uint32_t n = 1; n <= 5; n += 4) {
        ran(f, floats(x, 3), n, RP_RAN_CAPTURE);
        ran(f, floats(x, 3), n, RP_RAN_REPLAY);
    }
    affine_close(&m);
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_runs_then_replays),
        cmocka_unit_test(a_function_takes_its_own_graphs_along),
        cmocka_unit_test(empty_tensors),
        cmocka_unit_test(a_device_has_a_manager),
        cmocka_unit_test(a_device_makes_its_manager_anew),
        cmocka_unit_test(the_manager_of_a_device_keeps_so_many),
        cmocka_unit_test(exact_growth_counts),
        cmocka_unit_test(exact_growth_counts_of_pieces),
        cmocka_unit_test(params_have_no_slots),
        cmocka_unit_test(what_is_bound_anew_is_used),
        cmocka_unit_test(reserved_growth_counts),
        cmocka_unit_test(growth_beyond_the_reservation),
        cmocka_unit_test(what_is_static),
        cmocka_unit_test(a_number_is_static),
        cmocka_unit_test(effects_happen_once),
        cmocka_unit_test(an_argument_may_lie_in_a_state),
        cmocka_unit_test(views_are_packed),
        cmocka_unit_test(smaller_calls_have_the_front),
        cmocka_unit_test(functions_nest),
        cmocka_unit_test(enable_if_is_asked_each_time),
        cmocka_unit_test(max_bytes_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
