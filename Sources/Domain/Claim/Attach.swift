/// A call that has to do with an attachment (spec/claim.md 1.7): it is announced, its bytes come, it goes.
package enum Attach: Sendable {
    case reserve(ReserveAttachment)
    /// The bytes have come, and are kept.
    case store(AttachmentID, app: AppID, byteCount: Int, digest: [UInt8])
    case delete(AttachmentID)
    /// An event that was there before its attachments tells whose these are.
    case tell(RowHash, of: PersonID)

    /// Whom the call names, if anybody.
    var user: Identity? {
        if case .reserve(let reserve) = self { reserve.user } else { nil }
    }

    func decide<V: View>(_ stamp: Stamp, in project: ProjectID, _ view: V) throws(Refusal) -> Decision {
        switch self {
        case .reserve(let reserve): try reserve.decide(stamp, in: project, view)
        case .store(let id, let app, let byteCount, let digest):
            try store(try attachment(id, in: project, view), app, byteCount, digest, stamp, view)
        case .delete(let id): try delete(try attachment(id, in: project, view), view)
        case .tell(let event, let person): tell(event, of: person, in: project, view)
        }
    }

    private func tell<V: View>(
        _ event: RowHash, of person: PersonID, in project: ProjectID, _ view: V
    ) -> Decision {
        var events = EventsTelling()
        // Whoever has been erased meanwhile is told of nothing.
        if view.person(person, in: project) != nil { events.tell(event, of: person, view) }
        let reply = Reply.collected(Collected(accepted: 0, repeated: 1))
        if events.changes.isEmpty { return Decision(reply: reply) }
        return Decision(reply: reply, outcome: Outcome(kind: .collect, person: nil, changes: events.changes))
    }

    private func attachment<V: View>(
        _ id: AttachmentID, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Attachment {
        guard let attachment = view.document(id.documentKey).flatMap(Attachment.init(packed:)),
            attachment.project == project
        else { throw .attachment(.unknown) }
        return attachment
    }

    private func store<V: View>(
        _ reserved: Attachment, _ app: AppID, _ byteCount: Int, _ digest: [UInt8], _ stamp: Stamp, _ view: V
    ) throws(Refusal) -> Decision {
        if let fault = reserved.fault(at: stamp.at, app) { throw .attachment(fault) }
        var attachment = reserved
        let said = attachment.description
        attachment.state =
            byteCount > said.byteCount
            ? .tooLong : byteCount < said.byteCount ? .tooShort : digest != said.digest ? .wrongDigest : .stored
        var changes = [attachment.put]
        if attachment.state == .stored {
            var content = ContentUse(of: digest, view)
            content.add()
            changes.append(content.put)
        }
        changes += uses(of: attachment, view) { $0.settle(attachment) }
        return Decision(
            reply: .attachment(attachment),
            outcome: Outcome(kind: .storeAttachment, person: attachment.person, changes: changes))
    }

    private func delete<V: View>(_ stored: Attachment, _ view: V) throws(Refusal) -> Decision {
        guard stored.state == .stored else { throw .attachment(.unknown) }
        var attachment = stored
        attachment.state = .deleted
        var content = ContentUse(of: attachment.description.digest, view)
        content.remove()
        let changes = [attachment.put, content.put] + uses(of: attachment, view) { $0.remove(attachment) }
        return Decision(
            reply: .attachment(attachment),
            outcome: Outcome(kind: .deleteAttachment, person: attachment.person, changes: changes))
    }

    private func uses<V: View>(
        of attachment: Attachment, _ view: V, _ change: (inout AttachmentUse) -> Void
    ) -> [Change] {
        [AttachmentUse(of: attachment.person, view), AttachmentUse(of: attachment.project, view)]
            .map { use in
                var use = use
                change(&use)
                return use.put
            }
    }
}

/// A call that announces an attachment.
package struct ReserveAttachment: Sendable {
    package let user: Identity
    /// By what its event is recognized, where the call does not say whose it is: then the event does.
    package let event: RowHash?
    package let description: Attachment.Description
    package let sighting: AppUser.Sighting
    package let quotas: AttachmentQuotas

    package init(
        user: Identity, event: RowHash?, description: Attachment.Description, sighting: AppUser.Sighting,
        quotas: AttachmentQuotas
    ) {
        self.user = user
        self.event = event
        self.description = description
        self.sighting = sighting
        self.quotas = quotas
    }

    func decide<V: View>(_ stamp: Stamp, in project: ProjectID, _ view: V) throws(Refusal) -> Decision {
        var people = PeopleMaker(stamp)
        let holder = view.holder(of: user)
        // Whoever has been claimed counts with the one who has claimed.
        let used: FoldedAttachmentUse? = holder.map { view.fold(.attachmentUse, of: view.group(of: $0)) }
        let usedByUser = used?.bytes(at: stamp.at) ?? 0
        let person = holder ?? people.make(user)
        var (ofPerson, ofProject) = (AttachmentUse(of: person, view), AttachmentUse(of: project, view))
        let usedByProject = ofProject.bytes(at: stamp.at)
        if event == nil, usedByUser + description.byteCount > quotas.userBytes {
            throw .attachment(.userQuota(bytes: quotas.userBytes, used: usedByUser))
        }
        if usedByProject + description.byteCount > quotas.projectBytes {
            throw .attachment(.projectQuota(bytes: quotas.projectBytes, used: usedByProject))
        }
        let attachment = Attachment(
            id: AttachmentID(rawValue: stamp.person.rawValue), project: project, person: person,
            description: description, madeAt: stamp.at)
        ofPerson.reserve(attachment, at: stamp.at)
        ofProject.reserve(attachment, at: stamp.at)
        let body = Array(#"{"app_id":\#(description.app.rawValue),"attachment_id":"\#(attachment.id.rawValue)"}"#.utf8)
        var changes = people.changes
        changes += [.rowAdded(person, Row(.attachment, at: stamp.at, body: body)), attachment.put]
        var list = AttachmentList(of: person, view)
        list.add(attachment.id)
        changes += [ofPerson.put, ofProject.put] + list.changes
        if let event {
            var waiting = AwaitedEvent(event, view)
            waiting.attachments.append(attachment.id)
            changes.append(waiting.put)
        } else {
            changes += sighting.changes(of: person, stamp, view)
        }
        return Decision(
            reply: .attachment(attachment),
            outcome: Outcome(kind: .reserveAttachment, person: person, changes: changes))
    }
}

/// An event that will tell whose some attachments are.
struct AwaitedEvent {
    private let key: DocumentKey
    var attachments: [AttachmentID] = []

    init<V: View>(_ event: RowHash, _ view: V) {
        key = DocumentKey(.awaitedEvent, of: Int64(bitPattern: event.rawValue))
        guard let packed = view.document(key) else { return }
        var unpacker = Unpacker(packed)
        while let id = unpacker.integer() { attachments.append(AttachmentID(rawValue: Int64(bitPattern: id))) }
    }

    var put: Change {
        var packer = Packer()
        // More than an event has; only the last are waited for.
        for attachment in attachments.suffix(100) { packer.add(UInt64(bitPattern: attachment.rawValue)) }
        return .documentPut(key, .nobody, packer.bytes)
    }
}

/// Finds out whose attachments are, from events that have come. Their bytes count with those of the event's person from
/// then on.
struct EventsTelling {
    private var uses: [PersonID: AttachmentUse] = [:]
    private var lists: [PersonID: AttachmentList] = [:]
    private var told: [Change] = []

    mutating func tell<V: View>(_ event: RowHash, of person: PersonID, _ view: V) {
        var waiting = AwaitedEvent(event, view)
        if waiting.attachments.isEmpty { return }
        for id in waiting.attachments {
            guard var attachment = view.document(id.documentKey).flatMap(Attachment.init(packed:)) else { continue }
            let before = attachment.person
            if before == person { continue }
            use(of: before, view) { $0.take(attachment) }
            use(of: person, view) { $0.give(attachment) }
            lists[person, default: AttachmentList(of: person, view)].add(id)
            attachment.person = person
            told.append(attachment.put)
        }
        waiting.attachments = []
        told.append(waiting.put)
    }

    private mutating func use<V: View>(of person: PersonID, _ view: V, _ change: (inout AttachmentUse) -> Void) {
        change(&uses[person, default: AttachmentUse(of: person, view)])
    }

    var changes: [Change] {
        told + uses.sorted { $0.key < $1.key }.map(\.value.put)
            + lists.sorted { $0.key < $1.key }.flatMap(\.value.changes)
    }
}

/// Why nothing can be done with an attachment.
package enum AttachmentFault: Equatable, Sendable {
    case unknown
    case userQuota(bytes: Int, used: Int)
    case projectQuota(bytes: Int, used: Int)
    case otherApp
    case storedAlready
    /// It was deleted, or its bytes did not come in time.
    case gone
}

extension Attachment {
    /// Why its bytes are not taken from an app at some moment, if they are not.
    package func fault(at moment: Instant, _ app: AppID) -> AttachmentFault? {
        if description.app != app { return .otherApp }
        return switch state {
        case .stored: .storedAlready
        case .deleted, .tooShort, .tooLong, .wrongDigest: .gone
        case .reserved: moment >= expiresAt ? .gone : nil
        }
    }
}
