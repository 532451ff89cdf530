import ClientKit
import Foundation
import Onym
import OnymQonversion
import Testing

/// They share the one instance, so they run one after the other.
@Suite("The Swift snippets of seed 003", .serialized, .timeLimit(.minutes(30)))
struct SnippetTests {
    private let transport = ScriptedTransport()

    init() {
        let configuration = QONConfiguration(projectKey: "key", launchMode: .subscriptionManagement)
        configuration.setProxyURL("https://onym.test")
        configuration.configure = { [transport] in
            $0 = Bench.configuration($0.keys)
            $0.transport = transport
            $0.time = ManualTime()
            $0.files = MemoryFiles()
            $0.callbacks = .background
            $0.flushInterval = 0
        }
        Qonversion.initWithConfig(configuration)
    }

    private var user: AccessUser? { Qonversion.shared().core?.access.user }

    /// Answers the next request, once it is there.
    @discardableResult
    private func answer(_ status: Int, _ json: JSON) async -> HTTPRequest? {
        while transport.open.isEmpty { await Task.yield() }
        return transport.answer(.json(status, json))
    }

    @Test("goes on with the ids of Qonversion's SDK")
    func imports() {
        let store = MemoryVendorStore(
            suites: ["qonversion.localstorage.main": ["com.qonversion.keys.originalUserID": "QON_a"]])
        let configuration = QONConfiguration(projectKey: "key", launchMode: .subscriptionManagement)
        configuration.setProxyURL("https://onym.test")
        configuration.configure = {
            let imports = $0.imports
            $0 = Bench.configuration($0.keys)
            ($0.imports, $0.vendorStore) = (imports, store)
            ($0.transport, $0.time, $0.files) = (ScriptedTransport(), ManualTime(), MemoryFiles())
        }
        Qonversion.initWithConfig(configuration)
        #expect(user?.deviceID == "QON_a")
    }

    @Test("1. Qonversion User ID")
    func userInfo() async throws {
        let ids = Collector<String?>()
        Seed003_QonversionUserID.snippet(ids.callback)
        #expect(await answer(201, [:])?.method == "POST")
        while ids.values.isEmpty { await Task.yield() }
        #expect(ids.values == [user?.id] && ids.values[0]?.hasPrefix("QON_") == true)
    }

    @Test("2. User ID for third-party Integrations")
    func userProperty() async throws {
        Seed003_UserIDForThirdPartyIntegrations.snippet()
        Qonversion.shared().core?.flush { _ in }
        await answer(201, [:])
        let request = await answer(200, ["savedProperties": [], "propertyErrors": []])
        #expect(request?.path == "/v3/users/\(user?.id ?? "")/properties")
        #expect(request?.json == [["key": "_q_custom_user_id", "value": "yourSideUserId"]])
        #expect(user?.identityID == nil)
    }

    @Test("3. Logging in, and Logging out")
    func identify() async throws {
        let users = Collector<String?>()
        Seed003_LoggingIn.snippet(users.callback)
        await answer(201, [:])
        #expect(
            await answer(404, ["error": ["type": "resource", "code": "not_found", "message": "no"]])?.path
                == "/v3/identities/your_custom_user_id")
        let device = try #require(user?.id)
        let linked = await answer(200, ["id": "your_custom_user_id", "user_id": .string(device)])
        #expect(linked?.json == ["user_id": .string(device)])
        while users.values.isEmpty { await Task.yield() }
        // The two calls of the page are the same, and so they are one.
        #expect(users.values == [device] && transport.requests.count == 3)
        #expect(user?.identityID == "your_custom_user_id")
        Seed003_LoggingOut.snippet()
        #expect(user == AccessUser(id: device, deviceID: device, identityID: nil))
    }

    @Test("what may be used is told by its name")
    func entitlements() async throws {
        let lists = Collector<[String: Qonversion.Entitlement]>()
        Qonversion.shared().checkEntitlements { list, _ in lists.callback(list) }
        await answer(201, [:])
        await answer(
            200,
            [
                "data": [
                    ["id": "plus", "active": true, "started": 1, "source": "stripe"],
                    [
                        "id": "old", "active": false, "started": 1, "expires": 2, "source": "appstore",
                        "product": ["product_id": "p", "subscription": ["renew_state": "billing_issue"]],
                    ],
                ]
            ])
        while lists.values.isEmpty { await Task.yield() }
        let list = lists.values[0]
        #expect(list["plus"]?.isActive == true && list["plus"]?.source == .stripe)
        #expect(list["plus"]?.renewState == .nonRenewable && list["plus"]?.expirationDate == nil)
        #expect(list["old"]?.isActive == false && list["old"]?.renewState == .billingIssue)
        #expect(list["old"]?.productID == "p")
    }

    @Test("property keys have the names of the wire")
    func keys() {
        let names = Qonversion.UserPropertyKey.allCases.compactMap(\.wireName)
        #expect(names.count == 15 && Set(names).count == 15 && names.allSatisfy { $0.hasPrefix("_q_") })
    }
}
