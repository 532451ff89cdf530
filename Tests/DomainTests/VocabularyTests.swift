import Domain
import TestKit
import Testing

@Suite("The domain's vocabulary")
struct VocabularyTests {
    @Test("ids of people are positive, grow with time, and use chance")
    func personIDs() {
        let early = Instant(milliseconds: 1_700_000_000_000)
        let late = early.advanced(byMilliseconds: 1)
        let largest = PersonID(at: early, chance: .max)
        #expect(PersonID(at: early, chance: 0).rawValue > 0)
        #expect(largest < PersonID(at: late, chance: 0))
        #expect(largest.rawValue - PersonID(at: early, chance: 0).rawValue == (1 << 22) - 1, "chance has 22 bits")
        #expect(PersonID(at: early, chance: 1) != PersonID(at: early, chance: 2))
        #expect(PersonID(at: Instant(milliseconds: 0), chance: 0).rawValue > 0, "a clock that is far off")
        #expect(PersonID(at: Instant(milliseconds: .max / 4), chance: .max).rawValue > 0)
        #expect(largest.next > largest)
    }

    @Test("types have names of their own, by which they are found")
    func typeNames() {
        #expect(Set(IdentityType.allCases.map { "\($0.name)" }).count == IdentityType.allCases.count)
        for type in IdentityType.allCases { #expect(IdentityType(named: "\(type.name)") == type) }
        for name in ["", "customer_id", "Email", "emai", "emails", "other11", "alias"] {
            #expect(IdentityType(named: name) == nil)
        }
    }

    @Test("stored numbers of types never change")
    func typeNumbers() {
        // What a store holds was written with these: a change here is a change of the format.
        let stored: [UInt8: String] = [
            1: "other", 2: "customerid", 3: "facebook", 4: "twitter", 5: "google", 6: "microsoft", 7: "yahoo",
            8: "email",
            9: "facebookcustomaudienceid", 10: "other2", 11: "other3", 12: "other4", 13: "other5", 14: "other6",
            15: "other7", 16: "other8", 17: "other9", 18: "other10", 19: "mobile_number", 20: "phone_number_2",
            21: "phone_number_3", 22: "ios_idfa", 23: "ios_idfv", 24: "push_token", 25: "device_application_stamp",
            26: "android_aaid", 27: "android_uuid", 28: "amp_id", 29: "roku_aid", 30: "roku_publisher_id",
            31: "fire_aid",
            32: "microsoft_aid", 33: "microsoft_publisher_id", 34: "claim_user_id", 35: "claim_anonymous_id",
            36: "claim_nobody", 60: "access_user_id", 61: "access_identity", 62: "sandbox_user_id",
            63: "sandbox_identity", 80: "linking_external_id", 81: "linking_install_id",
            82: "linking_user_id", 90: "imported_id",
        ]
        #expect(Dictionary(uniqueKeysWithValues: IdentityType.allCases.map { ($0.rawValue, "\($0.name)") }) == stored)
        #expect(ActKind.setUp.rawValue == 1 && ActKind.identify.rawValue == 2)
    }

    @Test("the default strategy is the vendor's")
    func defaultStrategy() {
        #expect(Strategy.default.hierarchy.count == 20)
        #expect(Strategy.default.hierarchy.first == .customerID)
        #expect(Strategy.default.hierarchy.last == .deviceApplicationStamp)
        #expect(Set(Strategy.default.hierarchy).count == 20)
        #expect(Strategy.default.login == [.customerID])
        #expect(Strategy.default.unique == [.customerID])
        #expect(Strategy.default.immutable.isEmpty)
    }

    @Test(
        "blocked values are found in any case, and nothing else is",
        arguments: ["null", "NULL", "Undefined", "0", "[object Object]"])
    func blocked(_ value: String) {
        #expect(BlockedValues.standard.contains(value, .customerID))
    }

    @Test(
        "values that only look like blocked ones pass",
        arguments: ["", "nulls", "nul", "00", "10", "null ", "anonymou", "é"])
    func notBlocked(_ value: String) {
        #expect(!BlockedValues.standard.contains(value, .customerID))
    }

    @Test("scopes are stored by name, and unknown names allow nothing")
    func scopes() {
        let scopes: ScopeSet = [.eventsWrite, .userLink, .admin]
        #expect(ScopeSet(names: scopes.names) == scopes)
        #expect(ScopeSet(names: "events:write future:scope") == [.eventsWrite])
        #expect(!scopes.contains(.userRead))
        #expect(ScopeSet(Scope.allCases).names.split(separator: " ").count == Scope.allCases.count)
    }

    @Test(
        "hashes as SipHash-2-4 with 128 bits does",
        arguments: [
            (8, "3b62a9ba6258f5610f83e264f31497b4"), (9, "264499060ad9baabc47f8b02bb6d71ed"),
            (15, "5493e99933b0a8117e08ec0f97cfc3d9"), (16, "6ee2a4ca67b054bbfd3315bf85230577"),
            (17, "473d06e8738db89854c066c47ae47740"), (31, "2939b0183223fafc1723de4f52c43d35"),
            (64, "1eaf077dc0d4cd3f8cad4d383658a74b"),
        ])
    func sipHash(_ count: Int, _ expected: String) throws {
        // The vectors of the reference implementation: key 00…0f, input 00, 01, …. The tag is its first eight bytes.
        let key = try #require(hash128((0..<16).map { UInt8($0) }))
        let input = (0..<count).map { UInt8($0) }
        let tag = input.prefix(8).enumerated().reduce(UInt64(0)) { $0 | UInt64($1.element) << UInt64($1.offset * 8) }
        let hash = hash(KeyedHash(key: key), tag, Array(input.dropFirst(8)))
        #expect(hash.bytes.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined() == expected)
        #expect(hash128(hash.bytes) == hash)
    }

    @Test("packs values and reads them back")
    func packing() {
        var packer = Packer()
        for value: UInt64 in [0, 1, 127, 128, 16_383, 16_384, .max] { packer.add(value) }
        packer.add("héllo")
        packer.add("")
        packer.add(7 as UInt8)
        var unpacker = Unpacker(packer.bytes)
        for value: UInt64 in [0, 1, 127, 128, 16_383, 16_384, .max] { #expect(unpacker.integer() == value) }
        #expect(unpacker.text() == "héllo")
        #expect(unpacker.text() == "")
        #expect(unpacker.byte() == 7)
        #expect(unpacker.isAtEnd)
        #expect(unpacker.byte() == nil && unpacker.integer() == nil && unpacker.text() == nil)
    }

    @Test("reads no answer from bytes that hold none")
    func badReplies() {
        let reply = Reply(Identified(person: PersonID(rawValue: 1 << 60), matched: 5, isKnown: true))
        #expect(Reply(packed: reply.packed) == reply)
        #expect(Reply(packed: Reply(Done()).packed) == Reply(Done()))
        for count in 0..<reply.packed.count { #expect(Reply(packed: Array(reply.packed.prefix(count))) == nil) }
        #expect(Reply(packed: reply.packed + [0]) == nil)
        #expect(Reply(packed: [99]) == nil)
        #expect(Reply(packed: [2] + [UInt8](repeating: 0xFF, count: 20)) == nil)
    }

    // Expectations cannot lend spans, so these do.
    private func hash128(_ bytes: [UInt8]) -> Hash128? { Hash128(bytes.span) }
    private func hash(_ hash: KeyedHash, _ tag: UInt64, _ bytes: [UInt8]) -> Hash128 { hash.hash(tag: tag, bytes.span) }
}
