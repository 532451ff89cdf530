import Domain
import TestKit
import Testing

/// What access keeps, and its answers, as stores have them.
@Suite("Access, as it is kept")
struct AccessTests {
    private static let hash = World.hash

    private static func identity(_ type: IdentityType, _ value: String) -> Identity {
        Identity(type, value, in: World.project, hash: hash)
    }

    private static func receipt(_ transaction: String, account: String? = nil) -> Receipt {
        var receipt = Receipt(
            purchase: PurchaseID(.stripe, transaction, in: .production, of: World.project, hash: hash), source: .stripe,
            transaction: transaction, originalTransaction: transaction, product: "plus ü",
            purchasedAt: Instant(milliseconds: 5))
        receipt.told.endsAt = Instant(milliseconds: Int64.max / 4)
        receipt.accounts = (account.map { [$0] } ?? []).map {
            StoreAccount.name(.stripe, $0, in: .production, of: World.project, hash: hash)
        }
        return receipt
    }

    /// Calls of every kind, one after the other, each in a batch of its own; answers what they came to.
    private static func replies() throws -> [Reply] {
        let fixture = try StoreFixture(.memory)
        func call(_ act: any Act) throws -> Reply {
            try fixture.process(act)
        }
        let (a, b) = (identity(.accessUserID, "A"), identity(.accessUserID, "B"))
        let product = Catalog.Product(
            id: "plus ü", storeID: "com.plus", kind: .subscription, durationSeconds: 99, entitlements: ["x"])
        var replies = [
            try call(CatalogEdit.putEntitlement(Catalog.Entitlement(id: "x", name: nil))),
            try call(CatalogEdit.putEntitlement(Catalog.Entitlement(id: "y", name: "Y"))),
            try call(CatalogEdit.putProduct(product)),
            try call(CatalogEdit.settings(tellsMilliseconds: true, freezesShared: nil)),
            try call(MakeAccessUser(a, isForTrying: true)), try call(MakeAccessUser(b, isForTrying: false)),
            try call(RecordPurchase(AccessSession(a), .success(receipt("t1", account: "cus")), in: .production)),
        ]
        for (user, name) in [(a, "u1"), (b, "u2")] {
            let link = LinkAccessIdentity(
                identity(.accessIdentity, name), user: user, newUser: identity(.accessUserID, "N"), install: nil)
            replies.append(try call(link))
        }
        let restore = RestorePurchases(
            AccessSession(b), [.success(receipt("t1")), .failure(.forged)],
            .restore(NamedStrategy(.transfer, isByServer: true)), in: .production)
        let restored = try call(restore)
        replies.append(restored)
        guard case .restored(let moved) = restored.plain.as(AccessReply.self), let transfer = moved.transfer else {
            throw Unexpected(reply: restored)
        }
        replies += [
            try call(UndoTransfer(transfer)),
            try call(GrantAccess("x", to: a, expiresAt: Instant(milliseconds: Int64.max / 4))),
            try call(GrantAccess("y", to: a, expiresAt: nil)), try call(RevokeAccess("x", of: a)),
            try call(SetAccessProperties([AccessProperty("_q_name", "Ada")], of: a)),
        ]
        return replies
    }

    private struct Unexpected: Error { let reply: Reply }

