package import Crypto
import Domain

/// The columns of a journal row that its leaf commits to.
package struct LeafColumns {
    package let sequence: Int64
    package let at: Int64
    package let project: Int64
    package let key: Int64?
    package let kind: Int64
    package let person: Int64?
    package let requestID: String
    package let replay: [UInt8]?
    package let body: [UInt8]?
    package let inputs: [UInt8]?
    package let reply: [UInt8]
    package let note: String?

    package init(
        sequence: Int64, at: Int64, project: Int64, key: Int64?, kind: Int64, person: Int64?, requestID: String,
        replay: [UInt8]?, body: [UInt8]?, inputs: [UInt8]?, reply: [UInt8], note: String?
    ) {
        (self.sequence, self.at, self.project, self.key) = (sequence, at, project, key)
        (self.kind, self.person, self.requestID) = (kind, person, requestID)
        (self.replay, self.body, self.inputs) = (replay, body, inputs)
        (self.reply, self.note) = (reply, note)
    }

    /// The columns that an erasure removes.
    fileprivate var content: [UInt8] {
        var packer = Packer(reserving: 80 + requestID.utf8.count + (inputs?.count ?? 0) + reply.count)
        packer.add(requestID)
        for bytes in [replay, body, inputs, note.map { Array($0.utf8) }] {
            packer.add(bytes == nil ? 0 : 1 as UInt8)
            if let bytes { packer.add(bytes) }
        }
        packer.add(reply)
        return packer.bytes
    }

    fileprivate var head: [UInt8] {
        LeafContent.head(sequence: sequence, at: at, project: project, key: key, kind: kind, person: person)
    }
}

