/// A change of people in the words of the feed (spec/native.md, Changes).
///
/// The event names people, types and calls. It never contains the value of an identity or of a property. So an erasure has
/// nothing to remove from programs that already read the event.
package struct ChangeEvent: Equatable, Sendable {
    /// The kind of an event. The names are part of the API.
    package enum Kind: String, CaseIterable, Sendable {
        case personCreated = "person.created"
        case personMerged = "person.merged"
        case mergeUndone = "merge.undone"
        case personSplit = "person.split"
        case splitUndone = "split.undone"
        case identityLinked = "identity.linked"
        case identityMoved = "identity.moved"
        case identityUnlinked = "identity.unlinked"
        case aliasCreated = "alias.created"
        case aliasUndone = "alias.undone"
        case propertiesChanged = "properties.changed"
        case entitlementGranted = "entitlement.granted"
        case entitlementLost = "entitlement.lost"
        case entitlementTransferred = "entitlement.transferred"
        case personErased = "person.erased"
        case codeRedeemed = "code.redeemed"
        case installActivated = "install.activated"
        case installBlocked = "install.blocked"
        case installDeactivated = "install.deactivated"
        case installDisabled = "install.disabled"
        case installEnabled = "install.enabled"
        case strategyChanged = "strategy.changed"
        case projectCreated = "project.created"
        case projectRevoked = "project.revoked"
        case appCreated = "app.created"
        case appRevoked = "app.revoked"
        case keyCreated = "key.created"
        case keyRevoked = "key.revoked"
        case webhookCreated = "webhook.created"
        case webhookRemoved = "webhook.removed"
        case signingKeyCreated = "signing_key.created"
        case signingKeyRetired = "signing_key.retired"
        case consoleOpened = "console.opened"
        case consoleClosed = "console.closed"
        /// A call without a token named a known user, and the project only logs such calls.
        case identityUnproven = "identity.unproven"
        case importFinished = "import.finished"
        case importUndone = "import.undone"
        case callUndone = "call.undone"
        case refused
    }

    /// The value of a field.
    package enum Value: Equatable, Sendable {
        case text(String)
        case texts([String])
        /// An id, written as a string of digits.
        case id(Int64)
        case number(Int64)
    }

    /// A named value in the data of an event.
    package struct Field: Equatable, Sendable {
        package let name: String
        package let value: Value

        package init(_ name: String, _ value: Value) {
            self.name = name
            self.value = value
        }
    }

    package let kind: Kind
    package let person: PersonID?
    package let data: [Field]
    /// The body of a row, which replaces the data: a JSON object; nil for events without a row.
    package let row: [UInt8]?

    package init(_ kind: Kind, _ person: PersonID?, _ data: [Field] = [], row: [UInt8]? = nil) {
        self.kind = kind
        self.person = person
        self.data = data
        self.row = row
    }
}

