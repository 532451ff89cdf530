package import Foundation

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// The transport of instances whose configuration has none.
enum PlatformTransport {
    /// Makes the platform's own transport. On Linux, `URLSession` ends the process when a connection closes within the head of an
    /// answer (swift-corelibs-foundation #5285), so libcurl is used there, where it is installed.
    static func make(timeout: TimeInterval, pins: [Pin]) -> any Transport {
        #if os(Linux)
            if let curl = CurlTransport(timeout: timeout, pins: pins) { return curl }
        #endif
        return URLSessionTransport(timeout: timeout, pins: pins)
    }

    /// Whether the platform's own transport checks these pins.
    static func checks(_ pins: [Pin]) -> Bool {
        #if os(Linux)
            let areOfKeys = pins.allSatisfy { pin in if case .spki = pin { true } else { false } }
            if areOfKeys, Curl.library != nil { return true }
        #endif
        return Pin.areSupported
    }

    /// A line for the log about the platform's own transport; nil if there is nothing to say.
    static var warning: String? {
        #if os(Linux)
            Curl.library == nil
                ? "libcurl.so.4 is missing, and URLSession of this platform may end the process: install libcurl" : nil
        #else
            nil
        #endif
    }
}

#if os(Linux)
    /// Sends requests with libcurl, which is loaded when the first instance needs it: an app builds without any C library.
    package final class CurlTransport: Transport {
        private let curl: Curl
        private let timeout: TimeInterval
        private let pins: String?
        private let authorities: String?
        private let queue = OperationQueue()
        private let idle = IdleHandles()

        /// The greatest number of requests at a time; further ones wait.
        private static let lanes = 8

        /// Makes a transport; nil where libcurl is not installed.
        /// - Parameters:
        ///   - timeout: the seconds for which a request may stall.
        ///   - pins: the keys that a server may show; empty for every key.
        ///   - authorities: a file with the certificates of the authorities to trust; nil for those of the system.
        package init?(timeout: TimeInterval = 30, pins: [Pin] = [], authorities: String? = nil) {
            guard let curl = Curl.library else { return nil }
            (self.curl, self.timeout, self.authorities) = (curl, timeout, authorities)
            let keys = pins.compactMap { pin in if case .spki(let digest) = pin { digest } else { nil } }
            self.pins =
                keys.isEmpty
                ? nil : keys.map { "sha256//" + Data($0).base64EncodedString() }.joined(separator: ";")
            queue.maxConcurrentOperationCount = CurlTransport.lanes
        }

        deinit { for handle in idle.takeAll() { curl.cleanUp(handle) } }

        package func send(
            _ request: HTTPRequest, completion: @escaping @Sendable (Result<HTTPAnswer, TransportFault>) -> Void
        ) -> @Sendable () -> Void {
            let exchange = CurlExchange()
            queue.addOperation { [self] in completion(perform(request, exchange)) }
            return { exchange.cancel() }
        }

        private func perform(
            _ request: HTTPRequest, _ exchange: CurlExchange
        ) -> Result<HTTPAnswer, TransportFault> {
            if exchange.isCanceled { return .failure(.connection("given up")) }
            guard let handle = idle.take() ?? curl.makeHandle() else {
                return .failure(.connection("libcurl has no handle"))
            }
            // A handle keeps its connection for the next request.
            defer { idle.give(handle) }
            curl.reset(handle)
            let seconds = max(1, Int(timeout.rounded(.up)))
            curl.set(handle, .url, text: request.url.absoluteString)
            curl.set(handle, .customRequest, text: request.method)
            curl.set(handle, .protocols, Curl.httpAndHTTPS)
            curl.set(handle, .noSignal, 1)
            curl.set(handle, .followLocation, 0)
            curl.set(handle, .connectTimeout, seconds * 1000)
            exchange.begin(stallAfter: TimeInterval(seconds))
            curl.set(handle, .acceptEncoding, text: "")
            if let pins { curl.set(handle, .pinnedPublicKey, text: pins) }
            if let authorities { curl.set(handle, .authorities, text: authorities) }
            var lines = curl.list(of: ["Expect:"])
            for (name, value) in request.fields {
                // A line break would begin another field.
                let value = value.filter { $0 != "\r" && $0 != "\n" && $0 != "\r\n" }
                lines = curl.append("\(name): \(value)", to: lines)
            }
            defer { curl.free(lines) }
            curl.set(handle, .httpHeader, pointer: lines)
            let code = withExtendedLifetime(exchange) { () -> Int32 in
                let context = Unmanaged.passUnretained(exchange).toOpaque()
                curl.observe(handle, context)
                guard let file = request.file else {
                    return request.body.withUnsafeBytes { body in
                        if !body.isEmpty || request.method != "GET" {
                            curl.set(handle, .postFieldSize, body.count)
                            curl.set(handle, .postFields, pointer: UnsafeMutableRawPointer(mutating: body.baseAddress))
                        }
                        return curl.perform(handle)
                    }
                }
                guard let input = try? FileHandle(forReadingFrom: file), let size = try? input.seekToEnd() else {
                    return Curl.readFault
                }
                defer { try? input.close() }
                try? input.seek(toOffset: 0)
                exchange.input = input
                curl.set(handle, .upload, 1)
                curl.set(handle, .inFileSize, Int(size))
                curl.read(handle, context)
                return curl.perform(handle)
            }
            if exchange.isCanceled { return .failure(.connection("given up")) }
            if exchange.hasStalled { return .failure(.timeout) }
            guard code == 0 else { return .failure(curl.fault(code)) }
            // For libcurl, a connection that closes within the head of an answer ends the head.
            guard exchange.hasHead else { return .failure(.connection("the answer ends within its head")) }
            return .success(exchange.answer)
        }
    }

    /// One request: what came of its answer, and whether somebody still waits for it.
    private final class CurlExchange: @unchecked Sendable {
        /// Guards `canceled`.
        private let lock = NSLock()
        private var canceled = false
        // Only the thread that performs the request uses the others.
        private var status = 0
        private var fields: [String: String] = [:]
        private var body: [UInt8] = []
        var input: FileHandle?
        /// Whether the empty line that ends the head has come.
        private(set) var hasHead = false
        /// Whether no byte went or came for too long.
        private(set) var hasStalled = false
        private var stallSeconds: Double = 0
        /// The bytes that went and came, and the time of the last of them.
        private var movedBytes: Int64 = 0
        private var movedAt = DispatchTime.now()

        /// The greatest size of an answer.
        private static let answerBytes = 64 << 20

        var isCanceled: Bool { lock.withLock { canceled } }
        func cancel() { lock.withLock { canceled = true } }

        func begin(stallAfter seconds: TimeInterval) {
            (stallSeconds, movedAt) = (seconds, .now())
        }

        /// Takes the number of bytes that went and came so far. Answers whether the request lives: as long as bytes move, it
        /// does, because an upload may take a quarter of an hour. The low speed of libcurl is a mean of several seconds, so it
        /// notices a stalled request late.
        func goesOn(moved bytes: Int64) -> Bool {
            let now = DispatchTime.now()
            if bytes != movedBytes { (movedBytes, movedAt) = (bytes, now) }
            hasStalled = now >= movedAt + stallSeconds
            return !hasStalled && !isCanceled
        }

        var answer: HTTPAnswer { HTTPAnswer(status: status, fields: fields, body: body) }

        /// Takes a line of a head. Heads of an earlier answer (100, or a proxy's) do not count.
        func take(line: String) {
            if line.hasPrefix("HTTP/") {
                (fields, body, hasHead) = ([:], [], false)
                status = line.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0
            } else if line.allSatisfy(\.isNewline) {
                hasHead = true
            } else if let colon = line.firstIndex(of: ":") {
                fields[String(line[..<colon])] =
                    line[line.index(after: colon)...].trimmingCharacters(in: .whitespacesAndNewlines)
            }
        }

        /// Takes a part of the body. Answers whether there is room for it.
        func take(_ bytes: UnsafeRawBufferPointer) -> Bool {
            guard body.count + bytes.count <= CurlExchange.answerBytes else { return false }
            body.append(contentsOf: bytes)
            return true
        }
    }

    /// Handles whose connections can be used again.
    private final class IdleHandles: @unchecked Sendable {
        private let lock = NSLock()
        private var handles: [OpaquePointer] = []

        func take() -> OpaquePointer? { lock.withLock { handles.popLast() } }
        func give(_ handle: OpaquePointer) { lock.withLock { handles.append(handle) } }
        func takeAll() -> [OpaquePointer] {
            lock.withLock {
                defer { handles = [] }
                return handles
            }
        }
    }

    /// The functions of libcurl. They are found by name, so neither a header nor the library is needed to build.
    private struct Curl: Sendable {
        /// Options by their numbers, which are the same for ever.
        enum Option: UInt32 {
            case noProgress = 43
            case upload = 46
            case followLocation = 52
            case noSignal = 99
            case connectTimeout = 156
            case protocols = 181
            case url = 10002
            case postFields = 10015
            case authorities = 10065
            case httpHeader = 10023
            case customRequest = 10036
            case acceptEncoding = 10102
            case pinnedPublicKey = 10230
            case inFileSize = 30115
            case postFieldSize = 30120
            case writeData = 10001
            case readData = 10009
            case headerData = 10029
            case progressData = 10057
            case writeFunction = 20011
            case readFunction = 20012
            case headerFunction = 20079
            case progressFunction = 20219
        }

        static let httpAndHTTPS = 3
        static let readFault: Int32 = 26

        private typealias Transfer =
            @convention(c) (
                UnsafeMutableRawPointer?, Int, Int, UnsafeMutableRawPointer?
            ) -> Int
        private typealias Progress =
            @convention(c) (
                UnsafeMutableRawPointer?, Int64, Int64, Int64, Int64
            ) -> Int32
        // `curl_easy_setopt` takes its third argument as the option wants it. On Linux such an argument is passed like any other.
        private typealias SetNumber = @convention(c) (OpaquePointer, UInt32, Int) -> Int32
        private typealias SetPointer = @convention(c) (OpaquePointer, UInt32, UnsafeMutableRawPointer?) -> Int32
        private typealias SetTransfer = @convention(c) (OpaquePointer, UInt32, Transfer) -> Int32
        private typealias SetProgress = @convention(c) (OpaquePointer, UInt32, Progress) -> Int32

        private let make: @convention(c) () -> OpaquePointer?
        private let resetHandle: @convention(c) (OpaquePointer) -> Void
        private let performHandle: @convention(c) (OpaquePointer) -> Int32
        private let cleanUpHandle: @convention(c) (OpaquePointer) -> Void
        private let appendLine:
            @convention(c) (UnsafeMutableRawPointer?, UnsafePointer<CChar>) -> UnsafeMutableRawPointer?
        private let freeLines: @convention(c) (UnsafeMutableRawPointer?) -> Void
        private let text: @convention(c) (Int32) -> UnsafePointer<CChar>?
        private let setNumber: SetNumber
        private let setPointer: SetPointer
        private let setTransfer: SetTransfer
        private let setProgress: SetProgress

        /// The library; nil where it is not installed.
        static let library: Curl? = Curl()

        private init?() {
            let names = ["libcurl.so.4", "libcurl-gnutls.so.4"]
            guard let library = names.lazy.compactMap({ dlopen($0, RTLD_NOW) }).first else { return nil }
            func symbol<Function>(_ name: String, _: Function.Type) -> Function? {
                dlsym(library, name).map { unsafeBitCast($0, to: Function.self) }
            }
            guard let start = symbol("curl_global_init", (@convention(c) (Int) -> Int32).self),
                let make = symbol("curl_easy_init", (@convention(c) () -> OpaquePointer?).self),
                let reset = symbol("curl_easy_reset", (@convention(c) (OpaquePointer) -> Void).self),
                let perform = symbol("curl_easy_perform", (@convention(c) (OpaquePointer) -> Int32).self),
                let cleanUp = symbol("curl_easy_cleanup", (@convention(c) (OpaquePointer) -> Void).self),
                let append = symbol(
                    "curl_slist_append",
                    (@convention(c) (UnsafeMutableRawPointer?, UnsafePointer<CChar>) -> UnsafeMutableRawPointer?).self),
                let free = symbol("curl_slist_free_all", (@convention(c) (UnsafeMutableRawPointer?) -> Void).self),
                let text = symbol("curl_easy_strerror", (@convention(c) (Int32) -> UnsafePointer<CChar>?).self),
                let setNumber = symbol("curl_easy_setopt", SetNumber.self),
                let setPointer = symbol("curl_easy_setopt", SetPointer.self),
                let setTransfer = symbol("curl_easy_setopt", SetTransfer.self),
                let setProgress = symbol("curl_easy_setopt", SetProgress.self)
            else { return nil }
            // CURL_GLOBAL_DEFAULT
            guard start(3) == 0 else { return nil }
            (self.make, resetHandle, performHandle, cleanUpHandle) = (make, reset, perform, cleanUp)
            (appendLine, freeLines, self.text) = (append, free, text)
            (self.setNumber, self.setPointer) = (setNumber, setPointer)
            (self.setTransfer, self.setProgress) = (setTransfer, setProgress)
        }

        func makeHandle() -> OpaquePointer? { make() }
        func reset(_ handle: OpaquePointer) { resetHandle(handle) }
        func perform(_ handle: OpaquePointer) -> Int32 { performHandle(handle) }
        func cleanUp(_ handle: OpaquePointer) { cleanUpHandle(handle) }

        func set(_ handle: OpaquePointer, _ option: Option, _ number: Int) {
            _ = setNumber(handle, option.rawValue, number)
        }

        /// Libcurl copies texts.
        func set(_ handle: OpaquePointer, _ option: Option, text: String) {
            text.withCString { bytes in
                _ = setPointer(handle, option.rawValue, UnsafeMutableRawPointer(mutating: bytes))
            }
        }

        func set(_ handle: OpaquePointer, _ option: Option, pointer: UnsafeMutableRawPointer?) {
            _ = setPointer(handle, option.rawValue, pointer)
        }

        func list(of lines: [String]) -> UnsafeMutableRawPointer? { lines.reduce(nil) { append($1, to: $0) } }

        func append(_ line: String, to list: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
            appendLine(list, line) ?? list
        }

        func free(_ list: UnsafeMutableRawPointer?) { freeLines(list) }

        private static func exchange(_ context: UnsafeMutableRawPointer?) -> CurlExchange? {
            context.map { Unmanaged<CurlExchange>.fromOpaque($0).takeUnretainedValue() }
        }

        /// Gives the answer to an exchange, and ends the request when nobody waits for it.
        func observe(_ handle: OpaquePointer, _ context: UnsafeMutableRawPointer) {
            set(handle, .writeData, pointer: context)
            set(handle, .headerData, pointer: context)
            set(handle, .progressData, pointer: context)
            set(handle, .noProgress, 0)
            _ = setTransfer(handle, Option.writeFunction.rawValue) { bytes, size, count, context in
                let isTaken =
                    Curl.exchange(context)?.take(UnsafeRawBufferPointer(start: bytes, count: size * count)) ?? false
                return isTaken ? size * count : 0
            }
            _ = setTransfer(handle, Option.headerFunction.rawValue) { bytes, size, count, context in
                let line = String(decoding: UnsafeRawBufferPointer(start: bytes, count: size * count), as: UTF8.self)
                Curl.exchange(context)?.take(line: line)
                return size * count
            }
            _ = setProgress(handle, Option.progressFunction.rawValue) { context, _, received, _, sent in
                Curl.exchange(context)?.goesOn(moved: received + sent) == true ? 0 : 1
            }
        }

        /// Reads the body of the request from the file of an exchange.
        func read(_ handle: OpaquePointer, _ context: UnsafeMutableRawPointer) {
            set(handle, .readData, pointer: context)
            _ = setTransfer(handle, Option.readFunction.rawValue) { bytes, size, count, context in
                guard let bytes, let part = try? Curl.exchange(context)?.input?.read(upToCount: size * count) else {
                    return 0
                }
                part.copyBytes(to: UnsafeMutableRawBufferPointer(start: bytes, count: size * count))
                return part.count
            }
        }

        /// The numbers of errors that mean: the server is not trusted.
        private static let ofTLS: Set<Int32> = [35, 53, 54, 58, 59, 60, 64, 66, 77, 80, 82, 83, 90, 91, 98]

        func fault(_ code: Int32) -> TransportFault {
            let words = text(code).map { String(cString: $0) } ?? "error \(code)"
            return switch code {
            // No name, no proxy, no connection.
            case 5, 6, 7: .offline
            case 28: .timeout
            case let code where Curl.ofTLS.contains(code): .tls(words)
            default: .connection("\(words) (\(code))")
            }
        }
    }
#endif
