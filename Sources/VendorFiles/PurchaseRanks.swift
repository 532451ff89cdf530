/// The order of the states of purchases that a vendor numbers: a higher number is a later state, whatever the times say.
///
/// The server orders states by `as_of`. So a later state gets a later `as_of` than the states before it. The memory is about
/// 60 bytes for each original transaction.
struct PurchaseRanks {
    struct Rank: Comparable {
        let number: Int64
        let moment: Int64

        static func < (one: Rank, other: Rank) -> Bool { (one.number, one.moment) < (other.number, other.moment) }
    }

    private var latest: [HashOfBytes: (rank: Rank, asOf: Int64)] = [:]

    /// The moment that a state of an original transaction gets, given the moment of its record.
    mutating func moment(of original: Bytes, in world: VendorWorld, _ number: Int64, _ moment: Int64) -> Int64 {
        var key = HashOfBytes()
        key.add(world.rawValue.utf8.span)
        key.add(original.span)
        let rank = Rank(number: number, moment: moment)
        guard let known = latest[key] else {
            latest[key] = (rank, moment)
            return moment
        }
        if rank < known.rank { return min(moment, known.asOf - 1) }
        let asOf = rank == known.rank ? known.asOf : max(moment, known.asOf + 1)
        latest[key] = (rank, asOf)
        return asOf
    }
}

/// The first moment at which each transaction was told, for vendors whose later events do not repeat its start.
struct FirstMoments {
    private var first: [HashOfBytes: Int64] = [:]

    /// The start of a transaction, given the moment of an event about it.
    mutating func moment(of transaction: Bytes, _ moment: Int64) -> Int64 {
        var key = HashOfBytes()
        key.add(transaction.span)
        let earliest = min(first[key] ?? moment, moment)
        first[key] = earliest
        return earliest
    }
}

extension Facts {
    /// The identity type of an app's own user in a world.
    static func userType(isOwn: Bool, _ world: VendorWorld) -> String {
        switch (isOwn, world) {
        case (true, .production): "access_identity"
        case (true, .sandbox): "sandbox_identity"
        case (false, .production): "access_user_id"
        case (false, .sandbox): "sandbox_user_id"
        }
    }
}
