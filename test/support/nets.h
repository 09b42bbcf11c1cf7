/* Networks written through the public API as a user of PyTorch writes them, and what torch computed for them.
 *
 * A network is a function that makes leaves, records ops and names outputs. It is built with its size T as a number and as a
 * symbol, compiled at every level and for one and two threads, and run with odd sizes. All runs of a network have the same
 * bits, and their values are those of torch (float64) in test/nets/oracle.txt, which test/nets/oracle.py writes. Leaves hold
 * values made of their names, so only outputs are stored. */
#ifndef SUPPORT_NETS_H
#define SUPPORT_NETS_H

#include "support/check.h"

#include "reprise/reprise.h"

enum { NET_LEAVES = 96, NET_OUTPUTS = 4, NET_SIZES = 4 };

typedef struct net_leaf {
    char name[32];
    bool is_input, is_state;
    double scale, offset; /* floats: offset + scale * [-1, 1) */
    uint32_t below;       /* whole numbers in [0, below); 0: floats */
    rp_tensor tensor;
    rp_buffer buffer; /* of the graph whose sizes are numbers */
    void *memory;     /* of a state: the buffer's values at the beginning of each run */
} net_leaf;

/* What a network is built with. */
typedef struct net {
    rp_graph *g;
    rp_dim T;
    int64_t k; /* 1; larger ones make widths larger, for timing by hand */
    net_leaf leaf[NET_LEAVES];
    uint32_t n_leaves;
    rp_tensor out[NET_OUTPUTS];
    uint32_t n_out;
} net;

rp_tensor net_input(net *n, const char *name, rp_shape shape, double scale);
rp_tensor net_ids(net *n, const char *name, rp_shape shape, uint32_t below);
rp_tensor net_weight(net *n, const char *name, rp_shape shape, double scale);
/* offset + scale * [-1, 1): norms, variances, decays. */
rp_tensor net_around(net *n, const char *name, rp_shape shape, double offset, double scale);
/* Memory that the graph writes; each run begins with the same values. */
rp_tensor net_state(net *n, const char *name, rp_shape shape, double scale);
void net_output(net *n, rp_tensor x);
/* "%s.%s" of two names, in a static buffer for the next call alone. */
const char *net_join(const char *a, const char *b);

typedef struct net_case {
    const char *name;
    void (*build)(net *n);
    int64_t sizes[NET_SIZES]; /* of T, up to the first 0 */
} net_case;

/* Fails the running test where something differs. */
void net_check(const net_case *c);
/* Builds, compiles and runs at levels 0 and 2 with widths times k and size T, and prints the times: for a person. */
void net_time(const net_case *c, int64_t k, int64_t T);

/* main of a program of networks: "PROGRAM time NAME K T" or all checks. */
int net_main(const net_case *cases, size_t n, int argc, char **argv);

#endif
