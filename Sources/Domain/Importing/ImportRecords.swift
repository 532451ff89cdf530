/// A call that imports a batch of records (docs/moving-in.md).
///
/// A record that is in the way of a stored fact is refused, and the others are taken. So a file can be imported again: then
/// each record is found and nothing changes.
package struct ImportRecords: Act {
    package let id: ImportID
    /// The place in the source at which the batch begins, and the place behind it.
    package let from: UInt64
    package let to: Import.Place
    package let records: [ImportRecord]
    /// The results of earlier batches of a dry run; nil for an import that keeps its records.
    package let dryRun: ImportDryRun?

    package init(
        _ id: ImportID, from: UInt64, to: Import.Place, _ records: [ImportRecord], dryRun: ImportDryRun? = nil
    ) {
        (self.id, self.from, self.to, self.records, self.dryRun) = (id, from, to, records, dryRun)
    }

    package static var kinds: [ActKind] { [.importRecords] }
    // No merge changes an import's result in a way that an undo could show: the file names the people.
    package static var readsMerges: Bool { false }
    package var byteCount: Int { 256 + 96 * records.count }

    package var subjects: Subjects {
        var identities: [Identity] = []
        var people: [PersonID] = []
        identities.reserveCapacity(records.count)
        func add(_ owner: ImportRecord.Owner) {
            switch owner {
            case .id(let person): if people.last != person { people.append(person) }
            case .key(let identity): if identities.last != identity { identities.append(identity) }
            }
        }
        for record in records {
            add(record.owner)
            // The id that a new person would get.
            if case .key(let identity) = record.owner, let since = record.since {
                people.append(PersonID(at: since, chance: identity.key.hash.low))
            }
            if let user = record.user { identities.append(user) }
            switch record.content {
            case .link(let identity, _, _): identities.append(identity)
            case .merge(let into, _), .alias(let into, _, _): add(into)
            case .person, .property, .row, .purchase, .grant, .unfit: break
            }
        }
        return Subjects(people: people, links: identities)
    }

    /// Takes the records that nothing stored contradicts, and moves the import's place behind the batch. Throws
    /// `noSuchImport`, `importEnded`, and `wrongPosition` if the batch does not begin at the import's place. A dry run
    /// changes nothing.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<Imported> {
        var progress: Import
        if let dryRun {
            progress = dryRun.progress
        } else {
            progress = try view.importing(id, in: project)
        }
        guard progress.state == .running else { throw .importEnded }
        guard progress.place.position == from else { throw .wrongPosition(progress.place) }
        let ledger = dryRun?.settledLedger() ?? ImportLedger()
        if ledger.byteCount > ImportDryRun.bytesAtMost { throw .dryRunTooLarge }
        let importing = Importing(progress, stamp, in: project, view, ledger)
        var results: [Imported.Result] = []
        results.reserveCapacity(records.count)
        for record in records {
            let links = importing.links
            let (outcome, holder) = importing.take(record)
            progress.counts.add(record.kind, outcome)
            results.append(
                Imported.Result(
                    line: record.line, outcome: outcome, since: outcome.isRefused ? nil : record.since,
                    links: importing.links - links, holder: holder))
        }
        importing.finish()
        progress.place = to
        progress.changedAt = stamp.at
        let reply = Imported(
            id: id, call: stamp.person, results: results, access: importing.access, progress: progress)
        if let dryRun {
            dryRun.propose(progress, importing.ledger)
            return Decision(reply)
        }
        return Decision(
            reply,
            outcome: Outcome(
                kind: .importRecords, person: nil, changes: importing.changes + [progress.put]))
    }
}

