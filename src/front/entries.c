/* The entries of a function: which one serves a call.
 *
 * The one that served the call before is tried first, then the one that had such words before, by their hash, then all. Guards are checked in any
 * case: what is remembered is a guess. A look-up moves no entry; when each was used last says which comes first where several serve, and the list is put in
 * that order when somebody reads it. */
#include "front/front.h"
#include "front/limits.h"

/* The i-th place where what has this hash may be. */
static front_memo *memo_at(rp_jit *f, uint64_t hash, uint32_t i) {
    return &f->memo[((hash >> 48) + i) % FRONT_MEMO];
}

/* With many entries none of it is in the nearest cache, and each would be found by what was read before. */
static void fetch(const front_memo *m, uint32_t n) {
    enum { LINE = 64 / sizeof *m->want };
    __builtin_prefetch(m->entry, 1);
    for (uint32_t i = 0; i < n; i += LINE) __builtin_prefetch(m->want + i);
}

static front_entry *recall(rp_jit *f, const front_args *a) {
    for (uint32_t i = 0; i < FRONT_MEMO_NEAR; i++) {
        const front_memo *m = memo_at(f, a->hash, i);
        if (m->hash != a->hash || !m->entry) continue;
        fetch(m, a->n);
        if (front_guards_hold(&m->entry->guards, a)) return m->entry;
    }
    return NULL;
}

static void memorize(rp_jit *f, uint64_t hash, front_entry *e) {
    uint32_t i = 0;
    for (; i < FRONT_MEMO_NEAR; i++) {
        const front_memo *m = memo_at(f, hash, i);
        if (!m->entry || m->hash == hash) break;
    }
    if (i == FRONT_MEMO_NEAR) i = f->memo_next++ % FRONT_MEMO_NEAR;
    *memo_at(f, hash, i) = (front_memo){hash, e, e->guards.want};
}

/* Among all, the one that was used last. */
static front_entry *search(const rp_jit *f, const front_args *a) {
    front_entry *best = NULL;
    for (front_entry *e = f->entries; e; e = e->behind)
        if ((!best || e->used > best->used) && front_guards_hold(&e->guards, a)) best = e;
    return best;
}

/* By lock. */
static front_entry *look_up(rp_jit *f, const front_args *a) {
    if (!f->last) return NULL;
    if (front_guards_hold(&f->last->guards, a)) return f->last;
    front_entry *e = recall(f, a);
    if (!e && (e = search(f, a))) memorize(f, a->hash, e);
    if (!e) return NULL;
    e->used = ++f->uses;
    return f->last = e;
}

front_entry *front_entry_find(rp_jit *f, const front_args *a) {
    __builtin_prefetch(memo_at(f, a->hash, 0)); /* nothing passes the lock */
    (void)pthread_mutex_lock(&f->lock);
    front_entry *e = look_up(f, a);
    if (e) e->found++;
    (void)pthread_mutex_unlock(&f->lock);
    return e;
}

bool front_entry_serves(rp_jit *f, front_entry *e, const front_args *a) {
    (void)pthread_mutex_lock(&f->lock);
    bool serves = !e->dropped && front_guards_hold(&e->guards, a);
    (void)pthread_mutex_unlock(&f->lock);
    return serves;
}

/* --- references ------------------------------------------------------------------------------- */

/* What the list holds of an entry is more than all that look-ups will ever give: those are counted without an atomic operation, by the lock that
 * they have, and set off when it leaves the list. Who gives one back has no lock. */
static const int64_t listed = INT64_C(1) << 62;

static void list_ref(front_entry *e) {
    e->found = 0;
    (void)atomic_fetch_add_explicit(&e->refs, listed, memory_order_relaxed);
}

/* By lock. The reference that is left is the caller's. */
static void unlist_ref(front_entry *e) {
    (void)atomic_fetch_add_explicit(&e->refs, e->found + 1 - listed, memory_order_acq_rel);
}

/* --- the list --------------------------------------------------------------------------------- */

static void put_behind(rp_jit *f, front_entry *e, front_entry *before) {
    front_entry **at = before ? &before->behind : &f->entries;
    e->before = before;
    e->behind = *at;
    if (*at) (*at)->before = e;
    *at = e;
}

static void take_off(rp_jit *f, front_entry *e) {
    *(e->before ? &e->before->behind : &f->entries) = e->behind;
    if (e->behind) e->behind->before = e->before;
}

static bool is_listed(const rp_jit *f, const front_entry *e) {
    const front_entry *x = f->entries;
    while (x && x != e) x = x->behind;
    return x != NULL;
}

/* A symbol, or one that was until something was asked of it. */
static bool was_symbol(const front_solver *s, uint32_t word) {
    uint32_t i = 0;
    while (i < s->n_symbols && s->symbol[i].word != word) i++;
    return i < s->n_symbols && !s->symbol[i].literal;
}

static bool is_alike(const front_guards *g, const front_args *a) {
    if (g->n != a->n) return false;
    for (uint32_t i = 0; i < g->n; i++)
        if (g->want[i] != a->word[i] && !was_symbol(&g->sizes, i)) return false;
    return true;
}

bool front_has_general(const rp_jit *f, const front_args *a) {
    const front_entry *e = f->entries;
    while (e && !(e->general && is_alike(&e->guards, a))) e = e->behind;
    return e != NULL;
}

void front_entries_order(rp_jit *f) {
    for (front_entry *e = f->entries, *next; e; e = next) {
        front_entry *before = e->before;
        next = e->behind;
        while (before && before->used < e->used) before = before->before;
        if (before == e->before) continue;
        take_off(f, e);
        put_behind(f, e, before);
    }
}

void front_entry_add(rp_jit *f, front_entry *e) {
    list_ref(e);
    (void)pthread_mutex_lock(&f->lock);
    put_behind(f, e, NULL);
    e->used = ++f->uses;
    f->last = e;
    f->n_entries++;
    f->n_general += e->general;
    f->n_counted += e->counted;
    (void)pthread_mutex_unlock(&f->lock);
}

/* Nothing may name it. */
static void forget(rp_jit *f, const front_entry *e) {
    for (uint32_t i = 0; i < FRONT_MEMO; i++)
        if (f->memo[i].entry == e) f->memo[i].entry = NULL;
    if (f->last != e) return;
    front_entries_order(f);
    f->last = f->entries;
}

void front_entry_drop(rp_jit *f, front_entry *e) {
    (void)pthread_mutex_lock(&f->lock);
    bool there = is_listed(f, e);
    if (there) {
        e->dropped = true;
        f->n_entries--;
        f->n_general -= e->general;
        f->n_counted -= e->counted;
        take_off(f, e);
        forget(f, e);
        unlist_ref(e);
    }
    (void)pthread_mutex_unlock(&f->lock);
    if (!there) return;
    front_limits_add(f->fn, -1);
    front_entry_unref(e);
}

void front_entries_clear(rp_jit *f) {
    for (front_entry *e = f->entries, *behind; e; e = behind) {
        behind = e->behind;
        unlist_ref(e);
        front_entry_unref(e);
    }
    f->entries = f->last = NULL;
    f->n_entries = f->n_general = f->n_counted = 0;
    memset(f->memo, 0, sizeof f->memo);
}
