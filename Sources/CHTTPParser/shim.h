#ifndef ONYM_CHTTPPARSER_SHIM_H
#define ONYM_CHTTPPARSER_SHIM_H

// The parser that Node used to have: tests compare ours with it. The server does not use it.
#include <http_parser.h>

#endif
