import TestKit
import Testing

/// Asking what would be, and why, over HTTP (decision 12).
@Suite("read_only, return_matches and explain")
struct InspectionTests {
    private func call(
        _ client: IDSyncClient, _ path: String, _ identities: String, by proof: IDSyncClient.Proof = .basic
    )
        throws -> IDSyncClient.Answer
    {
        IDSyncClient.Answer(try client.call(path, IDSyncClient.body(identities), by: proof))
    }

    @Test("a look changes nothing", arguments: StoreKind.allCases)
    func readOnly(_ kind: StoreKind) throws {
        let client = IDSyncClient(try TestServer(kind))
        let nobody = try call(client, "/v1/identify?read_only=true", #"{"customerid":"a"}"#)
        #expect(nobody.wire.status == 200 && nobody.mpid == "0" && nobody.isLoggedIn == true)
        #expect(client.server.store.counts.people == 0)
        let made = try client.identify(#"{"ios_idfv":"V"}"#).mpid
        let journal = client.server.store.counts.lastSequence
        let would = try call(client, "/v1/login?read_only=true", #"{"customerid":"a","ios_idfv":"V"}"#)
        #expect(would.mpid == made && would.isLoggedIn == true && would.matched == ["ios_idfv": "V"])
        #expect(try call(client, "/v1/logout?read_only=TRUE", #"{"ios_idfv":"V"}"#).mpid == "0")
        #expect(client.server.store.counts.lastSequence == journal)
        #expect(try client.identify(#"{"ios_idfv":"V"}"#).isLoggedIn == false)
        #expect(
            try call(client, "/v1/identify?read_only=perhaps", #"{"ios_idfv":"V"}"#).errorCode == "VALIDATION_ERROR")
    }

    @Test("an explanation names who was meant, who was not and by which rule", arguments: StoreKind.allCases)
    func explain(_ kind: StoreKind) throws {
        let client = IDSyncClient(try TestServer(kind))
        let known = try client.identify(#"{"customerid":"a","ios_idfv":"V"}"#).mpid
        let new = try call(client, "/v1/identify?explain=true", #"{"ios_idfv":"V","email":"null"}"#)
        #expect(new.mpid != known)
        #expect(
            new.wire.body.hasSuffix(
                """
                ,"explain":{"decided_by":"nobody_found","steps":[{"identity_type":"ios_idfv","candidates":[],\
                "excluded":[{"mpid":"\(known)","rule":"no_login_identity_matches"}]}],\
                "set_aside":[{"identity_type":"email","rule":"blocked_value"}]}}
                """), "\(new.wire.body)")
        let again = try call(client, "/v1/search?explain=1", #"{"ios_idfv":"V"}"#)
        #expect(again.mpid == new.mpid)
        #expect(
            again.wire.body.contains(
                #""decided_by":"ios_idfv","steps":[{"identity_type":"ios_idfv","candidates":["\#(new.mpid)"]"#))
        let logout = try call(client, "/v1/logout?explain=true", #"{"ios_idfv":"V"}"#)
        #expect(logout.wire.body.contains(#""decided_by":"strategy""#))
        let tie = try call(client, "/v1/identify?explain=true", #"{"ios_idfv":"V"}"#)
        #expect(tie.wire.body.contains(#""decided_by":"last_seen""#))
    }

    @Test("an explanation is not for a page's key")
    func scope() throws {
        let client = IDSyncClient(try TestServer(.memory))
        let answer = try call(client, "/v1/identify?explain=true", #"{"ios_idfv":"V"}"#, by: .web)
        #expect(answer.wire.status == 403 && answer.wire.body.isEmpty)
        #expect(try call(client, "/v1/identify?explain=false", #"{"ios_idfv":"V"}"#, by: .web).wire.status == 200)
    }

    @Test("the identities that the look-up went by are named", arguments: StoreKind.allCases)
    func matches(_ kind: StoreKind) throws {
        let client = IDSyncClient(try TestServer(kind))
        let all = #"{"customerid":"a","push_token":"P","email":"a@x"}"#
        _ = try client.identify(all)
        let answer = try call(client, "/v1/identify?return_matches=true", all, by: .web)
        #expect(answer.matched.count == 3)
        #expect(answer.wire.body.hasSuffix(#","lookup_identities":{"customerid":"a"}}"#), "\(answer.wire.body)")
    }
}
