import ClientKit
import Foundation
import Onym
import Testing

@Suite("The model for views", .timeLimit(.minutes(5)))
struct ModelTests {
    @MainActor
    @Test("a model has the state of the device at once, and follows each change")
    func follows() async throws {
        let transport = ScriptedTransport()
        let onym = try OnymClient.test(
            users: [User(id: 7)], access: [Entitlement(id: "plus")], transport: transport)
        let model = OnymModel(onym)
        #expect(model.user?.id == 7 && !model.isLoggedIn && model.access["plus"]?.isActive == true)
        #expect(model.deactivation == nil)
        var changes = 0
        #if !canImport(Combine)
            model.willChange = { changes += 1 }
        #endif
        onym.identity.login(IdentityRequest([.customerID: "1"]), callback: { _ in })
        await eventually { !transport.open.isEmpty }
        transport.answer(.json(200, ["mpid": "8", "is_logged_in": true]))
        await eventually { model.user?.id == 8 }
        #expect(model.isLoggedIn && changes > 0)
        onym.access.logout()
        await onym.shutdown()
    }
}
