import Foundation
import OnymSentiance

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

// An app that was written for Sentiance, and its back end: one user, one active device.
//
//     swift run example-linking http://127.0.0.1:8080 <API key of the back end>

let words = CommandLine.arguments
guard words.count == 3, let endpoint = URL(string: words[1]) else {
    print("usage: example-linking <endpoint> <api key>")
    exit(2)
}

/// What the app's back end does: it alone has the key, and knows who the user is.
func authenticationCode() async throws -> String {
    var request = URLRequest(url: endpoint.appending(path: "users/auth-code"))
    request.httpMethod = "POST"
    request.setValue("Bearer \(words[2])", forHTTPHeaderField: "Authorization")
    request.setValue("application/json", forHTTPHeaderField: "Content-Type")
    request.httpBody = Data(#"{"external_id":"example-user"}"#.utf8)
    let (body, _) = try await URLSession.shared.data(for: request)
    let answer = try JSONSerialization.jsonObject(with: body) as? [String: String]
    return answer?["authentication_code"] ?? ""
}

func createUser(_ device: Sentiance) async throws -> String {
    let options = SENTUserCreationOptions(authenticationCode: try await authenticationCode())
    return await withCheckedContinuation { continuation in
        device.createUser(options: options) { result, error in
            let text = result.map { "user of \($0.userInfo.userId.count) digits" }
            continuation.resume(returning: text ?? "failed: \(error.map { "\($0.failureReason)" } ?? "")")
        }
    }
}

func enableDetections(_ device: Sentiance) async -> String {
    await withCheckedContinuation { continuation in
        device.enableDetections { result, error in
            let text = result.map { "\($0.detectionStatus)" }
            continuation.resume(returning: text ?? "failed: \(error.map { "\($0.failureReason)" } ?? "")")
        }
    }
}

func device(_ name: String) -> Sentiance {
    let options = SENTOptions()
    options.platformUrl = words[1]
    options.configure = {
        $0.folder = FileManager.default.temporaryDirectory.appending(path: "onym-example-\(UUID().uuidString)")
    }
    let device = Sentiance()
    print("\(name) starts: \(device.initialize(options: options).isSuccessful)")
    return device
}

let first = device("first phone")
print("first phone: \(try await createUser(first))")
print("first phone again: \(try await createUser(first))")
print("first phone detects: \(await enableDetections(first))")
let second = device("second phone")
print("second phone: \(try await createUser(second))")
print("the same user: \(first.userId == second.userId)")
let status = await withCheckedContinuation { continuation in
    first.refreshStatus { continuation.resume(returning: $0) }
}
print("first phone is active: \(status.isRemoteEnabled), \(status.deactivation?.reason ?? "no reason")")
print("first phone detects: \(status.detectionStatus)")
let reset = await withCheckedContinuation { continuation in
    first.reset { result, _ in continuation.resume(returning: result != nil) }
}
print("first phone forgets: \(reset), a user is there: \(first.userExists)")
