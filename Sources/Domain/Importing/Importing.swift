/// The decision about the records of one batch. Each record sees the facts of the records before it.
final class Importing<V: DecisionFacts>: DocumentFacts {
    private let progress: Import
    private let stamp: Stamp
    private let project: ProjectID
    private let view: V
    private let strategy: Strategy
    private let catalog: Catalog
    private(set) var ledger: ImportLedger
    private var facts: [Change] = []
    /// The properties that the records changed. Their documents are packed once.
    private var properties: [DocumentKey: (person: PersonID, attributes: Attributes)] = [:]
    /// The number of links that the records made.
    private(set) var links = 0
    /// The access that the records gave.
    private(set) var access: [Imported.Access] = []
    /// The changed documents with their people, in the order of their first change.
    private var puts: [(key: DocumentKey, person: PersonID)] = []
    private var isPut: Set<DocumentKey> = []
    /// The next id for a person or a merge without an id of its own.
    private var next: PersonID

    /// The person that is in the way of the present record.
    private var holder: PersonID?

    init(_ progress: Import, _ stamp: Stamp, in project: ProjectID, _ view: V, _ ledger: ImportLedger) {
        self.progress = progress
        self.stamp = stamp
        self.project = project
        self.view = view
        self.ledger = ledger
        strategy = view.strategy(of: project)
        catalog = view.catalog(of: project)
        next = stamp.person
    }

    /// The changes of the batch. Each changed document is written once.
    var changes: [Change] {
        facts
            + puts.compactMap { put in
                let body = ledger.documents[put.key] ?? []
                return body == view.document(put.key) ?? [] ? nil : .documentPut(put.key, put.person, body)
            }
    }

    /// Takes a record, or refuses it. Returns also the person that is in the way.
    func take(_ record: ImportRecord) -> (outcome: ImportOutcome, holder: PersonID?) {
        holder = nil
        do throws(ImportOutcome.Reason) {
            return (try outcome(of: record), nil)
        } catch {
            return (.refused(error), holder)
        }
    }

    private func outcome(of record: ImportRecord) throws(ImportOutcome.Reason) -> ImportOutcome {
        switch record.content {
        case .unfit(let reason): throw reason
        case .person(let made, let seen): try takePerson(record, made: made, seen: seen)
        case .link(let identity, let since, let until): try takeLink(record, identity, since: since, until: until)
        case .property(let kind, let write, let at): try takeProperty(record, kind, write, at: at)
        case .row(let row, let isNamedAlone): try takeRow(record, row, isNamedAlone)
        case .purchase(let receipt): try takePurchase(record, receipt)
        case .grant(let entitlement, let from, let until): try takeGrant(record, entitlement, from, until)
        case .merge(let into, let rule): try takeMerge(record.owner, into, rule)
        case .alias(let into, let start, let end): try takeAlias(record.owner, into, start, end)
        }
    }

    // MARK: - The facts so far

    func document(_ key: DocumentKey) -> [UInt8]? {
        if let body = ledger.documents[key] { return body.isEmpty ? nil : body }
        return view.document(key)
    }

    private func put(_ key: DocumentKey, _ person: PersonID, _ body: [UInt8]) {
        ledger.documents[key] = body
        if isPut.insert(key).inserted { puts.append((key, person)) }
    }

    private func put(_ changes: [Change]) {
        for change in changes {
            if case .documentPut(let key, let person, let body) = change {
                put(key, person, body)
            } else {
                facts.append(change)
            }
        }
    }

    private func holders(of identity: IdentityKey) -> [PersonID] {
        var people = ledger.holders[identity] ?? []
        view.forEachHolder(of: identity) { people.append(view.id(of: $0)) }
        return people
    }

    private func isKnown(_ person: PersonID) -> Bool {
        ledger.made.contains(person) || view.person(person, in: project) != nil
    }

    private func isUsed(_ person: PersonID) -> Bool {
        ledger.made.contains(person) || view.person(person) != nil || view.isErased(person)
    }

    private func holds(_ person: PersonID, _ identity: IdentityKey) -> Bool {
        if ledger.held[person]?.contains(where: { $0.key == identity }) == true { return true }
        return view.person(person, in: project).map { view.holds($0, identity) } ?? false
    }

    private func forEachHeld(by person: PersonID, _ body: (IdentityType, IdentityKey) -> Void) {
        for held in ledger.held[person] ?? [] { body(held.type, held.key) }
        guard let place = view.person(person, in: project) else { return }
        view.forEachIdentity(of: place) { type, key in
            body(type, key)
            return true
        }
    }

