package import Crypto
package import Domain

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

    /// Adds the columns that an erasure removes.
    fileprivate func addContent(to packer: inout Packer) {
        func add(_ bytes: [UInt8]?) {
            packer.add(bytes == nil ? 0 : 1 as UInt8)
            if let bytes { packer.add(bytes) }
        }
        packer.add(requestID)
        add(replay)
        add(body)
        add(inputs)
        add(note.map { Array($0.utf8) })
        packer.add(reply)
    }

    /// About as many bytes as the content has.
    fileprivate var contentBytes: Int {
        80 + requestID.utf8.count + (inputs?.count ?? 0) + reply.count + (note?.utf8.count ?? 0)
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
        case open(salt: Hash128, facts: [UInt8])
        case sealed(Digest)
    }

    package struct Part: Equatable {
        /// The person; 0 for a call about nobody.
        package let person: Int64
        package var content: Content
    }

    package private(set) var parts: [Part]
    /// The salt that the salts of all parts follow from; nil after a part was sealed, because its salt must not follow from anything.
    private var root: Hash128?

    package static let saltBytes = 16
    private static let allOpen: UInt8 = 1
    private static let someSealed: UInt8 = 2

    /// The opening of a call that was just made.
    ///
    /// - Parameters:
    ///   - person: the person of the call; 0 for a call about nobody.
    ///   - facts: the facts of each person, the call's own person first.
    package init(salt: Hash128, _ facts: [(person: Int64, facts: Packer)], _ hasher: SHA256) {
        root = salt
        parts = facts.map { part in
            Part(
                person: part.person,
                content: .open(salt: LeafOpening.salt(salt, of: part.person, hasher), facts: part.facts.bytes))
        }
    }

    /// The salt of a person of a call: the first bytes of a digest.
    private static func salt(_ salt: Hash128, of person: Int64, _ hasher: SHA256) -> Hash128 {
        var packer = Packer(reserving: saltBytes + 8)
        packer.add(salt)
        packer.add(fixed: UInt64(bitPattern: person))
        let words = hasher.digest(of: packer.bytes.span).words
        return Hash128(high: UInt64(littleEndian: words.1), low: UInt64(littleEndian: words.0))
    }

    /// The bytes of the `opening` column. One salt stands for all parts until one of them is sealed.
    package func packed() -> [UInt8] {
        var packer = Packer(reserving: 128)
        if let root {
            packer.add(LeafOpening.allOpen)
            packer.add(root)
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
                packer.add(salt)
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
        func takeCommitment() -> Digest? {
            var taken: [UInt8] = []
            for _ in 0..<Digest.byteCount {
                guard let byte = unpacker.byte() else { return nil }
                taken.append(byte)
            }
            return Digest(taken)
        }
        parts = []
        switch unpacker.byte() {
        case LeafOpening.allOpen:
            guard let salt = unpacker.hash() else { return nil }
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
                    guard let salt = unpacker.hash(), let facts = unpacker.bytes() else { return nil }
                    parts.append(Part(person: person, content: .open(salt: salt, facts: facts)))
                } else {
                    guard let commitment = takeCommitment() else { return nil }
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
            var packer = Packer(
                reserving: LeafOpening.saltBytes + 20 + facts.count + (place == 0 ? columns.contentBytes : 0))
            packer.add(salt)
            packer.add(fixed: UInt64(bitPattern: columns.sequence), UInt64(bitPattern: part.person))
            packer.add(facts)
            if place == 0 { columns.addContent(to: &packer) }
            return hasher.digest(of: packer.bytes.span)
        }
    }

    /// The leaf of a call.
    package func leaf(_ columns: LeafColumns, _ hasher: SHA256) -> Digest {
        MerkleTree.leaf(content(columns, hasher), hasher)
    }

    /// The bytes that the leaf of a call is the hash of (``LeafContent``).
    package func content(_ columns: LeafColumns, _ hasher: SHA256) -> [UInt8] {
        var content = columns.head
        for place in parts.indices { content.append(commitment(place, columns, hasher)) }
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
    package static func mark(of leaf: Digest) -> [UInt8] {
        let first = UInt64(littleEndian: leaf.words.0)
        return [
            UInt8(truncatingIfNeeded: first), UInt8(truncatingIfNeeded: first >> 8),
            UInt8(truncatingIfNeeded: first >> 16), UInt8(truncatingIfNeeded: first >> 24),
        ]
    }
}
