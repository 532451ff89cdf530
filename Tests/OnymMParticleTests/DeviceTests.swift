import ClientKit
import Foundation
import Onym
import OnymMParticle
import Testing

@Suite("The facade of mParticle", .timeLimit(.minutes(30)))
struct DeviceTests {
    private let device = Device()
    private var sdk: MParticle { device.sdk }

    private func details(_ event: JSON) -> JSON { event["data"] ?? .null }

    @Test("a timed event is found by its name while it runs, and has its duration at the end")
    func timed() async throws {
        await device.start()
        let event = try #require(MPEvent(name: "Video", type: .media))
        event.category = "films"
        sdk.beginTimedEvent(event)
        #expect(sdk.event(withName: "Video") === event && sdk.activeTimedEvents() == [AnyHashable(event)])
        event.startTime = Date(timeIntervalSinceNow: -2)
        sdk.endTimedEvent(event)
        #expect(sdk.event(withName: "Video") == nil && sdk.activeTimedEvents() == nil)
        #expect((2000..<60_000).contains(event.duration?.intValue ?? 0) && event.endTime != nil)
        let data = details(try #require(await device.events().last))
        #expect(data["event_name"] == "Video" && data["custom_event_type"] == "media")
        #expect(data["custom_attributes"]?["EventLength"]?.integer == event.duration?.int64Value)
        #expect(data["custom_attributes"]?["$Category"] == "films")
    }

    @Test("a session begins at the start, marks the events, and ends with its attributes")
    func sessions() async throws {
        await device.start()
        let session = try #require(sdk.currentSession)
        #expect(sdk.incrementSessionAttribute("seen", byValue: 2) == 2)
        #expect(sdk.incrementSessionAttribute("seen", byValue: 3) == 5)
        sdk.setSessionAttribute("from", value: "mail")
        sdk.setSessionAttribute("gone", value: 1)
        sdk.setSessionAttribute("gone", value: nil)
        sdk.logEvent("opened", eventType: .other, eventInfo: nil)
        device.time.advance(5)
        sdk.endSession()
        #expect(sdk.currentSession == nil && sdk.incrementSessionAttribute("seen", byValue: 1) == nil)
        let events = await device.events()
        #expect(events.map { $0["event_type"] } == ["session_start", "custom_event", "session_end"])
        #expect(events.allSatisfy { details($0)["session_uuid"] == .string(session.uuid) })
        #expect(events.allSatisfy { details($0)["session_start_unixtime_ms"]?.integer == session.startTime.int64Value })
        #expect(details(events[2])["session_duration_ms"] == 5000)
        #expect(details(events[2])["custom_attributes"] == ["seen": 5, "from": "mail"])
    }

    @Test("an event begins a session if the app's settings and the event allow it")
    func automatic() async throws {
        let options = device.options()
        options.shouldBeginSession = false
        await device.start(options)
        let event = try #require(MPEvent(name: "quiet", type: .other))
        event.shouldBeginSession = false
        sdk.logEvent(event)
        #expect(sdk.currentSession == nil)
        sdk.logEvent("loud", eventType: .other, eventInfo: nil)
        #expect(sdk.currentSession != nil)
    }

    @Test("without the tracking of sessions, the start and events begin one, and only the app ends it")
    func manual() async throws {
        let options = device.options()
        options.automaticSessionTracking = false
        await device.start(options)
        let session = try #require(sdk.currentSession)
        device.phases.send(.background)
        device.time.advance(7200)
        device.phases.send(.foreground)
        #expect(sdk.currentSession?.uuid == session.uuid && !sdk.automaticSessionTracking)
        sdk.endSession()
        _ = await device.events()
        let quiet = try #require(MPEvent(name: "quiet", type: .other))
        quiet.shouldBeginSession = false
        sdk.logEvent(quiet)
        #expect(sdk.currentSession == nil)
        sdk.logEvent("loud", eventType: .other, eventInfo: nil)
        let next = try #require(sdk.currentSession)
        let events = await device.events()
        #expect(events.map { $0["event_type"] } == ["custom_event", "session_start", "custom_event"])
        #expect(events.last.map(details)?["session_uuid"] == .string(next.uuid))
        let other = Device()
        let late = other.options()
        (late.automaticSessionTracking, late.shouldBeginSession) = (false, false)
        await other.start(late)
        #expect(other.sdk.currentSession == nil)
    }

    @Test("a session that the app left for longer than the time-out ends there, also if events come in the background")
    func background() async throws {
        await device.start()
        let session = try #require(sdk.currentSession)
        _ = await device.events()
        device.time.advance(5)
        device.phases.send(.background)
        device.time.advance(7200)
        sdk.logEvent("pushed", eventType: .other, eventInfo: nil)
        let next = try #require(sdk.currentSession)
        let events = await device.events()
        try #require(events.map { $0["event_type"] } == ["session_end", "session_start", "custom_event"])
        #expect(details(events[0])["session_uuid"] == .string(session.uuid))
        #expect(details(events[0])["session_duration_ms"] == 5000)
        #expect(details(events[2])["session_uuid"] == .string(next.uuid) && next.uuid != session.uuid)
        device.phases.send(.foreground)
        #expect(sdk.currentSession?.uuid == next.uuid)
        device.phases.send(.background)
        device.time.advance(7200)
        let quiet = try #require(MPEvent(name: "quiet", type: .other))
        quiet.shouldBeginSession = false
        sdk.logEvent(quiet)
        #expect(sdk.currentSession == nil)
        device.phases.send(.foreground)
        #expect(sdk.currentSession != nil)
    }

    @Test("a session outlives the process for the time-out, and no longer", arguments: [(30.0, true), (90.0, false)])
    func killed(seconds: Double, lives: Bool) async throws {
        await device.start()
        let session = try #require(sdk.currentSession)
        _ = await device.events()
        device.relaunch(after: seconds)
        await device.start()
        #expect((sdk.currentSession?.uuid == session.uuid) == lives)
        let events = await device.events()
        #expect(events.map { $0["event_type"] } == (lives ? [] : ["session_end", "session_start"]))
        #expect(lives || details(events[0])["session_uuid"] == .string(session.uuid))
    }

    @Test("a killed session ends no earlier than its last event")
    func lastEvent() async throws {
        await device.start()
        let session = try #require(sdk.currentSession)
        device.time.advance(40)
        sdk.logEvent("e", eventType: .other, eventInfo: nil)
        _ = await device.uploads()
        device.relaunch(after: 30)
        await device.start()
        #expect(sdk.currentSession?.uuid == session.uuid)
        device.time.advance(20)
        sdk.logEvent("e", eventType: .other, eventInfo: nil)
        _ = await device.uploads()
        device.relaunch(after: 300)
        await device.start()
        let end = try #require(await device.events().first { $0["event_type"] == "session_end" })
        #expect(details(end)["session_duration_ms"] == 90_000)
    }

    @Test("commerce events have the vendor's form")
    func commerce() async throws {
        await device.start()
        let product = MPProduct(name: "Room", sku: "s1", quantity: 2, price: 10.5)
        (product.brand, product.category, product.variant, product.couponCode) = ("B", "C", "V", "20OFF")
        product.position = 3
        product["sale"] = true
        let purchase = MPCommerceEvent(action: .purchase, product: product)
        purchase.transactionAttributes = MPTransactionAttributes()
        purchase.transactionAttributes?.transactionId = "t1"
        purchase.transactionAttributes?.affiliation = "shop"
        purchase.transactionAttributes?.couponCode = "5OFF"
        purchase.transactionAttributes?.revenue = 22
        purchase.transactionAttributes?.tax = 1
        purchase.transactionAttributes?.shipping = 0.5
        (purchase.checkoutStep, purchase.checkoutOptions) = (2, "card")
        (purchase.currency, purchase.screenName, purchase.nonInteractive) = ("EUR", "Cart", true)
        purchase.customAttributes = ["a": 1]
        purchase.addCustomFlags(["x", "y"], withKey: "flag")
        sdk.logEvent(purchase)
        // The SDK has logged a copy.
        product.name = "changed"
        let seen = MPCommerceEvent(
            impressionName: "Best", product: MPProduct(name: "A", sku: "a", quantity: 1, price: nil))
        seen.addImpression(MPProduct(name: "B", sku: "b", quantity: 1, price: nil), listName: "Best")
        sdk.logEvent(seen)
        let promotion = MPPromotion()
        (promotion.promotionId, promotion.name, promotion.creative, promotion.position) = ("p", "Sale", "banner", "top")
        sdk.logEvent(MPCommerceEvent(promotionContainer: MPPromotionContainer(action: .view, promotion: promotion)))
        let wish = MPCommerceEvent(action: .removeFromWishlist, product: product)
        wish.removeProduct(product)
        #expect(wish.products == nil && wish.type == .removeFromWishlist)
        sdk.logEvent(wish)
        let events = await device.events().filter { $0["event_type"] == "commerce_event" }.map(details)
        try #require(events.count == 4)
        #expect(
            events[0]["product_action"] == [
                "action": "purchase", "transaction_id": "t1", "affiliation": "shop", "coupon_code": "5OFF",
                "total_amount": 22.0, "tax_amount": 1.0, "shipping_amount": 0.5, "checkout_step": 2,
                "checkout_options": "card",
                "products": [
                    [
                        "id": "s1", "name": "Room", "brand": "B", "category": "C", "variant": "V", "position": 3,
                        "price": 10.5, "quantity": 2, "coupon_code": "20OFF", "total_product_amount": 21.0,
                        "custom_attributes": ["sale": true],
                    ]
                ],
            ])
        #expect(events[0]["currency_code"] == "EUR" && events[0]["screen_name"] == "Cart")
        #expect(events[0]["is_non_interactive"] == true && events[0]["custom_attributes"] == ["a": 1])
        #expect(events[0]["custom_flags"] == ["flag": ["x", "y"]] && events[0]["event_name"] == nil)
        #expect(events[1]["product_action"] == nil)
        #expect(
            events[1]["product_impressions"]?.elements?.first?["products"]?.elements?.map { $0["id"] } == ["a", "b"])
        #expect(events[1]["product_impressions"]?.elements?.first?["product_impression_list"] == "Best")
        #expect(
            events[2]["promotion_action"] == [
                "action": "view",
                "promotions": [["id": "p", "name": "Sale", "creative": "banner", "position": "top"]],
            ])
        #expect(events[3]["product_action"] == ["action": "remove_from_wish_list"])
    }

    @Test("screens, errors, breadcrumbs and lifetime values have the vendor's types")
    func others() async throws {
        await device.start()
        sdk.logScreen("Home", eventInfo: ["a": 1])
        sdk.logScreen("Hidden", eventInfo: nil, shouldUploadEvent: false)
        sdk.leaveBreadcrumb("step", eventInfo: ["b": 2])
        sdk.logError("broken")
        sdk.logLTVIncrease(2.5, eventName: "Bought", eventInfo: ["c": 3])
        let events = Array(await device.events().dropFirst())
        #expect(events.map { $0["event_type"] } == ["screen_view", "breadcrumb", "crash_report", "custom_event"])
        #expect(details(events[0])["screen_name"] == "Home" && details(events[0])["custom_attributes"] == ["a": 1])
        #expect(details(events[1])["label"] == "step" && details(events[2])["message"] == "broken")
        #expect(
            details(events[3])["custom_attributes"] == ["$Amount": 2.5, "$MethodName": "LogLTVIncrease", "c": 3])
    }

    @Test("a number of the user grows on this device; a text does not")
    func increment() async throws {
        await device.start()
        let user = try #require(sdk.identity.currentUser)
        #expect(user.incrementUserAttribute("visits", byValue: 2) == 0)
        user.incrementUserAttribute("visits", byValue: 1.5)
        user.setUserAttribute("plan", value: "pro")
        user.incrementUserAttribute("plan", byValue: 1)
        user.setUserTag("vip")
        user.setUserAttribute("old", value: 1)
        user.removeUserAttribute("old")
        #expect(user.userAttributes["visits"] as? Double == 3.5 && user.userAttributes["plan"] as? String == "pro")
        let body = try #require(await device.uploads().last)
        #expect(body["user_attributes"] == ["visits": 3.5, "plan": "pro", "vip": .null])
        #expect(body["deleted_user_attributes"] == ["old"])
    }

    @Test("0 and 1 stay numbers, and truth values stay truth values")
    func numbers() async throws {
        await device.start()
        let user = try #require(sdk.identity.currentUser)
        let values: [String: Any] = [
            "zero": NSNumber(value: 0), "one": NSNumber(value: 1), "small": NSNumber(value: Int8(1)),
            "half": NSNumber(value: 0.5), "swift": 1, "false": NSNumber(value: false), "true": NSNumber(value: true),
            "yes": true,
        ]
        for (name, value) in values { user.setUserAttribute(name, value: value) }
        user.incrementUserAttribute("visits", byValue: 1)
        user.incrementUserAttribute("visits", byValue: 1)
        let product = MPProduct(name: "A", sku: "a", quantity: 1, price: 1)
        (product["zero"], product["true"]) = (NSNumber(value: 0), NSNumber(value: true))
        sdk.logEvent(MPCommerceEvent(action: .addToCart, product: product))
        let body = try #require(await device.uploads().last)
        #expect(
            body["user_attributes"] == [
                "zero": 0, "one": 1, "small": 1, "half": 0.5, "swift": 1, "false": false, "true": true, "yes": true,
                "visits": 2,
            ])
        let sent = body["events"]?.elements?.last.map(details)?["product_action"]?["products"]?.elements?.first
        #expect(sent?["quantity"] == 1 && sent?["custom_attributes"] == ["zero": 0, "true": true])
    }

    @Test("consents go with the uploads: the user's own, or else the device's")
    func consent() async throws {
        let options = device.options()
        let state = MPConsentState()
        let consent = MPGDPRConsent()
        (consent.consented, consent.document, consent.timestamp) = (true, "v2", Date(timeIntervalSince1970: 1000))
        state.addGDPRConsentState(consent, purpose: " Analytics ")
        let sale = MPCCPAConsent()
        sale.timestamp = Date(timeIntervalSince1970: 2000)
        state.setCCPA(sale)
        #expect(state.ccpaConsentState() === sale)
        options.deviceConsentState = state
        await device.start(options)
        let expected: JSON = [
            "gdpr": ["analytics": ["consented": true, "document": "v2", "timestamp_unixtime_ms": 1_000_000]],
            "ccpa": ["data_sale_opt_out": ["consented": false, "timestamp_unixtime_ms": 2_000_000]],
        ]
        #expect(await device.uploads().first?["consent_state"] == expected)
        let user = try #require(sdk.identity.currentUser)
        #expect(user.consentState() == nil)
        state.removeCCPAConsentState()
        user.setConsentState(state)
        #expect(user.consentState()?.gdprConsentState()?["analytics"]?.document == "v2")
        sdk.logEvent("e", eventType: .other, eventInfo: nil)
        #expect(await device.uploads().first?["consent_state"] == ["gdpr": expected["gdpr"] ?? .null])
        user.setConsentState(nil)
        sdk.logEvent("e", eventType: .other, eventInfo: nil)
        #expect(await device.uploads().first?["consent_state"] == expected)
    }

    @Test(
        "without the person's permission, no advertising id leaves the device",
        arguments: MPATTAuthorizationStatus.allCases)
    func tracking(status: MPATTAuthorizationStatus) async throws {
        let options = device.options { $0.device.advertisingID = "IDFA" }
        (options.attStatus, options.attStatusTimestampMillis) = (NSNumber(value: status.rawValue), 1234)
        let identify = await device.start(options)
        #expect((identify?.json["known_identities"]?["ios_idfa"] == "IDFA") == (status == .authorized))
        let names: [MPATTAuthorizationStatus: JSON] = [
            .notDetermined: "not_determined", .restricted: "restricted", .denied: "denied", .authorized: "authorized",
        ]
        let body = try #require(await device.uploads().first)
        #expect(
            body["device_info"]
                == ["att_authorization_status": names[status] ?? .null, "att_timestamp_unixtime_ms": 1234])
        sdk.setATTStatus(.denied, withATTStatusTimestampMillis: 5)
        sdk.logEvent("e", eventType: .other, eventInfo: nil)
        #expect(await device.uploads().first?["device_info"]?["att_authorization_status"] == "denied")
    }

    @Test("the same answer about tracking without a time keeps the time at which it first came")
    func trackingTime() async throws {
        func start() async {
            let options = device.options()
            options.attStatus = NSNumber(value: MPATTAuthorizationStatus.denied.rawValue)
            await device.start(options)
        }
        func time() async -> JSON? { await device.uploads().first?["device_info"]?["att_timestamp_unixtime_ms"] }
        await start()
        let first = try #require(await time())
        device.relaunch(after: 30)
        await start()
        sdk.logEvent("e", eventType: .other, eventInfo: nil)
        #expect(await time() == first)
        sdk.setATTStatus(.restricted, withATTStatusTimestampMillis: nil)
        sdk.logEvent("e", eventType: .other, eventInfo: nil)
        #expect(await time()?.integer == first.integer.map { $0 + 30_000 })
    }

    @Test("an upload that the app changes has the change and a right signature; a discarded upload is not sent")
    func changedUploads() async throws {
        let options = device.options()
        options.onCreateBatch = { batch in
            var batch = batch
            let data = (batch["events"] as? [[String: Any]])?.last?["data"] as? [String: Any]
            if data?["event_name"] as? String == "unwanted" { return nil }
            batch["integration_attributes"] = ["a": "b"]
            return batch
        }
        await device.start(options)
        _ = await device.uploads()
        sdk.logEvent("e", eventType: .other, eventInfo: nil)
        sdk.upload()
        let sent = try #require(await device.answer(.empty(202)))
        #expect(sent.json["integration_attributes"] == ["a": "b"] && sent.json["events"]?.elements?.count == 1)
        let message = Array("POST\n\(sent.fields["Date"] ?? "")\n/v2/us1-key/events".utf8) + sent.body
        let signature = SHA256.authenticate(message, key: "secret".utf8).map {
            String($0 >> 4, radix: 16) + String($0 & 15, radix: 16)
        }
        #expect(sent.fields["x-mp-signature"] == signature.joined())
        await eventually { sdk.core?.idsync?.mailbox.count == 0 }
        let count = device.transport.requests.count
        sdk.logEvent("unwanted", eventType: .other, eventInfo: nil)
        sdk.upload()
        await eventually { sdk.core?.idsync?.mailbox.count == 0 }
        #expect(device.transport.requests.count == count)
    }

    @Test("calls go to the app's own hosts; with permission to track, to the hosts for that")
    func hosts() async throws {
        let options = device.options()
        let network = MPNetworkOptions()
        network.customBaseURL = URL(string: "http://elsewhere.test")
        (network.identityHost, network.eventsHost) = ("id.test", "events.test/sub")
        (network.identityTrackingHost, network.eventsTrackingHost) = ("track.test", "eventstrack.test")
        (network.overridesIdentitySubdirectory, network.overridesAliasSubdirectory) = (true, true)
        options.networkOptions = network
        let identify = try #require(await device.start(options))
        #expect(identify.url.absoluteString == "https://id.test/identify")
        let message = Array("POST\n\(identify.fields["Date"] ?? "")\n/v1/identify".utf8) + identify.body
        let signature = SHA256.authenticate(message, key: "secret".utf8).map {
            String($0 >> 4, radix: 16) + String($0 & 15, radix: 16)
        }
        #expect(identify.fields["x-mp-signature"] == signature.joined())
        #expect(await device.answer(.empty(202))?.url.absoluteString == "https://events.test/sub/v2/us1-key/events")
        await eventually { sdk.core?.idsync?.mailbox.count == 0 }
        let alias = MPAliasRequest(sourceMPID: 1, destinationMPID: 2, startTime: Date(), endTime: Date())
        sdk.identity.aliasUsers(alias)
        #expect(await device.answer(.empty(202))?.url.absoluteString == "https://events.test/sub/us1-key/alias")
        sdk.setATTStatus(.authorized, withATTStatusTimestampMillis: nil)
        sdk.identity.login(completion: nil)
        #expect(await device.answer(SnippetScene.mpid(1))?.url.absoluteString == "https://track.test/login")
        sdk.identity.aliasUsers(alias)
        #expect(await device.answer(.empty(202))?.url.host() == "eventstrack.test")
    }

    @Test("an override flag drops the version of uploads; eventsOnly keeps aliases away from the host of events")
    func eventsOnly() async throws {
        let options = device.options()
        let network = MPNetworkOptions()
        (network.identityHost, network.eventsHost, network.eventsOnly) = ("id.test", "events.test", true)
        network.overridesEventsSubdirectory = true
        options.networkOptions = network
        await device.start(options)
        #expect(await device.answer(.empty(202))?.url.absoluteString == "https://events.test/us1-key/events")
        await eventually { sdk.core?.idsync?.mailbox.count == 0 }
        sdk.identity.aliasUsers(MPAliasRequest(sourceMPID: 1, destinationMPID: 2, startTime: Date(), endTime: Date()))
        #expect(await device.answer(.empty(202))?.url.host() == "id.test")
    }

    @Test("without a host and an endpoint, the start fails as not configured")
    func unconfigured() async throws {
        let options = MParticleOptions(key: "key", secret: "secret")
        options.networkOptions = MPNetworkOptions()
        options.networkOptions?.customBaseURL = URL(string: "http://elsewhere.test")
        let errors = Collector<(text: String, isOnMain: Bool)>()
        options.onIdentifyComplete = { _, error in
            errors.callback((error?.localizedDescription ?? "", Self.isOnMain))
        }
        sdk.start(with: options)
        await eventually { !errors.values.isEmpty }
        #expect(errors.values.map(\.text) == [OnymError.refused(.notConfigured).description] && !sdk.initialized)
        #expect(errors.values.map(\.isOnMain) == [true])
    }

    @Test("events older than the app allows are dropped")
    func expired() async throws {
        let options = device.options()
        options.persistenceMaxAgeSeconds = 60
        await device.start(options)
        sdk.logEvent("old", eventType: .other, eventInfo: nil)
        device.time.advance(120)
        sdk.logEvent("new", eventType: .other, eventInfo: nil)
        let events = await device.events()
        #expect(events.map { details($0)["event_name"] } == ["new"])
    }

    @Test("a new interval sends what waits at once")
    func interval() async throws {
        await device.start()
        _ = await device.uploads()
        #expect(sdk.uploadInterval == 600)
        sdk.logEvent("e", eventType: .other, eventInfo: nil)
        #expect(device.transport.open.isEmpty)
        sdk.uploadInterval = 0.1
        #expect(await device.answer(.empty(202)) != nil && sdk.uploadInterval == 1)
    }

    @Test("a reset leaves no file, and the next start is a new device, also after a start with the vendor's ids")
    func reset() async throws {
        await device.start()
        let stamp = sdk.uniqueIdentifier
        sdk.logEvent("e", eventType: .other, eventInfo: nil)
        let ends = Collector<Bool>()
        sdk.reset { ends.callback(true) }
        await eventually { !ends.values.isEmpty }
        #expect(device.files.contents.isEmpty && !sdk.initialized && sdk.currentSession == nil)
        await device.start(as: 2)
        #expect(sdk.uniqueIdentifier != stamp && sdk.identity.getAllUsers().map(\.userId) == [2])

        let moved = Device()
        let store = MemoryVendorStore(["mParticle::mpid": 5, "mParticle::dast": "STAMP"])
        moved.sdk.start(with: moved.options { $0.vendorStore = store })
        #expect(moved.sdk.identity.currentUser?.userId == 5)
        moved.sdk.reset()
        moved.sdk.start(with: moved.options { $0.vendorStore = store })
        #expect(moved.sdk.identity.currentUser == nil && moved.sdk.uniqueIdentifier != "STAMP")
    }

    @Test("another workspace begins after the old one has sent everything")
    func workspace() async throws {
        await device.start()
        _ = await device.uploads()
        sdk.logEvent("old", eventType: .other, eventInfo: nil)
        let options = device.options()
        options.apiKey = "us2-key"
        sdk.switchWorkspace(with: options)
        let sent = await device.answer(.empty(202))
        #expect(sent?.path == "/v2/us1-key/events")
        #expect(sent?.json["events"]?.elements?.last?["event_type"] == "session_end")
        let identify = await device.answer(SnippetScene.mpid(9))
        #expect(identify?.fields["x-mp-key"] == "us2-key" && identify?.json["previous_mpid"] == nil)
        await eventually { sdk.identity.currentUser?.userId == 9 }
    }

    /// Logs under a first workspace, and changes to another one while the old one reaches no server.
    private func switchOffline() async {
        await device.start()
        _ = await device.uploads()
        sdk.logEvent("old", eventType: .other, eventInfo: nil)
        let options = device.options()
        options.apiKey = "us2-key"
        sdk.switchWorkspace(with: options)
        await device.answer(.fault(.offline))
        // The new workspace asks for its user, and the old one tries again beside it.
        for _ in 0..<2 {
            await eventually { !device.transport.open.isEmpty }
            let isOld = device.transport.open.first?.path.hasPrefix("/v2/us1-key") == true
            await device.answer(isOld ? .fault(.offline) : SnippetScene.mpid(9))
        }
        await eventually { sdk.identity.currentUser?.userId == 9 }
        #expect(device.files.names().contains { $0.hasPrefix("left-") })
    }

    @Test("what is logged while the old workspace sends its rest is sent under its own key, too")
    func workspaceMeanwhile() async {
        await device.start()
        _ = await device.uploads()
        sdk.logEvent("old", eventType: .other, eventInfo: nil)
        let options = device.options()
        options.apiKey = "us2-key"
        sdk.switchWorkspace(with: options)
        sdk.logEvent("meanwhile", eventType: .other, eventInfo: nil)
        var names: [String?] = []
        for _ in 0..<4 where !names.contains("meanwhile") {
            await eventually { !device.transport.open.isEmpty }
            let isOld = device.transport.open.first?.path.hasPrefix("/v2/us1-key") == true
            let request = await device.answer(isOld ? .empty(202) : SnippetScene.mpid(9))
            guard isOld else { continue }
            names += request?.json["events"]?.elements?.map { $0["data"]?["event_name"]?.text } ?? []
        }
        #expect(names.contains("old") && names.contains("meanwhile"), "\(names)")
        await eventually { device.files.names().allSatisfy { !$0.hasPrefix("left-") } }
    }

    @Test("nothing of a former workspace is sent or kept after the person has opted out")
    func workspaceOptOut() async {
        await switchOffline()
        sdk.optOut = true
        await eventually { device.files.names().allSatisfy { !$0.hasPrefix("left-") } }
        #expect(device.files.names().allSatisfy { !$0.hasPrefix("left-") })
    }

    @Test("what could not be sent before a change of the workspace is sent later, under its own key")
    func workspaceOffline() async {
        await switchOffline()
        device.relaunch(after: 60)
        let again = device.options()
        again.apiKey = "us2-key"
        sdk.start(with: again)
        var sent: HTTPRequest?
        for _ in 0..<2 {
            await eventually { !device.transport.open.isEmpty }
            let isOld = device.transport.open.first?.path.hasPrefix("/v2/us1-key") == true
            let request = await device.answer(isOld ? .empty(202) : SnippetScene.mpid(9))
            if isOld { sent = request }
        }
        let names = sent?.json["events"]?.elements?.map { $0["data"]?["event_name"]?.text ?? $0["event_type"]?.text }
        #expect(names?.contains("old") == true, "\(sent?.json ?? .null)")
        await eventually { device.files.names().allSatisfy { !$0.hasPrefix("left-") } }
        #expect(sdk.identity.currentUser?.userId == 9)
    }

    @Test("a token for notifications becomes a name of the device")
    func push() async throws {
        await device.start()
        _ = await device.uploads()
        sdk.didRegisterForRemoteNotifications(withDeviceToken: Data([0x0A, 0xFF]))
        let request = await device.answer(.json(200, ["change_results": []]))
        let change = request?.json["identity_changes"]?.elements?.first
        #expect(change?["identity_type"] == "push_token" && change?["new_value"] == "0aff")
        #expect(sdk.pushNotificationToken == Data([0x0A, 0xFF]))
    }

    @Test("a token from before the start is sent when the user is known")
    func earlyPush() async {
        sdk.didRegisterForRemoteNotifications(withDeviceToken: Data([0x0A, 0xFF]))
        let options = device.options()
        options.shouldBeginSession = false
        await device.start(options)
        let request = await device.answer(.json(200, ["change_results": []]))
        let change = request?.json["identity_changes"]?.elements?.first
        #expect(request?.path == "/v1/1/modify")
        #expect(change?["identity_type"] == "push_token" && change?["new_value"] == "0aff")
    }

    @Test("an opt-out from before the start counts: the SDK sends nothing, and knows nobody")
    func earlyOptOut() async {
        await device.start()
        _ = await device.uploads()
        device.relaunch(after: 5)
        sdk.optOut = true
        #expect(sdk.optOut)
        let count = device.transport.requests.count
        let codes = Collector<Int>()
        let options = device.options()
        options.onIdentifyComplete = { _, error in codes.callback((error as NSError?)?.code ?? 0) }
        sdk.start(with: options)
        await eventually { !codes.values.isEmpty }
        #expect(codes.values == [5] && sdk.optOut && sdk.core?.isOptedOut == true)
        #expect(sdk.identity.getAllUsers().isEmpty && device.transport.requests.count == count)
    }

    @Test("modify names the users whose names it changed")
    func modify() async throws {
        let options = device.options()
        options.shouldBeginSession = false
        await device.start(options)
        let request = MPIdentityApiRequest.withEmptyUser()
        (request.emailSha256, request.mobileSha256) = ("e", "m")
        #expect(request.identities as? [NSNumber: NSString] == [0: "e", 10: "m"])
        request.setIdentity(nil, identityType: .email)
        #expect(request.identities?[7] is NSNull)
        let ends = Collector<[[Int64]]>()
        sdk.identity.modify(request) { result, _ in
            ends.callback(
                (result?.identityChanges ?? []).map {
                    [$0.changedUser.userId.int64Value, Int64($0.changedIdentity.rawValue)]
                })
        }
        await device.answer(
            .json(
                200,
                [
                    "change_results": [
                        ["identity_type": "other", "modified_mpid": "1"],
                        ["identity_type": "other2", "modified_mpid": "77"],
                    ]
                ]))
        await eventually { !ends.values.isEmpty }
        #expect(ends.values == [[[1, 0], [77, 10]]])
    }

    @Test("names without an effect send nothing, answer the vendor's nothing, and write one line")
    func inert() async throws {
        let options = device.options()
        (options.shouldBeginSession, options.logLevel) = (false, .warning)
        options.dataPlanId = "plan"
        options.trackNotifications = false
        options.networkOptions?.configHost = "config.example.com"
        options.networkOptions?.overridesConfigSubdirectory = true
        await device.start(options)
        let count = device.transport.requests.count
        let kits = Collector<Bool>()
        for _ in 0..<2 {
            #expect(sdk.attributionInfo() == nil && !sdk.isKitActive(1) && sdk.kitInstance(1) == nil)
            #expect(
                sdk.surveyURL(.foresee) == nil && !MParticle.registerExtension(1)
                    && sdk.integrationAttributes(forKit: 1) == nil)
            sdk.onKitsInitialized { kits.callback(true) }
            sdk.setIntegrationAttributes([:], forKit: 1)
            sdk.clearIntegrationAttributes(forKit: 1)
            sdk.logCrash("m", stackTrace: nil, plCrashReport: "r")
            sdk.logNetworkPerformance(
                "https://a", httpMethod: "GET", startTime: 0, duration: 1, bytesSent: 1, bytesReceived: 1)
            sdk.didReceiveRemoteNotification([:])
            sdk.didFailToRegisterForRemoteNotificationsWithError(nil)
            sdk.handleAction(withIdentifier: nil, forRemoteNotification: nil)
            sdk.handleAction(withIdentifier: nil, forRemoteNotification: nil, withResponseInfo: ["text": "yes"])
            sdk.logNotificationReceived(withUserInfo: [:])
            sdk.logNotificationOpened(withUserInfo: [:], andActionIdentifier: nil)
            sdk.kitInstance(1) { _ in kits.callback(false) }
            if let url = URL(string: "app://open") {
                sdk.open(url, options: nil)
                sdk.open(url, sourceApplication: nil, annotation: nil)
            }
            sdk.rokt.selectPlacements("p", attributes: nil)
        }
        let audiences = Collector<Int>()
        sdk.identity.currentUser?.getUserAudiences { list, error in audiences.callback(error == nil ? list.count : -1) }
        await eventually { !audiences.values.isEmpty }
        #expect(audiences.values == [0] && kits.values == [true, true])
        #expect(device.transport.requests.count == count && sdk.core?.idsync?.mailbox.count == 0)
        // Four options and twenty-one calls. An extension belongs to no instance.
        let lines = { device.lines.values.filter { $0.hasSuffix("does nothing here") } }
        await eventually { lines().count == 25 }
        #expect(lines().count == 25)
    }

    private static let mark: DispatchSpecificKey<Bool> = {
        let mark = DispatchSpecificKey<Bool>()
        DispatchQueue.main.setSpecific(key: mark, value: true)
        return mark
    }()

    private static var isOnMain: Bool { DispatchQueue.getSpecific(key: mark) == true }

    @Test("completions come on the main queue, before the start and after it, and never inside the call")
    func queue() async {
        // A completion inside the call would come off the main queue.
        #expect(!Self.isOnMain)
        let ends = Collector<(name: String, isOnMain: Bool)>()
        func end(_ name: String) { ends.callback((name, Self.isOnMain)) }
        sdk.identity.identify(.withEmptyUser()) { _, error in end(error == nil ? "" : "identify") }
        sdk.identity.login(.withEmptyUser()) { _, error in end(error == nil ? "" : "login") }
        sdk.identity.logout { _, error in end(error == nil ? "" : "logout") }
        sdk.identity.modify(.withEmptyUser()) { _, error in end(error == nil ? "" : "modify") }
        sdk.reset { end("reset") }
        await eventually { ends.values.count >= 5 }
        #expect(ends.values.map(\.name).sorted() == ["identify", "login", "logout", "modify", "reset"])
        let options = device.options()
        let configure = options.configure
        options.configure = {
            let callbacks = $0.callbacks
            configure?(&$0)
            $0.callbacks = callbacks
        }
        options.onIdentifyComplete = { result, _ in end(result == nil ? "" : "start") }
        await device.start(options)
        await eventually { ends.values.count >= 6 }
        sdk.reset { end("reset") }
        await eventually { ends.values.count >= 7 }
        #expect(ends.values.suffix(2).map(\.name) == ["start", "reset"] && ends.values.allSatisfy(\.isOnMain))
    }

    @Test("the log has no line unless the app wants lines, and never a key")
    func log() async throws {
        await device.start()
        #expect(device.lines.values.isEmpty && sdk.logLevel == .none)
        sdk.logLevel = .verbose
        sdk.upload()
        _ = await device.uploads()
        await eventually { !device.lines.values.isEmpty }
        #expect(device.lines.values.allSatisfy { !$0.contains("us1-key") && !$0.contains("secret") })
    }
}

