#include "CSimdJSON.h"

#include <cstring>
#include <memory>
#include <new>
#include <simdjson.h>
#include <type_traits>

using namespace simdjson;

// Elements and iterators of the DOM are a document and a place in it, as onym_json_value is.
static_assert(sizeof(dom::element) == sizeof(onym_json_value) && std::is_trivially_copyable_v<dom::element>);
static_assert(sizeof(dom::object) == sizeof(onym_json_value) && std::is_trivially_copyable_v<dom::object>);
static_assert(sizeof(dom::object::iterator) == sizeof(onym_json_value));
static_assert(sizeof(dom::array::iterator) == sizeof(onym_json_value));

template <typename To, typename From> static To as(const From &from) {
    static_assert(sizeof(To) == sizeof(From) && std::is_trivially_copyable_v<To> && std::is_trivially_copyable_v<From>);
    To to;
    std::memcpy(static_cast<void *>(&to), &from, sizeof to);
    return to;
}

/// The answer of a getter that cannot fail, because the caller has asked for the kind first.
template <typename Value> static Value sure(simdjson_result<Value> result) {
    Value value{};
    (void)std::move(result).get(value);
    return value;
}

struct onym_json_parser {
    explicit onym_json_parser(size_t depth) : depth(depth), parser(std::make_unique<dom::parser>()) {}

    size_t depth;
    std::unique_ptr<dom::parser> parser;
    // The input with the padding that simdjson reads beyond its end.
    std::unique_ptr<uint8_t[]> padded;
    size_t capacity = 0;

    // Up to this size, memory is kept from one document to the next.
    static constexpr size_t kept = 64 * 1024;

    bool make_room(size_t count) {
        size_t wanted = count < 4096 ? 4096 : count;
        if (wanted <= capacity && (capacity <= kept || wanted > kept)) return true;
        if (wanted < kept) wanted = std::min(kept, wanted * 2);
        capacity = 0;
        padded.reset(new (std::nothrow) uint8_t[wanted + SIMDJSON_PADDING]);
        parser = std::make_unique<dom::parser>();
        if (!padded || parser->allocate(wanted, depth) != SUCCESS) return false;
        capacity = wanted;
        return true;
    }
};

extern "C" {

onym_json_parser *onym_json_parser_make(size_t depth) {
    return new (std::nothrow) onym_json_parser(depth);
}

void onym_json_parser_free(onym_json_parser *parser) {
    delete parser;
}

int onym_json_parse(onym_json_parser *parser, const uint8_t *bytes, size_t count, onym_json_value *root) {
    if (count == 0) return ONYM_JSON_EMPTY;
    if (!parser->make_room(count)) return ONYM_JSON_NO_MEMORY;
    std::memcpy(parser->padded.get(), bytes, count);
    std::memset(parser->padded.get() + count, 0, SIMDJSON_PADDING);
    dom::element element;
    switch (parser->parser->parse(parser->padded.get(), count, false).get(element)) {
    case SUCCESS:
        *root = as<onym_json_value>(element);
        return ONYM_JSON_OK;
    case EMPTY: return ONYM_JSON_EMPTY;
    case UTF8_ERROR: return ONYM_JSON_NOT_UTF8;
    case DEPTH_ERROR: return ONYM_JSON_TOO_DEEP;
    case NUMBER_ERROR:
    case NUMBER_OUT_OF_RANGE: return ONYM_JSON_BAD_NUMBER;
    case MEMALLOC:
    case CAPACITY: return ONYM_JSON_NO_MEMORY;
    default: return ONYM_JSON_MALFORMED;
    }
}

int onym_json_kind(onym_json_value value) {
    switch (as<dom::element>(value).type()) {
    case dom::element_type::ARRAY: return ONYM_JSON_ARRAY;
    case dom::element_type::OBJECT: return ONYM_JSON_OBJECT;
    case dom::element_type::INT64: return ONYM_JSON_INT64;
    case dom::element_type::UINT64: return ONYM_JSON_UINT64;
    case dom::element_type::DOUBLE: return ONYM_JSON_DOUBLE;
    case dom::element_type::STRING: return ONYM_JSON_STRING;
    case dom::element_type::BOOL: return ONYM_JSON_BOOL;
    case dom::element_type::NULL_VALUE: break;
    }
    return ONYM_JSON_NULL;
}

bool onym_json_bool(onym_json_value value) {
    return sure(as<dom::element>(value).get_bool());
}

int64_t onym_json_int64(onym_json_value value) {
    return sure(as<dom::element>(value).get_int64());
}

uint64_t onym_json_uint64(onym_json_value value) {
    return sure(as<dom::element>(value).get_uint64());
}

double onym_json_double(onym_json_value value) {
    return sure(as<dom::element>(value).get_double());
}

onym_json_text onym_json_string(onym_json_value value) {
    std::string_view text = sure(as<dom::element>(value).get_string());
    return {reinterpret_cast<const uint8_t *>(text.data()), text.size()};
}

onym_json_iterator onym_json_members(onym_json_value object) {
    dom::object members = sure(as<dom::element>(object).get_object());
    return {as<onym_json_value>(members.begin()), as<onym_json_value>(members.end())};
}

onym_json_iterator onym_json_elements(onym_json_value array) {
    dom::array elements = sure(as<dom::element>(array).get_array());
    return {as<onym_json_value>(elements.begin()), as<onym_json_value>(elements.end())};
}

bool onym_json_next_member(onym_json_iterator *iterator, onym_json_text *key, onym_json_value *value) {
    if (iterator->at.index == iterator->end.index) return false;
    auto at = as<dom::object::iterator>(iterator->at);
    std::string_view name = at.key();
    *key = {reinterpret_cast<const uint8_t *>(name.data()), name.size()};
    *value = as<onym_json_value>(at.value());
    ++at;
    iterator->at = as<onym_json_value>(at);
    return true;
}

bool onym_json_next_element(onym_json_iterator *iterator, onym_json_value *value) {
    if (iterator->at.index == iterator->end.index) return false;
    auto at = as<dom::array::iterator>(iterator->at);
    *value = as<onym_json_value>(*at);
    ++at;
    iterator->at = as<onym_json_value>(at);
    return true;
}

}
