-- A store as version 1 of the schema wrote it: two people, each with three uploads of four events.
CREATE SCHEMA version1;
CREATE TABLE version1.apps (
    id bigint NOT NULL,
    project integer NOT NULL,
    dialect text NOT NULL,
    name bytea NOT NULL,
    platform text NOT NULL,
    bundle_id bytea,
    public_id bytea,
    secret_hash bytea,
    made_at bigint NOT NULL,
    made_by bigint NOT NULL,
    web_origins bytea,
    revoked_at bigint,
    CONSTRAINT apps_secret_hash_length CHECK ((length(secret_hash) = 32))
);
CREATE TABLE version1.call_merges (
    merge bigint NOT NULL,
    sequence bigint NOT NULL
);
CREATE TABLE version1.call_people (
    person bigint NOT NULL,
    sequence bigint NOT NULL
);
CREATE TABLE version1.documents (
    id bigint NOT NULL,
    kind smallint NOT NULL,
    hash uuid NOT NULL,
    person bigint NOT NULL,
    made_by bigint NOT NULL,
    body bytea NOT NULL
);
CREATE TABLE version1.journal (
    sequence bigint NOT NULL,
    at bigint NOT NULL,
    project integer NOT NULL,
    key bigint,
    kind smallint NOT NULL,
    person bigint,
    request_id bytea NOT NULL,
    replay uuid,
    body uuid,
    inputs bytea,
    has_values boolean NOT NULL,
    reply bytea NOT NULL,
    note bytea,
    last_link bigint NOT NULL,
    last_row bigint NOT NULL,
    last_document bigint NOT NULL,
    batch uuid
);
CREATE TABLE version1.keys (
    id bigint NOT NULL,
    project integer NOT NULL,
    app bigint,
    kind text NOT NULL,
    name bytea NOT NULL,
    hash bytea NOT NULL,
    scopes text NOT NULL,
    made_at bigint NOT NULL,
    made_by bigint NOT NULL,
    expires_at bigint,
    revoked_at bigint,
    CONSTRAINT keys_hash_length CHECK ((length(hash) = 32))
);
CREATE TABLE version1.links (
    id bigint NOT NULL,
    person bigint NOT NULL,
    type smallint NOT NULL,
    hash uuid NOT NULL,
    value bytea NOT NULL,
    made_by bigint NOT NULL,
    ended_by bigint
);
CREATE TABLE version1.merges (
    id bigint NOT NULL,
    source bigint NOT NULL,
    destination bigint NOT NULL,
    rule smallint NOT NULL,
    made_by bigint NOT NULL,
    ended_by bigint
);
CREATE TABLE version1.migrations (
    version integer NOT NULL
);
CREATE TABLE version1.people (
    id bigint NOT NULL,
    project integer NOT NULL,
    made_by bigint NOT NULL,
    last_seen bigint NOT NULL,
    is_merged boolean DEFAULT false NOT NULL,
    erased_by bigint,
    is_swept boolean DEFAULT false NOT NULL
);
CREATE TABLE version1.projects (
    id integer NOT NULL,
    name bytea NOT NULL,
    made_at bigint NOT NULL,
    made_by bigint NOT NULL
);
CREATE TABLE version1.row_counts (
    person bigint NOT NULL,
    kind smallint NOT NULL,
    last bigint NOT NULL,
    count bigint NOT NULL
);
CREATE TABLE version1.rows (
    id bigint NOT NULL,
    project integer NOT NULL,
    person bigint NOT NULL,
    previous bigint,
    kind smallint NOT NULL,
    at bigint NOT NULL,
    recognition bigint,
    device bigint,
    made_by bigint NOT NULL,
    body bytea NOT NULL
);
CREATE TABLE version1.settings (
    name text NOT NULL,
    value bytea NOT NULL
);
CREATE TABLE version1.state (
    id smallint NOT NULL,
    sequence bigint DEFAULT 0 NOT NULL,
    moment bigint,
    person bigint,
    link bigint DEFAULT 0 NOT NULL,
    row_number bigint DEFAULT 0 NOT NULL,
    document bigint DEFAULT 0 NOT NULL,
    directory bigint DEFAULT 0 NOT NULL,
    people bigint DEFAULT 0 NOT NULL,
    identities bigint DEFAULT 0 NOT NULL,
    links bigint DEFAULT 0 NOT NULL,
    merges bigint DEFAULT 0 NOT NULL,
    CONSTRAINT state_alone CHECK ((id = 1))
)
WITH (fillfactor='10');
CREATE TABLE version1.strategies (
    made_by bigint NOT NULL,
    project integer NOT NULL,
    version bigint NOT NULL,
    document bytea NOT NULL
);
INSERT INTO version1.journal VALUES (1, 1800000000000, 1, NULL, 1, NULL, '\x', NULL, NULL, NULL, false, '\x01', NULL, 0, 0, 0, 'b7bc139b-8cf7-e9fb-5f81-544c38fc48e6');
INSERT INTO version1.journal VALUES (2, 1800000000010, 1, NULL, 2, 931819998455721063, '\x726571756573742031', NULL, NULL, NULL, false, '\x02e7d8bb94a0ab9ff70c0001', NULL, 2, 0, 0, '1d4510bb-8a92-4604-9f3f-a9b61e626d91');
INSERT INTO version1.journal VALUES (3, 1800000000020, 1, NULL, 7, 931819998455721063, '\x726571756573742032', NULL, NULL, NULL, false, '\x07e7d8bb94a0ab9ff70c0400', NULL, 2, 5, 0, '19d59c72-aee6-454f-3dd4-7f638cb4c57d');
INSERT INTO version1.journal VALUES (4, 1800000000030, 1, NULL, 7, 931819998455721063, '\x726571756573742033', NULL, NULL, NULL, false, '\x07e7d8bb94a0ab9ff70c0400', NULL, 2, 10, 0, 'e40acfe8-4792-78cc-d0d4-c0ba621c9191');
INSERT INTO version1.journal VALUES (5, 1800000000040, 1, NULL, 7, 931819998455721063, '\x726571756573742034', NULL, NULL, NULL, false, '\x07e7d8bb94a0ab9ff70c0400', NULL, 2, 15, 0, 'ac62d362-f544-199e-b7be-810586f0dee9');
INSERT INTO version1.journal VALUES (6, 1800000000050, 1, NULL, 2, 931819998623892096, '\x726571756573742035', NULL, NULL, NULL, false, '\x028085d4e4a0ab9ff70c0001', NULL, 4, 15, 0, 'a58b9d58-c694-3a65-7862-144ba3333dd9');
INSERT INTO version1.journal VALUES (7, 1800000000060, 1, NULL, 7, 931819998623892096, '\x726571756573742036', NULL, NULL, NULL, false, '\x078085d4e4a0ab9ff70c0400', NULL, 4, 20, 0, 'd277ea78-55e8-5cbf-846a-ab3635819f49');
INSERT INTO version1.journal VALUES (8, 1800000000070, 1, NULL, 7, 931819998623892096, '\x726571756573742037', NULL, NULL, NULL, false, '\x078085d4e4a0ab9ff70c0400', NULL, 4, 25, 0, '0aae32a1-5692-3083-acaa-7ff7d85946ce');
INSERT INTO version1.journal VALUES (9, 1800000000080, 1, NULL, 7, 931819998623892096, '\x726571756573742038', NULL, NULL, NULL, false, '\x078085d4e4a0ab9ff70c0400', NULL, 4, 30, 0, 'a84bf12a-4baa-368b-a21b-bc7abb17d077');
INSERT INTO version1.links VALUES (1, 931819998455721063, 2, 'a89ddde0-f09e-448c-bb48-46ecc1ae8c25', '\x6331', 2, NULL);
INSERT INTO version1.links VALUES (2, 931819998455721063, 23, '21bdd8d0-3f60-6d31-ada8-58395256d6b6', '\x31', 2, NULL);
INSERT INTO version1.links VALUES (3, 931819998623892096, 2, '62ebcfea-aefe-0ee1-a0b8-26ebb8a041b0', '\x6332', 6, NULL);
INSERT INTO version1.links VALUES (4, 931819998623892096, 23, '12e0cfce-2997-28db-766c-713009d7d267', '\x32', 6, NULL);
INSERT INTO version1.migrations VALUES (1);
INSERT INTO version1.people VALUES (931819998455721063, 1, 2, 1800000000010, false, NULL, false);
INSERT INTO version1.people VALUES (931819998623892096, 1, 6, 1800000000050, false, NULL, false);
INSERT INTO version1.projects VALUES (1, '\x54657374', 1800000000000, 1);
INSERT INTO version1.row_counts VALUES (931819998455721063, 1, 15, 12);
INSERT INTO version1.row_counts VALUES (931819998455721063, 2, 11, 3);
INSERT INTO version1.row_counts VALUES (931819998623892096, 1, 30, 12);
INSERT INTO version1.row_counts VALUES (931819998623892096, 2, 26, 3);
INSERT INTO version1.rows VALUES (1, 1, 931819998455721063, NULL, 2, 1800000000010, NULL, NULL, 3, '\x7b7d');
INSERT INTO version1.rows VALUES (2, 1, 931819998455721063, NULL, 1, 1800000000010, -421689730676803560, NULL, 3, '\x7b226964223a223120302030227d');
INSERT INTO version1.rows VALUES (3, 1, 931819998455721063, 2, 1, 1800000000010, 6435395724955645949, NULL, 3, '\x7b226964223a223120302031227d');
INSERT INTO version1.rows VALUES (4, 1, 931819998455721063, 3, 1, 1800000000010, 6664767271706002825, NULL, 3, '\x7b226964223a223120302032227d');
INSERT INTO version1.rows VALUES (5, 1, 931819998455721063, 4, 1, 1800000000010, -8232504341346879124, NULL, 3, '\x7b226964223a223120302033227d');
INSERT INTO version1.rows VALUES (6, 1, 931819998455721063, 1, 2, 1800000000020, NULL, NULL, 4, '\x7b7d');
INSERT INTO version1.rows VALUES (7, 1, 931819998455721063, 5, 1, 1800000000020, -3988934394773200575, NULL, 4, '\x7b226964223a223120312030227d');
INSERT INTO version1.rows VALUES (8, 1, 931819998455721063, 7, 1, 1800000000020, -2052225598427857827, NULL, 4, '\x7b226964223a223120312031227d');
INSERT INTO version1.rows VALUES (9, 1, 931819998455721063, 8, 1, 1800000000020, -6676331246662323876, NULL, 4, '\x7b226964223a223120312032227d');
INSERT INTO version1.rows VALUES (10, 1, 931819998455721063, 9, 1, 1800000000020, -505626215168288311, NULL, 4, '\x7b226964223a223120312033227d');
INSERT INTO version1.rows VALUES (11, 1, 931819998455721063, 6, 2, 1800000000030, NULL, NULL, 5, '\x7b7d');
INSERT INTO version1.rows VALUES (12, 1, 931819998455721063, 10, 1, 1800000000030, -7306531212776084078, NULL, 5, '\x7b226964223a223120322030227d');
INSERT INTO version1.rows VALUES (13, 1, 931819998455721063, 12, 1, 1800000000030, -8324225705482980649, NULL, 5, '\x7b226964223a223120322031227d');
INSERT INTO version1.rows VALUES (14, 1, 931819998455721063, 13, 1, 1800000000030, 893497045106986327, NULL, 5, '\x7b226964223a223120322032227d');
INSERT INTO version1.rows VALUES (15, 1, 931819998455721063, 14, 1, 1800000000030, -127526676661539068, NULL, 5, '\x7b226964223a223120322033227d');
INSERT INTO version1.rows VALUES (16, 1, 931819998623892096, NULL, 2, 1800000000050, NULL, NULL, 7, '\x7b7d');
INSERT INTO version1.rows VALUES (17, 1, 931819998623892096, NULL, 1, 1800000000050, 6763336335475681791, NULL, 7, '\x7b226964223a223220302030227d');
INSERT INTO version1.rows VALUES (18, 1, 931819998623892096, 17, 1, 1800000000050, -2685662257592633326, NULL, 7, '\x7b226964223a223220302031227d');
INSERT INTO version1.rows VALUES (19, 1, 931819998623892096, 18, 1, 1800000000050, -8744191769454129428, NULL, 7, '\x7b226964223a223220302032227d');
INSERT INTO version1.rows VALUES (20, 1, 931819998623892096, 19, 1, 1800000000050, 4524174368219512703, NULL, 7, '\x7b226964223a223220302033227d');
INSERT INTO version1.rows VALUES (21, 1, 931819998623892096, 16, 2, 1800000000060, NULL, NULL, 8, '\x7b7d');
INSERT INTO version1.rows VALUES (22, 1, 931819998623892096, 20, 1, 1800000000060, -3421049073924240190, NULL, 8, '\x7b226964223a223220312030227d');
INSERT INTO version1.rows VALUES (23, 1, 931819998623892096, 22, 1, 1800000000060, -7211887637824159913, NULL, 8, '\x7b226964223a223220312031227d');
INSERT INTO version1.rows VALUES (24, 1, 931819998623892096, 23, 1, 1800000000060, -6534621338147698706, NULL, 8, '\x7b226964223a223220312032227d');
INSERT INTO version1.rows VALUES (25, 1, 931819998623892096, 24, 1, 1800000000060, -7328434386416987774, NULL, 8, '\x7b226964223a223220312033227d');
INSERT INTO version1.rows VALUES (26, 1, 931819998623892096, 21, 2, 1800000000070, NULL, NULL, 9, '\x7b7d');
INSERT INTO version1.rows VALUES (27, 1, 931819998623892096, 25, 1, 1800000000070, 6655189020992906742, NULL, 9, '\x7b226964223a223220322030227d');
INSERT INTO version1.rows VALUES (28, 1, 931819998623892096, 27, 1, 1800000000070, 2601068656406323308, NULL, 9, '\x7b226964223a223220322031227d');
INSERT INTO version1.rows VALUES (29, 1, 931819998623892096, 28, 1, 1800000000070, -4162834828727696437, NULL, 9, '\x7b226964223a223220322032227d');
INSERT INTO version1.rows VALUES (30, 1, 931819998623892096, 29, 1, 1800000000070, 6763556529611616988, NULL, 9, '\x7b226964223a223220322033227d');
INSERT INTO version1.settings VALUES ('hash_key', '\x02000000000000000100000000000000');
INSERT INTO version1.state VALUES (1, 9, 1800000000080, 931819998752423336, 4, 30, 0, 1, 2, 4, 4, 0);
ALTER TABLE ONLY version1.apps
    ADD CONSTRAINT apps_key PRIMARY KEY (id);
