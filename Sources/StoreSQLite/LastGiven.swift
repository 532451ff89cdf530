import Domain
import SQLite

/// The last id that a call gave.
///
/// Ids follow from the clock, and go on from the last one behind a step of the clock. The store has the ids of people, and merges and
/// documents have ids of the same numbers, so a store that is opened must know the last of all. After calls that were later than all
/// before them, the last moment tells it. Only other calls keep it.
enum LastGiven {
    private static let name = "last_given"

    /// The id that is behind all ids of calls up to a moment, of which the last was later than all before it.
    static func limit(_ moment: Instant) -> PersonID { PersonID(at: moment.advanced(byMilliseconds: 2), chance: 0) }

    static func read(_ connection: Connection) throws(SQLiteFault) -> PersonID? {
        guard let value = try KeptSetting.read(name, connection) else { return nil }
        var unpacker = Unpacker(value)
        return unpacker.integer().map { PersonID(rawValue: Int64(bitPattern: $0)) }
    }

    /// Keeps the last id, if the last of some calls is not later than all calls before.
    static func keep(
        _ entries: [JournalEntry], after latest: Instant?, _ connection: Connection
    ) throws(SQLiteFault) {
        guard let latest, let last = entries.last, last.at <= latest else { return }
        guard let given = entries.map({ $0.lastGiven(upTo: latest) }).max() else { return }
        var packer = Packer()
        packer.add(UInt64(bitPattern: given.rawValue))
        try KeptSetting.keep(packer.bytes, as: name, connection)
    }
}
