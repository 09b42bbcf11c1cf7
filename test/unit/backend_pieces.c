/* A backend that takes some nodes: it compiles pieces of a graph, inductor the rest, each with its reason, and together they give what
 * inductor gives. The backend of these tests is the library's own eager compiler, which says that it lacks ops. */
#include <stdatomic.h>
#include <unistd.h>

#include "support/at_once.h"
#include "support/heard.h"
#include "support/jits.h"
#include "support/random_effects.h"
#include "support/random_graph.h"
#include "support/thorough.h"

#include "api/trial.h"
#include "trace/trace.h"

static struct {
    const char *lacks; /* " op op " */
    const char *wants; /* the value of a const that it lacks; NULL: none */
    atomic_int compiles, loads, runs, frees, at_once;
    int refuses;              /* this compile, from 1 on; -1: each */
    rp_status asked, made;    /* what supports and compile give else; RP_OK */
    uint32_t inputs;          /* of all pieces */
    bool params;              /* it was given some */
    const char *first, *last; /* where results of the last call lay that had several */
    char seen[256];           /* ops of the pieces, but for inputs */
    char hash[48];
} b;

static float x[64], y[64];

static int fresh(void **state) {
    (void)state;
    rp_log_set_callback(NULL, NULL);
    memset(&b, 0, sizeof b);
    b.lacks = " cumsum topk sort ";
    (void)snprintf(b.hash, sizeof b.hash, "%d", (int)getpid());
    for (int i = 0; i < 64; i++) {
        x[i] = (float)(i * 7 % 17) / 8 - 1;
        y[i] = (float)(i % 5) - 2;
    }
    return 0;
}

/* --- the backend ----------------------------------------------------------------------------- */

static rp_status supports(void *user, const rp_graph *g, uint32_t i, rp_error *err) {
    rp_node n = RP_NODE_INIT;
    char word[40];
    (void)user;
    CHECK_OK(rp_graph_node(g, i, &n, err), err);
    assert_true(strcmp(n.op, "input") != 0 && strcmp(n.op, "param") != 0);
    (void)snprintf(word, sizeof word, " %s ", n.op);
    if (b.asked != RP_OK) return rp_fail(err, b.asked, "out of ideas");
    if (strstr(b.lacks, word)) return rp_fail(err, RP_UNSUPPORTED, "no %s here", n.op);
    return RP_OK;
}

static rp_status run(void *self, const rp_buffer *in, uint32_t n_in, rp_buffer *out, uint32_t n_out,
                     rp_error *err) {
    b.runs++;
    if (n_out > 1) b.first = out[0].data;
    if (n_out > 1) b.last = out[n_out - 1].data;
    assert_int_equal(atomic_fetch_add(&b.at_once, 1), 0);
    for (uint32_t i = 0; i < n_in; i++)
        for (uint32_t o = 0; o < n_out; o++) assert_true(!in[i].data || in[i].data != out[o].data);
    rp_status st = rp_compiled_run(self, in, n_in, out, n_out, err);
    (void)atomic_fetch_sub(&b.at_once, 1);
    return st;
}

static void release(void *self) {
    b.frees++;
    rp_compiled_free(self);
}

static rp_status make(const rp_graph *g, rp_callable *out, rp_error *err) {
    rp_compiled *c = NULL;
    rp_compilation_config *cfg = rp_config_new();
    rp_status st = cfg ? rp_config_set(cfg, "level=1", err) : RP_NOMEM;
    if (st == RP_OK) st = rp_compile(g, cfg, &c, err);
    rp_config_free(cfg);
    if (st == RP_OK) *out = (rp_callable){run, release, c};
    return st;
}

static rp_status compile(void *user, const rp_graph *g, const rp_backend_options *options,
                         rp_callable *out, rp_error *err) {
    (void)user, (void)options;
    b.compiles++;
    b.params = b.params || rp_graph_count(g, RP_GRAPH_PARAMS) || rp_graph_count(g, RP_GRAPH_STATES);
    b.inputs += rp_graph_count(g, RP_GRAPH_INPUTS);
    for (uint32_t i = 0; i < rp_graph_count(g, RP_GRAPH_NODES); i++) {
        rp_node n = RP_NODE_INIT;
        size_t at = strlen(b.seen);
        CHECK_OK(rp_graph_node(g, i, &n, err), err);
        if (strcmp(n.op, "input") != 0)
            (void)snprintf(b.seen + at, sizeof b.seen - at, "%s ", n.op);
    }
    (void)strncat(b.seen, "| ", sizeof b.seen - strlen(b.seen) - 1);
    if (b.refuses < 0 || b.compiles == b.refuses)
        return rp_fail(err, RP_UNSUPPORTED, "not this one");
    return b.made == RP_OK ? make(g, out, err) : rp_fail(err, b.made, "out of ideas");
}

