/// The id of a person. The server never reuses it, and IDSync calls it MPID.
///
///     0 | 41 bits: milliseconds since 2020 | 22 bits: random
///
/// So the id is positive, and later people have larger ids.
package struct PersonID: Hashable, Comparable, Sendable {
    package let rawValue: Int64

    package init(rawValue: Int64) { self.rawValue = rawValue }

    /// Makes the id of a person from a moment and a random number.
    package init(at moment: Instant, chance: UInt64) {
        let age = max(1, moment.milliseconds - PersonID.epochMilliseconds)
        rawValue = age << PersonID.chanceBits & .max | Int64(chance & (1 << UInt64(PersonID.chanceBits) - 1))
    }

    package static func < (one: PersonID, other: PersonID) -> Bool { one.rawValue < other.rawValue }

    /// The next id, which the server takes if this id is in use.
    package var next: PersonID { PersonID(rawValue: rawValue + 1) }

    static let chanceBits: Int64 = 22
    /// The first moment of 2020.
    static let epochMilliseconds: Int64 = 1_577_836_800_000
}

/// The id of a project. Each project has its own people.
package struct ProjectID: Hashable, Sendable {
    package let rawValue: Int32
    package init(rawValue: Int32) { self.rawValue = rawValue }

    /// No project: the mark of a key that belongs to the operator of the server.
    package static let none = ProjectID(rawValue: 0)
}

/// An app of a project.
package struct AppID: Hashable, Sendable {
    package let rawValue: Int64
    package init(rawValue: Int64) { self.rawValue = rawValue }
}

/// The id of a key.
package struct KeyID: Hashable, Sendable {
    package let rawValue: Int64
    package init(rawValue: Int64) { self.rawValue = rawValue }
}

/// A position in the journal. The number grows by one with each accepted change.
package struct JournalSequence: Hashable, Comparable, Sendable {
    package let rawValue: Int64
    package init(rawValue: Int64) { self.rawValue = rawValue }

    package static func < (one: JournalSequence, other: JournalSequence) -> Bool { one.rawValue < other.rawValue }

    /// The position before the first change.
    package static let zero = JournalSequence(rawValue: 0)
    package var next: JournalSequence { JournalSequence(rawValue: rawValue + 1) }
}
