import Domain
import Engine
import TestKit
import Testing

/// The names of one history of access in a store: of its installs, of its identities, and of what they say in a call.
struct AccessScene {
    let name: String
    let world: AccessWorld

    /// What is sold: each product gives an entitlement of its own, for as long as the receipt says.
    static func catalog(products: Int) -> [any Act] {
        (0..<products).flatMap { product in
            let edits: [CatalogEdit] = [
                .putEntitlement(Catalog.Entitlement(id: "\(product)", name: nil)),
                .putProduct(
                    Catalog.Product(
                        id: "\(product)", storeID: nil, kind: .subscription, durationSeconds: nil,
                        entitlements: ["\(product)"])),
            ]
            return edits
        }
    }

    func user(_ install: Int, _ hash: KeyedHash) -> Identity {
        Identity(world.userType, "\(name)-\(install)", in: World.project, hash: hash)
    }

    private func identity(_ identity: Int, _ hash: KeyedHash) -> Identity {
        Identity(world.identityType, "\(name)-\(identity)", in: World.project, hash: hash)
    }

    /// The user that the server made for an identity.
    private func made(_ identity: Int, _ hash: KeyedHash) -> Identity {
        Identity(world.userType, "\(name)-made-\(identity)", in: World.project, hash: hash)
    }

    func installs(_ count: Int, _ hash: KeyedHash) -> [any Act] {
        (0..<count).map { MakeAccessUser(user($0, hash), isForTrying: false) }
    }

    /// What an install says that it is: its own user, or that of the identity that is signed in there.
    ///
    /// - Parameters:
    ///   - signedIn: by install, the identity that is signed in.
    ///   - converted: by install, the identity that its own user became.
    func session(_ install: Int, signedIn: [Int?], converted: [Int?], _ hash: KeyedHash) -> AccessSession {
        let identity = signedIn[install]
        let current =
            identity.map { identity in
                converted.firstIndex(of: identity).map { user($0, hash) } ?? made(identity, hash)
            } ?? user(install, hash)
        return AccessSession(
            current, .exact(install: user(install, hash), identity: identity.map { self.identity($0, hash) }))
    }

    /// A login that the server does not know yet. The user of an install that nobody signed in on becomes the identity's.
    func link(
        _ identity: Int, on install: Int, signedIn: [Int?], converted: [Int?], findsOwner: Bool = false,
        _ hash: KeyedHash
    ) -> LinkAccessIdentity {
        let isFree = signedIn[install] == nil && converted[install] == nil
        return LinkAccessIdentity(
            self.identity(identity, hash), user: isFree ? user(install, hash) : nil, newUser: made(identity, hash),
            install: user(install, hash), findsOwner: findsOwner)
    }

    /// The entitlements that a session is shown, by product, each with whether it is active.
    func shown(to session: AccessSession, in fixture: StoreFixture) throws -> [Int: Bool] {
        let now = fixture.clock.now
        return try fixture.store.read { snapshot throws(StoreFault) in
            let principals: AccessPrincipals
            do throws(AccessFault<StoreFault>) {
                principals = try AccessPrincipals(
                    session, holder: { snapshot.holders(of: $0.key).first },
                    document: { key throws(StoreFault) in try snapshot.document(key) })
            } catch {
                switch error {
                case .refused(let refusal):
                    Issue.record("\(name): \(refusal)")
                    return [:]
                case .store(let fault): throw fault
                }
            }
            let reasons = try Access.reasons(for: principals, try snapshot.catalog(of: World.project), at: now) {
                key throws(StoreFault) in try snapshot.document(key)
            }
            var shown: [Int: Bool] = [:]
            for access in Access.all(reasons) { shown[Int(access.entitlement) ?? -1] = access.isActive }
            return shown
        }
    }
}

extension StoreFixture {
    /// Runs a batch; after a fault all of it comes again, as clients repeat what has no answer.
    func process(_ commands: [any Act], _ fault: CommitFault?) -> [Writer.Answer] {
        guard let fault else { return process(commands) }
        failNextCommit(fault)
        let failed = process(commands)
        if !writer.needsRecovery {
            cancelCommitFault()
            return failed
        }
        #expect(writer.recover() == nil)
        return process(commands)
    }
}
