import Foundation
import Onym
import TestKit
import Testing

/// A built server, and devices with an app of the SDK on them, over the system's own network and files.
struct SDKScene {
    let store: Store
    let server: ServerProcess

    init(flags: [String] = []) throws {
        store = try Store()
        server = try ServerProcess(data: store.data, flags: flags)
    }

    /// A device with the app on it.
    func device(
        _ name: String, _ key: Configuration.Key, configure: (inout Configuration) -> Void = { _ in }
    ) throws -> OnymClient {
        var configuration = try configuration(name, key)
        configure(&configuration)
        return try OnymClient(configuration)
    }

    func configuration(_ name: String, _ key: Configuration.Key) throws -> Configuration {
        let endpoint = try #require(URL(string: server.base))
        var configuration = Configuration(
            endpoint: endpoint, key: key, folder: URL(filePath: store.folder.path + "/" + name))
        configuration.environment = .development
        configuration.callbacks = .background
        configuration.device.platform = "ios"
        return configuration
    }

    @discardableResult
    func administrator(_ path: String, _ method: String = "GET", _ json: String? = nil) throws -> [String: Any] {
        let fields = [("Authorization", "Bearer \(store.adminKey)")]
        let answer =
            try json.map { try server.client.call(method, path, fields: fields, json: $0) }
            ?? server.client.call(method, path, fields: fields)
        return try JSONSerialization.jsonObject(with: Data(answer.body.utf8)) as? [String: Any] ?? [:]
    }

    /// The program of a name, which was built with the tests.
    static func program(_ name: String) -> String {
        URL(filePath: CommandLine.arguments[0]).deletingLastPathComponent().path() + name
    }

    /// The names of a person's events, the first first.
    func events(_ person: String) throws -> [String] {
        var (names, cursor): ([String], String?) = ([], "")
        while let place = cursor {
            let page = try administrator(
                "/onym/v1/people/\(person)/timeline?limit=200&kinds=event"
                    + (place.isEmpty ? "" : "&cursor=\(place.escaped)"))
            for row in page["rows"] as? [[String: Any]] ?? [] {
                let body = row["body"] as? [String: Any] ?? [:]
                let data = body["data"] as? [String: Any] ?? [:]
                if let name = (data["event_name"] ?? body["message"]) as? String { names.append(name) }
            }
            cursor = page["next_cursor"] as? String
        }
        return names.reversed()
    }
}
