import ByteText
import CivilTime
import Domain
import JSON

/// Makes tables from the lines of an export (spec/moving.md, section 3).
///
/// The people and their merges come first, because they say the root of each person. Then all lines are read.
struct TableExport {
    private let folder: TableFolder
    private var groups = GroupHistory()
    /// Ends of merges whose calls come later than the lines so far.
    private var pending = Heap<Undone>()
    /// The call whose changes are not written yet, and the people whose root it changed.
    private var changing: ExportLine.Source?
    private var causes: [PersonID: String] = [:]
    private let since: Int64
    private let upTo: Int64
    private let header: ExportLine

    /// The end of a merge. The merge's line tells it ahead of its call.
    private struct Undone: Comparable {
        let source: ExportLine.Source
        let merge: Merge

        /// The order of the calls, and of the merges that one call ended.
        static func < (one: Undone, other: Undone) -> Bool {
            (one.source.call, one.merge.id) < (other.source.call, other.merge.id)
        }

        static func == (one: Undone, other: Undone) -> Bool {
            (one.source.call, one.merge.id) == (other.source.call, other.merge.id)
        }
    }

    /// - Parameters:
    ///   - facts: the file with the lines of the form `tables`.
    ///   - graph: the file with the lines of the form `graph`, if the export has only what is later than a call.
    static func run(facts: String, graph: String?, into folder: TableFolder) throws(CommandFault) {
        let reader = try ExportReader(facts)
        guard let header = try reader.next(), header.kind == "header", let upTo = header.integer("upto") else {
            throw .failed("\(facts) is no export.")
        }
        var export = TableExport(folder, header, since: header.integer("since") ?? 0, upTo: upTo)
        try folder.begin()
        try export.readGraph(graph ?? facts)
        while let line = try reader.next() { try export.add(line) }
        try folder.end(
            project: header.text("project") ?? "", since: export.since, upTo: upTo, at: header.text("at") ?? "")
    }

    private init(_ folder: TableFolder, _ header: ExportLine, since: Int64, upTo: Int64) {
        (self.folder, self.header, self.since, self.upTo) = (folder, header, since, upTo)
    }

    // MARK: - Groups

    /// Reads people and merges in the order of their calls, and writes each change of a root.
    private mutating func readGraph(_ path: String) throws(CommandFault) {
        let reader = try ExportReader(path)
        while let line = try reader.next(of: ["person", "merge", "erased"]) {
            guard let call = line.integer("x_call"), call <= upTo else { continue }
            switch line.kind {
            case "person":
                guard let person = line.person("id") else { continue }
                try settle(before: call)
                let cause = line.text("x_by")?.hasPrefix("split") == true ? "split" : "created"
                try begin(line.source)
                note([person], cause)
            case "merge":
                guard let merge = line.merge else { continue }
                try settle(before: call)
                try begin(line.source)
                note(groups.join(merge), "merged")
                guard let end = line.integer("x_end_call"), end <= upTo else { continue }
                let source = ExportLine.Source(
                    call: end, requestID: line.text("x_end_request"), at: line.moment("x_end_at"))
                pending.add(Undone(source: source, merge: merge))
            case "erased":
                guard let person = line.person("person"), call > since else { continue }
                try settle(before: call)
                try begin(line.source)
                try addErased(person, line.source)
            default: continue
            }
        }
        try settle(before: .max)
        try flush()
    }

    /// Makes the changes whose calls were earlier than a call.
    private mutating func settle(before call: Int64) throws(CommandFault) {
        while let undone = pending.first, undone.source.call < call {
            pending.removeFirst()
            try begin(undone.source)
            note(groups.undo(undone.merge), "undone")
        }
    }

    /// An erased person has a row without a root.
    private func addErased(_ person: PersonID, _ source: ExportLine.Source) throws(CommandFault) {
        try folder.add(
            [
                .number(source.call), .number(person.rawValue), .null, .text("erased"), .text(source.requestID),
                .moment(source.at),
            ], to: .graphUpdates)
        try folder.add(
            [
                .number(person.rawValue), .null, .number(header.text("project").flatMap { Int64($0) }), .null, .null,
                .moment(source.at),
            ], to: .people)
    }

    /// Begins the changes of a call, and writes those of the call before. Groups change only after it.
    private mutating func begin(_ source: ExportLine.Source) throws(CommandFault) {
        if source.call != changing?.call { try flush() }
        changing = source
    }

