#include "api/lines.h"

#include <string.h>

#include "base/str.h"

void api_node_line(const char *text, const char *name, base_buf *out) {
    size_t len = strlen(name);
    const char *at = text;
    while ((at = strstr(at, "\n  %"))) {
        at += 3;
        if (strncmp(at, name, len) == 0 && at[len] == ' ') break;
    }
    for (size_t n = at ? strcspn(at, "\n") : 0, i = 0; i < n; i++)
        if (at[i] != ' ' || at[i + 1] != ' ') base_buf_putc(out, at[i]); /* no columns */
}
