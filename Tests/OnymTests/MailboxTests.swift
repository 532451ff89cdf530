import ClientKit
import Onym
import Testing

@Suite("The mailbox")
struct MailboxTests {
    private func open(_ files: any FileStore, reports: Collector<String> = Collector()) throws -> (Mailbox, JSON) {
        var state: JSON = .null
        let mailbox = try Mailbox(
            "box", in: files, id: 7, report: { reports.callback($0) },
            fold: { if case .state(let kept) = $0 { state = kept } })
        return (mailbox, state)
    }

    private func contents(_ mailbox: Mailbox) -> [String] {
        mailbox.letters.map { letter in "\(letter.owner):\((try? mailbox.content(of: letter))?.integer ?? -1)" }
    }

    @Test("reads what was written, in its order")
    func order() throws {
        let files = MemoryFiles()
        let (mailbox, _) = try open(files)
        try mailbox.save("first")
        for number in 0..<5 { try mailbox.post("e", of: "ü\"\(number)", at: 1, JSON.integer(Int64(number)).bytes) }
        try mailbox.save("second")
        try mailbox.settle(2)
        try mailbox.drop(at: mailbox.letters.startIndex + 1)
        let (again, state) = try open(files.survive())
        #expect(state == "second")
        #expect(contents(again) == ["ü\"2:2", "ü\"4:4"])
        #expect(again.letters.map { again.uuid(of: $0) } == mailbox.letters.map { mailbox.uuid(of: $0) })
    }

    @Test("a crash at any byte leaves the newest state and all letters before it")
    func crashes() throws {
        let files = MemoryFiles()
        let (mailbox, _) = try open(files)
        var marks: [(size: Int, letters: [String], state: JSON)] = [(0, [], .null)]
        func mark(_ state: JSON) { marks.append((files.byteCount, contents(mailbox), state)) }
        for round in 0..<6 {
            let state = JSON.integer(Int64(round))
            try mailbox.save(state)
            mark(state)
            for number in 0..<3 {
                try mailbox.post("e", of: "\(round)", at: 1, JSON.integer(Int64(number)).bytes)
                mark(state)
            }
            try mailbox.settle(2)
            mark(state)
        }
        let whole = try #require(files.contents["box-000001.log"])
        for end in 0...whole.count {
            let reports = Collector<String>()
            let left = MemoryFiles(["box-000001.log": Array(whole[..<end])])
            let (again, state) = try open(left, reports: reports)
            // A line that lacks nothing but its end counts.
            let expected = try #require(marks.last { $0.size <= end + 1 })
            #expect(contents(again) == expected.letters)
            #expect(state == expected.state)
            #expect(reports.values.isEmpty)
            // And it can be gone on from there.
            try again.post("e", of: "later", at: 1, JSON.integer(9).bytes)
            #expect(contents(try open(left.survive()).0) == expected.letters + ["later:9"])
        }
    }

    @Test("a line that was changed is set aside and told, and all others are read")
    func damage() throws {
        let files = MemoryFiles()
        let (mailbox, _) = try open(files)
        try mailbox.save("kept")
        for number in 0..<3 { try mailbox.post("e", of: "a", at: 1, JSON.integer(Int64(number)).bytes) }
        var bytes = try #require(files.contents["box-000001.log"])
        let lines = bytes.split(separator: 0x0A)
        let place = lines[0].count + 1 + lines[1].count + 12
        bytes[place] ^= 1
        let reports = Collector<String>()
        let left = MemoryFiles(["box-000001.log": bytes, "box-foreign.log": [1, 2, 3], "other": [0]])
        let (again, state) = try open(left, reports: reports)
        #expect(contents(again) == ["a:0", "a:2"])
        #expect(state == "kept")
        #expect(reports.values == ["box-000001.log.bad"])
        #expect(left.contents["box-000001.log.bad"]?.isEmpty == false)
        #expect(left.contents["box-foreign.log"] == [1, 2, 3])
    }

