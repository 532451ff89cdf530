/// A fault of the device's storage.
public struct FileFault: Error, Hashable, Sendable {
    /// The cause, for people.
    public let reason: String
    /// Whether the files can be used only after the person has first unlocked the device since its start.
    public let isLocked: Bool

    /// Makes a fault.
    public init(_ reason: String, isLocked: Bool = false) { (self.reason, self.isLocked) = (reason, isLocked) }
}

/// Keeps files in one folder, by name. The default is ``DiskFiles``.
///
/// Appended bytes survive the end of the process as soon as `append` returns, and a loss of power as soon as `sync` returns.
public protocol FileStore: Sendable {
    /// The names of all files.
    func names() throws(FileFault) -> [String]
    /// Reads the whole content of a file.
    func read(_ name: String) throws(FileFault) -> [UInt8]
    /// Reads a part of a file; fewer bytes at the file's end.
    func read(_ name: String, from place: Int, count: Int) throws(FileFault) -> [UInt8]
    /// Appends bytes to a file, and makes the file if it does not exist. After a failure, a part of the bytes may be there.
    func append(_ bytes: [UInt8], to name: String) throws(FileFault)
    /// Waits until the whole file survives a loss of power.
    func sync(_ name: String) throws(FileFault)
    /// Renames a file, and replaces a file that has the new name.
    func rename(_ name: String, to other: String) throws(FileFault)
    /// Removes a file. A file that does not exist is no error.
    func remove(_ name: String) throws(FileFault)
    /// Takes ownership of a name, until ``unlock(_:)`` or until the process ends. Throws if another instance owns the name.
    func lock(_ name: String) throws(FileFault)
    /// Frees a name for other instances.
    func unlock(_ name: String)
}

extension FileStore {
    /// Does nothing: files that no other process can see need no lock.
    public func lock(_ name: String) throws(FileFault) {}
    /// Does nothing.
    public func unlock(_ name: String) {}
}
