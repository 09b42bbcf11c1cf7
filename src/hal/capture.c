/* What a capture of a queue knows: what launches may point to, what was written, the first failure; and, on devices whose memory is
 * the host's, the launches, copies and fills themselves, which become the list of a graph. A GPU's driver keeps its own.
 *
 * Each noted list is audited at once, so that the call that brought a bad address is the one that fails. The first failure spoils
 * the capture. Copies and fills become kernels over bytes. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "hal/device.h"

enum { BYTES_GRAIN = 64 << 10 };

/* One noted list; its launches follow. */
typedef struct noted {
    struct noted *next;
    size_t size;
    uint32_t n;
    _Alignas(16) char list[];
} noted;

/* A list of HAL_LISTS whose turns are the noted lists. Replays of a queue run one at a time, so it can keep its place. */
struct hal_body {
    hal_body *next, *up;
    noted *first, **last, *at;
    hal_branch kind;
};

/* Addresses that stand for others. */
typedef struct meaning {
    uintptr_t begin, end, real;
} meaning;

struct hal_capture {
    bool keeps; /* the lists */
    noted *first, **last;
    hal_body *bodies, *inside; /* all, and the innermost that is being noted */
    uint32_t n;
    size_t scratch;
    hal_ranges *allowed, *wrote;
    const hal_device *forbidden; /* or NULL */
    hal_used *used;              /* n_used of cap_used */
    uint32_t n_used, cap_used;
    meaning *means; /* n_means */
    uint32_t n_means;
    rp_error failure; /* code RP_OK: none */
};

static void noted_free(noted *at) {
    for (noted *next; at; at = next) {
        next = at->next;
        base_free(at);
    }
}

void hal_bodies_free(hal_body *b) {
    for (hal_body *next; b; b = next) {
        next = b->next;
        noted_free(b->first);
        base_free(b);
    }
}

size_t hal_bodies_bytes(const hal_body *b) {
    size_t sum = 0;
    for (; b; b = b->next) {
        sum += sizeof *b;
        for (const noted *at = b->first; at; at = at->next) sum += at->size;
    }
    return sum;
}

static void capture_free(hal_capture *c) {
    if (!c) return;
    noted_free(c->first);
    hal_bodies_free(c->bodies);
    hal_ranges_free(c->allowed);
    hal_ranges_free(c->wrote);
    base_free(c->used);
    base_free(c->means);
    base_free(c);
}

hal_ranges *hal_capture_allowed(const hal_device *d) {
    return d->capture ? d->capture->allowed : NULL;
}

void hal_capture_forbid(hal_device *d, const hal_device *other) {
    d->capture->forbidden = other;
}

const hal_device *hal_capture_forbidden(const hal_device *d) {
    return d->capture ? d->capture->forbidden : NULL;
}

rp_status hal_capture_begin(hal_device *d, rp_error *err) {
    if (!d->ops->capture_begin)
        return rp_fail(err, RP_UNSUPPORTED, "device %s cannot capture calls", d->ops->name);
    return d->ops->capture_begin(d, err);
}

rp_status hal_capture_end(hal_device *d, const char *label, hal_graph **out, uint32_t *out_n,
                          rp_error *err) {
    if (!d->ops->capture_end)
        return rp_fail(err, RP_UNSUPPORTED, "device %s cannot capture calls", d->ops->name);
    return d->ops->capture_end(d, label, out, out_n, err);
}

rp_status hal_note_open(hal_device *d, bool keeps, rp_error *err) {
    if (d->capture) return rp_fail(err, RP_INVALID, "a capture is under way on this queue");
    hal_capture *c = base_alloc(sizeof *c);
    if (c) c->allowed = hal_ranges_new();
    if (c) c->wrote = hal_ranges_new();
    if (!c || !c->allowed || !c->wrote) {
        capture_free(c);
        return rp_fail(err, RP_NOMEM, "no memory for a capture");
    }
    c->keeps = keeps;
    c->last = &c->first;
    d->capture = c;
    return RP_OK;
}

