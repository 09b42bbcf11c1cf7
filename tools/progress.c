/* Progress bars and Ctrl-C. A bar is one line that is drawn over itself; it leaves nothing behind, so it is never as wide
 * as the terminal. Off a terminal there are no bars, and fetching, which may take minutes, is two lines. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "tools/output.h"

enum { WIDTH = 30, LEAST = 4, REDRAW_MS = 50 }; /* columns of a bar; milliseconds */

static volatile sig_atomic_t interrupted;
static bool on, quiet, drawn;
static const char *last_label;
static long long last_ms;

/* Of a fetch that is told in lines. */
static struct {
    const char *model;
    bool begun, whole;
    long long from_ms, to_ms;
    double mb;
} fetch;

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

int tool_interrupt_exit(void) {
    return 128 + (int)interrupted;
}

void tool_interrupt_now(const char *what) {
    (void)tool_fail_as(tool_interrupt_exit(), "%s", what);
    (void)fflush(stdout);
    (void)signal((int)interrupted, SIG_DFL);
    (void)raise((int)interrupted);
}

bool tool_interrupted(void) {
    return interrupted != 0;
}

void tool_progress_init(const tool_args *a) {
    quiet = a->quiet;
    on = !quiet && isatty(STDERR_FILENO) == 1;
    fetch.model = a->pos[0];
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

/* Columns that may be written to: the last one stays free, where some terminals wrap. */
static size_t columns(void) {
    struct winsize w = {0};
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &w) != 0 || w.ws_col == 0) return 79;
    return (size_t)w.ws_col - 1;
}

/* As much as fits: label, bar and count; without the bar; the count alone; nothing. */
static void draw(const char *label, double part, const char *count) {
    char bar[WIDTH + 1];
    size_t room = columns(), fixed = 9 + strlen(" [] ") + strlen(count), width = WIDTH;
    if (fixed + width > room) width = room > fixed ? room - fixed : 0;
    size_t fill = part < 1.0 ? (size_t)(part * (double)width) : width;
    memset(bar, ' ', width);
    memset(bar, '#', fill);
    bar[width] = 0;
    (void)fputc('\r', stderr);
    if (width >= LEAST)
        (void)fprintf(stderr, "%-9s [%s] %s", label, bar, count);
    else if (strlen(label) + 1 + strlen(count) <= room)
        (void)fprintf(stderr, "%s %s", label, count);
    else if (strlen(count) <= room)
        (void)fputs(count, stderr);
    (void)fputs("\033[K", stderr);
    (void)fflush(stderr);
    drawn = true;
}

/* Whether it is time for another picture of this label. */
static bool is_due(const char *label) {
    long long now = now_ms();
    if (drawn && label == last_label && now - last_ms < REDRAW_MS) return false;
    last_label = label;
    last_ms = now;
    return true;
}

static void show(const char *label, uint64_t done, uint64_t total, bool bytes) {
    char count[64];
    if (done >= total) {
        tool_progress_clear();
    } else if (is_due(label)) {
        if (bytes)
            (void)snprintf(count, sizeof count, "%.1f of %.1f MB", (double)done / 1e6,
                           (double)total / 1e6);
        else
            (void)snprintf(count, sizeof count, "%llu of %llu", (unsigned long long)done,
                           (unsigned long long)total);
        draw(label, (double)done / (double)total, count);
    }
}

/* --- fetching, in lines ------------------------------------------------------------------- */

/* Reports come again while nothing happens, also those of before (total 0) and after. */
static void tell_fetch(uint64_t done, uint64_t total) {
    if (total == 0 || (fetch.whole && done >= total)) return;
    fetch.to_ms = now_ms();
    fetch.whole = done >= total;
    fetch.mb = (double)total / 1e6;
    if (fetch.begun) return;
    fetch.begun = true;
    fetch.from_ms = fetch.to_ms;
    (void)fprintf(stderr, "fetching %s: %.1f MB\n", fetch.model, fetch.mb);
}

void tool_progress_fetched(void) {
    if (fetch.begun && fetch.whole)
        (void)fprintf(stderr, "fetched %s: %.1f MB in %.1f s\n", fetch.model, fetch.mb,
                      (double)(fetch.to_ms - fetch.from_ms) / 1e3);
    fetch.begun = false;
}

bool tool_progress(void *user, rp_stage stage, uint64_t done, uint64_t total) {
    static const char *const labels[] = {"fetching", "packing", "compiling", "capturing"};
    (void)user;
    if (stage != RP_STAGE_FETCH) tool_progress_fetched();
    if (on && (unsigned)stage <= RP_STAGE_CAPTURE)
        show(labels[stage], done, total, stage == RP_STAGE_FETCH || stage == RP_STAGE_PACK);
    else if (!quiet && stage == RP_STAGE_FETCH)
        tell_fetch(done, total);
    return !interrupted;
}

void tool_progress_prompt(uint64_t done, uint64_t total) {
    if (on) show("reading", done, total, false);
}

void tool_progress_answers(uint64_t done, uint64_t total) {
    if (on) show("answering", done, total, false);
}
