/* What a search for a wrong kernel says of what it has found, which is given here: where the element is, what is counted, which kernels there
 * are, and what the operands were. */
#include "support/check.h"

#include "api/bisect.h"
#include "base/alloc.h"

typedef struct report {
    rp_compilation_config *config;
    api_search s;
    api_wrong w;
    rp_bisection b;
} report;

/* Of graph text, whose node `origin` is to blame: element `at` of value `value` is 2 and should be 1. */
static report reported(const char *text, const char *settings, uint32_t value, int64_t at) {
    static char no_sizes[] = "";
    rp_error err = {0};
    report r = {.config = rp_config_new()};
    CHECK_OK(ir_parse(text, strlen(text), &r.w.graph, &err), &err);
    CHECK_OK(rp_config_set(r.config, settings, &err), &err);
    CHECK_OK(rp_config_resolve(r.config, NULL, &err), &err);
    r.s.g = r.w.graph;
    r.s.config = r.config;
    r.w.sizes = no_sizes;
    r.w.worst = (api_difference){true, value, at, 1, 2, 30, 4};
    r.w.origin = api_wrong_node(&r.w);
    r.b = (rp_bisection){.arena = base_arena_new(), .info = RP_BISECT_INFO_INIT};
    CHECK_OK(api_bisect_report(&r.s, &r.w, &r.b, &err), &err);
    assert_true(r.b.info.differs && r.b.info.want == 1 && r.b.info.got == 2);
    assert_true(r.b.info.ulps == 30 && r.b.info.bound == 4);
    assert_string_equal(r.b.info.pass, ""); /* no pass is wrong */
    return r;
}

static void done(report *r) {
    base_arena_free(r->b.arena);
    ir_graph_free(r->w.graph);
    rp_config_free(r->config);
}

static const char memories[] = "graph @m(%x: f32[2,3], %m: f32[4,5] mutates) {\n"
                               "  %s = state @s : f32[3,4]\n"
                               "  %p = param @p : f32[2,3]\n"
                               "  %0 = add %x, %p\n"
                               "  %1 = neg %x\n"
                               "  %2 = const 7 : f32[]\n"
                               "  %5 = broadcast %2 {shape=[4,5]}\n"
                               "  %3 = update %m, %5 {offsets=[0,0]}\n"
                               "  %4 = exp %0\n"
                               "  ret %0, %4\n}\n";

static void an_element_is_named(void **state) {
    static const struct {
        uint32_t value;
        int64_t at;
        const char *element, *op;
    } all[] = {{0, 0, "out0[0,0]", "add"},       {0, 4, "out0[1,1]", "add"},
               {1, 5, "out1[1,2]", "exp"},       {2, 6, "state:s[1,2]", "update"},
               {3, 3, "input:x[1,0]", "update"}, {4, 13, "input:m[2,3]", "update"}};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        report r = reported(memories, "level=2", all[i].value, all[i].at);
        assert_string_equal(r.b.info.element, all[i].element);
        assert_string_equal(r.b.info.op, all[i].op);
        assert_int_equal(r.b.info.inputs, 4); /* a state and a param, too */
        done(&r);
    }
    report r = reported("graph @n(%x: f32[]) {\n  %0 = exp %x\n  ret %0\n}\n", "level=2", 0, 0);
    assert_string_equal(r.b.info.element, "out0");
    assert_int_equal(r.b.info.nodes, 1);
    assert_int_equal(r.b.info.inputs, 1);
    assert_int_equal(r.b.info.n_operands, 1);
    assert_string_equal(r.b.info.operands[0].name, "%x");
    assert_string_equal(r.b.info.operands[0].type, "f32[]");
    assert_true(r.b.info.operands[0].min == r.b.info.operands[0].max);
    done(&r);
}

/* Those of both graphs of a branch; none where ops run one by one. */
static void kernels_are_those_that_run(void **state) {
    static const char branch[] =
        "graph @b(%p: bool[], %x: f32[8]) {\n"
        "  %0 = cond %p, %x {then=graph @yes(%x: f32[8]) {\n    %0 = exp %x\n    ret %0 },\n"
        "    else=graph @no(%x: f32[8]) {\n    %0 = tanh %x\n    ret %0 }}\n  ret %0\n}\n";
    static const char plain[] = "graph @p(%x: f32[8,4]) {\n  %0 = exp %x\n"
                                "  %1 = sum %0 {axis=1}\n  ret %0, %1\n}\n";
    (void)state;
    report r = reported(branch, "level=2", 0, 0);
    const char *no = strstr(r.b.info.kernels, "(else @no: "),
               *yes = strstr(r.b.info.kernels, "; then @yes: ");
    if (!no || !yes || no > yes || !strchr(yes, ')')) fail_msg("%s", r.b.info.kernels);
    done(&r);
    r = reported(plain, "level=2", 1, 3);
    assert_true(*r.b.info.kernels);
    done(&r);
    static const char *const none[] = {"level=0", "level=1", "backend=eager"};
    for (int i = 0; i < 3; i++) {
        r = reported(plain, none[i], 1, 3);
        assert_string_equal(r.b.info.kernels, "");
        done(&r);
    }
}

/* The range of values, below and above 0, by the interpreter. */
static void operands_have_their_range(void **state) {
    static const char text[] =
        "graph @r(%x: f32[64], %i: i64[4]) {\n  %0 = neg %x\n"
        "  %1 = const 3 : i64[]\n  %2 = sub %i, %1\n  %3 = cast %2 {dtype=f32}\n"
        "  %4 = div %0, %x\n  ret %4, %3\n}\n";
    (void)state;
    report r = reported(text, "level=2", 0, 9);
    assert_int_equal(r.b.info.n_operands, 2);
    const rp_bisect_operand *o = r.b.info.operands;
    assert_string_equal(o[0].type, "f32[64]");
    assert_true(o[0].min < 0 && o[0].max > 0);
    assert_true(o[0].min == -o[1].max && o[0].max == -o[1].min);
    done(&r);
    r = reported(text, "level=2", 1, 0);
    assert_int_equal(r.b.info.n_operands, 1);
    assert_string_equal(r.b.info.operands[0].type, "i64[4]");
    assert_true(r.b.info.operands[0].min >= -3 && r.b.info.operands[0].max < 64);
    done(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_element_is_named),
        cmocka_unit_test(kernels_are_those_that_run),
        cmocka_unit_test(operands_have_their_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