    // MARK: - People

    /// A new id that no person has.
    private func freshID() -> PersonID {
        while isUsed(next) { next = next.next }
        defer { next = next.next }
        return next
    }

    private func make(_ person: PersonID, made: Instant?, seen: Instant?) {
        facts.append(.personMade(person, at: SeenAt(seen ?? made ?? stamp.at)))
        ledger.made.insert(person)
        guard let made, made != person.madeAt else { return }
        var imported = ImportedPerson()
        imported.made = made
        put(ImportedPerson.key(person), person, imported.packed)
    }

    private func link(_ person: PersonID, _ identity: Identity) {
        facts.append(.linked(person, identity))
        links += 1
        ledger.holders[identity.key, default: []].append(person)
        ledger.held[person, default: []].append((identity.type, identity.key))
        if identity.type == .linkingExternalID { ledger.named.insert(ledger.root(root(person))) }
    }

    private func takePerson(_ record: ImportRecord, made: Instant?, seen: Instant?) throws(ImportOutcome.Reason)
        -> ImportOutcome
    {
        // A person of the future would be the newest person for ever.
        let made = made.map { min($0, stamp.at) }
        let seen = seen.map { min($0, stamp.at) }
        switch record.owner {
        case .id(let person):
            if isKnown(person) { return .same }
            if view.isErased(person) { throw .erased }
            if isUsed(person) || person.rawValue == 0 { throw .idTaken }
            // The bits of a kept id tell no moment.
            make(person, made: made ?? seen ?? stamp.at, seen: seen)
        case .key(let identity):
            if !holders(of: identity.key).isEmpty { return .same }
            if isErased(identity, record) { throw .erased }
            makePerson(named: identity, made: made, seen: seen)
        }
        return .taken
    }

    /// Makes a person for a name of another vendor. The id has the moment at which the vendor made the person.
    private func makePerson(named identity: Identity, made: Instant?, seen: Instant?) {
        var person: PersonID
        if let made, made < stamp.journalledAt, made.milliseconds > PersonID.epochMilliseconds {
            person = PersonID(at: made, chance: identity.key.hash.low)
            while isUsed(person) { person = person.next }
        } else {
            person = freshID()
        }
        make(person, made: made, seen: seen)
        link(person, identity)
    }

    /// The person of a record. A record about an unknown person makes the person.
    private func person(of record: ImportRecord, since: Instant?) throws(ImportOutcome.Reason) -> PersonID {
        if let known = known(record.owner) { return known }
        _ = try takePerson(record, made: since, seen: nil)
        guard let made = known(record.owner) else { preconditionFailure("A record made nobody.") }
        return made
    }

    private func refuse(_ reason: ImportOutcome.Reason, for holder: PersonID?) throws(ImportOutcome.Reason)
        -> ImportOutcome
    {
        self.holder = holder
        throw reason
    }

    /// Whether an erasure has left a tombstone of a value, and the record does not ask for the value again.
    private func isErased(_ identity: Identity, _ record: ImportRecord) -> Bool {
        !record.isAgain && document(Tombstone.key(of: identity.key)) != nil
    }

    /// The person of a record, if the person is known.
    private func known(_ owner: ImportRecord.Owner) -> PersonID? {
        switch owner {
        case .id(let person): isKnown(person) ? person : nil
        case .key(let identity): holders(of: identity.key).first
        }
    }

    // MARK: - Identities

    private func takeLink(
        _ record: ImportRecord, _ identity: Identity, since: Instant?, until: Instant?
    ) throws(ImportOutcome.Reason) -> ImportOutcome {
        if strategy.reasonToSetAside(identity.value, identity.type, holders: 0) == .blocked {
            throw .blocked
        }
        if isErased(identity, record) { throw .erased }
        if let until, until <= stamp.at { return try takePastLink(try person(of: record, since: since), identity) }
        // A refused record makes nobody, so the refusals come before the person.
        let known = known(record.owner)
        if let known, holds(known, identity.key) { return .same }
        let others = holders(of: identity.key)
        if others.count >= strategy.guards.holders(of: identity.type) { throw .tooCommon }
        if let holder = others.first, identity.type.isAlwaysUnique || strategy.unique.contains(identity.type) {
            // The people of one group are one person, and one of them holds the value.
            if let known, areOne(known, holder) { return .same }
            guard progress.onConflict == .join else { return try refuse(.held, for: holder) }
            return try join(try person(of: record, since: since), holder, .imported)
        }
        let person = try person(of: record, since: since)
        if let reason = reasonToRefuse(identity.type, of: person) { throw reason }
        try makeDocuments(of: identity, person, since: since, record.user)
        link(person, identity)
        return .taken
    }

