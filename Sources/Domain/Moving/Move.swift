/// A store with readable tables. During the move no server writes to this store.
package protocol TableSource {
    /// The key of the store's hash. The target needs the same key to find identities.
    var hashKey: Hash128 { get }

    /// The number of rows of a table.
    func count(of table: StoredTable) throws(StoreFault) -> Int

    /// The next rows after a key, in the order of their keys; empty at the end.
    func records(of table: StoredTable, after key: [Int64], limit: Int) throws(StoreFault) -> [StoredRecord]
}

/// A store that can be moved to another store.
package protocol MovableSource: TableSource {
    /// The note about a move of the store; nil if the store is not moved.
    func move() throws(StoreFault) -> StoreMove?

    /// The last id that a call gave; nil for a store without calls.
    func lastGiven() throws(StoreFault) -> PersonID?

    /// Writes or removes the note, and returns when it is on the disk.
    func note(_ move: StoreMove?) throws(StoreFault)
}

/// A store that receives another store. No server opens it before ``release()``.
package protocol TableTarget: TableSource {
    /// Begins a move of the store with a mark, or continues an earlier move with this mark. Removes the rows of another
    /// unfinished move. Throws for a store in use.
    func begin(_ mark: MoveMark) throws(StoreFault)

    /// The key of the last row of a table; nil for an empty table.
    func lastKey(of table: StoredTable) throws(StoreFault) -> [Int64]?

    /// Adds rows after the existing rows, all or nothing.
    func add(_ records: [StoredRecord], to table: StoredTable) throws(StoreFault)

    /// Makes the values that are derived from the rows, after all rows are present.
    ///
    /// - Parameter last: the last id that a call gave.
    func complete(lastGiven last: PersonID?) throws(StoreFault)

    /// Allows servers to open the store.
    func release() throws(StoreFault)
}

/// The identification of a store and its state. A move cannot continue after a write to the source.
package struct MoveMark: Equatable, Sendable {
    package let hashKey: Hash128
    /// The last call of the store.
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

/// Moves a store into another store, table by table and page by page. An interrupted move continues at its last page. At the
/// end both stores are read in full, and must be equal.
package struct Move {
    /// The number of rows of a moved table, and their checksum.
    package struct Table: Equatable, Sendable {
        package let table: StoredTable
        package let count: Int
        /// The sum of the hashes of all rows.
        package let checksum: UInt64
    }

    /// The progress of a move.
    package struct Progress: Equatable, Sendable {
        /// The phase of a move.
        package enum Step: Sendable { case copying, completing, checking }

        package let step: Step
        package let table: StoredTable
        package let done: Int
        package let all: Int
    }

    private let source: any MovableSource
    private let target: any TableTarget
    private let name: String
    private let moment: Instant
    private let page: Int
    private let progress: (Progress) -> Void

    /// - Parameters:
    ///   - source: the store that moves.
    ///   - target: the new store.
    ///   - name: the address of the new store, without its password.
    ///   - moment: the present moment.
    ///   - page: the number of rows in one step.
    ///   - progress: takes the progress after each step.
    package init(
        from source: any MovableSource, into target: any TableTarget, named name: String, at moment: Instant,
        page: Int = 2000, progress: @escaping (Progress) -> Void = { _ in }
    ) {
        self.source = source
        self.target = target
        self.name = name
        self.moment = moment
        self.page = page
        self.progress = progress
    }

    /// Moves the store, and returns the moved tables. From the first row on no server opens the old store, and no server opens
    /// the new store before the old one has noted that it was moved.
    package func run() throws(StoreFault) -> [Table] {
        if let known = try source.move(), known.target != name {
            throw StoreFault(
                .locked,
                """
                A move of this store to \(known.target) has begun. Complete that move, or end it with \
                "onym migrate --cancel".
                """)
        }
        let sequence = try lastSequence()
        func note(_ state: StoreMove.State) throws(StoreFault) {
            try source.note(StoreMove(state, to: name, at: moment, after: sequence))
        }
        try target.begin(MoveMark(hashKey: source.hashKey, sequence: sequence))
        try note(.begun)
        for table in StoredTable.allCases { try copy(table) }
        progress(Progress(step: .completing, table: .journal, done: 0, all: 0))
        try target.complete(lastGiven: try source.lastGiven())
        var tables: [Table] = []
        for table in StoredTable.allCases { tables.append(try check(table)) }
        try note(.done)
        try target.release()
        return tables
    }

    private func lastSequence() throws(StoreFault) -> Int64 {
        var (low, high): (Int64, Int64) = (0, .max)
        // Calls have numbers from 1 without gaps.
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
