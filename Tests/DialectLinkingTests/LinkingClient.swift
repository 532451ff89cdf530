import Domain
import Foundation
import Gateway
import Program
import TestKit

/// Calls the Linking dialect, as back ends and as installs do.
struct LinkingClient {
    let server: TestServer
    let http: HTTPClient
    let clock: ManualClock

    init(_ kind: StoreKind, configure: (inout RunningServer.Configuration) -> Void = { _ in }) throws {
        // Keys last a year from when the project was made.
        let clock = ManualClock(1_610_000_000_000)
        server = try TestServer(kind) { configuration in
            configuration.clock = { clock.now }
            configure(&configuration)
        }
        self.clock = clock
        http = server.client
    }

    init(_ kind: StoreKind, in folder: TemporaryFolder) throws {
        let clock = ManualClock(1_610_000_000_000)
        self.init(try TestServer(kind, in: folder) { $0.clock = { clock.now } }, clock)
    }

    private init(_ server: TestServer, _ clock: ManualClock) {
        self.server = server
        self.clock = clock
        http = server.client
    }

    /// The same store, served anew.
    func restarted() throws -> LinkingClient {
        let clock = clock
        return LinkingClient(try TestServer(restarting: server) { $0.clock = { clock.now } }, clock)
    }

    /// The same server, over a connection of its own.
    var another: LinkingClient { LinkingClient(server, clock) }

    var key: String { server.credentials.linkingKey }

    // MARK: - Calls

    func call(
        _ method: String, _ path: String, _ json: String? = nil, key: String? = nil, fields: [(String, String)] = []
    ) throws -> LinkingAnswer {
        var fields = fields
        if let key { fields.append(("Authorization", "Bearer \(key)")) }
        guard let json else { return LinkingAnswer(try http.call(method, path, fields: fields)) }
        return LinkingAnswer(try http.call(method, path, fields: fields, json: json))
    }

    func administrator(_ method: String, _ path: String, _ json: String? = nil) throws -> LinkingAnswer {
        try call(method, path, json, key: server.credentials.adminKey)
    }