extension RecordedCall {
    /// The events of the call for the feed. A call that only added rows has no events, except for rows that the feed
    /// contains.
    package var events: [ChangeEvent] {
        if case .refused(let code) = answer, kind == .unproven {
            return [ChangeEvent(.identityUnproven, person, [.init("code", .text(code))])]
        }
        if case .refused(let code) = answer {
            return [ChangeEvent(.refused, person, [.init("code", .text(code)), .init("call", .text(kind.name))])]
        }
        var events: [ChangeEvent] = []
        let moves = Moves(facts)
        for fact in facts {
            switch fact {
            case .personMade(let person): events.append(ChangeEvent(.personCreated, person))
            case .linked(let person, let type, let value):
                let field = ChangeEvent.Field("type", .text("\(type.name)"))
                if let loser = moves.loser(of: type, value) {
                    events.append(ChangeEvent(.identityMoved, person, [field, .init("from", .id(loser.rawValue))]))
                } else {
                    events.append(ChangeEvent(.identityLinked, person, [field]))
                }
            case .unlinked(let person, let type, let value):
                if kind == .erase || moves.isLinkedAgain(type, value) { continue }
                events.append(
                    ChangeEvent(.identityUnlinked, person, [.init("type", .text("\(type.name)"))]))
            case .merged(let merge): events.append(ChangeEvent(.personMerged, merge.into, RecordedCall.data(merge)))
            case .mergeUndone(let merge):
                events.append(ChangeEvent(.mergeUndone, merge.into, RecordedCall.data(merge)))
            case .personErased(let person): events.append(ChangeEvent(.personErased, person))
            case .documentPut(let person, let document):
                if kind == .erase { continue }
                guard let dialect = Holdings.propertyKinds.first(where: { $0.kind == document })?.dialect else {
                    continue
                }
                var data = [ChangeEvent.Field("dialect", .text(dialect.rawValue))]
                if dialect.hasJSONProperties, let names = changedNames {
                    // A client sends all its attributes with each upload, mostly without a change.
                    if names.isEmpty { continue }
                    data.append(.init("names", .texts(names.written)))
                    data.append(.init("removed", .texts(names.removed)))
                }
                if case .reply(let reply) = answer, case .propertiesSet(let saved, _) = reply.as(AccessReply.self) {
                    data.append(.init("names", .texts(saved.map(\.name))))
                }
                events.append(ChangeEvent(.propertiesChanged, person, data))
            case .rowsAdded(let person, let rows, _, let bodies):
                let told: ChangeEvent.Kind
                switch rows {
                case .accessGranted: told = .entitlementGranted
                case .accessLost: told = .entitlementLost
                case .accessTransferred: told = .entitlementTransferred
                case .event, .context, .metric, .step, .feedback, .answer, .occurrence, .attachment, .accessProperties,
                    .attribution, .install:
                    continue
                }
                events += bodies.map { ChangeEvent(told, person, row: $0.isEmpty ? nil : $0) }
            }
        }
        if kind == .redeemCode { events.append(ChangeEvent(.codeRedeemed, person)) }
        if case .reply(let reply) = answer { events += reply.answer.events(person) }
        return events
    }

    /// The names of the attributes that the call changed; nil if the journal does not have them.
    package var changedNames: ChangedNames? {
        guard case .reply(let reply) = answer else { return nil }
        return reply.as(Ingested.self)?.attributes ?? reply.as(UserIdentified.self)?.traits
    }

    /// The identities that change their person in this call.
    private struct Moves {
        private struct Name: Hashable {
            let type: IdentityType
            let value: [UInt8]
        }

        private var losers: [Name: PersonID] = [:]
        private var linked: Set<Name> = []

        /// Most calls only link or only unlink, and move nothing.
        init(_ facts: [Fact]) {
            var (links, unlinks) = (false, false)
            for fact in facts {
                switch fact {
                case .linked: links = true
                case .unlinked: unlinks = true
                case .personMade, .merged, .mergeUndone, .personErased, .rowsAdded, .documentPut: break
                }
            }
            guard links, unlinks else { return }
            for fact in facts {
                switch fact {
                case .linked(_, let type, let value): linked.insert(Name(type: type, value: Array(value.utf8)))
                case .unlinked(let person, let type, let value):
                    let name = Name(type: type, value: Array(value.utf8))
                    if losers[name] == nil { losers[name] = person }
                case .personMade, .merged, .mergeUndone, .personErased, .rowsAdded, .documentPut: break
                }
            }
        }

        /// The person that lost an identity to another person.
        func loser(of type: IdentityType, _ value: String) -> PersonID? {
            losers.isEmpty ? nil : losers[Name(type: type, value: Array(value.utf8))]
        }

        func isLinkedAgain(_ type: IdentityType, _ value: String) -> Bool {
            !linked.isEmpty && linked.contains(Name(type: type, value: Array(value.utf8)))
        }
    }

    private static func data(_ merge: Merge) -> [ChangeEvent.Field] {
        [
            .init("merge", .text("m_\(merge.id.rawValue)")), .init("from", .id(merge.from.rawValue)),
            .init("into", .id(merge.into.rawValue)), .init("rule", .text("\(merge.rule.name)")),
        ]
    }
}
