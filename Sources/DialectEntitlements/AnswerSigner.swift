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
    private final class MonthKey: Sendable {
        let id: String
        /// The master key of the project's root.
        let master: MasterKeyMark
        let key: Ed25519Key
        let startsAt: Int64
        let endsAt: Int64
        /// The signature of the root key over the id, the public key and the two moments.
        let rootSignature: [UInt8]
        /// The begin of the field of all answers under the key.
        let fieldStart: [UInt8]
        /// The end of that field.
        let fieldEnd: [UInt8]

        init(
            id: String, master: MasterKeyMark, _ key: Ed25519Key, from startsAt: Int64, to endsAt: Int64,
            by root: Ed25519Key
        ) {
            (self.id, self.master, self.key) = (id, master, key)
            (self.startsAt, self.endsAt) = (startsAt, endsAt)
            let publicKey = Base64.encodeForAddresses(key.publicKey)
            let signed = [id, publicKey, String(startsAt), String(endsAt)]
            rootSignature = root.sign(Array(signed.joined(separator: "\n").utf8))
            fieldStart = Array("v1;kid=\(id);t=".utf8)
            fieldEnd = Array(
                ";x=\(publicKey);nbf=\(startsAt);end=\(endsAt);root_sig=\(Base64.encodeForAddresses(rootSignature))"
                    .utf8)
        }
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
        let start = month * AnswerSigner.monthSeconds
        // An answer stays usable for a month, also the last one under the key.
        let made = MonthKey(
            id: "ent-\(project.rawValue)-\(month)", master: mark, Ed25519Key(seed: seed),
            from: start - AnswerSigner.daySeconds,
            to: start + 2 * AnswerSigner.monthSeconds + AnswerSigner.daySeconds,
            by: AnswerSigner.root(of: project, master))
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
        let isWanted = request.withField("onym-nonce") {
            Base64.decodeForAddresses($0)?.count == AnswerSigner.nonceBytes
        }
        guard isWanted == true, let caller = caller(request),
            let key = key(of: caller.project, AnswerSigner.month(now))
        else { return nil }
        let start = AnswerSigner.start(of: caller, method, request, at: now)
        return { response in
            let longest = now.seconds + AnswerSigner.usableSeconds
            let usableUntil = response.accessEndsAt.map { min($0 + AnswerSigner.graceSeconds, longest) } ?? longest
            var text = start
            text.append(decimal: usableUntil)
            text.append("\n")
            text.append(decimal: response.status.rawValue)
            text.append("\n")
            text.append(hexadecimal: SHA256.digest(of: response.body).bytes)
            let end = key.fieldEnd
            var field = key.fieldStart
            field.reserveCapacity(field.count + end.count + AnswerSigner.roomInField)
            field.append(decimal: now.milliseconds)
            field.append(";exp=")
            field.append(decimal: usableUntil)
            field.append(";sig=")
            Base64.appendForAddresses(key.key.sign(text), to: &field)
            field += end
            var response = response
            response.fields.append(.init("Onym-Signature", bytes: field))
            return response
        }
    }

    /// The signed lines before those of the answer. They are made in bytes, because a read of access costs little more.
    private static func start(
        of caller: Caller, _ method: Method, _ request: borrowing Request, at now: Instant
    ) -> [UInt8] {
        var text: [UInt8] = []
        text.reserveCapacity(roomInText)
        text.append("onym-entitlements-v1\n")
        text.append(decimal: caller.project.rawValue)
        text.append("\n")
        text.append(caller.world.name)
        text.append("\n")
        text.append(method.name)
        text.append("\n")
        _ = request.withPathAndQuery { text.append(copying: $0) }
        for name in ["onym-device-user", "onym-identity", "onym-nonce"] as [StaticString] {
            text.append("\n")
            _ = request.withField(name) { text.append(copying: $0) }
        }
        text.append("\n")
        text.append(decimal: now.milliseconds)
        text.append("\n")
        return text
    }

    private static let nonceBytes = 16
    /// The bytes of a usual text.
    private static let roomInText = 400
    /// The bytes of a field for two moments and a signature.
    private static let roomInField = 160
}
