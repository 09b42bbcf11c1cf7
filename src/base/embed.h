/* Text files that the build carries inside the library, and the hash of the sources.
 *
 * The Makefile embeds src/<room>/embed/<file> and src/<room>/<file>.rules. The name is the file's, every character that C does not
 * allow in a name made '_': src/pass/simplify.rules is simplify_rules. */
#ifndef BASE_EMBED_H
#define BASE_EMBED_H

#include <stddef.h>

/* Declares the embedded file: rp_embed_<name>, NUL-terminated behind its
 * rp_embed_<name>_size bytes. */
#define BASE_EMBED(name)                 \
    extern const char rp_embed_##name[]; \
    extern const size_t rp_embed_##name##_size

/* 64 hex digits: SHA-256 over the sources of the rooms that decide what is compiled. */
extern const char rp_source_hash[];
#define RP_SOURCE_HASH rp_source_hash
/* The same over those that decide how weights are packed. */
extern const char rp_pack_hash[];
#define RP_PACK_HASH rp_pack_hash

#endif
