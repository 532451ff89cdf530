import Domain
import Postgres

/// Reads the facts of a batch in a transaction: first the facts that the calls name, and then the facts that the decisions
/// missed, until no fact is missing.
struct BatchLoading {
    private let connection: Connection
    private let loader: Loader
    /// The facts for which the last questions ask.
    private var asks: MissingFacts
    /// The facts that were read so far.
    private(set) var loaded = LoadedFacts()
    private var passes = 0

    /// The next step after a decision of the batch.
    enum Step {
        /// The decision had all its facts, and its results count.
        case decided
        /// Facts were missing, and were read. The results of the decision are worthless.
        case decideAgain
    }

    /// The limit of decisions of a batch that only find missing facts.
    private static let passesAtMost = 256

    /// - Parameters:
    ///   - needs: the facts that the calls name.
    ///   - connection: the connection, on which the transaction begins.
    ///   - lastRow: an existing row, the last row if possible.
    init(_ needs: FactKeys, _ connection: Connection, lastRow: Int64) {
        self.connection = connection
        asks = MissingFacts(needs)
        let keys = Dictionary(needs.replays.map { ($0.hash, $0) }) { one, _ in one }
        loader = Loader(connection: connection, replayKeys: keys, lastRow: lastRow)
    }

    /// Reads the facts that the calls name, in the round trip that begins the transaction (``Session/sendBegin(hasTurn:)``).
    mutating func begin() throws(StoreFault) -> StoreState {
        loader.sendReplays()
        loader.send(asks, after: loaded)
        var answers = try self.answers()
        let state = Session.takeBegin(&answers)
        try loader.takeReplays(&answers, into: &loaded)
        try loader.take(asks, &answers, into: &loaded)
        return state
    }

    /// Reads the facts that a decision missed.
    mutating func next(after facts: LoadingBatchFacts) throws(StoreFault) -> Step {
        asks = facts.asks
        if asks.isEmpty { return .decided }
        passes += 1
        if passes == BatchLoading.passesAtMost {
            throw StoreFault(.inputOutput, "A batch has asked for more facts too often.")
        }
        loader.send(asks, after: loaded)
        var answers = try self.answers()
        try loader.take(asks, &answers, into: &loaded)
        return .decideAgain
    }

    private func answers() throws(StoreFault) -> ArraySlice<Rows> {
        try attempt { () throws(PostgresFault) in try connection.answers() }[...]
    }
}