static const char *hash(void *user) {
    (void)user;
    return b.hash;
}

static rp_status save(void *user, const rp_callable *c, rp_backend_write write, void *to,
                      rp_error *err) {
    (void)user, (void)c, (void)err;
    write(to, "piece", 5);
    return RP_OK;
}

static rp_status load(void *user, const rp_graph *g, const rp_backend_options *options,
                      const void *handle, size_t size, rp_callable *out, rp_error *err) {
    (void)user, (void)options;
    assert_int_equal(size, 5);
    assert_memory_equal(handle, "piece", 5);
    b.loads++;
    return make(g, out, err);
}

static int registered(void **state) {
    rp_error err = {0};
    rp_backend_desc d = {
        .size = sizeof d, .name = "partial", .compile = compile, .supports = supports};
    (void)state;
    CHECK_OK(rp_backend_register(&d, &err), &err);
    d.name = "keeping";
    d.hash = hash;
    d.save = save;
    d.load = load;
    CHECK_OK(rp_backend_register(&d, &err), &err);
    return 0;
}

/* --- graphs ------------------------------------------------------------------------------------ */

typedef struct given {
    rp_graph *g;
    rp_compilation_config *cfg;
    rp_compiled *c;
    rp_compiled_info info;
} given;

static rp_status compile_text(const char *text, const char *backend, given *out, rp_error *err) {
    char named[48];
    *out = (given){.info = RP_COMPILED_INFO_INIT};
    (void)snprintf(named, sizeof named, "backend=%s", backend);
    out->cfg = rp_config_new();
    rp_status st = out->cfg ? rp_graph_parse(text, strlen(text), &out->g, err) : RP_NOMEM;
    if (st == RP_OK) st = rp_config_set(out->cfg, "level=2", err);
    if (st == RP_OK) st = rp_config_set(out->cfg, "threads=1", err);
    if (st == RP_OK) st = rp_config_set(out->cfg, named, err);
    if (st == RP_OK) st = rp_compile(out->g, out->cfg, &out->c, err);
    if (st == RP_OK) st = rp_compiled_get_info(out->c, &out->info, err);
    return st;
}

static void done(given *v) {
    rp_compiled_free(v->c);
    rp_graph_free(v->g);
    rp_config_free(v->cfg);
}

static given compiled(const char *text, const char *backend) {
    rp_error err = {0};
    given v;
    CHECK_OK(compile_text(text, backend, &v, &err), &err);
    return v;
}

static rp_buffer f32(float *data, int64_t n) {
    return (rp_buffer){RP_DTYPE_F32, 1, {n}, data};
}

static const char two_and_one[] =
    "graph @forward(%x: f32[8], %y: f32[8]) {\n  %a = mul %x, %y\n  %b = exp %a\n"
    "  %c = cumsum %b {axis=0}\n  %d = neg %c\n  %e = add %d, %x\n  ret %e, %b\n}\n";

/* Who compiles what is told: in the log, in the configuration, in what is known of the graph. */
static void the_rest_is_inductors(void **state) {
    rp_error err = {0};
    base_buf heard;
    const rp_config_note *note;
    float got[2][8], want[2][8];
    (void)state;
    heard_start(&heard, "");
    given v = compiled(two_and_one, "partial"), plain = compiled(two_and_one, "inductor");
    static const char why[] = "backend=partial compiles 2 of 3 pieces of graph @forward, inductor "
                              "piece 1 (line 4: no cumsum here)";
    assert_string_equal(v.info.reason, why);
    CHECK_HEARD(&heard, why);
    heard_done(&heard);
    assert_int_equal(rp_config_notes(v.cfg, &note), 1);
    assert_string_equal(note[0].what, "backend=partial");
    assert_string_equal(note[0].reason, why);
    assert_string_equal(v.info.backend, "partial");
    assert_int_equal(v.info.pieces, 3);
    assert_int_equal(v.info.compiled, 3);
    assert_int_equal(v.info.distinct, 3);
    assert_int_equal(v.info.by_backend, 2);
    assert_int_equal(plain.info.by_backend, 0);
    assert_string_equal(b.seen, "mul exp | neg add | ");
    assert_int_equal(b.inputs, 4);
    const rp_buffer in[] = {f32(x, 8), f32(y, 8)};
    for (int turn = 0; turn < 3; turn++) {
        rp_buffer out[] = {f32(got[0], 8), f32(got[1], 8)};
        rp_buffer also[] = {f32(want[0], 8), f32(want[1], 8)};
        x[3] = (float)turn;
        CHECK_OK(rp_compiled_run(v.c, in, 2, out, 2, &err), &err);
        CHECK_OK(rp_compiled_run(plain.c, in, 2, also, 2, &err), &err);
        assert_memory_equal(got, want, sizeof got);
    }
    assert_int_equal(b.runs, 6);
    done(&v);
    done(&plain);
    assert_int_equal(b.frees, b.compiles);
}

