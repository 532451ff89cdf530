/// A file that belongs to an event (spec/claim.md 1.7). The bytes are in a folder beside the store, under their digest. This
/// value is the description.
package struct Attachment: Equatable, Sendable {
    /// The state of the attachment. Stores keep the raw values, so a raw value never changes.
    package enum State: UInt8, Sendable {
        /// The server waits for the bytes.
        case reserved = 0
        case stored = 1
        case deleted = 2
        /// The received bytes differ from the announcement in number or in digest. The attachment counts as deleted.
        case tooShort = 3
        case wrongDigest = 4
        case tooLong = 5
    }

    /// The announcement of a file.
    package struct Description: Equatable, Sendable {
        package let app: AppID
        package let clientEventID: String
        package let filename: String
        package let contentType: String
        package let byteCount: Int
        package let digest: [UInt8]
        package let isDevelopment: Bool

        package init(
            app: AppID, clientEventID: String, filename: String, contentType: String, byteCount: Int, digest: [UInt8],
            isDevelopment: Bool
        ) {
            self.app = app
            self.clientEventID = clientEventID
            self.filename = filename
            self.contentType = contentType
            self.byteCount = byteCount
            self.digest = digest
            self.isDevelopment = isDevelopment
        }
    }

    package let id: AttachmentID
    package let project: ProjectID
    /// The person of the attachment. An announcement without a user belongs to nobody until its event arrives.
    package internal(set) var person: PersonID
    package let description: Description
    package let madeAt: Instant
    package internal(set) var state = State.reserved
    /// The moment at which the bytes arrived; nil before, and for bytes that an older version of the server stored.
    package internal(set) var storedAt: Instant?
    /// The moment of the attachment's event; nil until the server knows the event.
    package internal(set) var eventAt: Instant?
    /// The issue of the attachment's event; nil for an event without an issue.
    package internal(set) var issue: IssueID?
    /// Whether the announcement named a user. Otherwise the event names the user.
    package internal(set) var isOfUser = false

    /// The time within which a client should send the bytes.
    package static let advisedMilliseconds: Int64 = 15 * 60_000
    /// The time for which the server waits for the bytes. Then the reservation does not exist any more.
    package static let reservationMilliseconds: Int64 = 24 * 3_600_000

    /// The moment that clients see as the end of a reservation. The server accepts the bytes until ``endsAt``.
    package var expiresAt: Instant { madeAt.advanced(byMilliseconds: Attachment.advisedMilliseconds) }
    package var endsAt: Instant { madeAt.advanced(byMilliseconds: Attachment.reservationMilliseconds) }

    /// Whether reads show the attachment: the bytes are stored, or the server waits for them.
    package func isListed(at moment: Instant) -> Bool {
        switch state {
        case .stored: true
        case .reserved: endsAt.ends(atMost: Attachment.reservationMilliseconds, runningAt: moment)
        case .deleted, .tooShort, .tooLong, .wrongDigest: false
        }
    }

    init(id: AttachmentID, project: ProjectID, person: PersonID, description: Description, madeAt: Instant) {
        self.id = id
        self.project = project
        self.person = person
        self.description = description
        self.madeAt = madeAt
    }

    package var packed: [UInt8] {
        var packer = Packer()
        packer.add(UInt64(bitPattern: id.rawValue))
        packer.add(UInt64(UInt32(bitPattern: project.rawValue)))
        packer.add(UInt64(bitPattern: person.rawValue))
        packer.add(state.rawValue)
        packer.add(madeAt)
        packer.add(UInt64(bitPattern: description.app.rawValue))
        packer.add(description.clientEventID)
        packer.add(description.filename)
        packer.add(description.contentType)
        packer.add(UInt64(description.byteCount))
        packer.add(description.digest)
        packer.add(description.isDevelopment ? 1 : 0 as UInt8)
        packer.add(storedAt ?? Attachment.noMoment)
        packer.add(eventAt ?? Attachment.noMoment)
        packer.add(issue == nil ? 0 : 1 as UInt8)
        if let issue { packer.add(UInt64(bitPattern: issue.rawValue)) }
        packer.add(isOfUser ? 1 : 0 as UInt8)
        return packer.bytes
    }

    /// Stands for a missing moment in the packed form.
    private static let noMoment = Instant(milliseconds: .min)

    package init?(packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        guard let id = unpacker.integer(), let project = unpacker.integer(), let person = unpacker.person(),
            let state = unpacker.byte().flatMap(State.init), let madeAt = unpacker.instant(),
            let app = unpacker.integer(), let event = unpacker.text(), let filename = unpacker.text(),
            let type = unpacker.text(), let count = unpacker.integer(), let digest = unpacker.bytes(),
            let isDevelopment = unpacker.byte()
        else { return nil }
        // Older versions wrote fewer members.
        let storedAt = unpacker.isAtEnd ? nil : unpacker.instant()
        let eventAt = unpacker.isAtEnd ? nil : unpacker.instant()
        let issue = unpacker.isAtEnd ? nil : unpacker.byte() == 1 ? unpacker.integer() : nil
        let isOfUser = unpacker.isAtEnd ? nil : unpacker.byte()
        guard unpacker.isAtEnd else { return nil }
        self.init(
            id: AttachmentID(rawValue: Int64(bitPattern: id)),
            project: ProjectID(rawValue: Int32(truncatingIfNeeded: project)), person: person,
            description: Description(
                app: AppID(rawValue: Int64(bitPattern: app)), clientEventID: event, filename: filename,
                contentType: type, byteCount: Int(clamping: count), digest: digest,
                isDevelopment: isDevelopment == 1),
            madeAt: madeAt)
        self.state = state
        self.storedAt = storedAt == Attachment.noMoment ? nil : storedAt
        self.eventAt = eventAt == Attachment.noMoment ? nil : eventAt
        self.issue = issue.map { IssueID(rawValue: Int64(bitPattern: $0)) }
        self.isOfUser = isOfUser == 1
    }

    var put: Change { .documentPut(id.documentKey, person, packed) }
}

