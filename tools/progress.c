/* Progress bars and Ctrl-C. A bar is one line that is drawn over itself; it leaves nothing behind. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/output.h"

enum { WIDTH = 30, REDRAW_MS = 50 };

static volatile sig_atomic_t interrupted;
static bool on, drawn;
static rp_stage last_stage;
static long long last_ms;

/* The second signal, whichever of the two it is, has its default effect; compilers at work go with us. */
static void on_interrupt(int sig) {
    if (interrupted) {
        rp_compilers_kill();
        (void)signal(sig, SIG_DFL);
        (void)raise(sig);
    }
    interrupted = sig;
}

void tool_interrupt_init(void) {
    struct sigaction a;
    memset(&a, 0, sizeof a);
    a.sa_handler = on_interrupt;
    a.sa_flags = SA_RESTART;
    (void)sigaction(SIGINT, &a, NULL);
    (void)sigaction(SIGTERM, &a, NULL);
}

void tool_interrupt_now(void) {
    (void)fflush(stdout);
    (void)signal((int)interrupted, SIG_DFL);
    (void)raise((int)interrupted);
}

int tool_interrupt_exit(void) {
    return 128 + (int)interrupted;
}

bool tool_interrupted(void) {
    return interrupted != 0;
}

void tool_progress_init(const tool_args *a) {
    on = !a->quiet && isatty(STDERR_FILENO) == 1;
}

void tool_progress_clear(void) {
    if (!drawn) return;
    drawn = false;
    (void)fputs("\r\033[K", stderr);
}

static long long now_ms(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (long long)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void draw(rp_stage stage, uint64_t done, uint64_t total) {
    static const char *const labels[] = {"fetching", "packing", "compiling", "capturing"};
    char bar[WIDTH + 1];
    double part = total ? (double)done / (double)total : 0.0;
    size_t fill = (size_t)(part * WIDTH);
    if (fill > WIDTH) fill = WIDTH;
    memset(bar, ' ', WIDTH);
    memset(bar, '#', fill);
    bar[WIDTH] = 0;
    (void)fprintf(stderr, "\r%-9s [%s] ", labels[stage], bar);
    if (stage == RP_STAGE_FETCH || stage == RP_STAGE_PACK)
        (void)fprintf(stderr, "%.1f of %.1f MB\033[K", (double)done / 1e6, (double)total / 1e6);
    else
        (void)fprintf(stderr, "%llu of %llu\033[K", (unsigned long long)done,
                      (unsigned long long)total);
    (void)fflush(stderr);
    drawn = true;
}

bool tool_progress(void *user, rp_stage stage, uint64_t done, uint64_t total) {
    (void)user;
    if (on && (unsigned)stage <= RP_STAGE_CAPTURE) {
        long long now = now_ms();
        bool ends = done >= total;
        if (ends)
            tool_progress_clear();
        else if (!drawn || stage != last_stage || now - last_ms >= REDRAW_MS) {
            draw(stage, done, total);
            last_stage = stage;
            last_ms = now;
        }
    }
    return !interrupted;
}
