import Crypto
package import Domain
import HTTPServer
import JSON

/// Reads the tokens that say for which known users a client may speak: JWTs signed by the customer's own back end
/// (docs/native.md, Signed identities).
package struct IdentityTokens: Sendable {
    /// The field of the tokens: one token, or several with commas between them.
    static let field: StaticString = "onym-identity-token"
    static let tokensAtMost = 4
    /// The greatest difference between the clock of a back end and the server's clock.
    static let skewSeconds: Int64 = 60
    /// The longest life of a token.
    package static let lifeSeconds: Int64 = 86_400
    /// The audience of a token that is not for one dialect only.
    static let audience = "onym"

    /// Answers the secret of an HMAC key of a project; nil if the server does not have its master key.
    package typealias Secret = @Sendable (SigningKey, ProjectID) -> [UInt8]?
    private let secret: Secret

    package init(secret: @escaping Secret) { self.secret = secret }

    /// The content of a token with a valid signature.
    struct Statement: Sendable {
        fileprivate(set) var subject = ""
        fileprivate(set) var type: String?
        fileprivate(set) var audiences: [String]?
        fileprivate(set) var expiresAt: Int64 = 0
        fileprivate(set) var notBefore: Int64?
    }

    /// The proof of a caller; nil if no proof is necessary: the key belongs to a back end, or no dialect of the project asks
    /// for proofs.
    func proof(_ request: borrowing Request, _ caller: Caller, _ tools: LoopTools) -> IdentityProof? {
        guard let key = caller.key else { return nil }
        let directory = tools.directory
        let strategy = directory.strategy(of: key.project)
        guard strategy.guards.asksForProof, directory.isClients(key) else { return nil }
        let dialect = key.kind.dialect
        var proven: [IdentityKey] = []
        var fault: IdentityTokenFault?
        if let field = request.field(IdentityTokens.field), !field.isEmpty {
            // A token contains no space: a value with a space is refused.
            let texts = field.split(separator: ",").map { IdentityTokens.trimmed($0) }
            for text in texts.prefix(IdentityTokens.tokensAtMost) {
                do throws(IdentityTokenFault) {
                    let statement = try statement(text, key.project, tools)
                    proven += try identities(of: statement, dialect, key.project, strategy, tools)
                } catch {
                    fault = fault ?? error
                    // Checking a signature is expensive, so the first wrong signature ends the check.
                    if error == .wrongSignature { break }
                }
            }
            fault = fault ?? (texts.count > IdentityTokens.tokensAtMost ? .malformed : .otherIdentity)
        }
        return IdentityProof(
            dialect: dialect, mode: strategy.guards.signing(in: dialect), proven: proven, fault: fault ?? .missing)
    }

    /// The text without spaces and tabs at its ends, which a list in a field may have.
    private static func trimmed(_ text: Substring) -> String {
        func isBlank(_ character: Character) -> Bool { character == " " || character == "\t" }
        return String(text.drop(while: isBlank).reversed().drop(while: isBlank).reversed())
    }

    /// Reads a token, or finds the statement of an earlier read. In both cases the signature is valid.
    private func statement(
        _ text: String, _ project: ProjectID, _ tools: LoopTools
    ) throws(IdentityTokenFault) -> Statement {
        if let known = tools.statement(of: text, in: project) { return known }
        let keys = (tools.directory.signingKeys[project] ?? []).filter { $0.retiredAt == nil }
        let statement = try read(text, keys, project, tools.json)
        tools.remember(statement, of: text, in: project)
        return statement
    }

    private func read(
        _ text: String, _ keys: [SigningKey], _ project: ProjectID, _ parser: JSONParser
    ) throws(IdentityTokenFault) -> Statement {
        guard let token = SignedToken(text) else { throw .malformed }
        var members: [String: String] = [:]
        try IdentityTokens.read(token.header, parser) { name, value throws(JSONFault) in
            switch name {
            case "alg", "kid": members[name] = try value.string(at: name)
            // RFC 7515 4.1.11: a critical extension that the reader does not know is an error. This reader knows no
            // extension.
            case "crit": throw JSONFault(.wrong("is not known"), at: "crit")
            default: break
            }
        }
        let key: SigningKey
        if let name = members["kid"] {
            guard let named = keys.first(where: { $0.keyID == name }) else { throw .unknownKey }
            key = named
        } else {
            guard let only = keys.first, keys.count == 1 else { throw .unknownKey }
            key = only
        }
        // The key decides the algorithm; the token only repeats it.
        guard members["alg"] == key.algorithm.name else { throw .wrongAlgorithm }
        guard isSigned(token, by: key, of: project) else { throw .wrongSignature }
        return try claims(token.payload, parser)
    }

    private func isSigned(_ token: SignedToken, by key: SigningKey, of project: ProjectID) -> Bool {
        switch key.algorithm {
        case .hs256:
            guard let claimed = Digest(token.signature), let secret = secret(key, project) else { return false }
            return HMAC(key: secret).authenticate(token.signed) == claimed
        case .eddsa:
            return PublicKey.ed25519(key.publicKey).verifies(token.signature, of: token.signed)
        case .es256:
            let point = key.publicKey
            guard point.count == 64 else { return false }
            return PublicKey.p256(x: Array(point[..<32]), y: Array(point[32...]))
                .verifies(token.signature, of: token.signed)
        }
    }

    private func claims(_ payload: [UInt8], _ parser: JSONParser) throws(IdentityTokenFault) -> Statement {
        var statement = Statement()
        var (subject, expiry): (String?, Int64?)
        try IdentityTokens.read(payload, parser) { name, value throws(JSONFault) in
            switch name {
            case "sub": subject = try value.string(at: name)
            case "type": statement.type = try value.string(at: name)
            case "exp": expiry = try IdentityTokens.seconds(value, at: name)
            case "nbf", "iat":
                statement.notBefore = max(statement.notBefore ?? .min, try IdentityTokens.seconds(value, at: name))
            case "aud":
                var audiences: [String] = []
                if value.kind == .array {
                    try value.forEachElement(at: name) { element throws(JSONFault) in
                        audiences.append(try element.string(at: "aud"))
                    }
                } else {
                    audiences.append(try value.string(at: name))
                }
                statement.audiences = audiences
            default: break
            }
        }
        guard let subject, Identity.valueBytes.contains(subject.utf8.count), let expiry else { throw .malformed }
        (statement.subject, statement.expiresAt) = (subject, expiry)
        return statement
    }

    /// A time in seconds, which some back ends write with a fraction.
    private static func seconds(_ value: JSONValue, at name: String) throws(JSONFault) -> Int64 {
        guard value.kind == .double else { return try value.integer(at: name) }
        guard let seconds = Int64(exactly: try value.number(at: name).rounded(.down)) else {
            throw JSONFault(.wrong("must be a number of seconds"), at: name)
        }
        return seconds
    }

    /// Reads the members of an object. A repeated member is refused, because two readers could read different values.
    private static func read(
        _ json: [UInt8], _ parser: JSONParser, _ body: (String, JSONValue) throws(JSONFault) -> Void
    ) throws(IdentityTokenFault) {
        var names: Set<String> = []
        do throws(JSONFault) {
            try parser.read(json) { root throws(JSONFault) in
                try root.forEachMember(at: "the token") { name, value throws(JSONFault) in
                    let name = name.copy()
                    guard names.insert(name).inserted else { throw JSONFault(.wrong("is there twice"), at: name) }
                    try body(name, value)
                }
            }
        } catch {
            throw .malformed
        }
    }

    /// The people that a statement is about, in a dialect, at the present time.
    private func identities(
        of statement: Statement, _ dialect: Dialect, _ project: ProjectID, _ strategy: Strategy, _ tools: LoopTools
    ) throws(IdentityTokenFault) -> [IdentityKey] {
        let (now, skew) = (tools.now.milliseconds / 1000, IdentityTokens.skewSeconds)
        guard statement.expiresAt > now - skew else { throw .expired }
        guard statement.expiresAt - now <= IdentityTokens.lifeSeconds + skew else { throw .tooLong }
        if let notBefore = statement.notBefore, notBefore > now + skew { throw .notYet }
        if let audiences = statement.audiences {
            guard audiences.contains(IdentityTokens.audience) || audiences.contains(dialect.rawValue) else {
                throw .wrongAudience
            }
        }
        let types: [IdentityType]
        if let name = statement.type {
            guard let type = IdentityType(named: name), type.dialect == dialect.identities else { throw .otherIdentity }
            types = [type]
        } else {
            // The customer's own user id, under the dialect's type for user ids. Only a token with the type `email` proves
            // an e-mail address.
            types =
                SameUserID.types.filter { $0.dialect == dialect.identities }
                + (dialect == .entitlements ? [.sandboxIdentity] : [])
        }
        return types.map { type in
            let isLowercased = strategy.lowercasesEmail && type == .email
            let value = isLowercased ? statement.subject.lowercased() : statement.subject
            return IdentityKey(type, value.utf8.span, in: project, hash: tools.hash)
        }
    }
}

