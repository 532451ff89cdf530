import Domain
import TestKit
import Testing

@Suite("What a webhook has not been told")
struct DeliveryTests {
    @Test("is tried again less and less often, and never less than every four hours")
    func pauses() {
        let pauses = (1...12).map { Delivery.pauseMilliseconds(afterAttempts: $0) / 1000 }
        #expect(pauses.prefix(8) == [5, 15, 45, 135, 405, 1215, 3645, 10_935])
        #expect(pauses.suffix(4).allSatisfy { $0 == 4 * 3600 })
        #expect(Delivery.pauseMilliseconds(afterAttempts: 0) == 5000)
        #expect(Delivery.pauseMilliseconds(afterAttempts: .max) == 4 * 3600 * 1000)
    }
}
