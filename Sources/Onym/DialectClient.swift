package import Foundation

/// The common part of all dialects' clients: a lock, a mailbox, calls that end exactly once, and deliveries.
///
/// All code here and in the subclasses runs inside `enter`, one thread at a time. Code inside `enter` never waits: requests
/// go out after the lock is free, and callbacks run on a queue of their own.
package class DialectClient: @unchecked Sendable {
    package let runtime: Runtime
    package let mailbox: Mailbox
    private let name: String
    private let lock = NSLock()
    /// Work for the time when the lock is free.
    private var afterwards: [@Sendable () -> Void] = []

    // Running calls by number: the function for the answer, and the function that cancels the call.
    private var nextCall = 0
    private var calls: [Int: (Result<HTTPAnswer, OnymError>) -> Void] = [:]
    private var cancellations: [Int: @Sendable () -> Void] = [:]
    private(set) package var isShutDown = false

    // State of the deliveries.
    private var isDelivering = false
    private var isPaused = false
    private var isDue = false
    private var hasTimer = false
    private var failures = 0
    private var size: Int
    private var pause = 0
    private var flushes: [Flush] = []
    private var isDirty = false
    private var isHurrying = false
    /// The status that stopped the deliveries, as the app knows it; nil if nothing stops them.
    private var toldStatus: Int?
    /// The number of letters that were removed for lack of room since the last notice.
    private var overflow = 0

    /// A call of `flush` that waits until the server has all letters up to a certain letter.
    private struct Flush {
        let number: Int64
        let completion: @Sendable (Result<Void, OnymError>) -> Void
        /// The number of its letters that were dropped, and the reason for the first.
        var dropped: (count: Int, reason: DropReason)?

        var result: Result<Void, OnymError> {
            dropped.map { .failure(.dropped($0.count, $0.reason)) } ?? .success(())
        }
    }

    // Completions that no queue keeps, by number.
    private var nextOwed = 0
    private var owed: [Int: @Sendable (OnymError) -> Void] = [:]

    package init(
        _ name: String, _ runtime: Runtime, fold: (Mailbox.Line) -> Void
    ) throws(FileFault) {
        self.runtime = runtime
        size = runtime.configuration.batchSize
        self.name = name
        try runtime.files.lock(name)
        do throws(FileFault) {
            mailbox = try Mailbox(
                name, in: runtime.files, id: runtime.chance(), report: { runtime.announce(.fileSetAside($0)) },
                fold: fold)
        } catch {
            runtime.files.unlock(name)
            throw error
        }
        mailbox.clean = { [unowned self] in clean($0) }
    }

    /// Removes files that no letter needs. Whoever logs does not wait for the sync before it.
    private func clean(_ garbage: Journal.Garbage) {
        outside { [weak self] in
            guard let self else { return }
            do throws(FileFault) {
                try runtime.files.sync(garbage.state)
                try enter { () throws(FileFault) in if !self.isShutDown { try self.mailbox.remove(garbage) } }
            } catch {
                runtime.announce(.storageFailed(error.reason))
            }
        }
    }

    /// The name becomes free also if the initializer failed halfway, so that another client can open.
    deinit { if !isShutDown { runtime.files.unlock(name) } }

    /// Runs a body under the lock, and then the work that has to run outside the lock.
    package final func enter<Value, Fault>(_ body: () throws(Fault) -> Value) throws(Fault) -> Value {
        lock.lock()
        defer {
            let due = afterwards
            afterwards = []
            lock.unlock()
            for action in due { action() }
        }
        return try body()
    }

    /// Calls a callback. Callbacks run in the order of these calls.
    package final func call(_ action: @escaping @Sendable () -> Void) { runtime.callbacks.run(action) }

    package final func outside(_ action: @escaping @Sendable () -> Void) { afterwards.append(action) }

    // MARK: - State

    /// The state as it is kept.
    package var kept: JSON { .null }

    /// Keeps the state.
    package final func save() {
        do throws(FileFault) {
            try mailbox.save(kept)
            dirty()
        } catch {
            runtime.announce(.storageFailed(error.reason))
        }
    }

    /// Plans to sync the written bytes to the disk soon.
    private func dirty() {
        guard case .within(let seconds) = runtime.configuration.safety, !isDirty else { return }
        isDirty = true
        later(seconds) { client in
            client.isDirty = false
            let (files, file) = (client.runtime.files, client.mailbox.currentFile)
            // A file that does not exist any more needs no sync.
            client.outside { try? files.sync(file) }
        }
    }

    /// Runs an action later, inside the lock, unless the client does not exist any more.
    @discardableResult
    package final func later(
        _ delay: TimeInterval, _ action: @escaping @Sendable (DialectClient) -> Void
    ) -> @Sendable () -> Void {
        runtime.time.after(delay) { [weak self] in
            guard let self else { return }
            enter { if !self.isShutDown { action(self) } }
        }
    }

    // MARK: - Calls

    /// Sends a request. `then` runs exactly once, inside the lock, unless the client is shut down earlier.
    package final func exchange(
        _ request: HTTPRequest, within seconds: TimeInterval? = nil,
        changed change: Delivery.Change? = nil,
        then: @escaping (Result<HTTPAnswer, OnymError>) -> Void
    ) {
        nextCall += 1
        let number = nextCall
        calls[number] = then
        let timer = later(seconds ?? runtime.configuration.timeout) { $0.finish(number, .failure(.timeout)) }
        cancellations[number] = timer
        outside { [weak self, transport = runtime.transport, tokens = runtime.configuration.identityTokens] in
            // The call may be canceled by now.
            guard let self, enter({ self.calls[number] != nil }) else { return }
            guard let request = self.changed(request, change, number) else { return }
            if change != nil, !enter({ self.calls[number] != nil }) { return }
            var sent = runtime.configuration.compressesBodies ? request.compressed : request
            if let tokens = tokens?(), !tokens.isEmpty {
                sent.fields["Onym-Identity-Token"] = tokens.joined(separator: ", ")
            }
            let question = answerCheck?.ask(&sent)
            let start = runtime.time.now
            let cancel = transport.send(sent) { [weak self] result in
                guard let self else { return }
                let now = self.runtime.time.now
                self.write(request, result, now.timeIntervalSince(start))
                if case .success(let answer) = result { self.learn(answer, start, now) }
                let checked = self.proven(result.mapError(OnymError.init), question, start, now).flatMap {
                    OnymError.check($0, at: now, envelope: self.isEnvelope)
                }
                self.enter { self.finish(number, checked) }
            }
            enter {
                // The answer may have arrived already, or the call may be canceled.
                if self.calls[number] == nil { return self.outside(cancel) }
                self.cancellations[number] = {
                    timer()
                    cancel()
                }
            }
        }
    }

    /// The request that a call sends; nil if the call has ended without it.
    private func changed(_ request: HTTPRequest, _ change: Delivery.Change?, _ number: Int) -> HTTPRequest? {
        guard let change else { return request }
        do throws(FileFault) {
            if let changed = try change() { return changed }
            enter { finish(number, .failure(.dropped(1, .discarded))) }
        } catch {
            enter { finish(number, .failure(.storage(error.reason))) }
        }
        return nil
    }

    /// Writes a request to the log. The path may contain a key, so the line has only the dialect's name.
    private func write(
        _ request: HTTPRequest, _ result: Result<HTTPAnswer, TransportFault>, _ seconds: TimeInterval
    ) {
        let outcome =
            switch result {
            case .success(let answer): "\(answer.status)"
            case .failure(let fault): "\(fault)"
            }
        runtime.log.write(.debug, "\(name): \(request.method) was answered after \(seconds) s: \(outcome)")
    }

    /// The check of the dialect's answers; nil for a dialect whose answers are not signed.
    package var answerCheck: AnswerCheck? { nil }

    private func proven(
        _ result: Result<HTTPAnswer, OnymError>, _ question: AnswerCheck.Question?, _ sent: Date, _ received: Date
    ) -> Result<HTTPAnswer, OnymError> {
        guard let question, let check = answerCheck, case .success(var answer) = result else { return result }
        do throws(AnswerCheck.Fault) {
            answer.proof = try check.proof(in: answer, to: question, sent: sent, received: received)
        } catch {
            if runtime.configuration.accessVerification == .report {
                runtime.announce(.untrusted(error.rawValue))
                return .success(answer)
            }
            // A proxy's refusal has no signature either. It stays a refusal, but not one of the server.
            if answer.isSuccess {
                runtime.announce(.untrusted(error.rawValue))
                return .failure(.untrusted(error.rawValue))
            }
            answer.isUnproven = true
        }
        return .success(answer)
    }

    /// Whether a body has the form of the dialect's errors.
    package func isEnvelope(_ body: JSON) -> Bool { false }

    /// Corrects the clock by the server's time, which counts as right.
    private func learn(_ answer: HTTPAnswer, _ sent: Date, _ received: Date) {
        guard answer.hasRequestID, let date = answer.fields["date"].flatMap(HTTPDate.read) else {
            return
        }
        runtime.clock.learn(date, sent: sent, received: received)
    }

    private func finish(_ number: Int, _ result: Result<HTTPAnswer, OnymError>) {
        guard let then = calls.removeValue(forKey: number) else { return }
        if let cancel = cancellations.removeValue(forKey: number) { outside(cancel) }
        then(result)
    }

    /// Cancels all running calls: their answers do not count any more.
    package final func abandonCalls() {
        for cancel in cancellations.values { outside(cancel) }
        calls.removeAll()
        cancellations.removeAll()
        isDelivering = false
    }

    package final func shutDown() {
        enter {
            if isShutDown { return }
            isShutDown = true
            // Requests that have not gone out yet never go out.
            afterwards = []
            abandonCalls()
            close(.refused(.shutDown))
            endOwed(.refused(.shutDown))
            endFlushes(.failure(.refused(.shutDown)))
            tellOverflow()
            try? mailbox.sync()
            runtime.files.unlock(name)
        }
    }

    /// Waits until all written bytes survive a loss of power.
    package final func sync() { enter { if !isShutDown { try? mailbox.sync() } } }

    /// Ends all waiting calls with an error.
    package func close(_ error: OnymError) {}

    /// Makes a completion that runs once: with its call's result, or with an error when the call is canceled.
    package final func owe<Value: Sendable>(
        _ completion: @escaping @Sendable (Result<Value, OnymError>) -> Void
    ) -> @Sendable (Result<Value, OnymError>) -> Void {
        nextOwed += 1
        let number = nextOwed
        owed[number] = { completion(.failure($0)) }
        return { [weak self] result in
            guard let self, owed.removeValue(forKey: number) != nil else { return }
            call { completion(result) }
        }
    }

    private func endOwed(_ error: OnymError) {
        let ended = owed.sorted { $0.key < $1.key }.map(\.value)
        owed = [:]
        for completion in ended { call { completion(error) } }
    }

    // MARK: - A say for the person

    /// Whether the person has opted out.
    package var isOut: Bool { false }

    package func setOptedOut(_ isOut: Bool) {}

    // MARK: - Letters

    /// Keeps a letter for sending. Answers the letter, or nil if the device could not keep it.
    @discardableResult
    package final func post(
        _ kind: String, of owner: String, at time: Int64? = nil, _ body: [UInt8]
    ) -> Mailbox.Letter? {
        if mailbox.count >= runtime.configuration.eventLimit, droppable.contains(kind) { makeRoom() }
        do throws(FileFault) {
            let letter = try mailbox.post(kind, of: owner, at: time ?? runtime.milliseconds, body)
            dirty()
            return letter
        } catch {
            runtime.announce(.storageFailed(error.reason))
            lose(1, .storage)
            return nil
        }
    }

    /// Keeps an event, and plans its delivery.
    @discardableResult
    package final func postEvent(of owner: String, at time: Int64? = nil, _ body: [UInt8]) -> Mailbox.Letter? {
        guard let letter = post("e", of: owner, at: time, body) else { return nil }
        if mailbox.count >= min(size, 20) { hurry() } else { deliverSoon() }
        return letter
    }

    /// The kinds of letters that may be removed when the mailbox is full.
    package var droppable: Set<String> { ["e"] }

    private func makeRoom() {
        guard let index = mailbox.firstIndex(of: droppable, after: isDelivering ? inFlight : 0) else { return }
        let number = mailbox.letters[index].number
        do throws(FileFault) {
            try mailbox.drop(at: index)
        } catch {
            return runtime.announce(.storageFailed(error.reason))
        }
        note([number], 1, .overflow)
        overflow += 1
        // One notice per second is enough, also for a thousand lost events.
        if overflow == 1 { later(1) { $0.tellOverflow() } }
    }

    private func tellOverflow() {
        if overflow > 0 { runtime.announce(.dropped(overflow, .overflow)) }
        overflow = 0
    }

    /// Announces that the server will never get some letters.
    private func lose(_ count: Int, _ reason: DropReason, _ letters: ArraySlice<Mailbox.Letter> = []) {
        runtime.announce(.dropped(count, reason))
        note(letters.map(\.number), count, reason)
    }

    /// Records the lost letters in each `flush` that waits for them.
    private func note(_ numbers: [Int64], _ count: Int, _ reason: DropReason) {
        for index in flushes.indices {
            let covered = min(count, numbers.count { $0 <= flushes[index].number })
            if covered == 0 { continue }
            let before = flushes[index].dropped
            flushes[index].dropped = ((before?.count ?? 0) + covered, before?.reason ?? reason)
        }
    }

    /// Removes the waiting letters that will never be sent.
    package final func discard(_ reason: DropReason, where isGone: (Mailbox.Letter) -> Bool) {
        let gone = mailbox.letters.filter(isGone)
        if gone.isEmpty { return }
        do throws(FileFault) {
            for letter in gone { try mailbox.drop(letter) }
        } catch {
            runtime.announce(.storageFailed(error.reason))
        }
        lose(gone.count, reason, gone[...])
    }

    package final func deliverSoon() {
        if hasTimer || isPaused || isDue && isDelivering { return }
        hasTimer = true
        later(runtime.pace.interval) { client in
            client.hasTimer = false
            client.deliver()
        }
    }

    /// Starts the delivery at once, but on another thread than the caller's.
    private func hurry() {
        if isHurrying || isDue || isPaused { return }
        isHurrying = true
        later(0) { client in
            client.isHurrying = false
            client.deliver()
        }
    }

    /// Sends all waiting letters.
    package final func deliver() {
        isDue = true
        pump()
    }

    package final func flush(_ completion: @escaping @Sendable (Result<Void, OnymError>) -> Void) {
        enter {
            if isShutDown { return call { completion(.failure(.refused(.shutDown))) } }
            willFlush()
            if mailbox.count == 0 { return call { completion(.success(())) } }
            flushes.append(Flush(number: mailbox.lastNumber, completion: completion))
            if let error = tryNow() { endFlushes(.failure(error)) }
        }
    }

    /// Tries at once and ends waiting times between tries. But a waiting time that the server demanded stays: the answer is
    /// its error.
    package final func tryNow() -> OnymError? {
        if isPaused, !isHeldByServer { resume() }
        if isHeldByServer { return heldError }
        deliver()
        return nil
    }

    private var isHeldByServer = false
    private var heldError = OnymError.offline

    /// The network is back: waiting letters go out soon. A random delay keeps devices from sending all at once.
    package final func pathIsBack() {
        enter {
            guard !isShutDown else { return }
            networkIsBack()
            guard isPaused, !isHeldByServer, heldError.isOfNetwork else { return }
            let number = pause
            later(runtime.part(of: DialectClient.longestReturn)) { client in
                guard client.pause == number, client.isPaused else { return }
                client.resume()
                client.deliver()
            }
        }
    }

    /// Reacts to the return of the network.
    package func networkIsBack() {}

    /// Reacts to a flush, before its letters go out.
    package func willFlush() {}

    /// Reacts to the end of Low Data Mode.
    package final func pathIsFree() { enter { if !isShutDown, mailbox.count > 0 { deliver() } } }

    /// The longest random delay after the return of the network, in seconds.
    package static let longestReturn: TimeInterval = 2

    private func resume() {
        isPaused = false
        pause += 1
    }

    private func endFlushes(_ result: Result<Void, OnymError>) {
        let ended = flushes
        flushes = []
        for flush in ended { call { flush.completion(result.flatMap { flush.result }) } }
    }

    /// The next request of a delivery, and the meaning of its answer.
    package struct Delivery {
        package typealias Change = @Sendable () throws(FileFault) -> HTTPRequest?

        /// The number of letters that the request carries, from the first letter on.
        package var count: Int
        package var request: HTTPRequest
        /// Makes the request outside the lock, for long requests and those that a function of the app changes; nil discards the
        /// letters.
        package var change: Change?
        /// Reads a success; answers the letters that the server did not accept.
        package var accept: (HTTPAnswer) -> Result<Rejected, OnymError>
        /// Says whether the letters count as delivered although the server refused, without a notice.
        package var forgives: (HTTPFailure) -> Bool = { _ in false }
        /// Says whether a refusal by the server asks for another request with the same letters.
        package var retries: (HTTPFailure) -> Bool = { _ in false }
        /// Says whether a refusal by the server is final for the letters.
        package var isFinal: (HTTPFailure) -> Bool = { _ in true }
        /// The statuses of a final refusal, besides the statuses of all deliveries.
        package var ends: Set<Int> = []
        /// Reacts to a final refusal.
        package var refused: (HTTPFailure) -> Void = { _ in }
        /// Reacts to each failure, also if the client sends the letters again.
        package var failed: (OnymError) -> Void = { _ in }
        /// The letters that the disk has lost.
        package var lost = LostLetters()
    }

    /// The number of letters that the disk has lost, known when the request is made.
    package final class LostLetters: @unchecked Sendable {
        private let lock = NSLock()
        private var number: Int

        package init(_ count: Int = 0) { number = count }

        package var count: Int {
            get { lock.withLock { number } }
            set { lock.withLock { number = newValue } }
        }
    }

    /// The letters that a success did not accept.
    package struct Rejected {
        package var count: Int
        /// The server's message about the letters.
        package var message: String?

        package static let nothing = Rejected(count: 0)

        package init(count: Int, message: String? = nil) { (self.count, self.message) = (count, message) }

        /// - Parameter texts: the server's message about each letter.
        package init(count: Int, texts: [String]) {
            self.init(
                count: count, message: texts.isEmpty ? nil : texts.prefix(Rejected.textLimit).joined(separator: "; "))
        }

        /// The greatest number of messages in a notice.
        private static let textLimit = 10
    }

    /// Makes a request of the first letters; nil if the letters have to wait. Throws if their contents cannot be read now.
    package func delivery(_ letters: ArraySlice<Mailbox.Letter>) throws(FileFault) -> Delivery? { nil }

    /// A request is in memory: this is its greatest size, except that one letter always fits.
    private static let batchBytes = 512 << 10

    private var batch: ArraySlice<Mailbox.Letter> {
        var bytes = 0
        return mailbox.letters.prefix(size).prefix { letter in
            bytes += letter.byteCount
            return bytes <= DialectClient.batchBytes || bytes == letter.byteCount
        }
    }

    /// Removes the letters that are older than the configuration allows.
    private func removeExpired() {
        guard let longest = runtime.configuration.longestWait else { return }
        let earliest = runtime.time.now.addingTimeInterval(-longest).milliseconds
        // Letters before an event, such as an alias, have to go first: then the event is one request from its end.
        let count = mailbox.letters.prefix { droppable.contains($0.kind) && $0.time < earliest }.count
        guard count > 0 else { return }
        lose(count, .expired, mailbox.letters.prefix(count))
        settle(count)
    }

    /// The number of letters in the running request.
    private var inFlight = 0

    /// Sends the next letters, unless a request runs or the client has to wait.
    package final func pump() {
        guard isDue, !isDelivering, !isPaused, !isShutDown else { return }
        removeExpired()
        guard mailbox.count > 0 else {
            isDue = false
            return endFlushes(.success(()))
        }
        if mailbox.letters.first?.kind == "e", runtime.path.isConstrained, !runtime.configuration.allowsConstrained {
            isDue = false
            return endFlushes(.failure(.refused(.constrained)))
        }
        let next: Delivery?
        do throws(FileFault) {
            next = try delivery(batch)
        } catch {
            return wait(.storage(error.reason))
        }
        guard let delivery = next else {
            return endFlushes(.failure(.refused(.noUser)))
        }
        if delivery.count > 0, delivery.lost.count == delivery.count {
            delivery.failed(.storage("the letter is lost"))
            lose(delivery.count, .storage, mailbox.letters.prefix(delivery.count))
            settle(delivery.count)
            return pump()
        }
        isDelivering = true
        inFlight = delivery.count
        let correction = runtime.clock.correction
        exchange(delivery.request, changed: delivery.change) { [unowned self] result in
            isDelivering = false
            inFlight = 0
            // A signature is valid only for the server's time.
            if case .failure(let error) = result, error.status == 401, !isCorrecting,
                runtime.clock.correction != correction
            {
                isCorrecting = true
                return pump()
            }
            isCorrecting = false
            conclude(delivery, result)
        }
    }

    /// Whether the running request repeats a request that failed because of a wrong clock.
    private var isCorrecting = false

    private func conclude(_ delivery: Delivery, _ result: Result<HTTPAnswer, OnymError>) {
        let letters = mailbox.letters.prefix(delivery.count)
        switch result.flatMap({ answer in delivery.accept(answer) }) {
        case .success(let rejected):
            (failures, toldStatus) = (0, nil)
            size = runtime.configuration.batchSize
            if rejected.count > 0 {
                let status = (try? result.get())?.status ?? 200
                lose(
                    rejected.count, .refused(.http(HTTPFailure(status: status, message: rejected.message))), letters)
            }
            let lost = delivery.lost.count
            if lost > 0 { lose(lost, .storage, letters) }
            settle(delivery.count)
            pump()
        case .failure(.http(let failure)) where judge(delivery, failure): pump()
        case .failure(.dropped(_, let reason)):
            lose(delivery.count, reason, letters)
            settle(delivery.count)
            pump()
        case .failure(let error):
            delivery.failed(error)
            wait(error)
        }
    }

    /// The least size of a letter that a proxy can refuse for its size.
    private static let largeBytes = 64 << 10

    /// The statuses with which the server refuses letters for good.
    private static let finalStatuses: Set<Int> = [400, 409, 413, 422]

    /// Reacts to a refusal. Answers whether the deliveries continue at once; otherwise they wait.
    private func judge(_ delivery: Delivery, _ failure: HTTPFailure) -> Bool {
        let isLarge = delivery.count == 1 && (mailbox.letters.first?.byteCount ?? 0) >= DialectClient.largeBytes
        let isTooLarge = isLarge && failure.status == 413
        let isFinal =
            failure.isServersWord
            && (DialectClient.finalStatuses.contains(failure.decisiveStatus)
                || delivery.ends.contains(failure.decisiveStatus))
        // One of several letters may be too much alone, for the server or for a proxy: the client sends fewer letters.
        if delivery.count > 1, isFinal || failure.status == 413 {
            size = delivery.count / 2
            return true
        }
        // Only the server itself decides about letters, not a proxy in front of it. But a large letter that is too large for a
        // proxy never arrives, and all later letters would wait for it.
        guard failure.isServersWord || isTooLarge else { return false }
        if delivery.retries(failure) { return true }
        size = runtime.configuration.batchSize
        if delivery.forgives(failure) {
            settle(delivery.count)
            return true
        }
        // The server refused the preparation of the letters, not the letters.
        guard delivery.count > 0, isTooLarge || isFinal && delivery.isFinal(failure) else { return false }
        lose(delivery.count, .refused(.http(failure)), mailbox.letters.prefix(delivery.count))
        delivery.refused(failure)
        delivery.failed(.http(failure))
        settle(delivery.count)
        return true
    }

    /// Whether only a token is missing: a later try may have one.
    private func isForNow(_ error: OnymError) -> Bool {
        error.decisiveStatus == 403 && runtime.configuration.identityTokens != nil
    }

    private func wait(_ error: OnymError) {
        failures += 1
        hold(error)
        tellHeld(error)
        held(error)
        endFlushes(.failure(error))
    }

    /// Announces an answer that will not change by itself, once until another answer comes.
    private func tellHeld(_ error: OnymError) {
        if case .storage(let reason) = error { runtime.announce(.storageFailed(reason)) }
        guard case .http(let failure) = error, !error.isPassing, !isForNow(error), toldStatus != failure.status else {
            return
        }
        toldStatus = failure.status
        runtime.announce(.held(error, waiting: mailbox.count))
    }

    /// Reacts to an error that makes the letters wait longer.
    package func held(_ error: OnymError) {}

    /// Reacts to an empty mailbox.
    package func emptied() {}

    private func settle(_ count: Int) {
        do throws(FileFault) {
            try mailbox.settle(count)
            dirty()
        } catch {
            runtime.announce(.storageFailed(error.reason))
        }
        if mailbox.count == 0, count > 0 { emptied() }
        guard
            let last = flushes.firstIndex(where: { flush in
                mailbox.letters.first.map { $0.number > flush.number } ?? true
            })
        else { return }
        let ended = flushes[...last]
        flushes.removeFirst(last + 1)
        for flush in ended { call { flush.completion(flush.result) } }
    }

    /// The seconds between tries (spec/idsync.md 4.10); the last number stands for all later tries.
    package static let delays: [TimeInterval] = [1, 2, 5, 15, 60, 120, 300]
    /// The longest wait that a server can demand.
    package static let longestWait: TimeInterval = 86_400
    /// The seconds between tries while the server refuses the key: a person has to change something first.
    package static let keyDelay: TimeInterval = 3600

    package final func delay(after failures: Int, _ error: OnymError) -> TimeInterval {
        let delays = DialectClient.delays
        let isOfKey = [401, 403].contains(error.decisiveStatus) && !isForNow(error)
        let own =
            isOfKey ? DialectClient.keyDelay : runtime.jittered(delays[min(max(failures, 1), delays.count) - 1])
        return min(max(own, error.retryAfter ?? 0), DialectClient.longestWait)
    }

    private func hold(_ error: OnymError) {
        isPaused = true
        isHeldByServer = error.retryAfter != nil
        heldError = error
        pause += 1
        let number = pause
        later(delay(after: failures, error)) { client in
            guard client.pause == number else { return }
            client.isPaused = false
            client.isHeldByServer = false
            client.deliver()
        }
    }

    /// Removes all waiting letters except one kind, and the state before this one. Running calls end with a refusal.
    package final func wipe(_ refusal: Refusal, keeping kind: String? = nil) {
        let dropped = mailbox.letters.filter { $0.kind != kind }.count
        if dropped > 0 { runtime.announce(.dropped(dropped, .optedOut)) }
        abandonCalls()
        if kind == nil {
            resume()
            (isHeldByServer, isDue, failures, toldStatus) = (false, false, 0, nil)
        }
        endOwed(.refused(refusal))
        endFlushes(.failure(.refused(refusal)))
        do throws(FileFault) {
            try mailbox.wipe(kept, keeping: kind)
            dirty()
        } catch {
            runtime.announce(.storageFailed(error.reason))
        }
        if mailbox.count > 0 { deliverSoon() }
    }
}
