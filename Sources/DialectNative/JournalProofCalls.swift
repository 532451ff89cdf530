import ByteText
import Crypto
import Domain
package import Gateway
import HTTPMessage
import HTTPServer
package import JSON

/// The calls that show the head of the tree over the journal, and proofs for it. Whoever keeps a head can tell later whether the
/// journal before it was changed (docs/decisions/0064).
enum JournalProofCalls {
    static func routes(_ sources: Native.Sources) -> [Endpoint] {
        let signer = JournalSigner(sources.masterKeys)
        return [head(signer), receipt(signer), growth(signer)]
    }

    private static func head(_ signer: JournalSigner) -> Endpoint {
        Endpoint(
            .get, "/onym/v1/journal/head", scope: .admin,
            operation: Operation(
                id: "journal_head",
                summary: "Answers one hash that stands for the whole journal, with a signature.",
                description: """
                    The hash is the root of a Merkle tree as in RFC 6962, with a leaf for each call of all projects. The \
                    signature is a JWS (EdDSA) over store, seq, at, leaves and head; its key is in keys and in jwks.json.
                    """,
                responses: [.init(.ok, "The head.", schema: headSchema(withKeys: true))]
                    + Native.problems([.conflict])),
            action: .query { request, caller, _ throws(Rejection) in
                let (id, project) = (request.id, caller.project)
                return { snapshot throws(StoreFault) in
                    guard let head = try snapshot.journalHead() else { return noTree(id) }
                    return Native.json(.ok) { json in
                        signer.write(head, of: project, to: &json)
                        json.key("keys")
                        json.array { json in signer.writeKeys(to: &json) }
                    }
                }
            })
    }

    private static func receipt(_ signer: JournalSigner) -> Endpoint {
        Endpoint(
            .get, "/onym/v1/journal/:seq/receipt", scope: .admin,
            operation: Operation(
                id: "journal_receipt",
                summary: "Proves that a call is in the journal.",
                description: """
                    path has the hashes that lead from the call's leaf to the head, as in RFC 6962. The leaf is the hash of \
                    content: the number of the call, its moment (milliseconds since 1970), its project, whether it has a \
                    key, the key, its kind, whether it is about a person, and the person, in eight bytes each, the lowest \
                    first; then 32 bytes for each person of the call, which are the hash of a secret salt and of facts.
                    """,
                responses: [.init(.ok, "The receipt.", schema: receiptSchema)]
                    + Native.problems([.notFound, .conflict])),
            action: .query { request, caller, _ throws(Rejection) in
                let (id, project) = (request.id, caller.project)
                let number = Int64(request.parameters[0]).map(JournalSequence.init(rawValue:))
                return { snapshot throws(StoreFault) in
                    guard try snapshot.journalHead() != nil else { return noTree(id) }
                    guard let number, number.rawValue > 0,
                        let call = try snapshot.calls(
                            after: JournalSequence(rawValue: number.rawValue - 1), limit: 1
                        ).first,
                        call.sequence == number, call.project == project,
                        let receipt = try snapshot.journalReceipt(of: number)
                    else {
                        return Native.problem(
                            .notFound, code: "not_found", "The tree over the journal has no such call of the project.",
                            id)
                    }
                    return Native.json(.ok) { json in signer.write(receipt, of: project, to: &json) }
                }
            })
    }

    private static func growth(_ signer: JournalSigner) -> Endpoint {
        Endpoint(
            .get, "/onym/v1/journal/proof", scope: .admin,
            operation: Operation(
                id: "journal_proof",
                summary: "Proves that the journal up to an earlier head was not changed since.",
                description:
                    "proof has the hashes of a consistency proof of RFC 6962, from the earlier head to the head of now.",
                query: [.init("from", .integer("The seq of the earlier head."))],
                responses: [.init(.ok, "The proof.", schema: growthSchema)]
                    + Native.problems([.badRequest, .notFound, .conflict])),
            action: .query { request, caller, _ throws(Rejection) in
                let (id, project) = (request.id, caller.project)
                guard let from = request.query?["from"].flatMap({ Int64($0) }), from >= 0 else {
                    throw Rejection(
                        Native.problem(
                            .badRequest, code: Native.validationError, "from must be the seq of an earlier head.", id))
                }
                return { snapshot throws(StoreFault) in
                    guard try snapshot.journalHead() != nil else { return noTree(id) }
                    guard let growth = try snapshot.journalExtension(from: JournalSequence(rawValue: from)) else {
                        return Native.problem(
                            .notFound, code: "not_found", "The tree over the journal has no call \(from).", id)
                    }
                    return Native.json(.ok) { json in
                        json.key("from")
                        json.integer(from)
                        json.key("leaves")
                        json.integer(growth.from)
                        json.key("hash")
                        json.string(Hexadecimal.encode(growth.hash))
                        json.key("proof")
                        json.array { json in for hash in growth.proof { json.string(Hexadecimal.encode(hash)) } }
                        json.key("head")
                        json.object { json in signer.write(growth.head, of: project, to: &json) }
                    }
                }
            })
    }

