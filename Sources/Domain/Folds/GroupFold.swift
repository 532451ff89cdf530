/// A value that is read over all members of a group. It starts with the documents of single people, and each merge joins two
/// values.
///
/// A fold depends only on the members' documents and the merges in force. So the undo of a merge makes the folds of both sides
/// again from their members, and so does a change that takes a value back, behind which another member's value may show. Other
/// changes update a fold by their difference, so their cost does not grow with the group. A group with fewer than
/// ``Group/membersWithFolds`` members keeps no fold. For a larger group ``KeptFolds`` keeps each fold in a document.
package protocol GroupFold: Sendable {
    /// Creates the fold of a group of one from the person's document.
    init(_ person: PersonID, _ document: [UInt8]?)

    /// Joins the fold of the other group of a merge.
    mutating func join(_ joining: Self, by merge: MergeID)

    /// Applies a change of a member's document. False if the difference does not tell the fold, which is then made again from
    /// the members.
    ///
    /// - Parameter call: the call of the change. Values that it wrote are newer than all others.
    mutating func change(_ person: PersonID, from before: [UInt8]?, to after: [UInt8], by call: PersonID) -> Bool

    /// Whether no member has a document for the fold.
    var isEmpty: Bool { get }

    var packed: [UInt8] { get }
    init?(packed: [UInt8])
}

extension GroupFold {
    /// Creates the fold from the members' documents. The cost grows with the group.
    package init<Failure>(
        of group: Group, _ document: (PersonID) throws(Failure) -> [UInt8]?
    ) throws(Failure) {
        if group.count == 1 {
            self.init(group.root, try document(group.root))
            return
        }
        // The folds of the parts joined so far, by the person that stands for the part.
        var folds: [PersonID: Self] = [:]
        var above: [PersonID: PersonID] = [:]
        func part(of person: PersonID) -> PersonID {
            var top = person
            while let next = above[top] { top = next }
            return top
        }
        var sizes: [PersonID: Int] = [:]
        for member in group.members { folds[member] = Self(member, try document(member)) }
        for merge in group.merges {
            let (from, into) = (part(of: merge.from), part(of: merge.into))
            guard from != into, let joining = folds.removeValue(forKey: from),
                var joined = folds.removeValue(forKey: into)
            else { continue }
            if !joining.isEmpty { joined.join(joining, by: merge.id) }
            // The smaller part joins the larger part, so the way to the root stays short.
            let (fromSize, intoSize) = (sizes[from, default: 1], sizes[into, default: 1])
            let (top, below) = fromSize > intoSize ? (from, into) : (into, from)
            above[below] = top
            sizes[top] = fromSize + intoSize
            folds[top] = joined
        }
        self = folds[part(of: group.root)] ?? Self(group.root, nil)
    }
}

extension DocumentKind {
    /// Whether documents of this kind are derived from other documents, and are no facts. Stores keep only their last version.
    package var isDerived: Bool {
        switch self {
        case .groupFolds, .groupAttributes, .groupProperties, .groupAccessProperties, .groupResponses,
            .groupAttachmentUse, .groupAppUser, .groupLinkedMembers, .groupTraits, .checkList, .checkHour, .checkStart,
            .storeNotice, .storeNoticePlace, .storeNoticeRange, .checkWalk, .missedNews,
            .runList, .runsEnd, .runPart, .removedRows, .erasedFromRuns, .expiredRows, .historyEnd:
            true
        default: false
        }
    }
}

extension DocumentKey {
    /// Whether stores keep a version of the document. A removed document that is derived leaves nothing, because nobody reads its
    /// earlier versions; of other documents the empty version says when they were removed.
    package func isKept(_ body: [UInt8]) -> Bool { !body.isEmpty || !kind.isDerived }
}