    @Test("a disk that is full fails the one letter, and nothing else")
    func full() throws {
        let files = MemoryFiles()
        let (mailbox, _) = try open(files)
        try mailbox.save("kept")
        try mailbox.post("e", of: "a", at: 1, JSON.integer(1).bytes)
        for room in 0..<30 {
            files.fill(after: room)
            #expect(throws: FileFault.self) { try mailbox.post("e", of: "a", at: 1, JSON.integer(2).bytes) }
        }
        files.fill(after: nil)
        try mailbox.post("e", of: "a", at: 1, JSON.integer(3).bytes)
        let expected = ["a:1", "a:3"]
        #expect(contents(mailbox) == expected)
        #expect(contents(try open(files.survive()).0) == expected)
    }

    @Test("a disk that is full when a file is to follow keeps the state that only the last file has")
    func fullTurn() throws {
        let files = MemoryFiles()
        let (mailbox, _) = try open(files)
        try mailbox.save("kept")
        let body = JSON.string(String(repeating: "x", count: 1000)).bytes
        while files.byteCount < Journal.segmentBytes { try mailbox.post("e", of: "a", at: 1, body) }
        for room in 0..<60 {
            files.fill(after: room)
            #expect(throws: FileFault.self) { try mailbox.post("e", of: "a", at: 1, body) }
        }
        files.fill(after: nil)
        try mailbox.post("e", of: "a", at: 1, JSON.integer(1).bytes)
        try mailbox.settle(mailbox.count - 1)
        let (again, state) = try open(files.survive())
        #expect(state == "kept" && contents(again) == ["a:1"])
    }

    @Test("a state that found the disk full is written before anything else is")
    func dueState() throws {
        let files = MemoryFiles()
        let (mailbox, _) = try open(files)
        try mailbox.save("old")
        files.fill(after: 5)
        #expect(throws: FileFault.self) { try mailbox.save("new") }
        #expect(throws: FileFault.self) { try mailbox.post("e", of: "new", at: 1, JSON.integer(1).bytes) }
        files.fill(after: nil)
        try mailbox.post("e", of: "new", at: 1, JSON.integer(2).bytes)
        let (again, state) = try open(files.survive())
        #expect(state == "new" && contents(again) == ["new:2"])
    }

    @Test("a disk that is full does not keep what is to be forgotten")
    func fullWipe() throws {
        let files = MemoryFiles()
        let (mailbox, _) = try open(files)
        try mailbox.save("secret")
        try mailbox.post("e", of: "secret", at: 1, JSON.string(String(repeating: "x", count: 1000)).bytes)
        files.limit(to: files.byteCount)
        try mailbox.wipe("out")
        let (again, state) = try open(files.survive())
        #expect(state == "out" && again.count == 0)
        // With no room at all, it counts as soon as there is some, and leaves nothing that a later wipe would not find.
        files.fill(after: 0)
        let broken = MemoryFiles(files.contents)
        let (other, _) = try open(broken)
        broken.fill(after: 0)
        #expect(throws: FileFault.self) { try other.wipe("out again") }
        broken.fill(after: nil)
        try other.save("secret")
        try other.wipe("gone")
        #expect(try open(broken).1 == "gone")
        #expect(broken.contents.count == 1)
    }

