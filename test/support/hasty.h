/* NVRTC for tests that want its errors and never run what it makes: it optimizes less, which takes a third of the time. */
#ifndef TEST_HASTY_H
#define TEST_HASTY_H

#include <stdbool.h>

#include "hal/cuda/api.h"

/* Changes rtc, which cuda_nvrtc_open has filled. Nothing where it is older than 13.0, which may not know the option.
 * assemble: false where other tests have the same instructions assembled, so that the assembler, which takes most of the time, could
 * find shared memory that does not fit and no more: code is then one byte. */
void hasty_nvrtc(cuda_nvrtc *rtc, bool assemble);

#endif
