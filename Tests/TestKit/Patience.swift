package import Domain
import Glibc

/// How long a test waits for what is to come. It is long, because the machine may have much else to do; only what never comes
/// costs it.
package enum Patience {
    package static let milliseconds = 60_000
    package static let seconds = 60

    /// Looks again and again until something is so; answers whether it was, in time.
    @discardableResult
    package static func until(milliseconds: Int = milliseconds, _ isSo: () throws -> Bool) rethrows -> Bool {
        let end = ContinuousClock.now + .milliseconds(milliseconds)
        while ContinuousClock.now < end {
            if try isSo() { return true }
            usleep(5000)
        }
        return try isSo()
    }
}

extension ReadLimit {
    /// For a reading that a mistake may have go on for ever.
    package static func lasting(milliseconds: Int) -> ReadLimit {
        let end = ContinuousClock.now + .milliseconds(milliseconds)
        return ReadLimit { ContinuousClock.now > end }
    }
}
