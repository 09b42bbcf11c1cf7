/* The reprise command: finds the subcommand, reads its flags, runs it. Uses the public headers alone. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tools/commands.h"
#include "tools/output.h"

const tool_command tool_commands[] = {
    {"run", TOOL_RUN, "MODEL [PROMPT]", 1, 2, tool_run, "writes text with a model"},
    {"score", TOOL_SCORE, "MODEL", 1, 1, tool_score,
     "log probabilities of a given continuation (teacher forcing)"},
    {"eval", TOOL_EVAL, "FILE.ir", 1, 1, tool_eval,
     "runs a graph in text form on seeded random inputs"},
    {"compile", TOOL_COMPILE, "MODEL", 1, 1, tool_compile,
     "fills the cache, so that later processes start warm"},
    {"explain", TOOL_EXPLAIN, "FILE.ir|MODEL", 1, 1, tool_explain,
     "what was overruled, which graph serves which batch, what each piece takes; of a graph its "
     "kernels"},
    {"bench", TOOL_BENCH, "MODEL", 1, 1, tool_bench,
     "measures prefill and decode, with --profile each launch of a step"},
    {"cache", TOOL_CACHE, "ls|verify|why MODEL|why KEY KEY|dir|prune|export FILE|import FILE", 1, 3,
     tool_cache,
     "the compile cache: what it takes, leftovers and all, and why a plan was not found"},
    {"opt", TOOL_OPT, "FILE.ir", 1, 1, tool_opt,
     "runs passes over a graph in text form, prints any later stage"},
    {"bisect", TOOL_BISECT, "FILE.ir|MODEL", 1, 1, tool_bisect,
     "finds the kernel that differs from the interpreter, and the smallest graph that shows it"},
    {"synth", TOOL_SYNTH, "NAME[,layers=N][,dtype=T][,seed=N]", 1, 1, tool_synth,
     "writes a synthetic model as a GGUF file"},
    {"doctor", TOOL_DOCTOR, "", 0, 0, tool_doctor,
     "what this machine offers: processor, compiler, cache, model"},
    {"help", TOOL_HELP, "[COMMAND|SETTING|cli|config|env|exit-codes|logs|models]", 0, 1, tool_help,
     "this list, or more about one thing"},
    {"serve", TOOL_ABSENT, "MODEL", 0, 1 << 20, tool_missing, "OpenAI-compatible server"},
};
const size_t tool_n_commands = sizeof tool_commands / sizeof *tool_commands;

static const char *command_name(size_t i) {
    return tool_commands[i].name;
}

static int run_command(const tool_command *c, int argc, char **argv) {
    tool_args a;
    /* Flags of something that is not there are not looked at. */
    int rc = tool_args_parse(&a, c, c->where == TOOL_ABSENT ? 0 : argc, argv);
    if (rc == 0) rc = tool_on(&a, TOOL_FLAG_HELP) ? tool_help_command(c, false) : c->run(&a);
    tool_args_done(&a);
    return tool_finish(rc);
}

/* Files take the lowest free number: without this a log line could go into an object of the cache. What stands in fails
 * as the closed one would. */
static void hold_streams(void) {
    static const int how[] = {O_WRONLY, O_RDONLY, O_WRONLY};
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", how[fd]) != fd) return;
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : NULL;
    hold_streams();
    tool_log_init();
    (void)signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is a failed write, with its line */
    if (argc > 1) tool_error_events(tool_args_json(argc - 1, argv + 1));
    if (!name) name = "help"; /* what one types to see what there is */
    if (strcmp(name, "--version") == 0 || strcmp(name, "version") == 0) {
        (void)printf("reprise %s\n", rp_version());
        return tool_finish(0);
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) name = "help";
    for (size_t i = 0; i < tool_n_commands; i++)
        if (strcmp(name, tool_commands[i].name) == 0)
            return run_command(&tool_commands[i], argc > 2 ? argc - 2 : 0, argv + 2);
    const char *near = tool_nearest(name, command_name, tool_n_commands);
    return near ? tool_usage("unknown command '%s'; the nearest is %s", name, near)
                : tool_usage("unknown command '%s'; see reprise help", name);
}
