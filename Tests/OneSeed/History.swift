import Domain
package import FaultyDisk
import Foundation
import Program

/// One server's life from one number: calls of all surfaces, restarts, crashes, faults of the disk, jumps of the clock and the ways of
/// bytes over the wire. The same number and the same steps give the same life, byte for byte.
package struct History: Sendable {
    /// A thing that happens. Its own seed decides its details, so that other steps can be taken out.
    package enum Step: Sendable, CustomStringConvertible {
        case call(Deed, seed: UInt64)
        /// The same call twice in one moment, as after a client's hasty repetition.
        case twice(Deed, seed: UInt64)
        /// Two calls, one behind the other on one connection, or in one moment on two.
        case both(Deed, Deed, seed: UInt64, isPipelined: Bool)
        /// Many calls of a client that reads nothing for a while.
        case flood
        case restart
        case kill
        case powerCut(FaultyDisk.Loss)
        case fail(FaultyDisk.Operation, skip: Int, times: Int)
        case powerCutWithin(changes: Int)
        case fill(room: Int)
        case makeRoom
        case slowSyncs(milliseconds: UInt64)
        case jump(milliseconds: Int64)
        case pass(milliseconds: Int)

        package var description: String {
            switch self {
            case .call(let deed, let seed): "call \(deed.rawValue) 0x\(String(seed, radix: 16))"
            case .twice(let deed, let seed): "call twice \(deed.rawValue) 0x\(String(seed, radix: 16))"
            case .both(let one, let other, let seed, let isPipelined):
                "call \(one.rawValue) and \(other.rawValue) 0x\(String(seed, radix: 16))\(isPipelined ? " pipelined" : "")"
            case .flood: "flood"
            case .restart: "restart"
            case .kill: "kill"
            case .powerCut(let loss): "power cut, loses \(loss)"
            case .fail(let operation, let skip, let times): "fail \(operation.rawValue) after \(skip), \(times) times"
            case .powerCutWithin(let changes): "power cut after \(changes) changes"
            case .fill(let room): "fill the disk but for \(room) bytes"
            case .makeRoom: "make room"
            case .slowSyncs(let milliseconds): "syncs take \(milliseconds) ms"
            case .jump(let milliseconds): "jump \(milliseconds) ms"
            case .pass(let milliseconds): "pass \(milliseconds) ms"
            }
        }

        /// Whether calls may fail from this step on, until the next start.
        var disturbs: Bool {
            switch self {
            case .fail, .powerCutWithin, .fill, .slowSyncs: true
            case .call, .twice, .both, .flood, .restart, .kill, .powerCut, .makeRoom, .jump, .pass: false
            }
        }

        package var isCall: Bool {
            switch self {
            case .call, .twice, .both: true
            case .flood, .restart, .kill, .powerCut, .fail, .powerCutWithin, .fill, .makeRoom, .slowSyncs, .jump, .pass:
                false
            }
        }
    }

    package let seed: UInt64
    package var steps: [Step]

    /// A life of some calls. A third of all lives have no faults, and half of them take nothing back.
    package init(seed: UInt64, calls: Int? = nil) {
        self.seed = seed
        var chance = Chance(seed, "plan")
        var faults = Chance(seed, "faults")
        let count = calls ?? 10 + chance.below(120)
        let faultRate = seed % 3 == 0 ? 0 : 5 + faults.below(20)
        // Some promises hold only as long as nobody takes anything back, and are looked at in half of all lives to their end.
        let takesBack = History.takesBack(seed)
        // Some deeds come often, because others need what they make.
        var common: [Deed] = [
            .identify, .identify, .identify, .identifyUser, .accessUser, .install, .code, .redeem, .claim, .ingest,
            .merge, .undoMerge, .link, .feedback,
        ]
        // What needs several steps of its own has lives in which it comes often.
        switch seed % 5 {
        case 0: common += [.reserve, .reserve, .storeFile, .storeFile, .readFile, .deleteFile]
        case 1: common += [.accessUser, .accessIdentity, .accessIdentity, .purchase, .restore, .restore]
        case 2: common += [.identify, .identify, .erase, .erase]
        case 3: common += [.code, .code, .redeem, .redeem, .redeem, .late]
        default: break
        }
        // Rows grow old only by the clock.
        let growsOld = seed % 7 == 3
        if growsOld { common += [.ingest, .ingest, .ingest, .retention, .retention] }
        var steps: [Step] = []
        for _ in 0..<count {
            if faultRate > 0, faults.below(100) < faultRate {
                // What a failed sync has lost shows after the next power cut only, so some lives have little else.
                steps.append(seed % 5 == 4 && faults.oneIn(2) ? History.lostSync(&faults) : History.fault(&faults))
            }
            if growsOld, faults.oneIn(12) { steps += [.jump(milliseconds: 86_400_000 * Int64(1 + faults.below(9)))] }
            let list = chance.oneIn(2) ? common : Deed.allCases
            func pick() -> Deed {
                let deed = chance.pick(list) ?? .identify
                return takesBack || !deed.takesBack ? deed : .identify
            }
            let (deed, other) = (pick(), pick())
            let (seed, way) = (chance.next(), chance.below(16))
            switch way {
            case 0: steps.append(.twice(deed, seed: seed))
            case 1: steps.append(.both(deed, other, seed: seed, isPipelined: true))
            case 2: steps.append(.both(deed, other, seed: seed, isPipelined: false))
            case 3 where steps.count > 30 && chance.oneIn(6): steps.append(.flood)
            default: steps.append(.call(deed, seed: seed))
            }
        }
        self.steps = steps
    }

    /// A life in which a deed meets each fault that every deed can meet: first what makes the deed possible, and then the deed behind
    /// each fault, with a restart in between.
    package init(seed: UInt64, aimedAt deed: Deed) {
        self.seed = seed
        var chance = Chance(seed, "aimed")
        let before = (0..<10).map { _ in
            chance.pick([Deed.identify, .accessUser, .install, .code, .feedback]) ?? .identify
        }
        func calls(_ deeds: [Deed]) -> [Step] { deeds.map { .call($0, seed: chance.next()) } }
        steps = calls(before)
        for fault in Fault.allCases {
            // Behind the restart all pages are read from the disk anew.
            steps += calls(deed.needs) + [.restart, fault.step(&chance)] + calls([deed, deed]) + [.makeRoom]
        }
    }

    /// A fault that can come into the way of every deed.
    package enum Fault: String, CaseIterable {
        case read, write, sync, full, power, clock, wire

        fileprivate func step(_ chance: inout Chance) -> Step {
            switch self {
            case .read: .fail(.read, skip: chance.below(4), times: 1)
            case .write: .fail(.write, skip: chance.below(3), times: 1)
            case .sync: .fail(.sync, skip: 0, times: 1)
            case .full: .fill(room: chance.below(3000))
            case .power: .powerCutWithin(changes: chance.below(4))
            case .clock: .jump(milliseconds: chance.oneIn(2) ? 90_000 : -90_000)
            // The way of a call follows from its own seed.
            case .wire: .pass(milliseconds: 1)
            }
        }
    }

    /// Whether a life takes calls back.
    static func takesBack(_ seed: UInt64) -> Bool { seed % 2 == 0 }

    /// The number of failures that no life reaches: the operation fails until the next start.
    static let forGood = 1 << 20

    private static func lostSync(_ chance: inout Chance) -> Step {
        chance.oneIn(2) ? .powerCut(.everything) : .fail(.sync, skip: chance.below(3), times: 1)
    }

    private static func fault(_ chance: inout Chance) -> Step {
        switch chance.below(14) {
        case 0: .restart
        case 1: .kill
        case 2, 3: .powerCut(chance.pick(FaultyDisk.Loss.allCases) ?? .any)
        case 4, 5, 6:
            .fail(
                chance.pick(chance.oneIn(8) ? FaultyDisk.Operation.allCases : [.read, .write, .sync, .sync, .sync])
                    ?? .write, skip: chance.below(chance.oneIn(2) ? 4 : 30),
                times: [1, 1, 4, History.forGood][chance.below(4)])
        case 7, 8: .powerCutWithin(changes: chance.below(40))
        case 9: .fill(room: chance.below(60_000))
        case 10: .makeRoom
        case 11: .slowSyncs(milliseconds: [0, 1, 30, 3000][chance.below(4)])
        case 12:
            .jump(
                milliseconds: [1, 1000, -1000, 90_000, -90_000, 700_000, -86_400_000, 86_400_000, 157_000_000_000][
                    chance.below(9)])
        default: .pass(milliseconds: [1, 50, 400, 2000][chance.below(4)])
        }
    }

    /// Why a life failed.
    package struct Failure: Error, Sendable, CustomStringConvertible {
        package let oracle: String
        package let step: Int
        package let message: String

        package init(oracle: String, step: Int, message: String) {
            (self.oracle, self.step, self.message) = (oracle, step, message)
        }

        package var description: String { "\(oracle) at step \(step): \(message)" }
    }

    package struct Result: Sendable {
        package let failure: Failure?
        package let trace: Trace
        package let coverage: Coverage
        package let calls: Int
    }

    /// Lives the life, at most up to a step.
    package func run(until end: Int? = nil, keepsTrace: Bool = false) -> Result {
        var life = Life(self, keepsTrace: keepsTrace)
        var failure: Failure?
        var last = 0
        do throws(Failure) {
            for (place, step) in steps.prefix(end ?? steps.count).enumerated() {
                last = place
                try life.take(step, at: place)
            }
            try life.finish(at: steps.count)
        } catch {
            failure = error
            life.trace.add("FAILED at \(last): \(error.oracle)")
        }
        return Result(failure: failure, trace: life.trace, coverage: life.coverage, calls: life.calls)
    }
}

