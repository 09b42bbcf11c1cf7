/* The limits of a manager: what goes when they do not hold, and which forms are not captured, since no graph of theirs would stay or be
 * replayed. */
#include <string.h>

#include "autograph/manager.h"
#include "base/alloc.h"
#include "base/log.h"

/* BARE: entries without a graph that are kept, which tell why there is none. PATIENCE: captures that were of no use, after which
 * others are only tried where they promise more. PAYS: replays that make up for a capture. IDLE: calls without one after which a
 * graph is given up, COOL: to a form that was HOT times among the last AUTOGRAPH_LATE without one. LOST: graphs of a form that were invalid
 * when they were wanted, after which it is tried once in PAUSE calls. */
enum {
    BARE = 1024,
    PATIENCE = 32,
    PAYS = 8,
    IDLE = 1 << 14,
    COOL = 1 << 10,
    HOT = 8,
    LOST = 4,
    PAUSE = 256
};

/* --- bytes --------------------------------------------------------------------------------- */

/* Without outputs that came back, which another thread may give at any time. */
static uint64_t own_bytes(const rp_autograph *a) {
    return autograph_taken_bytes(&a->graphs) + autograph_pool_bytes(&a->graphs) +
           autograph_pack_bytes(&a->pack);
}

uint64_t autograph_all_bytes(const rp_autograph *a) {
    return own_bytes(a) + autograph_cache_bytes(a->cache);
}

uint64_t autograph_room(const rp_autograph *a) {
    uint64_t used = a->o.max_bytes ? autograph_all_bytes(a) : 0;
    if (!a->o.max_bytes) return UINT64_MAX;
    return used < a->o.max_bytes ? a->o.max_bytes - used : 0;
}

static bool has_bytes(const rp_autograph *a, const autograph_entry *ring) {
    uint64_t need = ring ? autograph_ring_need(ring) : 0;
    return !a->o.max_bytes || autograph_all_bytes(a) + need <= a->o.max_bytes;
}

static uint64_t idle(const rp_autograph *a, const autograph_entry *e) {
    return a->calls - e->used;
}

static void evict(rp_autograph *a) {
    autograph_graphs *g = &a->graphs;
    const autograph_entry *e = g->oldest;
    base_log_ch(RP_LOG_CH_CUDAGRAPHS, false, "autograph: graph of %s is evicted", e->f->o.name);
    a->crowd.wasted += idle(a, e) < COOL && e->replays < PAYS;
    g->evicted++;
    autograph_entry_drop(g, g->oldest);
    a->crowd.full = g->n_graphs;
}

/* Outputs that come back are kept where there is room, at any time. */
void autograph_limit_cache(rp_autograph *a) {
    if (!a->o.max_bytes) return;
    uint64_t own = own_bytes(a);
    autograph_cache_limit(a->cache, own < a->o.max_bytes ? a->o.max_bytes - own : 1);
}

/* Never the newest, which was just made, or is to be replayed. */
bool autograph_keep_budget(rp_autograph *a, const autograph_entry *ring) {
    autograph_graphs *g = &a->graphs;
    autograph_graphs_trim(g, BARE);
    while (a->o.max_graphs && g->n_graphs > a->o.max_graphs && g->oldest != g->newest) evict(a);
    while (!has_bytes(a, ring)) {
        if (autograph_cache_empty(a->cache) || autograph_graphs_shrink(g)) continue;
        if (g->oldest == g->newest) break;
        evict(a);
    }
    autograph_limit_cache(a);
    return has_bytes(a, ring);
}

/* The newest graph is of no call now, and goes, too, where its slots became too large for it to stay. */
void autograph_give_back(rp_autograph *a, autograph_static *s) {
    if (s) (void)autograph_static_shrink(s);
    if (autograph_keep_budget(a, NULL) || !a->graphs.oldest) return;
    evict(a);
    (void)autograph_keep_budget(a, NULL);
}

/* --- forms --------------------------------------------------------------------------------- */

autograph_family *autograph_family_join(rp_autograph *a, const char *name) {
    size_t size = strlen(name) + 1;
    autograph_family *family = a->families;
    while (family && strcmp(family->name, name) != 0) family = family->next;
    if (!family) {
        family = base_alloc(sizeof *family + size);
        if (!family) return NULL;
        memcpy(family->name, name, size);
        family->next = a->families;
        a->families = family;
    }
    family->n_functions++;
    return family;
}

void autograph_family_leave(rp_autograph *a, autograph_family *family) {
    autograph_family **at = &a->families;
    if (--family->n_functions) return;
    while (*at != family) at = &(*at)->next;
    *at = family->next;
    base_free(family);
}

static bool was_seen(autograph_family *family, uint64_t hash) {
    uint32_t n = family->n_seen < AUTOGRAPH_SEEN ? family->n_seen : AUTOGRAPH_SEEN;
    for (uint32_t i = 0; i < n; i++)
        if (family->seen[i] == hash) return true;
    family->seen[family->n_seen++ % AUTOGRAPH_SEEN] = hash;
    return false;
}

/* Functions of one name that capture one form after the other, and replay none. */
static bool never_repeats(const rp_function *f, uint64_t hash) {
    return f->family->unreplayed >= PATIENCE && !was_seen(f->family, hash);
}

static bool is_hot(autograph_crowd *c, uint64_t hash) {
    uint32_t times = 0;
    for (uint32_t i = 0; i < AUTOGRAPH_LATE; i++) times += c->late[i] == hash;
    c->late[c->n_late++ % AUTOGRAPH_LATE] = hash;
    return times >= HOT;
}

/* Once graphs have driven out each other before they paid, those that are there stay as long as they are wanted. */
static bool is_crowded(rp_autograph *a, uint64_t hash) {
    const autograph_graphs *g = &a->graphs;
    if (a->crowd.wasted < PATIENCE || g->n_graphs < a->crowd.full || !g->oldest) return false;
    bool hot = is_hot(&a->crowd, hash);
    return idle(a, g->oldest) < (hot ? COOL : IDLE);
}

const char *autograph_form_reason(const rp_function *f, const autograph_entry *e, uint64_t hash) {
    if (f->a->o.growth == RP_GROWTH_EXACT) return NULL;
    if (e)
        return e->lost >= LOST && idle(f->a, e) < PAUSE
                   ? "its graphs are not replayed: what they call is bound anew, or memory of "
                     "theirs freed, between any two calls; it is captured now and then"
                   : NULL;
    if (never_repeats(f, hash))
        return "forms of this function have not come twice so far; this one is captured when it "
               "does";
    if (is_crowded(f->a, hash))
        return "more forms come than the limits of the manager leave room for; this one is "
               "captured when it comes often, or another no longer does";
    return NULL;
}
