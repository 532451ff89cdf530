import Postgres
import StorePostgres
import TestKit

/// Triggers that let inserts into the tables of a store fail with a chosen code, as a switch in the database says.
final class FailingInserts {
    /// The moment of the error: at the statement with the insert, or at the COMMIT behind it.
    enum Moment: String, CaseIterable, Sendable { case statement, commit }

    private let administrator: Connection
    private let schema: String

    init(into settings: PostgresSettings) throws {
        let cluster = try PostgresCluster.shared.get()
        administrator = try Connection(ConnectionSettings(address: cluster.address))
        schema = settings.schema
        // A number of a sequence stays taken after a rollback, so the triggers can count. A statement gets 57P01 only from its own
        // end, so the trigger ends its connection.
        try cluster.run(
            """
            SET search_path = \(schema);
            CREATE TABLE insert_switch (state text, moment text, last_try bigint);
            CREATE SEQUENCE insert_tries;
            CREATE FUNCTION fail_insert() RETURNS trigger LANGUAGE plpgsql SET search_path = \(schema) AS $$
            DECLARE
                switch insert_switch;
            BEGIN
                SELECT * INTO switch FROM insert_switch WHERE moment = TG_ARGV[0];
                IF NOT FOUND OR nextval('insert_tries') > switch.last_try THEN RETURN NULL; END IF;
                IF switch.state = '57P01' THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF;
                RAISE EXCEPTION 'the test says so' USING ERRCODE = switch.state;
            END $$;
            DO $$
            DECLARE
                name text;
            BEGIN
                FOR name IN
                    SELECT tablename FROM pg_tables
                    WHERE schemaname = '\(schema)' AND tablename NOT LIKE 'rows\\_%' AND tablename <> 'insert_switch'
                LOOP
                    EXECUTE format(
                        'CREATE TRIGGER fail_insert BEFORE INSERT ON %I EXECUTE FUNCTION fail_insert(''statement'')', name);
                END LOOP;
            END $$;
            CREATE CONSTRAINT TRIGGER fail_commit AFTER INSERT ON journal DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION fail_insert('commit');
            """)
    }

    /// Lets the next inserts fail.
    ///
    /// - Parameter times: the number of inserts that fail; nil for all until ``stop()``.
    func fail(with state: String, at moment: Moment, times: Int64? = nil) throws {
        try stop()
        let lastTry = times.map { "nextval('\(schema).insert_tries') + \($0)" } ?? "\(Int64.max)"
        try run("INSERT INTO \(schema).insert_switch VALUES ('\(state)', '\(moment.rawValue)', \(lastTry))")
    }

    /// Lets all inserts succeed again.
    func stop() throws { try run("DELETE FROM \(schema).insert_switch") }

    private func run(_ sql: String) throws { try administrator.run(Connection.Statement(sql)) }
}
