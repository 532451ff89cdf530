// swift-format-ignore-file
// The seed's snippet is Objective-C, with lines cut off. This is what it is in Swift.
//
// Seed 000, "Receive the unique install id from the SDK": a linker that calls the app's back end, a configuration with it, and
// a start that fails with LINK_FAILED if the back end could not link.

import OnymSentiance

enum Seed000_ReceiveTheUniqueInstallID {
    static func snippet(
        _ backend: @escaping (String, @escaping (Bool) -> Void) -> Void, _ ended: @escaping (SENTInitIssue?) -> Void
    ) {
let metaUserlink: MetaUserLinker = { installId, linkSuccess, linkFailed in
    // Use installId to initiate a link request here, and call
    // linkSuccess() after linking succeeds.
    backend(installId) { isLinked in
        if isLinked { linkSuccess() } else { linkFailed() }
    }
}
//SDK configuration
let config = SENTConfig(appId: "APPID", secret: "SECRET", link: metaUserlink)

Sentiance.shared.initWithConfig(config, success: {
    // Init success
    ended(nil)
}, failure: { issue in
    // Init failed with reason <issue>
    ended(issue)
})
    }
}
