/* A call's arguments as words, flat and in order, depth first: what guards are predicates over.
 *
 * A value is a head and what follows it: its kind in the lowest byte, dtype, rank and state of a tensor above it, items or bytes in the upper
 * half. Then the sizes of a tensor, a literal, the bytes of a string, or the items, of a map each behind its name (bytes, then text).
 * So words tell where they end, and equal structure means equal places. */
#ifndef FRONT_ARGS_H
#define FRONT_ARGS_H

#include "base/str.h"
#include "reprise/value.h"

enum { FRONT_FEW_WORDS = 256, FRONT_FEW_TENSORS = 64 };

typedef struct front_args {
    const rp_value *value;
    uint64_t *word; /* n */
    uint64_t hash;  /* of the words: equal words have one, whoever read them */
    uint32_t n, cap;
    const rp_value **tensor; /* n_tensors, in order */
    uint32_t *at;            /* the head of each */
    uint32_t n_tensors, cap_tensors;
    const char *refused; /* what the first tensor that was not taken is, or NULL */
    uint64_t few_words[FRONT_FEW_WORDS];
    const rp_value *few_tensors[FRONT_FEW_TENSORS];
    uint32_t few_at[FRONT_FEW_TENSORS];
} front_args;

/* v stays as long as a. RP_INVALID tells what is no value, and where. front_args_done also after a failure. */
rp_status front_args_read(front_args *a, const rp_value *v, rp_error *err) RP_MUST_USE;
/* RP_INVALID where two items of a map in v, which was read, have one name: which of them is meant? Asked of calls that no entry serves. */
rp_status front_check_names(const rp_value *v, rp_error *err) RP_MUST_USE;
void front_args_done(front_args *a);

static inline rp_value_kind front_kind(uint64_t head) {
    return (rp_value_kind)(head & 0xff);
}
static inline rp_dtype front_dtype(uint64_t head) {
    return (rp_dtype)(head >> 8 & 0xff);
}
static inline uint32_t front_rank(uint64_t head) {
    return (uint32_t)(head >> 16 & 0xff);
}
static inline bool front_is_state(uint64_t head) {
    return (head >> 24 & 1) != 0;
}
static inline uint32_t front_count(uint64_t head) {
    return (uint32_t)(head >> 32);
}

/* What word `at` of some is. */
typedef enum front_field { FRONT_HEAD, FRONT_SIZE, FRONT_LITERAL, FRONT_NAME } front_field;
typedef struct front_place {
    front_field field;
    uint32_t head;  /* of the value, or of the map that a name is in */
    uint32_t index; /* SIZE: the axis; NAME: the item */
} front_place;
/* Appends what the value is called, "L['x'][0]", to source. */
front_place front_describe(const uint64_t *word, uint32_t at, base_buf *source);
/* The word behind the value whose head is at `head`. */
uint32_t front_after(const uint64_t *word, uint32_t head);
/* The next integer from head *head on, which becomes where the search goes on; false: there is none. */
bool front_next_int(const front_args *a, uint32_t *head, uint32_t *word);
uint32_t front_count_ints(const front_args *a);
/* "f32[8, 1024]", "3", "'abc'", "tuple": the value whose head is at `head`. */
void front_put_value(const uint64_t *word, uint32_t head, base_buf *out);
/* The type of it in Python's words. */
const char *front_type_name(uint64_t head);

#endif