/// The id of an attachment. The server never reuses it.
package struct AttachmentID: Hashable, Sendable {
    package let rawValue: Int64
    package init(rawValue: Int64) { self.rawValue = rawValue }

    var documentKey: DocumentKey { DocumentKey(.attachment, of: rawValue) }
}

/// The limits of attachment bytes of a person and of a project.
package struct AttachmentQuotas: Equatable, Sendable {
    package var userBytes = 250 << 20
    package var projectBytes = 5 << 30

    package init() {}
}

/// The number of stored bytes, and the number of reserved bytes by the minute in which the server stops to wait. So the end of
/// a reservation needs no call.
struct AttachmentBytes: Equatable, Sendable {
    var stored = 0
    var reserved: [Int64: Int] = [:]

    init(stored: Int, reserved: [Int64: Int]) {
        self.stored = stored
        self.reserved = reserved
    }

    init(packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        stored = Int(clamping: unpacker.integer() ?? 0)
        while let minute = unpacker.integer(), let bytes = unpacker.integer() {
            reserved[Int64(bitPattern: minute)] = Int(clamping: bytes)
        }
    }

    /// The bytes that count at a moment.
    func bytes(at moment: Instant) -> Int {
        reserved.reduce(stored) { AttachmentBytes.runs($1.key, at: moment) ? $0 + $1.value : $0 }
    }

    /// Whether reservations that end in an hour still run. The key is the hour's last minute.
    static func runs(_ minute: Int64, at moment: Instant) -> Bool {
        Instant(milliseconds: (minute + 1) * 60_000)
            .ends(atMost: Attachment.reservationMilliseconds + 3_600_000, runningAt: moment)
    }

    var packed: [UInt8] {
        var packer = Packer()
        packer.add(UInt64(stored))
        for (minute, bytes) in reserved.sorted(by: { $0.key < $1.key }) where bytes > 0 {
            packer.add(UInt64(bitPattern: minute))
            packer.add(UInt64(bytes))
        }
        return packer.bytes
    }
}

