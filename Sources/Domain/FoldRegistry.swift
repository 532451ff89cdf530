extension DocumentKind {
    /// The fold over documents of this kind, and the kind of document in which a large group keeps the fold; nil for kinds
    /// without a fold.
    var fold: (type: any GroupFold.Type, kept: DocumentKind)? {
        switch self {
        case .attributes: (FoldedAttributes.self, .groupAttributes)
        case .properties: (FoldedAttributes.self, .groupProperties)
        case .accessProperties: (FoldedAttributes.self, .groupAccessProperties)
        case .traits: (FoldedAttributes.self, .groupTraits)
        case .response: (FoldedResponses.self, .groupResponses)
        case .attachmentUse: (FoldedAttachmentUse.self, .groupAttachmentUse)
        case .appUser: (FoldedAppUser.self, .groupAppUser)
        case .linkedUser: (LinkedMembers.self, .groupLinkedMembers)
        default: nil
        }
    }
}
