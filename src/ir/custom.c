/* Registry of custom ops and the names under which users know splitting ops.
 *
 * Descriptors sit in a fixed table that only grows: a reader sees the count first (acquire), then
 * entries that never change, so lookups need no lock. Nothing is ever unregistered. */
#include "ir/custom.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/options.h"
#include "base/status.h"
#include "ir/node.h"
#include "ir/op_attrs.h"

#define MAX_CUSTOM 256
#define MAX_THREADS 1024
#define MAX_CANONICAL (IR_MAX_NAME + 1)

typedef struct entry {
    rp_op_desc desc;
    char name[MAX_CANONICAL];
} entry;

static entry table[MAX_CUSTOM];
static atomic_uint n_table;
static atomic_flag table_lock = ATOMIC_FLAG_INIT;
/* Those that split by default. */
static const char *splitting[MAX_CUSTOM];
static atomic_uint n_splitting;

/* Names of other systems for what is one op here. */
static const struct {
    const char *name, *canonical;
} alias[] = {
    {"aiter::unified_attention_with_output", "reprise::attention"},
    {"aiter::unified_attention", "reprise::attention"},
    {"aiter::mla_attention", "reprise::mla_attention"},
    {"vllm::unified_attention_with_output", "reprise::attention"},
    {"vllm::unified_attention", "reprise::attention"},
    {"vllm::unified_mla_attention_with_output", "reprise::mla_attention"},
    {"vllm::unified_mla_attention", "reprise::mla_attention"},
    {"vllm::unified_kv_cache_update", "reprise::kv_store"},
    {"vllm::unified_mla_kv_cache_update", "reprise::mla_kv_store"},
    {"vllm::mamba_mixer2", "reprise::mamba_mixer2"},
    {"vllm::mamba_mixer", "reprise::mamba_mixer"},
    {"vllm::short_conv", "reprise::short_conv"},
    {"vllm::linear_attention", "reprise::linear_attention"},
    {"vllm::qwen_gdn_attention_core", "reprise::gdn_attention_core"},
    {"vllm::gdn_attention_core_xpu", "reprise::gdn_attention_core"},
    {"vllm::olmo_hybrid_gdn_full_forward", "reprise::gdn_full_forward"},
    {"vllm::sparse_attn_indexer", "reprise::sparse_attn_indexer"},
    {"vllm::rocm_aiter_sparse_attn_indexer", "reprise::sparse_attn_indexer"},
    {"vllm::deepseek_v4_attention", "reprise::deepseek_v4_attention"},
    {"vllm::hpc_rope_norm_forward", "reprise::hpc_rope_norm_forward"},
};

const rp_op_desc *ir_custom_find(const char *name) {
    unsigned n = atomic_load_explicit(&n_table, memory_order_acquire);
    for (unsigned i = 0; i < n; i++)
        if (strcmp(table[i].name, name) == 0) return &table[i].desc;
    return ir_custom_own(name);
}

const rp_op_desc *ir_custom_of(const ir_node *n) {
    const ir_attr *name = n->op == IR_custom ? ir_attr_get(n, IR_ATTR_NAME) : NULL;
    return name ? ir_custom_find(name->u.s) : NULL;
}

const rp_op_desc *ir_custom_at(uint32_t i) {
    return i < atomic_load_explicit(&n_table, memory_order_acquire) ? &table[i].desc : NULL;
}

uint32_t ir_custom_results(const rp_op_desc *d) {
    return d->n_results ? d->n_results : 1;
}

static rp_status check_functions(const rp_op_desc *d, rp_error *err) {
    if (d->shape && d->result_like >= 0)
        return rp_fail(err, RP_INVALID,
                       "custom op %s: its result is like operand %d; it takes no shape function",
                       d->name, d->result_like);
    if (d->lower && d->mutates)
        return rp_fail(err, RP_UNSUPPORTED,
                       "custom op %s mutates operands; only one that writes nothing can be lowered",
                       d->name);
    return RP_OK;
}

/* The text of rp_op. */
static rp_status check_sources(const rp_op_desc *d, rp_error *err) {
    const char *texts[] = {d->c_source, d->cuda_source};
    for (int i = 0; i < 2; i++)
        if (texts[i] && !strstr(texts[i], "rp_op"))
            return rp_fail(err, RP_INVALID, "custom op %s: its source has no function rp_op",
                           d->name);
    if ((unsigned)d->items >= RP_OP_ITEMS_COUNT_ || d->threads > MAX_THREADS)
        return rp_fail(err, RP_INVALID, "custom op %s: %u threads of items %d; at most %d threads",
                       d->name, d->threads, (int)d->items, MAX_THREADS);
    return RP_OK;
}

