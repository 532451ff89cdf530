import Domain
import Engine
import StorePostgres
import TestKit
import Testing

@Suite("What a batch reads of groups", .enabled(if: PostgresCluster.absence == nil, "PostgreSQL is not installed."))
struct LoadedGroupTests {
    /// A store with a user of many devices, each a person of its own that was merged into the user.
    private struct World {
        let fixture: StoreFixture
        let user: PersonID
        let devices: [PersonID]

        init(members: Int) throws {
            try self.init(StoreFixture.patient(.postgres), "grace", members: members)
        }

        init(_ fixture: StoreFixture, _ name: String, members: Int) throws {
            self.fixture = fixture
            user = try fixture.identify([.customerID: name]).person
            var devices: [PersonID] = []
            for start in stride(from: 1, to: members, by: 500) {
                let numbers = start..<min(start + 500, members)
                let made = fixture.process(
                    numbers.map { StoreFixture.IdentifyCall([.iosIDFV: "\(name)'s phone \($0)"]) })
                let people = try made.map { try #require(try $0.get().as(Identified.self)).person }
                for merged in fixture.process(people.map { [user] in MergePeople(from: $0, into: user) }) {
                    _ = try merged.get()
                }
                devices += people
            }
            self.devices = devices
        }
    }

    @Test("a call reads no more of a group of 10,000 than of a group of ten")
    func reads() throws {
        var reads: [String: [Int]] = [:]
        for members in [10, 1000, 9_999] {
            let world = try World(members: members)
            let (fixture, store) = (world.fixture, try #require(world.fixture.postgres))
            let hash = store.hash
            let stranger = try fixture.identify([.iosIDFV: "stranger"]).person
            func read(_ name: String, _ act: any Act) throws {
                _ = try fixture.process(act)
                reads[name, default: []].append(store.factsRead)
            }
            func named(_ names: [IdentityType: String]) -> [Identity] {
                names.sorted { $0.key.rawValue < $1.key.rawValue }
                    .map { Identity($0.key, $0.value, in: TestKit.World.project, hash: hash) }
            }
            let both = named([.customerID: "grace", .iosIDFV: "grace's phone 7"])
            try read("identify", Identify(.start, identities: named([.customerID: "grace"])))
            try read("login", Identify(.login, identities: both))
            try read("a device", Identify(.start, identities: named([.iosIDFV: "grace's phone 7"])))
            try read(
                "a new identity", Identify(.login, identities: named([.customerID: "grace", .email: "g@navy.mil"])))
            let rows = [Row(.event, at: fixture.clock.now, body: Array("{}".utf8))]
            let attributes = [Attributes.Write("rank", Array(#""admiral""#.utf8))]
            try read(
                "ingest", Ingest(person: world.devices[3], identities: [], attributes: attributes, rows: rows))
            try read("merge", MergePeople(from: stranger, into: world.user))
            #expect(throws: CallFailure.self) {
                try read("merged already", MergePeople(from: stranger, into: world.user))
            }
            fixture.fold()
            try #expect(PostgresDoctor(#require(fixture.schema)) { _ in }.examine() == [])
        }
        #expect(reads.count == 6)
        for (name, counts) in reads {
            // The members of a small group come with it.
            #expect(counts[1] <= counts[0] + 8 && counts[2] <= counts[1] + 1, "\(name): \(counts)")
        }
    }

    @Test("a read of numbers, pages and ways reads no more of a group of 10,000 than of a group of twenty")
    func snapshots() throws {
        var reads: [String: [Int]] = [:]
        for members in [20, 1000, 9_970] {
            let world = try World(members: members)
            let (fixture, store) = (world.fixture, try #require(world.fixture.postgres))
            let (user, devices) = (world.user, world.devices)
            // Two groups with many merges of each of two people.
            let other = try World(fixture, "ada", members: 20)
            _ = try fixture.process(MergePeople(from: other.devices[0], into: devices[1]))
            func read<Result>(
                _ name: String, _ body: (any Snapshot) throws(StoreFault) -> Result
            ) throws -> Result {
                let result = try store.read(body)
                reads[name, default: []].append(store.rowsRead)
                return result
            }
            let numbers = try read("numbers") { snapshot throws(StoreFault) in
                let group = snapshot.group(of: devices[7])
                return try (group.root, group.count, snapshot.totals(of: group).identities[.iosIDFV])
            }
            #expect(numbers.0 == user && numbers.1 == members + 20 && numbers.2 == members + 18, "\(numbers)")
            let page = try read("page") { snapshot throws(StoreFault) in
                let group = snapshot.group(of: user)
                let first = group.members(limit: 7)
                return first + group.members(after: first.last, limit: 7)
            }
            #expect(Set(page).count == 14)
            try #expect(read("some merges") { snapshot in snapshot.group(of: user).merges(limit: 5).count } == 5)
            try #expect(
                read("several") { snapshot throws(StoreFault) in
                    try snapshot.groups(of: Array(devices.prefix(10))).count
                } == 10)
            let way = try read("way") { snapshot in
                snapshot.group(of: user).path(from: devices[5], to: devices[9]).map(\.from)
            }
            #expect(way == [devices[5], devices[9]])
            let longWay = try read("long way") { snapshot in
                snapshot.group(of: user).path(from: devices[5], to: other.devices[9]).count
            }
            #expect(longWay == 5)
            let relation = try read("explain") { snapshot throws(StoreFault) in
                let ends = [devices[3], devices[4]].map { Explained(.person($0), people: [$0]) }
                return try Relation(ends[0], ends[1], snapshot)
            }
            guard case .connected(_, let chain) = relation else {
                Issue.record("\(relation)")
                continue
            }
            #expect(chain.count == 2)
        }
        #expect(reads.count == 7)
        for (name, counts) in reads { #expect(counts.max()! <= counts[0] + 40, "\(name): \(counts)") }
    }

    @Test("an undo in a group of 1,000 lists the group, and both sides are whole")
    func undo() throws {
        let world = try World(members: 1000)
        let fixture = world.fixture
        let rows = [Row(.event, at: fixture.clock.now, body: Array("{}".utf8))]
        for device in world.devices.prefix(3) {
            _ = try fixture.process(Ingest(person: device, identities: [], attributes: [], rows: rows))
        }
        let merge = try #require(
            try fixture.store.read { snapshot throws(StoreFault) in
                snapshot.group(of: world.user).merges.first { $0.from == world.devices[1] }
            })
        _ = try fixture.process(UndoMerge(merge.id))
        let sides = try fixture.store.read { snapshot throws(StoreFault) in
            try [world.user, world.devices[1]].map { person throws(StoreFault) in
                let group = snapshot.group(of: person)
                return [group.count, try snapshot.totals(of: group).rows[.event, default: 0]]
            }
        }
        #expect(sides == [[999, 2], [1, 1]])
        try #expect(PostgresDoctor(#require(fixture.schema)) { _ in }.examine() == [])
        // What the batch reads of the rest is what the store has of it.
        _ = try fixture.process(MergePeople(from: world.devices[1], into: world.devices[5]))
        try #expect(PostgresDoctor(#require(fixture.schema)) { _ in }.examine() == [])
    }

    @Test(
        "the doctor finds totals of a large group that are wrong",
        arguments: [
            "UPDATE group_rows SET count = count + 1", "DELETE FROM group_identities",
            "UPDATE groups SET last_seen = 1",
            "UPDATE groups SET first = first + 1",
        ])
    func doctor(_ sql: String) throws {
        let world = try World(members: 20)
        let rows = [Row(.event, at: world.fixture.clock.now, body: Array("{}".utf8))]
        _ = try world.fixture.process(Ingest(person: world.user, identities: [], attributes: [], rows: rows))
        let settings = try #require(world.fixture.schema)
        try #expect(PostgresDoctor(settings) { _ in }.examine() == [])
        _ = try PostgresCluster.shared.get().run("SET search_path = \(settings.schema); \(sql)")
        let codes = try PostgresDoctor(settings) { _ in }.examine().map(\.code)
        #expect(codes.contains("group_totals") || codes.contains("group"))
    }

    @Test("a store of the version before counted erased people, and no longer does when it is opened")
    func countsAnew() throws {
        let fixture = try StoreFixture(.postgres)
        let people = try (0..<3).map { try fixture.identify([.customerID: "c\($0)"]).person }
        _ = try fixture.process(ErasePerson(people[1]))
        #expect(fixture.store.counts.people == 2)
        let settings = try #require(fixture.schema)
        _ = try PostgresCluster.shared.get().run(
            """
            SET search_path = \(settings.schema); \(StoreFixture.withFormerIndexes); UPDATE state SET people = 3;
            DELETE FROM migrations WHERE version >= 10
            """)
        try fixture.reopen()
        #expect(fixture.store.counts.people == 2)
        #expect(try PostgresDoctor(settings) { _ in }.examine() == [])
    }

    @Test("the groups of a store of the version before are made when it is opened")
    func migrates() throws {
        let world = try World(members: 20)
        let fixture = world.fixture
        let pair = try (fixture.identify([.email: "a@x"]).person, fixture.identify([.email: "b@x"]).person)
        _ = try fixture.process(MergePeople(from: pair.0, into: pair.1))
        let settings = try #require(fixture.schema)
        fixture.fold()
        let groups = {
            try PostgresCluster.shared.get().run(
                "SET search_path = \(settings.schema); SELECT root, size, last_seen FROM groups ORDER BY root;"
                    + "SELECT type, count FROM group_identities ORDER BY 1")
        }
        let before = try groups()
        try fixture.forgetGroups()
        try #expect(groups() == before)
        #expect(before.contains("|20|"))
        try #expect(PostgresDoctor(settings) { _ in }.examine() == [])
    }
}
