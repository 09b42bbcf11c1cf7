/* Reads the text form: kernel IR, then words in lines. Input may come from outside, so the verifier judges the whole. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "base/number.h"
#include "sched/rules.h"

#define MAX_WORD 200

typedef struct reader {
    const char *p; /* the text is copied, so it ends with 0 */
    unsigned line;
    rp_status st; /* of the steps so far */
    rp_error *err;
} reader;

#define BAD(r, ...) bad((r), __LINE__, __VA_ARGS__)

static rp_status bad(const reader *r, int line, const char *fmt, ...) RP_PRINTF(3, 4);
static rp_status bad(const reader *r, int line, const char *fmt, ...) {
    char text[2 * MAX_WORD + 100];
    va_list ap;
    va_start(ap, fmt);
    (void)base_vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return base_fail(r->err, RP_INVALID, __FILE__, line, "line %u: %s", r->line, text);
}

static void skip_blanks(reader *r) {
    while (*r->p == ' ' || *r->p == '\t' || *r->p == '\r') r->p++;
    if (*r->p == ';')
        while (*r->p && *r->p != '\n') r->p++;
}

/* The next word of the line; false at its end. */
static bool word(reader *r, char out[MAX_WORD]) {
    size_t n = 0;
    skip_blanks(r);
    while (isgraph((unsigned char)r->p[n]) && r->p[n] != ';' && n < MAX_WORD - 1) n++;
    memcpy(out, r->p, n);
    out[n] = '\0';
    r->p += n;
    return n > 0;
}

static rp_status expect(reader *r, const char *what) {
    char w[MAX_WORD];
    if (word(r, w) && strcmp(w, what) == 0) return RP_OK;
    return BAD(r, "expected '%s' at '%s'", what, w);
}

static rp_status read_number(reader *r, const char *what, int64_t max, int64_t *out) {
    char w[MAX_WORD];
    if (word(r, w) && base_parse_i64(w, out) && *out >= 0 && *out <= max) return RP_OK;
    return BAD(r, "%s '%s' is no number from 0 to %lld", what, w, (long long)max);
}

static rp_status read_u32(reader *r, const char *what, uint32_t *out) {
    int64_t v = 0;
    RP_TRY(read_number(r, what, INT32_MAX, &v));
    *out = (uint32_t)v;
    return RP_OK;
}

static rp_status next_line(reader *r) {
    char w[MAX_WORD];
    if (word(r, w)) return BAD(r, "text after the statement: '%s'", w);
    while (*r->p == '\n') {
        r->p++;
        r->line++;
        skip_blanks(r);
    }
    return *r->p ? RP_OK : BAD(r, "a } is missing");
}

static rp_status read_launch(reader *r, sched_launch *l) {
    char w[MAX_WORD];
    RP_TRY(next_line(r));
    RP_TRY(expect(r, "launch"));
    while (word(r, w)) {
        if (strcmp(w, "threads") == 0)
            RP_TRY(read_u32(r, w, &l->threads));
        else if (strcmp(w, "per_block") == 0)
            RP_TRY(read_u32(r, w, &l->per_block));
        else if (strcmp(w, "at_once") == 0)
            RP_TRY(read_u32(r, w, &l->at_once));
        else if (strcmp(w, "per_sm") == 0)
            RP_TRY(read_u32(r, w, &l->per_sm));
        else if (strcmp(w, "parts") == 0)
            RP_TRY(read_u32(r, w, &l->parts));
        else if (strcmp(w, "scratch") == 0)
            RP_TRY(read_number(r, w, INT64_MAX, &l->scratch));
        else if (strcmp(w, "grain") == 0)
            RP_TRY(read_number(r, w, INT64_MAX, &l->grain));
        else if (strcmp(w, "vector") == 0)
            RP_TRY(read_u32(r, w, &l->vector));
        else
            return BAD(r, "'%s' is not said of a launch", w);
    }
    return RP_OK;
}

static rp_status read_place(reader *r, const kir_buf *b, sched_place *out) {
    char w[MAX_WORD];
    RP_TRY(next_line(r));
    RP_TRY(expect(r, "buf"));
    RP_TRY(expect(r, b->name));
    (void)word(r, w);
    for (int p = SCHED_LOCAL; p < SCHED_SPACE_COUNT_; p++) {
        if (strcmp(w, sched_space_name((sched_space)p)) != 0) continue;
        out->space = (sched_space)p;
        return p == SCHED_LOCAL ? read_number(r, "offset", INT64_MAX, &out->offset) : RP_OK;
    }
    return BAD(r, "'%s' is no memory of temporaries", w);
}

static rp_status read_kind(reader *r, sched_kind *out) {
    char w[MAX_WORD];
    (void)word(r, w);
    for (int k = 0; k < SCHED_KIND_COUNT_; k++) {
        if (strcmp(w, sched_kind_name((sched_kind)k)) != 0) continue;
        *out = (sched_kind)k;
        return RP_OK;
    }
    return BAD(r, "'%s' is no kind of loop", w);
}

