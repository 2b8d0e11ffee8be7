"""Queries one lake with all engines and compares the answers: bootscope-lake here, on a Ballista cluster and from an object store;
DuckDB, DataFusion's own package, and Spark.

    engines.py FOLDER-OF-PROGRAMS [PART...]
    engines.py FOLDER-OF-PROGRAMS speed LAKE

FOLDER-OF-PROGRAMS has bootscope-lake, ballista-here and synthetic-fleet. The parts are `here`, `cluster`, `killed`, `s3`, `spark`; without
any, all of them run. All processes that it starts are on 127.0.0.1, and it ends them. It prints each check, and stops at the first
failure.
"""

import contextlib
import json
import math
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

TABLES = ["boots", "labels", "metrics", "findings", "units", "initcalls", "rows", "phases", "machines"]
BOOTS = 20_000

# The same queries for all engines: a table, a group, a join, a percentile and a window.
QUESTIONS = [
    "SELECT count(*) AS n, sum(total_ns) AS s, min(kernel) AS k FROM boots",
    "SELECT hardware, kernel, count(*) AS n, sum(total_ns) AS s FROM boots GROUP BY hardware, kernel ORDER BY hardware, kernel",
    "SELECT kernel, percentile_cont(0.95) WITHIN GROUP (ORDER BY total_ns) AS p95 FROM boots GROUP BY kernel ORDER BY kernel",
    "SELECT hardware, name, count(*) AS n, sum(self_ns) AS s, max(total_ns) AS m FROM rows WHERE ended GROUP BY hardware, name "
    "ORDER BY hardware, name",
    "SELECT day, count(*) AS n FROM boots WHERE day >= '2026-02-01' GROUP BY day ORDER BY day",
    "SELECT b.kernel, f.id, count(*) AS n, sum(f.cost_ns) AS s FROM findings f JOIN boots b ON b.boot_id = f.boot_id "
    "GROUP BY b.kernel, f.id ORDER BY b.kernel, f.id",
    "SELECT * FROM (SELECT boot_id, total_ns, row_number() OVER (PARTITION BY hardware ORDER BY total_ns DESC, boot_id) AS place FROM boots) "
    "AS x WHERE place <= 2 ORDER BY boot_id",
    "SELECT p.name, count(*) AS n, sum(p.length_ns) AS s FROM phases p GROUP BY p.name ORDER BY p.name",
    "SELECT count(*) AS n FROM labels",
    "SELECT day, count(*) AS n, sum(self_ns) AS s FROM rows GROUP BY day ORDER BY day",
    "SELECT sum(boots) AS n FROM machines",
]
ASKED = ["regressions", "outliers", "what-pays", "coverage", "boot-times", "slowest-rows"]


def check(condition, what):
    if not condition:
        sys.exit(f"engines: {what}")


def alike(a, b):
    if isinstance(a, float) or isinstance(b, float):
        return math.isclose(float(a), float(b), rel_tol=1e-9)
    return a == b


def same(found, expected, what):
    check(len(found) == len(expected), f"{what}: {len(found)} rows, {len(expected)} expected")
    for a, b in zip(found, expected):
        check(len(a) == len(b) and all(alike(x, y) for x, y in zip(a, b)), f"{what}: {a} is not {b}")


def free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


