/* Flags that vllm serve has and this command has not: what does the same, or why nothing does. */
#include <string.h>

#include "tools/args.h"

const char *tool_foreign(const char *name) {
    static const struct {
        const char *name, *reason;
    } why[] = {
        {"model", "the model stands behind the command: reprise run MODEL"},
        {"tokenizer", "a model's file has its own"},
        {"dtype", "weights have the types of the model's file; a synthetic model takes "
                  "synthetic:NAME,dtype=bf16"},
        {"kv-cache-dtype", "the cache has the type that the model's kernels read"},
        {"quantization", "weights have the types of the model's file"},
        {"load-format", "models are GGUF files, or synthetic:NAME"},
        {"trust-remote-code", "no code comes with a model's file"},
        {"enable-prefix-caching", "no request uses the cache of another"},
        {"enable-chunked-prefill", "prompts are always taken in chunks; see "
                                   "--long-prefill-token-threshold"},
        {"swap-space", "nothing is moved to the host: a request waits until there is room"},
        {"cpu-offload-gb", "weights lie on one device"},
        {"pipeline-parallel-size", "a model runs on one device"},
        {"data-parallel-size", "a model runs on one device; run a process for each"},
        {"host", "there is no HTTP server in this version"},
        {"port", "there is no HTTP server in this version"},
        {"served-model-name", "there is no HTTP server in this version"},
        {"pp", "a model runs on one device"},
        {"dp", "a model runs on one device; run a process for each"},
        {"q", "weights have the types of the model's file"},
    };
    for (size_t i = 0; i < sizeof why / sizeof *why; i++)
        if (strcmp(why[i].name, name) == 0) return why[i].reason;
    return NULL;
}
