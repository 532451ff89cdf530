#ifndef ONYM_CZLIB_SHIM_H
#define ONYM_CZLIB_SHIM_H

#include <zlib.h>

// zlib has this as a macro. 16 + 15: a gzip wrapper and the largest window.
static inline int onym_inflate_init_gzip(z_stream *stream) {
    return inflateInit2(stream, 16 + 15);
}

static inline int onym_deflate_init_gzip(z_stream *stream, int level) {
    return deflateInit2(stream, level, Z_DEFLATED, 16 + 15, 8, Z_DEFAULT_STRATEGY);
}

#endif
