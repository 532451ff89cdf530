import ByteText
import Crypto
import DialectIDSync
import DialectNative
import Domain
import Gateway

extension AccessKey.Kind {
    /// A new key, in the form of its dialect.
    var newText: String {
        switch self {
        case .admin: "onym_admin_" + SecureRandom.text(48, from: ProjectPlan.hexadecimal)
        case .operator: "onym_operator_" + SecureRandom.text(48, from: ProjectPlan.hexadecimal)
        case .idsync, .idsyncWeb: "us1-" + SecureRandom.text(32, from: ProjectPlan.hexadecimal)
        case .claimClient: "owl_client_" + SecureRandom.text(48, from: ProjectPlan.hexadecimal)
        case .claimAgent: "owl_agent_" + SecureRandom.text(48, from: ProjectPlan.hexadecimal)
        case .claimImport: "owl_import_" + SecureRandom.text(48, from: ProjectPlan.hexadecimal)
        case .entitlementsProject: SecureRandom.text(32, from: ProjectPlan.letters)
        case .entitlementsSecret: "sk_" + SecureRandom.text(32, from: ProjectPlan.letters)
        case .onymClient: "onym_client_" + SecureRandom.text(48, from: ProjectPlan.hexadecimal)
        case .onymServer: "onym_server_" + SecureRandom.text(48, from: ProjectPlan.hexadecimal)
        case .console: preconditionFailure("Only a link makes a session.")
        case .linking:
            SecureRandom.text(15, from: ProjectPlan.hexadecimal) + "."
                + SecureRandom.text(48, from: ProjectPlan.letters)
        }
    }
}

extension ProjectPlan {
    static let hexadecimal: StaticString = "0123456789abcdef"
    static let letters: StaticString = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

    static var newLinkingApp: (id: String, secret: String) {
        (SecureRandom.text(24, from: hexadecimal), SecureRandom.text(64, from: hexadecimal))
    }
}

extension IDSyncSecrets {
    /// The secret that signs the calls to a webhook. The server derives the secret, and does not keep it; nil if it does not have
    /// the master key.
    func webhookKey(_ id: Int64, madeAt moment: Instant, in project: ProjectID) -> [UInt8]? {
        keys.key(at: moment, in: project)?.derived(for: "webhook", of: id)
    }

    /// The secret of an HMAC key, with which a customer signs tokens for known users: exactly these characters. The server
    /// derives this secret too.
    func identitySecret(_ key: SigningKey, in project: ProjectID) -> String? {
        keys.key(at: key.madeAt, in: project).map {
            "onym_sign_" + Hexadecimal.encode($0.derived(for: "identity token", of: key.id))
        }
    }

    /// The tokens of known users.
    var identityTokens: IdentityTokens {
        IdentityTokens(secret: { [self] key, project in identitySecret(key, in: project).map { Array($0.utf8) } })
    }
}

extension Mint {
    init(_ secrets: IDSyncSecrets) {
        self.init(
            unreadiness: { secrets.keys.unreadiness },
            key: { kind in
                let text = kind.newText
                return Key(text: text, hash: ProjectPlan.hash(text)) { moment, project in
                    kind == .idsync ? secrets.secret(for: text, madeAt: moment, in: project) : nil
                }
            },
            app: { dialect in
                guard dialect == .linking else { return nil }
                let app = ProjectPlan.newLinkingApp
                return Key(text: app.id, hash: ProjectPlan.hash(app.secret)) { _, _ in app.secret }
            },
            project: { name, now in
                let plan = ProjectPlan(name: name, secrets: secrets, now: now)
                return Project(setUp: plan.setUp) { id in
                    var credentials = plan.credentials
                    credentials.projectID = String(id.rawValue)
                    return Array(credentials.json.utf8)
                }
            },
            webhookSecret: { id, moment, project in
                secrets.webhookKey(id, madeAt: moment, in: project).map { "whsec_\(Base64.encode($0))" }
            },
            identitySecret: { key, project in secrets.identitySecret(key, in: project) })
    }
}
