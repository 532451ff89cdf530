import ByteText
import Domain
import Postgres

/// The tables as numbered migrations. Opening a store of an older version runs the new migrations.
///
/// The tables are those of the embedded store, with the SQL indexes that searches need. Times are milliseconds since 1970 in
/// UTC. The domain's enumerations define the numbers in the `kind` and `type` columns. Values of people are stored as bytes,
/// because text in PostgreSQL cannot contain zero bytes. A hash of 128 bits is a `uuid`, which PostgreSQL stores and compares
/// fast.
enum Schema {
    /// The version of the schema that this program writes.
    static var version: Int { migrations.count }

    /// The placeholder in a migration for the first row number of the range after the existing rows.
    private static let stretch = "FIRST_OF_STRETCH"

    static let migrations: [String] = [
        """
        CREATE TABLE settings (
            name text CONSTRAINT settings_key PRIMARY KEY,
            value bytea NOT NULL
        );

        -- One row: the last numbers that were given, and how much there is. Whoever has the turn may change it.
        CREATE TABLE state (
            id smallint CONSTRAINT state_key PRIMARY KEY CONSTRAINT state_alone CHECK (id = 1),
            sequence bigint NOT NULL DEFAULT 0,
            moment bigint,
            person bigint,
            link bigint NOT NULL DEFAULT 0,
            row_number bigint NOT NULL DEFAULT 0,
            document bigint NOT NULL DEFAULT 0,
            directory bigint NOT NULL DEFAULT 0,
            people bigint NOT NULL DEFAULT 0,
            identities bigint NOT NULL DEFAULT 0,
            links bigint NOT NULL DEFAULT 0,
            merges bigint NOT NULL DEFAULT 0
        ) WITH (fillfactor = 10);

        INSERT INTO state (id) VALUES (1);

        CREATE TABLE projects (
            id integer CONSTRAINT projects_key PRIMARY KEY,
            name bytea NOT NULL,
            made_at bigint NOT NULL,
            made_by bigint NOT NULL
        );

        CREATE TABLE apps (
            id bigint CONSTRAINT apps_key PRIMARY KEY,
            project integer NOT NULL,
            dialect text NOT NULL,
            name bytea NOT NULL,
            platform text NOT NULL,
            bundle_id bytea,
            public_id bytea,
            secret_hash bytea CONSTRAINT apps_secret_hash_length CHECK (length(secret_hash) = 32),
            made_at bigint NOT NULL,
            made_by bigint NOT NULL,
            web_origins bytea,
            revoked_at bigint
        );

        CREATE TABLE keys (
            id bigint CONSTRAINT keys_key PRIMARY KEY,
            project integer NOT NULL,
            app bigint,
            kind text NOT NULL,
            name bytea NOT NULL,
            hash bytea NOT NULL CONSTRAINT keys_hash_length CHECK (length(hash) = 32),
            scopes text NOT NULL,
            made_at bigint NOT NULL,
            made_by bigint NOT NULL,
            expires_at bigint,
            revoked_at bigint,
            CONSTRAINT keys_hash_unique UNIQUE (hash)
        );

        CREATE TABLE strategies (
            made_by bigint CONSTRAINT strategies_key PRIMARY KEY,
            project integer NOT NULL,
            version bigint NOT NULL,
            document bytea NOT NULL
        );

        -- One row for each person ever made.
        CREATE TABLE people (
            id bigint CONSTRAINT people_key PRIMARY KEY,
            project integer NOT NULL,
            made_by bigint NOT NULL,
            last_seen bigint NOT NULL,
            -- Whether there ever was a merge of the person, so that whoever has none is not looked for among them.
            is_merged boolean NOT NULL DEFAULT false,
            erased_by bigint,
            is_swept boolean NOT NULL DEFAULT false
        );
        CREATE INDEX people_by_call ON people (made_by);
        CREATE INDEX people_erased ON people (erased_by) WHERE erased_by IS NOT NULL;
        CREATE INDEX people_to_sweep ON people (id) WHERE erased_by IS NOT NULL AND NOT is_swept;

        -- That a person holds an identity, since which journal row and until which.
        CREATE TABLE links (
            id bigint CONSTRAINT links_key PRIMARY KEY,
            person bigint NOT NULL,
            type smallint NOT NULL,
            hash uuid NOT NULL,
            value bytea NOT NULL,
            made_by bigint NOT NULL,
            ended_by bigint
        );
        CREATE INDEX links_by_identity ON links (hash) INCLUDE (person) WHERE ended_by IS NULL;
        CREATE INDEX links_by_person ON links (person, id);
        CREATE INDEX links_ended ON links (ended_by) WHERE ended_by IS NOT NULL;

        -- That one person is another, since which journal row and until which.
        CREATE TABLE merges (
            id bigint CONSTRAINT merges_key PRIMARY KEY,
            source bigint NOT NULL,
            destination bigint NOT NULL,
            rule smallint NOT NULL,
            made_by bigint NOT NULL,
            ended_by bigint
        );
        CREATE INDEX merges_by_source ON merges (source) WHERE ended_by IS NULL;
        CREATE INDEX merges_by_destination ON merges (destination) WHERE ended_by IS NULL;
        CREATE INDEX merges_by_call ON merges (made_by);
        CREATE INDEX merges_ended ON merges (ended_by) WHERE ended_by IS NOT NULL;

        -- One row for each call that changed anything. What it made points here by made_by.
        CREATE TABLE journal (
            sequence bigint CONSTRAINT journal_key PRIMARY KEY,
            at bigint NOT NULL,
            project integer NOT NULL,
            key bigint,
            kind smallint NOT NULL,
            person bigint,
            request_id bytea NOT NULL,
            -- The hash of the idempotency key or request id that the call is recognized by, and of its path and body.
            replay uuid,
            body uuid,
            -- What the call named and did not link, as JournalCoding.swift writes it, and whether values stand in it.
            inputs bytea,
            has_values boolean NOT NULL,
            reply bytea NOT NULL,
            note bytea,
            -- The last numbers after it: what it made stands between those of the call before it and these.
            last_link bigint NOT NULL,
            last_row bigint NOT NULL,
            last_document bigint NOT NULL,
            -- On the first call of a batch: the batch's own name, by which its writer finds out whether it was kept.
            batch uuid
        );
        CREATE INDEX journal_by_person ON journal (person, sequence) WHERE person IS NOT NULL;
        CREATE INDEX journal_by_replay ON journal (replay, sequence) WHERE replay IS NOT NULL;
        CREATE INDEX journal_with_values ON journal (sequence) WHERE has_values;

        -- Calls that touched people beside the one that they came to.
        CREATE TABLE call_people (
            person bigint NOT NULL,
            sequence bigint NOT NULL,
            CONSTRAINT call_people_key PRIMARY KEY (person, sequence)
        );

        -- Without which merges a call would have come to something else.
        CREATE TABLE call_merges (
            merge bigint NOT NULL,
            sequence bigint NOT NULL,
            CONSTRAINT call_merges_key PRIMARY KEY (merge, sequence)
        );

        -- What happened to people.
        CREATE TABLE rows (
            id bigint CONSTRAINT rows_key PRIMARY KEY,
            project integer NOT NULL,
            person bigint NOT NULL,
            -- The row of its kind that its person had before it.
            previous bigint,
            kind smallint NOT NULL,
            at bigint NOT NULL,
            -- The hashes of what it is recognized by and of its device.
            recognition bigint,
            device bigint,
            made_by bigint NOT NULL,
            body bytea NOT NULL
        );
        CREATE INDEX rows_by_person ON rows (person, kind, id);
        CREATE INDEX rows_by_time ON rows (kind, at, id);
        CREATE INDEX rows_by_recognition ON rows (recognition) WHERE recognition IS NOT NULL;

        -- The last row of each kind that a person has, and how many there are.
        CREATE TABLE row_counts (
            person bigint NOT NULL,
            kind smallint NOT NULL,
            last bigint NOT NULL,
            count bigint NOT NULL,
            CONSTRAINT row_counts_key PRIMARY KEY (person, kind)
        );

        -- What is kept whole, and replaced whole: the last one under a kind and a hash is in force.
        CREATE TABLE documents (
            id bigint CONSTRAINT documents_key PRIMARY KEY,
            kind smallint NOT NULL,
            hash uuid NOT NULL,
            person bigint NOT NULL,
            made_by bigint NOT NULL,
            body bytea NOT NULL
        );
        CREATE INDEX documents_by_key ON documents (hash, kind, id);
        CREATE INDEX documents_by_person ON documents (person);
        """,
        """
        -- What only one process does at a time, who does it, and for how long nobody else may.
        CREATE TABLE leases (
            name text CONSTRAINT leases_key PRIMARY KEY,
            holder uuid,
            ends_at timestamp with time zone NOT NULL
        ) WITH (fillfactor = 10);

        INSERT INTO leases VALUES ('leading', NULL, '-infinity');
        """,
        // The existing rows and the next rows are the first range, which has rows of all kinds.
        """
        ALTER TABLE rows RENAME TO rows_before;
        ALTER TABLE rows_before DROP CONSTRAINT rows_key;
        ALTER TABLE rows_before ADD CONSTRAINT rows_before_key PRIMARY KEY (id, kind);
        ALTER INDEX rows_by_person RENAME TO rows_before_by_person;
        ALTER INDEX rows_by_time RENAME TO rows_before_by_time;
        ALTER INDEX rows_by_recognition RENAME TO rows_before_by_recognition;

        -- What happened to people.
        CREATE TABLE rows (
            id bigint NOT NULL,
            project integer NOT NULL,
            person bigint NOT NULL,
            -- The row of its kind that its person had before it.
            previous bigint,
            kind smallint NOT NULL,
            at bigint NOT NULL,
            -- The hashes of what it is recognized by and of its device.
            recognition bigint,
            device bigint,
            made_by bigint NOT NULL,
            body bytea NOT NULL,
            CONSTRAINT rows_key PRIMARY KEY (id, kind)
        ) PARTITION BY RANGE (id);
        CREATE INDEX rows_by_person ON rows (person, kind, id);
        CREATE INDEX rows_by_time ON rows (kind, at, id);
        CREATE INDEX rows_by_recognition ON rows (recognition) WHERE recognition IS NOT NULL;

        ALTER TABLE rows ATTACH PARTITION rows_before FOR VALUES FROM (MINVALUE) TO (\(stretch));

        -- Parts of rows that are to be dropped: of which kind, before which row they end, up to which they are taken out of
        -- the counts, and whether that is done.
        CREATE TABLE row_drops (
            part text CONSTRAINT row_drops_key PRIMARY KEY,
            kind smallint NOT NULL,
            ends_before bigint NOT NULL,
            counted_to bigint NOT NULL,
            is_counted boolean NOT NULL
        );
        \(RowPartitions.make(from: stretch).joined(separator: ";\n"));
        """,
        """
        -- The default strategy gets more types. The projects of this store keep the types that they had, as their version 1.
        -- No call set that version, so its made_by is a number that no call has.
        INSERT INTO strategies (made_by, project, version, document)
        SELECT -id, id, 1, '\\x\(Strategy.olderDefault.packedHexadecimal)'::bytea FROM projects;
        """,
        """
        -- last_seen is the place among all sightings: the moment, and a counter in the lowest 20 bits (SeenAt.swift).
        UPDATE people SET last_seen = last_seen << 20;
        """,
        """
        -- Since which journal row another row stands for a row, or none does. No read and no count has it from then on.
        ALTER TABLE rows ADD COLUMN superseded_by bigint;
        """,
        """
        -- The calls that read a group of two or more people, by the root of the group. Earlier versions wrote call_merges.
        CREATE TABLE call_groups (
            person bigint NOT NULL,
            sequence bigint NOT NULL,
            CONSTRAINT call_groups_key PRIMARY KEY (person, sequence)
        );

        -- What these calls wanted, so that an undo of a merge can decide them again (KeptAct.swift).
        CREATE TABLE call_acts (
            sequence bigint CONSTRAINT call_acts_key PRIMARY KEY,
            act bytea NOT NULL
        );
        """,
        """
        -- The calls of which the journal has nothing or not all, for dry runs of other rules (LoggedCall.swift): 0 calls, 1 a note
        -- that earlier calls are missing, 2 a note about a gap. `ending` has the bytes of all segments up to this one.
        CREATE TABLE call_log (
            id bigint CONSTRAINT call_log_key PRIMARY KEY,
            project bigint NOT NULL,
            last bigint NOT NULL,
            at bigint NOT NULL,
            kind bigint NOT NULL,
            ending bigint NOT NULL,
            body bytea NOT NULL
        );
        CREATE INDEX call_log_by_project ON call_log (project, kind, id);
        -- The calls of earlier versions are not in the log.
        INSERT INTO call_log (id, project, last, at, kind, ending, body)
        SELECT row_number() OVER (ORDER BY id), id, (SELECT max(sequence) FROM journal), 0, 1, 0, '' FROM projects;
        """,
        """
        -- The group of a person: the id of any member, or NULL for a person without merges. The column is_merged goes, so that no
        -- running server of an older version writes a merge without it.
        ALTER TABLE people ADD COLUMN label bigint;
        ALTER TABLE people DROP COLUMN is_merged;
        CREATE INDEX people_by_label ON people (label, id) WHERE label IS NOT NULL;

        -- The merges between two people are looked up.
        DROP INDEX merges_by_source;
        CREATE INDEX merges_by_source ON merges (source, destination) WHERE ended_by IS NULL;

        -- Each group of two or more people: the person that stands for it and the number of its members. A group of many members
        -- also has the oldest of them, and when one was last seen.
        CREATE TABLE groups (
            label bigint CONSTRAINT groups_key PRIMARY KEY,
            root bigint NOT NULL,
            size bigint NOT NULL,
            first bigint,
            last_seen bigint
        );

        -- How many rows and identities the members of such a large group have together.
        CREATE TABLE group_rows (
            label bigint NOT NULL,
            kind smallint NOT NULL,
            count bigint NOT NULL,
            CONSTRAINT group_rows_key PRIMARY KEY (label, kind)
        );
        CREATE TABLE group_identities (
            label bigint NOT NULL,
            type smallint NOT NULL,
            count bigint NOT NULL,
            CONSTRAINT group_identities_key PRIMARY KEY (label, type)
        );
        """,
        """
        -- The number of people leaves out erased people.
        UPDATE state SET people = (SELECT count(*) FROM people WHERE erased_by IS NULL);
        """,
        """
        -- Identities are chance for a tree, whose every page a busy store would write again and again. A hash index is half as large.
        DROP INDEX links_by_identity;
        CREATE INDEX links_by_identity ON links USING hash (hash) WHERE ended_by IS NULL;
        -- Questions about a moment of the past also ask for the people that held an identity then.
        CREATE INDEX links_by_former_identity ON links USING hash (hash) WHERE ended_by IS NOT NULL;

        -- Whether the call that made the person came to another person, or to none. The other people are found by their calls.
        ALTER TABLE people ADD COLUMN is_beside boolean NOT NULL DEFAULT false;
        UPDATE people SET is_beside = true
        WHERE NOT EXISTS (SELECT FROM journal WHERE sequence = people.made_by AND journal.person = people.id);
        -- A running server of an older version does not know the column.
        ALTER TABLE people ALTER COLUMN is_beside SET DEFAULT true;
        DROP INDEX people_by_call;
        CREATE INDEX people_by_call ON people (made_by) WHERE is_beside;
        """,
        """
        -- The leaves of the tree over the journal, and the hash of each whole subtree of 256 leaves, as the embedded store has them
        -- (docs/decisions/0064). The first leaf stands for the calls of earlier versions.
        CREATE TABLE leaves (
            sequence bigint CONSTRAINT leaves_key PRIMARY KEY,
            place bigint NOT NULL,
            mark bytea NOT NULL CONSTRAINT leaves_mark_length CHECK (length(mark) = 4),
            opening bytea NOT NULL
        );
        CREATE TABLE tree (
            number bigint CONSTRAINT tree_key PRIMARY KEY,
            root bytea NOT NULL CONSTRAINT tree_root_length CHECK (length(root) = 32)
        );

        -- The people of a leaf beside the own person of its call. An erasure finds the leaves by them.
        CREATE TABLE leaf_people (
            person bigint NOT NULL,
            sequence bigint NOT NULL,
            CONSTRAINT leaf_people_key PRIMARY KEY (person, sequence)
        );

        -- The number of leaves, and the roots of the full subtrees at the end of the tree.
        ALTER TABLE state ADD COLUMN leaves bigint NOT NULL DEFAULT 0;
        ALTER TABLE state ADD COLUMN edge bytea NOT NULL DEFAULT '';

        -- A running server of an older version writes no leaves, and seals none at an erasure. The column has a new name, so that the
        -- batches and the sweeps of such a server fail.
        ALTER TABLE journal RENAME COLUMN has_values TO names_values;
        """,
    ]

