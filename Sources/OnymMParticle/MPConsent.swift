public import Foundation
import Onym

/// The consent of a person under the European law, for one purpose.
public class MPGDPRConsent {
    /// Whether the person agrees.
    public var consented = false
    /// The document that the person has seen.
    public var document: String?
    /// The time of the answer.
    public var timestamp = Date()
    /// The place of the answer.
    public var location: String?
    /// The id of the device.
    public var hardwareId: String?

    /// Makes a consent.
    public init() {}

    init(_ json: JSON) {
        consented = json["consented"]?.bool ?? false
        document = json["document"]?.text
        timestamp = Date(milliseconds: json["timestamp_unixtime_ms"]?.integer ?? 0)
        (location, hardwareId) = (json["location"]?.text, json["hardware_id"]?.text)
    }

    var wire: JSON { MPGDPRConsent.wire(consented, document, timestamp, location, hardwareId) }

    static func wire(
        _ consented: Bool, _ document: String?, _ timestamp: Date, _ location: String?, _ hardware: String?
    ) -> JSON {
        .sparse([
            "consented": .bool(consented), "document": .optional(document),
            "timestamp_unixtime_ms": .integer(timestamp.milliseconds), "location": .optional(location),
            "hardware_id": .optional(hardware),
        ])
    }
}

/// The consent of a person under the law of California: whether the person's data may be sold.
public class MPCCPAConsent {
    /// Whether the person refuses the sale.
    public var consented = false
    /// The document that the person has seen.
    public var document: String?
    /// The time of the answer.
    public var timestamp = Date()
    /// The place of the answer.
    public var location: String?
    /// The id of the device.
    public var hardwareId: String?

    /// Makes a consent.
    public init() {}

    init(_ json: JSON) {
        consented = json["consented"]?.bool ?? false
        document = json["document"]?.text
        timestamp = Date(milliseconds: json["timestamp_unixtime_ms"]?.integer ?? 0)
        (location, hardwareId) = (json["location"]?.text, json["hardware_id"]?.text)
    }

    var wire: JSON { MPGDPRConsent.wire(consented, document, timestamp, location, hardwareId) }
}

/// The consents of a person. They go with each upload, and block nothing.
public class MPConsentState {
    private var consents: [String: MPGDPRConsent] = [:]
    private var ccpa: MPCCPAConsent?

    /// Makes a state without consents.
    public init() {}

    /// The consents under the European law by purpose.
    public func gdprConsentState() -> [String: MPGDPRConsent]? { consents }
    /// Replaces the consents under the European law.
    public func setGDPRConsentState(_ gdprConsentState: [String: MPGDPRConsent]?) {
        consents = [:]
        for (purpose, consent) in gdprConsentState ?? [:] { addGDPRConsentState(consent, purpose: purpose) }
    }
    /// Sets the consent for a purpose.
    public func addGDPRConsentState(_ consent: MPGDPRConsent, purpose: String) {
        let name = purpose.trimmingCharacters(in: .whitespacesAndNewlines).lowercased()
        if !name.isEmpty { consents[name] = consent }
    }
    /// Removes the consent for a purpose.
    public func removeGDPRConsentState(withPurpose purpose: String) {
        consents[purpose.trimmingCharacters(in: .whitespacesAndNewlines).lowercased()] = nil
    }
    /// The consent under the law of California.
    public func ccpaConsentState() -> MPCCPAConsent? { ccpa }
    /// Sets the consent under the law of California.
    public func setCCPA(_ consent: MPCCPAConsent) { ccpa = consent }
    /// Removes the consent under the law of California.
    public func removeCCPAConsentState() { ccpa = nil }

    private static let sale = "data_sale_opt_out"

    init?(_ json: JSON) {
        guard let members = json.members else { return nil }
        for (purpose, consent) in members["gdpr"]?.members ?? [:] { consents[purpose] = MPGDPRConsent(consent) }
        ccpa = members["ccpa"]?[MPConsentState.sale].map(MPCCPAConsent.init)
    }

    var wire: JSON {
        .sparse([
            "gdpr": consents.isEmpty ? .null : .object(consents.mapValues(\.wire)),
            "ccpa": ccpa.map { [MPConsentState.sale: $0.wire] } ?? .null,
        ])
    }
}
