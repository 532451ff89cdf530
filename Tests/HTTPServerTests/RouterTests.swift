import HTTPMessage
import HTTPServer
import Testing

@Suite("The router")
struct RouterTests {
    private static func route(_ method: Method, _ path: String, ignoresCase: Bool = false) -> Route {
        Route(method, path, ignoresCase: ignoresCase) { _, _ in .answer(Response(.ok)) }
    }

    private let router = Router([
        RouteGroup(
            name: "one",
            routes: [
                route(.get, "/"), route(.post, "/v1/identify"), route(.post, "/v1/:mpid/modify"),
                route(.get, "/v1/users/:user/items/:item"), route(.get, "/v1/users/me/items/first"),
                route(.post, "/v1/identity/:key/alias", ignoresCase: true), route(.get, "/v1/both"),
                route(.post, "/v1/both"),
            ], refuse: { _, _ in Response(.badRequest) }),
        RouteGroup(name: "two", routes: [route(.get, "/other")], refuse: { _, _ in Response(.badRequest) }),
    ])

    private func find(_ method: Method, _ path: String) -> (path: String, parameters: [String])? {
        let bytes = Array(path.utf8)
        guard let match = router.match(bytes.span), let target = match.targets[method] else { return nil }
        return (router[target].path, match.parameters.map { String(decoding: bytes[$0], as: UTF8.self) })
    }

    @Test(
        "finds routes",
        arguments: [
            ("/", "/", []), ("/other", "/other", []),
            ("/v1/users/7/items/8", "/v1/users/:user/items/:item", ["7", "8"]),
            ("/v1/users/me/items/first", "/v1/users/me/items/first", []),
            // A literal leads nowhere here, so that the parameter is tried after all.
            ("/v1/users/me/items/second", "/v1/users/:user/items/:item", ["me", "second"]),
            ("/v1/users/a%2Fb/items/%20", "/v1/users/:user/items/:item", ["a%2Fb", "%20"]),
        ] as [(String, String, [String])])
    func finds(_ path: String, _ expected: String, _ parameters: [String]) {
        let found = find(.get, path)
        #expect(found?.path == expected)
        #expect(found?.parameters == parameters)
    }

    @Test(
        "finds nothing where there is nothing",
        arguments: [
            "/v1", "/v1/", "/v1/identify/", "/v1/identify/x", "//v1/identify", "/v1//modify", "/V1/identify", "/nope",
        ])
    func findsNothing(_ path: String) {
        #expect(find(.post, path) == nil)
        #expect(find(.get, path) == nil)
    }

    @Test("matches segments that are needlessly escaped")
    func escapes() {
        #expect(find(.post, "/v1/%69dentify")?.path == "/v1/identify")
        #expect(find(.post, "/v1%2Fidentify") == nil, "an escaped slash separates nothing")
        #expect(find(.post, "/v1/%zzentify") == nil)
    }

    @Test("matches without regard to case only where a route says so")
    func cases() {
        #expect(find(.post, "/v1/identity/K/Alias")?.parameters == ["K"])
        #expect(find(.post, "/V1/IDENTITY/k/aLIAS")?.path == "/v1/identity/:key/alias")
        #expect(find(.post, "/v1/Identify") == nil)
    }

    @Test("knows the methods of a path")
    func methods() throws {
        let path = Array("/v1/both".utf8)
        let match = router.match(path.span)
        #expect(match?.targets.methods == [.get, .post])
        #expect(find(.delete, "/v1/both") == nil)
    }

    @Test("gives each route a number of its own")
    func ordinals() {
        var ordinals: [Int] = []
        for path in ["/", "/v1/identify", "/v1/5/modify", "/other"] {
            let bytes = Array(path.utf8)
            if let target = router.match(bytes.span)?.targets.first { ordinals.append(target.ordinal) }
        }
        #expect(ordinals == [0, 1, 2, 8])
    }
}
