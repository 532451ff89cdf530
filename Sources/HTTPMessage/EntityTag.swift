import ByteText

/// A tag for one state of a document (RFC 9110 8.8.3).
package struct EntityTag: Equatable, Sendable {
    /// The tag with its quotes, as fields contain it.
    package let text: String

    /// Makes a tag of visible ASCII characters without quotes and commas.
    package init(_ opaque: String) { text = "\"\(opaque)\"" }

    /// Whether an If-None-Match names the tag: in its list, weak or strong, or by `*` (RFC 9110 13.1.2).
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
