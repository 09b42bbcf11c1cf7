/* Everything public. */
#ifndef REPRISE_REPRISE_H
#define REPRISE_REPRISE_H

#include "reprise/cache.h"
#include "reprise/config.h"
#include "reprise/dispatch.h"
#include "reprise/dtype.h"
#include "reprise/engine.h"
#include "reprise/forward_context.h"
#include "reprise/graph.h"
#include "reprise/log.h"
#include "reprise/machine.h"
#include "reprise/op.h"
#include "reprise/status.h"
#include "reprise/tensor.h"

#endif
