import ByteText
import Domain
import Gateway
import HTTPServer
import JSON

/// The body of a call. Of two members with one name the second counts, and unknown members are ignored.
struct LinkingBody {
    private(set) var texts: [String: String] = [:]
    private(set) var flags: [String: Bool] = [:]
    private(set) var device = Install.Device()
    private(set) var key: JSONWebKey?

    /// The longest text about a device, in bytes.
    static let textBytes = 128
    /// The longest other text, in bytes.
    static let valueBytes = 4096

    /// - Parameter names: the names of the texts that the call reads.
    init(_ request: borrowing Request, _ tools: LoopTools, _ names: [String]) throws(LinkingError) {
        do throws(JSONFault) {
            try tools.json.read(request.body) { root throws(JSONFault) in
                try root.forEachMember(at: "the body") { key, value throws(JSONFault) in
                    let name = key.copy()
                    switch name {
                    case "device": try readDevice(value)
                    case "sdk":
                        try value.forEachMember(at: "sdk") { key, value throws(JSONFault) in
                            switch key {
                            case "name": try set(.sdkName, value, "sdk.name")
                            case "version": try set(.sdkVersion, value, "sdk.version")
                            default: break
                            }
                        }
                    case "jwk": self.key = try JSONWebKey(value)
                    default:
                        if names.contains(name) {
                            let text = try value.string(at: name)
                            guard text.utf8.count <= LinkingBody.valueBytes else {
                                throw JSONFault(.wrong("is too long"), at: name)
                            }
                            texts[name] = text
                        } else if value.kind == .bool {
                            flags[name] = try value.bool(at: name)
                        }
                    }
                }
            }
        } catch {
            throw .badRequest(error.message)
        }
    }

    private mutating func readDevice(_ value: JSONValue) throws(JSONFault) {
        try value.forEachMember(at: "device") { key, value throws(JSONFault) in
            switch key {
            case "class":
                guard let device = DeviceClass(named: try value.string(at: "device.class")) else {
                    throw JSONFault(
                        .wrong("must be one of \(DeviceClass.allCases.map(\.name).joined(separator: ", "))"),
                        at: "device.class")
                }
                self.device.deviceClass = device
            case "os": try set(.os, value, "device.os")
            case "os_version": try set(.osVersion, value, "device.os_version")
            case "model": try set(.model, value, "device.model")
            case "locale": try set(.locale, value, "device.locale")
            default: break
            }
        }
    }

    private mutating func set(
        _ field: Install.Device.Field, _ value: JSONValue, _ path: String
    ) throws(JSONFault) {
        let text = try value.string(at: path)
        guard text.utf8.count <= LinkingBody.textBytes else {
            throw JSONFault(.wrong("must have at most \(LinkingBody.textBytes) bytes"), at: path)
        }
        device.fields[field] = text
    }

    func text(_ name: String) throws(LinkingError) -> String {
        guard let text = texts[name], !text.isEmpty else {
            throw .badRequest("\(name) is required, and must be a string that is not empty.")
        }
        return text
    }

    /// The longest external id, in bytes.
    static let externalIDBytes = 1024

    /// The back end's own id of its user.
    func externalID(_ caller: Caller, _ tools: LoopTools) throws(LinkingError) -> Identity {
        let text = try text("external_id")
        guard text.utf8.count <= LinkingBody.externalIDBytes else {
            throw .badRequest("external_id must have at most \(LinkingBody.externalIDBytes) bytes.")
        }
        return Identity(.linkingExternalID, text, in: caller.project, hash: tools.hash)
    }
}
