/// A call with which an administrator frees a device that many people have used. After the call no person holds the device,
/// and searches find the next person that uses it.
package struct ReleaseDevice: Act {
    package let device: Identity
    package let reason: String?

    package init(_ device: Identity, reason: String?) {
        self.device = device
        self.reason = reason
    }
}

extension ReleaseDevice {
    package static var kinds: [ActKind] { [.releaseDevice] }
    package var subjects: Subjects { Subjects(mentions: [device.key]) }
    package var byteCount: Int { 256 }

    /// Removes the device from all people that hold it. Throws `noSuchIdentity` if no person holds the device, because a
    /// typing mistake must not look like success.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<DeviceReleased> {
        var holders: [PersonID] = []
        view.forEachHolder(of: device.key) { holders.append(view.id(of: $0)) }
        guard !holders.isEmpty else { throw .noSuchIdentity }
        return Decision(
            DeviceReleased(holders.count),
            outcome: Outcome(
                kind: .releaseDevice, person: nil,
                changes: holders.sorted().map { .unlinked($0, device.type, device.key) }, note: reason))
    }
}

/// The answer to ``ReleaseDevice``.
package struct DeviceReleased: Answer {
    /// The number of people that held the device.
    package let holders: Int
    package init(_ holders: Int) { self.holders = holders }

    package static let tags: [UInt8] = [ActKind.releaseDevice.rawValue]

    package func pack(into packer: inout Packer) { packer.add(UInt64(holders)) }

    package init?(tag: UInt8, unpacking unpacker: inout Unpacker) {
        guard let count = unpacker.count() else { return nil }
        holders = count
    }
}

extension ActKind {
    package static let releaseDevice = ActKind(19, "release_device", undo: .facts(needs: .consoleAct))
}
