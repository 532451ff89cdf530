import Domain
import StoreSQLite
import TestKit
import Testing

/// What stores promise of the changes that only linking makes.
@Suite("Stores, and what linking changes")
struct LinkingContractTests {
    private static let secret = KeyHash(Hash128(high: 1, low: 1), Hash128(high: 1, low: 2))
    private static let app = AppID(rawValue: 1)

    private func linked(_ kind: StoreKind) throws -> (StoreFixture, LinkingCaller, PersonID) {
        let fixture = try StoreFixture(kind)
        let hash = fixture.store.hash
        _ = try fixture.process(
            MakeLinkingApp(name: "A", publicID: "a", secretHash: LinkingContractTests.secret))
        let make = MakeInstall(
            app: LinkingContractTests.app, device: .init(), thumbprint: nil, hash: hash)
        let made = try fixture.process(make).as(LinkingReply.self)
        guard case .installMade(let session, _) = made else {
            preconditionFailure("An install was asked for.")
        }
        let external = Identity(.linkingExternalID, "e", in: World.project, hash: hash)
        let link = LinkInstall(
            session.install, app: LinkingContractTests.app, to: external, in: World.project, hash: hash)
        let linked = try fixture.process(link).plain.as(LinkingReply.self)
        guard case .linked(let person) = linked else {
            preconditionFailure("A link was asked for.")
        }
        let caller = LinkingCaller(
            session.install, app: session.app, family: session.family, thumbprint: nil, in: World.project, hash: hash)
        return (fixture, caller, person)
    }

    @Test("a revoked key stays revoked", arguments: StoreKind.allCases)
    func revoked(_ kind: StoreKind) throws {
        let (fixture, _, _) = try linked(kind)
        let hash = KeyHash(Hash128(high: 2, low: 1), Hash128(high: 2, low: 2))
        let make = MakeLinkingKey(
            app: LinkingContractTests.app, name: "K", hash: hash, scopes: [.userLink],
            expiresAt: fixture.clock.now.advanced(byMilliseconds: 1_000_000))
        guard case .keyMade(let id) = try fixture.process(make).as(LinkingReply.self) else {
            preconditionFailure("A key was asked for.")
        }
        try fixture.reopen()
        #expect(fixture.store.directory.key(hash)?.isValid(at: fixture.clock.now) == true)
        _ = try fixture.process(RevokeLinkingKey(id))
        for _ in 0..<2 {
            #expect(fixture.store.directory.key(hash)?.revokedAt != nil)
            #expect(fixture.store.directory.key(hash)?.scopes == [.userLink])
            try fixture.reopen()
        }
    }

    @Test("answers are made again from what is kept of them", arguments: StoreKind.allCases)
    func replies(_ kind: StoreKind) throws {
        let (fixture, caller, person) = try linked(kind)
        let hash = fixture.store.hash
        let external = Identity(.linkingExternalID, "e", in: World.project, hash: hash)
        let digest = KeyHash(Hash128(high: 3, low: 1), Hash128(high: 3, low: 2))
        let seal = CodeSeal(key: Hash128(high: 3, low: 3))
        let commands: [any Act] = [
            IssueCode(
                app: caller.app, key: nil, external: external, digest: digest, seal: seal, thumbprint: "t",
                preview: .phone),
            IssueCode(
                app: caller.app, key: nil, external: external, digest: digest, seal: seal, thumbprint: nil,
                preview: nil),
            RedeemCode(
                digest: digest, seal: seal, app: caller.app, installKey: Hash128(high: 1, low: 1),
                device: .init(.tablet, fields: [.os: "x"]), thumbprint: nil, hash: hash),
            MakeInstall(app: caller.app, device: .init(), thumbprint: "t", hash: hash),
            LinkHard(caller), CheckInstall(caller),
            RefreshTokens(caller, generation: 0), SubmitRows(caller, rows: []),
            DisableInstall(caller.install, isDisabled: true, in: World.project, hash: hash),
            EditLinking(),
            MakeLinkingApp(name: "B", publicID: "b", secretHash: LinkingContractTests.secret),
            MakeLinkingKey(
                app: caller.app, name: "K", hash: digest, scopes: [.userLink], expiresAt: fixture.clock.now),
            RevokeLinkingKey(KeyID(rawValue: 1)), ResetInstall(caller),
            DeleteUser(person, by: nil),
        ]
        for command in commands {
            let reply = try fixture.process(command)
            #expect(Reply(packed: reply.packed) == reply)
            for count in 0..<reply.packed.count { #expect(Reply(packed: Array(reply.packed.prefix(count))) != reply) }
        }
        let refused = Reply(LinkingReply.refused(.tokenReused))
        #expect(Reply(packed: refused.packed) == refused)
    }
}
