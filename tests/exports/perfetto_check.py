"""Reads perfetto.pftrace with Perfetto's schema and compares it, slice by slice, with csv.csv."""

import csv
import sys
from collections import Counter
from pathlib import Path

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

folder = Path(sys.argv[1])
trace = Trace()
trace.ParseFromString((folder / "perfetto.pftrace").read_bytes())

CLEARED, NEEDS = 1, 2
names, processes, threads, slices, instants = {}, {}, {}, [], []
warnings_track, warnings = None, []
counters, values = {}, []
open_slices, last, tree = {}, {}, {}


def check_known(message, path):
    """No field that Perfetto's schema does not know: those would be silently lost there."""
    known = message.__class__.FromString(message.SerializeToString())
    known.DiscardUnknownFields()
    assert known.SerializeToString() == message.SerializeToString(), f"{path}: unknown fields"


for i, packet in enumerate(trace.packet):
    check_known(packet, f"packet {i}")
    assert packet.trusted_packet_sequence_id == 1
    assert packet.sequence_flags == (CLEARED if i == 0 else NEEDS), f"packet {i}: flags {packet.sequence_flags}"
    assert packet.first_packet_on_sequence == (i == 0)
    for name in packet.interned_data.event_names:
        assert name.iid and name.iid not in names, f"packet {i}: {name.iid} interned twice"
        names[name.iid] = name.name
    for process in packet.process_tree.processes:
        tree[process.pid] = process.ppid, process.cmdline[0]
    if packet.HasField("track_descriptor"):
        track = packet.track_descriptor
        if track.HasField("process"):
            processes[track.process.pid] = track.process.process_name
        elif track.HasField("counter"):
            assert track.uuid not in counters, f"packet {i}: a counter twice"
            counters[track.uuid] = track.name
        elif not track.HasField("thread"):
            assert warnings_track is None and track.name == "warnings", f"packet {i}: a track of nobody's"
            warnings_track = track.uuid
        else:
            assert track.thread.pid in processes, "a thread before its process"
            assert track.thread.tid not in {t.tid for t in threads.values()}, "a thread id twice"
            threads[track.uuid] = track.thread
    if not packet.HasField("track_event"):
        continue
    event, at = packet.track_event, packet.timestamp
    if event.track_uuid == warnings_track:
        assert event.type == TrackEvent.TYPE_INSTANT and packet.HasField("timestamp")
        warnings.append(event.name)
        continue
    if event.track_uuid in counters:
        assert event.type == TrackEvent.TYPE_COUNTER and packet.HasField("timestamp")
        values.append((at, getattr(event, event.WhichOneof("counter_value_field"))))
        continue
    assert event.track_uuid in threads, f"packet {i}: an event before its track"
    stack = open_slices.setdefault(event.track_uuid, [])
    if event.type == TrackEvent.TYPE_INSTANT:
        instants.append((event.track_uuid, at, names[event.name_iid]))
        continue
    assert at >= last.get(event.track_uuid, 0), f"packet {i}: time steps back on its track"
    last[event.track_uuid] = at
    if event.type == TrackEvent.TYPE_SLICE_BEGIN:
        stack.append((at, names[event.name_iid]))
    else:
        assert event.type == TrackEvent.TYPE_SLICE_END and stack, f"packet {i}: an end without a begin"
        begin, name = stack.pop()
        slices.append((event.track_uuid, begin, at, len(stack), name))
assert not any(open_slices.values()), "slices that never end"

with open(folder / "csv.csv", newline="") as file:
    rows = list(csv.DictReader(file))
zero = min(min(int(r["start_ns"]) for r in rows), 0)


def of_csv(r):
    label = " ".join(filter(None, [r["name"], r["detail"]]))
    return r["track_name"], int(r["start_ns"]) - zero, int(r["end_ns"]) - zero, int(r["depth"]), label


def of_trace(s):
    uuid, start, end, depth, name = s
    lane = threads[uuid].thread_name
    return lane.rsplit(" [", 1)[0], start, end, depth, name


tracks = {uuid for uuid, t in threads.items() if t.pid < 10**9 or processes[t.pid] in ("threads", "VMM and firmware")}
got, expected = Counter(of_trace(s) for s in slices if s[0] in tracks), Counter(map(of_csv, rows))
assert got == expected, f"not in the trace: {expected - got}\nonly in the trace: {got - expected}"
assert len(instants) == 2, instants
damaged = "state unknown: recording.json cannot be read (\\x1b[31m is no manifest), so"
assert len(warnings) == 1 and warnings[0].startswith(damaged), warnings
assert warnings_track not in threads
# What the sample's variable was, without the moment at which it was not mapped.
assert values == [(-zero + 410_000_000, 7), (-zero + 700_000_000, 2.0**64)], values
assert len(counters) == 1 and not any("\x1b" in n or "\u202e" in n for n in counters.values()), counters

# The sample's processes, as the kernel numbers them.
assert tree == {1: (0, "init"), 66: (1, processes[66])}, tree
assert sorted(t.tid for t in threads.values() if t.pid < 10**9) == [1, 66]
assert all(t.tid == t.pid for t in threads.values() if t.pid < 10**9)

by_name = {t.thread_name: uuid for uuid, t in threads.items()}
path = [s for s in slices if s[0] == by_name["boot path"] and s[3] == 0]
phases = sorted(s for s in slices if s[0] == by_name["phases"])
end = -zero + 940_000_000
for lane in (sorted(path), phases):
    assert lane[0][1] == -zero and lane[-1][2] == end, "does not cover the boot"
    assert all(a[2] == b[1] for a, b in zip(lane, lane[1:])), "gap or overlap"
assert any(t.thread_name == "CPU 1" for t in threads.values())
assert not any("\x1b" in n or "\u202e" in n for n in names.values())
print(f"perfetto: {len(trace.packet)} packets, {len(slices)} slices on {len(threads)} tracks, {len(names)} names, {len(values)} values: "
      f"all as in the CSV export")
