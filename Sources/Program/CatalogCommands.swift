import ByteText
import Invocation
import JSON

/// `onym products list`: lists the project's products.
enum ProductsListCommand: ProgramCommand {
    static let name = "products list"
    static let summary = "Lists the products of a project, and the entitlements that each product gives."
    static let usage = "onym products list [--data DIR] [--project ID] [--json]"
    static let valuedFlags = ["project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        try CatalogText.showList(try context.control("GET", "/onym/v1/products"), "products", context)
    }
}

/// `onym products set`: sets the entitlements that a product grants.
enum ProductsSetCommand: ProgramCommand {
    static let name = "products set"
    static let summary = "Sets the entitlements of a product, and the time of access."
    static let usage = """
        onym products set --id ID --type TYPE [--entitlements ID,ID…] [--days N] [--store-id ID] [--base-plan ID]
            [--group ID] [--data DIR] [--project ID] [--json]

        TYPE is subscription, non_consumable or consumable. N days count where the store names no end. The base plan is
        that of Google Play. A user has one product of a group at a time.
        """
    static let valuedFlags = ["id", "type", "entitlements", "days", "store-id", "base-plan", "group", "project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let arguments = context.arguments
        let path = try CatalogText.path("/onym/v1/products", arguments)
        guard let type = arguments["type"] else { throw .usage("--type must be given.") }
        var seconds: Int64?
        if let days = arguments["days"] {
            guard let number = Int64(days), (1...36_525).contains(number) else {
                throw .usage("--days must be a number from 1 to 36525.")
            }
            seconds = number * 86_400
        }
        var json = JSONWriter()
        json.object { json in
            json.key("type")
            json.string(type)
            for (flag, key) in [("store-id", "store_id"), ("base-plan", "base_plan"), ("group", "group")] {
                guard let value = arguments[flag] else { continue }
                json.key(key)
                json.string(value)
            }
            if let seconds {
                json.key("duration_seconds")
                json.integer(seconds)
            }
            json.key("entitlements")
            json.array { json in
                for id in (arguments["entitlements"] ?? "").split(separator: ",") { json.string(String(id)) }
            }
        }
        return try CatalogText.show(try context.control("PUT", path, body: json.bytes), context)
    }
}

/// `onym products remove`.
enum ProductsRemoveCommand: ProgramCommand {
    static let name = "products remove"
    static let summary = "Removes a product. Its purchases no longer give entitlements."
    static let usage = "onym products remove --id ID [--data DIR] [--project ID] [--json]"
    static let valuedFlags = ["id", "project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let path = try CatalogText.path("/onym/v1/products", context.arguments)
        return try CatalogText.show(try context.control("DELETE", path), context)
    }
}

/// `onym offerings list`: lists the project's offerings.
enum OfferingsListCommand: ProgramCommand {
    static let name = "offerings list"
    static let summary = "Lists which products apps show together."
    static let usage = "onym offerings list [--data DIR] [--project ID] [--json]"
    static let valuedFlags = ["project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        try CatalogText.showList(try context.control("GET", "/onym/v1/offerings"), "offerings", context)
    }
}

/// `onym offerings set`: sets the products of an offering.
enum OfferingsSetCommand: ProgramCommand {
    static let name = "offerings set"
    static let summary = "Sets which products apps show together."
    static let usage = """
        onym offerings set --id ID --products ID,ID… [--main] [--data DIR] [--project ID] [--json]

        Apps show the main offering if they ask for none by id. The products are Onym's, in the order in which apps show
        them.
        """
    static let valuedFlags = ["id", "products", "project"]
    static let switches = ["json", "main"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let path = try CatalogText.path("/onym/v1/offerings", context.arguments)
        guard let products = context.arguments["products"] else { throw .usage("--products must be given.") }
        var json = JSONWriter()
        json.object { json in
            json.key("main")
            json.bool(context.arguments.has("main"))
            json.key("products")
            json.array { json in
                for id in products.split(separator: ",") { json.string(String(id)) }
            }
        }
        return try CatalogText.show(try context.control("PUT", path, body: json.bytes), context)
    }
}

/// `onym offerings remove`.
enum OfferingsRemoveCommand: ProgramCommand {
    static let name = "offerings remove"
    static let summary = "Removes an offering. Its products stay."
    static let usage = "onym offerings remove --id ID [--data DIR] [--project ID] [--json]"
    static let valuedFlags = ["id", "project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let path = try CatalogText.path("/onym/v1/offerings", context.arguments)
        return try CatalogText.show(try context.control("DELETE", path), context)
    }
}

/// `onym entitlements list`: lists the project's entitlements.
enum EntitlementsListCommand: ProgramCommand {
    static let name = "entitlements list"
    static let summary = "Lists the entitlements that a project has defined."
    static let usage = "onym entitlements list [--data DIR] [--project ID] [--json]"
    static let valuedFlags = ["project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        try CatalogText.showList(try context.control("GET", "/onym/v1/entitlements"), "entitlements", context)
    }
}

