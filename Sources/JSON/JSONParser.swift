import ByteText
import CSimdJSON
import Threads

/// Reads JSON documents, one at a time: simdjson over a copy of the bytes.
///
/// A parser keeps its memory from one document to the next, so each thread should have its own parser.
@safe
package final class JSONParser {
    private let handle: OpaquePointer

    /// The deepest nesting of arrays and objects in any document of the server, with some reserve.
    package static let defaultDepth = 32

    package init(depth: Int = JSONParser.defaultDepth) {
        guard let handle = unsafe onym_json_parser_make(depth) else {
            Shortage.end(missing: "memory for a parser of JSON")
        }
        unsafe self.handle = handle
    }

    deinit { unsafe onym_json_parser_free(handle) }

    /// Reads a document and lends its root; values are valid until the body returns.
    ///
    /// - Parameter mends: also accepts lone surrogates and integers beyond 64 bits, as U+FFFD and doubles.
    package func read<Result>(
        _ bytes: [UInt8], mends: Bool = false, _ body: (JSONValue) throws(JSONFault) -> Result
    ) throws(JSONFault) -> Result {
        var root = unsafe onym_json_value()
        let code = unsafe bytes.withUnsafeBufferPointer { bytes in
            unsafe Int(onym_json_parse(handle, bytes.baseAddress, bytes.count, &root))
        }
        switch code {
        case ONYM_JSON_OK: return try body(unsafe JSONValue(root))
        case ONYM_JSON_EMPTY: throw JSONFault(.empty)
        case ONYM_JSON_NOT_UTF8: throw JSONFault(.notUTF8)
        case ONYM_JSON_TOO_DEEP: throw JSONFault(.tooDeep)
        case ONYM_JSON_NO_MEMORY: throw JSONFault(.tooLarge)
        default:
            guard mends, let mended = Mending.mended(bytes) else {
                throw JSONFault(code == ONYM_JSON_BAD_NUMBER ? .badNumber : .malformed)
            }
            return try read(mended, body)
        }
    }
}
