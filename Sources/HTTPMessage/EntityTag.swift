import ByteText

/// Tells one state of a document from another (RFC 9110 8.8.3).
package struct EntityTag: Equatable, Sendable {
    /// As it stands in fields, with its quotes.
    package let text: String

    /// Takes visible ASCII characters without quotes and commas.
    package init(_ opaque: String) { text = "\"\(opaque)\"" }

    /// Whether an If-None-Match names it: in its list, be it weak there or strong, or by `*` (RFC 9110 13.1.2).
    package func isNamed(by list: borrowing Span<UInt8>) -> Bool {
        var start = 0
        while start <= list.count {
            let end = list.firstIndex(of: UInt8(ascii: ","), from: start) ?? list.count
            let name = String(copying: list.extracting(list.trimming(start..<end)))
            if name == "*" || name == text || name == "W/\(text)" { return true }
            start = end + 1
        }
        return false
    }
}
