/* What a launch does with the memory of an argument. */
#ifndef BASE_ACCESS_H
#define BASE_ACCESS_H

typedef enum base_access { BASE_READS = 1, BASE_WRITES = 2 } base_access; /* bits */

#endif
