import Gateway
import HTTPMessage
import HTTPServer

/// The part of a list that a caller asks for: `?limit=…&cursor=…` (spec/native.md).
struct ListQuery {
    /// The greatest number of entries.
    let limit: Int
    /// The number of the last entry before this part; nil at the start.
    let cursor: Int?

    private static let limits = 1...limitAtMost
    static let limitAtMost = 200
    static let standardLimit = 50

    init(_ request: borrowing Request, standardLimit: Int = ListQuery.standardLimit) throws(Rejection) {
        let query = request.query
        limit = try ListQuery.number(query?["limit"], "limit", ListQuery.limits, request.id) ?? standardLimit
        cursor = try ListQuery.number(query?["cursor"], "cursor", 0...Int.max, request.id)
    }

    private static func number(
        _ text: String?, _ name: String, _ range: ClosedRange<Int>, _ id: RequestID
    ) throws(Rejection) -> Int? {
        guard let text else { return nil }
        guard let number = Int(text), range.contains(number) else {
            let demand = range == limits ? "an integer from 1 to 200" : "a next_cursor that was answered before"
            throw Rejection(Native.problem(.badRequest, code: Native.validationError, "\(name) must be \(demand).", id))
        }
        return number
    }

    static let parameters: [Schema.Property] = [
        .init("limit", .integer("The greatest number of entries: 1 to 200; the default is 50.")),
        .init("cursor", .string("The next_cursor of the page before.")),
    ]
}
