#ifndef ONYM_EXAMPLES_H
#define ONYM_EXAMPLES_H

#include <stddef.h>

/* The examples of calls: lines of JSON, one for each call. They live as long as the program. */
const unsigned char *onym_examples(void);

/* The number of bytes of the examples. */
size_t onym_examples_count(void);

#endif
