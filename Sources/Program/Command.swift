import Domain
import Invocation
import StorePostgres

/// A command of the program.
protocol ProgramCommand: SendableMetatype {
    /// The command's name: one word, or two words for one of several actions on a thing, like `strategy show`.
    static var name: String { get }
    static var summary: String { get }
    /// The command's own flags besides the settings, in the form of its help.
    static var usage: String { get }
    static var valuedFlags: [String] { get }
    /// The necessary words after the command's name, in order. A last word with … stands for one word or
    /// more, and in brackets for any number of words.
    static var operands: [String] { get }
    /// The flags with which the command takes no words.
    static var flagsWithoutOperands: [String] { get }
    static var switches: [String] { get }

    /// Runs the command. Answers the exit code.
    static func run(_ context: CommandContext) throws(CommandFault) -> Int32
}

extension ProgramCommand {
    static var valuedFlags: [String] { [] }
    static var operands: [String] { [] }
    static var flagsWithoutOperands: [String] { [] }
    static var switches: [String] { ["json"] }

    static var words: [String] { name.split(separator: " ").map(String.init) }
}

/// The arguments and tools of a command.
struct CommandContext {
    let arguments: Arguments
    let settings: Settings
    let terminal: Terminal
    let environment: [String: String]

    /// Whether the command prints its results for programs.
    var isForPrograms: Bool { arguments.has("json") }

    var dataFolder: DataFolder { DataFolder(path: settings["data"] ?? "data") }

    /// The store's database; nil if the store is a file in the data folder.
    var database: PostgresSettings? {
        settings["store"].flatMap(database(at:))
    }

    /// A database with the settings for its use.
    func database(at address: String) -> PostgresSettings? {
        guard var database = PostgresSettings(address: address, schema: settings["store_schema"] ?? "onym") else {
            return nil
        }
        database.preparesStatements = settings["store_prepared"] != "off"
        database.partitionRows = settings["store_partition_rows"].flatMap(Int64.init) ?? database.partitionRows
        return database
    }
}

/// The reason why a command failed.
package enum CommandFault: Error, Equatable {
    /// The command line is wrong.
    case usage(String)
    /// The command could not be done.
    case failed(String)
    /// The server or the store could not be reached or opened.
    case unreadable(String)

    /// Makes a fault of the cause in a lower layer.
    init(_ error: some Error & CustomStringConvertible) { self = .failed(error.description) }

    /// Makes a fault of a store that cannot be opened, read or written.
    init(_ fault: StoreFault) { self = .unreadable(fault.description) }

    var message: String {
        switch self {
        case .usage(let message), .failed(let message), .unreadable(let message): message
        }
    }

    var exitCode: Int32 {
        switch self {
        case .usage: 2
        case .failed: 1
        case .unreadable: 3
        }
    }
}
