import Synchronization

/// Whether a client still waits for its answers. Any thread may look.
package final class ClientPresence: Sendable {
    package enum State: UInt8, Sendable {
        case there
        /// The client has ended its sending. It may still wait for an answer, but mostly such clients have left.
        case silent
        /// The connection is closed, so no answer can reach the client.
        case gone
    }

    private let raw = Atomic(State.there.rawValue)

    init() {}

    package var state: State { State(rawValue: raw.load(ordering: .relaxed)) ?? .gone }

    func set(_ state: State) { raw.store(state.rawValue, ordering: .relaxed) }

    /// The presence for a connection that closed before the first question.
    static let gone: ClientPresence = {
        let presence = ClientPresence()
        presence.set(.gone)
        return presence
    }()
}
