/* Outputs that are held while later calls take more memory, on any device. */
#ifndef SUPPORT_HELD_OUTPUTS_H
#define SUPPORT_HELD_OUTPUTS_H

int held_outputs_run(const char *device, const char *group);

#endif