@Suite("The numbers of the vendor's enums")
struct NumberTests {
    @Test("each case has the vendor's number")
    func numbers() {
        #expect(MPEventType.allCases.map(\.rawValue) == Array(1...22))
        #expect(
            MPEventType.allCases.dropFirst(9) == [
                .addToCart, .removeFromCart, .checkout, .checkoutOption, .click, .viewDetail, .purchase, .refund,
                .promotionView, .promotionClick, .addToWishlist, .removeFromWishlist, .impression,
            ])
        #expect(MPCommerceEventAction.allCases.map(\.rawValue) == Array(0...9))
        #expect(
            MPCommerceEventAction.allCases.map(\.wireName) == [
                "add_to_cart", "remove_from_cart", "add_to_wishlist", "remove_from_wish_list", "checkout",
                "checkout_option", "click", "view_detail", "purchase", "refund",
            ])
        #expect(MPPromotionAction.allCases.map(\.rawValue) == [0, 1])
        #expect(MPPromotionAction.allCases == [.click, .view])
        #expect(MPILogLevel.allCases.map(\.rawValue) == Array(0...4))
        #expect(MPILogLevel.allCases == [.none, .error, .warning, .debug, .verbose])
        #expect(MPATTAuthorizationStatus.allCases.map(\.rawValue) == Array(0...3))
        #expect(MPEnvironment.allCases.map(\.rawValue) == [0, 1, 2])
        #expect(MPInstallationType.allCases.map(\.rawValue) == [0, 1, 2, 3])
        #expect(MPSurveyProvider.foresee.rawValue == 64)
        #expect(MPIdentityErrorResponseCode.allCases.map(\.rawValue) == [0, 1, 2, 3, 4, 5, 401, 429, 500, 502, 504])
    }
}
