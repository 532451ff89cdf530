/// The facts about an imported person that the server's own people do not have.
package struct ImportedPerson: Equatable, Sendable {
    /// The moment at which the person was made, by the file; nil for the moment in the person's id.
    package var made: Instant?
    /// The links that had ended before the import, by their hashes. A second import must not add them again.
    var pastLinks: [UInt64] = []

    static let pastLinksAtMost = 1000

    init() {}

    static func key(_ person: PersonID) -> DocumentKey { DocumentKey(.importedPerson, of: person) }

    /// The moment at which a person was made, by the person's document. An imported person keeps the moment of its file.
    static func madeAt(_ person: PersonID, _ document: [UInt8]?) -> Instant {
        document.flatMap(ImportedPerson.init(packed:))?.made ?? person.madeAt
    }

    var packed: [UInt8] {
        var packer = Packer()
        packer.add(kept: made?.milliseconds)
        packer.add(UInt64(pastLinks.count))
        for link in pastLinks { packer.add(link) }
        return packer.bytes
    }

    init?(packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        guard let made = unpacker.keptNumber(), let count = unpacker.integer(),
            count <= UInt64(ImportedPerson.pastLinksAtMost)
        else { return nil }
        self.made = made.value.map(Instant.init)
        for _ in 0..<count {
            guard let link = unpacker.integer() else { return nil }
            pastLinks.append(link)
        }
    }
}

extension DocumentFacts {
    /// The moment at which a person was made.
    func madeAt(_ person: PersonID) -> Instant {
        ImportedPerson.madeAt(person, document(ImportedPerson.key(person)))
    }
}

extension Snapshot {
    /// The moment at which a person was made.
    package func madeAt(_ person: PersonID) throws(StoreFault) -> Instant {
        ImportedPerson.madeAt(person, try document(ImportedPerson.key(person)))
    }
}

extension PersonID {
    /// The first id that no call up to a moment makes by itself. An id from there on is an imported one: other servers give
    /// ids by other rules. The reserve is for moments with very many new people.
    package static func limit(at moment: Instant) -> PersonID {
        PersonID(at: moment.advanced(byMilliseconds: 60_000), chance: 0)
    }

    /// The first id that a call does not make by itself. Behind a step of the clock a call's own id, and the next ids that it gives,
    /// are later than its moment.
    package static func limit(of call: PersonID, upTo moment: Instant) -> PersonID {
        max(limit(at: moment), limit(at: call.madeAt))
    }
}
