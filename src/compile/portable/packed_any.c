/* Products with packed weights for any processor, and the scratch that all forms need. */
#define RP_ISA 0
#define PACKED(name) portable_##name
#include "compile/portable/packed_kernel.c.inc"

#define MAX_ROWS_PACKED 12 /* rows that the forms interleave at most */
#define MAX_ROWS_FLOAT 6

int64_t portable_packed_scratch(int64_t k, bool packed_rows) {
    rp_size row = packed_rows ? RP_QROW_SIZE(k) : (rp_size)k * 4;
    return (int64_t)(RP_MM_ROUND64((packed_rows ? MAX_ROWS_PACKED : MAX_ROWS_FLOAT) * row) +
                     RP_MM_ROUND64(row));
}
