import Foundation
import TestKit

/// Calls the Claim dialect as its clients do.
struct OwlClient {
    let server: TestServer
    let http: HTTPClient

    init(_ server: TestServer) {
        self.server = server
        http = server.client
    }

    init(_ kind: StoreKind) throws { self.init(try TestServer(kind)) }

    /// A client of a server whose runs are so short that a few rows need several.
    init(withRuns kind: StoreKind) throws { self.init(try TestServer(kind) { $0.runs = TestServer.tinyRuns }) }

    var clientKey: String { server.credentials.claimClientKey }

    func call(_ method: String, _ path: String, _ json: String? = nil, key: String? = nil) throws -> Wire.Answer {
        let fields = [("Authorization", "Bearer \(key ?? clientKey)")]
        guard let json else { return try http.call(method, path, fields: fields) }
        return try http.call(method, path, fields: fields, json: json)
    }

    func claim(_ anonymous: String, _ user: String) throws -> Wire.Answer {
        try call("POST", "/v1/identity/claim", #"{"anonymous_id":"\#(anonymous)","user_id":"\#(user)"}"#)
    }

    func properties(_ user: String, _ properties: String) throws -> Wire.Answer {
        try call("POST", "/v1/identity/properties", #"{"user_id":"\#(user)","properties":\#(properties)}"#)
    }

    static let session = "6F9619FF-8B86-D011-B42D-00CF4FC964FF"

    /// An event as the Swift SDK sends it.
    static func event(_ user: String?, _ message: String = "opened", id: String? = UUID().uuidString, more: String = "")
        -> String
    {
        let user = user.map { #""user_id":"\#($0)","# } ?? ""
        let id = id.map { #""client_event_id":"\#($0)","# } ?? ""
        return #"{\#(id)\#(user)"session_id":"\#(session)","level":"info","message":"\#(message)"\#(more)}"#
    }

    /// An event with no more than it needs, and something besides.
    static func bare(_ more: String) -> String {
        #"{"message":"m","level":"info","session_id":"\#(session)",\#(more)}"#
    }

    func ingest(
        _ events: [String], bundle: String? = "com.example.demo", path: String = "/v1/ingest", key: String? = nil
    )
        throws -> Wire.Answer
    {
        let bundle = bundle.map { #""bundle_id":"\#($0)","# } ?? ""
        return try call("POST", path, "{\(bundle)\"events\":[\(events.joined(separator: ","))]}", key: key)
    }

    // MARK: - As an administrator sees it

    func administrator(_ path: String) throws -> [String: Any] {
        let answer = try call("GET", path, key: server.credentials.adminKey)
        return try JSONSerialization.jsonObject(with: Data(answer.body.utf8)) as? [String: Any] ?? [:]
    }

    /// The messages of a user's events, the last first, as the user's timeline has them.
    func messages(_ user: String, kinds: String = "event") throws -> [String] {
        let type = user.hasPrefix("owl_anon_") ? "claim_anonymous_id" : "claim_user_id"
        let page = try administrator("/onym/v1/people/\(type):\(user)/timeline?limit=200&kinds=\(kinds)")
        return (page["rows"] as? [[String: Any]] ?? []).compactMap { row in
            let body = row["body"] as? [String: Any]
            return (body?["message"] ?? body?["metric_slug"] ?? body?["step_name"]) as? String
        }
    }

    func person(_ user: String) throws -> [String: Any] {
        try administrator(
            "/onym/v1/people/\(user.hasPrefix("owl_anon_") ? "claim_anonymous_id" : "claim_user_id"):\(user)")
    }
}

extension OwlClient {
    /// Takes a user's only claim back.
    func undoClaim(_ user: String) throws {
        let merges = try person(user)["merges"] as? [[String: Any]]
        let id = merges?.first?["id"] as? String ?? "none"
        let answer = try call("POST", "/onym/v1/merges/\(id)/undo", "{}", key: server.credentials.adminKey)
        precondition(answer.status == 200, "\(answer)")
    }
}

extension OwlClient {
    /// A body as JSON.
    static func json(_ answer: Wire.Answer) throws -> [String: Any] {
        try JSONSerialization.jsonObject(with: Data(answer.body.utf8)) as? [String: Any] ?? [:]
    }

    /// The id of the project, as the dialect shows it.
    func project() throws -> String {
        let projects = try agent("/v1/projects")["projects"] as? [[String: Any]]
        return projects?.first?["id"] as? String ?? "none"
    }

    /// Makes another app of the project; returns its client key.
    func otherApp(_ bundleID: String = "com.example.other", platform: String = "apple") throws -> String {
        let key = server.credentials.adminKey
        let app = try OwlClient.json(
            try call(
                "POST", "/onym/v1/apps",
                #"{"name":"Other","dialect":"claim","platform":"\#(platform)","bundle_id":"\#(bundleID)"}"#, key: key))
        let id = app["id"] as? String ?? "none"
        let made = try call(
            "POST", "/onym/v1/keys", #"{"kind":"claim_client","name":"Other","app":"\#(id)"}"#, key: key)
        precondition(made.status == 201, "\(made)")
        return try OwlClient.json(made)["key"] as? String ?? "none"
    }
}
