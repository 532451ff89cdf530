import Domain
import SQLite
import TestKit
import Testing

/// The rules of spec/idsync.md 3.2 to 3.5 and the decisions at its head as rows, played over HTTP on every store. What a
/// line means is said at `IDSyncScene`.
@Suite("The rules of IDSync")
struct RulesTests {
    /// Calls under a strategy, each with what it is answered with.
    struct Row: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let strategy: String
        let lines: [(call: String, answer: String)]

        init(_ name: String, _ strategy: String, _ lines: [(call: String, answer: String)]) {
            testDescription = name
            self.strategy = strategy
            self.lines = lines
        }

        /// Under the default strategy.
        init(_ name: String, _ lines: [(call: String, answer: String)]) { self.init(name, "{}", lines) }
    }

    @Test("hold", arguments: resolution + operations + modify + examples + decisions, StoreKind.allCases)
    func holds(_ row: Row, _ kind: StoreKind) throws {
        let scene = try IDSyncScene(kind, strategy: row.strategy)
        for line in row.lines {
            let answer = try scene.play(line.call)
            #expect(answer == line.answer, "\(line.call)")
        }
    }

    private static let bothLogIn = #"{"login":["customerid","email"],"unique":["customerid"]}"#
    private static let link = #"{"preset":"profile_link"}"#
    private static let isolation = #"{"preset":"profile_isolation"}"#
    private static let bestMatch = #"{"preset":"best_match"}"#
    private static let immutable = #"{"immutable":["customerid"]}"#

    // MARK: - 3.2 Look-up

    static let resolution = [
        Row(
            "an unmatched identity vetoes nothing below it",
            [
                ("identify ios_idfv=1", "P1 anonymous"),
                ("identify customerid=C email=E ios_idfv=1", "P1 known"),
            ]),
        Row(
            "the highest type that finds anybody decides, and lower ones do not outvote it",
            [
                ("identify mobile_number=M", "P1 anonymous"), ("identify email=E other=O ios_idfv=1", "P2 anonymous"),
                ("identify mobile_number=M email=E other=O ios_idfv=1", "P1 anonymous"),
            ]),
        Row(
            "a lower type that none of the candidates holds leaves them as they are",
            [
                ("identify email=E ios_idfv=1", "P1 anonymous"), ("identify customerid=X ios_idfv=2", "P2 known"),
                ("modify P2 email >E", "P2.email"), ("modify P2 customerid X>", "P2.customerid"),
                ("identify email=E other=O ios_idfv=1", "P1 anonymous"),
                ("identify email=E android_uuid=9 ios_idfv=2", "P2 anonymous"),
            ]),
        Row(
            "another customer id keeps away from the profile that shares the address",
            [
                ("identify customerid=OLD email=E", "P1 known"), ("identify customerid=NEW email=E", "P2 known"),
                ("holds P2", "customerid=NEW email=E"),
            ]),
        Row(
            "one of several login identities is enough", bothLogIn,
            [
                ("identify customerid=OLD email=E", "P1 known"), ("identify customerid=NEW email=E", "P1 known"),
                ("holds P1", "customerid=NEW customerid=OLD email=E"), ("identify customerid=NEW", "P1 known"),
            ]),
        Row(
            "unless the customer id is immutable",
            #"{"login":["customerid","email"],"unique":["customerid"],"immutable":["customerid"]}"#,
            [
                ("identify customerid=OLD email=E", "P1 known"), ("identify customerid=NEW email=E", "P2 known"),
                ("holds P2", "customerid=NEW email=E"), ("identify email=E", "P3 known"),
            ]),
        Row(
            "an identity that matches the login needs not be in the hierarchy", #"{"hierarchy":["ios_idfv"]}"#,
            [
                ("identify customerid=C ios_idfv=1", "P1 known"), ("identify customerid=C ios_idfv=1", "P1 known"),
                ("identify ios_idfv=1", "P2 anonymous"), ("identify customerid=C", "P3 anonymous"),
            ]),
    ]

    // MARK: - 3.3 Operations

    static let operations = [
        Row(
            "a login needs a login identity where new users are made apart: link", link,
            [("login ios_idfv=1", "400 LOOKUP_ERROR"), ("identify ios_idfv=1", "P1 anonymous")]),
        Row(
            "a login needs a login identity where new users are made apart: isolation", isolation,
            [("login ios_idfv=1", "400 LOOKUP_ERROR"), ("login other=O email=E", "P1 known")]),
        Row(
            "a login without one is an identify elsewhere",
            [("login ios_idfv=1", "P1 anonymous"), ("login ios_idfv=1", "P1 anonymous")]),
        Row(
            "a new user is made apart, and a known one found, under link", link,
            [
                ("identify ios_idfv=1", "P1 anonymous"), ("identify customerid=C ios_idfv=1", "P2 known"),
                ("login customerid=C ios_idfv=1", "P2 known"), ("login customerid=NEW email=E ios_idfv=1", "P3 known"),
                ("login customerid=NEWER email=E", "P3 known"), ("identify ios_idfv=1", "P1 anonymous"),
            ]),
        Row(
            "a logout goes back to the device's own profile, or makes it, under isolation", isolation,
            [
                ("login customerid=C ios_idfv=1", "P1 known"), ("logout ios_idfv=1", "P2 anonymous"),
                ("login customerid=C ios_idfv=1", "P1 known"), ("logout ios_idfv=1", "P2 anonymous"),
            ]),
        Row(
            "a logout makes somebody new each time elsewhere", link,
            [
                ("logout other2=X", "P1 anonymous"), ("logout other2=X", "P2 anonymous"),
                ("login customerid=C", "P3 known"), ("logout other2=X", "P4 anonymous"),
            ]),
        Row(
            "nobody logs in or out under best match", bestMatch,
            [
                ("login ios_idfv=1", "P1 anonymous"), ("logout ios_idfv=1", "P1 anonymous"),
                ("login customerid=C ios_idfv=1", "P1 anonymous"), ("identify ios_idfv=1", "P1 anonymous"),
            ]),
        Row(
            "a search makes nobody and attaches nothing",
            [
                ("search email=E", "404 NOT_FOUND_ERROR"), ("search email=E", "404 NOT_FOUND_ERROR"),
                ("identify email=E", "P1 anonymous"), ("search email=E other=O", "P1 anonymous"),
                ("holds P1", "email=E"),
            ]),
    ]

    // MARK: - 3.4 Modify

    static let modify = [
        Row(
            "takes the old value and gives the new one",
            [
                ("identify customerid=C email=a", "P1 known"), ("modify P1 email a>b", "P1.email"),
                ("holds P1", "customerid=C email=b"), ("modify P1 email x>c", "P1.email"),
                ("holds P1", "customerid=C email=b email=c"), ("modify P1 email b> email c>", "P1.email"),
                ("holds P1", "customerid=C"), ("modify P1 customerid C>", "P1.customerid"), ("holds P1", "nothing"),
            ]),
        Row(
            "does not change an immutable identity, nor anything else of the call", immutable,
            [
                ("identify customerid=C", "P1 known"), ("modify P1 email >a customerid C>D", "400 VALIDATION_ERROR"),
                ("modify P1 customerid C>", "400 VALIDATION_ERROR"),
                ("modify P1 customerid >D", "400 VALIDATION_ERROR"),
                ("modify P1 customerid C>C email >a", "P1.email"), ("modify P1 customerid >C", "nothing"),
                ("holds P1", "customerid=C email=a"), ("identify ios_idfv=1", "P2 anonymous"),
                ("modify P2 customerid >D", "P2.customerid"),
            ]),
        Row(
            "ends the sharing of a value that has become unique",
            [
                ("identify customerid=A email=E", "P1 known"), ("identify customerid=B email=E", "P2 known"),
                (#"strategy {"unique":["customerid","email"]}"#, "200"),
                ("identify customerid=A email=E", "P1 known"), ("holds P2", "customerid=B email=E"),
                ("modify P1 email >E", "P2.email"), ("holds P1", "customerid=A email=E"),
                ("holds P2", "customerid=B"),
            ]),
        Row(
            "makes nobody: an MPID that nobody has",
            [
                ("modify 42 email >E", "404 NOT_FOUND_ERROR"), ("modify 0 email >E", "404 NOT_FOUND_ERROR"),
                ("modify -6504934091054997508 email >E", "404 NOT_FOUND_ERROR"),
                ("modify 9223372036854775807 email >E", "404 NOT_FOUND_ERROR"),
                ("modify 9223372036854775808 email >E", "400 VALIDATION_ERROR"),
                ("modify P1 email >E", "400 VALIDATION_ERROR"), ("search email=E", "404 NOT_FOUND_ERROR"),
            ]),
        Row(
            "makes a person anonymous by taking its last login identity", bothLogIn,
            [
                ("identify customerid=C email=E ios_idfv=1", "P1 known"),
                ("modify P1 customerid C>", "P1.customerid"), ("identify email=E", "P1 known"),
                ("modify P1 email E>", "P1.email"), ("identify ios_idfv=1", "P1 anonymous"),
            ]),
    ]

    // MARK: - 3.5 Worked examples beside the tables

    static let examples = [
        Row(
            "login e-mail and customer id: an address finds whom it makes known", bothLogIn,
            [
                ("identify customerid=h.jekyll.85 email=ed.hyde ios_idfv=1234", "P1 known"),
                ("identify email=h.jekyll.md", "P2 known"), ("identify email=ed.hyde", "P1 known"),
            ]),
        Row(
            "login e-mail: the address goes before the device", #"{"login":["email"],"unique":[]}"#,
            [
                ("identify customerid=h.jekyll.85 email=ed.hyde ios_idfv=1234", "P1 known"),
                ("identify email=h.jekyll.md", "P2 known"), ("identify email=h.jekyll.md ios_idfv=5678", "P2 known"),
            ]),
        Row(
            "login e-mail: the device alone finds nobody known", #"{"login":["email"],"unique":[]}"#,
            [
                ("identify customerid=h.jekyll.85 email=ed.hyde ios_idfv=1234", "P1 known"),
                ("identify email=h.jekyll.md", "P2 known"), ("identify ios_idfv=1234", "P3 anonymous"),
            ]),
        Row(
            "immutable customer id: a search finds nobody by less", immutable,
            [
                ("identify customerid=h.jekyll.85 email=ed.hyde ios_idfv=1234", "P1 known"),
                ("identify email=h.jekyll.md", "P2 anonymous"), ("search customerid=h.jekyll.85", "P1 known"),
                ("search email=h.jekyll.md", "404 NOT_FOUND_ERROR"), ("search customerid=9101", "404 NOT_FOUND_ERROR"),
                ("identify customerid=9101", "P3 known"),
            ]),
        Row(
            "unique e-mail: modify takes it from whoever held it", #"{"unique":["customerid","email"]}"#,
            [
                ("identify customerid=h.jekyll.85 email=ed.hyde", "P1 known"),
                ("identify email=h.jekyll.md", "P2 anonymous"),
                ("modify P1 email ed.hyde>h.jekyll.md", "P1.email P2.email"), ("holds P2", "nothing"),
                ("identify email=h.jekyll.md customerid=h.jekyll.85", "P1 known"),
            ]),
        Row(
            "nothing unique: both keep it", #"{"unique":[]}"#,
            [
                ("identify customerid=h.jekyll.85 email=ed.hyde", "P1 known"),
                ("identify email=h.jekyll.md", "P2 anonymous"),
                ("modify P1 email ed.hyde>h.jekyll.md", "P1.email"), ("holds P2", "email=h.jekyll.md"),
                ("holds P1", "customerid=h.jekyll.85 email=h.jekyll.md"),
            ]),
    ]

    // MARK: - The decisions at the head

    static let decisions = [
        Row(
            "1: among equals the profile before, else the one seen last",
            [
                ("logout ios_idfv=1", "P1 anonymous"), ("logout ios_idfv=1", "P2 anonymous"),
                ("logout ios_idfv=1", "P3 anonymous"), ("identify ios_idfv=1", "P3 anonymous"),
                ("identify ios_idfv=1 previous=P1", "P1 anonymous"), ("identify ios_idfv=1", "P1 anonymous"),
                ("modify P2 other >o", "P2.other"), ("search ios_idfv=1", "P2 anonymous"),
                ("identify ios_idfv=1 previous=42", "P2 anonymous"),
                ("identify ios_idfv=1 previous=-9223372036854775808", "P2 anonymous"),
            ]),
        Row(
            "2: a logout that names a user says who comes",
            [
                ("login customerid=C ios_idfv=1", "P1 known"), ("logout customerid=C ios_idfv=1", "P1 known"),
                ("logout ios_idfv=1", "P2 anonymous"), ("logout customerid=D ios_idfv=1", "P2 known"),
            ]),
        Row(
            "2: under link a user whom nobody knows is made", link,
            [
                ("identify ios_idfv=1", "P1 anonymous"), ("logout customerid=C ios_idfv=1", "P2 known"),
                ("logout customerid=C ios_idfv=1", "P2 known"),
            ]),
        Row(
            "3: identify adds values, and leaves a unique one with whoever holds it",
            #"{"unique":["customerid","email"]}"#,
            [
                ("identify customerid=A email=a", "P1 known"), ("identify customerid=A email=b", "P1 known"),
                ("holds P1", "customerid=A email=a email=b"), ("identify customerid=B email=a", "P2 known"),
                ("holds P2", "customerid=B"), ("matched customerid=B email=a", "P2 customerid"),
            ]),
        Row(
            "5: what is not in the hierarchy is kept, and looked up by nobody",
            [
                ("identify push_token=T ios_idfv=1", "P1 anonymous"), ("holds P1", "ios_idfv=1 push_token=T"),
                ("identify push_token=T", "P2 anonymous"), ("search push_token=T", "404 NOT_FOUND_ERROR"),
                ("matched push_token=T ios_idfv=1", "P1 ios_idfv,push_token"),
            ]),
        Row(
            "6: values are compared byte by byte",
            [
                ("identify email=A@x", "P1 anonymous"), ("identify email=a@x", "P2 anonymous"),
                ("identify email=é", "P3 anonymous"), ("identify email=e\u{301}", "P4 anonymous"),
                ("search email=é", "P3 anonymous"),
            ]),
        Row(
            "6: e-mail addresses may be taken in small letters, in every call", #"{"lowercase_email":true}"#,
            [
                ("identify email=Ada@X", "P1 anonymous"), ("holds P1", "email=ada@x"),
                ("search email=ADA@x", "P1 anonymous"), ("modify P1 email aDa@x>NEW@X", "P1.email"),
                ("holds P1", "email=new@x"), ("identify other=Ada", "P2 anonymous"),
                ("search other=ada", "404 NOT_FOUND_ERROR"),
            ]),
        Row(
            "6: a value has at most 4096 bytes",
            [
                ("identify customerid=\(String(repeating: "x", count: 4096))", "P1 known"),
                ("search customerid=\(String(repeating: "x", count: 4096))", "P1 known"),
                ("identify customerid=\(String(repeating: "x", count: 4097))", "400 VALIDATION_ERROR"),
                ("modify P1 email >\(String(repeating: "é", count: 2049))", "400 VALIDATION_ERROR"),
            ]),
        Row(
            "7: a type that there is not",
            [
                ("identify shoe_size=44 email=E", "400 VALIDATION_ERROR"), ("search email=E", "404 NOT_FOUND_ERROR"),
                ("identify email=E", "P1 anonymous"), ("modify P1 shoe_size >44", "400 VALIDATION_ERROR"),
                ("login Email=E", "400 VALIDATION_ERROR"),
            ]),
        Row(
            "8: known is who holds a login identity, and matched is what was there before", bothLogIn,
            [
                ("identify email=E", "P1 known"), ("matched email=E ios_idfv=1", "P1 email"),
                ("matched email=E ios_idfv=1 other=O", "P1 email,ios_idfv"), ("matched other=O2", "P2 nothing"),
            ]),
        Row(
            "9: blocked values make nobody known, and join nobody",
            [
                ("identify customerid=null ios_idfv=1", "P1 anonymous"), ("holds P1", "ios_idfv=1"),
                ("login customerid=Undefined", "P2 anonymous"), ("identify customerid=null", "P3 anonymous"),
                ("modify P1 customerid >guest", "nothing"), ("search customerid=null", "404 NOT_FOUND_ERROR"),
                ("identify ios_idfa=00000000-0000-0000-0000-000000000000", "P4 anonymous"),
                ("identify ios_idfa=00000000-0000-0000-0000-000000000000", "P5 anonymous"),
            ]),
        Row(
            "9: which values are blocked is the project's", #"{"blocked_values":["test"]}"#,
            [
                ("identify customerid=TEST", "P1 anonymous"), ("identify customerid=null", "P2 known"),
                ("identify customerid=null", "P2 known"),
            ]),
        Row(
            "9: a value that is blocked is taken from nobody, also where it is immutable",
            [
                ("identify customerid=V", "P1 known"), ("identify email=E", "P2 anonymous"),
                (#"strategy {"blocked_values":["v"],"immutable":["customerid"]}"#, "200"),
                ("modify P2 customerid >V", "nothing"), ("holds P1", "customerid=V"), ("holds P2", "email=E"),
                (#"strategy {"blocked_values":[]}"#, "200"), ("modify P2 customerid >V", "400 VALIDATION_ERROR"),
            ]),
        Row(
            "12: read_only decides all the same, and writes nothing", link,
            [
                ("identify customerid=C read_only", "nobody known"), ("login ios_idfv=1 read_only", "400 LOOKUP_ERROR"),
                ("identify ios_idfv=1", "P1 anonymous"), ("identify ios_idfv=1 other=O read_only", "P1 anonymous"),
                ("login customerid=C ios_idfv=1 read_only", "nobody known"),
                ("logout ios_idfv=1 read_only", "nobody anonymous"),
                ("holds P1", "ios_idfv=1"), ("identify customerid=C", "P2 known"),
            ]),
        Row(
            "13: aliases, where an app has a use for them", link,
            [
                ("identify ios_idfv=1", "P1 anonymous"), ("login customerid=C ios_idfv=1", "P2 known"),
                ("alias P1 P2", "202"), ("alias P1 P1", "400"), ("alias P1 42", "400"), ("alias -7 P2", "400"),
                ("strategy \(isolation)", "200"), ("alias P1 P2", "403"), ("alias P1 42", "403"),
                ("strategy \(bestMatch)", "200"), ("alias P1 P2", "403"),
                (#"strategy {"preset":"profile_conversion"}"#, "200"), ("alias P1 P2", "202"),
                (#"strategy {"preset":"default"}"#, "200"), ("alias P1 P2", "202"),
            ]),
        Row(
            "15: strategies change for the calls that come",
            [
                ("identify ios_idfv=1", "P1 anonymous"), ("identify email=E", "P2 anonymous"),
                ("strategy \(link)", "200"), ("search email=E", "P2 known"),
                ("login customerid=C ios_idfv=1", "P3 known"), ("strategy \(bestMatch)", "200"),
                ("identify customerid=C ios_idfv=1", "P3 anonymous"), (#"strategy {"preset":"default"}"#, "200"),
                ("identify ios_idfv=1", "P1 anonymous"), ("identify customerid=D ios_idfv=1", "P1 known"),
            ]),
    ]

    // MARK: - What lines cannot say

    @Test("9: the journal says which identity was blocked, and not its value", arguments: StoreKind.allCases)
    func journal(_ kind: StoreKind) throws {
        let folder = TemporaryFolder()
        let scene = try IDSyncScene(kind, in: folder)
        #expect(try scene.play("identify customerid=guest ios_idfv=1") == "P1 anonymous")
        let calls = try scene.client.server.store.read { snapshot throws(StoreFault) in
            try snapshot.calls(after: .zero, limit: 100)
        }
        #expect(calls.last?.inputs == [RecordedCall.Input(type: .customerID, value: nil, fate: .blocked)])
        if kind == .sqlite {
            let file = try Connection(path: "\(folder.path)/onym.db", mode: .readOnly)
            let count = "SELECT count(*) FROM journal WHERE hex(inputs) = '0802'"
            #expect(try file.integer(count) == 1)
        }
    }

    @Test("13: production and development are of the same people", arguments: StoreKind.allCases)
    func environment(_ kind: StoreKind) throws {
        let client = IDSyncClient(try TestServer(kind))
        let mpids = try ["production", "development"].map { environment in
            IDSyncClient.Answer(
                try client.call(
                    "/v1/identify", #"{"environment":"\#(environment)","known_identities":{"ios_idfv":"1"}}"#, by: .web)
            ).mpid
        }
        #expect(mpids[0] == mpids[1] && Int64(mpids[0]) != nil)
    }

    @Test("the alias call is found however its path is written", arguments: StoreKind.allCases)
    func pathCase(_ kind: StoreKind) throws {
        let client = IDSyncClient(try TestServer(kind))
        let key = client.server.credentials.idsyncWebKey
        for path in ["/V1/Identity/\(key)/ALIAS", "/webevents/V1/identity/\(key)/Alias", "/v1/IDENTITY/\(key)/alias"] {
            let answer = try client.http.call("POST", path, json: #"{"request_type":"alias"}"#)
            #expect(answer.status == 400 && answer.body.contains("INVALID_DATA"), "\(path) \(answer)")
        }
        #expect(try client.http.call("POST", "/V1/IDENTIFY", json: "{}").status == 404)
    }
}
