import ByteText
package import HTTPMessage

/// Finds the route for a method and a path: a trie whose edges are segments. Literals come before parameters.
package struct Router: Sendable {
    /// A route and its group, by their places.
    package struct Target: Equatable, Sendable {
        package let group: Int
        package let route: Int
        /// The route's own number among all routes.
        package let ordinal: Int
    }

    package struct Match: Equatable {
        package let targets: Targets
        /// The places of the parameters in the path, before decoding.
        package let parameters: [Range<Int>]
    }

    /// The routes of one path by method: only a few, so a linear search is enough.
    package struct Targets: Equatable, Sendable {
        private struct Entry: Equatable, Sendable {
            let method: Method
            let target: Target
        }

        private var entries: [Entry] = []

        package var methods: [Method] { entries.map(\.method) }
        package var isEmpty: Bool { entries.isEmpty }
        /// Any route of the path; all routes of a path are in one group.
        package var first: Target? { entries.first?.target }

        package subscript(_ method: Method) -> Target? {
            for entry in entries where entry.method == method { return entry.target }
            return nil
        }

        fileprivate mutating func add(_ method: Method, _ target: Target) {
            precondition(self[method] == nil, "Two routes have one method and one path.")
            precondition(first?.group ?? target.group == target.group, "Two groups have routes at one path.")
            entries.append(Entry(method: method, target: target))
        }
    }

    private struct Literal {
        let segment: [UInt8]
        let ignoresCase: Bool
        let child: Int
    }

    private struct Node {
        var literals: [Literal] = []
        var parameter: Int?
        var targets = Targets()
    }

    package let groups: [RouteGroup]
    private var nodes = [Node()]

    /// Builds the trie. Two routes for one method and path are a mistake of the program.
    package init(_ groups: [RouteGroup]) {
        self.groups = groups
        var ordinal = 0
        for (groupIndex, group) in groups.enumerated() {
            for (routeIndex, route) in group.routes.enumerated() {
                for path in [route.path] + route.otherPaths {
                    let node = insert(path, ignoresCase: route.ignoresCase)
                    nodes[node].targets.add(
                        route.method, Target(group: groupIndex, route: routeIndex, ordinal: ordinal))
                }
                ordinal += 1
            }
        }
    }

    package subscript(_ target: Target) -> Route { groups[target.group].routes[target.route] }

    private mutating func insert(_ path: String, ignoresCase: Bool) -> Int {
        precondition(path.utf8.first == UInt8(ascii: "/"), "A path begins with a slash.")
        var node = 0
        for segment in path.dropFirst().split(separator: "/", omittingEmptySubsequences: false) {
            if segment.hasPrefix(":") {
                node = nodes[node].parameter ?? addNode { $0[node].parameter = $1 }
            } else {
                let bytes = Array(segment.utf8)
                let known = nodes[node].literals.first { $0.segment == bytes && $0.ignoresCase == ignoresCase }
                node =
                    known?.child
                    ?? addNode { nodes, child in
                        nodes[node].literals.append(
                            Literal(segment: bytes, ignoresCase: ignoresCase, child: child))
                    }
            }
        }
        return node
    }

    private mutating func addNode(_ attach: (inout [Node], Int) -> Void) -> Int {
        nodes.append(Node())
        attach(&nodes, nodes.count - 1)
        return nodes.count - 1
    }

    /// Finds the node of a path; nil if no route has the path.
    package func match(_ path: borrowing Span<UInt8>) -> Match? {
        var parameters: [Range<Int>] = []
        guard let node = find(path, from: 1, node: 0, &parameters) else { return nil }
        return Match(targets: nodes[node].targets, parameters: parameters)
    }

    private func find(
        _ path: borrowing Span<UInt8>, from start: Int, node: Int, _ parameters: inout [Range<Int>]
    ) -> Int? {
        let end = path.firstIndex(of: UInt8(ascii: "/"), in: start..<path.count) ?? path.count
        func goOn(_ child: Int, _ parameters: inout [Range<Int>]) -> Int? {
            if end == path.count { return nodes[child].targets.isEmpty ? nil : child }
            return find(path, from: end + 1, node: child, &parameters)
        }
        let segment = path.extracting(start..<end)
        for index in nodes[node].literals.indices where matches(segment, nodes[node].literals[index]) {
            if let found = goOn(nodes[node].literals[index].child, &parameters) { return found }
        }
        if let child = nodes[node].parameter, start < end {
            parameters.append(start..<end)
            if let found = goOn(child, &parameters) { return found }
            parameters.removeLast()
        }
        return nil
    }

    /// Compares a received segment, which may have escapes, with a literal.
    private func matches(_ segment: borrowing Span<UInt8>, _ literal: borrowing Literal) -> Bool {
        let name = literal.segment.span
        guard segment.count == name.count else {
            guard segment.count > name.count, segment.firstIndex(of: UInt8(ascii: "%"), in: segment.indices) != nil
            else { return false }
            var decoded: [UInt8] = []
            guard PercentCoding.decode(segment, into: &decoded), decoded.count == name.count else { return false }
            return matches(decoded.span, literal)
        }
        for index in segment.indices where segment[index] != name[index] {
            guard literal.ignoresCase, ASCII.lowercased(segment[index]) == ASCII.lowercased(name[index]) else {
                return false
            }
        }
        return true
    }
}
