package import Domain

/// A fact as the tables of a store have it.
package struct StoredFact {
    package enum Content {
        /// A fact whose columns are those of its leaf.
        case plain(LeafFact)
        case link(id: Int64, type: UInt8, value: [UInt8], project: Int64?, isEnd: Bool)
        case mergeEnd(id: Int64, into: Int64)
        case strategy(version: Int64, document: [UInt8], project: Int64)
        case row(kind: UInt8, at: Int64, body: [UInt8], recognition: UInt64?, device: UInt64?, isReplaced: Bool)
        case document(kind: UInt8, key: Hash128, body: [UInt8])
        /// The list of a person's calls has the call, which came to another person.
        case listed
    }

    package let call: Int64
    package let person: Int64
    package let content: Content

    package init(_ call: Int64, _ person: Int64, _ content: Content) {
        (self.call, self.person, self.content) = (call, person, content)
    }

    package init(_ call: Int64, _ person: Int64, _ fact: LeafFact) { self.init(call, person, .plain(fact)) }
}

/// A project, an app or a key as the tables of a store have it.
package struct StoredThing {
    package let kind: LeafFact.Thing
    package let id: Int64
    package let madeBy: Int64
    package let name: String
    /// In the order of the table of its kind.
    package let columns: [LeafFact.Column]
    package let revokedAt: Int64?

    package init(
        _ kind: LeafFact.Thing, _ id: Int64, madeBy: Int64, _ name: String, _ columns: [LeafFact.Column],
        revokedAt: Int64?
    ) {
        (self.kind, self.id, self.madeBy, self.name) = (kind, id, madeBy, name)
        (self.columns, self.revokedAt) = (columns, revokedAt)
    }

    /// What the leaf of its call has of the columns.
    package func content(_ hash: KeyedHash) -> UInt64 { LeafFact.content(columns, hash) }
    /// What the leaf of a call has of the name.
    package func nameHash(_ hash: KeyedHash) -> UInt64 { LeafFact.content(Array(name.utf8), hash) }
}

/// The tables of a store, for a comparison with the tree over its journal.
package protocol StoredFacts {
    associatedtype Tree: LeafRows

    var tree: Tree { get }

    /// The facts of some calls. Each question is about later calls than the question before it.
    func facts(of calls: ClosedRange<Int64>) throws(Tree.Failure) -> [StoredFact]
    /// The projects, apps and keys.
    func things() throws(Tree.Failure) -> [StoredThing]
    /// The call that replaced a row, 0 for a row that is in force; nil for a row that does not exist.
    func replacement(of row: Int64) throws(Tree.Failure) -> Int64?
    /// Whether the store has a row of a kind and of a project that retention would have removed before a row.
    func hasRow(of kind: UInt8, in project: Int64, before at: Int64, _ call: Int64) throws(Tree.Failure) -> Bool
    func isErased(_ person: Int64) throws(Tree.Failure) -> Bool
    /// The project of a person; nil if the store has no such person.
    func project(of person: Int64) throws(Tree.Failure) -> Int64?
    /// The keys and contents of the documents of a kind, the earliest first.
    func documents(_ kind: DocumentKind) throws(Tree.Failure) -> [(key: Hash128, body: [UInt8])]
}

/// Reads a table of facts in the order of the calls, or of keys that grow with the calls.
package final class FactStream<Fault: Error> {
    private let next: () throws(Fault) -> [StoredFact]
    private var buffer: ArraySlice<StoredFact> = []
    private var isAtEnd = false

    /// The facts behind a fact by which the fact is told to stand in the wrong place.
    package static var lookAhead: Int { 16 }

    /// - Parameter next: the next facts; none at the end.
    package init(_ next: @escaping () throws(Fault) -> [StoredFact]) { self.next = next }

    /// Moves the next facts up to a call into a list. A fact of a later call among facts of earlier calls comes with them.
    package func move(upTo call: Int64, to taken: inout [StoredFact]) throws(Fault) {
        while true {
            while buffer.count <= FactStream.lookAhead, !isAtEnd { try fill() }
            guard let first = buffer.first else { return }
            if first.call > call {
                let behind = buffer.dropFirst().prefix(FactStream.lookAhead)
                if behind.allSatisfy({ $0.call > call }) { return }
            }
            taken.append(first)
            buffer.removeFirst()
        }
    }

    private func fill() throws(Fault) {
        let facts = try next()
        isAtEnd = facts.isEmpty
        buffer = (Array(buffer) + facts)[...]
    }
}
