package import Foundation

/// What the clients of all dialects have in common: a lock, a mailbox, calls that end exactly once, and deliveries.
///
/// Everything here and in the subclasses runs inside `enter`, one at a time. Nothing waits in there: requests go out after
/// the lock is free, and callbacks are handed to a queue of their own.
package class DialectClient: @unchecked Sendable {
    package let runtime: Runtime
    package let mailbox: Mailbox
    private let name: String
    private let lock = NSLock()
    /// What is done when the lock is free.
    private var afterwards: [@Sendable () -> Void] = []

    // Calls under way, by number: what becomes of their answers, and what gives them up.
    private var nextCall = 0
    private var calls: [Int: (Result<HTTPAnswer, OnymError>) -> Void] = [:]
    private var cancellations: [Int: @Sendable () -> Void] = [:]
    private(set) package var isShutDown = false

    // Deliveries.
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
    /// The status that was told of as holding letters back; nil while nothing is.
    private var toldStatus: Int?
    /// How many letters went for want of room since that was last told of.
    private var overflow = 0

    /// Somebody waits until all up to a letter is with the server.
    private struct Flush {
        let number: Int64
        let completion: @Sendable (Result<Void, OnymError>) -> Void
        /// What of it was dropped since, and why the first.
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
    }

    /// One that could not be made whole keeps nobody from making another.
    deinit { if !isShutDown { runtime.files.unlock(name) } }

    /// Runs a body alone; what it has to be done outside follows.
    package final func enter<Value>(_ body: () throws -> Value) rethrows -> Value {
        lock.lock()
        defer {
            let due = afterwards
            afterwards = []
            lock.unlock()
            for action in due { action() }
        }
        return try body()
    }

    /// Hands over a callback. Callbacks come in the order in which they were handed over.
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

    /// Has what was written made safe, soon.
    private func dirty() {
        guard case .within(let seconds) = runtime.configuration.safety, !isDirty else { return }
        isDirty = true
        later(seconds) { client in
            client.isDirty = false
            let (files, file) = (client.runtime.files, client.mailbox.currentFile)
            // A file that is gone by then needs no safety.
            client.outside { try? files.sync(file) }
        }
    }

    /// Does something later, inside the lock, unless this is gone by then.
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

    /// Sends a request; `then` is called exactly once, inside the lock, unless the client is shut down before.
    package final func exchange(
        _ request: HTTPRequest, within seconds: TimeInterval? = nil,
        then: @escaping (Result<HTTPAnswer, OnymError>) -> Void
    ) {
        nextCall += 1
        let number = nextCall
        calls[number] = then
        let timer = later(seconds ?? runtime.configuration.timeout) { $0.finish(number, .failure(.timeout)) }
        cancellations[number] = timer
        outside { [weak self, transport = runtime.transport, tokens = runtime.configuration.identityTokens] in
            // It may have been given up by now.
            guard let self, enter({ self.calls[number] != nil }) else { return }
            var sent = runtime.configuration.compressesBodies ? request.compressed : request
            if let tokens = tokens?(), !tokens.isEmpty {
                sent.fields["Onym-Identity-Token"] = tokens.joined(separator: ", ")
            }
            let start = runtime.time.now
            let cancel = transport.send(sent) { [weak self] result in
                guard let self else { return }
                let now = self.runtime.time.now
                if case .success(let answer) = result { self.learn(answer, start, now) }
                let checked = result.mapError(OnymError.init).flatMap {
                    OnymError.check($0, at: now, envelope: self.isEnvelope)
                }
                self.enter { self.finish(number, checked) }
            }
            enter {
                // The answer may be there already, or of no interest any more.
                if self.calls[number] == nil { return self.outside(cancel) }
                self.cancellations[number] = {
                    timer()
                    cancel()
                }
            }
        }
    }

    /// Whether a body has the form of the dialect's errors.
    package func isEnvelope(_ body: JSON) -> Bool { false }

    /// The server's clock is right.
    private func learn(_ answer: HTTPAnswer, _ sent: Date, _ received: Date) {
        guard answer.fields["x-request-id"] != nil, let date = answer.fields["date"].flatMap(HTTPDate.read) else {
            return
        }
        runtime.clock.learn(date, sent: sent, received: received)
    }

    private func finish(_ number: Int, _ result: Result<HTTPAnswer, OnymError>) {
        guard let then = calls.removeValue(forKey: number) else { return }
        if let cancel = cancellations.removeValue(forKey: number) { outside(cancel) }
        then(result)
    }

    /// Gives up all calls under way: their answers do not count any more.
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
            // What has not gone out yet stays here.
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

    /// Waits until all that is kept is safe from a loss of power.
    package final func sync() { enter { if !isShutDown { try? mailbox.sync() } } }

    /// Ends all that waits with an error.
    package func close(_ error: OnymError) {}

    /// A completion that is called once: by its call, or with an error when that is given up.
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

    /// Keeps something to be sent. Answers its letter, or nil if the device could not keep it.
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

    /// Keeps an event, and has it sent before long.
    @discardableResult
    package final func postEvent(of owner: String, at time: Int64? = nil, _ body: [UInt8]) -> Mailbox.Letter? {
        guard let letter = post("e", of: owner, at: time, body) else { return nil }
        if mailbox.count >= min(size, 20) { hurry() } else { deliverSoon() }
        return letter
    }

    /// The kinds of letters that go when there is no room for more.
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
        // Who logs a thousand events a second is told once.
        if overflow == 1 { later(1) { $0.tellOverflow() } }
    }

    private func tellOverflow() {
        if overflow > 0 { runtime.announce(.dropped(overflow, .overflow)) }
        overflow = 0
    }

    /// Tells that letters will never be sent.
    private func lose(_ count: Int, _ reason: DropReason, _ letters: ArraySlice<Mailbox.Letter> = []) {
        runtime.announce(.dropped(count, reason))
        note(letters.map(\.number), count, reason)
    }

    /// Has whoever waits for letters hear that some of them are gone.
    private func note(_ numbers: [Int64], _ count: Int, _ reason: DropReason) {
        for index in flushes.indices {
            let covered = min(count, numbers.count { $0 <= flushes[index].number })
            if covered == 0 { continue }
            let before = flushes[index].dropped
            flushes[index].dropped = ((before?.count ?? 0) + covered, before?.reason ?? reason)
        }
    }

    package final func deliverSoon() {
        if hasTimer || isPaused || isDue && isDelivering { return }
        hasTimer = true
        later(runtime.configuration.flushInterval) { client in
            client.hasTimer = false
            client.deliver()
        }
    }

    /// Has all that waits sent at once, but not by the thread that logs.
    private func hurry() {
        if isHurrying || isDue || isPaused { return }
        isHurrying = true
        later(0) { client in
            client.isHurrying = false
            client.deliver()
        }
    }

    /// Sends all that waits.
    package final func deliver() {
        isDue = true
        pump()
    }

    package final func flush(_ completion: @escaping @Sendable (Result<Void, OnymError>) -> Void) {
        enter {
            if isShutDown { return call { completion(.failure(.refused(.shutDown))) } }
            if mailbox.count == 0 { return call { completion(.success(())) } }
            flushes.append(Flush(number: mailbox.lastNumber, completion: completion))
            if let error = tryNow() { endFlushes(.failure(error)) }
        }
    }

    /// Whoever asks wants it tried now, whatever was to be waited for, but not against the server's word: that is answered.
    package final func tryNow() -> OnymError? {
        if isPaused, !isHeldByServer { resume() }
        if isHeldByServer { return heldError }
        deliver()
        return nil
    }

    private var isHeldByServer = false
    private var heldError = OnymError.offline

    /// The network is back: what waits for it goes before long, but not all devices' at once.
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

    /// Hears that the network is back.
    package func networkIsBack() {}

    /// Low Data Mode is over.
    package final func pathIsFree() { enter { if !isShutDown, mailbox.count > 0 { deliver() } } }

    /// Within so many seconds, devices whose network is back come again.
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

    /// What is sent next, and what its answer means.
    package struct Delivery {
        /// How many of the letters it takes, from the first on.
        package var count: Int
        package var request: HTTPRequest
        /// Takes a success; answers what of it was not taken after all.
        package var accept: (HTTPAnswer) -> Result<Rejected, OnymError>
        /// Says whether a refusal by the server settles the letters, without a word to anybody.
        package var forgives: (HTTPFailure) -> Bool = { _ in false }
        /// Says whether a refusal by the server asks for another delivery of the same letters.
        package var retries: (HTTPFailure) -> Bool = { _ in false }
        /// Says whether a refusal by the server means that it will never take the letters.
        package var isFinal: (HTTPFailure) -> Bool = { _ in true }
        /// The statuses by which the server says that it will never take the letters, besides those of all deliveries.
        package var ends: Set<Int> = []
        /// Hears that the server will never take the letters.
        package var refused: (HTTPFailure) -> Void = { _ in }
        /// Hears of each failure, whether the letters are sent again or not.
        package var failed: (OnymError) -> Void = { _ in }
        /// How many of the letters the disk has lost.
        package var lost = 0
    }

    /// What a success says was not taken after all.
    package struct Rejected {
        package var count: Int
        /// What the server says of it.
        package var message: String?

        package static let nothing = Rejected(count: 0)

        package init(count: Int, message: String? = nil) { (self.count, self.message) = (count, message) }

        /// - Parameter texts: what the server says of each.
        package init(count: Int, texts: [String]) {
            self.init(
                count: count, message: texts.isEmpty ? nil : texts.prefix(Rejected.textLimit).joined(separator: "; "))
        }

        /// A notice says no more than this.
        private static let textLimit = 10
    }

    /// Makes a request of the first letters, at most so many of them; nil if they have to wait for something.
    package func delivery(_ letters: ArraySlice<Mailbox.Letter>) -> Delivery? { nil }

    /// What is sent is in memory: no more than this, but one letter at least.
    private static let batchBytes = 512 << 10

    private var batch: ArraySlice<Mailbox.Letter> {
        var bytes = 0
        return mailbox.letters.prefix(size).prefix { letter in
            bytes += letter.byteCount
            return bytes <= DialectClient.batchBytes || bytes == letter.byteCount
        }
    }

    /// How many letters are on their way.
    private var inFlight = 0

    /// Sends the next letters, if nothing is on its way and there is nothing to wait for.
    package final func pump() {
        guard isDue, !isDelivering, !isPaused, !isShutDown else { return }
        guard mailbox.count > 0 else {
            isDue = false
            return endFlushes(.success(()))
        }
        if mailbox.letters.first?.kind == "e", runtime.path.isConstrained, !runtime.configuration.allowsConstrained {
            isDue = false
            return endFlushes(.failure(.refused(.constrained)))
        }
        guard let delivery = delivery(batch) else {
            return endFlushes(.failure(.refused(.noUser)))
        }
        isDelivering = true
        inFlight = delivery.count
        let correction = runtime.clock.correction
        exchange(delivery.request) { [unowned self] result in
            isDelivering = false
            inFlight = 0
            // A signature is good for the server's time alone.
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

    /// Whether what is under way is sent again because the clock was wrong.
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
            if delivery.lost > 0 { lose(delivery.lost, .storage, letters) }
            settle(delivery.count)
            pump()
        case .failure(.http(let failure)) where judge(delivery, failure): pump()
        case .failure(let error): wait(delivery, error)
        }
    }

    /// The statuses by which the server says that it will never take letters.
    private static let finalStatuses: Set<Int> = [400, 409, 413, 422]

    /// Does what a refusal asks for. Answers whether the deliveries go on; otherwise they wait.
    private func judge(_ delivery: Delivery, _ failure: HTTPFailure) -> Bool {
        let isFinal =
            failure.isServersWord
            && (DialectClient.finalStatuses.contains(failure.status) || delivery.ends.contains(failure.status))
        // Of several, it may be one alone that is too much, for the server or for a proxy.
        if delivery.count > 1, isFinal || failure.status == 413 {
            size = delivery.count / 2
            return true
        }
        // Whoever stands before the server does not say what becomes of letters.
        guard failure.isServersWord else { return false }
        if delivery.retries(failure) { return true }
        size = runtime.configuration.batchSize
        if delivery.forgives(failure) {
            settle(delivery.count)
            return true
        }
        // What the letters need first is refused, not the letters.
        guard isFinal, delivery.count > 0, delivery.isFinal(failure) else { return false }
        lose(delivery.count, .refused(.http(failure)), mailbox.letters.prefix(delivery.count))
        delivery.refused(failure)
        delivery.failed(.http(failure))
        settle(delivery.count)
        return true
    }

    /// Whether it is a token that may be missing: the next one may be there when this is sent again.
    private func isForNow(_ error: OnymError) -> Bool {
        error.status == 403 && runtime.configuration.identityTokens != nil
    }

    private func wait(_ delivery: Delivery, _ error: OnymError) {
        failures += 1
        hold(error)
        tellHeld(error)
        delivery.failed(error)
        held(error)
        endFlushes(.failure(error))
    }

    /// Tells of an answer that is not likely to change by itself, once until it does.
    private func tellHeld(_ error: OnymError) {
        guard case .http(let failure) = error, !error.isPassing, !isForNow(error), toldStatus != failure.status else {
            return
        }
        toldStatus = failure.status
        runtime.announce(.held(error, waiting: mailbox.count))
    }

    /// Hears that what waits goes on waiting, and why.
    package func held(_ error: OnymError) {}

    /// Hears that nothing waits any more.
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

    /// The seconds between tries (spec/idsync.md 4.10); the last for all that follow.
    package static let delays: [TimeInterval] = [1, 2, 5, 15, 60, 120, 300]
    /// A server that wants to be left alone for longer is asked again after a day.
    package static let longestWait: TimeInterval = 86_400
    /// The seconds between tries where a key is not good enough: somebody has to do something about it.
    package static let keyDelay: TimeInterval = 3600

    package final func delay(after failures: Int, _ error: OnymError) -> TimeInterval {
        let delays = DialectClient.delays
        let isOfKey = [401, 403].contains(error.status) && !isForNow(error)
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

    /// Forgets all that waits but what is of a kind, and what was kept before this state. Calls under way end with a refusal.
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
        } catch {
            runtime.announce(.storageFailed(error.reason))
        }
        if mailbox.count > 0 { deliverSoon() }
    }
}
