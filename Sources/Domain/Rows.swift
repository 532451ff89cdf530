/// The kind of a row. Stores keep the raw values, so a raw value never changes.
package enum RowKind: UInt8, CaseIterable, Sendable {
    case event = 1
    /// The common context of the events of one upload: the app, the device and the session.
    case context = 2
    /// A measurement of an event.
    case metric = 3
    /// A funnel step of an event.
    case step = 4
    /// The feedback of a user.
    case feedback = 6
    /// The mark that a user began to answer a questionnaire.
    case answer = 7
    /// The mark that an issue occurred in a session.
    case occurrence = 8
    /// The announcement of a file.
    case attachment = 9
    /// The access that a person got by a purchase or a grant.
    case accessGranted = 20
    /// The access that a person lost.
    case accessLost = 21
    /// The move of a purchase from some identities to others.
    case accessTransferred = 22
    /// The properties of a user, for programs that count them.
    case accessProperties = 23
    /// The data of an advertising network about the install of an app.
    case attribution = 24
    /// The activation or deactivation of an install.
    case install = 30

    /// The kind's name in every document.
    package var name: StaticString {
        switch self {
        case .event: "event"
        case .context: "context"
        case .metric: "metric"
        case .step: "step"
        case .feedback: "feedback"
        case .answer: "answer"
        case .occurrence: "occurrence"
        case .attachment: "attachment"
        case .accessGranted: "entitlement_granted"
        case .accessLost: "entitlement_lost"
        case .accessTransferred: "entitlement_transferred"
        case .accessProperties: "properties_changed"
        case .attribution: "attribution"
        case .install: "install"
        }
    }

    /// Whether the feed contains the bodies of such rows. The body must not contain the value of an identity or of a
    /// property.
    package var isTold: Bool {
        switch self {
        case .accessGranted, .accessLost, .accessTransferred: true
        case .event, .context, .metric, .step, .feedback, .answer, .occurrence, .attachment, .accessProperties,
            .attribution, .install:
            false
        }
    }

    package init?(named name: String) {
        guard let kind = RowKind.allCases.first(where: { "\($0.name)" == name }) else { return nil }
        self = kind
    }
}

/// Something that happened to a person. A row never changes; a later row can supersede it. The store keeps the row with the person of the call, and reads
/// show it with the person's group.
package struct Row: Equatable, Sendable {
    package let kind: RowKind
    /// The moment of the row, as the client reports it.
    package let at: Instant
    /// The hash by which the server recognizes a repeated row; nil for rows without recognition.
    package let recognition: RowHash?
    /// The device of the row, if the client names it.
    package let device: RowHash?
    /// The body as a JSON value.
    package let body: [UInt8]

    package init(
        _ kind: RowKind, at: Instant, recognition: RowHash? = nil, device: RowHash? = nil, body: [UInt8]
    ) {
        self.kind = kind
        self.at = at
        self.recognition = recognition
        self.device = device
        self.body = body
    }
}

/// A keyed hash of 64 bits for comparing rows. In a store with ten million rows, two rows have equal hashes with a chance of
/// 1 in 400,000.
package struct RowHash: Hashable, Sendable {
    package let rawValue: UInt64
    package init(rawValue: UInt64) { self.rawValue = rawValue }

    /// The meaning of the hashed text. The same text with another subject has another hash.
    package enum Subject: UInt8, Sendable {
        case event = 1
        case device = 2
        /// An issue in a session.
        case occurrence = 8
        /// A session of an app.
        case session = 9
        /// The value of a member, for searches in runs.
        case member = 10
    }

    package init(_ subject: Subject, _ text: borrowing Span<UInt8>, in project: ProjectID, hash: KeyedHash) {
        // This tag differs from the tags of identities and of remembered calls.
        let tag = 3 << 62 | UInt64(UInt32(bitPattern: project.rawValue)) << 8 | UInt64(subject.rawValue)
        rawValue = hash.hash(tag: tag, text).low
    }
}

extension RowHash {
    /// The hash of the same text in the space of one owner. The same text of another owner has another hash.
    package func of(_ owner: UInt64) -> RowHash { RowHash(rawValue: rawValue ^ owner &* 0x9E37_79B9_7F4A_7C15) }
}

/// The position of a row among all rows. Later rows have larger numbers.
package struct RowNumber: Hashable, Comparable, Sendable {
    package let rawValue: Int64
    package init(rawValue: Int64) { self.rawValue = rawValue }

    package static func < (one: RowNumber, other: RowNumber) -> Bool { one.rawValue < other.rawValue }
}

/// A row in a store.
package struct StoredRow: Equatable, Sendable {
    package let number: RowNumber
    /// The person with whom the store keeps the row.
    package let person: PersonID
    package let row: Row
    /// The previous row of the same kind and person.
    package let previous: RowNumber?

    package init(number: RowNumber, person: PersonID, row: Row, previous: RowNumber?) {
        self.number = number
        self.person = person
        self.row = row
        self.previous = previous
    }
}

/// A row that the store finds by its recognition hash.
package struct NamedRow: Equatable, Sendable {
    package let stored: StoredRow
    /// The moment at which the row came, and the key of its caller.
    package let arrival: RowArrival
    /// The measurement or the step that came with the event, directly behind it; nil for other rows.
    package let derived: StoredRow?

    package init(stored: StoredRow, arrival: RowArrival, derived: StoredRow?) {
        self.stored = stored
        self.arrival = arrival
        self.derived = derived
    }
}

extension RowKind {
    /// Whether such rows come directly behind their event and are views of it.
    package var isDerived: Bool { self == .metric || self == .step }
}
