"""What moving in, moving out, copies and the doctor cost."""

import datetime
import json
import os
import pathlib
import random
import re
import shutil
import signal
import statistics
import subprocess
import tempfile
import threading
import time

from servers import HERE, Client, Onym, Postgres, wrk

# People of a file, each with three identities, and edges of another file.
PEOPLE, EDGES = 1_000_000, 1_000_000
# Milliseconds that each of the clients waits between two calls: about half of what the server could do.
DELAY = 3
PEERS = HERE.parent / ".build/peers/bin/python"
MAP = {
    "format": "csv", "vendor": "bench", "key": "user", "made": "created", "identities": [
        {"type": "customerid", "from": "user"}, {"type": "email", "from": "email"}, {"type": "ios_idfv", "from": "device"}]}


class Done:
    """A command that has ended: its seconds, its memory at the peak, and what it printed."""

    def __init__(self, *arguments, expected=(0,)):
        started = time.time()
        with tempfile.TemporaryFile() as errors:
            process = subprocess.Popen([str(a) for a in arguments], stdout=subprocess.PIPE, stderr=errors)
            self.output = process.stdout.read().decode()
            _, status, usage = os.wait4(process.pid, 0)
            self.seconds = time.time() - started
            errors.seek(0)
            said = errors.read().decode()[-1000:]
        self.megabytes = usage.ru_maxrss / 1024
        if os.waitstatus_to_exitcode(status) not in expected:
            raise SystemExit(f"{' '.join(map(str, arguments))} ended with {os.waitstatus_to_exitcode(status)}: {said}")


class Files:
    """The files that are imported, each with other people."""

    def __init__(self, folder):
        self.folder, self.made = folder, 0
        self.map = folder / "bench.map.json"
        self.map.write_text(json.dumps(MAP))

    def people(self, count=PEOPLE, is_shuffled=False):
        """People in the order in which the vendor made them, as exports usually have them, or in no order."""
        self.made += 1
        path = self.folder / f"people-{self.made}.csv"
        first, numbers = datetime.datetime(2022, 1, 1), list(range(count))
        if is_shuffled:
            random.Random(self.made).shuffle(numbers)
        with open(path, "w") as file:
            file.write("user,email,device,created\n")
            for number in numbers:
                name = f"{self.made}-{number}"
                made = first + datetime.timedelta(seconds=40 * number)
                file.write(f"user-{name},user-{name}@example.com,8C6104AF-1F2E-4D3C-{self.made:04X}-{number:012X},{made.isoformat()}Z\n")
        return path

    def edges(self, count=EDGES):
        """Components of two to eight identities, each joined to an earlier one by chance."""
        chance, path, made, component = random.Random(7), self.folder / "edges.csv", 0, 0
        types = ["customerid", "email", "device_application_stamp"]
        with open(path, "w") as file:
            file.write("a,b\n")
            while made < count:
                component += 1
                names = [f"{types[n % 3]}:{component}-{n}@example.com" for n in range(chance.choice([2, 2, 3, 3, 4, 5, 8]))]
                for number in range(1, len(names)):
                    file.write(f"{names[chance.randrange(number)]},{names[number]}\n")
                made += len(names) - 1
        return path

    def batches(self, count=200_000):
        """Batches of events as mParticle writes them to a bucket, one for each person."""
        path = self.folder / "batches.jsonl"
        with open(path, "w") as file:
            for number in range(count):
                file.write(json.dumps({
                    "events": [{"data": {"event_name": "click", "timestamp_unixtime_ms": "1595542763908", "event_id": str(number),
                                         "custom_attributes": {"sku": "A-1001", "list": "Spring"}}, "event_type": "custom_event"}],
                    "user_identities": [{"identity_type": "customer_id", "identity": f"c{number}", "timestamp_unixtime_ms": 1540483995196},
                                        {"identity_type": "email", "identity": f"c{number}@example.com", "timestamp_unixtime_ms": 1540483995196}],
                    "user_attributes": {"plan": "pro"}, "device_info": {"ios_idfv": f"8C6104AF-1F2E-4D3C-0001-{number:012X}"},
                    "environment": "production", "mpid": 7346244611012968789 - number}) + "\n")
        return path


def new_store(binary, folder, address=None):
    where = ["--data", folder, *(["--store", address] if address else [])]
    Done(binary, "init", *where, "--json")
    return where


def start_import(binary, where, files, path):
    return [binary, "import", "--from", "csv", "--map", files.map, "--anew", *where, path]


def moving(binary, folder, arguments):
    """Imports, exports, copies and the doctor, with a million people; and edges beside Splink and DuckDB."""
    where = alone(binary, folder, arguments)
    outward(binary, folder, where)
    store = where[1]
    doctor(binary, store)
    restored(binary, folder, store)
    through(binary, folder)
    beside_others(binary, folder, arguments)
    edges(binary, folder, arguments)
    readers(binary, Files(folder))
    in_postgres(binary, folder)


