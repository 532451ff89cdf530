import ClientKit
import Foundation
import Observation
import Onym
import Testing

@Suite("The model for views", .timeLimit(.minutes(5)))
struct ModelTests {
    /// The number of changes that an observer was told of, on the main actor.
    @MainActor
    private final class Counter {
        var count = 0
    }

    /// Reads a property as a view does, and counts the first change after it.
    @MainActor
    private func watch(_ read: () -> Void) -> Counter {
        let counter = Counter()
        withObservationTracking(read) { MainActor.assumeIsolated { counter.count += 1 } }
        return counter
    }

    @MainActor
    @Test("a model has the state of the device at once, and follows each change")
    func follows() async throws {
        let transport = ScriptedTransport()
        let onym = try OnymClient.test(
            users: [User(id: 7)], access: [Entitlement(id: "plus")], transport: transport)
        let model = OnymModel(onym)
        #expect(model.user?.id == 7 && !model.isLoggedIn && model.access["plus"]?.isActive == true)
        #expect(model.deactivation == nil)
        let users = watch { _ = model.user }
        let logins = watch { _ = model.isLoggedIn }
        let access = watch { _ = model.access }
        let deactivations = watch { _ = model.deactivation }
        onym.identity.login(IdentityRequest([.customerID: "1"]), callback: { _ in })
        await eventually { !transport.open.isEmpty }
        transport.answer(.json(200, ["mpid": "8", "is_logged_in": true]))
        await eventually { model.user?.id == 8 }
        #expect(model.isLoggedIn)
        // A view that shows only entitlements is not drawn again by a change of the user.
        #expect((users.count, logins.count, access.count, deactivations.count) == (1, 1, 0, 0))
        model.refresh()
        #expect(access.count == 0)
        // A login counts at once: nobody knows what the new user may use.
        let login = Task { try? await onym.login("ada") }
        await eventually { access.count == 1 }
        #expect(model.access.isEmpty && model.user == nil && deactivations.count == 0)
        await onym.shutdown()
        _ = await login.value
    }
}