/// The attachment bytes of a person or of a project.
struct AttachmentUse: Equatable {
    private let key: DocumentKey
    private let person: PersonID
    private var has: AttachmentBytes

    init<V: DecisionFacts>(of person: PersonID, _ view: V) {
        self.init(DocumentKey(.attachmentUse, of: person), person, view)
    }

    init<V: DecisionFacts>(of project: ProjectID, _ view: V) {
        self.init(DocumentKey(.attachmentUseOfProject, of: Int64(project.rawValue)), .nobody, view)
    }

    private init<V: DecisionFacts>(_ key: DocumentKey, _ person: PersonID, _ view: V) {
        (self.key, self.person) = (key, person)
        has = AttachmentBytes(packed: view.document(key) ?? [])
    }

    /// The bytes that count at a moment.
    func bytes(at moment: Instant) -> Int { has.bytes(at: moment) }

    mutating func reserve(_ attachment: Attachment, at moment: Instant) {
        has.reserved = has.reserved.filter { AttachmentBytes.runs($0.key, at: moment) }
        has.reserved[AttachmentUse.minute(attachment), default: 0] += attachment.description.byteCount
    }

    /// Ends the reservation of an attachment: its body is stored or will never be stored.
    mutating func settle(_ attachment: Attachment) {
        let minute = AttachmentUse.minute(attachment)
        if let bytes = has.reserved[minute] { has.reserved[minute] = max(0, bytes - attachment.description.byteCount) }
        if attachment.state == .stored { has.stored += attachment.description.byteCount }
    }

    /// Removes an attachment that now counts for another person.
    mutating func take(_ attachment: Attachment) {
        switch attachment.state {
        case .stored: remove(attachment)
        case .reserved: settle(attachment)
        case .deleted, .tooShort, .tooLong, .wrongDigest: break
        }
    }

    /// Adds an attachment that counted for another person.
    mutating func give(_ attachment: Attachment) {
        let bytes = attachment.description.byteCount
        switch attachment.state {
        case .stored: has.stored += bytes
        case .reserved: has.reserved[AttachmentUse.minute(attachment), default: 0] += bytes
        case .deleted, .tooShort, .tooLong, .wrongDigest: break
        }
    }

    mutating func remove(_ attachment: Attachment) {
        has.stored = max(0, has.stored - attachment.description.byteCount)
    }

    /// The minute in which a reservation ends. It is the last minute of an hour, so the reservations of a day have few minutes.
    private static func minute(_ attachment: Attachment) -> Int64 {
        attachment.endsAt.milliseconds / 3_600_000 * 60 + 59
    }

    var put: Change { .documentPut(key, person, has.packed) }
}

/// The number of attachments of all projects with the same bytes.
package struct ContentUse {
    private let key: DocumentKey
    private var count: UInt64

    static func key(_ digest: [UInt8]) -> DocumentKey {
        let words = [0, 8].map { start in digest.dropFirst(start).prefix(8).reduce(0) { $0 << 8 | UInt64($1) } }
        return DocumentKey(.content, hash: Hash128(high: words[0], low: words[1]))
    }

    init<V: DecisionFacts>(of digest: [UInt8], _ view: V) {
        self.init(ContentUse.key(digest), view.document(ContentUse.key(digest)))
    }

    private init(_ key: DocumentKey, _ packed: [UInt8]?) {
        self.key = key
        var unpacker = Unpacker(packed ?? [])
        count = unpacker.integer() ?? 0
    }

    /// Whether no attachment has these bytes.
    package static func isUnused(_ digest: [UInt8], _ snapshot: any Snapshot) throws(StoreFault) -> Bool {
        let key = key(digest)
        return ContentUse(key, try snapshot.document(key)).count == 0
    }

    mutating func add() { count += 1 }
    mutating func remove() { count -= min(count, 1) }

    var put: Change {
        var packer = Packer()
        packer.add(count)
        return .documentPut(key, .nobody, packer.bytes)
    }
}