/* All of it as before: the graph itself, with its own names, and no piece. */
static void what_it_takes_is_all_its(void **state) {
    rp_error err = {0};
    float got[8];
    (void)state;
    b.lacks = "";
    given v = compiled(two_and_one, "partial");
    assert_null(v.info.reason);
    assert_int_equal(v.info.pieces, 1);
    assert_int_equal(v.info.by_backend, 1);
    assert_string_equal(b.seen, "mul exp cumsum neg add | ");
    done(&v);
    v = compiled("graph @one(%x: f32[8]) {\n  %a = neg %x\n  ret %a\n}\n", "partial");
    assert_null(v.info.reason);
    const rp_buffer in = f32(x, 8);
    rp_buffer out = f32(got, 8);
    CHECK_OK(rp_compiled_run(v.c, &in, 1, &out, 1, &err), &err);
    for (int i = 0; i < 8; i++) assert_true(got[i] == -x[i]);
    done(&v);
}

/* A graph of nothing that is worth a piece is compiled as a whole, as one that is not taken at all. */
static void what_is_not_worth_it_is_no_piece(void **state) {
    static const char *const texts[] = {
        "graph @g(%x: f32[8]) {\n  %a = cumsum %x {axis=0}\n  ret %a\n}\n",
        "graph @g(%x: f32[8]) {\n  %a = cumsum %x {axis=0}\n  %b = neg %a\n"
        "  %c = cumsum %b {axis=0}\n  ret %c\n}\n"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        given v = compiled(texts[i], "partial");
        assert_string_equal(v.info.reason, "backend=partial does not take graph @g, which inductor "
                                           "compiles: line 2: no cumsum here");
        assert_string_equal(v.info.backend, "inductor");
        assert_int_equal(v.info.by_backend, 0);
        assert_int_equal(v.info.pieces, 1);
        done(&v);
    }
    assert_int_equal(b.compiles, 0);
}

/* Equal pieces are compiled once; a piece tells its first reason, and how many there are. */
static void equal_pieces_are_compiled_once(void **state) {
    enum { LAYERS = 70 };
    rp_error err = {0};
    base_buf text;
    float got[8], want[8];
    (void)state;
    base_buf_init(&text, 0);
    base_buf_puts(&text, "graph @deep(%x0: f32[8]) {\n");
    for (int i = 0; i < LAYERS; i++)
        base_buf_printf(
            &text,
            "  %%a%d = tanh %%x%d\n  %%b%d = neg %%a%d\n  %%c%d = cumsum %%b%d {axis=0}\n"
            "  %%x%d = cumsum %%c%d {axis=0}\n",
            i, i, i, i, i, i, i + 1, i);
    base_buf_puts(&text, "  ret %x70\n}\n");
    given v = compiled(text.data, "partial"), plain = compiled(text.data, "inductor");
    assert_int_equal(v.info.pieces, 128);
    assert_int_equal(v.info.by_backend, 64);
    assert_int_equal(v.info.distinct, 3); /* the last one has seven layers */
    assert_int_equal(b.compiles, 1);
    assert_non_null(strstr(v.info.reason,
                           "compiles 64 of 128 pieces of graph @deep, inductor "
                           "piece 1 (line 4: no cumsum here, line 5: no cumsum here), piece 3 ("));
    assert_non_null(strstr(v.info.reason, ", and 11 nodes more)"));
    const rp_buffer in = f32(x, 8);
    rp_buffer out = f32(got, 8), also = f32(want, 8);
    CHECK_OK(rp_compiled_run(v.c, &in, 1, &out, 1, &err), &err);
    CHECK_OK(rp_compiled_run(plain.c, &in, 1, &also, 1, &err), &err);
    assert_memory_equal(got, want, sizeof got);
    done(&v);
    done(&plain);
    base_buf_done(&text);
}

/* A constant that it lacks is lacked by who reads it: it is no piece by itself. */
static void constants_go_with_their_readers(void **state) {
    (void)state;
    b.lacks = " iota ";
    given v = compiled("graph @g(%x: f32[8]) {\n  %a = neg %x\n  %b = exp %a\n"
                       "  %i = iota {axis=0, dtype=f32, shape=[8]}\n  %v = reshape %i {shape=[8]}\n"
                       "  %c = add %b, %i\n  %d = neg %c\n  %e = exp %d\n  ret %e\n}\n",
                       "partial");
    assert_string_equal(v.info.reason, "backend=partial compiles 2 of 3 pieces of graph @g, "
                                       "inductor piece 1 (line 4: no iota here)");
    assert_int_equal(v.info.distinct, 2);
    assert_string_equal(b.seen, "neg exp | ");
    done(&v);
}

