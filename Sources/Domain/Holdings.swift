/// The installs, purchases and access of a person, from all dialects.
package struct Holdings: Sendable {
    package let installs: [Install]
    /// The purchases of the person's identities and store accounts.
    package let purchases: [(purchase: Purchase, world: AccessWorld)]
    /// The access that an administrator granted.
    package let grants: [AccessUser.Grant]
    /// Whether the person is a user of the Linking dialect.
    package let isLinkedUser: Bool

    /// The documents in which the dialects keep properties.
    package static let propertyKinds: [(dialect: Dialect, kind: DocumentKind)] = [
        (.idsync, .attributes), (.claim, .properties), (.entitlements, .accessProperties), (.onym, .traits),
    ]

    /// Reads the holdings of a person.
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
    /// The install with an id; nil if the project has no such install.
    package func install(_ name: String, in project: ProjectID) throws(StoreFault) -> Install? {
        guard let id = InstallID(text: name) else { return nil }
        let key = Identity(id, in: project, hash: hash).key
        guard let install = try document(Install.key(of: key)).flatMap({ Install(id, key, packed: $0) }),
            person(install.person, in: project) != nil
        else { return nil }
        return install
    }
}
