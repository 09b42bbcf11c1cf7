/* The CUDA driver and NVRTC as structs of function pointers, filled by dlopen: nothing of CUDA is needed to build, and
 * a test hands in a struct of its own that counts, logs and fails calls.
 *
 * Immutable once filled, shared by all threads. The libraries stay open until the process ends: neither can
 * be closed and opened again safely. */
#ifndef HAL_CUDA_API_H
#define HAL_CUDA_API_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* As the driver's CUgraphEdgeData. */
typedef struct cuda_edge {
    unsigned char from_port, to_port, type, reserved[5];
} cuda_edge;

enum { CUDA_PORT_PROGRAMMATIC = 1, CUDA_EDGE_PROGRAMMATIC = 1 };

/* As the driver's CUlaunchAttribute with a number as its value, and CUlaunchConfig. */
typedef struct cuda_launch_attribute {
    int id, reserved0, value, reserved1[15];
} cuda_launch_attribute;
typedef struct cuda_launch_config {
    unsigned grid[3], block[3], shared;
    void *stream;
    cuda_launch_attribute *attributes;
    unsigned n_attributes;
} cuda_launch_config;

enum { CUDA_LAUNCH_PROGRAMMATIC = 6 }; /* an attribute: the edge to what is in front of it is */

/* As the driver's CUgraphNodeParams of kind kernel (0). */
typedef struct cuda_node {
    int kind, reserved0[3];
    void *function;
    unsigned grid[3], block[3], shared;
    void **parameters, **extra;
    void *kernel, *context;
    long long reserved1[20], reserved2;
} cuda_node;

/* The same of kind conditional. */
typedef struct cuda_branch_node {
    int kind, reserved0[3];
    uint64_t handle;
    int loop; /* 0: if, 1: while */
    unsigned n_bodies;
    void **bodies; /* set by the driver */
    void *context;
    long long reserved1[25], reserved2;
} cuda_branch_node;

/* As the driver's CUDA_KERNEL_NODE_PARAMS_v2. */
typedef struct cuda_kernel_node {
    void *function;
    unsigned grid[3], block[3], shared;
    void **parameters, **extra;
    void *kernel, *context;
} cuda_kernel_node;

/* One side of a copy of rows, as the driver's CUDA_MEMCPY2D has it. */
typedef struct cuda_copy_side {
    size_t x, y;
    int kind; /* CUDA_MEMORY_UNIFIED: `device` is any address */
    void *host;
    uint64_t device;
    void *array;
    size_t pitch;
} cuda_copy_side;
typedef struct cuda_copy_2d {
    cuda_copy_side from, to;
    size_t width, height;
} cuda_copy_2d;

/* As the driver's CUDA_MEMCPY3D. */
typedef struct cuda_copy_block {
    size_t x, y, z, lod;
    int kind;
    void *host;
    uint64_t device;
    void *array, *reserved;
    size_t pitch, height;
} cuda_copy_block;
typedef struct cuda_copy_3d {
    cuda_copy_block from, to;
    size_t width, height, depth;
} cuda_copy_3d;

/* As the driver's CUmemLocation, CUmemAllocationProp and CUmemAccessDesc. */
typedef struct cuda_place {
    int type, id;
} cuda_place;
typedef struct cuda_memory_kind {
    int type, handles;
    cuda_place place;
    void *reserved;
    unsigned char flags[8];
} cuda_memory_kind;
typedef struct cuda_access {
    cuda_place place;
    int flags;
} cuda_access;

/* Who makes calls, for the line about one that loses the GPU (loss.h). */
typedef struct cuda_caller {
    int device;
    const char *kind; /* of what it gave the GPU last, "graph" or "kernel"; NULL: nothing; */
    char last[64];    /* and the beginning of its name */
} cuda_caller;