def alone(binary, folder, arguments):
    """An import without a server, into a new store each time; returns the last store."""
    files = Files(folder)
    path, mixed, first, unordered, second, dry, memory = files.people(), files.people(is_shuffled=True), [], [], [], [], []
    for round_ in range(3):
        unordered.append(Done(*start_import(binary, new_store(binary, folder / "unordered"), files, mixed)).seconds)
        shutil.rmtree(folder / "unordered")
        where = new_store(binary, folder / f"imported-{round_}")
        dry.append(Done(*start_import(binary, where, files, path), "--dry-run").seconds)
        done = Done(*start_import(binary, where, files, path))
        first.append(done.seconds)
        memory.append(done.megabytes)
        second.append(Done(*start_import(binary, where, files, path)).seconds)
        size = (folder / f"imported-{round_}" / "onym.db").stat().st_size
        if round_ < 2:
            shutil.rmtree(where[1])
    (folder / "served").mkdir()
    (folder / "served" / "store").symlink_to(where[1])
    (folder / "served" / "keys.json").write_text("{}")
    server = Onym(binary, folder / "served")
    index = server.peak_megabytes()
    server.stop()
    identities = 3 * PEOPLE
    print(f"\nimport of {PEOPLE:,} people with three identities each, from CSV, without a server: "
          f"{identities / statistics.median(first):,.0f} identities/s, in no order {identities / statistics.median(unordered):,.0f}/s, dry run {identities / statistics.median(dry):,.0f}/s, "
          f"again {identities / statistics.median(second):,.0f}/s; "
          f"memory {statistics.median(memory):.0f} MB, a server with these people {index:.0f} MB; file {size / PEOPLE:.0f} bytes a person")
    return where


def outward(binary, folder, where):
    for what in [["--all", "--output", folder / "all.jsonl"], ["--all", "--form", "store", "--output", folder / "store.jsonl"],
                 ["--tables", folder / "csv", "--format", "csv"], ["--tables", folder / "parquet", "--format", "parquet"]]:
        done = Done(binary, "export", *what, *where)
        name = " ".join(str(word) for word in what if not isinstance(word, pathlib.Path) and word != "--output")
        print(f"export {name} of {PEOPLE:,} people: {done.seconds:.1f} s, {done.megabytes:.0f} MB")


def doctor(binary, store):
    for words in [[], ["--quick"]]:
        done = Done(binary, "doctor", *words, "--data", store, expected=(0, 4))
        print(f"{' '.join(['doctor', *words])} of {PEOPLE:,} people: {done.seconds:.1f} s, {done.megabytes:.0f} MB")


def restored(binary, folder, store):
    copies = folder / "copies"
    copy = Done(binary, "backup", copies, "--data", store, expected=(0, 4))
    back = Done(binary, "restore", copies, folder / "restored", "--master-key", pathlib.Path(store) / "master.key", expected=(0, 4))
    opened = Done(binary, "stats", "--data", folder / "restored")
    print(f"backup of {PEOPLE:,} people without a server: {copy.seconds:.1f} s; restore {back.seconds:.1f} s, "
          f"and the first command over it {opened.seconds:.1f} s")
    shutil.rmtree(copies)
    shutil.rmtree(folder / "restored")


def through(binary, folder):
    """An import through a server that nobody else calls."""
    files, server = Files(folder), Onym(binary, folder / "idle")
    try:
        done = Done(*start_import(binary, ["--data", folder / "idle" / "store"], files, files.people()))
        print(f"import through an idle server: {3 * PEOPLE / done.seconds:,.0f} identities/s; the command's memory {done.megabytes:.0f} MB")
    finally:
        server.stop()