/// What a leaf commits to for each person of its call, and for the call itself. The first part is that of the call and of its own
/// person. The leaf has a commitment to each part: a hash of a random salt and the facts. An erasure keeps the commitments of the
/// erased people, and removes their salts and facts. So the leaf stays checkable, and nobody can guess a value.
package struct LeafOpening: Equatable {
    /// One part of a leaf.
    package enum Content: Equatable {
        case open(salt: [UInt8], facts: [UInt8])
        case sealed(Digest)
    }

    package struct Part: Equatable {
        /// The person; 0 for a call about nobody.
        package let person: Int64
        package var content: Content
    }

    package private(set) var parts: [Part]
    /// The salt that the salts of all parts follow from; nil after a part was sealed, because its salt must not follow from anything.
    private var root: [UInt8]?

    package static let saltBytes = 16
    private static let allOpen: UInt8 = 1
    private static let someSealed: UInt8 = 2

    /// The opening of a call that was just made.
    ///
    /// - Parameters:
    ///   - person: the person of the call; 0 for a call about nobody.
    ///   - facts: the facts of each person, the call's own person first.
    package init(salt: [UInt8], _ facts: [(person: Int64, facts: [UInt8])], _ hasher: SHA256) {
        root = salt
        parts = facts.map { part in
            Part(
                person: part.person,
                content: .open(salt: LeafOpening.salt(salt, of: part.person, hasher), facts: part.facts))
        }
    }

    /// The salt of a person of a call.
    private static func salt(_ salt: [UInt8], of person: Int64, _ hasher: SHA256) -> [UInt8] {
        var packer = Packer(reserving: saltBytes + 8)
        packer.add(plain: salt)
        packer.add(fixed: UInt64(bitPattern: person))
        return Array(hasher.digest(of: packer.bytes.span).bytes.prefix(saltBytes))
    }

    /// The bytes of the `opening` column. One salt stands for all parts until one of them is sealed.
    package func packed() -> [UInt8] {
        var packer = Packer(reserving: 128)
        if let root {
            packer.add(LeafOpening.allOpen)
            packer.add(plain: root)
            for part in parts {
                guard case .open(_, let facts) = part.content else { continue }
                packer.add(zigzag: part.person)
                packer.add(facts)
            }
            return packer.bytes
        }
        packer.add(LeafOpening.someSealed)
        for part in parts {
            packer.add(zigzag: part.person)
            switch part.content {
            case .open(let salt, let facts):
                packer.add(0 as UInt8)
                packer.add(plain: salt)
                packer.add(facts)
            case .sealed(let commitment):
                packer.add(1 as UInt8)
                packer.add(plain: commitment.bytes)
            }
        }
        return packer.bytes
    }

    package init?(packed bytes: [UInt8], _ hasher: SHA256) {
        var unpacker = Unpacker(bytes)
        func take(_ count: Int) -> [UInt8]? {
            var taken: [UInt8] = []
            for _ in 0..<count {
                guard let byte = unpacker.byte() else { return nil }
                taken.append(byte)
            }
            return taken
        }
        parts = []
        switch unpacker.byte() {
        case LeafOpening.allOpen:
            guard let salt = take(LeafOpening.saltBytes) else { return nil }
            root = salt
            while !unpacker.isAtEnd {
                guard let person = unpacker.zigzag(), let facts = unpacker.bytes() else { return nil }
                let own = LeafOpening.salt(salt, of: person, hasher)
                parts.append(Part(person: person, content: .open(salt: own, facts: facts)))
            }
        case LeafOpening.someSealed:
            while !unpacker.isAtEnd {
                guard let person = unpacker.zigzag(), let kind = unpacker.byte() else { return nil }
                if kind == 0 {
                    guard let salt = take(LeafOpening.saltBytes), let facts = unpacker.bytes() else { return nil }
                    parts.append(Part(person: person, content: .open(salt: salt, facts: facts)))
                } else {
                    guard let commitment = take(Digest.byteCount).flatMap({ Digest($0) }) else { return nil }
                    parts.append(Part(person: person, content: .sealed(commitment)))
                }
            }
        default: return nil
        }
        if parts.isEmpty { return nil }
    }

    /// The people of a packed opening, the call's own person first, without its other contents.
    package static func people(packed bytes: [UInt8]) -> [Int64] {
        var unpacker = Unpacker(bytes)
        var people: [Int64] = []
        func skip(_ count: Int) { for _ in 0..<count { _ = unpacker.byte() } }
        let form = unpacker.byte()
        if form == allOpen { skip(saltBytes) }
        while !unpacker.isAtEnd {
            guard let person = unpacker.zigzag() else { break }
            people.append(person)
            let isSealed = form == someSealed && unpacker.byte() == 1
            if isSealed {
                skip(Digest.byteCount)
            } else {
                if form == someSealed { skip(saltBytes) }
                _ = unpacker.bytes()
            }
        }
        return people
    }

    private func commitment(_ place: Int, _ columns: LeafColumns, _ hasher: SHA256) -> Digest {
        let part = parts[place]
        switch part.content {
        case .sealed(let commitment): return commitment
        case .open(let salt, let facts):
            var packer = Packer(reserving: salt.count + facts.count + 20)
            packer.add(plain: salt)
            packer.add(fixed: UInt64(bitPattern: columns.sequence), UInt64(bitPattern: part.person))
            packer.add(facts)
            hasher.begin()
            hasher.update(packer.bytes)
            if place == 0 { hasher.update(columns.content) }
            return hasher.finish()
        }
    }

    /// The leaf of a call.
    package func leaf(_ columns: LeafColumns, _ hasher: SHA256) -> Digest {
        MerkleTree.leaf(content(columns, hasher), hasher)
    }

    /// The bytes that the leaf of a call is the hash of (``LeafContent``).
    package func content(_ columns: LeafColumns, _ hasher: SHA256) -> [UInt8] {
        var content = columns.head
        for place in parts.indices { content += commitment(place, columns, hasher).bytes }
        return content
    }

    /// Keeps only the commitments of some people, and of the call itself if the call loses its content. Returns false if nothing
    /// changes.
    package mutating func seal(
        _ people: Set<Int64>, andCall isCallSealed: Bool, _ columns: LeafColumns, _ hasher: SHA256
    ) -> Bool {
        var isChanged = false
        for place in parts.indices where people.contains(parts[place].person) || (place == 0 && isCallSealed) {
            guard case .open = parts[place].content else { continue }
            parts[place].content = .sealed(commitment(place, columns, hasher))
            root = nil
            isChanged = true
        }
        return isChanged
    }

    /// The first bytes of a leaf, which name the row that differs from its leaf.
    package static func mark(of leaf: Digest) -> [UInt8] { Array(leaf.bytes.prefix(4)) }
}
