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

    /// The fact of a change, and the person of the fact; nil for a change that leaves no fact of its own.
    package static func of(_ change: Change, _ hash: KeyedHash) -> (person: Int64, facts: [LeafFact])? {
        switch change {
        case .personMade(let person, _): (person.rawValue, [.personMade])
        case .linked(let person, let identity):
            (person.rawValue, [.linked(type: identity.type.rawValue, identity.key.hash)])
        case .unlinked(let person, let type, let key):
            (person.rawValue, [.unlinked(type: type.rawValue, key.hash)])
        case .rowAdded(let person, let row):
            (
                person.rawValue,
                [
                    .rowAdded(
                        kind: row.kind.rawValue, at: row.at.milliseconds,
                        content: content(
                            row.body, hash, recognition: row.recognition?.rawValue, device: row.device?.rawValue))
                ]
            )
        case .rowSuperseded(let person, let kind, let number):
            (person.rawValue, [.rowSuperseded(kind: kind.rawValue, row: number.rawValue)])
        case .documentPut(let key, let person, let body):
            // The store keeps the last version of a derived document alone.
            key.kind.isDerived
                ? nil
                : (
                    person.rawValue,
                    [.documentPut(kind: key.kind.rawValue, key: key.hash, content: content(body, hash))]
                )
        case .merged(let merge):
            (
                merge.from.rawValue,
                [
                    .merged(
                        id: merge.id.rawValue, from: merge.from.rawValue, into: merge.into.rawValue,
                        rule: merge.rule.rawValue)
                ]
            )
        case .mergeUndone(let merge): (merge.from.rawValue, [.mergeUndone(id: merge.id.rawValue)])
        case .personErased(let person): (person.rawValue, [.personErased])
        case .projectMade(let project):
            (0, made(.project, Int64(project.id.rawValue), project.name, [.integer(project.madeAt.milliseconds)], hash))
        case .appMade(let app):
            (
                0,
                made(
                    .app, app.id.rawValue, app.name,
                    [
                        .integer(Int64(app.project.rawValue)), .text(app.dialect.rawValue),
                        .text(app.platform.rawValue),
                        .text(app.bundleID), .text(app.publicID), .bytes(app.secretHash?.bytes),
                        .integer(app.madeAt.milliseconds),
                        .text(app.webOrigins.isEmpty ? nil : app.webOrigins.joined(separator: " ")),
                    ], hash)
            )
        case .keyMade(let key):
            (
                0,
                made(
                    .key, key.id.rawValue, key.name,
                    [
                        .integer(Int64(key.project.rawValue)), .integer(key.app?.rawValue), .text(key.kind.rawValue),
                        .bytes(key.hash.bytes), .text(key.scopes.names), .integer(key.madeAt.milliseconds),
                        .integer(key.expiresAt?.milliseconds),
                    ], hash)
            )
        case .appRevoked(let app, let moment): (0, [.revoked(.app, id: app.rawValue, at: moment.milliseconds)])
        case .keyRevoked(let key, let moment): (0, [.revoked(.key, id: key.rawValue, at: moment.milliseconds)])
        case .renamed(.project(let id), let name):
            (0, [.named(.project, id: Int64(id.rawValue), name: content(Array(name.utf8), hash))])
        case .renamed(.app(let id), let name):
            (0, [.named(.app, id: id.rawValue, name: content(Array(name.utf8), hash))])
        case .strategySet(let version, let strategy):
            (0, [.strategySet(version: Int64(version), content: content(strategy.packed, hash))])
        }
    }

    /// A column of the directory for its hash.
    package enum Column {
        case integer(Int64?)
        case text(String?)
        case bytes([UInt8]?)
    }

    /// The facts of a project, an app or a key, in the order of the columns of its table.
    private static func made(
        _ thing: Thing, _ id: Int64, _ name: String, _ columns: [Column], _ hash: KeyedHash
    ) -> [LeafFact] {
        [
            .made(thing, id: id, content: content(columns, hash)),
            .named(thing, id: id, name: content(Array(name.utf8), hash)),
        ]
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
        func add(_ code: UInt8, _ numbers: Int64..., hash: Hash128? = nil, content: UInt64? = nil) {
            packer.add(code)
            for number in numbers { packer.add(zigzag: number) }
            if let hash { packer.add(fixed: hash.low, hash.high) }
            if let content { packer.add(fixed: content) }
        }
        switch self {
        case .personMade: add(1)
        case .linked(let type, let hash): add(2, Int64(type), hash: hash)
        case .unlinked(let type, let hash): add(3, Int64(type), hash: hash)
        case .rowAdded(let kind, let at, let content): add(4, Int64(kind), at, content: content)
        case .rowSuperseded(let kind, let row): add(5, Int64(kind), row)
        case .documentPut(let kind, let key, let content): add(6, Int64(kind), hash: key, content: content)
        case .merged(let id, let from, let into, let rule): add(7, id, from, into, Int64(rule))
        case .mergeUndone(let id): add(8, id)
        case .personErased: add(9)
        case .made(let thing, let id, let content): add(10, Int64(thing.rawValue), id, content: content)
        case .revoked(let thing, let id, let at): add(11, Int64(thing.rawValue), id, at)
        case .named(let thing, let id, let name): add(12, Int64(thing.rawValue), id, content: name)
        case .strategySet(let version, let content): add(13, version, content: content)
        }
    }

    package init?(unpacking unpacker: inout Unpacker) {
        func thing() -> Thing? { unpacker.small().flatMap(Thing.init) }
        func content() -> UInt64? { unpacker.fixed() }
        func hash() -> Hash128? {
            guard let low = unpacker.fixed(), let high = unpacker.fixed() else { return nil }
            return Hash128(high: high, low: low)
        }
        switch unpacker.byte() {
        case 1: self = .personMade
        case 2:
            guard let type = unpacker.small(), let hash = hash() else { return nil }
            self = .linked(type: type, hash)
        case 3:
            guard let type = unpacker.small(), let hash = hash() else { return nil }
            self = .unlinked(type: type, hash)
        case 4:
            guard let kind = unpacker.small(), let at = unpacker.zigzag(), let content = content() else { return nil }
            self = .rowAdded(kind: kind, at: at, content: content)
        case 5:
            guard let kind = unpacker.small(), let row = unpacker.zigzag() else { return nil }
            self = .rowSuperseded(kind: kind, row: row)
        case 6:
            guard let kind = unpacker.small(), let key = hash(), let content = content() else { return nil }
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
