"""Headless Chromium, driven over its own debugging pipe: no driver package, no port, no network.

Chromium reads commands from file descriptor 3 and answers on 4, each a JSON text ended by a NUL.
"""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--enable-unsafe-swiftshader", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--remote-debugging-pipe",
    "--window-size=1280,900", "--allow-file-access-from-files",
]
# For one answer, and for one condition to come true: a busy host needs many times what a quiet one does.
PATIENCE_SECONDS = 120


def program():
    """The path of a Chromium, or None."""
    names = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"]
    return next((p for p in map(shutil.which, names) if p), None)


class Browser:
    """One page. Collects what goes wrong in it in `errors`, and every address it asked for in `requests`."""

    def __init__(self):
        self.profile = tempfile.mkdtemp(prefix="bootscope-chromium-")
        to_read, self.to = os.pipe()
        self.of, to_write = os.pipe()
        # Descriptors 3 and 4 are set by the shell, after everything of ours is out of their way.
        high_read, high_write = os.dup(to_read), os.dup(to_write)
        command = ["bash", "-c", f'exec "$@" 3<&{high_read} 4>&{high_write}', "bash", program(), *FLAGS,
                   f"--user-data-dir={self.profile}", "about:blank"]
        self.process = subprocess.Popen(command, pass_fds=[high_read, high_write], stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        for fd in (to_read, to_write, high_read, high_write):
            os.close(fd)
        self.rest, self.number, self.errors, self.requests, self.session = b"", 0, [], [], None
        self.loaded = set()
        # A page of our own: the one that Chromium opens by itself may not be there yet, or still on its way to its address.
        page = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Page.setLifecycleEventsEnabled", enabled=True)

    def __enter__(self):
        return self

    def __exit__(self, _kind, error, _trace):
        if error:
            # What one has to know of a failure stands in the last lines of the log.
            error.add_note(f"the page's errors: {self.errors}")
            error.add_note(f"the page's state: {self._state()}")
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.to)
        os.close(self.of)
        shutil.rmtree(self.profile, ignore_errors=True)

    def _state(self):
        try:
            return self.eval("`${location.href}, ${document.readyState}: ${document.body?.innerText.slice(0, 300)}`")
        except (RuntimeError, OSError, EOFError) as error:
            return f"unknown: {error}"

    def _message(self, deadline):
        while b"\0" not in self.rest:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.of], [], [], left)[0]:
                raise TimeoutError("Chromium did not answer")
            data = os.read(self.of, 1 << 20)
            if not data:
                raise EOFError("Chromium ended")
            self.rest += data
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **params):
        self.number += 1
        command = {"id": self.number, "method": method, "params": params}
        if self.session:
            command["sessionId"] = self.session
        os.write(self.to, json.dumps(command).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            message = self._message(deadline)
            if message.get("id") == self.number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self._note(message)

    def _note(self, message):
        method, params = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.errors.append(params["exceptionDetails"].get("exception", {}).get("description", "exception"))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Page.lifecycleEvent" and params["name"] == "load":
            self.loaded.add(params["loaderId"])
        elif method == "Page.javascriptDialogOpening":
            self.errors.append(f"dialog: {params['message']}")

    def go(self, address):
        """Ends when the new document has loaded. Chromium answers before that: asked then, the old one says that it is
        complete, and a question that is still open when it goes is an error."""
        answer = self.call("Page.navigate", url=address)
        if "errorText" in answer:
            raise RuntimeError(f"{address}: {answer['errorText']}")
        deadline = time.monotonic() + PATIENCE_SECONDS
        while answer["loaderId"] not in self.loaded:
            self._note(self._message(deadline))

    def open(self, path, fragment=""):
        self.go(f"file://{os.path.abspath(path)}{fragment}")

    def eval(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']['exception'].get('description')}")
        return result["result"].get("value")

    def until(self, condition):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self.eval(condition):
            if time.monotonic() > deadline:
                raise TimeoutError(f"never true: {condition}")
            time.sleep(0.05)

    def screenshot(self, path):
        with open(path, "wb") as out:
            out.write(base64.b64decode(self.call("Page.captureScreenshot")["data"]))
