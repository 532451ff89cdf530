/// The questions that the server asks stores by itself, so that access stays right when nobody calls
/// (spec/entitlements-live.md 7).
///
/// Each purchase has the moment of its next question. Lists for each minute have the purchases of that minute, and each hour
/// says which of its lists have any. So a search for due purchases reads no others.
extension Purchase {
    /// The state of the questions about a purchase.
    package struct Check: Equatable, Sendable {
        /// The moment of the next question; nil if no answer would change the access.
        package internal(set) var dueAt: Instant?
        /// The number of the last questions in a row that the store has not answered.
        package internal(set) var faults = 0
        /// Whether the store refunds the purchase unless the server acknowledges it.
        package internal(set) var isUnacknowledged = false
        /// Whether the server cannot ask the store. Then the only thing that is due is that the server forgets the purchase.
        package internal(set) var isSilent = false
        /// The moment from which on the purchase gives no access, as the store or a question without an answer has shown; nil
        /// while it gives some.
        var endedAt: Instant?
        /// The time for which a subscription that would renew gives access after its end until the store answers.
        package internal(set) var graceMilliseconds: Int64 = 0

        fileprivate static let minute: Int64 = 60_000
        fileprivate static let quarter = 15 * minute
        fileprivate static let hour = 60 * minute
        fileprivate static let day = 24 * hour
        fileprivate static let faultsAtMost = 100
        /// The time after which a question that has begun counts as lost, for example because the server ended.
        static let leaseMilliseconds = minute
        /// The time for which the server asks about a payment that is not made yet.
        fileprivate static let paymentMilliseconds = 3 * day
        /// The time after its end for which the server asks about a subscription.
        fileprivate static let endedMilliseconds = 75 * day
        /// The time for which the server keeps a purchase that no user has proven, from the last news of its store on.
        static let unclaimedMilliseconds = 180 * day
    }

    /// Notes that the store has told of the purchase, and that no user has proven it.
    mutating func noteUnclaimed(at moment: Instant) {
        forgottenAt = moment.advanced(byMilliseconds: Check.unclaimedMilliseconds)
        guard check == nil else { return }
        var check = Check()
        check.isSilent = true
        self.check = check
    }

    /// Whether the server keeps the purchase no longer: only its store has told of it, and that was long ago.
    package func isForgotten(at moment: Instant) -> Bool {
        isUnclaimed && forgottenAt.map { $0 <= moment } ?? false
    }

    /// Schedules the next question after an answer.
    ///
    /// - Parameters:
    ///   - moment: the present moment.
    ///   - isAsked: whether the server has just asked about the purchase.
    ///   - definition: the product.
    mutating func scheduleCheck(after moment: Instant, isAsked: Bool, _ definition: Catalog.Product?) {
        noteEnd(at: moment, definition)
        let next = nextCheck(after: moment, isAsked: isAsked, definition)
        check?.faults = 0
        check?.dueAt = next
    }

    /// Plans the next question again: the clock was ahead when it was planned. An end that has not come yet was seen by that clock.
    mutating func replanCheck(at moment: Instant, _ definition: Catalog.Product?) {
        if let endedAt = check?.endedAt, endedAt > moment { check?.endedAt = nil }
        scheduleCheck(after: moment, isAsked: false, definition)
    }

    /// Notes the end that a new statement of the store shows. No grace follows an end that the store has told.
    mutating func noteEnd(at moment: Instant, _ definition: Catalog.Product?) {
        noteEnd(at: moment, givesAccess: isRunning(at: moment, definition), definition)
    }

    /// The end of a purchase without access moves with each answer of some stores, so the first one that was seen counts.
    private mutating func noteEnd(at moment: Instant, givesAccess: Bool, _ definition: Catalog.Product?) {
        if givesAccess {
            check?.endedAt = nil
        } else if check?.endedAt == nil {
            let end = expiry(definition).map { min($0, moment) } ?? moment
            check?.endedAt = end
        }
    }

    /// The moment of the next question, or the moment at which the server forgets the purchase.
    private func nextCheck(after moment: Instant, isAsked: Bool, _ definition: Catalog.Product?) -> Instant? {
        let question = nextQuestion(after: moment, isAsked: isAsked, definition)
        guard isUnclaimed, let forgottenAt else { return question }
        return min(question ?? forgottenAt, forgottenAt)
    }