    /// Notes people whose root the call changed. A call may change the root of a person several times: the last root counts,
    /// and the first cause.
    private mutating func note(_ people: [PersonID], _ cause: String) {
        for person in people where causes[person] == nil { causes[person] = cause }
    }

    /// Writes the changes of the call so far.
    private mutating func flush() throws(CommandFault) {
        defer { causes.removeAll(keepingCapacity: true) }
        guard let source = changing, source.call > since else { return }
        for (person, cause) in causes.sorted(by: { $0.key < $1.key }) {
            try folder.add(
                [
                    .number(source.call), .number(person.rawValue), .number(groups.root(of: person).rawValue),
                    .text(cause), .text(source.requestID), .moment(source.at),
                ], to: .graphUpdates)
        }
    }

    // MARK: - Tables

    private func root(_ person: PersonID?) -> TableCell {
        person.map { .number(groups.root(of: $0).rawValue) } ?? .null
    }

    private func add(_ line: ExportLine) throws(CommandFault) {
        let person = line.person("person") ?? line.person("x_person")
        let id = TableCell.number(person?.rawValue)
        switch line.kind {
        case "person":
            let person = line.person("id")
            try folder.add(
                [
                    .number(person?.rawValue), root(person), .number(header.text("project").flatMap { Int64($0) }),
                    .moment(line.moment("made")), .moment(line.moment("seen")), .null,
                ], to: .people)
        case "link":
            let (made, isImport) = (line.integer("x_call"), line.text("x_by") == "import")
            try folder.add(
                [
                    .text(made.map { "\($0).\(line.integer("x_place") ?? 0)" }), id, .text(line.text("type")),
                    .text(line.text("value")), .moment(line.moment("x_at")), .moment(line.moment("until")),
                    .number(made), .number(line.integer("x_end_call")), .text(line.text("x_by")),
                    isImport ? .moment(line.moment("since")) : .null,
                ], to: .links)
            guard line.moment("until") == nil else { return }
            try folder.add([id, root(person), .text(line.text("type")), .text(line.text("value"))], to: .identities)
        case "merge":
            try folder.add(
                [
                    .number(line.text("x_id").flatMap { Int64($0) }), .number(line.person("from")?.rawValue),
                    .number(line.person("into")?.rawValue), .text(line.text("rule")), .moment(line.moment("at")),
                    .moment(line.moment("undone")), .number(line.integer("x_call")),
                    .number(line.integer("x_end_call")),
                ], to: .merges)
        case "purchase":
            let ends = [line.moment("expires"), line.moment("refunded")].compactMap(\.self)
            try folder.add(
                [
                    .text("\(line.text("store") ?? ""):\(line.text("transaction") ?? "")"), id, root(person),
                    .text(line.text("principal")), .text(line.text("world")), .text(line.text("store")),
                    .text(line.text("transaction")), .text(line.text("original")), .text(line.text("product")),
                    .moment(line.moment("bought")), .moment(line.moment("expires")), .moment(line.moment("refunded")),
                    .text(line.text("renewal")), .text(line.text("period")), .moment(line.moment("as_of")),
                ], to: .purchases)
            for entitlement in line.texts("x_entitlements") {
                try folder.add(
                    [
                        id, .text(line.text("principal")), .text(entitlement), .text(line.text("product")),
                        .moment(line.moment("bought")), .moment(ends.min()),
                    ], to: .access)
            }
        case "grant":
            try folder.add(
                [
                    id, .text(line.text("principal")), .text(line.text("entitlement")), .null,
                    .moment(line.moment("from")), .moment(line.moment("until")),
                ], to: .access)
        case "row":
            guard line.text("row") == "event" else { return }
            let number = line.text("id").flatMap { Int64($0.dropFirst("onym:".count)) }
            try folder.add(
                [
                    .number(number), id, root(person), .text(line.name(in: "body")), .moment(line.moment("at")),
                    .moment(line.moment("x_received")), line.json("body").map { .text($0) } ?? .null,
                ], to: .events)
        // Properties, installs and aliases have no table, and a graph has told who was erased.
        default: return
        }
    }
}

/// Reads the lines of an export from a file.
final class ExportReader {
    private let file: ImportFile
    private let parser = JSONParser()
    private var rest: [UInt8] = []
    private var place = 0
    private let path: String

