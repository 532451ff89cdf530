import ClientKit
import Foundation
import Onym
import OnymOwl
import Testing

/// They share the one instance, so they run one after the other.
@Suite("Owl", .serialized, .timeLimit(.minutes(30)))
struct OwlTests {
    private let transport = ScriptedTransport()
    private let files = MemoryFiles()

    private func configure() throws {
        try Owl.configure(
            endpoint: "https://onym.test", apiKey: "owl_client_k", bundleID: "com.example", attributionEnabled: false
        ) {
            $0 = Bench.configuration($0.keys)
            $0.transport = transport
            $0.time = ManualTime()
            $0.files = files
            $0.callbacks = .background
        }
    }

    /// Answers all that is sent until something is; collects what was said of whom.
    private func drain(_ said: inout [String]) {
        while let request = transport.answer(.json(200, ["claimed": true, "accepted": 1, "rejected": 0])) {
            if request.path != "/v1/ingest" { said.append(request.path) }
            for event in request.json["events"]?.elements ?? [] {
                said.append("\(event["user_id"]?.text ?? ""): \(event["message"]?.text ?? "")")
            }
        }
    }

    @Test("refuses what cannot work")
    func refusal() {
        #expect(throws: Owl.ConfigurationError.invalidEndpoint) {
            try Owl.configure(endpoint: "nowhere", apiKey: "owl_client_k")
        }
        #expect(throws: Owl.ConfigurationError.invalidApiKey) {
            try Owl.configure(endpoint: "https://onym.test", apiKey: "owl_agent_k")
        }
    }

    @Test("tells a story in its order: nobody, a user, nobody again")
    func story() throws {
        try configure()
        let nobody = try #require(Owl.currentUserId)
        Owl.info("opened", screenName: "Home", attributes: ["a": "b"])
        Owl.setUser("u")
        Owl.setUserProperties(["plan": "pro"])
        Owl.step("checkout")
        let operation = Owl.startOperation("load")
        operation.complete()
        Owl.clearUser()
        let other = try #require(Owl.currentUserId)
        Owl.error("failed")
        Owl.setUser("v")
        var said: [String] = []
        drain(&said)
        #expect(
            said == [
                "\(nobody): sdk:session_started", "\(nobody): opened", "/v1/identity/claim", "/v1/identity/properties",
                "u: step:checkout", "u: metric:load:start", "u: metric:load:complete", "\(other): failed",
                "/v1/identity/claim",
            ])
        #expect(nobody != other && Owl.currentUserId == "v")
    }

    @Test("the next launch is still the user's, and claims again")
    func relaunch() throws {
        try configure()
        Owl.setUser("u")
        var said: [String] = []
        drain(&said)
        try configure()
        #expect(Owl.currentUserId == "u")
        Owl.info("later")
        Owl.setUser("u")
        said = []
        drain(&said)
        #expect(said.filter { $0 == "/v1/identity/claim" }.count == 1)
        #expect(said.contains("u: later"))
    }

    @Test("a second start gives up the first one's files before it opens them")
    func again() throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "onym-owl-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: folder) }
        for _ in 0..<2 {
            try Owl.configure(
                endpoint: "https://onym.test", apiKey: "owl_client_k", bundleID: "com.example",
                attributionEnabled: false
            ) {
                $0.folder = folder
                ($0.transport, $0.callbacks) = (transport, .background)
            }
            Owl.info("kept")
        }
        #expect(Owl.core?.claim?.mailbox.count == 4)
    }

    private func answer(_ answer: ScriptedTransport.Answer) async -> HTTPRequest? {
        await eventually { !transport.open.isEmpty }
        return transport.answer(answer)
    }

    @Test("asks, answers and dismisses questionnaires, for the user who is there")
    func questionnaires() async throws {
        try configure()
        let user = try #require(Owl.currentUserId)
        async let offer = Owl.fetchQuestionnaire(slug: "how are/you", force: true)
        let asked = await answer(
            .json(
                200,
                [
                    "eligible": true, "in_progress": ["response_id": "r", "answers": ["q1": 3]],
                    "questionnaire": ["id": "1", "slug": "how", "name": "How", "schema": ["questions": []]],
                ]))
        #expect(asked?.method == "GET")
        #expect(
            asked?.url.absoluteString
                == "https://onym.test/v1/questionnaires/how%20are%2Fyou?bundle_id=com.example&user_id=\(user)&force=true"
        )
        #expect(try await offer?.answers == ["q1": 3])
        async let none = Owl.fetchQuestionnaire(slug: "how")
        _ = await answer(.json(200, ["eligible": false, "reason": "already_responded"]))
        #expect(try await none == nil)
        async let isSubmitted = Owl.saveQuestionnaireResponse(
            slug: "how", answers: ["q1": 4, "q2": .null], isComplete: true)
        let answered = await answer(.json(201, ["id": "r", "was_submitted": true]))
        #expect(try await isSubmitted)
        #expect(answered?.json["answers"] == ["q1": 4, "q2": .null] && answered?.json["is_complete"] == true)
        #expect(answered?.json["user_id"] == .string(user) && answered?.path == "/v1/questionnaires/how/responses")
        async let dismissal: Void = Owl.dismissQuestionnaires()
        let dismissed = await answer(.json(200, ["dismissed_at": "2027-01-15T09:00:00.000Z"]))
        try await dismissal
        #expect(dismissed?.json == ["bundle_id": "com.example", "user_id": .string(user)])
        async let feedback = Owl.sendFeedback(message: "good", name: "N")
        let sent = await answer(.json(201, ["id": "f"]))
        #expect(try await feedback.id == "f" && sent?.json["submitter_name"] == "N" && sent?.json["message"] == "good")
    }

    @Test("feedback has a receipt, and errors of its own")
    func feedback() async throws {
        try configure()
        async let receipt = Owl.sendFeedback(message: " good ")
        let sent = await answer(.json(201, ["id": "f", "created_at": "2027-01-15T09:00:00.500Z"]))
        let got = try await receipt
        #expect(got.id == "f" && got.createdAt == Date(timeIntervalSince1970: 1_800_003_600.5))
        #expect(sent?.json["message"] == "good")
        await #expect(throws: OwlFeedbackError.emptyMessage) { try await Owl.sendFeedback(message: " \n") }
        // The body is the answer as it came, as with the vendor's SDK.
        let words: JSON = ["error": "submitter_email is not a valid email address", "more": [1]]
        for (answered, body) in [
            (.json(400, words), String(decoding: words.bytes, as: UTF8.self)),
            (.bytes(502, "<html>no</html>"), "<html>no</html>"), (.bytes(503, ""), nil),
        ] as [(ScriptedTransport.Answer, String?)] {
            let refused = Task { try await Owl.sendFeedback(message: "m", email: "nonsense") }
            _ = await answer(answered)
            let error = await #expect(throws: OwlFeedbackError.self) { try await refused.value }
            guard case .serverError(let status, let text)? = error else {
                Issue.record("\(String(describing: error))")
                continue
            }
            #expect([400, 502, 503].contains(status) && text == body)
            #expect(error?.localizedDescription == "The server answered \(status)\(body.map { ": \($0)" } ?? ".")")
        }
        let lost = Task { try await Owl.sendFeedback(message: "m") }
        _ = await answer(.fault(.offline))
        await #expect(throws: OwlFeedbackError.transportFailure(OnymError.offline.description)) { try await lost.value }
        let end = Task { await Owl.shutdown() }
        _ = await answer(.json(200, ["accepted": 1, "rejected": 0]))
        await end.value
        await #expect(throws: OwlFeedbackError.notConfigured) { try await Owl.sendFeedback(message: "m") }
    }

    @Test(
        "a token of the app's own counts as sent exactly for an answer that is not pending",
        arguments: [
            (200, ["properties": ["attribution_source": "none"]], true), (200, ["pending": true], false),
            (400, ["error": "no"], false), (503, ["error": "no"], false),
        ] as [(Int, JSON, Bool)])
    func token(status: Int, body: JSON, isSent: Bool) async throws {
        try configure()
        async let outcome = Owl.sendAppleSearchAdsAttributionToken("TOKEN")
        let sent = await answer(.json(status, body))
        #expect(sent?.json["attribution_token"] == "TOKEN" && sent?.json["user_id"] == .string(Owl.currentUserId ?? ""))
        #expect(await outcome == isSent)
    }

    @Test("attachments have the file's name, and the type of its ending")
    func attachments() {
        let file = URL(filePath: "/tmp/Trace.LOG")
        #expect(
            OwlAttachment(fileURL: file).name == "Trace.LOG" && OwlAttachment(fileURL: file).contentType == "text/plain"
        )
        #expect(OwlAttachment(fileURL: file, name: "a.png").contentType == "image/png")
        #expect(OwlAttachment(fileURL: file, contentType: "a/b").contentType == "a/b")
        #expect(OwlAttachment(data: Data(), name: "a.unknown").contentType == "application/octet-stream")
        #expect(OwlAttachment(data: Data(), name: "a.json").contentType == "application/json")
    }

    @Test("an error tells what it came of")
    func causes() throws {
        try configure()
        let root = NSError(domain: "root", code: 7)
        let outer = NSError(domain: "outer", code: 3, userInfo: [NSUnderlyingErrorKey: root])
        // The app's attributes do not replace what the SDK says of the error.
        Owl.error(outer, attributes: ["a": "b", "_error_code": "app"])
        Owl.setUser("u")
        let event = transport.answer(.json(200, ["accepted": 2]))?.json["events"]?.elements?.last
        let attributes = event?["custom_attributes"]
        #expect(attributes?["_error_domain"] == "outer" && attributes?["_error_code"] == "3" && attributes?["a"] == "b")
        #expect(attributes?["_error_cause_1_domain"] == "root" && attributes?["_error_cause_1_code"] == "7")
        #expect(event?["level"] == "error")
    }

    @Test("an error has the app's own words, if there are any")
    func words() throws {
        try configure()
        let error = NSError(domain: "d", code: 1, userInfo: [NSLocalizedDescriptionKey: "its own"])
        Owl.error(error, "while loading photos", attributes: ["a": nil, "b": "c"])
        Owl.error(error, " \n")
        Owl.error(error)
        Owl.setUser("u")
        let events = transport.answer(.json(200, ["accepted": 4]))?.json["events"]?.elements?.dropFirst() ?? []
        #expect(events.map { $0["message"] } == ["while loading photos", "its own", "its own"])
        #expect(events.allSatisfy { $0["custom_attributes"]?["_error_domain"] == "d" && $0["level"] == "error" })
        let attributes = events.first?["custom_attributes"]?.members
        #expect(attributes?["b"] == "c" && attributes?.keys.contains("a") == false)
    }

    @Test("attributes without a value are left out, and the events of an operation have its id")
    func attributes() throws {
        try configure()
        let (coupon, plan): (String?, String?) = (nil, "pro")
        Owl.info("a", attributes: ["coupon": coupon, "plan": plan])
        Owl.step("b", attributes: ["coupon": coupon])
        Owl.recordMetric("c", attributes: ["coupon": coupon])
        let operation = Owl.startOperation("d", attributes: ["coupon": coupon, "plan": plan])
        operation.complete()
        Owl.setUser("u")
        let events = transport.answer(.json(200, ["accepted": 6]))?.json["events"]?.elements?.dropFirst() ?? []
        let sent = events.map { $0["custom_attributes"]?.members ?? [:] }
        #expect(sent.count == 5 && sent.allSatisfy { $0["coupon"] == nil })
        #expect(sent.first?["plan"] == "pro" && sent.dropFirst(3).first?["plan"] == "pro")
        #expect(sent.suffix(2).allSatisfy { $0["tracking_id"]?.text == operation.trackingId })
    }

    @Test("the device keeps its variant of an experiment, and goes on with the vendor's")
    func experiments() throws {
        let suite = "onym.owl.\(UUID().uuidString)"
        let defaults = try #require(UserDefaults(suiteName: suite))
        defer { defaults.removePersistentDomain(forName: suite) }
        let vendor = MemoryVendorStore(keychain: ["com.owlmetry.experiments/assignments": #"{"old":"b"}"#])
        let first = Experiments(defaults, vendor)
        #expect(first.variant(of: "none", []) == "")
        #expect(first.variant(of: "old", ["a"]) == "b")
        let chosen = first.variant(of: "new", ["x", "y"])
        #expect(["x", "y"].contains(chosen))
        first.set("z", of: "forced")
        let later = Experiments(defaults, MemoryVendorStore())
        #expect(later.variant(of: "new", ["other"]) == chosen && later.variant(of: "old", ["other"]) == "b")
        #expect(later.variant(of: "forced", ["other"]) == "z")
        let many = Set((0..<64).map { later.variant(of: "\($0)", ["x", "y"]) })
        #expect(many == ["x", "y"], "chance chooses")
        later.clear()
        // The vendor's variants are gone, too.
        #expect(Experiments(defaults, vendor).variant(of: "old", ["a"]) == "a")
    }

    @Test("a variant may be asked for before the start")
    func variants() {
        Owl.setExperiment("onym-test", variant: "short")
        #expect(Owl.getVariant("onym-test", options: ["long"]) == "short")
        Owl.clearExperiments()
        #expect(Owl.getVariant("onym-test", options: ["long"]) == "long")
        Owl.clearExperiments()
    }

    @Test("goes on with the ids of OwlMetry's SDK")
    func imports() throws {
        let store = MemoryVendorStore(
            ["owlmetry.userId": "ada"], keychain: ["com.owlmetry.sdk/anonymousId": "owl_anon_A"])
        try Owl.configure(
            endpoint: "https://onym.test", apiKey: "owl_client_k", bundleID: "com.example", attributionEnabled: false
        ) {
            let imports = $0.imports
            $0 = Bench.configuration($0.keys)
            ($0.imports, $0.vendorStore) = (imports, store)
            ($0.transport, $0.time, $0.files) = (transport, ManualTime(), files)
        }
        #expect(Owl.currentUserId == "ada" && Owl.core?.claimAnonymousUser == "owl_anon_A")
    }

    @Test("says where it was called from")
    func source() throws {
        try configure()
        Owl.warn("here")
        Owl.setUser("u")
        let event = transport.answer(.json(200, ["accepted": 2]))?.json["events"]?.elements?.last
        #expect(event?["source_module"]?.text?.hasPrefix("OwlTests.swift:source():") == true)
        #expect(event?["custom_attributes"]?["_function"] == "source()")
    }

    @Test("steps, metrics and operations say where they were called from, and a failure is an error")
    func sources() throws {
        try configure()
        Owl.step("a")
        Owl.recordMetric("b")
        let operation = Owl.startOperation("c")
        operation.complete()
        operation.cancel()
        operation.fail(error: "no")
        Owl.setUser("u")
        let events = transport.answer(.json(200, ["accepted": 7]))?.json["events"]?.elements?.dropFirst() ?? []
        #expect(events.map { $0["level"] } == ["info", "info", "info", "info", "info", "error"])
        for event in events {
            #expect(event["source_module"]?.text?.hasPrefix("OwlTests.swift:sources():") == true)
        }
    }

    @Test("names of steps and metrics are slugs, as with the vendor's SDK")
    func slugs() throws {
        try configure()
        let user = try #require(Owl.currentUserId)
        Owl.step("Cart: opened")
        Owl.step("注册")
        Owl.recordMetric("demo_app_opened")
        Owl.startOperation("--Load  Ünit 2!").cancel()
        Owl.setUser("u")
        var said: [String] = []
        drain(&said)
        #expect(
            said.dropFirst() == [
                "\(user): step:cart-opened", "\(user): step:注册", "\(user): metric:demo-app-opened:record",
                "\(user): metric:load-nit-2:start", "\(user): metric:load-nit-2:cancel", "/v1/identity/claim",
            ])
    }
}
