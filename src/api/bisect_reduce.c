/* Makes a graph that shows a fault smaller, as long as it still shows one.
 *
 * Zeller and Hildebrandt's delta debugging ("Simplifying and isolating failure-inducing input", 2002) over outputs, over
 * nodes whose values become inputs, and over sizes. A smaller graph that fails in another way (it does not compile, or the interpreter
 * refuses it) does not count. */
#include <stdlib.h>
#include <string.h>

#include "api/bisect.h"
#include "base/alloc.h"
#include "base/status.h"

/* --- a candidate --------------------------------------------------------------------- */

/* A candidate: what fails in another way is none, as is any when there were enough. */
static rp_status is_wrong(api_search *s, const ir_graph *g, const char *sizes, api_difference *out,
                          rp_error *err) {
    rp_error why = {0};
    *out = (api_difference){0};
    if ((s->cut_short |= s->runs >= s->o.max_runs)) return RP_OK;
    rp_status st = api_search_run(s, g, sizes, out, &why);
    if (st == RP_OK) return RP_OK;
    *out = (api_difference){0};
    bool ends = st == RP_CANCELLED || st == RP_NOMEM;
    return ends ? rp_fail(err, st, "%s", why.text) : RP_OK;
}

rp_status api_search_sizes(const api_search *s, const ir_graph *g, char **out, rp_error *err) {
    const ir_dims *t = ir_graph_dims(g), *all = ir_graph_dims(s->g);
    base_buf b;
    base_buf_init(&b, 0);
    for (uint32_t i = 0; i < ir_dims_symbol_count(t); i++) {
        const char *name = ir_dims_symbol(t, i)->name;
        uint32_t k = ir_dims_find(all, name);
        if (k != UINT32_MAX)
            base_buf_printf(&b, "%s%s=%lld", b.len ? "," : "", name, (long long)s->sizes[k]);
    }
    rp_status st = base_buf_status(&b, err);
    if (st == RP_OK && !(*out = b.len ? base_buf_take(&b) : base_strdup("")))
        st = rp_fail(err, RP_NOMEM, "sizes");
    base_buf_done(&b);
    return st;
}

rp_status api_search_part(api_search *s, const api_part *p, api_wrong *w, bool *wrong,
                          rp_error *err) {
    api_wrong x = {0};
    rp_status st = RP_OK;
    *wrong = false;
    if (api_part_build(p, s->sizes, &x.graph, &x.from, NULL) != RP_OK) return RP_OK;
    RP_TRY_OUT(api_search_sizes(s, x.graph, &x.sizes, err));
    RP_TRY_OUT(is_wrong(s, x.graph, x.sizes, &x.worst, err));
    if ((*wrong = x.worst.found)) {
        api_wrong_done(w);
        *w = x;
        x = (api_wrong){0};
    }
out:
    api_wrong_done(&x);
    return st;
}

/* --- making a part smaller ---------------------------------------------------------- */

/* Tries to leave out roots [at, at + n). */
static rp_status drop_roots(api_search *s, api_part *p, uint32_t at, uint32_t n, api_wrong *w,
                            bool *dropped, rp_error *err) {
    api_part less = {p->g, p->cut, NULL, 0};
    less.roots = base_alloc_array(p->n_roots + 1u, sizeof *less.roots);
    if (!less.roots) return rp_fail(err, RP_NOMEM, "bisect");
    for (uint32_t i = 0; i < p->n_roots; i++)
        if (i < at || i >= at + n) less.roots[less.n_roots++] = p->roots[i];
    rp_status st = api_search_part(s, &less, w, dropped, err);
    if (st == RP_OK && *dropped) {
        memcpy(p->roots, less.roots, less.n_roots * sizeof *p->roots);
        p->n_roots = less.n_roots;
    }
    base_free(less.roots);
    return st;
}

static rp_status fewer_roots(api_search *s, api_part *p, api_wrong *w, rp_error *err) {
    for (uint32_t n = p->n_roots / 2; n > 0; n /= 2)
        for (uint32_t at = 0; at < p->n_roots && p->n_roots > 1;) {
            bool dropped = false;
            uint32_t size = n < p->n_roots ? n : p->n_roots - 1;
            RP_TRY(drop_roots(s, p, at, size, w, &dropped, err));
            if (!dropped) at += size;
        }
    return RP_OK;
}

/* Those that could be inputs, and are not. */
static uint32_t list_inner(const api_part *p, bool *needed, ir_ref *out) {
    uint32_t n = 0;
    api_part_needed(p, needed);
    for (uint32_t i = 0; i < p->n_roots; i++) needed[p->roots[i]] = false;
    for (ir_ref r = 0; r < ir_graph_count(p->g); r++)
        if (needed[r] && !p->cut[r] && api_part_can_cut(p->g, r)) out[n++] = r;
    return n;
}

static void set_cut(api_part *p, const ir_ref *r, uint32_t n, bool to) {
    for (uint32_t i = 0; i < n; i++) p->cut[r[i]] = to;
}

