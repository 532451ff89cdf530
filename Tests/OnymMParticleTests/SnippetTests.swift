import ClientKit
import Foundation
import Onym
import OnymMParticle
import Testing

/// The app of the snippets: the one shared instance, over a network that the test plays.
enum SnippetScene {
    nonisolated(unsafe) private static var configuration = Bench.configuration([])

    static func prepare(_ options: MParticleOptions) {
        let configuration = configuration
        (options.automaticSessionTracking, options.shouldBeginSession) = (false, false)
        options.networkOptions = MPNetworkOptions()
        options.networkOptions?.customBaseURL = configuration.endpoint
        options.configure = {
            let keys = $0.keys
            $0 = configuration
            $0.keys = keys
        }
    }

    /// Begins anew, with nothing on the device.
    static func begin(_ change: (inout Configuration) -> Void = { _ in }) -> ScriptedTransport {
        MParticle.sharedInstance().close()
        let transport = ScriptedTransport()
        configuration = Bench.configuration([])
        configuration.transport = transport
        configuration.time = ManualTime()
        configuration.files = MemoryFiles()
        configuration.callbacks = .background
        change(&configuration)
        return transport
    }

    static func start() {
        let options = MParticleOptions(key: "key", secret: "secret")
        prepare(options)
        MParticle.sharedInstance().start(with: options)
    }

    /// Answers the next request, once it is there.
    @discardableResult
    static func answer(_ transport: ScriptedTransport, _ answer: ScriptedTransport.Answer) async -> HTTPRequest? {
        await eventually { !transport.open.isEmpty }
        return transport.answer(answer)
    }

    static func mpid(_ id: Int64) -> ScriptedTransport.Answer {
        .json(200, ["mpid": .string("\(id)"), "is_logged_in": true])
    }
}

/// Each does what the seed says of it. They share the one instance, so they run one after the other.
@Suite("The Swift snippets of seed 004", .serialized, .timeLimit(.minutes(30)))
struct SnippetTests {
    private var identity: MPIdentityApi { MParticle.sharedInstance().identity }
    private var current: MParticleUser? { identity.currentUser }

