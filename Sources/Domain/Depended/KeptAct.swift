/// An act that the journal keeps when its decision read a group, so that an undo can decide the call again.
///
/// The kept act has identities without their values: the decision looks at hashes only, and an erasure removes values.
package protocol KeptAct: Act {
    /// Writes all that the decision needs.
    ///
    /// - Parameter strategy: the strategy of the call. Blocked values take no part in a decision, so they are left out.
    func pack(into packer: inout Packer, _ strategy: Strategy)

    /// Reads a kept act; nil if the bytes are invalid.
    init?(unpacking unpacker: inout Unpacker)

    /// The number under which the act is kept, for life: the number of the act's first kind, if no other act has this kind.
    static var keptNumber: UInt8 { get }
}

extension KeptAct {
    package static var keptNumber: UInt8 {
        guard let kind = kinds.first else { preconditionFailure("A kept act has no kind.") }
        return kind.rawValue
    }
}

/// The groups that a decision read, and the act: the note with which the journal keeps the call.
package struct GroupNote: Equatable, Sendable {
    /// The roots of the groups with two or more members, in the order of their ids. For a call that is about nobody also the people
    /// of these groups that the call read, so that an erasure of these people removes the act.
    package let roots: [PersonID]
    /// The moment and the act, as ``KeptCall`` reads them.
    package let act: [UInt8]

    /// The note of a call; nil if the call read no group. Most calls read none, so the strategy is found only for a note.
    package init?(
        _ act: any Act, _ stamp: Stamp, readRootsOf groups: Set<PersonID>, _ strategy: @autoclosure () -> Strategy
    ) {
        if groups.isEmpty { return nil }
        guard let act = act as? any KeptAct else {
            assertionFailure("\(type(of: act)) reads groups. The act is a KeptAct, or its readsMerges is false.")
            return nil
        }
        roots = groups.sorted()
        var packer = Packer()
        packer.add(type(of: act).keptNumber)
        packer.add(stamp.at)
        act.pack(into: &packer, strategy())
        self.act = packer.bytes
    }
}

/// A call that the journal keeps, in the form in which it can be decided again.
package struct KeptCall: Sendable {
    package let at: Instant
    package let act: any Act

    /// Reads the bytes of ``GroupNote/act``; nil if this version cannot read them.
    package init?(packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        guard let number = unpacker.byte(), let at = unpacker.instant(), let type = Registry.keptActs[number],
            let act = type.init(unpacking: &unpacker), unpacker.isAtEnd
        else { return nil }
        self.at = at
        self.act = act
    }
}

/// A note in the journal.
package struct NotedCall: Equatable, Sendable {
    package let call: JournalSequence
    /// The bytes of ``GroupNote/act``.
    package let act: [UInt8]

    package init(call: JournalSequence, act: [UInt8]) {
        self.call = call
        self.act = act
    }
}

// MARK: - Parts of acts

extension Packer {
    mutating func add(_ sighting: AppUser.Sighting) {
        add(UInt64(bitPattern: sighting.app.rawValue))
        add(UInt64(sighting.fields.count))
        for (field, value) in sighting.fields.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
            add(field.rawValue)
            add(value)
        }
        add(UInt8(sighting.isDevelopment.map { $0 ? 2 : 1 } ?? 0))
        add(UInt8(sighting.since == nil ? 0 : 1))
        if let since = sighting.since { add(since) }
    }

    mutating func add(_ value: AnswerValue) {
        switch value {
        case .text(let text):
            add(0 as UInt8)
            add(text)
        case .choices(let choices):
            add(1 as UInt8)
            add(UInt64(choices.count))
            for choice in choices { add(choice) }
        case .number(let number):
            add(2 as UInt8)
            add(UInt64(bitPattern: number))
        case .nothing: add(3 as UInt8)
        case .other: add(4 as UInt8)
        }
    }

    /// Adds an identity without its value.
    mutating func add(hashOf identity: Identity) {
        add(identity.type.rawValue)
        add(identity.key.hash)
    }
}

extension Unpacker {
    mutating func flag() -> Bool? { byte().flatMap { $0 < 2 ? $0 == 1 : nil } }

    mutating func number() -> Int64? { integer().map { Int64(bitPattern: $0) } }

    mutating func sighting() -> AppUser.Sighting? {
        guard let app = number(), let count = integer() else { return nil }
        var sighting = AppUser.Sighting(app: AppID(rawValue: app))
        for _ in 0..<count {
            guard let field = byte().flatMap(AppUser.Field.init(rawValue:)), let value = text() else { return nil }
            sighting.fields[field] = value
        }
        guard let development = byte(), development < 3, let hasSince = flag() else { return nil }
        sighting.isDevelopment = development == 0 ? nil : development == 2
        if hasSince {
            guard let since = instant() else { return nil }
            sighting.since = since
        }
        return sighting
    }

