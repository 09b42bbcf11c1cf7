/* Runs a program and waits for it. The program is looked up in PATH here, so a
 * process without PATH starts nothing. Children get an empty stdin, default
 * signal handling and no descriptor of ours but the output pipe. Thread-safe.
 *
 * A shell is between us and what it runs. It writes the exit code to a pipe, which
 * tells it also where the program that embeds us ignores SIGCHLD or reaps all of
 * its children, and one can wait for a pipe with a deadline. */
#include "base/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>
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

/* Descriptors of the shell, besides 0 and 1, which are the program's. */
enum { FD_ENDED = 3, FD_SAID = 4, FD_ALIVE = 5, FD_OURS = 10 };

/* A child under way, and who may call it off. */
typedef struct child {
    const char *path;
    char *const *env;
    pid_t pid;   /* the shell, leader of a group */
    int said[2]; /* the pipe of what the programs say */
    int ended
        [2]; /* that of their exit codes, which the shell alone holds: it closes as the shell ends */
    int alive[2]; /* that which closes as this process ends */
    base_wanted_fn wanted;
    void *user;
    int64_t ends_at;    /* 0: it may take any time */
    int64_t stopped_at; /* 0: not asked to end */
} child;

static void close_end(int *fd) {
    if (*fd >= 0) (void)close(*fd);
    *fd = -1;
}

/* Both ends above the numbers that the shell's own have, or one would be closed for another. */
static rp_status open_pipe(const child *c, int fds[2], rp_error *err) {
    if (base_sys_fails() || pipe2(fds, O_CLOEXEC) != 0) return fail_start(err, c->path, errno);
    for (int i = 0; i < 2; i++) {
        if (fds[i] >= FD_OURS) continue;
        int above = fcntl(fds[i], F_DUPFD_CLOEXEC, FD_OURS);
        if (above < 0) return fail_start(err, c->path, errno);
        (void)close(fds[i]);
        fds[i] = above;
    }
    return RP_OK;
}

/* Child side of the setup. What the shell itself says goes nowhere. */
static int add_actions(posix_spawn_file_actions_t *actions, const child *c) {
    int code = posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDONLY, 0);
    if (!code) code = posix_spawn_file_actions_adddup2(actions, c->said[1], 1);
    if (!code) code = posix_spawn_file_actions_addopen(actions, 2, "/dev/null", O_WRONLY, 0);
    if (!code) code = posix_spawn_file_actions_adddup2(actions, c->ended[1], FD_ENDED);
    if (!code) code = posix_spawn_file_actions_adddup2(actions, c->said[1], FD_SAID);
    if (!code && c->alive[0] >= 0)
        code = posix_spawn_file_actions_adddup2(actions, c->alive[0], FD_ALIVE);
    return code;
}

static int set_signals(posix_spawnattr_t *attr) {
    sigset_t none, all;
    (void)sigemptyset(&none);
    (void)sigfillset(&all);
    int code = posix_spawnattr_setsigmask(attr, &none);
    if (!code) code = posix_spawnattr_setsigdefault(attr, &all);
    /* A group apart from ours: Ctrl-C at the terminal is for us, who then stop in order. */
    if (!code) code = posix_spawnattr_setpgroup(attr, 0);
    if (!code)
        code = posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                                  POSIX_SPAWN_SETPGROUP);
    return code;
}

/* In a shell of its own: what the other one says of its end, which is nowhere, is not what the program says. */
static void put_command(base_buf *b, const char *path, const char *const *argv) {
    base_buf_puts(b, "(exec");
    for (size_t i = 0; argv[i]; i++) {
        base_buf_puts(b, " '");
        for (const char *z = i ? argv[i] : path; *z; z++)
            *z == '\'' ? base_buf_puts(b, "'\\''") : base_buf_putc(b, *z);
        base_buf_putc(b, '\'');
    }
    base_buf_puts(b, " 2>&4 3>&- 4>&- 5<&-)");
}

/* One program, or two of which the first writes what the second reads; the exit code of each is a line of
 * FD_ENDED. A shell that is asked to end waits for what it runs, which removes its own temporary files.
 * guarded: only the end of all its holders closes a pipe, however they end. */
static void put_script(base_buf *b, const char *path, const char *const *argv, const char *second,
                       const base_spawn_options *o) {
    base_buf_puts(b, "trap : TERM\n");
    if (o->guarded) base_buf_puts(b, "{ read x <&5; kill -9 0; } >&- 3>&- 4>&- & g=$!\n");
    if (second) base_buf_puts(b, "{ trap : TERM\n");
    put_command(b, path, argv);
    base_buf_puts(b, "\necho $? >&3\n");
    if (second) {
        base_buf_puts(b, "} | ");
        put_command(b, second, o->into);
        base_buf_puts(b, "\necho $? >&3\n");
    }
    if (o->guarded) base_buf_puts(b, "kill -9 $g\nwait $g\nkill -9 0\n");
}

