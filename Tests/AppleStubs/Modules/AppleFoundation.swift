// The names are those of Apple, without Apple's comments.
// swift-format-ignore-file

// Foundation as Apple's platforms have it: with the network in it, and with what Foundation on Linux does not have.
@_exported import Darwin
@_exported import Foundation
@_exported import FoundationNetworking

extension FileManager {
    public func containerURL(forSecurityApplicationGroupIdentifier groupIdentifier: String) -> URL? { nil }
}

extension ProcessInfo {
    public func performExpiringActivity(
        withReason reason: String, using block: @escaping @Sendable (_ expired: Bool) -> Void
    ) {}
}

extension URLProtectionSpace {
    public var serverTrust: SecTrust? { nil }
}

extension URLCredential {
    public convenience init(trust: SecTrust) { fatalError("a stub is never run") }
}

open class NSException: NSObject, @unchecked Sendable {}
open class NSUserActivity: NSObject {}

// Core Foundation. Each type is the Swift type that it is bridged to, so that the bridging casts compile.
public typealias CFString = String
public typealias CFData = Data
public typealias CFError = NSError
public typealias CFArray = [Any]
public typealias CFDictionary = [CFString: Any]
public typealias CFTypeRef = AnyObject

/// A chain of certificates to judge. Foundation's own interface names it.
public final class SecTrust: @unchecked Sendable {}
