import ByteText
import Crypto
import DialectEntitlements
import Foundation
import TestKit
import Testing

/// App Store receipts, which shipped iOS apps send (spec/entitlements-live.md 4.1), against a chain of certificates of our own.
@Suite("App Store receipts")
struct AppReceiptTests {
    private static let chain = Result { try AppleChain(isOfRSA: true) }

    private func client(
        _ kind: StoreKind = .memory, _ chain: AppleChain, deviceRule: AppStore.DeviceRule = .off,
        restore: String = "copy"
    ) throws -> AccessClient {
        let root = try #require(Certificate(pem: chain.rootPEM))
        return try AccessClient(kind, restore: restore, at: chain.now) {
            $0.stores.appStoreReceiptRoot = root
            $0.stores.options["app_store.bundle_id"] = "com.example.app"
            $0.stores.options["app_store.device_hash"] = deviceRule.rawValue
        }
    }

    private func send(
        _ client: AccessClient, _ path: String, _ user: String, _ receipt: String, _ more: String = "",
        trigger: String = "Init", device: String = "d"
    ) throws -> Wire.Answer {
        try client.call(
            "POST", path,
            #"{"q_uid":"\#(user)","version":"6.13.0","receipt":"\#(receipt)","device":{"os":"ios","device_id":"\#(device)"}\#(more)}"#,
            fields: [("Platform", "iOS"), ("Trigger", trigger)])
    }

    private func month(
        _ chain: AppleChain, _ id: String, product: String = "X", original: String? = nil, start: Int64 = 0
    )
        -> ReceiptMaker.Entry
    {
        ReceiptMaker.Entry(
            product: product, transaction: id, original: original ?? id, purchased: chain.now + start,
            expires: chain.now + start + 2_592_000)
    }

    // MARK: - What a receipt gives

    @Test("a phone's purchases come with its start, and a restore brings them back", arguments: StoreKind.allCases)
    func starts(_ kind: StoreKind) throws {
        let chain = try AppReceiptTests.chain.get()
        let client = try client(kind, chain, restore: "transfer")
        var maker = ReceiptMaker(chain)
        maker.entries = [
            month(chain, "10", original: "9", start: -2_592_000), month(chain, "11", original: "9"),
            ReceiptMaker.Entry(product: "Y", transaction: "20", original: "20", purchased: chain.now),
        ]
        let receipt = try maker.receipt()
        let started = try send(client, "/v1/user/init", "A", receipt)
        #expect(started.status == 200, "\(started)")
        #expect(try client.active("A") == ["X", "Y"])
        #expect(started.body.contains(#""renews_count":1"#), "\(started)")
        // The app was installed anew, and the phone is another one: an account is no single install.
        for user in ["B", "A", "B"] {
            #expect(try send(client, "/v1/user/init", user, receipt, trigger: "Restore").status == 200)
            #expect(try client.active("A") == ["X", "Y"])
        }
        #expect(try client.active("B") == ["X", "Y"])
        // A later receipt has the refund of the last period.
        maker.entries[1].canceled = chain.now
        maker.createdAt += 60
        client.clock.advance(days: 1)
        _ = try send(client, "/v1/user/init", "A", try maker.receipt())
        #expect(try client.active("A") == ["Y"])
        // The earlier receipt takes nothing of that back.
        _ = try send(client, "/v1/user/init", "B", receipt)
        #expect(try client.active("A") == ["Y"])
    }