    /// Keeps a link that had ended before the import, as history.
    private func takePastLink(_ person: PersonID, _ identity: Identity) throws(ImportOutcome.Reason) -> ImportOutcome {
        let key = ImportedPerson.key(person)
        var imported = document(key).flatMap(ImportedPerson.init(packed:)) ?? ImportedPerson()
        let hash = identity.key.hash.low
        if imported.pastLinks.contains(hash) || holds(person, identity.key) { return .same }
        guard imported.pastLinks.count < ImportedPerson.pastLinksAtMost else { throw .limit }
        imported.pastLinks.append(hash)
        put(key, person, imported.packed)
        facts.append(.linked(person, identity))
        links += 1
        facts.append(.unlinked(person, identity.type, identity.key))
        return .taken
    }

    /// The reason why a person can hold no further identity of a type.
    private func reasonToRefuse(_ type: IdentityType, of person: PersonID) -> ImportOutcome.Reason? {
        if strategy.immutable.contains(type) {
            var holdsOther = false
            forEachHeld(by: person) { held, _ in holdsOther = holdsOther || held == type }
            if holdsOther { return .otherIdentity }
        }
        let bounds = strategy.guards.bounds
        let stored = view.person(person, in: project).map { view.identityCount(of: $0) } ?? 0
        let atMost = stored + (ledger.held[person]?.count ?? 0)
        guard atMost >= min(bounds.identitiesPerPerson, bounds.identitiesPerDeviceType) else { return nil }
        var (ofDialect, ofType) = (0, 0)
        forEachHeld(by: person) { held, _ in
            if held.dialect == type.dialect { ofDialect += 1 }
            if held == type { ofType += 1 }
        }
        if ofDialect >= bounds.identitiesPerPerson { return .limit }
        return type.isDevice && ofType >= bounds.identitiesPerDeviceType ? .limit : nil
    }

    /// Makes the documents that a dialect keeps beside an identity.
    private func makeDocuments(
        of identity: Identity, _ person: PersonID, since: Instant?, _ user: Identity?
    ) throws(ImportOutcome.Reason) {
        let at = min(since ?? stamp.at, stamp.at)
        switch identity.type {
        case .claimUserID, .claimAnonymousID:
            if AppUser(of: person, self) == nil { put([AppUser(of: person, at: at).put]) }
        case .accessUserID, .sandboxUserID:
            if accessUser(person) == nil {
                put([
                    AccessUser(
                        person, id: identity.value, madeAt: at, isForTrying: identity.type == .sandboxUserID
                    ).put
                ])
            }
        case .accessIdentity, .sandboxIdentity:
            guard let user else { preconditionFailure("An identity of access came without a user's id.") }
            var access = accessUser(person)
            if access == nil {
                access = AccessUser(
                    person, id: user.value, madeAt: at, isForTrying: identity.type == .sandboxIdentity)
            }
            if let known = access?.identity, !known.hasSameBytes(as: identity.value) {
                throw .otherIdentity
            }
            access?.identity = identity.value
            if let access { put([access.put]) }
            if let access, access.id == user.value, holders(of: user.key).isEmpty { link(person, user) }
        case .linkingExternalID, .linkingUserID:
            var holdsOther = false
            forEachHeld(by: person) { held, _ in holdsOther = holdsOther || held == identity.type }
            let isSecond = identity.type == .linkingExternalID && isNamed(ledger.root(root(person)))
            if holdsOther || isSecond { throw .otherIdentity }
            if document(LinkedUser.key(of: person)) == nil { put([LinkedUser(of: person).put]) }
        // The dialects keep no document about the holder of another identity.
        default: break
        }
    }

    // MARK: - Properties and rows

    private func takeProperty(
        _ record: ImportRecord, _ kind: DocumentKind, _ write: Attributes.Write, at: Instant?
    ) throws(ImportOutcome.Reason) -> ImportOutcome {
        let person = try person(of: record, since: at)
        let key = DocumentKey(kind, of: person)
        var known = properties[key]?.attributes ?? document(key).flatMap(Attributes.init(packed:)) ?? Attributes()
        let before = known.entries[write.name]
        let moment = min(at ?? stamp.at, stamp.at)
        // Of two values of one moment the same one counts, in whatever order the records come.
        if let entry = known.entries[write.name], entry.at == moment,
            (write.value ?? []).lexicographicallyPrecedes(entry.value ?? [])
        {
            return .same
        }
        _ = known.apply([write], at: moment, stamp)
        let after = known.entries[write.name]
        if after == before {
            if write.value != nil, after == nil { throw .limit }
            return .same
        }
        // A second import finds its own value with its own moment, and changes nothing.
        if at == nil, after?.value == before?.value { return .same }
        properties[key] = (person, known)
        return .taken
    }

