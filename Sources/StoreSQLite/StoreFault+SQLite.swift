import Domain
import SQLite

extension StoreFault {
    /// Translates a result code of SQLite into a fault of the store. No other code reads result codes.
    init(_ fault: SQLiteFault, path: String) {
        switch fault.primaryCode {
        case SQLiteCode.busy, SQLiteCode.locked:
            self.init(
                .locked, "\(path) is in use by another process. Stop it, or wait until it is done. (\(fault.message))")
        case SQLiteCode.readOnly, SQLiteCode.permission, SQLiteCode.authorization:
            self.init(
                .readOnly,
                "\(path) cannot be written. Check its owner and mode, and those of its folder. (\(fault.message))")
        case SQLiteCode.full:
            self.init(.diskFull, "The disk of \(path) is full. Free some space; the server continues by itself.")
        case SQLiteCode.notADatabase:
            self.init(
                .notAStore, "\(path) is not a store of Onym. Nothing was changed; give another folder with --data.")
        case SQLiteCode.corrupt:
            self.init(.corrupt, "\(path) is damaged: \(fault.message). Restore a backup; \"onym doctor\" says more.")
        case SQLiteCode.interrupted: self = ReadLimit.fault
        case SQLiteCode.cannotOpen:
            self.init(
                .inputOutput,
                "\(path) cannot be opened: \(fault.message). Check that its folder exists and may be used.")
        default:
            self.init(.inputOutput, "\(path) could not be read or written: \(fault.message) (\(fault.code)).")
        }
    }
}

/// The primary result codes that the store handles (sqlite.org/rescode.html).
private enum SQLiteCode {
    static let permission: Int32 = 3
    static let busy: Int32 = 5
    static let locked: Int32 = 6
    static let readOnly: Int32 = 8
    static let interrupted: Int32 = 9
    static let corrupt: Int32 = 11
    static let full: Int32 = 13
    static let cannotOpen: Int32 = 14
    static let authorization: Int32 = 23
    static let notADatabase: Int32 = 26
}
