/* Runs a program and waits for it. The program is looked up in PATH here, so a
 * process without PATH starts nothing. Children get an empty stdin, default
 * signal handling and no descriptor of ours but the output pipe. Thread-safe. */
#include "base/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/env.h"
#include "base/sys.h"

extern char **environ;

static _Atomic uint64_t n_spawned;

uint64_t base_spawn_count(void) {
    return atomic_load(&n_spawned);
}

static bool is_program(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode) && access(path, X_OK) == 0;
}

static rp_status no_memory(const char *name, rp_error *err) {
    return rp_fail(err, RP_NOMEM, "no memory to look for program '%s'", name);
}

static rp_status copy_path(const char *path, char **out, rp_error *err) {
    *out = base_strdup(path);
    return *out ? RP_OK : no_memory(path, err);
}

rp_status base_program_find(const char *name, char **out, rp_error *err) {
    *out = NULL;
    if (!*name) return RP_OK;
    if (strchr(name, '/')) return is_program(name) ? copy_path(name, out, err) : RP_OK;
    const char *dir = base_env_get(BASE_ENV_PATH);
    base_buf b;
    base_buf_init(&b, 0);
    bool found = false;
    while (dir && !found && !b.failed) {
        size_t n = strcspn(dir, ":");
        base_buf_clear(&b);
        base_buf_printf(&b, "%.*s/%s", n ? (int)n : 1, n ? dir : ".", name);
        found = !b.failed && is_program(b.data);
        dir = dir[n] ? dir + n + 1 : NULL;
    }
    bool failed = b.failed;
    if (found) *out = base_buf_take(&b);
    base_buf_done(&b);
    return failed ? no_memory(name, err) : RP_OK;
}

char *base_find_program(const char *name) {
    char *path;
    rp_error ignored = {0};
    return base_program_find(name, &path, &ignored) == RP_OK ? path : NULL;
}

/* Leaders of groups, for a signal handler: 0 is a free place. A child beyond these runs on its own. */
enum { MAX_RUNNING = 64 };
static _Atomic pid_t running[MAX_RUNNING];

static void set_running(pid_t was, pid_t pid) {
    for (int i = 0; i < MAX_RUNNING; i++) {
        pid_t expected = was;
        if (atomic_compare_exchange_strong(&running[i], &expected, pid)) return;
    }
}

void base_spawn_kill_all(void) {
    for (int i = 0; i < MAX_RUNNING; i++) {
        pid_t pid = atomic_load(&running[i]);
        if (pid > 0) (void)kill(-pid, SIGKILL);
    }
}

static rp_status fail_start(rp_error *err, const char *path, int code) {
    return rp_fail(err, base_errno_status(code) == RP_NOMEM ? RP_NOMEM : RP_IO,
                   "cannot start '%s': %s", path, base_errno_text(code));
}

/* What a child reads and writes, and whose group it joins. */
typedef struct ends {
    int in;      /* -1: an empty stdin */
    int out;     /* stdout, -1: nowhere */
    int said;    /* stderr, -1: nowhere */
    pid_t group; /* 0: its own */
} ends;

static int add_end(posix_spawn_file_actions_t *actions, int from, int to) {
    return from < 0 ? posix_spawn_file_actions_addopen(actions, to, "/dev/null",
                                                       to ? O_WRONLY : O_RDONLY, 0)
                    : posix_spawn_file_actions_adddup2(actions, from, to);
}

/* Child side of the setup. */
static int add_actions(posix_spawn_file_actions_t *actions, const ends *e) {
    int code = add_end(actions, e->in, 0);
    if (!code) code = add_end(actions, e->out, 1);
    if (!code) code = add_end(actions, e->said, 2);
    return code;
}

static int set_signals(posix_spawnattr_t *attr, pid_t group) {
    sigset_t none, all;
    (void)sigemptyset(&none);
    (void)sigfillset(&all);
    int code = posix_spawnattr_setsigmask(attr, &none);
    if (!code) code = posix_spawnattr_setsigdefault(attr, &all);
    /* A group apart from ours: Ctrl-C at the terminal is for us, who then stop in order. */
    if (!code) code = posix_spawnattr_setpgroup(attr, group);
    if (!code)
        code = posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                                  POSIX_SPAWN_SETPGROUP);
    return code;
}

