"""Serves the files of the console and its sign-in in front of a server that has neither.

The gate holds the admin key, as the server will hold it. It passes every other call on. The stories run through it until the
server serves the console itself; then the stories run without it.
"""

import gzip
import hashlib
import http.client
import http.server
import json
import mimetypes
import pathlib
import secrets
import sys
import threading
import time

POLICY = (
    "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'none'; "
    "object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
TYPES = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml", ".html": "text/html; charset=utf-8"}
COOKIE = "onym_gate"


class Files:
    """The set of files, with one hash for all of them."""

    def __init__(self, folder):
        folder = pathlib.Path(folder)
        self.all = {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}
        digest = hashlib.sha256()
        for name, content in self.all.items():
            digest.update(name.encode() + b"\0" + len(content).to_bytes(8, "big") + content)
        self.set = digest.hexdigest()[:16]
        self.all["index.html"] = self.all["index.html"].replace(b"{set}", self.set.encode())
        self.packed = {name: gzip.compress(content, 9, mtime=0) for name, content in self.all.items()}


class Gate:
    """A server on a free port of this machine. `code()` answers a link's code."""

    def __init__(self, folder, upstream, admin_key):
        self.files = Files(folder)
        self.upstream = upstream
        self.admin_key = admin_key
        self.codes = {}
        self.sessions = {}
        self.seen = []
        self.delays = {}
        gate = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do(self):
                gate.handle(self)

            do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do

        class Server(http.server.ThreadingHTTPServer):
            def handle_error(self, *_):
                # A browser that leaves resets its connections.
                if not isinstance(sys.exc_info()[1], ConnectionError):
                    super().handle_error(*_)

        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.base = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def code(self, role="admin", name="grace"):
        code = f"oc_{secrets.token_hex(16)}"
        self.codes[code] = {"role": role, "name": name}
        return code

    def end_sessions(self):
        self.sessions.clear()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()

    def handle(self, call):
        body = call.rfile.read(int(call.headers.get("Content-Length") or 0))
        path, _, query = call.path.partition("?")
        self.seen.append((call.command, call.path))
        time.sleep(self.delays.get(path, 0))
        if path in ("/", "/console"):
            return self.file(call, "index.html", "no-store")
        if path == "/favicon.ico":
            return self.file(call, "icon.svg", "no-store")
        if path.startswith("/console/"):
            folder, _, name = path[len("/console/"):].partition("/")
            if folder != self.files.set or name not in self.files.all:
                return self.problem(call, 404, "console_changed", "This server has another version of the console.")
            return self.file(call, name, "public, max-age=31536000, immutable")
        if path == "/onym/v1/console/session":
            return self.session(call, body)
        session = self.sessions.get(self.cookie(call))
        if path.startswith("/onym/v1/"):
            if call.headers.get("Onym-Console") != "1":
                return self.problem(call, 403, "not_the_console", "This call lacks the console's header.")
            if not session:
                return self.problem(call, 401, "unauthorized", "Nobody is signed in.")
            if session["role"] == "viewer" and call.command != "GET":
                return self.problem(call, 403, "forbidden", "A viewer may only look.")
        self.pass_on(call, body)

    def cookie(self, call):
        for part in (call.headers.get("Cookie") or "").split(";"):
            name, _, value = part.strip().partition("=")
            if name == COOKIE:
                return value
        return None

    def session(self, call, body):
        if call.command == "POST":
            code = json.loads(body or b"{}").get("code")
            if code not in self.codes:
                return self.problem(call, 401, "code_unknown", "This link is not valid.")
            known = self.codes[code]
            if known is None:
                return self.problem(call, 401, "code_used", "This link has been used. Each link works once.")
            self.codes[code] = None
            token = secrets.token_hex(32)
            self.sessions[token] = {
                **known, "project": {"id": "1", "name": "Demo"}, "mode": "development", "expires_at": "2099-01-01T00:00:00.000Z",
                "scopes": ["console:read"],
            }
            cookie = f"{COOKIE}={token}; HttpOnly; SameSite=Strict; Path=/"
            return self.answer(call, 201, json.dumps(self.sessions[token]).encode(), "application/json", {"Set-Cookie": cookie})
        session = self.sessions.get(self.cookie(call))
        if call.command == "DELETE":
            self.sessions.pop(self.cookie(call), None)
            return self.answer(call, 200, b"{}", "application/json")
        if not session:
            return self.problem(call, 401, "unauthorized", "Nobody is signed in.")
        return self.answer(call, 200, json.dumps(session).encode(), "application/json")

    def pass_on(self, call, body):
        connection = http.client.HTTPConnection(self.upstream, timeout=90)
        fields = {name: call.headers[name] for name in ("Content-Type", "Idempotency-Key", "Accept") if call.headers.get(name)}
        fields["Authorization"] = f"Bearer {self.admin_key}"
        try:
            connection.request(call.command, call.path, body or None, fields)
            answer = connection.getresponse()
            content = answer.read()
        except OSError:
            return self.problem(call, 503, "unavailable", "The server behind the gate is away.")
        finally:
            connection.close()
        keep = {name: answer.headers[name] for name in ("X-Request-Id", "Retry-After") if answer.headers.get(name)}
        self.answer(call, answer.status, content, answer.headers.get("Content-Type", "application/json"), keep)

    def file(self, call, name, caching):
        tag = f'"{self.files.set}"'
        fields = {"Cache-Control": caching, "ETag": tag, "Vary": "Accept-Encoding"}
        if call.headers.get("If-None-Match") == tag and name != "index.html":
            return self.answer(call, 304, b"", None, fields)
        content = self.files.all[name]
        if "gzip" in (call.headers.get("Accept-Encoding") or ""):
            content = self.files.packed[name]
            fields["Content-Encoding"] = "gzip"
        self.answer(call, 200, content, TYPES.get(pathlib.Path(name).suffix) or mimetypes.guess_type(name)[0], fields)

    def problem(self, call, status, code, detail):
        document = {"type": "about:blank", "title": "Problem", "status": status, "detail": detail, "code": code, "request_id": secrets.token_hex(8)}
        self.answer(call, status, json.dumps(document).encode(), "application/problem+json")

    def answer(self, call, status, content, kind, fields=None):
        try:
            call.send_response(status)
            for name, value in {**HEADERS, **(fields or {})}.items():
                call.send_header(name, value)
            if kind:
                call.send_header("Content-Type", kind)
            call.send_header("Content-Length", str(len(content)))
            call.end_headers()
            if call.command != "HEAD":
                call.wfile.write(content)
        except (BrokenPipeError, ConnectionResetError):
            pass
