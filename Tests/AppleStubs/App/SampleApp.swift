import Foundation
import Onym
import SwiftUI

// An app as docs/sdk.md wants it. It is type-checked, and never run.

@main
struct SampleApp: App {
    @StateObject private var model = SampleApp.makeModel()

    private static func makeModel() -> OnymModel {
        let endpoint = URL(string: "https://id.example.com") ?? URL(fileURLWithPath: "/")
        var configuration = Configuration(
            endpoint: endpoint,
            keys: [
                .idSync(key: "key", secret: "secret"), .claim(key: "owl_client_key", bundleID: "com.example.app"),
                .entitlements(key: "key"), .linking(appID: nil, secret: nil),
            ])
        configuration.keepsakes = KeychainKeepsakes(accessGroup: "TEAM.com.example")
        configuration.imports = [.mParticle, .qonversion(suite: nil), .owlmetry]
        configuration.allowsConstrained = false
        do {
            return OnymModel(try OnymClient(configuration))
        } catch {
            fatalError(error.description)
        }
    }

    var body: some Scene {
        WindowGroup {
            Home().environmentObject(model).environment(model)
        }
    }
}

/// A view of iOS 15: the model is an observable object.
struct Home: View {
    @EnvironmentObject private var model: OnymModel
    @StateObject private var cashier = Cashier()

    var body: some View {
        VStack {
            Text(model.user?.id.description ?? "nobody")
            if let deactivation = model.deactivation {
                Text(deactivation.reason)
            } else if model.access["plus"]?.isActive == true {
                Text("Plus")
            } else {
                Button("Buy Plus") { cashier.buy("plus.year", model.onym) }
            }
            Profile()
        }
        .onymScreen("Home")
    }
}

/// A view of iOS 17: the model is observable.
struct Profile: View {
    @Environment(OnymModel.self) private var model

    var body: some View {
        if model.isLoggedIn {
            Button("Sign out") { model.onym.logout() }
        } else {
            Text("Welcome").task { _ = try? await model.onym.login("4711", email: "ada@example.com") }
        }
    }
}

/// A view model, whose completions are on the main actor as they are.
@MainActor
final class Cashier: ObservableObject {
    @Published private(set) var message = ""

    func buy(_ product: String, _ onym: OnymClient) {
        Task {
            do {
                guard let offer = try await onym.access.products([product]).first else { return }
                switch try await onym.access.buy(offer) {
                case .bought(let access): message = access.keys.joined(separator: ", ")
                case .pending: message = "Waiting for approval"
                case .cancelled: message = ""
                }
            } catch {
                message = "\(error)"
            }
        }
    }

    func signIn(_ onym: OnymClient) {
        onym.identity.login(IdentityRequest([.customerID: "4711"])) { result in
            if case .success(let result) = result { self.message = "\(result.user.id)" }
        }
    }
}

extension Cashier: OnymDelegate {}
