"""Sends lakes to one in an object store while faults occur, and checks that it has each boot once at the end.

    senders.py FOLDER-OF-PROGRAMS [FAULT...]

FOLDER-OF-PROGRAMS has bootscope-lake and synthetic-fleet. A proxy between a sender and the store simulates the fault. A sender waits two
minutes before it takes over, so all faults are tested at the same time, each in a separate lake. All processes that it starts are on
127.0.0.1, and it ends them. It prints each result or failure.
"""

import contextlib
import http.client
import http.server
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import unquote, urlsplit

from engines import Ours, free_port, object_store

BOOTS, ROWS = 200, 3
# A sender puts `lake.json` and takes the lease. Then, nine times, it updates `adding.json` and puts a table; `boots` is request 20.
KILLS = [1, 5, 8, 15, 19, 20, 21]


class Wrong(Exception):
    """A check failed."""


def check(condition, what):
    if not condition:
        raise Wrong(what)


class Request:
    """A request from a sender to the store. A fault may inspect it, wait, forward it, or answer it."""

    def __init__(self, handler, store):
        self.handler, self.store = handler, store
        self.method, self.path = handler.command, unquote(urlsplit(handler.path).path)
        self.body = handler.rfile.read(int(handler.headers.get("content-length") or 0))

    def is_put_of(self, word):
        return self.method == "PUT" and word in self.path

    def forward(self):
        there = http.client.HTTPConnection(self.store.hostname, self.store.port)
        there.request(self.method, self.handler.path, self.body, dict(self.handler.headers))
        answer = there.getresponse()
        return answer.status, answer.getheaders(), answer.read()

    def answer(self, status, headers=(), body=b""):
        self.handler.send_response(status)
        length = len(body)
        for name, value in headers:
            if name.lower() == "content-length" and self.method == "HEAD":
                length = value
            elif name.lower() not in ("transfer-encoding", "connection", "content-length"):
                self.handler.send_header(name, value)
        self.handler.send_header("content-length", str(length))
        self.handler.end_headers()
        if self.method != "HEAD":
            self.handler.wfile.write(body)
        self.handler.wfile.flush()

    def cut(self):
        """Closes the connection without an answer."""
        self.handler.close_connection = True


