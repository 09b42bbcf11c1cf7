#include "hal/cuda/chain.h"

rp_status cuda_chain_init(cuda_chain *c, const cuda_driver *cu, bool programmatic, rp_error *err) {
    *c = (cuda_chain){.cu = cu, .programmatic = programmatic};
    return cuda_check(cu, cu->graph_new(&c->graph, 0), "a new graph", err);
}

rp_status cuda_chain_add(cuda_chain *c, const cuda_launch *l, rp_error *err) {
    static const cuda_edge edge = {.from_port = CUDA_PORT_PROGRAMMATIC,
                                   .type = CUDA_EDGE_PROGRAMMATIC};
    cuda_node node = {.function = l->function,
                      .grid = {l->grid[0], l->grid[1], l->grid[2]},
                      .block = {l->threads, 1, 1},
                      .shared = (unsigned)l->shared,
                      .parameters = l->parameters};
    void *made = NULL;
    RP_TRY(cuda_check(c->cu,
                      c->cu->graph_add(&made, c->graph, c->n ? &c->last : NULL,
                                       c->n && c->programmatic ? &edge : NULL, c->n ? 1 : 0, &node),
                      "adding a kernel to a graph", err));
    c->last = made;
    c->n++;
    return RP_OK;
}

rp_status cuda_chain_finish(cuda_chain *c, void *stream, rp_error *err) {
    RP_TRY(
        cuda_check(c->cu, c->cu->graph_instantiate(&c->exec, c->graph, 0), "making a graph", err));
    return cuda_check(c->cu, c->cu->graph_upload(c->exec, stream), "uploading a graph", err);
}

rp_status cuda_chain_launch(const cuda_chain *c, void *stream, rp_error *err) {
    return cuda_check(c->cu, c->cu->graph_launch(c->exec, stream), "launching a graph", err);
}

void cuda_chain_done(cuda_chain *c) {
    if (c->exec) (void)c->cu->exec_free(c->exec);
    if (c->graph) (void)c->cu->graph_free(c->graph);
    c->exec = c->graph = NULL;
}
