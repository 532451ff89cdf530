import Domain
import Foundation
import SQLite
import StoreSQLite
import TestKit
import Testing

@Suite("The tree over the journal")
struct JournalTreeTests {
    /// Checks proofs as RFC 6962 says, without any code of the server.
    private static let checker = """
        import hashlib, json, sys
        def h(b): return hashlib.sha256(b).digest()
        def x(s): return bytes.fromhex(s)
        def included(leaf, n, size, path):
            fn, sn, r = n, size - 1, leaf
            for p in path:
                if sn == 0: return None
                if fn & 1 or fn == sn:
                    r = h(b'\\x01' + p + r)
                    while not fn & 1 and fn: fn >>= 1; sn >>= 1
                else: r = h(b'\\x01' + r + p)
                fn >>= 1; sn >>= 1
            return r if sn == 0 else None
        def grown(m, n, first, second, proof):
            if m == n: return not proof and first == second
            if m & (m - 1) == 0: proof = [first] + proof
            fn, sn = m - 1, n - 1
            while fn & 1: fn >>= 1; sn >>= 1
            fr = sr = proof[0]
            for c in proof[1:]:
                if sn == 0: return False
                if fn & 1 or fn == sn:
                    fr = h(b'\\x01' + c + fr); sr = h(b'\\x01' + c + sr)
                    while not fn & 1 and fn: fn >>= 1; sn >>= 1
                else: sr = h(b'\\x01' + sr + c)
                fn >>= 1; sn >>= 1
            return sn == 0 and fr == first and sr == second
        good = 0
        for line in open(sys.argv[1]):
            p = json.loads(line)
            if 'leaf' in p:
                content = x(p['content'])
                made = h(b'\\x00' + content) == x(p['leaf']) and int.from_bytes(content[:8], 'little') == p['seq']
                good += made and included(x(p['leaf']), p['place'], p['leaves'], [x(s) for s in p['path']]) == x(p['head'])
            else:
                good += grown(p['from'], p['leaves'], x(p['hash']), x(p['head']), [x(s) for s in p['proof']])
        print(good)
        """

    private func hex(_ bytes: [UInt8]) -> String {
        bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }

    private func list(_ hashes: [[UInt8]]) -> String {
        "[" + hashes.map { "\"\(hex($0))\"" }.joined(separator: ",") + "]"
    }

    @Test("has 1,000 proofs that a Python program finds right, through a restart")
    func proofs() throws {
        let fixture = try StoreFixture(.sqlite)
        var lines: [String] = []
        var heads: [JournalHead] = []
        func head() throws -> JournalHead {
            try #require(try fixture.store.read { (facts) throws(StoreFault) in try facts.journalHead() })
        }
        for number in 0..<600 {
            _ = try fixture.identify([.customerID: "c\(number)", .email: "e\(number / 3)@x"])
            heads.append(try head())
            if number == 300 { try fixture.reopen() }
        }
        let last = try #require(heads.last)
        for earlier in heads.prefix(500) {
            let (receipt, growth) = try fixture.store.read { (facts) throws(StoreFault) in
                (try facts.journalReceipt(of: earlier.sequence), try facts.journalExtension(from: earlier.sequence))
            }
            let (proved, grown) = (try #require(receipt), try #require(growth))
            #expect(grown.hash == earlier.hash && grown.from == earlier.leaves, "the head of then is known again")
            #expect(proved.head == last)
            lines.append(
                """
                {"leaf":"\(hex(proved.leaf))","place":\(proved.place),"leaves":\(last.leaves),"head":"\(hex(last.hash))",\
                "path":\(list(proved.path)),"content":"\(hex(proved.content))","seq":\(earlier.sequence.rawValue)}
                """)
            lines.append(
                """
                {"from":\(grown.from),"leaves":\(last.leaves),"hash":"\(hex(earlier.hash))","head":"\(hex(last.hash))",\
                "proof":\(list(grown.proof))}
                """)
        }
        let folder = TemporaryFolder()
        try JournalTreeTests.checker.write(toFile: folder.path + "/check.py", atomically: true, encoding: .utf8)
        try lines.joined(separator: "\n").write(toFile: folder.path + "/proofs", atomically: true, encoding: .utf8)
        let result = try Shell.result(["python3", folder.path + "/check.py", folder.path + "/proofs"])
        #expect(result.output == "1000\n", "\(result)")
    }

    @Test("keeps no salt that the salt of an erased person follows from")
    func salts() throws {
        let fixture = try StoreFixture(.sqlite)
        let people = try ["a", "b"].map { try fixture.identify([.customerID: $0]).person }
        _ = try fixture.process(MergePeople(from: people[0], into: people[1]))
        let merge = try fixture.store.read { (facts) throws(StoreFault) in try facts.lastCall() }
        func opening() throws -> [UInt8] {
            let row = try Connection(path: fixture.file.path, mode: .readOnly)
                .prepare("SELECT opening FROM leaves WHERE sequence = \(merge.rawValue)")
            #expect(try row.step())
            return row.blob(0) ?? []
        }
        func head() throws -> JournalHead? {
            try fixture.store.read { (facts) throws(StoreFault) in try facts.journalHead() }
        }
        let root = try opening().dropFirst().prefix(16)
        let (receipt, before) = (try head(), try opening())
        _ = try fixture.process(ErasePerson(people[0]))
        while try fixture.store.sweep() {}
        let after = try opening()
        #expect(root.count == 16 && after != before)
        #expect(!after.indices.contains { after[$0...].starts(with: root) }, "all salts follow from this one")
        let sequence = try #require(receipt?.sequence)
        let growth = try fixture.store.read { (facts) throws(StoreFault) in try facts.journalExtension(from: sequence) }
        #expect(growth?.hash == receipt?.hash, "the leaves are as they were")
        #expect(try Doctor(fixture.file) { _ in }.examine().isEmpty)
    }

    @Test("begins with one leaf for the calls of an earlier version, and has the next calls after it")
    func older() throws {
        let fixture = try StoreFixture(.sqlite)
        for number in 0..<5 { _ = try fixture.identify([.customerID: "c\(number)"]) }
        try fixture.forgetTree()
        _ = try fixture.identify([.customerID: "next"])
        let (head, before, after) = try fixture.store.read { (facts) throws(StoreFault) in
            let head = try facts.journalHead()
            let last = head?.sequence ?? .zero
            return (
                head, try facts.journalReceipt(of: JournalSequence(rawValue: last.rawValue - 1)),
                try facts.journalReceipt(of: last)
            )
        }
        #expect(head?.leaves == 2)
        #expect(before == nil && after != nil)
        #expect(try Doctor(fixture.file) { _ in }.examine().isEmpty)
    }
}

extension StoreFixture {
    /// Brings the store into the form before the tree over the journal, and opens it again.
    fileprivate func forgetTree() throws {
        sqlite?.close()
        let connection = try Connection(path: file.path, mode: .readWrite)
        let version = try connection.integer("PRAGMA user_version") ?? 0
        try connection.execute("DROP TABLE leaves; DROP TABLE tree; PRAGMA user_version = \(version - 1)")
        try reopen()
    }
}
