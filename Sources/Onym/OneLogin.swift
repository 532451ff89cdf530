import Foundation

/// The result of a login in all dialects.
public struct LoginResult: Sendable {
    /// The user's id in each dialect, or the failure there. The SDK tries a dialect that failed again, until the next login or
    /// logout.
    public let users: [Dialect: Result<String, OnymError>]

    /// Makes a result, for an app's own tests.
    public init(users: [Dialect: Result<String, OnymError>]) { self.users = users }

    /// The failures by dialect; empty where all dialects know the user.
    public var failures: [Dialect: OnymError] {
        users.compactMapValues { result in if case .failure(let error) = result { error } else { nil } }
    }
}

extension OnymClient {
    /// Logs a user in, in all dialects that have a key. The login counts at once: whatever the app logs, sets and buys from now on
    /// belongs to the user to whom the answers lead, and waits for them on the device.
    /// - Parameters:
    ///   - id: the app's own id of the user.
    ///   - email: the user's e-mail address.
    ///   - code: a code of the app's back end, in the Linking dialect; nil to leave that dialect as it is.
    /// - Returns: the result in each dialect.
    /// - Throws: `refused`, if no dialect accepts the id, or the SDK accepts no call now.
    @discardableResult
    public func login(
        _ id: String, email: String? = nil, code: String? = nil
    ) async throws(OnymError) -> LoginResult {
        try await result { login(id, email: email, code: code, callback: $0) }.get()
    }

    /// Logs a user in, in all dialects that have a key. The completion runs on the main actor when each dialect has its first
    /// answer.
    public func login(
        _ id: String, email: String? = nil, code: String? = nil,
        completion: @escaping @MainActor @Sendable (Result<LoginResult, OnymError>) -> Void
    ) {
        login(id, email: email, code: code, callback: onMain(completion))
    }

    /// Logs a user in, in all dialects that have a key, with a callback off the main actor.
    @_disfavoredOverload
    public func login(
        _ id: String, email: String? = nil, code: String? = nil,
        callback: @escaping @Sendable (Result<LoginResult, OnymError>) -> Void
    ) {
        if isLocked { return refuse(callback) }
        if let fault = OnymClient.fault(in: id) {
            return runtime.callbacks.run { callback(.failure(.refused(.invalid(fault)))) }
        }
        let gathering = Gathering(holding(callback))
        if let idsync {
            var request = IdentityRequest([.customerID: id])
            if let email { request.identities[.email] = email }
            let end = gathering.expect(idsync.dialect)
            idsync.turn(.login, request) { end($0.map { "\($0.user.id)" }) }
        }
        if let claim {
            let end = gathering.expect(.claim)
            let result = claim.setUser(id)
            claim.call { end(result.map { id }) }
        }
        if let entitlements {
            let end = gathering.expect(.entitlements)
            entitlements.login(id) { result in end(result.map { $0.user?.id ?? "" }) }
        }
        if let linking, let code {
            let end = gathering.expect(.linking)
            linking.login(code) { end($0.map { $0.userID ?? "" }) }
        }
        if !gathering.begin() { refuse(callback) }
    }

    /// Logs the user out at once in all dialects, with or without a network. Whatever follows belongs to nobody of before. In the
    /// Linking dialect it removes the user from the device.
    public func logout() {
        if opening.logOut(runtime) { return }
        opening.clients.logOut()
    }

    /// The reason why a dialect would refuse an id.
    private static func fault(in id: String) -> String? {
        guard !id.isEmpty, id.utf8.count <= 255, !id.utf8.contains(0) else { return "a user id has 1 to 255 bytes" }
        return id.hasPrefix(ClaimClient.prefix) ? "a user id does not begin with \(ClaimClient.prefix)" : nil
    }
}

extension Clients {
    /// Logs the user out in all dialects.
    func logOut() {
        idsync?.turn(.logout, IdentityRequest()) { _ in }
        claim?.clearUser(newAnonymous: true)
        entitlements?.logout()
        linking?.logout()
    }
}

/// Collects the results of all dialects.
private final class Gathering: @unchecked Sendable {
    private typealias Completion = @Sendable (Result<LoginResult, OnymError>) -> Void

    /// Guards the other properties.
    private let lock = NSLock()
    private var open: Set<Dialect> = []
    private var users: [Dialect: Result<String, OnymError>] = [:]
    private var hasBegun = false
    private let completion: Completion

    init(_ completion: @escaping @Sendable (Result<LoginResult, OnymError>) -> Void) { self.completion = completion }

    /// Waits for a dialect too. Answers the function that takes its result.
    func expect(_ dialect: Dialect) -> @Sendable (Result<String, OnymError>) -> Void {
        lock.withLock { _ = open.insert(dialect) }
        return { result in
            self.end { gathering in
                gathering.open.remove(dialect)
                gathering.users[dialect] = result
            }
        }
    }

    /// All dialects are known. Answers whether there is any.
    func begin() -> Bool {
        let isEmpty = lock.withLock { open.isEmpty && users.isEmpty }
        if isEmpty { return false }
        end { $0.hasBegun = true }
        return true
    }

    private func end(_ change: (Gathering) -> Void) {
        let result = lock.withLock { () -> LoginResult? in
            change(self)
            return hasBegun && open.isEmpty ? LoginResult(users: users) : nil
        }
        if let result { completion(.success(result)) }
    }
}
