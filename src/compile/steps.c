/* gcc is a driver: it reads its specifications, looks for the files beside it, and starts a compiler and an assembler, which takes
 * a tenth of the time of a small unit. With -### it says what it would start. The options of a unit are those of the compiler
 * proper, so the question is asked without them, and one answer serves every instruction set. */
#include "compile/steps.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/spawn.h"
#include "compile/toolchain.h"

static const char from_word[] = "reprise-unit.c", to_word[] = "reprise-unit.o";

/* Scripts and wrappers, such as ccache, are there to be called. */
static bool is_gcc(const char *path) {
    char magic[4] = {0}, real[PATH_MAX];
    const char *name = realpath(path, real) ? strrchr(real, '/') : NULL;
    FILE *f = name && strstr(name, "gcc") ? fopen(real, "rbe") : NULL;
    bool elf = f && fread(magic, 1, sizeof magic, f) == sizeof magic &&
               memcmp(magic, "\177ELF", sizeof magic) == 0;
    if (f) (void)fclose(f);
    return elf;
}

/* --- words of a line ---------------------------------------------------------------- */

/* The next word of *at, without its quotes, to `to`; NULL at the end of the line. Moves both behind it. */
static const char *next_word(const char **at, char **to) {
    const char *c = *at;
    char *word = *to, *end = word;
    while (*c == ' ') c++;
    if (!*c || *c == '\n') return NULL;
    for (bool quoted = false; *c && *c != '\n' && (quoted || *c != ' '); c++) {
        if (*c == '"') {
            quoted = !quoted;
            continue;
        }
        if (*c == '\\' && c[1]) c++;
        *end++ = *c;
    }
    *end++ = 0;
    *at = c;
    *to = end;
    return word;
}

/* Into args, with the files put in; the number, or 0 where there are too many. */
static size_t read_words(const char *line, char **to, const char *from_file, const char *to_file,
                         const char **args) {
    size_t n = 0;
    for (const char *word; (word = next_word(&line, to));) {
        if (n + 1 >= COMPILE_STEPS_ARGS) return 0;
        if (strcmp(word, from_word) == 0) word = from_file;
        if (strcmp(word, to_word) == 0) word = to_file;
        args[n++] = word;
    }
    args[n] = NULL;
    return n;
}

bool compile_steps_make(const char *lines, const char *const *flags, const char *from,
                        const char *to, compile_steps *out) {
    const char *second = strchr(lines, '\n');
    char *words = base_alloc(strlen(lines) + 2);
    *out = (compile_steps){.words = words};
    if (!words || !second) return false;
    size_t n = read_words(lines, &words, from, to, out->compiler);
    bool whole = n > 0 && read_words(second + 1, &words, from, to, out->assembler) > 0;
    for (; whole && *flags; flags++) {
        whole = n + 1 < COMPILE_STEPS_ARGS;
        if (whole) out->compiler[n++] = *flags;
    }
    if (whole) out->compiler[n] = NULL;
    return whole;
}

void compile_steps_done(compile_steps *s) {
    base_free(s->words);
    *s = (compile_steps){0};
}

bool compile_steps_there(const char *lines) {
    static const char *const no_flags[] = {NULL};
    compile_steps s = {0};
    if (!*lines) return true;
    char *compiler = NULL, *assembler = NULL;
    if (compile_steps_make(lines, no_flags, from_word, to_word, &s)) {
        compiler = base_find_program(s.compiler[0]);
        assembler = base_find_program(s.assembler[0]);
    }
    bool there = compiler && assembler;
    base_free(compiler);
    base_free(assembler);
    compile_steps_done(&s);
    return there;
}

/* --- the question -------------------------------------------------------------------- */

static bool is_program(const char *word, size_t len, const char *name) {
    size_t n = strlen(name);
    return len >= n && memcmp(word + len - n, name, n) == 0 &&
           (len == n || word[len - n - 1] == '/');
}

/* " .../cc1 ... |" and then " as ...": both lines without what joins them. */
static void put_steps(const char *said, base_buf *out) {
    for (const char *at = said; *at; at += strcspn(at, "\n"), at += *at == '\n') {
        size_t n = strcspn(at, "\n");
        const char *next = at + n + 1;
        if (*at != ' ' || !at[n] || *next != ' ' || n < 3 || memcmp(at + n - 2, " |", 2) != 0)
            continue;
        if (!is_program(at + 1, strcspn(at + 1, " "), "cc1") ||
            !is_program(next + 1, strcspn(next + 1, " "), "as"))
            continue;
        base_buf_printf(out, "%.*s\n%.*s\n", (int)(n - 2), at, (int)strcspn(next, "\n"), next);
        return;
    }
}

rp_status compile_steps_ask(const char *path, char **out, rp_error *err) {
    const char *argv[COMPILE_STEPS_ARGS] = {path, "-###", "-c", "-pipe"};
    const char *const files[] = {from_word, "-o", to_word};
    int code = 0;
    size_t n = 4;
    rp_status st = RP_OK;
    base_buf said, lines;
    base_buf_init(&said, 1 << 16);
    base_buf_init(&lines, 0);
    base_buf_puts(&lines, "");
    for (const char *const *o = compile_toolchain_options; *o; o++) argv[n++] = *o;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) argv[n++] = files[i];
    if (is_gcc(path)) st = base_spawn(argv, &said, &code, err);
    if (st == RP_OK && said.data && code == 0) put_steps(said.data, &lines);
    if (st == RP_OK && !(*out = base_strndup(lines.data ? lines.data : "", lines.len)))
        st = rp_fail(err, RP_NOMEM, "what %s starts", path);
    base_buf_done(&said);
    base_buf_done(&lines);
    return st;
}
