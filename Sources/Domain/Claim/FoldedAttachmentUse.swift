/// The attachment bytes of the members of a group: the stored bytes, and the reserved bytes by the minute in which the
/// reservation ends.
struct FoldedAttachmentUse: GroupFold, Equatable {
    private(set) var stored = 0
    private var reserved: [Int64: Int] = [:]

    var isEmpty: Bool { stored == 0 && reserved.isEmpty }

    init(_ person: PersonID, _ document: [UInt8]?) {
        if let document { add(document, 1) }
    }

    mutating func join(_ joining: FoldedAttachmentUse, by merge: MergeID) {
        stored += joining.stored
        reserved.merge(joining.reserved, uniquingKeysWith: +)
        bound()
    }

    mutating func change(_ person: PersonID, from before: [UInt8]?, to after: [UInt8], by call: PersonID) -> Bool {
        if let before { add(before, -1) }
        add(after, 1)
        bound()
        return true
    }

    private mutating func add(_ document: [UInt8], _ sign: Int) {
        let own = AttachmentBytes(packed: document)
        stored += sign * own.stored
        for (minute, bytes) in own.reserved { reserved[minute, default: 0] += sign * bytes }
    }

    /// Removes ended reservations. The reservations of two days end in fifty different minutes at most.
    private mutating func bound() {
        reserved = reserved.filter { $0.value > 0 }
        guard let last = reserved.keys.max() else { return }
        let minutes = Attachment.reservationMilliseconds / 60_000
        if reserved.count > 100 { reserved = reserved.filter { $0.key > last - 2 * minutes } }
    }

    /// The bytes that count at a moment.
    func bytes(at moment: Instant) -> Int { AttachmentBytes(stored: stored, reserved: reserved).bytes(at: moment) }

    var packed: [UInt8] { AttachmentBytes(stored: stored, reserved: reserved).packed }

    init?(packed: [UInt8]) {
        let bytes = AttachmentBytes(packed: packed)
        (stored, reserved) = (bytes.stored, bytes.reserved)
    }
}
