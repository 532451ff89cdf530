import Domain
import Postgres

/// Values by name that all processes of a store share.
enum KeptSettings {
    /// Sends a value for a name without a value.
    static func send(_ name: String, _ value: [UInt8], to connection: Connection) {
        var parameters = Parameters()
        parameters.add(name)
        parameters.add(value)
        connection.send(Connection.Statement("INSERT INTO settings VALUES ($1, $2) ON CONFLICT DO NOTHING"), parameters)
    }

    /// The value of a name; nil if it does not exist.
    static func read(_ name: String, _ connection: Connection) throws(StoreFault) -> [UInt8]? {
        var parameters = Parameters()
        parameters.add(name)
        let rows = try attempt { () throws(PostgresFault) in
            try connection.run(Connection.Statement("SELECT value FROM settings WHERE name = $1"), parameters)
        }
        return rows.count == 0 ? nil : rows.blob(0, 0)
    }
}
