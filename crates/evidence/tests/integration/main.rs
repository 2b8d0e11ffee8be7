//! Tests of the readers with whole files of each format, including hostile ones, and the boots that result.

mod android;
mod android_events;
mod any_bytes;
mod consoles;
#[path = "../../../../tests/cpu.rs"]
mod cpu;
mod ends;
mod followed;
mod function_graph;
mod fuzzed;
mod guestfs;
mod hostile_imports;
mod imports;
mod journal_forms;
mod logs;
mod other_systems;
mod pasted;
mod perf_data;
mod perfetto;
mod planted;
mod processes;
mod stacks;
mod subsets;
mod support;
mod systemd_analyze;
mod systemd_state;
mod too_large;
mod trace_dat;
mod traces;
mod tslog;
mod tslog_cpus;
mod tslog_memory;
mod tslog_model;
mod tslog_reference;
mod uftrace;
mod vmm_log;