rp_status hal_note_begin(hal_device *d, rp_error *err) {
    return hal_note_open(d, true, err);
}

void hal_capture_spoil(hal_device *d, const rp_error *why) {
    if (d->capture && d->capture->failure.code == RP_OK) d->capture->failure = *why;
}

rp_status hal_note_used(hal_device *d, hal_used range, rp_error *err) {
    hal_capture *c = d->capture;
    if (!c) return RP_OK;
    for (uint32_t i = c->n_used; i-- > 0;)
        if (c->used[i].serial == range.serial) return RP_OK;
    if (c->n_used == c->cap_used) {
        uint32_t cap = c->cap_used ? c->cap_used * 2 : 16;
        hal_used *used = base_realloc_array(c->used, cap, sizeof *used);
        if (!used) return rp_fail(err, RP_NOMEM, "no memory to note what launches use");
        c->used = used;
        c->cap_used = cap;
    }
    c->used[c->n_used++] = range;
    return RP_OK;
}

rp_status hal_capture_used(hal_device *d, hal_used **out, uint32_t *n, rp_error *err) {
    const hal_capture *c = d->capture;
    if (d->ops->capture_scan) RP_TRY(d->ops->capture_scan(d, err));
    hal_used *copy = base_alloc_array(c->n_used + 1u, sizeof *copy);
    if (!copy) return rp_fail(err, RP_NOMEM, "no memory for what a graph uses");
    for (uint32_t i = 0; i < c->n_used; i++) copy[i] = c->used[i];
    *out = copy;
    *n = c->n_used;
    return RP_OK;
}

rp_status hal_note_failed(hal_device *d, rp_status st, const rp_error *why, rp_error *err) {
    hal_capture_spoil(d, why);
    return rp_fail(err, st, "%s", why->text);
}

rp_status hal_capture_allow(hal_device *d, const void *p, size_t size, const char *what,
                            rp_error *err) {
    return hal_ranges_join(d->capture->allowed, p, size, what, err);
}

rp_status hal_capture_mean(hal_device *d, const void *p, size_t size, const void *real,
                           rp_error *err) {
    hal_capture *c = d->capture;
    uintptr_t begin = (uintptr_t)p;
    if (size == 0) size = 1; /* an empty tensor has an address, too */
    meaning *more = base_realloc_array(c->means, c->n_means + 1u, sizeof *more);
    if (!more) return rp_fail(err, RP_NOMEM, "no memory for what addresses mean");
    c->means = more;
    more[c->n_means++] = (meaning){begin, begin + size, (uintptr_t)real};
    return hal_capture_allow(d, real, size, "memory of a call", err);
}

rp_status hal_capture_wrote(hal_device *d, const void *p, size_t size, rp_error *err) {
    return hal_ranges_join(d->capture->wrote, p, size, "written", err);
}

bool hal_capture_has_written(const hal_device *d, const void *p, size_t size) {
    return hal_ranges_cover(d->capture->wrote, p, size);
}

bool hal_capture_touched(const hal_device *d, const void *p, size_t size) {
    return hal_ranges_meet(d->capture->wrote, p, size);
}

rp_status hal_refuse_captured(hal_device *d, const char *what, rp_error *err) {
    rp_error why = {0};
    rp_status st =
        rp_fail(&why, RP_INVALID, "%s while calls are captured, which cannot be replayed", what);
    return hal_note_failed(d, st, &why, err);
}

static void *meant(const hal_capture *c, void *p) {
    uintptr_t at = (uintptr_t)p;
    for (uint32_t i = 0; i < c->n_means; i++)
        if (c->means[i].begin <= at && at < c->means[i].end)
            return (void *)(c->means[i].real + (at - c->means[i].begin));
    return p;
}

