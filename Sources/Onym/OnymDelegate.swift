/// A receiver of notices, on the main actor: a view model, for example. All methods are optional.
@MainActor
public protocol OnymDelegate: AnyObject, Sendable {
    /// The current user of a dialect has changed.
    func onym(_ onym: OnymClient, didChangeUserFrom old: String?, to new: String?, in dialect: Dialect)
    /// The server has disabled the user on this device.
    func onym(_ onym: OnymClient, didDeactivate deactivation: Deactivation)
    /// The server lets the user work on this device again.
    func onymDidReactivate(_ onym: OnymClient)
    /// The user's entitlements have changed.
    func onymDidChangeAccess(_ onym: OnymClient)
    /// Some waiting letters will never be sent.
    func onym(_ onym: OnymClient, didDrop count: Int, _ reason: DropReason)
    /// The server refuses to take the waiting letters now; they go on waiting.
    func onym(_ onym: OnymClient, isHeldBy error: OnymError, waiting: Int)
}

extension OnymDelegate {
    /// Does nothing.
    public func onym(_ onym: OnymClient, didChangeUserFrom old: String?, to new: String?, in dialect: Dialect) {}
    /// Does nothing.
    public func onym(_ onym: OnymClient, didDeactivate deactivation: Deactivation) {}
    /// Does nothing.
    public func onymDidReactivate(_ onym: OnymClient) {}
    /// Does nothing.
    public func onymDidChangeAccess(_ onym: OnymClient) {}
    /// Does nothing.
    public func onym(_ onym: OnymClient, didDrop count: Int, _ reason: DropReason) {}
    /// Does nothing.
    public func onym(_ onym: OnymClient, isHeldBy error: OnymError, waiting: Int) {}
}

extension OnymClient {
    /// Calls a delegate with each notice, as long as both objects exist. Answers a function that removes the delegate.
    @discardableResult
    public func addDelegate(_ delegate: any OnymDelegate) -> @Sendable () -> Void {
        let tell = onMain { [weak self, weak delegate] (notice: Notice) in
            guard let self, let delegate else { return }
            switch notice {
            case .userChanged(let dialect, let old, let new):
                delegate.onym(self, didChangeUserFrom: old, to: new, in: dialect)
            case .deactivated(let deactivation): delegate.onym(self, didDeactivate: deactivation)
            case .reactivated: delegate.onymDidReactivate(self)
            case .accessChanged: delegate.onymDidChangeAccess(self)
            case .dropped(let count, let reason): delegate.onym(self, didDrop: count, reason)
            case .held(let error, let waiting): delegate.onym(self, isHeldBy: error, waiting: waiting)
            case .purchaseReported, .untrusted, .imported, .unlocked, .fileSetAside, .storageFailed: break
            }
        }
        return observe(tell)
    }
}
