/// The members that an operator adds to the configuration of IDSync's clients (spec/idsync-clients.md 6).
package struct ClientConfig: Equatable, Sendable {
    /// A member: its name, and its value as JSON.
    package struct Member: Equatable, Sendable {
        package let name: String
        package let json: [UInt8]

        package init(_ name: String, _ json: [UInt8]) {
            self.name = name
            self.json = json
        }
    }

    /// The number of the version; 0 before the first change.
    package let version: Int
    /// The moment of the last change; nil before the first change.
    package let at: Instant?
    /// The members for apps, and those for web pages, in the order of their names.
    package let native: [Member]
    package let web: [Member]

    package init(version: Int = 0, at: Instant? = nil, native: [Member] = [], web: [Member] = []) {
        self.version = version
        self.at = at
        self.native = native.sorted { $0.name < $1.name }
        self.web = web.sorted { $0.name < $1.name }
    }

    /// The greatest number of bytes of a document.
    package static let documentBytes = 65_536

    package static func key(of project: ProjectID) -> DocumentKey {
        DocumentKey(.clientConfig, of: Int64(project.rawValue))
    }

    package func pack(into packer: inout Packer) {
        packer.add(UInt64(version))
        packer.add(at ?? Instant(milliseconds: 0))
        for members in [native, web] {
            packer.add(UInt64(members.count))
            for member in members {
                packer.add(member.name)
                packer.add(member.json)
            }
        }
    }

    init?(unpacking unpacker: inout Unpacker) {
        guard let version = unpacker.count(), let at = unpacker.instant() else { return nil }
        var lists: [[Member]] = []
        for _ in 0..<2 {
            guard let count = unpacker.integer() else { return nil }
            var members: [Member] = []
            for _ in 0..<count {
                guard let name = unpacker.text(), let json = unpacker.bytes() else { return nil }
                members.append(Member(name, json))
            }
            lists.append(members)
        }
        self.init(version: version, at: at, native: lists[0], web: lists[1])
    }

    /// Reads a stored document. A project without a document has no members.
    package init(document: [UInt8]?) {
        guard let document else {
            self.init()
            return
        }
        var unpacker = Unpacker(document)
        self = ClientConfig(unpacking: &unpacker) ?? ClientConfig()
    }
}

/// A call that replaces the members of the clients' configuration.
package struct SetClientConfig: Act {
    package let native: [ClientConfig.Member]
    package let web: [ClientConfig.Member]

    package init(native: [ClientConfig.Member], web: [ClientConfig.Member]) {
        self.native = native
        self.web = web
    }
}

extension SetClientConfig {
    package static var kinds: [ActKind] { [.setClientConfig] }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { .none }
    package var byteCount: Int {
        (native + web).reduce(256) { $0 + 32 + $1.name.utf8.count + $1.json.count }
    }

    /// Makes a new version. Throws nothing. Equal members make no version, so that a repeated call adds nothing.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) -> Decision<ClientConfigSet> {
        let key = ClientConfig.key(of: project)
        let current = ClientConfig(document: view.document(key))
        let config = ClientConfig(version: current.version + 1, at: stamp.journalledAt, native: native, web: web)
        guard config.native != current.native || config.web != current.web else {
            return Decision(ClientConfigSet(current))
        }
        var packer = Packer()
        config.pack(into: &packer)
        return Decision(
            ClientConfigSet(config),
            outcome: Outcome(
                kind: .setClientConfig, person: nil,
                changes: [.documentPut(key, PersonID(rawValue: 0), packer.bytes)]))
    }
}

/// The answer to ``SetClientConfig``: the members in force.
package struct ClientConfigSet: Answer {
    package let config: ClientConfig
    package init(_ config: ClientConfig) { self.config = config }

    package static let tags: [UInt8] = [ActKind.setClientConfig.rawValue]

    package func pack(into packer: inout Packer) { config.pack(into: &packer) }

    package init?(tag: UInt8, unpacking unpacker: inout Unpacker) {
        guard let config = ClientConfig(unpacking: &unpacker) else { return nil }
        self.init(config)
    }
}

extension ActKind {
    package static let setClientConfig = ActKind(171, "set_client_config", undo: .facts(needs: .admin))
}
