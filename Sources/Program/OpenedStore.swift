import CivilTime
import Crypto
import DialectIDSync
import Domain
import Engine
import Gateway
import Invocation
import StorePostgres
import StoreSQLite

/// A store that this process has open, and its master keys.
struct OpenedStore {
    let store: any Store
    let keys: MasterKeys
    let place: StorePlace
    /// The note about a move of the store; nil if the store is not moved.
    let move: StoreMove?
    /// The store and the mark of its newest master key, if the store is a file.
    let embedded: (store: SQLiteStore, masterKeyMark: [UInt8])?
    private let closing: () -> Void

    /// Opens the store in the data folder.
    ///
    /// - Parameters:
    ///   - folder: the data folder.
    ///   - masterKey: the master key of the settings; nil to read the folder's file.
    ///   - servesMoved: whether a store that was moved takes writes.
    ///   - acceptsLoss: whether to open a store that lacks its last calls.
    ///   - terminal: the terminal for the progress.
    init(
        in folder: DataFolder, masterKey: String?, servesMoved: Bool, acceptsLoss: Bool, _ terminal: Terminal
    ) throws(CommandFault) {
        let store = try folder.openStore(acceptsLoss: acceptsLoss, terminal)
        do throws(CommandFault) {
            keys = try OpenedStore.keys(
                try folder.masterKeys(setting: masterKey), setting: masterKey, in: folder, "\(folder.store.path)", store
            ) { mark throws(StoreFault) in
                try store.agree(on: mark, as: MasterKeyText.markName)
            }
            embedded = (store, keys.newest.mark.bytes)
            if let lost = store.lastLost {
                try OpenedStore.attempt { () throws(StoreFault) in try store.noteRestored(lost: lost) }
                try OpenedStore.attempt { () throws(StoreFault) in try store.acceptLoss() }
            }
            move = try OpenedStore.attempt { () throws(StoreFault) in try store.move() }
            if move != nil, !servesMoved { store.becomeReadOnly() }
        } catch {
            store.close()
            throw error
        }
        self.store = store
        place = StorePlace(kind: "sqlite", path: folder.store.path)
        closing = { store.close() }
    }

    /// The master keys of a store. Refuses keys without a key that the store uses for new secrets, because the store's secrets and
    /// tokens derive from the right keys. An older store without a mark keeps the mark of the first key that opens it.
    private static func keys(
        _ text: MasterKeyText, setting: String?, in folder: DataFolder, _ place: String, _ store: any Store,
        _ agree: ([UInt8]) throws(StoreFault) -> [UInt8]
    ) throws(CommandFault) -> MasterKeys {
        guard let newest = text.marks.last else { preconditionFailure("There is at least one key.") }
        let first = MasterKeyMark(try attempt { () throws(StoreFault) in try agree(newest.bytes) })
        let directory = store.directory
        let used =
            directory.projects.isEmpty
            ? [first] : Set(directory.projects.keys.map { directory.masterKeys(of: $0).newest ?? first })
        let missing = used.filter { !text.marks.contains($0) }
        if missing.isEmpty {
            let keys = MasterKeys(text.keys, first: first) {
                // A file that cannot be read leaves the server with the keys that it has.
                (try? folder.masterKeys(setting: setting).keys) ?? []
            }
            keys.watch { store.directory }
            return keys
        }
        let ids = missing.map(\.id).sorted().joined(separator: ", ")
        throw .unreadable(
            "The store in \(place) was made with another master key (\(ids)). All its servers need the same keys: "
                + "ONYM_MASTER_KEY, or a copy of master.key in \(folder.path).")
    }

    private static let newHash: @Sendable () -> Hash128 = { Hash128(random: SecureRandom.bytes(16)) }

    /// Opens the store in a database. Files of this process alone are still in the data folder.
    init(
        in database: PostgresSettings, _ folder: DataFolder, masterKey: String?
    ) throws(CommandFault) {
        try folder.make()
        let store = try OpenedStore.attempt { () throws(StoreFault) in
            try PostgresStore(database, newHashKey: OpenedStore.newHash(), newName: OpenedStore.newHash)
        }
        do throws(CommandFault) {
            let isNew = store.directory.projects.isEmpty
            let text =
                isNew ? try folder.makeMasterKeys(setting: masterKey) : try folder.masterKeys(setting: masterKey)
            // The keys derive secrets: a process with other keys would make secrets that the other processes refuse.
            keys = try OpenedStore.keys(text, setting: masterKey, in: folder, "the database", store) {
                mark throws(StoreFault) in
                try store.agree(on: mark, as: MasterKeyText.markName)
            }
        } catch {
            store.close()
            throw error
        }
        self.store = store
        place = StorePlace(kind: "postgres", path: nil)
        (move, embedded) = (nil, nil)
        closing = { store.close() }
    }

    func close() { closing() }

    private static func attempt<Result>(_ body: () throws(StoreFault) -> Result) throws(CommandFault) -> Result {
        do throws(StoreFault) {
            return try body()
        } catch {
            throw CommandFault(error)
        }
    }

    /// Makes the first project of an empty store; nil if another process has just made it.
    func makeProject(_ name: String) throws(CommandFault) -> ProjectPlan.Credentials? {
        let plan = ProjectPlan(name: name, secrets: IDSyncSecrets(keys), now: SystemClock.now())
        do throws(StoreFault) {
            try plan.fill(store)
        } catch {
            let fault = error
            do throws(StoreFault) { try store.recover() } catch { throw CommandFault(error) }
            guard !store.directory.projects.isEmpty else { throw CommandFault(fault) }
            return nil
        }
        return plan.credentials
    }
}

extension StoreMove {
    /// The refusal of calls that would change the store.
    var refusal: String {
        let day = String(decoding: ISO8601.format(millisecondsSince1970: at.milliseconds).prefix(10), as: UTF8.self)
        return switch state {
        case .begun:
            """
            A move of this store to \(target) began on \(day), and is not complete. Complete it with the same "onym migrate", \
            end it with "onym migrate --cancel", or serve this store with --force.
            """
        case .done:
            """
            This store was moved to \(target) on \(day). Serve that one with --store, or this old one with --force.
            """
        }
    }
}

extension ProjectPlan {
    /// Makes the project in a store.
    func fill(_ store: any Store) throws(StoreFault) {
        var call = Call(project: setUp.project.id, key: nil)
        call.requestID = "init"
        let writer = Writer(store: store, chance: { 0 })
        let answers = writer.process([Job(call: call, act: setUp)], at: SystemClock.now())
        if case .failure(.fault(let fault)) = answers[0] { throw fault }
    }
}

extension CommandContext {
    /// Opens the store that the settings name.
    ///
    /// - Parameters:
    ///   - servesMoved: whether a store that was moved takes writes.
    ///   - acceptsLoss: whether to open a store that lacks its last calls.
    func openStore(servesMoved: Bool = false, acceptsLoss: Bool = false) throws(CommandFault) -> OpenedStore {
        let opened: OpenedStore
        if let database {
            opened = try OpenedStore(in: database, dataFolder, masterKey: settings["master_key"])
        } else {
            opened = try OpenedStore(
                in: dataFolder, masterKey: settings["master_key"], servesMoved: servesMoved, acceptsLoss: acceptsLoss,
                terminal)
        }
        opened.store.limit(ServerSettings.caches(settings))
        return opened
    }
}
