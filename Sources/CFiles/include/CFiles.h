#ifndef ONYM_DOCS_H
#define ONYM_DOCS_H

#include <stddef.h>

/* A file of the documentation: its path below docs, or below Sources/CDocs/files, and its bytes. Both live as long as the program. */
typedef struct {
    const char *name;
    const unsigned char *bytes;
    size_t count;
} onym_docs_file;

/* The number of files. */
size_t onym_docs_count(void);

/* The file at a place below the number of files. */
onym_docs_file onym_docs_file_at(size_t place);

#endif
