/// A fault of the device's storage.
public struct FileFault: Error, Hashable, Sendable {
    /// What failed, for people.
    public let reason: String
    /// Whether the files cannot be used before somebody has unlocked the device for the first time after its start.
    public let isLocked: Bool

    /// Makes a fault.
    public init(_ reason: String, isLocked: Bool = false) { (self.reason, self.isLocked) = (reason, isLocked) }
}

/// Keeps files in one folder, by name. The default is ``DiskFiles``.
///
/// What was appended outlives the process as soon as `append` returns, and a loss of power as soon as `sync` has.
public protocol FileStore: Sendable {
    /// The names of all files.
    func names() throws(FileFault) -> [String]
    /// All of a file.
    func read(_ name: String) throws(FileFault) -> [UInt8]
    /// A part of a file, fewer bytes where it ends.
    func read(_ name: String, from place: Int, count: Int) throws(FileFault) -> [UInt8]
    /// Adds to a file, which it makes if there is none. When it fails, a part may have been added.
    func append(_ bytes: [UInt8], to name: String) throws(FileFault)
    /// Waits until all of a file is safe from a loss of power.
    func sync(_ name: String) throws(FileFault)
    /// Gives a file another name, in place of what had that.
    func rename(_ name: String, to other: String) throws(FileFault)
    /// Removes a file. That there is none is fine.
    func remove(_ name: String) throws(FileFault)
    /// Has what is kept under a name for one's own until ``unlock(_:)``, or the process, ends that. Throws if another has it.
    func lock(_ name: String) throws(FileFault)
    /// Lets others have what is kept under a name.
    func unlock(_ name: String)
}

extension FileStore {
    /// Files that nobody else can see need no lock.
    public func lock(_ name: String) throws(FileFault) {}
    /// Nothing.
    public func unlock(_ name: String) {}
}
