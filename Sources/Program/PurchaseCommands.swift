import Domain
import HTTPMessage
import Invocation
import JSON

/// `onym purchases check`: asks the store of a purchase, and shows why the purchase gives access or not.
enum PurchasesCheckCommand: ProgramCommand {
    static let name = "purchases check"
    static let summary = "Asks the store of a purchase, and shows why there is access."
    static let usage = """
        onym purchases check STORE:TRANSACTION [--stored] [--data DIR] [--project ID] [--json]

        STORE is appstore, playstore or stripe. TRANSACTION is the original transaction, the token or the subscription.
        With --stored the store is not asked. The exit code is 1 if the store cannot be asked.
        """
    static let operands = ["STORE:TRANSACTION"]
    static let valuedFlags = ["project"]
    static let switches = ["json", "stored"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let path = "/onym/v1/purchases/\(PercentCoding.encode(context.arguments.words[0]))/check"
        let answer = try context.control(context.arguments.has("stored") ? "GET" : "POST", path)
        context.terminal.result(
            context.isForPrograms ? answer.text : try AnswerTable.text(answer, context.terminal.layout))
        let isAnswered = try answer.read { root throws(JSONFault) in
            var isAnswered = true
            try root.forEachMember(at: "the answer") { key, value throws(JSONFault) in
                guard case "store_says" = key else { return }
                try value.forEachMember(at: "store_says") { key, value throws(JSONFault) in
                    if case "fault" = key { isAnswered = value.isNull }
                }
            }
            return isAnswered
        }
        return isAnswered ? 0 : 1
    }
}

/// `onym purchases unfreeze`: ends the freeze of a purchase.
enum PurchasesUnfreezeCommand: ProgramCommand {
    static let name = "purchases unfreeze"
    static let summary = "Ends the freeze of a purchase that too many have proven."
    static let usage = """
        onym purchases unfreeze STORE:TRANSACTION [--data DIR] [--project ID] [--json]

        Earlier proofs do not count again. "onym access set on_shared_receipt=freeze" makes the server freeze purchases.
        """
    static let operands = ["STORE:TRANSACTION"]
    static let valuedFlags = ["project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        try context.show(
            "POST", "/onym/v1/purchases/\(PercentCoding.encode(context.arguments.words[0]))/unfreeze")
    }
}

/// `onym access show`: shows the settings of the Entitlements dialect.
enum AccessShowCommand: ProgramCommand {
    static let name = "access show"
    static let summary = "Shows the project's settings for purchases and for answers about access."
    static let usage = "onym access show [--data DIR] [--project ID] [--json]"
    static let valuedFlags = ["project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        try CatalogText.show(try context.control("GET", "/onym/v1/access"), context)
    }
}

/// `onym access set`: changes the settings of the Entitlements dialect.
enum AccessSetCommand: ProgramCommand {
    static let name = "access set"
    static let summary = "Changes the project's settings for purchases and for answers about access."
    static let usage = """
        onym access set NAME=VALUE… [--data DIR] [--project ID] [--json]

        on_shared_receipt=freeze: once more than \(Purchase.installsPerMonth) installs or \(Purchase.identitiesPerMonth) \
        users have proven a purchase in 30 days,
        nobody else joins it or takes it over. on_shared_receipt=tell only notes that.
        created=seconds or created=milliseconds: the form of the creation time of users.
        """
    static let operands = ["NAME=VALUE…"]
    static let valuedFlags = ["project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        var values: [String: String] = [:]
        for word in context.arguments.words {
            let parts = word.split(separator: "=", maxSplits: 1).map(String.init)
            guard parts.count == 2 else { throw .usage("\(word) must have the form NAME=VALUE.") }
            guard values.updateValue(parts[1], forKey: parts[0]) == nil else {
                throw .usage("\(parts[0]) is given twice.")
            }
        }
        guard !values.isEmpty else { throw .usage("NAME=VALUE must be given.") }
        var json = JSONWriter()
        json.object { json in
            for (name, value) in values.sorted(by: { $0.key < $1.key }) {
                json.key(name)
                json.string(value)
            }
        }
        return try CatalogText.show(try context.control("PUT", "/onym/v1/access", body: json.bytes), context)
    }
}
