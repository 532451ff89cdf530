package import Domain

/// One fact of a call as the tree over the journal keeps it: with hashes instead of values. A hash has the key of the store's hash.
package enum LeafFact: Hashable {
    case personMade
    case linked(type: UInt8, Hash128)
    case unlinked(type: UInt8, Hash128)
    case rowAdded(kind: UInt8, at: Int64, content: UInt64)
    case rowSuperseded(kind: UInt8, row: Int64)
    case documentPut(kind: UInt8, key: Hash128, content: UInt64)
    case merged(id: Int64, from: Int64, into: Int64, rule: UInt8)
    case mergeUndone(id: Int64)
    case personErased
    /// A project, an app or a key as it was made, without its name.
    case made(Thing, id: Int64, content: UInt64)
    case revoked(Thing, id: Int64, at: Int64)
    case named(Thing, id: Int64, name: UInt64)
    case strategySet(version: Int64, content: UInt64)

    /// The tables of the directory.
    package enum Thing: UInt8, CaseIterable {
        case project = 1
        case app = 2
        case key = 3
    }

    /// What a change leaves in the tree: the person, a fact, and for a thing of the directory also its name; nil for a change that
    /// leaves no fact of its own.
    package static func of(
        _ change: Change, _ hash: KeyedHash
    ) -> (person: Int64, fact: LeafFact, name: LeafFact?)? {
        switch change {
        case .personMade(let person, _): return (person.rawValue, .personMade, nil)
        case .linked(let person, let identity):
            return (person.rawValue, .linked(type: identity.type.rawValue, identity.key.hash), nil)
        case .unlinked(let person, let type, let key):
            return (person.rawValue, .unlinked(type: type.rawValue, key.hash), nil)
        case .rowAdded(let person, let row):
            let content = content(
                row.body, hash, recognition: row.recognition?.rawValue, device: row.device?.rawValue)
            return (
                person.rawValue, .rowAdded(kind: row.kind.rawValue, at: row.at.milliseconds, content: content), nil
            )
        case .rowSuperseded(let person, let kind, let number):
            return (person.rawValue, .rowSuperseded(kind: kind.rawValue, row: number.rawValue), nil)
        case .documentPut(let key, let person, let body):
            // The store keeps the last version of a derived document alone.
            if key.kind.isDerived { return nil }
            let fact = LeafFact.documentPut(kind: key.kind.rawValue, key: key.hash, content: content(body, hash))
            return (person.rawValue, fact, nil)
        case .merged(let merge):
            let (from, into) = (merge.from.rawValue, merge.into.rawValue)
            return (from, .merged(id: merge.id.rawValue, from: from, into: into, rule: merge.rule.rawValue), nil)
        case .mergeUndone(let merge): return (merge.from.rawValue, .mergeUndone(id: merge.id.rawValue), nil)
        case .personErased(let person): return (person.rawValue, .personErased, nil)
        case .projectMade(let project):
            return made(
                .project, Int64(project.id.rawValue), project.name, [.integer(project.madeAt.milliseconds)], hash)
        case .appMade(let app):
            return made(
                .app, app.id.rawValue, app.name,
                [
                    .integer(Int64(app.project.rawValue)), .text(app.dialect.rawValue), .text(app.platform.rawValue),
                    .text(app.bundleID), .text(app.publicID), .bytes(app.secretHash?.bytes),
                    .integer(app.madeAt.milliseconds),
                    .text(app.webOrigins.isEmpty ? nil : app.webOrigins.joined(separator: " ")),
                ], hash)
        case .keyMade(let key):
            return made(
                .key, key.id.rawValue, key.name,
                [
                    .integer(Int64(key.project.rawValue)), .integer(key.app?.rawValue), .text(key.kind.rawValue),
                    .bytes(key.hash.bytes), .text(key.scopes.names), .integer(key.madeAt.milliseconds),
                    .integer(key.expiresAt?.milliseconds),
                ], hash)
        case .appRevoked(let app, let moment):
            return (0, .revoked(.app, id: app.rawValue, at: moment.milliseconds), nil)
        case .keyRevoked(let key, let moment):
            return (0, .revoked(.key, id: key.rawValue, at: moment.milliseconds), nil)
        case .renamed(.project(let id), let name): return (0, named(.project, Int64(id.rawValue), name, hash), nil)
        case .renamed(.app(let id), let name): return (0, named(.app, id.rawValue, name, hash), nil)
        case .strategySet(let version, let strategy):
            return (0, .strategySet(version: Int64(version), content: content(strategy.packed, hash)), nil)
        }
    }

    /// A column of the directory for its hash.
    package enum Column {
        case integer(Int64?)
        case text(String?)
        case bytes([UInt8]?)
    }

    /// What a new project, app or key leaves, by the columns of its table in their order.
    private static func made(
        _ thing: Thing, _ id: Int64, _ name: String, _ columns: [Column], _ hash: KeyedHash
    ) -> (person: Int64, fact: LeafFact, name: LeafFact?) {
        (0, .made(thing, id: id, content: content(columns, hash)), named(thing, id, name, hash))
    }

    private static func named(_ thing: Thing, _ id: Int64, _ name: String, _ hash: KeyedHash) -> LeafFact {
        .named(thing, id: id, name: content(Array(name.utf8), hash))
    }

    /// The hash of the columns of a project, an app or a key.
    static func content(_ columns: [Column], _ hash: KeyedHash) -> UInt64 {
        var packer = Packer()
        func pack(_ bytes: [UInt8]?) {
            packer.add(bytes == nil ? 0 : 1 as UInt8)
            if let bytes { packer.add(bytes) }
        }
        for column in columns {
            switch column {
            case .integer(let value): pack(value.map { Array(String($0).utf8) })
            case .text(let value): pack(value.map { Array($0.utf8) })
            case .bytes(let value): pack(value)
            }
        }
        return content(packer.bytes, hash)
    }

    /// The hash of the content of a row, a document or a strategy.
    package static func content(_ bytes: [UInt8], _ hash: KeyedHash, recognition: UInt64? = nil, device: UInt64? = nil)
        -> UInt64
    {
        var whole = hash.hash(tag: contentTag, bytes.span).low
        // Rows have both hashes or none in most kinds. A missing one counts as zero.
        if let recognition { whole = whole.multipliedFullWidth(by: 0x9E37_79B9_7F4A_7C15).low ^ recognition }
        if let device { whole = whole.multipliedFullWidth(by: 0xC2B2_AE3D_27D4_EB4F).low ^ device }
        return whole
    }

    /// `leafbody` in ASCII. Identities have tags of at most five bytes, so no content has the hash of an identity.
    private static let contentTag: UInt64 = 0x6C65_6166_626F_6479
}

