import Foundation
import Onym

extension Qonversion {
    // swift-format-ignore: AlwaysUseLowerCamelCase
    /// The domain of errors.
    public static let ErrorDomain = "com.qonversion.io"

    /// The codes of errors. The raw values are the vendor's.
    public enum ErrorCode: Int, CaseIterable, Sendable {
        /// Another reason.
        case unknown = 0
        /// The person has canceled the purchase.
        case purchaseCanceled = 1
        /// The product does not exist.
        case productNotFound = 2
        /// The key is wrong.
        case unauthorizedRequestData = 12
        /// The device has no network, or the server does not answer.
        case networkConnectionFailed = 14
        /// Another person has to allow the purchase first.
        case purchasePending = 18
        /// The vendor's remote settings do not exist here.
        case remoteConfigurationNotAvailable = 19
        /// The server's answer cannot be read.
        case responseParsingFailed = 21
        /// The server refused the call.
        case incorrectRequest = 22
        /// The server failed.
        case backendError = 23
        /// The function does not exist here.
        case featureNotSupported = 29
        /// The server has had too many calls.
        case apiRateLimitExceeded = 35
        /// No offerings exist.
        case offeringsNotAvailable = 36

        /// The error of a code.
        func error(_ text: String, _ cause: OnymError? = nil) -> NSError {
            var info: [String: Any] = [NSLocalizedDescriptionKey: text]
            info[NSUnderlyingErrorKey] = cause
            return NSError(domain: Qonversion.ErrorDomain, code: rawValue, userInfo: info)
        }
    }
}

extension OnymError {
    private var code: Qonversion.ErrorCode {
        switch self {
        case .offline, .timeout, .tls, .connection, .untrusted: .networkConnectionFailed
        case .malformed: .responseParsingFailed
        case .http(let failure):
            switch failure.status {
            case 401, 403: .unauthorizedRequestData
            case 429: .apiRateLimitExceeded
            case 500...: .backendError
            default: .incorrectRequest
            }
        case .refused(.unavailable): .featureNotSupported
        case .refused, .storage, .dropped, .cancelled: .unknown
        }
    }

    /// The error in the vendor's form.
    var vendor: NSError { code.error(description, self) }
}
