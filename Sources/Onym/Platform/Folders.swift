package import Foundation

/// The places of an app's files.
package enum Folders {
    /// The app's own folder: two apps of one person on a Mac must not share a folder.
    static var ofApp: URL { ofApp(Bundle.main.bundleIdentifier ?? ProcessInfo.processInfo.processName, in: base) }

    package static func ofApp(_ id: String, in base: URL) -> URL {
        base.appendingPathComponent(id).appendingPathComponent("Onym")
    }

    /// The folder of former versions, which all apps of a Mac shared.
    static var former: URL { base.appendingPathComponent("Onym") }

    private static var base: URL {
        #if os(tvOS)
            // tvOS has no Application Support folder that an app can write to.
            let place = FileManager.SearchPathDirectory.cachesDirectory
        #else
            let place = FileManager.SearchPathDirectory.applicationSupportDirectory
        #endif
        return FileManager.default.urls(for: place, in: .userDomainMask).first ?? FileManager.default.temporaryDirectory
    }

    /// The folder of an app group; nil if the app has no right to the group, or if the platform has no groups.
    static func ofGroup(_ group: String) -> URL? {
        #if canImport(Darwin)
            FileManager.default.containerURL(forSecurityApplicationGroupIdentifier: group)?
                .appendingPathComponent("Onym")
        #else
            nil
        #endif
    }

    /// The folder that an instance uses, after the files of the other places have moved there.
    /// - Parameters:
    ///   - shared: the folder of the app group; nil without a group.
    ///   - folder: the app's own folder, with the files from before the app had the group.
    ///   - former: the folder of former versions; nil if the app has chosen its folder.
    package static func gather(in shared: URL?, from folder: URL, _ former: URL?) throws(FileFault) -> URL {
        var place = folder
        if let shared { place = try move(folder, to: shared) }
        if let former { place = try move(former, to: place) }
        return place
    }

    /// Moves a former folder to its new place, if nothing is there yet. Answers the folder to use: the former folder, if it
    /// cannot be moved.
    /// - Throws: if only a part was moved. The next start moves the rest.
    package static func move(_ former: URL, to folder: URL) throws(FileFault) -> URL {
        let manager = FileManager.default
        let isThere = manager.fileExists(atPath: folder.appendingPathComponent(Runtime.marker).path)
        guard !isThere, manager.fileExists(atPath: former.appendingPathComponent(Runtime.marker).path) else {
            return folder
        }
        var hasMoved = false
        do {
            try manager.createDirectory(
                at: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
            // The marker moves last: if the process ends in between, the next process moves the rest.
            let names = try manager.contentsOfDirectory(atPath: former.path).filter { $0 != Runtime.marker }
            for name in names + [Runtime.marker] {
                let target = folder.appendingPathComponent(name)
                if manager.fileExists(atPath: target.path) { continue }
                try manager.moveItem(at: former.appendingPathComponent(name), to: target)
                hasMoved = true
            }
            return folder
        } catch {
            if hasMoved { throw FileFault("move \(former.path): \(error.localizedDescription)") }
            return former
        }
    }
}
