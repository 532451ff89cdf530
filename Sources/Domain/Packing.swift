/// Writes values tightly, for the stores: integers in as many groups of seven bits as they need, the lowest first, with
/// the eighth bit set in all groups but the last.
package struct Packer: Sendable {
    package private(set) var bytes: [UInt8] = []

    package init() {}

    package mutating func add(_ byte: UInt8) { bytes.append(byte) }

    package mutating func add(_ value: UInt64) {
        var rest = value
        while rest >= 0x80 {
            bytes.append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        bytes.append(UInt8(rest))
    }

    package mutating func add(_ moment: Instant) { add(UInt64(bitPattern: moment.milliseconds)) }

    package mutating func add(_ value: [UInt8]) {
        add(UInt64(value.count))
        bytes.append(contentsOf: value)
    }

    fileprivate mutating func add(_ identified: Identified) {
        add(JournalEntry.Kind.identify.rawValue)
        add(UInt64(bitPattern: identified.person.rawValue))
        add(identified.matched)
        add(identified.isKnown ? 1 : 0 as UInt8)
    }

    package mutating func add(_ text: String) {
        add(UInt64(text.utf8.count))
        bytes.append(contentsOf: text.utf8)
    }
}

/// Reads what ``Packer`` wrote. Each answer is nil where the bytes are not what was asked for.
package struct Unpacker {
    private let all: [UInt8]
    private var position = 0

    package init(_ bytes: [UInt8]) { all = bytes }

    package var isAtEnd: Bool { position == all.count }

    package mutating func byte() -> UInt8? {
        guard position < all.count else { return nil }
        defer { position += 1 }
        return all[position]
    }

    /// Passes over a byte; false where another stands there.
    mutating func skip(_ byte: UInt8) -> Bool {
        guard position < all.count, all[position] == byte else { return false }
        position += 1
        return true
    }

    package mutating func integer() -> UInt64? {
        var (value, shift): (UInt64, UInt64) = (0, 0)
        while let byte = byte(), shift < 64 {
            value |= UInt64(byte & 0x7F) << shift
            if byte < 0x80 { return value }
            shift += 7
        }
        return nil
    }

    package mutating func person() -> PersonID? {
        integer().map { PersonID(rawValue: Int64(bitPattern: $0)) }
    }

    package mutating func instant() -> Instant? {
        integer().map { Instant(milliseconds: Int64(bitPattern: $0)) }
    }

    package mutating func bytes() -> [UInt8]? {
        slice().map { Array($0) }
    }

    package mutating func text() -> String? {
        slice().flatMap { String(validating: $0, as: UTF8.self) }
    }

    private mutating func slice() -> ArraySlice<UInt8>? {
        guard let count = integer(), count <= UInt64(all.count - position) else { return nil }
        defer { position += Int(count) }
        return all[position..<position + Int(count)]
    }
}

extension Reply {
    /// What has to be kept so that the answer can be made again.
    package var packed: [UInt8] {
        var packer = Packer()
        switch self {
        case .setUp:
            packer.add(JournalEntry.Kind.setUp.rawValue)
        case .ingested(let ingested):
            packer.add(JournalEntry.Kind.ingest.rawValue)
            packer.add(UInt64(bitPattern: ingested.person.rawValue))
            packer.add(UInt64(ingested.accepted))
            packer.add(UInt64(ingested.repeated))
        case .aliased(.made(let alias)):
            packer.add(JournalEntry.Kind.alias.rawValue)
            packer.add(0 as UInt8)
            packer.add(UInt64(bitPattern: alias.rawValue))
        case .aliased(.ignored(let reason)):
            packer.add(JournalEntry.Kind.alias.rawValue)
            packer.add(reason.rawValue)
        case .claimed(let claimed):
            packer.add(JournalEntry.Kind.claim.rawValue)
            packer.add(UInt64(bitPattern: claimed.user.rawValue))
            packer.add(UInt64(claimed.events))
        case .collected(let collected):
            packer.add(JournalEntry.Kind.collect.rawValue)
            packer.add(UInt64(collected.accepted))
            packer.add(UInt64(collected.repeated))
        case .propertiesSet(let properties):
            packer.add(JournalEntry.Kind.setProperties.rawValue)
            for (name, value) in properties.sorted(by: { $0.key < $1.key }) {
                packer.add(name)
                packer.add(value)
            }
        case .merged(let merge):
            packer.add(JournalEntry.Kind.merge.rawValue)
            packer.add(UInt64(bitPattern: merge.id.rawValue))
            packer.add(UInt64(bitPattern: merge.from.rawValue))
            packer.add(UInt64(bitPattern: merge.into.rawValue))
            packer.add(merge.rule.rawValue)
        case .mergeUndone(let merge):
            packer.add(JournalEntry.Kind.undoMerge.rawValue)
            packer.add(UInt64(bitPattern: merge.rawValue))
        case .erased(let erased):
            packer.add(JournalEntry.Kind.erase.rawValue)
            erased.pack(into: &packer)
        case .joined(let count):
            packer.add(JournalEntry.Kind.joinSameUserIDs.rawValue)
            packer.add(UInt64(count))
        case .deviceReleased(let count):
            packer.add(JournalEntry.Kind.releaseDevice.rawValue)
            packer.add(UInt64(count))
        case .identityAttached: packer.add(JournalEntry.Kind.attachIdentity.rawValue)
        case .identityDetached: packer.add(JournalEntry.Kind.detachIdentity.rawValue)
        case .tombstoneReleased: packer.add(JournalEntry.Kind.releaseTombstone.rawValue)
        case .refused(let refusal):
            packer.add(JournalEntry.Kind.refused.rawValue)
            packer.add(refusal.code)
        case .aliasUndone(let alias):
            packer.add(JournalEntry.Kind.undoAlias.rawValue)
            packer.add(UInt64(bitPattern: alias.rawValue))
        case .modified(let modified):
            packer.add(JournalEntry.Kind.modify.rawValue)
            packer.add(UInt64(bitPattern: modified.person.rawValue))
            packer.add(UInt64(modified.touched.count))
            for touch in modified.touched {
                packer.add(UInt64(bitPattern: touch.person.rawValue))
                packer.add(touch.type.rawValue)
            }
        case .strategySet(let version, let strategy):
            packer.add(JournalEntry.Kind.setStrategy.rawValue)
            packer.add(UInt64(version))
            strategy.pack(into: &packer)
        case .defined: packer.add(JournalEntry.Kind.define.rawValue)
        case .feedbackSent(let sent):
            packer.add(JournalEntry.Kind.sendFeedback.rawValue)
            packer.add(UInt64(bitPattern: sent.id.rawValue))
            packer.add(sent.at)
        case .feedbackDeleted(let feedback):
            packer.add(JournalEntry.Kind.deleteFeedback.rawValue)
            packer.add(UInt64(bitPattern: feedback.rawValue))
        case .questionnaireSet(let questionnaire):
            packer.add(JournalEntry.Kind.setQuestionnaire.rawValue)
            packer.add(UInt64(bitPattern: questionnaire.id.rawValue))
            packer.add(questionnaire.packed)
        case .answered(let answered):
            packer.add(JournalEntry.Kind.answer.rawValue)
            packer.add(UInt64(bitPattern: answered.id.rawValue))
            packer.add(answered.at)
            packer.add(answered.isFirst ? 1 : 0 as UInt8)
            packer.add(answered.wasSubmitted ? 1 : 0 as UInt8)
        case .attachment(let attachment):
            let kind: JournalEntry.Kind =
                switch attachment.state {
                case .reserved: .reserveAttachment
                case .stored, .tooShort, .tooLong, .wrongDigest: .storeAttachment
                case .deleted: .deleteAttachment
                }
            packer.add(kind.rawValue)
            packer.add(attachment.packed)
        case .access(let reply):
            packer.add(JournalEntry.Kind.accessUser.rawValue)
            reply.pack(into: &packer)
        case .linking(let linking):
            packer.add(JournalEntry.Kind.linkInstall.rawValue)
            linking.pack(into: &packer)
        case .administered(let done):
            packer.add(done.kind.rawValue)
            done.pack(into: &packer)
        case .webhookMade(let id, let at):
            packer.add(JournalEntry.Kind.makeWebhook.rawValue)
            packer.add(UInt64(bitPattern: id))
            packer.add(at)
        case .webhookRemoved(let id):
            packer.add(JournalEntry.Kind.removeWebhook.rawValue)
            packer.add(UInt64(bitPattern: id))
        case .signingKeyMade(let key):
            packer.add(JournalEntry.Kind.makeSigningKey.rawValue)
            packer.add(SigningKey.pack([key]))
        case .signingKeyRetired(let key):
            packer.add(JournalEntry.Kind.retireSigningKey.rawValue)
            packer.add(SigningKey.pack([key]))
        case .noted: packer.add(JournalEntry.Kind.noteKeyUse.rawValue)
        case .identified(let identified), .found(let identified): packer.add(identified)
        case .inspected(let inspected): packer.add(inspected.identified)
        }
        return packer.bytes
    }

    /// Reads a kept answer; nil where it is none.
    package init?(packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        guard let kind = unpacker.byte().flatMap(JournalEntry.Kind.init) else { return nil }
        switch kind {
        case .setUp:
            self = .setUp
        case .login, .logout, .refused, .unproven, .leftOut: return nil
        case .accessIdentity, .grantAccess, .revokeAccess, .recordPurchase, .restorePurchases, .undoTransfer,
            .accessProperties, .editCatalog:
            return nil
        case .accessUser:
            guard let reply = AccessReply(unpacking: &unpacker) else { return nil }
            self = .access(reply)
        case .linkInstall:
            guard let linking = LinkingReply(unpacking: &unpacker) else { return nil }
            self = .linking(linking)
        case .makeInstall, .issueCode, .redeemCode, .refreshTokens, .changeInstall, .submitRows, .resetInstall,
            .linkingSettings:
            return nil
        case .ingest:
            guard let person = unpacker.person(), let accepted = unpacker.integer(), let repeated = unpacker.integer()
            else { return nil }
            self = .ingested(Ingested(person: person, accepted: Int(accepted), repeated: Int(repeated)))
        case .alias:
            guard let reason = unpacker.byte() else { return nil }
            if let reason = Aliased.Reason(rawValue: reason) {
                self = .aliased(.ignored(reason))
            } else {
                guard let id = unpacker.integer() else { return nil }
                self = .aliased(.made(AliasID(rawValue: Int64(bitPattern: id))))
            }
        case .claim:
            guard let user = unpacker.person(), let events = unpacker.integer() else { return nil }
            self = .claimed(Claimed(user: user, events: Int(events)))
        case .collect:
            guard let accepted = unpacker.integer(), let repeated = unpacker.integer() else { return nil }
            self = .collected(Collected(accepted: Int(accepted), repeated: Int(repeated)))
        case .setProperties:
            var properties: [String: String] = [:]
            while !unpacker.isAtEnd {
                guard let name = unpacker.text(), let value = unpacker.text() else { return nil }
                properties[name] = value
            }
            self = .propertiesSet(properties)
        case .merge:
            guard let id = unpacker.integer(), let from = unpacker.person(), let into = unpacker.person(),
                let rule = unpacker.byte().flatMap(Merge.Rule.init)
            else { return nil }
            self = .merged(
                Merge(id: MergeID(rawValue: Int64(bitPattern: id)), from: from, into: into, rule: rule))
        case .undoMerge:
            guard let id = unpacker.integer() else { return nil }
            self = .mergeUndone(MergeID(rawValue: Int64(bitPattern: id)))
        case .erase:
            guard let erased = Erased(unpacking: &unpacker) else { return nil }
            self = .erased(erased)
        case .releaseTombstone: self = .tombstoneReleased
        case .joinSameUserIDs:
            guard let count = unpacker.integer() else { return nil }
            self = .joined(Int(count))
        case .releaseDevice:
            guard let count = unpacker.integer() else { return nil }
            self = .deviceReleased(Int(count))
        case .attachIdentity: self = .identityAttached
        case .detachIdentity: self = .identityDetached
        case .undoAlias:
            guard let id = unpacker.integer() else { return nil }
            self = .aliasUndone(AliasID(rawValue: Int64(bitPattern: id)))
        case .setStrategy:
            guard let version = unpacker.integer().flatMap(Int.init(exactly:)),
                let strategy = Strategy(unpacking: &unpacker)
            else { return nil }
            self = .strategySet(version: version, strategy)
        case .modify:
            guard let person = unpacker.person(), let count = unpacker.integer() else { return nil }
            var touched: [Modified.Touch] = []
            for _ in 0..<count {
                guard let person = unpacker.person(), let type = unpacker.byte().flatMap(IdentityType.init)
                else { return nil }
                touched.append(Modified.Touch(person, type))
            }
            self = .modified(Modified(person: person, touched: touched))
        case .define: self = .defined
        case .sendFeedback:
            guard let id = unpacker.integer(), let at = unpacker.instant() else { return nil }
            self = .feedbackSent(SentFeedback(id: FeedbackID(rawValue: Int64(bitPattern: id)), at: at))
        case .deleteFeedback:
            guard let id = unpacker.integer() else { return nil }
            self = .feedbackDeleted(FeedbackID(rawValue: Int64(bitPattern: id)))
        case .setQuestionnaire:
            guard let id = unpacker.integer(), let packed = unpacker.bytes(),
                let questionnaire = Questionnaire(
                    id: QuestionnaireID(rawValue: Int64(bitPattern: id)), packed: packed)
            else { return nil }
            self = .questionnaireSet(questionnaire)
        case .answer:
            guard let id = unpacker.integer(), let at = unpacker.instant(), let isFirst = unpacker.byte(),
                let wasSubmitted = unpacker.byte()
            else { return nil }
            self = .answered(
                Answered(
                    id: ResponseID(rawValue: Int64(bitPattern: id)), at: at, isFirst: isFirst == 1,
                    wasSubmitted: wasSubmitted == 1))
        case .reserveAttachment, .storeAttachment, .deleteAttachment:
            guard let attachment = unpacker.bytes().flatMap(Attachment.init(packed:)) else { return nil }
            self = .attachment(attachment)
        case .makeProject, .makeApp, .makeKey, .revoke:
            guard let done = Administered(kind, unpacking: &unpacker) else { return nil }
            self = .administered(done)
        case .makeWebhook:
            guard let id = unpacker.integer(), let at = unpacker.instant() else { return nil }
            self = .webhookMade(Int64(bitPattern: id), at: at)
        case .removeWebhook:
            guard let id = unpacker.integer() else { return nil }
            self = .webhookRemoved(Int64(bitPattern: id))
        case .makeSigningKey, .retireSigningKey:
            guard let key = unpacker.bytes().flatMap(SigningKey.unpack)?.first else { return nil }
            self = kind == .makeSigningKey ? .signingKeyMade(key) : .signingKeyRetired(key)
        case .noteKeyUse, .noteDeliveries, .replayDelivery: self = .noted
        case .identify:
            guard let person = unpacker.person(), let matched = unpacker.integer(), let isKnown = unpacker.byte()
            else { return nil }
            self = .identified(Identified(person: person, matched: matched, isKnown: isKnown == 1))
        }
        guard unpacker.isAtEnd else { return nil }
    }
}
