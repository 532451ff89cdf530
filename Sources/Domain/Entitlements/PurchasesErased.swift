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
                left.installs.remove(people)
                left.keptFrom.removeAll { people.contains($0) }
                if people.contains(left.reporter) {
                    left.reporter = left.owners.first ?? left.installs.people.first ?? PersonID(rawValue: 0)
                }
                for name in left.accounts { accounts[name, default: namedAccount(name)].installs.remove(people) }
                if left.isNobodys(left.accounts.compactMap { accounts[$0] }) {
                    changes.append(.documentPut(id.key, person, []))
                    for name in left.accounts { accounts[name]?.paid.removeAll { $0 == id } }
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
    /// Whether nobody has the purchase after the erasure. The installs that joined an account by name in earlier versions are
    /// not known. So a purchase of such an account lasts as long as its reporter.
    fileprivate func isNobodys(_ accounts: [NamedAccount]) -> Bool {
        guard owners.isEmpty, installs.all.isEmpty else { return false }
        return accounts.isEmpty || (reporter.rawValue == 0 && accounts.allSatisfy(\.installs.all.isEmpty))
    }
}
