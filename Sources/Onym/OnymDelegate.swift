/// Hears what happens, on the queue of callbacks. All of it is optional.
public protocol OnymDelegate: AnyObject, Sendable {
    /// Another user is the current one of a dialect.
    func onym(_ onym: Onym, didChangeUserFrom old: String?, to new: String?, in dialect: Dialect)
    /// The server has disabled the user on this device.
    func onym(_ onym: Onym, didDeactivate deactivation: Deactivation)
    /// The server lets the user work on this device again.
    func onymDidReactivate(_ onym: Onym)
    /// What the user has access to is not what it was.
    func onymDidChangeAccess(_ onym: Onym)
    /// Some of what waited to be sent never will be.
    func onym(_ onym: Onym, didDrop count: Int, _ reason: DropReason)
    /// So many of what waits may not be sent now, and goes on waiting.
    func onym(_ onym: Onym, isHeldBy error: OnymError, waiting: Int)
}

extension OnymDelegate {
    /// Does nothing.
    public func onym(_ onym: Onym, didChangeUserFrom old: String?, to new: String?, in dialect: Dialect) {}
    /// Does nothing.
    public func onym(_ onym: Onym, didDeactivate deactivation: Deactivation) {}
    /// Does nothing.
    public func onymDidReactivate(_ onym: Onym) {}
    /// Does nothing.
    public func onymDidChangeAccess(_ onym: Onym) {}
    /// Does nothing.
    public func onym(_ onym: Onym, didDrop count: Int, _ reason: DropReason) {}
    /// Does nothing.
    public func onym(_ onym: Onym, isHeldBy error: OnymError, waiting: Int) {}
}

extension Onym {
    /// Has a delegate hear what happens, as long as both are there. Answers what ends it.
    @discardableResult
    public func addDelegate(_ delegate: any OnymDelegate) -> @Sendable () -> Void {
        observe { [weak self, weak delegate] notice in
            guard let self, let delegate else { return }
            switch notice {
            case .userChanged(let dialect, let old, let new):
                delegate.onym(self, didChangeUserFrom: old, to: new, in: dialect)
            case .deactivated(let deactivation): delegate.onym(self, didDeactivate: deactivation)
            case .reactivated: delegate.onymDidReactivate(self)
            case .accessChanged: delegate.onymDidChangeAccess(self)
            case .dropped(let count, let reason): delegate.onym(self, didDrop: count, reason)
            case .held(let error, let waiting): delegate.onym(self, isHeldBy: error, waiting: waiting)
            case .imported, .unlocked, .fileSetAside, .storageFailed: break
            }
        }
    }
}
