import CCurl
import Glibc
import Threads

/// Calls other servers over HTTP and HTTPS: libcurl, on a thread of its own.
///
/// The client verifies certificates, follows no redirects, and ignores a proxy in the environment. Every call gets exactly
/// one answer.
@safe
package final class OutboundClient: @unchecked Sendable {
    // Unchecked: the inbox has a lock. The handle belongs to the thread; other threads only wake it while they hold the lock.

    package typealias Result = Swift.Result<OutboundAnswer, OutboundFault>

    private struct Inbox {
        var calls: [Waiting] = []
        /// The open calls with a name, and those that wait for their ends.
        var flights: [String: Flight] = [:]
        /// The callers in all flights, without the first of each.
        var followers = 0
        var isStopping = false
    }

    /// An open call with a name.
    private struct Flight {
        /// The callers that take its answer.
        var joined: [@Sendable (Result) -> Void] = []
        /// The callers that share the next call.
        var following: [Waiting] = []
    }

    private struct Waiting: Sendable {
        let call: OutboundCall
        let deadline: MonotonicMoment
        let done: @Sendable (Result) -> Void
    }

    private let limits: OutboundLimits
    private let authorities: String?
    private let noteAnswer: (@Sendable (OutboundAnswer) -> Void)?
    private let handle: UnsafeMutableRawPointer
    private let inbox = Monitor(Inbox())
    private let thread = Monitor<WorkerThread?>(nil)

    private static let isLibraryReady = curl_global_init(Int(CURL_GLOBAL_DEFAULT)) == CURLE_OK

    /// - Parameters:
    ///   - limits: the limits of the calls.
    ///   - authorities: a file with the trusted certificates, in PEM, instead of the system's certificates.
    ///   - noteAnswer: sees each answer before its receiver. It must not block.
    package init(
        limits: OutboundLimits = OutboundLimits(), authorities: String? = nil,
        noteAnswer: (@Sendable (OutboundAnswer) -> Void)? = nil
    ) {
        guard OutboundClient.isLibraryReady, let handle = unsafe curl_multi_init() else {
            Shortage.end(missing: "memory for the client of other servers")
        }
        unsafe self.handle = handle
        self.limits = limits
        self.authorities = authorities
        self.noteAnswer = noteAnswer
        unsafe onym_curl_keep_connections(handle, limits.callsAtOnce)
        thread.withLock { $0 = WorkerThread(name: "onym-outbound") { [self] in run() } }
    }

    deinit { unsafe curl_multi_cleanup(handle) }

    /// Makes a call. The answer comes on any thread, and its receiver must not block that thread.
    package func submit(_ call: OutboundCall, _ done: @escaping @Sendable (Result) -> Void) {
        let deadline = MonotonicMoment.now + .milliseconds(limits.wholeMilliseconds)
        let fault: OutboundFault? = inbox.withLock { inbox in
            if inbox.isStopping { return .cancelled }
            if inbox.calls.count + inbox.followers >= limits.callsWaiting { return .overloaded }
            let waiting = Waiting(call: call, deadline: deadline, done: done)
            switch call.sharing {
            case .none: inbox.calls.append(waiting)
            case .joins(let name) where inbox.flights[name] != nil:
                inbox.flights[name]?.joined.append(done)
                inbox.followers += 1
            case .follows(let name) where inbox.flights[name] != nil:
                inbox.flights[name]?.following.append(waiting)
                inbox.followers += 1
            case .joins(let name), .follows(let name): open(name, [waiting], &inbox)
            }
            unsafe curl_multi_wakeup(handle)
            return nil
        }
        if let fault { done(.failure(fault)) }
    }

    /// Begins one call for several callers. The first of them decides how long it may take.
    private func open(_ name: String, _ callers: [Waiting], _ inbox: inout Inbox) {
        inbox.flights[name] = Flight()
        let answers = callers.map(\.done)
        inbox.calls.append(
            Waiting(call: callers[0].call, deadline: callers[0].deadline) { [self] result in
                let joined = land(name)
                for answer in answers + joined { answer(result) }
            })
    }

    /// Ends a call with a name, and begins the next one if callers wait for it.
    ///
    /// - Returns: the callers that take the answer besides those that the call was begun for.
    private func land(_ name: String) -> [@Sendable (Result) -> Void] {
        let flight: Flight? = inbox.withLock { inbox in
            guard let flight = inbox.flights.removeValue(forKey: name) else { return nil }
            inbox.followers -= flight.joined.count + flight.following.count
            if inbox.isStopping { return flight }
            if !flight.following.isEmpty {
                open(name, flight.following, &inbox)
                unsafe curl_multi_wakeup(handle)
            }
            return Flight(joined: flight.joined)
        }
        for waiting in flight?.following ?? [] { waiting.done(.failure(.cancelled)) }
        return flight?.joined ?? []
    }

    /// Answers all open calls with ``OutboundFault/cancelled``, and returns when the thread has ended.
    package func stop() {
        inbox.withLock { inbox in
            inbox.isStopping = true
            unsafe curl_multi_wakeup(handle)
        }
        thread.withLock { $0.take() }?.join()
    }

    // MARK: - On the thread

    private func run() {
        var transfers: [UInt: Transfer] = [:]
        while true {
            let room = limits.callsAtOnce - transfers.count
            let (waiting, isStopping) = inbox.withLock { inbox in
                let count = inbox.isStopping ? inbox.calls.count : min(room, inbox.calls.count)
                defer { inbox.calls.removeFirst(count) }
                return (Array(inbox.calls.prefix(count)), inbox.isStopping)
            }
            if isStopping {
                for waiting in waiting { waiting.done(.failure(.cancelled)) }
                break
            }
            // After the end of a call, the next call may have room.
            var hasEnded = false
            for waiting in waiting {
                guard let transfer = begin(waiting) else {
                    hasEnded = true
                    continue
                }
                unsafe transfers[UInt(bitPattern: transfer.handle)] = transfer
            }
            var running: CInt = 0
            unsafe curl_multi_perform(handle, &running)
            while let (ended, code) = unsafe nextEnded() {
                hasEnded = true
                unsafe curl_multi_remove_handle(handle, ended)
                if let transfer = transfers.removeValue(forKey: UInt(bitPattern: ended)) { transfer.end(code) }
            }
            if !hasEnded { unsafe curl_multi_poll(handle, nil, 0, OutboundClient.idleMilliseconds, nil) }
        }
        for transfer in transfers.values {
            unsafe curl_multi_remove_handle(handle, transfer.handle)
            transfer.cancel()
        }
    }

    /// Events wake the thread; this is only its longest sleep without an event.
    private static let idleMilliseconds: CInt = 60_000

    private func nextEnded() -> (UnsafeMutableRawPointer, CURLcode)? {
        var code = CURLE_OK
        guard let ended = unsafe onym_curl_next_ended(handle, &code) else { return nil }
        return unsafe (ended, code)
    }

    /// Starts a call; nil if the call has its answer already. The time limit counts from the submission, so other calls do
    /// not extend the wait.
    private func begin(_ waiting: Waiting) -> Transfer? {
        let left = waiting.deadline - MonotonicMoment.now
        let milliseconds = left.components.seconds * 1000 + left.components.attoseconds / 1_000_000_000_000_000
        guard milliseconds > 0 else {
            waiting.done(.failure(.timedOut))
            return nil
        }
        let transfer = Transfer(
            waiting.call, limits, milliseconds: Int(milliseconds), authorities: authorities, noteAnswer, waiting.done)
        unsafe curl_multi_add_handle(handle, transfer.handle)
        return transfer
    }
}

