import Foundation
import Testing
import mParticle_Apple_SDK

/// Lines of an ordinary app, with the import line that it always had.
private enum App {
    static func launch() {
        let options = MParticleOptions(key: "key", secret: "secret")
        options.logLevel = .none
        options.environment = .development
        options.uploadInterval = 60
        options.sessionTimeout = 120
        options.dataPlanId = "plan"
        options.persistenceMaxAgeSeconds = 86_400
        options.onCreateBatch = { batch in batch }
        let network = MPNetworkOptions()
        network.eventsHost = "events.example.com"
        network.pinningDisabledInDevelopment = true
        options.networkOptions = network
        let request = MPIdentityApiRequest.withEmptyUser()
        request.email = "ada@example.com"
        request.setIdentity("4711", identityType: .customerId)
        options.identifyRequest = request
        options.onIdentifyComplete = { result, error in
            result?.user.setUserAttribute("plan", value: "pro")
            if let error = error as NSError? { _ = error.code }
        }
        MParticle.sharedInstance().start(with: options)
    }

    static func shop() {
        let mParticle = MParticle.sharedInstance()
        let product = MPProduct(name: "Double Room", sku: "econ-1", quantity: 4, price: 100.00)
        product.brand = "Acme"
        product["sale"] = "true"
        let facts = MPTransactionAttributes()
        facts.transactionId = "foo"
        facts.revenue = 430.00
        let event = MPCommerceEvent(action: .purchase, product: product)
        event.transactionAttributes = facts
        event.addCustomFlag("value", withKey: "key")
        mParticle.logEvent(event)
        if let event = MPEvent(name: "Video", type: .media) {
            event.customAttributes = ["category": "Destination Intro"]
            mParticle.beginTimedEvent(event)
            mParticle.endTimedEvent(event)
        }
        mParticle.logScreen("Home", eventInfo: nil)
        mParticle.leaveBreadcrumb("opened")
        mParticle.logError("no room", eventInfo: ["cause": "slippery floor"])
        mParticle.logLTVIncrease(20.00, eventName: "Bought")
        let consent = MPGDPRConsent()
        consent.consented = true
        let state = MPConsentState()
        state.addGDPRConsentState(consent, purpose: "advertising")
        state.setCCPA(MPCCPAConsent())
        if state.ccpaConsentState()?.consented == false { state.removeCCPAConsentState() }
        mParticle.identity.currentUser?.setConsentState(state)
        mParticle.setATTStatus(.authorized, withATTStatusTimestampMillis: nil)
        mParticle.identity.modify(.withEmptyUser()) { result, _ in
            for change in result?.identityChanges ?? [] { _ = change.changedUser.userId }
        }
        if MParticle.registerExtension(state) { mParticle.logScreen("Extension", eventInfo: nil) }
        mParticle.handleAction(
            withIdentifier: "reply", forRemoteNotification: ["aps": [:]], withResponseInfo: ["text": "yes"])
        mParticle.logNotificationReceived(withUserInfo: ["aps": [:]])
        mParticle.logNotificationOpened(withUserInfo: ["aps": [:]], andActionIdentifier: "reply")
        mParticle.kitInstance(42) { instance in _ = instance == nil }
        if mParticle.isKitActive(42) { mParticle.rokt.selectPlacements("RoktExperience", attributes: nil) }
    }
}

@Suite("An app with the vendor's import")
struct AppTests {
    @Test("compiles, and its calls before the start have no effect")
    func compiles() {
        App.shop()
        #expect(Set(MPCommerceEventAction.allCases.map(\.rawValue)) == Set(0...9))
    }
}
