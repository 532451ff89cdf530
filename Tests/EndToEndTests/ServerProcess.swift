import Foundation
import TestKit

/// The built program, serving in a process of its own.
final class ServerProcess {
    let process = Process()
    let base: String
    let port: UInt16
    private let errorsPath: String
    private let output: FileHandle

    /// The program beside the tests that were built with it.
    static var program: String {
        ProcessInfo.processInfo.environment["ONYM_PROGRAM"]
            ?? URL(filePath: CommandLine.arguments[0]).deletingLastPathComponent().path() + "onym"
    }

    /// Starts a server and waits until it listens.
    ///
    /// - Parameters:
    ///   - data: the data folder.
    ///   - flags: more flags of `onym serve`.
    ///   - environment: variables for the process, each as `NAME=value`.
    ///   - terminal: the terminal for standard error; nil for a file.
    init(
        data: String, flags: [String] = [], environment: [String] = [], terminal: PseudoTerminal? = nil
    ) throws {
        errorsPath = data + ".stderr"
        // A test's clients share a key, and are as fast as they can.
        let rates = ["--rate-limit-key", "--rate-limit-identity"].filter { !flags.contains($0) }.flatMap { [$0, "0"] }
        let words =
            environment + [ServerProcess.program, "serve", "--data", data, "--listen", "127.0.0.1:0"] + rates + flags
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = words
        try Data().write(to: URL(filePath: errorsPath))
        let errors = try terminal == nil ? FileHandle(forWritingTo: URL(filePath: errorsPath)) : nil
        defer { try? errors?.close() }
        process.standardError = terminal?.programs ?? errors
        let output = try process.start(piping: \.standardOutput)[0].fileHandleForReading
        self.output = output
        let line = ServerProcess.line(output)
        guard let object = try? JSONSerialization.jsonObject(with: line) as? [String: String],
            let base = object["listening"], let port = base.split(separator: ":").last.flatMap({ UInt16($0) })
        else {
            process.end()
            let errors = (try? String(contentsOfFile: errorsPath, encoding: .utf8)) ?? ""
            throw Shell.Failed(description: "The server did not start: \(process.terminationStatus) \(errors)")
        }
        self.base = base
        self.port = port
    }

    /// What it prints first, as far as that comes in time.
    private static func line(_ output: FileHandle) -> Data {
        var line = Data()
        while !line.contains(UInt8(ascii: "\n")) {
            var awaited = pollfd(fd: output.fileDescriptor, events: Int16(POLLIN), revents: 0)
            guard poll(&awaited, 1, Int32(Patience.milliseconds)) > 0 else { break }
            let more = output.availableData
            if more.isEmpty { break }
            line += more
        }
        return line
    }

    deinit {
        kill()
        // Foundation keeps the handles of a process for ever.
        try? output.close()
    }

    var client: HTTPClient { HTTPClient(port: port, description: .shared) }

    /// What it has printed on standard error.
    var errors: String { (try? String(contentsOfFile: errorsPath, encoding: .utf8)) ?? "" }

    /// Waits until it has printed some text on standard error, but not for long; answers all that it has printed there.
    func errors(with text: String) -> String {
        Patience.until { errors.contains(text) }
        return errors
    }

    func signal(_ number: Int32) { Foundation.kill(process.processIdentifier, number) }

    /// Kills it at once, as a power cut would.
    func kill() {
        guard process.isRunning else { return }
        signal(SIGKILL)
        process.waitUntilExit()
    }

    /// Tells it to stop and waits; answers its exit code, or the signal that ended it where it did not.
    @discardableResult
    func stop() -> Int32 {
        signal(SIGTERM)
        process.end()
        return process.terminationStatus
    }
}

/// A terminal for a program, which the test reads.
final class PseudoTerminal: Sendable {
    /// The end for the program.
    let programs: FileHandle
    private let own: CInt

    /// TIOCSPTLCK and TIOCGPTN of Linux.
    private static let setLock: UInt = 0x4004_5431
    private static let getNumber: UInt = 0x8004_5430

    init() throws {
        own = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK)
        var (lock, number): (CInt, CInt) = (0, 0)
        guard own >= 0, ioctl(own, PseudoTerminal.setLock, &lock) == 0,
            ioctl(own, PseudoTerminal.getNumber, &number) == 0,
            case let programs = open("/dev/pts/\(number)", O_RDWR | O_NOCTTY), programs >= 0
        else { throw Shell.Failed(description: "There is no pseudo terminal: \(errno)") }
        // The test process must not take the terminal for its own, because its end would end the process.
        self.programs = FileHandle(fileDescriptor: programs, closeOnDealloc: true)
    }

    deinit { close(own) }

    /// Waits until the program has printed some text; answers all that it has printed.
    func text(with wanted: String) -> String {
        var bytes: [UInt8] = []
        Patience.until {
            var piece = [UInt8](repeating: 0, count: 4096)
            let count = read(own, &piece, piece.count)
            if count > 0 { bytes += piece[..<count] }
            return String(decoding: bytes, as: UTF8.self).contains(wanted)
        }
        return String(decoding: bytes, as: UTF8.self).replacing("\r\n", with: "\n")
    }
}

/// A data folder with a store, made by the program.
struct Store {
    let folder = TemporaryFolder()
    let data: String
    let key: String
    let secret: String
    let webKey: String
    let adminKey: String
    /// Keys of the dialects, by their names.
    let claim: [String: String]
    let entitlements: [String: String]
    let linking: [String: String]
    let onym: [String: String]

    init(in name: String = "data", flags: [String] = []) throws {
        data = folder.path + "/\(name)"
        let made = try Shell.result([ServerProcess.program, "init", "--data", data, "--json"] + flags)
        guard let keys = try JSONSerialization.jsonObject(with: Data(made.output.utf8)) as? [String: Any],
            let idsync = keys["idsync"] as? [String: String], let key = idsync["key"],
            let secret = idsync["secret"], let webKey = idsync["web_key"], let adminKey = keys["admin_key"] as? String
        else { throw Shell.Failed(description: "init: \(made)") }
        self.key = key
        self.secret = secret
        self.webKey = webKey
        self.adminKey = adminKey
        claim = keys["claim"] as? [String: String] ?? [:]
        entitlements = keys["entitlements"] as? [String: String] ?? [:]
        linking = keys["linking"] as? [String: String] ?? [:]
        onym = keys["onym"] as? [String: String] ?? [:]
    }

    /// One identify; answers its status and MPID.
    func identify(_ identities: String, _ client: HTTPClient) throws -> (status: Int, mpid: String?) {
        let answer = try client.call(
            "POST", "/v1/identify", fields: [("x-mp-key", webKey)],
            json: "{\"environment\":\"development\",\"known_identities\":\(identities)}")
        let mpid = answer.body.firstMatch(of: /"mpid":"(\d+)"/).map { String($0.1) }
        return (answer.status, mpid)
    }

    /// A data folder for another server of the store, with the same master key.
    func another(_ number: Int) throws -> String {
        let other = "\(folder.path)/data\(number)"
        try FileManager.default.createDirectory(
            atPath: other, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        try FileManager.default.copyItem(atPath: "\(data)/master.key", toPath: "\(other)/master.key")
        return other
    }

    /// What the doctor says.
    func doctor() throws -> Shell.Result {
        try Shell.result([ServerProcess.program, "doctor", "--data", data])
    }
}
