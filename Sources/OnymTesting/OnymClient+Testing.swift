import Foundation
public import Onym

extension OnymClient {
    /// Makes an instance for previews and tests: it knows users and entitlements, keeps all in memory, and has no network.
    /// - Parameters:
    ///   - users: the users that the device knows; the first one is the current user.
    ///   - access: the entitlements of the user.
    ///   - transport: the network; a network that answers nothing by default.
    /// - Throws: an error of the SDK's start.
    public static func test(
        users: [User] = [], access: [Entitlement] = [], transport: any Transport = ScriptedTransport()
    ) throws(OnymError) -> OnymClient {
        guard let endpoint = URL(string: "https://onym.test") else { throw .refused(.notConfigured) }
        let files = MemoryFiles()
        let now = Date()
        var configuration = Configuration(
            endpoint: endpoint, keys: [.idSync(key: "key", secret: nil), .entitlements(key: "key")], folder: endpoint)
        (configuration.files, configuration.transport, configuration.log) = (files, transport, .nothing)
        let first = users.first?.id ?? 0
        try keep(
            [
                "stamp": "stamp", "current": .integer(first), "first": .integer(first), "out": false,
                "users": .array(users.map(\.kept)),
            ], as: "idsync", in: files)
        try keep(
            [
                "device": "QON_test", "current": "QON_test", "created": true, "out": false,
                "cache": ["": ["t": .integer(now.milliseconds), "l": .array(access.map(\.wire))]],
            ], as: "entitlements", in: files)
        return try OnymClient(configuration)
    }

    /// Writes the state that a dialect's client reads at its start.
    private static func keep(_ state: JSON, as name: String, in files: MemoryFiles) throws(OnymError) {
        do throws(FileFault) {
            try Mailbox(name, in: files, id: 1, report: { _ in }, fold: { _ in }).save(state)
        } catch {
            throw .storage(error.reason)
        }
    }
}

extension Entitlement {
    /// The entitlement as the server writes it.
    fileprivate var wire: JSON {
        func seconds(_ date: Date?) -> JSON { date.map { .integer($0.milliseconds / 1000) } ?? .null }
        let subscription: JSON = .sparse([
            "renew_state": renewState.map { .string($0) } ?? .null,
            "current_period_type": period.map { .string($0) } ?? .null,
        ])
        return .sparse([
            "id": .string(id), "active": .bool(isActive), "source": .string(source), "started": seconds(started),
            "expires": seconds(expires),
            "product": productID.map { ["product_id": .string($0), "subscription": subscription] } ?? .null,
        ])
    }
}
