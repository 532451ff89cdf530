/// People in an answer, and their identities.
///
/// The journal keeps the people only, and a repetition of the call gets the identities that these people have by then. So no
/// identity stays in the journal entry of somebody else's call when its person is erased.
package struct NamedPeople: Equatable, Sendable {
    package let people: [PersonID]
    /// The identities of the people that have one.
    package let names: [String]

    init() { (people, names) = ([], []) }

    init(_ people: [PersonID], in ledger: AccessLedger<some DocumentFacts>) {
        self.init(people) { ledger.user($0) }
    }

    private init(_ people: [PersonID], user: (PersonID) -> AccessUser?) {
        self.people = people
        names = people.compactMap { user($0)?.identity }.sorted()
    }

    /// The same people with the identities that they have now. An answer of an earlier version has kept no people, and stays as
    /// it is.
    func named(by view: some DocumentFacts) -> NamedPeople {
        people.isEmpty ? self : NamedPeople(people) { view.accessUser($0) }
    }

    func pack(into packer: inout Packer) { packer.add(people) }

    init?(unpacking unpacker: inout Unpacker) {
        guard let people = unpacker.people() else { return nil }
        (self.people, names) = (people, [])
    }

    /// Reads the form of earlier versions, which kept the identities.
    init?(unpackingNames unpacker: inout Unpacker) {
        guard let names = unpacker.texts() else { return nil }
        (people, self.names) = ([], names)
    }
}

extension AccessReply {
    package func named(by view: some DocumentFacts) -> AccessReply {
        switch self {
        case .restored(let restored): .restored(restored.named(by: view))
        case .transferUndone(let undone): .transferUndone(undone.named(by: view))
        case .kept(let reply, let circumstances): .kept(reply.named(by: view), circumstances)
        case .user, .identified, .granted, .revoked, .purchased, .purchaseKept, .purchaseFrozen, .unfrozen, .noted,
            .propertiesSet, .edited:
            self
        }
    }
}

extension Restored {
    fileprivate func named(by view: some DocumentFacts) -> Restored {
        Restored(
            user: user, strategy: strategy, transfer: transfer,
            items: items.map {
                Item(
                    transaction: $0.transaction, product: $0.product, outcome: $0.outcome,
                    others: $0.others.named(by: view))
            })
    }
}

extension TransferUndone {
    fileprivate func named(by view: some DocumentFacts) -> TransferUndone {
        TransferUndone(
            id: id,
            items: items.map {
                Item(
                    transaction: $0.transaction, product: $0.product, from: $0.from.named(by: view),
                    to: $0.to.named(by: view))
            })
    }
}
