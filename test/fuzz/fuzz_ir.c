/* Graphs as text from outside: any bytes are refused with one line, or obey
 * print(parse(print(g))) == print(g); small ones that verify are also interpreted. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "ir/eval.h"

#define CHECK(x) ((x) ? (void)0 : __builtin_trap())

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MAX_LEAVES 16
#define MAX_ELEMENTS 4096

/* Shape of r with every symbol at its least value; false when it is large. */
static bool leaf_value(const ir_graph *g, ir_ref r, const int64_t *symbols, ir_value *out) {
    const ir_node *n = ir_node_at(g, r);
    int64_t dim[IR_MAX_RANK], elements = 1;
    for (uint32_t i = 0; i < n->shape.rank; i++) {
        dim[i] = ir_dim_eval(ir_graph_dims(g), n->shape.dim[i], symbols);
        if (dim[i] < 0 || dim[i] > MAX_ELEMENTS || (elements *= dim[i] ? dim[i] : 1) > MAX_ELEMENTS)
            return false;
    }
    return !out || ir_random_value(n->dtype, dim, n->shape.rank, 4, r, out, NULL) == RP_OK;
}

/* Small, and without a loop, which may have no end. */
static bool ends_soon(const ir_graph *g) {
    const ir_graph *f;
    bool ok = ir_graph_size(g) < 256;
    for (ir_ref r = 0; ok && r < ir_graph_count(g); r++) {
        const ir_node *n = ir_node_at(g, r);
        ok = n->op != IR_while && n->op != IR_scan;
        for (uint32_t i = 0; ok && (f = ir_node_graph(n, i)); i++) ok = ends_soon(f);
    }
    return ok;
}

static void interpret(const ir_graph *g) {
    int64_t symbols[64];
    ir_value leaf[3][MAX_LEAVES] = {{{0}}}, out[MAX_LEAVES];
    uint32_t n_sym = ir_dims_symbol_count(ir_graph_dims(g));
    bool ok = n_sym <= 64 && ir_output_count(g) <= MAX_LEAVES && ends_soon(g);
    for (uint32_t i = 0; ok && i < n_sym; i++) {
        const ir_symbol *s = ir_dims_symbol(ir_graph_dims(g), i);
        symbols[i] = s->min + (s->divisor - s->min % s->divisor) % s->divisor;
    }
    for (ir_ref r = 0; ok && r < ir_graph_count(g); r++) ok = leaf_value(g, r, symbols, NULL);
    for (int k = 0; k < 3 && ok; k++) {
        ok = ir_leaf_count(g, (ir_leaf)k) <= MAX_LEAVES;
        for (uint32_t i = 0; ok && i < ir_leaf_count(g, (ir_leaf)k); i++)
            ok = leaf_value(g, ir_leaf_at(g, (ir_leaf)k, i), symbols, &leaf[k][i]);
    }
    if (ok && ir_eval(g, leaf[0], leaf[1], leaf[2], symbols, out, NULL) == RP_OK)
        for (uint32_t i = 0; i < ir_output_count(g); i++) ir_value_done(&out[i]);
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < MAX_LEAVES; i++) ir_value_done(&leaf[k][i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    size_t live = base_live();
    ir_graph *g = NULL, *h = NULL;
    rp_error err = {0};
    char *a = NULL, *b = NULL;
    if (ir_parse((const char *)data, size, &g, &err) == RP_OK) {
        CHECK(ir_print_string(g, &a, NULL) == RP_OK);
        CHECK(ir_parse(a, strlen(a), &h, &err) == RP_OK);
        CHECK(ir_print_string(h, &b, NULL) == RP_OK);
        CHECK(strcmp(a, b) == 0);
        if (ir_verify(g, NULL) == RP_OK) interpret(g);
    } else {
        CHECK(err.code != RP_OK && strncmp(err.text, "line ", 5) == 0 && !strchr(err.text, '\n'));
    }
    base_free(a);
    base_free(b);
    ir_graph_free(g);
    ir_graph_free(h);
    CHECK(base_live() == live);
    return 0;
}