/* With the addresses that are meant. Sizes of arguments are borrowed. */
static rp_status note_new(const hal_capture *c, const hal_launch *list, uint32_t n, noted **out,
                          rp_error *err) {
    size_t size = 0;
    noted *one = NULL;
    if (hal_list_bytes(list, n, &size) && base_add_size(size, sizeof *one, &size))
        one = base_alloc_aligned(size, 16);
    if (!one) return rp_fail(err, RP_NOMEM, "no memory to note %u launches", n);
    hal_launch *copy = hal_list_copy(one->list, list, n);
    for (uint32_t i = 0; i < n; i++) {
        void **arg = (void **)(uintptr_t)copy[i].arg;
        for (uint32_t a = 0; a < copy[i].n_arg; a++) arg[a] = meant(c, arg[a]);
        copy[i].arg_size = list[i].arg_size;
    }
    one->n = n;
    one->size = size;
    *out = one;
    return RP_OK;
}

static void add(hal_capture *c, noted *one, size_t scratch) {
    noted ***last = c->inside ? &c->inside->last : &c->last;
    hal_launch *list = (hal_launch *)one->list;
    for (uint32_t i = 0; i < one->n; i++) list[i].arg_size = NULL;
    **last = one;
    *last = &one->next;
    if (scratch > c->scratch) c->scratch = scratch;
}

static rp_status audit_and_add(hal_device *d, const hal_launch *list, uint32_t n, size_t scratch,
                               rp_error *err) {
    hal_capture *c = d->capture;
    noted *one = NULL;
    if (c->keeps) RP_TRY(note_new(c, list, n, &one, err));
    rp_status st = hal_audit(d, one ? (const hal_launch *)one->list : list, n, err);
    if (st != RP_OK) {
        noted_free(one);
        return st;
    }
    for (uint32_t i = 0; i < n; i++) c->n += c->keeps || list[i].kind != HAL_LISTS;
    if (one) add(c, one, scratch);
    return RP_OK;
}

rp_status hal_note_capture(hal_device *d, const hal_launch *list, uint32_t n, size_t scratch_size,
                           rp_error *err) {
    rp_error why = {0};
    rp_status st = audit_and_add(d, list, n, scratch_size, &why);
    return st == RP_OK ? RP_OK : hal_note_failed(d, st, &why, err);
}

/* --- bodies -------------------------------------------------------------------------------- */

static rp_status next_of_body(void *user, hal_device *d, void *const *arg, const long long *dim,
                              uint64_t turn, hal_list *out, rp_error *err) {
    hal_body *b = user;
    const unsigned char *pred = arg[0];
    (void)d, (void)dim, (void)err;
    if (turn == 0 || (b->kind == HAL_WHILE && !b->at))
        b->at = !*pred == (b->kind == HAL_IF_NOT) ? b->first : NULL;
    *out = b->at ? (hal_list){(const hal_launch *)b->at->list, b->at->n} : (hal_list){0};
    if (b->at) b->at = b->at->next;
    return RP_OK;
}

const char *hal_branch_name(hal_branch kind) {
    static const char *const names[] = {"if", "if not", "while"};
    return names[kind];
}

rp_status hal_capture_branch(hal_device *d, hal_branch kind, const void *pred, rp_error *err) {
    if (!d->ops->capture_branch)
        return rp_fail(err, RP_UNSUPPORTED, "device %s captures no branches", d->ops->name);
    RP_TRY(d->ops->capture_branch(d, kind, pred, err));
    hal_trace_call(d, hal_branch_name(kind));
    hal_trace_memory(d, "its condition", pred, 1);
    return RP_OK;
}

rp_status hal_capture_join(hal_device *d, rp_error *err) {
    return d->ops->capture_join(d, err);
}

rp_status hal_note_branch(hal_device *d, hal_branch kind, const void *pred, rp_error *err) {
    size_t byte = 1;
    void *arg = (void *)(uintptr_t)pred;
    hal_body *b = base_alloc(sizeof *b);
    if (!b) return rp_fail(err, RP_NOMEM, "no memory for a branch");
    hal_launch l = {.kind = HAL_LISTS,
                    .name = hal_branch_name(kind),
                    .next = next_of_body,
                    .user = b,
                    .arg = &arg,
                    .arg_size = &byte,
                    .n_arg = 1};
    rp_status st = hal_note_capture(d, &l, 1, 0, err);
    if (st != RP_OK) {
        base_free(b);
        return st;
    }
    hal_capture *c = d->capture;
    b->kind = kind;
    b->last = &b->first;
    b->up = c->inside;
    b->next = c->bodies;
    c->bodies = c->inside = b;
    return RP_OK;
}

