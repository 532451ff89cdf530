/// The words of Onym, each in a paragraph. The page docs/concepts.md has the same paragraphs; a test compares them.
enum Concepts {
    static let all: [(name: String, text: String)] = [
        (
            "person",
            """
            A person is a visitor without a name, or a known user. Identities lead to the person. The server makes a person
            once, and the person keeps its number for ever. Rows (events, answers, purchases) belong to the person whose
            identity the call named.
            """
        ),
        (
            "identity",
            """
            An identity is a type and a value, for example customerid ada, email ada@example.com, or ios_idfv with the number of
            a device. Each dialect has its own types. A person can hold many identities. An identity of a unique type belongs to
            one person only.
            """
        ),
        (
            "link",
            """
            A link is the fact that a person holds an identity. A call makes the link, and another call can end the link. The
            server keeps ended links, so it can explain later who held an identity, and since when.
            """
        ),
        (
            "merge",
            """
            A merge is the fact that two people are one. From then on, reads show both people together, and no row moves. An
            undo ends the merge. Then each side has the rows that its own identities brought. Two people can be one for several
            reasons, and each reason is a merge of its own.
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
            An alias is a fact of IDSync: the events of one person in a span of time also belong to another person. An alias
            moves no identity, and an undo ends it. A merge is for two people who are one; an alias is for events that came to
            the wrong person.
            """
        ),
        (
            "split",
            """
            A split is the fact that some identities of a person belong to another person from now on. Rows and properties can go
            with them, chosen by the device or the call that brought them. An undo gives everything back. A merge joins two people
            who are one; a split parts two people whom the server took for one.
            """
        ),
        (
            "principal",
            """
            A principal is the owner of a purchase: the user who was signed in, or else the store account that paid. Access
            follows the principal. So a signed-in user keeps access on each device, and the next user of a device does not get
            this access.
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
            A strategy is the rules by which a project finds people: the order in which the server looks up identities, the
            identities that belong to one person only, the identities that make a person known, and the result of a logout. Each
            change makes a version. A dry run shows the results of other rules.
            """
        ),
    ]
}