static rp_status start(const char *path, const char *const *argv, char *const *env, const ends *e,
                       pid_t *out_pid, rp_error *err) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    int code = base_sys_fails() ? errno : posix_spawn_file_actions_init(&actions);
    if (code) return fail_start(err, path, code);
    code = posix_spawnattr_init(&attr);
    if (!code) {
        code = set_signals(&attr, e->group);
        if (!code) code = add_actions(&actions, e);
        /* posix_spawn takes char *const *; it does not write through it */
        if (!code)
            code = posix_spawn(out_pid, path, &actions, &attr, (char *const *)(uintptr_t)argv, env);
        (void)posix_spawnattr_destroy(&attr);
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    if (code) return fail_start(err, path, code);
    if (!e->group) set_running(0, *out_pid);
    atomic_fetch_add(&n_spawned, 1);
    return RP_OK;
}

/* A child under way, and who may call it off. */
typedef struct child {
    const char *path;
    char *const *env;
    pid_t pid;    /* the leader of a group */
    pid_t reader; /* of its output, in the same group; 0: this process reads */
    pid_t guard;  /* in the same group, which it ends when nobody holds alive any more; 0: none */
    int alive;    /* held by this process alone */
    int fd;
    base_wanted_fn wanted;
    void *user;
    int64_t ends_at;    /* 0: it may take any time */
    int64_t stopped_at; /* 0: not asked to end */
} child;

enum { POLL_MS = 50, GRACE_MS = 2000 };

/* Asks the child's group to end, so that a compiler driver removes its own temporary files; later makes it. */
static void call_off(child *c) {
    int64_t now = base_now_ns();
    if (!c->stopped_at) {
        c->stopped_at = now;
        (void)kill(-c->pid, SIGTERM);
    } else if (now - c->stopped_at > GRACE_MS * (int64_t)1000000) {
        (void)kill(-c->pid, SIGKILL);
    }
}

static bool is_late(const child *c) {
    return c->ends_at && base_now_ns() > c->ends_at;
}

/* Until there is something to read. */
static void watch(child *c) {
    struct pollfd p = {.fd = c->fd, .events = POLLIN};
    while (c->wanted || c->ends_at) {
        int n = poll(&p, 1, POLL_MS);
        if (n > 0 || (n < 0 && errno != EINTR))
            return; /* a signal interrupts a poll, never restarts it */
        if (c->stopped_at || is_late(c) || (c->wanted && !c->wanted(c->user))) call_off(c);
    }
}

/* Reads until the child closes its side; bytes beyond the buffer's ceiling are dropped. */
static rp_status drain(child *c, base_buf *out, rp_error *err) {
    for (;;) {
        char part[4096];
        watch(c);
        ssize_t n = base_sys_fails() ? -1 : read(c->fd, part, sizeof part);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0)
            return rp_fail(err, RP_IO, "cannot read the output of '%s': %s", c->path,
                           base_errno_text(errno));
        if (n == 0) return RP_OK;
        if (out) base_buf_add(out, part, (size_t)n);
    }
}

static rp_status reap(const char *path, pid_t pid, int *out_exit, rp_error *err) {
    int state = 0;
    while (waitpid(pid, &state, 0) < 0) {
        if (errno == EINTR) continue;
        return rp_fail(err, RP_IO, "cannot wait for '%s': %s", path, base_errno_text(errno));
    }
    *out_exit = WIFSIGNALED(state) ? 128 + WTERMSIG(state) : WEXITSTATUS(state);
    return RP_OK;
}

/* Only the end of all its holders closes a pipe, however they end. */
static rp_status start_guard(child *c, rp_error *err) {
    static const char *const argv[] = {"sh", "-c", "read x; kill -9 0", NULL};
    int fds[2];
    if (base_sys_fails() || pipe2(fds, O_CLOEXEC) != 0) return fail_start(err, argv[0], errno);
    rp_status st = start("/bin/sh", argv, c->env, &(ends){fds[0], -1, -1, c->pid}, &c->guard, err);
    (void)close(fds[0]);
    if (st == RP_OK) {
        c->alive = fds[1];
        return RP_OK;
    }
    (void)close(fds[1]);
    (void)kill(-c->pid, SIGKILL); /* or it would be waited for */
    return st;
}

static void end_guard(child *c) {
    int code;
    if (!c->guard) return;
    (void)close(c->alive);
    (void)reap(c->path, c->guard, &code, NULL);
}

/* The leader last: as long as it is not reaped its number is nobody else's. */
static rp_status wait_for(child *c, int *out_exit, rp_error *err) {
    rp_status st = RP_OK;
    int read_exit = 0;
    siginfo_t info;
    if (c->reader) st = reap(c->path, c->reader, &read_exit, err);
    while (waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOWAIT) < 0 && errno == EINTR) continue;
    end_guard(c);
    set_running(c->pid, 0);
    rp_status led = reap(c->path, c->pid, out_exit, err);
    if (led == RP_OK && *out_exit == 0) *out_exit = read_exit;
    return st == RP_OK ? led : st;
}