/// The answer to ``ImportRecords``.
package struct Imported: Answer {
    package struct Result: Sendable {
        package let line: Int
        package let outcome: ImportOutcome
        /// The moment since which the fact holds, by the file.
        package let since: Instant?
        /// The number of identities that the record linked.
        package let links: Int
        /// The person that is in the way of a refused record. The journal does not keep it.
        package let holder: PersonID?

        fileprivate func isKept(like other: Result) -> Bool {
            line == other.line && outcome == other.outcome && since == other.since && links == other.links
        }
    }

    /// Access that the batch gave, so that an undo finds it.
    package enum Access: Equatable, Sendable {
        case purchase(PurchaseID)
        case grant(PersonID, AccessUser.Grant)
    }

    package let id: ImportID
    /// The id of the call, under which documents keep its writes.
    package let call: PersonID
    package let results: [Result]
    package let access: [Access]
    /// The progress after the batch. The journal does not keep it.
    package let progress: Import?

    init(id: ImportID, call: PersonID, results: [Result], access: [Access], progress: Import?) {
        (self.id, self.call, self.results, self.access, self.progress) = (id, call, results, access, progress)
    }

    package static let tags: [UInt8] = [ActKind.importRecords.rawValue]

    /// Compares what the journal keeps.
    package static func == (one: Imported, other: Imported) -> Bool {
        one.id == other.id && one.call == other.call && one.access == other.access
            && one.results.elementsEqual(other.results) { $0.isKept(like: $1) }
    }

    package func pack(into packer: inout Packer) {
        packer.add(1 as UInt8)
        packer.add(UInt64(bitPattern: id.rawValue))
        packer.add(call)
        packer.add(UInt64(results.count))
        var line: Int64 = 0
        var at: Int64 = 0
        // Neighbours are close together, so differences are short.
        for result in results {
            packer.add(zigzag: Int64(result.line) &- line)
            line = Int64(result.line)
            let links = UInt8(clamping: min(result.links, 3))
            packer.add(result.outcome.number << 3 | links << 1 | (result.since == nil ? 0 : 1))
            if let since = result.since {
                packer.add(zigzag: since.milliseconds &- at)
                at = since.milliseconds
            }
        }
        packer.add(UInt64(access.count))
        for access in access {
            switch access {
            case .purchase(let purchase):
                packer.add(1 as UInt8)
                packer.add(purchase.hash.bytes)
            case .grant(let person, let grant):
                packer.add(2 as UInt8)
                packer.add(person)
                grant.pack(into: &packer)
            }
        }
    }

    package init?(tag: UInt8, unpacking unpacker: inout Unpacker) {
        guard unpacker.byte() == 1, let id = unpacker.integer(), let call = unpacker.person(),
            let count = unpacker.integer(), count <= UInt64(Import.recordsPerBatch)
        else { return nil }
        var results: [Result] = []
        var line: Int64 = 0
        var at: Int64 = 0
        for _ in 0..<count {
            guard let step = unpacker.zigzag(), let flags = unpacker.byte(),
                let outcome = ImportOutcome(number: flags >> 3)
            else { return nil }
            line &+= step
            var since: Instant?
            if flags & 1 == 1 {
                guard let step = unpacker.zigzag() else { return nil }
                at = at &+ step
                since = Instant(milliseconds: at)
            }
            results.append(
                Result(line: Int(line), outcome: outcome, since: since, links: Int(flags >> 1 & 3), holder: nil))
        }
        guard let given = unpacker.integer(), given <= UInt64(Import.recordsPerBatch) else { return nil }
        var access: [Access] = []
        for _ in 0..<given {
            switch unpacker.byte() {
            case 1:
                guard let hash = unpacker.bytes().flatMap({ Hash128($0.span) }) else { return nil }
                access.append(.purchase(PurchaseID(hash: hash)))
            case 2:
                guard let person = unpacker.person(), let grant = AccessUser.Grant(unpacking: &unpacker) else {
                    return nil
                }
                access.append(.grant(person, grant))
            default: return nil
            }
        }
        self.init(
            id: ImportID(rawValue: Int64(bitPattern: id)), call: call, results: results, access: access, progress: nil)
    }
}

/// The place of a link in the file of its import.
package struct ImportOrigin: Equatable, Sendable {
    package let id: ImportID
    package let line: Int
    package let since: Instant?
}

extension RecordedCall {
    /// The place of an identity in the file, for a call that imported the identity's link.
    package func origin(of person: PersonID, _ type: IdentityType, _ value: String) -> ImportOrigin? {
        guard case .reply(let reply) = answer, let imported = reply.as(Imported.self) else { return nil }
        var links: [Fact] = []
        for case .linked(let holder, let held, let text) in facts { links.append(.linked(holder, held, text)) }
        guard var place = links.firstIndex(of: .linked(person, type, value)) else { return nil }
        for result in imported.results {
            if place < result.links { return ImportOrigin(id: imported.id, line: result.line, since: result.since) }
            place -= result.links
        }
        return nil
    }

    /// The vendor's moments of the links that the call made, in their order; empty for a call that is no import.
    var linkSinces: [Instant?] {
        guard case .reply(let reply) = answer, let imported = reply.as(Imported.self) else { return [] }
        return imported.results.flatMap { Array(repeating: $0.since, count: $0.links) }
    }
}
