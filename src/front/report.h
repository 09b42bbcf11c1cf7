/* What is noted of a function for its report. */
#ifndef FRONT_REPORT_H
#define FRONT_REPORT_H

#include "front/front.h"
#include "trace/trace.h"

typedef enum front_note_kind {
    FRONT_NOTE_WHY,   /* an entry was made */
    FRONT_NOTE_GRAPH, /* one was compiled */
    FRONT_NOTE_BREAK, /* counted by text, as */
    FRONT_NOTE_EAGER  /* a call that ran op by op, is */
} front_note_kind;

/* Takes f's lock, as all of these but front_notes_clear. */
void front_note_text(rp_jit *f, front_note_kind kind, uint32_t entry, const char *text);
/* Its ops, how long it took, and who compiled its pieces. */
void front_note_graph(rp_jit *f, const rp_graph *g, uint32_t entry, double ms,
                      const rp_compiled_info *info);
/* On the channel explain, where that is on. */
void front_report_log(rp_jit *f);
/* The same when f is freed, unless the end of the process has told all of it. */
void front_report_last(rp_jit *f);
/* Where REPRISE_LOGS asks for it, a function that is still there when the process ends is reported then: between these two. */
void front_report_join(rp_jit *f);
void front_report_leave(rp_jit *f);

#endif
