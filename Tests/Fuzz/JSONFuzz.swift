import JSON

/// Whatever bytes come, a document that is read and written reads and writes the same again.
enum JSONFuzz {
    static func run(_ bytes: [UInt8]) {
        guard let once = rewritten(bytes) else { return }
        guard let twice = rewritten(once) else { preconditionFailure("What was written cannot be read.") }
        precondition(once == twice, "What was written reads as something else.")
    }

    /// Reads a document and writes what it says; nil if there is something in it that is refused.
    private static func rewritten(_ bytes: [UInt8]) -> [UInt8]? {
        var writer = JSONWriter()
        do {
            try JSONParser().read(bytes) { root throws(JSONFault) in try write(root, to: &writer) }
        } catch {
            return nil
        }
        return writer.bytes
    }

    private static func write(_ value: JSONValue, to writer: inout JSONWriter) throws(JSONFault) {
        switch value.kind {
        case .null: writer.null()
        case .bool: writer.bool(try value.bool(at: ""))
        case .integer: writer.integer(try value.integer(at: ""))
        case .unsigned, .double: writer.double(try value.number(at: ""))
        case .string: writer.string(try value.string(at: ""))
        case .array:
            writer.beginArray()
            try value.forEachElement(at: "") { element throws(JSONFault) in try write(element, to: &writer) }
            writer.endArray()
        case .object:
            writer.beginObject()
            try value.forEachMember(at: "") { key, member throws(JSONFault) in
                writer.key(key.copy())
                try write(member, to: &writer)
            }
            writer.endObject()
        }
    }
}
