"""A server with a store of its own, people in it, and a browser in front of it."""

import http.client
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"


class Server:
    """The built program over a new store in a folder that goes away."""

    def __init__(self, program, mode="production", flags=(), has_shim=False):
        self.program = program
        self.folder = tempfile.mkdtemp(prefix="onym-console-")
        self.environment = None
        if has_shim:
            library = self.folder + "/shim.so"
            source = str(pathlib.Path(__file__).resolve().parent / "shim.c")
            subprocess.run([shutil.which("clang") or "cc", "-O1", "-shared", "-fPIC", "-o", library, source], check=True)
            self.environment = {**os.environ, "LD_PRELOAD": library, "ONYM_SHIM": self.folder}
        made = subprocess.run([program, "init", "--data", self.folder + "/data", "--json"], check=True, capture_output=True, text=True)
        self.keys = json.loads(made.stdout)
        # The program takes a free port, and has the same one after another start.
        self.address = "127.0.0.1:0"
        self.log = open(self.folder + "/log", "w")
        self.mode, self.flags = mode, flags
        self.start()

    def start(self):
        before = len(self.log_text())
        # The server of a story that is killed ends with it.
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", self.program, "serve", "--data", self.folder + "/data", "--listen", self.address, "--loops", "1", "--mode", self.mode, *self.flags], stdout=self.log, stderr=self.log, env=self.environment)
        for _ in range(600):
            listening = re.search(r'"listening":"http:\\?/\\?/([0-9.:]+)"', self.log_text()[before:])
            if listening:
                break
            if self.process.poll() is not None:
                raise RuntimeError("The server ends at its start: " + self.log_text())
            time.sleep(0.05)
        else:
            raise RuntimeError("The server does not start: " + self.log_text())
        self.address = listening[1]
        self.base = f"http://{self.address}"

    def set_clock(self, seconds):
        """Sets the clock of the program ahead by some seconds."""
        new = pathlib.Path(self.folder, "offset.new")
        new.write_text(str(seconds))
        new.rename(pathlib.Path(self.folder, "offset"))

    def fill_disk(self, is_full=True):
        """Takes all room from the disk of the program, or gives it back."""
        place = pathlib.Path(self.folder, "full")
        if is_full:
            place.touch()
        else:
            place.unlink()

    def end(self):
        self.process.terminate()
        self.process.wait(20)

    def stop(self):
        self.end()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def link(self, role="admin", *more):
        """The link that `onym console` prints."""
        made = subprocess.run([self.program, "console", "--data", self.folder + "/data", "--role", role, "--name", "grace", *more],
                              check=True, capture_output=True, text=True)
        return made.stdout.strip()

    def end_sessions(self):
        """Revokes all sessions of the console, as `onym keys revoke` does."""
        for key in self.admin("GET", "/onym/v1/keys?limit=200")[1]["keys"]:
            if key["kind"] == "console":
                self.admin("DELETE", f"/onym/v1/keys/{key['id']}")

    def log_text(self):
        self.log.flush()
        return open(self.folder + "/log").read()

    def call(self, method, path, body=None, fields=None):
        connection = http.client.HTTPConnection(self.address, timeout=30)
        content = None if body is None else json.dumps(body).encode("utf-8", "surrogatepass")
        connection.request(method, path, content, {"Content-Type": "application/json", **(fields or {})})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, (json.loads(text) if text.startswith(("{", "[")) else text)

    def admin(self, method, path, body=None):
        return self.call(method, path, body, {"Authorization": f"Bearer {self.keys['admin_key']}"})

    def identify(self, **identities):
        status, answer = self.call("POST", "/v1/identify", {"environment": "development", "known_identities": identities}, {"x-mp-key": self.keys["idsync"]["web_key"]})
        if status != 200:
            raise RuntimeError(f"identify: {status} {answer}")
        return answer["mpid"]

    def event(self, mpid, name, device=None, **attributes):
        body = {"events": [{"event_type": "custom_event", "data": {"event_name": name, "custom_event_type": "other", "custom_attributes": attributes}}],
                "user_attributes": attributes, "mpid": mpid, "environment": "development"}
        if device:
            body["device_info"] = {"ios_idfv": device}
        import base64
        token = base64.b64encode(f"{self.keys['idsync']['key']}:{self.keys['idsync']['secret']}".encode()).decode()
        status, answer = self.call("POST", "/v2/events", body, {"Authorization": f"Basic {token}"})
        if status != 202:
            raise RuntimeError(f"events: {status} {answer}")


class Tab:
    """A tab of the console that notes what no page may do: errors, refused scripts, and calls to other servers."""

    def __init__(self, browser, server, width=1280, height=900, dark=False, context=None):
        self.server = server
        self.context = context or browser.new_context(viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light", reduced_motion="reduce")
        self.page = self.context.new_page()
        self.page.set_default_timeout(30_000)
        self.faults = []
        self.allowed = []
        self.asked = []
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("console", lambda message: self.note(message.text) if message.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda fault: self.note(f"error: {fault}"))
        self.page.on("request", lambda request: None if request.url.startswith((server.base, "blob:" + server.base, "data:")) else self.note(f"foreign: {request.url}"))
        self.page.on("dialog", lambda dialog: (self.note("executed: " + dialog.message), dialog.dismiss()))

    def note(self, text):
        if not any(re.search(pattern, text) for pattern in self.allowed):
            self.faults.append(text)

    def sign_in(self, role="admin", to=None):
        self.page.goto(self.server.link(role))
        self.page.get_by_role("navigation", name="Pages").wait_for()
        if to:
            self.go(to)
        return self

    def go(self, fragment):
        # A new heading says that the page has arrived.
        self.page.evaluate("(to) => { location.hash = to; }", fragment)
        self.page.wait_for_function("(to) => location.hash === to && document.querySelector('h1') && document.querySelector('h1').textContent !== '…'", arg=fragment)
        self.settle()

    def settle(self):
        self.page.wait_for_function("() => !document.querySelector('[aria-busy]')")

    def picture(self, folder, name):
        folder = pathlib.Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=str(folder / f"{name}.png"), full_page=True)
