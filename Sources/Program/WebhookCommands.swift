import HTTPMessage
import Invocation

/// `onym webhooks …`: the state of webhooks, a test message, and another try of parked deliveries.
enum WebhooksListCommand: ProgramCommand {
    static let name = "webhooks list"
    static let summary = "Lists the webhooks with their progress."
    static let usage = "onym webhooks list [--data DIR] [--project ID] [--json]"
    static let valuedFlags = ["project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        try context.show("GET", "/onym/v1/webhooks")
    }
}

enum WebhooksShowCommand: ProgramCommand {
    static let name = "webhooks show"
    static let summary = "Shows how far a webhook is behind the feed, and its last failed attempt."
    static let usage = "onym webhooks show ID [--data DIR] [--project ID] [--json]"
    static let operands = ["ID"]
    static let valuedFlags = ["project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        try context.show("GET", "/onym/v1/webhooks/\(PercentCoding.encode(context.arguments.words[0]))")
    }
}

enum WebhooksTestCommand: ProgramCommand {
    static let name = "webhooks test"
    static let summary = "Sends a test message to a webhook, and shows the answer of its receiver."
    static let usage = "onym webhooks test ID [--data DIR] [--project ID] [--json]"
    static let operands = ["ID"]
    static let valuedFlags = ["project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        try context.show("POST", "/onym/v1/webhooks/\(PercentCoding.encode(context.arguments.words[0]))/test")
    }
}

enum WebhooksReplayCommand: ProgramCommand {
    static let name = "webhooks replay"
    static let summary = "Tries all parked deliveries of a webhook again, or one of them."
    static let usage = """
        onym webhooks replay ID [--data DIR] [--project ID] [--json]

        ID is the id of a webhook, or the id of a parked delivery, such as d_1_2_0.
        """
    static let operands = ["ID"]
    static let valuedFlags = ["project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let id = context.arguments.words[0]
        let list = id.hasPrefix("d_") ? "deliveries" : "webhooks"
        return try context.show("POST", "/onym/v1/\(list)/\(PercentCoding.encode(id))/replay")
    }
}