/* One that lacks a result lacks the op. */
static void results_go_with_their_op(void **state) {
    (void)state;
    b.lacks = " result ";
    given v =
        compiled("graph @g(%x: f32[8]) {\n  %a = neg %x\n  %b = exp %a\n  %t = topk %b {k=3}\n"
                 "  %i = result %t {index=1}\n  %c = neg %t\n  %d = exp %c\n  ret %d, %i\n}\n",
                 "partial");
    assert_string_equal(v.info.reason, "backend=partial compiles 2 of 3 pieces of graph @g, "
                                       "inductor piece 1 (line 5: no result here)");
    done(&v);
}

/* --- memory -------------------------------------------------------------------------------------- */

static const char with_leaves[] =
    "graph @leaves(%x: f32[8]) {\n  %p = param @w : f32[8]\n  %q = param @v : f32[8]\n"
    "  %s = state @s : f32[8]\n  %a = mul %x, %p\n  %b = exp %a\n  %n = fma %s, %p, %b\n"
    "  %u = update %s, %n\n  %c = mul %u, %q\n  %d = cumsum %c {axis=0}\n  %e = mul %d, %p\n"
    "  %f = neg %e\n  ret %f, %u\n}\n";

/* Params are inputs of its pieces, and stay params of the others; what is in a state stays with inductor. */
static void params_and_states_are_bound(void **state) {
    rp_error err = {0};
    float w[8], w2[8], v[8], s[2][8] = {{0}}, got[2][2][8];
    given g[] = {compiled(with_leaves, "partial"), compiled(with_leaves, "inductor")};
    (void)state;
    for (int i = 0; i < 8; i++) {
        w[i] = x[i] + 1;
        w2[i] = 2 - x[i];
        v[i] = y[i];
    }
    assert_string_equal(g[0].info.reason,
                        "backend=partial compiles 2 of 3 pieces of graph @leaves, inductor piece 1 "
                        "(line 7: fma of f32: it is in memory that calls write, line 8: update of "
                        "f32: it is in memory that calls write, line 9: mul of f32: it is in "
                        "memory that calls write, and 1 node more)");
    const rp_buffer in = f32(x, 8);
    for (int k = 0; k < 2; k++) {
        rp_buffer out[] = {f32(got[k][0], 8), f32(got[k][1], 8)};
        assert_int_equal(rp_compiled_run(g[k].c, &in, 1, out, 2, &err), RP_INVALID);
        assert_string_equal(err.text,
                            "param w of graph @leaves has no data; call rp_compiled_bind");
        assert_int_equal(rp_compiled_bind(g[k].c, "z", w, &err), RP_NOT_FOUND);
        CHECK_OK(rp_compiled_bind(g[k].c, "w", w, &err), &err);
        CHECK_OK(rp_compiled_bind(g[k].c, "v", v, &err), &err);
        assert_int_equal(rp_compiled_run(g[k].c, &in, 1, out, 2, &err), RP_INVALID);
        assert_string_equal(err.text,
                            "state s of graph @leaves has no data; call rp_compiled_bind");
        CHECK_OK(rp_compiled_bind(g[k].c, "s", s[k], &err), &err);
    }
    for (int turn = 0; turn < 4; turn++) {
        for (int k = 0; k < 2; k++) {
            rp_buffer out[] = {f32(got[k][0], 8), f32(got[k][1], 8)};
            if (turn == 2) CHECK_OK(rp_compiled_bind(g[k].c, "w", w2, &err), &err);
            CHECK_OK(rp_compiled_run(g[k].c, &in, 1, out, 2, &err), &err);
            assert_memory_equal(got[k][1], s[k], sizeof s[k]);
        }
        assert_memory_equal(got[0], got[1], sizeof got[0]);
        assert_memory_equal(s[0], s[1], sizeof s[0]);
    }
    assert_true(g[0].info.kernels > 0);
    assert_false(b.params);
    done(&g[0]);
    done(&g[1]);
}

