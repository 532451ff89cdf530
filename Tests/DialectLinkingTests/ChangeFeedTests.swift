import TestKit
import Testing

/// What those who follow along are told of installs (spec/native.md, Changes).
@Suite("The change feed, of installs")
struct ChangeFeedTests {
    private func events(_ client: LinkingClient, after: Int = 0) throws -> [String] {
        let page = try client.administrator("GET", "/onym/v1/changes?after=\(after)&limit=200")
        return (page.json["changes"] as? [[String: Any]] ?? []).compactMap { change in
            let kind = change["kind"] as? String ?? ""
            guard kind.hasPrefix("install.") || kind == "code.redeemed" || kind == "person.erased" else { return nil }
            let data = change["data"] as? [String: Any] ?? [:]
            let names = ["reason", "device_class", "epoch"].compactMap { name in data[name].map { "\($0)" } }
            return ([kind] + names + (data["by"] == nil ? [] : ["by"])).joined(separator: " ")
        }
    }

    @Test("tells who became active, who is so no longer, and why", arguments: StoreKind.allCases)
    func takeover(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let first = try client.user("e1")
        let tablet = try client.user("e1", "tablet")
        let second = try client.user("e1")
        _ = try client.disable(second.install)
        _ = try client.disable(second.install, false)
        _ = try client.reset(second.token)
        _ = try client.config(tablet.token)
        _ = try client.config(tablet.token)
        #expect(
            try events(client) == [
                "code.redeemed", "install.activated code_redeemed phone 1",
                "code.redeemed", "install.blocked code_redeemed tablet 2",
                "code.redeemed", "install.deactivated superseded phone 3 by", "install.activated code_redeemed phone 3",
                "install.disabled operator phone 3", "install.enabled operator phone 3",
                "install.deactivated reset phone 4", "install.activated promoted tablet 5",
            ])
        _ = try client.delete(first.user)
        #expect(try events(client).last == "person.erased")
    }

    @Test("tells of links, and of the merge that comes with one", arguments: StoreKind.allCases)
    func links(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let (one, two) = (try client.makeInstall(), try client.makeInstall())
        _ = try client.link(one.install, "e1")
        _ = try client.link(two.install, "e1")
        #expect(
            try events(client) == [
                "install.activated linked phone 1", "install.deactivated superseded phone 2 by",
                "install.activated linked phone 2",
            ])
        #expect(try client.administrator("GET", "/onym/v1/changes?kinds=person.merged").body.contains("linking"))
    }
}
