/// The waiting letters and the client's state, in one journal. A start reads letters and states in the order in which they
/// were written.
///
///     ["s",next,settled,id,{…}]            a state, and the number up to which all letters were settled
///     ["l",number,owner,kind,ms,{…}]       a letter
///     ["a",number]                         all letters up to this number are settled
///     ["d",number]                         the letter with this number is settled
package final class Mailbox {
    /// A message that waits to be sent for a user. Its content stays on the disk until then.
    package struct Letter: Sendable {
        package let number: Int64
        /// The user of the letter. It is set when the letter is written, and never changes.
        package let owner: String
        package let kind: String
        /// The time of writing, in milliseconds since 1970.
        package let time: Int64
        fileprivate let place: Journal.Place
        /// The letter's size on the disk.
        package var byteCount: Int { place.count }
    }

    private let journal: Journal
    private var storage: [Letter] = []
    private var head = 0
    private var next: Int64 = 1
    private var settled: Int64 = 0
    /// A number that makes the ids of letters differ from the ids of other devices' letters.
    private(set) package var id: Int64
    private var state: JSON = .null
    /// Syncs the state, and then calls ``remove(_:)``, at a time when nobody waits for the disk; nil to do so at once.
    package var clean: ((Journal.Garbage) -> Void)?
    /// Whether the state could not be written: the mailbox must write the state before the next letter.
    private var isStateDue = false

    /// The waiting letters, the oldest first.
    package var letters: ArraySlice<Letter> { storage[head...] }
    package var count: Int { storage.count - head }
    package var lastNumber: Int64 { next - 1 }
    package var currentFile: String { journal.currentFile }

    /// Reads the journal.
    /// - Parameter fold: gets each state and each letter in order, because a letter can also change the state.
    /// - Parameter report: gets the names of files with unreadable lines.
    package init(
        _ name: String, in files: any FileStore, id: UInt64, report: (String) -> Void, fold: (Line) -> Void
    ) throws(FileFault) {
        journal = Journal(name, in: files)
        self.id = Int64(truncatingIfNeeded: id >> 2)
        var gone: Set<Int64> = []
        let setAside = try journal.replay { text, place in
            if let letter = Mailbox.letter(text, place) {
                next = max(next, letter.number &+ 1)
                storage.append(letter)
                fold(.letter(letter, { Mailbox.content(text) }))
                return true
            }
            guard let line = JSON(text) else { return false }
            guard let fields = line.elements, let kind = fields.first?.text, fields.count > 1,
                let number = fields[1].integer
            else { return true }
            switch kind {
            case "s" where fields.count == 5:
                next = max(next, number)
                settled = max(settled, fields[2].integer ?? 0)
                self.id = fields[3].integer ?? self.id
                fold(.state(fields[4]))
            case "a": settled = max(settled, number)
            case "d": gone.insert(number)
            // A line of a later version.
            default: break
            }
            return true
        }
        storage.removeAll { $0.number <= settled || gone.contains($0.number) }
        for name in setAside { report(name) }
    }

    package enum Line {
        case state(JSON)
        /// A letter, and its content. A start reads the contents that it needs alone: thousands of letters may wait.
        case letter(Letter, () -> JSON)
    }

    /// Reads a letter without its content; nil for another line.
    private static func letter(_ text: ArraySlice<UInt8>, _ place: Journal.Place) -> Letter? {
        var rest = text
        guard rest.starts(with: "[\"l\",".utf8) else { return nil }
        rest = rest.dropFirst(5)
        guard let number = Mailbox.number(&rest), let owner = word(&rest), let kind = word(&rest),
            let time = Mailbox.number(&rest),
            rest.last == UInt8(ascii: "]")
        else { return nil }
        return Letter(number: number, owner: owner, kind: kind, time: time, place: place)
    }

    /// Reads a number, and the comma after it.
    private static func number(_ rest: inout ArraySlice<UInt8>) -> Int64? {
        guard let comma = rest.firstIndex(of: UInt8(ascii: ",")),
            let number = Int64(String(decoding: rest[..<comma], as: UTF8.self))
        else { return nil }
        rest = rest[(comma + 1)...]
        return number
    }

    /// Reads a text, and the comma after it.
    private static func word(_ rest: inout ArraySlice<UInt8>) -> String? {
        guard rest.first == UInt8(ascii: "\"") else { return nil }
        var end = rest.startIndex + 1
        var hasEscapes = false
        while end < rest.endIndex, rest[end] != UInt8(ascii: "\"") {
            if rest[end] == UInt8(ascii: "\\") {
                hasEscapes = true
                end += 1
            }
            end += 1
        }
        guard end + 1 < rest.endIndex, rest[end + 1] == UInt8(ascii: ",") else { return nil }
        let text = rest[rest.startIndex...end]
        rest = rest[(end + 2)...]
        return hasEscapes ? JSON(text)?.text : String(decoding: text.dropFirst().dropLast(), as: UTF8.self)
    }

    private static func content(_ text: ArraySlice<UInt8>) -> JSON {
        guard let fields = JSON(text)?.elements, fields.count == 6 else { return .null }
        return fields[5]
    }

    // MARK: - Writing

    /// Keeps a state. The state counts from now on, also after a crash.
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

    /// Sets the state without writing a line, because a letter contains the change.
    package func fold(_ state: JSON) { self.state = state }

    private var stateLine: [UInt8] {
        JSON.array([.string("s"), .integer(next), .integer(settled), .integer(id), state]).bytes
    }

    private func turn() throws(FileFault) {
        try journal.begin(stateLine)
        try forget()
    }

    /// Removes the files that no letter needs.
    private func forget() throws(FileFault) {
        let needed = letters.first?.place.segment ?? journal.segment
        guard let clean else { return try journal.forget(before: needed) }
        if let garbage = journal.garbage(before: needed) { clean(garbage) }
    }

    /// Removes files that no letter needs, after the sync of the state.
    package func remove(_ garbage: Journal.Garbage) throws(FileFault) { try journal.remove(garbage) }

    /// Writes a letter. When this returns, the letter survives the process.
    /// - Parameter body: JSON.
    @discardableResult
    package func post(_ kind: String, of owner: String, at time: Int64, _ body: [UInt8]) throws(FileFault) -> Letter {
        // Unneeded files are removed when letters are settled: a writing thread does not wait for that.
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

    /// The content of a letter; nil if the disk has lost the content.
    package func content(of letter: Letter) throws(FileFault) -> JSON? { try contents(of: [letter])[0] }

    /// The contents of letters, in order; nil for content that the disk has lost. Any thread may call this.
    package func contents(of letters: ArraySlice<Letter>) throws(FileFault) -> [JSON?] {
        try journal.read(letters.map(\.place)).map { line in
            guard let fields = line?.elements, fields.count == 6 else { return nil }
            return fields[5]
        }
    }

    /// Settles the first `count` letters.
    package func settle(_ count: Int) throws(FileFault) {
        guard count > 0, count <= self.count else { return }
        settled = storage[head + count - 1].number
        moveHead(by: count)
        _ = try journal.append(JSON.array([.string("a"), .integer(settled)]).bytes)
        // A large file that contains only settled letters is replaced by a small file.
        if self.count == 0, journal.isFull { try turn() }
        try forget()
    }

    private func moveHead(by count: Int) {
        head += count
        if head > 1024, head * 2 > storage.count {
            storage.removeFirst(head)
            head = 0
        }
    }

    /// The place of the oldest letter of some kinds, apart from the first letters; nil if no such letter waits.
    package func firstIndex(of kinds: Set<String>, after count: Int) -> Int? {
        // A held slice would make the next change copy the whole array.
        (min(head + count, storage.count)..<storage.count).first { kinds.contains(storage[$0].kind) }
    }

    /// Removes one letter at any place.
    package func drop(at index: Int) throws(FileFault) {
        let letter = storage[index]
        // Few letters are before the removed letter, and thousands may be behind it.
        for place in stride(from: index, to: head, by: -1) { storage.swapAt(place, place - 1) }
        moveHead(by: 1)
        _ = try journal.append(JSON.array([.string("d"), .integer(letter.number)]).bytes)
        try forget()
    }

    /// Removes one waiting letter.
    package func drop(_ letter: Letter) throws(FileFault) {
        guard let index = (head..<storage.count).first(where: { storage[$0].number == letter.number }) else { return }
        try drop(at: index)
    }

    /// Removes all letters except one kind, and keeps only a state: older lines do not exist any more. Kept letters get new numbers. A
    /// process that ends in between leaves each kept letter once or twice.
    package func wipe(_ state: JSON, keeping kind: String? = nil) throws(FileFault) {
        let kept = letters.filter { $0.kind == kind }
        // What cannot be read now must not keep the rest.
        let contents = (try? contents(of: kept[...])) ?? []
        let last = next - 1
        storage.removeAll()
        head = 0
        // Until their copies are written, the kept letters count in the old files.
        if contents.isEmpty { settled = last }
        self.state = state
        isStateDue = true
        do throws(FileFault) {
            try journal.begin(stateLine)
        } catch {
            // On a full disk, the removed files make room for the one new line.
            try journal.clear()
            try journal.begin(stateLine)
        }
        isStateDue = false
        for (letter, content) in zip(kept, contents) {
            if let content { try post(letter.kind, of: letter.owner, at: letter.time, content.bytes) }
        }
        if settled < last {
            settled = last
            _ = try journal.append(JSON.array([.string("a"), .integer(last)]).bytes)
        }
        try journal.forget(before: journal.segment)
        try journal.forgetSetAside()
    }

    package func sync() throws(FileFault) { try journal.sync() }

    /// A letter's id in the form of a UUID: each try to send the letter has the same id.
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
