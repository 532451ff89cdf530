import ByteText
import CivilTime
import Crypto
import Domain
import Gateway
import HTTPMessage
import Invocation
import JSON

/// `onym journal head`: prints the head of the tree over the journal.
enum JournalHeadCommand: ProgramCommand {
    static let name = "journal head"
    static let summary = "Prints one signed hash that stands for the whole journal. Keep it outside of the server."
    static let usage = "onym journal head [--data DIR] [--project ID]"
    static let valuedFlags = ["project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        context.terminal.result(try context.control("GET", JournalProof.headPath).text)
        return 0
    }
}

/// `onym journal receipt`: prints the proof that a call is in the journal.
enum JournalReceiptCommand: ProgramCommand {
    static let name = "journal receipt"
    static let summary = "Prints the proof that a call is in the journal."
    static let usage = """
        onym journal receipt SEQ [--data DIR] [--project ID]

        SEQ is the number of a call, as onym journal shows it.
        """
    static let operands = ["SEQ"]
    static let valuedFlags = ["project"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let call = PercentCoding.encode(context.arguments.words[0])
        context.terminal.result(try context.control("GET", "/onym/v1/journal/\(call)/receipt").text)
        return 0
    }
}

/// `onym journal proof`: prints the proof that the journal up to an earlier head was not changed.
enum JournalProofCommand: ProgramCommand {
    static let name = "journal proof"
    static let summary = "Prints the proof that the journal up to an earlier head was not changed."
    static let usage = """
        onym journal proof --from SEQ [--data DIR] [--project ID]

        SEQ is the seq of the earlier head.
        """
    static let valuedFlags = ["project", "from"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        guard let from = context.arguments["from"] else { throw .usage("--from is missing.") }
        context.terminal.result(try context.control("GET", JournalProof.proofPath(from: from)).text)
        return 0
    }
}

/// `onym journal verify`: compares the journal with a head or a receipt of an earlier time.
enum JournalVerifyCommand: ProgramCommand {
    static let name = "journal verify"
    static let summary = "Checks that the journal still has all that a kept head or receipt proves."
    static let usage = """
        onym journal verify --head FILE [--data DIR] [--project ID]
        onym journal verify --receipt FILE [--data DIR] [--project ID]

        FILE has the output of onym journal head, onym journal receipt or onym erase --json. Exit code 0: nothing was
        changed; 1: the journal, the head or the receipt was changed.
        """
    static let valuedFlags = ["project", "head", "receipt"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let arguments = context.arguments
        switch (arguments["head"], arguments["receipt"]) {
        case (let path?, nil):
            let head = try JournalProof.file(path) { root throws(JSONFault) in try JournalProof.Head(root) }
            let now = try verify(head, context)
            context.terminal.result(
                "The calls up to \(head.sequence) are as they were; \(now.sequence - head.sequence) call numbers came since."
            )
        case (nil, let path?):
            let receipt = try JournalProof.file(path) { root throws(JSONFault) in try JournalProof.Receipt(in: root) }
            guard let call = receipt.provenCall else {
                throw .failed("The receipt does not prove its call: it was changed.")
            }
            _ = try verify(receipt.head, context)
            let moment = String(decoding: ISO8601.format(millisecondsSince1970: call.at.milliseconds), as: UTF8.self)
            context.terminal.result(
                "Call \(call.call.rawValue) of \(moment) is in the journal, and the journal was not changed before it.")
        case (nil, nil), (.some, .some): throw .usage("Give --head FILE or --receipt FILE.")
        }
        return 0
    }

    /// Checks the signature of an earlier head, and that its journal is the beginning of the present journal. Returns the present head.
    private static func verify(
        _ head: JournalProof.Head, _ context: CommandContext
    ) throws(CommandFault) -> JournalProof.Head {
        let keys = try context.control("GET", JournalProof.headPath).read { root throws(JSONFault) in
            try JournalProof.keys(root)
        }
        guard head.isSigned(by: keys) else {
            throw .failed("The signature of the head is not of this server's master keys, or the head was changed.")
        }
        let proof = try context.control("GET", JournalProof.proofPath(from: String(head.sequence)))
            .read { root throws(JSONFault) in try JournalProof.Growth(root) }
        guard proof.head.store == head.store else {
            throw .failed("The head is of the store \(head.store), and this store is \(proof.head.store).")
        }
        guard
            MerkleTree.isPrefix(
                head.hash, of: head.leaves, proof.head.hash, of: proof.head.leaves, by: proof.proof)
        else {
            throw .failed(
                "The journal up to call \(head.sequence) is not the journal of the head: calls were changed, removed or added."
            )
        }
        return proof.head
    }
}

/// Heads and proofs of the tree over the journal, as the server writes them.
enum JournalProof {
    static let headPath = "/onym/v1/journal/head"

    static func proofPath(from call: String) -> String {
        "/onym/v1/journal/proof\(CallText.query([("from", call)]))"
    }

    /// Reads a kept file.
    static func file<Result>(
        _ path: String, _ body: (JSONValue) throws(JSONFault) -> Result
    ) throws(CommandFault) -> Result {
        let bytes = Array(try Files.read(path, orElse: "\(path) cannot be read").utf8)
        do throws(JSONFault) {
            return try JSONParser().read(bytes, body)
        } catch {
            throw .failed("\(path) is no head or receipt: \(error.message)")
        }
    }