    mutating func answerValue() -> AnswerValue? {
        switch byte() {
        case 0: return text().map(AnswerValue.text)
        case 1:
            guard let count = integer() else { return nil }
            var choices: [String] = []
            for _ in 0..<count {
                guard let choice = text() else { return nil }
                choices.append(choice)
            }
            return .choices(choices)
        case 2: return number().map(AnswerValue.number)
        case 3: return .nothing
        case 4: return .other
        default: return nil
        }
    }

    /// Reads an identity without its value.
    mutating func identity() -> Identity? {
        guard let type = byte().flatMap(IdentityType.init(rawValue:)) else { return nil }
        return hash().map { Identity(type, without: IdentityKey(hash: $0)) }
    }
}

// MARK: - Acts

extension Identify: KeptAct {
    package func pack(into packer: inout Packer, _ strategy: Strategy) {
        // Older versions wrote the occasion alone in this byte.
        packer.add(occasion.rawValue | (mergesNobody ? 0x80 : 0) | (uuids != 0 ? 0x40 : 0))
        packer.add(previous ?? PersonID(rawValue: 0))
        if uuids != 0 {
            var bits: UInt64 = 0
            var place: UInt64 = 0
            for (index, identity) in identities.enumerated()
            where !strategy.blockedValues.contains(identity.value, identity.type) {
                if isUUID4(index) { bits |= 1 << place }
                place += 1
            }
            packer.add(bits)
        }
        for identity in identities where !strategy.blockedValues.contains(identity.value, identity.type) {
            packer.add(hashOf: identity)
        }
    }

    package init?(unpacking unpacker: inout Unpacker) {
        guard let first = unpacker.byte(), let occasion = Occasion(rawValue: first & 0x3F),
            let previous = unpacker.person(), let uuids = first & 0x40 == 0 ? 0 : unpacker.integer()
        else { return nil }
        var identities: [Identity] = []
        while !unpacker.isAtEnd {
            guard let identity = unpacker.identity(), identities.count < Identified.identitiesAtMost else { return nil }
            identities.append(identity)
        }
        let call = Identify(
            occasion, identities: identities, previous: previous.rawValue == 0 ? nil : previous
        ).kept(uuids: uuids)
        self = first & 0x80 == 0 ? call : call.mergingNobody
    }
}

extension Claim: KeptAct {
    package func pack(into packer: inout Packer, _ strategy: Strategy) {
        packer.add(hashOf: anonymous)
        packer.add(hashOf: user)
        // Older versions kept none.
        for key in equals { packer.add(key.hash) }
    }

    package init?(unpacking unpacker: inout Unpacker) {
        guard let anonymous = unpacker.identity(), let user = unpacker.identity() else { return nil }
        var equals: [IdentityKey] = []
        while !unpacker.isAtEnd {
            guard let hash = unpacker.hash(), equals.count < SameUserID.types.count else { return nil }
            equals.append(IdentityKey(hash: hash))
        }
        self.init(anonymous: anonymous, user: user, equals: equals)
    }
}

extension SetProperties: KeptAct {
    package func pack(into packer: inout Packer, _ strategy: Strategy) {
        packer.add(hashOf: user)
        packer.add(UInt8(isLimited ? 1 : 0))
        for (name, value) in values {
            packer.add(name)
            packer.add(value)
        }
    }

    package init?(unpacking unpacker: inout Unpacker) {
        guard let user = unpacker.identity(), let isLimited = unpacker.flag() else { return nil }
        var values: [(name: String, value: String)] = []
        while !unpacker.isAtEnd {
            guard let name = unpacker.text(), let value = unpacker.text() else { return nil }
            values.append((name, value))
        }
        self.init(user: user, values: values, isLimited: isLimited)
    }
}

extension MergePeople: KeptAct {
    package func pack(into packer: inout Packer, _ strategy: Strategy) {
        packer.add(from)
        packer.add(into)
    }

    package init?(unpacking unpacker: inout Unpacker) {
        guard let from = unpacker.person(), let into = unpacker.person() else { return nil }
        self.init(from: from, into: into)
    }
}

extension JoinSameUserIDs: KeptAct {
    package func pack(into packer: inout Packer, _ strategy: Strategy) {
        for pair in pairs {
            packer.add(pair.from)
            packer.add(pair.into)
        }
    }

    package init?(unpacking unpacker: inout Unpacker) {
        var pairs: [Pair] = []
        while !unpacker.isAtEnd {
            guard let from = unpacker.person(), let into = unpacker.person() else { return nil }
            pairs.append(Pair(from: from, into: into))
        }
        self.init(pairs)
    }
}

extension AnswerQuestionnaire: KeptAct {
    package func pack(into packer: inout Packer, _ strategy: Strategy) {
        packer.add(slug)
        packer.add(hashOf: user)
        packer.add(UInt8(isComplete ? 1 : 0))
        packer.add(details)
        packer.add(sighting)
        for (question, value) in answers {
            packer.add(question)
            packer.add(value)
        }
    }

