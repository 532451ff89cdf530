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
        let path = "/onym/v1/purchases/\(CallText.escaped(context.arguments.words[0]))/check"
        let answer = try context.control(context.arguments.has("stored") ? "GET" : "POST", path)
        context.terminal.result(context.isForPrograms ? answer.text : try AnswerTable.text(answer))
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
