/* A device graph with what its replays need.
 *
 * One mechanism for the graphs of models (graph room) and of user functions (autograph room): the list is audited, built,
 * told to the logs and counted here. A graph of user functions has parts beside it: memory and code of the things that were
 * called while it was captured. A part belongs to one stream and is shared by its graphs, which run one at a time; it is
 * freed with the last of them. */
#ifndef DEVICE_GRAPH_H
#define DEVICE_GRAPH_H

#include "device/device.h"

typedef struct device_part device_part;
struct device_part {
    const void *owner;                   /* what it is found by; NULL: never found again */
    size_t bytes;                        /* of memory that it holds */
    bool (*valid)(const device_part *p); /* false: what was captured is no longer so */
    void (*free)(device_part *p);
    /* The stream's. */
    device_part *next, **list;
    uint32_t refs;
};

/* How a graph came to be, for the log. */
typedef struct device_made {
    const char *label;
    uint32_t n; /* launches */
    int64_t ns; /* that making it took, by whichever threads */
} device_made;

typedef struct device_graph {
    hal_device *queue;
    hal_graph *graph;
    char label[64]; /* its beginning; this and the next two as in device_made */
    uint32_t n;
    int64_t ns;
    bool begun;              /* and not finished */
    size_t bytes;            /* of the graph itself, once it is finished */
    uint32_t n_programmatic; /* its edges over which kernels overlap */
    hal_body *bodies;        /* of its branches, where the device does not have them */
    device_part **part;      /* n_parts */
    uint32_t n_parts;
    /* Memory of the device that its launches name, which somebody may free; NULL for the graphs of models. */
    rp_device *device; /* borrowed */
    hal_used *used;    /* n_used */
    uint32_t n_used;
    uint64_t frees; /* of the device, when they were last there */
} device_graph;

/* The graph of a list whose addresses all lie in registered ranges, on one queue. RP_INTERNAL names one that does not. */
rp_status device_graph_new(hal_device *queue, const hal_launch *list, uint32_t n, size_t scratch,
                           const char *label, device_graph **out, rp_error *err) RP_MUST_USE;
/* The same, but where the device has two parts of it the second is to be done yet, by any thread. */
rp_status device_graph_begin(hal_device *queue, const hal_launch *list, uint32_t n, size_t scratch,
                             const char *label, device_graph **out, rp_error *err) RP_MUST_USE;
/* That part, if it is to be done. */
rp_status device_graph_finish(device_graph *g, rp_error *err) RP_MUST_USE;
/* Remembers what g uses of the device, of which it takes over the array; frees: device_frees before the capture. */
void device_graph_uses(device_graph *g, rp_device *d, hal_used *used, uint32_t n, uint64_t frees);
/* The same for a graph that a capture gave, which is taken over, also on failure. */
rp_status device_graph_adopt(hal_device *queue, hal_graph *graph, const device_made *how,
                             device_graph **out, rp_error *err) RP_MUST_USE;
void device_graph_free(device_graph *g); /* NULL is fine */
/* False when a part is no longer what was captured, or memory that it names was freed. */
bool device_graph_valid(device_graph *g);
/* See graph_move of hal_device_ops; *done is false where the device has none. */
rp_status device_graph_move(const device_graph *g, uint32_t i, void *to, const void *from,
                            bool *done, rp_error *err) RP_MUST_USE;
rp_status device_graph_launch(device_graph *g, rp_error *err) RP_MUST_USE;

/* One reference less. */
void device_part_drop(device_part *p);

#endif