/* Starts argv, and into behind it, both with `said` as what they say. */
static rp_status start_pair(child *c, const char *const *argv, const char *const *into, int said,
                            rp_error *err) {
    int between[2];
    char *path = base_find_program(into[0]);
    if (!path) return rp_fail(err, RP_NOT_FOUND, "no program '%s' in PATH", into[0]);
    rp_status st = RP_OK;
    if (base_sys_fails() || pipe2(between, O_CLOEXEC) != 0) {
        st = fail_start(err, c->path, errno);
        base_free(path);
        return st;
    }
    st = start(c->path, argv, c->env, &(ends){-1, between[1], said, 0}, &c->pid, err);
    if (st == RP_OK)
        st = start(path, into, c->env, &(ends){between[0], said, said, c->pid}, &c->reader, err);
    (void)close(between[0]);
    (void)close(between[1]);
    base_free(path);
    return st;
}

static rp_status run(child *c, const char *const *argv, const base_spawn_options *o, base_buf *out,
                     int *out_exit, rp_error *err) {
    int fds[2];
    rp_status st;
    if (base_sys_fails() || pipe2(fds, O_CLOEXEC) != 0) return fail_start(err, c->path, errno);
    if (o->into)
        st = start_pair(c, argv, o->into, fds[1], err);
    else
        st = start(c->path, argv, c->env, &(ends){-1, fds[1], fds[1], 0}, &c->pid, err);
    (void)close(fds[1]);
    c->fd = fds[0];
    if (st == RP_OK && o->guarded) st = start_guard(c, err);
    if (st == RP_OK) st = drain(c, out, err);
    (void)close(fds[0]); /* after a failed read the child sees a closed pipe and ends */
    if (c->pid > 0) {
        int exit_code = 0;
        rp_status waited = wait_for(c, &exit_code, err);
        if (st == RP_OK) st = waited;
        if (st == RP_OK) *out_exit = exit_code;
    }
    if (st == RP_OK && c->stopped_at) st = rp_fail(err, RP_CANCELLED, "'%s' was stopped", c->path);
    return st;
}

/* The environment with another TMPDIR in front; what follows is borrowed. */
static char **env_with(const char *tmpdir) {
    size_t n = 0, kept = 1;
    while (environ[n]) n++;
    base_buf b;
    base_buf_init(&b, 0);
    base_buf_printf(&b, "TMPDIR=%s", tmpdir);
    char **env = base_alloc_array(n + 2, sizeof *env), *own = base_buf_take(&b);
    if (!env || !own) {
        base_free(env);
        base_free(own);
        return NULL;
    }
    env[0] = own;
    for (size_t i = 0; i < n; i++)
        if (strncmp(environ[i], "TMPDIR=", 7) != 0) env[kept++] = environ[i];
    env[kept] = NULL;
    return env;
}

rp_status base_spawn_with(const char *const *argv, const base_spawn_options *o, base_buf *out,
                          int *out_exit, rp_error *err) {
    rp_status st;
    char **env = o->tmpdir ? env_with(o->tmpdir) : NULL;
    child c = {.env = env ? env : environ, .pid = -1, .wanted = o->wanted, .user = o->user};
    if (o->limit_ns) c.ends_at = base_now_ns() + o->limit_ns;
    char *path = base_find_program(argv[0]);
    c.path = path;
    if (o->tmpdir && !env)
        st = rp_fail(err, RP_NOMEM, "no memory to start '%s'", argv[0]);
    else if (!path)
        st = rp_fail(err, RP_NOT_FOUND, "no program '%s' in PATH", argv[0]);
    else
        st = run(&c, argv, o, out, out_exit, err);
    if (o->limit_ns) *o->out_late = st == RP_CANCELLED && c.stopped_at > c.ends_at;
    base_free(path);
    if (env) base_free(env[0]);
    base_free(env);
    return st;
}

rp_status base_spawn_while(const char *const *argv, base_wanted_fn wanted, void *user,
                           base_buf *out, int *out_exit, rp_error *err) {
    const base_spawn_options o = {.wanted = wanted, .user = user};
    return base_spawn_with(argv, &o, out, out_exit, err);
}

rp_status base_spawn(const char *const *argv, base_buf *out, int *out_exit, rp_error *err) {
    return base_spawn_with(argv, &(base_spawn_options){0}, out, out_exit, err);
}
