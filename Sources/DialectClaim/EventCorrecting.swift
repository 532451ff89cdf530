import Domain
import JSON

/// Makes the corrections of known events, for imports (spec/claim-reads.md 1). An import replaces the content of an event, and the
/// event keeps its id, its moments, its key, its country and its preferred language.
struct EventCorrecting: Sendable {
    let project: ProjectID
    let hash: KeyedHash
    let app: App

    /// The members that an event keeps.
    private static let kept: [StaticString] = ["client_event_id", "preferred_language", "country_code"]

    /// Makes the correction of an event from the rows of an import; nil if the known row is no event of the app. Then the ids only look
    /// alike, and the import's event is new.
    ///
    /// - Parameters:
    ///   - known: the event.
    ///   - revision: the newer body of the event, if an older version of the server imported the event again.
    ///   - sent: the event, and the measurement or the step of its message, as the import has them.
    @Sendable func correct(_ known: NamedRow, _ revision: [UInt8]?, _ sent: [Row]) -> EventCorrection? {
        let parser = JSONParser()
        let before = known.stored
        guard before.row.kind == sent[0].kind,
            let present = EventMembers(before.row.body, revision: revision, parser), present.app == app.id.rawValue
        else { return nil }
        let first = FirstRow(
            number: present.first?.number ?? before.number.rawValue,
            receivedAt: present.first?.receivedAt ?? known.arrival.at.milliseconds,
            key: present.first == nil ? known.arrival.key?.rawValue : present.first?.key)
        var rows = [row(sent[0], present, first, parser, before)]
        for derived in sent.dropFirst() {
            let own = known.derived.flatMap { $0.row.kind == derived.kind ? $0 : nil }
            let number = own.flatMap { EventMembers($0.row.body, parser)?.first?.number ?? $0.number.rawValue }
            rows.append(row(derived, present, first.of(number), parser, before))
        }
        let isSame = EventMembers(rows[0].body, parser)?.hasSameContent(as: present) ?? false
        return EventCorrection(
            // The rows take over the content of the document, which then goes.
            isChange: !isSame || revision != nil, first: RowNumber(rawValue: first.number ?? before.number.rawValue),
            rows: rows,
            errorBefore: error(of: before.row, present, parser), error: error(of: rows[0], present, parser))
    }

    /// The row of an import with the members that the event keeps.
    private func row(
        _ sent: Row, _ present: EventMembers, _ first: FirstRow, _ parser: JSONParser, _ before: StoredRow
    ) -> Row {
        var json = JSONWriter(reserving: 512)
        json.object { json in
            do throws(JSONFault) {
                try parser.read(sent.body) { root throws(JSONFault) in
                    try root.forEachMember(at: "") { key, value throws(JSONFault) in
                        if EventCorrecting.kept.contains(where: { $0 ~= key }) { return }
                        json.key(key)
                        json.copy(value)
                    }
                }
            } catch {
                preconditionFailure("The server writes valid rows only.")
            }
            for name in EventCorrecting.kept {
                // Measurements and steps have no language.
                if sent.kind != .event, name.description == "preferred_language" { continue }
                guard let text = present[name.description] else { continue }
                json.key(name)
                json.string(text)
            }
            first.write(&json)
        }
        return Row(
            sent.kind, at: before.row.at, recognition: sent.kind == .event ? before.row.recognition : nil,
            device: sent.device, body: json.bytes)
    }

    /// The error report of a kept event.
    private func error(of event: Row, _ present: EventMembers, _ parser: JSONParser) -> ErrorReport? {
        var report: ErrorReport?
        do throws(JSONFault) {
            try parser.read(event.body) { root throws(JSONFault) in
                do throws(Unfit) {
                    report = try ClaimEvent(root, app, event.at, mayBeOld: true)
                        .error(in: project, hash, app, present["country_code"])
                } catch {
                    // An app that has another platform now can have events that it could not send any more.
                    report = nil
                }
            }
        } catch {
            preconditionFailure("The server keeps valid events only.")
        }
        return report
    }
}

/// The facts about the first row of a corrected event. Later rows of the event have them in their bodies.
struct FirstRow: Equatable, Sendable {
    /// The number by which clients know the event; nil for a measurement or a step that the event did not have before.
    private(set) var number: Int64?
    private(set) var receivedAt: Int64?
    private(set) var key: Int64?

    init(number: Int64? = nil, receivedAt: Int64? = nil, key: Int64? = nil) {
        (self.number, self.receivedAt, self.key) = (number, receivedAt, key)
    }

    /// The same facts with another number.
    func of(_ number: Int64?) -> FirstRow { FirstRow(number: number, receivedAt: receivedAt, key: key) }

    /// Takes a member of a row's body; false if the member is another one.
    mutating func take(_ key: JSONText, _ value: JSONValue) throws(JSONFault) -> Bool {
        guard value.kind == .integer else { return false }
        switch key {
        case "first_row": number = FirstRow.fit(try value.integer(at: ""), ...FirstRow.mostRows)
        case "first_received_at": receivedAt = FirstRow.fit(try value.integer(at: ""), ...FirstRow.lastMoment)
        case "first_key": self.key = FirstRow.fit(try value.integer(at: ""), ...Int64.max)
        default: return false
        }
        return true
    }

    /// The end of the year 9999, in milliseconds since 1970.
    private static let lastMoment: Int64 = 253_402_300_799_999
    /// The stores keep the numbers of rows in 40 bits.
    private static let mostRows: Int64 = 1 << 40

    /// A number that the server can have written; nil for other numbers.
    private static func fit(_ value: Int64, _ range: PartialRangeThrough<Int64>) -> Int64? {
        value >= 0 && range.contains(value) ? value : nil
    }

    func write(_ json: inout JSONWriter) {
        for (name, value) in [("first_row", number), ("first_received_at", receivedAt), ("first_key", key)]
            as [(StaticString, Int64?)]
        {
            guard let value else { continue }
            json.key(name)
            json.integer(value)
        }
    }
}
