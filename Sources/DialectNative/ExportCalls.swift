import ByteText
import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls that export all facts about a person, to give them to the person (spec/native.md, People), and all people of a
/// project, to move out (docs/moving-out.md).
enum ExportCalls {
    static let routes = [
        Endpoint(
            .post, "/onym/v1/people/:id/export", scope: .consoleAct,
            operation: Operation(
                id: "person_export",
                summary: "Exports all data of a person, with a line of JSON for each thing.",
                description: """
                    Each line has its kind: person, identity, property, install, purchase, grant, row, call. An \
                    answer has up to 8 MB. If more lines follow, the last line is {"kind":"next","cursor":…}: send \
                    this cursor as ?cursor=….
                    """,
                query: [.init("cursor", .string("The cursor of the answer before."))],
                responses: [
                    .init(.ok, "The lines.", contentType: "application/x-ndjson", schema: .string())
                ] + Native.problems([.badRequest, .notFound, .conflict])),
            action: .query { request, caller, tools throws(Rejection) in
                let (name, project, id) = (
                    PersonName(request.parameters[0], caller, tools), caller.project, request.id
                )
                var cursor: Export.Cursor?
                if let text = request.query?["cursor"] {
                    cursor = Base64.decodeForAddresses(text.utf8.span).flatMap(Export.Cursor.init(packed:))
                    guard cursor != nil else {
                        throw Rejection(
                            Native.problem(
                                .badRequest, code: Native.validationError,
                                "cursor must be that of the answer before.", id))
                    }
                }
                let start = cursor
                return { snapshot throws(StoreFault) in
                    switch name.find(in: snapshot) {
                    case .failure(let problem): return problem.response(id)
                    case .success(let person):
                        guard let profile = try Profile(person, in: project, snapshot) else {
                            return Native.problem(.refused(.noSuchPerson), id)
                        }
                        var export = Export(profile, from: start)
                        try export.run(snapshot)
                        return Response(.ok, contentType: "application/x-ndjson", body: export.lines)
                    }
                }
            }),
        Endpoint(
            .post, "/onym/v1/export", scope: .admin,
            operation: Operation(
                id: "project_export",
                summary: "Exports all people of the project, in the form that an import reads.",
                description: """
                    Each line is a JSON object (docs/moving-out.md). The export has the facts of one moment: those up \
                    to the last call before the first answer. since is the upto of an earlier export: then the answer \
                    has what was made, ended or erased after it. If more lines follow, the last line is \
                    {"kind":"next","cursor":…}: send this cursor as ?cursor=…, also after an interruption.
                    """,
                query: [
                    .init(
                        "form",
                        .string(
                            "facts, the default; tables, which adds to each line what the tables of a warehouse need, in "
                                + "members that begin with x_; graph, which has people, merges and erasures only.")),
                    .init("since", .integer("The last call of an earlier export; 0, the default, exports everything.")),
                    .init("cursor", .string("The cursor of the answer before.")),
                ],
                responses: [
                    .init(.ok, "The lines.", contentType: "application/x-ndjson", schema: .string())
                ] + Native.problems([.badRequest, .conflict])),
            action: .query { request, caller, tools throws(Rejection) in
                let (project, now) = (caller.project, tools.now)
                let wanted = try ProjectExport(request, in: project)
                let id = request.id
                return { snapshot throws(StoreFault) in
                    guard let lines = try wanted.run(snapshot, in: project, at: now) else {
                        return Native.problem(
                            .conflict, code: "since_later_than_store",
                            "since or cursor is later than the last call of the store: the store was restored, or is "
                                + "another. Export everything again, without both.", id)
                    }
                    return Response(.ok, contentType: "application/x-ndjson", body: lines)
                }
            }),
    ]
}

/// One answer of an export of all people: the call's place, and the sums of the lines before it.
private struct ProjectExport {
    private let form: ExportPage.Form
    private let since: JournalSequence
    /// The place behind the answer before; nil for the first answer.
    private let place: ExportPage.Place?
    private let sums: FactsText.Sums