/* An input that is written, read before and behind that, and returned, twice. */
static void inputs_are_written_where_they_lie(void **state) {
    static const char text[] =
        "graph @w(%x: f32[8], %m: f32[8] mutates) {\n  %a = neg %x\n  %b = exp %a\n"
        "  %o = mul %m, %b\n  %u = update %m, %x\n  %c = neg %b\n  %d = exp %c\n  %e = add %d, %u\n"
        "  ret %e, %u, %o, %x, %e\n}\n";
    rp_error err = {0};
    float m[2][8], got[2][5][8];
    (void)state;
    b.lacks = " update ";
    for (int k = 0; k < 2; k++) {
        given v = compiled(text, k ? "inductor" : "partial");
        memset(got[k], k, sizeof got[k]);
        if (!k) assert_int_equal(v.info.by_backend, 1);
        if (!k) assert_int_equal(v.info.pieces, 2);
        memcpy(m[k], y, sizeof m[k]);
        const rp_buffer in[] = {f32(x, 8), f32(m[k], 8)};
        rp_buffer out[5];
        for (int i = 0; i < 5; i++) out[i] = f32(got[k][i], 8);
        CHECK_OK(rp_compiled_run(v.c, in, 2, out, 5, &err), &err);
        assert_memory_equal(m[k], x, sizeof m[k]);
        done(&v);
    }
    assert_memory_equal(got[0], got[1], sizeof got[0]);
}

/* Sizes are those of each call; a piece whose own inputs do not tell one is given an input that does. */
static void sizes_are_those_of_the_call(void **state) {
    static const char text[] =
        "graph @s(%x: f32[T], %y: f32[T*2]) where T in [1,32] {\n  %a = neg %x\n  %b = exp %a\n"
        "  %c = cumsum %b {axis=0}\n  %t = sum %c {axis=0, keep=false}\n  %d = neg %t\n"
        "  %z = size {dtype=f32, size=T}\n  %e = mul %d, %z\n  %f = exp %y\n"
        "  %g = add %f, %e\n  ret %g, %b\n}\n";
    rp_error err = {0};
    given v = compiled(text, "partial"), plain = compiled(text, "inductor");
    (void)state;
    assert_int_equal(v.info.by_backend, 2);
    for (int64_t n = 3; n < 30; n = n * 2 - 1) {
        float got[2][2][64];
        const rp_buffer in[] = {f32(x, n), f32(y, 2 * n)};
        for (int k = 0; k < 2; k++) {
            rp_buffer out[] = {{.data = got[k][0]}, {.data = got[k][1]}};
            CHECK_OK(rp_compiled_outputs(k ? plain.c : v.c, in, 2, out, 2, &err), &err);
            assert_int_equal(out[0].dim[0], 2 * n);
            CHECK_OK(rp_compiled_run(k ? plain.c : v.c, in, 2, out, 2, &err), &err);
        }
        assert_memory_equal(got[0][0], got[1][0], (size_t)(2 * n) * sizeof(float));
        assert_memory_equal(got[0][1], got[1][1], (size_t)n * sizeof(float));
    }
    const rp_buffer wrong[] = {f32(x, 4), f32(y, 7)};
    float none[64];
    rp_buffer out[] = {f32(none, 8), f32(none + 8, 4)};
    const int runs = b.runs;
    assert_int_equal(rp_compiled_run(v.c, wrong, 2, out, 2, &err), RP_INVALID);
    assert_int_equal(b.runs, runs);
    done(&v);
    done(&plain);
}

/* Between two values that cross there is no room for one that lies in memory of the caller. */
static void outputs_take_no_room(void **state) {
    rp_error err = {0};
    float got[2][8];
    given v = compiled("graph @g(%x: f32[8]) {\n  %a = exp %x\n  %b = neg %a\n  %c = tanh %a\n"
                       "  %d = cumsum %a {axis=0}\n  %e = cumsum %c {axis=0}\n  %f = add %d, %e\n"
                       "  ret %b, %f\n}\n",
                       "partial");
    const rp_buffer in = f32(x, 8);
    rp_buffer out[] = {f32(got[0], 8), f32(got[1], 8)};
    (void)state;
    CHECK_OK(rp_compiled_run(v.c, &in, 1, out, 2, &err), &err);
    assert_int_equal(b.last - b.first, 64);
    done(&v);
}

/* --- what it refuses later, and what fails ---------------------------------------------------------- */

static void a_refused_piece_is_inductors(void **state) {
    rp_error err = {0};
    base_buf heard;
    float got[2][8];
    const rp_buffer in[] = {f32(x, 8), f32(y, 8)};
    rp_buffer out[] = {f32(got[0], 8), f32(got[1], 8)};
    (void)state;
    b.refuses = 2;
    given v = compiled(two_and_one, "partial");
    assert_string_equal(
        v.info.reason, "backend=partial compiles 1 of 3 pieces of graph @forward, inductor piece 1 "
                       "(line 4: no cumsum here), piece 2 (not this one)");
    assert_int_equal(v.info.by_backend, 1);
    CHECK_OK(rp_compiled_run(v.c, in, 2, out, 2, &err), &err);
    assert_int_equal(b.runs, 1);
    done(&v);
    b.refuses = -1;
    heard_start(&heard, "dynamo");
    v = compiled(two_and_one, "partial");
    const char *calling = strstr(heard.data, "Step 2: calling");
    assert_non_null(calling); /* the graph, and no piece before it */
    assert_null(strstr(calling + 1, "Step 2: calling"));
    heard_done(&heard);
    assert_string_equal(
        v.info.reason,
        "backend=partial does not take graph @forward, which inductor compiles: not this one");
    assert_string_equal(v.info.backend, "inductor");
    assert_int_equal(v.info.pieces, 1);
    assert_int_equal(v.info.by_backend, 0);
    CHECK_OK(rp_compiled_run(v.c, in, 2, out, 2, &err), &err);
    assert_int_equal(b.runs, 1);
    done(&v);
}