rp_status hal_note_join(hal_device *d, rp_error *err) {
    (void)err;
    d->capture->inside = d->capture->inside->up;
    return RP_OK;
}

hal_body *hal_capture_bodies(hal_device *d) {
    hal_body *b = d->capture->bodies;
    d->capture->bodies = NULL;
    return b;
}

/* --- bytes --------------------------------------------------------------------------------- */

static void copy_bytes(void *const *arg, const long long *dim, long long begin, long long end,
                       void *scratch) {
    (void)dim, (void)scratch;
    memcpy((char *)arg[0] + begin, (const char *)arg[1] + begin, (size_t)(end - begin));
}

static void fill_bytes(void *const *arg, const long long *dim, long long begin, long long end,
                       void *scratch) {
    (void)scratch;
    memset((char *)arg[0] + begin, (int)dim[0], (size_t)(end - begin));
}

static rp_status note_bytes(hal_device *d, hal_launch *l, void *to, size_t size, rp_error *err) {
    if (size == 0) return RP_OK;
    l->kind = HAL_KERNEL;
    l->items = (long long)size;
    l->grain = BYTES_GRAIN;
    RP_TRY(hal_note_capture(d, l, 1, 0, err));
    return hal_capture_wrote(d, to, size, err);
}

rp_status hal_note_copy(hal_device *d, void *to, const void *from, size_t size, rp_error *err) {
    void *arg[] = {to, (void *)(uintptr_t)from};
    size_t sizes[] = {size, size};
    hal_launch l = {.name = "copy", .fn = {copy_bytes}, .arg = arg, .arg_size = sizes, .n_arg = 2};
    if (size) hal_trace_copy(d, to, from, size);
    return note_bytes(d, &l, to, size, err);
}

rp_status hal_note_fill(hal_device *d, void *to, int byte, size_t size, rp_error *err) {
    long long dim[] = {byte};
    hal_launch l = {.name = "fill",
                    .fn = {fill_bytes},
                    .arg = &to,
                    .arg_size = &size,
                    .n_arg = 1,
                    .dim = dim,
                    .n_dim = 1};
    if (size) hal_trace_fill(d, to, byte, size);
    return note_bytes(d, &l, to, size, err);
}

/* --- runs ---------------------------------------------------------------------------------- */

/* Dims of a launch: the size of a run, the axes, where the first run is behind the lowest one, of both memories; then by axis. */
enum { RUN, AXES, TO, FROM, HEAD, BY_AXIS = 3 };

/* Items are those of the outermost axis. */
static void copy_runs(void *const *arg, const long long *dim, long long begin, long long end,
                      void *scratch) {
    base_runs r = {.run = (size_t)dim[RUN], .n = (uint32_t)dim[AXES]};
    (void)scratch;
    for (uint32_t i = 0; i < r.n; i++) {
        const long long *axis = dim + HEAD + BY_AXIS * i;
        r.dim[i] = i ? axis[0] : end - begin;
        r.to[i] = axis[1];
        r.from[i] = axis[2];
    }
    const long long to = dim[TO] + (r.n ? begin * r.to[0] : 0);
    const long long from = dim[FROM] + (r.n ? begin * r.from[0] : 0);
    base_runs_copy(&r, (char *)arg[0] + to, (const char *)arg[1] + from);
}

