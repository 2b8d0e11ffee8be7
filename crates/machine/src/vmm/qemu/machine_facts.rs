//! Asks QEMU what a machine demands that bootscope does not know: CPUs, memory, buses, a device tree.
//!
//! QEMU makes the machine without a kernel, first with bootscope's defaults, and then without what the machine refuses. So no limit of a
//! board is written down here, and no message of QEMU is interpreted. The answers are cached like those about the plugin.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use recording::GuestSpec;
use serde_json::Value;

use crate::child::ends_with_us;
use crate::memo;
use crate::vmm::MachineFacts;

/// A file that cannot be made, so that QEMU only says whether there is a device tree to save.
const UNWRITABLE: &str = "/proc/bootscope/device-tree";

/// The facts about a guest's machine; `None` if QEMU does not have the machine. `identity` names QEMU's file.
pub(super) fn machine_facts(qemu: &Path, identity: &str, machine: &str) -> Option<MachineFacts> {
    let key = format!("{identity}\n{machine}");
    memo::recall("machine", &key).or_else(|| {
        let facts = ask(qemu, machine)?;
        memo::remember("machine", &key, &facts);
        Some(facts)
    })
}

/// Makes the machine with the usual CPUs and memory, or with as much of them as it accepts.
fn ask(qemu: &Path, machine: &str) -> Option<MachineFacts> {
    let usual = GuestSpec::default();
    let cpus = ["-smp".to_owned(), usual.cpus.to_string()];
    let memory = ["-m".to_owned(), format!("{}M", usual.memory_bytes >> 20)];
    let attempts = [[&cpus[..], &memory[..]].concat(), memory.to_vec(), cpus.to_vec(), Vec::new()];
    attempts.iter().find_map(|size| parse(&answers(qemu, machine, size)?, machine))
}

/// QEMU's answers to all questions, one in each line; `None` if it does not start.
fn answers(qemu: &Path, machine: &str, size: &[String]) -> Option<String> {
    let ask = |command: &str, arguments: Value| {
        serde_json::json!({ "execute": command, "id": command, "arguments": arguments }).to_string() + "\n"
    };
    let none = || serde_json::json!({});
    let questions = [
        ask("qmp_capabilities", none()),
        ask("query-machines", none()),
        ask("query-cpus-fast", none()),
        ask("query-memory-size-summary", none()),
        ask("human-monitor-command", serde_json::json!({ "command-line": "info qtree" })),
        ask("dumpdtb", serde_json::json!({ "filename": UNWRITABLE })),
        ask("quit", none()),
    ];
    let mut command = Command::new(qemu);
    command
        .args(["-machine", machine])
        .args(size)
        .args(["-accel", "tcg", "-nodefaults", "-display", "none", "-S", "-qmp", "stdio"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    // If bootscope were killed before it sent `quit`, QEMU would wait for it for ever.
    ends_with_us(&mut command);
    let mut child = command.spawn().ok()?;
    if let Some(mut stdin) = child.stdin.take() {
        // The result is ignored: a QEMU that refuses the machine does not read this, and its exit status reports it.
        let _ = stdin.write_all(questions.concat().as_bytes());
    }
    let output = child.wait_with_output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The facts in QEMU's answers; `None` if the CPUs or the memory are missing.
fn parse(answers: &str, machine: &str) -> Option<MachineFacts> {
    let answers: Vec<Value> = answers.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let answer = |to: &str| answers.iter().find(|answer| answer["id"] == to);
    let cpus = answer("query-cpus-fast")?["return"].as_array()?.len();
    let tree = answer("human-monitor-command")?["return"].as_str()?;
    let name = machine.split(',').next();
    let is_it = |entry: &&Value| [&entry["name"], &entry["alias"]].into_iter().any(|is| is.as_str() == name);
    let entry = answer("query-machines").and_then(|all| all["return"].as_array()?.iter().find(is_it));
    let makes_device_tree = answer("dumpdtb").and_then(|answer| {
        let error = answer["error"]["desc"].as_str()?;
        // The error's class of a QEMU without this command differs.
        (answer["error"]["class"] == "GenericError").then(|| !error.contains("have a"))
    });
    Some(MachineFacts {
        cpus: u32::try_from(cpus).ok().filter(|&cpus| cpus > 0)?,
        memory_bytes: answer("query-memory-size-summary")?["return"]["base-memory"].as_u64()?,
        takes_memory_file: entry.is_some_and(|entry| entry["default-ram-id"].is_string()),
        has_io_ports: tree.lines().any(|line| line.trim() == "type ISA" || line.trim() == "bus: isa.0"),
        makes_device_tree,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    const ANSWERS: &str = r#"{"QMP": {"version": {}}}
{"return": {}, "id": "qmp_capabilities"}
{"id": "query-machines", "return": [{"name": "x"}, {"name": "board-7.2", "alias": "board", "default-ram-id": "ram"}]}
{"id": "query-cpus-fast", "return": [{"cpu-index": 0}, {"cpu-index": 1}]}
{"id": "query-memory-size-summary", "return": {"base-memory": 134217728}}
{"id": "human-monitor-command", "return": "bus: main-system-bus\r\n  type System\r\n"}
{"id": "dumpdtb", "error": {"class": "GenericError", "desc": "This machine doesn't have a FDT"}}
"#;

    #[test]
    fn answers_are_read_by_what_they_answer() {
        let facts = parse(ANSWERS, "board,secure=on").unwrap();
        let expected = MachineFacts {
            cpus: 2,
            memory_bytes: 128 << 20,
            takes_memory_file: true,
            has_io_ports: false,
            makes_device_tree: Some(false),
        };
        assert_eq!(facts, expected);
        let with = |from: &str, to: &str| parse(&ANSWERS.replace(from, to), "board");
        let makes = |desc: &str| with("This machine doesn't have a FDT", desc).unwrap().makes_device_tree;
        assert_eq!(makes("Error saving FDT to file"), Some(true));
        assert_eq!(makes("This machine doesn't have an FDT"), Some(false));
        assert_eq!(with("GenericError", "CommandNotFound").unwrap().makes_device_tree, None, "QEMU before 7.2");
        assert!(with("type System", "type ISA").unwrap().has_io_ports);
        assert!(!parse(ANSWERS, "another").unwrap().takes_memory_file);
        for (cut, _) in ANSWERS.match_indices('\n') {
            let _ = parse(&ANSWERS[..cut], "board");
        }
        assert_eq!(with(r#"[{"cpu-index": 0}, {"cpu-index": 1}]"#, "[]"), None);
    }

    #[test]
    fn what_the_machine_refuses_is_left_out_of_the_next_question() {
        let dir = tempfile::tempdir().unwrap();
        let qemu = dir.path().join("qemu");
        let answers = dir.path().join("answers");
        fs::write(&answers, ANSWERS).unwrap();
        let asked = dir.path().join("asked");
        let script = format!(
            "#!/bin/sh\necho \"$*\" >> {}\ncase \"$*\" in *-smp\\ 1*|*-m\\ 512M*) exit 1;; esac\ncat {}\n",
            asked.display(),
            answers.display()
        );
        fs::write(&qemu, script).unwrap();
        fs::set_permissions(&qemu, fs::Permissions::from_mode(0o755)).unwrap();
        let facts = ask(&qemu, "board").unwrap();
        assert_eq!((facts.cpus, facts.memory_bytes), (2, 128 << 20));
        assert_eq!(fs::read_to_string(&asked).unwrap().lines().count(), 4);
        fs::write(&answers, "").unwrap();
        assert_eq!(ask(&qemu, "board"), None);
    }
}
