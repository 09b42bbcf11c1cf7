#include "tools/stages.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t is_piped_away;

static void on_pipe(int signal) {
    (void)signal;
    is_piped_away = 1;
}

int tool_stages_open(tool_args *a, tool_stages *s) {
    const char *tmp = getenv("TMPDIR");
    rp_error err = {0};
    s->config = NULL;
    (void)snprintf(s->folder, sizeof s->folder, "%s/reprise-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    rp_status st = rp_config_clone(a->config, &s->config, &err);
    /* Stages are graphs as they were made: those of some sizes have them already. */
    if (st == RP_OK) st = rp_config_set_key(s->config, "compile_sizes", "[]", &err);
    if (st == RP_OK) st = rp_config_set_key(s->config, "compile_ranges_endpoints", "[]", &err);
    if (st != RP_OK) return tool_fail(st, &err);
    (void)signal(SIGPIPE, on_pipe); /* who is ended by it leaves the folder */
    if (!mkdtemp(s->folder)) {
        int rc = tool_error("cannot make a folder %s", s->folder);
        s->folder[0] = 0;
        return rc;
    }
    st = rp_config_set_key(a->config, "debug_dump_path", s->folder, &err);
    return st == RP_OK ? 0 : tool_fail(st, &err);
}

/* --- names ------------------------------------------------------------------------- */

static int is_shown(const struct dirent *d) {
    return d->d_name[0] != '.';
}

/* "N_stage.model..." ahead of "N_stage.head...". */
static int is_model(const char *name) {
    const char *dot = strchr(name, '.');
    return dot && strncmp(dot, ".model.", 7) == 0;
}

static int by_graph(const struct dirent **a, const struct dirent **b) {
    int model = is_model((*b)->d_name) - is_model((*a)->d_name);
    return model ? model : strcmp((*a)->d_name, (*b)->d_name);
}

static int list(const tool_stages *s, char *rank, size_t size, struct dirent ***names) {
    *names = NULL;
    (void)snprintf(rank, size, "%s/rank_0", s->folder);
    int n = scandir(rank, names, is_shown, by_graph);
    return n < 0 ? 0 : n;
}

static void free_names(struct dirent **names, int n) {
    for (int i = 0; i < n; i++) free(names[i]);
    free(names);
}

int tool_stages_each(const tool_stages *s, const char *prefix, tool_stage_fn fn, void *user) {
    char rank[4300], path[4700], what[300];
    struct dirent **names;
    int rc = 0, n = list(s, rank, sizeof rank, &names);
    for (int i = 0; i < n && rc == 0; i++) {
        const char *name = names[i]->d_name;
        size_t len = strlen(name), skip = strlen(prefix);
        if (len < skip + 3 || strncmp(name, prefix, skip) != 0 ||
            strcmp(name + len - 3, ".ir") != 0)
            continue;
        (void)snprintf(path, sizeof path, "%s/%s", rank, name);
        (void)snprintf(what, sizeof what, "%.*s", (int)(len - skip - 3), name + skip);
        rc = fn(user, what, path);
    }
    free_names(names, n);
    return rc;
}

void tool_stages_done(tool_stages *s) {
    char rank[4300], path[4700];
    struct dirent **names;
    rp_config_free(s->config);
    s->config = NULL;
    if (!s->folder[0]) return;
    int n = list(s, rank, sizeof rank, &names);
    for (int i = 0; i < n; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", rank, names[i]->d_name);
        (void)unlink(path);
    }
    free_names(names, n);
    (void)rmdir(rank);
    (void)rmdir(s->folder);
    (void)fflush(stdout);
    (void)signal(SIGPIPE, SIG_DFL);
    if (is_piped_away) (void)raise(SIGPIPE);
}
