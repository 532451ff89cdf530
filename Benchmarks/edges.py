#!/usr/bin/env python3
"""Joins the edges of a CSV file into components, as Splink does or by label propagation in DuckDB, in a database on disk.

    Benchmarks/edges.py splink|duckdb FILE DATABASE

Prints the number of components. Both write a table of nodes with their component.
"""

import sys

import duckdb

READ = "CREATE TABLE edges AS SELECT a AS node_l, b AS node_r FROM read_csv(?, header = true, columns = {'a': 'VARCHAR', 'b': 'VARCHAR'})"
NODES = "CREATE TABLE nodes AS SELECT node_l AS node FROM edges UNION SELECT node_r FROM edges"


def splink(connection):
    from splink import DuckDBAPI
    from splink.clustering import cluster_pairwise_predictions_at_threshold

    clusters = cluster_pairwise_predictions_at_threshold(
        "nodes", "edges", DuckDBAPI(connection), "node", "node_l", "node_r")
    connection.execute(f"CREATE TABLE components AS SELECT cluster_id AS component, node FROM {clusters.physical_name}")


def propagation(connection):
    """Each node takes the smallest label among itself and its neighbors, until nothing changes."""
    connection.execute("CREATE TABLE both_ways AS SELECT node_l AS a, node_r AS b FROM edges UNION ALL SELECT node_r, node_l FROM edges")
    connection.execute("CREATE TABLE components AS SELECT node, node AS component FROM nodes")
    changed = 1
    while changed:
        connection.execute("""
            CREATE OR REPLACE TABLE next AS
            SELECT node, least(any_value(own.component), coalesce(min(other.component), any_value(own.component))) AS component
            FROM components AS own LEFT JOIN both_ways ON a = own.node LEFT JOIN (SELECT node AS b, component FROM components) AS other USING (b)
            GROUP BY node""")
        changed = connection.execute(
            "SELECT count(*) FROM components JOIN next USING (node) WHERE components.component <> next.component").fetchone()[0]
        connection.execute("DROP TABLE components")
        connection.execute("ALTER TABLE next RENAME TO components")


def main():
    way, file, database = sys.argv[1:]
    connection = duckdb.connect(database)
    connection.execute(READ, [file])
    connection.execute(NODES)
    {"splink": splink, "duckdb": propagation}[way](connection)
    print(connection.execute("SELECT count(DISTINCT component) FROM components").fetchone()[0])
    connection.close()


if __name__ == "__main__":
    main()
