/// A part of an export of all people of a project: the facts of one moment, in an order that an import can take.
///
/// An export reads the journal, then the rows, then the journal again for access, installs and aliases, because these need
/// the people and the merges before them. Its place has three numbers, so an export continues after any interruption, and the
/// server keeps nothing about it.
package struct ExportPage {
    /// A place in an export.
    package struct Place: Equatable, Sendable {
        /// A part of an export. Places of clients have the raw values.
        package enum Part: UInt8, Sendable {
            case people = 0
            case rows = 1
            case holdings = 2
        }

        /// The export has what was made, ended or erased after this call.
        package let since: JournalSequence
        /// The last call of the export.
        package let upTo: JournalSequence
        package fileprivate(set) var part = Part.people
        /// The call or the row before the place.
        package fileprivate(set) var after: Int64

        package init(since: JournalSequence, upTo: JournalSequence) {
            self.since = since
            self.upTo = upTo
            after = since.rawValue
        }

        /// The place that a client names; nil for a place that no answer had.
        package init?(since: JournalSequence, upTo: JournalSequence, part: UInt8, after: Int64) {
            guard let part = Part(rawValue: part), since.rawValue >= 0, since <= upTo, after >= 0 else { return nil }
            self.init(since: since, upTo: upTo)
            self.part = part
            self.after = after
        }
    }

    /// What an export is for.
    package enum Form: Equatable, Sendable {
        /// The lines that an import reads.
        case facts
        /// The same lines, and what the tables of a warehouse need beside them.
        case tables
        /// Only people, their merges and erasures, from which the tables of a part know the groups before it. A merge also comes
        /// if one of its two people was erased, so that the roots of the other one are complete.
        case graph
    }

    package private(set) var lines: [ExportedLine] = []
    /// The place of the next page; nil at the end.
    package private(set) var next: Place?

    private let form: Form
    private let project: ProjectID
    private let snapshot: any Snapshot
    private let isCurrent: Bool
    /// The documents and the people of this page. A page has each of them once.
    private var written: Set<DocumentKey> = []
    private var settled: Set<PersonID> = []
    /// The catalog of the project, once a purchase has asked for it.
    private var catalog: Catalog?
    /// What the page has read about the people of the calls at hand.
    private var known = KnownPeople()

    /// The facts of calls and the rows that the page has looked at.
    private var looked = 0

    /// A page ends behind the call or the row with which it has so many facts, or has looked at so many.
    package static let factsPerPage = 4000
    private static let lookedAtPerPage = 20_000
    private static let callsReadAtOnce = 32
    private static let rowsReadAtOnce = 500

    /// Reads a page.
    package init(
        _ place: Place, _ form: Form = .facts, in project: ProjectID, _ snapshot: any Snapshot
    ) throws(StoreFault) {
        self.form = form
        self.project = project
        self.snapshot = snapshot
        isCurrent = try snapshot.lastCall() <= place.upTo
        let begin = place
        var place = place
        while true {
            let isDone =
                switch place.part {
                case .people:
                    try readCalls(&place) { page, call throws(StoreFault) in try page.takePeople(call, begin) }
                case .rows: try readRows(&place)
                case .holdings:
                    try readCalls(&place) { page, call throws(StoreFault) in try page.takeHoldings(call, begin) }
                }
            if !isDone { break }
            if form == .graph { return }
            switch place.part {
            case .people:
                place.part = .rows
                place.after = place.since.rawValue == 0 ? 0 : try snapshot.lastRow(before: place.since.next).rawValue
            case .rows:
                place.part = .holdings
                place.after = place.since.rawValue
            case .holdings: return
            }
        }
        next = place
    }

    private var isFull: Bool {
        lines.count >= ExportPage.factsPerPage || looked >= ExportPage.lookedAtPerPage
    }

    private mutating func add(_ fact: ExportedFact, made: RecordedCall? = nil, ended: CallHead? = nil) {
        lines.append(ExportedLine(fact, made: made, ended: ended))
    }

    /// Reads calls until the page is full; true behind the last call of the export.
    private mutating func readCalls(
        _ place: inout Place, _ take: (inout ExportPage, RecordedCall) throws(StoreFault) -> Void
    ) throws(StoreFault) -> Bool {
        // One call of an import fills a page.
        var limit = 1
        while !isFull {
            let calls = try snapshot.calls(after: JournalSequence(rawValue: place.after), limit: limit)
            known = try KnownPeople(of: calls, for: place, form, isCurrent: isCurrent, in: project, snapshot)
            for call in calls {
                if call.sequence > place.upTo { return true }
                if call.project == project { try take(&self, call) }
                place.after = call.sequence.rawValue
                looked += call.facts.count
                if isFull { return false }
            }
            if calls.count < limit { return true }
            limit = min(2 * limit, ExportPage.callsReadAtOnce)
        }
        return false
    }

    private mutating func readRows(_ place: inout Place) throws(StoreFault) -> Bool {
        let last = try snapshot.lastRow(before: place.upTo.next)
        while !isFull {
            let rows = try snapshot.rows(
                after: RowNumber(rawValue: place.after), limit: ExportPage.rowsReadAtOnce)
            let arrivals = form == .tables ? try snapshot.arrivals(of: rows.map(\.row.number)) : [:]
            for (holder, row) in rows {
                if row.number > last { return true }
                if holder == project {
                    add(.row(row))
                    lines[lines.count - 1].receivedAt = arrivals[row.number]?.at
                }
                place.after = row.number.rawValue
            }
            looked += rows.count
            if rows.count < ExportPage.rowsReadAtOnce { return true }
        }
        return false
    }

    // MARK: - People, identities, properties and merges

    private mutating func takePeople(_ call: RecordedCall, _ place: Place) throws(StoreFault) {
        let sinces = call.linkSinces
        var (links, ends) = (0, 0)
        for fact in call.facts {
            switch fact {
            case .personMade(let person):
                guard let summary = snapshot.person(person, in: project) else { continue }
                add(.person(person, made: known.madeAt(person), seen: summary.lastSeen), made: call)
                if form == .graph { continue }
                for (_, kind) in Holdings.propertyKinds { try takeProperties(kind, of: person, place) }
            case .linked(let person, let type, let value):
                defer { links += 1 }
                let since = links < sinces.count ? sinces[links] : nil
                if form != .graph { takeLink(call, links, person, type, value, since: since) }
            case .unlinked(let person, let type, let value):
                defer { ends += 1 }
                // An export that has the beginning of the link has the link, and the link says its end.
                guard form != .graph, place.since.rawValue > 0, isThere(person), ExportPage.isShown(type),
                    known.begin(ofLink: ends, endedBy: call.sequence) <= place.since
                else { continue }
                add(.link(person, type, value, since: nil, until: call.at), ended: call.head)
            case .merged(let merge):
                guard isShown(merge) else { continue }
                let undone = known.end(of: merge, madeBy: call.sequence)
                add(.merge(merge, at: call.at, undone: undone?.at), made: call, ended: undone)
            case .mergeUndone(let merge):
                // An export of everything has the merge, and the merge says its undo.
                guard place.since.rawValue > 0, isThere(merge.from), isThere(merge.into),
                    let made = try snapshot.call(ofMerge: merge.id),
                    made.sequence <= place.since
                else { continue }
                add(.merge(merge, at: made.at, undone: call.at), made: made, ended: call.head)
            case .personErased(let person):
                if place.since.rawValue > 0 || form == .graph { add(.erased(person), made: call) }
            case .documentPut(let person, let kind):
                // An export of everything has the properties with their person.
                guard form != .graph, place.since.rawValue > 0, isThere(person) else { continue }
                try takeProperties(kind, of: person, place)
            case .rowsAdded: break
            }
        }
    }

    private mutating func takeLink(
        _ call: RecordedCall, _ number: Int, _ person: PersonID, _ type: IdentityType, _ value: String, since: Instant?
    ) {
        guard isThere(person), ExportPage.isShown(type) else { return }
        let ended = known.end(ofLink: number, madeBy: call.sequence)
        add(.link(person, type, value, since: since ?? call.at, until: ended?.at), made: call, ended: ended)
        lines[lines.count - 1].place = number
    }

    private mutating func takeProperties(_ kind: DocumentKind, of person: PersonID, _ place: Place) throws(StoreFault) {
        guard let dialect = Holdings.propertyKinds.first(where: { $0.kind == kind })?.dialect else { return }
        let key = DocumentKey(kind, of: person)
        guard !written.contains(key), let attributes = try body(key, upTo: place.upTo).flatMap(Attributes.init(packed:))
        else { return }
        written.insert(key)
        for (name, entry) in attributes.entries.sorted(by: { $0.key < $1.key }) {
            add(.property(person, dialect, name: name, entry))
        }
    }

    /// A document as the last call of the export left it.
    private func body(_ key: DocumentKey, upTo last: JournalSequence) throws(StoreFault) -> [UInt8]? {
        if isCurrent { return known.document(key) }
        for version in try snapshot.versions(of: key, since: last.next) where version.madeBy <= last {
            return try snapshot.content(of: version)
        }
        return nil
    }

    /// Whether the project has the person. An erased person is in no export.
    private func isThere(_ person: PersonID) -> Bool { snapshot.person(person, in: project) != nil }

    private func isShown(_ merge: Merge) -> Bool {
        let (from, into) = (isThere(merge.from), isThere(merge.into))
        return form == .graph ? from || into : from && into
    }

    /// Whether an export has the links of a type. Installs have a kind of their own, and nobody is not an identity.
    private static func isShown(_ type: IdentityType) -> Bool { type != .linkingInstallID && type != .claimNobody }

    // MARK: - Access, installs and aliases

    /// The documents of access, installs and aliases.
    private static let holdingKinds: Set<DocumentKind> = [.accessUser, .purchase, .install, .alias, .aliasesOfPerson]

    private mutating func takeHoldings(_ call: RecordedCall, _ place: Place) throws(StoreFault) {
        for fact in call.facts {
            switch fact {
            case .personMade(let person):
                if known.withHoldings.contains(person) { try takeHoldings(of: person) }
            case .documentPut(let person, let kind):
                guard place.since.rawValue > 0 else { continue }
                if ExportPage.holdingKinds.contains(kind) { try takeHoldings(of: person) }
            case .linked, .unlinked, .merged, .mergeUndone, .personErased, .rowsAdded: break
            }
        }
    }

    /// Takes what a person has now. A state that is later than the export is also in the next export.
    private mutating func takeHoldings(of person: PersonID) throws(StoreFault) {
        guard isThere(person), settled.insert(person).inserted else { return }
        let identities = try snapshot.identities(of: person)
        let holdings = try Holdings(of: person, identities: identities, in: project, snapshot)
        for install in holdings.installs { add(.install(install)) }
        if let user = try snapshot.document(AccessUser.key(person)).flatMap({ AccessUser(person, packed: $0) }) {
            for (purchase, _) in holdings.purchases {
                let isOwner = purchase.owners.contains(person)
                // A purchase of a store account has a line for each user that has joined it.
                guard isOwner || purchase.installs.contains(person) else { continue }
                let principal = ExportedFact.Principal(user, isOfIdentity: isOwner)
                let transactions = purchase.history.transactions
                for (place, transaction) in transactions.enumerated() {
                    let renewal = place == transactions.count - 1 ? purchase.history.renewalState : nil
                    add(.purchase(principal, purchase, transaction, renewal: renewal))
                    try note(holder: person, entitlementsOf: transaction.product)
                }
            }
            for grant in user.grants {
                add(.grant(ExportedFact.Principal(user, isOfIdentity: grant.isOfIdentity), grant))
                try note(holder: person)
            }
        }
        for alias in try snapshot.aliases(of: person) where alias.source == person && isThere(alias.destination) {
            add(.alias(alias))
        }
    }

    /// Notes the person of the last line, which is about access, and the entitlements of its product.
    private mutating func note(holder: PersonID, entitlementsOf product: String? = nil) throws(StoreFault) {
        guard form == .tables else { return }
        lines[lines.count - 1].holder = holder
        guard let product else { return }
        if catalog == nil {
            catalog = try snapshot.document(Catalog.key(project)).flatMap(Catalog.init(packed:)) ?? Catalog()
        }
        lines[lines.count - 1].entitlements = catalog?.product(product)?.entitlements ?? []
    }
}
