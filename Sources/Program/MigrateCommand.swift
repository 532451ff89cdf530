import ByteText
import Domain
import Gateway
import Invocation
import JSON
import StorePostgres
import StoreSQLite

/// `onym migrate`: moves a store from its file into a PostgreSQL database.
enum MigrateCommand: ProgramCommand {
    static let name = "migrate"
    static let summary =
        "Moves a store into PostgreSQL, and compares both. It continues after an interruption."
    static let usage = """
        onym migrate [--from sqlite:DIR] --to postgres://USER@HOST/DATABASE [--store-schema NAME] [--cancel] [--json]

        Stop the server first. DIR is the data folder. Its store only notes that it was moved, and no server opens it any
        more. ONYM_STORE can replace --to. Put an address with a password there, because other users can see flags.

        --cancel ends a move that is not complete, so that servers open the old store again.
        """
    static let valuedFlags = ["from", "to"]
    static let switches = ["cancel", "json"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let folder = try source(context)
        guard folder.store.exists else {
            throw .unreadable("There is no store in \(folder.path). Name its data folder: --from sqlite:DIR")
        }
        if context.arguments.has("cancel") { return try cancel(folder, context) }
        let database = try target(context)
        let keys = try folder.masterKeys(setting: context.settings["master_key"])
        let start = SystemClock.now().milliseconds
        let tables: [Move.Table]
        do throws(StoreFault) {
            let old = try SQLiteTables(folder.store)
            // The first key of the store stays the first one, also if it was dropped since.
            let mark = try old.setting(MasterKeyText.markName) ?? keys.marks[0].bytes
            let new = try PostgresTables(database, keeping: [(MasterKeyText.markName, mark)])
            var shown = Shown()
            tables = try Move(from: old, into: new, named: database.shown, at: SystemClock.now()) {
                shown.show($0, context.terminal)
            }.run()
        } catch {
            throw CommandFault(error)
        }
        report(tables, SystemClock.now().milliseconds - start, folder, context)
        return 0
    }

    private static func source(_ context: CommandContext) throws(CommandFault) -> DataFolder {
        guard let from = context.arguments["from"] else { return context.dataFolder }
        guard from.hasPrefix("sqlite:") else {
            throw .usage(
                "--from must name a data folder, such as sqlite:/var/lib/onym. Only an embedded store can move.")
        }
        return DataFolder(path: String(from.dropFirst("sqlite:".count)))
    }

    /// Ends a move that is not complete.
    private static func cancel(_ folder: DataFolder, _ context: CommandContext) throws(CommandFault) -> Int32 {
        let old: SQLiteTables
        let known: StoreMove?
        do throws(StoreFault) {
            old = try SQLiteTables(folder.store)
            known = try old.move()
        } catch {
            throw CommandFault(error)
        }
        guard let known else {
            context.terminal.note("No move of the store in \(folder.path) has begun.")
            return 0
        }
        if known.state == .done {
            // The new store may have servers already, so it is asked.
            let database = try target(context)
            guard database.shown == known.target else {
                throw .usage("The store was moved to \(known.target): name that one with --to.")
            }
            let isServed: Bool
            do throws(StoreFault) {
                isServed = try PostgresTables.isServed(database, old.hashKey)
            } catch {
                throw CommandFault(error)
            }
            guard !isServed else { throw .failed("The move is complete. \(known.refusal)") }
        }
        do throws(StoreFault) {
            try old.note(nil)
        } catch {
            throw CommandFault(error)
        }
        context.terminal.result(
            "The move to \(known.target) is canceled. The rows that are there already stay, and no server opens them.")
        return 0
    }

    private static func target(_ context: CommandContext) throws(CommandFault) -> PostgresSettings {
        guard let address = context.arguments["to"] ?? context.settings["store"] else {
            throw .usage("The target is missing: --to postgres://USER@HOST/DATABASE, or ONYM_STORE.")
        }
        guard address.hasPrefix("postgres://") || address.hasPrefix("postgresql://"),
            let settings = context.database(at: address)
        else {
            throw .usage(
                "--to must be an address such as postgres://USER@HOST/DATABASE. A store can move only to PostgreSQL.")
        }
        guard settings.preparesStatements else {
            throw .usage(
                "A store cannot move through a pooler: name the database itself, with store_prepared on.")
        }
        return settings
    }

    /// The progress that was printed: each table's start, and a line a second.
    private struct Shown {
        private var last: (step: Move.Progress.Step, table: StoredTable)?
        private var at: Int64 = 0

        mutating func show(_ progress: Move.Progress, _ terminal: Terminal) {
            let now = SystemClock.now().milliseconds
            let isNew = last.map { $0.step != progress.step || $0.table != progress.table } ?? true
            guard isNew || now - at >= 1000 else { return }
            (last, at) = ((progress.step, progress.table), now)
            switch progress.step {
            case .copying where progress.all == 0: break
            case .copying:
                terminal.note("Moving \(progress.table.rawValue): \(progress.done) of \(progress.all) rows.")
            case .completing: terminal.note("Computing the counts.")
            case .checking: terminal.note("Checking \(progress.table.rawValue): \(progress.done) rows.")
            }
        }
    }

    private static func report(
        _ tables: [Move.Table], _ milliseconds: Int64, _ folder: DataFolder, _ context: CommandContext
    ) {
        if context.isForPrograms {
            var json = JSONWriter()
            json.object { json in
                json.key("milliseconds")
                json.integer(milliseconds)
                json.key("tables")
                json.array { json in
                    for table in tables {
                        json.object { json in
                            json.key("name")
                            json.string(table.table.rawValue)
                            json.key("rows")
                            json.integer(Int64(table.count))
                            json.key("checksum")
                            json.string(Hexadecimal.encode(checksum(table)))
                        }
                    }
                }
            }
            context.terminal.result(String(decoding: json.bytes, as: UTF8.self))
            return
        }
        for table in tables where table.count > 0 {
            let name = table.table.rawValue.padded(to: 12)
            context.terminal.result(
                "\(name) \(String(table.count).padded(to: 12)) \(Hexadecimal.encode(checksum(table)))")
        }
        let rows = tables.reduce(0) { $0 + $1.count }
        context.terminal.result(
            """
            Moved \(rows) rows in \(milliseconds) ms; both stores say the same.
            Serve it with --store and the same --data, where the master key and attachments are. \(folder.store.path) says \
            that it was moved, and no server opens it without --force.
            """)
    }

    private static func checksum(_ table: Move.Table) -> [UInt8] {
        (0..<8).map { UInt8(truncatingIfNeeded: table.checksum >> UInt64(56 - $0 * 8)) }
    }
}

extension String {
    /// The text with spaces behind it, up to a width.
    fileprivate func padded(to width: Int) -> String {
        self + String(repeating: " ", count: max(0, width - utf8.count))
    }
}
