/* Everything public.
 *
 * Threads: calls on different objects may run at the same time; what may run at the same time on one object is said where
 * its type is declared. Functions without an object are thread-safe unless they say otherwise.
 *
 * Option structs (engine, request, score, model facts, op) start with `size`, which an INIT macro or sizeof sets. They grow
 * at the end: fields that an older, shorter one lacks have the values of the INIT macro (zero where there is none), and a
 * newer, longer one is RP_UNSUPPORTED only when it sets something behind what the library knows. A size that cannot
 * be one is RP_INVALID. Structs that a call fills (result, compiled info) start with `size` as well, which the caller sets:
 * nothing is written behind it, and what a newer one has more is zero. Structs that are handed to a callback belong to the
 * library and grow at the end.
 *
 * A configuration that is NULL means the library's defaults, those of rp_config_new(): level 0, every op as it is written.
 * So it is in rp_engine_open, rp_compile and rp_cache_why; the command `reprise` starts from -O2 instead, and rp_jit_new, whose
 * caller wants something compiled, from level 2. */
#ifndef REPRISE_REPRISE_H
#define REPRISE_REPRISE_H

#include "reprise/autograph.h"
#include "reprise/backend.h"
#include "reprise/bisect.h"
#include "reprise/cache.h"
#include "reprise/config.h"
#include "reprise/control.h"
#include "reprise/device.h"
#include "reprise/dim.h"
#include "reprise/dispatch.h"
#include "reprise/dtype.h"
#include "reprise/engine.h"
#include "reprise/explain.h"
#include "reprise/forward_context.h"
#include "reprise/graph.h"
#include "reprise/jit.h"
#include "reprise/log.h"
#include "reprise/machine.h"
#include "reprise/model.h"
#include "reprise/nn.h"
#include "reprise/node.h"
#include "reprise/op.h"
#include "reprise/pass.h"
#include "reprise/status.h"
#include "reprise/support.h"
#include "reprise/tensor.h"
#include "reprise/value.h"
#include "reprise/view.h"

#endif
