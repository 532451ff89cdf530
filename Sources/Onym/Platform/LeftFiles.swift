/// The files that an instance has left in its store, because the server did not get all of them before the app went on to other keys. They
/// have a prefix with a number there, and another instance sends them.
package final class LeftFiles: FileStore {
    private let store: any FileStore
    /// The number of those who left, in their order.
    private let number: Int
    private var prefix: String { "\(LeftFiles.prefix)\(number)-" }

    private static let prefix = "left-"
    /// The name of the note that says whose files they are.
    private static let note = "note"

    private init(_ store: any FileStore, _ number: Int) { (self.store, self.number) = (store, number) }

    /// Whether the name of a file says that it was left.
    static func isLeft(_ name: String) -> Bool { name.hasPrefix(prefix) }

    /// All that instances have left in a store, the first who left first.
    package static func all(in store: any FileStore) throws(FileFault) -> [LeftFiles] {
        let numbers = try store.names().filter(isLeft)
            .compactMap { $0.dropFirst(prefix.count).split(separator: "-").first.flatMap { Int($0) } }
        return Set(numbers).sorted().map { LeftFiles(store, $0) }
    }

    /// Leaves the files of a store. After a fault, the next call goes on; after an end of the process, ``finish(in:)`` does.
    package static func leave(_ note: [UInt8], in store: any FileStore) throws(FileFault) {
        let last = try all(in: store).last
        if let last, try last.isMoving() { return try last.take() }
        let left = LeftFiles(store, (last?.number ?? 0) + 1)
        // The note is whole before a file moves.
        try left.append(note, to: "new")
        try left.sync("new")
        try left.rename("new", to: LeftFiles.note)
        try left.take()
    }

    /// Moves what an ended process did not move any more, and removes what it did not remove.
    package static func finish(in store: any FileStore) throws(FileFault) {
        for left in try all(in: store) {
            if try left.isMoving() {
                try left.take()
            } else if try !left.names().contains(note) {
                try left.remove()
            }
        }
    }

    /// Whether files have still to move: the note is the first here, and the marker the last.
    private func isMoving() throws(FileFault) -> Bool {
        let names = try self.names()
        return names.contains(LeftFiles.note) && !names.contains(Runtime.marker)
    }

    /// Takes the files of the store. The marker is the last: with it, all have moved.
    private func take() throws(FileFault) {
        let names = try store.names().filter { !LeftFiles.isLeft($0) }
        for name in names where name != Runtime.marker { try store.rename(name, to: prefix + name) }
        if names.contains(Runtime.marker) {
            try store.rename(Runtime.marker, to: prefix + Runtime.marker)
        } else {
            try append(Array("1\n".utf8), to: Runtime.marker)
        }
    }

    /// The note of who left.
    package func note() throws(FileFault) -> [UInt8] { try read(LeftFiles.note) }

    /// Removes the files.
    package func remove() throws(FileFault) {
        // Without its note, nobody opens the rest, and the next start removes it.
        try remove(LeftFiles.note)
        for name in try names() { try remove(name) }
    }

    package func names() throws(FileFault) -> [String] {
        try store.names().filter { $0.hasPrefix(prefix) }.map { String($0.dropFirst(prefix.count)) }
    }

    package func read(_ name: String) throws(FileFault) -> [UInt8] { try store.read(prefix + name) }
    package func read(_ name: String, from place: Int, count: Int) throws(FileFault) -> [UInt8] {
        try store.read(prefix + name, from: place, count: count)
    }
    package func append(_ bytes: [UInt8], to name: String) throws(FileFault) {
        try store.append(bytes, to: prefix + name)
    }
    package func sync(_ name: String) throws(FileFault) { try store.sync(prefix + name) }
    package func rename(_ name: String, to other: String) throws(FileFault) {
        try store.rename(prefix + name, to: prefix + other)
    }
    package func remove(_ name: String) throws(FileFault) { try store.remove(prefix + name) }
    package func lock(_ name: String) throws(FileFault) { try store.lock(prefix + name) }
    package func unlock(_ name: String) { store.unlock(prefix + name) }
}
