import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

extension ReviewStatus {
    /// The name of the status in calls and answers.
    var name: String {
        switch self {
        case .new: "new"
        case .inReview: "in_review"
        case .addressed: "addressed"
        case .dismissed: "dismissed"
        }
    }

    /// Reads the status of a body.
    init(_ members: Members) throws(ClaimFault) {
        guard let name = members["status"], !name.isEmpty else { throw ClaimFault("status is required") }
        try self.init(name)
    }

    private init(_ name: String) throws(ClaimFault) {
        guard let status = ReviewStatus.allCases.first(where: { $0.name == name }) else {
            let names = ReviewStatus.allCases.map(\.name).joined(separator: ", ")
            throw ClaimFault("Invalid status. Must be one of: \(names)")
        }
        self = status
    }

    /// The status that a query asks for; nil for all.
    static func wanted(_ request: borrowing Request) throws(Rejection) -> ReviewStatus? {
        guard let name = request.query?["status"] else { return nil }
        do throws(ClaimFault) {
            return try ReviewStatus(name)
        } catch {
            throw error.rejection()
        }
    }

    static let parameters = [Schema.Property("status", .string(oneOf: allCases.map(\.name)))]
    static let requestSchema = Schema.object([
        .init("status", .string(oneOf: allCases.map(\.name)), required: true)
    ])
}

/// The names that answers show beside ids.
struct Names: Sendable {
    let projectID: ProjectID
    let project: String
    let apps: [AppID: String]
    let keys: [KeyID: String]

    init(_ caller: Caller, _ tools: LoopTools) {
        let directory = tools.directory
        projectID = caller.project
        project = directory.projects[caller.project]?.name ?? ""
        apps = directory.apps.filter { $0.value.project == caller.project }.mapValues(\.name)
        keys = directory.keys.filter { $0.value.project == caller.project }.mapValues(\.name)
    }
}

extension Snapshot {
    /// A row as a search finds it; nil for a row of another dialect.
    func found(_ row: StoredRow, in project: ProjectID) throws(StoreFault) -> FoundRow? {
        guard let members = try EventMembers.present(of: row.row, JSONParser(), self) else { return nil }
        var users = UserNames(project)
        return FoundRow(stored: row, members: members, user: try users.user(of: row.person, self))
    }

    /// The properties of the user of a row; nil for a row without a user.
    func userProperties(of row: FoundRow) throws(StoreFault) -> [String: String]? {
        guard row.user != nil else { return nil }
        let folded: FoldedAttributes = try fold(.properties, of: group(of: row.stored.person))
        return folded.entries.mapValues { String(decoding: $0.value, as: UTF8.self) }
    }
}

extension JSONWriter {
    /// Writes the properties of a user; null for no user.
    mutating func properties(_ properties: [String: String]?) {
        guard let properties else { return null() }
        object { IdentityCalls.write(properties, &$0) }
    }
}

/// Continues after an act, or answers its refusal.
func answer(_ result: Result<Reply, Refusal>, _ then: () -> Step) -> Step {
    switch result {
    case .success: then()
    case .failure(let refusal): .answer(ClaimFault(ClaimFault.words(for: refusal), status: refusal.status).response)
    }
}
