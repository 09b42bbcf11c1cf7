/* Branches and loops of functions, on a device. */
#ifndef SUPPORT_BRANCHES_H
#define SUPPORT_BRANCHES_H

int branches_run(const char *device, const char *group);

#endif