static void a_failure_is_that_of_the_compile(void **state) {
    rp_error err = {0};
    given v;
    (void)state;
    b.asked = RP_DEVICE;
    assert_int_equal(compile_text(two_and_one, "partial", &v, &err), RP_DEVICE);
    assert_string_equal(err.text, "backend partial: out of ideas");
    done(&v);
    b.asked = RP_OK;
    b.made = RP_INTERNAL;
    err = (rp_error){0};
    assert_int_equal(compile_text(two_and_one, "partial", &v, &err), RP_INTERNAL);
    assert_string_equal(err.text, "backend partial: out of ideas");
    done(&v);
}

/* --- the cache, threads, graphs --------------------------------------------------------------------- */

static void each_piece_has_a_handle(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        if (i == 2) (void)snprintf(b.hash, sizeof b.hash, "other %d", (int)getpid());
        given v = compiled(two_and_one, "keeping");
        assert_int_equal(v.info.by_backend, 2);
        assert_int_equal(b.compiles, i == 2 ? 4 : 2);
        assert_int_equal(b.loads, i ? 2 : 0);
        if (i == 1) assert_int_equal(v.info.compiles, 0); /* inductor's is there, too */
        if (i == 1) assert_true(v.info.cache_hits >= 2);
        done(&v);
    }
}

typedef struct caller {
    rp_compiled *c;
    float x[8], got[2][8], want[2][8];
} caller;

static void *call_often(void *item) {
    caller *k = item;
    rp_error err = {0};
    const rp_buffer in[] = {f32(k->x, 8), f32(y, 8)};
    rp_buffer out[] = {f32(k->got[0], 8), f32(k->got[1], 8)};
    for (int i = 0; i < 50; i++) {
        memset(k->got, 0, sizeof k->got);
        CHECK_OK(rp_compiled_run(k->c, in, 2, out, 2, &err), &err);
        assert_memory_equal(k->got, k->want, sizeof k->got);
    }
    return NULL;
}

/* They take turns: what crosses from piece to piece is that of one call. */
static void calls_of_several_threads_take_turns(void **state) {
    rp_error err = {0};
    caller k[4];
    given v = compiled(two_and_one, "partial"), plain = compiled(two_and_one, "inductor");
    (void)state;
    for (int i = 0; i < 4; i++) {
        k[i].c = v.c;
        for (int e = 0; e < 8; e++) k[i].x[e] = x[8 * i + e];
        const rp_buffer in[] = {f32(k[i].x, 8), f32(y, 8)};
        rp_buffer out[] = {f32(k[i].want[0], 8), f32(k[i].want[1], 8)};
        CHECK_OK(rp_compiled_run(plain.c, in, 2, out, 2, &err), &err);
    }
    at_once(call_often, k, sizeof *k, 4);
    assert_int_equal(b.runs, 400);
    done(&v);
    done(&plain);
}

static rp_status called(void *user, rp_call *call, const rp_value *args, rp_value *result,
                        rp_error *err) {
    rp_buffer in[] = {args->item[0].tensor, args->item[1].tensor}, out[2];
    rp_status st = rp_call_compiled(call, user, in, 2, out, 2, err);
    if (st == RP_OK) *result = rp_value_tensor(out[0]);
    return st;
}

