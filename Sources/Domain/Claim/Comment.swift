/// A remark of an agent or of an administrator about an issue, feedback or a response (spec/claim-reads.md 6).
package struct Comment: Equatable, Sendable {
    package let id: CommentID
    package let subject: CommentSubject
    package let project: ProjectID
    package let author: Author
    package internal(set) var body: String
    package let madeAt: Instant
    package internal(set) var changedAt: Instant

    /// The writer of a comment.
    package struct Author: Equatable, Sendable {
        /// The key of the writer; nil for the operator of the server.
        package let key: KeyID?
        /// Whether the key belongs to an agent, and not to an administrator.
        package let isAgent: Bool

        package init(key: KeyID?, isAgent: Bool) {
            self.key = key
            self.isAgent = isAgent
        }
    }

    /// The greatest length of a comment in characters.
    package static let characters = 10_000
    /// The limit of comments about one thing, because a list reads all comments.
    package static let limit = 1000

    init(id: CommentID, subject: CommentSubject, project: ProjectID, author: Author, body: String, at moment: Instant) {
        (self.id, self.subject, self.project, self.author, self.body) = (id, subject, project, author, body)
        (madeAt, changedAt) = (moment, moment)
    }

    var packed: [UInt8] {
        var packer = Packer()
        packer.add(UInt64(bitPattern: id.rawValue))
        packer.add(subject.kind.rawValue)
        packer.add(UInt64(bitPattern: subject.id))
        packer.add(UInt64(UInt32(bitPattern: project.rawValue)))
        packer.add(author.isAgent ? 1 : 0 as UInt8)
        packer.add(author.key == nil ? 0 : 1 as UInt8)
        if let key = author.key { packer.add(UInt64(bitPattern: key.rawValue)) }
        packer.add(body)
        packer.add(madeAt)
        packer.add(changedAt)
        return packer.bytes
    }

    init?(packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        guard let id = unpacker.integer(), let kind = unpacker.byte().flatMap(CommentSubject.Kind.init),
            let subject = unpacker.integer(), let project = unpacker.integer(), let isAgent = unpacker.byte(),
            let hasKey = unpacker.byte(), case let key = hasKey == 1 ? unpacker.integer() : nil,
            let body = unpacker.text(), let madeAt = unpacker.instant(), let changedAt = unpacker.instant(),
            unpacker.isAtEnd
        else { return nil }
        self.init(
            id: CommentID(rawValue: Int64(bitPattern: id)),
            subject: CommentSubject(kind, id: Int64(bitPattern: subject)),
            project: ProjectID(rawValue: Int32(truncatingIfNeeded: project)),
            author: Author(key: key.map { KeyID(rawValue: Int64(bitPattern: $0)) }, isAgent: isAgent == 1), body: body,
            at: madeAt)
        self.changedAt = changedAt
    }

    fileprivate func put(_ owner: PersonID) -> Change { .documentPut(id.documentKey, owner, packed) }
}

/// The id of a comment. The server never reuses it.
package struct CommentID: Hashable, Sendable {
    package let rawValue: Int64
    package init(rawValue: Int64) { self.rawValue = rawValue }

    var documentKey: DocumentKey { DocumentKey(.comment, of: rawValue) }
}

/// The thing that a comment is about.
package struct CommentSubject: Hashable, Sendable {
    /// The kind of the thing. Stores keep the raw values, so a raw value never changes.
    package enum Kind: UInt8, Sendable {
        case issue = 1
        case feedback = 2
        case response = 3
    }

    package let kind: Kind
    package let id: Int64

    package init(_ kind: Kind, id: Int64) {
        self.kind = kind
        self.id = id
    }

    /// The key of the list of comments about the thing.
    fileprivate var listKey: DocumentKey {
        DocumentKey(.comments, hash: Hash128(high: UInt64(kind.rawValue), low: UInt64(bitPattern: id)))
    }

    /// The person whose erasure also removes the comments. Throws a refusal if the project does not have the thing.
    fileprivate func owner<V: DecisionFacts>(
        in project: ProjectID, under questionnaire: QuestionnaireID?, _ view: V
    ) throws(Refusal) -> PersonID {
        switch kind {
        case .issue:
            guard view.issue(IssueID(rawValue: id), in: project) != nil else { throw .noSuchIssue }
            return .nobody
        case .feedback:
            return try view.feedback(FeedbackID(rawValue: id), in: project).person
        case .response:
            return try view.responseState(ResponseID(rawValue: id), to: questionnaire, in: project).owner
        }
    }

    /// Whether reads show the comments about both things together. An issue shows the comments about all its parts.
    fileprivate func isShown<V: DecisionFacts>(with other: CommentSubject, _ view: V) -> Bool {
        guard kind == .issue, other.kind == .issue else { return self == other }
        return view.issueRoot(IssueID(rawValue: id)) == view.issueRoot(IssueID(rawValue: other.id))
    }
}

/// The ids of the comments about one thing, the oldest first.
private struct CommentList {
    private let key: DocumentKey
    private(set) var ids: [CommentID] = []

    init(_ key: DocumentKey, _ packed: [UInt8]?) {
        self.key = key
        var unpacker = Unpacker(packed ?? [])
        while let id = unpacker.integer() { ids.append(CommentID(rawValue: Int64(bitPattern: id))) }
    }

    mutating func add(_ id: CommentID) { ids.append(id) }
    mutating func remove(_ id: CommentID) { ids.removeAll { $0 == id } }

    func put(_ owner: PersonID) -> Change {
        var packer = Packer()
        for id in ids { packer.add(UInt64(bitPattern: id.rawValue)) }
        return .documentPut(key, owner, packer.bytes)
    }
}

