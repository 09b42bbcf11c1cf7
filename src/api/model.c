/* rp_model_synthesize. */
#include "reprise/model.h"

#include <string.h>

#include "base/status.h"
#include "base/str.h"
#include "model/gguf_write.h"

static rp_status open_spec(const char *spec, model_source **out, rp_error *err) {
    base_buf name;
    base_buf_init(&name, 0);
    if (strncmp(spec, MODEL_SYNTH_PREFIX, sizeof MODEL_SYNTH_PREFIX - 1) != 0)
        base_buf_puts(&name, MODEL_SYNTH_PREFIX);
    base_buf_puts(&name, spec);
    rp_status st = base_buf_status(&name, err);
    if (st == RP_OK) st = model_source_open_synthetic(name.data, out, err);
    base_buf_done(&name);
    return st;
}

rp_status rp_model_synthesize(const char *spec, const char *path, uint64_t *out_bytes,
                              rp_error *err) {
    base_error_clear(err);
    model_source *s = NULL;
    base_target *to = NULL;
    if (!spec || !path) return rp_fail(err, RP_INVALID, "spec and path must be given");
    RP_TRY(open_spec(spec, &s, err));
    rp_status st = base_target_open(path, "a model", 0644, &to, err);
    if (st == RP_OK) st = model_gguf_write(s, to, err);
    st = base_target_close(to, st, err);
    if (st == RP_OK && out_bytes) *out_bytes = model_source_size(s);
    model_source_free(s);
    return st;
}
