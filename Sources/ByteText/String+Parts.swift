// The language has these functions in its library for regular expressions, which is a twentieth of the program. Nothing else here
// needs it (docs/decisions/0078).

extension StringProtocol {
    /// The first place of a text in this text, compared byte by byte; nil for a text that is not there, and for an empty one.
    package func firstRange(of part: String) -> Range<Index>? {
        guard let first = part.utf8.first else { return nil }
        var start = utf8.startIndex
        while let place = utf8[start...].firstIndex(of: first) {
            let rest = utf8[place...]
            if rest.starts(with: part.utf8) { return place..<rest.index(place, offsetBy: part.utf8.count) }
            start = utf8.index(after: place)
        }
        return nil
    }

    /// Whether a text is in this text, compared byte by byte.
    package func contains(_ part: String) -> Bool { part.isEmpty || firstRange(of: part) != nil }

    /// This text with another text in all places of a part.
    package func replacing(_ part: String, with other: String) -> String {
        var (result, rest) = ("", self[...])
        while let place = rest.firstRange(of: part) {
            result += rest[..<place.lowerBound]
            result += other
            rest = rest[place.upperBound...]
        }
        return result + rest
    }
}
