/// An example of a command: the line that a person types, and what it answers.
///
/// In the answer … stands for any text of a line, and a line with … alone stands for any lines. A test plays all examples in their order, on
/// one store with demo data, so that they stay true (ExampleHelpTests).
package struct Example: Sendable {
    package let line: String
    package let answer: String

    /// The command that the example belongs to.
    package let command: String

    init(_ command: String, _ words: String = "", _ answer: String) {
        self.command = command
        line = words.isEmpty ? "onym \(command)" : "onym \(command) \(words)"
        self.answer = answer
    }

    /// The example in the help of its command.
    var text: String {
        let lines = answer.split(separator: "\n", omittingEmptySubsequences: false)
        return (["  $ \(line)"] + lines.map { "  \($0)" }).joined(separator: "\n")
    }

    static func of(_ command: String) -> Example? { all.first { $0.command == command } }

    /// The examples, in an order in which each finds what it needs.
    package static let all: [Example] = [
        Example("init", "--data shop --keys-file keys.json", "The keys of the project are in keys.json."),
        Example("serve", "--mode development", "{\"listening\":\"http://127.0.0.1:8080\"}"),
        Example("health", "", "{\"status\":\"ready\"}"),
        Example("demo", "", "dry_run           no\npeople            200\nmerges            12\n…"),
        Example("status", "", "version           0.2.0\n…\nstore\n  kind            sqlite\n…"),
        Example("stats", "", "projects          1\n…\npeople            200\n…"),
        Example(
            "requests", "--route /readyz --limit 1",
            "requests\n  request_id …  at …  route GET /readyz  status 200  …\n…"),
        Example("journal head", "", "{\"store\":\"…}"),
        Example("journal receipt", "3 > receipt.json", "…"),
        Example("journal proof", "--from 3", "{\"from\":3,\"leaves\":4,…}"),
        Example(
            "journal verify", "--receipt receipt.json",
            "Call 3 of … is in the journal, and the journal was not changed before it."),
        Example("jobs", "compact", "id                compact\nkind              compact\n…\nstate             …\n…"),
        Example("audit", "--limit 1", "calls\n  seq 1  at …  kind set_up  …\n…"),
        Example("settings", "--mode development", "…\nmode                          development  (flag)\n…"),
        Example("console", "--role support", "http://127.0.0.1:8080/console#code=oc_1_…"),
        Example(
            "find", "ada.berg@example.com", "…\n  - kind          person\n    person        …\n    root          …\n…"),
        Example("recent", "--limit 1", "…\n  id …\n…"),
        Example("person", "ada.berg@example.com", "id                …\n…\nidentities_count  4\n…"),
        Example(
            "timeline", "ada.berg@example.com --limit 1",
            "rows\n  - id            …\n    kind          event\n    at            …\n…"),
        Example(
            "identities", "ada.berg@example.com --type customerid",
            "identities\n  holder …  type customerid  value demo-1001  …\n…"),
        Example("shared", "demo-1007", "shared\n  - type          ios_idfv\n…"),
        Example("largest", "--by rows --limit 1", "people\n  id …  label …\n…"),
        Example("lanes", "ada.berg@example.com", "lanes\n  type customerid  value demo-1001  rows 3  …\n…"),
        Example("merges", "--limit 1", "merges\n  id m_…  from …  into …  root …  rule administrator  …\n…"),
        Example(
            "explain", "email:ada.berg@example.com customerid:demo-1001",
            "connected         yes\nroot              …\n…"),
        Example(
            "journal", "ada.berg@example.com --limit 1",
            "calls\n  - seq           …\n    at            …\n    kind          import\n…"),
        Example("call", "2", "seq               2\nat                …\nkind              edit_catalog\n…"),
        Example("changes", "--count 1", "5  …  person.created  …"),
        Example(
            "export", "ada.berg@example.com",
            "{\"kind\":\"person\",\"id\":\"…\n{\"kind\":\"identity\",\"person\":\"…\",\"type\":\"imported_id\",\"value\":\"demo:001\",…\n…"
        ),
        Example(
            "access", "demo-1161", "access\n  - entitlement   demo_pro\n    active        yes\n    until         …\n…"),
        Example(
            "grant", "demo-1161 demo_pro --until 2040-01-31T00:00:00Z --reason \"Sorry\"",
            "…\nentitlement       demo_pro\nprincipal         demo-1161\n…\nthen\n  entitlement demo_pro  until 2040-01-31T00:00:00.000Z\n…"
        ),
        Example(
            "transfer", "2000019668766 access_identity:demo-1166 --dry-run --reason \"A new account\"",
            "…\ntransactions\n  transaction_id 2000019668766  …  from demo-1161  to demo-1166\n…"),
        Example("purchases check", "playstore:2000019668766 --stored", "purchase\n  transaction     2000019668766\n…"),
        Example(
            "purchases unfreeze", "playstore:2000019668766",
            "purchase\n  transaction     2000019668766\n…\nfrozen            no\n…"),
        Example("split", "ada.berg@example.com email:ada.berg@example.com --dry-run", "…\nperson            …\n…"),
        Example(
            "attach", "ada.berg@example.com other:A-1 --dry-run",
            "person            …\ntype              other\nvalue             A-1\nheld              yes\n…"),
        Example(
            "detach", "ada.berg@example.com email:ada.berg@example.com --dry-run",
            "…\nheld              no\nnow               …\nthen              -\n…"),
        Example(
            "release", "ios_idfv:1916BF3F-7325-0571-216C-0CBFABBE9BAB --dry-run", "released_from     4\n…"),
        Example("splits", "", "splits            -\n…"),
        Example(
            "merge", "customerid:demo-1050 customerid:demo-1060 --dry-run --reason \"One human\"",
            "…\nfrom              …\ninto              …\nrule              administrator\n…"),
        Example("undo", "3 --dry-run", "call              3\nkind              edit_catalog\n…"),
        Example(
            "erase", "email:ada.berg@example.com --dry-run",
            "erased            no\npeople            …\n…\nidentities        4\n…"),
        Example("strategy show", "", "version          2\npreset           default\n…"),
        Example(
            "strategy dry-run", "--preset profile_link",
            "id                1\nstate             done\n…\n  of              …\ndifference\n…"
        ),
        Example("strategy set", "--preset profile_link", "version          3\npreset           profile_link\n…"),
        Example("strategy rollback", "--version 2", "version          4\npreset           default\n…"),
        Example("strategy versions", "", "4  …  default\n3  …  profile_link\n…"),
        Example("client-config show", "", "{\"version\":0,\"at\":null,\"native\":{},\"web\":{}}"),
        Example("client-config set", "--file config.json", "{\"version\":1,…\"web\":{\"a\":1}}"),
        Example("stores set", "stripe.grace_days=5", "version           1\n…\nstripe\n  grace_days      5\n…"),
        Example("stores show", "", "version           1\n…\nstripe\n  grace_days      5\n…"),
        Example("stores status", "", "stores\n  store app_store  set_up no\n…"),
        Example(
            "entitlements set", "--id plus --name Plus", "plus  name Plus"),
        Example("entitlements list", "", "demo_pro  name Pro\nplus  name Plus"),
        Example(
            "products set", "--id yearly --type subscription --entitlements plus --days 365",
            "yearly  type subscription  duration_seconds 31536000  entitlements plus"),
        Example("products list", "", "…\nyearly  type subscription  duration_seconds 31536000  entitlements plus"),
        Example("offerings set", "--id standard --products yearly --main", "standard  main  products yearly"),
        Example("offerings list", "", "standard  main  products yearly"),
        Example("receipt", "--product yearly", "onym_receipt_…"),
        Example("offerings remove", "--id standard", "removed standard"),
        Example("products remove", "--id yearly", "removed yearly"),
        Example("entitlements remove", "--id plus", "removed plus"),
        Example("access set", "on_shared_receipt=freeze", "created seconds  on_shared_receipt freeze"),
        Example("access show", "", "created seconds  on_shared_receipt freeze"),
        Example("webhooks list", "", "webhooks\n  id …  url http://127.0.0.1:9/  …"),
        Example("webhooks show", "912746264890769790", "id                …\n…\nbehind_calls      …\n…"),
        Example("webhooks test", "912746264890769790", "status            -\nms                …\nfault             …"),
        Example("webhooks replay", "912746264890769790", "replayed          0"),
        Example("apps list", "", "apps\n  id 1  name Demo (idsync)  dialect idsync  …\n…"),
        Example(
            "apps create", "--name Web --dialect idsync --platform web --keys-file web.json",
            "The keys are in web.json."),
        Example("apps revoke", "6", "revoked_at        …\napps              6\n…"),
        Example("keys list", "", "keys\n  id 1  name Administration  kind admin  …\n…"),
        Example("keys create", "--kind admin --name Ada --keys-file ada.json", "The keys are in ada.json."),
        Example("keys revoke", "12", "revoked_at        …\n…\nkeys              12"),
        Example("keys access-root", "", "project           1\nroot              …"),
        Example(
            "signing-keys add", "--pem public.pem --kid k1",
            "id                …\nkid               k1\n…\nalgorithm         EdDSA\n…"),
        Example("signing-keys list", "", "signing_keys\n  - id            …\n    kid           k1\n…"),
        Example("projects list", "", "projects\n  id 1  name Demo  made_at …\n…"),
        Example("master-key rotate", "", "The key … is the newest one. 0 secrets were sealed again. …"),
        Example(
            "master-key list", "",
            "…  older\n          project 1: The secret of the IDSync key \"IDSync\". …\n…\n…  newest\n…"),
        Example(
            "import", "--from csv --map shop.map.json shop.csv",
            "People: 2 taken, 0 were here.\n…\nImport i_… is finished. onym import undo i_… takes it back."),
        Example("compact", "", "running           no\n…\ndone_at           …"),
        Example("backup", "copy", "…\nto                …/copy\n…\nfault             -\n…"),
        Example("doctor", "", "The store is healthy."),
        Example("restore", "copy restored", "Restored into restored, up to call … of ….\n…"),
        Example("tls pin", "cert.pem", "sha256/…"),
        // Ids that are other ones in each store: the test puts the ids of its store in their place.
        Example("import undo", "i_912746264890769779", "Ended: 4 links, 0 merges, 0 properties, 0 access."),
        Example(
            "signing-keys retire", "912746264890769780", "id                912746264890769780\nkid               k1\n…"
        ),
        Example(
            "master-key drop", "a7d318e0",
            "onym master-key drop: The key a7d318e0 is still needed, and nothing was changed:\n…"),
        Example("keys show", "", "{\"project\":{\"id\":\"1\",\"name\":\"Demo\"},\"admin_key\":\"onym_admin_…"),
        Example("projects create", "Shop --keys-file shop.json", "The keys are in shop.json."),
        Example("projects revoke", "2", "revoked_at        …\napps              …\nkeys              …"),
        // The store of the server that has stopped.
        Example(
            "migrate", "--to postgres://onym@db/onym",
            "projects     2            …\n…\nMoved … rows in … ms; both stores say the same.\n…"),
    ]
}