    @Test("each answer is read as it was kept, and what is cut off is none")
    func replies() throws {
        let replies = try AccessTests.replies()
        #expect(replies.count == 15)
        for reply in replies {
            let packed = reply.packed
            // The names of other people are not kept.
            #expect(Reply(packed: packed)?.packed == packed)
            #expect(Reply(packed: packed + [0]) == nil)
            for count in packed.indices { #expect(Reply(packed: Array(packed[..<count])) == nil) }
        }
    }

    @Test("what is cut off is no document, wherever it was cut")
    func documents() throws {
        let fixture = try StoreFixture(.memory)
        let user = AccessTests.identity(.accessUserID, "A")
        let acts: [any Act] = [
            MakeAccessUser(user, isForTrying: true),
            RecordPurchase(AccessSession(user), .success(AccessTests.receipt("t1", account: "cus")), in: .production),
        ]
        for act in acts {
            _ = try fixture.process(act)
        }
        let purchase = AccessTests.receipt("t1").purchase
        let (person, packed) = try fixture.store.read { snapshot throws(StoreFault) in
            let person = snapshot.holders(of: user.key).first ?? PersonID(rawValue: 0)
            return (person, try snapshot.document(DocumentKey(.accessUser, of: person)) ?? [])
        }
        let kept = try #require(AccessUser(person, packed: packed))
        #expect(kept.id == "A" && kept.isForTrying && kept.paid.count == 1 && kept.accounts.count == 1)
        for count in packed.indices { #expect(AccessUser(person, packed: Array(packed[..<count])) == nil) }
        let bought = try fixture.store.read { snapshot throws(StoreFault) in
            try snapshot.document(DocumentKey(.purchase, hash: purchase.hash)) ?? []
        }
        #expect(Purchase(purchase, packed: bought)?.product == "plus ü")
        for count in bought.indices { #expect(Purchase(purchase, packed: Array(bought[..<count])) == nil) }
    }

    /// The account of a purchase in the first form of the document.
    enum FirstAccount: CaseIterable {
        case install
        case named
        case none
    }

    @Test("a purchase of an earlier version is read as it was", arguments: FirstAccount.allCases, [0, 1, 2])
    func firstForm(_ account: FirstAccount, _ end: Int) throws {
        let name = StoreAccount.name(.stripe, "cus", in: .production, of: World.project, hash: AccessTests.hash)
        var packer = Packer()
        packer.add(Purchase.Source.stripe.rawValue)
        for text in ["t1", "t3", "plus"] { packer.add(text) }
        for moment in [5, 90] as [Int64] { packer.add(Instant(milliseconds: moment)) }
        packer.add(1 as UInt8)
        packer.add(Instant(milliseconds: 200))
        // There is no refund; it is a canceled subscription in a trial.
        for byte in [0, 1, 2, 2] as [UInt8] { packer.add(byte) }
        packer.add(7 as UInt64)
        switch account {
        case .install:
            packer.add(1 as UInt8)
            packer.add(8 as UInt64)
        case .named:
            packer.add(2 as UInt8)
            for byte in name.bytes { packer.add(byte) }
        case .none: packer.add(0 as UInt8)
        }
        packer.add(1 as UInt64)
        packer.add(9 as UInt64)
        // The last two values came later.
        if end > 0 {
            packer.add(1 as UInt8)
            packer.add(Instant(milliseconds: 95))
        }
        if end > 1 {
            packer.add(1 as UInt64)
            packer.add(6 as UInt64)
        }
        let purchase = try #require(Purchase(AccessTests.receipt("t1").purchase, packed: packer.bytes))
        #expect(purchase.source == .stripe && purchase.originalTransaction == "t1")
        #expect(purchase.transaction == "t3" && purchase.product == "plus")
        #expect(purchase.startedAt.milliseconds == 5 && purchase.purchasedAt.milliseconds == 90)
        #expect(purchase.renewal == .canceled && purchase.period == .trial && purchase.revokedAt == nil)
        #expect(purchase.isActive(at: Instant(milliseconds: 199), nil))
        #expect(!purchase.isActive(at: Instant(milliseconds: 200), nil))
        #expect(purchase.reporter.rawValue == 7 && purchase.owners.map(\.rawValue) == [9])
        #expect(purchase.installs.people.map(\.rawValue) == (account == .install ? [8] : []))
        #expect(purchase.accounts == (account == .named ? [name] : []))
        #expect(Purchase(purchase.id, packed: purchase.packed) == purchase)
    }

    @Test("purchases of two worlds, stores and projects are never one")
    func ids() {
        var ids: Set<Hash128> = []
        for world in AccessWorld.allCases {
            for source in Purchase.Source.allCases {
                for project in [World.project, ProjectID(rawValue: 77)] {
                    ids.insert(PurchaseID(source, "1", in: world, of: project, hash: AccessTests.hash).hash)
                    ids.insert(StoreAccount.name(source, "1", in: world, of: project, hash: AccessTests.hash))
                }
            }
        }
        #expect(ids.count == 2 * 2 * Purchase.Source.allCases.count * 2)
    }
}
