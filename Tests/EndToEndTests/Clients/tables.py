"""Reads the tables of an export as a warehouse does, with DuckDB.

    tables.py CSV PARQUET BASE LATER

CSV and PARQUET are two exports of one moment; BASE and LATER are an export of an earlier moment, and the export of everything
after it. Prints an object: rows of each table, the root of each person, and what is wrong.
"""
import datetime
import json
import sys

import duckdb

csv, parquet, base, later = sys.argv[1:]
wrong = []


def shown(value):
    if isinstance(value, datetime.datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%S.") + f"{value.microsecond // 1000:03d}Z"
    return None if value is None else str(value)


def rows_of_parquet(folder, table):
    result = duckdb.sql(f"SELECT * FROM read_parquet('{folder}/{table}/*.parquet')")
    return result.columns, [tuple(map(shown, row)) for row in result.fetchall()]


def rows_of_csv(folder, table):
    result = duckdb.sql(
        f"SELECT * FROM read_csv('{folder}/{table}/*.csv', header=true, all_varchar=true, allow_quoted_nulls=false,"
        " quote='\"', escape='\"', strict_mode=true, auto_detect=true, delim=',')")
    return result.columns, [tuple(map(shown, row)) for row in result.fetchall()]


manifests = {}
for folder in (csv, parquet, base, later):
    with open(f"{folder}/manifest.json", encoding="utf-8") as file:
        manifests[folder] = json.load(file)
tables = {}
for table, told in manifests[parquet]["tables"].items():
    (names, rows), (csv_names, csv_rows) = rows_of_parquet(parquet, table), rows_of_csv(csv, table)
    tables[table] = len(rows)
    if names != csv_names or rows != csv_rows:
        wrong.append(f"{table}: {names} {rows[:2]} in Parquet, {csv_names} {csv_rows[:2]} in CSV")
    if told["rows"] != len(rows) or told["rows"] != manifests[csv]["tables"][table]["rows"]:
        wrong.append(f"{table}: {told} in the manifest, {len(rows)} rows")
    # What is earlier and what is later are all that there is.
    if table == "id_graph_updates":
        both = rows_of_parquet(base, table)[1] + rows_of_parquet(later, table)[1]
        if sorted(both) != sorted(rows):
            wrong.append(f"{table}: {len(both)} rows in two parts, {len(rows)} in one")

at = duckdb.sql(f"""
    SELECT p.person_id, p.root_id, last.root_id
    FROM read_parquet('{parquet}/people/*.parquet') p
    LEFT JOIN (SELECT person_id, arg_max(root_id, seq) AS root_id
               FROM read_parquet('{parquet}/id_graph_updates/*.parquet') GROUP BY person_id) last USING (person_id)""").fetchall()
for person, root, last in at:
    if root != last:
        wrong.append(f"{person}: {root} in people, {last} in id_graph_updates")
joined = duckdb.sql(f"""
    SELECT count(*) FROM read_parquet('{parquet}/events/*.parquet') e
    JOIN read_parquet('{parquet}/people/*.parquet') p USING (person_id) WHERE e.root_id = p.root_id""").fetchall()[0][0]
if joined != tables["events"]:
    wrong.append(f"{joined} events have the root of their person, of {tables['events']}")
print(json.dumps({"tables": tables, "roots": {str(person): str(root) for person, root, _ in at}, "wrong": wrong}))
