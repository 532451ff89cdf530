import Crypto
package import DialectIDSync
package import Domain
import Gateway
import JSON

/// A new project: an app for each dialect, and all their keys. The secrets are printed once; afterwards the server has only
/// their hashes.
package struct ProjectPlan {
    package let setUp: SetUp
    package let credentials: Credentials

    /// The credentials that the program prints for a new project (spec/native.md).
    package struct Credentials: Equatable, Sendable {
        package internal(set) var projectID: String
        package let projectName: String
        package let adminKey = AccessKey.Kind.admin.newText
        package let idsyncKey = AccessKey.Kind.idsync.newText
        package let idsyncWebKey = AccessKey.Kind.idsyncWeb.newText
        package let idsyncSecret: String
        package let claimClientKey = AccessKey.Kind.claimClient.newText
        package let claimAgentKey = AccessKey.Kind.claimAgent.newText
        package let claimImportKey = AccessKey.Kind.claimImport.newText
        package let claimBundleID = "com.example.demo"
        package let entitlementsProjectKey = AccessKey.Kind.entitlementsProject.newText
        package let entitlementsSecretKey = AccessKey.Kind.entitlementsSecret.newText
        package let linkingAppID = ProjectPlan.newLinkingApp.id
        package let linkingAppSecret = ProjectPlan.newLinkingApp.secret
        package let linkingKey = AccessKey.Kind.linking.newText
        package let onymClientKey = AccessKey.Kind.onymClient.newText
        package let onymServerKey = AccessKey.Kind.onymServer.newText

        fileprivate init(projectID: String, projectName: String, secrets: IDSyncSecrets) {
            self.projectID = projectID
            self.projectName = projectName
            idsyncSecret = secrets.secret(for: idsyncKey)
        }
    }

    package init(name: String, secrets: IDSyncSecrets, now: Instant) {
        let project = Project(id: ProjectID(rawValue: 1), name: name, madeAt: now)
        credentials = Credentials(
            projectID: String(project.id.rawValue), projectName: name, secrets: secrets)

        func app(
            _ id: Int64, _ dialect: Dialect, _ platform: App.Platform, bundleID: String? = nil, publicID: String? = nil,
            secret: String? = nil
        ) -> App {
            App(
                id: AppID(rawValue: id), project: project.id, dialect: dialect, name: "\(name) (\(dialect.rawValue))",
                platform: platform, bundleID: bundleID, publicID: publicID, secretHash: secret.map(ProjectPlan.hash),
                madeAt: now)
        }
        let idsync = app(1, .idsync, .any)
        let claim = app(2, .claim, .apple, bundleID: credentials.claimBundleID)
        let entitlements = app(3, .entitlements, .any)
        let linking = app(
            4, .linking, .any, publicID: credentials.linkingAppID, secret: credentials.linkingAppSecret)

        let onym = app(5, .onym, .any)

        var keys: [AccessKey] = []
        func add(_ text: String, _ kind: AccessKey.Kind, _ name: String, _ app: App?) {
            keys.append(
                AccessKey(
                    id: KeyID(rawValue: Int64(keys.count + 1)), project: project.id, app: app?.id, kind: kind,
                    name: name, hash: ProjectPlan.hash(text), scopes: kind.scopes, madeAt: now,
                    // Keys for linking last a year (spec/linking.md 1.2).
                    expiresAt: kind == .linking ? now.advanced(byMilliseconds: 365 * 86_400_000) : nil))
        }
        add(credentials.adminKey, .admin, "Administration", nil)
        add(credentials.idsyncKey, .idsync, "IDSync", idsync)
        add(credentials.idsyncWebKey, .idsyncWeb, "IDSync for the web", idsync)
        add(credentials.claimClientKey, .claimClient, "\(name) Client Key", claim)
        add(credentials.claimAgentKey, .claimAgent, "Agent", nil)
        add(credentials.claimImportKey, .claimImport, "Import", claim)
        add(credentials.entitlementsProjectKey, .entitlementsProject, "Entitlements", entitlements)
        add(credentials.entitlementsSecretKey, .entitlementsSecret, "Entitlements, secret", entitlements)
        add(credentials.linkingKey, .linking, "Linking", linking)
        add(credentials.onymClientKey, .onymClient, "Onym in apps", onym)
        add(credentials.onymServerKey, .onymServer, "Onym in back ends", onym)
        setUp = SetUp(
            project: project, apps: [idsync, claim, entitlements, linking, onym], keys: keys, joinsSameUserIDs: true,
            masterKey: secrets.keys.newest.mark == secrets.keys.first ? nil : secrets.keys.newest.mark)
    }

    static func hash(_ text: String) -> KeyHash { SHA256.digest(of: Array(text.utf8)).keyHash }
}

