#ifndef ONYM_CPOSTGRES_SHIM_H
#define ONYM_CPOSTGRES_SHIM_H

#include <libpq-fe.h>
#include <poll.h>

#endif
