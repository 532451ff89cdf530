import Testing
import VendorFiles

@Suite("Facts of each vendor")
struct VendorTests {
    private func purchases(_ reading: Reading) -> [String] {
        reading.facts.filter { $0.contains(#""kind":"purchase""#) }
    }

    /// The value of a member that is a text.
    private func member(_ name: String, _ fact: String) -> String? {
        fact.range(of: "\"\(name)\":\"").map { range in String(fact[range.upperBound...].prefix { $0 != "\"" }) }
    }

    // MARK: mParticle

    @Test("warns of MPIDs that look rounded")
    func rounded() throws {
        let rounded = try Reading(.mparticle, "{\"mpid\":9080350317581165000}\n{\"mpid\":5}\n")
        #expect(rounded.report.warnings.count == 1)
        #expect(rounded.report.warnings.first?.hasPrefix("1 of 2 MPIDs end in 000") == true)
        let whole = try Reading(.mparticle, (1...999).map { "{\"mpid\":\($0)}\n" }.joined() + "{\"mpid\":1000}\n")
        #expect(whole.report.warnings.isEmpty)
    }

    @Test("skips records of the environment development, unless they are asked for")
    func development() throws {
        let text = #"{"mpid":7,"environment":"development"}"#
        #expect(try Reading(.mparticle, text).lines.isEmpty)
        #expect(try Reading(.mparticle, text).report.leftOut == ["records of the environment development": 1])
        #expect(
            try Reading(.mparticle, VendorOptions(development: true), text).facts == [#"{"kind":"person","id":"7"}"#])
    }

    @Test("writes a repeated identity once, and a property when it changes")
    func repeated() throws {
        func batch(_ plan: String, _ at: Int) -> String {
            #"{"mpid":1,"timestamp_unixtime_ms":\#(at),"user_identities":{"email":"a@b.c"},"user_attributes":{"plan":"\#(plan)"}}"#
                + "\n"
        }
        let reading = try Reading(
            .mparticle, batch("a", 1000) + batch("a", 2000) + batch("b", 3000) + batch("c", 2500) + batch("a", 4000))
        #expect(reading.report.lines == ["person": 1, "link": 1, "property": 3])
        let plans = reading.facts.filter { $0.contains("property") }.compactMap { member("value", $0) }
        #expect(plans == ["a", "b", "a"])
    }

    // MARK: Segment

    @Test("names types of Segment by a map")
    func segmentMap() throws {
        let map = try VendorMap(
            json: Array(
                #"{"format":"csv","vendor":"segment","identities":[{"type":"android_aaid","from":"android.idfa"}]}"#
                    .utf8))
        let text = "canonical_segment_id,type,value\na,android.idfa,8c61\n"
        #expect(try Reading(.segment, text).report.lines["link"] == nil)
        let reading = try Reading(.segment, VendorOptions(map: map), text)
        #expect(reading.facts.last == #"{"kind":"link","key":"segment:a","type":"android_aaid","value":"8c61"}"#)
    }

    // MARK: PostHog

    @Test("links a distinct id by its highest version, whatever the order of the rows")
    func distinctIDs() throws {
        let header = "distinct_id,person_id,properties,person_version,person_distinct_id_version,is_deleted\n"
        let rows = [
            "ada,p1,{},0,0,0\n", "ada,p2,{},0,2,0\n", "ada,p3,{},0,1,0\n", "eve,p1,{},0,0,0\n", "eve,p1,{},0,1,1\n",
        ]
        for order in [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [1, 0, 4, 2, 3]] {
            let reading = try Reading(.posthog, header + order.map { rows[$0] }.joined())
            let links = reading.facts.filter { $0.contains(#""kind":"link""#) }
            #expect(links == [#"{"kind":"link","key":"posthog:p2","type":"customerid","value":"ada"}"#])
        }
    }

    @Test("takes the properties of a person's highest version, and removes those that it does not have")
    func personVersions() throws {
        let header = "distinct_id,person_id,properties,person_version,created_at\n"
        let reading = try Reading(
            .posthog,
            header + #"a,p,"{""x"":1,""y"":1}",1,2022-01-01"# + "\n" + #"a,p,"{""x"":2}",2,2022-01-01"# + "\n"
                + #"a,p,"{""x"":0}",0,2022-01-01"# + "\n")
        let properties = reading.facts.filter { $0.contains("property") }.map {
            $0.replacing(#"{"kind":"property","key":"posthog:p","dialect":"idsync","name":"#, with: "")
        }
        #expect(
            properties == [
                #""x","value":1,"at":"2022-01-01T00:00:00.001Z"}"#, #""y","value":1,"at":"2022-01-01T00:00:00.001Z"}"#,
                #""x","value":2,"at":"2022-01-01T00:00:00.002Z"}"#,
                #""y","value":null,"at":"2022-01-01T00:00:00.002Z"}"#,
            ])
        #expect(reading.report.leftOut == ["older versions of people": 1])
    }

    @Test("keeps a second customer id of a person as an imported id")
    func secondCustomerID() throws {
        let reading = try Reading(.posthog, #"{"uuid":"u","distinct_ids":["a","b"],"properties":{}}"#)
        #expect(reading.facts.contains(#"{"kind":"link","key":"posthog:u","type":"customerid","value":"a"}"#))
        #expect(
            reading.facts.contains(
                #"{"kind":"link","key":"posthog:u","type":"imported_id","value":"posthog:distinct:b"}"#))
    }

    @Test("keeps 100 device stamps of a person, however often each comes")
    func deviceStamps() throws {
        func event(_ n: Int, _ stamp: Int) -> String {
            let hex = String(1000 + stamp)
            return #"{"uuid":"e\#(n)","event":"x","person_id":"p","timestamp":"2026-01-01","distinct_id":"#
                + #""0000\#(hex)-0000-4000-8000-000000000000"}"# + "\n"
        }
        let text = (0..<150).map { event($0, 0) }.joined() + (1...101).map { event(1000 + $0, $0) }.joined()
        let reading = try Reading(.posthog, text)
        #expect(reading.facts.filter { $0.contains(#""type":"device_application_stamp""#) }.count == 100)
        #expect(
            reading.facts.filter {
                $0.contains(#""type":"imported_id","value":"posthog:distinct:"#) && $0.contains("link")
            }.count == 2)
    }

    // MARK: RevenueCat

    private static let export =
        "rc_original_app_user_id,rc_last_seen_app_user_id_alias,product_identifier,start_time,end_time,store,"
        + "store_transaction_id,original_store_transaction_id,renewal_number,updated_at,refunded_at,"
        + "unsubscribe_detected_at,entitlement_identifiers,is_sandbox\n"

    @Test("orders the states of a purchase by renewal number, whatever the order of the rows")
    func renewals() throws {
        let rows = (0..<4).map { n in
            "ada,ada,pro,2026-0\(n + 1)-01,2026-0\(n + 2)-01,app_store,t\(n),t0,\(n),2026-09-01,,,,\n"
        }
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]] {
            let reading = try Reading(.revenuecat, VendorTests.export + order.map { rows[$0] }.joined())
            let states = purchases(reading)
            #expect(states.count == 4)
            let latest = try #require(states.max { (member("as_of", $0) ?? "") < (member("as_of", $1) ?? "") })
            #expect(member("transaction", latest) == "t3")
            #expect(states.filter { member("as_of", $0) == member("as_of", latest) }.count == 1)
        }
    }

    @Test("tells the state of a purchase")
    func purchaseState() throws {
        let reading = try Reading(
            .revenuecat,
            VendorTests.export
                + "$RCAnonymousID:1,ada,pro,2026-01-01,2026-02-01,mac_app_store,t,t,0,2026-01-03,2026-01-02,2026-01-02,,true\n"
                + "ada,ada,pro,2026-01-01,2025-02-01,app_store,u,u,0,,,,,\n")
        #expect(
            purchases(reading) == [
                #"{"kind":"purchase","principal":"sandbox_user_id:$RCAnonymousID:1","world":"sandbox","store":"app_store","transaction":"t","original":"t","product":"pro","bought":"2026-01-01T00:00:00.000Z","expires":"2026-02-01T00:00:00.000Z","refunded":"2026-01-02T00:00:00.000Z","renewal":"canceled","period":"normal","as_of":"2026-01-03T00:00:00.000Z"}"#
            ])
        #expect(reading.facts.contains { $0.contains(#""type":"sandbox_identity","value":"ada""#) })
        #expect(reading.refused.map(\.detail) == ["end_time is before start_time."])
    }

    @Test("grants what a promotion gave, and with --grant-unsupported what an unknown store gave")
    func grants() throws {
        let text =
            VendorTests.export + #"ada,ada,x,2026-01-01,2026-02-01,promotional,t,t,0,,,,"""[\""pro\""]""","# + "\n"
            + #"eve,eve,x,2026-01-01,,roku,t,t,0,,,,"[""pro"",""plus""]","# + "\n"
        let plain = try Reading(.revenuecat, text)
        #expect(
            plain.facts.filter { $0.contains(#""kind":"grant""#) } == [
                #"{"kind":"grant","principal":"access_identity:ada","world":"production","entitlement":"pro","from":"2026-01-01T00:00:00.000Z","until":"2026-02-01T00:00:00.000Z","reason":"promotional"}"#
            ])
        #expect(plain.refused.map(\.reason) == [.unsupportedStore])
        let granted = try Reading(.revenuecat, VendorOptions(grantUnsupported: true), text)
        #expect(granted.refused.isEmpty)
        #expect(granted.report.lines["grant"] == 3)
    }

    // MARK: Qonversion

    @Test("reads seconds, keeps the start of a transaction, and tells refunds")
    func qonversion() throws {
        func body(_ name: String, _ time: Int) -> String {
            #"{"event_name":"\#(name)","user_id":"QON_1","time":\#(time),"product_id":"pro","transaction":{"transaction_id":5,"original_transaction_id":4,"expires":1600259200},"environment":"production"}"#
                + "\n"
        }
        let reading = try Reading(
            .qonversion, VendorOptions(store: .playStore),
            body("trial_started", 1_600_000_000) + body("trial_canceled", 1_600_000_500)
                + body("subscription_refunded", 1_600_001_000))
        let states = purchases(reading)
        #expect(states.map { member("bought", $0) } == Array(repeating: "2020-09-13T12:26:40.000Z", count: 3))
        #expect(states.map { member("renewal", $0) } == ["will_renew", "canceled", "canceled"])
        #expect(states.map { member("period", $0) } == ["trial", "trial", "normal"])
        #expect(states.map { member("refunded", $0) } == [nil, nil, "2020-09-13T12:43:20.000Z"])
        #expect(states.map { member("store", $0) } == Array(repeating: "play_store", count: 3))
        #expect(states.map { member("expires", $0) } == Array(repeating: "2020-09-16T12:26:40.000Z", count: 3))
    }

    @Test("a purchase of which only the end was told does not start behind its end")
    func expired() throws {
        let reading = try Reading(
            .qonversion, VendorOptions(store: .stripe),
            #"{"event_name":"subscription_expired","user_id":"u","time":1600000500,"product_id":"pro","transaction":{"transaction_id":"t","expires":1600000000}}"#
        )
        let state = try #require(purchases(reading).first)
        #expect(member("bought", state) == member("expires", state))
        #expect(member("original", state) == "t")
    }

    // MARK: OwlMetry

    @Test("makes a person of each claimed id, merged by the rule claim")
    func claims() throws {
        let reading = try Reading(
            .owlmetry,
            "project_id,user_id,is_anonymous,claimed_from,first_seen_at,last_seen_at\n"
                + #"p,ada,f,"[""owl_anon_1""]",2026-01-01 00:00:00+00,2026-01-02 00:00:00+00"# + "\n"
                + "q,owl_anon_2,t,,,\n")
        #expect(
            reading.facts.contains(
                #"{"kind":"merge","from_key":"owlmetry:owl_anon_1","into_key":"owlmetry:ada","rule":"claim","at":"2026-01-02T00:00:00.000Z"}"#
            ))
        #expect(reading.facts.last?.contains(#""type":"claim_anonymous_id","value":"owl_anon_2""#) == true)
        #expect(reading.report.warnings.count == 1)
    }

    // MARK: Maps

    @Test("reads JSON lines through a map, with paths, constants and kept ids")
    func map() throws {
        let map = try VendorMap(
            json: Array(
                #"""
                {"format":"jsonl","vendor":"acme","person":"user.id","made":"user.created",
                 "identities":[{"type":"email","from":["none","user.mail"]},{"type":"other","from":"const:acme"}],
                 "properties":{"dialect":"entitlements","from":"props.*","except":["pw"],"at":"t"},
                 "event":{"name":"event","at":"t","unit":"ms"},
                 "purchase":{"principal":{"type":"access_user_id","from":"user.mail"},"store":"shop","transaction":"tx",
                  "product":"const:pro","bought":"t","period":"const:trial"}}
                """#.utf8))
        let text =
            #"{"user":{"id":-5,"mail":"a@b.c","created":"2026-01-01"},"props":{"n":1.5,"pw":"x"},"t":1700000005000,"event":"e","tx":9,"shop":"paddle"}"#
            + "\n" + #"{"user":{"id":6},"t":1,"tx":1,"shop":"kiosk"}"# + "\n"
        let reading = try Reading(.jsonl, VendorOptions(world: .sandbox, map: map), text)
        #expect(
            reading.facts.filter { $0.contains("\"-5\"") && !$0.contains("row") } == [
                #"{"kind":"person","id":"-5","made":"2026-01-01T00:00:00.000Z"}"#,
                #"{"kind":"link","person":"-5","type":"email","value":"a@b.c","since":"2023-11-14T22:13:25.000Z"}"#,
                #"{"kind":"link","person":"-5","type":"other","value":"acme","since":"2023-11-14T22:13:25.000Z"}"#,
                #"{"kind":"property","person":"-5","dialect":"entitlements","name":"n","value":1.5,"at":"2023-11-14T22:13:25.000Z"}"#,
            ])
        let event = try #require(reading.facts.first { $0.contains(#""kind":"row""#) })
        #expect(member("id", event)?.count == 32)
        #expect(
            purchases(reading) == [
                #"{"kind":"purchase","principal":"access_user_id:a@b.c","world":"sandbox","store":"paddle","transaction":"9","original":"9","product":"pro","bought":"2023-11-14T22:13:25.000Z","expires":null,"refunded":null,"renewal":null,"period":"trial"}"#
            ])
        #expect(reading.refused.map(\.line) == [2])
    }

    @Test(
        "refuses maps that are not usable, and names the member",
        arguments: [
            (#"{"vendor":"a"}"#, "format"), (#"{"format":"xml","vendor":"a"}"#, "format"),
            (#"{"format":"csv"}"#, "vendor"),
            (#"{"format":"csv","vendor":"a","kee":"x"}"#, "kee"),
            (#"{"format":"csv","vendor":"a","identities":[{"type":"pigeon","from":"x"}]}"#, "identities.type"),
            (#"{"format":"csv","vendor":"a","properties":{"from":"x"}}"#, "properties.from"),
            (#"{"format":"csv","vendor":"a","event":{"name":"x"}}"#, "event"),
            (#"{"format":"csv","vendor":"a","event":{"name":"x","at":"y","unit":"h"}}"#, "event.unit"),
            (#"{"format":"csv","vendor":"a","purchase":{"store":"x"}}"#, "purchase.principal"),
            (#"{"format":"csv","vendor":"a","purchase":{"shop":"x"}}"#, "shop"), ("[", "JSON"),
        ])
    func badMaps(_ json: String, _ member: String) throws {
        let fault = #expect(throws: VendorFault.self) { _ = try VendorMap(json: Array(json.utf8)) }
        #expect(fault?.message.contains(member) == true, "\(fault?.message ?? "")")
    }

    @Test("finds columns whose names have capital letters beyond ASCII")
    func capitalLetters() throws {
        let map = try VendorMap(
            json: Array(
                #"""
                {"format":"csv","vendor":"a","key":"KÄUFER","identities":[{"type":"email","from":"Émail"}],
                 "properties":{"from":"Ämter.*"}}
                """#.utf8))
        let reading = try Reading(.csv, VendorOptions(map: map), "KÄUFER,Émail,Ämter.Rang\n7,a@b.c,2\n")
        #expect(
            reading.facts == [
                #"{"kind":"person","key":"a:7"}"#,
                #"{"kind":"link","key":"a:7","type":"email","value":"a@b.c"}"#,
                #"{"kind":"property","key":"a:7","dialect":"idsync","name":"Rang","value":"2"}"#,
            ])
        #expect(reading.report.unknownColumns.isEmpty)
    }

    @Test("needs a person in a map, but not for Segment")
    func mapWithoutPerson() throws {
        let map = try VendorMap(json: Array(#"{"format":"csv","vendor":"a"}"#.utf8))
        let fault = #expect(throws: VendorFault.self) { try Reading(.csv, VendorOptions(map: map), "a,b\n1,2\n") }
        #expect(fault?.message.contains("key") == true)
    }
}