@contextlib.contextmanager
def proxy(environment, fault):
    """Starts a proxy before the store, which calls `fault(request)` for each request. Yields the environment for its clients."""
    store = urlsplit(environment["AWS_ENDPOINT_URL"])

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def do_PUT(self):
            # A stopped sender may have closed the connection meanwhile.
            with contextlib.suppress(OSError):
                fault(Request(self, store))

        do_GET = do_HEAD = do_DELETE = do_POST = do_PUT

    server = http.server.ThreadingHTTPServer(("127.0.0.1", free_port()), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield {**environment, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}"}
    finally:
        server.shutdown()


class Place:
    """A new lake to send for each fault, and the empty lake that receives it."""

    def __init__(self, programs, folder, environment, name):
        self.programs, self.environment, self.there = programs, environment, f"s3://boots/{name}"
        self.here = f"{folder}/{name}"
        subprocess.run([f"{programs}/synthetic-fleet", "--to", self.here, "--boots", str(BOOTS), "--rows", str(ROWS), "--days", "1",
                        "--kinds", "4"], check=True, stdout=subprocess.DEVNULL)

    def start(self, environment=None):
        return subprocess.Popen([f"{self.programs}/bootscope-lake", "send", self.here, self.there], text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, env={**os.environ, **(environment or self.environment)})

    def send(self, environment=None):
        """Sends the lake. Returns the number of new boots."""
        process = self.start(environment)
        out, err = process.communicate(timeout=400)
        check(process.returncode == 0, f"send ended with {process.returncode}: {err}")
        return json.loads(out)["new"]

    def is_whole(self):
        """Checks that the lake has each boot once, with all of its rows."""
        ours = Ours(self.programs, self.there, **self.environment)
        found = ours.rows("SELECT count(*), count(DISTINCT boot_id) FROM boots")
        check(found == [(BOOTS, BOOTS)], f"boots, and different ones: {found}")
        for table, of_each in (("rows", ROWS), ("phases", 5)):
            of_them = ours.rows(f"SELECT count(*) FROM {table} r JOIN boots b ON b.boot_id = r.boot_id")
            check(of_them == [(BOOTS * of_each,)], f"{table} of them: {of_them}")


def ended(process, error):
    """Checks that a sender printed its result, or one error that contains the word. Returns the output."""
    out, err = process.communicate(timeout=400)
    if process.returncode == 0:
        return json.loads(out)
    check(process.returncode == 2 and out == "" and error in err and "panicked" not in err, f"{process.returncode}: {out}{err}")
    return err


def slow(place):
    """Each request takes 1.5 s, and another sender sends the same boots meanwhile."""
    def fault(request):
        time.sleep(1.5)
        request.answer(*request.forward())

    with proxy(place.environment, fault) as through:
        first = place.start(through)
        time.sleep(5)
        check(place.send() == 0, "the second found nothing new")
        check(first.wait(400) == 0, first.stderr.read())
    place.is_whole()
    return "a slow one is waited for"


def stopped(place, when):
    """A sender is stopped after the store has done its put of `when`. Another takes over. Then the first continues."""
    sender, seen = [], []

    def fault(request):
        answer = request.forward()
        if request.is_put_of(when):
            seen.append(request.path)
            # The update of `adding.json` in the middle of the first batch.
            if len(seen) == (4 if when == "adding.json" else 1):
                os.kill(sender[0].pid, signal.SIGSTOP)
        request.answer(*answer)

    with proxy(place.environment, fault) as through:
        sender.append(place.start(through))
        time.sleep(10)
        new = place.send()
        check(seen, "it was stopped")
        os.kill(sender[0].pid, signal.SIGCONT)
        # Its last request may have timed out meanwhile.
        ended(sender[0], "timed out")
    check(new == (BOOTS if when == "adding.json" else 0), f"the second sent {new}")
    check(place.send() == 0, "all were there")
    place.is_whole()
    return f"one stood still after it wrote {when}; the second sent {new}"


def late(place):
    """A put of `boots` reaches the store long after another sender took over."""
    another_is_done, is_held = threading.Event(), threading.Event()

    def fault(request):
        if request.is_put_of("/boots/day="):
            is_held.set()
            another_is_done.wait(300)
        request.answer(*request.forward())

    with proxy(place.environment, fault) as through:
        first = place.start(through)
        check(is_held.wait(60), "`boots` is held")
        new = place.send()
        check(new == BOOTS, f"the second sent {new}")
        another_is_done.set()
        said = ended(first, "timed out")
    check(place.send() == 0, "nothing was missing")
    place.is_whole()
    what = said if isinstance(said, str) else f"{len(said['there'])} are there"
    return f"boots that came late are taken back: {what}"


def refused(place):
    """The store refuses a request in the middle."""
    def fault(request):
        if request.is_put_of("/rows/"):
            return request.answer(403)
        request.answer(*request.forward())

    with proxy(place.environment, fault) as through:
        said = ended(place.start(through), "cannot write rows/")
        check(isinstance(said, str), "it is refused")
    check(place.send() == BOOTS, "the next sent all, at once")
    place.is_whole()
    return "who is refused says so; the next sends all"


def cut(place):
    """One of four answers to puts is lost."""
    draw, lock = random.Random(7), threading.Lock()

    def fault(request):
        answer = request.forward()
        with lock:
            is_cut = request.method == "PUT" and draw.random() < 0.25
        if is_cut:
            return request.cut()
        request.answer(*answer)

    tries = 0
    with proxy(place.environment, fault) as through:
        for _ in range(4):
            tries += 1
            process = place.start(through)
            process.communicate(timeout=400)
            if process.returncode == 0:
                break
            check(process.returncode == 2, f"it ended with {process.returncode}")
    place.send()
    place.is_whole()
    return f"answers that never come: {tries} tries"


def killed(place, asked):
    """A sender is killed. The next one takes over."""
    count, lock, sender = [0], threading.Lock(), []

    def fault(request):
        with lock:
            count[0] += request.method == "PUT"
            is_time = count[0] == asked
        if is_time:
            sender[0].kill()
            if asked % 2:
                return request.cut()
        request.answer(*request.forward())

    with proxy(place.environment, fault) as through:
        sender.append(place.start(through))
        sender[0].communicate(timeout=400)
    check(sender[0].returncode == -signal.SIGKILL, "it was killed")
    new = place.send()
    place.is_whole()
    return f"killed at put {asked} of it: {BOOTS - new} boots were there, and then all"


FAULTS = {
    "slow": slow,
    "stopped": lambda place: stopped(place, "adding.json"),
    "stopped-at-boots": lambda place: stopped(place, "/boots/day="),
    "late": late,
    "refused": refused,
    "cut": cut,
    **{f"killed-{put}": lambda place, put=put: killed(place, put) for put in KILLS},
}


def main(programs, *faults):
    with object_store() as environment, tempfile.TemporaryDirectory() as folder:
        def tried(name):
            try:
                return True, FAULTS[name](Place(programs, folder, environment, name))
            except Exception as e:  # noqa: BLE001: each fault says what was wrong, and the others go on
                return False, str(e) if isinstance(e, Wrong) else traceback.format_exc()

        names = faults or list(FAULTS)
        is_well = True
        with ThreadPoolExecutor(len(names)) as pool:
            for name, (is_right, said) in zip(names, pool.map(tried, names)):
                print(f"senders: {name}: {said}" if is_right else f"senders: {name}: WRONG: {said}", flush=True)
                is_well &= is_right
    sys.exit(0 if is_well else 1)


if __name__ == "__main__":
    main(*sys.argv[1:])
