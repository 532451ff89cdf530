/// The note of a store that it is being moved, or that it was moved. Servers do not open such a store, so that the old store and
/// the new one never both take calls (spec/moving.md 4).
package struct StoreMove: Equatable, Sendable {
    /// Stores keep the raw values, so a raw value never changes.
    package enum State: UInt8, Sendable {
        /// Rows are copied. No server can open the new store yet.
        case begun = 1
        /// All rows are copied and compared. The new store may have servers.
        case done = 2
    }

    package let state: State
    /// The address of the new store, without its password.
    package let target: String
    package let at: Instant
    /// The last call of the store.
    package let sequence: Int64

    /// The name of the setting with the note.
    package static let setting = "moved_to"

    package init(_ state: State, to target: String, at moment: Instant, after sequence: Int64) {
        (self.state, self.target, self.at, self.sequence) = (state, target, moment, sequence)
    }

    package var packed: [UInt8] {
        var packer = Packer()
        packer.add(state.rawValue)
        packer.add(target)
        packer.add(at)
        packer.add(UInt64(bitPattern: sequence))
        return packer.bytes
    }

    package init?(packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        guard let state = unpacker.byte().flatMap(State.init), let target = unpacker.text(),
            let at = unpacker.instant(), let sequence = unpacker.integer()
        else { return nil }
        self.init(state, to: target, at: at, after: Int64(bitPattern: sequence))
    }
}
