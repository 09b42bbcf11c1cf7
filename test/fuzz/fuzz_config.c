/* Configurations from outside: each line of the input is a JSON object, "-On" or an assignment.
 *
 * Nothing may crash or leak, a refused line must leave the configuration as it was, and what
 * resolves must print as JSON, give keys and keep its lists within the limits. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "config/config.h"

#undef assert /* also checked with NDEBUG */
#define assert(x) ((x) ? (void)0 : __builtin_trap())

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void apply(rp_compilation_config *cfg, const char *line) {
    char *before = NULL, *after = NULL;
    rp_error err = {0};
    rp_status st;
    assert(rp_config_to_json(cfg, &before, NULL) == RP_OK);
    if (line[0] == '-' && line[1] == 'O')
        st = rp_config_set_olevel(cfg, line[2] - '0', &err);
    else if (line[0] == '{' || line[0] == '[')
        st = rp_config_set_json(cfg, line, &err);
    else
        st = rp_config_set(cfg, line, &err);
    assert(rp_config_to_json(cfg, &after, NULL) == RP_OK);
    if (st != RP_OK) {
        assert(strcmp(before, after) == 0);
        assert(err.code == st && err.text[0] && !strchr(err.text, '\n'));
    }
    rp_config_text_free(before);
    rp_config_text_free(after);
}

static void ascends(const config_ints *list, int64_t max) {
    for (size_t i = 0; i < list->n; i++)
        assert(list->v[i] >= 1 && list->v[i] <= max && (!i || list->v[i - 1] < list->v[i]));
}

static void check_resolved(rp_compilation_config *cfg) {
    char *text = NULL;
    rp_error err = {0};
    rp_cudagraph_mode mode = rp_config_cudagraph_mode(cfg);
    assert(cfg->level == 3 || !rp_cudagraph_requires_piecewise_compilation(mode));
    assert((mode != RP_CUDAGRAPH_NONE) == (cfg->graph_bs.n > 0));
    assert((rp_cudagraph_mixed_mode(mode) != RP_CUDAGRAPH_NONE) ==
           (cfg->mixed_capture_sizes.n > 0));
    ascends(&cfg->decode_capture_sizes, cfg->max_num_seqs.v);
    ascends(&cfg->mixed_capture_sizes, cfg->max_num_batched_tokens.v);
    assert(rp_config_to_json(cfg, &text, &err) == RP_OK);
    rp_config_text_free(text);
    for (int scope = RP_KEY_OUTER; scope <= RP_KEY_PIECE; scope++) {
        assert(rp_config_key_pieces(cfg, (rp_key_scope)scope, &text, &err) == RP_OK);
        rp_config_text_free(text);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    size_t live = base_live();
    rp_error err = {0};
    rp_model_facts facts = RP_MODEL_FACTS_INIT;
    rp_compilation_config *cfg = rp_config_new();
    char *text = base_strndup((const char *)data, size);
    assert(cfg && text);
    facts.attention = (rp_attention_support)(size & 3);
    for (char *line = text, *end; line; line = end ? end + 1 : NULL) {
        end = strchr(line, '\n');
        if (end) *end = '\0';
        apply(cfg, line);
    }
    if (rp_config_resolve(cfg, &facts, &err) == RP_OK)
        check_resolved(cfg);
    else
        assert(err.text[0] && !strchr(err.text, '\n'));
    base_free(text);
    rp_config_free(cfg);
    assert(base_live() == live);
    return 0;
}