rp_status hal_note_runs(hal_device *d, void *to, const void *from, const base_runs *r,
                        rp_error *err) {
    long long dim[HEAD + BY_AXIS * BASE_RUNS_AXES];
    size_t before[2], behind[2], bytes = base_runs_bytes(r);
    if (bytes == 0) return RP_OK;
    base_runs_span(r, r->to, &before[0], &behind[0]);
    base_runs_span(r, r->from, &before[1], &behind[1]);
    void *arg[] = {(char *)to - before[0], (char *)(uintptr_t)from - before[1]};
    size_t sizes[] = {before[0] + behind[0], before[1] + behind[1]};
    dim[RUN] = (long long)r->run;
    dim[AXES] = r->n;
    dim[TO] = (long long)before[0];
    dim[FROM] = (long long)before[1];
    for (uint32_t i = 0; i < r->n; i++) {
        long long *axis = dim + HEAD + BY_AXIS * i;
        axis[0] = r->dim[i];
        axis[1] = r->to[i];
        axis[2] = r->from[i];
    }
    const long long items = r->n ? r->dim[0] : 1, each = (long long)bytes / items;
    hal_launch l = {.kind = HAL_KERNEL,
                    .name = "copy_runs",
                    .fn = {copy_runs},
                    .arg = arg,
                    .arg_size = sizes,
                    .n_arg = 2,
                    .dim = dim,
                    .n_dim = HEAD + BY_AXIS * r->n,
                    .items = items,
                    .grain = each < BYTES_GRAIN ? BYTES_GRAIN / each : 1};
    RP_TRY(hal_note_capture(d, &l, 1, 0, err));
    return hal_note_wrote_runs(d, to, r, err);
}

/* As one range where they leave no gap. */
rp_status hal_note_wrote_runs(hal_device *d, void *to, const base_runs *r, rp_error *err) {
    int64_t at[BASE_RUNS_AXES] = {0};
    size_t before, behind, bytes = base_runs_bytes(r);
    base_runs_span(r, r->to, &before, &behind);
    if (before + behind == bytes)
        return hal_capture_wrote(d, (char *)to - before, before + behind, err);
    for (bool more = bytes > 0; more;) {
        char *p = to;
        for (uint32_t i = 0; i < r->n; i++) p += at[i] * r->to[i];
        RP_TRY(hal_capture_wrote(d, p, r->run, err));
        more = false;
        for (uint32_t i = r->n; i-- > 0 && !more;) {
            more = ++at[i] < r->dim[i];
            if (!more) at[i] = 0;
        }
    }
    return RP_OK;
}

uint32_t hal_note_count(const hal_device *d) {
    return d->capture->n;
}

bool hal_capture_knows_all(const hal_device *d) {
    return !d->ops->capture_foreign || !d->ops->capture_foreign(d);
}

rp_status hal_note_close(hal_device *d, rp_error *err) {
    hal_capture *c = d->capture;
    rp_status st = c->failure.code == RP_OK ? RP_OK
                                            : rp_fail(err, c->failure.code, "%s", c->failure.text);
    d->capture = NULL;
    capture_free(c);
    return st;
}

static rp_status build(hal_device *d, const hal_capture *c, const char *label, hal_graph **out,
                       rp_error *err) {
    hal_launch *list = base_alloc_array(c->n + 1u, sizeof *list); /* those of bodies, too */
    uint32_t n = 0;
    if (!list) return rp_fail(err, RP_NOMEM, "no memory for a graph of %u launches", c->n);
    for (const noted *at = c->first; at; at = at->next)
        for (uint32_t i = 0; i < at->n; i++) list[n++] = ((const hal_launch *)at->list)[i];
    rp_status st = d->ops->graph_build(d, list, n, c->scratch, label, out, err);
    if (st == RP_OK) hal_log_replay(label, list, n);
    base_free(list);
    return st;
}

rp_status hal_note_end(hal_device *d, const char *label, hal_graph **out, uint32_t *out_n,
                       rp_error *err) {
    hal_capture *c = d->capture;
    rp_status st = RP_OK;
    if (!c) return rp_fail(err, RP_INVALID, "no capture is under way on this queue");
    d->capture = NULL;
    if (out && c->failure.code != RP_OK)
        st = rp_fail(err, c->failure.code, "%s", c->failure.text);
    else if (out)
        st = build(d, c, label, out, err);
    if (out && st == RP_OK) *out_n = c->n;
    capture_free(c);
    return st;
}
