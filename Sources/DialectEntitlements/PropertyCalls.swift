import ByteText
import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls that set and read a user's properties, which analytics and advertising use (spec/entitlements.md 1.5).
enum PropertyCalls {
    static let routes = [
        Endpoint(
            .post, "/v3/users/:id/properties", scope: .usersWrite,
            operation: Operation(
                id: "set_properties_of_user", summary: "Sets properties of a user, and lists the invalid properties.",
                request: .array(property),
                responses: [
                    .init(
                        .ok, "The saved properties and the invalid properties.",
                        schema: .object([
                            .init("savedProperties", .array(property), required: true),
                            .init(
                                "propertyErrors",
                                .array(
                                    .object([
                                        .init("key", .string(), required: true),
                                        .init("error", .string(), required: true),
                                    ])), required: true),
                        ]))
                ] + Entitlements.answers([.notFound])),
            action: .steps(
                body: BufferedBody(),
                decode: { request, caller, tools throws(Rejection) in
                    let user = try Entitlements.user(request, caller, tools)
                    let wanted: (properties: [AccessProperty], faults: [Fault])
                    do throws(Rejection) {
                        wanted = try read(request, tools)
                    } catch {
                        return Entitlements.refuse(error, to: user)
                    }
                    let faults = wanted.faults
                    let command = SetAccessProperties(wanted.properties, of: user)
                    return .call(PreparedCall(command) { reply, _ in answer(reply, faults) })
                })),
        Endpoint(
            .get, "/v3/users/:id/properties", scope: .accessRead,
            operation: Operation(
                id: "get_properties_of_user", summary: "Lists the properties of a user.",
                responses: [.init(.ok, "All of them.", schema: .array(property))] + Entitlements.answers([.notFound])),
            action: .glance { request, caller, tools throws(Rejection) in
                let user = try Entitlements.user(request, caller, tools)
                return { snapshot throws(StoreFault) in
                    guard let person = snapshot.holder(of: user) else {
                        return Entitlements.response(to: .refused(.noSuchUser))
                    }
                    if let user = try snapshot.accessUser(person),
                        let refusal = Entitlements.refusal(reading: user, by: caller, snapshot)
                    {
                        return Entitlements.response(to: .refused(refusal))
                    }
                    let known = try snapshot.document(AccessProperty.key(person)).flatMap(Attributes.init(packed:))
                    return Entitlements.json { json in
                        json.array { json in
                            for (name, entry) in (known?.entries ?? [:]).sorted(by: { $0.key < $1.key }) {
                                write(AccessProperty(name, String(decoding: entry.value ?? [], as: UTF8.self)), &json)
                            }
                        }
                    }
                }
            }),
    ]

    private static func write(_ property: AccessProperty, _ json: inout JSONWriter) {
        json.object { json in
            json.key("key")
            json.string(property.name)
            json.key("value")
            json.string(property.value)
        }
    }

    /// An invalid property, and the reason.
    typealias Fault = (key: String, reason: String)

    private static func answer(_ reply: AccessReply, _ faults: [Fault]) -> Response? {
        guard case .propertiesSet(let saved, let tooMany) = reply.plain else { return nil }
        return Entitlements.object { json in
            json.key("savedProperties")
            json.array { json in
                for property in saved { write(property, &json) }
            }
            json.key("propertyErrors")
            json.array { json in
                for (key, reason) in faults + tooMany.map({ ($0, "too many properties") }) {
                    json.object { json in
                        json.key("key")
                        json.string(key)
                        json.key("error")
                        json.string("Property key: \(key). Error: \(reason).")
                    }
                }
            }
        }
    }

    // MARK: - Reading

    private static let keyBytes = 1...80
    private static let valueBytes = 120
    static let propertiesPerCall = 100

    /// The names of the vendor's own properties; another name with the same prefix is invalid.
    private static let reserved: Set<String> = [
        "_q_email", "_q_name", "_q_custom_user_id", "_q_advertising_id", "_q_kochava_device_id",
        "_q_appsflyer_user_id", "_q_adjust_adid", "_q_fb_attribution", "_q_firebase_instance_id", "_q_app_set_id",
        "_q_pushwoosh_user_id", "_q_pushwoosh_hwid", "_q_appmetrica_device_id", "_q_appmetrica_user_profile_id",
        "_q_tenjin_aiid", "_q_fb_anon_id",
    ]

    private static func read(
        _ request: borrowing Request, _ tools: LoopTools
    ) throws(Rejection) -> (properties: [AccessProperty], faults: [Fault]) {
        var given: [(name: String, value: String?)] = []
        var count = 0
        do throws(JSONFault) {
            try tools.json.read(request.body) { root throws(JSONFault) in
                try root.forEachElement(at: "the body") { element throws(JSONFault) in
                    count += 1
                    guard count <= propertiesPerCall else {
                        throw JSONFault(.wrong("must have at most \(propertiesPerCall) properties"), at: "the body")
                    }
                    var (key, value): (String?, String?)
                    // An invalid property does not stop the other properties.
                    if element.kind == .object {
                        try element.forEachMember(at: "a property") { name, member throws(JSONFault) in
                            guard member.kind == .string else { return }
                            switch name {
                            case "key": key = try? member.string(at: "key")
                            case "value": value = try? member.string(at: "value")
                            default: break
                            }
                        }
                    }
                    given.append((key ?? "", value))
                }
            }
        } catch {
            throw Entitlements.invalid(error)
        }
        let checked = checked(given)
        guard !checked.properties.isEmpty || count == 0 else {
            throw Entitlements.invalid("None of the properties is valid")
        }
        return checked
    }

    /// The valid ones of some properties, and the faults of the others.
    static func checked(
        _ given: [(name: String, value: String?)]
    ) -> (properties: [AccessProperty], faults: [Fault]) {
        var properties: [AccessProperty] = []
        var faults: [Fault] = []
        for (name, value) in given {
            if let reason = fault(name, value) {
                faults.append((String(name.prefix(keyBytes.upperBound)), reason))
            } else {
                properties.append(AccessProperty(name, value ?? ""))
            }
        }
        return (properties, faults)
    }

    /// The reason why a property is invalid; nil for a valid property.
    private static func fault(_ key: String, _ value: String?) -> String? {
        let isKey =
            keyBytes.contains(key.utf8.count) && key.utf8.contains(where: isLetter)
            && key.utf8.allSatisfy { isLetter($0) || (0x30...0x3A).contains($0) || "-_.".utf8.contains($0) }
        guard isKey else { return "invalid key format" }
        if key.hasPrefix("_"), !reserved.contains(key) { return "reserved key" }
        guard let value, !value.isEmpty, value.utf8.count <= valueBytes,
            !value.utf8.contains(where: { "\n\r\"'".utf8.contains($0) })
        else { return "invalid value format" }
        return nil
    }

    private static func isLetter(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte | 0x20)
    }

    private static let property = Schema.object([
        .init("key", .string(), required: true), .init("value", .string(), required: true),
    ])
}
