/* Inside of the text form: numbers, shared by print.c and parse. */
#ifndef IR_TEXT_H
#define IR_TEXT_H

#include "base/alloc.h"
#include "base/str.h"

/* Exact hexadecimal form ("0x1.8p+1", "-inf", "nan"), the same in every locale. */
void ir_float_print(double v, base_buf *out);
/* Reads that, or a decimal number, from the n bytes of s; false when it is neither. */
bool ir_float_parse(const char *s, size_t n, double *out);

#endif