/* As one that a backend computes alone. */
static void its_calls_are_not_captured(void **state) {
    rp_error err = {0};
    rp_device *d = NULL;
    rp_autograph *a = NULL;
    rp_function *f = NULL;
    rp_compiled *c = NULL;
    rp_graph *g = NULL;
    rp_function_options o = RP_FUNCTION_OPTIONS_INIT;
    rp_compilation_config *cfg = rp_config_new();
    rp_value v[] = {f32_of(x, 1, 8, 0), f32_of(y, 1, 8, 0)}, args = rp_value_tuple(v, 2);
    (void)state;
    CHECK_OK(rp_graph_parse(two_and_one, strlen(two_and_one), &g, &err), &err);
    CHECK_OK(rp_config_set(cfg, "level=2", &err), &err);
    CHECK_OK(rp_config_set(cfg, "backend=partial", &err), &err);
    CHECK_OK(rp_device_open("cpu", 1, &d, &err), &err);
    CHECK_OK(rp_autograph_default(d, &a, &err), &err);
    CHECK_OK(rp_compile_on(d, g, cfg, &c, &err), &err);
    o.name = "called";
    o.fn = called;
    o.user = c;
    CHECK_OK(rp_function_new(a, &o, &f, &err), &err);
    for (int turn = 0; turn < 2; turn++) {
        rp_output *out = NULL;
        x[0] = (float)turn;
        CHECK_OK(rp_autograph_run(f, &args, &out, &err), &err);
        assert_int_equal(rp_output_ran(out), RP_RAN_EAGER);
        assert_non_null(strstr(rp_output_reason(out), "is computed by backend partial"));
        rp_output_free(out);
    }
    rp_autograph_destroy(a);
    rp_compiled_free(c);
    rp_graph_free(g);
    rp_config_free(cfg);
    rp_device_close(d);
}

/* --- functions ---------------------------------------------------------------------------------------- */

static int ranked_line;

static rp_status ranked(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                        rp_error *err) {
    rp_tensor p = rp_jit_tensor(call, &args->item[0]), q = rp_jit_tensor(call, &args->item[1]);
    rp_tensor values, indices;
    (void)user, (void)err;
    ranked_line = __LINE__ + 1;
    rp_topk(rp_exp(rp_mul(p, q)), 3, &values, &indices);
    *result = rp_jit_value(call, rp_neg(rp_tanh(rp_mul_scalar(values, 2))));
    return RP_OK;
}

/* Of numbers, then of any size; the line is that of the call. */
static void a_function_is_told_the_line(void **state) {
    static const int64_t n[] = {8, 16, 5, 8, 30};
    char want[300];
    rp_jit *f = jit_by(jit_options(ranked), "backend=partial threads=1"),
           *plain = jit_by(jit_options(ranked), "backend=inductor threads=1");
    (void)state;
    for (int i = 0; i < 5; i++) {
        rp_value v[] = {f32_of(x, 1, n[i], 0), f32_of(y, 1, n[i], 0)}, args = rp_value_tuple(v, 2);
        rp_output *o = jit_ok(f, &args), *p = jit_ok(plain, &args);
        const rp_buffer *is = &jit_result(o)->tensor, *was = &jit_result(p)->tensor;
        assert_int_equal(is->dim[0], 3);
        assert_memory_equal(is->data, was->data, 3 * sizeof(float));
        assert_int_equal(rp_output_ran(o), i < 2 ? RP_RAN_CAPTURE : RP_RAN_REPLAY);
        (void)snprintf(want, sizeof want,
                       "backend=partial compiles 2 of 3 pieces of graph @forward, inductor piece 1 "
                       "(%s:%d: no topk here)",
                       __FILE__, ranked_line);
        assert_string_equal(rp_output_reason(o), want);
        rp_output_free(o);
        rp_output_free(p);
    }
    assert_int_equal(b.compiles, 4);
    assert_int_equal(b.runs, 10);
    assert_int_equal(jit_info(f).entries, 2);
    rp_jit_free(f);
    rp_jit_free(plain);
    assert_int_equal(b.frees, 4);
}

static void a_failure_is_suppressed(void **state) {
    rp_jit_options o = jit_options(ranked);
    rp_value v[] = {f32_of(x, 1, 8, 0), f32_of(y, 1, 8, 0)}, args = rp_value_tuple(v, 2);
    (void)state;
    o.suppress_errors = true;
    b.made = RP_INTERNAL;
    rp_jit *f = jit_by(o, "backend=partial threads=1");
    for (int i = 0; i < 3; i++) {
        rp_output *out = jit_ok(f, &args);
        assert_int_equal(rp_output_ran(out), RP_RAN_EAGER);
        assert_string_equal(rp_output_reason(out), "backend partial: out of ideas");
        rp_output_free(out);
    }
    assert_int_equal(b.compiles, 1);
    rp_jit_free(f);
}

/* --- random graphs -------------------------------------------------------------------------------------- */

