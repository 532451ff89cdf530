import Foundation
import TestKit
import Testing

/// A page that loads the vendor's web client from the built server, in Chromium (spec/idsync-clients.md 5).
@Suite("A page with the vendor's web client", .timeLimit(.minutes(10)))
struct WebBundleTests {
    private static let clients = URL(filePath: #filePath).deletingLastPathComponent().path() + "Clients/web_bundle/"

    /// The vendor's own file, of which the repository has no copy: the path of `dist/mparticle.js`.
    private static let vendors = ProcessInfo.processInfo.environment["ONYM_WEB_BUNDLE"]

    private struct Page: Decodable {
        /// The starts that the stand-in has counted.
        let starts: Int?
        let first: String
        let login: Int
        let user: String
        let upload: Int
        let logout: Int
        let after: String
        let hosts: [String]
        let paths: [String]
        let faults: [String]
    }

    @Test("Is started, logs in, sends an event and logs out, and calls no other host")
    func standIn() throws {
        try check(WebBundleTests.clients + "client.js") { page, doctor in
            #expect(page.starts == 1 && page.faults.isEmpty, "\(page)")
            #expect(page.paths == WebBundleTests.paths)
            #expect(doctor.contains("version 2.71.2 and"), "\(doctor)")
        }
    }

    @Test(
        "Does the same with the vendor's own file",
        .enabled(if: vendors != nil, "ONYM_WEB_BUNDLE does not name the vendor's file dist/mparticle.js."))
    func vendorsOwn() throws {
        try check(try #require(WebBundleTests.vendors)) { page, _ in
            // The vendor's client also uploads events of its own, at moments of its own.
            #expect(Set(page.paths) == Set(WebBundleTests.paths), "\(page)")
            #expect(page.faults.isEmpty, "\(page)")
        }
    }

    private static let paths = [
        "/js/v2/KEY/mparticle.js", "/tags/JS/v2/KEY/config", "/identity/v1/identify", "/identity/v1/login",
        "/webevents/v3/JS/KEY/events", "/identity/v1/logout",
    ]

    /// Shows a page with a client, and what `onym doctor` prints.
    private func check(_ file: String, _ more: (_ page: Page, _ doctor: String) throws -> Void) throws {
        let python = WebBundleTests.clients + "../../../../.venv/bin/python"
        guard FileManager.default.isExecutableFile(atPath: python) else {
            throw Shell.Failed(description: "There is no Python to drive a browser: run Tools/setup tests.")
        }
        let store = try Store()
        let folder = store.folder.path
        let (certificate, key) = (folder + "/cert.pem", folder + "/key.pem")
        _ = try Shell.result([
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days",
            "2",
            "-subj", "/CN=localhost", "-keyout", key, "-out", certificate,
        ])
        try FileManager.default.createDirectory(atPath: folder + "/web", withIntermediateDirectories: true)
        try FileManager.default.copyItem(atPath: file, toPath: folder + "/web/mparticle.js")
        let server = try ServerProcess(
            data: store.data,
            flags: ["--tls-cert", certificate, "--tls-key", key, "--web-bundle", folder + "/web"])
        let run = try Shell.result([
            python, "-W", "ignore", WebBundleTests.clients + "page.py", "https://127.0.0.1:\(server.port)",
            store.webKey,
        ])
        let page = try #require(
            try? JSONDecoder().decode(Page.self, from: Data(run.output.utf8)), "\(run) \(server.errors)")
        #expect(page.login == 200 && page.upload == 202 && page.logout == 200, "\(page)")
        #expect(page.user == page.first && page.after != page.user, "a login keeps the person, and a logout does not")
        #expect(page.hosts == ["127.0.0.1:\(server.port)", "shop.example"])
        #expect(server.stop() == 0)
        let doctor = try Shell.result([
            ServerProcess.program, "doctor", "--data", store.data, "--web-bundle", folder + "/web",
        ])
        #expect(doctor.code == 0, "\(doctor)")
        try more(page, doctor.output)
    }
}
