/* Status codes and error detail.
 *
 * Every call that can fail returns an rp_status and takes an rp_error last. */
#ifndef REPRISE_STATUS_H
#define REPRISE_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define RP_API __attribute__((visibility("default")))
#define RP_MUST_USE __attribute__((warn_unused_result))
#define RP_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define RP_API
#define RP_MUST_USE
#define RP_PRINTF(fmt, args)
#endif

/* name, wire text, meaning */
#define RP_STATUS_LIST(X)                                                      \
    X(OK, "ok", "no error")                                                    \
    X(INVALID, "invalid", "the caller broke the contract or the input is bad") \
    X(CONFIG, "config", "bad usage or configuration")                          \
    X(NOT_FOUND, "not_found", "a file, key or name does not exist")            \
    X(UNSUPPORTED, "unsupported", "known, but not supported here")             \
    X(NOMEM, "nomem", "host or device memory exhausted")                       \
    X(IO, "io", "a system call on a file or process failed")                   \
    X(CORRUPT, "corrupt", "data failed its checksum or its format's rules")    \
    X(DEVICE, "device", "the accelerator or its driver failed")                \
    X(CANCELLED, "cancelled", "stopped on request")                            \
    X(INTERNAL, "internal", "an invariant of the library does not hold")

typedef enum rp_status {
#define RP_STATUS_ENUM(name, wire, meaning) RP_##name,
    RP_STATUS_LIST(RP_STATUS_ENUM)
#undef RP_STATUS_ENUM
        RP_STATUS_COUNT_
} rp_status;

/* Where the first failure of a call happened and what it was; each call clears it first, so one may serve many
 * calls, of one thread at a time. Owned by the caller, never allocates, so it also works when memory is what ran out. */
typedef struct rp_error {
    rp_status code;
    int line;         /* source line that reported it */
    const char *file; /* static string */
    char text[480];   /* one line: what, with the values, then what to do */
} rp_error;

/* Wire text of code ("nomem"); "unknown" for a value outside the enum. Thread-safe. */
RP_API const char *rp_status_name(rp_status code);

/* Process exit code that belongs to a status: 0 done, 1 failed at run time,
 * 2 bad usage or configuration, 3 not supported here. */
RP_API int rp_status_exit_code(rp_status code);

#ifdef __cplusplus
}
#endif
#endif
