/// A call that journals an invalid upload. The client gets the answer of a kept upload, because after a refusal it would
/// send the upload for ever (spec/idsync-clients.md 2).
package struct RefuseUpload: Act {
    /// The upload's own id; nil if the upload has none that can be read.
    package let upload: String?
    /// The reason, for a person.
    package let reason: String

    package init(upload: String?, reason: String) {
        self.upload = upload
        self.reason = reason
    }

    /// The greatest number of characters of the id, and of the reason, in the journal.
    package static let noteCharacters = 200

    /// The text of the journal.
    var note: String {
        let upload = upload.map { "Upload \($0.prefix(RefuseUpload.noteCharacters)): " } ?? ""
        return upload + reason.prefix(RefuseUpload.noteCharacters)
    }

    /// The decision that keeps nothing but the reason.
    var decision: Decision<Ingested> {
        Decision(.refused, outcome: Outcome(kind: .refuseUpload, person: nil, changes: [], note: note))
    }
}

extension RefuseUpload {
    package static var kinds: [ActKind] { [.refuseUpload] }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { .none }
    package var byteCount: Int { 64 + 2 * RefuseUpload.noteCharacters }

    /// Journals the reason. Throws nothing.
    package func decide<V: DecisionFacts>(_ stamp: Stamp, in project: ProjectID, _ view: V) -> Decision<Ingested> {
        decision
    }
}

extension ActKind {
    package static let refuseUpload = ActKind(170, "refuse_upload", undo: .never(.rowsStay))
}
