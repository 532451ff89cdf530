#ifndef ONYM_CSIMDJSON_H
#define ONYM_CSIMDJSON_H

// simdjson's DOM for callers without C++. A value is a place in the document that its parser read last: it is good
// until the parser reads again.

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct onym_json_parser onym_json_parser;

typedef struct {
    const void *document;
    size_t index;
} onym_json_value;

typedef struct {
    onym_json_value at;
    onym_json_value end;
} onym_json_iterator;

typedef struct {
    const uint8_t *bytes;
    size_t count;
} onym_json_text;

enum {
    ONYM_JSON_NULL,
    ONYM_JSON_BOOL,
    ONYM_JSON_INT64,
    ONYM_JSON_UINT64,
    ONYM_JSON_DOUBLE,
    ONYM_JSON_STRING,
    ONYM_JSON_ARRAY,
    ONYM_JSON_OBJECT,
};

enum {
    ONYM_JSON_OK,
    ONYM_JSON_MALFORMED,
    ONYM_JSON_EMPTY,
    ONYM_JSON_NOT_UTF8,
    ONYM_JSON_TOO_DEEP,
    ONYM_JSON_BAD_NUMBER,
    ONYM_JSON_NO_MEMORY,
};

onym_json_parser *onym_json_parser_make(size_t depth);
void onym_json_parser_free(onym_json_parser *parser);

/// Reads a whole document; answers ONYM_JSON_OK and its root, or why not.
int onym_json_parse(onym_json_parser *parser, const uint8_t *bytes, size_t count, onym_json_value *root);

int onym_json_kind(onym_json_value value);

// Each of these is for a value of the one kind.
bool onym_json_bool(onym_json_value value);
int64_t onym_json_int64(onym_json_value value);
uint64_t onym_json_uint64(onym_json_value value);
double onym_json_double(onym_json_value value);
onym_json_text onym_json_string(onym_json_value value);
onym_json_iterator onym_json_members(onym_json_value object);
onym_json_iterator onym_json_elements(onym_json_value array);

/// Moves on to the next member; false at the end.
bool onym_json_next_member(onym_json_iterator *iterator, onym_json_text *key, onym_json_value *value);
/// Moves on to the next element; false at the end.
bool onym_json_next_element(onym_json_iterator *iterator, onym_json_value *value);

#ifdef __cplusplus
}
#endif

#endif
