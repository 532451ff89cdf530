import Invocation
import StorePostgres

/// A command of the program.
protocol ProgramCommand: SendableMetatype {
    /// Its name: a word, or two for those that do one thing of several with something, like `strategy show`.
    static var name: String { get }
    static var summary: String { get }
    /// The flags that it has besides settings, as its help shows them.
    static var usage: String { get }
    static var valuedFlags: [String] { get }
    /// The words that it needs behind its name, in their order.
    static var operands: [String] { get }
    static var switches: [String] { get }

    /// Does it. Answers the exit code.
    static func run(_ context: CommandContext) throws(CommandFault) -> Int32
}

extension ProgramCommand {
    static var valuedFlags: [String] { [] }
    static var operands: [String] { [] }
    static var switches: [String] { ["json"] }

    static var words: [String] { name.split(separator: " ").map(String.init) }
}

/// What a command works with.
struct CommandContext {
    let arguments: Arguments
    let settings: Settings
    let terminal: Terminal

    /// Whether results are to be printed for programs.
    var isForPrograms: Bool { arguments.has("json") }

    var dataFolder: DataFolder { DataFolder(path: settings["data"] ?? "data") }

    /// The database that the store is in; nil where it is a file in the data folder.
    var database: PostgresSettings? {
        settings["store"].flatMap(database(at:))
    }

    /// A database, as the settings want it used.
    func database(at address: String) -> PostgresSettings? {
        guard var database = PostgresSettings(address: address, schema: settings["store_schema"] ?? "onym") else {
            return nil
        }
        database.preparesStatements = settings["store_prepared"] != "off"
        database.partitionRows = settings["store_partition_rows"].flatMap(Int64.init) ?? database.partitionRows
        return database
    }
}

/// Why a command did not do what it was told.
enum CommandFault: Error, Equatable {
    /// It was told wrongly.
    case usage(String)
    /// It could not be done.
    case failed(String)

    /// Names what failed, where something below said why.
    init(_ error: some Error & CustomStringConvertible) { self = .failed(error.description) }

    var message: String {
        switch self {
        case .usage(let message), .failed(let message): message
        }
    }

    var exitCode: Int32 {
        switch self {
        case .usage: 2
        case .failed: 1
        }
    }
}
