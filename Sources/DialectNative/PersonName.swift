import Domain
import Gateway
import HTTPMessage
import HTTPServer

/// The name of a person in a call: the person's id, or an identity that only this person holds.
enum PersonName: Sendable {
    case id(PersonID)
    case identity(IdentityType, values: [String], [IdentityKey])
    case nobody

    init(_ text: String, _ caller: Caller, _ tools: LoopTools) {
        if let id = Int64(decimal: text) {
            self = .id(PersonID(rawValue: id))
        } else if let colon = text.firstIndex(of: ":"), let type = IdentityType(named: String(text[..<colon])) {
            let value = String(text[text.index(after: colon)...])
            let values = PersonName.values(type, value, caller, tools)
            self = .identity(type, values: values, PersonName.keys(type, values, caller, tools))
        } else if let id = PersonID(linkingText: text) {
            self = .id(id)
        } else if let types = PersonName.telling.first(where: { text.hasPrefix($0.prefix) })?.types {
            self = .identity(
                types[0], values: types.map { _ in text }, types.flatMap { PersonName.keys($0, [text], caller, tools) })
        } else {
            self = .nobody
        }
    }

    /// The prefixes of ids whose type follows from the prefix.
    private static let telling: [(prefix: String, types: [IdentityType])] = [
        ("QON_", AccessWorld.allCases.map(\.userType)), ("owl_anon_", [.claimAnonymousID]),
    ]

    /// The value as the caller writes it, and then in the project's form.
    static func values(_ type: IdentityType, _ value: String, _ caller: Caller, _ tools: LoopTools) -> [String] {
        let lowercases = type == .email && tools.directory.strategy(of: caller.project).lowercasesEmail
        return lowercases && value.lowercased() != value ? [value, value.lowercased()] : [value]
    }

    static func keys(
        _ type: IdentityType, _ values: [String], _ caller: Caller, _ tools: LoopTools
    ) -> [IdentityKey] {
        values.map { IdentityKey(type, $0.utf8.span, in: caller.project, hash: tools.hash) }
    }

    /// The holders of the first identity in a list that has a holder.
    static func holders(_ keys: [IdentityKey], _ snapshot: any Snapshot) -> [PersonID] {
        for key in keys {
            let holders = snapshot.holders(of: key)
            if !holders.isEmpty { return holders }
        }
        return []
    }

    /// The reason why a name does not name exactly one person.
    enum Problem: Error {
        case nobody
        case several([PersonID])

        func response(_ id: RequestID) -> Response {
            switch self {
            case .nobody: return Native.problem(.refused(.noSuchPerson), id)
            case .several(let people):
                let ids = people.sorted().prefix(10).map { String($0.rawValue) }.joined(separator: ", ")
                return Native.problem(
                    .conflict, code: "ambiguous",
                    "\(people.count) people hold this identity; name one by its id: \(ids).",
                    id)
            }
        }
    }

    /// The name's part of an explanation, with all its people.
    func explained(_ text: String, in project: ProjectID, _ snapshot: any Snapshot) -> Explained {
        switch self {
        case .nobody: Explained(.person(PersonID(rawValue: 0)), people: [])
        case .id(let id): Explained(.person(id), people: snapshot.person(id, in: project) == nil ? [] : [id])
        case .identity(let type, let values, let keys):
            Explained(
                .identity(type, zip(values, keys).first { !snapshot.holders(of: $0.1).isEmpty }?.0 ?? values[0]),
                people: PersonName.holders(keys, snapshot))
        }
    }

    /// Finds the person among the people of a project.
    func find(in project: ProjectID, _ snapshot: any Snapshot) -> Result<PersonID, Problem> {
        find(in: snapshot).flatMap { person in
            snapshot.person(person, in: project) == nil ? .failure(.nobody) : .success(person)
        }
    }

    func find(in snapshot: any Snapshot) -> Result<PersonID, Problem> {
        switch self {
        case .nobody: return .failure(.nobody)
        case .id(let id): return .success(id)
        case .identity(_, _, let keys):
            let holders = PersonName.holders(keys, snapshot)
            if holders.count > 1 { return .failure(.several(holders)) }
            return holders.first.map { .success($0) } ?? .failure(.nobody)
        }
    }
}
