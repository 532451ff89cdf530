import JSON
package import Outbound

/// Apple's AdServices: it answers which ad led to an app, for a token of the device (spec/claim.md 6).
package struct AdServices: Sendable {
    /// The address of Apple's service; tests use another address.
    package var url: OutboundURL = AdServices.standardURL
    /// The seconds after which a client should ask again, if Apple had no answer yet.
    package var retryAfterSeconds = AdServices.standardRetrySeconds
    /// Whether a client may choose the answer itself, for tests.
    package var takesMocks = false

    package init() {}

    package static let standardRetrySeconds = 3600
    package static let standardURL: OutboundURL = {
        guard let url = OutboundURL("https://api-adservices.apple.com/api/v1/") else {
            preconditionFailure("Apple's address is one.")
        }
        return url
    }()

    /// The greatest length of a token in bytes; Apple's tokens have some hundred bytes.
    static let tokenBytes = 16 << 10

    /// Makes the call to Apple for a token.
    func call(_ token: String) -> OutboundCall {
        OutboundCall(.post(Array(token.utf8), contentType: "text/plain"), url)
    }

    /// Reads Apple's answer.
    static func attribution(
        _ result: OutboundClient.Result, _ parser: JSONParser
    ) throws(AttributionFault) -> Attribution {
        let answer: OutboundAnswer
        switch result {
        case .success(let it): answer = it
        case .failure(.overloaded), .failure(.cancelled): throw .overloaded
        case .failure(let fault): throw .upstream(status: 0, message: fault.message)
        }
        switch answer.status {
        case 200..<300:
            do throws(JSONFault) {
                return try parser.read(answer.body) { root throws(JSONFault) in try Payload(root).attribution }
            } catch {
                throw .upstream(status: answer.status, message: "The answer cannot be read: \(error.message)")
            }
        case 400: throw .rejected
        case 404: return .pending
        default: throw .upstream(status: answer.status, message: "The server answered \(answer.status).")
        }
    }

    /// The parts of Apple's answer that Onym uses.
    private struct Payload {
        private var isAttributed: Bool?
        private var organization: Int64?
        private var campaign = Attribution.Campaign()

        init(_ root: JSONValue) throws(JSONFault) {
            try root.forEachMember(at: "the answer") { key, value throws(JSONFault) in
                switch key {
                case "attribution": isAttributed = try value.bool(at: "attribution")
                case "orgId": organization = Payload.id(value)
                case "campaignId": campaign.campaign = Payload.id(value)
                case "adGroupId": campaign.adGroup = Payload.id(value)
                case "keywordId": campaign.keyword = Payload.id(value)
                case "adId": campaign.ad = Payload.id(value)
                case "creativeSetId": campaign.creativeSet = Payload.id(value)
                case "claimType": campaign.claimType = Payload.word(value)
                default: break
                }
            }
            if isAttributed == nil { throw JSONFault(.wrong("is required"), at: "attribution") }
        }

        var attribution: Attribution {
            guard isAttributed == true else { return .organic }
            return isFixture ? .testInstall : .campaign(campaign)
        }

        /// Whether the answer is a test fixture: one id for the campaign and the ad group, and for the ad too, if the answer
        /// has an ad. Real answers never repeat an id. In the example on Apple's page, the organization has the same id and
        /// the ad has another.
        private var isFixture: Bool {
            guard let id = campaign.campaign, campaign.adGroup == id else { return false }
            return campaign.ad == nil || campaign.ad == id || organization == id
        }

        private static func id(_ value: JSONValue) -> Int64? {
            guard let id = try? value.integer(at: ""), id > 0 else { return nil }
            return id
        }

        /// A word that fits a property; nil for a longer or empty word.
        private static func word(_ value: JSONValue) -> String? {
            guard let word = try? value.string(at: ""), (1...IdentityCalls.valueUnits).contains(word.utf16.count)
            else { return nil }
            return word
        }
    }
}
