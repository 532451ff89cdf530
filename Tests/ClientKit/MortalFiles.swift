package import Onym
package import OnymTesting

/// Files of a process that ends after some changes. The last change is a half one.
package final class MortalFiles: FileStore, @unchecked Sendable {
    package let files: MemoryFiles
    private var changesLeft: Int

    package init(_ files: MemoryFiles, changes: Int) { (self.files, changesLeft) = (files, changes) }

    private func change() throws(FileFault) {
        changesLeft -= 1
        if changesLeft < 0 { throw FileFault("the process has ended") }
    }

    package func names() throws(FileFault) -> [String] { files.names() }
    package func read(_ name: String) throws(FileFault) -> [UInt8] { try files.read(name) }
    package func read(_ name: String, from place: Int, count: Int) throws(FileFault) -> [UInt8] {
        try files.read(name, from: place, count: count)
    }
    package func append(_ bytes: [UInt8], to name: String) throws(FileFault) {
        if changesLeft == 0 { try files.append(Array(bytes.prefix(bytes.count / 2)), to: name) }
        try change()
        try files.append(bytes, to: name)
    }
    package func sync(_ name: String) throws(FileFault) {
        try change()
        files.sync(name)
    }
    package func rename(_ name: String, to other: String) throws(FileFault) {
        try change()
        files.rename(name, to: other)
    }
    package func remove(_ name: String) throws(FileFault) {
        try change()
        files.remove(name)
    }
}
