/// The number of calls with a client's key that named a known user, under rules that would require a token. The journal does
/// not say whether the client had a token.
struct ProofDryRun {
    private let strategy: Strategy
    private let directory: Directory
    private(set) var count = 0

    init(_ strategy: Strategy, _ directory: Directory) {
        self.strategy = strategy
        self.directory = directory
    }

    mutating func take(_ call: RecordedCall) {
        guard strategy.guards.asksForProof, let key = call.key.flatMap({ directory.keys[$0] }),
            directory.isClients(key), strategy.guards.signing(in: key.kind.dialect) != .off, namesKnownUser(call)
        else { return }
        count += 1
    }

    private func namesKnownUser(_ call: RecordedCall) -> Bool {
        let linked = call.facts.compactMap { fact -> IdentityType? in
            if case .linked(_, let type, _) = fact { type } else { nil }
        }
        return (call.inputs.map(\.type) + linked).contains { type in
            switch type {
            case .claimUserID, .accessIdentity, .sandboxIdentity: true
            default: strategy.login.contains(type)
            }
        }
    }
}