    package init?(unpacking unpacker: inout Unpacker) {
        guard let slug = unpacker.text(), let user = unpacker.identity(), let isComplete = unpacker.flag(),
            let details = unpacker.bytes(), let sighting = unpacker.sighting()
        else { return nil }
        var answers: [(question: String, value: AnswerValue)] = []
        while !unpacker.isAtEnd {
            guard let question = unpacker.text(), let value = unpacker.answerValue() else { return nil }
            answers.append((question, value))
        }
        self.init(
            slug: slug, user: user, answers: answers, isComplete: isComplete, details: details, sighting: sighting)
    }
}

extension ReviewResponse: KeptAct {
    package func pack(into packer: inout Packer, _ strategy: Strategy) {
        packer.add(UInt64(bitPattern: response.rawValue))
        packer.add(UInt64(bitPattern: questionnaire.rawValue))
        switch edit {
        case .delete: packer.add(0 as UInt8)
        case .status(let status):
            packer.add(1 as UInt8)
            packer.add(status.rawValue)
        }
    }

    package init?(unpacking unpacker: inout Unpacker) {
        guard let response = unpacker.number(), let questionnaire = unpacker.number(), let hasStatus = unpacker.flag()
        else { return nil }
        let edit: Edit
        if hasStatus {
            guard let status = unpacker.byte().flatMap(ReviewStatus.init(rawValue:)) else { return nil }
            edit = .status(status)
        } else {
            edit = .delete
        }
        self.init(ResponseID(rawValue: response), to: QuestionnaireID(rawValue: questionnaire), edit)
    }
}

extension ReserveAttachment: KeptAct {
    package func pack(into packer: inout Packer, _ strategy: Strategy) {
        packer.add(hashOf: user)
        packer.add(event.rawValue)
        packer.add(UInt8(isOfEvent ? 1 : 0))
        packer.add(UInt64(bitPattern: description.app.rawValue))
        packer.add(description.clientEventID)
        packer.add(description.filename)
        packer.add(description.contentType)
        packer.add(UInt64(description.byteCount))
        packer.add(description.digest)
        packer.add(UInt8(description.isDevelopment ? 1 : 0))
        packer.add(sighting)
        packer.add(UInt64(quotas.userBytes))
        packer.add(UInt64(quotas.projectBytes))
    }

    package init?(unpacking unpacker: inout Unpacker) {
        guard let user = unpacker.identity(), let event = unpacker.integer(), let isOfEvent = unpacker.flag(),
            let app = unpacker.number(), let clientEventID = unpacker.text(), let filename = unpacker.text(),
            let contentType = unpacker.text(), let byteCount = unpacker.number(), let digest = unpacker.bytes(),
            let isDevelopment = unpacker.flag(), let sighting = unpacker.sighting(),
            let userBytes = unpacker.number(), let projectBytes = unpacker.number()
        else { return nil }
        var quotas = AttachmentQuotas()
        quotas.userBytes = Int(userBytes)
        quotas.projectBytes = Int(projectBytes)
        self.init(
            user: user, event: RowHash(rawValue: event), isOfEvent: isOfEvent,
            description: Attachment.Description(
                app: AppID(rawValue: app), clientEventID: clientEventID, filename: filename, contentType: contentType,
                byteCount: Int(byteCount), digest: digest, isDevelopment: isDevelopment),
            sighting: sighting, quotas: quotas)
    }
}

extension LinkInstall: KeptAct {
    package func pack(into packer: inout Packer, _ strategy: Strategy) {
        packer.add(UInt64(bitPattern: install.rawValue))
        packer.add(UInt64(bitPattern: app.rawValue))
        packer.add(hashOf: external)
        packer.add(hashOf: name)
    }

    package init?(unpacking unpacker: inout Unpacker) {
        guard let install = unpacker.number(), let app = unpacker.number(), let external = unpacker.identity(),
            let name = unpacker.identity()
        else { return nil }
        self.init(InstallID(rawValue: install), app: AppID(rawValue: app), to: external, name: name)
    }
}

extension LinkHard: KeptAct {
    // LinkInstall has the same kind.
    package static var keptNumber: UInt8 { 93 }

    package func pack(into packer: inout Packer, _ strategy: Strategy) {
        packer.add(UInt64(bitPattern: caller.install.rawValue))
        packer.add(UInt64(bitPattern: caller.app.rawValue))
        packer.add(UInt64(bitPattern: caller.family))
        packer.add(UInt8(caller.thumbprint == nil ? 0 : 1))
        if let thumbprint = caller.thumbprint { packer.add(thumbprint) }
        packer.add(hashOf: caller.name)
    }

    package init?(unpacking unpacker: inout Unpacker) {
        guard let install = unpacker.number(), let app = unpacker.number(), let family = unpacker.number(),
            let hasThumbprint = unpacker.flag()
        else { return nil }
        let thumbprint = hasThumbprint ? unpacker.text() : nil
        guard hasThumbprint == (thumbprint != nil), let name = unpacker.identity() else { return nil }
        self.init(
            LinkingCaller(
                InstallID(rawValue: install), app: AppID(rawValue: app), family: family, thumbprint: thumbprint,
                name: name))
    }
}