    /// The moment of the next question; nil if no answer would change the access.
    private func nextQuestion(after moment: Instant, isAsked: Bool, _ definition: Catalog.Product?) -> Instant? {
        guard let check, !check.isSilent, replacedBy == nil else { return nil }
        if check.isUnacknowledged, !isUnclaimed {
            return isAsked ? moment.advanced(byMilliseconds: Check.quarter) : moment
        }
        guard revokedAt == nil else { return nil }
        let passed = check.endedAt.map { moment.milliseconds - $0.milliseconds } ?? 0
        guard isSubscription(definition) else {
            // A product whose payment is not made yet ends as it begins.
            guard history.current.endsAt == purchasedAt, passed < Check.paymentMilliseconds else { return nil }
            return moment.advanced(byMilliseconds: Check.quarter)
        }
        // Not all subscriptions that end at the same moment are asked about at the same moment.
        let first = Check.minute + Int64(id.hash.low % UInt64(4 * Check.minute))
        guard let endedAt = check.endedAt else {
            guard let atEnd = expiry(definition)?.advanced(byMilliseconds: first) else { return nil }
            return renewal == .billingIssue ? min(atEnd, moment.advanced(byMilliseconds: 6 * Check.hour)) : atEnd
        }
        guard renewal != .canceled, passed < Check.endedMilliseconds else { return nil }
        for step in [first, 10 * Check.minute, Check.hour, 6 * Check.hour] where passed < step {
            return endedAt.advanced(byMilliseconds: step)
        }
        return moment.advanced(byMilliseconds: renewal == .billingIssue ? 6 * Check.hour : Check.day)
    }

    /// Schedules the next question after one without an answer: later after each fault, up to eight minutes in an outage, and
    /// up to six hours otherwise.
    ///
    /// - Parameters:
    ///   - moment: the present moment.
    ///   - definition: the product.
    ///   - grace: the time for which a subscription that would renew gives access after its end; nil if the reason is no
    ///     outage of the store.
    mutating func putOffCheck(after moment: Instant, _ definition: Catalog.Product?, graceMilliseconds grace: Int64?) {
        if let grace {
            check?.graceMilliseconds = grace
            noteEnd(at: moment, givesAccess: isActive(at: moment, definition), definition)
        } else {
            noteEnd(at: moment, definition)
        }
        guard var check else { return }
        check.faults = min(check.faults + 1, Check.faultsAtMost)
        // The rest of a store after faults keeps its questions few. So each purchase can be right soon after an outage.
        let longest = grace == nil ? 6 * Check.hour : 8 * Check.minute
        let pause = min(Check.minute << Int64(min(check.faults - 1, 9)), longest)
        // A fifth more or less, so that questions after an outage do not come all at once.
        let fifth = pause / 5
        let isOver = check.endedAt.map { moment.milliseconds - $0.milliseconds >= Check.endedMilliseconds } ?? false
        check.dueAt =
            isOver ? nil : moment.advanced(byMilliseconds: pause - fifth + Int64(id.hash.high % UInt64(2 * fifth)))
        if isUnclaimed, let forgottenAt { check.dueAt = min(check.dueAt ?? forgottenAt, forgottenAt) }
        self.check = check
    }

    /// Ends the questions: the store does not know the purchase any more.
    mutating func endChecks() {
        let end = isUnclaimed ? forgottenAt : nil
        check?.dueAt = end
    }
}

extension Purchase.Check {
    func pack(into packer: inout Packer) {
        packer.add(optional: dueAt)
        packer.add(UInt64(faults))
        packer.add((isUnacknowledged ? 1 : 0) | (isSilent ? 2 : 0) as UInt8)
        packer.add(optional: endedAt)
    }

    init?(unpacking unpacker: inout Unpacker) {
        guard let dueAt = unpacker.optionalInstant(), let faults = unpacker.integer(),
            faults <= Purchase.Check.faultsAtMost,
            let flags = unpacker.byte(), flags < 4, let endedAt = unpacker.optionalInstant()
        else { return nil }
        (self.dueAt, self.faults, self.endedAt) = (dueAt, Int(faults), endedAt)
        (isUnacknowledged, isSilent) = (flags & 1 != 0, flags & 2 != 0)
    }
}
