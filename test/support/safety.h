/* What keeps replays from reading or writing where they must not, on any device. */
#ifndef SUPPORT_SAFETY_H
#define SUPPORT_SAFETY_H

int safety_run(const char *device, const char *group);

#endif