ALTER TABLE ONLY version1.call_merges
    ADD CONSTRAINT call_merges_key PRIMARY KEY (merge, sequence);
ALTER TABLE ONLY version1.call_people
    ADD CONSTRAINT call_people_key PRIMARY KEY (person, sequence);
ALTER TABLE ONLY version1.documents
    ADD CONSTRAINT documents_key PRIMARY KEY (id);
ALTER TABLE ONLY version1.journal
    ADD CONSTRAINT journal_key PRIMARY KEY (sequence);
ALTER TABLE ONLY version1.keys
    ADD CONSTRAINT keys_hash_unique UNIQUE (hash);
ALTER TABLE ONLY version1.keys
    ADD CONSTRAINT keys_key PRIMARY KEY (id);
ALTER TABLE ONLY version1.links
    ADD CONSTRAINT links_key PRIMARY KEY (id);
ALTER TABLE ONLY version1.merges
    ADD CONSTRAINT merges_key PRIMARY KEY (id);
ALTER TABLE ONLY version1.migrations
    ADD CONSTRAINT migrations_key PRIMARY KEY (version);
ALTER TABLE ONLY version1.people
    ADD CONSTRAINT people_key PRIMARY KEY (id);
ALTER TABLE ONLY version1.projects
    ADD CONSTRAINT projects_key PRIMARY KEY (id);
