/// The facts that the decisions of a batch read. To find all keys takes longer than some decisions, so a store with its facts in
/// memory asks for earlier calls only.
package protocol BatchNeeds {
    /// The keys under which earlier calls may have answers.
    var replays: [ReplayKey] { get }
    /// All keys.
    var keys: FactKeys { get }
}

/// The keys of the facts that a batch of calls reads.
package struct FactKeys: BatchNeeds, Sendable {
    package private(set) var identities: [IdentityKey] = []
    package private(set) var people: [PersonID] = []
    package private(set) var merges: [MergeID] = []
    package private(set) var replays: [ReplayKey] = []
    /// The codes whose documents name more identities to load.
    package private(set) var codes: [(name: SealedName, project: ProjectID)] = []

    /// The documents that name people.
    package private(set) var documents: [DocumentKey] = []

    package init() {}

    package var keys: FactKeys { self }

    package mutating func add(_ identity: IdentityKey) { identities.append(identity) }
    package mutating func add(_ replay: ReplayKey) { replays.append(replay) }

    package mutating func add(_ call: Call, _ act: any Act) {
        if let claim = call.replay { add(claim.key) }
        for identity in call.proof?.proven ?? [] { add(identity) }
        let subjects = act.subjects
        for identity in subjects.speaksFor { add(identity.key) }
        if let identity = subjects.readsGroupOf { add(identity.key) }
        identities += subjects.mentions
        if let person = subjects.about { people.append(person) }
        people += subjects.people + subjects.mentionedPeople
        merges += subjects.merges
        identities += subjects.links.map(\.key)
        codes += subjects.codes.map { ($0, call.project) }
        documents += subjects.purchases.map(\.key)
        // An upload looks for the people of its identities and its devices.
        let named = subjects.speaksFor.map(\.key)
        for keys in [named, named + subjects.mentions] {
            if let key = KeptPeople.standInKey(of: keys) { documents.append(key) }
        }
    }
}
