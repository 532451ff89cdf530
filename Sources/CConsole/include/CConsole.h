#ifndef ONYM_CONSOLE_H
#define ONYM_CONSOLE_H

#include <stddef.h>

/* A file of the console: its path below Sources/CConsole/files, and its bytes. Both live as long as the program. */
typedef struct {
    const char *name;
    const unsigned char *bytes;
    size_t count;
} onym_console_file;

/* The number of files. */
size_t onym_console_count(void);

/* The file at a place below the number of files. */
onym_console_file onym_console_file_at(size_t place);

#endif
