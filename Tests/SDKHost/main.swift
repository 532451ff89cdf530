import Foundation
import Onym

// An app that tests kill: it logs, logs in and out at random, and says on standard output what it has done, once it has.
//
//     sdk-host run   <endpoint> <folder> <idsync key> <claim key> <seed>    until it is killed
//     sdk-host drain <endpoint> <folder> <idsync key> <claim key> <seed>    sends all that is left, and ends
//
//     log <number> <MPID or 0> <claim user>     an event was kept for these
//     claim <anonymous id> <user>               a user becomes known
//     claimed <anonymous id> <user>             and has
//     first <MPID>                              who was the first to have an MPID

func say(_ line: String) { FileHandle.standardOutput.write(Data((line + "\n").utf8)) }

let words = CommandLine.arguments
guard words.count == 7, let endpoint = URL(string: words[2]), let seed = UInt64(words[6]) else {
    fatalError("usage: sdk-host run|drain <endpoint> <folder> <idsync key> <claim key> <seed>")
}
var configuration = Configuration(
    endpoint: endpoint,
    keys: [.idSync(key: words[4], secret: nil), .claim(key: words[5], bundleID: "com.example.demo")],
    folder: URL(filePath: words[3]))
configuration.environment = .development
configuration.flushInterval = 0.02
configuration.callbacks = .background
configuration.device.platform = "ios"
let onym = try OnymClient(configuration)

if words[1] == "drain" {
    // The faster the machine, the more it has logged, and the longer the server's limits on calls have it wait.
    for _ in 0..<1000 {
        do {
            try await onym.start()
            try await onym.flush()
            break
        } catch {
            try await Task.sleep(for: .milliseconds(50))
        }
    }
    // What came first was everybody's who had no name yet.
    if let first = onym.users.all.min(by: { $0.firstSeen < $1.firstSeen }) { say("oldest \(first.id)") }
    await onym.shutdown()
    exit(0)
}

/// SplitMix64: a seed brings the same program back.
struct Dice: RandomNumberGenerator {
    var state: UInt64
    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var bits = state
        bits = (bits ^ bits >> 30) &* 0xBF58_476D_1CE4_E5B9
        bits = (bits ^ bits >> 27) &* 0x94D0_49BB_1331_11EB
        return bits ^ bits >> 31
    }
}

var dice = Dice(state: seed)
onym.identity.identify(callback: { _ in })
for number in 0... {
    let name = "\(seed)-\(number)"
    switch Int.random(in: 0..<12, using: &dice) {
    case 0:
        let customer = "c\(Int.random(in: 0..<3, using: &dice))"
        onym.identity.login(IdentityRequest([.customerID: customer]), callback: { _ in })
    case 1: onym.identity.logout(callback: { _ in })
    case 2:
        let (user, anonymous) = ("u\(Int.random(in: 0..<3, using: &dice))", onym.claimAnonymousUser ?? "")
        // It may be killed in between: that it wants to is said before, and that it has after.
        say("claim \(anonymous) \(user)")
        try onym.setUser(user)
        say("claimed \(anonymous) \(user)")
    case 3: onym.clearUser()
    default:
        let (before, user) = (onym.users.current?.id ?? 0, onym.claimUser ?? "")
        onym.log(name)
        // Somebody may have been logged in at that very moment, by a callback: whose it is nobody can say then.
        if onym.users.current?.id ?? 0 == before { say("log \(name) \(before) \(user)") }
    }
    if Int.random(in: 0..<4, using: &dice) == 0 { try await Task.sleep(for: .microseconds(500)) }
}
