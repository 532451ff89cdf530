import Onym

/// What an app of the older kind starts with.
public final class SENTConfig {
    fileprivate let options: SENTUserCreationOptions

    /// - Parameter link: links the install with the app's own user; nil for a user that stays unlinked.
    public init(appId: String, secret: String, link: MetaUserLinker?) {
        options = SENTUserCreationOptions(appId: appId, secret: secret, linker: link)
    }
}

extension OnymError {
    /// What is the app's own fault, and what is not.
    fileprivate var startIssue: SENTInitIssue {
        if case .http = self { .invalidCredentials } else { .serviceUnreachable }
    }
}

extension Sentiance {
    /// Starts as apps of the older kind do: makes the user too, if there is none. Ends with `linkFailed` if the app's own part
    /// did not link it; the next try gives the linker the same install.
    public func initWithConfig(
        _ config: SENTConfig, success: @escaping () -> Void, failure: @escaping (SENTInitIssue) -> Void
    ) {
        if userExists { return success() }
        let (success, failure) = (Handover(success), Handover(failure))
        create(config.options) { result in
            switch result {
            case .success, .failure(.refused(.userExists)): success.value()
            case .failure(.refused(.appFailed)): failure.value(.linkFailed)
            case .failure(.refused(.resetting)): failure.value(.resetInProgress)
            case .failure(let error): failure.value(error.isPassing ? .serviceUnreachable : error.startIssue)
            }
        }
    }
}