    init(_ request: Request, in project: ProjectID) throws(Rejection) {
        let query = request.query
        func invalid(_ detail: String) -> Rejection {
            Rejection(Native.problem(.badRequest, code: Native.validationError, detail, request.id))
        }
        guard let form = ExportPage.Form(named: query?["form"] ?? "facts") else {
            throw invalid("form must be facts, tables or graph.")
        }
        self.form = form
        var since = JournalSequence.zero
        if let text = query?["since"] {
            guard let number = Int64(text), number >= 0 else {
                throw invalid("since must be the upto of an earlier export.")
            }
            since = JournalSequence(rawValue: number)
        }
        self.since = since
        guard let text = query?["cursor"] else {
            (place, sums) = (nil, FactsText.Sums())
            return
        }
        var unpacker = Unpacker(Base64.decodeForAddresses(text.utf8.span) ?? [])
        guard let begin = unpacker.integer(), let end = unpacker.integer(), let part = unpacker.byte(),
            let after = unpacker.integer(), let sums = FactsText.Sums(unpacking: &unpacker),
            let place = ExportPage.Place(
                since: JournalSequence(rawValue: Int64(bitPattern: begin)),
                upTo: JournalSequence(rawValue: Int64(bitPattern: end)), part: part, after: Int64(bitPattern: after))
        else { throw invalid("cursor must be that of the answer before.") }
        // Cursors of earlier versions name no project.
        if !unpacker.isAtEnd {
            guard let owner = unpacker.integer(), unpacker.isAtEnd else {
                throw invalid("cursor must be that of the answer before.")
            }
            guard owner == UInt64(UInt32(bitPattern: project.rawValue)) else {
                throw invalid("cursor is of an export of another project. Begin again without it.")
            }
        }
        (self.place, self.sums) = (place, sums)
    }

    /// The lines; nil if `since` or the cursor is later than the store.
    func run(_ snapshot: any Snapshot, in project: ProjectID, at moment: Instant) throws(StoreFault) -> [UInt8]? {
        var text = FactsText(sums, form)
        let begin: ExportPage.Place
        let last = try snapshot.lastCall()
        if let place {
            guard place.upTo <= last else { return nil }
            begin = place
        } else {
            guard since <= last else { return nil }
            begin = ExportPage.Place(since: since, upTo: last)
            text.header(project, begin, at: moment)
        }
        let page = try ExportPage(begin, form, in: project, snapshot)
        for line in page.lines { text.add(line) }
        if let next = page.next { text.next(cursor(next, text.sums, in: project)) } else { text.end() }
        return text.bytes
    }

    private func cursor(_ place: ExportPage.Place, _ sums: FactsText.Sums, in project: ProjectID) -> String {
        var packer = Packer()
        packer.add(UInt64(bitPattern: place.since.rawValue))
        packer.add(UInt64(bitPattern: place.upTo.rawValue))
        packer.add(place.part.rawValue)
        packer.add(UInt64(bitPattern: place.after))
        sums.pack(into: &packer)
        packer.add(UInt64(UInt32(bitPattern: project.rawValue)))
        return Base64.encodeForAddresses(packer.bytes)
    }
}

/// The lines of an export in one answer.
private struct Export {
    /// The end of an answer: the member, the part of the member, and the last row or call.
    struct Cursor {
        var member: Int
        var part: Int
        var before: Int64

        var packed: [UInt8] {
            var packer = Packer()
            packer.add(UInt64(member))
            packer.add(UInt64(part))
            packer.add(UInt64(bitPattern: before))
            return packer.bytes
        }

        init(member: Int, part: Int, before: Int64) {
            self.member = member
            self.part = part
            self.before = before
        }

        init?(packed: [UInt8]) {
            var unpacker = Unpacker(packed)
            guard let member = unpacker.integer(), let part = unpacker.integer(), let before = unpacker.integer(),
                member <= UInt32.max, part <= UInt32.max, unpacker.isAtEnd
            else { return nil }
            self.init(member: Int(member), part: Int(part), before: Int64(bitPattern: before))
        }
    }

    private let profile: Profile
    private var place: Cursor
    private(set) var lines: [UInt8] = []

    private static let bytes = 8 << 20
    private static let readAtOnce = 200
    // The parts of a member: its facts, its rows by kind, and the calls that touched it.
    private static let kinds = RowKind.allCases

    init(_ profile: Profile, from cursor: Cursor?) {
        self.profile = profile
        place = cursor ?? Cursor(member: 0, part: 0, before: .max)
    }

    mutating func run(_ snapshot: any Snapshot) throws(StoreFault) {
        while place.member < profile.members.count {
            let member = profile.members[place.member].id
            var isDone = true
            if place.part == 0 {
                try writeMember(member, snapshot)
            } else if place.part <= Export.kinds.count {
                isDone = try writeRows(member, Export.kinds[place.part - 1], snapshot)
            } else {
                isDone = try writeCalls(member, snapshot)
            }
            if isDone {
                let isLast = place.part > Export.kinds.count
                place = Cursor(
                    member: isLast ? place.member + 1 : place.member, part: isLast ? 0 : place.part + 1, before: .max)
            }
            if isFull, place.member < profile.members.count {
                line("next") { [place] json in
                    json.key("cursor")
                    json.string(Base64.encodeForAddresses(place.packed))
                }
                return
            }
        }
    }

