/// The documents of a dry run. No other code sees them.
struct ScratchDocuments: DocumentFacts {
    private var bodies: [DocumentKey: [UInt8]] = [:]

    func document(_ key: DocumentKey) -> [UInt8]? { bodies[key] }

    /// The bodies of a kind, in any order.
    func all(_ kind: DocumentKind) -> [(key: DocumentKey, body: [UInt8])] {
        bodies.filter { $0.key.kind == kind }.map { ($0.key, $0.value) }
    }

    /// Applies the documents of a decision, and ignores its other changes.
    mutating func apply(_ changes: [Change]) {
        for case .documentPut(let key, _, let body) in changes { put(key, body) }
    }

    /// - Parameter body: an empty body removes the document.
    mutating func put(_ key: DocumentKey, _ body: [UInt8]) { bodies[key] = body.isEmpty ? nil : body }
}