def beside_others(binary, folder, arguments):
    """What others wait for beside an import and beside copies, and how fast these are then."""
    files, server = Files(folder), Onym(binary, folder / "loaded", {"backup_to": folder / "kept"})
    key, store, seconds = server.keys["idsync"]["web_key"], folder / "loaded" / "store", arguments.seconds
    where = ["--data", store]
    try:
        full = wrk(server, seconds, kind="new", count=40_000 * seconds, key=key)[0]
        Done(*start_import(binary, where, files, files.people(PEOPLE - server.count_people())))
        lags, stopping = [], threading.Event()

        def load():
            return wrk(server, seconds, kind="new", count=40_000 * seconds, key=key, delay=DELAY)

        def watch():
            client = Client(server)
            while not stopping.wait(0.1):
                lags.append(float(re.search(r"^onym_backup_lag_seconds ([0-9.]+)", client.admin("GET", "/metrics").decode(), re.MULTILINE)[1]))

        load()
        ways = {"alone": [], "import": [], "backup": []}
        imported, copies = [], ()
        path = files.people(3 * PEOPLE)
        watcher = threading.Thread(target=watch)
        watcher.start()
        for round_ in range(arguments.rounds):
            for way in ways if round_ % 2 == 0 else reversed(ways):
                if way == "alone":
                    ways[way].append(load())
                elif way == "import":
                    command = subprocess.Popen(
                        [str(w) for w in start_import(binary, where, files, path) if w != "--anew"],
                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                    time.sleep(1)  # It looks at what is there first.
                    before, started = server.count_people(), time.time()
                    ways[way].append(load())
                    made, took = server.count_people() - before, time.time() - started
                    command.send_signal(signal.SIGINT)
                    command.wait(60)
                    imported.append(3 * (made - ways[way][-1][0] * seconds) / took)
                elif not copies:
                    # One is enough: it lasts for many loads, and they make the store larger.
                    copies = beside_load(binary, folder, where, store, lambda: ways[way].append(load()))
        stopping.set()
        watcher.join()
        alone = statistics.median(row[2] for row in ways["alone"])
        print(f"load of {statistics.median(row[0] for row in ways['alone']):,.0f} new people a second ({full:,.0f} without a wait): p99 {alone:.2f} ms")
        for way in ["import", "backup"]:
            p99 = statistics.median(row[2] for row in ways[way])
            print(f"  beside {'an import' if way == 'import' else 'backups'}: p99 {p99:.2f} ms, {p99 / alone:.2f}; "
                  f"{statistics.median(row[0] for row in ways[way]):,.0f} calls/s, none failed")
        print(f"  the import beside it: {statistics.median(imported):,.0f} identities/s")
        backup, copy = copies
        print(f"  a backup beside it: {backup:.1f} s, and cp {copy:.1f} s; the copy of the log is at most {max(lags):.1f} s behind")
    finally:
        server.stop()


def beside_load(binary, folder, where, store, load):
    """The seconds of a backup and of `cp` while others call."""
    seconds = []

    def copy():
        copies = folder / "beside"
        try:
            seconds.append(Done(binary, "backup", copies, *where, expected=(0, 4)).seconds)
        except SystemExit as fault:
            print(fault)  # A thread would end without a word.
            os._exit(1)
        shutil.rmtree(copies)
        started = time.time()
        subprocess.run(["cp", store / "onym.db", folder / "cp.db"], check=True)
        with open(folder / "cp.db") as file:
            os.fsync(file.fileno())
        seconds.append(time.time() - started)
        (folder / "cp.db").unlink()

    thread = threading.Thread(target=copy)
    thread.start()
    load()
    while thread.is_alive():
        # The times of the copy are those beside a load, also of its last part.
        load_rest = threading.Thread(target=load)
        load_rest.start()
        load_rest.join()
    return tuple(seconds)


def edges(binary, folder, arguments):
    """Edges into people, durable, beside programs that only resolve them."""
    files = Files(folder)
    path = files.edges()
    ways = {"onym": [], "splink": [], "duckdb": []}
    for round_ in range(arguments.rounds):
        for way in ways if round_ % 2 == 0 else reversed(ways):
            if way == "onym":
                where = new_store(binary, folder / "edges")
                ways[way].append(Done(binary, "import", "--from", "edges", *where, path).seconds)
                shutil.rmtree(folder / "edges")
            else:
                ways[way].append(Done(PEERS, HERE / "edges.py", way, path, folder / "edges.db").seconds)
                (folder / "edges.db").unlink()
    middles = {way: statistics.median(values) for way, values in ways.items()}
    print(f"{EDGES:,} edges: onym import {middles['onym']:.1f} s, Splink 5 {middles['splink']:.1f} s, "
          f"label propagation in DuckDB {middles['duckdb']:.1f} s")


def readers(binary, files):
    for vendor, path, map_ in [("csv", files.people(), [files.map]), ("mparticle", files.batches(), [])]:
        rate = Done(binary.parent / "bench-readers", vendor, path, *map_).output.strip()
        print(f"reader of {'CSV' if vendor == 'csv' else 'JSON lines'}, one core: {rate}")


def in_postgres(binary, folder):
    files = Files(folder)
    path = files.people()
    with Postgres() as postgres:
        where = new_store(binary, folder / "in-postgres", postgres.address)
        first = Done(*start_import(binary, where, files, path)).seconds
        second = Done(*start_import(binary, where, files, path)).seconds
    print(f"import into PostgreSQL: {3 * PEOPLE / first:,.0f} identities/s, again {3 * PEOPLE / second:,.0f}/s")
