/// A call that stores the body of an announced attachment (spec/claim.md, Attachments).
package struct StoreAttachment: Act {
    package let attachment: AttachmentID
    package let app: AppID
    package let byteCountStored: Int
    package let digest: [UInt8]

    package init(_ attachment: AttachmentID, app: AppID, byteCount: Int, digest: [UInt8]) {
        self.attachment = attachment
        self.app = app
        byteCountStored = byteCount
        self.digest = digest
    }

    package static var kinds: [ActKind] { [.storeAttachment] }
    package var subjects: Subjects { .none }
    package var byteCount: Int { 1024 }

    /// Notes that the body is stored, or that it differs from the announcement. Throws a refusal if the attachment does not
    /// exist, belongs to another app, has a body, or is deleted, and if the body is empty. An empty body changes nothing, because
    /// a client with a lost connection sends it. A body that differs from the announcement ends the reservation.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<Attachment> {
        var attachment = try view.attachment(self.attachment, in: project)
        if let fault = attachment.fault(at: stamp.at, app) { throw fault }
        guard byteCountStored > 0 else { throw .attachmentWithoutBody }
        let said = attachment.description
        attachment.state =
            byteCountStored > said.byteCount
            ? .tooLong : byteCountStored < said.byteCount ? .tooShort : digest != said.digest ? .wrongDigest : .stored
        if attachment.state == .stored { attachment.storedAt = stamp.at }
        var changes = [attachment.put]
        if attachment.state == .stored {
            var content = ContentUse(of: digest, view)
            content.add()
            changes.append(content.put)
        }
        changes += attachment.uses(view) { $0.settle(attachment) }
        return Decision(
            attachment, outcome: Outcome(kind: .storeAttachment, person: attachment.person, changes: changes))
    }
}

/// A call that deletes an attachment.
package struct DeleteAttachment: Act {
    package let attachment: AttachmentID
    package init(_ attachment: AttachmentID) { self.attachment = attachment }

    package static var kinds: [ActKind] { [.deleteAttachment] }
    package var subjects: Subjects { .none }
    package var byteCount: Int { 256 }

    /// Deletes the attachment, or its reservation. Throws `noSuchAttachment` if the attachment does not exist, or was deleted
    /// before. The bytes stay while another attachment has the same digest.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<Attachment> {
        var attachment = try view.attachment(self.attachment, in: project)
        guard attachment.isListed(at: stamp.at) else { throw .noSuchAttachment }
        let hasBytes = attachment.state == .stored
        let uses = attachment.uses(view) { $0.take(attachment) }
        attachment.state = .deleted
        var changes = [attachment.put] + uses
        if hasBytes {
            var content = ContentUse(of: attachment.description.digest, view)
            content.remove()
            changes.append(content.put)
        }
        return Decision(
            attachment, outcome: Outcome(kind: .deleteAttachment, person: attachment.person, changes: changes))
    }
}

/// A call of the server itself that tells attachments about their event.
package struct NoteEventOfAttachments: Act {
    package let event: RowHash
    package let person: PersonID
    package let at: Instant
    package let issue: IssueID?

    package init(_ event: RowHash, of person: PersonID, at moment: Instant, issue: IssueID? = nil) {
        self.event = event
        self.person = person
        at = moment
        self.issue = issue
    }

    package static var kinds: [ActKind] { [.collect] }
    package var subjects: Subjects { Subjects(people: [person]) }
    package var byteCount: Int { 256 }

    /// Tells the waiting attachments about the event, and gives the attachments without a user to the event's person. An
    /// erased person gets none, because an erasure also covers attachments that arrive after it.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<Collected> {
        var events = EventsTelling()
        if view.person(person, in: project) != nil { events.announce(event, of: person, at: at, issue, view) }
        let answer = Collected(accepted: 0, repeated: 1)
        if events.changes.isEmpty { return Decision(answer) }
        return Decision(answer, outcome: Outcome(kind: .collect, person: nil, changes: events.changes))
    }
}

