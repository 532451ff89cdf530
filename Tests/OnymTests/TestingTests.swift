import Foundation
import Onym
import OnymTesting
import Testing

@Suite("The kit for apps' tests")
struct TestingTests {
    @Test("an instance knows the users and the entitlements that the test gives it, and sends nothing by itself")
    func instance() async throws {
        let transport = ScriptedTransport()
        let ada = User(id: 7, isLoggedIn: true, identities: [.email: "ada@example.com"])
        let onym = try OnymClient.test(
            users: [ada, User(id: 8)],
            access: [
                Entitlement(id: "plus", source: "appstore", productID: "p", renewState: "will_renew"),
                Entitlement(id: "old", isActive: false, expires: Date(timeIntervalSince1970: 1000)),
            ], transport: transport)
        #expect(onym.users.isLoggedIn && onym.users.current?.id == 7 && onym.users.all.map(\.id) == [7, 8])
        #expect(onym.users.current?.identities == [.email: "ada@example.com"])
        #expect(
            onym.access.cached?["plus"]?.isActive == true && onym.access.cached?["plus"]?.renewState == "will_renew")
        #expect(onym.access.cached?["old"]?.isActive == false)
        #expect(transport.requests.isEmpty)
        await onym.shutdown()
    }

    @Test("an instance without users is a new device")
    func empty() async throws {
        let onym = try OnymClient.test()
        #expect(onym.users.current == nil && onym.access.cached == [:])
        await onym.shutdown()
    }
}