    private var isFull: Bool { lines.count >= Export.bytes }

    private mutating func line(_ kind: StaticString, _ body: (inout JSONWriter) -> Void) {
        var json = JSONWriter()
        json.object { json in
            json.key("kind")
            json.string("\(kind)")
            body(&json)
        }
        lines += json.bytes
        lines.append(UInt8(ascii: "\n"))
    }

    private mutating func writeMember(_ person: PersonID, _ snapshot: any Snapshot) throws(StoreFault) {
        let (root, merges, made) = (profile.root, profile.merges, try snapshot.madeAt(person))
        line("person") { json in
            json.key("id")
            json.decimalString(person.rawValue)
            json.key("root")
            json.decimalString(root.rawValue)
            json.key("made_at")
            json.moment(made)
            json.key("merges")
            json.array { json in
                for merge in merges where merge.from == person { json.string("m_\(merge.id.rawValue)") }
            }
        }
        for (holder, identity) in profile.identities where holder == person {
            line("identity") { json in
                json.key("person")
                json.decimalString(person.rawValue)
                json.key("type")
                json.string("\(identity.type.name)")
                json.key("value")
                json.string(identity.value)
                json.key("since")
                json.moment(identity.since)
            }
        }
        try writeProperties(of: person, snapshot)
        writeHoldings(of: person)
    }

    /// Writes the member's own properties: the group's properties may come from another member.
    private mutating func writeProperties(of person: PersonID, _ snapshot: any Snapshot) throws(StoreFault) {
        for (dialect, kind) in Holdings.propertyKinds {
            let document = try snapshot.document(DocumentKey(kind, of: person))
            guard let attributes = document.flatMap(Attributes.init(packed:)) else { continue }
            for (name, entry) in attributes.entries.sorted(by: { $0.key < $1.key }) {
                guard let value = entry.value else { continue }
                line("property") { json in
                    json.key("person")
                    json.decimalString(person.rawValue)
                    json.key("dialect")
                    json.string(dialect.rawValue)
                    json.key("name")
                    json.string(name)
                    json.key("value")
                    json.property(value, of: dialect)
                    json.key("at")
                    json.moment(entry.at)
                }
            }
        }
    }

    /// Writes the installs, the purchases and the grants of a member.
    private mutating func writeHoldings(of person: PersonID) {
        guard let holdings = profile.holdings[person] else { return }
        for install in holdings.installs {
            line("install") { LinkingCalls.write(install, &$0) }
        }
        for (purchase, world) in holdings.purchases {
            line("purchase") { json in
                json.key("person")
                json.decimalString(person.rawValue)
                PeopleCalls.write(purchase, world, &json)
            }
        }
        for grant in holdings.grants {
            line("grant") { json in
                json.key("person")
                json.decimalString(person.rawValue)
                json.key("entitlement")
                json.string(grant.entitlement)
                json.key("started_at")
                json.moment(grant.startedAt)
                json.key("expires_at")
                json.moment(grant.expiresAt)
            }
        }
    }

    private mutating func writeRows(
        _ person: PersonID, _ kind: RowKind, _ snapshot: any Snapshot
    ) throws(StoreFault) -> Bool {
        while !isFull {
            let from = place.before == .max ? nil : RowNumber(rawValue: place.before)
            let rows = try snapshot.rows(of: person, kind, from: from, limit: Export.readAtOnce)
            for row in rows {
                line("row") { json in
                    json.key("person")
                    json.decimalString(person.rawValue)
                    json.key("row_kind")
                    json.string("\(kind.name)")
                    json.key("id")
                    json.decimalString(row.number.rawValue)
                    json.key("at")
                    json.moment(row.row.at)
                    json.key("body")
                    json.raw(row.row.body)
                }
            }
            guard rows.count == Export.readAtOnce, let next = rows.last?.previous else { return true }
            place.before = next.rawValue
        }
        return false
    }

    private mutating func writeCalls(_ person: PersonID, _ snapshot: any Snapshot) throws(StoreFault) -> Bool {
        while !isFull {
            let before = place.before == .max ? nil : JournalSequence(rawValue: place.before)
            let calls = try snapshot.calls(of: person, before: before, limit: Export.readAtOnce)
            let members = Set(profile.members.map(\.id))
            for call in calls {
                line("call") { json in
                    json.key("call")
                    json.object { JournalText.write(call, about: members, &$0) }
                }
            }
            guard calls.count == Export.readAtOnce, let last = calls.last else { return true }
            place.before = last.sequence.rawValue
        }
        return false
    }
}
