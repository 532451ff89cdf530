import Domain
import SQLite

/// The latest moment from which the clock went back. The ids of people do not go back with the clock, so the next open must know it
/// before it reads the people.
enum SteppedFrom {
    private static let name = "stepped_from"

    /// The moment up to which people may have been made: behind a step their ids go on from the last one.
    static func limit(_ moment: Instant) -> Instant { moment.advanced(byMilliseconds: 86_400_000) }

    static func read(_ connection: Connection) throws(SQLiteFault) -> Instant? {
        guard let value = try KeptSetting.read(name, connection) else { return nil }
        var unpacker = Unpacker(value)
        return unpacker.instant()
    }

    /// Keeps the moment, if one of some entries is a step back.
    static func keep(
        _ entries: [JournalEntry], after last: Instant?, _ connection: Connection
    ) throws(SQLiteFault) {
        guard entries.contains(where: { $0.kind == .clockStep }) else { return }
        let known = [try read(connection), last].compactMap { $0 }
        guard let latest = (known + entries.map(\.at)).max() else { return }
        var packer = Packer()
        packer.add(latest)
        try KeptSetting.keep(packer.bytes, as: name, connection)
    }
}