    @Test("Creating an IDSync Request")
    func creating() {
        let request = Seed004_CreatingAnIDSyncRequest.snippet()
        #expect(
            request.identities as? [NSNumber: NSString] == [
                7: "foo@example.com", 1: "123456", 0: "bar-id",
                22: NSString(string: ASIdentifierManager.shared().advertisingIdentifier.uuidString),
            ])
    }

    @Test("SDK Initialization and Identify")
    func initialization() async {
        let transport = SnippetScene.begin()
        #expect(Seed004_SDKInitializationAndIdentify().application(UIApplication(), didFinishLaunchingWithOptions: nil))
        let request = await SnippetScene.answer(transport, SnippetScene.mpid(7))
        #expect(request?.path == "/v1/identify" && request?.fields["x-mp-key"] == "REPLACE WITH APP KEY")
        #expect(request?.json["known_identities"]?["email"] == "foo@example.com")
        #expect(request?.json["known_identities"]?["customerid"] == "123456")
        await eventually { current?.userAttributes.isEmpty == false }
        #expect(current?.userId == 7 && current?.isLoggedIn == true)
        #expect(current?.userAttributes as? [String: String] == ["example attribute key": "example attribute value"])
    }

    @Test("Without a request, the start asks by the names of the last user")
    func startAgain() async {
        let files = MemoryFiles()
        var transport = SnippetScene.begin { $0.files = files }
        SnippetScene.start()
        await SnippetScene.answer(transport, SnippetScene.mpid(7))
        Seed004_LoginAndLogout.login(Seed004_CreatingAnIDSyncRequest.snippet()) { _, _ in }
        await SnippetScene.answer(transport, SnippetScene.mpid(8))
        transport = SnippetScene.begin { $0.files = files }
        SnippetScene.start()
        let names = await SnippetScene.answer(transport, SnippetScene.mpid(8))?.json["known_identities"]?.texts
        #expect(names?["email"] == "foo@example.com" && names?["other"] == "bar-id")
        #expect(names?["device_application_stamp"] == identity.deviceApplicationStamp)
    }

    @Test("Login and Logout")
    func loginAndLogout() async {
        let transport = SnippetScene.begin()
        SnippetScene.start()
        await SnippetScene.answer(transport, SnippetScene.mpid(1))
        let ends = Collector<(Int64?, Int64?)>()
        let callback: (MPIdentityApiResult?, Error?) -> Void = { result, _ in
            ends.callback((result?.user.userId.int64Value, result?.previousUser?.userId.int64Value))
        }
        Seed004_LoginAndLogout.login(Seed004_CreatingAnIDSyncRequest.snippet(), callback)
        #expect(await SnippetScene.answer(transport, SnippetScene.mpid(2))?.path == "/v1/login")
        Seed004_LoginAndLogout.logout(callback)
        let request = await SnippetScene.answer(transport, SnippetScene.mpid(3))
        #expect(request?.path == "/v1/logout" && request?.json["known_identities"]?["email"] == nil)
        await eventually { ends.values.count == 3 }
        // The two logouts of the page are the same, and so they are one call.
        #expect(transport.requests.count == 3)
        #expect(ends.values.map(\.0) == [2, 3, 3] && ends.values.map(\.1) == [1, 2, 2])
        #expect(current?.userId == 3)
    }

    @Test("Modify")
    func modify() async {
        let transport = SnippetScene.begin()
        SnippetScene.start()
        await SnippetScene.answer(transport, SnippetScene.mpid(1))
        let ends = Collector<Bool>()
        let callback: (MPIdentityApiResult?, Error?) -> Void = { result, error in
            ends.callback(result?.previousUser == nil && error == nil)
        }
        Seed004_Modify.remove(callback)
        await eventually { ends.values.count == 1 }
        Seed004_Modify.change(callback)
        let added = await SnippetScene.answer(transport, .json(200, ["change_results": []]))
        await eventually { ends.values.count == 2 }
        #expect(current?.userIdentities == [.email: "updated-email@example.com"])
        Seed004_Modify.remove(callback)
        let removed = await SnippetScene.answer(transport, .json(200, ["change_results": []]))
        await eventually { ends.values.count == 3 }
        func change(_ request: HTTPRequest?) -> JSON? { request?.json["identity_changes"]?.elements?.first }
        #expect(added?.path == "/v1/1/modify")
        #expect(
            change(added)
                == ["identity_type": "email", "old_value": .null, "new_value": "updated-email@example.com"])
        #expect(
            change(removed)
                == ["identity_type": "email", "old_value": "updated-email@example.com", "new_value": .null])
        #expect(current?.userIdentities == [:])
        #expect(ends.values == [true, true, true] && transport.requests.count == 3)
    }

    @Test("goes on with the ids of mParticle's SDK")
    func imports() {
        _ = SnippetScene.begin()
        let options = MParticleOptions(key: "key", secret: "secret")
        SnippetScene.prepare(options)
        let prepared = options.configure
        options.configure = {
            let imports = $0.imports
            prepared?(&$0)
            $0.imports = imports
            $0.vendorStore = MemoryVendorStore(["mParticle::mpid": 5, "mParticle::dast": "STAMP"])
        }
        MParticle.sharedInstance().start(with: options)
        let users = MParticle.sharedInstance().core?.users
        #expect(users?.current?.id == 5 && users?.deviceApplicationStamp == "STAMP")
    }

    @Test("Advertising ID (IDFA)")
    func advertisingID() async {
        let transport = SnippetScene.begin()
        SnippetScene.start()
        await SnippetScene.answer(transport, SnippetScene.mpid(1))
        await eventually { current != nil }
        Seed004_AdvertisingID.snippet { _, _ in }
        let request = await SnippetScene.answer(transport, .json(200, ["change_results": []]))
        #expect(request?.json["identity_changes"]?.elements?.first?["identity_type"] == "ios_idfa")
    }

    private static let failures: [(ScriptedTransport.Answer, Int, String)] = [
        (SnippetScene.mpid(1), 0, "success"), (.fault(.offline), 3, "network"), (.fault(.timeout), 2, "network"),
        (.fault(.tls("no")), 4, "other"), (.bytes(429, ""), 429, "retry"), (.bytes(401, ""), 401, "other"),
        (.bytes(500, ""), 500, "other"), (.bytes(502, ""), 502, "other"), (.bytes(504, ""), 504, "other"),
        (.fault(.connection("reset")), 0, "other"), (.bytes(200, ""), 0, "other"),
    ]

    @Test("Error Handling", arguments: 0..<failures.count)
    func errors(row: Int) async {
        let (answer, code, way) = SnippetTests.failures[row]
        let transport = SnippetScene.begin()
        SnippetScene.start()
        await SnippetScene.answer(transport, .fault(.offline))
        let (ways, codes) = (Collector<String>(), Collector<Int>())
        let callback = Seed004_ErrorHandling.snippet(ways.callback)
        identity.login { result, error in
            codes.callback((error as NSError?)?.code ?? 0)
            callback(result, error)
        }
        await SnippetScene.answer(transport, answer)
        await eventually { !ways.values.isEmpty }
        #expect(ways.values == [way] && codes.values == [code])
    }

    @Test("a status that has no code of its own is the code, with what the server said")
    func otherStatus() async throws {
        let transport = SnippetScene.begin()
        SnippetScene.start()
        let errors = Collector<NSError?>()
        identity.login { _, error in errors.callback(error as NSError?) }
        await SnippetScene.answer(transport, .fault(.offline))
        await SnippetScene.answer(
            transport, .json(400, ["errors": [["code": "LOOKUP_ERROR", "message": "knownIdentities is empty."]]]))
        await eventually { !errors.values.isEmpty }
        let error = try #require(errors.values.first ?? nil)
        #expect(error.domain == mParticleIdentityErrorDomain && error.code == 400)
        let answer = error.userInfo[mParticleIdentityErrorKey] as? MPIdentityHTTPErrorResponse
        #expect(answer?.httpCode == 400 && answer?.message == "knownIdentities is empty.")
    }

    @Test("codes 1 and 5 have a text alone")
    func localCodes() async {
        let transport = SnippetScene.begin { $0.overlap = .refuse }
        SnippetScene.start()
        let errors = Collector<NSError?>()
        identity.login { _, error in errors.callback(error as NSError?) }
        await eventually { errors.values.count == 1 }
        MParticle.sharedInstance().optOut = true
        identity.login { _, error in errors.callback(error as NSError?) }
        await eventually { errors.values.count == 2 }
        #expect(errors.values.map { $0?.code } == [1, 5])
        #expect(errors.values.allSatisfy { $0?.userInfo[mParticleIdentityErrorKey] is String })
        #expect(transport.requests.count == 1)
    }

    @Test("User Aliasing")
    func aliasing() async throws {
        let transport = SnippetScene.begin()
        SnippetScene.start()
        await SnippetScene.answer(transport, SnippetScene.mpid(1))
        await eventually { current != nil }
        current?.setUserAttribute("eyes", value: "brown")
        Seed004_UserAliasing.basic()
        await SnippetScene.answer(transport, SnippetScene.mpid(2))
        await eventually { current?.userAttributes.isEmpty == false }
        #expect(current?.userId == 2 && current?.userAttributes as? [String: String] == ["eyes": "brown"])
        // First the attribute of the one, then that of the other, then the alias.
        await SnippetScene.answer(transport, .empty(202))
        await SnippetScene.answer(transport, .empty(202))
        let alias = await SnippetScene.answer(transport, .empty(202))
        #expect(alias?.path == "/v1/identity/key/alias")
        #expect(alias?.json["data"]?["source_mpid"] == "1" && alias?.json["data"]?["destination_mpid"] == "2")
        #expect(identity.getAllUsers().map(\.userId) == [2, 1])
        Seed004_UserAliasing.anyTime()
        let second = await SnippetScene.answer(transport, .empty(202))
        #expect(second?.json["data"]?["source_mpid"] == "1" && second?.json["data"]?["destination_mpid"] == "2")
        #expect(
            !identity.aliasUsers(
                MPAliasRequest(
                    sourceMPID: 1, destinationMPID: 1, startTime: Date(), endTime: Date())))
        #expect(
            !identity.aliasUsers(
                MPAliasRequest(
                    sourceMPID: 0, destinationMPID: 1, startTime: Date(), endTime: Date())))
    }

    @Test("User Aliasing, in Objective-C: a cart that goes along, and explicit MPIDs that are not clamped")
    func cart() async {
        let transport = SnippetScene.begin()
        SnippetScene.start()
        await SnippetScene.answer(transport, SnippetScene.mpid(1))
        await eventually { current != nil }
        let product = MPProduct(name: "Shoes", sku: "s-1", quantity: 2, price: 9.99)
        let other = MPProduct(name: "Hat", sku: "h-1", quantity: 1, price: nil)
        current?.cart.addAllProducts([product, other], shouldLogEvents: false)
        current?.cart.removeProduct(other)
        Seed004_UserAliasingObjectiveC.basic()
        await SnippetScene.answer(transport, SnippetScene.mpid(2))
        await eventually { current?.cart.products.isEmpty == false }
        #expect(current?.userId == 2 && current?.cart.products == [product])
        #expect(identity.getUser(1)?.cart.products == [product])
        let removal = await SnippetScene.answer(transport, .empty(202))
        #expect(removal?.json["mpid"] == "1")
        #expect(removal?.json["events"]?.elements?.map { $0["event_type"] } == ["commerce_event"])
        #expect(await SnippetScene.answer(transport, .empty(202))?.path == "/v1/identity/key/alias")
        let long = Date(timeIntervalSince1970: 0)
        Seed004_UserAliasingObjectiveC.anyTime(2, 1, long, long)
        let alias = await SnippetScene.answer(transport, .empty(202))
        #expect(alias?.json["data"]?["start_unixtime_ms"] == 0 && alias?.json["data"]?["source_mpid"] == "2")
        current?.cart.clear()
        #expect(current?.cart.products.isEmpty == true)
    }

    @Test("events have the kind that the app gave them, and numbers are numbers")
    func events() async {
        let transport = SnippetScene.begin()
        SnippetScene.start()
        await SnippetScene.answer(transport, SnippetScene.mpid(1))
        await eventually { MParticle.sharedInstance().identity.currentUser != nil }
        let info: [String: Any] = [
            "int": 1, "unsigned": UInt8(2), "huge": UInt64.max, "float": Float(1.5), "double": 2.5, "bool": true,
            "number": NSNumber(value: 3.5), "text": "t", "list": [1, "a"], "none": NSNull(),
        ]
        MParticle.sharedInstance().logEvent("searched", eventType: .search, eventInfo: info)
        MParticle.sharedInstance().upload()
        let event = await SnippetScene.answer(transport, .empty(202))?.json["events"]?.elements?.last?["data"]
        #expect(event?["custom_event_type"] == "search")
        #expect(
            event?["custom_attributes"] == [
                "int": 1, "unsigned": 2, "huge": "18446744073709551615", "float": 1.5, "double": 2.5, "bool": true,
                "number": 3.5, "text": "t", "list": [1, "a"], "none": .null,
            ])
    }
}

@Suite("The vendor's enums")
struct EnumTests {
    @Test(
        "identity types have the vendor's numbers and names",
        arguments: zip(
            MPIdentity.allCases,
            [
                "other", "customerid", "facebook", "twitter", "google", "microsoft", "yahoo", "email", "alias",
                "facebookcustomaudienceid", "other2", "other3", "other4", "other5", "other6", "other7", "other8",
                "other9", "other10", "mobile_number", "phone_number_2", "phone_number_3", "ios_idfa", "ios_idfv",
                "push_token", "device_application_stamp",
            ]))
    func types(type: MPIdentity, name: String) {
        #expect(type.wireName == name)
        #expect(MPIdentity.allCases.firstIndex(of: type) == Int(type.rawValue))
    }

    @Test("the type that is none any more is never sent")
    func alias() {
        let request = MPIdentityApiRequest.withEmptyUser()
        request.setIdentity("x", identityType: .alias)
        #expect(request.request.identities.isEmpty)
    }
}
