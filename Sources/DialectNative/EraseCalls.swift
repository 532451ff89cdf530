import ByteText
import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The call that erases a person's group (spec/native.md, People).
enum EraseCalls {
    static func routes(_ sources: Native.Sources) -> [Endpoint] {
        let signer = JournalSigner(sources.masterKeys)
        return [erasure(signer), release]
    }

    private static func erasure(_ signer: JournalSigner) -> Endpoint {
        Endpoint(
            .delete, "/onym/v1/people/:id", scope: .admin,
            operation: Operation(
                id: "person_erase",
                summary: "Erases a person with its group. No call can undo an erasure; ?dry_run=true only counts.",
                description: """
                    From the answer on, no id leads to these people. The server removes their data in small steps, \
                    and a compaction follows by itself and removes the bytes from all files. The server drops rows \
                    that were captured before the erasure and arrive later, and counts them at the tombstone of \
                    their identity. An identity that another person also holds stays with that person, and the \
                    answer names it. proof shows that the erasure is in the journal: the members of journal_receipt.
                    """,
                query: [DryRun.parameter, IfUnchanged.parameter],
                responses: [.init(.ok, "The receipt.", schema: receipt)]
                    + Native.problems([.badRequest, .notFound, .conflict, .unprocessableContent])),
            action: .steps(
                body: .optional,
                decode: { request, caller, tools throws(Rejection) in
                    let (name, project, id) = (
                        PersonName(request.parameters[0], caller, tools), caller.project, request.id
                    )
                    let (isDry, unchanged) = (try request.isDryRun(), try IfUnchanged(request))
                    return .read { snapshot throws(StoreFault) in
                        switch name.find(in: snapshot) {
                        case .failure(let problem): return .answer(problem.response(id))
                        case .success(let person):
                            guard let profile = try Profile(person, in: project, snapshot) else {
                                return .answer(Native.problem(.refused(.noSuchPerson), id))
                            }
                            let members = profile.members.map(\.id)
                            if try unchanged.isBroken(by: members, snapshot) { return unchanged.refusal(id) }
                            if isDry { return .answer(try preview(profile, snapshot, project)) }
                            return try erase(person, members, in: project, id, snapshot, signer)
                        }
                    }
                }))
    }

    private static var release: Endpoint {
        Endpoint(
            .delete, "/onym/v1/tombstones/:id", scope: .admin,
            operation: Operation(
                id: "tombstone_release",
                summary: "Removes a tombstone: the server then accepts rows from before the erasure again.",
                responses: [
                    .init(
                        .ok, "It is gone.", schema: .object([.init("released", .string(), required: true)]))
                ] + Native.problems([.notFound, .unprocessableContent])),
            action: .act(
                ReleaseTombstone.self, body: .optional,
                decode: { request, _, _ throws(Rejection) in
                    guard let hash = Hexadecimal.decode(request.parameters[0].utf8.span).flatMap({ Hash128($0.span) })
                    else {
                        throw Rejection(Native.problem(.refused(.noSuchTombstone), request.id))
                    }
                    return Decoded(ReleaseTombstone(hash))
                },
                encode: { _, release, _ in
                    Native.json(.ok) { json in
                        json.key("released")
                        json.string(Hexadecimal.encode(release.hash.bytes))
                    }
                }))
    }

    /// Erases a group, after its rows and those of others are settled (``SettleRows``).
    private static func erase(
        _ person: PersonID, _ members: [PersonID], in project: ProjectID, _ id: RequestID, _ snapshot: any Snapshot,
        _ signer: JournalSigner
    ) throws(StoreFault) -> Step {
        let erasure = Step.deciding(ErasePerson(person)) { result, _ in
            switch result {
            case .failure(let refusal): .answer(Native.problem(.refused(refusal), id))
            case .success(let erased):
                .read { snapshot throws(StoreFault) in
                    .answer(try receipt(erased, of: person, in: project, snapshot, signer))
                }
            }
        }
        return try .settling(members, in: project, snapshot) { refusal in
            .answer(Native.problem(.refused(refusal), id))
        } then: {
            erasure
        }
    }

    /// The receipt of an erasure, with the proof that it is in the journal.
    private static func receipt(
        _ erased: Erased, of person: PersonID, in project: ProjectID, _ snapshot: any Snapshot, _ signer: JournalSigner
    ) throws(StoreFault) -> Response {
        let calls = try snapshot.calls(of: person, before: nil, limit: 1)
        let proof = try calls.first.flatMap { (call) throws(StoreFault) -> JournalReceipt? in
            call.kind == .erase ? try snapshot.journalReceipt(of: call.sequence) : nil
        }
        return Native.json(.ok) { json in
            write(erased, isDry: false, &json)
            guard let proof else { return }
            json.key("proof")
            json.object { json in signer.write(proof, of: project, to: &json) }
        }
    }

    /// Shows the facts that an erasure would remove.
    private static func preview(
        _ profile: Profile, _ snapshot: any Snapshot, _ project: ProjectID
    ) throws(StoreFault) -> Response {
        let members = profile.members.map(\.id)
        var kept: [Erased.Kept] = []
        for (_, identity) in profile.identities {
            let key = IdentityKey(identity.type, identity.value.utf8.span, in: project, hash: snapshot.hash)
            let others = snapshot.holders(of: key).filter { !members.contains($0) }
            if !others.isEmpty { kept.append(Erased.Kept(type: identity.type, holders: others.sorted())) }
        }
        let erased = Erased(people: members, rows: profile.counts, documents: 0, tombstones: [], kept: kept)
        let last = try snapshot.lastCall()
        return Native.json(.ok) { json in
            write(erased, isDry: true, &json)
            json.key("identities")
            json.integer(profile.identities.count)
            IfUnchanged.write(last, &json)
        }
    }

    private static func write(_ erased: Erased, isDry: Bool, _ json: inout JSONWriter) {
        json.key("erased")
        json.bool(!isDry)
        json.key("people")
        json.people(erased.people)
        json.key("rows")
        json.counts(erased.rows)
        json.key("tombstones")
        json.array { json in
            for mark in erased.tombstones {
                json.object { json in
                    json.key("id")
                    json.string(Hexadecimal.encode(mark.hash.bytes))
                    json.key("type")
                    json.string("\(mark.type.name)")
                }
            }
        }
        json.key("kept")
        json.array { json in
            for kept in erased.kept {
                json.object { json in
                    json.key("type")
                    json.string("\(kept.type.name)")
                    json.key("held_by")
                    json.people(kept.holders)
                }
            }
        }
    }

    private static let receipt = Schema.object([
        .init("erased", .boolean("False for a dry run."), required: true),
        .init("people", .array(.string()), required: true), .init("rows", .object([]), required: true),
        .init(
            "tombstones",
            .array(.object([.init("id", .string(), required: true), .init("type", .string(), required: true)])),
            required: true),
        .init(
            "kept",
            .array(
                .object([
                    .init("type", .string(), required: true), .init("held_by", .array(.string()), required: true),
                ])), required: true),
        .init("identities", .integer("The number of identities; only for a dry run.")),
        .init("last_seq", .integer("The last call that the answer knows, for if_seq; only for a dry run.")),
        .init("proof", JournalProofCalls.receiptSchema),
    ])
}

extension Request {
    /// Whether the call is a dry run: `?dry_run=true`.
    borrowing func isDryRun() throws(Rejection) -> Bool {
        let request = self.id
        return try isDryRun(else: { Native.problem(.badRequest, code: Native.validationError, $0, request) })
    }
}
