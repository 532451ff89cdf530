/// The rows of a person, the last first. It includes rows that aliases bring.
package struct Timeline: Sendable {
    package let rows: [StoredRow]
    /// The start of the next page; nil at the end.
    package let next: Cursor?
    /// The number of rows that were read for the page, also of those that the filter leaves out.
    package let lookedAt: Int

    /// The rows that a page should have.
    package struct Filter: Sendable {
        /// All kinds but the context, which each upload brings.
        package var kinds = RowKind.allCases.filter { $0 != .context }
        /// Only rows that were written to this person.
        package var member: PersonID?
        package var since: Instant?
        package var until: Instant?
        package var limit = 50
        package var cursor: Cursor?

        package init() {}

        func includes(_ row: Row) -> Bool {
            if let since, row.at < since { return false }
            if let until, row.at >= until { return false }
            return true
        }
    }

    /// The end of a page: the last row, and the next row of each chain, so that no page reads a row twice.
    package struct Cursor: Equatable, Sendable {
        package let before: RowNumber
        package let chains: [Position]

        /// The position in one chain of rows.
        package struct Position: Equatable, Sendable {
            package let person: PersonID
            package let kind: RowKind
            /// The next row; nil at the end of the chain.
            package let next: RowNumber?
        }
    }

    /// The limit of rows that one page reads. With few matching rows the page may be short, and the cursor continues.
    private static let rowsLookedAt = 10_000
    private static let rowsReadAtOnce = 100
    private static let chainsPerCursor = 64

    /// The rows of one kind and person that were read so far.
    private struct Chain {
        let person: PersonID
        let kind: RowKind
        /// The aliases that bring the rows of another person; nil for the person's own rows.
        let aliases: [Alias]?
        var read: ArraySlice<StoredRow> = []
        /// The row to read next; nil for the last row of the chain.
        var from: RowNumber?
        var isAtEnd = false

        var position: Cursor.Position {
            Cursor.Position(person: person, kind: kind, next: read.first?.number ?? (isAtEnd ? nil : from))
        }

        mutating func resume(_ cursor: Cursor) {
            guard let known = cursor.chains.first(where: { $0.person == person && $0.kind == kind }) else { return }
            from = known.next
            isAtEnd = known.next == nil
        }

        /// Reads more rows if all read rows were taken. Returns whether a row is available.
        mutating func fill(before: RowNumber?, _ snapshot: any Snapshot) throws(StoreFault) -> Bool {
            while read.isEmpty, !isAtEnd {
                let rows = try snapshot.rows(of: person, kind, from: from, limit: rowsReadAtOnce)
                from = rows.last?.previous
                isAtEnd = from == nil
                // Only a chain that the last page did not have can have rows that are too new.
                read = rows.drop { row in before.map { row.number >= $0 } ?? false }
            }
            return !read.isEmpty
        }
    }

    package init(
        of person: PersonID, _ filter: Filter, _ snapshot: any Snapshot
    ) throws(StoreFault) {
        var chains: [Chain] = []
        let group = snapshot.group(of: person)
        let members = Set(group.members)
        let totals = try snapshot.totals(of: group)
        // A chain without rows would cost a look for each member.
        let kinds = filter.kinds.filter { totals.rows[$0, default: 0] > 0 }
        for member in members.sorted() {
            chains += kinds.map { Chain(person: member, kind: $0, aliases: nil) }
            let aliases = try snapshot.aliases(of: member).filter { alias in
                alias.destination == member && alias.undoneAt == nil && !members.contains(alias.source)
            }
            for (source, aliases) in Dictionary(grouping: aliases, by: \.source) {
                chains += filter.kinds.map { Chain(person: source, kind: $0, aliases: aliases) }
            }
        }
        if let member = filter.member { chains.removeAll { $0.person != member } }
        if let cursor = filter.cursor {
            for index in chains.indices { chains[index].resume(cursor) }
        }

        var rows: [StoredRow] = []
        var last = filter.cursor?.before
        var lookedAt = 0
        while rows.count < filter.limit, lookedAt < Timeline.rowsLookedAt {
            guard let newest = try Timeline.newest(&chains, before: filter.cursor?.before, snapshot),
                let row = chains[newest].read.popFirst()
            else { break }
            lookedAt += 1
            last = row.number
            let isIncluded = chains[newest].aliases?.contains { $0.includes(row.row) } ?? true
            if isIncluded, filter.includes(row.row) { rows.append(row) }
        }
        (self.rows, self.lookedAt) = (rows, lookedAt)
        let isMore = try Timeline.newest(&chains, before: filter.cursor?.before, snapshot) != nil
        // The cursor has room for some chains. Other chains are read again from their last row.
        let positions = chains.prefix(Timeline.chainsPerCursor).map(\.position)
        next = isMore ? last.map { Cursor(before: $0, chains: positions) } : nil
    }

    /// The chain with the newest row that was not taken; nil if all chains are empty.
    private static func newest(
        _ chains: inout [Chain], before: RowNumber?, _ snapshot: any Snapshot
    ) throws(StoreFault) -> Int? {
        var newest: (index: Int, number: RowNumber)?
        for index in chains.indices {
            guard try chains[index].fill(before: before, snapshot), let number = chains[index].read.first?.number
            else { continue }
            if newest.map({ $0.number < number }) ?? true { newest = (index, number) }
        }
        return newest?.index
    }
}

extension Timeline.Cursor {
    package var packed: [UInt8] {
        var packer = Packer()
        packer.add(UInt64(bitPattern: before.rawValue))
        for chain in chains {
            packer.add(UInt64(bitPattern: chain.person.rawValue))
            packer.add(chain.kind.rawValue)
            packer.add(UInt64(bitPattern: chain.next?.rawValue ?? 0))
        }
        return packer.bytes
    }

    package init?(packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        // A page that continues has rows left in some chain.
        guard let before = unpacker.integer(), !unpacker.isAtEnd else { return nil }
        self.before = RowNumber(rawValue: Int64(bitPattern: before))
        var chains: [Position] = []
        while !unpacker.isAtEnd {
            guard let person = unpacker.person(), let kind = unpacker.byte().flatMap(RowKind.init),
                let next = unpacker.integer()
            else { return nil }
            let number = next == 0 ? nil : RowNumber(rawValue: Int64(bitPattern: next))
            chains.append(Position(person: person, kind: kind, next: number))
        }
        self.chains = chains
    }
}
