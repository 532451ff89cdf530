/// The list of an Accept field (RFC 9110 12.4.2).
package enum AcceptList {
    /// Whether a list names something, without a weight of 0.
    package static func names(_ name: String, in list: String) -> Bool {
        list.lowercased().split(separator: ",").contains { entry in
            let parts = entry.split(separator: ";").map { part in part.filter { $0 != " " && $0 != "\t" } }
            guard parts.first == name else { return false }
            return !parts.dropFirst().contains { ["q=0", "q=0.0", "q=0.00", "q=0.000"].contains($0) }
        }
    }
}
