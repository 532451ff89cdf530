// The names are those of Apple, without Apple's comments.
// swift-format-ignore-file

import AppleFoundation

@MainActor
open class WKWebView: NSObject {}
