/// What is read over all members of a group, as one value: it begins with what each person has, and is joined as the groups
/// were joined.
///
/// A fold is a function of the members' documents and of the merges in force alone, so an undo makes the folds of the two sides
/// anew from their members. Between, a fold follows each change by its difference: it costs what changes. A group of
/// fewer than ``Group/membersWithFolds`` members keeps nothing; of a larger one ``KeptFolds`` keeps each fold in a document.
package protocol GroupFold: Sendable {
    /// Makes the fold of a group of one from the person's document.
    init(_ person: PersonID, _ document: [UInt8]?)

    /// Takes in the group of the person that a merge made one with this group's.
    mutating func join(_ joining: Self, by merge: MergeID)

    /// Takes in that a member's document became another.
    mutating func change(_ person: PersonID, from before: [UInt8]?, to after: [UInt8])

    /// Whether nobody in the group has anything.
    var isEmpty: Bool { get }

    var packed: [UInt8] { get }
    init?(packed: [UInt8])
}

extension GroupFold {
    /// Makes the fold from the members' documents: costs what the group has.
    package init<Failure>(
        of group: Group, _ document: (PersonID) throws(Failure) -> [UInt8]?
    ) throws(Failure) {
        if group.count == 1 {
            self.init(group.root, try document(group.root))
            return
        }
        // Each part of the group that is joined so far, by whoever stands for it.
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
            // The smaller part points at the larger one, so the way up is short.
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
    /// The fold that is made of documents of this kind, and the kind of document that a large group keeps it in; nil where
    /// nothing is read over all members.
    var fold: (type: any GroupFold.Type, kept: DocumentKind)? {
        switch self {
        case .attributes: (FoldedAttributes.self, .groupAttributes)
        case .properties: (FoldedAttributes.self, .groupProperties)
        case .accessProperties: (FoldedAttributes.self, .groupAccessProperties)
        case .response: (FoldedResponses.self, .groupResponses)
        case .attachmentUse: (FoldedAttachmentUse.self, .groupAttachmentUse)
        case .appUser: (FoldedAppUser.self, .groupAppUser)
        case .linkedUser: (LinkedMembers.self, .groupLinkedMembers)
        default: nil
        }
    }

    /// Whether it is kept for a group, and follows from what its members have: no fact of its own.
    package var isDerived: Bool {
        switch self {
        case .groupFolds, .groupAttributes, .groupProperties, .groupAccessProperties, .groupResponses,
            .groupAttachmentUse, .groupAppUser, .groupLinkedMembers:
            true
        default: false
        }
    }
}
