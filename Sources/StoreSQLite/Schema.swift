import Domain
import SQLite

/// The tables as numbered migrations. Opening a store of an older version runs the new migrations.
///
/// Facts are only appended, and no table has an index in whose middle a new row would be added: the index in memory finds
/// facts. Times are milliseconds since 1970 in UTC. The domain's enumerations define the numbers in the `kind` and `type`
/// columns.
enum Schema {
    /// Marks a SQLite file as an Onym store: `onym` in ASCII.
    static let applicationID: Int64 = 0x6F6E_796D

    /// The version of the schema that this program writes.
    static var version: Int { migrations.count }

    static let migrations: [String] = [
        """
        CREATE TABLE settings (
            name TEXT PRIMARY KEY,
            value BLOB NOT NULL
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE projects (
            id INTEGER PRIMARY KEY,
            name TEXT NOT NULL,
            made_at INTEGER NOT NULL,
            made_by INTEGER NOT NULL
        ) STRICT;

        CREATE TABLE apps (
            id INTEGER PRIMARY KEY,
            project INTEGER NOT NULL,
            dialect TEXT NOT NULL,
            name TEXT NOT NULL,
            platform TEXT NOT NULL,
            bundle_id TEXT,
            public_id TEXT,
            secret_hash BLOB CONSTRAINT apps_secret_hash_length CHECK (length(secret_hash) = 32),
            made_at INTEGER NOT NULL,
            made_by INTEGER NOT NULL
        ) STRICT;

        CREATE TABLE keys (
            id INTEGER PRIMARY KEY,
            project INTEGER NOT NULL,
            app INTEGER,
            kind TEXT NOT NULL,
            name TEXT NOT NULL,
            hash BLOB NOT NULL CONSTRAINT keys_hash_length CHECK (length(hash) = 32),
            scopes TEXT NOT NULL,
            made_at INTEGER NOT NULL,
            made_by INTEGER NOT NULL,
            expires_at INTEGER,
            revoked_at INTEGER,
            CONSTRAINT keys_hash_unique UNIQUE (hash)
        ) STRICT;

        -- One row for each person ever made. last_seen is brought up to date now and then; the rest never changes.
        CREATE TABLE people (
            id INTEGER PRIMARY KEY,
            project INTEGER NOT NULL,
            made_by INTEGER NOT NULL,
            last_seen INTEGER NOT NULL
        ) STRICT;

        -- That a person holds an identity, since which journal row.
        CREATE TABLE links (
            id INTEGER PRIMARY KEY,
            person INTEGER NOT NULL,
            type INTEGER NOT NULL,
            value TEXT NOT NULL,
            made_by INTEGER NOT NULL
        ) STRICT;

        -- One row for each call that changed anything. What it made points here by made_by.
        CREATE TABLE journal (
            sequence INTEGER PRIMARY KEY,
            at INTEGER NOT NULL,
            project INTEGER NOT NULL,
            key INTEGER,
            kind INTEGER NOT NULL,
            person INTEGER,
            request_id TEXT NOT NULL,
            -- The hash of the idempotency key or request id that the call is recognized by, and of its path and body.
            replay BLOB,
            body BLOB,
            -- What the call named and did not link: see JournalCoding.swift.
            inputs BLOB,
            reply BLOB NOT NULL
        ) STRICT;
        """,
        """
        -- That a link is no longer in force, since which journal row.
        CREATE TABLE link_ends (
            link INTEGER PRIMARY KEY,
            ended_by INTEGER NOT NULL
        ) STRICT;
        """,
        """
        -- What happened to people. A row knows the one of its kind that its person had before it.
        CREATE TABLE rows (
            id INTEGER PRIMARY KEY,
            person INTEGER NOT NULL,
            previous INTEGER,
            kind INTEGER NOT NULL,
            at INTEGER NOT NULL,
            -- The hashes of what it is recognized by and of its device.
            recognition INTEGER,
            device INTEGER,
            made_by INTEGER NOT NULL,
            body BLOB NOT NULL
        ) STRICT;

        -- What is kept whole, and replaced whole: the last one under a kind and a hash is in force.
        CREATE TABLE documents (
            id INTEGER PRIMARY KEY,
            kind INTEGER NOT NULL,
            hash BLOB NOT NULL,
            person INTEGER NOT NULL,
            made_by INTEGER NOT NULL,
            body BLOB NOT NULL
        ) STRICT;

        -- Of the rows up to the setting rows_folded: the last of each kind, and how many there are (RowHeads.swift).
        ALTER TABLE people ADD COLUMN rows BLOB;
        """,
        """
        -- That one person is another, and since which journal row.
        CREATE TABLE merges (
            id INTEGER PRIMARY KEY,
            source INTEGER NOT NULL,
            destination INTEGER NOT NULL,
            rule INTEGER NOT NULL,
            made_by INTEGER NOT NULL
        ) STRICT;

        -- That a merge is no longer in force.
        CREATE TABLE merge_ends (
            merge INTEGER PRIMARY KEY,
            ended_by INTEGER NOT NULL
        ) STRICT;

        -- Things mostly happen shortly before they come in, so a new row lands near the end of this.
        CREATE INDEX rows_by_time ON rows (kind, at);
        """,
        """
        -- One row for each strategy that a project was given. The last is in force; before any there is the default, which
        -- is version 1.
        CREATE TABLE strategies (
            made_by INTEGER PRIMARY KEY,
            project INTEGER NOT NULL,
            version INTEGER NOT NULL,
            -- As Strategy+Packing.swift writes it.
            document BLOB NOT NULL
        ) STRICT;
        """,
        """
        -- A call knows the one that came to its person before it; where there is none, the person was made by it.
        ALTER TABLE journal ADD COLUMN previous INTEGER;

        UPDATE journal SET previous = before.earlier FROM (
            SELECT sequence AS call, coalesce(
                lag(sequence) OVER (PARTITION BY person ORDER BY sequence),
                (SELECT made_by FROM people WHERE id = person AND made_by < sequence)) AS earlier
            FROM journal WHERE person IS NOT NULL
        ) AS before WHERE journal.sequence = before.call;

        -- The last of each person, without reading the journal.
        CREATE INDEX journal_chain ON journal (sequence, person) WHERE previous IS NOT NULL;

        -- Calls that touched people beside the one that they came to.
        CREATE TABLE call_people (
            person INTEGER NOT NULL,
            sequence INTEGER NOT NULL,
            PRIMARY KEY (person, sequence)
        ) STRICT, WITHOUT ROWID;

        INSERT OR IGNORE INTO call_people
        SELECT links.person, ended_by FROM link_ends JOIN links ON links.id = link_ends.link
        JOIN journal ON sequence = ended_by WHERE links.person IS NOT journal.person
        UNION SELECT source, made_by FROM merges UNION SELECT destination, made_by FROM merges
        UNION SELECT source, ended_by FROM merge_ends JOIN merges ON merges.id = merge;

        -- What a call ended. Calls only grow, so a new row lands at the end of these.
        CREATE INDEX link_ends_by_call ON link_ends (ended_by);
        CREATE INDEX merge_ends_by_call ON merge_ends (ended_by);
        """,
        """
        -- By which call a person was erased, and whether all that was theirs is gone.
        ALTER TABLE people ADD COLUMN erased_by INTEGER;
        ALTER TABLE people ADD COLUMN swept INTEGER;
        -- Why somebody wanted a call, in their words.
        ALTER TABLE journal ADD COLUMN note TEXT;

        -- Without which merges a call would have come to something else.
        CREATE TABLE call_merges (
            merge INTEGER NOT NULL,
            sequence INTEGER NOT NULL,
            PRIMARY KEY (merge, sequence)
        ) STRICT, WITHOUT ROWID;

        CREATE INDEX people_erased ON people (erased_by, id, swept) WHERE erased_by IS NOT NULL;
        """,
        """
        -- From where a browser may call with an app's keys, with spaces between; and since when its secret is not taken.
        ALTER TABLE apps ADD COLUMN web_origins TEXT;
        ALTER TABLE apps ADD COLUMN revoked_at INTEGER;
        """,
        """
        -- The default strategy gets more types. The projects of this store keep the types that they had, as their version 1.
        -- No call set that version, so its made_by is a number that no call has.
        INSERT INTO strategies (made_by, project, version, document)
        SELECT -id, id, 1, X'\(Strategy.olderDefault.packedHexadecimal)' FROM projects;
        """,
        """
        -- last_seen is the place among all sightings: the moment, and a counter in the lowest 20 bits (SeenAt.swift).
        UPDATE people SET last_seen = last_seen << 20;
        """,
        """
        -- Since which journal row another row stands for a row, or none does. No read and no count has it from then on.
        ALTER TABLE rows ADD COLUMN superseded_by INTEGER;

        -- The earlier versions of a row, for erasures. Only imports add to it.
        CREATE INDEX rows_superseded ON rows (recognition) WHERE superseded_by IS NOT NULL;

        -- The rows by their recognition hashes, in runs that never change (RowNames.swift): the id is a part of the hash and
        -- the last row of the run. The setting rows_named is the last row of the last run.
        CREATE TABLE row_names (
            id INTEGER PRIMARY KEY,
            entries BLOB NOT NULL
        ) STRICT;
        """,
        """
        -- A document knows the version under its key that came before it, as rows and calls do. Kept folds have no versions.
        ALTER TABLE documents ADD COLUMN previous INTEGER;

        UPDATE documents SET previous = before.earlier FROM (
            SELECT id AS version, lag(id) OVER (PARTITION BY kind, hash ORDER BY id) AS earlier FROM documents
        ) AS before WHERE documents.id = before.version AND before.earlier IS NOT NULL;

        -- The calls that read a group of two or more people, by the root of the group. Earlier versions wrote call_merges.
        CREATE TABLE call_groups (
            person INTEGER NOT NULL,
            sequence INTEGER NOT NULL,
            PRIMARY KEY (person, sequence)
        ) STRICT, WITHOUT ROWID;

        -- What these calls wanted, so that an undo of a merge can decide them again (KeptAct.swift).
        CREATE TABLE call_acts (
            sequence INTEGER PRIMARY KEY,
            act BLOB NOT NULL
        ) STRICT;
        """,
        """
        -- The people that a call made. Imported people have ids of any order, so the ids do not tell.
        CREATE INDEX people_by_call ON people (made_by);
        """,
        """
        -- The calls of which the journal has nothing or not all, for dry runs of other rules (LoggedCall.swift): 0 calls, 1 a note
        -- that earlier calls are missing, 2 a note about a gap. `ending` has the bytes of all segments up to this one.
        CREATE TABLE call_log (
            id INTEGER PRIMARY KEY,
            project INTEGER NOT NULL,
            last INTEGER NOT NULL,
            at INTEGER NOT NULL,
            kind INTEGER NOT NULL,
            ending INTEGER NOT NULL,
            body BLOB NOT NULL
        ) STRICT;
        CREATE INDEX call_log_by_project ON call_log (project, kind, id);
        -- The calls of earlier versions are not in the log.
        INSERT INTO call_log (project, last, at, kind, ending, body)
        SELECT id, (SELECT max(sequence) FROM journal), 0, 1, 0, x'' FROM projects;
        """,
        """
        -- The leaves of the tree over the journal (JournalTree.swift): a leaf is made again from the row of the journal and its
        -- opening. The mark is the first bytes of the leaf, and names the row that differs. The first leaf stands for the calls
        -- of earlier versions.
        CREATE TABLE leaves (
            sequence INTEGER PRIMARY KEY,
            place INTEGER NOT NULL,
            mark BLOB NOT NULL CONSTRAINT leaves_mark_length CHECK (length(mark) = 4),
            opening BLOB NOT NULL
        ) STRICT;

        -- The hash of each whole subtree of 256 leaves.
        CREATE TABLE tree (
            number INTEGER PRIMARY KEY,
            root BLOB NOT NULL CONSTRAINT tree_root_length CHECK (length(root) = 32)
        ) STRICT;
        """,
    ]

    /// Updates the tables, each migration in its own transaction.
    static func migrate(_ connection: Connection) throws(SQLiteFault) {
        let found = Int(try connection.integer("PRAGMA user_version") ?? 0)
        for version in found..<max(found, migrations.count) {
            try connection.transaction { () throws(SQLiteFault) in
                try connection.execute(migrations[version])
                if version == 0 { try connection.execute("PRAGMA application_id = \(applicationID)") }
                try connection.execute("PRAGMA user_version = \(version + 1)")
            }
        }
    }
}
