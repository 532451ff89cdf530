import ByteText
import CivilTime
import Copies
import Disk
import Domain
import Engine
import Gateway
import Glibc
import Invocation
import JSON
import StoreSQLite

/// `onym restore`: makes a store of a copy.
enum RestoreCommand: ProgramCommand {
    static let name = "restore"
    static let summary = "Makes a store of a copy, as it was at the end, after a call or at a moment."
    static let usage = """
        onym restore DIR|FILE.tar|- TO [--until SEQ|TIME] [--master-key FILE] [--json]

        TO is a folder that is empty or does not exist. --until names the last call, or a time such as
        2027-01-31T12:00:00Z. --master-key copies the file of the master keys; otherwise put it into TO as master.key.
        """
    static let operands = ["DIR", "TO"]
    static let valuedFlags = ["until", "master-key"]

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let (from, to) = (context.arguments.words[0], context.arguments.words[1])
        let until = try context.arguments["until"].map { text throws(CommandFault) in try self.until(text) } ?? .end
        guard Restore.takes(to) else { throw .failed("\(to) is not empty. A restore never overwrites a store.") }
        let key = try context.arguments["master-key"].map { path throws(CommandFault) in
            // The file may be a pipe, from a program that decrypts it.
            let isPrivate = (try? SystemDisk().status(of: path))?.isPrivate ?? true
            let text = try Files.bytes(path, orElse: "The master key \(path) cannot be read")
            return try MasterKeyFile.keys(text, isPrivate: isPrivate, of: path)
        }
        func restore(_ source: String) throws(CommandFault) -> Int32 {
            let restored = try Restore(from: source, to: to, until, masterKeys: key).run(context.terminal)
            report(restored, to, hasKey: key != nil, context)
            return 0
        }
        if from != "-", Files.isFolder(from) { return try restore(from) }
        return try Files.withFolder(beginning: "\(Files.absolute(to)).copy") { folder throws(CommandFault) in
            try unpack(from, to: folder)
            return try restore(folder)
        }
    }

    private static func until(_ text: String) throws(CommandFault) -> CopyReader.Until {
        if let sequence = Int64(text), sequence > 0 { return .call(sequence) }
        if let moment = ISO8601.parse(text.utf8.span) { return .moment(moment) }
        throw .usage("--until must be the number of a call, or a time such as 2027-01-31T12:00:00Z.")
    }

    private static func unpack(_ path: String, to folder: String) throws(CommandFault) {
        let descriptor = path == "-" ? STDIN_FILENO : unsafe open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else {
            throw .failed("\(path) cannot be opened: \(unsafe String(cString: strerror(errno))).")
        }
        defer { if path != "-" { close(descriptor) } }
        do throws(CopyFault) {
            try CopyTar.unpack(descriptor, to: folder)
        } catch {
            throw CommandFault(error)
        }
    }

    private static func report(
        _ restored: CopyReader.Restored, _ to: String, hasKey: Bool, _ context: CommandContext
    ) {
        let moment = String(decoding: ISO8601.format(millisecondsSince1970: restored.at), as: UTF8.self)
        if context.isForPrograms {
            var json = JSONWriter()
            json.object { json in
                json.key("to")
                json.string(to)
                json.key("seq")
                json.integer(restored.sequence)
                json.key("at")
                json.string(moment)
                json.key("last_seq")
                json.integer(restored.lastSequence)
            }
            context.terminal.result(String(decoding: json.bytes, as: UTF8.self))
            return
        }
        context.terminal.result("Restored into \(to), up to call \(restored.sequence) of \(moment).")
        if !hasKey {
            context.terminal.result("Put the master key of the store into \(to)/master.key, or set ONYM_MASTER_KEY.")
        }
    }
}

/// Makes a store of a folder of copies, and examines the store.
struct Restore {
    private let reader: CopyReader
    private let plan: CopyReader.Plan
    private let until: CopyReader.Until
    /// The folder of the result.
    private let target: String
    private let masterKeys: MasterKeyText?

    /// Checks all files of the copy.
    init(
        from source: String, to target: String, _ until: CopyReader.Until, masterKeys: MasterKeyText? = nil
    ) throws(CommandFault) {
        (self.until, self.target, self.masterKeys) = (until, target, masterKeys)
        do throws(CopyFault) {
            reader = try CopyReader(source)
            plan = try reader.plan(until)
        } catch {
            throw CommandFault(error)
        }
        let isWhole =
            switch until {
            case .end: plan.gap == nil
            case .call(let call): call <= plan.last
            case .moment: plan.gap == nil
            }
        guard isWhole else {
            throw .failed(
                "\(plan.gap ?? "The copies end with call \(plan.last).") "
                    + "Name --until \(plan.last) to restore everything up to this call.")
        }
    }

    /// Whether a store can be restored into a folder: if it is empty, or does not exist, or has only what a killed restore left.
    static func takes(_ target: String) -> Bool {
        guard let names = try? Files.names(in: target), !names.isEmpty else { return true }
        let left = Files.leftFolders(beginning: place(in: target))
        // The file of the store is moved last.
        return !left.isEmpty
            && names.allSatisfy { movedBefore.contains($0) || left.contains("\(target)/\($0)") }
    }

    /// What a restore moves to the target before the file of the store.
    private static let movedBefore: Set = ["attachments", "master.key", "onym.head", "onym.lock"]

    /// Removes what a restore has left that was killed when its store was whole.
    static func removeLeft(in target: String) {
        for folder in Files.leftFolders(beginning: place(in: target)) { Files.removeFolder(folder) }
    }

    /// The beginning of the path of the folder in which the store is made.
    private static func place(in target: String) -> String { "\(target)/restore" }