    /// Packs the properties that the records changed.
    func finish() {
        for (key, changed) in properties.sorted(by: { $0.key.hash.low < $1.key.hash.low }) {
            put(key, changed.person, changed.attributes.packed)
        }
        properties = [:]
    }

    private func takeRow(_ record: ImportRecord, _ row: Row, _ isNamedAlone: Bool) throws(ImportOutcome.Reason)
        -> ImportOutcome
    {
        let person = try person(of: record, since: row.at)
        // The same hash as that of an upload, so that a late upload of the event is recognized.
        let name = row.recognition.map { isNamedAlone ? $0 : $0.of(UInt64(bitPattern: person.rawValue)) }
        if let name {
            guard view.namedRow(name) == nil, ledger.rows.insert(name) else { return .same }
        }
        facts.append(
            .rowAdded(person, Row(row.kind, at: row.at, recognition: name, device: row.device, body: row.body)))
        return .taken
    }

    // MARK: - Access

    /// The user of access of a principal. An unknown principal becomes a new person.
    private func accessUser(
        of record: ImportRecord, since: Instant
    ) throws(ImportOutcome.Reason) -> (user: AccessUser, isOfIdentity: Bool) {
        guard case .key(let principal) = record.owner else { throw .malformed }
        if holders(of: principal.key).isEmpty {
            if isErased(principal, record) { throw .erased }
            let person = freshID()
            make(person, made: nil, seen: since)
            try makeDocuments(of: principal, person, since: since, record.user)
            link(person, principal)
        }
        guard let user = holders(of: principal.key).first.flatMap(accessUser) else { throw .noSuchPerson }
        return (user, principal.type == .accessIdentity || principal.type == .sandboxIdentity)
    }

    private func takePurchase(_ record: ImportRecord, _ receipt: Receipt) throws(ImportOutcome.Reason) -> ImportOutcome
    {
        let (user, isOfIdentity) = try accessUser(of: record, since: receipt.told.startedAt)
        var access = AccessLedger(self, at: stamp.at, catalog)
        let known = access.purchase(receipt.purchase).flatMap { $0.isUnclaimed ? nil : $0 }
        let parties = known.map { $0.owners.isEmpty ? $0.installs.people : $0.owners } ?? []
        if !parties.isEmpty {
            guard parties.contains(where: { areOne($0, user.person) }) else {
                return try refuse(.twoOwners, for: parties.first)
            }
        }
        var purchase = access.purchase(receipt.purchase) ?? Purchase(receipt, reporter: user.person)
        let before = purchase
        purchase.reporter = known?.reporter ?? user.person
        purchase.take(receipt, at: stamp.at, catalog)
        do throws(Refusal) {
            // If another member of the group has the purchase already, nothing moves within the group.
            let isNew = parties.isEmpty || parties.contains(user.person)
            if isNew, isOfIdentity {
                if !purchase.owners.contains(user.person) { try access.own(&purchase, [user.person]) }
            } else if isNew, !purchase.installs.contains(user.person) {
                try access.join(user.person, to: &purchase, by: [])
            }
        } catch {
            throw .limit
        }
        access.put(purchase)
        if known != nil, purchase == before { return .same }
        put(access.changes)
        if known == nil { self.access.append(.purchase(receipt.purchase)) }
        return .taken
    }

    private func takeGrant(
        _ record: ImportRecord, _ entitlement: String, _ from: Instant, _ until: Instant?
    ) throws(ImportOutcome.Reason) -> ImportOutcome {
        guard catalog.entitlement(entitlement) != nil else { throw .noSuchEntitlement }
        var (user, isOfIdentity) = try accessUser(of: record, since: from)
        let grant = AccessUser.Grant(
            entitlement: entitlement, startedAt: from, expiresAt: until, isOfIdentity: isOfIdentity)
        if user.grants.contains(grant) { return .same }
        guard user.grants.count < AccessUser.grantsPerUser else { throw .limit }
        user.grants.append(grant)
        put([user.put])
        access.append(.grant(user.person, grant))
        return .taken
    }

    // MARK: - People that are one

