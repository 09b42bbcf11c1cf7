/* Numbers as machines read them: with a decimal point, in whatever locale the program that embeds
 * the library has set. Texts of the C library with a float in them come from here alone. */
#ifndef BASE_NUMBER_H
#define BASE_NUMBER_H

#include <stdarg.h>
#include <stddef.h>

#include "base/status.h"

/* snprintf, vsnprintf, strtod and strtof of the C locale. Thread-safe. */
int base_snprintf(char *buf, size_t size, const char *fmt, ...) RP_PRINTF(3, 4);
int base_vsnprintf(char *buf, size_t size, const char *fmt, va_list ap) RP_PRINTF(3, 0);
double base_strtod(const char *z, char **end);
float base_strtof(const char *z, char **end);

#endif