    init(_ path: String) throws(CommandFault) {
        self.path = path
        file = try ImportFile(path)
    }

    /// The next line; nil at the end.
    ///
    /// - Parameter kinds: the kinds of lines that matter; nil for all lines. Other lines may be left out.
    func next(of kinds: [String]? = nil) throws(CommandFault) -> ExportLine? {
        while true {
            if let end = rest[place...].firstIndex(of: UInt8(ascii: "\n")) {
                defer { place = end + 1 }
                if let kinds, isOther(kinds, rest[place..<end]) { continue }
                do throws(JSONFault) {
                    return try parser.read(Array(rest[place..<end])) { value throws(JSONFault) in try ExportLine(value)
                    }
                } catch {
                    throw .failed("\(path) has a line that is no JSON.")
                }
            }
            rest.removeFirst(place)
            place = 0
            guard let piece = try file.next() else { return nil }
            rest += piece
        }
    }

    /// Whether the bytes are a line of another kind, as this server writes it.
    private func isOther(_ kinds: [String], _ line: ArraySlice<UInt8>) -> Bool {
        guard line.starts(with: ExportReader.begin) else { return false }
        let kind = line.dropFirst(ExportReader.begin.count).prefix { $0 != UInt8(ascii: "\"") }
        return !kinds.contains { kind.elementsEqual($0.utf8) }
    }

    private static let begin = Array(#"{"kind":""#.utf8)
}

/// A line of an export.
struct ExportLine {
    private enum Value {
        case text(String)
        case integer(Int64)
        case texts([String])
        case json([UInt8], name: String?)
    }

    /// The call that a change of groups came with.
    struct Source {
        let call: Int64
        let requestID: String?
        let at: Int64?
    }

    let kind: String
    /// A line has few members, so a search among them is faster than a hash of their names.
    private let members: [(name: String, value: Value)]

    init(_ value: JSONValue) throws(JSONFault) {
        var (kind, members) = ("", [(name: String, value: Value)]())
        members.reserveCapacity(16)
        try value.forEachMember(at: "") { key, member throws(JSONFault) in
            switch member.kind {
            case .string:
                let text = try member.string(at: "")
                if "kind" ~= key { kind = text } else { members.append((key.copy(), .text(text))) }
            case .integer: members.append((key.copy(), .integer(try member.integer(at: ""))))
            case .object:
                var json = JSONWriter()
                json.copy(member)
                var name: String?
                try member.forEachMember(at: "") { inner, part throws(JSONFault) in
                    if "name" ~= inner, part.kind == .string { name = try part.string(at: "") }
                }
                members.append((key.copy(), .json(json.bytes, name: name)))
            case .array:
                var texts: [String] = []
                try member.forEachElement(at: "") { element throws(JSONFault) in
                    if element.kind == .string { texts.append(try element.string(at: "")) }
                }
                members.append((key.copy(), .texts(texts)))
            case .null, .bool, .unsigned, .double: break
            }
        }
        self.kind = kind
        self.members = members
    }

    private subscript(name: String) -> Value? { members.first { $0.name == name }?.value }

    func text(_ name: String) -> String? {
        if case .text(let text) = self[name] { text } else { nil }
    }

    func integer(_ name: String) -> Int64? {
        if case .integer(let number) = self[name] { number } else { nil }
    }

    func texts(_ name: String) -> [String] {
        if case .texts(let texts) = self[name] { texts } else { [] }
    }

    func json(_ name: String) -> [UInt8]? {
        if case .json(let bytes, _) = self[name] { bytes } else { nil }
    }

    /// The member `name` of an object.
    func name(in object: String) -> String? {
        if case .json(_, let name) = self[object] { name } else { nil }
    }

    func person(_ name: String) -> PersonID? { text(name).flatMap { Int64($0) }.map(PersonID.init(rawValue:)) }

    /// A moment in milliseconds since 1970.
    func moment(_ name: String) -> Int64? { text(name).flatMap { ISO8601.parse($0.utf8.span) } }

    var source: Source { Source(call: integer("x_call") ?? 0, requestID: text("x_request"), at: moment("x_at")) }

    var merge: Merge? {
        guard let id = text("x_id").flatMap({ Int64($0) }), let from = person("from"), let into = person("into") else {
            return nil
        }
        // The groups do not depend on the rule.
        return Merge(id: MergeID(rawValue: id), from: from, into: into, rule: .administrator)
    }
}
