/// Documents of a rehearsal, which nobody else sees.
struct ScratchDocuments: DocumentFacts {
    private var bodies: [DocumentKey: [UInt8]] = [:]

    func document(_ key: DocumentKey) -> [UInt8]? { bodies[key] }

    /// The bodies of a kind, in no order.
    func all(_ kind: DocumentKind) -> [(key: DocumentKey, body: [UInt8])] {
        bodies.filter { $0.key.kind == kind }.map { ($0.key, $0.value) }
    }

    /// Takes over what a decision has put; what else it has changed means nothing here.
    mutating func apply(_ changes: [Change]) {
        for case .documentPut(let key, _, let body) in changes { put(key, body) }
    }

    /// - Parameter body: empty to take it away.
    mutating func put(_ key: DocumentKey, _ body: [UInt8]) { bodies[key] = body.isEmpty ? nil : body }
}
