#ifndef ONYM_FILES_H
#define ONYM_FILES_H

#include <stddef.h>

/* A file for browsers: its folder (console or docs), its path below the folder, and its bytes. All live as long as the program. */
typedef struct {
    const char *folder;
    const char *name;
    const unsigned char *bytes;
    size_t count;
} onym_file;

/* The number of files. */
size_t onym_file_count(void);

/* The file at a place below the number of files. */
onym_file onym_file_at(size_t place);

#endif
