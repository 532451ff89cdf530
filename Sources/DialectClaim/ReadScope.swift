import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The rows of a project that a count covers: the apps, the builds and the time.
struct ReadScope: Sendable {
    var app: Int64?
    var isDevelopment: Bool?
    var range = RowsByTime()
    var limit: Int
    /// The number of answers on earlier pages.
    var offset: Int
    let project: ProjectID

    /// The greatest number of rows that a count looks at. The answer says whether more rows exist.
    private static let rowsLookedAt = 200_000
    private static let rowsAtOnce = 1000

    /// - Parameter isOfProject: whether the path's first parameter is a project, which has to be the caller's.
    init(
        _ request: borrowing Request, _ caller: Caller, _ tools: LoopTools, isOfProject: Bool = true
    ) throws(Rejection) {
        project = caller.project
        do throws(ClaimFault) {
            if isOfProject, request.parameters.first != ClaimID.text(.project, Int64(caller.project.rawValue)) {
                throw ClaimFault("Project not found", status: .notFound)
            }
            let query = try ReadQuery(request)
            app = query["app_id"].map { ClaimID.number(.app, $0) ?? -1 }
            isDevelopment = query.isDevelopment
            range.since = try query.moment("since", at: caller.now)
            // A range includes its end, and the store's ranges do not.
            range.until = try query.moment("until", at: caller.now)?.advanced(byMilliseconds: 1)
            limit = query.limit
            offset = max(0, query["cursor"].flatMap(Int.init) ?? 0)
        } catch {
            throw error.rejection()
        }
    }

    /// Runs a body for the rows as long as the body wants rows, and answers whether the limit stopped the count.
    func forEach(
        _ kind: RowKind, _ snapshot: any Snapshot, while wantsMore: @autoclosure () -> Bool = true,
        _ body: (StoredRow, EventMembers) throws(StoreFault) -> Void
    ) throws(StoreFault) -> Bool {
        let parser = JSONParser()
        var range = range
        range.limit = ReadScope.rowsAtOnce
        var lookedAt = 0
        while lookedAt < ReadScope.rowsLookedAt {
            let page = try snapshot.rows(of: kind, in: project, range)
            for row in page {
                guard wantsMore() else { return false }
                lookedAt += 1
                guard let members = EventMembers(row.row.body, parser), app.map({ $0 == members.app }) ?? true,
                    isDevelopment.map({ $0 == members.isDevelopment }) ?? true
                else { continue }
                try body(row, members)
            }
            guard page.count == range.limit, let last = page.last else { return false }
            range.after = RowsByTime.Place(at: last.row.at, number: last.number)
        }
        return true
    }
}
