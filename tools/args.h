/* The command line: one table of flags, one of commands. */
#ifndef TOOLS_ARGS_H
#define TOOLS_ARGS_H

#include <stdbool.h>
#include <stddef.h>

#include "reprise/reprise.h"

/* Commands as bits, for the column `where` of flags.def. */
enum {
    TOOL_RUN = 1,
    TOOL_SCORE = 2,
    TOOL_EVAL = 4,
    TOOL_COMPILE = 8,
    TOOL_EXPLAIN = 16,
    TOOL_CACHE = 32,
    TOOL_OPT = 64,
    TOOL_DOCTOR = 128,
    TOOL_HELP = 256,
    TOOL_SYNTH = 512,
    TOOL_BENCH = 1024,
    TOOL_ABSENT = 2048, /* known, without machinery: listed nowhere */
    TOOL_BISECT = 4096,
    TOOL_ENGINE = TOOL_RUN | TOOL_SCORE | TOOL_COMPILE | TOOL_EXPLAIN | TOOL_BENCH | TOOL_CACHE |
                  TOOL_BISECT,
    TOOL_EVERY = 8191
};

typedef enum tool_flag {
#define FLAG(id, name, value, range, where, key, help) TOOL_FLAG_##id,
#include "tools/flags.def"
#undef FLAG
    TOOL_FLAG_COUNT_
} tool_flag;

typedef enum tool_range_kind { TOOL_ANY, TOOL_INT, TOOL_REAL, TOOL_ABOVE } tool_range_kind;
typedef struct tool_range {
    tool_range_kind kind;
    long long min, max;
} tool_range;

typedef struct tool_flag_info {
    const char *name, *value; /* value NULL: a switch */
    tool_range range;
    unsigned where;
    const char *key, *help;
} tool_flag_info;
extern const tool_flag_info tool_flags[TOOL_FLAG_COUNT_];

typedef struct tool_args tool_args;

typedef struct tool_command {
    const char *name;
    unsigned where;
    const char *args; /* "MODEL [PROMPT]" */
    int min_pos, max_pos;
    int (*run)(tool_args *a); /* gives the exit code */
    const char *help;
} tool_command;
extern const tool_command tool_commands[];
extern const size_t tool_n_commands;

typedef struct tool_given {
    tool_flag flag;
    const char *value;
} tool_given;

struct tool_args {
    const tool_command *cmd;
    tool_given *given; /* in the order of the command line */
    size_t n_given;
    const char **pos; /* arguments that are no flags */
    int n_pos;
    const char *ahead;             /* the argument ahead of the first one too many */
    rp_compilation_config *config; /* freed with the rest unless taken */
    bool json, quiet;
};

/* Reads everything behind the command; prints the error and gives its exit code, 0 when all is well. */
int tool_args_parse(tool_args *a, const tool_command *cmd, int argc, char **argv);
/* Is --json on? Asked first, since what is wrong with the other arguments is an event then. */
bool tool_args_json(int argc, char **argv);
void tool_args_done(tool_args *a);

/* Last value given, NULL when the flag is absent. */
const char *tool_get(const tool_args *a, tool_flag f);
bool tool_on(const tool_args *a, tool_flag f);
/* Numbers in the range of the flag, deflt when absent; false after printing what was expected. */
bool tool_int(const tool_args *a, tool_flag f, long long deflt, long long *out);
bool tool_real(const tool_args *a, tool_flag f, double deflt, double *out);
/* The configuration, now the caller's, with the command's default -O2 filled in; NULL after printing why not. */
rp_compilation_config *tool_take_config(tool_args *a, rp_status *st);

/* The name of n that z is a slip of, NULL when none is that near. */
const char *tool_nearest(const char *z, const char *(*name_at)(size_t i), size_t n);
/* Why a flag of vllm serve is none here; NULL: it is none there, or not known. */
const char *tool_foreign(const char *name);

#endif
