/// What waits to be sent, and the state of the client beside it, in one journal: whatever the order of what happened, it is
/// the order in which it is read again.
///
///     ["s",next,settled,id,{…}]            a state, and up to which letter all were settled
///     ["l",number,owner,kind,ms,{…}]       a letter
///     ["a",number]                         all letters up to this one are settled
///     ["d",number]                         this one letter is settled
package final class Mailbox {
    /// Something to be sent for somebody. Its content stays on the disk until then.
    package struct Letter: Sendable {
        package let number: Int64
        /// Whose it is: decided when it was written, and never again.
        package let owner: String
        package let kind: String
        /// When it was written, in milliseconds since 1970.
        package let time: Int64
        fileprivate let place: Journal.Place
        /// What it takes on the disk.
        package var byteCount: Int { place.count }
    }

    private let journal: Journal
    private var storage: [Letter] = []
    private var head = 0
    private var next: Int64 = 1
    private var settled: Int64 = 0
    /// What makes the ids of letters differ from those of other devices.
    private(set) package var id: Int64
    private var state: JSON = .null
    /// Whether the state could not be written: no letter is to be read again as one of an older state.
    private var isStateDue = false

    /// The letters that wait, the oldest first.
    package var letters: ArraySlice<Letter> { storage[head...] }
    package var count: Int { storage.count - head }
    package var lastNumber: Int64 { next - 1 }
    package var currentFile: String { journal.currentFile }

    /// Reads what is there.
    /// - Parameter fold: is told each state and letter in their order, so that a letter can be a change of the state as well.
    /// - Parameter report: is told the names of files in which unreadable lines were set aside.
    package init(
        _ name: String, in files: any FileStore, id: UInt64, report: (String) -> Void, fold: (Line) -> Void
    ) throws(FileFault) {
        journal = Journal(name, in: files)
        self.id = Int64(truncatingIfNeeded: id >> 2)
        var gone: Set<Int64> = []
        let setAside = try journal.replay { line, place in
            guard let fields = line.elements, let kind = fields.first?.text, fields.count > 1,
                let number = fields[1].integer
            else { return }
            switch kind {
            case "s" where fields.count == 5:
                next = max(next, number)
                settled = max(settled, fields[2].integer ?? 0)
                self.id = fields[3].integer ?? self.id
                fold(.state(fields[4]))
            case "l" where fields.count == 6:
                next = max(next, number &+ 1)
                guard let owner = fields[2].text, let kind = fields[3].text, let time = fields[4].integer else {
                    return
                }
                let letter = Letter(number: number, owner: owner, kind: kind, time: time, place: place)
                storage.append(letter)
                fold(.letter(letter, fields[5]))
            case "a": settled = max(settled, number)
            case "d": gone.insert(number)
            default: break
            }
        }
        storage.removeAll { $0.number <= settled || gone.contains($0.number) }
        for name in setAside { report(name) }
    }

    package enum Line {
        case state(JSON)
        case letter(Letter, JSON)
    }

    // MARK: - Writing

    /// Keeps a state. It counts from now on, also after a crash.
    package func save(_ state: JSON) throws(FileFault) {
        self.state = state
        isStateDue = true
        if journal.isFull {
            try turn()
        } else {
            _ = try journal.append(stateLine)
        }
        isStateDue = false
    }

    /// What the state is now, without a line of its own: a letter says it.
    package func fold(_ state: JSON) { self.state = state }

    private var stateLine: [UInt8] {
        JSON.array([.string("s"), .integer(next), .integer(settled), .integer(id), state]).bytes
    }

    private func turn() throws(FileFault) {
        try journal.begin(stateLine)
        try journal.forget(before: letters.first?.place.segment ?? journal.segment)
    }

    /// Writes a letter. When this returns, it outlives the process.
    /// - Parameter body: JSON.
    @discardableResult
    package func post(_ kind: String, of owner: String, at time: Int64, _ body: [UInt8]) throws(FileFault) -> Letter {
        // Files that nobody needs go when letters are settled: whoever writes does not wait for the disk.
        if isStateDue || journal.isFull {
            try journal.begin(stateLine)
            isStateDue = false
        }
        let number = next
        var line: [UInt8] = []
        line.reserveCapacity(body.count + 64)
        line += "[\"l\",".utf8
        line += number.description.utf8
        line.append(UInt8(ascii: ","))
        JSON.write(owner, to: &line)
        line.append(UInt8(ascii: ","))
        JSON.write(kind, to: &line)
        line.append(UInt8(ascii: ","))
        line += time.description.utf8
        line.append(UInt8(ascii: ","))
        line += body
        line.append(UInt8(ascii: "]"))
        let place = try journal.append(line)
        next += 1
        let letter = Letter(number: number, owner: owner, kind: kind, time: time, place: place)
        storage.append(letter)
        return letter
    }

    /// What a letter says; nil if the disk has lost it.
    package func content(of letter: Letter) -> JSON? { contents(of: [letter])[0] }

    /// What letters say, in their order; nil for what the disk has lost.
    package func contents(of letters: ArraySlice<Letter>) -> [JSON?] {
        journal.read(letters.map(\.place)).map { line in
            guard let fields = line?.elements, fields.count == 6 else { return nil }
            return fields[5]
        }
    }

    /// The first `count` letters are done with.
    package func settle(_ count: Int) throws(FileFault) {
        guard count > 0, count <= self.count else { return }
        settled = storage[head + count - 1].number
        moveHead(by: count)
        _ = try journal.append(JSON.array([.string("a"), .integer(settled)]).bytes)
        // A file that holds nothing but what is done with gives way to a small one.
        if self.count == 0, journal.isFull { try turn() }
        try journal.forget(before: letters.first?.place.segment ?? journal.segment)
    }

    private func moveHead(by count: Int) {
        head += count
        if head > 1024, head * 2 > storage.count {
            storage.removeFirst(head)
            head = 0
        }
    }

    /// Where the oldest letter of some kinds is, besides the first ones; nil if there is none.
    package func firstIndex(of kinds: Set<String>, after count: Int) -> Int? {
        // A slice that is held would have the whole array be copied by the next change.
        (min(head + count, storage.count)..<storage.count).first { kinds.contains(storage[$0].kind) }
    }

    /// Takes one letter out, wherever it is.
    package func drop(at index: Int) throws(FileFault) {
        let letter = storage[index]
        // Few letters are before the one that goes, and thousands behind it.
        for place in stride(from: index, to: head, by: -1) { storage.swapAt(place, place - 1) }
        moveHead(by: 1)
        _ = try journal.append(JSON.array([.string("d"), .integer(letter.number)]).bytes)
        try journal.forget(before: letters.first?.place.segment ?? journal.segment)
    }

    /// Forgets all letters but those of a kind, and keeps nothing else but a state: older lines are not there any more.
    package func wipe(_ state: JSON, keeping kind: String? = nil) throws(FileFault) {
        let kept = letters.filter { $0.kind == kind }
        let contents = contents(of: kept[...])
        storage.removeAll()
        head = 0
        settled = next - 1
        self.state = state
        isStateDue = true
        do throws(FileFault) {
            try journal.begin(stateLine)
        } catch {
            // What has to go makes the room for the one line that says so.
            try journal.clear()
            try journal.begin(stateLine)
        }
        isStateDue = false
        for (letter, content) in zip(kept, contents) {
            if let content { try post(letter.kind, of: letter.owner, at: letter.time, content.bytes) }
        }
        try journal.forget(before: journal.segment)
        try journal.forgetSetAside()
    }

    package func sync() throws(FileFault) { try journal.sync() }

    /// An id of a letter, in the form of a UUID: always the same, however often it is sent.
    package func uuid(of letter: Letter) -> String {
        Mailbox.uuid(UInt64(bitPattern: id), UInt64(bitPattern: letter.number))
    }

    /// A UUID (RFC 9562, version 8) of two numbers.
    package static func uuid(_ high: UInt64, _ low: UInt64) -> String {
        var digits = Array(hexadecimal(bytes(high) + bytes(low)))
        digits[12] = "8"
        digits[16] = "8"
        for place in [20, 16, 12, 8] { digits.insert("-", at: place) }
        return String(digits)
    }

    private static func bytes(_ word: UInt64) -> [UInt8] {
        stride(from: 56, through: 0, by: -8).map { UInt8(truncatingIfNeeded: word >> $0) }
    }
}
