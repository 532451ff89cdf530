public import Foundation

/// Shows the app's user to an extension or a widget. The reader reads the files in the app group's folder. It uses no network
/// and no lock, and changes no file of the app. Each property reads the folder again.
public struct OnymReader: Sendable {
    private let files: any FileStore
    private let time: any TimeSource
    /// The check that answers about access have to pass; nil if they count without a proof.
    private let check: AnswerCheck?

    /// Opens the folder of the app's configuration. Where the configuration has ``Configuration/accessRoot``, only answers
    /// that the project's server has signed give access.
    public init(_ configuration: Configuration) throws(OnymError) {
        let folder = try configuration.appGroup.map { (group) throws(OnymError) in try OnymReader.folder(of: group) }
        try self.init(folder: folder ?? configuration.folder, configuration)
    }

    /// Opens the folder of an app group, which the app sets in ``Configuration/appGroup``. This reader checks no signatures.
    public init(appGroup: String) throws(OnymError) {
        try self.init(folder: try OnymReader.folder(of: appGroup), nil)
    }

    /// Opens a folder, which the app sets in ``Configuration/folder``. This reader checks no signatures.
    public init(folder: URL) throws(OnymError) { try self.init(folder: folder, nil) }

    private init(folder: URL, _ configuration: Configuration?) throws(OnymError) {
        do throws(FileFault) {
            self.init(files: try DiskFiles(folder: folder), time: SystemTime(), configuration)
        } catch {
            throw .storage(error.reason)
        }
    }

    package init(files: any FileStore, time: any TimeSource, _ configuration: Configuration? = nil) {
        (self.files, self.time) = (files, time)
        guard let configuration, configuration.accessVerification == .required else {
            check = nil
            return
        }
        let keys = configuration.keys.compactMap { if case .entitlements(let key) = $0 { key } else { nil } }
        // A reader asks nothing, so it needs no nonce.
        check = AnswerCheck(configuration, key: keys.first ?? "", files: ReadOnlyFiles(files)) { [] }
    }

    private static func folder(of group: String) throws(OnymError) -> URL {
        guard let folder = Folders.ofGroup(group) else {
            throw .storage("there is no right to the app group \(group)")
        }
        return folder
    }

    // MARK: - Who it is

    /// The current user of the IDSync dialect; nil without a user, or if the files cannot be read.
    public var user: User? { read { (files) throws(FileFault) in try IDSyncClient.kept(in: files) }?.user }

    /// The user of the next event, in the Claim dialect.
    public var claimUser: String? { read { (files) throws(FileFault) in try ClaimClient.kept(in: files) }?.owner }

    /// The user, as the shops know the user.
    public var accessUser: AccessUser? {
        read { (files) throws(FileFault) in try EntitlementsClient.kept(in: files, at: now, by: check) }?.user
    }

    /// The user's entitlements by name: the last answer, without expired entitlements.
    public var access: [String: Entitlement] {
        read { (files) throws(FileFault) in try EntitlementsClient.kept(in: files, at: now, by: check) }?.list ?? [:]
    }

    private var now: Date {
        let clock = ServerClock(ReadOnlyFiles(files), file: check == nil ? "clock" : ServerClock.ofAccess)
        return time.now.addingTimeInterval(clock.correction)
    }

    /// The app may remove a file after the reader has found its name: the next try finds the newer file.
    private func read<Value>(_ body: (ReadOnlyFiles) throws(FileFault) -> Value?) -> Value? {
        for _ in 0..<3 {
            do throws(FileFault) { return try body(ReadOnlyFiles(files)) } catch { continue }
        }
        return nil
    }

    // MARK: - What happens

    /// The greatest number of events that wait for the app.
    package static let eventLimit = 200

    /// Whether a file contains an event that waits for the app.
    package static func isNote(_ name: String) -> Bool { NoteOfReader.isName(name) }

    /// Keeps an event of the present user in a file of its own. The app imports the file when it starts or comes to the
    /// foreground.
    /// - Throws: `refused` if the event is too large or two hundred events wait already, `storage` if the event cannot be
    ///   kept.
    public func log(_ event: Event) throws(OnymError) {
        let body = event.body
        guard body.count <= Event.bytes else {
            throw .refused(.invalid("an event has at most \(Event.bytes) bytes"))
        }
        let idsync = read { (files) throws(FileFault) in try IDSyncClient.kept(in: files) }
        let claim = read { (files) throws(FileFault) in try ClaimClient.kept(in: files) }
        if idsync?.isOut == true || claim?.isOut == true { return }
        let note: JSON = .sparse([
            "t": .integer(time.now.milliseconds), "e": JSON(body) ?? .null, "m": .optional(idsync?.owner),
            "u": .optional(claim?.owner),
        ])
        let hasRoom: Bool
        do throws(FileFault) {
            hasRoom = try files.names().count(where: NoteOfReader.isName) < OnymReader.eventLimit
            if hasRoom { try NoteOfReader.write(note, to: files) }
        } catch {
            throw .storage(error.reason)
        }
        if !hasRoom { throw .refused(.invalid("\(OnymReader.eventLimit) events wait for the app already")) }
    }

