/* NVRTC for tests that want its errors and never run what it makes: it optimizes less, which takes a third of the time, and what it
 * made of a text in this run or in another one before (test/run.sh) it does not make again. */
#ifndef TEST_HASTY_H
#define TEST_HASTY_H

#include <stdbool.h>

#include "hal/cuda/api.h"

/* Changes rtc, which cuda_nvrtc_open has filled. Nothing where it is older than 13.0, which may not know the option. */
void hasty_nvrtc(cuda_nvrtc *rtc);

#endif