def wait_for_port(port, process, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        check(process.poll() is None, f"{process.args[:2]} ended with {process.returncode}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    check(False, f"{process.args[:2]} does not listen on {port}")


class Ours:
    """bootscope-lake, here or on a cluster."""

    def __init__(self, programs, lake, *more, **environment):
        self.program, self.lake, self.more = f"{programs}/bootscope-lake", str(lake), more
        self.environment = {**os.environ, **environment}

    def run(self, command, *args, timeout=300):
        line = [self.program, command, self.lake, *args, *self.more]
        return subprocess.run(line, capture_output=True, text=True, env=self.environment, timeout=timeout)

    def rows(self, sql):
        done = self.run("sql", sql, "--json")
        check(done.returncode == 0, f"{sql}: {done.stderr}")
        return [tuple(row.values()) for row in json.loads(done.stdout)]

    def ask(self, question):
        done = self.run("ask", question, "--json")
        check(done.returncode in (0, 1), f"{question}: {done.stderr}")
        answer = json.loads(done.stdout)
        answer.pop("lake")
        return answer


class Cluster:
    """A scheduler and executors of Ballista."""

    def __init__(self, programs, folder, executors, environment=None):
        self.here, self.folder = f"{programs}/ballista-here", Path(folder)
        self.environment = {**os.environ, "RUST_LOG": "info", **(environment or {})}
        self.port = free_port()
        self.started = []
        self.scheduler = self.start("scheduler", "--bind-host", "127.0.0.1", "--bind-port", str(self.port),
                                    "--executor-timeout-seconds", "15", "--expire-dead-executor-interval-seconds", "5")
        wait_for_port(self.port, self.scheduler)
        self.executors = [self.executor(i) for i in range(executors)]
        time.sleep(2)

    def start(self, *args):
        log = open(self.folder / f"{args[0]}-{len(self.started)}.log", "w")
        process = subprocess.Popen([self.here, *args], stdout=log, stderr=log, env=self.environment)
        self.started.append(process)
        return process

    def executor(self, number):
        work = self.folder / f"work-{number}"
        work.mkdir()
        flight, grpc, health = free_port(), free_port(), free_port()
        process = self.start(
            "executor", "--bind-host", "127.0.0.1", "--external-host", "127.0.0.1", "--scheduler-host", "127.0.0.1",
            "--scheduler-port", str(self.port), "--bind-port", str(flight), "--bind-grpc-port", str(grpc),
            "--vcores", "1", "--executor-heartbeat-interval-seconds", "3", "--work-dir", str(work))
        wait_for_port(flight, process)
        return process

    @property
    def url(self):
        return f"df://127.0.0.1:{self.port}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.started:
            process.kill()
            process.wait()


def duckdb_rows(lake):
    import duckdb
    db = duckdb.connect()
    for table in TABLES:
        files = f"read_parquet('{lake}/{table}/*/*.parquet', hive_partitioning = true, hive_types_autocast = 0)"
        db.execute(f"CREATE VIEW {table} AS SELECT * FROM {files}")
    return lambda sql: db.execute(sql).fetchall()


def datafusion_rows(lake):
    import datafusion
    context = datafusion.SessionContext()
    for table in TABLES:
        context.register_parquet(table, f"{lake}/{table}/", table_partition_cols=[("day", "string")])
    return lambda sql: [tuple(row.values()) for batch in context.sql(sql).collect() for row in batch.to_pylist()]


def spark_rows(lake):
    from pyspark.sql import SparkSession
    settings = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    settings = settings.config("spark.sql.sources.partitionColumnTypeInference.enabled", "false")
    spark = settings.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    for table in TABLES:
        spark.read.parquet(f"{lake}/{table}").createOrReplaceTempView(table)
    return lambda sql: [tuple(row) for row in spark.sql(sql).collect()]


def check_here(programs, lake, expected):
    print(f"engines: {len(QUESTIONS)} questions by bootscope-lake and DuckDB: the same answers")
    others = datafusion_rows(lake)
    for sql, rows in zip(QUESTIONS, expected):
        same(others(sql), rows, f"DataFusion's package: {sql}")
    print("engines: and by DataFusion's package")


def check_spark(programs, lake, expected):
    rows = spark_rows(lake)
    for sql, known in zip(QUESTIONS, expected):
        same(rows(sql), known, f"Spark: {sql}")
    print("engines: and by Spark")


def check_cluster(programs, lake, expected):
    with tempfile.TemporaryDirectory() as folder, Cluster(programs, folder, 2) as cluster:
        ours, here = Ours(programs, lake, "--cluster", cluster.url), Ours(programs, lake)
        for sql, known in zip(QUESTIONS, expected):
            same(ours.rows(sql), known, f"on the cluster: {sql}")
        for question in ASKED:
            check(alike_documents(ours.ask(question), here.ask(question)), f"on the cluster, {question} has another answer")
        refused = ours.run("sql", "copy boots to '/tmp/out.csv'")
        check(refused.returncode == 2 and "\n" not in refused.stderr.strip(), f"not refused: {refused}")
        # An executor keeps data for other executors in its folder.
        worked = [i for i in (0, 1) if any((Path(folder) / f"work-{i}").iterdir())]
        check(len(worked) == 2, f"only executors {worked} worked")
    print(f"engines: {len(QUESTIONS)} questions and {len(ASKED)} with statistics on a Ballista cluster of two executors: the same answers")


def alike_documents(a, b):
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(alike_documents(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(alike_documents(x, y) for x, y in zip(a, b))
    if isinstance(a, float) and isinstance(b, float) and (abs(a) < 1e-3 or abs(b) < 1e-3):
        # For probabilities far below one, the order of an engine's summation matters.
        return math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-12)
    return alike(a, b)


def check_killed(programs, lake, expected):
    """Kills an executor while it works. The query must give the right answer or one error."""
    sql = ("SELECT a.hardware, count(*) AS n FROM rows a JOIN rows b ON a.boot_id = b.boot_id AND a.self_ns <= b.self_ns "
           "GROUP BY a.hardware ORDER BY a.hardware")
    known = Ours(programs, lake).rows(sql)
    outcomes = []
    for pause in (0.5, 1.5, 3):
        with tempfile.TemporaryDirectory() as folder, Cluster(programs, folder, 2) as cluster:
            ours = Ours(programs, lake, "--cluster", cluster.url, "--give-up", "3m")
            line = [ours.program, "sql", ours.lake, sql, "--json", *ours.more]
            query = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            time.sleep(pause)
            was_at_work = query.poll() is None
            cluster.executors[0].send_signal(signal.SIGKILL)
            try:
                out, error = query.communicate(timeout=400)
            except subprocess.TimeoutExpired:
                query.kill()
                check(False, f"the query hangs after an executor was killed after {pause} s")
            if query.returncode == 0:
                same([tuple(row.values()) for row in json.loads(out)], known, "after an executor was killed")
                outcomes.append("right" if was_at_work else "done before")
            else:
                check(query.returncode == 2 and out.strip() in ("", "[") and error.strip(), f"{query.returncode} {out} {error}")
                outcomes.append("one error")
    check(set(outcomes) & {"right", "one error"}, "each query was done before its executor was killed")
    print(f"engines: an executor killed in the middle of a query, three times: {', '.join(outcomes)}")


@contextlib.contextmanager
def object_store():
    """Starts an empty S3 server. Yields the environment variables that lead to it."""
    port = free_port()
    server = subprocess.Popen([Path(sys.executable).parent / "moto_server", "-H", "127.0.0.1", "-p", str(port)],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for_port(port, server)
    url = f"http://127.0.0.1:{port}"
    environment = {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any", "AWS_REGION": "us-east-1",
                   "AWS_ENDPOINT_URL": url, "AWS_ALLOW_HTTP": "true"}
    try:
        request = urllib.request.Request(f"{url}/boots", method="PUT")
        urllib.request.urlopen(request).read()
        yield environment
    finally:
        server.kill()
        server.wait()


def copy_of(lake, to):
    subprocess.run(["cp", "-a", lake, to], check=True)
    return str(to)


def check_s3(programs, lake, expected):
    with object_store() as environment, tempfile.TemporaryDirectory() as folder:
        there = "s3://boots/lake"
        sender = lambda source: subprocess.run(
            [f"{programs}/bootscope-lake", "send", source, there], capture_output=True, text=True,
            env={**os.environ, **environment}, timeout=300)
        first = sender(copy_of(lake, f"{folder}/first"))
        check(first.returncode == 0 and json.loads(first.stdout) == {"new": BOOTS, "there": []}, first)
        again = sender(copy_of(lake, f"{folder}/again"))
        check(again.returncode == 0, again)
        said = json.loads(again.stdout)
        check(said["new"] == 0 and len(said["there"]) == BOOTS, "what was sent twice")
        leave_behind(lake, environment)
        ours = Ours(programs, there, **environment)
        for sql, known in zip(QUESTIONS, expected):
            same(ours.rows(sql), known, f"from the object store: {sql}")
        print("engines: from an object store, sent twice and there once, with files of a sender that was killed: the same answers")
        check_two_senders(programs, folder, environment)
        cluster_folder = Path(folder) / "cluster"
        cluster_folder.mkdir()
        with Cluster(programs, cluster_folder, 2, environment) as cluster:
            ours = Ours(programs, there, "--cluster", cluster.url, **environment)
            for sql, known in zip(QUESTIONS[:4], expected):
                same(ours.rows(sql), known, f"from the object store, on the cluster: {sql}")
        print("engines: from an object store, on the cluster: the same answers")


def leave_behind(lake, environment):
    """Puts files without `boots` of boots that the lake has, as after a kill of one of two senders of the same boots."""
    for table in ("rows", "findings", "machines"):
        file = next(Path(lake, table).glob("day=2026-02-0*/*.parquet"))
        url = f"{environment['AWS_ENDPOINT_URL']}/boots/lake/{table}/{file.parent.name}/0123456789abcdef.parquet"
        headers = {"Content-Type": "application/octet-stream"}
        put = urllib.request.Request(url, data=file.read_bytes(), method="PUT", headers=headers)
        urllib.request.urlopen(put, timeout=60).read()


def check_two_senders(programs, folder, environment):
    """Sends three lakes to a fourth at the same time. Two of the three are the same."""
    there = "s3://boots/both"
    command = [f"{programs}/bootscope-lake", "send"]
    for name, seed in (("one", 5), ("two", 6)):
        subprocess.run([f"{programs}/synthetic-fleet", "--to", f"{folder}/{name}", "--boots", "200", "--rows", "3", "--days", "5",
                        "--kinds", "4", "--seed", str(seed)], check=True)
    copy_of(f"{folder}/one", f"{folder}/three")
    started = [subprocess.Popen([*command, f"{folder}/{name}", there], stdout=subprocess.PIPE, text=True,
                                env={**os.environ, **environment}) for name in ("one", "two", "three")]
    sent = [json.loads(process.communicate(timeout=300)[0]) for process in started]
    check(sorted(one["new"] for one in sent) == [0, 200, 200], sent)
    ours = Ours(programs, there, **environment)
    check(ours.rows("SELECT count(*), count(DISTINCT boot_id) FROM boots") == [(400, 400)], "boots of two senders")
    check(ours.rows("SELECT count(*) FROM rows") == [(1200,)], "rows of two senders")
    print("engines: three senders at once: each boot once")


PARTS = {"here": check_here, "cluster": check_cluster, "killed": check_killed, "s3": check_s3, "spark": check_spark}


SUMS = "SELECT hardware, time_base, kernel, day, name, sum(self_ns) AS s FROM rows WHERE ended GROUP BY hardware, time_base, kernel, day, name"
P95 = "SELECT kernel, {} AS p95 FROM boots GROUP BY kernel ORDER BY kernel"


def seconds(work):
    """The median time of three runs."""
    times = []
    for _ in range(3):
        began = time.monotonic()
        work()
        times.append(time.monotonic() - began)
    return sorted(times)[1]


def speed(programs, lake):
    """Prints, as JSON, the time of the same queries with other engines, and on one and two executors."""
    count = f"SELECT count(*), sum(s) FROM ({SUMS}) AS x"
    duckdb = duckdb_rows(lake)
    # Run it as a separate program, like bootscope-lake.
    boots = f"read_parquet('{lake}/boots/*/*.parquet')"
    asked = P95.format("approx_quantile(total_ns, 0.95)").replace("FROM boots", f"FROM {boots}")
    alone = [sys.executable, "-c", f"import duckdb; duckdb.sql({asked!r}).fetchall()"]
    found = {"duckdb_p95_s": seconds(lambda: subprocess.run(alone, check=True)),
             "duckdb_sums_s": seconds(lambda: duckdb(count))}
    here = Ours(programs, lake)
    found["sums_s"] = seconds(lambda: here.rows(count))
    same(here.rows(count), duckdb(count), "the sums")
    for executors, name in ((1, "one_executor_s"), (2, "two_executors_s")):
        with tempfile.TemporaryDirectory() as folder, Cluster(programs, folder, executors) as cluster:
            there = Ours(programs, lake, "--cluster", cluster.url)
            found[name] = seconds(lambda: there.rows(count))
    print(json.dumps(found))


def main(programs, *parts):
    if parts[:1] == ("speed",):
        return speed(programs, parts[1])
    with tempfile.TemporaryDirectory() as folder:
        lake = Path(folder) / "lake"
        subprocess.run([f"{programs}/synthetic-fleet", "--to", lake, "--boots", str(BOOTS), "--rows", "40", "--kinds", "20",
                        "--regressions", "5", "--ratio", "1.2"], check=True)
        ours, duckdb = Ours(programs, lake), duckdb_rows(lake)
        expected = [ours.rows(sql) for sql in QUESTIONS]
        for sql, rows in zip(QUESTIONS, expected):
            check(rows, f"no answer: {sql}")
            same(rows, duckdb(sql), f"DuckDB: {sql}")
        for part in parts or PARTS:
            PARTS[part](programs, lake, expected)


if __name__ == "__main__":
    main(*sys.argv[1:])
