/* Text of numbers and numbers of text by the C locale, which the calling thread has for as long as
 * such a call takes. */
#include "base/number.h"

#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static locale_t c_locale;
static pthread_once_t c_locale_once = PTHREAD_ONCE_INIT;

static void make_c_locale(void) {
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

static locale_t get_c_locale(void) {
    (void)pthread_once(&c_locale_once, make_c_locale);
    return c_locale;
}

int base_vsnprintf(char *buf, size_t size, const char *fmt, va_list ap) {
    locale_t before = uselocale(get_c_locale());
    int n = vsnprintf(buf, size, fmt, ap);
    (void)uselocale(before);
    return n;
}

int base_snprintf(char *buf, size_t size, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int n = base_vsnprintf(buf, size, fmt, ap);
    va_end(ap);
    return n;
}

double base_strtod(const char *z, char **end) {
    return strtod_l(z, end, get_c_locale());
}

float base_strtof(const char *z, char **end) {
    return strtof_l(z, end, get_c_locale());
}
