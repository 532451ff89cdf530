import ByteText
import Crypto
package import Domain
package import Gateway
import HTTPMessage
import HTTPServer
package import JSON
import Threads

/// Signs answers about access, so that an app can tell them from answers of a proxy (spec/entitlements-live.md 8).
///
/// A project's root key signs the keys of each month, and a month's key signs the answers. An app has only the public root
/// key. All keys follow from the master key, so the server keeps none of them. Every answer has the month's key with the
/// root's signature: an app needs no other call to check an answer.
package final class AnswerSigner: Sendable {
    /// The key of a month.
    private struct MonthKey: Sendable {
        let id: String
        /// The master key of the project's root.
        let master: MasterKeyMark
        let key: Ed25519Key
        let startsAt: Int64
        let endsAt: Int64
        /// The signature of the root key over the id, the public key and the two moments.
        let rootSignature: [UInt8]
        /// The part of the field that all answers under the key share.
        let proof: String
    }

    /// The list of the keys of some projects in a month, in the form of RFC 7517.
    private struct KeyList: Sendable {
        let month: Int64
        let roots: [ProjectID: MasterKeyMark]
        let keys: [[UInt8]]
    }

    private let masters: MasterKeys
    private let hashes: PerMasterKey<HMAC>
    private let months = Monitor<[Int64: [ProjectID: MonthKey]]>([:])
    private let list = Monitor<KeyList?>(nil)

    private static let monthSeconds: Int64 = 30 * 86_400
    private static let daySeconds: Int64 = 86_400
    /// The longest time for which an app may use an answer without the server.
    private static let usableSeconds: Int64 = 30 * 86_400
    /// The time for which an app may use an answer after the last end of access in it: a renewal is told late.
    private static let graceSeconds: Int64 = 3 * 86_400

    package init(_ keys: MasterKeys) {
        masters = keys
        hashes = PerMasterKey(keys, for: "access answers") { HMAC(key: $0) }
    }

    // MARK: - Keys

    private static func root(of project: ProjectID, _ master: HMAC) -> Ed25519Key {
        Ed25519Key(seed: master.authenticate(Array("access root\0\(project.rawValue)".utf8)).bytes)
    }

    /// The public root key of a project, in the form in which an app has it; nil if the server does not have its master key.
    package func rootText(of project: ProjectID) -> String? {
        hashes.of(masters.root(of: project)).map {
            Base64.encodeForAddresses(AnswerSigner.root(of: project, $0).publicKey)
        }
    }

    /// The public root key that the project has after the root is made anew.
    package func nextRootText(of project: ProjectID) -> String {
        let master = hashes.of(masters.newest(of: project)) ?? hashes.newest
        return Base64.encodeForAddresses(AnswerSigner.root(of: project, master).publicKey)
    }

    /// The key of a month; nil if the server does not have the master key of the project's root.
    private func key(of project: ProjectID, _ month: Int64) -> MonthKey? {
        let mark = masters.root(of: project)
        if let key = months.withLock({ $0[month]?[project] }), key.master == mark { return key }
        guard let master = hashes.of(mark) else { return nil }
        let seed = master.authenticate(Array("access key\0\(project.rawValue)\0\(month)".utf8)).bytes
        let key = Ed25519Key(seed: seed)
        let id = "ent-\(project.rawValue)-\(month)"
        let start = month * AnswerSigner.monthSeconds
        // An answer stays usable for a month, also the last one under the key.
        let startsAt = start - AnswerSigner.daySeconds
        let endsAt = start + 2 * AnswerSigner.monthSeconds + AnswerSigner.daySeconds
        let signed = [id, Base64.encodeForAddresses(key.publicKey), String(startsAt), String(endsAt)]
        let rootSignature = AnswerSigner.root(of: project, master).sign(Array(signed.joined(separator: "\n").utf8))
        let made = MonthKey(
            id: id, master: mark, key: key, startsAt: startsAt, endsAt: endsAt, rootSignature: rootSignature,
            proof: ";x=\(Base64.encodeForAddresses(key.publicKey));nbf=\(startsAt);end=\(endsAt);"
                + "root_sig=\(Base64.encodeForAddresses(rootSignature))")
        months.withLock { months in
            if months[month] == nil { months = months.filter { abs($0.key - month) <= 2 } }
            months[month, default: [:]][project] = made
        }
        return made
    }

    private static func month(_ now: Instant) -> Int64 { now.seconds / monthSeconds }

    /// A list with more projects than these has the keys of the first. Answers have their keys with them.
    private static let projectsAtMost = 32

    /// Writes the last, the present and the next key of each project, in the form of RFC 7517.
    package func writeKeys(_ directory: Directory, at now: Instant, to json: inout JSONWriter) {
        let all = directory.projects.keys.sorted { $0.rawValue < $1.rawValue }
        let (projects, month) = (Array(all.prefix(AnswerSigner.projectsAtMost)), AnswerSigner.month(now))
        let roots = Dictionary(uniqueKeysWithValues: projects.map { ($0, masters.root(of: $0)) })
        let known = list.withLock { $0 }.flatMap { $0.month == month && $0.roots == roots ? $0 : nil }
        let keys =
            known?.keys
            ?? projects.flatMap { project in
                (-1...1).compactMap { key(of: project, month + $0).map(entry) }
            }
        if known == nil { list.withLock { $0 = KeyList(month: month, roots: roots, keys: keys) } }
        for key in keys { json.raw(key) }
    }

    private func entry(of key: MonthKey) -> [UInt8] {
        var json = JSONWriter()
        json.object { json in
            for (name, value) in [("kty", "OKP"), ("crv", "Ed25519"), ("use", "sig"), ("kid", key.id)] {
                json.key(name)
                json.string(value)
            }
            json.key("x")
            json.string(Base64.encodeForAddresses(key.key.publicKey))
            json.key("nbf")
            json.integer(key.startsAt)
            json.key("exp")
            json.integer(key.endsAt)
            json.key("root_sig")
            json.string(Base64.encodeForAddresses(key.rootSignature))
        }
        return json.bytes
    }

    // MARK: - Answers

    /// The function that signs the answer to a request; nil for a request without a nonce.
    ///
    /// - Parameters:
    ///   - request: the request.
    ///   - method: the method of the request.
    ///   - now: the moment of the request.
    ///   - caller: finds the project and the world of the request.
    func signing(
        _ request: borrowing Request, _ method: Method, at now: Instant, caller: (borrowing Request) -> Caller?
    ) -> (@Sendable (Response) -> Response)? {
        guard request.hasField("onym-nonce"), let nonce = request.field("onym-nonce"),
            Base64.decodeForAddresses(Array(nonce.utf8).span)?.count == AnswerSigner.nonceBytes,
            let caller = caller(request), let key = key(of: caller.project, AnswerSigner.month(now))
        else { return nil }
        let target = request.rawPath + (request.rawQuery.map { "?\($0)" } ?? "")
        let start = """
            onym-entitlements-v1
            \(caller.project.rawValue)
            \(caller.world.name)
            \(method.name)
            \(target)
            \(request.field("onym-device-user") ?? "")
            \(request.field("onym-identity") ?? "")
            \(nonce)
            \(now.milliseconds)

            """
        return { response in
            let longest = now.seconds + AnswerSigner.usableSeconds
            let usableUntil = response.accessEndsAt.map { min($0 + AnswerSigner.graceSeconds, longest) } ?? longest
            let body = Hexadecimal.encode(SHA256.digest(of: response.body).bytes)
            let signature = key.key.sign(Array("\(start)\(usableUntil)\n\(response.status.rawValue)\n\(body)".utf8))
            var response = response
            response.fields.append(
                .init(
                    "Onym-Signature",
                    "v1;kid=\(key.id);t=\(now.milliseconds);exp=\(usableUntil);sig=\(Base64.encodeForAddresses(signature))\(key.proof)"
                ))
            return response
        }
    }

    private static let nonceBytes = 16
}
