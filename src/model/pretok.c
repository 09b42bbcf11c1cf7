/* Pre-tokenizers as one regular expression each, run by PCRE2.
 *
 * The rule of smollm is two cuts one after the other: each digit by itself, then GPT-2's rule
 * inside of what lies between. One expression does both, given that the second cut sees the end
 * of its text before a digit: "not followed by a non-space" becomes "not followed by what is
 * neither space nor digit". \s is written out, since PCRE2's own differs from Unicode's
 * White_Space in U+180E. Only valid UTF-8 reaches PCRE2. Letters and digits are those of PCRE2's
 * Unicode version: 14 in PCRE2 10.42, so a letter of 2022 or later counts as a symbol. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "model/pretok.h"

#include <assert.h>
#include <pcre2.h>

#include "base/alloc.h"
#include "model/tensor.h"
#include "model/utf8.h"

#define SPACES                                                                           \
    "\\x{09}-\\x{0D}\\x{20}\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}" \
    "\\x{202F}\\x{205F}\\x{3000}"
#define SUFFIXES "'s|'t|'re|'ve|'m|'ll|'d"

static const struct {
    const char *name, *pattern;
} rules[] = {
    {"smollm", "\\p{N}|" SUFFIXES "| ?\\p{L}+| ?[^" SPACES "\\p{L}\\p{N}]+|"
               "[" SPACES "]+(?![^" SPACES "\\p{N}])|[" SPACES "]+"},
    {"gpt-2", SUFFIXES "| ?\\p{L}+| ?\\p{N}+| ?[^" SPACES "\\p{L}\\p{N}]+|"
                       "[" SPACES "]+(?![^" SPACES "])|[" SPACES "]+"},
};

struct model_pretok {
    pcre2_general_context *memory;
    pcre2_code *code;
};

struct model_pretok_run {
    const model_pretok *rule;
    pcre2_match_data *match;
    base_str text;
    size_t at;
    size_t valid_end; /* [at, valid_end) is valid UTF-8 */
};

static void *pcre_alloc(size_t size, void *user) {
    (void)user;
    return base_alloc(size);
}

static void pcre_free(void *p, void *user) {
    (void)user;
    base_free(p);
}

static const char *pattern_of(base_str name) {
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (base_str_eq(name, rules[i].name)) return rules[i].pattern;
    return NULL;
}

rp_status model_pretok_known(base_str name, rp_error *err) {
    if (pattern_of(name)) return RP_OK;
    return rp_fail(err, RP_UNSUPPORTED,
                   "pre-tokenizer '%s' is not supported: 'smollm' and 'gpt-2' are",
                   model_label_of(name).text);
}

rp_status model_pretok_new(base_str name, model_pretok **out, rp_error *err) {
    rp_status st = RP_OK;
    int code = 0;
    PCRE2_SIZE at = 0;
    RP_TRY(model_pretok_known(name, err));
    const char *pattern = pattern_of(name);
    model_pretok *p = base_alloc(sizeof *p);
    if (!p) return rp_fail(err, RP_NOMEM, "no memory for the pre-tokenizer");
    p->memory = pcre2_general_context_create(pcre_alloc, pcre_free, NULL);
    pcre2_compile_context *context = p->memory ? pcre2_compile_context_create(p->memory) : NULL;
    if (!context) {
        st = rp_fail(err, RP_NOMEM, "no memory for the pre-tokenizer");
        goto out;
    }
    p->code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                            PCRE2_UTF | PCRE2_NO_UTF_CHECK | PCRE2_ANCHORED, &code, &at, context);
    if (!p->code) {
        st = code == PCRE2_ERROR_HEAP_FAILED || code == 121 /* compile-time heap failure */
                 ? rp_fail(err, RP_NOMEM, "no memory for the pre-tokenizer")
                 : rp_fail(err, RP_INTERNAL, "pre-tokenizer: PCRE2 error %d at %zu", code, at);
        goto out;
    }
    /* without the JIT the interpreter gives the same pieces, slower */
    (void)pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE);
    *out = p;
    p = NULL;
out:
    pcre2_compile_context_free(context);
    model_pretok_free(p);
    return st;
}

void model_pretok_free(model_pretok *p) {
    if (!p) return;
    pcre2_code_free(p->code);
    pcre2_general_context_free(p->memory);
    base_free(p);
}

rp_status model_pretok_run_new(const model_pretok *p, model_pretok_run **out, rp_error *err) {
    model_pretok_run *run = base_alloc(sizeof *run);
    if (!run) return rp_fail(err, RP_NOMEM, "no memory to encode");
    run->rule = p;
    run->match = pcre2_match_data_create(1, p->memory);
    if (!run->match) {
        base_free(run);
        return rp_fail(err, RP_NOMEM, "no memory to encode");
    }
    *out = run;
    return RP_OK;
}

void model_pretok_run_free(model_pretok_run *run) {
    if (!run) return;
    pcre2_match_data_free(run->match);
    base_free(run);
}

void model_pretok_start(model_pretok_run *run, base_str text) {
    run->text = text;
    run->at = run->valid_end = 0;
}

/* The bad bytes at run->at, up to where a character starts. */
static base_str bad_bytes(model_pretok_run *run) {
    const char *p = run->text.ptr + run->at;
    size_t n = run->text.len - run->at, at = 0, len = 0;
    while (at < n && model_utf8_step(p + at, n - at, &len) != MODEL_UTF8_CHAR) at += len;
    return (base_str){p, at};
}

rp_status model_pretok_next(model_pretok_run *run, base_str *out, rp_error *err) {
    const char *p = run->text.ptr + run->at;
    size_t left = run->text.len - run->at;
    assert(run->at <= run->valid_end && run->valid_end <= run->text.len);
    if (left == 0) {
        *out = (base_str){NULL, 0};
        return RP_OK;
    }
    if (run->at == run->valid_end) run->valid_end += model_utf8_valid(p, left);
    if (run->at == run->valid_end) {
        *out = bad_bytes(run);
        run->at = run->valid_end = run->at + out->len;
        return RP_OK;
    }
    /* the subject starts here: no rule looks behind. The JIT knows no ANCHORED at match time */
    int rc = pcre2_match(run->rule->code, (PCRE2_SPTR)p, run->valid_end - run->at, 0,
                         PCRE2_NO_UTF_CHECK, run->match, NULL);
    size_t len = rc > 0 ? pcre2_get_ovector_pointer(run->match)[1] : 0;
    if (len == 0) {
        if (rc == PCRE2_ERROR_NOMEMORY) return rp_fail(err, RP_NOMEM, "no memory to encode");
        return rp_fail(err, RP_INTERNAL, "pre-tokenizer: PCRE2 error %d at byte %zu", rc, run->at);
    }
    *out = (base_str){p, len};
    run->at += len;
    return RP_OK;
}
