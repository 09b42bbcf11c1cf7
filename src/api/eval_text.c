/* Runs a graph on seeded random inputs by the interpreter or compiled, and prints every output value.
 *
 * What the interpreter refuses is not run as code. */
#include "reprise/graph.h"

#include "api/part.h"
#include "api/trial.h"
#include "base/alloc.h"
#include "base/status.h"
#include "base/str.h"
#include "ir/text.h"

static void put_value(base_buf *b, uint32_t output, rp_dtype t, const ir_value *v, int64_t at) {
    bool is_float = ir_dtype_is_real(t) || rp_dtype_is_quant(t);
    int64_t idx[IR_MAX_RANK], rest = at;
    for (uint32_t d = v->rank; d-- > 0;) {
        idx[d] = rest % v->dim[d];
        rest /= v->dim[d];
    }
    base_buf_printf(b, "out%u", output);
    for (uint32_t d = 0; d < v->rank; d++)
        base_buf_printf(b, "%s%lld%s", d ? "," : "[", (long long)idx[d],
                        d + 1 == v->rank ? "]" : "");
    base_buf_puts(b, " = ");
    if (t == RP_DTYPE_I64) {
        base_buf_printf(b, "%lld\n", (long long)ir_value_int(v, at));
        return;
    }
    if (!is_float) {
        base_buf_printf(b, "%.0f\n", v->data[at]);
        return;
    }
    ir_float_print(v->data[at], b);
    base_buf_printf(b, t == RP_DTYPE_F64 ? " (%.17g)\n" : " (%.9g)\n", v->data[at]);
}

static rp_status print_outputs(const api_trial *t, const api_values *v, char **out, rp_error *err) {
    base_buf b;
    base_buf_init(&b, 0);
    for (uint32_t i = 0; i < ir_output_count(t->g); i++)
        for (int64_t k = 0; k < v->v[i].n; k++) put_value(&b, i, api_trial_type(t, i), &v->v[i], k);
    rp_status st = base_buf_status(&b, err);
    if (st == RP_OK) {
        *out = b.data ? base_buf_take(&b) : base_strdup("");
        if (!*out) st = rp_fail(err, RP_NOMEM, "eval");
    }
    base_buf_done(&b);
    return st;
}

static rp_status run_compiled(const api_trial *t, rp_backend backend, api_values *out,
                              rp_error *err) {
    rp_status st = RP_OK;
    rp_device *device = NULL;
    rp_compilation_config *cfg = rp_config_new();
    if (!cfg) return rp_fail(err, RP_NOMEM, "configuration");
    RP_TRY_OUT(rp_config_set(cfg, backend == RP_BACKEND_CPU_EAGER ? "level=0" : "level=2", err));
    if (backend == RP_BACKEND_CUDA) RP_TRY_OUT(rp_device_open("cuda", 0, &device, err));
    RP_TRY_OUT(api_trial_compiled(t, device, cfg, out, err));
out:
    rp_device_close(device);
    rp_config_free(cfg);
    return st;
}

rp_status rp_graph_eval_text(const rp_graph *g, rp_backend backend, uint64_t seed,
                             const char *sizes, char **out, rp_error *err) {
    base_error_clear(err);
    rp_status st = RP_OK;
    api_trial t = {0};
    api_values want = {0}, got = {0};
    ir_graph *fixed = NULL;
    RP_TRY(api_graph_ready(g, err));
    if (!out) return rp_fail(err, RP_INVALID, "out is NULL");
    if ((unsigned)backend > RP_BACKEND_CUDA)
        return rp_fail(err, RP_INVALID, "no backend has the number %d", (int)backend);
    const ir_graph *ir = trace_graph_ir(g);
    RP_TRY_OUT(ir_verify(ir, err));
    if (api_check_sizes(ir, NULL) != RP_OK) RP_TRY_OUT(api_part_fixed(ir, sizes, &fixed, err));
    RP_TRY_OUT(api_trial_init(&t, fixed ? fixed : ir, sizes, seed, err));
    RP_TRY_OUT(api_trial_interpret(&t, NULL, &want, err));
    if (backend != RP_BACKEND_INTERP) RP_TRY_OUT(run_compiled(&t, backend, &got, err));
    RP_TRY_OUT(print_outputs(&t, backend == RP_BACKEND_INTERP ? &want : &got, out, err));
out:
    api_values_done(&want);
    api_values_done(&got);
    api_trial_done(&t);
    ir_graph_free(fixed);
    return st;
}
