import ByteText
import CSimdJSON
import Glibc

/// A value of the document that a parser holds. It must not outlive the call that lent it.
///
/// Each getter takes the place of the value, for the message of a fault; the place is only made for a fault.
@safe
package struct JSONValue {
    package enum Kind: Equatable, Sendable {
        case null, bool, integer, unsigned, double, string, array, object
    }

    private let value: onym_json_value

    init(_ value: onym_json_value) { unsafe self.value = value }

    package var kind: Kind {
        switch unsafe Int(onym_json_kind(value)) {
        case ONYM_JSON_BOOL: .bool
        case ONYM_JSON_INT64: .integer
        case ONYM_JSON_UINT64: .unsigned
        case ONYM_JSON_DOUBLE: .double
        case ONYM_JSON_STRING: .string
        case ONYM_JSON_ARRAY: .array
        case ONYM_JSON_OBJECT: .object
        default: .null
        }
    }

    package var isNull: Bool { kind == .null }

    /// Lends the text of a string. A NUL in the text is a fault: later parts of the server could not handle it safely.
    package func text(at path: @autoclosure () -> String) throws(JSONFault) -> JSONText {
        guard kind == .string else { throw JSONFault(.wrong("must be a string"), at: path()) }
        let text = unsafe JSONText(onym_json_string(value))
        guard !text.hasNUL else { throw JSONFault(.wrong("must not hold a NUL character"), at: path()) }
        return text
    }

    /// Lends the text of a string; nil for null.
    package func optionalText(at path: @autoclosure () -> String) throws(JSONFault) -> JSONText? {
        isNull ? nil : try text(at: path())
    }

    /// The text of a string.
    package func string(at path: @autoclosure () -> String) throws(JSONFault) -> String {
        try text(at: path()).copy()
    }

    package func bool(at path: @autoclosure () -> String) throws(JSONFault) -> Bool {
        guard kind == .bool else { throw JSONFault(.wrong("must be true or false"), at: path()) }
        return unsafe onym_json_bool(value)
    }

    /// An integer, exact to all its 64 bits.
    package func integer(at path: @autoclosure () -> String) throws(JSONFault) -> Int64 {
        guard kind == .integer else { throw JSONFault(.wrong("must be a 64-bit integer"), at: path()) }
        return unsafe onym_json_int64(value)
    }

    /// A number of any form.
    package func number(at path: @autoclosure () -> String) throws(JSONFault) -> Double {
        switch kind {
        case .integer: Double(unsafe onym_json_int64(value))
        case .unsigned: Double(unsafe onym_json_uint64(value))
        case .double: unsafe onym_json_double(value)
        default: throw JSONFault(.wrong("must be a number"), at: path())
        }
    }

    /// Calls a body with the members of an object, in order. Of several members with one key the last counts.
    package func forEachMember(
        at path: @autoclosure () -> String, _ body: (JSONText, JSONValue) throws(JSONFault) -> Void
    ) throws(JSONFault) {
        guard kind == .object else { throw JSONFault(.wrong("must be an object"), at: path()) }
        var iterator = unsafe onym_json_members(value)
        var key = unsafe onym_json_text()
        var member = unsafe onym_json_value()
        while unsafe onym_json_next_member(&iterator, &key, &member) {
            let name = unsafe JSONText(key)
            if name.hasNUL { throw JSONFault(.wrong("must not have a key with a NUL character"), at: path()) }
            try body(name, unsafe JSONValue(member))
        }
    }

    /// The text of a string with any content. It is for values that are kept unchanged, and only for a string.
    var anyText: JSONText { unsafe JSONText(onym_json_string(value)) }

    /// Appends a number of any form in digits; an integer is exact.
    func appendNumber(to bytes: inout [UInt8]) {
        switch kind {
        case .integer: bytes.append(decimal: unsafe onym_json_int64(value))
        case .unsigned: bytes.append(decimal: unsafe onym_json_uint64(value))
        default: bytes.append(contentsOf: "\(unsafe onym_json_double(value))".utf8)
        }
    }

    /// Calls a body with the members of an object, with any keys. It is for values that are kept unchanged.
    func forEachAnyMember(_ body: (JSONText, JSONValue) -> Void) {
        guard kind == .object else { return }
        var iterator = unsafe onym_json_members(value)
        var key = unsafe onym_json_text()
        var member = unsafe onym_json_value()
        while unsafe onym_json_next_member(&iterator, &key, &member) {
            body(unsafe JSONText(key), unsafe JSONValue(member))
        }
    }

    /// Calls a body with the elements of an array.
    package func forEachElement(
        at path: @autoclosure () -> String, _ body: (JSONValue) throws(JSONFault) -> Void
    ) throws(JSONFault) {
        guard kind == .array else { throw JSONFault(.wrong("must be an array"), at: path()) }
        var iterator = unsafe onym_json_elements(value)
        var element = unsafe onym_json_value()
        while unsafe onym_json_next_element(&iterator, &element) {
            try body(unsafe JSONValue(element))
        }
    }
}

/// A text of the document that a parser holds, mostly a key. It must not outlive the call that lent it.
@safe
package struct JSONText: Equatable {
    private let text: onym_json_text

    init(_ text: onym_json_text) { unsafe self.text = text }

    private var bytes: UnsafeBufferPointer<UInt8> {
        unsafe UnsafeBufferPointer(start: text.bytes, count: text.count)
    }

    package var isEmpty: Bool { unsafe text.count == 0 }
    package var byteCount: Int { unsafe text.count }

    var hasNUL: Bool { unsafe text.count > 0 && memchr(text.bytes, 0, text.count) != nil }

    /// The text for a message, with a limited length.
    package var shown: String {
        let text = copy()
        return text.count > 64 ? text.prefix(64) + "…" : text
    }

    /// A copy of the text. The parser has checked that the text is UTF-8.
    package func copy() -> String { unsafe String(decoding: bytes, as: UTF8.self) }

    /// Lends the bytes.
    package func withBytes<Result>(_ body: (borrowing Span<UInt8>) -> Result) -> Result {
        body(unsafe Span(_unsafeElements: bytes))
    }

    package static func == (one: JSONText, other: JSONText) -> Bool {
        one.withBytes { unsafe $0.equals(Span(_unsafeElements: other.bytes)) }
    }

    package func equals(_ other: String) -> Bool {
        withBytes { $0.equals(other.utf8.span) }
    }

    package func hasPrefix(_ literal: StaticString) -> Bool {
        let count = literal.utf8CodeUnitCount
        return withBytes { $0.count >= count && $0.extracting(first: count).equals(literal) }
    }

    /// Matches a literal, for `switch key { case "email": … }`.
    package static func ~= (literal: StaticString, text: JSONText) -> Bool {
        text.withBytes { $0.equals(literal) }
    }
}
