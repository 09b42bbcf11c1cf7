/* Runs a command and says what it looks like from outside, by the wall clock from before it is spawned:
 *
 *   FIRST_MS EXIT_MS PEAK_BYTES STATUS
 *
 * milliseconds to the first byte on its standard output, to its end, its largest resident set (VmHWM), exit code.
 * Its standard output is swallowed, its standard error passes through. Usage: start COMMAND [ARGUMENT ...] */
#include <spawn.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static double now_ms(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

int main(int argc, char **argv) {
    char bytes[4096];
    int fd[2], status = 0;
    struct rusage use;
    pid_t pid;
    posix_spawn_file_actions_t actions;
    if (argc < 2 || pipe(fd) != 0) {
        fprintf(stderr, "usage: start COMMAND [ARGUMENT ...]\n");
        return 2;
    }
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_adddup2(&actions, fd[1], 1);
    (void)posix_spawn_file_actions_addclose(&actions, fd[0]);
    (void)posix_spawn_file_actions_addclose(&actions, fd[1]);
    double t0 = now_ms(), first = 0.0;
    int error = posix_spawnp(&pid, argv[1], &actions, NULL, argv + 1, environ);
    if (error != 0) {
        fprintf(stderr, "start: cannot run %s (error %d)\n", argv[1], error);
        return 1;
    }
    (void)close(fd[1]);
    while (read(fd[0], bytes, sizeof bytes) > 0)
        if (first == 0.0) first = now_ms() - t0;
    if (wait4(pid, &status, 0, &use) != pid) return 1;
    double end = now_ms() - t0;
    printf("%.1f %.1f %lld %d\n", first == 0.0 ? end : first, end, (long long)use.ru_maxrss * 1024,
           WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    return 0;
}