/// How often each deed met each fault, and what came of it.
package struct Coverage: Sendable {
    package struct Cell: Hashable, Sendable {
        package let deed: Deed
        package let fault: String
        package let moment: String
    }

    package var cells: [Cell: Int] = [:]
    /// How often each deed was answered with each status; 0 for no answer.
    package var answers: [Deed: [Int: Int]] = [:]

    package static let faults = ["none", "read", "write", "sync", "truncate", "shm", "full", "power", "clock", "wire"]

    /// Lives until a deed has succeeded and has met each fault, as far as it can.
    ///
    /// - Returns: the failure of a life.
    package mutating func fill(_ deed: Deed, from seed: UInt64, lives: UInt64 = 150) -> (History, History.Failure)? {
        for seed in seed..<seed + lives where !missing(of: deed).isEmpty {
            let history = History(seed: seed, aimedAt: deed)
            let result = history.run()
            add(result.coverage)
            if let failure = result.failure { return (history, failure) }
        }
        return nil
    }

    /// What a deed has not met yet: a success, each fault of writing, a jump of the clock and a crooked way over the wire. Most deeds find all that they read in memory, so a fault of
    /// reading comes into their way rarely, and into some never.
    package func missing(of deed: Deed) -> [String] {
        let faults = deed.onlyReads ? [] : History.Fault.allCases.filter { $0 != .read }.map(\.rawValue)
        let unmet = faults.filter { fault in
            !["in commit", "after commit"].contains {
                cells[Cell(deed: deed, fault: fault, moment: $0), default: 0] > 0
            }
        }
        let hasSucceeded = (answers[deed] ?? [:]).keys.contains { (200..<300).contains($0) }
        return unmet + (hasSucceeded ? [] : ["success"])
    }

    /// What is missing for a whole table, a line for each deed that lacks something.
    package var gaps: [String] {
        Deed.allCases.compactMap { deed in
            let lacks = missing(of: deed)
            return lacks.isEmpty ? nil : "\(deed.rawValue) never met \(lacks.joined(separator: ", "))"
        }
    }
    package static let moments = ["before", "in commit", "after commit"]

    package init() {}

    package mutating func add(_ other: Coverage) {
        cells.merge(other.cells, uniquingKeysWith: +)
        for (deed, statuses) in other.answers { answers[deed, default: [:]].merge(statuses, uniquingKeysWith: +) }
    }

    /// The table of deeds and faults, with the number of calls in each moment.
    package var table: String {
        let names = Coverage.faults.map { $0.padding(toLength: 12, withPad: " ", startingAt: 0) }.joined()
        var lines = ["deed".padding(toLength: 18, withPad: " ", startingAt: 0) + names]
        var full = 0
        for deed in Deed.allCases {
            let row = Coverage.faults.map { fault in
                let counts = Coverage.moments.map { cells[Cell(deed: deed, fault: fault, moment: $0)] ?? 0 }
                full += counts.count { $0 > 0 }
                return counts.map(String.init).joined(separator: "/").padding(toLength: 12, withPad: " ", startingAt: 0)
            }
            lines.append(deed.rawValue.padding(toLength: 18, withPad: " ", startingAt: 0) + row.joined())
        }
        let all = Deed.allCases.count * Coverage.faults.count * Coverage.moments.count
        lines.append("\(full) of \(all) cells of deed, fault and moment (before/in commit/after commit) are full")
        return lines.joined(separator: "\n")
    }

    /// The deeds with the statuses of their answers; 0 is for no answer.
    package var statuses: String {
        Deed.allCases.map { deed in
            let counts = (answers[deed] ?? [:]).sorted { $0.key < $1.key }
            return deed.rawValue.padding(toLength: 18, withPad: " ", startingAt: 0)
                + counts.map { "\($0.key): \($0.value)" }.joined(separator: ", ")
        }.joined(separator: "\n")
    }
}