/* Words of the entry's name are its own: `.entry scale(`. */
static bool has_entry(const char *ptx, const char *name) {
    const size_t n = strlen(name);
    for (const char *at = strstr(ptx, ".entry"); at; at = strstr(at + 1, ".entry")) {
        const char *word = at + 6 + strspn(at + 6, " \t\r\n");
        if (n > 0 && strncmp(word, name, n) == 0 && word[n] && strchr(" \t\r\n(", word[n]))
            return true;
    }
    return false;
}

static rp_status check_ptx(const rp_op_desc *d, rp_error *err) {
    if (!d->ptx && !d->ptx_entry) return RP_OK;
    if (!d->ptx || !d->ptx_entry || d->cuda_source)
        return rp_fail(err, RP_INVALID,
                       "custom op %s: ptx and ptx_entry come together, in the place of cuda_source",
                       d->name);
    if (!has_entry(d->ptx, d->ptx_entry))
        return rp_fail(err, RP_INVALID, "custom op %s: its PTX has no .entry %s", d->name,
                       d->ptx_entry);
    if (!strstr(d->ptx, "griddepcontrol.wait"))
        return rp_fail(err, RP_INVALID,
                       "custom op %s: its PTX has no griddepcontrol.wait (.target sm_90), without "
                       "which it may run before the kernel ahead of it has ended; put it first",
                       d->name);
    for (uint32_t i = 0; i < d->n_attrs; i++)
        if (d->attrs[i].kind != RP_OP_I64 && d->attrs[i].kind != RP_OP_F64)
            return rp_fail(err, RP_INVALID,
                           "custom op %s: PTX gets attributes that are numbers; '%s' is another "
                           "kind",
                           d->name, d->attrs[i].name);
    return RP_OK;
}

static rp_status check_desc(const rp_op_desc *d, rp_error *err) {
    if (!d->name) return rp_fail(err, RP_INVALID, "rp_op_register: name is NULL");
    if (!ir_custom_name_ok(d->name))
        return rp_fail(
            err, RP_INVALID,
            "custom op name '%.80s' is not of the form namespace::name (letters, digits, _ . -)",
            d->name);
    if (ir_custom_own(d->name) ||
        (strncmp(d->name, "reprise::", 9) == 0 && ir_op_find(d->name + 9) != IR_OP_COUNT_))
        return rp_fail(err, RP_INVALID, "custom op name '%s' is a built-in op's; choose another",
                       d->name);
    if (d->result_like >= 64)
        return rp_fail(err, RP_INVALID,
                       "custom op %s: result_like %d; an op has at most 64 operands", d->name,
                       d->result_like);
    if (d->n_results > (d->result_like >= 0 ? 1 : IR_MAX_RESULTS))
        return rp_fail(err, RP_INVALID,
                       "custom op %s: %u results; one that is like an operand has 1, others at "
                       "most %u",
                       d->name, d->n_results, IR_MAX_RESULTS);
    RP_TRY(ir_op_attrs_check_schema(d, err));
    RP_TRY(check_sources(d, err));
    RP_TRY(check_ptx(d, err));
    return check_functions(d, err);
}

static rp_status add_locked(const rp_op_desc *d, rp_error *err) {
    unsigned n = atomic_load(&n_table), m = atomic_load(&n_splitting);
    if (ir_custom_find(d->name))
        return rp_fail(err, RP_INVALID, "custom op '%s' is registered already", d->name);
    if (n == MAX_CUSTOM) return rp_fail(err, RP_UNSUPPORTED, "more than %d custom ops", MAX_CUSTOM);
    entry *e = &table[n];
    e->desc = *d;
    memcpy(e->name, d->name, strlen(d->name) + 1);
    e->desc.name = e->name;
    if (d->splitting) {
        splitting[m] = e->name;
        atomic_store_explicit(&n_splitting, m + 1, memory_order_release);
    }
    atomic_store_explicit(&n_table, n + 1, memory_order_release);
    return RP_OK;
}

rp_status rp_op_register(const rp_op_desc *desc, rp_error *err) {
    base_error_clear(err);
    rp_op_desc own = {0};
    RP_TRY(base_options_take(&own, sizeof own, desc, "rp_op_desc", err));
    RP_TRY(check_desc(&own, err));
    while (atomic_flag_test_and_set_explicit(&table_lock, memory_order_acquire)) {
    }
    rp_status st = add_locked(&own, err);
    atomic_flag_clear_explicit(&table_lock, memory_order_release);
    return st;
}

