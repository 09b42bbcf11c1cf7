/* Branches of a capture: conditional nodes, whose bodies the driver captures from the same stream.
 *
 * A node's condition is a number of the GPU that a kernel sets in front of the node, and at the end of a loop's body. The node
 * itself cannot be captured: the capture of the graph around it ends, the node is added behind what was last in it, the
 * stream captures to the body, and goes on with the graph around behind the node. */
#include <string.h>

#include "base/alloc.h"
#include "hal/cuda/device.h"
#include "hal/cuda/guard.h"

/* For the driver's own compiler: sets the condition to whether the byte at an address is not 0, or to the opposite. */
static const char set_condition[] =
    ".version 8.3\n"
    ".target sm_80\n"
    ".address_size 64\n"
    ".extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);\n"
    ".visible .entry set_condition(.param .u64 handle, .param .u64 at, .param .u64 opposite) {\n"
    "    .reg .b64 %h, %p, %o;\n"
    "    .reg .b32 %v, %f;\n"
    "    .reg .pred %is;\n"
    "    ld.param.u64 %h, [handle];\n"
    "    ld.param.u64 %p, [at];\n"
    "    ld.param.u64 %o, [opposite];\n"
    "    ld.global.u8 %v, [%p];\n"
    "    setp.ne.u32 %is, %v, 0;\n"
    "    selp.u32 %v, 1, 0, %is;\n"
    "    cvt.u32.u64 %f, %o;\n"
    "    xor.b32 %v, %v, %f;\n"
    "    {\n"
    "    .param .b64 a;\n"
    "    .param .b32 b;\n"
    "    st.param.b64 [a+0], %h;\n"
    "    st.param.b32 [b+0], %v;\n"
    "    call.uni cudaGraphSetConditional, (a, b);\n"
    "    }\n"
    "    ret;\n"
    "}\n";

enum { MOST_LAST = 16 }; /* nodes that the next one waits for */

static rp_status load_condition(cuda_device *d, rp_error *err) {
    if (d->condition) return RP_OK;
    int mode = cuda_guard_relax(&d->cu);
    int code = d->condition_module ? 0 : d->cu.module_load(&d->condition_module, set_condition);
    if (code == 0)
        code = d->cu.module_function(&d->condition, d->condition_module, "set_condition");
    cuda_guard_restore(&d->cu, mode);
    return cuda_check(&d->cu, code, "the kernel that sets a condition", err);
}

void cuda_branches_close(cuda_device *d) {
    if (d->condition_module) cuda_guard_free(&d->gpu, CUDA_FREED_MODULE, d->condition_module);
}

static rp_status set(const cuda_device *d, const cuda_branch *b, rp_error *err) {
    uint64_t handle = b->handle, at = (uint64_t)(uintptr_t)b->pred;
    uint64_t opposite = b->kind == HAL_IF_NOT;
    void *parameters[] = {&handle, &at, &opposite};
    return cuda_capture_check(
        d, d->cu.launch(d->condition, 1, 1, 1, 1, 1, 1, 0, d->stream, parameters, NULL),
        "setting a condition", err);
}

static rp_status room_for_body(cuda_captured *c, rp_error *err) {
    if (c->n_bodies < c->cap_bodies) return RP_OK;
    uint32_t cap = c->cap_bodies ? c->cap_bodies * 2 : 4;
    void **body = base_realloc_array(c->body, cap, sizeof(void *));
    if (!body) return rp_fail(err, RP_NOMEM, "branches of a graph");
    c->body = body;
    c->cap_bodies = cap;
    return RP_OK;
}

static int capture_to(const cuda_device *d, void *graph, void *const *last, size_t n) {
    return d->cu.capture_to(d->stream, graph, last, NULL, n, CUDA_CAPTURE_THREAD);
}

/* The stream captures to b->around, behind n nodes; afterwards to the new body or, on failure, on as it did, since what comes
 * must not run. */
