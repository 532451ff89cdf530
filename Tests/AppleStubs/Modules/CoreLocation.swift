// The names are those of Apple, without Apple's comments.
// swift-format-ignore-file

import AppleFoundation

public enum CLAuthorizationStatus: Int32, @unchecked Sendable {
    case notDetermined, restricted, denied, authorizedAlways, authorizedWhenInUse
}

open class CLLocationManager: NSObject {
    open var authorizationStatus: CLAuthorizationStatus { .notDetermined }
}
