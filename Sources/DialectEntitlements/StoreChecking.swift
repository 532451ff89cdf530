import Domain
import Gateway

/// Checks one claim after the other with the stores, and continues after the last. A receipt may have several purchases.
struct StoreChecking: Sendable {
    typealias Items = [Result<Receipt, ReceiptFault>]

    let stores: StoreValidators
    let place: StorePlace
    /// Whether the call continues without the claims that a store cannot check now.
    let isPatient: Bool
    let next: @Sendable (Result<Items, StoreOutage>) -> Step

    func check(_ claims: ArraySlice<StoreClaim>, _ tools: LoopTools) -> Step { check(claims, [], tools) }

    private func check(_ claims: ArraySlice<StoreClaim>, _ known: Items, _ tools: LoopTools) -> Step {
        guard let claim = claims.first else { return next(.success(known)) }
        return take(stores.check(claim, place, tools), claims.dropFirst(), known, tools)
    }

    private func take(
        _ check: StoreCheck, _ rest: ArraySlice<StoreClaim>, _ known: Items, _ tools: LoopTools
    ) -> Step {
        switch check {
        case .done(.success(let receipts)): self.check(rest, known + receipts.map { .success($0) }, tools)
        case .done(.failure(.bad(let fault))): self.check(rest, known + [.failure(fault)], tools)
        case .done(.failure(.unavailable)) where isPatient: self.check(rest, known, tools)
        case .done(.failure(.unavailable(let outage))): next(.failure(outage))
        case .ask(let call, let then): .ask(call) { result, tools in take(then(result, tools), rest, known, tools) }
        }
    }
}
