/* Writes a synthetic model as a GGUF file. */
#ifndef MODEL_GGUF_WRITE_H
#define MODEL_GGUF_WRITE_H

#include "base/target.h"
#include "model/weights.h"

/* GGUF 3 with all of a synthetic model: whoever opens the file has the same ids of the same text and the same weights.
 * A few MB of memory at a time. RP_IO names the target. */
rp_status model_gguf_write(model_source *s, base_target *to, rp_error *err) RP_MUST_USE;

#endif