extension Attachment: Answer {
    package static let tags: [UInt8] = [
        ActKind.reserveAttachment.rawValue, ActKind.storeAttachment.rawValue, ActKind.deleteAttachment.rawValue,
    ]

    package var orphans: Orphans { state == .deleted ? .content(description.digest) : .none }

    package func pack(into packer: inout Packer) { packer.add(packed) }

    package init?(tag: UInt8, unpacking unpacker: inout Unpacker) {
        guard let attachment = unpacker.bytes().flatMap(Attachment.init(packed:)) else { return nil }
        self = attachment
    }

    /// The uses of the person and of the project after a change.
    fileprivate func uses<V: DecisionFacts>(_ view: V, _ change: (inout AttachmentUse) -> Void) -> [Change] {
        [AttachmentUse(of: person, view), AttachmentUse(of: project, view)]
            .map { use in
                var use = use
                change(&use)
                return use.put
            }
    }
}

extension DocumentFacts {
    fileprivate func attachment(_ id: AttachmentID, in project: ProjectID) throws(Refusal) -> Attachment {
        guard let attachment = document(id.documentKey).flatMap(Attachment.init(packed:)), attachment.project == project
        else { throw .noSuchAttachment }
        return attachment
    }
}

/// A call that announces an attachment.
package struct ReserveAttachment: Act {
    package let user: Identity
    /// The recognition hash of the attachment's event.
    package let event: RowHash
    /// Whether the call names no user, so that the event names the user.
    package let isOfEvent: Bool
    package let description: Attachment.Description
    package let sighting: AppUser.Sighting
    package let quotas: AttachmentQuotas

    package init(
        user: Identity, event: RowHash, isOfEvent: Bool, description: Attachment.Description,
        sighting: AppUser.Sighting,
        quotas: AttachmentQuotas
    ) {
        self.user = user
        self.event = event
        self.isOfEvent = isOfEvent
        self.description = description
        self.sighting = sighting
        self.quotas = quotas
    }

    package static var kinds: [ActKind] { [.reserveAttachment] }
    package var subjects: Subjects { Subjects(speaksFor: [user]) }
    package var byteCount: Int { 1024 }

    /// Reserves room for the attachment. Throws `userQuotaUsedUp` if the call names its user and the bytes do not fit into
    /// the user's quota, and `projectQuotaUsedUp` for the project's quota. The reservation counts like stored bytes, so
    /// parallel uploads cannot exceed a quota.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<Attachment> {
        var people = PeopleMaker(stamp)
        let quotas = view.claimSettings(of: .project(project)).quotas(or: quotas)
        let holder = view.holder(of: user)
        // The attachments of all members of the group count.
        let used: FoldedAttachmentUse? = holder.map { view.fold(.attachmentUse, of: view.group(of: $0)) }
        let usedByUser = used?.bytes(at: stamp.at) ?? 0
        let person = holder ?? people.make(user)
        var (ofPerson, ofProject) = (AttachmentUse(of: person, view), AttachmentUse(of: project, view))
        let usedByProject = ofProject.bytes(at: stamp.at)
        if !isOfEvent, usedByUser + description.byteCount > quotas.userBytes {
            throw .userQuotaUsedUp(bytes: quotas.userBytes, used: usedByUser)
        }
        if usedByProject + description.byteCount > quotas.projectBytes {
            throw .projectQuotaUsedUp(bytes: quotas.projectBytes, used: usedByProject)
        }
        var attachment = Attachment(
            id: AttachmentID(rawValue: stamp.person.rawValue), project: project, person: person,
            description: description, madeAt: stamp.at)
        attachment.isOfUser = !isOfEvent
        ofPerson.reserve(attachment, at: stamp.at)
        ofProject.reserve(attachment, at: stamp.at)
        let body = Array(#"{"app_id":\#(description.app.rawValue),"attachment_id":"\#(attachment.id.rawValue)"}"#.utf8)
        var changes = people.changes
        changes += [.rowAdded(person, Row(.attachment, at: stamp.at, body: body)), attachment.put]
        var list = AttachmentList(of: person, view)
        list.add(attachment.id)
        changes += [ofPerson.put, ofProject.put] + list.changes
        var ofEvent = AttachmentsOfEvent(event, view)
        ofEvent.ids.append(attachment.id)
        changes.append(ofEvent.put)
        var waiting = AwaitedEvent(event, view)
        waiting.attachments.append(attachment.id)
        changes.append(waiting.put)
        if !isOfEvent { changes += sighting.changes(of: person, stamp, view) }
        return Decision(
            attachment,
            outcome: Outcome(kind: .reserveAttachment, person: person, changes: changes))
    }
}