/// One running call: libcurl's handle, and the received part of the answer. It belongs to the client's thread.
@safe
private final class Transfer {
    let handle: UnsafeMutableRawPointer
    private let fields: UnsafeMutablePointer<curl_slist>?
    private let limit: Int
    private let done: @Sendable (OutboundClient.Result) -> Void
    private let noteAnswer: (@Sendable (OutboundAnswer) -> Void)?
    private var body: [UInt8] = []
    private var isTooLarge = false
    private var isNotAllowed = false

    init(
        _ call: OutboundCall, _ limits: OutboundLimits, milliseconds: Int, authorities: String?,
        _ noteAnswer: (@Sendable (OutboundAnswer) -> Void)?,
        _ done: @escaping @Sendable (OutboundClient.Result) -> Void
    ) {
        guard let handle = unsafe curl_easy_init() else {
            Shortage.end(missing: "memory for a call of another server")
        }
        unsafe self.handle = handle
        self.limit = limits.answerBytes
        self.done = done
        self.noteAnswer = noteAnswer
        var lines = call.fields.map { "\($0.name): \($0.value)" }
        if case .post(_, let contentType) = call.method { lines.append("Content-Type: \(contentType)") }
        unsafe fields = lines.reduce(nil) { unsafe curl_slist_append($0, $1) }
        set(CURLOPT_URL, call.url.description)
        set(CURLOPT_PROTOCOLS_STR, "http,https")
        set(CURLOPT_PROXY, "")
        set(CURLOPT_USERAGENT, "onym")
        if let authorities { set(CURLOPT_CAINFO, authorities) }
        set(CURLOPT_FOLLOWLOCATION, 0)
        set(CURLOPT_SSL_VERIFYPEER, 1)
        set(CURLOPT_SSL_VERIFYHOST, 2)
        set(CURLOPT_NOSIGNAL, 1)
        set(CURLOPT_CONNECTTIMEOUT_MS, min(limits.connectMilliseconds, milliseconds))
        set(CURLOPT_TIMEOUT_MS, milliseconds)
        // A blocked resolver must not delay the server's stop.
        set(CURLOPT_QUICK_EXIT, 1)
        var codes: [CURLcode] = []
        if case .post(let bytes, _) = call.method {
            codes.append(
                unsafe bytes.withUnsafeBytes { unsafe onym_curl_set_body(handle, $0.baseAddress, $0.count) })
        }
        codes.append(unsafe onym_curl_set_fields(handle, fields))
        if !limits.allowsPrivateAddresses { codes.append(refusePrivateAddresses()) }
        codes.append(
            unsafe onym_curl_set_writer(
                handle,
                { bytes, size, count, context in
                    guard let bytes = unsafe bytes, let context = unsafe context else { return 0 }
                    let transfer = unsafe Unmanaged<Transfer>.fromOpaque(context).takeUnretainedValue()
                    let piece = unsafe UnsafeRawBufferPointer(start: bytes, count: size * count)
                    return unsafe transfer.take(piece) ? piece.count : 0
                }, Unmanaged.passUnretained(self).toOpaque()))
        precondition(codes.allSatisfy { $0 == CURLE_OK }, "libcurl does not take what a call needs.")
    }

