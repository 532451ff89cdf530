import ClientKit
import Crypto
import Foundation
import Onym
import Testing

/// Answers about access that the project's server has signed (spec/entitlements-live.md 8), and all others.
@Suite("Signed answers about access")
struct SignedAnswerTests {
    /// The server's side: a root key, and a key of the month.
    private struct Signer {
        let root = Ed25519Key(seed: [UInt8](repeating: 1, count: 32))
        var month = Ed25519Key(seed: [UInt8](repeating: 2, count: 32))
        var keyID = "ent-7-1"
        var world = "sandbox"
        /// The seconds from the signature to the end of its use without the server.
        var usableSeconds: Int64 = 86_400
        var from: Int64 = 1_000_000_000
        var to: Int64 = 4_000_000_000

        func text(_ bytes: [UInt8]) -> String {
            Data(bytes).base64EncodedString().replacingOccurrences(of: "+", with: "-")
                .replacingOccurrences(of: "/", with: "_").replacingOccurrences(of: "=", with: "")
        }

        func field(_ request: HTTPRequest, _ status: Int, _ body: [UInt8], at seconds: Double) -> String {
            let milliseconds = Int64(seconds * 1000)
            let end = milliseconds / 1000 + usableSeconds
            let key = text(month.publicKey)
            let rootLines = [keyID, key, String(from), String(to)]
            let digest = Crypto.SHA256.digest(of: body).bytes.map { String(format: "%02x", $0) }.joined()
            let lines = [
                "onym-entitlements-v1", "7", world, request.method,
                request.path + (request.url.query().map { "?\($0)" } ?? ""),
                request.fields["Onym-Device-User"] ?? "", request.fields["Onym-Identity"] ?? "",
                request.fields["Onym-Nonce"] ?? "", String(milliseconds), String(end), String(status), digest,
            ]
            let signature = text(month.sign(Array(lines.joined(separator: "\n").utf8)))
            let rootSignature = text(root.sign(Array(rootLines.joined(separator: "\n").utf8)))
            return "v1;kid=\(keyID);t=\(milliseconds);exp=\(end);sig=\(signature);x=\(key);nbf=\(from);end=\(to);"
                + "root_sig=\(rootSignature)"
        }
    }

    private let bench: Bench
    private let signer = Signer()

    init() {
        let root = signer.text(signer.root.publicKey)
        bench = Bench(.entitlements(key: "key")) { $0.accessRoot = root }
    }

    private func list(_ ids: String...) -> JSON {
        [
            "object": "list",
            "data": .array(
                ids.map { ["id": .string($0), "active": true, "started": 1, "expires": 4_000_000_000] }),
        ]
    }

    /// Answers the oldest request.
    private func answer(
        _ status: Int, _ json: JSON, by signer: Signer? = nil, at seconds: Double? = nil,
        change: (String) -> String? = { $0 }
    ) {
        guard let request = bench.transport.open.first else {
            Issue.record("There is no request.")
            return
        }
        let field = (signer ?? self.signer).field(
            request, status, json.bytes, at: seconds ?? bench.time.now.timeIntervalSince1970)
        bench.answer(.json(status, json, change(field).map { ["Onym-Signature": $0] } ?? [:]))
    }

    private func ask() -> Collector<Result<[String: Entitlement], OnymError>> {
        let ends = Collector<Result<[String: Entitlement], OnymError>>()
        bench.onym.access.entitlements(.newerThan(0.001), callback: ends.callback)
        bench.settle()
        return ends
    }

    private func names(_ ends: Collector<Result<[String: Entitlement], OnymError>>) -> [String]? {
        guard case .success(let list)? = ends.values.last else { return nil }
        return list.values.filter(\.isActive).map(\.id).sorted()
    }

    private func isUntrusted(_ ends: Collector<Result<[String: Entitlement], OnymError>>) -> Bool {
        if case .failure(.untrusted)? = ends.values.last { true } else { false }
    }

    private func create() {
        bench.onym.access.userInfo(callback: { _ in })
        bench.settle()
        answer(201, ["id": "x"])
    }

    @Test("count, with a fresh nonce for each request")
    func count() throws {
        create()
        let ends = ask()
        let request = try #require(bench.transport.open.first)
        #expect(request.fields["Onym-Nonce"]?.count == 22)
        answer(200, list("plus"))
        #expect(names(ends) == ["plus"])
        bench.advance(1)
        let again = ask()
        #expect(bench.transport.open.first?.fields["Onym-Nonce"] != request.fields["Onym-Nonce"])
        answer(200, list("gold"))
        #expect(names(again) == ["gold"])
        #expect(!bench.notices.contains { if case .untrusted = $0 { true } else { false } })
    }

