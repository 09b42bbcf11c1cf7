/* Levels, device graph modes and the other enumerations: names, numbers and the mode algebra.
 *
 * A mode is a simple one (NONE, PIECEWISE, FULL) or a pair of two simple ones for decode and mixed
 * batches. Nothing here knows about a configuration. */
#include "config/table.h"

#define N_NAMES(a) (sizeof(a) / sizeof((a)[0]))

static const config_name level_names[] = {
    {"NO_COMPILATION", 0, NULL},      {"NONE", 0, NULL},         {"DYNAMO_AS_IS", 1, NULL},
    {"STOCK_TORCH_COMPILE", 1, NULL}, {"DYNAMO_ONCE", 2, NULL},  {"DYNAMO_TRACE_ONCE", 2, NULL},
    {"PIECEWISE", 3, NULL},           {"VLLM_COMPILE", 3, NULL},
};
const config_names config_levels = {level_names, N_NAMES(level_names), 3, true};

static const config_name graph_mode_names[] = {
    {"NONE", RP_CUDAGRAPH_NONE, NULL},
    {"PIECEWISE", RP_CUDAGRAPH_PIECEWISE, NULL},
    {"FULL", RP_CUDAGRAPH_FULL, NULL},
    {"FULL_DECODE_ONLY", RP_CUDAGRAPH_FULL_DECODE_ONLY, NULL},
    {"FULL_AND_PIECEWISE", RP_CUDAGRAPH_FULL_AND_PIECEWISE, NULL},
    {"AF_PIECEWISE", RP_CUDAGRAPH_PIECEWISE,
     "attention is not captured layer by layer; use FULL_AND_PIECEWISE"},
};
/* Integers above 2 are pairs in the seeds, not numbers. */
const config_names config_graph_modes = {graph_mode_names, N_NAMES(graph_mode_names), 2, false};

static const config_name shapes_names[] = {
    {"backed", CONFIG_SHAPES_BACKED, NULL},
    {"unbacked", CONFIG_SHAPES_UNBACKED, NULL},
    {"backed_size_oblivious", CONFIG_SHAPES_BACKED_SIZE_OBLIVIOUS, NULL},
};
const config_names config_shapes_types = {shapes_names, N_NAMES(shapes_names), -1, false};

static const config_name performance_names[] = {
    {"balanced", CONFIG_PERF_BALANCED, NULL},
    {"interactivity", CONFIG_PERF_INTERACTIVITY, NULL},
    {"throughput", CONFIG_PERF_THROUGHPUT,
     "balanced captures up to the largest batch, too; use it"},
};
const config_names config_performance_modes = {performance_names, N_NAMES(performance_names), -1,
                                               false};

static const config_name numerics_names[] = {
    {"default", CONFIG_NUMERICS_DEFAULT, NULL},
    {"exact", CONFIG_NUMERICS_EXACT, NULL},
    {"fast", CONFIG_NUMERICS_FAST,
     "no kernel is faster than the default ones at the price of rounding"},
};
const config_names config_numerics_names = {numerics_names, N_NAMES(numerics_names), -1, false};

static const config_name isa_names[] = {
    {"auto", CONFIG_ISA_AUTO, NULL}, {"portable", CONFIG_ISA_PORTABLE, NULL},
    {"avx2", CONFIG_ISA_AVX2, NULL}, {"avx512", CONFIG_ISA_AVX512, NULL},
    {"amx", CONFIG_ISA_AMX, NULL},
};
const config_names config_isas = {isa_names, N_NAMES(isa_names), -1, false};

static const config_name sealed_names[] = {
    {"off", CONFIG_SEALED_OFF, NULL},
    {"warn", CONFIG_SEALED_WARN, NULL},
    {"fatal", CONFIG_SEALED_FATAL, NULL},
};
const config_names config_sealed_names = {sealed_names, N_NAMES(sealed_names), -1, false};

static const config_name save_names[] = {
    {"binary", CONFIG_SAVE_BINARY, NULL},
    {"unpacked", CONFIG_SAVE_UNPACKED, NULL},
};
const config_names config_save_formats = {save_names, N_NAMES(save_names), -1, false};

bool rp_cudagraph_separate_routine(rp_cudagraph_mode mode) {
    return mode == RP_CUDAGRAPH_FULL_DECODE_ONLY || mode == RP_CUDAGRAPH_FULL_AND_PIECEWISE;
}

rp_cudagraph_mode rp_cudagraph_decode_mode(rp_cudagraph_mode mode) {
    return rp_cudagraph_separate_routine(mode) ? RP_CUDAGRAPH_FULL : mode;
}

rp_cudagraph_mode rp_cudagraph_mixed_mode(rp_cudagraph_mode mode) {
    if (mode == RP_CUDAGRAPH_FULL_DECODE_ONLY) return RP_CUDAGRAPH_NONE;
    if (mode == RP_CUDAGRAPH_FULL_AND_PIECEWISE) return RP_CUDAGRAPH_PIECEWISE;
    return mode;
}

bool rp_cudagraph_has_mode(rp_cudagraph_mode mode, rp_cudagraph_mode simple) {
    if (rp_cudagraph_separate_routine(simple)) return false;
    return rp_cudagraph_decode_mode(mode) == simple || rp_cudagraph_mixed_mode(mode) == simple;
}

bool rp_cudagraph_requires_piecewise_compilation(rp_cudagraph_mode mode) {
    return rp_cudagraph_has_mode(mode, RP_CUDAGRAPH_PIECEWISE);
}

rp_cudagraph_mode rp_cudagraph_max_cudagraph_mode(rp_cudagraph_mode mode) {
    rp_cudagraph_mode d = rp_cudagraph_decode_mode(mode), m = rp_cudagraph_mixed_mode(mode);
    return d > m ? d : m;
}

bool rp_cudagraph_has_full_cudagraphs(rp_cudagraph_mode mode) {
    return rp_cudagraph_max_cudagraph_mode(mode) == RP_CUDAGRAPH_FULL;
}

size_t rp_cudagraph_valid_runtime_modes(rp_cudagraph_mode out[3]) {
    out[0] = RP_CUDAGRAPH_NONE;
    out[1] = RP_CUDAGRAPH_PIECEWISE;
    out[2] = RP_CUDAGRAPH_FULL;
    return 3;
}

static const char *name_of(const config_names *names, int value) {
    for (size_t i = 0; i < names->n; i++)
        if (names->v[i].value == value) return names->v[i].name;
    return "unknown";
}

const char *rp_cudagraph_mode_name(rp_cudagraph_mode mode) {
    return name_of(&config_graph_modes, (int)mode);
}

const char *rp_level_name(rp_level level) {
    return name_of(&config_levels, (int)level);
}
