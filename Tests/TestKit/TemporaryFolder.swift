import Foundation

/// A folder that is there as long as the object is.
package final class TemporaryFolder: Sendable {
    package let path: String

    package init() {
        let url = FileManager.default.temporaryDirectory.appending(path: "onym-test-\(UUID().uuidString)")
        path = url.path()
        do {
            try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
        } catch {
            preconditionFailure("There is no room for a temporary folder: \(error).")
        }
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    /// The names of what is in the folder.
    package var names: [String] {
        ((try? FileManager.default.contentsOfDirectory(atPath: path)) ?? []).sorted()
    }
}
