import ByteText
import Crypto
import Domain
import Foundation
import Gateway
import Program

/// A call, ready for the wire.
struct MadeCall {
    let deed: Deed
    let method: String
    let path: String
    var fields: [(String, String)]
    let body: String?
    var type = "application/json"
    /// What the answer teaches the world.
    var about: [String: String] = [:]

    /// - Parameter chunk: the length of the chunks of the body; nil for a body with its length in the head.
    func bytes(id: String, chunk: Int? = nil) -> [UInt8] {
        var head = "\(method) \(path) HTTP/1.1\r\nHost: world\r\nX-Request-Id: \(id)\r\n"
        for (name, value) in fields { head += "\(name): \(value)\r\n" }
        if let body, let chunk {
            head += "Content-Type: \(type)\r\nTransfer-Encoding: chunked\r\n\r\n"
            var (bytes, rest) = (Array(head.utf8), Array(body.utf8)[...])
            while !rest.isEmpty {
                let piece = rest.prefix(chunk)
                bytes += Array("\(String(piece.count, radix: 16))\r\n".utf8) + piece + Array("\r\n".utf8)
                rest = rest.dropFirst(chunk)
            }
            return bytes + Array("0\r\n\r\n".utf8)
        }
        if let body { head += "Content-Type: \(type)\r\nContent-Length: \(body.utf8.count)\r\n" }
        return Array((head + "\r\n" + (body ?? "")).utf8)
    }
}

/// What callers of a world know: names, and what the server has told them.
struct Knowledge {
    var known: [String: [String]] = [:]
    /// The moment at which a code was made, by the server's wall clock.
    var madeAt: [String: Int64] = [:]
    private var made = 0

    mutating func fresh(_ prefix: String) -> String {
        made += 1
        return "\(prefix)\(made)"
    }

    mutating func learn(_ kind: String, _ value: String?) {
        guard let value, known[kind]?.contains(value) != true else { return }
        known[kind, default: []].append(value)
    }

    mutating func forget(_ kind: String, _ value: String) { known[kind]?.removeAll { $0 == value } }
}

/// Makes calls of all five surfaces from chance and knowledge.
struct CallMaker {
    let credentials: ProjectPlan.Credentials
    let receipts: TestReceipts
    /// Whether a restore takes a purchase from its owner in this project. Otherwise both own it.
    let transfersPurchases: Bool

    private static let users = ["ada", "bob", "cleo", "dan", "eve"]
    private static let products = ["X", "Y"]