    private func takeMerge(_ from: ImportRecord.Owner, _ into: ImportRecord.Owner, _ rule: Merge.Rule)
        throws(ImportOutcome.Reason) -> ImportOutcome
    {
        guard let from = known(from), let into = known(into) else { throw .noSuchPerson }
        if from != into, areOne(from, into), !isMerged(from, into, rule) {
            // Each reason is a merge, so the people stay one if another merge is undone.
            merge(from, into, rule)
            return .taken
        }
        let outcome = try join(from, into, rule)
        return outcome == .joined ? .taken : outcome
    }

    /// Merges two people, unless they are one already.
    private func join(_ from: PersonID, _ into: PersonID, _ rule: Merge.Rule) throws(ImportOutcome.Reason)
        -> ImportOutcome
    {
        let (one, other) = (ledger.root(root(from)), ledger.root(root(into)))
        if one == other { return .same }
        if isNamed(one) && isNamed(other) || isLive(one) && isLive(other) {
            return try refuse(.keptApart, for: into)
        }
        let bounds = strategy.guards.bounds
        let count = size(one) + size(other)
        if count > bounds.membersPerGroup { return try refuse(.groupFull, for: into) }
        if view.person(from, in: project) != nil, view.person(into, in: project) != nil,
            view.isFull(joining: view.group(of: from), view.group(of: into), bounds)
        {
            return try refuse(.groupFull, for: into)
        }
        merge(from, into, rule)
        if isNamed(one) { ledger.named.insert(other) }
        if isLive(one) { ledger.live.insert(other) }
        ledger.members[other] = count
        ledger.parents[one] = other
        return .joined
    }

    private func merge(_ from: PersonID, _ into: PersonID, _ rule: Merge.Rule) {
        facts.append(.merged(Merge(id: MergeID(rawValue: freshID().rawValue), from: from, into: into, rule: rule)))
        ledger.merged.insert(ImportLedger.Merged(from, into, rule))
    }

    /// Whether a merge in force has the same people and the same rule.
    private func isMerged(_ one: PersonID, _ other: PersonID, _ rule: Merge.Rule) -> Bool {
        let wanted = ImportLedger.Merged(one, other, rule)
        if ledger.merged.contains(wanted) { return true }
        guard view.person(one, in: project) != nil else { return false }
        return view.group(of: one).merges.contains { ImportLedger.Merged($0.from, $0.into, $0.rule) == wanted }
    }

    /// Whether a group has a user id of a back end. Two such groups are two users of the Linking dialect.
    private func isNamed(_ root: PersonID) -> Bool {
        ledger.named.contains(root) || !ledger.made.contains(root) && view.hasExternalID(view.group(of: root))
    }

    /// Whether a group has active installs.
    private func isLive(_ root: PersonID) -> Bool {
        ledger.live.contains(root) || !ledger.made.contains(root) && view.hasLiveInstalls(view.group(of: root))
    }

    private func areOne(_ one: PersonID, _ other: PersonID) -> Bool {
        ledger.root(root(one)) == ledger.root(root(other))
    }

    private func root(_ person: PersonID) -> PersonID {
        ledger.made.contains(person) ? person : view.group(of: person).root
    }

    private func size(_ root: PersonID) -> Int {
        ledger.members[root] ?? (ledger.made.contains(root) ? 1 : view.group(of: root).count)
    }

    private func takeAlias(
        _ source: ImportRecord.Owner, _ destination: ImportRecord.Owner, _ start: Instant, _ end: Instant
    ) throws(ImportOutcome.Reason) -> ImportOutcome {
        guard let source = known(source), let destination = known(destination), source != destination else {
            throw .noSuchPerson
        }
        guard start <= end else { throw .malformed }
        var ofSource = AliasList(of: source, self)
        var ofDestination = AliasList(of: destination, self)
        // The list has also the aliases that bring rows to the source.
        let known = ofSource.aliases(self).filter { $0.source == source }
        if known.contains(where: { $0.destination == destination && $0.start == start && $0.end == end }) {
            return .same
        }
        if known.contains(where: { $0.undoneAt == nil && $0.start <= end && start <= $0.end }) {
            throw .keptApart
        }
        guard ofSource.ids.count < Alias.aliasesPerPerson, ofDestination.ids.count < Alias.aliasesPerPerson else {
            throw .limit
        }
        let alias = Alias(
            id: AliasID(rawValue: freshID().rawValue), project: project, source: source, destination: destination,
            start: start, end: end, device: nil, madeAt: stamp.at, requestID: "")
        ofSource.ids.append(alias.id)
        ofDestination.ids.append(alias.id)
        put([alias.put, ofSource.put, ofDestination.put])
        return .taken
    }
}
