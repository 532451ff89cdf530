#include "CFaultyDisk.h"

#include <malloc.h>

size_t onym_memory_in_use(void) {
    struct mallinfo2 now = mallinfo2();
    return now.uordblks + now.hblkhd;
}
