package import Domain

/// A project, an app or a key that differs from the leaves of its calls.
package struct ThingDifference: Sendable {
    package enum State: Sendable {
        case changed
        case gone
        /// No call made it.
        case added
    }

    package let kind: LeafFact.Thing
    package let id: Int64
    package let state: State
    /// The call that made it.
    package let madeBy: Int64?
    /// The hash of its columns; nil for one that was made before the tree.
    package let content: UInt64?
    /// The hash of its name; nil for one that was made before the tree and not renamed since.
    package let name: UInt64?
    package let revokedAt: Int64?

    /// The finding about the difference.
    ///
    /// - Parameter canRepair: whether `onym doctor --repair` works on the store.
    package func finding(canRepair: Bool) -> Finding {
        let (what, advice) =
            switch state {
            case .changed:
                ("is not as a call made it", "\"onym doctor --repair --from-backup DIR\" puts it right from a copy.")
            case .gone: ("does not exist any more", "\"onym doctor --repair --from-backup DIR\" takes it from a copy.")
            case .added: ("was made by no call", "\"onym doctor --repair\" removes it.")
            }
        let last = canRepair ? advice : "Restore a copy, or make a new one."
        return Finding(
            code: kind.code(isGone: state == .gone), description: "\(kind.title) \(id) \(what). \(last)",
            call: madeBy.map(JournalSequence.init))
    }
}