    /// Keeps an event of the present user.
    public func log(_ name: String, _ attributes: [String: JSON] = [:]) throws(OnymError) {
        try log(Event(name, attributes: attributes))
    }
}

/// Files that another process writes.
struct ReadOnlyFiles: FileStore {
    private let files: any FileStore

    init(_ files: any FileStore) { self.files = files }

    func names() throws(FileFault) -> [String] { try files.names() }
    func read(_ name: String) throws(FileFault) -> [UInt8] { try files.read(name) }
    func read(_ name: String, from place: Int, count: Int) throws(FileFault) -> [UInt8] {
        try files.read(name, from: place, count: count)
    }
    func append(_ bytes: [UInt8], to name: String) throws(FileFault) {}
    func sync(_ name: String) throws(FileFault) {}
    func rename(_ name: String, to other: String) throws(FileFault) {}
    func remove(_ name: String) throws(FileFault) {}
}

/// An event that an extension has left for the app, in a file of its own: `reader-<uuid>.json`.
struct NoteOfReader {
    let name: String
    let time: Int64
    private(set) var event: Event
    /// The user of the IDSync dialect, as a letter names its owner; nil if the dialect had no state.
    let user: String?
    /// The user of the Claim dialect.
    let claimUser: String?

    private static let prefix = "reader-"
    private static let suffix = ".json"

    static func isName(_ name: String) -> Bool { name.hasPrefix(prefix) && name.hasSuffix(suffix) }

    /// Writes a note. The file gets its name last, so a file with this name is complete.
    static func write(_ note: JSON, to files: any FileStore) throws(FileFault) {
        let name = "\(prefix)\(UUID().uuidString)"
        do throws(FileFault) {
            try files.append(note.bytes, to: "\(name).new")
            try files.rename("\(name).new", to: "\(name)\(suffix)")
        } catch {
            try? files.remove("\(name).new")
            throw error
        }
    }

    private init?(_ name: String, _ bytes: [UInt8]) {
        guard let note = JSON(bytes), let time = note["t"]?.integer, let event = Event(kept: note["e"]) else {
            return nil
        }
        (self.name, self.time, self.event) = (name, time, event)
        (user, claimUser) = (note["m"]?.text, note["u"]?.text)
    }

    /// All notes, the oldest first. Unreadable notes are removed.
    static func all(in files: any FileStore) throws(FileFault) -> [NoteOfReader] {
        var notes: [NoteOfReader] = []
        for name in try files.names() where isName(name) {
            if let note = NoteOfReader(name, try files.read(name)) {
                notes.append(note)
            } else {
                try files.remove(name)
            }
        }
        return notes.sorted { ($0.time, $0.name) < ($1.time, $1.name) }
    }
}

extension Clients {
    /// Imports events that extensions have left, and removes their files. If the process ends in between, the next process imports
    /// the rest. No event is imported twice: each letter names the note that it was made of, and another thread's notes have no
    /// file any more.
    func take(_ notes: [NoteOfReader], of all: Set<String>, _ files: any FileStore) throws(FileFault) {
        let left = all.intersection(try files.names())
        let (known, claimed) = (try idsync?.notesOfReader ?? [], try claim?.notesOfReader ?? [])
        for note in notes where left.contains(note.name) {
            if takesEventsOfPeople, !known.contains(note.name) { idsync?.take(note) }
            if !claimed.contains(note.name) { claim?.take(note) }
            try files.remove(note.name)
        }
        for name in left.subtracting(notes.map(\.name)) { try files.remove(name) }
    }

    /// Removes the events that extensions have left.
    func forgetNotes(_ runtime: Runtime) {
        for name in (try? runtime.files.names()) ?? [] where NoteOfReader.isName(name) {
            try? runtime.files.remove(name)
        }
    }
}

extension DialectClient {
    /// The notes of which the waiting letters were made.
    fileprivate var notesOfReader: Set<String> {
        get throws(FileFault) {
            try enter { () throws(FileFault) in
                Set(try mailbox.contents(of: mailbox.letters).compactMap { $0?["f"]?.text })
            }
        }
    }
}

extension NoteOfReader {
    /// The note with a changed event.
    func with(_ event: Event) -> NoteOfReader {
        var note = self
        note.event = event
        return note
    }

    /// The event in the form of a letter.
    var body: [UInt8] {
        var bytes = event.body
        bytes.removeLast()
        bytes += ",\"f\":".utf8
        JSON.write(name, to: &bytes)
        bytes.append(UInt8(ascii: "}"))
        return bytes
    }
}
