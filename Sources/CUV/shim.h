#ifndef ONYM_CUV_SHIM_H
#define ONYM_CUV_SHIM_H

#include <uv.h>

#endif
