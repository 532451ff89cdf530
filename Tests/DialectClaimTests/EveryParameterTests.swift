import ByteText
import Crypto
import Foundation
import TestKit
import Testing

/// Every parameter of every GET call of the dialect, as the server describes itself (spec/claim-reads.md, decision 10): a value counts, or
/// the call refuses it, or the documentation says that it has no effect.
@Suite("Every parameter of every read")
struct EveryParameterTests {
    /// What a call does with the values of a parameter.
    private struct Rule {
        /// A value that changes the answer; nil where other tests show the effect.
        var effect: String?
        /// A value that the call refuses; nil for none.
        var refused: String?
        /// The refusal has this text; the parameter's name by itself.
        var text: String?
        var status = 400
        /// Values without an effect, as the documentation says.
        var passedOver: [String] = []
    }

    /// The rule of a parameter; nil for an unknown parameter.
    private static func rule(_ name: String, of path: String) -> Rule? {
        let isOffer = path == "/v1/questionnaires/{slug}"
        let isOfIssues = path.contains("issues")
        switch name {
        case "user_id": return Rule(effect: isOffer ? "ada" : "zzz", refused: "")
        case "team_id", "project_id", "app_id", "session_id", "environment", "screen_name", "event_id",
            "event_client_id", "issue_id", "tracking_id", "app_version", "device_model", "os_version":
            return Rule(effect: "zzz", refused: "")
        case "since": return Rule(effect: "2100-01-01", refused: "x", text: "Invalid time input")
        case "until": return Rule(effect: "1990-01-01", refused: "x", text: "Invalid time input")
        case "is_dev", "is_anonymous", "submitted_only": return Rule(effect: "true", refused: "banana")
        case "is_active": return Rule(effect: "false", refused: "banana")
        case "force": return Rule(refused: "banana")
        case "level":
            return Rule(effect: "debug", refused: "loud", text: "Unknown log level(s): loud", passedOver: [""])
        case "mode": return Rule(effect: "closed", refused: "half")
        case "status" where isOfIssues: return Rule(effect: "resolved", passedOver: ["x", ""])
        case "status": return Rule(effect: "dismissed", refused: "x")
        case "group_by" where path.contains("funnels"): return Rule(effect: "app_version", refused: "")
        case "group_by": return Rule(effect: "app_version", refused: "x")
        case "bundle_id": return Rule(refused: "com.example.none", status: 403)
        case "t": return Rule(refused: "x", text: "Invalid or expired download token", status: 401)
        case "data_mode": return Rule(effect: "development", passedOver: ["x", ""])
        case "search": return Rule(effect: "zzz", passedOver: [""])
        case "billing_status": return Rule(effect: "paid", passedOver: ["x", ""])
        case "phase": return Rule(effect: "fail", passedOver: ["x", ""])
        case "limit", "occurrence_limit": return Rule(passedOver: ["x", "", "0"])
        case "cursor", "occurrence_cursor", "sort", "order": return Rule(passedOver: ["x", ""])
        default: return nil
        }
    }

    /// A server with something for each read.
    private struct Place {
        let client: OwlClient
        private var ids: [String: String] = [:]

