import JSON

/// The source of a user, as far as an ad network knows it (spec/claim.md 1.5).
enum Attribution: Equatable, Sendable {
    case campaign(Campaign)
    /// No ad led to the app.
    case organic
    /// The network's answer for an app that does not come from the store.
    case testInstall
    /// The network has no answer yet.
    case pending

    /// An ad that led to the app, with the parts that the network names.
    struct Campaign: Equatable, Sendable {
        var campaign: Int64?
        var adGroup: Int64?
        var keyword: Int64?
        var claimType: String?
        var ad: Int64?
        var creativeSet: Int64?
    }

    /// The user's new properties, in the order of the answer.
    var properties: [(name: String, value: String)] {
        switch self {
        case .pending: []
        case .organic: [("attribution_source", "none")]
        case .testInstall: [("attribution_source", "apple_test_install")]
        case .campaign(let campaign):
            [("attribution_source", "apple_search_ads")]
                + [
                    ("asa_campaign_id", campaign.campaign.map(String.init)),
                    ("asa_ad_group_id", campaign.adGroup.map(String.init)),
                    ("asa_keyword_id", campaign.keyword.map(String.init)), ("asa_claim_type", campaign.claimType),
                    ("asa_ad_id", campaign.ad.map(String.init)),
                    ("asa_creative_set_id", campaign.creativeSet.map(String.init)),
                ].compactMap { name, value in value.map { (name, $0) } }
        }
    }

    /// Writes the members of an answer.
    func write(retryAfterSeconds: Int, to json: inout JSONWriter) {
        json.key("attributed")
        switch self {
        case .campaign: json.bool(true)
        case .organic, .testInstall: json.bool(false)
        case .pending: json.null()
        }
        json.key("pending")
        json.bool(self == .pending)
        if self == .pending {
            json.key("retry_after_seconds")
            json.integer(retryAfterSeconds)
        }
        json.key("properties")
        json.object { json in
            for (name, value) in properties {
                json.key(name)
                json.string(value)
            }
        }
    }

    /// The attribution that a development build chooses instead of the network's answer.
    init?(mock name: String) {
        switch name {
        case "attributed":
            self = .campaign(
                Campaign(
                    campaign: 542_370_539, adGroup: 542_317_095, keyword: 87_675_432, claimType: "click",
                    ad: 542_317_097, creativeSet: 542_317_096))
        case "unattributed": self = .organic
        case "pending": self = .pending
        default: return nil
        }
    }
}

/// The reason why the server has no attribution.
enum AttributionFault: Error, Equatable, Sendable {
    /// The network says that the token is invalid.
    case rejected
    /// The network's answer is missing or unexpected; without an answer the status is 0.
    case upstream(status: Int, message: String)
    /// This server is overloaded, or about to stop.
    case overloaded
}
