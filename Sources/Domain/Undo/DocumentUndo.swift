/// A document that a call wrote: its content before the call and after it. An undo compares both with the present content.
package struct DocumentUndo: Equatable, Sendable {
    package let key: DocumentKey
    /// The person of the document.
    package let person: PersonID
    /// Nil for a document that the call made.
    package let before: [UInt8]?
    /// Nil for a document that the call removed.
    package let after: [UInt8]?

    package init(_ key: DocumentKey, _ person: PersonID, before: [UInt8]?, after: [UInt8]?) {
        (self.key, self.person, self.before, self.after) = (key, person, before, after)
    }

    /// The treatment of documents of a kind by an undo.
    enum Treatment {
        /// The undo brings back the entries that no later call wrote.
        case entries
        /// The undo brings back the whole document. A later version refuses the undo.
        case whole
        /// The undo brings back the whole document. A later version stays.
        case unlessNewer
        /// The undo does not touch the document: a note of a sighting, or a list that may have more than is in force.
        case stays
        case alias, transfer, accessUser, purchase, install, linkedUser, partedFrom
    }

    /// The change of an undo.
    package enum Result: Equatable {
        /// The document is already as if the call had never been made.
        case none
        case change([UInt8])
        /// A later call changed what this call wrote.
        case builtUpon
    }
}

extension DocumentKind {
    var undoTreatment: DocumentUndo.Treatment {
        switch self {
        case .attributes, .properties, .accessProperties, .traits: .entries
        case .alias: .alias
        case .transfer: .transfer
        case .accessUser: .accessUser
        case .purchase: .purchase
        case .install: .install
        case .linkedUser: .linkedUser
        case .partedFrom: .partedFrom
        case .parted, .deviceUser, .neutralPerson, .standIn: .unlessNewer
        case .catalog, .claimProjectSettings, .claimAppSettings, .clientConfig, .linkingSettings, .storeOptions,
            .questionnaires, .questionnaire, .definition, .definitionList, .linkCode, .callUndone:
            .whole
        case .aliasesOfPerson, .appUser, .tombstone, .groupFolds, .groupAttributes, .groupProperties,
            .groupAccessProperties, .groupResponses, .groupAttachmentUse, .groupAppUser, .groupLinkedMembers, .response,
            .feedback, .issueTitle, .issue, .errorSession, .definitions, .attachment, .attachmentUse,
            .attachmentUseOfProject, .content, .awaitedEvent, .attachmentsOfEvent, .comments, .appFacts, .issueState,
            .comment, .responseState, .answeredQuestions, .eventRevision, .correctedEvent, .occurrenceErrors, .runList,
            .runsEnd, .runPart, .removedRows, .erasedFromRuns, .expiredRows, .historyEnd, .attachmentList,
            .storeAccount, .checkList,
            .checkHour, .checkStart, .storeNotice, .storeNoticePlace, .storeNoticeRange, .checkWalk, .missedNews,
            .keyUse,
            .webhooks, .deliveries, .consoleBook, .linkTimes, .groupTraits,
            .signingKeys, .masterKeys, .importProgress, .importList, .importedPerson, .split, .lastSplit,
            .restoredLinks, .rowRoutes, .splitLanes, .clockSteps:
            .stays
        }
    }
}

extension DocumentUndo {
    /// Whether the undo may change the document.
    package var isUndone: Bool {
        if case .stays = key.kind.undoTreatment { return false }
        return !key.kind.isDerived && before != after
    }

    /// Compares the document with its present content.
    ///
    /// - Parameters:
    ///   - current: the present content; nil for a document that does not exist.
    ///   - moment: the moment of the undo.
    package func undone(_ current: [UInt8]?, at moment: Instant) -> Result {
        let result: Result =
            switch key.kind.undoTreatment {
            case .stays: .none
            case .whole: whole(current) ?? .builtUpon
            case .unlessNewer: whole(current) ?? .none
            case .entries: entries(current)
            case .alias: alias(current, at: moment)
            case .transfer: transfer(current, at: moment)
            case .accessUser: accessUser(current)
            case .purchase: purchase(current, at: moment)
            case .install: install(current, at: moment)
            case .linkedUser: linkedUser(current)
            case .partedFrom: partedFrom(current)
            }
        if case .change(let bytes) = result, bytes == current ?? [] { return .none }
        return result
    }

    /// Nil if a later call wrote the document.
    private func whole(_ current: [UInt8]?) -> Result? {
        if current == before { return Result.none }
        return current == after ? .change(before ?? []) : nil
    }

    private func entries(_ current: [UInt8]?) -> Result {
        func read(_ bytes: [UInt8]?) -> Attributes { bytes.flatMap(Attributes.init(packed:)) ?? Attributes() }
        var known = read(current)
        guard known.takeBack(from: read(after), to: read(before)) else { return .none }
        return .change(before == nil && known.entries.isEmpty ? [] : known.packed)
    }

    private func alias(_ current: [UInt8]?, at moment: Instant) -> Result {
        guard var alias = current.flatMap(Alias.init(packed:)) else { return .none }
        // Reads of the past name the alias, so an undone alias stays as a document.
        let wanted: Instant? =
            if let before { Alias(packed: before)?.undoneAt } else { alias.undoneAt ?? moment }
        if (alias.undoneAt == nil) == (wanted == nil) { return .none }
        alias.undoneAt = wanted
        return .change(alias.packed)
    }

    private func transfer(_ current: [UInt8]?, at moment: Instant) -> Result {
        let id = TransferID(rawValue: Int64(bitPattern: key.hash.low))
        guard var transfer = current.flatMap({ Transfer(id, packed: $0) }) else { return .none }
        transfer.undoneAt =
            if let before { Transfer(id, packed: before)?.undoneAt } else { transfer.undoneAt ?? moment }
        return .change(transfer.packed)
    }

