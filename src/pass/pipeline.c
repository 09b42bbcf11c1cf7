/* The pass table and its driver: run, verify, check the text round trip, dump. */
#include "pass/pipeline.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/str.h"
#include "pass/passes.h"

static const pass_info passes[] = {
    {"dce", "drop what neither an output nor an effect needs", pass_dce},
};

const pass_info *pass_table(uint32_t *n) {
    *n = sizeof passes / sizeof *passes;
    return passes;
}

#ifndef NDEBUG
/* Law 1: the text form loses nothing. */
static rp_status check_round_trip(const ir_graph *g, rp_error *err) {
    char *a = NULL, *b = NULL;
    ir_graph *again = NULL;
    rp_status st = RP_OK;
    RP_TRY_OUT(ir_print_string(g, &a, err));
    RP_TRY_OUT(ir_parse(a, strlen(a), &again, err));
    RP_TRY_OUT(ir_print_string(again, &b, err));
    if (strcmp(a, b) != 0) st = rp_fail(err, RP_INTERNAL, "print(parse(print(@%s))) differs", ir_graph_name(g));
out:
    base_free(a);
    base_free(b);
    ir_graph_free(again);
    return st;
}
#endif

static rp_status run_one(const pass_info *p, const ir_graph *in, ir_graph **out, rp_error *err) {
    ir_graph *g = NULL;
    RP_TRY(p->run(in, &g, err));
    rp_status st = ir_verify(g, err);
#ifndef NDEBUG
    if (st == RP_OK) st = check_round_trip(g, err);
#endif
    if (st != RP_OK) ir_graph_free(g);
    else *out = g;
    return st;
}

rp_status pass_run(const char *name, const ir_graph *in, ir_graph **out, rp_error *err) {
    const char *names[sizeof passes / sizeof *passes];
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        if (strcmp(passes[i].name, name) == 0) return run_one(&passes[i], in, out, err);
        names[i] = passes[i].name;
    }
    const char *near = base_str_nearest(name, names, sizeof passes / sizeof *passes);
    return rp_fail(err, RP_CONFIG, "no pass %s%s%s", name, near ? "; nearest: " : "", near ? near : "");
}

static rp_status dump(const ir_graph *g, const char *dir, const char *pass, rp_error *err) {
    char *text = NULL;
    base_buf path;
    char hex[33];
    base_buf_init(&path, 0);
    rp_status st = ir_print_string(g, &text, err);
    if (st == RP_OK) {
        base_hash_hex(base_hash(text, strlen(text)), hex);
        base_buf_printf(&path, "%s/after_%s_%.8s.ir", dir, pass, hex);
        st = base_buf_status(&path, err);
    }
    if (st == RP_OK) st = base_file_write_atomic(path.data, text, strlen(text), err);
    base_buf_done(&path);
    base_free(text);
    return st;
}

rp_status pass_run_all(const ir_graph *in, const char *dump_dir, ir_graph **out, rp_error *err) {
    ir_graph *g = NULL;
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        ir_graph *next = NULL;
        rp_status st = run_one(&passes[i], g ? g : in, &next, err);
        ir_graph_free(g);
        RP_TRY(st);
        g = next;
        if (!dump_dir) continue;
        st = dump(g, dump_dir, passes[i].name, err);
        if (st != RP_OK) {
            ir_graph_free(g);
            return st;
        }
    }
    *out = g;
    return RP_OK;
}

static uint32_t effect_number(const ir_graph *g, ir_ref r) {
    uint32_t n = 0;
    for (ir_ref i = 0; i < r; i++) n += ir_op_table(ir_node_at(g, i)->op)->kind == IR_KIND_EFFECT;
    return n;
}

rp_status pass_find_effect(const ir_graph *before, const ir_graph *after, ir_ref r, ir_ref *out, rp_error *err) {
    uint32_t want = effect_number(after, r), n = 0;
    for (ir_ref i = 0; i < ir_graph_count(before); i++) {
        if (ir_op_table(ir_node_at(before, i)->op)->kind != IR_KIND_EFFECT) continue;
        if (n++ == want) {
            *out = i;
            return RP_OK;
        }
    }
    return rp_fail(err, RP_INTERNAL, "effect %u of @%s was lost by a pass", want, ir_graph_name(after));
}
