"""The servers that the benchmarks measure and compare with, and the clients that load them."""

import contextlib
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid

HERE = pathlib.Path(__file__).resolve().parent
CONNECTIONS = 64
THREADS = 2
EVENTS_PER_UPLOAD = 100  # As calls.lua makes them.


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(url, seconds=120):
    end = time.time() + seconds
    while time.time() < end:
        try:
            urllib.request.urlopen(url, timeout=1).read()
            return
        except OSError:
            time.sleep(0.05)
    raise SystemExit(f"nothing answers at {url}")


class Process:
    """A server in a folder of its own, stopped by its process id."""

    def __init__(self, arguments, folder, stdout=subprocess.DEVNULL, environment={}):
        self.errors = open(folder / "stderr.txt", "a")
        self.process = subprocess.Popen(
            arguments, cwd=folder, stdout=stdout, stderr=self.errors, env=dict(os.environ, **environment))

    def cpu_seconds(self):
        ticks = 0
        pids = [self.process.pid] + [int(p) for p in self.children()]
        for pid in pids:
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def children(self):
        path = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return path.read_text().split()

    def peak_megabytes(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024

    def megabytes(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(30)


class Onym(Process):
    def __init__(self, binary, data, settings={}, store=None):
        """A server over a store in a folder, or in a database at an address."""
        data.mkdir(exist_ok=True, parents=True)
        started = time.time()
        where = ["--data", data / "store", *(["--store", store] if store else [])]
        if not (data / "keys.json").exists():
            made = subprocess.run([binary, "init", *where, "--json"], check=True, capture_output=True, text=True)
            (data / "keys.json").write_text(made.stdout)
        self.keys = json.loads((data / "keys.json").read_text())
        super().__init__(
            [binary, "serve", *where, "--listen", "127.0.0.1:0", "--log-level", "warning",
             # One key makes all the load, and names the same people again and again.
             "--rate-limit-key", "0", "--rate-limit-identity", "0", "--rate-limit-claim", "0"],
            data, stdout=subprocess.PIPE,
            environment={f"ONYM_{name.upper()}": str(value) for name, value in settings.items()})
        self.base = json.loads(self.process.stdout.readline())["listening"]
        self.store = data / "store" / "onym.db"
        self.address = store
        self.people_taken = 0
        self.start_seconds = time.time() - started

    def metrics(self):
        request = urllib.request.Request(
            f"{self.base}/metrics", headers={"Authorization": f"Bearer {self.keys['admin_key']}"})
        return urllib.request.urlopen(request, timeout=5).read().decode()

    def count_people(self):
        return int(re.search(r"^onym_people (\d+)", self.metrics(), re.MULTILINE)[1])

    def ask(self, statement):
        """The rows that a statement of SQL finds in the store, which is read beside its server. Values are numbers and bytes."""
        if not self.address:
            with contextlib.closing(sqlite3.connect(f"file:{self.store}?mode=ro", uri=True)) as store:
                return store.execute(statement).fetchall()
        text = subprocess.run(
            ["psql", self.address, "-v", "ON_ERROR_STOP=1", "-qAtc", statement], check=True, capture_output=True, text=True,
            env={**os.environ, "PGOPTIONS": "-c search_path=onym"}).stdout
        return [tuple(bytes.fromhex(value[2:]) if value.startswith("\\x") else int(value) if value else None for value in line.split("|"))
                for line in text.splitlines()]

    def take_people(self, count, again=False):
        """A file with the ids of people that are there, others each time unless they may come again."""
        first = 0 if again else self.people_taken
        ids = self.ask(f"SELECT id FROM people ORDER BY id LIMIT {count} OFFSET {first}")
        if len(ids) < count:
            raise SystemExit(f"there are only {first + len(ids)} people")
        self.people_taken = max(self.people_taken, first + count)
        file = self.store.parent.parent / "people.txt"
        file.write_text("".join(f"{id}\n" for (id,) in ids))
        return file


def nginx(folder, static=None):
    """The yardstick; it also serves the compressed files of a folder, by their paths."""
    port = free_port()
    configuration = (HERE / "nginx.conf").read_text().replace("PORT", str(port)).replace("FILES", str(static or folder))
    (folder / "nginx.conf").write_text(configuration)
    process = Process([shutil.which("nginx") or "/usr/sbin/nginx", "-p", folder, "-c", "nginx.conf"], folder)
    process.base = f"http://127.0.0.1:{port}"
    wait_for(process.base)
    return process


runs = 0


def wrk(server, seconds, kind="warm", count=64, key="none", people=None, nonce=None, delay=None):
    """One sample: requests a second, p50 and p99 in ms, and the server's CPU in µs a request."""
    global runs
    runs += 1
    environment = dict(os.environ, KIND=kind, WEB_KEY=key, SEED=f"{os.getpid()}x{runs}", COUNT=str(count))
    if people:
        environment["PEOPLE"] = str(people)
    if nonce:
        environment["NONCE"] = nonce
    if delay:
        environment["DELAY"] = str(delay)
    if hasattr(server, "keys"):
        environment["BUNDLE"] = server.keys["claim"]["bundle_id"]
    script = ["-s", HERE / "calls.lua"]
    before = server.cpu_seconds()
    out = subprocess.run(
        ["wrk", f"-t{THREADS}", f"-c{CONNECTIONS}", f"-d{seconds}s", *script, server.base],
        env=environment, capture_output=True, text=True, check=True).stdout
    cpu = server.cpu_seconds() - before
    requests, duration, p50, p99, errors = map(int, re.search(r"result (\d+) (\d+) (\d+) (\d+) (\d+)", out).groups())
    if errors:
        raise SystemExit(f"{errors} of {requests} requests failed:\n{out}")
    return requests / duration * 1e6, p50 / 1000, p99 / 1000, cpu / requests * 1e6


def fill(server, key, people):
    """Makes people until there are enough."""
    made = 0
    while made < people:
        count = min(people - made, 200_000)
        rate = wrk(server, 5, kind="new", count=200_000, key=key)[0]
        made += int(rate * 5)
        print(f"filling: about {made:,} of {people:,} people", file=sys.stderr)


class Client:
    """Calls of the Claim and IDSync dialects and of an administrator, one after the other on one connection."""

    def __init__(self, server):
        self.keys = server.keys
        self.connection = http.client.HTTPConnection(server.base.removeprefix("http://"))
        self.used = time.monotonic()

    def request(self, method, path, body, fields):
        """Sends a request. The server closes a connection that was silent for long, as while a store is filled."""
        if time.monotonic() - self.used > 10:
            self.connection.close()
        self.used = time.monotonic()
        self.connection.request(method, path, body, fields)

    def call(self, method, path, body=None, key=None, expected=200):
        fields = {"Authorization": f"Bearer {key or self.keys['claim']['client_key']}"}
        if body is not None:
            fields["Content-Type"] = "application/json"
        self.request(method, path, json.dumps(body) if body is not None else None, fields)
        answer = self.connection.getresponse()
        text = answer.read()
        if answer.status != expected:
            raise SystemExit(f"{method} {path}: {answer.status} {text}")
        return text

    def claim(self, anonymous, user, expected=200):
        self.call("POST", "/v1/identity/claim", {"anonymous_id": f"owl_anon_{anonymous}", "user_id": user}, expected=expected)

    def identify(self, identities):
        key = self.keys["idsync"]["web_key"]
        body = {"client_sdk": {"platform": "web", "sdk_vendor": "bench", "sdk_version": "1"}, "environment": "production",
                "request_id": str(uuid.uuid4()), "request_timestamp_ms": int(time.time() * 1000),
                "known_identities": identities}
        self.request("POST", "/v1/identify", json.dumps(body), {
            "Content-Type": "application/json", "x-mp-key": key})
        answer = self.connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise SystemExit(f"identify: {answer.status} {text}")
        return json.loads(text)["mpid"]

    def upload(self, person, name, events=EVENTS_PER_UPLOAD, device=None, attributes=None):
        """An upload of a native client, with events that nobody has sent."""
        at = int(time.time() * 1000)
        body = {"dt": "h", "id": name, "ct": at, "sdk": "9.4.0", "dbg": True, "mpid": int(person), "msgs": [
            {"dt": "e", "id": f"{name}-{number}", "ct": at + number, "n": "Product Viewed", "et": "Navigation", "est": at,
             "attrs": {"sku": "A-1001"}} for number in range(events)]}
        if device:
            body["di"] = {"ios_idfv": device}
        if attributes:
            body["ua"] = attributes
        key = self.keys["idsync"]["web_key"]
        self.request("POST", f"/v2/{key}/events", json.dumps(body), {
            "Content-Type": "application/json", "x-mp-key": key})
        answer = self.connection.getresponse()
        text = answer.read()
        if answer.status not in (200, 202):
            raise SystemExit(f"upload: {answer.status} {text}")

    def last_call(self):
        """The number of the last call of the journal."""
        return json.loads(self.admin("GET", "/onym/v1/server"))["last_seq"]

    def admin(self, method, path, body=None):
        return self.call(method, path, body, self.keys["admin_key"])


class Postgres:
    """A PostgreSQL 15 of its own, with its standard settings but for its memory, durable; stopped in the end."""

    programs = pathlib.Path("/usr/lib/postgresql/15/bin")

    def __enter__(self):
        if not self.programs.exists():
            raise SystemExit("There is no PostgreSQL 15 here: Tools/setup bench installs it.")
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="onym-bench-"))
        self.folder.chmod(0o777)
        self.data = self.folder / "cluster"
        self.run("initdb", "-D", self.data, "-A", "trust", "-U", "postgres")
        options = f"-c listen_addresses= -c unix_socket_directories={self.folder} -c shared_buffers=256MB"
        self.run("pg_ctl", "-D", self.data, "-l", self.folder / "log.txt", "-o", options, "-w", "start")
        return self

    def __exit__(self, *_):
        self.run("pg_ctl", "-D", self.data, "-m", "fast", "-w", "stop")
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, program, *arguments, text=None, environment={}):
        # PostgreSQL does not run as root.
        prefix = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        done = subprocess.run(
            [*prefix, self.programs / program, *map(str, arguments)], cwd=self.folder, input=text, capture_output=True,
            text=True, env={**os.environ, **environment})
        if done.returncode != 0:
            raise SystemExit(f"{program}: {done.stderr}")
        return done.stdout

    def sql(self, text):
        return self.run("psql", "-h", self.folder, "-U", "postgres", "-v", "ON_ERROR_STOP=1", "-qAt", text=text)

    @property
    def address(self):
        return f"postgres:///postgres?host={self.folder}&user=postgres"
