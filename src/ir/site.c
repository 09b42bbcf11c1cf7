/* The table of sites and the lists of nodes. A node's list holds pointers into the table, so passes carry them for nothing. */
#include "ir/site.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "ir/node.h"

struct ir_site_table {
    base_arena *arena;
    atomic_uint graphs;
    const ir_site **slot; /* open addressing; NULL = free */
    uint32_t n, n_slot;
    const ir_site *last; /* what was looked up last */
};

/* --- the table ---------------------------------------------------------------------- */

ir_site_table *ir_site_table_new(void) {
    base_arena *arena = base_arena_new();
    ir_site_table *t = arena ? base_arena_alloc(arena, sizeof *t) : NULL;
    if (!t) {
        base_arena_free(arena);
        return NULL;
    }
    t->arena = arena;
    atomic_init(&t->graphs, 1);
    return t;
}

ir_site_table *ir_site_table_share(ir_site_table *t) {
    atomic_fetch_add(&t->graphs, 1);
    return t;
}

void ir_site_table_done(ir_site_table *t) {
    if (t && atomic_fetch_sub(&t->graphs, 1) == 1) base_arena_free(t->arena);
}

static bool same_text(const char *a, const char *b) {
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool same_site(const ir_site *a, const ir_site *b) {
    return a->line == b->line && same_text(a->file, b->file) && same_text(a->call, b->call);
}

static uint32_t site_hash(const ir_site *s) {
    uint32_t h = 2166136261u ^ s->line;
    for (const char *p = s->file; p && *p; p++) h = (h ^ (unsigned char)*p) * 16777619u;
    for (const char *p = s->call; p && *p; p++) h = (h ^ (unsigned char)*p) * 16777619u;
    return h;
}

static bool grow(ir_site_table *t) {
    uint32_t n = t->n_slot ? t->n_slot * 2 : 64;
    const ir_site **slot = base_arena_array(t->arena, n, sizeof *slot);
    if (!slot) return false;
    for (uint32_t i = 0; i < t->n_slot; i++) {
        if (!t->slot[i]) continue;
        uint32_t at = site_hash(t->slot[i]) & (n - 1);
        while (slot[at]) at = (at + 1) & (n - 1);
        slot[at] = t->slot[i];
    }
    t->slot = slot;
    t->n_slot = n;
    return true;
}

static const ir_site *copy_site(ir_site_table *t, const ir_site *s) {
    ir_site *own = base_arena_alloc(t->arena, sizeof *own);
    if (!own) return NULL;
    *own = *s;
    if (s->file) own->file = base_arena_str(t->arena, s->file);
    if (s->call) own->call = base_arena_str(t->arena, s->call);
    return (s->file && !own->file) || (s->call && !own->call) ? NULL : own;
}

/* The one of equal sites; NULL when memory is exhausted. */
static const ir_site *intern(ir_site_table *t, const ir_site *s) {
    if (t->last && same_site(t->last, s)) return t->last;
    if (t->n * 2 >= t->n_slot && !grow(t)) return NULL;
    uint32_t at = site_hash(s) & (t->n_slot - 1);
    while (t->slot[at] && !same_site(t->slot[at], s)) at = (at + 1) & (t->n_slot - 1);
    if (!t->slot[at]) {
        t->slot[at] = copy_site(t, s);
        t->n += t->slot[at] != NULL;
    }
    return t->last = t->slot[at];
}

/* --- nodes ---------------------------------------------------------------------------- */

static bool link_site(ir_graph *g, ir_ref r, const ir_site *site) {
    ir_site_link **at = ir_graph_sites(g, r);
    uint32_t n = 0;
    for (; *at; at = &(*at)->next, n++)
        if ((*at)->site == site) return true;
    if (n >= IR_MOST_SITES) return true;
    *at = base_arena_alloc(ir_graph_arena(g), sizeof **at);
    if (*at) (*at)->site = site;
    return *at != NULL;
}

bool ir_site_add(ir_graph *g, ir_ref r, const ir_site *s) {
    ir_site_table **t = ir_graph_site_table(g);
    if (!*t) *t = ir_site_table_new();
    const ir_site *site = *t ? intern(*t, s) : NULL;
    return site && link_site(g, r, site);
}

bool ir_sites_join(ir_graph *g, ir_ref r, const ir_graph *from, ir_ref of) {
    ir_site_table **t = ir_graph_site_table(g);
    ir_site_table *of_from = *ir_graph_site_table((ir_graph *)(uintptr_t)from);
    const ir_site *s;
    if (!of_from) return true;
    if (!*t) *t = ir_site_table_share(of_from);
    if (*t != of_from) return true;
    for (uint32_t i = 0; (s = ir_site_at(from, of, i)); i++)
        if (!link_site(g, r, s)) return false;
    return true;
}

const ir_site *ir_site_at(const ir_graph *g, ir_ref r, uint32_t i) {
    const ir_site_link *l = *ir_graph_sites((ir_graph *)(uintptr_t)g, r);
    while (l && i-- > 0) l = l->next;
    return l ? l->site : NULL;
}

bool ir_has_sites(const ir_graph *g) {
    return *ir_graph_site_table((ir_graph *)(uintptr_t)g) != NULL;
}

/* --- texts ---------------------------------------------------------------------------- */

enum { MOST_PRINTED = 12 };

typedef struct site_list {
    const ir_site *at[MOST_PRINTED];
    uint32_t n, more;
} site_list;

static int order(const ir_site *a, const ir_site *b) {
    int file = strcmp(a->file, b->file);
    if (file != 0 || a->line != b->line) return file != 0 ? file : a->line < b->line ? -1 : 1;
    return strcmp(a->call ? a->call : "", b->call ? b->call : "");
}

static void enter(site_list *l, const ir_site *s) {
    uint32_t i = l->n;
    for (uint32_t k = 0; k < l->n; k++)
        if (l->at[k] == s) return;
    if (l->n == MOST_PRINTED) {
        l->more++;
        return;
    }
    for (; i > 0 && order(s, l->at[i - 1]) < 0; i--) l->at[i] = l->at[i - 1];
    l->at[i] = s;
    l->n++;
}

/* As it is, but for what would end a comment. */
static void put_file(const char *file, base_buf *out) {
    for (const char *p = file; *p; p++)
        base_buf_putc(out, *p == '*' || (unsigned char)*p < ' ' ? '?' : *p);
}

void ir_sites_print(const ir_graph *g, const ir_ref *nodes, uint32_t n, base_buf *out) {
    site_list l = {0};
    const ir_site *s;
    for (uint32_t i = 0; i < n && ir_has_sites(g); i++)
        for (uint32_t k = 0; (s = ir_site_at(g, nodes[i], k)); k++)
            if (s->file) enter(&l, s);
    for (uint32_t i = 0; i < l.n; i++) {
        if (i) base_buf_puts(out, ", ");
        put_file(l.at[i]->file, out);
        base_buf_printf(out, ":%u", l.at[i]->line);
        if (l.at[i]->call) base_buf_printf(out, " %s", l.at[i]->call);
    }
    if (l.more) base_buf_puts(out, ", ...");
}

void ir_sites_list(const ir_graph *g, base_buf *out) {
    uint32_t number = 0;
    for (ir_ref r = 0; r < ir_graph_count(g) && ir_has_sites(g); r++) {
        const ir_node *n = ir_node_at(g, r);
        const ir_site *s = ir_site_at(g, r, 0);
        if (s && s->file) {
            if (n->op == IR_input)
                base_buf_printf(out, "%%%s : ", n->name);
            else
                base_buf_printf(out, "%%%u : ", number);
            ir_sites_print(g, &r, 1, out);
            base_buf_putc(out, '\n');
        }
        number += n->op != IR_input;
    }
}

void ir_site_put(const ir_site *s, rp_error *err) {
    char text[sizeof err->text];
    int n = s->file ? snprintf(text, sizeof text, "%s:%u: ", s->file, s->line)
                    : snprintf(text, sizeof text, "line %u: ", s->line);
    if (n < 0 || (size_t)n >= sizeof text / 2 || err->code == RP_OK) return;
    if (strncmp(err->text, text, (size_t)n) == 0) return;
    (void)snprintf(text + n, sizeof text - (size_t)n, "%s", err->text);
    memcpy(err->text, text, sizeof text);
}

void ir_site_blame(const ir_graph *g, ir_ref r, rp_error *err) {
    const ir_site *s = err && ir_has_sites(g) ? ir_site_at(g, r, 0) : NULL;
    if (s) ir_site_put(s, err);
}