static rp_status enter(cuda_device *d, cuda_branch *b, void *const *last, size_t n, rp_error *err) {
    cuda_branch_node node = {.kind = CUDA_NODE_BRANCH,
                             .handle = b->handle,
                             .loop = b->kind == HAL_WHILE,
                             .n_bodies = 1,
                             .context = d->gpu.context};
    void *same = NULL;
    rp_status st = cuda_capture_check(d, d->cu.capture_end(d->stream, &same), "a branch", err);
    if (st == RP_OK)
        st = cuda_check(
            &d->cu, d->cu.graph_add(&b->node, b->around, last, NULL, n, (cuda_node *)(void *)&node),
            "a branch of a graph", err);
    if (st == RP_OK)
        st = cuda_check(&d->cu, capture_to(d, node.bodies[0], NULL, 0), "a branch of a graph", err);
    if (st == RP_OK)
        d->captured.body[d->captured.n_bodies++] = node.bodies[0];
    else
        (void)capture_to(d, b->around, last, n);
    return st;
}

static rp_status begin(cuda_device *d, hal_branch kind, const void *pred, rp_error *err) {
    cuda_captured *c = &d->captured;
    void *const *last = NULL, *copy[MOST_LAST];
    size_t n = 0;
    if (c->depth == CUDA_BRANCHES)
        return rp_fail(err, RP_UNSUPPORTED, "more than %d branches within one another",
                       CUDA_BRANCHES);
    cuda_branch b = {.around = cuda_capture_at(d, &last, &n), .pred = pred, .kind = kind};
    if (!b.around) return rp_fail(err, RP_INVALID, "the capture has failed before a branch");
    RP_TRY(load_condition(d, err));
    RP_TRY(room_for_body(c, err));
    int code = d->cu.conditional_new(&b.handle, b.around, d->gpu.context, 0, 0);
    if (code == CUDA_NOT_SUPPORTED)
        return rp_fail(err, RP_UNSUPPORTED,
                       "this driver has no conditional nodes, by which a graph branches and loops");
    RP_TRY(cuda_check(&d->cu, code, "a condition", err));
    RP_TRY(set(d, &b, err));
    if (!cuda_capture_at(d, &last, &n) || n > MOST_LAST)
        return rp_fail(err, RP_UNSUPPORTED, "a branch that waits for more than %d streams",
                       MOST_LAST);
    if (n) memcpy(copy, last, n * sizeof *copy);
    RP_TRY(enter(d, &b, copy, n, err));
    c->branch[c->depth++] = b;
    return RP_OK;
}

rp_status cuda_capture_branch(hal_device *base, hal_branch kind, const void *pred, rp_error *err) {
    cuda_device *d = (cuda_device *)base;
    rp_error why = {0};
    size_t byte = 1;
    void *arg = (void *)(uintptr_t)pred;
    hal_launch l = {.name = hal_branch_name(kind), .arg = &arg, .arg_size = &byte, .n_arg = 1};
    RP_TRY(hal_note_capture(base, &l, 1, 0, err));
    rp_status st = begin(d, kind, pred, &why);
    return st == RP_OK ? RP_OK : hal_note_failed(base, st, &why, err);
}

rp_status cuda_capture_join(hal_device *base, rp_error *err) {
    cuda_device *d = (cuda_device *)base;
    cuda_branch *b = &d->captured.branch[--d->captured.depth];
    rp_error why = {0};
    void *same = NULL;
    rp_status st = b->kind == HAL_WHILE ? set(d, b, &why) : RP_OK;
    int code = d->cu.capture_end(d->stream, &same);
    if (st == RP_OK) st = cuda_capture_check(d, code, "the end of a branch", &why);
    code = capture_to(d, b->around, &b->node, 1);
    if (st == RP_OK) st = cuda_check(&d->cu, code, "what comes behind a branch", &why);
    return st == RP_OK ? RP_OK : hal_note_failed(base, st, &why, err);
}
