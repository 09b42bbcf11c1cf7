/* The build's hash of the sources that decide what is generated. */
#include "base/embed.h"
#include "compile/compile.h"

const char *compile_source_hash(void) {
    return RP_SOURCE_HASH;
}
