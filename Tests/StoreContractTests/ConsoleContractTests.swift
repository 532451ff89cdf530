import Domain
import Engine
import TestKit
import Testing

/// What the contract of stores means for the links and sessions of consoles.
@Suite("The contract of stores, for the Console")
struct ConsoleContractTests {
    private func hash(_ number: UInt64) -> KeyHash {
        KeyHash(Hash128(high: 70, low: number), Hash128(high: 70, low: number))
    }

    private func link(_ number: UInt64, _ fixture: StoreFixture, maker: KeyID? = nil) -> ConsoleBook.Link {
        ConsoleBook.Link(
            hash: hash(number), role: .admin, name: "Grace", sessionMilliseconds: 3_600_000,
            expiresAt: fixture.clock.now.advanced(byMilliseconds: 60_000), maker: maker)
    }

    private func code(_ fault: Result<Reply, CallFailure>) -> String? {
        if case .failure(.refused(let refusal)) = fault { refusal.code } else { nil }
    }

    private func open(_ number: UInt64, _ fixture: StoreFixture) -> String? {
        code(fixture.process([OpenConsole(code: hash(number), session: hash(1000 + number))])[0])
    }

    @Test("A revoked project has no links, also if the call belongs to another project", arguments: StoreKind.allCases)
    func revokedProject(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        _ = try fixture.process(MakeConsoleLink(link(1, fixture)))
        // The caller is in the fixture's project. The other project has its own book.
        let plan = Project(id: ProjectID(rawValue: 1), name: "Other", madeAt: fixture.clock.now)
        let made = try #require(
            try fixture.process(Administer(.makeProject(SetUp(project: plan, apps: [], keys: [])))).as(
                Administered.self)
        )
        let other = try #require(made.projects.first)
        let job = Job(call: Call(project: other, key: nil), act: MakeConsoleLink(link(2, fixture)))
        _ = try fixture.writer.process([job], at: fixture.clock.now)[0].get()
        #expect(fixture.store.directory.console(of: other).links.count == 1)
        _ = try fixture.process(Administer(.revokeProject(other)))
        for _ in 0..<2 {
            #expect(fixture.store.directory.console(of: other).links.isEmpty)
            #expect(fixture.store.directory.console(of: World.project).links.count == 1)
            try fixture.reopen()
        }
        _ = try fixture.process(Administer(.revokeProject(World.project)))
        #expect(open(1, fixture) == "code_unknown")
    }

    @Test("At the limit, used and expired links leave first, and only open links count")
    func limit() throws {
        let fixture = try StoreFixture(.memory)
        func make(_ number: UInt64) -> String? {
            code(fixture.process([MakeConsoleLink(link(number, fixture))])[0])
        }
        for number in 0..<UInt64(ConsoleBook.linksAtMost) { #expect(make(number) == nil) }
        #expect(make(500) == "too_many")
        #expect(open(7, fixture) == nil)
        #expect(make(501) == nil && make(502) == "too_many")
        fixture.clock.advance(milliseconds: 60_000)
        for number in 600..<600 + UInt64(ConsoleBook.linksAtMost) { #expect(make(number) == nil, "\(number)") }
        #expect(make(900) == "too_many")
        #expect(fixture.store.directory.console(of: World.project).links.count == ConsoleBook.linksAtMost)
    }

    @Test("A book keeps the makers of its links, and a book of an earlier version is read")
    func packed() throws {
        let fixture = try StoreFixture(.memory)
        _ = try fixture.process(MakeConsoleLink(link(1, fixture, maker: KeyID(rawValue: 7))))
        _ = try fixture.process(MakeConsoleLink(link(2, fixture)))
        let book = fixture.store.directory.console(of: World.project)
        #expect(book.links.map(\.maker) == [KeyID(rawValue: 7), nil])
        #expect(ConsoleBook(packed: book.packed) == book)
        // The bytes of the makers stand at the end, one for each link.
        let former = try #require(ConsoleBook(packed: Array(book.packed.dropLast(2))))
        #expect(former.links.map(\.hash) == [hash(1), hash(2)] && former.links.allSatisfy { $0.maker == nil })
        #expect(ConsoleBook(packed: Array(book.packed.dropLast())) == nil)
        #expect(ConsoleBook(packed: book.packed + [0]) == nil)
    }
}
