import Foundation
import StorePostgres
import TestKit
import Threads

/// Stands between a store and PostgreSQL, and cuts the connection at one message of the protocol.
final class CuttingProxy: Sendable {
    /// Which way messages go that are counted.
    enum Direction: CaseIterable, Sendable { case toServer, toClient }

    private struct State {
        /// How many messages still pass; nil where nothing is cut.
        var left: Int?
        var direction = Direction.toServer
        var isStopping = false
        var connections: [Int32] = []
    }

    private let folder = TemporaryFolder()
    private let listener: Int32
    private let target: String
    private let state = Monitor(State())
    private let thread = Monitor<WorkerThread?>(nil)

    init(to cluster: PostgresCluster) throws {
        target = "\(cluster.folder)/.s.PGSQL.5432"
        listener = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        let made = CuttingProxy.withAddress("\(folder.path)/.s.PGSQL.5432") { bind(listener, $0, $1) }
        guard listener >= 0, made == 0, listen(listener, 16) == 0 else {
            throw Shell.Failed(description: "The proxy cannot listen: \(errno).")
        }
        thread.withLock { $0 = WorkerThread(name: "proxy") { [self] in accept() } }
    }

    /// The same schema, reached through here.
    func settings(_ other: PostgresSettings) -> PostgresSettings {
        other.reached(at: "postgres:///postgres?host=\(folder.path)&user=onym")
    }

    /// Has the connection cut that sends, after some more messages, one more.
    func cut(after messages: Int, _ direction: Direction) {
        state.withLock { ($0.left, $0.direction) = (messages, direction) }
    }

    /// Cuts nothing any more; answers whether something was to be cut still.
    func disarm() -> Bool {
        state.withLock { state in
            defer { state.left = nil }
            return state.left != nil
        }
    }

    /// Ends all connections, and takes new ones.
    func disconnect() {
        let connections = state.withLock { state in
            defer { state.connections = [] }
            return state.connections
        }
        for connection in connections { shutdown(connection, Int32(SHUT_RDWR)) }
    }

    func stop() {
        let connections = state.withLock { state in
            state.isStopping = true
            return state.connections
        }
        shutdown(listener, Int32(SHUT_RDWR))
        for connection in connections { shutdown(connection, Int32(SHUT_RDWR)) }
        thread.withLock { $0.take() }?.join()
        close(listener)
    }

    private func accept() {
        while true {
            let client = Process.acceptForItself(listener)
            if client < 0 || state.withLock({ $0.isStopping }) { return }
            let server = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
            guard CuttingProxy.withAddress(target, { connect(server, $0, $1) }) == 0 else {
                close(client)
                close(server)
                continue
            }
            state.withLock { $0.connections += [client, server] }
            // The first message of a client has no type.
            for (from, to, direction) in [(client, server, Direction.toServer), (server, client, .toClient)] {
                _ = WorkerThread(name: "proxied") { [self] in
                    pass(from, to, direction)
                    shutdown(from, Int32(SHUT_RDWR))
                    shutdown(to, Int32(SHUT_RDWR))
                }
            }
        }
    }

    /// Passes messages on, one by one: a type of one byte, a length of four that counts itself, and the rest.
    private func pass(_ from: Int32, _ to: Int32, _ direction: Direction) {
        var waiting: [UInt8] = []
        var isFirst = direction == .toServer
        var piece = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = recv(from, &piece, piece.count, 0)
            if count <= 0 { return }
            waiting += piece[..<count]
            while true {
                let start = isFirst ? 0 : 1
                guard waiting.count >= start + 4 else { break }
                let length = waiting[start..<start + 4].reduce(0) { $0 << 8 | Int($1) } + start
                guard waiting.count >= length else { break }
                if !isFirst, !mayPass(direction) { return }
                // Whether to encrypt is asked before the first message, and answered with one byte; not over such sockets.
                isFirst = false
                let sent = waiting.withUnsafeBytes { send(to, $0.baseAddress, length, Int32(MSG_NOSIGNAL)) }
                if sent != length { return }
                waiting.removeFirst(length)
            }
        }
    }

    private func mayPass(_ direction: Direction) -> Bool {
        state.withLock { state in
            guard let left = state.left, state.direction == direction else { return true }
            state.left = left == 0 ? nil : left - 1
            return left > 0
        }
    }

    private static func withAddress(_ path: String, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32) -> Int32 {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { place in
            precondition(path.utf8.count < place.count, "A socket's path is too long.")
            place.copyBytes(from: path.utf8)
        }
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                body($0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
    }
}
