import Domain
import Engine
import TestKit
import Testing

/// A member of a group with a known user is no anonymous profile: no look-up by device leads a stranger to it, in any preset that
/// protects known users, and for any reason of the merge (spec/taking-back.md, decision 8).
@Suite("Protection of a whole group")
struct GroupProtectionTests {
    enum Reason: CaseIterable { case administrator, claim, sameUserID }

    static let presets = StrategyPreset.allCases.filter { $0.strategy?.rules.protectsKnown ?? false }
    /// The call of the stranger.
    static let occasions: [Identify.Occasion] = [.login, .start]

    /// Alice's group: her person, and the person of her device, which no user id names.
    private struct Group {
        let fixture: StoreFixture
        let device: PersonID
        let alice: PersonID

        init(_ kind: StoreKind, _ preset: StrategyPreset, _ reason: Reason) throws {
            let fixture = try StoreFixture(kind)
            var edit = StrategyEdit()
            edit.preset = preset
            try fixture.set(.edit(edit))
            if reason == .sameUserID {
                var merging = StrategyEdit()
                merging.joinsSameUserIDs = true
                try fixture.set(.edit(merging))
            }
            let (device, alice) = try Group.people(fixture, reason)
            try fixture.store.read { snapshot throws(StoreFault) in
                #expect(device != alice && snapshot.areOne(device, alice), "\(preset) \(reason)")
            }
            (self.fixture, self.device, self.alice) = (fixture, device, alice)
        }

        private static func people(
            _ fixture: StoreFixture, _ reason: Reason
        ) throws -> (device: PersonID, alice: PersonID) {
            switch reason {
            case .administrator:
                let device = try fixture.found(.start, [.iosIDFV: "D"])
                let alice = try fixture.found(.login, [.customerID: "alice"])
                #expect(try fixture.process(MergePeople(from: device, into: alice)).as(Merge.self) != nil)
                return (device, alice)
            case .claim:
                let anonymous = fixture.name(.claimAnonymousID, "owl_anon_1")
                let row = Row(.event, at: fixture.clock.now, body: Array("{}".utf8))
                let sighting = AppUser.Sighting(app: AppID(rawValue: 1))
                _ = try fixture.process(Collect([.init(user: anonymous, rows: [row], sighting: sighting)]))
                let device = try #require(try fixture.holder(of: anonymous))
                _ = try fixture.process(AttachIdentity(fixture.name(.iosIDFV, "D"), to: device, reason: nil))
                let claim = Claim(anonymous: anonymous, user: fixture.name(.claimUserID, "alice"))
                return (device, try #require(try fixture.process(claim).seen))
            case .sameUserID:
                let device = try fixture.found(.start, [.iosIDFV: "D"])
                let alice = try fixture.found(.login, [.customerID: "alice"])
                // The id in another dialect makes the device's person and Alice one.
                _ = try fixture.process(
                    AttachIdentity(fixture.name(.claimUserID, "alice"), to: device, reason: nil))
                _ = try fixture.process(JoinSameUserIDs([.init(from: device, into: alice)]))
                return (device, alice)
            }
        }
    }

    @Test("keeps a stranger with the device out", arguments: presets, Reason.allCases)
    func stranger(_ preset: StrategyPreset, _ reason: Reason) throws {
        for kind in preset == .default ? StoreKind.allCases : [.memory] {
            for occasion in GroupProtectionTests.occasions {
                let group = try Group(kind, preset, reason)
                let bob = group.fixture.process([
                    Identify(
                        occasion,
                        identities: [group.fixture.name(.customerID, "bob"), group.fixture.name(.iosIDFV, "D")])
                ])[0]
                // A preset may refuse the call. It may not answer a member of Alice's group.
                guard case .success(let reply) = bob, let found = reply.seen else { continue }
                try group.fixture.store.read { snapshot throws(StoreFault) in
                    #expect(
                        !snapshot.areOne(found, group.device) && !snapshot.areOne(found, group.alice),
                        "\(preset) \(reason) \(occasion) on \(kind)")
                }
            }
            // The device alone finds its own person as before, and makes nobody a member.
            let group = try Group(kind, preset, reason)
            let alone = group.fixture.process([Identify(.start, identities: [group.fixture.name(.iosIDFV, "D")])])[0]
            try group.fixture.store.read { snapshot throws(StoreFault) in
                #expect(snapshot.group(of: group.alice).count == 2, "\(preset) \(reason) on \(kind)")
            }
            guard case .success = alone else {
                Issue.record("\(preset) \(reason) on \(kind): \(alone)")
                continue
            }
        }
    }
}

extension StoreFixture {
    fileprivate func name(_ type: IdentityType, _ value: String) -> Identity {
        Identity(type, value, in: World.project, hash: store.hash)
    }

    fileprivate func found(_ occasion: Identify.Occasion, _ names: [IdentityType: String]) throws -> PersonID {
        let identities = names.map { name($0.key, $0.value) }
        return try #require(try process(Identify(occasion, identities: identities)).seen)
    }

    fileprivate func holder(of identity: Identity) throws -> PersonID? {
        try store.read { snapshot throws(StoreFault) in snapshot.holders(of: identity.key).first }
    }
}
