package import Domain
package import Postgres

extension StoreFault {
    /// Translates an error of PostgreSQL into a fault of the store. No other code reads its codes.
    package init(_ fault: PostgresFault) {
        switch fault.state {
        case "": self.init(.away, "The database cannot be reached: \(fault.message). The server continues by itself.")
        case "40001", "40P01", "55P03", "57014", "25P03":
            // Serialization, deadlock, and the time limits of a lock, a statement and an idle transaction.
            self.init(.interrupted, "The database has ended a batch: \(fault.message).")
        case "25006":
            self.init(
                .away, "The database is a standby, which only reads. The server continues when it finds a primary.")
        case "28000", "28P01":
            self.init(
                .notFound, "The database refuses the connection: \(fault.message). Check --store and the password.")
        case "3D000":
            self.init(.notFound, "The database does not exist: \(fault.message). Make it with createdb.")
        case "42501":
            self.init(.readOnly, "The database refuses the statement: \(fault.message). Check the rights of the role.")
        case "53100":
            self.init(.diskFull, "The disk of the database is full. Free some space; the server continues by itself.")
        default:
            // 08: the connection; 53: missing resources; 57P: the server stops or starts.
            let isAway =
                fault.isConnectionLost || ["08", "53"].contains(fault.stateClass) || fault.state.hasPrefix("57P")
            self.init(
                isAway ? .away : .inputOutput,
                "The statement failed in the database: \(fault.message) (\(fault.state)).")
        }
    }
}

/// Runs an operation of PostgreSQL, and translates its fault.
func attempt<Result>(_ body: () throws(PostgresFault) -> Result) throws(StoreFault) -> Result {
    do throws(PostgresFault) {
        return try body()
    } catch {
        throw StoreFault(error)
    }
}
