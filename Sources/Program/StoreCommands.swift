import Domain
import Invocation
import JSON

/// `onym stores show`: shows a project's options for the stores that confirm purchases.
enum StoresShowCommand: ProgramCommand {
    static let name = "stores show"
    static let summary = "Shows a project's options for the App Store, Google Play and Stripe."
    static let usage = "onym stores show [--data DIR] [--project ID] [--json]"
    static let valuedFlags = ["project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        try show(try context.control("GET", "/onym/v1/stores"), context)
    }

    static func show(_ answer: ControlClient.Answer, _ context: CommandContext) throws(CommandFault) -> Int32 {
        context.terminal.result(
            context.isForPrograms ? answer.text : try AnswerTable.text(answer, context.terminal.layout))
        return 0
    }
}

/// `onym stores set`: changes a project's options for the stores that confirm purchases.
enum StoresSetCommand: ProgramCommand {
    static let name = "stores set"
    static let summary = "Changes a project's options for the App Store, Google Play and Stripe."
    static let usage = """
        onym stores set NAME=VALUE… [--data DIR] [--project ID] [--json]

        NAME is app_store.bundle_id, play.service_account, stripe.secret_key or another option; onym stores show lists those
        that are set. @FILE as a value stands for the text in the file, and - for a line of standard input, so that a
        secret is in no list of processes. A name with no value after the = goes back to the server's setting.
        """
    static let operands = ["NAME=VALUE…"]
    static let valuedFlags = ["project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        var values: [String: [(StoreOption, String)]] = [:]
        for word in context.arguments.words {
            guard let mark = word.firstIndex(of: "=") else { throw .usage("\(word) must have the form NAME=VALUE.") }
            let name = String(word[..<mark])
            guard let option = StoreOption.named(name) else {
                throw .usage(
                    "\(name) is no option of a store. The options are: "
                        + StoreOption.all.map(\.id).joined(separator: ", ") + ".")
            }
            values[option.store, default: []].append((option, try text(String(word[word.index(after: mark)...]))))
        }
        guard !values.isEmpty else { throw .usage("NAME=VALUE must be given.") }
        var json = JSONWriter()
        var fault: CommandFault?
        json.object { json in
            for (store, options) in values.sorted(by: { $0.key < $1.key }) {
                json.key(store)
                json.object { json in
                    for (option, text) in options {
                        json.key(option.name)
                        do throws(CommandFault) {
                            try write(text, option, &json)
                        } catch {
                            json.null()
                            fault = error
                        }
                    }
                }
            }
        }
        if let fault { throw fault }
        return try StoresShowCommand.show(try context.control("PUT", "/onym/v1/stores", body: json.bytes), context)
    }

    private static func text(_ value: String) throws(CommandFault) -> String {
        if value == "-" {
            guard let line = readLine() else { throw .failed("Standard input has no line.") }
            return line
        }
        guard value.hasPrefix("@") else { return value }
        let path = String(value.dropFirst())
        let text = try Files.read(path, orElse: "\(path) cannot be read")
        // Editors end a file with a new line, which is no part of a secret.
        return text.hasSuffix("\n") ? String(text.dropLast()) : text
    }

    private static func write(
        _ text: String, _ option: StoreOption, _ json: inout JSONWriter
    ) throws(CommandFault) {
        if text.isEmpty { return json.null() }
        if let demand = option.demand(unmetBy: text) { throw .usage("\(option.id) \(demand).") }
        switch option.form {
        case .toggle: json.bool(text == "on")
        case .integer: json.integer(Int64(text) ?? 0)
        case .text, .choice, .secret, .secrets: json.string(text)
        }
    }
}

/// `onym stores status`: shows what each store has said since the server started.
enum StoresStatusCommand: ProgramCommand {
    static let name = "stores status"
    static let summary = "Shows what the App Store, Google Play and Stripe have said last."
    static let usage = """
        onym stores status [--data DIR] [--project ID] [--json]

        The exit code is 1 if a store that is set up has a fault.
        """
    static let valuedFlags = ["project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let answer = try context.control("GET", "/onym/v1/stores/status")
        context.terminal.result(
            context.isForPrograms ? answer.text : try AnswerTable.text(answer, context.terminal.layout))
        var hasFault = false
        _ = try answer.read { root throws(JSONFault) in
            try root.forEachMember(at: "the answer") { key, value throws(JSONFault) in
                guard case "stores" = key else { return }
                try value.forEachElement(at: "stores") { store throws(JSONFault) in
                    var (isSetUp, isFaulty) = (false, false)
                    try store.forEachMember(at: "a store") { key, value throws(JSONFault) in
                        switch key {
                        case "set_up": isSetUp = try value.bool(at: "set_up")
                        case "fault": isFaulty = !value.isNull
                        default: break
                        }
                    }
                    if isSetUp, isFaulty { hasFault = true }
                }
            }
        }
        return hasFault ? 1 : 0
    }
}