    /// Makes the store in a folder inside the target, and moves its files when they are complete. After a fault the target is as it
    /// was before.
    ///
    /// - Parameters:
    ///   - notes: whether to journal that later calls may be gone.
    ///   - terminal: the terminal for findings.
    func run(notes: Bool = true, _ terminal: Terminal) throws(CommandFault) -> CopyReader.Restored {
        let isNew = !Files.exists(target)
        try DataFolder(path: target).make()
        do throws(CommandFault) {
            return try Files.withFolder(beginning: Restore.place(in: target)) { place throws(CommandFault) in
                let folder = DataFolder(path: place)
                let restored = try fill(folder, terminal)
                try checkLast(restored, in: folder)
                if notes, !restored.isClean { try note(restored, in: folder) } else { try makeHead(in: folder) }
                try checkKeys(in: folder)
                try examine(folder, terminal)
                try move(from: place)
                return restored
            }
        } catch {
            // A folder with files stays.
            if isNew { unsafe rmdir(target) }
            throw error
        }
    }

    private func fill(_ folder: DataFolder, _ terminal: Terminal) throws(CommandFault) -> CopyReader.Restored {
        let restored: CopyReader.Restored
        do throws(CopyFault) {
            restored = try reader.restore(plan, to: folder.store.path)
            for damaged in try reader.restoreAttachments(to: folder.attachments) {
                terminal.note("\(damaged) is damaged, and left out: its content is not that of its name.")
            }
        } catch {
            throw CommandFault(error)
        }
        if let masterKeys { try Files.writeNew(masterKeys.text, to: folder.masterKey.path) }
        return restored
    }

    /// Moves the files to the target. The file of the store is the last one, so a target without it has no store.
    private func move(from place: String) throws(CommandFault) {
        let file = "onym.db"
        let names = ((try? Files.names(in: place)) ?? []).filter { $0 != file } + [file]
        for name in names {
            // That of a killed restore.
            if name == "attachments" { Files.removeFolder("\(target)/\(name)") }
            guard unsafe rename("\(place)/\(name)", "\(target)/\(name)") == 0 else {
                throw .failed("\(target)/\(name) cannot be made: \(unsafe String(cString: strerror(errno))).")
            }
        }
        let descriptor = unsafe open(target, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        defer { close(descriptor) }
        guard fsync(descriptor) == 0 else {
            throw .failed("\(target) cannot be written: \(unsafe String(cString: strerror(errno))).")
        }
    }

    /// Refuses keys without the newest one of a project, with which its secrets are sealed. The copies name the key of their beginning
    /// only.
    private func checkKeys(in folder: DataFolder) throws(CommandFault) {
        guard let masterKeys else { return }
        let needed: Set<MasterKeyMark>
        do throws(StoreFault) {
            needed = try Doctor(folder.store) { _ in }.masterKeys(first: MasterKeyText.markName)
        } catch {
            throw CommandFault(error)
        }
        guard needed.isSubset(of: masterKeys.marks) else {
            throw .failed("The store was made with another master key.")
        }
    }

    /// Refuses a store whose journal does not end with the call that the copies name.
    private func checkLast(_ restored: CopyReader.Restored, in folder: DataFolder) throws(CommandFault) {
        let last: Int64
        do throws(StoreFault) {
            last = try folder.store.lastSequence()
        } catch {
            throw CommandFault(error)
        }
        guard last == restored.sequence else {
            throw .failed(
                "The restored store ends with call \(last), but the copies say call \(restored.sequence): they do not belong "
                    + "together.")
        }
    }

    private func makeHead(in folder: DataFolder) throws(CommandFault) {
        do throws(StoreFault) {
            try folder.store.makeHead()
        } catch {
            throw CommandFault(error)
        }
    }

    /// Journals that later calls may be gone.
    private func note(_ restored: CopyReader.Restored, in folder: DataFolder) throws(CommandFault) {
        do throws(StoreFault) {
            let store = try SQLiteStore(folder.store)
            defer { store.close() }
            try store.noteRestored(lost: JournalSequence(rawValue: restored.lastSequence))
        } catch {
            throw CommandFault(error)
        }
    }

    private func examine(_ folder: DataFolder, _ terminal: Terminal) throws(CommandFault) {
        let findings: [Finding]
        do throws(StoreFault) {
            findings = try Doctor(folder.store, progress: { _ in }).examine()
        } catch {
            throw CommandFault(error)
        }
        for finding in findings { terminal.note("\(finding.code): \(finding.description)") }
        if !findings.allSatisfy(\.isWarning) { throw .failed("The restored store is damaged.") }
    }
}

extension SQLiteStore {
    /// Journals in each project that the store goes on without later calls, so that no new call gets the number of a lost one.
    ///
    /// - Parameter lost: the last call that is known to be lost.
    func noteRestored(lost: JournalSequence) throws(StoreFault) {
        let last = counts.lastSequence
        // A store without projects has no reader of its calls.
        if directory.projects.isEmpty { return }
        leaveOut(through: JournalSequence(rawValue: max(last, lost).rawValue + NoteRestored.leftOut))
        try note(NoteRestored(last: last), as: "restore")
    }

    /// Journals an act in each project.
    ///
    /// - Parameter request: the id of the calls.
    func note(_ act: some Act, as request: String) throws(StoreFault) {
        let jobs = directory.projects.keys.sorted { $0.rawValue < $1.rawValue }.map { project in
            var call = Call(project: project, key: nil)
            call.requestID = request
            return Job(call: call, act: act)
        }
        if jobs.isEmpty { return }
        let answers = Writer(store: self, chance: { 0 }).process(jobs, at: SystemClock.now())
        if case .failure(.fault(let fault)) = answers.first { throw fault }
    }
}
