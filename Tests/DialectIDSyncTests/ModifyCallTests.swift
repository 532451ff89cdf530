import TestKit
import Testing

/// Modify over HTTP, on every store.
@Suite("POST /v1/{mpid}/modify")
struct ModifyCallTests {
    private func modify(
        _ client: IDSyncClient, _ mpid: String, _ changes: String, _ more: String = "",
        by proof: IDSyncClient.Proof = .web
    ) throws -> IDSyncClient.Answer {
        let body = #"{"environment":"development"\#(more.isEmpty ? "" : ",\(more)"),"identity_changes":\#(changes)}"#
        return IDSyncClient.Answer(try client.call("/v1/\(mpid)/modify", body, by: proof))
    }

    @Test("moves a unique value, and names both people", arguments: StoreKind.allCases)
    func movesUnique(_ kind: StoreKind) throws {
        let client = IDSyncClient(try TestServer(kind))
        let first = try client.identify(#"{"customerid":"a","email":"a@x"}"#).mpid
        let second = try client.identify(#"{"customerid":"b"}"#).mpid
        let changes = #"[{"identity_type":"customerid","old_value":"b","new_value":"a"}]"#
        let answer = try modify(client, second, changes)
        #expect(answer.wire.status == 200)
        #expect(
            answer.wire.body == """
                {"change_results":[{"identity_type":"customerid","modified_mpid":"\(second)"},\
                {"identity_type":"customerid","modified_mpid":"\(first)"}]}
                """)
        #expect(try client.identify(#"{"customerid":"a"}"#).mpid == second)
        #expect(try client.identify(#"{"email":"a@x"}"#).mpid == first, "who lost its login identity is anonymous")
    }

    @Test("of a value to itself adds the value where the person lacks it", arguments: StoreKind.allCases)
    func unchanged(_ kind: StoreKind) throws {
        let scene = try IDSyncScene(
            kind, strategy: #"{"preset":"default","unique":["customerid","email"]}"#)
        let rows = [
            ("identify customerid=1 email=a ios_idfv=v", "P1 known"),
            ("identify customerid=2 email=b ios_idfv=w", "P2 known"),
            // Held, not held, held elsewhere: of a type that is not unique, and of one that is.
            ("modify P1 email a>a", "nothing"), ("holds P1", "customerid=1 email=a ios_idfv=v"),
            ("modify P1 other x>x", "P1.other"), ("modify P1 other x>x", "nothing"),
            ("modify P1 ios_idfv w>w", "P1.ios_idfv"), ("holds P2", "customerid=2 email=b ios_idfv=w"),
            ("modify P1 email b>b", "P2.email P1.email"), ("holds P2", "customerid=2 ios_idfv=w"),
            ("holds P1", "customerid=1 email=a email=b ios_idfv=v ios_idfv=w other=x"),
            (#"strategy {"immutable":["customerid"]}"#, "200"),
            ("modify P1 customerid 1>1", "nothing"), ("modify P1 customerid 3>3", "400 VALIDATION_ERROR"),
            ("modify P1 customerid 2>2", "400 VALIDATION_ERROR"),
        ]
        for (line, expected) in rows { #expect(try scene.play(line) == expected, "\(line)") }
    }

    @Test("takes nulls and missing values for none", arguments: StoreKind.allCases)
    func nulls(_ kind: StoreKind) throws {
        let client = IDSyncClient(try TestServer(kind))
        let mpid = try client.identify(#"{"customerid":"a"}"#).mpid
        for changes in [
            "[]", #"[{"identity_type":"email","old_value":null,"new_value":null}]"#, #"[{"identity_type":"email"}]"#,
            #"[{"identity_type":"customerid","old_value":"a","new_value":"a"}]"#,
            #"[{"identity_type":"email","old_value":"","new_value":""}]"#,
        ] {
            let answer = try modify(client, mpid, changes)
            #expect(answer.wire.status == 200 && answer.wire.body == #"{"change_results":[]}"#, "\(changes)")
        }
        let added = try modify(client, mpid, #"[{"identity_type":"other_id_2","new_value":"x"}]"#)
        #expect(added.errorCode == "VALIDATION_ERROR" && added.message?.contains("other_id_2") == true)
        #expect(try modify(client, mpid, #"[{"identity_type":"other2","new_value":"x"}]"#).wire.status == 200)
        #expect(try client.identify(#"{"other2":"x","customerid":"a"}"#).matched == ["other2": "x", "customerid": "a"])
    }

    @Test(
        "refuses what is not a change",
        arguments: [
            ("1", "[]", 404, "NOT_FOUND_ERROR"), ("0", "[]", 404, "NOT_FOUND_ERROR"),
            ("-9223372036854775808", "[]", 404, "NOT_FOUND_ERROR"), ("x", "[]", 400, "VALIDATION_ERROR"),
            ("9223372036854775808", "[]", 400, "VALIDATION_ERROR"), ("1", "{}", 400, "VALIDATION_ERROR"),
            ("1", "[1]", 400, "VALIDATION_ERROR"), ("1", "[{}]", 400, "VALIDATION_ERROR"),
            ("1", #"[{"identity_type":"email","new_value":1}]"#, 400, "VALIDATION_ERROR"),
            ("1", "[", 400, "BAD_REQUEST"),
        ])
    func refuses(_ mpid: String, _ changes: String, _ status: Int, _ code: String) throws {
        let client = IDSyncClient(try TestServer(.memory))
        let answer = try modify(client, mpid, changes)
        #expect(answer.wire.status == status && answer.errorCode == code, "\(answer.wire)")
    }

    @Test("answers the same to the same request, whoever came between", arguments: StoreKind.allCases)
    func repeated(_ kind: StoreKind) throws {
        let client = IDSyncClient(try TestServer(kind))
        let mpid = try client.identify(#"{"customerid":"a"}"#).mpid
        let changes = #"[{"identity_type":"email","old_value":null,"new_value":"n@x"}]"#
        let first = try modify(client, mpid, changes, #""request_id":"r""#)
        _ = try modify(client, mpid, #"[{"identity_type":"email","old_value":"n@x","new_value":null}]"#)
        #expect(try modify(client, mpid, changes, #""request_id":"r""#).wire.body == first.wire.body)
        // It was the answer alone that came again.
        #expect(try client.identify(#"{"email":"n@x","customerid":"a"}"#).matched == ["customerid": "a"])
    }

    @Test("is signed for the default path, whatever the prefix", arguments: IDSyncClient.Proof.allCases)
    func prefixes(_ proof: IDSyncClient.Proof) throws {
        let client = IDSyncClient(try TestServer(.memory))
        let mpid = try client.identify(#"{"customerid":"a"}"#).mpid
        for prefix in ["/v1", "/identity/v1", "/identity", ""] {
            let answer = try client.call(
                "\(prefix)/\(mpid)/modify", #"{"environment":"development","identity_changes":[]}"#, by: proof,
                signedPath: "/v1/\(mpid)/modify")
            #expect(answer.status == 200, "\(prefix)")
        }
    }

    @Test("keeps what it changed over a restart, on what the disk keeps")
    func restart() throws {
        let fixture = try StoreFixture(.sqlite)
        let first = try fixture.identify([.customerID: "a", .email: "a@x"]).person
        let second = try fixture.identify([.customerID: "b"]).person
        var call = StoreFixture.IdentifyCall([.customerID: "a"])
        call.modifies = second
        #expect(throws: Never.self) { try fixture.process([call])[0].get() }
        try fixture.reopen()
        #expect(try fixture.identify([.customerID: "a"]).person == second)
        #expect(try fixture.identify([.email: "a@x"]).person == first)
        // The number of a link that has ended is not given to another, even if it was the last.
        call.oldNames = [.customerID: "a"]
        #expect(throws: Never.self) { try fixture.process([call])[0].get() }
        try fixture.reopen()
        _ = try fixture.identify([.customerID: "c"])
        try fixture.reopen()
        #expect(try fixture.identify([.customerID: "c"]).matched == 1)
    }
}
