import Invocation
import JSON

/// `onym settings`: prints each setting, or those of a group, with its source.
enum SettingsCommand: ProgramCommand {
    static let name = "settings"
    static let summary = "Prints each setting, and the source of its value."
    static let usage = "onym settings [GROUP] [--data DIR] [--json]"
    static let operands = ["[GROUP]"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        var entries = context.settings.entries
        if let name = context.arguments.words.first {
            guard let group = ServerSettings.group(name) else {
                let names = ServerSettings.groups.map(\.name).joined(separator: ", ")
                throw .usage("There is no group of settings \"\(name)\". The groups are \(names).")
            }
            entries.removeAll { entry in !group.definitions.contains { $0.name == entry.definition.name } }
        }
        func shown(_ entry: Settings.Entry) -> String? {
            entry.definition.mayHoldSecret && entry.value != nil ? "(set)" : entry.value
        }
        guard context.isForPrograms else {
            for entry in entries {
                let name =
                    entry.definition.name + String(repeating: " ", count: max(1, 30 - entry.definition.name.count))
                context.terminal.result("\(name)\(shown(entry) ?? "-")  (\(entry.source.name))")
            }
            return 0
        }
        var json = JSONWriter(reserving: 1024)
        json.object { json in
            for entry in entries {
                json.key(entry.definition.name)
                json.object { json in
                    json.key("value")
                    if let value = shown(entry) { json.string(value) } else { json.null() }
                    json.key("source")
                    json.string(entry.source.name)
                }
            }
        }
        context.terminal.result(String(decoding: json.bytes, as: UTF8.self))
        return 0
    }
}
