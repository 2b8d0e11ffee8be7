"""Makes a lake of recordings, and asks it by two engines that share no code with bootscope or with each other.

    lake_check.py BOOTSCOPE FOLDER-OF-PACKED-RECORDINGS

Also runs each question of docs/lake.md. Says what it checked, or stops at the first thing that is not so.
"""

import json
import math
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import datafusion
import duckdb

OF_BOOTS = ["boots", "labels", "metrics", "findings", "units", "initcalls", "rows", "phases"]
TABLES = [*OF_BOOTS, "machines"]


def said(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def check(condition, what):
    if not condition:
        sys.exit(f"check-lake: {what}")


def make(bootscope, recordings, lake):
    said(bootscope, "lake", "add", *recordings, "--to", lake, "--label", "from=kept", "--quiet")
    head = json.loads((Path(lake) / "lake.json").read_text())
    check(head["schema"] == "bootscope.lake/1", head)


class DuckDb:
    def __init__(self, lake):
        self.db = duckdb.connect()
        for table in TABLES:
            files = f"read_parquet('{lake}/{table}/*/*.parquet', hive_partitioning = true)"
            self.db.execute(f"CREATE VIEW {table} AS SELECT * FROM {files}")

    def rows(self, sql):
        return self.db.execute(sql).fetchall()


class DataFusion:
    def __init__(self, lake):
        self.context = datafusion.SessionContext()
        for table in TABLES:
            self.context.register_parquet(table, f"{lake}/{table}/", table_partition_cols=[("day", "string")])

    def rows(self, sql):
        batches = self.context.sql(sql).collect()
        return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def alike(a, b):
    if isinstance(a, float) or isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-9)
    return a == b


def both(engines, sql):
    """The answer of all, which is one."""
    first, *others = [engine.rows(sql) for engine in engines]
    for other in others:
        same = len(first) == len(other) and all(alike(x, y) for a, b in zip(first, other) for x, y in zip(a, b))
        check(same, f"engines answer differently: {sql}\n{first[:5]}\n{other[:5]}")
    return first


def check_boots(engines, bootscope, recordings):
    """Each boot's figures, found by its kernel, outcome and sums, against what the program says of it alone."""
    found = both(engines, """
        SELECT b.kernel, b.outcome, b.shown_ns, b.explained,
               (SELECT sum(self_ns) FROM rows r WHERE r.boot_id = b.boot_id) AS self_ns,
               (SELECT count(*) FROM rows r WHERE r.boot_id = b.boot_id) AS rows,
               (SELECT sum(length_ns) FROM phases p WHERE p.boot_id = b.boot_id) AS length_ns,
               (SELECT count(*) FROM initcalls i WHERE i.boot_id = b.boot_id) AS initcalls
        FROM boots b ORDER BY b.boot_id""")
    expected = []
    for recording in recordings:
        shown = json.loads(said(bootscope, "show", "--json", recording))
        in_ns = shown["unit"] == "ns"
        sums = [None, 0, None, 0]
        if in_ns:
            sums = [sum(r["self_ns"] for r in shown["where"]) if shown["where"] else None, len(shown["where"]),
                    sum(p["end_ns"] - p["start_ns"] for p in shown["phases"]), len(shown["initcalls"])]
        total = shown["total_ns"] if in_ns else None
        expected.append((shown["subject"]["kernel"], shown["outcome"], total, shown["explained"], *sums))
    order = lambda boot: [str(value) for value in boot]
    found, expected = sorted(found, key=order), sorted(expected, key=order)
    check(len(found) == len(expected), f"{len(found)} boots of {len(expected)}")
    for a, b in zip(found, expected):
        check(all(alike(x, y) if x is not None and y is not None else x == y for x, y in zip(a, b)), f"{a} is not {b}")
    return len(found)


def check_documented(duck, lake):
    """Every question that the document gives, as it stands there."""
    questions = re.findall(r"```sql\n(.*?)```", Path("docs/lake.md").read_text(), re.DOTALL)
    check(len(questions) >= 3, "the document has fewer questions than it had")
    os.chdir(Path(lake).parent)
    for question in questions:
        check(duck.rows(question), f"no answer to: {question}")
    ended = duck.rows("SELECT count(*) FROM boots WHERE ended AND total_ns IS NOT NULL")[0][0]
    check(ended > 0 and sum(row[-2] for row in duck.rows(questions[0])) == ended, "the first question counts other boots")
    return len(questions)


def main(bootscope, folder):
    bootscope = os.path.abspath(bootscope)
    all_kept = sorted(os.path.abspath(path) for path in Path(folder).glob("*.tar.zst"))
    # Those that lack a part are refused, and have a test of their own.
    recordings = [path for path in all_kept if not re.search(r"(-cut|no-symbols)\.tar", path)]
    check(len(recordings) >= 12, "recordings are missing")
    with tempfile.TemporaryDirectory() as scratch:
        lake = f"{scratch}/lake"
        make(bootscope, recordings, lake)
        engines = [DuckDb(lake), DataFusion(lake)]
        for table in OF_BOOTS:
            both(engines, f"SELECT count(*), count(DISTINCT boot_id), min(began), min(cast(day AS text)) FROM {table}")
        machines = both(engines, "SELECT sum(boots), min(first_began), max(last_began) FROM machines")
        check(machines == both(engines, "SELECT count(*), min(began), max(began) FROM boots"), "machines have other boots")
        both(engines, "SELECT name, count(*), min(self_ns), avg(self_ns), max(total_ns) FROM rows GROUP BY name ORDER BY name")
        both(engines, "SELECT hardware, kernel, count(total_ns), sum(total_ns) FROM boots GROUP BY hardware, kernel ORDER BY 1, 2")
        boots = check_boots(engines, bootscope, recordings)
        questions = check_documented(engines[0], lake)
    print(f"check-lake: {boots} boots by DuckDB {duckdb.__version__} and DataFusion {datafusion.__version__} are as "
          f"`show --json` says; {questions} questions of docs/lake.md answered")


main(*sys.argv[1:])