/// `onym entitlements set`: defines an entitlement.
enum EntitlementsSetCommand: ProgramCommand {
    static let name = "entitlements set"
    static let summary = "Defines an entitlement."
    static let usage = "onym entitlements set --id ID [--name NAME] [--data DIR] [--project ID] [--json]"
    static let valuedFlags = ["id", "name", "project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let path = try CatalogText.path("/onym/v1/entitlements", context.arguments)
        var json = JSONWriter()
        json.object { json in
            guard let name = context.arguments["name"] else { return }
            json.key("name")
            json.string(name)
        }
        return try CatalogText.show(try context.control("PUT", path, body: json.bytes), context)
    }
}

/// `onym entitlements remove`.
enum EntitlementsRemoveCommand: ProgramCommand {
    static let name = "entitlements remove"
    static let summary = "Removes an entitlement that no product gives."
    static let usage = "onym entitlements remove --id ID [--data DIR] [--project ID] [--json]"
    static let valuedFlags = ["id", "project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let path = try CatalogText.path("/onym/v1/entitlements", context.arguments)
        return try CatalogText.show(try context.control("DELETE", path), context)
    }
}

/// `onym receipt`: makes a receipt for a test purchase.
enum ReceiptCommand: ProgramCommand {
    static let name = "receipt"
    static let summary = "Makes a signed receipt for a test purchase."
    static let usage = """
        onym receipt --product P [--store-account S] [--transaction T] [--original-transaction T] [--source SOURCE]
            [--purchased SECONDS] [--expires SECONDS] [--renew-state STATE] [--period-type TYPE] [--data DIR]
            [--project ID] [--json]

        SOURCE is appstore, playstore, stripe or paddle. Times are in seconds since 1970. A renewal is a receipt with a
        transaction of its own and the original transaction of the purchase.
        """
    static let valuedFlags = [
        "product", "store-account", "transaction", "original-transaction", "source", "purchased", "expires",
        "renew-state", "period-type", "project",
    ]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let arguments = context.arguments
        guard arguments["product"] != nil else { throw .usage("--product must be given.") }
        var numbers: [(String, Int64)] = []
        for name in ["purchased", "expires"] {
            guard let text = arguments[name] else { continue }
            guard let number = Int64(text) else { throw .usage("--\(name) must be a time in seconds since 1970.") }
            numbers.append((name, number))
        }
        var json = JSONWriter()
        json.object { json in
            for flag in valuedFlags where !["purchased", "expires", "project"].contains(flag) {
                guard let value = arguments[flag] else { continue }
                json.key(flag.replacing("-", with: "_"))
                json.string(value)
            }
            for (name, number) in numbers {
                json.key(name)
                json.integer(number)
            }
        }
        let answer = try context.control("POST", "/onym/v1/receipts", body: json.bytes)
        let shown = try context.isForPrograms ? answer.text : answer.text(of: "receipt") ?? ""
        context.terminal.result(shown)
        return 0
    }
}

/// Definitions, in the form for people.
enum CatalogText {
    /// The path of the definition that `--id` names.
    static func path(_ base: String, _ arguments: Arguments) throws(CommandFault) -> String {
        guard let id = arguments["id"], !id.isEmpty else { throw .usage("--id must be given.") }
        let digits = Array("0123456789ABCDEF".utf8)
        var path = Array("\(base)/".utf8)
        for byte in id.utf8 {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"):
                path.append(byte)
            default: path += [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
            }
        }
        return String(decoding: path, as: UTF8.self)
    }

    /// Prints a definition; programs get the answer unchanged.
    static func show(_ answer: ControlClient.Answer, _ context: CommandContext) throws(CommandFault) -> Int32 {
        let shown =
            try context.isForPrograms
            ? answer.text : answer.read { root throws(JSONFault) in try line(root) }
        context.terminal.result(shown)
        return 0
    }

    static func showList(
        _ answer: ControlClient.Answer, _ name: String, _ context: CommandContext
    ) throws(CommandFault) -> Int32 {
        if context.isForPrograms {
            context.terminal.result(answer.text)
            return 0
        }
        let lines = try answer.read { root throws(JSONFault) in
            var lines: [String] = []
            try root.forEachMember(at: "the answer") { key, value throws(JSONFault) in
                guard key.copy() == name else { return }
                try value.forEachElement(at: name) { element throws(JSONFault) in lines.append(try line(element)) }
            }
            return lines
        }
        context.terminal.result(lines.isEmpty ? "There are no \(name)." : lines.joined(separator: "\n"))
        return 0
    }

    /// `month  type subscription  duration_seconds 2592000  entitlements plus, pro`.
    private static func line(_ definition: JSONValue) throws(JSONFault) -> String {
        var words: [String] = []
        try definition.forEachMember(at: "a definition") { key, value throws(JSONFault) in
            let shown: String
            switch value.kind {
            case .string: shown = try value.string(at: "a value")
            case .integer: shown = String(try value.integer(at: "a value"))
            case .bool:
                guard try value.bool(at: "a value") else { return }
                shown = ""
            case .array:
                var ids: [String] = []
                try value.forEachElement(at: "a list") { element throws(JSONFault) in
                    ids.append(try element.string(at: "a value"))
                }
                if ids.isEmpty { return }
                shown = ids.joined(separator: ", ")
            default: return
            }
            let isID = words.isEmpty && key.copy() == "id"
            words.append(isID ? shown : shown.isEmpty ? key.copy() : "\(key.copy()) \(shown)")
        }
        return words.joined(separator: "  ")
    }
}