/// The attachments of an event, the oldest first.
package struct AttachmentsOfEvent {
    private let key: DocumentKey
    package fileprivate(set) var ids: [AttachmentID] = []

    /// The greatest number of listed attachments; the last attachments stay.
    private static let limit = 100

    fileprivate init<V: DecisionFacts>(_ event: RowHash, _ view: V) {
        let key = AttachmentsOfEvent.key(event)
        self.init(key, view.document(key))
    }

    /// Reads the list of an event.
    package init(_ event: RowHash, _ snapshot: any Snapshot) throws(StoreFault) {
        let key = AttachmentsOfEvent.key(event)
        self.init(key, try snapshot.document(key))
    }

    private init(_ key: DocumentKey, _ packed: [UInt8]?) {
        self.key = key
        var unpacker = Unpacker(packed ?? [])
        while let id = unpacker.integer() { ids.append(AttachmentID(rawValue: Int64(bitPattern: id))) }
    }

    private static func key(_ event: RowHash) -> DocumentKey {
        DocumentKey(.attachmentsOfEvent, of: Int64(bitPattern: event.rawValue))
    }

    fileprivate var put: Change {
        var packer = Packer()
        for id in ids.suffix(AttachmentsOfEvent.limit) { packer.add(UInt64(bitPattern: id.rawValue)) }
        return .documentPut(key, .nobody, packer.bytes)
    }
}

/// An event that is not known yet, and its attachments.
struct AwaitedEvent {
    private let key: DocumentKey
    var attachments: [AttachmentID] = []

    init<V: DecisionFacts>(_ event: RowHash, _ view: V) {
        key = DocumentKey(.awaitedEvent, of: Int64(bitPattern: event.rawValue))
        guard let packed = view.document(key) else { return }
        var unpacker = Unpacker(packed)
        while let id = unpacker.integer() { attachments.append(AttachmentID(rawValue: Int64(bitPattern: id))) }
    }

    var put: Change {
        var packer = Packer()
        // The list is longer than the list of a real event, so only the last attachments wait.
        for attachment in attachments.suffix(100) { packer.add(UInt64(bitPattern: attachment.rawValue)) }
        return .documentPut(key, .nobody, packer.bytes)
    }
}

/// Tells waiting attachments about events that have arrived. Attachments without a user belong to the event's person from then
/// on, and their bytes count for this person.
struct EventsTelling {
    private var uses: [PersonID: AttachmentUse] = [:]
    private var lists: [PersonID: AttachmentList] = [:]
    private var told: [Change] = []

    mutating func announce<V: DecisionFacts>(
        _ event: RowHash, of person: PersonID, at moment: Instant, _ issue: IssueID?, _ view: V
    ) {
        var waiting = AwaitedEvent(event, view)
        if waiting.attachments.isEmpty { return }
        for id in waiting.attachments {
            guard var attachment = view.document(id.documentKey).flatMap(Attachment.init(packed:)) else { continue }
            let before = attachment.person
            if before != person, !attachment.isOfUser {
                use(of: before, view) { $0.take(attachment) }
                use(of: person, view) { $0.give(attachment) }
                lists[person, default: AttachmentList(of: person, view)].add(id)
                attachment.person = person
            }
            (attachment.eventAt, attachment.issue) = (moment, issue)
            told.append(attachment.put)
        }
        waiting.attachments = []
        told.append(waiting.put)
    }

