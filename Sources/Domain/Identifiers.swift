/// A person: made once, never reused. It is what IDSync calls an MPID.
///
///     0 | 41 bits: milliseconds since 2020 | 22 bits: random
///
/// So it is positive, and people made later have larger ids.
package struct PersonID: Hashable, Comparable, Sendable {
    package let rawValue: Int64

    package init(rawValue: Int64) { self.rawValue = rawValue }

    /// Makes the id of a person that is made at some moment, by some chance.
    package init(at moment: Instant, chance: UInt64) {
        let age = max(1, moment.milliseconds - PersonID.epochMilliseconds)
        rawValue = age << PersonID.chanceBits & .max | Int64(chance & (1 << UInt64(PersonID.chanceBits) - 1))
    }

    package static func < (one: PersonID, other: PersonID) -> Bool { one.rawValue < other.rawValue }

    /// The id after this one, for when this one is taken.
    package var next: PersonID { PersonID(rawValue: rawValue + 1) }

    static let chanceBits: Int64 = 22
    /// The first moment of 2020.
    static let epochMilliseconds: Int64 = 1_577_836_800_000
}

/// A project: a world of people of its own.
package struct ProjectID: Hashable, Sendable {
    package let rawValue: Int32
    package init(rawValue: Int32) { self.rawValue = rawValue }
}

/// An app of a project.
package struct AppID: Hashable, Sendable {
    package let rawValue: Int64
    package init(rawValue: Int64) { self.rawValue = rawValue }
}

/// A key that calls are made with.
package struct KeyID: Hashable, Sendable {
    package let rawValue: Int64
    package init(rawValue: Int64) { self.rawValue = rawValue }
}

/// A place in the journal; it grows by one with each accepted change.
package struct JournalSequence: Hashable, Comparable, Sendable {
    package let rawValue: Int64
    package init(rawValue: Int64) { self.rawValue = rawValue }

    package static func < (one: JournalSequence, other: JournalSequence) -> Bool { one.rawValue < other.rawValue }

    /// Before the first change.
    package static let zero = JournalSequence(rawValue: 0)
    package var next: JournalSequence { JournalSequence(rawValue: rawValue + 1) }
}
