import Glibc
import Invocation

/// The place of the settings file: the file that the caller names, else `onym.toml` in the data folder. If the caller names no
/// data folder, and no folder `data` exists here, it is the file of the Debian package, which names the data folder.
struct SettingsPlace {
    let path: String
    /// Whether the caller named the file, so that it must exist.
    private let isNamed: Bool
    let isInDataFolder: Bool

    static let ofPackage = "/etc/onym/onym.toml"

    /// - Parameter early: the settings of flags and environment.
    init(_ early: Settings) {
        let folder = DataFolder(path: early["data"] ?? "data")
        let isFolderNamed = early.entries.contains { $0.definition.name == "data" && $0.source != .standard }
        if let named = early["config"] {
            (path, isNamed, isInDataFolder) = (named, true, false)
        } else if !isFolderNamed, !Files.exists(folder.path), Files.exists(SettingsPlace.ofPackage) {
            (path, isNamed, isInDataFolder) = (SettingsPlace.ofPackage, false, false)
        } else {
            (path, isNamed, isInDataFolder) = (folder.settingsPath, false, true)
        }
    }

    /// The text of the file; nil if the file does not exist and the caller did not name it.
    func text() throws(CommandFault) -> String? {
        guard isNamed || Files.exists(path) else { return nil }
        return try Files.read(path, orElse: "The settings \(path) cannot be read")
    }
}

/// Secret settings that the service manager hands over as files (systemd.exec, LoadCredential).
enum Credentials {
    /// The values by the names of settings. The file of a setting is `onym_NAME`.
    static func read(
        _ definitions: [SettingDefinition], _ environment: [String: String]
    ) throws(CommandFault) -> [String: String] {
        guard let folder = environment["CREDENTIALS_DIRECTORY"], !folder.isEmpty else { return [:] }
        var values: [String: String] = [:]
        for definition in definitions where definition.mayHoldSecret {
            let path = "\(folder)/onym_\(definition.name)"
            guard Files.exists(path) else { continue }
            let text = try Files.read(path, orElse: "The credential \(path) cannot be read")
            let value = text.hasSuffix("\n") ? String(text.dropLast()) : text
            if !value.isEmpty { values[definition.name] = value }
        }
        return values
    }
}
