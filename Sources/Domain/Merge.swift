/// A fact: one person is another person, so reads show both as one person. The store rewrites nothing, so an undo is
/// possible.
///
/// Each reason for which two people are one is a merge of its own. A merge of two people of one group is a supporting merge:
/// it keeps them together if another merge is undone. Two people have at most one merge for each rule.
package struct Merge: Equatable, Sendable {
    package let id: MergeID
    package let from: PersonID
    package let into: PersonID
    package let rule: Rule

    /// The reason of the merge. Stores keep the raw values, so a raw value never changes.
    package enum Rule: UInt8, BitwiseCopyable, CaseIterable, Sendable {
        /// A known user claimed an anonymous id.
        case claim = 1
        /// An administrator merged the people.
        case administrator = 2
        /// The people have the same user id in two dialects.
        case sameUserID = 3
        /// An import names the people as one person.
        case imported = 4
        /// A call named identities of both people, and the strategy merges such people.
        case match = 5
        /// A person restored what the other, anonymous person bought, and the strategy merges such people.
        case restore = 6
        /// The undo of a split joins the person that the split made with the person that it was split off.
        case splitUndone = 10
        /// An install was linked to a known user.
        case linking = 50

        package var name: StaticString {
            switch self {
            case .claim: "claim"
            case .administrator: "administrator"
            case .sameUserID: "same_user_id"
            case .imported: "import"
            case .match: "match"
            case .restore: "restore"
            case .splitUndone: "split_undone"
            case .linking: "linking"
            }
        }
    }

    package init(id: MergeID, from: PersonID, into: PersonID, rule: Rule) {
        self.id = id
        self.from = from
        self.into = into
        self.rule = rule
    }
}

extension Merge {
    /// Whether the merge is between two people, in any order.
    package func isBetween(_ one: PersonID, _ other: PersonID) -> Bool {
        from == one && into == other || from == other && into == one
    }
}

/// The id of a merge. The server never reuses it.
package struct MergeID: Hashable, Comparable, Sendable {
    package let rawValue: Int64
    package init(rawValue: Int64) { self.rawValue = rawValue }

    package static func < (one: MergeID, other: MergeID) -> Bool { one.rawValue < other.rawValue }
}

extension Merge: Answer {
    package static let tags: [UInt8] = [ActKind.merge.rawValue]

    package func pack(into packer: inout Packer) {
        packer.add(UInt64(bitPattern: id.rawValue))
        packer.add(UInt64(bitPattern: from.rawValue))
        packer.add(UInt64(bitPattern: into.rawValue))
        packer.add(rule.rawValue)
    }

    package init?(tag: UInt8, unpacking unpacker: inout Unpacker) {
        guard let id = unpacker.integer(), let from = unpacker.person(), let into = unpacker.person(),
            let rule = unpacker.byte().flatMap(Merge.Rule.init)
        else { return nil }
        self.init(id: MergeID(rawValue: Int64(bitPattern: id)), from: from, into: into, rule: rule)
    }
}