/// A call that writes a comment.
package struct PostComment: Act {
    package let subject: CommentSubject
    /// The questionnaire that the call names with a response; nil for another thing.
    package let questionnaire: QuestionnaireID?
    package let author: Comment.Author
    package let body: String

    package init(
        on subject: CommentSubject, under questionnaire: QuestionnaireID? = nil, by author: Comment.Author,
        _ body: String
    ) {
        self.subject = subject
        self.questionnaire = questionnaire
        self.author = author
        self.body = body
    }

    package static var kinds: [ActKind] { [.postComment] }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { .none }
    package var byteCount: Int { 512 + body.utf8.count }

    /// Adds the comment. A comment also changes the moment of the last change of its issue. Throws `noSuchIssue`,
    /// `noSuchFeedback` or `noSuchResponse` if the project does not have the thing, and `tooManyComments` at the limit, because a
    /// list reads all comments.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<Comment> {
        let owner = try subject.owner(in: project, under: questionnaire, view)
        var list = CommentList(subject.listKey, view.document(subject.listKey))
        guard list.ids.count < Comment.limit else { throw .tooManyComments }
        let comment = Comment(
            id: CommentID(rawValue: stamp.person.rawValue), subject: subject, project: project, author: author,
            body: body, at: stamp.at)
        list.add(comment.id)
        var changes = [comment.put(owner), list.put(owner)]
        if subject.kind == .issue {
            var state = view.issueState(view.issueRoot(IssueID(rawValue: subject.id)))
            state.noteComment(at: stamp.at)
            changes.append(state.put)
        }
        return Decision(
            comment,
            outcome: Outcome(kind: .postComment, person: owner == .nobody ? nil : owner, changes: changes))
    }
}

/// A call that changes or deletes a comment.
package struct EditComment: Act {
    package enum Edit: Equatable, Sendable {
        case write(String)
        case delete
    }

    package let comment: CommentID
    /// The thing that the call names. A comment that reads of this thing do not show does not exist for the call.
    package let subject: CommentSubject
    /// The questionnaire that the call names with a response; nil for another thing.
    package let questionnaire: QuestionnaireID?
    package let author: Comment.Author
    package let edit: Edit

    package init(
        _ comment: CommentID, on subject: CommentSubject, under questionnaire: QuestionnaireID? = nil,
        by author: Comment.Author, _ edit: Edit
    ) {
        self.comment = comment
        self.subject = subject
        self.questionnaire = questionnaire
        self.author = author
        self.edit = edit
    }

    package static var kinds: [ActKind] { [.editComment] }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { .none }
    package var byteCount: Int {
        switch edit {
        case .write(let body): 512 + body.utf8.count
        case .delete: 256
        }
    }

    /// Replaces the text of the comment, or deletes the comment. Throws the refusals of ``PostComment`` for the thing, `noSuchComment`
    /// if the comment does not exist, `commentOfOtherAuthor` if another writer changes it, and `commentNotDeletable` if an agent deletes
    /// the comment of another writer. An administrator may delete every comment, but may not change the words of others. Merged issues
    /// show their comments together, so a call can name any of these issues.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<Comment> {
        let owner = try subject.owner(in: project, under: questionnaire, view)
        guard var known = view.document(comment.documentKey).flatMap(Comment.init(packed:)), known.project == project,
            known.subject.isShown(with: subject, view)
        else { throw .noSuchComment }
        let changes: [Change]
        switch edit {
        case .write(let body):
            guard known.author == author else { throw .commentOfOtherAuthor }
            if known.body == body { return Decision(known) }
            (known.body, known.changedAt) = (body, stamp.at)
            changes = [known.put(owner)]
        case .delete:
            guard known.author == author || !author.isAgent else { throw .commentNotDeletable }
            // The comments of a part stay in the list of the part.
            let key = known.subject.listKey
            var list = CommentList(key, view.document(key))
            list.remove(comment)
            changes = [.documentPut(comment.documentKey, owner, []), list.put(owner)]
        }
        return Decision(
            known,
            outcome: Outcome(kind: .editComment, person: owner == .nobody ? nil : owner, changes: changes))
    }
}

extension Snapshot {
    /// The comments about a thing, the oldest first.
    package func comments(on subject: CommentSubject) throws(StoreFault) -> [Comment] {
        var comments: [Comment] = []
        for id in CommentList(subject.listKey, try document(subject.listKey)).ids {
            if let comment = try document(id.documentKey).flatMap(Comment.init(packed:)) { comments.append(comment) }
        }
        return comments
    }
}

extension Comment: Answer {
    package static let tags: [UInt8] = [ActKind.postComment.rawValue, ActKind.editComment.rawValue]

    package func pack(into packer: inout Packer) { packer.add(packed) }

    package init?(tag: UInt8, unpacking unpacker: inout Unpacker) {
        guard let comment = unpacker.bytes().flatMap(Comment.init(packed:)) else { return nil }
        self = comment
    }
}

extension Refusal {
    package static let noSuchComment = Refusal(.notFound, "not_found", "There is no comment with this id.")
    package static let commentOfOtherAuthor = Refusal(
        .forbidden, "comment_of_other_author", "Only the writer of the comment can change it.")
    package static let commentNotDeletable = Refusal(
        .forbidden, "comment_not_deletable", "Only the writer of the comment or an administrator can delete it.")
    package static let tooManyComments = Refusal(
        .invalid, "too_many_comments", "There can be at most \(Comment.limit) comments about one thing.")
}

extension ActKind {
    package static let postComment = ActKind(151, "post_comment", undo: .never(.rowsStay))
    package static let editComment = ActKind(152, "edit_comment", undo: .never(.rowsStay))
}
