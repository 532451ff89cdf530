import Foundation
import TestKit
import Testing

/// A list pays for its page (docs/decisions/0052): what a page reads from the store does not grow with the store. Reads of memory alone
/// (apps, largest people, shared identities) count for nothing here.
@Suite("The work of lists")
struct ListWorkTests {
    private static let limit = 5
    private static let sizes = (small: 12, large: 48)

    /// The lists whose work grows, and why.
    private static let exceptions = [
        "/onym/v1/merges": "reads the ids of the last 500 merges of all projects",
        "/onym/v1/people/{id}/graph": "looks at the last calls of each member, up to a limit",
        "/onym/v1/people/{id}/timeline": "reads the rows of a kind in pieces of 100",
        "/onym/v1/people/{id}/splits": "looks for the person in the last 1,000 splits of the project",
        "/v1/issues": "reads all occurrences that its filter allows (docs/decisions/0070)",
        "/v1/projects/{id}/issues": "reads all occurrences that its filter allows (docs/decisions/0070)",
        "/v1/projects/{id}/questionnaires": "reads all questionnaires, and counts all their responses",
    ]

    /// What lists need besides.
    private static let queries = ["/onym/v1/people": "order=recent"]

    @Test("does not grow with the store", arguments: StoreKind.allCases)
    func bounds(_ kind: StoreKind) throws {
        let small = try Self.work(kind, size: Self.sizes.small)
        let large = try Self.work(kind, size: Self.sizes.large)
        #expect(small.count > 30)
        for (path, less) in small.sorted(by: { $0.key < $1.key }) {
            let more = try #require(large[path])
            let grows = zip(Self.parts(less), Self.parts(more)).contains { $1 > $0 + Self.allowance }
            let reason = Self.exceptions[path]
            #expect(grows == (reason != nil), "\(path), \(reason ?? "which should not grow"): \(less), \(more)")
        }
    }

    /// Background work may have changed a little between two reads.
    private static let allowance = 4

    private static func parts(_ work: ReadCounter.Work) -> [Int] {
        [work.rows, work.documents, work.calls, work.people, work.others]
    }

    /// What a page of each list reads from a store with so many things of each kind.
    private static func work(_ kind: StoreKind, size: Int) throws -> [String: ReadCounter.Work] {
        let counter = ReadCounter()
        let scene = try NumberScene(kind, counter: counter, size: size)
        var work: [String: ReadCounter.Work] = [:]
        for route in scene.routes where route.isRead && route.query.contains("limit") {
            let query = "limit=\(limit)" + (queries[route.path].map { "&" + $0 } ?? "")
            // From the second time on the server knows what it has derived.
            for _ in 0..<2 {
                _ = counter.take()
                let answer = try scene.answer(route, query: query)
                work[route.path] = counter.take()
                #expect(answer?.status == 200, "\(route.name): \(String(describing: answer))")
            }
        }
        return work
    }
}