    /// The number of the migration after which the groups are made from the merges.
    private static let groups = 9

    /// The number of the migration after which the journal has a tree.
    private static let tree = 12

    /// Updates the tables, or makes them. Several servers that start at once wait for each other.
    static func migrate(
        _ connection: Connection, schema: String, partitionRows: Int64
    ) throws(StoreFault) {
        try attempt { () throws(PostgresFault) in
            connection.send(Connection.Statement("BEGIN"))
            // These locks make a running server of an older version wait between two batches.
            for purpose in [Turn.Purpose.migration, .writing] {
                connection.send(
                    Connection.Statement("SELECT pg_advisory_xact_lock(\(Turn.key(of: schema, for: purpose)))"))
            }
            _ = try connection.answers()
            connection.send(Connection.Statement("CREATE SCHEMA IF NOT EXISTS \(schema)"))
            try connection.run(
                Connection.Statement(
                    "CREATE TABLE IF NOT EXISTS migrations (version integer CONSTRAINT migrations_key PRIMARY KEY)"))
        }
        let found = try attempt { () throws(PostgresFault) in
            Int(
                try connection.run(Connection.Statement("SELECT coalesce(max(version), 0) FROM migrations")).integer(
                    0, 0))
        }
        guard found <= version else {
            throw StoreFault(
                .newerSchema,
                "The store has schema \(found), and this version knows schema \(version). Run the newer version."
            )
        }
        try attempt { () throws(PostgresFault) in
            let row =
                found == 0 ? 0 : try connection.run(Connection.Statement("SELECT row_number FROM state")).integer(0, 0)
            let first = "\(row + 1 + partitionRows)"
            for number in found..<version {
                for statement in statements(migrations[number].replacing(stretch, with: first)) {
                    connection.send(Connection.Statement(statement))
                }
                connection.send(Connection.Statement("INSERT INTO migrations VALUES (\(number + 1))"))
            }
            _ = try connection.answers()
        }
        if found < groups { try GroupTables.make(connection) }
        if found < tree { try TreeTables(connection).complete() }
        _ = try attempt { () throws(PostgresFault) in try connection.run(Connection.Statement("COMMIT")) }
    }

    /// The statements of a migration. No statement contains a semicolon.
    private static func statements(_ migration: String) -> [String] {
        let lines = migration.split(separator: "\n").filter { !$0.drop { $0 == " " }.hasPrefix("--") }
        return lines.joined(separator: "\n").split(separator: ";").map(String.init).filter {
            $0.contains { !$0.isWhitespace }
        }
    }
}
