import Foundation
import SENTSDK
import Testing

/// Lines of an ordinary app, with the import line that it always had.
private enum App {
    static func launch() -> Bool {
        let options = SENTOptions(for: .appLaunch)
        let result = Sentiance.shared.initialize(options: options, launchOptions: nil)
        if Sentiance.shared.userExists {
            Sentiance.shared.enableDetections { result, error in
                if let status = result?.detectionStatus { _ = status == .enabledAndDetecting }
                if error?.failureReason == .noUser { return }
            }
        }
        switch Sentiance.shared.initState {
        case .notInitialized, .inProgress, .initialized, .resetting: break
        @unknown default: break
        }
        return result.isSuccessful
    }

    static func create(_ code: String) {
        let options = SENTUserCreationOptions(authenticationCode: code)
        Sentiance.shared.createUser(options: options) { result, error in
            if let result { _ = result.userInfo.userId } else { _ = error?.failureReason }
        }
        _ = Sentiance.shared.sdkStatus.locationPermission == SENTLocationPermission.never
    }
}

@Suite("An app with Sentiance's import")
struct AppTests {
    @Test("compiles, and knows no user before the start")
    func compiles() {
        #expect(!Sentiance().userExists)
    }
}