    /// A call of a deed; nil if the world does not know what the call needs.
    func make(
        _ deed: Deed, _ chance: inout Chance, _ knowledge: inout Knowledge, wall: Instant
    ) -> MadeCall? {
        let know = knowledge
        func some(_ kind: String) -> String? { know.known[kind].flatMap { chance.pick($0) } }
        func user() -> String { chance.pick(CallMaker.users) ?? "ada" }
        func email() -> String { "\(user())@example.com" }
        func device() -> String { "device-\(chance.below(4))" }
        func anonymous() -> String { "owl_anon_\(chance.below(6))" }
        func access() -> String { "QON_\(String(repeating: "abcdef"[chance.below(6)], count: 32))" }
        func admin(_ method: String, _ path: String, _ body: String? = "{}", about: [String: String] = [:]) -> MadeCall
        {
            call(deed, method, "/onym/v1" + path, body, credentials.adminKey, about)
        }
        func claim(_ method: String, _ path: String, _ body: String?, agent: Bool = false) -> MadeCall {
            call(deed, method, path, body, agent ? credentials.claimAgentKey : credentials.claimClientKey)
        }
        func entitled(_ method: String, _ path: String, _ body: String?, secret: Bool = false) -> MadeCall {
            call(
                deed, method, path, body,
                "test_" + (secret ? credentials.entitlementsSecretKey : credentials.entitlementsProjectKey))
        }
        switch deed {
        case .identify, .search:
            var names: [String] = []
            if chance.oneIn(2) { names.append(#""customerid":"\#(user())""#) }
            if chance.oneIn(3) { names.append(#""email":"\#(email())""#) }
            if deed == .identify, chance.oneIn(5) { names.append(#""other":"\#(knowledge.fresh("gone-"))x""#) }
            if names.isEmpty || chance.oneIn(2) { names.append(#""ios_idfv":"\#(device())""#) }
            let name = deed == .search ? "search" : chance.pick(["identify", "login", "logout"]) ?? "identify"
            let body = #"{"environment":"development","known_identities":{\#(names.joined(separator: ","))}}"#
            return MadeCall(
                deed: deed, method: "POST", path: "/v1/\(name)", fields: [("x-mp-key", credentials.idsyncWebKey)],
                body: body)
        case .modify:
            guard let person = some("mpid") else { return nil }
            let old = chance.oneIn(2) ? #""old_value":"\#(email())","# : ""
            return MadeCall(
                deed: deed, method: "POST", path: "/v1/\(person)/modify",
                fields: [("x-mp-key", credentials.idsyncWebKey)],
                body:
                    #"{"environment":"development","identity_changes":[{"identity_type":"email",\#(old)"new_value":"\#(email())"}]}"#
            )
        case .alias:
            guard let from = some("mpid"), let to = some("mpid"), from != to else { return nil }
            let now = wall.milliseconds
            return MadeCall(
                deed: deed, method: "POST", path: "/v1/identity/\(credentials.idsyncWebKey)/alias",
                fields: [("x-mp-key", credentials.idsyncWebKey)],
                body: """
                    {"request_type":"alias","environment":"development","data":{"source_mpid":"\(from)",\
                    "destination_mpid":"\(to)","start_unixtime_ms":\(now - 3_600_000),"end_unixtime_ms":\(now - 1000)}}
                    """)
        case .undoAlias: return some("alias").map { admin("POST", "/aliases/\($0)/undo") }
        case .upload:
            guard let person = some("mpid") else { return nil }
            return MadeCall(
                deed: deed, method: "POST", path: "/v3/JS/\(credentials.idsyncWebKey)/events", fields: [],
                body: """
                    {"mpid":"\(person)","n":"click \(chance.below(9))","dt":4,"et":1,"ct":\(wall.milliseconds),\
                    "das":"\(device())","dbg":true,"sdk":"2.0","sid":"s"}
                    """)
        case .badUpload:
            return MadeCall(
                deed: deed, method: "POST", path: "/v3/JS/\(credentials.idsyncWebKey)/events", fields: [],
                body: #"{"n":"of nobody \#(chance.below(9))","dt":4,"et":1,"dbg":true,"sdk":"2.0","sid":"s"}"#)
        case .claim:
            return claim(
                "POST", "/v1/identity/claim", #"{"anonymous_id":"\#(anonymous())","user_id":"\#(user())"}"#)
        case .ingest:
            // An event may arrive again.
            let known = chance.oneIn(4) ? some("event") : nil
            let id = known ?? uuid(&chance)
            let level = chance.oneIn(3) ? "error" : "info"
            let event = event(id, of: chance.oneIn(2) ? anonymous() : user(), level, &chance)
            var call = claim("POST", "/v1/ingest", #"{"bundle_id":"com.example.demo","events":[\#(event)]}"#)
            // An error is an occurrence of an issue too.
            call.about = ["event": id, "rows": level == "error" ? "2" : "1"]
            return call
        case .importEvents:
            // The event may be known, and then it gets another content and another user.
            let events = (0...chance.below(3)).map { _ in
                let id = (chance.oneIn(3) ? nil : some("event")) ?? uuid(&chance)
                let level = chance.oneIn(2) ? "error" : "warn"
                return event(id, of: chance.oneIn(2) ? anonymous() : user(), level, &chance)
            }
            return call(
                deed, "POST", "/v1/import", #"{"events":[\#(events.joined(separator: ","))]}"#,
                credentials.claimImportKey)
        case .properties:
            return claim(
                "POST", "/v1/identity/properties",
                #"{"user_id":"\#(user())","properties":{"plan":"p\#(chance.below(4))"}}"#)
        case .define:
            let slug = knowledge.fresh("metric-")
            return admin("PUT", "/metrics/\(slug)", #"{"name":"\#(slug)"}"#)
        case .feedback:
            return claim(
                "POST", "/v1/feedback",
                #"{"message":"m\#(chance.below(9))","user_id":"\#(user())","bundle_id":"com.example.demo"}"#)
        case .deleteFeedback, .comment, .review, .editComment:
            guard let project = some("claim_project"), let feedback = some("feedback") else { return nil }
            let path = "/v1/projects/\(project)/feedback/\(feedback)"
            switch deed {
            case .deleteFeedback:
                // Only administrators may.
                let key = chance.oneIn(4) ? credentials.claimAgentKey : credentials.adminKey
                return call(deed, "DELETE", path, nil, key)
            case .review: return claim("PATCH", path, #"{"status":"in_review"}"#, agent: true)
            case .comment:
                var call = claim("POST", path + "/comments", #"{"body":"c\#(chance.below(9))"}"#, agent: true)
                call.about = ["feedback": feedback]
                return call
            default:
                guard let comment = some("comment"), let parts = Optional(comment.split(separator: " ")),
                    parts.count == 2
                else { return nil }
                return claim(
                    "PATCH", "/v1/projects/\(project)/feedback/\(parts[0])/comments/\(parts[1])",
                    #"{"body":"changed \#(chance.below(9))"}"#, agent: true)
            }
        case .questionnaire:
            return admin(
                "PUT", "/questionnaires/nps",
                """
                {"name":"NPS","schema":{"version":1,"questions":[{"id":"q","type":"nps","title":"T\(chance.below(3))",\
                "required":true}]}}
                """)
        case .respond:
            return claim(
                "POST", "/v1/questionnaires/nps/responses",
                #"{"bundle_id":"com.example.demo","user_id":"\#(user())","answers":{"q":\#(chance.below(10))},"is_complete":true}"#
            )
        case .reviewResponse:
            guard let project = some("claim_project"), let survey = some("questionnaire"), let id = some("response")
            else { return nil }
            let path = "/v1/projects/\(project)/questionnaires/\(survey)/responses/\(id)"
            if chance.oneIn(4) { return call(deed, "DELETE", path, nil, credentials.adminKey) }
            return claim("PATCH", path, #"{"status":"in_review"}"#, agent: true)
        case .issueStatus, .mergeIssues, .partIssues:
            guard let project = some("claim_project"), let issue = some("issue") else { return nil }
            let path = "/v1/projects/\(project)/issues/\(issue)"
            if deed == .issueStatus {
                let status = chance.pick(["in_progress", "silenced", "new"]) ?? "new"
                return claim("PATCH", path, #"{"status":"\#(status)"}"#, agent: true)
            }
            guard let source = some("issue"), source != issue else { return nil }
            if deed == .partIssues { return claim("DELETE", path + "/merges/\(source)", nil, agent: true) }
            return claim("POST", path + "/merge", #"{"source_issue_id":"\#(source)"}"#, agent: true)
        case .retention:
            guard let project = some("claim_project") else { return nil }
            return call(
                deed, "PATCH", "/v1/projects/\(project)", #"{"retention_days_events":\#(3 + chance.below(20))}"#,
                credentials.adminKey)
        case .reserve:
            let number = chance.below(CallMaker.contents.count)
            let content = Array(CallMaker.contents[number].utf8)
            let digest = Hexadecimal.encode(SHA256.digest(of: content).bytes)
            let user = chance.oneIn(3) ? "" : #","user_id":"\#(user())""#
            var call = claim(
                "POST", "/v1/ingest/attachment",
                """
                {"client_event_id":"\(some("event") ?? uuid(&chance))"\(user),"original_filename":"a.txt",\
                "content_type":"text/plain","size_bytes":\(content.count),"sha256":"\(digest)"}
                """)
            call.about = ["content": "\(number)"]
            return call
        case .storeFile:
            // The files that are told first are often sent already.
            guard let file = some("reserved")?.split(separator: " "), let number = Int(file[1]) else { return nil }
            let content = CallMaker.contents[chance.oneIn(12) ? 0 : number]
            var call = claim("PUT", "/v1/ingest/attachment/\(file[0])", content)
            call.type = "application/octet-stream"
            call.about = ["content": "\(number)"]
            return call
        case .readFile:
            guard let file = some("file")?.split(separator: " ") else { return nil }
            return MadeCall(
                deed: deed, method: "GET", path: String(file[1]), fields: [], body: nil,
                about: ["content": String(file[2])])
        case .deleteFile:
            guard let file = some("file")?.split(separator: " ") else { return nil }
            return call(deed, "DELETE", "/v1/attachments/\(file[0])", nil, credentials.adminKey)
        case .accessUser: return entitled("POST", "/v3/users/\(access())", #"{"environment":"sandbox"}"#)
        case .accessIdentity:
            guard let id = some("access") else { return nil }
            return entitled("POST", "/v3/identities/\(user())", #"{"user_id":"\#(id)"}"#)
        case .grant, .revoke:
            guard let id = some("access") else { return nil }
            let product = chance.pick(CallMaker.products) ?? "X"
            if deed == .revoke {
                return entitled("DELETE", "/v3/users/\(id)/entitlements/\(product)", nil, secret: true)
            }
            let until = wall.milliseconds / 1000 + 3600
            return entitled(
                "POST", "/v3/users/\(id)/entitlements", #"{"id":"\#(product)","expires":\#(until)}"#, secret: true)
        case .purchase, .restore:
            guard let id = some("access"), let product = chance.pick(CallMaker.products) else { return nil }
            let transaction = "t\(chance.below(5))"
            var payload = TestReceipts.Payload(
                project: ProjectID(rawValue: 1), product: product, transaction: transaction, purchasedAt: wall)
            payload.account = chance.oneIn(2) ? "account-\(chance.below(3))" : nil
            payload.expiresAt = wall.advanced(byMilliseconds: 86_400_000)
            let receipt = receipts.receipt(payload)
            if deed == .restore {
                return entitled("POST", "/v3/users/\(id)/restore", #"{"transactions":["\#(receipt)"]}"#)
            }
            var call = entitled(
                "POST", "/v3/users/\(id)/purchases",
                #"{"price":"9.99","currency":"usd","purchased":\#(wall.milliseconds / 1000),"app_store_data":{"receipt":"\#(receipt)"}}"#
            )
            call.about = ["transaction": transaction]
            return call
        case .accessProperties:
            guard let id = some("access") else { return nil }
            return entitled(
                "POST", "/v3/users/\(id)/properties", #"[{"key":"plan","value":"p\#(chance.below(4))"}]"#)
        case .attribution:
            guard let id = some("access") else { return nil }
            return call(
                deed, "POST", "/attribution",
                """
                {"install_date":"1700000000","q_uid":"\(id)","client_uid":"\(id)","version":"6.13.0","debug_mode":1,\
                "device":{"os":"ios","device_id":"d"},"provider_data":{"provider":"p\(chance.below(3))","d":{}}}
                """, "test_" + credentials.entitlementsProjectKey)
        case .storeOptions:
            return admin("PUT", "/stores", #"{"app_store":{"app_id":\#(1 + chance.below(9))}}"#)
        case .catalog:
            let product = chance.pick(CallMaker.products) ?? "X"
            if chance.oneIn(2) { return admin("PUT", "/entitlements/\(product)", #"{"name":"\#(product)"}"#) }
            return admin(
                "PUT", "/products/\(product)",
                #"{"type":"subscription","duration_seconds":\#(86_400 * (1 + chance.below(30))),"entitlements":["\#(product)"]}"#
            )
        case .transfer:
            guard let transaction = some("transaction"), let id = some("access") else { return nil }
            return admin("POST", "/transfers", #"{"transaction":"\#(transaction)","to":"sandbox_user_id:\#(id)"}"#)
        case .undoTransfer: return some("transfer").map { admin("POST", "/transfers/\($0)/undo") }
        case .install:
            return MadeCall(
                deed: deed, method: "POST", path: "/sdk/installs", fields: [],
                body: """
                    {"app_id":"\(credentials.linkingAppID)","secret":"\(credentials.linkingAppSecret)",\
                    "device":{"class":"phone","os":"android"},"sdk":{"version":"1.0"}}
                    """)
        case .link:
            guard let install = some("install") else { return nil }
            return call(
                deed, "POST", "/v2/users/\(install)/link", #"{"external_id":"\#(user())"}"#, credentials.linkingKey)
        case .code:
            return call(
                deed, "POST", "/users/auth-code", #"{"external_id":"\#(user())"}"#, credentials.linkingKey)
        case .redeem:
            guard let code = some("code") else { return nil }
            let key = uuid(&chance)
            return MadeCall(
                deed: deed, method: "POST", path: "/sdk/users", fields: [],
                body: #"{"authentication_code":"\#(code)","install_key":"\#(key)","device":{"class":"phone"}}"#,
                about: ["code": code])
        case .late:
            guard let code = some("code"), let token = some("token") else { return nil }
            return call(
                deed, "POST", "/sdk/users/link", #"{"authentication_code":"\#(code)"}"#, token, ["code": code])
        case .hard: return some("token").map { call(deed, "POST", "/sdk/link-legacy-install", "{}", $0) }
        case .refresh:
            guard let token = some("refresh") else { return nil }
            return MadeCall(
                deed: deed, method: "POST", path: "/sdk/token", fields: [],
                body: #"{"grant_type":"refresh_token","refresh_token":"\#(token)"}"#)
        case .check: return some("token").map { call(deed, "GET", "/sdk/person", nil, $0) }
        case .rows:
            guard let token = some("token") else { return nil }
            let at = time(wall)
            return call(
                deed, "POST", "/sdk/events",
                #"{"events":[{"id":"\#(uuid(&chance))","type":"trip","captured_at":"\#(at)","data":{"n":1}}]}"#, token)
        case .reset: return some("token").map { call(deed, "POST", "/sdk/reset", "{}", $0) }
        case .deleteUser:
            guard let install = some("install"), chance.oneIn(3) else { return nil }
            return call(deed, "DELETE", "/users/\(install)", nil, credentials.linkingKey)
        case .disable:
            return some("install").map { admin("PUT", "/installs/\($0)", #"{"disabled":\#(chance.oneIn(2))}"#) }
        case .linkingSettings: return admin("PUT", "/linking", #"{"code_seconds":\#(300 + chance.below(300))}"#)
        case .linkingApp: return admin("POST", "/linking/apps", #"{"name":"\#(knowledge.fresh("app "))"}"#)
        case .linkingKey:
            guard let app = some("linking_app") else { return nil }
            return admin(
                "POST", "/linking/keys",
                #"{"app_id":"\#(app)","name":"\#(knowledge.fresh("key "))","scopes":["user.link"]}"#)
        case .revokeLinkingKey: return some("linking_key").map { admin("POST", "/linking/keys/\($0)/revoke") }
        case .identifyUser:
            return call(
                deed, "POST", "/onym/v1/identify", #"{"kind":"login","ids":{"customerid":"\#(user())"}}"#,
                credentials.onymServerKey)
        case .merge:
            guard let from = some("mpid"), let into = some("mpid"), from != into else { return nil }
            return admin("POST", "/merges", #"{"from":"\#(from)","into":"\#(into)"}"#)
        case .undoMerge: return some("merge").map { admin("POST", "/merges/\($0)/undo") }
        case .split:
            guard let person = some("mpid") else { return nil }
            return admin(
                "POST", "/people/\(person)/split", #"{"identities":[{"type":"email","value":"\#(email())"}]}"#)
        case .undoSplit: return some("split").map { admin("POST", "/splits/\($0)/undo") }
        case .undoCall: return some("sequence").map { admin("POST", "/calls/\($0)/undo") }
        case .attach:
            return some("mpid").map {
                admin("POST", "/people/\($0)/identities", #"{"type":"email","value":"\#(email())"}"#)
            }
        case .detach: return some("mpid").map { admin("DELETE", "/people/\($0)/identities/email/\(email())", nil) }
        case .releaseDevice: return admin("POST", "/devices/ios_idfv/\(device())/release")
        case .sameUsers: return admin("POST", "/same-user-ids", nil)
        case .erase:
            guard let person = some("gone"), chance.oneIn(2) else { return nil }
            return admin("DELETE", "/people/other:\(person)", nil, about: ["gone": person])
        case .strategy, .joinUsers:
            let preset = chance.pick(["default", "profile_link", "profile_conversion", "best_match"]) ?? "default"
            return strategy(preset, joinsUserIDs: deed == .joinUsers)
        case .makeKey:
            return admin("POST", "/keys", #"{"kind":"admin","name":"\#(knowledge.fresh("key "))"}"#)
        case .revokeKey:
            return some("key").map { key in
                let parts = key.split(separator: " ").map(String.init)
                return admin("DELETE", "/keys/\(parts[0])", nil, about: ["key": key])
            }
        case .signingKey: return admin("POST", "/signing-keys", #"{"name":"\#(knowledge.fresh("signing "))"}"#)
        case .retireSigningKey: return some("signing").map { admin("DELETE", "/signing-keys/\($0)", nil) }
        case .webhook:
            return admin("POST", "/webhooks", #"{"url":"https://hooks.example.com/w","kinds":["person.merged"]}"#)
        case .removeWebhook: return some("webhook").map { admin("DELETE", "/webhooks/\($0)", nil) }
        case .config: return admin("PUT", "/client-config", #"{"web":{"n":\#(chance.below(9))}}"#)
        case .startImport: return admin("POST", "/imports", #"{"name":"\#(knowledge.fresh("import "))"}"#)
        case .importRecords:
            guard let id = some("import") else { return nil }
            let number = 7_000_000 + chance.below(50)
            let lines = [
                #"{"kind":"header","onym":1,"form":"facts","at":"\#(time(wall))"}"#,
                #"{"kind":"person","id":"\#(number)","made":"2024-03-01T08:00:00.000Z"}"#,
                #"{"kind":"link","person":"\#(number)","type":"other2","value":"imported-\#(number)","since":"2024-03-01T08:00:00.000Z"}"#,
            ]
            return admin("POST", "/imports/\(id)/batches?position=0", lines.joined(separator: "\n"))
        case .finishImport: return some("import").map { admin("POST", "/imports/\($0)/finish") }
        case .undoImport: return some("import").map { admin("POST", "/imports/\($0)/undo") }
        case .changes: return admin("GET", "/changes?after=\(chance.below(20))&limit=\(1 + chance.below(50))", nil)
        case .person: return some("mpid").map { admin("GET", "/people/\($0)", nil) }
        }
    }

    /// A call that sets the project's strategy, and whether equal user ids in several dialects are one person.
    func strategy(_ preset: String, joinsUserIDs: Bool = false) -> MadeCall {
        let restore = transfersPurchases ? #","restore":{"production":"transfer","sandbox":"transfer"}"# : ""
        return call(
            joinsUserIDs ? .joinUsers : .strategy, "PUT", "/onym/v1/strategy",
            #"{"preset":"\#(preset)"\#(restore),"same_user_id":\#(joinsUserIDs)}"#, credentials.adminKey)
    }

    /// The files that callers send: some are larger than a page of the disk.
    static let contents = (0..<5).map { String(repeating: "content \($0) ", count: 1 << ($0 * 3)) }

    private static let messages = ["disk is full", "no answer", "out of range", "not found", "timed out"]

    private func event(_ id: String, of user: String, _ level: String, _ chance: inout Chance) -> String {
        let message = chance.pick(CallMaker.messages) ?? "no answer"
        return """
            {"client_event_id":"\(id)","user_id":"\(user)","session_id":"6F9619FF-8B86-D011-B42D-00CF4FC964F\(chance.below(9))",\
            "level":"\(level)","message":"\(message)"}
            """
    }

    private func call(
        _ deed: Deed, _ method: String, _ path: String, _ body: String?, _ key: String, _ about: [String: String] = [:]
    ) -> MadeCall {
        MadeCall(
            deed: deed, method: method, path: path, fields: [("Authorization", "Bearer \(key)")], body: body,
            about: about)
    }

    private func uuid(_ chance: inout Chance) -> String {
        let digits = (0..<2).map { _ in String(chance.next() | 1 << 63, radix: 16, uppercase: true) }.joined()
        let parts = Array(digits)
        return [0..<8, 8..<12, 12..<16, 16..<20, 20..<32].map { String(parts[$0]) }.joined(separator: "-")
    }

    private func time(_ wall: Instant) -> String {
        let formatter = ISO8601DateFormatter()
        formatter.formatOptions = [.withInternetDateTime, .withFractionalSeconds]
        return formatter.string(from: Date(timeIntervalSince1970: Double(wall.milliseconds) / 1000))
    }
}

extension String {
    fileprivate subscript(_ place: Int) -> Character { self[index(startIndex, offsetBy: place)] }
}
