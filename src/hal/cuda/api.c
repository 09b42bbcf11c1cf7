/* Fills the tables of api.h. A symbol that is missing means an old library, and the line says which. */
#include "hal/cuda/api.h"

#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/env.h"
#include "hal/cuda/loss.h"

_Static_assert(sizeof(cuda_edge) == 8, "as CUgraphEdgeData");
_Static_assert(sizeof(cuda_node) == 256 && offsetof(cuda_node, function) == 16 &&
                   offsetof(cuda_node, parameters) == 56 && offsetof(cuda_node, reserved2) == 248,
               "as CUgraphNodeParams");
_Static_assert(sizeof(cuda_branch_node) == 256 && offsetof(cuda_branch_node, handle) == 16 &&
                   offsetof(cuda_branch_node, bodies) == 32,
               "as CUgraphNodeParams");
_Static_assert(sizeof(cuda_launch_attribute) == 72 && offsetof(cuda_launch_attribute, value) == 8,
               "as CUlaunchAttribute");
_Static_assert(sizeof(cuda_launch_config) == 56 && offsetof(cuda_launch_config, stream) == 32,
               "as CUlaunchConfig");
_Static_assert(sizeof(cuda_kernel_node) == 72 && offsetof(cuda_kernel_node, parameters) == 40,
               "as CUDA_KERNEL_NODE_PARAMS_v2");
_Static_assert(sizeof(cuda_copy_3d) == 200 && offsetof(cuda_copy_3d, width) == 176,
               "as CUDA_MEMCPY3D");

typedef struct entry {
    const char *symbol;
    size_t at; /* of the member */
} entry;

static const entry driver_entries[] = {
#define DRIVER(name, symbol, parameters) {symbol, offsetof(cuda_driver, name)},
#include "hal/cuda/api.def"
};

static const entry nvrtc_entries[] = {
#define NVRTC(name, symbol, parameters) {symbol, offsetof(cuda_nvrtc, name)},
#include "hal/cuda/api.def"
};

/* NULL when all were found, otherwise the first that was not. */
static const char *fill(void *table, void *lib, const entry *entries, size_t n) {
    for (size_t i = 0; i < n; i++) {
        void *p = dlsym(lib, entries[i].symbol);
        if (!p) return entries[i].symbol;
        memcpy((char *)table + entries[i].at, &p, sizeof p);
    }
    return NULL;
}

rp_status cuda_driver_open(cuda_driver *out, rp_error *err) {
    cuda_driver found = {0};
    void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        return rp_fail(err, RP_UNSUPPORTED,
                       "no CUDA driver (libcuda.so.1) on this machine; install NVIDIA's driver or "
                       "use --device cpu");
    const char *missing =
        fill(&found, lib, driver_entries, sizeof driver_entries / sizeof *driver_entries);
    if (missing)
        return rp_fail(err, RP_UNSUPPORTED,
                       "the CUDA driver is too old: it has no %s; update it to one of CUDA %d.%d",
                       missing, CUDA_MIN_VERSION / 1000, CUDA_MIN_VERSION % 1000 / 10);
    *out = found;
    return RP_OK;
}

static void *open_nvrtc(const char *chosen) {
    static const char *const names[] = {"libnvrtc.so",
                                        "libnvrtc.so.13",
                                        "libnvrtc.so.12",
                                        "/usr/local/cuda/lib64/libnvrtc.so",
                                        "/usr/local/cuda/targets/x86_64-linux/lib/libnvrtc.so.13",
                                        "/usr/local/cuda-13.0/lib/libnvrtc.so"};
    void *lib = NULL;
    if (chosen) return dlopen(chosen, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; !lib && i < sizeof names / sizeof *names; i++)
        lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    return lib;
}

rp_status cuda_nvrtc_open(cuda_nvrtc *out, const char **path, rp_error *err) {
    const char *chosen = base_env_get(BASE_ENV_NVRTC);
    cuda_nvrtc found;
    struct link_map *map = NULL;
    void *lib = open_nvrtc(chosen);
    if (!lib && chosen)
        return rp_fail(err, RP_UNSUPPORTED, "REPRISE_NVRTC=%s is no libnvrtc that can be loaded",
                       chosen);
    if (!lib)
        return rp_fail(err, RP_UNSUPPORTED,
                       "no libnvrtc on this machine; install the CUDA toolkit or name the file in "
                       "REPRISE_NVRTC");
    const char *missing =
        fill(&found, lib, nvrtc_entries, sizeof nvrtc_entries / sizeof *nvrtc_entries);
    if (missing)
        return rp_fail(err, RP_UNSUPPORTED, "libnvrtc has no %s; install one of CUDA 12 or newer",
                       missing);
    if (path) *path = dlinfo(lib, RTLD_DI_LINKMAP, &map) == 0 && map ? map->l_name : NULL;
    *out = found;
    return RP_OK;
}

rp_status cuda_check(const cuda_driver *cu, int code, const char *what, rp_error *err) {
    const char *name = NULL, *words = NULL;
    if (code == 0) return RP_OK;
    if (code == CUDA_NOT_INITIALIZED)
        return rp_fail(err, RP_DEVICE,
                       "%s: this process was forked from one that had started the CUDA driver, "
                       "which a child cannot use; start it by exec, or open no GPU before the fork",
                       what);
    (void)cu->error_name(code, &name);
    (void)cu->error_string(code, &words);
    if (!words) words = "unknown error";
    if (!name) name = "CUDA";
    if (cu->caller && cuda_loss_is(code)) {
        char text[160];
        (void)snprintf(text, sizeof text, "%s: %s (%s, %d)", what, words, name, code);
        return cuda_loss_note(cu->caller, text, err);
    }
    return rp_fail(err, code == CUDA_OUT_OF_MEMORY ? RP_NOMEM : RP_DEVICE, "%s: %s (%s, %d)", what,
                   words, name, code);
}
