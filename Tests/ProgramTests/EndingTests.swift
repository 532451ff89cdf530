import TestKit
import Testing

/// What is left of a server that has ended.
@Suite("A server that was stopped")
struct EndingTests {
    @Test(
        "keeps nothing: its store is let go of with the last who has the server",
        arguments: [StoreKind.memory, .sqlite])
    func nothing(_ kind: StoreKind) throws {
        weak var store: AnyObject?
        do {
            let server = try TestServer(kind)
            store = server.store
            #expect(try server.client.call("GET", "/readyz").status == 200)
            server.stop()
            #expect(store != nil)
        }
        #expect(store == nil)
    }
}