    @Test("are needed for each call about access, and for no other call")
    func calls() {
        let ends = Collector<Result<AccessUser, OnymError>>()
        bench.onym.access.userInfo(callback: ends.callback)
        bench.settle()
        bench.answer(.json(201, ["id": "x"]))
        #expect(ends.values.count == 1, "a user that somebody else says it has made is not made")
        if case .failure(.untrusted)? = ends.values.first {} else { Issue.record("\(ends.values)") }
        create()
        let catalog = Collector<Result<[CatalogProduct], OnymError>>()
        bench.onym.access.catalog(callback: catalog.callback)
        bench.settle()
        #expect(bench.transport.open.first?.fields["Onym-Nonce"] == nil)
        bench.answer(.json(200, []))
        #expect(catalog.values.count == 1)
    }

    @Test("that somebody has changed change nothing, and leave the knowledge of before")
    func changes() throws {
        create()
        let first = ask()
        answer(200, list("plus"))
        #expect(names(first) == ["plus"])
        var other = Signer()
        other.month = Ed25519Key(seed: [UInt8](repeating: 9, count: 32))
        var foreign = Signer()
        foreign.world = "production"
        var over = Signer()
        over.to = 1_000_000_001
        let known = signer.field(
            HTTPRequest(
                method: "GET", url: try #require(URL(string: "https://onym.test/v3/users/x/entitlements"))), 200,
            list("gold").bytes, at: bench.time.now.timeIntervalSince1970)
        let changes: [(String, Signer, (String) -> String?)] = [
            ("no signature", signer, { _ in nil }), ("another version", signer, { $0.replacing("v1;", with: "v2;") }),
            ("a signature of another request", signer, { _ in known }), ("another world", foreign, { $0 }),
            ("a key that is over", over, { $0 }),
            (
                "a key of the month that the root has not signed", other,
                { field in
                    let end = known.split(separator: ";").last.map(String.init) ?? ""
                    return field.split(separator: ";").dropLast().joined(separator: ";") + ";" + end
                }
            ),
            ("a longer use", signer, { $0.replacing("exp=", with: "exp=1") }),
            ("a later moment", signer, { $0.replacing("t=1", with: "t=2") }),
            ("twice", signer, { $0 + ";exp=9999999999" }),
        ]
        for (name, signer, change) in changes {
            bench.advance(1)
            let ends = ask()
            answer(200, list("gold"), by: signer, change: change)
            #expect(names(ends) == ["plus"], "\(name): what was known stays")
            #expect(bench.onym.access.cached?.keys.sorted() == ["plus"], "\(name)")
        }
        let notices = bench.notices.count { if case .untrusted = $0 { true } else { false } }
        #expect(notices == changes.count)
    }

    @Test("count by their nonce, also if the server's clock was corrected in between")
    func corrected() {
        create()
        let first = ask()
        answer(200, list("plus"), at: bench.time.now.timeIntervalSince1970 + 7200)
        #expect(names(first) == ["plus"])
        bench.advance(1)
        let next = ask()
        answer(200, list("gold"))
        #expect(names(next) == ["gold"])
        #expect(bench.onym.access.cached?.keys.sorted() == ["gold"])
    }

    @Test("alone set the clock of access: another answer's date neither lengthens nor ends what was signed")
    func dates() {
        create()
        let first = ask()
        answer(200, list("plus"))
        #expect(names(first) == ["plus"])
        let start = bench.time.now
        // A proxy invents dates: years ahead, and then for ever an hour after the last real answer.
        for (later, date, known) in [
            (1, 4e8, ["plus"]), (3600, 3600, ["plus"]), (86_500, 3600, nil), (100_000, 3600, nil),
        ] as [(TimeInterval, TimeInterval, [String]?)] {
            bench.advance(later - bench.time.now.timeIntervalSince(start))
            let ends = ask()
            bench.answer(.json(503, [:], ["Date": HTTPDate.write(start.addingTimeInterval(date))]))
            #expect(names(ends) == known, "after \(later) s")
            #expect(bench.onym.access.cached?.keys.sorted() == known, "after \(later) s")
        }
    }

    @Test("correct a wrong clock of the device, also for the next start and for a reader")
    func clock() {
        create()
        let first = ask()
        answer(200, list("plus"), at: bench.time.now.timeIntervalSince1970 + 7200)
        #expect(names(first) == ["plus"])
        #expect(bench.onym.access.cached?.keys.sorted() == ["plus"])
        bench.relaunch()
        #expect(bench.onym.access.cached?.keys.sorted() == ["plus"])
        #expect(reader().access.keys.sorted() == ["plus"])
    }

    private func reader(_ files: MemoryFiles? = nil, change: (inout Configuration) -> Void = { _ in }) -> OnymReader {
        var configuration = bench.configuration
        change(&configuration)
        return OnymReader(files: files ?? bench.files, time: bench.time, configuration)
    }

    @Test("give a reader access, and unsigned or changed ones do not")
    func readers() {
        create()
        let first = ask()
        answer(200, list("plus"))
        #expect(names(first) == ["plus"])
        #expect(reader().access.keys.sorted() == ["plus"])
        #expect(reader { $0.accessRoot = signer.text(signer.month.publicKey) }.access.isEmpty, "another root")
        #expect(reader { $0.environment = .production }.access.isEmpty, "another world")
        let unsigned = MemoryFilesOf.unsigned()
        #expect(reader(unsigned) { $0.accessRoot = nil }.access.keys.sorted() == ["plus"])
        #expect(reader(unsigned).access.isEmpty)
        bench.advance(86_500)
        #expect(reader().access.isEmpty)
    }

    @Test("do not count for another user of the same identity, although the signature is right")
    func others() {
        create()
        for user in ["u1", "u2", "u1"] {
            bench.onym.access.logout()
            bench.onym.access.identify("ada", callback: { _ in })
            bench.settle()
            answer(200, ["user_id": .string(user)])
            #expect(bench.onym.access.user?.id == user)
            #expect(bench.onym.access.cached == nil, "\(user)")
            let ends = ask()
            answer(200, list(user))
            #expect(names(ends) == [user])
            #expect(bench.onym.access.cached?.keys.sorted() == [user])
        }
    }

    @Test("are kept with their proof, and a changed file gives no access")
    func files() {
        create()
        let first = ask()
        answer(200, list("plus"))
        #expect(names(first) == ["plus"])
        bench.relaunch()
        #expect(bench.onym.access.cached?.keys.sorted() == ["plus"])
        // Not beyond the time that the server has named.
        bench.advance(86_500)
        #expect(bench.onym.access.cached == nil)
        let late = ask()
        bench.answer(.fault(.offline))
        #expect(names(late) == nil && late.values.count == 1)
        // An answer from before the key was set has no proof.
        let without = Bench(.entitlements(key: "key"), files: MemoryFilesOf.unsigned())
        #expect(without.onym.access.cached?.keys.sorted() == ["plus"])
        let with = Bench(.entitlements(key: "key"), files: MemoryFilesOf.unsigned()) { $0.accessRoot = "x" }
        #expect(with.onym.access.cached == nil, "a key that is no key confirms nothing")
    }

    @Test("are only reported, if the app wants that")
    func reports() {
        let root = signer.text(signer.root.publicKey)
        let bench = Bench(.entitlements(key: "key")) {
            $0.accessRoot = root
            $0.accessVerification = .report
        }
        let ends = Collector<Result<[String: Entitlement], OnymError>>()
        bench.onym.access.entitlements(.newerThan(300), callback: ends.callback)
        bench.settle()
        bench.answer(.json(201, ["id": "x"]))
        bench.answer(.json(200, list("gold")))
        #expect(names(ends) == ["gold"])
        #expect(bench.notices.count { if case .untrusted = $0 { true } else { false } } == 2)
    }

    @Test(
        "are not needed where a large purchase is too large: it ends, and the next one goes", arguments: [true, false])
    func tooLarge(isLarge: Bool) {
        create()
        let ends = Collector<Result<Void, OnymError>>()
        bench.onym.access.purchase(
            Purchase(
                price: "1", currency: "EUR", purchased: bench.time.now,
                appStoreReceipt: String(repeating: "r", count: isLarge ? 100_000 : 100)),
            callback: ends.callback)
        bench.settle()
        bench.answer(.json(413, [:], ["X-Request-Id": "r-413"]))
        #expect(bench.onym.access.refusedPurchases.count == (isLarge ? 1 : 0))
        guard case .failure(.http(let failure))? = ends.values.first else {
            Issue.record("\(ends.values)")
            return
        }
        #expect(failure.status == 413 && failure.requestID == "r-413" && !failure.isServersWord)
        #expect(
            isLarge
                == bench.notices.contains { if case .dropped(1, .refused) = $0 { true } else { false } })
    }

    @Test("are needed for a purchase: a proxy that says yes loses none")
    func purchases() {
        create()
        let ends = Collector<Result<Void, OnymError>>()
        bench.onym.access.purchase(
            Purchase(price: "1", currency: "EUR", purchased: bench.time.now, appStoreReceipt: "r"),
            callback: ends.callback)
        bench.settle()
        bench.answer(.json(201, [:]))
        #expect(bench.onym.access.refusedPurchases.isEmpty)
        bench.onym.flush(callback: { _ in })
        bench.settle()
        #expect(bench.transport.open.count == 1, "the purchase is sent again")
        answer(201, [:])
        bench.settle()
        bench.onym.flush(callback: { _ in })
        bench.settle()
        #expect(bench.transport.open.isEmpty)
    }
}

/// Files that an app without a key has left.
private enum MemoryFilesOf {
    static func unsigned() -> MemoryFiles {
        let bench = Bench(.entitlements(key: "key"))
        bench.onym.access.entitlements(.newerThan(300), callback: { _ in })
        bench.settle()
        bench.answer(.json(201, ["id": "x"]))
        bench.answer(
            .json(200, ["data": [["id": "plus", "active": true, "started": 1, "expires": 4_000_000_000]]]))
        return bench.files.survive()
    }
}
