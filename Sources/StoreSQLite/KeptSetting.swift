import SQLite

/// A value of the store under a name, which commits keep with their changes.
enum KeptSetting {
    static func read(_ name: String, _ connection: Connection) throws(SQLiteFault) -> [UInt8]? {
        let setting = try connection.prepare("SELECT value FROM settings WHERE name = ?")
        setting.bind(1, text: name)
        return try setting.step() ? setting.blob(0) : nil
    }

    static func keep(_ value: [UInt8], as name: String, _ connection: Connection) throws(SQLiteFault) {
        let keep = try connection.prepare(
            "INSERT INTO settings (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value")
        keep.bind(1, text: name)
        keep.bind(2, blob: value)
        try keep.run()
    }
}