typedef struct cuda_driver {
#define DRIVER(name, symbol, parameters) int(*name) parameters;
#include "hal/cuda/api.def"
    cuda_caller *caller; /* not the driver's; NULL: nobody's, and what is lost is not kept */
} cuda_driver;

typedef struct cuda_nvrtc {
#define NVRTC(name, symbol, parameters) int(*name) parameters;
#include "hal/cuda/api.def"
} cuda_nvrtc;

enum {
    CUDA_MIN_VERSION = 12040, /* of the driver: what a kernel takes */
    CUDA_OUT_OF_MEMORY = 2,
    CUDA_NOT_INITIALIZED = 3, /* which cuInit itself says of a child of a process that called it */
    CUDA_DEVICE_UNAVAILABLE = 46, /* another process has it alone, or its compute mode forbids */
    CUDA_NO_DEVICE = 100,
    CUDA_NOT_SUPPORTED = 801,
    CUDA_CAPTURE_FIRST =
        900, /* codes of calls that a capture does not permit, and of captures that had one */
    CUDA_CAPTURE_LAST = 908,
    CUDA_CAPTURE_THREAD = 1,  /* modes: refuses what it cannot contain to its own thread, */
    CUDA_CAPTURE_RELAXED = 2, /* to nobody */
    CUDA_CAPTURE_ACTIVE = 1,  /* a status */
    CUDA_NODE_KERNEL = 0,
    CUDA_NODE_COPY = 1,
    CUDA_NODE_FILL = 2,
    CUDA_NODE_HOST = 3,
    CUDA_NODE_EMPTY = 5,
    CUDA_NODE_ALLOC = 10,
    CUDA_NODE_FREE = 11,
    CUDA_NODE_BRANCH = 13,
    CUDA_ATTRIBUTE_N_SM = 16,
    CUDA_ATTRIBUTE_MAJOR = 75,
    CUDA_ATTRIBUTE_MINOR = 76,
    CUDA_ATTRIBUTE_MAX_SHARED = 97,
    CUDA_FUNCTION_SHARED_BYTES = 1,
    CUDA_FUNCTION_LOCAL_BYTES = 3,
    CUDA_FUNCTION_REGISTERS = 4,
    CUDA_FUNCTION_MAX_SHARED = 8,
    CUDA_FUNCTION_CARVEOUT = 9,
    CUDA_FUNCTION_LARGE_CLUSTER = 14,
    CUDA_MEMORY_PINNED = 1,
    CUDA_PLACE_DEVICE = 1,
    CUDA_ACCESS_READ_WRITE = 3,
    CUDA_STREAM_NON_BLOCKING = 1,
    CUDA_HOST_PORTABLE = 1,
    CUDA_HOST_MAPPED = 2,
    CUDA_EVENT_TIMING = 0,
    CUDA_EVENT_NO_TIMING = 2,
    CUDA_POINTER_DEVICE = 3, /* attribute: the address by which kernels of the context reach it */
    CUDA_POINTER_MEMORY = 2, /* attribute; its value for memory of the host: */
    CUDA_MEMORY_HOST = 1,
    CUDA_MEMORY_UNIFIED = 4
};

/* libcuda.so.1. RP_UNSUPPORTED with one line where there is none, or one too old to have every function. */
rp_status cuda_driver_open(cuda_driver *out, rp_error *err) RP_MUST_USE;

/* REPRISE_NVRTC, or the first on the loader's path and in the toolkit folders. path (may be NULL) gets the
 * file's name, borrowed. RP_UNSUPPORTED where there is none. */
rp_status cuda_nvrtc_open(cuda_nvrtc *out, const char **path, rp_error *err) RP_MUST_USE;

/* RP_OK for code 0. Otherwise what was tried and the driver's own words; RP_NOMEM for device memory, else
 * RP_DEVICE. A code that tells of a lost GPU is noted for all its queues. */
rp_status cuda_check(const cuda_driver *cu, int code, const char *what, rp_error *err) RP_MUST_USE;

#endif