    private func accessUser(_ current: [UInt8]?) -> Result {
        guard let before, let former = AccessUser(person, packed: before), let after,
            let made = AccessUser(person, packed: after)
        else { return whole(current) ?? .builtUpon }
        guard var user = current.flatMap({ AccessUser(person, packed: $0) }) else { return .builtUpon }
        if made.identity != former.identity {
            guard user.identity == made.identity || user.identity == former.identity else { return .builtUpon }
            user.identity = former.identity
        }
        user.grants = DocumentUndo.list(user.grants, from: made.grants, to: former.grants)
        user.owned = DocumentUndo.list(user.owned, from: made.owned, to: former.owned)
        return .change(user.packed)
    }

    /// A list without the elements that the call added, and with the elements that the call removed at their places.
    private static func list<Element: Equatable>(
        _ current: [Element], from after: [Element], to before: [Element]
    ) -> [Element] {
        var list = current.filter { !after.contains($0) || before.contains($0) }
        for (place, element) in before.enumerated() where !after.contains(element) && !list.contains(element) {
            list.insert(element, at: min(place, list.count))
        }
        return list
    }

    private func purchase(_ current: [UInt8]?, at moment: Instant) -> Result {
        let id = PurchaseID(hash: key.hash)
        func owners(_ bytes: [UInt8]?) -> [PersonID] { bytes.flatMap { Purchase(id, packed: $0) }?.owners ?? [] }
        let (former, made) = (owners(before), owners(after))
        // The statements of the store stay, and so do the installs that have proven the purchase.
        guard former != made, var purchase = current.flatMap({ Purchase(id, packed: $0) }), purchase.owners != former
        else { return .none }
        guard purchase.owners == made else { return .builtUpon }
        purchase.own(former, at: moment)
        return .change(purchase.packed)
    }

    private func install(_ current: [UInt8]?, at moment: Instant) -> Result {
        let (id, name) = (InstallID(0), IdentityKey(hash: key.hash))
        func read(_ bytes: [UInt8]?) -> Install? { bytes.flatMap { Install(id, name, packed: $0) } }
        guard var install = read(current), let made = read(after) else { return .none }
        guard let former = read(before) else {
            // The install of a redeemed code gives back its place, and its tokens end.
            if install.state == .reset { return .none }
            (install.user, install.link, install.externalKey) = (nil, .none, nil)
            install.reset(at: moment)
            return .change(install.packed)
        }
        if install.hasState(of: former) { return .none }
        guard install.hasState(of: made) else { return .builtUpon }
        install.takeState(of: former, at: moment)
        return .change(install.packed)
    }

    private func linkedUser(_ current: [UInt8]?) -> Result {
        func read(_ bytes: [UInt8]?) -> LinkedUser {
            bytes.flatMap { LinkedUser(of: person, packed: $0) } ?? LinkedUser(of: person)
        }
        var user = read(current)
        switch user.takeBack(from: read(after), to: read(before)) {
        case .none: return .builtUpon
        case .some(false): return .none
        case .some(true): return .change(before == nil && user.live.isEmpty ? [] : user.packed)
        }
    }

    private func partedFrom(_ current: [UInt8]?) -> Result {
        func read(_ bytes: [UInt8]?) -> [PersonID] { bytes.map(SameUserID.people) ?? [] }
        let people = DocumentUndo.list(read(current), from: read(after), to: read(before))
        var packer = Packer()
        for person in people.prefix(SameUserID.partedAtMost) { packer.add(person) }
        return .change(packer.bytes)
    }
}

extension Attributes {
    /// Gives back the entries that differ between two versions, except those that a later call wrote. Returns whether an entry
    /// changed.
    mutating func takeBack(from after: Attributes, to before: Attributes) -> Bool {
        var hasChanged = false
        for name in Set(after.entries.keys).union(before.entries.keys) {
            let (made, former) = (after.entries[name], before.entries[name])
            guard made != former, entries[name] == made else { continue }
            replace(name, with: former)
            hasChanged = true
        }
        return hasChanged
    }
}

extension Install {
    /// Whether the install has the user and the state of another version of it. The tokens and the last sighting do not count.
    fileprivate func hasState(of other: Install) -> Bool {
        user == other.user && link == other.link && externalKey == other.externalKey && state == other.state
            && isDisabled == other.isDisabled
    }

    /// Takes the user and the state of an earlier version.
    fileprivate mutating func takeState(of former: Install, at moment: Instant) {
        (user, link, externalKey) = (former.user, former.link, former.externalKey)
        (state, isDisabled, ending, epoch) = (former.state, former.isDisabled, former.ending, former.epoch)
        tokens.isRevoked = former.tokens.isRevoked
        // Rows from a silence stay dropped.
        if former.isSilent { fallSilent(at: moment) } else { speak(at: moment) }
    }
}

extension LinkedUser {
    /// Gives back the installs that differ between two versions. Returns whether an install changed; nil if a later call
    /// changed one of these installs.
    fileprivate mutating func takeBack(from after: LinkedUser, to before: LinkedUser) -> Bool? {
        func entry(_ install: InstallID, _ user: LinkedUser) -> Live? { user.live.first { $0.install == install } }
        var live = self.live
        for install in Set((after.live + before.live).map(\.install)).sorted() {
            let (made, former, now) = (entry(install, after), entry(install, before), entry(install, self))
            if made == former || now == former { continue }
            guard now == made else { return nil }
            live.removeAll { $0.install == install }
            if let former { live.append(former) }
        }
        if live == self.live { return false }
        replaceLive(live.sorted { ($0.epoch, $0.install) < ($1.epoch, $1.install) })
        return true
    }
}
