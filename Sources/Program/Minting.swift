import ByteText
import Crypto
import DialectIDSync
import DialectNative
import Domain

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
    /// The secret that signs the calls to a webhook. The server derives the secret, and does not keep it.
    func webhookKey(_ id: Int64) -> [UInt8] { derivedKey(for: "webhook", of: id) }

    /// The secret of an HMAC key, with which a customer signs tokens for known users: exactly these characters. The server
    /// derives this secret too.
    func identitySecret(_ id: Int64) -> String {
        "onym_sign_" + Hexadecimal.encode(derivedKey(for: "identity token", of: id))
    }
}

extension Mint {
    init(_ secrets: IDSyncSecrets) {
        self.init(
            key: { kind in
                let text = kind.newText
                let secret = kind == .idsync ? secrets.secret(for: text) : nil
                return Key(text: text, secret: secret, hash: ProjectPlan.hash(text))
            },
            app: { dialect in
                guard dialect == .linking else { return nil }
                let app = ProjectPlan.newLinkingApp
                return Key(text: app.id, secret: app.secret, hash: ProjectPlan.hash(app.secret))
            },
            project: { name, now in
                let plan = ProjectPlan(name: name, secrets: secrets, now: now)
                return Project(setUp: plan.setUp) { id in
                    var credentials = plan.credentials
                    credentials.projectID = String(id.rawValue)
                    return Array(credentials.json.utf8)
                }
            },
            webhookSecret: { id in "whsec_\(Base64.encode(secrets.webhookKey(id)))" },
            identitySecret: { id in secrets.identitySecret(id) })
    }
}