    @Test("a process that ends while it wipes keeps the letters that it has to keep")
    func endOfWipe() throws {
        var ends = 0
        for changes in 0...20 {
            let files = MemoryFiles()
            let (mailbox, _) = try open(files)
            try mailbox.save("secret")
            try mailbox.post("e", of: "gone", at: 1, JSON.integer(1).bytes)
            try mailbox.post("r", of: "kept", at: 1, JSON.integer(2).bytes)
            let mortal = MortalFiles(files, changes: changes)
            let (other, _) = try open(mortal)
            if (try? other.wipe("out", keeping: "r")) == nil { ends += 1 }
            let (again, state) = try open(mortal.files.survive())
            let left = contents(again)
            #expect(left.contains("kept:2"), "\(changes)")
            #expect(left == ["kept:2"] || state != "out" || left.contains("gone:1"), "\(changes)")
            if changes == 20 { #expect(left == ["kept:2"] && state == "out") }
        }
        #expect(ends > 3)
    }

    @Test("files of others are left alone, whatever they are called")
    func foreign() throws {
        let names = [
            "box--5.log", "box-1.log", "box-+00001.log", "box-000000.log", "box-9223372036854775807.log", "box-.log",
            "box-99999999999999999999.log", "box-000001.log.bad.bad",
        ]
        let files = MemoryFiles(Dictionary(uniqueKeysWithValues: names.map { ($0, Array("x\n".utf8)) }))
        let (mailbox, _) = try open(files)
        try mailbox.save("kept")
        try mailbox.post("e", of: "a", at: 1, JSON.integer(1).bytes)
        try mailbox.wipe("kept")
        try mailbox.post("e", of: "a", at: 1, JSON.integer(2).bytes)
        let (again, state) = try open(files.survive())
        #expect(state == "kept" && contents(again) == ["a:2"])
        for name in names { #expect(files.contents[name] == Array("x\n".utf8), "\(name)") }
    }

    @Test("what was set aside is told once, does not grow, and goes with a wipe")
    func setAside() throws {
        let damaged = MemoryFiles(["box-000001.log": Array("damage\n".utf8)])
        let reports = Collector<String>()
        let (mailbox, _) = try open(damaged, reports: reports)
        try mailbox.save("kept")
        for _ in 0..<3 { _ = try open(damaged, reports: reports) }
        #expect(reports.values == ["box-000001.log.bad"])
        #expect(damaged.contents["box-000001.log.bad"] == Array("damage\n".utf8))
        try mailbox.wipe("empty")
        #expect(damaged.contents.keys.sorted() == ["box-000002.log"])
        // A disk that is full is no reason not to start.
        let full = MemoryFiles(["box-000001.log": Array("damage\n".utf8)])
        full.fill(after: 3)
        _ = try open(full, reports: reports)
        #expect(reports.values.count == 2)
    }

    @Test("many are read at once, over files and what lies between, and what is lost is none")
    func reading() throws {
        let files = MemoryFiles()
        let (mailbox, _) = try open(files)
        try mailbox.save("kept")
        let body = String(repeating: "x", count: 1000)
        for number in 0..<600 {
            try mailbox.post("e", of: "a", at: 1, JSON.array([.integer(Int64(number)), .string(body)]).bytes)
            if number % 50 == 0 { try mailbox.save("kept") }
        }
        #expect(
            try mailbox.contents(of: mailbox.letters).map { $0?.elements?[0].integer } == (0..<600).map { Int64($0) })
        files.remove("box-000001.log")
        let left = try mailbox.contents(of: mailbox.letters)
        #expect(left.count == 600 && left[0] == nil && left[599] != nil)
        // What can be read later is not lost.
        files.setDeviceLocked(true)
        #expect(throws: FileFault.self) { try mailbox.contents(of: mailbox.letters.suffix(1)) }
    }

    @Test("files go when nobody needs them, so that the folder stays small")
    func size() throws {
        let files = MemoryFiles()
        let (mailbox, _) = try open(files)
        try mailbox.save("kept")
        let body = JSON.string(String(repeating: "x", count: 1000)).bytes
        for _ in 0..<20 {
            for _ in 0..<200 { try mailbox.post("e", of: "a", at: 1, body) }
            try mailbox.settle(200)
        }
        #expect(files.byteCount < 2 * Journal.segmentBytes)
        try mailbox.post("e", of: "a", at: 1, JSON.integer(1).bytes)
        let (again, state) = try open(files.survive())
        #expect(contents(again) == ["a:1"])
        #expect(state == "kept")
    }

    @Test("a wipe leaves nothing of what was")
    func wipe() throws {
        let files = MemoryFiles()
        let (mailbox, _) = try open(files)
        try mailbox.save("secret")
        try mailbox.post("e", of: "secret", at: 1, JSON.string("secret").bytes)
        try mailbox.wipe("empty")
        #expect(mailbox.count == 0)
        let text = files.contents.values.map { String(decoding: $0, as: UTF8.self) }.joined()
        #expect(!text.contains("secret"))
        #expect(try open(files.survive()).1 == "empty")
    }
}
