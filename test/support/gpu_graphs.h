/* Graphs on a GPU: each is compiled for it, several at a time, and where there is one run beside the eager backend of the cpu, which
 * gives the same bits. */
#ifndef SUPPORT_GPU_GRAPHS_H
#define SUPPORT_GPU_GRAPHS_H

#include "compile/nvrtc.h"
#include "support/plan_run.h"

typedef enum gpu_graphs_mode {
    GPU_GRAPHS_COMPILE, /* for sm_90 */
    GPU_GRAPHS_RUN
} gpu_graphs_mode;

enum { GPU_GRAPHS_MOST = 2048 };

typedef struct gpu_graphs {
    compile_nvrtc nvrtc;
    cache_store *store;
    hal_device *device; /* NULL: only compiled */
    char folder[64];
    ir_graph *graph[GPU_GRAPHS_MOST]; /* owned */
    bool special[GPU_GRAPHS_MOST];    /* leaves of op_grid_special */
    uint32_t n, n_host;               /* n_host: had ops of the host, and were left out */
} gpu_graphs;

/* false: no NVRTC, or no GPU. Code goes to a folder of its own. Close with gpu_graphs_close. */
bool gpu_graphs_open(gpu_graphs_mode mode, gpu_graphs *out);
void gpu_graphs_close(gpu_graphs *q);
/* Takes g, unless it calls custom ops, which are the host's. */
void gpu_graphs_add(gpu_graphs *q, ir_graph *g, bool special);
void gpu_graphs_add_text(gpu_graphs *q, const char *text, bool special);
/* Fails with what is wrong with some graph. Prints how many there were. */
void gpu_graphs_check(gpu_graphs *q);

#endif
