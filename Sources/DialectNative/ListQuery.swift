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
        limit = try ListQuery.limit(request) ?? standardLimit
        cursor = try AdminText.number(
            request, "cursor", in: 0...Int.max, or: "a next_cursor that was answered before")
    }

    /// The greatest number of entries that a caller asks for; nil if the query has none.
    static func limit(_ request: borrowing Request) throws(Rejection) -> Int? {
        try AdminText.number(request, "limit", in: limits)
    }

    static let parameters: [Schema.Property] = [
        .init("limit", .integer("The greatest number of entries: 1 to 200; the default is 50.")),
        .init("cursor", .string("The next_cursor of the page before.")),
    ]
}
