// The names are those of Apple, without Apple's comments.
// swift-format-ignore-file

import AppleFoundation

public enum UIUserInterfaceIdiom: Int, @unchecked Sendable {
    case unspecified = -1
    case phone, pad, tv, carPlay
    case mac = 5
    case vision = 6
}

@MainActor
open class UIDevice: NSObject {
    open class var current: UIDevice { fatalError("a stub is never run") }
    open var model: String { "" }
    open var identifierForVendor: UUID? { nil }
    open var userInterfaceIdiom: UIUserInterfaceIdiom { .phone }
}

@MainActor
open class UIOpenURLContext: NSObject {}