static rp_status read_tail(reader *r, int8_t *out) {
    const char *before = r->p;
    char w[MAX_WORD];
    int64_t v = -1;
    if (!word(r, w) || strcmp(w, "any") != 0) {
        r->p = before;
        RP_TRY(read_number(r, "tail", SCHED_LANES - 1, &v));
    }
    *out = (int8_t)v;
    return RP_OK;
}

static rp_status read_byte(reader *r, const char *what, uint8_t *out) {
    int64_t v = 0;
    RP_TRY(read_number(r, what, UINT8_MAX, &v));
    *out = (uint8_t)v;
    return RP_OK;
}

static rp_status read_attributes(reader *r, sched_step *step) {
    char w[MAX_WORD];
    while (word(r, w)) {
        if (strcmp(w, "chunks") == 0)
            step->chunks = true;
        else if (strcmp(w, "whole") == 0)
            step->whole = true;
        else if (strcmp(w, "halves") == 0)
            step->halves = true;
        else if (strcmp(w, "held") == 0)
            step->held = true;
        else if (strcmp(w, "barrier") == 0)
            step->barrier = true;
        else if (strcmp(w, "wide") == 0)
            RP_TRY(read_byte(r, w, &step->wide));
        else if (strcmp(w, "rounds") == 0)
            RP_TRY(read_byte(r, w, &step->rounds));
        else if (strcmp(w, "unroll") == 0)
            RP_TRY(read_byte(r, w, &step->unroll));
        else if (strcmp(w, "part") == 0)
            RP_TRY(read_byte(r, w, &step->part));
        else if (strcmp(w, "tail") == 0)
            RP_TRY(read_tail(r, &step->tail));
        else
            return BAD(r, "'%s' is not said of a step", w);
    }
    return RP_OK;
}

static rp_status read_step(reader *r, sched *s, kir_ref at) {
    const kir_inst *in = &s->f->insts[at];
    char name[16];
    RP_TRY(next_line(r));
    if (in->op == KIR_STORE) {
        RP_TRY(expect(r, "store"));
        RP_TRY(expect(r, s->f->bufs[in->u.buf].name));
    } else if (in->op == KIR_IF) {
        RP_TRY(expect(r, "if"));
    } else {
        (void)snprintf(name, sizeof name, "%%%u", sched_number(s, at));
        RP_TRY(expect(r, name));
        RP_TRY(read_kind(r, &s->steps[at].kind));
    }
    return read_attributes(r, &s->steps[at]);
}

static void read_rule(sched *s, kir_ref at, void *user) {
    reader *r = user;
    if (r->st == RP_OK) r->st = read_step(r, s, at);
}

static rp_status read_body(reader *r, sched *s) {
    char w[MAX_WORD];
    RP_TRY(expect(r, "{"));
    if (s->f->form == KIR_KERNEL) RP_TRY(read_launch(r, &s->launch));
    for (uint32_t i = 0; i < s->f->n_bufs; i++)
        if (s->f->bufs[i].space == KIR_SCRATCH)
            RP_TRY(read_place(r, &s->f->bufs[i], &s->places[i]));
    sched_decide(s, read_rule, r);
    RP_TRY(r->st);
    RP_TRY(next_line(r));
    RP_TRY(expect(r, "}"));
    while (!word(r, w) && *r->p == '\n') {
        r->p++;
        r->line++;
    }
    return *r->p || w[0] ? BAD(r, "text after the schedule: '%s'", w) : RP_OK;
}

/* Where the schedule of a kernel begins: a word that no statement of kernel IR has in front. */
static const char *find_schedule(const char *text) {
    const char *at = strncmp(text, "schedule ", 9) == 0 ? text : strstr(text, "\nschedule ");
    return at && *at == '\n' ? at + 1 : at;
}

static rp_status parse(const char *text, const char *at, sched **out, rp_error *err) {
    reader r = {.p = at, .line = 1, .err = err};
    char w[MAX_WORD];
    kir_func *f = NULL;
    sched *s = NULL;

    for (const char *p = text; p < at; p++) r.line += *p == '\n';
    RP_TRY(expect(&r, "schedule"));
    (void)word(&r, w);
    const sched_target *t = sched_target_find(w);
    if (!t) return BAD(&r, "'%s' is no target", w);
    RP_TRY(kir_parse(text, (size_t)(at - text), &f, err));
    RP_TRY(sched_new(t, f, f, &s, err));
    rp_status st = read_body(&r, s);
    if (st == RP_OK) st = sched_verify(s, err);
    if (st == RP_OK)
        *out = s;
    else
        sched_free(s);
    return st;
}

rp_status sched_parse(const char *text, size_t len, sched **out, rp_error *err) {
    char *copy = base_strndup(text, len);
    const char *at = copy ? find_schedule(copy) : NULL;
    rp_status st;

    if (!copy)
        st = rp_fail(err, RP_NOMEM, "text of a schedule");
    else if (!at)
        st = rp_fail(err, RP_INVALID, "the kernel has no schedule");
    else
        st = parse(copy, at, out, err);
    base_free(copy);
    return st;
}
