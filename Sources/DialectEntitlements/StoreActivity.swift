package import Domain
import Threads

/// The last words of the stores since the server started, by project, and the numbers of their notifications.
package final class StoreActivity: Sendable {
    /// The last words of one store about one project.
    package struct Words: Equatable, Sendable {
        package fileprivate(set) var answeredAt: Instant?
        package fileprivate(set) var faultAt: Instant?
        /// The reason of the last fault; nil if the store has answered since.
        package fileprivate(set) var fault: String?
        package fileprivate(set) var notifiedAt: Instant?
    }

    /// The results of a notification.
    package enum Result: String, CaseIterable, Sendable {
        case stored
        /// The notification is about another app, or about nothing that the server keeps.
        case ignored
        /// The server could not check the notification now. The store sends it again.
        case postponed
        /// The notification has no valid signature or secret, or it is no notification.
        case refused
    }

    private struct Place: Hashable {
        let project: ProjectID
        let source: Purchase.Source
    }

    private struct State {
        var words: [Place: Words] = [:]
        var notifications: [Purchase.Source: [Result: Int]] = [:]
    }

    private let state = Monitor(State())

    func note(answerOf source: Purchase.Source, _ project: ProjectID, at now: Instant) {
        change(source, project) { words in
            words.answeredAt = now
            words.fault = nil
        }
    }

    func note(_ outage: StoreOutage, _ project: ProjectID, at now: Instant) {
        change(outage.source, project) { words in
            words.faultAt = now
            words.fault = outage.message
        }
    }

    func note(notificationOf source: Purchase.Source, _ result: Result, _ project: ProjectID, at now: Instant) {
        state.withLock { $0.notifications[source, default: [:]][result, default: 0] += 1 }
        // Whoever knows the address can send a refused or postponed notification, so it is no word of the store.
        if result == .stored || result == .ignored { change(source, project) { $0.notifiedAt = now } }
    }

    /// Forgets the reasons of faults: the project has other options now.
    func forgetFaults(of project: ProjectID) {
        for source in Purchase.Source.allCases { change(source, project) { $0.fault = nil } }
    }

    private func change(_ source: Purchase.Source, _ project: ProjectID, _ body: (inout Words) -> Void) {
        state.withLock { body(&$0.words[Place(project: project, source: source), default: Words()]) }
    }

    package func words(of source: Purchase.Source, _ project: ProjectID) -> Words {
        state.withLock { $0.words[Place(project: project, source: source)] } ?? Words()
    }

    package var notifications: [Purchase.Source: [Result: Int]] { state.withLock { $0.notifications } }
}
