/// The linking settings of a project: the lifetimes of codes and tokens, and the settings of each app.
package struct LinkingSettings: Equatable, Sendable {
    /// The settings of one app.
    package struct OfApp: Equatable, Sendable {
        /// Whether the app accepts linking calls.
        package var isOn = true
        /// Whether the app's id and secret can also make installs.
        package var takesSecret = true
        /// Whether installs must prove a key of their own.
        package var requiresProof = false
        /// Whether a call about an install of another app gets the answer for an unknown install.
        package var hidesForeignInstalls = false

        package init() {}
    }

    /// The activation policy of the old settings. It applies until the strategy has a policy.
    package let formerPolicy: ActivationPolicy
    /// The activation policy in force.
    package internal(set) var policy: ActivationPolicy
    package var codeSeconds: Int64 = 600
    package var tokenSeconds: Int64 = 600
    /// The time for which a replaced install may send earlier rows.
    package var graceSeconds: Int64 = 86_400
    package private(set) var apps: [AppID: OfApp] = [:]

    package static let codeSecondsRange: ClosedRange<Int64> = 60...900
    package static let tokenSecondsRange: ClosedRange<Int64> = 60...900
    package static let graceSecondsRange: ClosedRange<Int64> = 0...2_592_000

    /// - Parameter policy: the activation policy of the old settings.
    package init(former policy: ActivationPolicy = ActivationPolicy()) {
        formerPolicy = policy
        self.policy = policy
    }

    package subscript(app: AppID) -> OfApp {
        get { apps[app] ?? OfApp() }
        set { apps[app] = newValue }
    }

    /// The key of the document with a project's linking settings.
    package static func key(of project: ProjectID) -> DocumentKey {
        DocumentKey(.linkingSettings, of: Int64(project.rawValue))
    }

    /// Reads the settings from the project's document. Without a document they are the defaults.
    package init(document: [UInt8]?) {
        self = document.flatMap(LinkingSettings.init(packed:)) ?? LinkingSettings()
    }

    package var packed: [UInt8] {
        var packer = Packer()
        packer.add(formerPolicy)
        packer.add(UInt64(codeSeconds))
        packer.add(UInt64(tokenSeconds))
        packer.add(UInt64(graceSeconds))
        for (app, settings) in apps.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
            packer.add(UInt64(bitPattern: app.rawValue))
            packer.add(settings.isOn)
            packer.add(settings.takesSecret)
            packer.add(settings.requiresProof)
            packer.add(settings.hidesForeignInstalls)
        }
        return packer.bytes
    }

    package init?(packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        guard let policy = unpacker.policy(), let code = unpacker.count(), let token = unpacker.count(),
            let grace = unpacker.count()
        else { return nil }
        self.init(former: policy)
        (codeSeconds, tokenSeconds, graceSeconds) = (Int64(code), Int64(token), Int64(grace))
        while !unpacker.isAtEnd {
            guard let app = unpacker.integer(), let isOn = unpacker.bool(), let takesSecret = unpacker.bool(),
                let requiresProof = unpacker.bool(), let hides = unpacker.bool()
            else { return nil }
            var settings = OfApp()
            (settings.isOn, settings.takesSecret) = (isOn, takesSecret)
            (settings.requiresProof, settings.hidesForeignInstalls) = (requiresProof, hides)
            apps[AppID(rawValue: Int64(bitPattern: app))] = settings
        }
    }
}

extension Packer {
    mutating func add(_ policy: ActivationPolicy) {
        add(policy.order.rawValue)
        add(UInt64(policy.limit))
        add(UInt64(policy.devices.count))
        for device in policy.devices { add(device.rawValue) }
    }
}

extension Unpacker {
    mutating func policy() -> ActivationPolicy? {
        guard let order = byte().flatMap(ActivationPolicy.Order.init), let limit = self.count(), let count = integer()
        else { return nil }
        var devices: [DeviceClass] = []
        for _ in 0..<count {
            guard let device = byte().flatMap(DeviceClass.init) else { return nil }
            devices.append(device)
        }
        return ActivationPolicy(order: order, limit: limit, devices: devices)
    }
}

/// A change of a project's settings. Settings that the change does not name stay.
package struct EditLinking: Act {
    package var codeSeconds: Int64?
    package var tokenSeconds: Int64?
    package var graceSeconds: Int64?
    package var apps: [AppID: OfApp] = [:]

    /// A change of the settings of one app.
    package struct OfApp: Sendable {
        package var isOn: Bool?
        package var takesSecret: Bool?
        package var requiresProof: Bool?
        package var hidesForeignInstalls: Bool?

        package init() {}
    }

    package init() {}

    package static var kinds: [ActKind] { [.linkingSettings] }
    package var subjects: Subjects { .none }
    package var byteCount: Int { 512 }

    /// Changes the settings. Throws nothing. Equal settings change nothing, so a repeated call adds no entry to the journal.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<LinkingReply> {
        let before = LinkingSettings(document: view.document(LinkingSettings.key(of: project)))
        var settings = before
        settings.codeSeconds = codeSeconds ?? settings.codeSeconds
        settings.tokenSeconds = tokenSeconds ?? settings.tokenSeconds
        settings.graceSeconds = graceSeconds ?? settings.graceSeconds
        for (app, edit) in apps {
            settings[app].isOn = edit.isOn ?? settings[app].isOn
            settings[app].takesSecret = edit.takesSecret ?? settings[app].takesSecret
            settings[app].requiresProof = edit.requiresProof ?? settings[app].requiresProof
            settings[app].hidesForeignInstalls = edit.hidesForeignInstalls ?? settings[app].hidesForeignInstalls
        }
        let reply = LinkingReply.settings(settings)
        guard settings != before else { return Decision(reply) }
        let put = Change.documentPut(LinkingSettings.key(of: project), .nobody, settings.packed)
        return Decision(reply, outcome: Outcome(kind: .linkingSettings, person: nil, changes: [put]))
    }
}

extension ActKind {
    package static let linkingSettings = ActKind(
        59, "linking_settings", undo: .facts(needs: .admin), changesDirectory: true)
}
