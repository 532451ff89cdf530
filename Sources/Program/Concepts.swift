/// The words of Onym, each in a paragraph. The page docs/concepts.md has the same paragraphs; a test compares them.
enum Concepts {
    static let all: [(name: String, text: String)] = [
        (
            "person",
            """
            A person is whoever a set of identities belongs to: a visitor without a name, or a known user. The server makes a
            person once, and the person keeps its number for ever. Rows (events, answers, purchases) belong to the person whose
            identity the call named.
            """
        ),
        (
            "identity",
            """
            An identity is a type and a value, for example customerid ada, email ada@example.com, or ios_idfv with the number of
            a device. Each dialect has its own types. A person can hold many identities, and some types can belong to one person
            only (the rule "unique").
            """
        ),
        (
            "link",
            """
            A link is the fact that a person holds an identity, from a call on. A call makes it, and another call can end it. The
            server keeps ended links, so it can explain later who held an identity, and since when.
            """
        ),
        (
            "merge",
            """
            A merge is the fact that two people are one. From then on, every read shows both together, and nothing is moved. An
            undo ends the fact, and each side has again what came by its own identities. Two people can be one for several
            reasons; each reason is a merge of its own.
            """
        ),
        (
            "group",
            """
            A group is all people that merges connect. One of them, the root, stands for the group in every answer. A person
            without merges is a group of one.
            """
        ),
        (
            "alias",
            """
            An alias is an instruction of IDSync: the events of one person in a span of time count for another person. It moves
            no identity, and an undo ends it. A merge is for two people who are one; an alias is for events that came to the
            wrong person.
            """
        ),
        (
            "principal",
            """
            A principal is what a purchase belongs to: the user who was signed in, or else the install. Access follows the
            principal. So a signed-in user keeps access on each device, and the next user of a device does not get it.
            """
        ),
        (
            "install",
            """
            An install is one app on one device. In the Linking dialect an install has its own tokens, and a policy decides which
            installs of a user are active.
            """
        ),
        (
            "strategy",
            """
            A strategy is the rules by which a project finds people: which identities are looked up first, which belong to one
            person only, which make a person a known user, and what a logout means. Each change makes a version. A dry run tells
            what would have been different under other rules.
            """
        ),
    ]
}
