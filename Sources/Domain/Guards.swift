/// What a project does so that strangers are not taken for one, and nobody for somebody else.
package struct Guards: Equatable, Sendable {
    /// What becomes of a client that names a known user without proof that it may.
    package enum Signing: UInt8, CaseIterable, Sendable {
        case off
        /// It is taken, and journalled.
        case log
        /// It is refused.
        case require
    }

    /// How many values of a type one person may hold, for types that have a limit.
    package var limits: [IdentityType: Int] = [:]
    /// How many people may hold one device identity: from there on it is shared, and nobody is found by it any more.
    package var sharedDevicePeople = Strategy.holdersPerValue
    /// How large people and groups may become.
    package var bounds = Bounds()
    /// Whether equal user ids in several dialects are one human.
    package var joinsSameUserIDs = false
    /// By dialect, where clients have to prove that they may name a known user.
    package var signing: [Dialect: Signing] = [:]

    package init() {}

    /// How many people may hold a value of a type.
    func holders(of type: IdentityType) -> Int { type.isDevice ? sharedDevicePeople : Strategy.holdersPerValue }

    package func signing(in dialect: Dialect) -> Signing { signing[dialect] ?? .off }

    /// Whether clients of any dialect are asked for proof.
    package var asksForProof: Bool { signing.values.contains { $0 != .off } }

    /// Whether clients of any dialect have to have proof.
    package var requiresProof: Bool { signing.values.contains(.require) }
}

extension Guards {
    package func pack(into packer: inout Packer) {
        packer.add(UInt64(limits.count))
        for (type, limit) in limits.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
            packer.add(type.rawValue)
            packer.add(UInt64(limit))
        }
        packer.add(UInt64(sharedDevicePeople))
        packer.add(joinsSameUserIDs ? 1 : 0 as UInt8)
        packer.add(UInt64(signing.count))
        for (dialect, signing) in signing.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
            packer.add(dialect.rawValue)
            packer.add(signing.rawValue)
        }
    }

    init?(unpacking unpacker: inout Unpacker) {
        guard let limitCount = unpacker.integer() else { return nil }
        for _ in 0..<limitCount {
            guard let type = unpacker.byte().flatMap(IdentityType.init(rawValue:)), let limit = unpacker.integer()
            else {
                return nil
            }
            limits[type] = Int(limit)
        }
        guard let people = unpacker.integer(), let joins = unpacker.byte(), let count = unpacker.integer() else {
            return nil
        }
        (sharedDevicePeople, joinsSameUserIDs) = (Int(people), joins == 1)
        for _ in 0..<count {
            guard let dialect = unpacker.text().flatMap(Dialect.init),
                let signing = unpacker.byte().flatMap(Signing.init)
            else { return nil }
            self.signing[dialect] = signing
        }
    }
}
