/// What a person has beside its identities, properties and rows, whichever dialect it came by.
package struct Holdings: Sendable {
    package let installs: [Install]
    /// What the person has bought, paid for or was given with an identity.
    package let purchases: [(purchase: Purchase, world: AccessWorld)]
    /// What access was given by hand.
    package let grants: [AccessUser.Grant]
    /// Whether the Linking dialect has a user that the person is.
    package let isLinkedUser: Bool

    /// The documents in which dialects keep properties: those of IDSync are JSON, the others are text.
    package static let propertyKinds: [(dialect: Dialect, kind: DocumentKind)] = [
        (.idsync, .attributes), (.claim, .properties), (.entitlements, .accessProperties),
    ]

    /// Reads them.
    package init(
        of person: PersonID, identities: [HeldIdentity], in project: ProjectID, _ snapshot: any Snapshot
    ) throws(StoreFault) {
        var installs: [Install] = []
        for identity in identities where identity.type == .linkingInstallID {
            if let install = try snapshot.install(identity.value, in: project) { installs.append(install) }
        }
        self.installs = installs
        isLinkedUser = try snapshot.document(LinkedUser.key(of: person)) != nil

        let user = try snapshot.document(AccessUser.key(person)).flatMap { AccessUser(person, packed: $0) }
        grants = user?.grants ?? []
        let isSandbox = identities.contains { $0.type == AccessWorld.sandbox.userType }
        var ids = (user?.paid ?? []) + (user?.owned ?? [])
        for account in user?.accounts ?? [] {
            ids += NamedAccount(account, packed: try snapshot.document(NamedAccount.key(account))).paid
        }
        var seen: Set<PurchaseID> = []
        var purchases: [(purchase: Purchase, world: AccessWorld)] = []
        for id in ids where seen.insert(id).inserted {
            guard let purchase = try snapshot.document(id.key).flatMap({ Purchase(id, packed: $0) }) else { continue }
            purchases.append((purchase, isSandbox ? .sandbox : .production))
        }
        self.purchases = purchases
    }
}

extension Snapshot {
    /// The install of a project with an id.
    package func install(_ name: String, in project: ProjectID) throws(StoreFault) -> Install? {
        guard let id = InstallID(text: name) else { return nil }
        let key = Identity(id, in: project, hash: hash).key
        guard let install = try document(Install.key(of: key)).flatMap({ Install(id, key, packed: $0) }),
            person(install.person, in: project) != nil
        else { return nil }
        return install
    }
}