    func link(_ install: String, _ external: String, key: String? = nil) throws -> LinkingAnswer {
        try call("POST", "/v2/users/\(install)/link", #"{"external_id":"\#(external)"}"#, key: key ?? self.key)
    }

    func delete(_ user: String, key: String? = nil) throws -> LinkingAnswer {
        try call("DELETE", "/users/\(user)", key: key ?? self.key)
    }

    func requestCode(_ external: String, more: String = "", key: String? = nil) throws -> LinkingAnswer {
        try call("POST", "/users/auth-code", #"{"external_id":"\#(external)"\#(more)}"#, key: key ?? self.key)
    }

    func code(_ external: String, more: String = "") throws -> String {
        try requestCode(external, more: more)["authentication_code"] ?? ""
    }

    func makeInstall(_ device: String = "phone", fields: [(String, String)] = []) throws -> LinkingAnswer {
        let credentials = server.credentials
        return try call(
            "POST", "/sdk/installs",
            """
            {"app_id":"\(credentials.linkingAppID)","secret":"\(credentials.linkingAppSecret)",\
            "device":{"class":"\(device)","os":"android","model":"Pixel"},"sdk":{"version":"1.0"}}
            """, fields: fields)
    }

    func redeem(
        _ code: String, _ device: String = "phone", installKey: String = UUID().uuidString,
        fields: [(String, String)] = []
    ) throws -> LinkingAnswer {
        try call(
            "POST", "/sdk/users",
            #"{"authentication_code":"\#(code)","install_key":"\#(installKey)","device":{"class":"\#(device)"}}"#,
            fields: fields)
    }

    /// An install of a user that was made by a code.
    func user(_ external: String, _ device: String = "phone") throws -> LinkingAnswer {
        try redeem(try code(external), device)
    }

    func person(_ token: String) throws -> LinkingAnswer { try call("GET", "/sdk/person", key: token) }
    func config(_ token: String) throws -> LinkingAnswer { try call("GET", "/sdk/config", key: token) }
    func reset(_ token: String) throws -> LinkingAnswer { try call("POST", "/sdk/reset", "{}", key: token) }

    func linkHard(_ token: String) throws -> LinkingAnswer {
        try call("POST", "/sdk/link-legacy-install", "{}", key: token)
    }

    func linkLate(_ token: String, _ code: String) throws -> LinkingAnswer {
        try call("POST", "/sdk/users/link", #"{"authentication_code":"\#(code)"}"#, key: token)
    }

    func refresh(_ token: String) throws -> LinkingAnswer {
        try call("POST", "/sdk/token", #"{"grant_type":"refresh_token","refresh_token":"\#(token)"}"#)
    }

    func submit(_ token: String, _ events: [(id: String, at: Instant)]) throws -> LinkingAnswer {
        let formatter = ISO8601DateFormatter()
        formatter.formatOptions = [.withInternetDateTime, .withFractionalSeconds]
        let list = events.map { event in
            let at = formatter.string(from: Date(timeIntervalSince1970: Double(event.at.milliseconds) / 1000))
            return #"{"id":"\#(event.id)","type":"trip","captured_at":"\#(at)","data":{"n":1}}"#
        }
        return try call("POST", "/sdk/events", "{\"events\":[\(list.joined(separator: ","))]}", key: token)
    }

    func disable(_ install: String, _ isDisabled: Bool = true) throws -> LinkingAnswer {
        try administrator("PUT", "/onym/v1/installs/\(install)", #"{"disabled":\#(isDisabled)}"#)
    }

    func set(_ settings: String) throws -> LinkingAnswer {
        try administrator("PUT", "/onym/v1/linking", settings)
    }

    /// Changes who may be active.
    func activate(_ policy: String) throws -> LinkingAnswer {
        try administrator("PUT", "/onym/v1/strategy", "{\"activation\":\(policy)}")
    }

    /// What became of the installs of a user, the last first: `activated first_wins…`.
    func history(of user: String) throws -> [String] {
        let page = try administrator("GET", "/onym/v1/people/\(user)/timeline?kinds=install&limit=200")
        return (page.json["rows"] as? [[String: Any]] ?? []).compactMap { row in
            guard let body = row["body"] as? [String: Any] else { return nil }
            return "\(body["change"] ?? "") \(body["reason"] ?? "")"
        }
    }

    /// The ids of the events that a user has, the last first.
    func events(of user: String) throws -> [String] {
        let page = try administrator("GET", "/onym/v1/people/\(user)/timeline?kinds=event&limit=200")
        return (page.json["rows"] as? [[String: Any]] ?? []).compactMap {
            ($0["body"] as? [String: Any])?["id"] as? String
        }
    }
}

/// An answer, with what is in it.
struct LinkingAnswer: CustomStringConvertible {
    let status: Int
    let body: String
    let json: [String: Any]
    private let fields: [(name: String, value: String)]

    init(_ answer: Wire.Answer) {
        status = answer.status
        body = answer.body
        fields = answer.fields
        let parsed = try? JSONSerialization.jsonObject(with: Data(answer.body.utf8))
        json = parsed as? [String: Any] ?? [:]
    }

    var description: String { "\(status) \(body)" }

    subscript(name: String) -> String? { json[name] as? String }
    func field(_ name: String) -> String? { fields.first { $0.name.lowercased() == name.lowercased() }?.value }

    /// The id of the user, in whatever call's words.
    var user: String { self["id"] ?? self["user_id"] ?? self["person_id"] ?? "" }
    var install: String { self["install_id"] ?? "" }
    var token: String { self["token"] ?? "" }
    var refreshToken: String { self["refresh_token"] ?? "" }
    var code: String { self["errorCode"] ?? "" }

    /// How the install stands, which new users are told in a place of its own.
    private var standing: [String: Any] { json["config"] as? [String: Any] ?? json }
    var isActive: Bool? { standing["is_active"] as? Bool }
    var state: String { standing["state"] as? String ?? "" }
    var reason: String? { standing["reason"] as? String }
    var byDevice: String? { standing["by_device_class"] as? String }
    var epoch: Int { standing["activation_epoch"] as? Int ?? -1 }
    var currentEpoch: Int { standing["current_epoch"] as? Int ?? -1 }
    var isRestored: Bool? { json["restored"] as? Bool }
}

// MARK: - Other apps and keys

extension LinkingClient {
    /// Another app of the same project, with a key.
    func otherApp(_ scopes: String = #""user.link","user.delete""#) throws -> (id: String, secret: String, key: String)
    {
        let app = try administrator("POST", "/onym/v1/linking/apps", #"{"name":"Other"}"#)
        let id = app["app_id"] ?? ""
        return (id, app["app_secret"] ?? "", try makeKey(app: id, scopes)["key"] ?? "")
    }

    func makeKey(app: String? = nil, _ scopes: String, days: Int = 30) throws -> LinkingAnswer {
        let app = app ?? server.credentials.linkingAppID
        return try administrator(
            "POST", "/onym/v1/linking/keys",
            #"{"app_id":"\#(app)","name":"Test","scopes":[\#(scopes)],"expires_in_days":\#(days)}"#)
    }

    func install(of app: (id: String, secret: String, key: String)) throws -> LinkingAnswer {
        try call("POST", "/sdk/installs", #"{"app_id":"\#(app.id)","secret":"\#(app.secret)"}"#)
    }
}
