/// A file that goes with an event (spec/claim.md 1.7). Its bytes are in a folder beside the store, found by their digest;
/// this is what is known of it.
package struct Attachment: Equatable, Sendable {
    /// What has become of it. The raw values are stored: they never change.
    package enum State: UInt8, Sendable {
        /// Its bytes are waited for.
        case reserved = 0
        case stored = 1
        case deleted = 2
        /// Bytes came that were not as many as was said, or others than was said: it is as if it were deleted.
        case tooShort = 3
        case wrongDigest = 4
        case tooLong = 5
    }

    /// What a client says of a file before it sends it.
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
    /// Whose it is. It came for nobody in particular where its event tells whose it is.
    package internal(set) var person: PersonID
    package let description: Description
    package let madeAt: Instant
    package internal(set) var state = State.reserved

    /// For how long a reservation holds.
    package static let reservationMilliseconds: Int64 = 15 * 60_000

    package var expiresAt: Instant { madeAt.advanced(byMilliseconds: Attachment.reservationMilliseconds) }

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
        return packer.bytes
    }

    package init?(packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        guard let id = unpacker.integer(), let project = unpacker.integer(), let person = unpacker.person(),
            let state = unpacker.byte().flatMap(State.init), let madeAt = unpacker.instant(),
            let app = unpacker.integer(), let event = unpacker.text(), let filename = unpacker.text(),
            let type = unpacker.text(), let count = unpacker.integer(), let digest = unpacker.bytes(),
            let isDevelopment = unpacker.byte(), unpacker.isAtEnd
        else { return nil }
        self.init(
            id: AttachmentID(rawValue: Int64(bitPattern: id)),
            project: ProjectID(rawValue: Int32(truncatingIfNeeded: project)), person: person,
            description: Description(
                app: AppID(rawValue: Int64(bitPattern: app)), clientEventID: event, filename: filename,
                contentType: type, byteCount: Int(clamping: count), digest: digest,
                isDevelopment: isDevelopment == 1),
            madeAt: madeAt)
        self.state = state
    }

    var put: Change { .documentPut(id.documentKey, person, packed) }
}

/// An attachment's id: made once, never reused.
package struct AttachmentID: Hashable, Sendable {
    package let rawValue: Int64
    package init(rawValue: Int64) { self.rawValue = rawValue }

    var documentKey: DocumentKey { DocumentKey(.attachment, of: rawValue) }
}

/// How many bytes of attachments somebody may have.
package struct AttachmentQuotas: Equatable, Sendable {
    package var userBytes = 250 << 20
    package var projectBytes = 5 << 30

    package init() {}
}

/// How many bytes of attachments there are: what is stored, and what is waited for, by the minute in which that ends. So
/// a reservation that nobody came for costs nothing to let go.
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

    /// What counts at some moment.
    func bytes(at moment: Instant) -> Int {
        let now = moment.milliseconds / 60_000
        return reserved.reduce(stored) { $1.key >= now ? $0 + $1.value : $0 }
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

/// How many bytes of attachments a person or a project has.
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

    /// What counts at some moment.
    func bytes(at moment: Instant) -> Int { has.bytes(at: moment) }

    mutating func reserve(_ attachment: Attachment, at moment: Instant) {
        let now = moment.milliseconds / 60_000
        has.reserved = has.reserved.filter { $0.key >= now }
        has.reserved[AttachmentUse.minute(attachment), default: 0] += attachment.description.byteCount
    }

    /// An attachment that was reserved is no longer waited for: it is there, or never will be.
    mutating func settle(_ attachment: Attachment) {
        let minute = AttachmentUse.minute(attachment)
        if let bytes = has.reserved[minute] { has.reserved[minute] = max(0, bytes - attachment.description.byteCount) }
        if attachment.state == .stored { has.stored += attachment.description.byteCount }
    }

    /// An attachment counts with somebody else from now on, and so no more here.
    mutating func take(_ attachment: Attachment) {
        switch attachment.state {
        case .stored: remove(attachment)
        case .reserved: settle(attachment)
        case .deleted, .tooShort, .tooLong, .wrongDigest: break
        }
    }

    /// An attachment that counted with somebody else counts here from now on.
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

    private static func minute(_ attachment: Attachment) -> Int64 { attachment.expiresAt.milliseconds / 60_000 }

    var put: Change { .documentPut(key, person, has.packed) }
}

/// How many attachments, of all projects, have some bytes.
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

    /// Whether nothing has these bytes.
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

/// The ids of a person's attachments, whatever has become of these: a full part is put aside, so that another id costs the
/// same however many there are.
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

    /// What has to be kept after some were added.
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

    /// The documents that it is kept in, beside the one that is found by the person.
    var fullKeys: [DocumentKey] { (0..<fullParts).map(key) }
}

/// What changes by the attachments of people who are erased: nothing tells of them any more, their bytes are nobody's, and
/// the project has them no longer.
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
            // One that came for nobody may be somebody's by now.
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
    /// Whether an attachment came for nobody in particular, and no event has told yet whose it is.
    package func isNobodys(_ attachment: Attachment) throws(StoreFault) -> Bool {
        try identities(of: attachment.person).first?.type == .claimNobody
    }

    package func attachment(_ id: AttachmentID) throws(StoreFault) -> Attachment? {
        try document(id.documentKey).flatMap(Attachment.init(packed:))
    }
}
