/* D1 to D14 on a device. */
#ifndef SUPPORT_DEFECTS_H
#define SUPPORT_DEFECTS_H

/* A cmocka group; gives how many failed. */
int defects_run(const char *device, const char *group);

#endif