ALTER TABLE ONLY version1.row_counts
    ADD CONSTRAINT row_counts_key PRIMARY KEY (person, kind);
ALTER TABLE ONLY version1.rows
    ADD CONSTRAINT rows_key PRIMARY KEY (id);
ALTER TABLE ONLY version1.settings
    ADD CONSTRAINT settings_key PRIMARY KEY (name);
ALTER TABLE ONLY version1.state
    ADD CONSTRAINT state_key PRIMARY KEY (id);
ALTER TABLE ONLY version1.strategies
    ADD CONSTRAINT strategies_key PRIMARY KEY (made_by);
CREATE INDEX documents_by_key ON version1.documents USING btree (hash, kind, id);
CREATE INDEX documents_by_person ON version1.documents USING btree (person);
CREATE INDEX journal_by_person ON version1.journal USING btree (person, sequence) WHERE (person IS NOT NULL);
CREATE INDEX journal_by_replay ON version1.journal USING btree (replay, sequence) WHERE (replay IS NOT NULL);
CREATE INDEX journal_with_values ON version1.journal USING btree (sequence) WHERE has_values;
CREATE INDEX links_by_identity ON version1.links USING btree (hash) INCLUDE (person) WHERE (ended_by IS NULL);
CREATE INDEX links_by_person ON version1.links USING btree (person, id);
CREATE INDEX links_ended ON version1.links USING btree (ended_by) WHERE (ended_by IS NOT NULL);
CREATE INDEX merges_by_call ON version1.merges USING btree (made_by);
CREATE INDEX merges_by_destination ON version1.merges USING btree (destination) WHERE (ended_by IS NULL);
CREATE INDEX merges_by_source ON version1.merges USING btree (source) WHERE (ended_by IS NULL);
CREATE INDEX merges_ended ON version1.merges USING btree (ended_by) WHERE (ended_by IS NOT NULL);
CREATE INDEX people_by_call ON version1.people USING btree (made_by);
CREATE INDEX people_erased ON version1.people USING btree (erased_by) WHERE (erased_by IS NOT NULL);
CREATE INDEX people_to_sweep ON version1.people USING btree (id) WHERE ((erased_by IS NOT NULL) AND (NOT is_swept));
CREATE INDEX rows_by_person ON version1.rows USING btree (person, kind, id);
CREATE INDEX rows_by_recognition ON version1.rows USING btree (recognition) WHERE (recognition IS NOT NULL);
CREATE INDEX rows_by_time ON version1.rows USING btree (kind, at, id);
