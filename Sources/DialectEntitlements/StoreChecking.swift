import Domain
import Gateway
import Outbound

/// Checks claims with the stores, some at the same time, and continues after the last. A receipt may have several purchases.
struct StoreChecking: Sendable {
    typealias Items = [Result<Receipt, ReceiptFault>]

    let stores: ProjectStores
    let place: StorePlace
    /// Whether the call continues without the claims that a store cannot check now.
    let isPatient: Bool
    let next: @Sendable (Result<Items, StoreOutage>) -> Step

    /// The claims of one call that are checked at the same time. A restore has many where a store signs nothing.
    private static let atOnce = 16
    /// The purchases that their store does not know, after which a client's call asks about no further ones. An app sends the tokens
    /// that its store gave it. Invented tokens would use up the questions that the store allows to the whole project.
    private static let unknownAtMost = 32

    func check(_ claims: ArraySlice<StoreClaim>, _ tools: LoopTools) -> Step { check(claims, [], tools) }

    private func check(_ claims: ArraySlice<StoreClaim>, _ known: Items, _ tools: LoopTools) -> Step {
        if claims.isEmpty { return end(known) }
        let now = claims.prefix(StoreChecking.atOnce)
        let rest = claims.dropFirst(now.count)
        let unknown = known.count { if case .failure(.unknown) = $0 { true } else { false } }
        let asksNoMore = !place.isServer && unknown >= StoreChecking.unknownAtMost
        let checks: [StoreCheck] = now.map { claim in
            asksNoMore && claim.source == .playStore ? .bad(.unknown) : stores.check(claim, place, tools)
        }
        return go(on: checks, tools) { items, tools in
            check(rest, known + items, tools)
        }
    }

    /// Ends the check. The catalog decides by which of its names a product counts, and never the client.
    private func end(_ items: Items) -> Step {
        let haveNames = items.contains { item in (try? item.get()).map { !$0.names.isEmpty } ?? false }
        if !haveNames { return next(.success(items)) }
        return .read { snapshot throws(StoreFault) in
            let catalog = try snapshot.catalog(of: place.project)
            return next(.success(items.map { item in item.map { $0.named(by: catalog) } }))
        }
    }

    /// Continues checks until the stores have answered all their questions. The items are in the order of the checks.
    private func go(
        on checks: [StoreCheck], _ tools: LoopTools, _ end: @escaping @Sendable (Items, LoopTools) -> Step
    ) -> Step {
        var items: Items = []
        var questions: [(place: Int, call: OutboundCall, then: StoreCheck.Next)] = []
        for (place, check) in checks.enumerated() {
            switch check {
            case .done(.success(let receipts)): items += receipts.map { .success($0) }
            case .done(.failure(.bad(let fault))): items.append(.failure(fault))
            case .done(.failure(.unavailable(let outage))): if !isPatient { return next(.failure(outage)) }
            case .ask(let call, let then): questions.append((place, call, then))
            }
        }
        if questions.isEmpty { return end(items, tools) }
        let asked = questions
        return .askAll(asked.map(\.call)) { results, tools in
            var checks = checks
            for (question, result) in zip(asked, results) { checks[question.place] = question.then(result, tools) }
            return go(on: checks, tools, end)
        }
    }
}
