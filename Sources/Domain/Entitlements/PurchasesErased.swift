extension DocumentFacts {
    /// The changes to the purchases of people who are erased together. A purchase without another owner or payer is removed,
    /// and other purchases lose the erased people.
    func purchasesErased(of people: [PersonID]) -> [Change] {
        var changes: [Change] = []
        var accounts: [Hash128: NamedAccount] = [:]
        var seen: Set<PurchaseID> = []
        for person in people {
            guard let user = accessUser(person) else { continue }
            let named = user.accounts.flatMap { namedAccount($0).paid }
            for id in user.owned + user.paid + named where seen.insert(id).inserted {
                guard let known = self.purchase(id) else { continue }
                var left = known
                left.owners.removeAll { people.contains($0) }
                if case .install(let payer) = left.account, people.contains(payer) { left.account = nil }
                if left.isNobodys(without: people) {
                    changes.append(.documentPut(id.key, person, []))
                    if case .named(let hash) = left.account {
                        accounts[hash, default: namedAccount(hash)].paid.removeAll { $0 == id }
                    }
                } else if left != known {
                    changes.append(left.put)
                }
            }
        }
        return changes + accounts.values.sorted { $0.hash.low < $1.hash.low }.map(\.put)
    }

    private func namedAccount(_ hash: Hash128) -> NamedAccount {
        NamedAccount(hash, packed: document(NamedAccount.key(hash)))
    }
}

extension Purchase {
    /// Whether no person has the purchase after the erasure. For this question, a purchase of a named account belongs only
    /// to its reporter.
    fileprivate func isNobodys(without people: [PersonID]) -> Bool {
        guard owners.isEmpty else { return false }
        switch account {
        case .install: return false
        case .named: return people.contains(reporter)
        case nil: return true
        }
    }
}