/* Inner nodes become inputs, in runs of ever fewer: first all of them. */
static rp_status cut_nodes(api_search *s, api_part *p, api_wrong *w, rp_error *err) {
    rp_status st = RP_OK;
    uint32_t count = ir_graph_count(p->g);
    bool *needed = base_alloc_array(count + 1u, sizeof *needed);
    ir_ref *inner = base_alloc_array(count + 1u, sizeof *inner);
    if (!needed || !inner) {
        st = rp_fail(err, RP_NOMEM, "bisect");
        goto out;
    }
    uint32_t n = list_inner(p, needed, inner);
    for (uint32_t size = n; size > 0; size = size > 1 ? (size + 1) / 2 : 0)
        for (uint32_t at = 0; at < n;) {
            bool wrong = false;
            uint32_t k = size < n - at ? size : n - at;
            set_cut(p, inner + at, k, true);
            RP_TRY_OUT(api_search_part(s, p, w, &wrong, err));
            if (!wrong) set_cut(p, inner + at, k, false);
            /* What is cut takes others along, which nothing needs then. */
            if (wrong)
                n = list_inner(p, needed, inner);
            else
                at += k;
        }
out:
    base_free(needed);
    base_free(inner);
    return st;
}

/* Every number of the text that is `from`, where sizes stand: within brackets. */
static rp_status replace_sizes(const char *text, long long from, long long to, char **out,
                               rp_error *err) {
    base_buf b;
    int depth = 0;
    base_buf_init(&b, 0);
    for (const char *at = text; *at;) {
        depth += *at == '[' ? 1 : *at == ']' ? -1 : 0;
        size_t n = strspn(at, "0123456789");
        bool word = n > 0 && at > text && strchr("[,*(+-/ ", at[-1]);
        if (word && depth > 0 && strtoll(at, NULL, 10) == from)
            base_buf_printf(&b, "%lld", to);
        else
            base_buf_add(&b, at, n ? n : 1);
        at += n ? n : 1;
    }
    base_buf_putc(&b, 0);
    rp_status st = base_buf_status(&b, err);
    if (st == RP_OK) *out = base_buf_take(&b);
    base_buf_done(&b);
    return st;
}

/* The largest number below `below` that stands within brackets; 0: none. */
static long long next_size(const char *text, long long below) {
    long long most = 0;
    int depth = 0;
    for (const char *at = text; *at;) {
        depth += *at == '[' ? 1 : *at == ']' ? -1 : 0;
        size_t n = strspn(at, "0123456789");
        long long v = n && n < 18 && depth > 0 ? strtoll(at, NULL, 10) : 0;
        if (v > most && v < below) most = v;
        at += n ? n : 1;
    }
    return most;
}

static rp_status try_text(api_search *s, const char *text, api_wrong *w, bool *wrong,
                          rp_error *err) {
    api_wrong x = {0};
    rp_status st = RP_OK;
    *wrong = false;
    if (ir_parse(text, strlen(text), &x.graph, NULL) != RP_OK) return RP_OK;
    if (ir_graph_count(x.graph) != ir_graph_count(w->graph)) goto out; /* some became equal */
    RP_TRY_OUT(is_wrong(s, x.graph, w->sizes, &x.worst, err));
    if ((*wrong = x.worst.found)) {
        ir_graph *old = w->graph;
        w->graph = x.graph;
        w->worst = x.worst;
        x.graph = old;
    }
out:
    api_wrong_done(&x);
    return st;
}

/* Sizes of the reduced graph, the largest first: as small as they can be. */
static rp_status smaller_sizes(api_search *s, api_wrong *w, rp_error *err) {
    static const long long small[] = {1, 2, 3, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096};
    rp_status st = RP_OK;
    char *text = NULL, *less = NULL;
    RP_TRY(ir_print_string(w->graph, &text, err));
    for (long long v = INT64_MAX; (v = next_size(text, v)) > 1;) {
        bool wrong = false;
        for (size_t i = 0; !wrong && i < sizeof small / sizeof *small && small[i] < v; i++) {
            RP_TRY_OUT(replace_sizes(text, v, small[i], &less, err));
            RP_TRY_OUT(try_text(s, less, w, &wrong, err));
            if (wrong) {
                base_free(text);
                text = less;
                less = NULL;
            }
            base_free(less);
            less = NULL;
        }
    }
out:
    base_free(text);
    base_free(less);
    return st;
}

static rp_status default_sizes(api_search *s, api_wrong *w, rp_error *err) {
    api_difference d;
    RP_TRY(is_wrong(s, w->graph, "", &d, err));
    if (!d.found) return RP_OK;
    w->worst = d;
    w->sizes[0] = 0;
    return RP_OK;
}

/* --- the whole ---------------------------------------------------------------------- */

rp_status api_search_reduce(api_search *s, api_part *p, api_wrong *w, rp_error *err) {
    RP_TRY(fewer_roots(s, p, w, err));
    RP_TRY(cut_nodes(s, p, w, err));
    w->origin = w->from[api_wrong_node(w)];
    RP_TRY(smaller_sizes(s, w, err));
    return *w->sizes ? default_sizes(s, w, err) : RP_OK;
}
