/// What kind of thing a row is. The raw values are stored: they never change.
package enum RowKind: UInt8, CaseIterable, Sendable {
    case event = 1
    /// What the events of one upload have in common: the app, the device, the session.
    case context = 2
    /// A measurement that an event tells of.
    case metric = 3
    /// A step of a funnel that an event tells of.
    case step = 4
    /// What a user has to say.
    case feedback = 6
    /// That a user has answered a questionnaire.
    case answer = 7
    /// That an issue arose in a session.
    case occurrence = 8
    /// That a file was announced.
    case attachment = 9
    /// Access that a person got, by a purchase or by hand.
    case accessGranted = 20
    /// Access that was taken back.
    case accessLost = 21
    /// A purchase that went over from some to others.
    case accessTransferred = 22
    /// Properties that were told of a user, for those who count.
    case accessProperties = 23
    /// That an install became active, or is so no longer.
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
        case .install: "install"
        }
    }

    /// Whether who follows what happens is told what such a row says. No value of an identity or a property may be in it.
    package var isTold: Bool {
        switch self {
        case .accessGranted, .accessLost, .accessTransferred: true
        default: false
        }
    }

    package init?(named name: String) {
        guard let kind = RowKind.allCases.first(where: { "\($0.name)" == name }) else { return nil }
        self = kind
    }
}

/// Something that belongs to a person and never changes. It is stored under the person that it came for, and read
/// through whomever that person turns out to be.
package struct Row: Equatable, Sendable {
    package let kind: RowKind
    /// When it happened, by who tells of it.
    package let at: Instant
    /// By what it is recognized when it is sent again; nil where it is not.
    package let recognition: RowHash?
    /// The device that it happened on, if that is told.
    package let device: RowHash?
    /// The thing itself, as a JSON value.
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

/// The keyed hash of something that rows are compared by. With 64 bits, two of ten million are alike by chance once in
/// four hundred thousand stores.
package struct RowHash: Hashable, Sendable {
    package let rawValue: UInt64
    package init(rawValue: UInt64) { self.rawValue = rawValue }

    /// What is hashed: what it is may be another thing with the same text.
    package enum Subject: UInt8, Sendable {
        case event = 1
        case device = 2
        /// An issue in a session.
        case occurrence = 8
        /// A session of an app.
        case session = 9
    }

    package init(_ subject: Subject, _ text: borrowing Span<UInt8>, in project: ProjectID, hash: KeyedHash) {
        // Far from the tags of identities and of replays.
        let tag = 3 << 62 | UInt64(UInt32(bitPattern: project.rawValue)) << 8 | UInt64(subject.rawValue)
        rawValue = hash.hash(tag: tag, text).low
    }
}

extension RowHash {
    /// The hash of the same thing as somebody's own: what another calls by the same name is another thing.
    package func of(_ owner: UInt64) -> RowHash { RowHash(rawValue: rawValue ^ owner &* 0x9E37_79B9_7F4A_7C15) }
}

/// A row's place among all rows: those that came in later have larger ones.
package struct RowNumber: Hashable, Comparable, Sendable {
    package let rawValue: Int64
    package init(rawValue: Int64) { self.rawValue = rawValue }

    package static func < (one: RowNumber, other: RowNumber) -> Bool { one.rawValue < other.rawValue }
}

/// A row as the store has it.
package struct StoredRow: Equatable, Sendable {
    package let number: RowNumber
    /// The person that it is stored under.
    package let person: PersonID
    package let row: Row
    /// The row of its kind that the person had before it.
    package let previous: RowNumber?

    package init(number: RowNumber, person: PersonID, row: Row, previous: RowNumber?) {
        self.number = number
        self.person = person
        self.row = row
        self.previous = previous
    }
}