extension LoopTools {
    /// The statement of a token that this loop read earlier, under the keys in force.
    func statement(of token: String, in project: ProjectID) -> IdentityTokens.Statement? {
        forgetStatements(unlessReadIn: directory)
        return knownStatements[statementHash(token, project)]
    }

    func remember(_ statement: IdentityTokens.Statement, of token: String, in project: ProjectID) {
        if knownStatements.count >= LoopTools.statementsAtMost { knownStatements = [:] }
        knownStatements[statementHash(token, project)] = statement
    }

    private func statementHash(_ token: String, _ project: ProjectID) -> Hash128 {
        hash.hash(tag: LoopTools.tokenTag ^ UInt64(UInt32(bitPattern: project.rawValue)), token)
    }
}

extension Caller {
    /// The refusal of a call that names an identity; nil if the call is allowed, or if the project only logs missing proofs.
    package func refusal(naming identity: Identity) -> Refusal? {
        guard let proof, proof.mode == .require, let strategy, strategy.isKnown(identity, in: proof.dialect),
            !proof.proves(identity.key)
        else { return nil }
        return .unproven(proof.fault, about: nil)
    }

    /// The refusal of a read that names an identity; nil if the read is allowed. If the project only logs missing proofs,
    /// the server writes a note instead.
    package func refusal(asking identity: Identity, _ snapshot: any Snapshot) -> Refusal? {
        guard let proof, proof.mode != .off, let strategy, strategy.isKnown(identity, in: proof.dialect),
            !proof.proves(identity.key)
        else { return nil }
        return refusal(proof, about: snapshot.holders(of: identity.key).min())
    }

    /// The refusal of a read about a group; nil if the read is allowed. If the project only logs missing proofs, the server
    /// writes a note instead.
    package func refusal(asking group: Group, _ snapshot: any Snapshot) throws(StoreFault) -> Refusal? {
        guard let proof, proof.mode != .off, let strategy,
            try snapshot.isUnproven(group, in: project, strategy, proof)
        else { return nil }
        return refusal(proof, about: group.root)
    }

    private func refusal(_ proof: IdentityProof, about person: PersonID?) -> Refusal? {
        if proof.mode == .require { return .unproven(proof.fault, about: person) }
        note?(proof.fault, person)
        return nil
    }
}

extension IdentityTokenFault: Error {}
