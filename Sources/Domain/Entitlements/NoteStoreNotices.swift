/// A notification of a store that is only a reason to ask. The call keeps it until the server has asked.
package struct KeepStoreNotice: Act {
    package let notice: StoreNotice

    /// The limit of notices of one project and store that wait. Stores repeat what the server does not take.
    package static let waitingAtMost = 1_000_000

    package init(_ notice: StoreNotice) { self.notice = notice }

    package static var kinds: [ActKind] { [.storeNotice] }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { .none }
    package var byteCount: Int { 512 }

    /// Adds the notice to the queue of its store. Throws `tooManyNotices` if too many wait, so that the store repeats the
    /// notification.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<Done> {
        var queue = StoreNoticeQueue(view, in: project)
        guard queue.add(notice, at: stamp.at) else { throw .tooManyNotices }
        return .noting(queue.changes)
    }
}

/// A note of the server about its questions because of notifications: which have begun, and which have no answer.
package struct NoteStoreNotices: Act {
    package enum Progress: Sendable {
        /// The question begins. It comes again after some time if the server ends before the answer.
        case begun
        /// The store has not answered, and the server asks again later.
        case unanswered
        /// The store's answer is about nothing that the server keeps.
        case over
    }

    package let notes: [(notice: StoreNotice, progress: Progress)]

    package init(_ notes: [(notice: StoreNotice, progress: Progress)]) { self.notes = notes }

    package static var kinds: [ActKind] { [.storeNotice] }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { .none }
    package var byteCount: Int { 512 * (1 + notes.count) }

    /// Notes the progress, and throws nothing. A notice that the store has renewed in the meantime stays.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<Done> {
        var queue = StoreNoticeQueue(view, in: project)
        for (notice, progress) in notes {
            switch progress {
            case .begun: queue.begin(notice, at: stamp.at)
            case .unanswered: queue.putOff(notice, at: stamp.at)
            case .over: queue.end(notice)
            }
        }
        return .noting(queue.changes)
    }
}

extension Decision<Done> {
    fileprivate static func noting(_ changes: [Change]) -> Decision {
        if changes.isEmpty { return Decision(Done()) }
        return Decision(Done(), outcome: Outcome(kind: .storeNotice, person: nil, changes: changes))
    }
}

extension ActKind {
    package static let storeNotice = ActKind(115, "note_store_notice", undo: .never(.noteOfServer))
}

extension Refusal {
    package static let tooManyNotices = Refusal(
        .unavailable, "too_many_notices", "Too many notifications of the store wait; send it again later.")
}
