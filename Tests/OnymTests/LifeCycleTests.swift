import ClientKit
import Foundation
import Onym
import Testing

@Suite("An app that comes and goes")
struct LifeCycleTests {
    private static let names: [Notification.Name: LifeCyclePhase] = [
        Notification.Name("gone"): .background, Notification.Name("back"): .foreground,
        Notification.Name("over"): .termination,
    ]

    private final class Scene: @unchecked Sendable {
        let center = NotificationCenter()
        let bench: Bench
        /// How often the app was kept awake, and how often that has ended.
        let begun = Collector<Int>()
        let ended = Collector<Int>()

        init(configure: (inout Configuration) -> Void = { _ in }) {
            let (begun, ended) = (begun, ended)
            let cycle = NotifiedLifeCycle(LifeCycleTests.names, center: center) { body in
                begun.callback(0)
                body { ended.callback(0) }
            }
            bench = Bench(.idSync(key: "k", secret: nil), .claim(key: "owl_client_k", bundleID: "b")) {
                $0.lifeCycle = cycle
                configure(&$0)
            }
        }

        func post(_ name: String) {
            center.post(name: Notification.Name(name), object: nil)
            bench.settle()
        }
    }

    private func names(_ request: HTTPRequest?) -> [String] {
        request?.json["events"]?.elements?.compactMap { $0["message"]?.text } ?? []
    }

    private let taken: ScriptedTransport.Answer = .json(200, ["accepted": 1, "rejected": 0])

    @Test("sends what waits when it goes out of sight, and may be suspended when that is done")
    func background() {
        let scene = Scene()
        scene.bench.onym.log("a")
        scene.post("gone")
        #expect(scene.begun.values.count == 1 && scene.ended.values.isEmpty)
        #expect(names(scene.bench.answer(taken)) == ["a", "sdk:app_backgrounded"])
        #expect(scene.ended.values.count == 1 && scene.bench.onym.claim?.mailbox.count == 0)
        scene.post("back")
        #expect(names(scene.bench.answer(taken)) == ["sdk:app_foregrounded"])
    }

    @Test("is not kept awake by what cannot be sent, and tries again when it is back")
    func offline() {
        let scene = Scene()
        scene.bench.onym.log("a")
        scene.post("gone")
        scene.bench.answer(.fault(.offline))
        #expect(scene.ended.values.count == 1)
        scene.post("back")
        #expect(names(scene.bench.transport.open.first) == ["a", "sdk:app_backgrounded", "sdk:app_foregrounded"])
    }

    @Test("sends nothing if it is not wanted, nor after its end")
    func unwanted() {
        let scene = Scene { $0.flushesInBackground = false }
        scene.bench.onym.log("a")
        scene.post("gone")
        scene.post("over")
        #expect(scene.bench.transport.requests.isEmpty && scene.ended.values.count == 1)
        scene.bench.onym.close()
        scene.post("gone")
        #expect(scene.begun.values.count == 1)
    }
}
