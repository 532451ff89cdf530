package import Foundation

/// Checks that answers about access come from the project's own server, and not from a proxy that invents them.
///
/// Each request has a fresh nonce. The server signs the answer, with the request's path, device, identity and nonce, by a key
/// of the month; the project's root key, which the app has, has signed that key.
package final class AnswerCheck: @unchecked Sendable {
    /// The part of a request that its answer has to repeat.
    package struct Question: Equatable, Sendable {
        let method: String
        let target: String
        let device: String
        let identity: String
        let nonce: String
    }

    /// A checked answer, with which the answer can be checked again later.
    package struct Proof: Hashable, Sendable {
        let target: String
        let device: String
        let identity: String
        let nonce: String
        /// The field with the signature.
        let signature: String
    }

    private let root: [UInt8]
    private let isSandbox: Bool
    private let base: String
    private let nonce: @Sendable () -> [UInt8]
    /// The server's time, as signed answers show it.
    package let clock: ServerClock

    /// The calls whose answers are signed.
    private static let signedPaths = ["entitlements", "purchases", "restore"]

    /// Makes the check for a root key in Base64 for addresses. With another text no answer counts.
    package init(
        root text: String, isSandbox: Bool, endpoint: URL, clock: ServerClock, nonce: @escaping @Sendable () -> [UInt8]
    ) {
        root = AnswerCheck.bytes(text).flatMap { $0.count == 32 ? $0 : nil } ?? []
        self.isSandbox = isSandbox
        self.nonce = nonce
        self.clock = clock
        base =
            endpoint.absoluteString.hasSuffix("/")
            ? String(endpoint.absoluteString.dropLast()) : endpoint.absoluteString
    }

    /// Makes the check that a configuration wants; nil if it wants none.
    package convenience init?(
        _ configuration: Configuration, key: String, files: any FileStore, nonce: @escaping @Sendable () -> [UInt8]
    ) {
        guard configuration.accessVerification != .off, let root = configuration.accessRoot else { return nil }
        self.init(
            root: root, isSandbox: configuration.environment == .development || key.hasPrefix("test_"),
            endpoint: configuration.endpoint, clock: ServerClock(files, file: ServerClock.ofAccess), nonce: nonce)
    }

    var hasRoot: Bool { !root.isEmpty }

    /// Adds a nonce to a request whose answer has to be signed; nil for other requests.
    package func ask(_ request: inout HTTPRequest) -> Question? {
        let url = request.url.absoluteString
        guard url.hasPrefix(base) else { return nil }
        let target = String(url.dropFirst(base.count))
        let parts = target.split(separator: "?")[0].split(separator: "/").map(String.init)
        guard parts.first == "v3", parts.count >= 3,
            parts[1] == "identities" || parts[1] == "users" && (parts.count == 3 || Self.signedPaths.contains(parts[3]))
        else { return nil }
        let nonce = AnswerCheck.text(nonce())
        request.fields["Onym-Nonce"] = nonce
        return Question(
            method: request.method, target: target, device: request.fields["Onym-Device-User"] ?? "",
            identity: request.fields["Onym-Identity"] ?? "", nonce: nonce)
    }

    /// The proof in an answer; an answer without a valid signature throws the reason. The clock learns from the moment of a
    /// valid signature.
    /// - Parameters:
    ///   - answer: the answer.
    ///   - question: the part of the request that the answer has to repeat. Its fresh nonce refuses each earlier answer.
    ///   - sent: the time of the device's clock when the request went out.
    ///   - received: the time of the device's clock when the answer was there.
    package func proof(
        in answer: HTTPAnswer, to question: Question, sent: Date, received: Date
    ) throws(Fault) -> Proof {
        guard let field = answer.fields["onym-signature"], let signature = Signature(field) else { throw .unsigned }
        let proof = Proof(
            target: question.target, device: question.device, identity: question.identity, nonce: question.nonce,
            signature: field)
        guard verifies(proof, signature, method: question.method, status: answer.status, answer.body) else {
            throw .forged
        }
        clock.learn(Date(milliseconds: signature.at), sent: sent, received: received)
        return proof
    }

    /// Whether a kept answer to a read is still the one that the server has signed.
    package func verifies(_ proof: Proof, _ body: [UInt8]) -> Bool {
        guard let signature = Signature(proof.signature) else { return false }
        return verifies(proof, signature, method: "GET", status: 200, body)
    }

    /// The reason why an answer does not count.
    package enum Fault: String, Error, Sendable {
        case unsigned = "the answer has no signature"
        case forged = "the signature is not of the project's server, or of another answer"
    }

    private func verifies(
        _ proof: Proof, _ signature: Signature, method: String, status: Int, _ body: [UInt8]
    ) -> Bool {
        let seconds = signature.at / 1000
        let keyLines = [signature.keyID, signature.key, String(signature.startsAt), String(signature.endsAt)]
        let names = signature.keyID.split(separator: "-")
        guard (signature.startsAt..<signature.endsAt).contains(seconds), names.count == 3, names[0] == "ent",
            let key = AnswerCheck.bytes(signature.key), let rootSignature = AnswerCheck.bytes(signature.rootSignature),
            let own = AnswerCheck.bytes(signature.signature),
            Ed25519.verifies(rootSignature, of: Array(keyLines.joined(separator: "\n").utf8), by: root)
        else { return false }
        let digest = SHA256.digest(body).map { String(format: "%02x", $0) }.joined()
        let lines = [
            "onym-entitlements-v1", String(names[1]), isSandbox ? "sandbox" : "production", method, proof.target,
            proof.device, proof.identity, proof.nonce, String(signature.at), String(signature.usableUntil),
            String(status), digest,
        ]
        return Ed25519.verifies(own, of: Array(lines.joined(separator: "\n").utf8), by: key)
    }

    // MARK: - Texts

    private static func text(_ bytes: [UInt8]) -> String {
        Data(bytes).base64EncodedString().replacingOccurrences(of: "+", with: "-")
            .replacingOccurrences(of: "/", with: "_").replacingOccurrences(of: "=", with: "")
    }

    private static func bytes(_ text: String) -> [UInt8]? {
        let plain = text.replacingOccurrences(of: "-", with: "+").replacingOccurrences(of: "_", with: "/")
        guard let data = Data(base64Encoded: plain + String(repeating: "=", count: (4 - plain.count % 4) % 4)) else {
            return nil
        }
        let bytes = [UInt8](data)
        // Another text of the same bytes could pass as a new one.
        return self.text(bytes) == text ? bytes : nil
    }

    /// The parts of the field `Onym-Signature`.
    struct Signature {
        let keyID: String
        /// The moment of the signature in milliseconds.
        let at: Int64
        /// The moment in seconds until which the answer counts without the server.
        let usableUntil: Int64
        let signature: String
        let key: String
        let startsAt: Int64
        let endsAt: Int64
        let rootSignature: String

        /// Reads the field; nil for a field of another version.
        init?(_ field: String) {
            let parts = field.split(separator: ";")
            guard parts.first == "v1" else { return nil }
            var values: [String: String] = [:]
            for part in parts.dropFirst() {
                guard let mark = part.firstIndex(of: "=") else { return nil }
                let isNew = values.updateValue(String(part[part.index(after: mark)...]), forKey: String(part[..<mark]))
                guard isNew == nil else { return nil }
            }
            guard let keyID = values["kid"], let at = values["t"].flatMap(Int64.init), at > 0,
                let usableUntil = values["exp"].flatMap(Int64.init), let signature = values["sig"],
                let key = values["x"], let startsAt = values["nbf"].flatMap(Int64.init),
                let endsAt = values["end"].flatMap(Int64.init), startsAt < endsAt,
                let rootSignature = values["root_sig"]
            else { return nil }
            (self.keyID, self.at, self.usableUntil, self.signature) = (keyID, at, usableUntil, signature)
            (self.key, self.startsAt, self.endsAt, self.rootSignature) = (key, startsAt, endsAt, rootSignature)
        }
    }
}

extension AnswerCheck.Proof {
    var kept: JSON {
        .sparse([
            "u": .string(target), "d": .string(device), "i": .string(identity), "n": .string(nonce),
            "s": .string(signature),
        ])
    }

    init?(kept: JSON?) {
        guard let target = kept?["u"]?.text, let device = kept?["d"]?.text, let identity = kept?["i"]?.text,
            let nonce = kept?["n"]?.text, let signature = kept?["s"]?.text
        else { return nil }
        self.init(target: target, device: device, identity: identity, nonce: nonce, signature: signature)
    }

    /// Whether the answer is about the access of a user.
    func isAbout(_ user: AccessUser) -> Bool {
        device == user.deviceID && identity == user.identityID ?? ""
            && target == EntitlementsClient.accessPath(of: user.id)
    }

    /// Whether the answer counts at a moment without the server. A clock that goes after the server's by minutes is usual; a
    /// clock that was set back further would make an old answer count for ever.
    func isUsable(at now: Date) -> Bool {
        guard let signature = AnswerCheck.Signature(signature) else { return false }
        let seconds = Int64(now.timeIntervalSince1970)
        return seconds >= signature.at / 1000 - 300 && seconds < signature.usableUntil
    }
}
