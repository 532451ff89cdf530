import DialectNative
import Domain
import Testing

@Suite("The roles of callers without a key")
struct KeylessRoleTests {
    @Test("are in one list for each kind of call")
    func lists() {
        let lists = KeylessRoles.kinds.map(\.kinds) + [KeylessRoles.several]
        for kind in Registry.kinds.values {
            #expect(lists.count { $0.contains(kind) } == 1, "\(kind.name) is in one list of KeylessRoles")
        }
    }
}
