import Domain
import SQLite

/// The last id that a call gave.
///
/// Ids follow from the clock, and go on from the last one where the clock went back or an import kept a later id. The store has the ids of
/// people, and merges and documents have ids of the same numbers, so a store that is opened must know the last of all. The last moment
/// tells it of most calls. Only other calls keep it.
enum LastGiven {
    private static let name = "last_given"

    /// The id that is behind all ids of calls up to a moment, of which the last was later than all before it.
    static func limit(_ moment: Instant) -> PersonID { PersonID(at: moment.advanced(byMilliseconds: 2), chance: 0) }

    static func read(_ connection: Connection) throws(SQLiteFault) -> PersonID? {
        guard let value = try KeptSetting.read(name, connection) else { return nil }
        var unpacker = Unpacker(value)
        return unpacker.integer().map { PersonID(rawValue: Int64(bitPattern: $0)) }
    }

    /// Keeps the last id of some calls, if the latest moment does not tell it.
    static func keep(
        _ entries: [JournalEntry], after latest: Instant?, _ connection: Connection
    ) throws(SQLiteFault) {
        guard let last = entries.lazy.map(\.at).max() else { return }
        let moment = max(last, latest ?? last)
        guard let given = entries.lazy.map({ $0.lastGiven(upTo: moment) }).max(), given >= limit(moment) else { return }
        var packer = Packer()
        packer.add(UInt64(bitPattern: given.rawValue))
        try KeptSetting.keep(packer.bytes, as: name, connection)
    }

    /// The last id that the calls of a store gave, as its tables tell; nil for a store without calls.
    static func find(_ connection: Connection) throws(SQLiteFault) -> PersonID? {
        let last = try connection.integer("SELECT at FROM journal ORDER BY sequence DESC LIMIT 1")
        guard let last = last.map(Instant.init(milliseconds:)) else { return nil }
        let stepped = try SteppedFrom.read(connection)
        var given = limit(max(last, stepped ?? last))
        if let kept = try read(connection) { given = max(given, kept) }
        // An older version kept no last id in some cases, but each person has one.
        let newcomers = PersonID.limit(at: max(last, stepped.map(SteppedFrom.limit) ?? last))
        for table in ["people", "merges"] {
            let rows = try connection.prepare("SELECT max(id) FROM \(table) WHERE id < ?")
            rows.bind(1, newcomers.rawValue)
            if try rows.step(), let id = rows.optionalInteger(0) { given = max(given, PersonID(rawValue: id)) }
        }
        return given
    }
}