    private static func hash(_ value: JSONValue, _ name: String) throws(JSONFault) -> Digest {
        guard let digest = Hexadecimal.decode(try value.string(at: name).utf8.span).flatMap({ Digest($0) }) else {
            throw JSONFault(.wrong("must be a hash of 32 bytes"), at: name)
        }
        return digest
    }

    private static func hashes(_ value: JSONValue, _ name: String) throws(JSONFault) -> [Digest] {
        var hashes: [Digest] = []
        try value.forEachElement(at: name) { element throws(JSONFault) in hashes.append(try hash(element, name)) }
        return hashes
    }

    /// The public keys of a server, by their ids.
    static func keys(_ root: JSONValue) throws(JSONFault) -> [String: [UInt8]] {
        var keys: [String: [UInt8]] = [:]
        try root.forEachMember(at: "the answer") { name, value throws(JSONFault) in
            guard case "keys" = name else { return }
            try value.forEachElement(at: "keys") { key throws(JSONFault) in
                var (id, bytes) = ("", [UInt8]())
                try key.forEachMember(at: "a key") { name, value throws(JSONFault) in
                    switch name {
                    case "kid": id = try value.string(at: "kid")
                    case "x": bytes = Base64.decodeForAddresses(try value.string(at: "x").utf8.span) ?? []
                    default: break
                    }
                }
                keys[id] = bytes
            }
        }
        return keys
    }

    struct Head: Equatable {
        var store = ""
        var sequence: Int64 = 0
        var leaves = 0
        var hash = MerkleTree.empty
        var jws = ""

        init(_ root: JSONValue) throws(JSONFault) {
            try root.forEachMember(at: "the head") { name, value throws(JSONFault) in
                switch name {
                case "store": store = try value.string(at: "store")
                case "seq": sequence = try value.integer(at: "seq")
                case "leaves": leaves = Int(try value.integer(at: "leaves"))
                case "head": hash = try JournalProof.hash(value, "head")
                case "jws": jws = try value.string(at: "jws")
                default: break
                }
            }
        }

        /// Whether the signature belongs to the head and to one of some keys.
        func isSigned(by keys: [String: [UInt8]]) -> Bool {
            guard let token = SignedToken(jws),
                keys.values.contains(where: { PublicKey.ed25519($0).verifies(token.signature, of: token.signed) })
            else { return false }
            var inside: Head?
            do throws(JSONFault) {
                inside = try JSONParser().read(token.payload) { root throws(JSONFault) in try Head(root) }
            } catch {
                return false
            }
            inside?.jws = jws
            return inside == self
        }
    }

    struct Receipt {
        let sequence: Int64
        let place: Int
        let leaf: Digest
        let content: [UInt8]
        let path: [Digest]
        let head: Head

        /// What the receipt proves; nil if it proves nothing.
        var provenCall: LeafContent? {
            guard MerkleTree.leaf(content) == leaf, let call = LeafContent(content), call.call.rawValue == sequence,
                MerkleTree.root(from: leaf, at: place, of: head.leaves, by: path) == head.hash
            else { return nil }
            return call
        }

        /// Reads a receipt, or the receipt in the answer to an erasure.
        init(in root: JSONValue) throws(JSONFault) {
            var found: Receipt?
            try root.forEachMember(at: "the receipt") { name, value throws(JSONFault) in
                if case "proof" = name { found = try Receipt(value) }
            }
            if let found { self = found } else { self = try Receipt(root) }
        }

        private init(_ root: JSONValue) throws(JSONFault) {
            var (sequence, place, leaf, content, path) = (Int64(0), 0, MerkleTree.empty, [UInt8](), [Digest]())
            var known: Head?
            try root.forEachMember(at: "the receipt") { name, value throws(JSONFault) in
                switch name {
                case "seq": sequence = try value.integer(at: "seq")
                case "place": place = Int(try value.integer(at: "place"))
                case "leaf": leaf = try JournalProof.hash(value, "leaf")
                case "content":
                    content = Hexadecimal.decode(try value.string(at: "content").utf8.span) ?? []
                case "path": path = try JournalProof.hashes(value, "path")
                case "head": known = try Head(value)
                default: break
                }
            }
            guard let known else { throw JSONFault(.wrong("must have a head")) }
            (self.sequence, self.place, self.leaf) = (sequence, place, leaf)
            (self.content, self.path) = (content, path)
            head = known
        }
    }

    struct Growth {
        let proof: [Digest]
        let head: Head

        init(_ root: JSONValue) throws(JSONFault) {
            var (proof, known) = ([Digest](), Head?.none)
            try root.forEachMember(at: "the proof") { name, value throws(JSONFault) in
                switch name {
                case "proof": proof = try JournalProof.hashes(value, "proof")
                case "head": known = try Head(value)
                default: break
                }
            }
            guard let known else { throw JSONFault(.wrong("must have a head")) }
            (self.proof, head) = (proof, known)
        }
    }
}