/// The ids of all attachments of a person, also of deleted attachments. A full part of the list is stored apart, so each new
/// id has the same cost.
struct AttachmentList {
    private let person: PersonID
    private var fullParts: UInt64 = 0
    private var filled: [Change] = []
    private var ids: [AttachmentID] = []

    private static let idsPerPart = 64

    init<V: DecisionFacts>(of person: PersonID, _ view: V) {
        self.person = person
        guard let packed = view.document(DocumentKey(.attachmentList, of: person)) else { return }
        var unpacker = Unpacker(packed)
        fullParts = unpacker.integer() ?? 0
        while let id = unpacker.integer() { ids.append(AttachmentID(rawValue: Int64(bitPattern: id))) }
    }

    private func key(ofPart part: UInt64) -> DocumentKey {
        DocumentKey(.attachmentList, hash: Hash128(high: part + 1, low: UInt64(bitPattern: person.rawValue)))
    }

    mutating func add(_ id: AttachmentID) {
        ids.append(id)
        if ids.count < AttachmentList.idsPerPart { return }
        filled.append(.documentPut(key(ofPart: fullParts), person, AttachmentList.pack(ids)))
        fullParts += 1
        ids = []
    }

    /// The documents that change after new ids.
    var changes: [Change] {
        let last = AttachmentList.pack(ids, beginningWith: fullParts)
        return filled + [.documentPut(DocumentKey(.attachmentList, of: person), person, last)]
    }

    private static func pack(_ ids: [AttachmentID], beginningWith first: UInt64? = nil) -> [UInt8] {
        var packer = Packer()
        if let first { packer.add(first) }
        for id in ids { packer.add(UInt64(bitPattern: id.rawValue)) }
        return packer.bytes
    }

    func forEach<V: DecisionFacts>(_ view: V, _ body: (AttachmentID) -> Void) {
        for part in 0..<fullParts {
            var unpacker = Unpacker(view.document(key(ofPart: part)) ?? [])
            while let id = unpacker.integer() { body(AttachmentID(rawValue: Int64(bitPattern: id))) }
        }
        ids.forEach(body)
    }

    /// The keys of the full parts of the list. The last part is found by the person.
    var fullKeys: [DocumentKey] { (0..<fullParts).map(key) }
}

/// The changes to the attachments of erased people: the descriptions are removed, the bytes lose an owner, and the project's
/// use shrinks.
struct ErasedAttachments {
    private var ofProject: AttachmentUse
    private var contents: [[UInt8]: ContentUse] = [:]
    private var gone: [Change] = []
    var count: Int { gone.count }

    init<V: DecisionFacts>(in project: ProjectID, _ view: V) { ofProject = AttachmentUse(of: project, view) }

    mutating func erase<V: DecisionFacts>(of person: PersonID, _ view: V) {
        let list = AttachmentList(of: person, view)
        var found: [Attachment] = []
        list.forEach(view) { id in
            // An attachment without a user may belong to another person by now.
            guard let attachment = view.document(id.documentKey).flatMap(Attachment.init(packed:)),
                attachment.person == person
            else { return }
            found.append(attachment)
        }
        for attachment in found {
            let digest = attachment.description.digest
            if attachment.state == .stored { contents[digest, default: ContentUse(of: digest, view)].remove() }
            ofProject.take(attachment)
            gone.append(.documentPut(attachment.id.documentKey, person, []))
        }
        gone += list.fullKeys.map { .documentPut($0, person, []) }
    }

    var changes: [Change] {
        if gone.isEmpty { return [] }
        return gone + contents.sorted { $0.key.lexicographicallyPrecedes($1.key) }.map(\.value.put) + [ofProject.put]
    }
}

extension Snapshot {
    /// The attachment with an id; nil if it does not exist.
    package func attachment(_ id: AttachmentID) throws(StoreFault) -> Attachment? {
        try document(id.documentKey).flatMap(Attachment.init(packed:))
    }
}
