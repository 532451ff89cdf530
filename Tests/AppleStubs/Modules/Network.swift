// The names are those of Apple, without Apple's comments.
// swift-format-ignore-file

import AppleFoundation
import Dispatch

public struct NWPath: Sendable {
    public enum Status: Sendable { case satisfied, unsatisfied, requiresConnection }
    public var status: Status { .unsatisfied }
    public var isConstrained: Bool { false }
}

public final class NWPathMonitor: @unchecked Sendable {
    public init() {}
    @preconcurrency public final var pathUpdateHandler: (@Sendable (_ newPath: NWPath) -> Void)? {
        get { nil }
        set {}
    }
    public final func start(queue: DispatchQueue) {}
    public final func cancel() {}
}