extension ProjectPlan.Credentials {
    /// The document of `onym init --json`.
    var json: String {
        var json = JSONWriter(reserving: 1024)
        func group(_ key: StaticString, _ members: [(StaticString, String)]) {
            json.key(key)
            json.object { json in
                for (name, value) in members {
                    json.key(name)
                    json.string(value)
                }
            }
        }
        json.beginObject()
        group("project", [("id", projectID), ("name", projectName)])
        json.key("admin_key")
        json.string(adminKey)
        group("idsync", [("key", idsyncKey), ("secret", idsyncSecret), ("web_key", idsyncWebKey)])
        group(
            "claim",
            [
                ("client_key", claimClientKey), ("agent_key", claimAgentKey), ("import_key", claimImportKey),
                ("bundle_id", claimBundleID),
            ])
        group("entitlements", [("project_key", entitlementsProjectKey), ("secret_key", entitlementsSecretKey)])
        group("linking", [("app_id", linkingAppID), ("app_secret", linkingAppSecret), ("api_key", linkingKey)])
        group("onym", [("client_key", onymClientKey), ("server_key", onymServerKey)])
        json.endObject()
        return String(decoding: json.bytes, as: UTF8.self)
    }

    /// The same credentials, for people.
    var text: String {
        """
        Project "\(projectName)" (\(projectID)). These keys are shown once; the server keeps only their hashes.

          admin key               \(adminKey)
          IDSync key              \(idsyncKey)
                 secret           \(idsyncSecret)
                 web key          \(idsyncWebKey)
          Claim client key        \(claimClientKey)
                agent key         \(claimAgentKey)
                import key        \(claimImportKey)
                bundle id         \(claimBundleID)
          Entitlements key        \(entitlementsProjectKey)
                secret key        \(entitlementsSecretKey)
          Linking app id          \(linkingAppID)
                  app secret      \(linkingAppSecret)
                  API key         \(linkingKey)
          Onym client key         \(onymClientKey)
               server key         \(onymServerKey)
        """
    }
}

extension ProjectPlan {
    /// The admin key in a file of first keys; nil without such a file.
    static func adminKey(in path: String) -> String? {
        do {
            return try JSONParser().read(try Files.bytes(path, orElse: path)) { root throws(JSONFault) in
                var key: String?
                try root.forEachMember(at: "the keys") { name, value throws(JSONFault) in
                    if case "admin_key" = name { key = try value.string(at: "admin_key") }
                }
                return key
            }
        } catch {
            // As below: a file that is not readable is no fault.
            return nil
        }
    }

    /// The keys of clients in a file of first keys, by their dialects; empty without such a file.
    static func clientKeys(in path: String) -> [Dialect: String] {
        let places: [(group: String, member: String, dialect: Dialect)] = [
            ("idsync", "web_key", .idsync), ("claim", "client_key", .claim),
            ("entitlements", "project_key", .entitlements), ("linking", "api_key", .linking),
        ]
        var keys: [Dialect: String] = [:]
        do {
            let text = try Files.bytes(path, orElse: path)
            try JSONParser().read(text) { root throws(JSONFault) in
                try root.forEachMember(at: "the keys") { group, members throws(JSONFault) in
                    guard let place = places.first(where: { group.copy() == $0.group }) else { return }
                    try members.forEachMember(at: place.group) { key, value throws(JSONFault) in
                        if key.copy() == place.member { keys[place.dialect] = try value.string(at: place.member) }
                    }
                }
            }
        } catch {
            // An operator may remove or change the file, so a file that is not readable is no fault.
            return [:]
        }
        return keys
    }
}