    @Test("a reported purchase is the caller's, and the rest of the receipt only joins", arguments: StoreKind.allCases)
    func buys(_ kind: StoreKind) throws {
        let chain = try AppReceiptTests.chain.get()
        let client = try client(kind, chain)
        var maker = ReceiptMaker(chain)
        maker.entries = [month(chain, "1"), month(chain, "2", product: "Y")]
        let receipt = try maker.receipt()
        _ = try client.call("POST", "/v1/user/init", #"{"q_uid":"A"}"#)
        _ = try client.call("POST", "/v2/identities", #"{"anon_id":"A","identity_id":"u1"}"#)
        let bought = try send(
            client, "/v1/user/purchase", "A", receipt,
            #","purchase":{"product":"X","transaction_id":"1","original_transaction_id":"","value":"9.99"}"#,
            trigger: "Purchase")
        #expect(bought.status == 200, "\(bought)")
        let explained = try client.call("GET", "/v3/users/A/entitlements?explain=true", key: client.secretKey).body
        #expect(explained.contains(#""rule":"owner""#) && explained.contains(#""rule":"unclaimed""#), "\(explained)")
        let absent = try send(client, "/v1/user/purchase", "A", receipt, #","purchase":{"transaction_id":"3"}"#)
        #expect(absent.status == 422 && absent.body.contains(#""code":20008"#), "\(absent)")
    }

    // MARK: - Forms

    static let forms: [[String]] = [
        ["-md", "sha256"], ["-md", "sha1"], ["-md", "sha256", "-noattr"], ["-md", "sha1", "-noattr"],
        ["-md", "sha256", "-stream"], ["-md", "sha256", "-stream", "-noattr"],
    ]

    @Test("counts in each form that signing has", arguments: forms)
    func form(_ words: [String]) throws {
        let chain = try AppReceiptTests.chain.get()
        let client = try client(.memory, chain)
        var maker = ReceiptMaker(chain)
        maker.entries = [month(chain, "1")]
        #expect(try send(client, "/v1/user/init", "A", try maker.receipt(words)).body.contains(#""id":"X""#))
    }

    @Test("stays good when its certificates are over")
    func expired() throws {
        let chain = try AppReceiptTests.chain.get()
        let client = try client(.memory, chain)
        var maker = ReceiptMaker(chain)
        maker.entries = [month(chain, "1")]
        let receipt = try maker.receipt()
        client.clock.advance(days: 20)
        #expect(
            try send(client, "/v1/user/init", "A", receipt).body.contains(
                #""id":"X","associated_product":"X","active":1"#))
    }

    // MARK: - What is refused

    private func expectRefused(
        _ client: AccessClient, _ receipt: String, code: Int = 10008, _ location: SourceLocation = #_sourceLocation
    ) throws {
        let answer = try send(client, "/v1/user/purchase", "A", receipt, #","purchase":{"product":"X"}"#)
        #expect(
            answer.status == 422 && answer.body.contains(#""code":\#(code),"#), "\(answer)", sourceLocation: location)
        // A start succeeds all the same, and gives nothing.
        let start = try send(client, "/v1/user/init", "A", receipt)
        #expect(start.status == 200 && start.body.contains(#""permissions":[]"#), "\(start)", sourceLocation: location)
    }

    @Test("is refused where it is another's, for another world or app, or over")
    func foreign() throws {
        let chain = try AppReceiptTests.chain.get()
        let client = try client(.memory, chain)
        var good = ReceiptMaker(chain)
        good.entries = [month(chain, "1")]
        for change: (inout ReceiptMaker) -> Void in [
            { $0.bundleID = "com.example.other" }, { $0.kind = "Production" }, { $0.kind = "Xcode" },
            { $0.createdAt = 1_500_000_000 }, { $0.certificates = ["unmarked"] },
            { $0.certificates = ["leaf"] },
        ] {
            var maker = good
            change(&maker)
            try expectRefused(client, maker.receipt())
        }
        // What is over is no fraud, and gives nothing.
        var over = good
        over.endsAt = chain.now - 1
        for path in ["/v1/user/purchase", "/v1/user/init"] {
            let answer = try send(client, path, "A", over.receipt(), #","purchase":{"product":"X"}"#)
            #expect(answer.status == 200 && answer.body.contains(#""permissions":[]"#), "\(answer)")
        }
        let stranger = try AppleChain(isOfRSA: true)
        var others = ReceiptMaker(stranger)
        others.entries = good.entries
        try expectRefused(client, others.receipt())
        // Its own certificates may be with a stranger's signature.
        var bytes = [UInt8](Data(base64Encoded: try good.receipt()) ?? Data())
        bytes[bytes.count - 1] ^= 1
        try expectRefused(client, Base64.encode(bytes))
        try expectRefused(client, "MIIB", code: 10008)
        try expectRefused(client, "nonsense", code: 20102)
        good.bundleID = ""
        try expectRefused(client, good.receipt(), code: 20102)
        // A receipt without a kind counts for the world of the key.
        var unnamed = ReceiptMaker(chain)
        unnamed.kind = ""
        unnamed.entries = [month(chain, "1")]
        #expect(try send(client, "/v1/user/init", "B", unnamed.receipt()).body.contains(#""id":"X""#))
        // A receipt of tomorrow says that the clock of this server is behind.
        var early = ReceiptMaker(chain)
        early.createdAt += 3600
        let later = try send(client, "/v1/user/purchase", "A", early.receipt(), #","purchase":{}"#)
        #expect(later.status == 503 && later["Retry-After"] != nil, "\(later)")
    }

    @Test("a message with more algorithms, certificates or signers than honest ones is not looked at")
    func modest() throws {
        let chain = try AppReceiptTests.chain.get()
        var maker = ReceiptMaker(chain)
        maker.entries = [month(chain, "1")]
        let good = [UInt8](Data(base64Encoded: try maker.receipt(["-md", "sha256", "-noattr"])) ?? Data())
        #expect(SignedMessage(good) != nil)
        // The algorithms are a set with one sequence: the set is repeated inside, with all lengths around it.
        let algorithm: [UInt8] = [
            0x30, 0x0D, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x05, 0x00,
        ]
        func message(_ algorithms: Int, signers: Int) -> [UInt8] {
            let set = ReceiptMaker.value(0x31, Array(repeatElement(algorithm, count: algorithms).joined()))
            let content = ReceiptMaker.value(0x30, [0x06, 0x09, 0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x07, 0x01])
            let signer = ReceiptMaker.value(
                0x31, Array(repeatElement([0x30, 0x00] as [UInt8], count: signers).joined()))
            let data = ReceiptMaker.value(0x30, [0x02, 0x01, 0x01] + set + content + signer)
            return ReceiptMaker.value(
                0x30,
                [0x06, 0x09, 0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x07, 0x02] + ReceiptMaker.value(0xA0, data))
        }
        for bytes in [message(60_000, signers: 1), message(1, signers: 60_000), message(3, signers: 1)] {
            #expect(SignedMessage(bytes) == nil)
        }
    }

    @Test("counts only on its device where the server asks for that")
    func device() throws {
        let chain = try AppReceiptTests.chain.get()
        let client = try client(.memory, chain, deviceRule: .require)
        let device = "6F9619FF-8B86-D011-B42D-00CF4FC964FF"
        var maker = ReceiptMaker(chain)
        maker.entries = [month(chain, "1")]
        maker.device = UUID(uuidString: device)
        let receipt = try maker.receipt()
        #expect(try send(client, "/v1/user/init", "A", receipt, device: device).body.contains(#""id":"X""#))
        for other in ["6F9619FF-8B86-D011-B42D-00CF4FC964FE", "", "d"] {
            #expect(try send(client, "/v1/user/init", "B", receipt, device: other).body.contains(#""permissions":[]"#))
        }
    }

    @Test("no change of its bytes gives anything, or ends the server", arguments: Soak.seeds(2))
    func mutations(_ seed: UInt64) throws {
        let chain = try AppReceiptTests.chain.get()
        let client = try client(.memory, chain)
        var maker = ReceiptMaker(chain)
        maker.entries = (0..<3).map { month(chain, "\($0)") }
        let good = [UInt8](Data(base64Encoded: try maker.receipt()) ?? Data())
        var generator = SeededGenerator(seed: seed)
        let content = try maker.content()
        let place = try #require(good.firstRange(of: content)?.lowerBound)
        for round in 0..<150 {
            var bytes = good
            switch round % 3 {
            case 0:
                bytes[Int.random(in: place..<(place + content.count), using: &generator)] ^=
                    1 << UInt8.random(in: 0..<8, using: &generator)
            case 1: bytes.removeLast(Int.random(in: 1..<bytes.count, using: &generator))
            default:
                let at = Int.random(in: 0..<bytes.count, using: &generator)
                bytes.insert(UInt8.random(in: 0...255, using: &generator), at: at)
            }
            let answer = try send(client, "/v1/user/init", "A", Base64.encode(bytes))
            #expect(answer.status == 200 && answer.body.contains(#""permissions":[]"#), "ONYM_SEED=\(seed): \(answer)")
        }
    }
}