    /// Checks each address at the moment of the connection, so that a name cannot change its address between the check and
    /// the call.
    private func refusePrivateAddresses() -> CURLcode {
        unsafe onym_curl_set_opener(
            handle,
            { context, _, address in
                guard let context = unsafe context, let address = unsafe address else { return -1 }
                let transfer = unsafe Unmanaged<Transfer>.fromOpaque(context).takeUnretainedValue()
                // The structure ends in a sockaddr, whose length depends on its family.
                let start = unsafe UnsafeRawPointer(address) + Transfer.addressOffset
                let bytes = unsafe UnsafeRawBufferPointer(start: start, count: Int(address.pointee.addrlen))
                guard unsafe transfer.mayCall(address.pointee.family, Array(bytes)) else { return -1 }
                let type = unsafe address.pointee.socktype | CInt(SOCK_CLOEXEC.rawValue)
                return unsafe socket(address.pointee.family, type, address.pointee.protocol)
            }, Unmanaged.passUnretained(self).toOpaque())
    }

    private static let addressOffset = MemoryLayout<curl_sockaddr>.offset(of: \.addr) ?? 0

    private func mayCall(_ family: CInt, _ address: [UInt8]) -> Bool {
        isNotAllowed = !PublicAddress.includes(family: family, sockaddr: address)
        return !isNotAllowed
    }

    deinit {
        unsafe curl_easy_cleanup(handle)
        unsafe curl_slist_free_all(fields)
    }

    private func set(_ option: CURLoption, _ value: Int) {
        let code = unsafe onym_curl_set_number(handle, option, value)
        precondition(code == CURLE_OK, "libcurl does not take an option that a call needs.")
    }

    private func set(_ option: CURLoption, _ value: String) {
        let code = unsafe onym_curl_set_text(handle, option, value)
        precondition(code == CURLE_OK, "libcurl does not take an option that a call needs.")
    }

    /// Takes a piece of the answer; false if the answer is too long.
    private func take(_ piece: UnsafeRawBufferPointer) -> Bool {
        isTooLarge = piece.count > limit - body.count
        if !isTooLarge { unsafe body.append(contentsOf: piece) }
        return !isTooLarge
    }

    func end(_ code: CURLcode) {
        if code == CURLE_OK {
            let answer = OutboundAnswer(
                status: unsafe onym_curl_status(handle), body: body, date: field("Date"),
                retryAfterSeconds: field("Retry-After").flatMap { Int($0) }.flatMap { $0 >= 0 ? $0 : nil })
            noteAnswer?(answer)
            done(.success(answer))
        } else {
            done(.failure(isTooLarge ? .answerTooLarge : isNotAllowed ? .notAllowed : OutboundFault(code)))
        }
    }

    private func field(_ name: String) -> String? {
        guard let value = unsafe onym_curl_field(handle, name) else { return nil }
        return unsafe String(validatingCString: value)
    }

    func cancel() { done(.failure(.cancelled)) }
}
