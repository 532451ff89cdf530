import Onym

/// The settings for the vendor's older form of start.
public final class SENTConfig {
    fileprivate let options: SENTUserCreationOptions

    /// - Parameter link: links the install to the app's own user; nil for a user that stays unlinked.
    public init(appId: String, secret: String, link: MetaUserLinker?) {
        options = SENTUserCreationOptions(appId: appId, secret: secret, linker: link)
    }
}

extension OnymError {
    /// The issue that the vendor's SDK would report for this failure: a fault of the app, or of something else.
    fileprivate var startIssue: SENTInitIssue {
        if case .http = self { .invalidCredentials } else { .serviceUnreachable }
    }
}

extension Sentiance {
    /// Starts the SDK in the vendor's older form: it also creates a user, if no user exists. Ends with `linkFailed` if the
    /// app's own part did not link the user; the next try gives the linker the same install.
    public func initWithConfig(
        _ config: SENTConfig, success: @escaping () -> Void, failure: @escaping (SENTInitIssue) -> Void
    ) {
        let (success, failure) = (Handover(success), Handover(failure))
        if userExists { return call { success.value() } }
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
