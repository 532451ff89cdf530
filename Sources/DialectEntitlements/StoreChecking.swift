import Domain
import Gateway

/// Checks one claim after the other with the stores, and continues after the last. A receipt may have several purchases.
struct StoreChecking: Sendable {
    typealias Items = [Result<Receipt, ReceiptFault>]

    let stores: ProjectStores
    let place: StorePlace
    /// Whether the call continues without the claims that a store cannot check now.
    let isPatient: Bool
    let next: @Sendable (Result<Items, StoreOutage>) -> Step

    func check(_ claims: ArraySlice<StoreClaim>, _ tools: LoopTools) -> Step { check(claims, [], tools) }

    private func check(_ claims: ArraySlice<StoreClaim>, _ known: Items, _ tools: LoopTools) -> Step {
        var (rest, known) = (claims, known)
        while let claim = rest.popFirst() {
            if let step = take(stores.check(claim, place, tools), rest, &known) { return step }
        }
        return next(.success(known))
    }

    /// Adds the result of a check. Returns a step if the call cannot continue at once.
    private func take(_ check: StoreCheck, _ rest: ArraySlice<StoreClaim>, _ known: inout Items) -> Step? {
        switch check {
        case .done(.success(let receipts)): known += receipts.map { .success($0) }
        case .done(.failure(.bad(let fault))): known.append(.failure(fault))
        case .done(.failure(.unavailable(let outage))): if !isPatient { return next(.failure(outage)) }
        case .ask(let call, let then):
            let soFar = known
            return .ask(call) { result, tools in
                var known = soFar
                return take(then(result, tools), rest, &known) ?? self.check(rest, known, tools)
            }
        }
        return nil
    }
}
