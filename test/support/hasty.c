#include "support/hasty.h"

#include <stdio.h>
#include <string.h>

enum { MOST = 16, SINCE = 13 };

static int (*careful)(void *program, int n, const char *const *options);

/* It may leave more in shared memory than fits, so what it does not take is tried with care. */
static int compile(void *program, int n, const char *const *options) {
    const char *all[MOST] = {"--Ofast-compile=max"};
    if (n >= MOST) return careful(program, n, options);
    memcpy(all + 1, options, (size_t)n * sizeof *all);
    return careful(program, n + 1, all) == 0 ? 0 : careful(program, n, options);
}

/* For the virtual architecture of the one that is asked for, which has PTX alone. */
static int translate(void *program, int n, const char *const *options) {
    static const char real[] = "-arch=sm_";
    const char *all[MOST] = {"--Ofast-compile=max"};
    char arch[32];
    if (n >= MOST) return careful(program, n, options);
    for (int i = 0; i < n; i++) {
        const bool is = strncmp(options[i], real, sizeof real - 1) == 0;
        if (is) (void)snprintf(arch, sizeof arch, "-arch=compute_%s", options[i] + sizeof real - 1);
        all[i + 1] = is ? arch : options[i];
    }
    return careful(program, n + 1, all);
}

static int one_byte(void *program, size_t *out) {
    (void)program;
    *out = 1;
    return 0;
}

static int no_code(void *program, char *out) {
    (void)program;
    *out = 0;
    return 0;
}

void hasty_nvrtc(cuda_nvrtc *rtc, bool assemble) {
    int major = 0, minor = 0;
    if (rtc->compile == compile || rtc->compile == translate) return;
    if (rtc->version(&major, &minor) != 0 || major < SINCE) return;
    careful = rtc->compile;
    rtc->compile = assemble ? compile : translate;
    if (assemble) return;
    rtc->cubin_size = one_byte;
    rtc->cubin = no_code;
}
