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
    /// The first id that no call up to a moment gives, as long as the clock does not go back: other servers give ids by other rules, so
    /// an id from there on is an imported one. The reserve is for moments with very many new people.
    package static func limit(at moment: Instant) -> PersonID {
        PersonID(at: moment.advanced(byMilliseconds: 60_000), chance: 0)
    }

    /// The first id that a call does not give by itself. Behind a step of the clock a call's own id is later than its moment, and its
    /// further ids follow that id.
    package static func limit(of call: PersonID, upTo moment: Instant) -> PersonID {
        let (own, isPast) = call.rawValue.addingReportingOverflow(idsOfACall)
        return max(limit(at: moment), PersonID(rawValue: isPast ? .max : own))
    }

    /// No call gives as many ids as a millisecond has.
    private static let idsOfACall = Int64(1) << chanceBits

    /// The last id that a call gave to a person, a merge or an alias; nil if it gave none. Ids that other servers gave to imported
    /// people do not count.
    ///
    /// - Parameters:
    ///   - call: the call's own id.
    ///   - moment: the latest moment of the journal with this call.
    package static func lastGiven(in changes: [Change], of call: PersonID, upTo moment: Instant) -> PersonID? {
        let limit = limit(of: call, upTo: moment)
        var last: PersonID?
        for change in changes {
            let given: PersonID
            switch change {
            case .personMade(let person, _): given = person
            case .merged(let merge): given = PersonID(rawValue: merge.id.rawValue)
            case .documentPut(let key, _, _) where key.kind == .alias:
                given = PersonID(rawValue: Int64(bitPattern: key.hash.low))
            case .linked, .unlinked, .mergeUndone, .rowAdded, .rowSuperseded, .documentPut, .personErased, .projectMade,
                .appMade, .appRevoked, .keyMade, .keyRevoked, .renamed, .strategySet:
                continue
            }
            if given < limit { last = max(last ?? given, given) }
        }
        return last
    }
}