static void compare(const ir_graph *g, uint64_t seed, uint32_t *pieces) {
    static const char *const by[] = {"backend=inductor", "backend=partial"};
    api_values v[2] = {{0}};
    api_trial t = {0};
    rp_error err = {0};
    CHECK_OK(api_trial_init(&t, g, NULL, seed, &err), &err);
    for (int k = 0; k < 2; k++) {
        const rp_config_note *note;
        rp_compilation_config *cfg = rp_config_new();
        CHECK_OK(rp_config_set(cfg, seed % 2 ? "level=3" : "level=2", &err), &err);
        if (seed % 2) CHECK_OK(rp_config_set(cfg, "splitting_ops=[\"reprise::neg\"]", &err), &err);
        CHECK_OK(rp_config_set(cfg, "threads=1", &err), &err);
        CHECK_OK(rp_config_set(cfg, by[k], &err), &err);
        rp_status st = api_trial_compiled(&t, NULL, cfg, &v[k], &err);
        if (st != RP_OK) fail_msg("seed %d: %s", (int)seed, err.text);
        for (size_t i = 0, n = rp_config_notes(cfg, &note); k && i < n; i++) {
            const char *told = strstr(note[i].reason, " pieces of ");
            while (told && told[-1] != ' ') told--;
            if (told) *pieces += (uint32_t)atoi(told);
        }
        rp_config_free(cfg);
    }
    assert_int_equal(v[0].n, v[1].n);
    for (uint32_t i = 0; i < v[0].n; i++)
        for (int64_t e = 0; e < v[0].v[i].n; e++) {
            const double a = v[0].v[i].data[e], c = v[1].v[i].data[e];
            if (memcmp(&a, &c, sizeof a) != 0 && (a == a || c == c))
                fail_msg("seed %d: value %u element %d is %a, not %a", (int)seed, i, (int)e, c, a);
        }
    api_values_done(&v[0]);
    api_values_done(&v[1]);
    api_trial_done(&t);
}

/* Inductor's bits, which are those of its own eager compiler, whatever is cut where: states and inputs that are written, too. */
static void random_graphs_are_the_same(void **state) {
    static const char *const lacks[] = {
        " mul ",     " add sum ",    " matmul exp ", " reshape concat ",
        " permute ", " where cast ", " gather sub "};
    const uint64_t n = !THOROUGH() ? 24 : SANITIZED ? 60 : 120;
    uint32_t pieces = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= n; seed++) {
        rp_error err = {0};
        ir_graph *pure = NULL, *effects = NULL;
        random_graph_options opt = RANDOM_GRAPH_ALL;
        b.lacks = lacks[seed % 7];
        opt.n_steps = 8;
        opt.quant =
            false; /* products of what is a param in one and an input in the other are rounded elsewhere */
        opt.control = seed % 6 == 0;
        CHECK_OK(random_graph_new(seed, &opt, &pure, &err), &err);
        if (seed % 3 == 0)
            CHECK_OK(random_effects_new(pure, seed, opt.control, &effects, &err), &err);
        compare(effects ? effects : pure, seed, &pieces);
        ir_graph_free(effects);
        ir_graph_free(pure);
    }
    if (pieces < 2 * n) fail_msg("%u pieces", pieces); /* they are cut */
}

/* --- memory that is not there --------------------------------------------------------------------------- */

static rp_status one_life(rp_error *err) {
    float got[2][8];
    given v;
    rp_status st = compile_text(two_and_one, "partial", &v, err);
    const rp_buffer in[] = {f32(x, 8), f32(y, 8)};
    rp_buffer out[] = {f32(got[0], 8), f32(got[1], 8)};
    if (st == RP_OK) st = rp_compiled_run(v.c, in, 2, out, 2, err);
    done(&v);
    return st;
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    jit_fail_each_allocation(one_life, 60);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_rest_is_inductors, fresh),
        cmocka_unit_test_setup(what_it_takes_is_all_its, fresh),
        cmocka_unit_test_setup(what_is_not_worth_it_is_no_piece, fresh),
        cmocka_unit_test_setup(equal_pieces_are_compiled_once, fresh),
        cmocka_unit_test_setup(constants_go_with_their_readers, fresh),
        cmocka_unit_test_setup(results_go_with_their_op, fresh),
        cmocka_unit_test_setup(params_and_states_are_bound, fresh),
        cmocka_unit_test_setup(inputs_are_written_where_they_lie, fresh),
        cmocka_unit_test_setup(sizes_are_those_of_the_call, fresh),
        cmocka_unit_test_setup(outputs_take_no_room, fresh),
        cmocka_unit_test_setup(a_refused_piece_is_inductors, fresh),
        cmocka_unit_test_setup(a_failure_is_that_of_the_compile, fresh),
        cmocka_unit_test_setup(each_piece_has_a_handle, fresh),
        cmocka_unit_test_setup(calls_of_several_threads_take_turns, fresh),
        cmocka_unit_test_setup(its_calls_are_not_captured, fresh),
        cmocka_unit_test_setup(a_function_is_told_the_line, fresh),
        cmocka_unit_test_setup(a_failure_is_suppressed, fresh),
        cmocka_unit_test_setup(random_graphs_are_the_same, fresh),
        cmocka_unit_test_setup(every_allocation_may_fail, fresh),
    };
    return cmocka_run_group_tests(tests, registered, NULL);
}
