/* Reads simplify.rules with the reader of the IR's text form. A rule that this file accepts can be applied: its variables are
 * bound, its ops have as many operands as they take. */
#include "pass/rules.h"

#include <string.h>

#include "base/alloc.h"
#include "base/embed.h"
#include "ir/lex.h"

BASE_EMBED(simplify_rules);

typedef struct parser {
    ir_reader in;
    pass_rule *rule;
    bool pattern; /* reading it: variables are bound, not used */
} parser;

#define FAIL(...) ir_read_fail(&s->in, s->in.p, RP_INVALID, __VA_ARGS__)

const char *pass_rules_text(void) {
    return rp_embed_simplify_rules;
}

static rp_status read_term(parser *s, uint32_t *out);

static bool is_bound(const pass_rule *r, pass_term_kind kind, char letter) {
    for (uint32_t i = 0; i < r->n_terms; i++)
        if (r->term[i].kind == kind && r->term[i].letter == letter) return true;
    return false;
}

static rp_status add_term(parser *s, pass_term t, uint32_t *out) {
    if (s->rule->n_terms == PASS_RULE_TERMS)
        return FAIL("a rule has at most %d terms", PASS_RULE_TERMS);
    *out = s->rule->n_terms;
    s->rule->term[s->rule->n_terms++] = t;
    return RP_OK;
}

static rp_status read_variable(parser *s, pass_term_kind kind, uint32_t *out) {
    char letter = *s->in.p;
    if (!ir_alpha(letter) || ir_word_char(s->in.p[1])) return FAIL("a variable is one letter");
    if (!s->pattern && !is_bound(s->rule, kind, letter))
        return FAIL("the pattern has no '%c'", letter);
    s->in.p++;
    return add_term(s, (pass_term){.kind = kind, .letter = letter}, out);
}

static rp_status read_op(parser *s, uint32_t *out) {
    char word[64];
    pass_term t = {.kind = PASS_TERM_OP};
    RP_TRY(ir_read_word(&s->in, "an op", word));
    t.op = ir_op_find(word);
    if (t.op == IR_OP_COUNT_) return FAIL("no op %s", word);
    const ir_op_info *info = ir_op_table(t.op);
    if (info->kind == IR_KIND_EFFECT || info->kind == IR_KIND_LEAF)
        return FAIL("%s cannot be rewritten", word);
    do {
        if (t.n_in == 3) return FAIL("%s: at most 3 operands", word);
        RP_TRY(read_term(s, &t.in[t.n_in]));
        t.n_in++;
    } while (ir_read_accept(&s->in, ','));
    if (info->arity >= 0 && (uint32_t)info->arity != t.n_in)
        return FAIL("%s takes %d operands, not %u", word, info->arity, t.n_in);
    return add_term(s, t, out);
}

static rp_status read_term(parser *s, uint32_t *out) {
    if (ir_read_accept(&s->in, '%')) return read_variable(s, PASS_TERM_VALUE, out);
    if (ir_read_accept(&s->in, '#')) return read_variable(s, PASS_TERM_CONST, out);
    if (ir_read_accept(&s->in, '(')) {
        RP_TRY(read_op(s, out));
        return ir_read_expect(&s->in, ')');
    }
    pass_term t = {.kind = PASS_TERM_NUMBER};
    if (!s->pattern) return FAIL("a replacement makes no constants of its own");
    RP_TRY(ir_read_number(&s->in, &t.number));
    return add_term(s, t, out);
}

static rp_status read_condition(parser *s, pass_condition *out) {
    static const char *const names[] = {
        [PASS_IF_ALWAYS] = "always",     [PASS_IF_INT] = "int",         [PASS_IF_WIDENS] = "widens",
        [PASS_IF_IDENTITY] = "identity", [PASS_IF_COMPOSE] = "compose", [PASS_IF_POW2] = "pow2",
        [PASS_IF_SIGNED] = "signed"};
    char word[64];
    RP_TRY(ir_read_word(&s->in, "a condition", word));
    for (size_t i = 1; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], word) == 0) {
            *out = (pass_condition)i;
            return RP_OK;
        }
    return FAIL("no condition %s", word);
}

static rp_status read_rule(parser *s) {
    s->pattern = true;
    RP_TRY(read_op(s, &s->rule->pattern));
    if (!ir_read_accept(&s->in, '-') || *s->in.p != '>') return FAIL("expected ->");
    s->in.p++;
    s->pattern = false;
    ir_read_skip(&s->in);
    if (ir_alpha(*s->in.p))
        RP_TRY(read_op(s, &s->rule->replacement));
    else
        RP_TRY(read_term(s, &s->rule->replacement));
    ir_read_skip(&s->in);
    if (strncmp(s->in.p, "if ", 3) == 0) {
        s->in.p += 3;
        RP_TRY(read_condition(s, &s->rule->condition));
        ir_read_skip(&s->in);
    }
    return *s->in.p ? FAIL("the rule goes on with '%.20s'", s->in.p) : RP_OK;
}

/* The reader skips line ends as blanks, so that each line is given to it alone. */
static rp_status read_line(base_str text, pass_rule *rule, rp_error *err) {
    char line[128];
    if (text.len >= sizeof line)
        return rp_fail(err, RP_INVALID, "a rule has at most %zu characters", sizeof line - 1);
    memcpy(line, text.ptr, text.len);
    line[text.len] = 0;
    parser s = {.in = {.text = line, .p = line, .err = err}, .rule = rule};
    *rule = (pass_rule){.text = text};
    return read_rule(&s);
}

rp_status pass_rules_parse(const char *text, pass_rules *out, rp_error *err) {
    pass_rules r = {0};
    uint32_t cap = 1, number = 1;
    for (const char *p = text; *p; p++) cap += *p == '\n';
    r.rule = base_alloc_array(cap, sizeof *r.rule);
    if (!r.rule) return rp_fail(err, RP_NOMEM, "%u rules", cap);
    for (const char *p = text; *p; number++) {
        base_str line = {p, strcspn(p, "\n")};
        p += line.len + (p[line.len] == '\n');
        if (line.len == 0 || *line.ptr == ';') continue;
        rp_error local = {0};
        rp_status st = read_line(line, &r.rule[r.n++], &local);
        if (st == RP_OK) continue;
        pass_rules_done(&r);
        return rp_fail(err, st, "rules, line %u: %s", number,
                       strncmp(local.text, "line 1: ", 8) == 0 ? local.text + 8 : local.text);
    }
    *out = r;
    return RP_OK;
}

void pass_rules_done(pass_rules *r) {
    base_free(r->rule);
    *r = (pass_rules){0};
}
