/* A locale with a decimal comma, made where the test may write: a plain Debian has localedef, but no
 * locale and none of their sources. */
#ifndef SUPPORT_COMMA_H
#define SUPPORT_COMMA_H

#include "support/check.h"

#include <locale.h>
#include <sys/stat.h>
#include <unistd.h>

static inline void comma_write(const char *name, const char *text) {
    FILE *f = fopen(name, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static inline void comma_make(const char *dir) {
    char path[1024], command[4096], map[8192];
    size_t n = 0;
    (void)snprintf(path, sizeof path, "%s/comma.source", dir);
    comma_write(path, "LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \"\"\ngrouping -1\n"
                      "END LC_NUMERIC\n");
    n += (size_t)snprintf(map, sizeof map, "<code_set_name> ASCII\n<escape_char> /\nCHARMAP\n");
    for (unsigned c = 0; c < 128; c++)
        n += (size_t)snprintf(map + n, sizeof map - n, "<U%04X> /x%02x NAME\n", c, c);
    (void)snprintf(map + n, sizeof map - n, "END CHARMAP\n");
    (void)snprintf(path, sizeof path, "%s/comma.charmap", dir);
    comma_write(path, map);
    /* its exit code tells of categories that the source lacks */
    (void)snprintf(command, sizeof command,
                   "PATH=$PATH:/usr/bin localedef -c -f %s/comma.charmap -i %s/comma.source "
                   "%s/comma >%s/comma.said 2>&1",
                   dir, dir, dir, dir);
    (void)!system(command);
}

/* From now on numbers of this process have a comma. */
static inline void comma_begin(void) {
    const char *tmp = getenv("REPRISE_TEST_TMP");
    char path[1024];
    if (!tmp) tmp = ".";
    (void)snprintf(path, sizeof path, "%s/comma/LC_NUMERIC", tmp);
    if (access(path, R_OK) != 0) comma_make(tmp);
    (void)setenv("LOCPATH", tmp, 1);
    if (!setlocale(LC_NUMERIC, "comma")) fail_msg("localedef made no locale in %s", tmp);
    (void)snprintf(path, sizeof path, "%.1f", 1.5);
    assert_string_equal(path, "1,5");
}

static inline void comma_end(void) {
    assert_non_null(setlocale(LC_NUMERIC, "C"));
    (void)unsetenv("LOCPATH");
}

#endif
