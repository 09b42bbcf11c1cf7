/* A CUDA driver and an NVRTC that have no GPU: they hand out handles, count what is alive, log the calls and fail
 * the one they are told to. Releasing never fails. */
#ifndef SUPPORT_CUDA_FAKE_H
#define SUPPORT_CUDA_FAKE_H

#include <stdbool.h>
#include <stdint.h>

#include "hal/cuda/api.h"

typedef struct cuda_fake_state {
    int version, n_devices, capability; /* what it says it is */
    bool compiles;                      /* whether any text does */
    bool colons;                        /* the log has a line as gcc writes it */
    int fail_code;
    uint32_t fail_nth;    /* 1: the next call that can fail; 0: none */
    const char *fail_one; /* a member's name: every call of it fails */
    uint32_t n_calls;     /* that could have failed */
    int live;             /* contexts, memory, streams, events, modules, graphs, programs */
    uint32_t n_nodes, n_programmatic;
    uint64_t taken_beside; /* bytes that others take of the GPU between two looks at what is free */
    uint64_t n_looks;      /* at free memory */
    uint64_t elsewhere;    /* memory of another GPU, which no context reaches; 0: none */
    char log[4096];        /* names of all calls, a blank behind each */
} cuda_fake_state;

extern cuda_fake_state cuda_fake;
extern const cuda_driver cuda_fake_driver;
extern const cuda_nvrtc cuda_fake_nvrtc;

/* As a new machine with one GPU of capability 9.0 and a driver of CUDA 13.0; all counts 0. */
void cuda_fake_reset(void);

#endif
