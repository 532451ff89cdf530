/// A store whose tables can be read, while nobody writes to it.
package protocol TableSource {
    /// The key of its hash: what it knows identities by goes along with them.
    var hashKey: Hash128 { get }

    /// How many rows a table has.
    func count(of table: StoredTable) throws(StoreFault) -> Int

    /// The next rows behind a key, in the order of their keys; none at the end.
    func records(of table: StoredTable, after key: [Int64], limit: Int) throws(StoreFault) -> [StoredRecord]
}

/// A store that another is moved into. No server opens it before it is ``release()``d.
package protocol TableTarget: TableSource {
    /// Begins to take in what has that mark, or goes on with it where an earlier attempt was cut short. What there is of
    /// something else that was being moved here is thrown away; a store that is in use is refused.
    func begin(_ mark: MoveMark) throws(StoreFault)

    /// The key of the last row that a table has; nil where it has none.
    func lastKey(of table: StoredTable) throws(StoreFault) -> [Int64]?

    /// Adds rows that follow those that are there. They are all kept when this returns, or none of them is.
    func add(_ records: [StoredRecord], to table: StoredTable) throws(StoreFault)

    /// Makes what follows from the rows, when all are there.
    func complete() throws(StoreFault)

    /// Lets servers open it.
    func release() throws(StoreFault)
}

/// By which a store and its state are known again, so that a move is not gone on with when it was written to meanwhile.
package struct MoveMark: Equatable, Sendable {
    package let hashKey: Hash128
    /// The last call that it has.
    package let sequence: Int64

    package init(hashKey: Hash128, sequence: Int64) {
        self.hashKey = hashKey
        self.sequence = sequence
    }

    package var bytes: [UInt8] {
        var packer = Packer()
        packer.add(UInt64(bitPattern: sequence))
        return hashKey.bytes + packer.bytes
    }
}

/// Moves a store into another: table by table, page by page. Cut short, it goes on where it was when it is done again. In the
/// end both are read whole, and have to say the same.
package struct Move {
    package struct Table: Equatable, Sendable {
        package let table: StoredTable
        package let count: Int
        /// The sum of the hashes of all rows.
        package let checksum: UInt64
    }

    /// How far it is.
    package struct Progress: Equatable, Sendable {
        package enum Step: Sendable { case copying, completing, checking }

        package let step: Step
        package let table: StoredTable
        package let done: Int
        package let all: Int
    }

    private let source: any TableSource
    private let target: any TableTarget
    private let page: Int
    private let progress: (Progress) -> Void

    /// - Parameter page: how many rows are moved at once.
    package init(
        from source: any TableSource, into target: any TableTarget, page: Int = 2000,
        progress: @escaping (Progress) -> Void = { _ in }
    ) {
        self.source = source
        self.target = target
        self.page = page
        self.progress = progress
    }

    /// Does it; answers what was moved.
    package func run() throws(StoreFault) -> [Table] {
        try target.begin(MoveMark(hashKey: source.hashKey, sequence: try lastSequence()))
        for table in StoredTable.allCases { try copy(table) }
        progress(Progress(step: .completing, table: .journal, done: 0, all: 0))
        try target.complete()
        var tables: [Table] = []
        for table in StoredTable.allCases { tables.append(try check(table)) }
        try target.release()
        return tables
    }

    private func lastSequence() throws(StoreFault) -> Int64 {
        var (low, high): (Int64, Int64) = (0, .max)
        // Calls are numbered from 1 and none is missing.
        while low < high {
            let middle = low + (high - low) / 2
            if try source.records(of: .journal, after: [middle], limit: 1).isEmpty {
                high = middle
            } else {
                low = middle + 1
            }
        }
        return low
    }

    private func copy(_ table: StoredTable) throws(StoreFault) {
        let all = try source.count(of: table)
        var done = try target.count(of: table)
        var key = try target.lastKey(of: table) ?? Move.first(table)
        progress(Progress(step: .copying, table: table, done: done, all: all))
        while true {
            let page = try source.records(of: table, after: key, limit: page)
            guard let last = page.last else { return }
            try target.add(page, to: table)
            key = last.key(in: table)
            done += page.count
            progress(Progress(step: .copying, table: table, done: done, all: all))
        }
    }

    private func check(_ table: StoredTable) throws(StoreFault) -> Table {
        let there = try sum(table, source)
        let here = try sum(table, target)
        guard there == here else {
            throw StoreFault(
                .corrupt,
                """
                The table \(table.rawValue) has \(there.count) rows with the checksum \(there.checksum) in one store, and \
                \(here.count) with \(here.checksum) in the other. No server will open the new one. If the old one was \
                written to since the first attempt, drop the schema of the new one and move it again.
                """)
        }
        return there
    }

    private func sum(_ table: StoredTable, _ store: any TableSource) throws(StoreFault) -> Table {
        var (count, checksum): (Int, UInt64) = (0, 0)
        var key = Move.first(table)
        while true {
            let page = try store.records(of: table, after: key, limit: page)
            guard let last = page.last else { return Table(table: table, count: count, checksum: checksum) }
            for record in page { checksum &+= record.checksum }
            count += page.count
            key = last.key(in: table)
            progress(Progress(step: .checking, table: table, done: count, all: 0))
        }
    }

    private static func first(_ table: StoredTable) -> [Int64] { Array(repeating: .min, count: table.keyColumns) }
}