    private static func noTree(_ id: RequestID) -> Response {
        Native.problem(
            .conflict, code: "no_journal_tree", "This store keeps no tree over its journal.", id)
    }

    private static func headSchema(withKeys: Bool) -> Schema {
        .object(
            [
                .init("store", .string("The name of the store, the same in all its copies."), required: true),
                .init("seq", .integer("The last call."), required: true), .init("at", .string(), required: true),
                .init("leaves", .integer("The leaves of the tree."), required: true),
                .init("head", .string("The hash, in hexadecimal."), required: true),
                .init("jws", .string(), required: true),
            ]
                + (withKeys
                    ? [.init("keys", .array(.object([])), required: true)] : []))
    }

    /// The members of a receipt.
    static let receiptSchema = Schema.object([
        .init("seq", .integer("The call."), required: true),
        .init("place", .integer("The place of its leaf, from 0."), required: true),
        .init("leaf", .string(), required: true),
        .init("content", .string("What the leaf is the hash of, in hexadecimal."), required: true),
        .init("path", .array(.string()), required: true),
        .init("head", headSchema(withKeys: false), required: true),
    ])

    private static let growthSchema = Schema.object([
        .init("from", .integer(), required: true),
        .init("leaves", .integer("The leaves of the earlier head."), required: true),
        .init("hash", .string("The hash of the earlier head."), required: true),
        .init("proof", .array(.string()), required: true), .init("head", headSchema(withKeys: false), required: true),
    ])
}

/// Signs heads of the journal with a key that follows from the master key.
package struct JournalSigner: Sendable {
    private let masters: MasterKeys
    private let keys: PerMasterKey<Ed25519Key>

    package init(_ masters: MasterKeys) {
        self.masters = masters
        keys = PerMasterKey(masters, for: "journal head") { Ed25519Key(seed: $0) }
    }

    private static func id(_ mark: MasterKeyMark) -> String { "journal-\(mark.id)" }

    /// Writes the public keys of the signatures, in the form of RFC 7517.
    package func writeKeys(to json: inout JSONWriter) {
        for key in masters.all {
            guard let signing = keys.of(key.mark) else { continue }
            json.object { json in
                for (name, value) in [("kty", "OKP"), ("crv", "Ed25519"), ("use", "sig"), ("alg", "EdDSA")] {
                    json.key(name)
                    json.string(value)
                }
                json.key("kid")
                json.string(JournalSigner.id(key.mark))
                json.key("x")
                json.string(Base64.encodeForAddresses(signing.publicKey))
            }
        }
    }

    /// Writes the members of a head with its signature.
    func write(_ head: JournalHead, of project: ProjectID, to json: inout JSONWriter) {
        JournalSigner.members(head, &json)
        json.key("jws")
        json.string(signature(head, project))
    }

    func write(_ receipt: JournalReceipt, of project: ProjectID, to json: inout JSONWriter) {
        json.key("seq")
        json.integer(receipt.call.rawValue)
        json.key("place")
        json.integer(receipt.place)
        json.key("leaf")
        json.string(Hexadecimal.encode(receipt.leaf))
        json.key("content")
        json.string(Hexadecimal.encode(receipt.content))
        json.key("path")
        json.array { json in for hash in receipt.path { json.string(Hexadecimal.encode(hash)) } }
        json.key("head")
        json.object { json in write(receipt.head, of: project, to: &json) }
    }

    private static func members(_ head: JournalHead, _ json: inout JSONWriter) {
        json.key("store")
        json.string(Hexadecimal.encode(head.store))
        json.key("seq")
        json.integer(head.sequence.rawValue)
        json.key("at")
        json.moment(head.at)
        json.key("leaves")
        json.integer(head.leaves)
        json.key("head")
        json.string(Hexadecimal.encode(head.hash))
    }

    private func signature(_ head: JournalHead, _ project: ProjectID) -> String {
        let mark = masters.newest(of: project)
        let (id, key) =
            keys.of(mark).map { (JournalSigner.id(mark), $0) } ?? (JournalSigner.id(masters.newest.mark), keys.newest)
        var payload = JSONWriter()
        payload.object { JournalSigner.members(head, &$0) }
        let header = Array(#"{"alg":"EdDSA","kid":"\#(id)","typ":"onym-journal-head"}"#.utf8)
        let signed = Base64.encodeForAddresses(header) + "." + Base64.encodeForAddresses(payload.bytes)
        return signed + "." + Base64.encodeForAddresses(key.sign(Array(signed.utf8)))
    }
}