        init(_ kind: StoreKind) throws {
            client = try OwlClient(kind)
            let (admin, agent) = (client.server.credentials.adminKey, client.server.credentials.claimAgentKey)
            let project = try client.project()
            let device = #","environment":"ios","app_version":"1.0","device_model":"iPhone","os_version":"26""#
            let event = UUID().uuidString
            let level = { (text: String) in text.replacing(#""info""#, with: #""error""#) }
            _ = try client.ingest([
                OwlClient.event("ada", "metric:load:complete", more: device),
                OwlClient.event("ada", "step:c", more: device),
                level(OwlClient.event("ada", "broke", id: event, more: device)),
            ])
            let digest = Hexadecimal.encode(SHA256.digest(of: [1]).bytes)
            _ = try client.call(
                "POST", "/v1/ingest/attachment",
                """
                {"client_event_id":"\(event)","user_id":"ada","original_filename":"a","content_type":"text/plain",\
                "size_bytes":1,"sha256":"\(digest)"}
                """)
            _ = try client.call(
                "POST", "/v1/feedback", #"{"message":"m","bundle_id":"com.example.demo","user_id":"ada"}"#)
            let schema = #""schema":{"questions":[{"id":"q1","type":"nps","title":"How?"}]}"#
            _ = try client.call("PUT", "/onym/v1/questionnaires/nps", #"{"name":"NPS",\#(schema)}"#, key: admin)
            for (user, isComplete) in [("ada", true), ("bob", false)] {
                let body =
                    #"{"bundle_id":"com.example.demo","user_id":"\#(user)","answers":{"q1":9},"is_complete":\#(isComplete)}"#
                _ = try client.call("POST", "/v1/questionnaires/nps/responses", body)
            }
            _ = try client.call("PUT", "/onym/v1/funnels/cart", #"{"name":"C","steps":[{"step":"c"}]}"#, key: admin)
            _ = try client.call("POST", "/v1/projects/\(project)/metrics", #"{"name":"L","slug":"load"}"#, key: agent)
            func first(_ path: String, _ list: String, _ slug: String? = nil) throws -> String {
                let found = try client.agent(path)[list] as? [[String: Any]] ?? []
                return found.first { slug == nil || $0["slug"] as? String == slug }?["id"] as? String ?? "none"
            }
            // The list also has the questionnaires that ask the users of all apps.
            let app = try first("/v1/apps", "apps")
            let ofApp = #"{"slug":"own","name":"Own","app_id":"\#(app)",\#(schema)}"#
            _ = try client.call("POST", "/v1/projects/\(project)/questionnaires", ofApp, key: agent)
            ids = [
                "/v1/projects/{id}": "/v1/projects/\(project)",
                "/v1/apps/{id}": "/v1/apps/\(app)",
                "/metrics/{slug}": "/metrics/load", "/funnels/{slug}": "/funnels/cart",
                "/questionnaires/{slug}": "/questionnaires/nps",
                "{questionnaire}": try first("/v1/questionnaires", "questionnaires", "nps"),
                "{issue}": try first("/v1/issues?status=new", "issues"),
            ]
        }

        /// The path of a call with the ids of things that exist.
        func real(_ path: String) -> String { ids.reduce(path) { $0.replacing($1.key, with: $1.value) } }

        /// Makes a call with a query.
        func get(_ path: String, _ query: [String]) throws -> Wire.Answer {
            let isOffer = path == "/v1/questionnaires/{slug}"
            let needed = isOffer && !query.contains { $0.hasPrefix("bundle_id=") } ? ["bundle_id=com.example.demo"] : []
            let query = (needed + query).joined(separator: "&")
            let key = isOffer ? client.clientKey : client.server.credentials.claimAgentKey
            return try client.call("GET", real(path) + (query.isEmpty ? "" : "?\(query)"), key: key)
        }
    }

    /// The reads of the dialect, and their parameters.
    private func reads(_ client: OwlClient) throws -> [(path: String, names: [String])] {
        let document = try JSONSerialization.jsonObject(
            with: Data(try client.http.call("GET", "/openapi.json").body.utf8))
        let paths = try #require((document as? [String: Any])?["paths"] as? [String: [String: [String: Any]]])
        return paths.sorted { $0.key < $1.key }.compactMap { path, operations in
            guard let get = operations["get"], get["tags"] as? [String] == ["claim"], path != "/health" else {
                return nil
            }
            let parameters = (get["parameters"] as? [[String: Any]] ?? []).filter { $0["in"] as? String == "query" }
            return (path, parameters.compactMap { $0["name"] as? String })
        }
    }

    @Test("counts, is refused with its name, or has no effect by the documentation", arguments: StoreKind.allCases)
    func parameters(_ kind: StoreKind) throws {
        let place = try Place(kind)
        var tried = 0
        for (path, names) in try reads(place.client) {
            let whole = names == ["t"] ? nil : try place.get(path, [])
            for name in names {
                let rule = try #require(Self.rule(name, of: path), "\(name) of \(path) has no rule")
                if let value = rule.refused {
                    let answer = try place.get(path, ["\(name)=\(value)"])
                    #expect(
                        answer.status == rule.status && answer.body.contains(rule.text ?? name),
                        "\(path)?\(name)=\(value): \(answer)")
                }
                if let value = rule.effect {
                    let answer = try place.get(path, ["\(name)=\(value)"])
                    #expect(
                        answer.status == 200 && whole?.status == 200 && answer.body != whole?.body,
                        "\(path)?\(name)=\(value): \(answer), without it \(whole?.body ?? "nothing")")
                }
                for value in rule.passedOver {
                    let answer = try place.get(path, ["\(name)=\(value)"])
                    #expect(answer.status == 200 && answer.body == whole?.body, "\(path)?\(name)=\(value): \(answer)")
                }
                #expect(rule.effect != nil || rule.refused != nil || !rule.passedOver.isEmpty)
                tried += 1
            }
        }
        #expect(tried > 150, "\(tried) parameters")
    }

    @Test("a parameter that a read does not have, or twice, is refused with its name")
    func others() throws {
        let place = try Place(.memory)
        for (path, names) in try reads(place.client) {
            let answer = try place.get(path, ["banana=1"])
            #expect(answer.status == 400 && answer.body.contains(#"no parameter \"banana\""#), "\(path): \(answer)")
            guard let name = names.first else { continue }
            let twice = try place.get(path, ["\(name)=1", "\(name)=1"])
            #expect(twice.status == 400 && twice.body.contains(name), "\(path): \(twice)")
        }
    }

    @Test("what has no effect is in the documentation")
    func documented() throws {
        let file = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../docs/claim.md")
        let text = try String(contentsOf: file, encoding: .utf8)
        let section = try #require(text.components(separatedBy: "### Values without an effect\n").dropFirst().first)
        let list = try #require(section.components(separatedBy: "\n### ").first)
        for (path, names) in try reads(OwlClient(.memory)) {
            for name in names {
                let rule = try #require(Self.rule(name, of: path))
                if !rule.passedOver.isEmpty { #expect(list.contains("`\(name)`"), "\(name) of \(path)") }
            }
        }
    }
}
