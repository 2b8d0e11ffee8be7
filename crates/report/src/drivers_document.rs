//! Initcalls, and devices whose probe the kernel put off, as `show --json` lists them.

use crate::{Boot, MAX_LISTED};
use analysis::OwnTimes;
use benchmark::is_zero;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use timeline::Cost;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct InitcallLine {
    /// The function.
    pub name: String,
    /// The time of its call.
    pub start_ns: i64,
    /// The time from its call to its return.
    pub elapsed_ns: i64,
    /// The timed waits in `elapsed_ns`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waited_ns: i64,
    /// The part of it that the boot path spent on its thread. Threads that it waited for are not in it, nor is time for
    /// which the boot did not wait.
    #[serde(default)]
    pub path_ns: i64,
    /// The timed waits in `path_ns`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub path_waited_ns: i64,
    /// The thread that ran it.
    pub track: String,
}

/// A device whose probe the kernel put off, because something that it needs is missing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct DeferredProbeLine {
    /// The device.
    pub name: String,
    /// The attempts that were put off, as far as their lengths are known; Linux prints them with `initcall_debug`.
    pub attempts: u64,
    /// The sum of these attempts.
    pub elapsed_ns: i64,
    /// The timed waits in `elapsed_ns`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waited_ns: i64,
    /// The part of `elapsed_ns` that the boot path spent on the attempts' threads.
    pub path_ns: i64,
    /// The timed waits in `path_ns`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub path_waited_ns: i64,
    /// The suppliers in the kernel's words: what the device waits for, what that waits for, and so on. Empty if no
    /// message names one.
    pub suppliers: Vec<String>,
    /// True if the kernel gave up, and no later attempt is known.
    pub is_pending: bool,
}

pub(crate) fn initcall_lines(boot: &Boot, own: &OwnTimes) -> Vec<InitcallLine> {
    let line = |i: &analysis::Initcall| {
        let end = i.start + i.elapsed;
        let on_path = own.within(i.track, i.start, end);
        InitcallLine {
            name: boot.timeline.names.get(i.function).to_owned(),
            start_ns: i.start.0,
            elapsed_ns: i.elapsed.0,
            waited_ns: boot.timeline.cost(i.start, end).waited.0,
            path_ns: on_path.length.0,
            path_waited_ns: on_path.waited.0,
            track: boot.track_name(i.track).to_owned(),
        }
    };
    boot.initcalls().iter().take(MAX_LISTED).map(line).collect()
}

pub(crate) fn deferred_probe_lines(boot: &Boot, own: &OwnTimes) -> Vec<DeferredProbeLine> {
    let name = |id| boot.timeline.names.get(id).to_owned();
    let on_path =
        |attempt: &analysis::Attempt| attempt.span.map_or(Cost::ZERO, |row| own.within(row.track, row.start, row.end));
    let line = |probe: &analysis::DeferredProbe| {
        let elapsed: Cost = probe.attempts.iter().map(|attempt| boot.timeline.cost(attempt.from, attempt.to)).sum();
        let on_path: Cost = probe.attempts.iter().map(on_path).sum();
        DeferredProbeLine {
            name: name(probe.device),
            attempts: probe.attempts.len() as u64,
            elapsed_ns: elapsed.length.0,
            waited_ns: elapsed.waited.0,
            path_ns: on_path.length.0,
            path_waited_ns: on_path.waited.0,
            suppliers: probe.suppliers.iter().map(|&supplier| name(supplier)).collect(),
            is_pending: probe.is_pending,
        }
    };
    let mut lines: Vec<_> = boot.deferred_probes().iter().map(line).collect();
    lines.sort_by_key(|line| Reverse(line.elapsed_ns));
    lines.truncate(MAX_LISTED);
    lines
}
