import HTTPMessage
import Invocation
import JSON

/// `onym signing-keys list`: lists the keys that sign tokens for known users.
enum SigningKeysListCommand: ProgramCommand {
    static let name = "signing-keys list"
    static let summary = "Lists the keys with which your back ends sign tokens for known users."
    static let usage = "onym signing-keys list [--cursor CURSOR] [--data DIR] [--project ID] [--json]"
    static let valuedFlags = ["cursor", "project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let query = CallText.query([("limit", "200"), ("cursor", context.arguments["cursor"])])
        return try context.show("GET", "/onym/v1/signing-keys\(query)")
    }
}

/// `onym signing-keys add`.
enum SigningKeysAddCommand: ProgramCommand {
    static let name = "signing-keys add"
    static let summary = "Adds your public key, or makes a secret and prints it once."
    static let usage = """
        onym signing-keys add [--pem FILE] [--kid KID] [--name NAME] [--keys-file FILE] [--data DIR] [--project ID] [--json]

        FILE has a public key of Ed25519 or P-256, in the form of openssl pkey -pubout. Without FILE the command prints
        a secret that signs tokens by HMAC (HS256). Tokens name the key by KID; the default is the key's id.
        """
    static let valuedFlags = ["pem", "kid", "name", "project", ShownOnce.flag]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let arguments = context.arguments
        var pem: String?
        if let path = arguments["pem"] { pem = try Files.read(path, orElse: "The key \(path) cannot be read") }
        let body = CallText.body([("name", arguments["name"]), ("kid", arguments["kid"]), ("pem", pem)])
        // A public key is no secret.
        if pem != nil { return try context.show("POST", "/onym/v1/signing-keys", body: body) }
        return try ShownOnce.show("POST", "/onym/v1/signing-keys", body: body, context)
    }
}

/// `onym signing-keys retire`.
enum SigningKeysRetireCommand: ProgramCommand {
    static let name = "signing-keys retire"
    static let summary = "Retires a signing key: the server refuses its tokens from now on."
    static let usage = "onym signing-keys retire ID [--data DIR] [--project ID] [--json]"
    static let operands = ["ID"]
    static let valuedFlags = ["project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        try context.show("POST", "/onym/v1/signing-keys/\(PercentCoding.encode(context.arguments.words[0]))/retire")
    }
}
