package import Domain
package import Engine
import Gateway
import HTTPServer
package import Outbound
import Threads

/// Asks stores about purchases whose check is due, so that access stays right when nobody calls (spec/entitlements-live.md 7).
///
/// The store of the server has the whole schedule, so a server that ends at any moment goes on later. Of several processes on
/// one store, one asks.
package final class PurchaseChecker: Sendable {
    /// The parts that the checker needs.
    package struct Parts: Sendable {
        package let store: any Store
        package let engine: Engine
        /// The engine's queue whose answers may arrive on any thread.
        package let lane: Int
        package let client: OutboundClient
        package let stores: ProjectStores
        package let clock: @Sendable () -> Instant
        package let limits: Limits
        /// The last moment of the journal before this server; nil for a new store.
        package let lastMoment: Instant?

        package init(
            store: any Store, engine: Engine, lane: Int, client: OutboundClient, stores: ProjectStores,
            clock: @escaping @Sendable () -> Instant, limits: Limits, lastMoment: Instant?
        ) {
            self.store = store
            self.engine = engine
            self.lane = lane
            self.client = client
            self.stores = stores
            self.clock = clock
            self.limits = limits
            self.lastMoment = lastMoment
        }
    }

    package struct Limits: Sendable {
        /// The questions to one store in a second.
        package var perSecond = 10
        /// The questions to one store in a second because of its notifications.
        package var noticesPerSecond = 50
        /// The pause between two searches for refunds at Google.
        package var refundPauseMilliseconds = 300_000
        /// The time for which a subscription that would renew gives access after its end while its store does not answer.
        package var graceMilliseconds: Int64 = 0
        /// The pause between two searches for due purchases.
        package var pauseMilliseconds = 1000

        package init() {}

        /// With a high rate the searches come more often, because only so many questions are open at a time.
        fileprivate var searchMilliseconds: Int {
            min(pauseMilliseconds, max(1, 1000 * Limits.openAtMost / max(1, perSecond)))
        }

        static let openAtMost = 32
    }

    /// One question.
    private struct Question: Sendable {
        let purchase: Purchase
        let project: ProjectID
        let catalog: Catalog
    }

    /// A question because of a notification.
    private struct Notice: Sendable {
        let notice: StoreNotice
        let project: ProjectID
        let catalog: Catalog
        /// The subscriptions of a customer.
        let known: [String]
    }

    /// The limits of the server's own questions, and of those because of notifications.
    private struct Lines {
        var own: StoreLines
        var notices: StoreLines

        /// Notes what an answer says about further questions.
        mutating func note(_ result: OutboundClient.Result, _ source: Purchase.Source, _ project: ProjectID) {
            guard case .success(let answer) = result else { return }
            let at = MonotonicClock.nanoseconds()
            if answer.status == 429 {
                own.slowDown(source, project, at: at)
                notices.slowDown(source, project, at: at)
            }
            if [429, 503].contains(answer.status), let seconds = answer.retryAfterSeconds {
                own.pause(source, project, seconds: seconds, at: at)
                notices.pause(source, project, seconds: seconds, at: at)
            }
        }
    }

    /// What has happened since the thread looked last.
    private enum Arrival: Sendable {
        /// The store has noted that a search for missed notifications begins or goes on, or has not.
        case newsNoted(ProjectID, next: String?, isBegin: Bool, isDone: Bool)
        /// A page of Apple's notifications.
        case missed(
            OutboundClient.Result, ProjectID,
            @Sendable (OutboundClient.Result, LoopTools) -> StoreQuestion<NotificationPage>)
        case noticesBegun([Notice])
        case noticesNotBegun([Notice])
        case news(OutboundClient.Result, Notice, @Sendable (OutboundClient.Result, LoopTools) -> NoticeQuestion)
        case begun([Question])
        /// The store has not noted the begin.
        case notBegun([Question])
        case answer(OutboundClient.Result, Question, @Sendable (OutboundClient.Result, LoopTools) -> StoreCheck)
        /// The store has not stored a project's refunds.
        case refundsLost(ProjectID)
        /// A page of Google's list of refunds.
        case refunds(
            OutboundClient.Result, RefundSearch,
            @Sendable (OutboundClient.Result, LoopTools) -> StoreQuestion<PlayRefunds>)
    }

    private struct State {
        var isStopping = false
        var arrivals: [Arrival] = []
        var busy: Set<PurchaseID> = []
        var busyNotices: Set<Hash128> = []
        /// Whether notices may wait that nobody has looked for.
        var isRung = false
        /// Whether questions are being planned again.
        var isReplanning = false
        var figures = Figures()
    }

    /// The counts for the metrics.
    package struct Figures: Sendable {
        /// The questions by store and result.
        package fileprivate(set) var checks: [Purchase.Source: [Result: Int]] = [:]
        /// The number of due purchases that the last search found; it finds no more than may be asked about.
        package fileprivate(set) var due = 0
        /// The notifications that wait for a question.
        package fileprivate(set) var notices: [Purchase.Source: Int] = [:]
        /// The moment since which the earliest of them is due.
        package fileprivate(set) var oldestDueAt: Instant?

        package enum Result: String, CaseIterable, Sendable {
            case answered, failed, gone
        }
    }

    private let parts: Parts
    private let state = Monitor(State())
    private let thread = Monitor<WorkerThread?>(nil)

    package init(_ parts: Parts) {
        self.parts = parts
        parts.stores.notices.setListener { [weak self] in self?.ring() }
        thread.withLock { $0 = WorkerThread(name: "onym-purchases") { [self] in run() } }
    }

    package var figures: Figures { state.withLock { $0.figures } }

    /// Begins no further question, and returns when the thread has ended. The caller stops the client afterwards.
    package func stop() {
        parts.stores.notices.setListener(nil)
        state.change { $0.isStopping = true }
        thread.withLock { $0.take() }?.join()
    }

    // MARK: - The thread

    private func run() {
        let started = MonotonicClock.nanoseconds()
        var lines = Lines(
            own: StoreLines(perSecond: parts.limits.perSecond, at: started),
            notices: StoreLines(perSecond: parts.limits.noticesPerSecond, at: started))
        let pause = UInt64(parts.limits.searchMilliseconds) * 1_000_000
        var (next, nextNotices, hasLed) = (started, started, false)
        var turn = 0
        var missed: [ProjectID: MissedNews] = [:]
        var searches = RefundSearches(pauseMilliseconds: parts.limits.refundPauseMilliseconds)
        while true {
            let (arrivals, isRung, isStopping) = state.withLock { state in
                let arrivals = state.arrivals
                state.arrivals = []
                return (arrivals, state.isRung, state.isStopping)
            }
            if isStopping { return }
            if !arrivals.isEmpty {
                let tools = makeTools()
                for arrival in arrivals { take(arrival, &lines, &searches, &missed, tools) }
            }
            let now = MonotonicClock.nanoseconds()
            let leads = parts.store.leads
            // The work of a process that was killed begins at once.
            if leads, !hasLed { next = now }
            hasLed = leads
            // The store logs its own faults; the checker only tries again.
            if now >= next || isRung && now >= nextNotices {
                nextNotices = now + PurchaseChecker.betweenRings
                try? beginNotices(&lines.notices)
            }
            if now >= next {
                next = now + pause
                try? replan()
                try? beginDue(&lines.own, turn: turn)
                searchRefunds(&searches, at: now)
                try? searchMissed(&missed, &lines.own, at: now)
                turn += 1
            }
            let then = MonotonicClock.nanoseconds()
            let untilNext = Int((next - min(next, then)) / 1_000_000) + 1
            let left = leads ? untilNext : min(untilNext, PurchaseChecker.lookMilliseconds)
            let leftForNotices = min(left, Int((nextNotices - min(nextNotices, then)) / 1_000_000) + 1)
            let isWaiting = state.withLock { $0.isRung }
            let _: Bool? = state.wait(milliseconds: isWaiting ? leftForNotices : left) {
                $0.isStopping || !$0.arrivals.isEmpty || $0.isRung != isWaiting ? true : nil
            }
        }
    }

    /// The pause between two looks whether this process leads the store now.
    private static let lookMilliseconds = 100

    /// Rings come as often as notifications, and searches for notices less often.
    private static let betweenRings: UInt64 = 20_000_000

    private func ring() { state.change { $0.isRung = true } }

    private func makeTools() -> LoopTools {
        LoopTools(hash: parts.store.hash) { [parts] in
            LoopTools.Round(now: parts.clock(), directory: parts.store.directory)
        }
    }

    /// Finds due purchases, and begins to ask about as many as the stores' limits allow. Each search begins with another
    /// project, so that no project waits for the others.
    private func beginDue(_ lines: inout StoreLines, turn: Int) throws(StoreFault) {
        guard parts.store.leads else { return }
        let (now, busy) = (parts.clock(), state.withLock { $0.busy })
        lines.refill(at: MonotonicClock.nanoseconds())
        var (count, oldest): (Int, Instant?) = (0, nil)
        defer {
            let found = (count, oldest)
            state.withLock { ($0.figures.due, $0.figures.oldestDueAt) = found }
        }
        let directory = parts.store.directory
        let projects = directory.projects.keys.filter { parts.stores.of($0, directory).isAsked }.sorted {
            $0.rawValue < $1.rawValue
        }
        for place in projects.indices {
            let project = projects[(place + turn) % projects.count]
            // A store that may not be asked now still tells how long its first purchase has waited.
            let allowed = lines.allowed(of: project)
            let found = try parts.store.read { snapshot throws(StoreFault) in
                try DueChecks(
                    in: project, at: now, except: busy, limits: allowed.mapValues { max($0, 1) }, snapshot
                ).map { due throws(StoreFault) in
                    (due, due.items.isEmpty ? Catalog() : try snapshot.catalog(of: project))
                }
            }
            guard let (due, catalog) = found else { continue }
            count += due.items.count
            oldest = (due.items.compactMap { $0.purchase?.check?.dueAt } + [oldest].compactMap { $0 }).min()
            // Nobody asks about a purchase that the server keeps no longer, or about which it cannot ask.
            func isToForget(_ item: DueChecks.Item) -> Bool {
                item.purchase.map { $0.isForgotten(at: now) || $0.check?.isSilent == true } ?? false
            }
            forget(due.items.filter(isToForget).map(\.id), in: project)
            let items = due.items.filter { item in
                !isToForget(item) && item.place.source.flatMap { allowed[$0] } ?? 0 > 0
            }
            begin(items, due.emptyBefore, in: project, catalog, &lines)
        }
    }

    /// Plans questions again that were planned while the clock was ahead, a part at a time.
    private func replan() throws(StoreFault) {
        guard let latest = parts.engine.momentAhead, parts.store.leads, !state.withLock({ $0.isReplanning }) else {
            return
        }
        let now = parts.clock()
        for project in parts.store.directory.projects.keys {
            let planned = try parts.store.read { snapshot throws(StoreFault) in
                try PlannedAhead(in: project, at: now, latest: latest, snapshot)
            }
            guard let planned else { continue }
            state.withLock { $0.isReplanning = true }
            submit(ReplanChecks(planned), in: project) { [self] _ in state.withLock { $0.isReplanning = false } }
            return
        }
    }

    private func forget(_ purchases: [PurchaseID], in project: ProjectID) {
        if purchases.isEmpty { return }
        state.withLock { $0.busy.formUnion(purchases) }
        submit(NoteChecks(purchases.map { ($0, .forgotten) }), in: project) { [self] _ in free(purchases) }
    }

    /// Notes that questions begin. They are asked when the store has the note.
    private func begin(
        _ items: [DueChecks.Item], _ emptyBefore: Int64?, in project: ProjectID, _ catalog: Catalog,
        _ lines: inout StoreLines
    ) {
        if items.isEmpty, emptyBefore == nil { return }
        let questions = items.compactMap { item in
            item.purchase.map { Question(purchase: $0, project: project, catalog: catalog) }
        }
        for question in questions { lines.begin(question.purchase.source, project) }
        state.withLock { $0.busy.formUnion(questions.map(\.purchase.id)) }
        let notes = items.map { (purchase: $0.id, progress: NoteChecks.Progress.begun(place: $0.place)) }
        submit(NoteChecks(notes, emptyBefore: emptyBefore), in: project) { [self] isDone in
            push(isDone ? .begun(questions) : .notBegun(questions))
        }
    }

    private func take(
        _ arrival: Arrival, _ lines: inout Lines, _ searches: inout RefundSearches,
        _ missed: inout [ProjectID: MissedNews], _ tools: LoopTools
    ) {
        switch arrival {
        case .newsNoted(let project, let next, let isBegin, let isDone):
            if !isDone {
                missed[project]?.state = .waiting(MonotonicClock.nanoseconds() + MissedNews.pauseNanoseconds)
                if isBegin { missed[project] = nil }
            } else if isBegin {
                missed[project]?.state = .waiting(0)
            } else {
                missed[project]?.go(on: next)
                if case .done? = missed[project]?.state {
                    submit(NoteMissedNews(since: nil), in: project) { _ in }
                }
            }
        // The client was stopped. The search begins again after the next start.
        case .missed(.failure(.cancelled), _, _): break
        case .missed(let result, let project, let then):
            lines.note(result, .appStore, project)
            go(on: then(result, tools), project, &missed, &lines.own, tools)
        case .noticesBegun(let notices):
            for notice in notices {
                go(
                    on: parts.stores.of(notice.project, tools.directory).question(
                        because: notice.notice, notice.known, notice.catalog, in: notice.project, at: parts.clock()),
                    notice, &lines.notices)
            }
        case .noticesNotBegun(let notices):
            for notice in notices {
                lines.notices.end(notice.notice.source, notice.project, .other, at: MonotonicClock.nanoseconds())
                free(notice)
            }
        // The client was stopped. The question comes again after the next start.
        case .news(.failure(.cancelled), _, _): break
        case .news(let result, let notice, let then):
            lines.note(result, notice.notice.source, notice.project)
            go(on: then(result, tools), notice, &lines.notices)
        case .begun(let questions):
            for question in questions {
                go(
                    on: parts.stores.of(question.project, tools.directory).question(
                        about: question.purchase, question.catalog, in: question.project, at: parts.clock(),
                        tools.directory),
                    question, &lines.own)
            }
        case .notBegun(let questions):
            for question in questions {
                lines.own.end(question.purchase.source, question.project, .other, at: MonotonicClock.nanoseconds())
            }
            free(questions.map(\.purchase.id))
        case .refundsLost(let project): searches.lose(project)
        case .refunds(.failure(.cancelled), _, _): break
        case .refunds(let result, let search, let then): go(on: then(result, tools), search, &searches)
        // The client was stopped. The question comes again after the next start.
        case .answer(.failure(.cancelled), _, _): break
        case .answer(let result, let question, let then):
            lines.note(result, question.purchase.source, question.project)
            go(on: then(result, tools), question, &lines.own)
        }
    }

    // MARK: - Notifications

    /// Finds notices, and begins to ask about as many as the stores' limits allow.
    private func beginNotices(_ lines: inout StoreLines) throws(StoreFault) {
        state.withLock { $0.isRung = false }
        guard parts.store.leads else { return }
        let (now, hash) = (parts.clock(), parts.store.hash)
        lines.refill(at: MonotonicClock.nanoseconds())
        var waiting: [Purchase.Source: Int] = [:]
        var isMore = false
        let directory = parts.store.directory
        for project in directory.projects.keys.sorted(by: { $0.rawValue < $1.rawValue }) {
            let allowed = lines.allowed(of: project)
            let (busy, busyNotices) = state.withLock { ($0.busy, $0.busyNotices) }
            for source in StoreNotice.sources {
                let limit = allowed[source] ?? 0
                let (due, questions) = try parts.store.read { snapshot throws(StoreFault) in
                    let due = try DueNotices(in: project, of: source, at: now, limit: limit, snapshot) { notice in
                        !busyNotices.contains(notice.id)
                            && !notice.purchases(in: project, hash).contains(where: busy.contains)
                    }
                    let catalog = due.items.isEmpty ? Catalog() : try snapshot.catalog(of: project)
                    return (
                        due,
                        try due.items.map { notice throws(StoreFault) in
                            Notice(
                                notice: notice, project: project, catalog: catalog,
                                known: try PurchaseChecker.subscriptions(of: notice, in: project, snapshot))
                        }
                    )
                }
                waiting[source, default: 0] += due.waiting
                isMore = isMore || due.waiting > 0 && due.items.count == limit
                begin(questions, in: project, &lines)
            }
        }
        let found = (waiting, isMore)
        state.withLock { state in
            state.figures.notices = found.0
            state.isRung = state.isRung || found.1
        }
    }

    /// The subscriptions of a customer that the server knows.
    private static func subscriptions(
        of notice: StoreNotice, in project: ProjectID, _ snapshot: any Snapshot
    ) throws(StoreFault) -> [String] {
        guard case .customer(let id) = notice.subject, let world = notice.world else { return [] }
        let account = StoreAccount.name(notice.source, id, in: world, of: project, hash: snapshot.hash)
        // The further items of a subscription come with it.
        return try snapshot.purchases(ofAccount: account).map(\.originalTransaction).filter { !$0.contains(":") }
    }

    private func begin(_ notices: [Notice], in project: ProjectID, _ lines: inout StoreLines) {
        if notices.isEmpty { return }
        for notice in notices { lines.begin(notice.notice.source, project) }
        let purchases = notices.flatMap { $0.notice.purchases(in: project, parts.store.hash) }
        state.withLock { state in
            state.busyNotices.formUnion(notices.map(\.notice.id))
            state.busy.formUnion(purchases)
        }
        submit(NoteStoreNotices(notices.map { ($0.notice, .begun) }), in: project) { [self] isDone in
            push(isDone ? .noticesBegun(notices) : .noticesNotBegun(notices))
        }
    }

    private func go(on question: NoticeQuestion, _ notice: Notice, _ lines: inout StoreLines) {
        let (source, now) = (notice.notice.source, MonotonicClock.nanoseconds())
        switch question {
        case .ask(let call, let then):
            parts.client.submit(call) { [self] result in push(.news(result, notice, then)) }
            return
        case .done(.success(let news)):
            lines.end(source, notice.project, .answer, at: now)
            store(news, notice)
        // If the store does not know the purchase any more, a repetition would not help.
        case .done(.failure(.bad)):
            lines.end(source, notice.project, .answer, at: now)
            end(notice, .over)
        case .done(.failure(.unavailable(let outage))):
            // A mistake in the settings of one project is no fault of the store.
            lines.end(source, notice.project, outage.reason == .notSetUp ? .other : .fault, at: now)
            end(notice, .unanswered)
        }
        if case .done(let result) = question {
            parts.stores.note(result.map(\.receipts), of: source, notice.project, at: parts.clock())
        }
    }

    /// Stores what a store has said because of a notification. A buyer gets the purchase first.
    private func store(_ news: StoreNews, _ notice: Notice) {
        let take = TakeStoreNews(news.receipts, isNotification: true, because: notice.notice)
        guard let buyer = news.buyer, (1...255).contains(buyer.utf8.count), let first = news.receipts.first,
            let world = notice.notice.world
        else { return submit(take, in: notice.project) { [self] _ in free(notice) } }
        // A user that does not exist gets nothing, and can report the checkout later. A purchase that somebody has already stays: a
        // checkout that Stripe tells of again is no restore.
        let user = Identity(world.userType, buyer, in: notice.project, hash: parts.store.hash)
        let record = RestorePurchases(AccessSession(user), [.success(first)], .purchase(first.purchase), in: world)
        let job = Job(call: Call(project: notice.project, key: nil), act: record) { [self] answer in
            switch answer {
            case .success, .failure(.refused): submit(take, in: notice.project) { [self] _ in free(notice) }
            case .failure(.fault), .failure(.overloaded): end(notice, .unanswered)
            }
        }
        if !parts.engine.submit([job], lane: parts.lane) { free(notice) }
    }

    private func end(_ notice: Notice, _ progress: NoteStoreNotices.Progress) {
        submit(NoteStoreNotices([(notice.notice, progress)]), in: notice.project) { [self] _ in free(notice) }
    }

    /// Lets the next search find a notice that the queue still has.
    private func free(_ notice: Notice) {
        let purchases = notice.notice.purchases(in: notice.project, parts.store.hash)
        state.change { state in
            state.busyNotices.remove(notice.notice.id)
            state.busy.subtract(purchases)
            // The store may have told again while the server asked.
            state.isRung = true
        }
    }

    // MARK: - Missed notifications of Apple

    /// Asks Apple for a page of the notifications that came while no server ran.
    private func searchMissed(
        _ missed: inout [ProjectID: MissedNews], _ lines: inout StoreLines, at monotonic: UInt64
    ) throws(StoreFault) {
        guard parts.store.leads, parts.limits.perSecond > 0 else { return }
        let (directory, now) = (parts.store.directory, parts.clock())
        for project in directory.projects.keys {
            let stores = parts.stores.of(project, directory)
            guard stores.isAsked, let appStore = stores.appStore, let server = appStore.server else { continue }
            guard let search = missed[project] else {
                try beginMissed(of: project, appStore.bundleIDs(of: project, directory), &missed, at: now)
                continue
            }
            guard case .waiting(let until) = search.state, monotonic >= until, let place = search.places.first,
                lines.allowed(of: project)[.appStore] ?? 0 > 0
            else { continue }
            lines.begin(.appStore, project)
            missed[project]?.state = .asking
            go(
                on: server.notifications(
                    of: place.bundleID, isSandbox: place.isSandbox, in: search.span, page: search.page, at: now),
                project, &missed, &lines, nil)
        }
    }

    private func beginMissed(
        of project: ProjectID, _ bundleIDs: [String], _ missed: inout [ProjectID: MissedNews], at now: Instant
    ) throws(StoreFault) {
        let known = try parts.store.read { snapshot throws(StoreFault) in try snapshot.missedNews(of: project) }
        let since = [known, parts.lastMoment].compactMap { $0 }.min()
        var search = MissedNews(project, since: since ?? now, at: now, bundleIDs)
        guard let since, !bundleIDs.isEmpty else {
            search.state = .done
            missed[project] = search
            return
        }
        missed[project] = search
        submit(NoteMissedNews(since: since), in: project) { [self] isDone in
            push(.newsNoted(project, next: nil, isBegin: true, isDone: isDone))
        }
    }

    private func go(
        on question: StoreQuestion<NotificationPage>, _ project: ProjectID, _ missed: inout [ProjectID: MissedNews],
        _ lines: inout StoreLines, _ tools: LoopTools?
    ) {
        let monotonic = MonotonicClock.nanoseconds()
        switch question {
        case .ask(let call, let then):
            parts.client.submit(call) { [self] result in push(.missed(result, project, then)) }
        case .done(.success(let page)):
            lines.end(.appStore, project, .answer, at: monotonic)
            let tools = tools ?? makeTools()
            let appStore = parts.stores.of(project, tools.directory).appStore
            // What is not signed by Apple, or is about another app, counts no more than in a notification.
            let receipts = page.payloads.flatMap { text in
                (try? appStore?.news(text, for: project, at: parts.clock(), tools)) ?? []
            }
            submit(TakeStoreNews(receipts, isNotification: true), in: project) { [self] isDone in
                push(.newsNoted(project, next: page.next, isBegin: false, isDone: isDone))
            }
        case .done(.failure(let problem)):
            let isOutage = problem == .unavailable(StoreOutage(source: .appStore, reason: .unreachable))
            lines.end(.appStore, project, isOutage ? .fault : .other, at: monotonic)
            missed[project]?.state = .waiting(monotonic + MissedNews.pauseNanoseconds)
        }
    }

    // MARK: - Refunds

    /// Asks Google for a page of the refunds that it tells only in a list.
    private func searchRefunds(_ searches: inout RefundSearches, at monotonic: UInt64) {
        guard parts.store.leads, parts.limits.perSecond > 0 else { return }
        let (directory, now) = (parts.store.directory, parts.clock())
        let projects = directory.projects.keys.filter { project in
            let stores = parts.stores.of(project, directory)
            return stores.isAsked && stores.play != nil
        }
        guard let project = searches.due(of: projects, at: monotonic),
            let play = parts.stores.of(project, directory).play
        else { return }
        let search = searches.begin(project, of: projects.count, play.refundPlace, at: now, monotonic)
        go(on: play.refunds(since: search.since, page: search.page, at: now), search, &searches)
    }

    private func go(
        on question: StoreQuestion<PlayRefunds>, _ search: RefundSearch, _ searches: inout RefundSearches
    ) {
        switch question {
        case .ask(let call, let then):
            parts.client.submit(call) { [self] result in push(.refunds(result, search, then)) }
        case .done(.success(let refunds)):
            if !take(refunds.all, in: search.project) { searches.lose(search.project) }
            searches.end(search, next: refunds.nextPage, at: MonotonicClock.nanoseconds())
            parts.stores.note(.success([]), of: .playStore, search.project, at: parts.clock())
        case .done(.failure(let problem)):
            searches.fail(search)
            parts.stores.note(.failure(problem), of: .playStore, search.project, at: parts.clock())
        }
    }

    private static let refundsPerCall = 50

    /// Stores the refunds of known purchases. False if the store cannot be read.
    private func take(_ refunds: [PlayRefund], in project: ProjectID) -> Bool {
        let now = parts.clock()
        let statements = try? parts.store.read { snapshot throws(StoreFault) in
            var statements: [Receipt] = []
            let products = try snapshot.catalog(of: project).products.map(\.idInStore)
            for refund in refunds {
                for world in AccessWorld.allCases {
                    func purchase(_ original: String) throws(StoreFault) -> Purchase? {
                        try snapshot.purchase(
                            PurchaseID(.playStore, original, in: world, of: project, hash: snapshot.hash))
                    }
                    guard let first = try purchase(refund.token), first.history.knows(refund.order) else { continue }
                    // The further products of the order are purchases of their own.
                    var bought = [first]
                    for product in products {
                        if let further = try purchase("\(refund.token):\(product)") { bought.append(further) }
                    }
                    statements += bought.compactMap { $0.statement(of: refund, at: now) }
                }
            }
            return statements
        }
        guard let statements else { return false }
        var rest = statements[...]
        while !rest.isEmpty {
            submit(TakeStoreNews(Array(rest.prefix(PurchaseChecker.refundsPerCall))), in: project) { [self] isDone in
                if !isDone { push(.refundsLost(project)) }
            }
            rest = rest.dropFirst(PurchaseChecker.refundsPerCall)
        }
        return true
    }

    private func go(on check: StoreCheck, _ question: Question, _ lines: inout StoreLines) {
        let (id, source) = (question.purchase.id, question.purchase.source)
        let now = MonotonicClock.nanoseconds()
        if case .done(let result) = check { parts.stores.note(result, of: source, question.project, at: parts.clock()) }
        switch check {
        case .ask(let call, let then):
            parts.client.submit(call) { [self] result in push(.answer(result, question, then)) }
        case .done(.success(let receipts)):
            lines.end(source, question.project, .answer, at: now)
            end(TakeStoreNews(receipts, asked: id), question, .answered)
        case .done(.failure(.bad(.expired))):
            lines.end(source, question.project, .answer, at: now)
            end(NoteChecks([(id, .over)]), question, .gone)
        // The settings of the server may be for another app, so the server asks again later.
        case .done(.failure(.bad)):
            lines.end(source, question.project, .answer, at: now)
            end(NoteChecks([(id, .failed(graceMilliseconds: nil))]), question, .gone)
        case .done(.failure(.unavailable(let outage))):
            // A mistake in the settings of one project is no fault of the store.
            let isOutage = outage.reason != .notSetUp
            lines.end(source, question.project, isOutage ? .fault : .other, at: now)
            let grace = isOutage ? parts.limits.graceMilliseconds : nil
            end(NoteChecks([(id, .failed(graceMilliseconds: grace))]), question, .failed)
        }
    }

    /// Stores the result of a question.
    private func end(_ act: any Act, _ question: Question, _ result: Figures.Result) {
        state.withLock { $0.figures.checks[question.purchase.source, default: [:]][result, default: 0] += 1 }
        submit(act, in: question.project) { [self] _ in free([question.purchase.id]) }
    }

    private func submit(_ act: any Act, in project: ProjectID, _ done: @escaping @Sendable (Bool) -> Void) {
        let job = Job(call: Call(project: project, key: nil), act: act) { answer in
            if case .success = answer { done(true) } else { done(false) }
        }
        if !parts.engine.submit([job], lane: parts.lane) { done(false) }
    }

    private func push(_ arrival: Arrival) { state.change { $0.arrivals.append(arrival) } }

    private func free(_ purchases: [PurchaseID]) { state.withLock { $0.busy.subtract(purchases) } }
}