static rp_status start(child *c, const char *script, rp_error *err) {
    const char *const argv[] = {"sh", "-c", script, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    int code = base_sys_fails() ? errno : posix_spawn_file_actions_init(&actions);
    if (code) return fail_start(err, c->path, code);
    code = posix_spawnattr_init(&attr);
    if (!code) {
        code = set_signals(&attr);
        if (!code) code = add_actions(&actions, c);
        /* posix_spawn takes char *const *; it does not write through it */
        if (!code)
            code = posix_spawn(&c->pid, "/bin/sh", &actions, &attr, (char *const *)(uintptr_t)argv,
                               c->env);
        (void)posix_spawnattr_destroy(&attr);
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    if (code) {
        c->pid = -1;
        return fail_start(err, c->path, code);
    }
    set_running(0, c->pid);
    return RP_OK;
}

enum { POLL_MS = 50, GRACE_MS = 2000 };
#define MS INT64_C(1000000)

/* Asks the child's group to end; later makes it. */
static void call_off(child *c) {
    int64_t now = base_now_ns();
    if (!c->stopped_at) {
        c->stopped_at = now;
        (void)kill(-c->pid, SIGTERM);
    } else if (now - c->stopped_at > GRACE_MS * MS) {
        (void)kill(-c->pid, SIGKILL);
    }
}

static void look(child *c) {
    const bool late = c->ends_at && base_now_ns() > c->ends_at;
    if (c->stopped_at || late || (c->wanted && !c->wanted(c->user))) call_off(c);
}

/* At most size bytes of what is there, 0 at the end; bytes beyond the buffer's ceiling are dropped. */
static rp_status read_some(const child *c, int fd, size_t size, base_buf *out, size_t *n_read,
                           rp_error *err) {
    char part[4096];
    ssize_t n;
    do n = base_sys_fails() ? -1 : read(fd, part, size < sizeof part ? size : sizeof part);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return rp_fail(err, RP_IO, "cannot read the output of '%s': %s", c->path,
                       base_errno_text(errno));
    if (out) base_buf_add(out, part, (size_t)n);
    *n_read = (size_t)n;
    return RP_OK;
}

/* What the programs have said before they ended. Who was left behind may go on saying more. */
static rp_status read_rest(const child *c, base_buf *out, rp_error *err) {
    int rest = 0;
    size_t n = 1;
    rp_status st = RP_OK;
    if (ioctl(c->said[0], FIONREAD, &rest) != 0) rest = 0;
    for (; st == RP_OK && rest > 0 && n > 0; rest -= (int)n)
        st = read_some(c, c->said[0], (size_t)rest, out, &n, err);
    return st;
}

/* Until the shell has ended, with what it runs: that alone tells the end. A program may have closed its output long
 * before, or write without end. */
static rp_status listen_to(child *c, base_buf *out, base_buf *codes, rp_error *err) {
    struct pollfd p[2] = {{.fd = c->ended[0], .events = POLLIN},
                          {.fd = c->said[0], .events = POLLIN}};
    const bool may_end = c->wanted || c->ends_at;
    int64_t looked_at = base_now_ns();
    for (size_t more = 1, n = 1;;) {
        int ready = poll(p, 2, may_end ? POLL_MS : -1);
        /* This process may have been stopped for long, and the program have ended meanwhile. */
        if (ready < 0 && errno == EINTR) ready = poll(p, 2, 0);
        if (ready < 0 && errno != EINTR)
            return rp_fail(err, RP_IO, "cannot wait for '%s': %s", c->path, base_errno_text(errno));
        const bool ends = ready > 0 && p[0].revents;
        if (may_end && !ends && (ready <= 0 || base_now_ns() - looked_at > POLL_MS * MS)) {
            look(c);
            looked_at = base_now_ns();
        }
        if (ready <= 0) continue;
        if (p[1].revents) RP_TRY(read_some(c, c->said[0], SIZE_MAX, out, &n, err));
        if (n == 0) p[1].fd = -1;
        if (p[0].revents) RP_TRY(read_some(c, c->ended[0], SIZE_MAX, codes, &more, err));
        if (more == 0) return n ? read_rest(c, out, err) : RP_OK;
    }
}

/* The next exit code. A shell that could not tell one was killed with what it ran. */
static int next_code(const char **at) {
    int code = 0;
    if (!strchr(*at, '\n')) return 128 + SIGKILL;
    for (; **at != '\n'; ++*at) code = code * 10 + (**at - '0');
    ++*at;
    return code;
}

/* The first that is not 0, but that of a program which wrote to one that had failed. */
static int code_of(const base_buf *codes, const base_spawn_options *o) {
    const char *at = codes->data ? codes->data : "";
    const int first = next_code(&at), second = o->into ? next_code(&at) : 0;
    const bool is_second = second != 0 && (first == 0 || first == 128 + SIGPIPE);
    if (o->out_second) *o->out_second = is_second;
    return is_second ? second : first;
}

static rp_status watch(child *c, const base_spawn_options *o, base_buf *out, int *out_exit,
                       rp_error *err) {
    base_buf codes;
    base_buf_init(&codes, 64);
    base_buf_reserve(&codes, 63); /* so that a code is never lost */
    rp_status st = base_buf_status(&codes, err);
    if (st == RP_OK) st = listen_to(c, out, &codes, err);
    if (st != RP_OK) (void)kill(-c->pid, SIGKILL);
    set_running(c->pid, 0);
    /* It is gone if this program ignores SIGCHLD, or reaps its children itself. */
    while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR) continue;
    if (st == RP_OK) *out_exit = code_of(&codes, o);
    base_buf_done(&codes);
    if (st == RP_OK && c->stopped_at) st = rp_fail(err, RP_CANCELLED, "'%s' was stopped", c->path);
    return st;
}

static rp_status run(child *c, const char *const *argv, const base_spawn_options *o, base_buf *out,
                     int *out_exit, rp_error *err) {
    rp_status st;
    base_buf script;
    char *second = o->into ? base_find_program(o->into[0]) : NULL;
    if (o->into && !second)
        return rp_fail(err, RP_NOT_FOUND, "no program '%s' in PATH", o->into[0]);
    base_buf_init(&script, 0);
    put_script(&script, c->path, argv, second, o);
    st = base_buf_status(&script, err);
    if (st == RP_OK) st = open_pipe(c, c->said, err);
    if (st == RP_OK) st = open_pipe(c, c->ended, err);
    if (st == RP_OK && o->guarded) st = open_pipe(c, c->alive, err);
    if (st == RP_OK) st = start(c, script.data, err);
    close_end(&c->said[1]);
    close_end(&c->ended[1]);
    close_end(&c->alive[0]);
    if (st == RP_OK) {
        atomic_fetch_add(&n_spawned, second ? 2 : 1);
        st = watch(c, o, out, out_exit, err);
    }
    close_end(&c->said[0]);
    close_end(&c->ended[0]);
    close_end(&c->alive[1]);
    base_buf_done(&script);
    base_free(second);
    return st;
}

static bool begins(const char *line, const char *with) {
    return strncmp(line, with, strlen(with)) == 0;
}

/* Programs speak the language in which this library reads them. */
static char speaks[] = "LC_ALL=C";

/* The environment with that in front, and a TMPDIR that is the caller's to free, or NULL; what follows is borrowed. */
static char **env_with(char *tmpdir) {
    size_t n = 0, kept = 0;
    while (environ && environ[n]) n++; /* NULL: after clearenv */
    char **env = base_alloc_array(n + 3, sizeof *env);
    if (!env) return NULL;
    env[kept++] = speaks;
    if (tmpdir) env[kept++] = tmpdir;
    for (size_t i = 0; i < n; i++)
        if (!begins(environ[i], "LC_ALL=") && !(tmpdir && begins(environ[i], "TMPDIR=")))
            env[kept++] = environ[i];
    env[kept] = NULL;
    return env;
}

static char *tmpdir_of(const base_spawn_options *o) {
    base_buf b;
    if (!o->tmpdir) return NULL;
    base_buf_init(&b, 0);
    base_buf_printf(&b, "TMPDIR=%s", o->tmpdir);
    return base_buf_take(&b);
}

rp_status base_spawn_with(const char *const *argv, const base_spawn_options *o, base_buf *out,
                          int *out_exit, rp_error *err) {
    rp_status st;
    char *tmpdir = tmpdir_of(o), **env = env_with(tmpdir);
    child c = {.env = env,
               .pid = -1,
               .said = {-1, -1},
               .ended = {-1, -1},
               .alive = {-1, -1},
               .wanted = o->wanted,
               .user = o->user};
    if (o->limit_ns) c.ends_at = base_now_ns() + o->limit_ns;
    char *path = base_find_program(argv[0]);
    c.path = path;
    if (!env || (o->tmpdir && !tmpdir))
        st = rp_fail(err, RP_NOMEM, "no memory to start '%s'", argv[0]);
    else if (!path)
        st = rp_fail(err, RP_NOT_FOUND, "no program '%s' in PATH", argv[0]);
    else
        st = run(&c, argv, o, out, out_exit, err);
    if (o->limit_ns) *o->out_late = st == RP_CANCELLED && c.stopped_at > c.ends_at;
    base_free(path);
    base_free(tmpdir);
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