    /// Tells the attachments of a corrected event about the event. Attachments without a user of their own follow the event from
    /// person to person.
    mutating func move<V: DecisionFacts>(
        _ event: RowHash, from before: PersonID, to person: PersonID, at moment: Instant, _ issue: IssueID?, _ view: V
    ) {
        for id in AttachmentsOfEvent(event, view).ids {
            guard let packed = view.document(id.documentKey), var attachment = Attachment(packed: packed) else {
                continue
            }
            if before != person, attachment.person == before, !attachment.isOfUser {
                use(of: before, view) { $0.take(attachment) }
                use(of: person, view) { $0.give(attachment) }
                lists[person, default: AttachmentList(of: person, view)].add(id)
                attachment.person = person
            }
            (attachment.eventAt, attachment.issue) = (moment, issue)
            if attachment.packed != packed { told.append(attachment.put) }
        }
    }

    private mutating func use<V: DecisionFacts>(of person: PersonID, _ view: V, _ change: (inout AttachmentUse) -> Void)
    {
        change(&uses[person, default: AttachmentUse(of: person, view)])
    }

    var changes: [Change] {
        told + uses.sorted { $0.key < $1.key }.map(\.value.put)
            + lists.sorted { $0.key < $1.key }.flatMap(\.value.changes)
    }
}

extension Attachment {
    /// The refusal of a body from an app at a moment; nil if the attachment accepts the body.
    package func fault(at moment: Instant, _ app: AppID) -> Refusal? {
        switch state {
        case .tooShort, .tooLong, .wrongDigest: return .noSuchAttachment
        case .reserved:
            if !isListed(at: moment) { return .noSuchAttachment }
            return description.app == app ? nil : .attachmentOfOtherApp
        case .stored: return description.app == app ? .attachmentStored : .attachmentOfOtherApp
        case .deleted: return description.app == app ? .attachmentGone : .attachmentOfOtherApp
        }
    }
}

extension Refusal {
    package static let noSuchAttachment = Refusal(.notFound, "not_found", "There is no attachment with this id.")
    package static let attachmentOfOtherApp = Refusal(
        .forbidden, "forbidden", "The attachment was announced by another app.")
    package static let attachmentStored = Refusal(
        .conflict, "already_uploaded", "Attachment has already been uploaded")
    package static let attachmentGone = Refusal(.gone, "gone", "The attachment was deleted.")
    package static let attachmentWithoutBody = Refusal(
        .invalid, "attachment_without_body", "The body of the attachment is missing.")

    /// Whether the dialect answers the refusal with its code instead of a text.
    package var isOfAttachment: Bool { self == .attachmentStored || !figures.isEmpty }

    /// The attachment does not fit into the quota of its user.
    package static func userQuotaUsedUp(bytes: Int, used: Int) -> Refusal {
        var refusal = Refusal(
            .tooLarge, "user_quota_exhausted",
            "The user's attachments may have \(bytes) bytes in all, and have \(used).", isJournalled: true)
        refusal.figures = [
            Figure(name: "user_quota_bytes", value: bytes), Figure(name: "user_used_bytes", value: used),
        ]
        return refusal
    }

    /// The attachment does not fit into the quota of the project.
    package static func projectQuotaUsedUp(bytes: Int, used: Int) -> Refusal {
        var refusal = Refusal(
            .tooLarge, "quota_exhausted",
            "The project's attachments may have \(bytes) bytes in all, and have \(used).", isJournalled: true)
        refusal.figures = [Figure(name: "quota_bytes", value: bytes), Figure(name: "used_bytes", value: used)]
        return refusal
    }
}

extension ActKind {
    package static let reserveAttachment = ActKind(31, "reserve_attachment", undo: .never(.rowsStay))
    package static let storeAttachment = ActKind(32, "store_attachment", undo: .never(.rowsStay))
    package static let deleteAttachment = ActKind(33, "delete_attachment", undo: .never(.rowsStay))
}