static int by_name(const void *a, const void *b) {
    const rp_op_desc *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static void put_source(const rp_op_desc *d, const char *language, const char *text, base_buf *out) {
    char hex[33];
    if (!text) return;
    base_hash_hex(base_hash(text, strlen(text)), hex);
    base_buf_printf(out, "%s %s %d %u %s %s\n", d->name, language, (int)d->items, d->threads, hex,
                    text == d->ptx ? d->ptx_entry : "rp_op");
}

void ir_custom_sources(base_buf *out) {
    const rp_op_desc *all[MAX_CUSTOM], *d;
    uint32_t n = 0;
    while (n < MAX_CUSTOM && (d = ir_custom_at(n)) != NULL) all[n++] = d;
    if (n > 0) qsort(all, n, sizeof *all, by_name);
    for (uint32_t i = 0; i < n; i++) {
        put_source(all[i], "c", all[i]->c_source, out);
        put_source(all[i], "cuda", all[i]->cuda_source, out);
        put_source(all[i], "ptx", all[i]->ptx, out);
    }
}

rp_op_call ir_custom_call_of(const rp_op_desc *d, const rp_op_attr *attrs, uint32_t n_in) {
    return (rp_op_call){.size = sizeof(rp_op_call),
                        .name = d->name,
                        .user = d->user,
                        .attrs = attrs,
                        .n_attrs = d->n_attrs,
                        .n_in = n_in,
                        .n_results = ir_custom_results(d)};
}

rp_op_call ir_custom_call_at(const rp_op_desc *d, const ir_node *n) {
    const ir_attr *a = ir_attr_get(n, IR_ATTR_ATTRS);
    return ir_custom_call_of(d, a ? a->u.values : NULL, n->n_in);
}

rp_status ir_custom_run(const rp_op_desc *d, const rp_op_call *call, rp_buffer *args,
                        rp_error *err) {
    rp_error own = {0}; /* theirs to fill also where the caller wants none */
    rp_status st = d->cpu(call, args, call->n_in + call->n_results, &own);
    if (st == RP_OK) return st;
    if (!own.text[0])
        return rp_fail(err, st, "custom op %s failed (%s) and gave no reason", d->name,
                       rp_status_name(st));
    return strstr(own.text, d->name) ? rp_fail(err, st, "%s", own.text)
                                     : rp_fail(err, st, "custom op %s: %s", d->name, own.text);
}

bool ir_splitting_name(const char *name, char *out, size_t size) {
    char s[MAX_CANONICAL];
    size_t n = strlen(name), sep = 0, skip = 2;
    if (n > 8 && strcmp(name + n - 8, ".default") == 0) n -= 8;
    const char *colons = strstr(name, "::");
    if (colons && colons < name + n) {
        sep = (size_t)(colons - name);
    } else {
        const char *dot = memchr(name, '.', n);
        sep = dot ? (size_t)(dot - name) : 0;
        skip = 1;
    }
    if (sep == 0 || sep + skip >= n || n + 2 > sizeof s) return false;
    memcpy(s, name, sep);
    memcpy(s + sep, "::", 2);
    memcpy(s + sep + 2, name + sep + skip, n - sep - skip);
    s[n - skip + 2] = 0;
    const char *canonical = s;
    for (size_t i = 0; i < sizeof alias / sizeof alias[0]; i++)
        if (strcmp(alias[i].name, s) == 0) canonical = alias[i].canonical;
    n = strlen(canonical);
    if (n + 1 > size) return false;
    memcpy(out, canonical, n + 1);
    return true;
}

bool ir_is_splitting(const ir_node *n, const char *const *ops, uint32_t n_ops) {
    char want[MAX_CANONICAL], own[MAX_CANONICAL];
    const ir_attr *name = n->op == IR_custom ? ir_attr_get(n, IR_ATTR_NAME) : NULL;
    const char *op = ir_op_table(n->op)->name;
    /* A registered op may carry an alias's name; both sides become canonical. */
    if (name) {
        if (!ir_splitting_name(name->u.s, own, sizeof own)) return false;
    } else {
        memcpy(own, "reprise::", 9);
        memcpy(own + 9, op, strlen(op) + 1);
    }
    for (uint32_t i = 0; i < n_ops; i++)
        if (ir_splitting_name(ops[i], want, sizeof want) && strcmp(want, own) == 0) return true;
    return false;
}

const char *const *ir_registered_splitting_ops(uint32_t *n) {
    *n = atomic_load_explicit(&n_splitting, memory_order_acquire);
    return splitting;
}

bool ir_graph_splits_at(const ir_graph *g, const char *op) {
    for (uint32_t i = 0; i < ir_graph_count(g); i++)
        if (ir_is_splitting(ir_node_at(g, i), &op, 1)) return true;
    return false;
}