// MARK: - Packing

extension LeafFact {
    package func pack(into packer: inout Packer) {
        func add(_ code: UInt8, _ first: Int64? = nil, _ second: Int64? = nil) {
            packer.add(code)
            if let first { packer.add(zigzag: first) }
            if let second { packer.add(zigzag: second) }
        }
        switch self {
        case .personMade: add(1)
        case .linked(let type, let hash):
            add(2, Int64(type))
            packer.add(hash)
        case .unlinked(let type, let hash):
            add(3, Int64(type))
            packer.add(hash)
        case .rowAdded(let kind, let at, let content):
            add(4, Int64(kind), at)
            packer.add(fixed: content)
        case .rowSuperseded(let kind, let row): add(5, Int64(kind), row)
        case .documentPut(let kind, let key, let content):
            add(6, Int64(kind))
            packer.add(key)
            packer.add(fixed: content)
        case .merged(let id, let from, let into, let rule):
            add(7, id, from)
            packer.add(zigzag: into)
            packer.add(zigzag: Int64(rule))
        case .mergeUndone(let id): add(8, id)
        case .personErased: add(9)
        case .made(let thing, let id, let content):
            add(10, Int64(thing.rawValue), id)
            packer.add(fixed: content)
        case .revoked(let thing, let id, let at):
            add(11, Int64(thing.rawValue), id)
            packer.add(zigzag: at)
        case .named(let thing, let id, let name):
            add(12, Int64(thing.rawValue), id)
            packer.add(fixed: name)
        case .strategySet(let version, let content):
            add(13, version)
            packer.add(fixed: content)
        }
    }

    package init?(unpacking unpacker: inout Unpacker) {
        func thing() -> Thing? { unpacker.small().flatMap(Thing.init) }
        func content() -> UInt64? { unpacker.fixed() }
        switch unpacker.byte() {
        case 1: self = .personMade
        case 2:
            guard let type = unpacker.small(), let hash = unpacker.hash() else { return nil }
            self = .linked(type: type, hash)
        case 3:
            guard let type = unpacker.small(), let hash = unpacker.hash() else { return nil }
            self = .unlinked(type: type, hash)
        case 4:
            guard let kind = unpacker.small(), let at = unpacker.zigzag(), let content = content() else { return nil }
            self = .rowAdded(kind: kind, at: at, content: content)
        case 5:
            guard let kind = unpacker.small(), let row = unpacker.zigzag() else { return nil }
            self = .rowSuperseded(kind: kind, row: row)
        case 6:
            guard let kind = unpacker.small(), let key = unpacker.hash(), let content = content() else { return nil }
            self = .documentPut(kind: kind, key: key, content: content)
        case 7:
            guard let id = unpacker.zigzag(), let from = unpacker.zigzag(), let into = unpacker.zigzag(),
                let rule = unpacker.small()
            else { return nil }
            self = .merged(id: id, from: from, into: into, rule: rule)
        case 8:
            guard let id = unpacker.zigzag() else { return nil }
            self = .mergeUndone(id: id)
        case 9: self = .personErased
        case 10:
            guard let thing = thing(), let id = unpacker.zigzag(), let content = content() else { return nil }
            self = .made(thing, id: id, content: content)
        case 11:
            guard let thing = thing(), let id = unpacker.zigzag(), let at = unpacker.zigzag() else { return nil }
            self = .revoked(thing, id: id, at: at)
        case 12:
            guard let thing = thing(), let id = unpacker.zigzag(), let name = content() else { return nil }
            self = .named(thing, id: id, name: name)
        case 13:
            guard let version = unpacker.zigzag(), let content = content() else { return nil }
            self = .strategySet(version: version, content: content)
        default: return nil
        }
    }

    /// Reads all facts of a person; nil for bytes that this version cannot read.
    package static func unpack(_ bytes: [UInt8]) -> [LeafFact]? {
        var unpacker = Unpacker(bytes)
        var facts: [LeafFact] = []
        while !unpacker.isAtEnd {
            guard let fact = LeafFact(unpacking: &unpacker) else { return nil }
            facts.append(fact)
        }
        return facts
    }
}
