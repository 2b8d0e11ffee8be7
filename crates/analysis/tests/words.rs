//! No decision may compare text that a person reads. These tests search the sources of the deciding crates for
//! comparisons of text with a literal or with a named constant. Names that bootscope itself gives are never compared.
//! The files in [`READ`] may compare text that other programs or users write.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use timeline::{Names, Os, Phase};

/// The crates whose decisions rest on types. Each comes after the crates that it may import.
const DECIDING: [&str; 8] = ["evidence", "analysis", "machine", "benchmark", "findings", "report", "campaigns", "cli"];

/// Files that compare a text with a literal, and the origin of the text: a format, the kernel, a command line, or a
/// stored identifier.
const READ: &[(&str, &str)] = &[
    ("analysis/charge.rs", "the first word of a span of initcalls, from the timeline"),
    ("analysis/diff/function_names.rs", "what compilers add to names"),
    ("analysis/groups.rs", "the language of rules"),
    ("analysis/replay/recorded.rs", "a function of FreeBSD's"),
    ("analysis/what_if.rs", "rows as the user names them"),
    ("analysis/what_if/beside.rs", "rows as the user names them"),
    ("analysis/what_if/target_time.rs", "rows as the user names them"),
    ("benchmark/budgets.rs", "the keys of a budget file"),
    ("benchmark/budgets/amount.rs", "the limits of a budget file"),
    ("benchmark/runs.rs", "names that an earlier version wrote"),
    ("benchmark/journal.rs", "the version of a journal"),
    ("benchmark/scaling.rs", "the options of a sweep"),
    ("benchmark/budgets/file.rs", "the names in a file of budgets"),
    ("benchmark/budgets/observed.rs", "the group of a phase's name, which budgets may name"),
    ("benchmark/budgets/reference.rs", "the tables of a file of references"),
    ("benchmark/budgets/undecided.rs", "the user's choice"),
    ("benchmark/variants.rs", "the options of a sweep"),
    ("benchmark/uncountable.rs", "the options of a kernel, and of QEMU"),
    ("benchmark/range/build.rs", "names of files"),
    ("benchmark/tree.rs", "changes as the user writes them"),
    ("benchmark/tree/kconfig.rs", "Kconfig's language, and a configuration's values"),
    ("evidence/formats/android_events.rs", "events of Android's boot"),
    ("evidence/formats/firmware_images.rs", "firmware-images.txt, and modules of EDK2"),
    ("evidence/formats/bootstage.rs", "numbers of a device tree"),
    ("evidence/formats/perfetto/tracks.rs", "categories of a Perfetto trace"),
    ("evidence/formats/stacks.rs", "frames of folded stacks, and DTrace's"),
    ("evidence/formats/vmm_log.rs", "lines of Firecracker's log and of cloud-hypervisor's"),
    ("evidence/readers/calls/build.rs", "functions of Linux"),
    ("evidence/readers/calls/contexts.rs", "functions of Linux"),
    ("evidence/readers/calls/profile.rs", "functions of Linux"),
    ("evidence/readers/calls.rs", "functions of Linux"),
    ("evidence/formats/symbols/aliases.rs", "functions of Linux"),
    ("evidence/readers/first_executions/first_calls.rs", "functions of Linux"),
    ("evidence/formats/symbols/demangle.rs", "mangled names"),
    ("evidence/readers/symbols.rs", "names that users give to files"),
    ("evidence/formats/symbols.rs", "a file of a recording"),
    ("evidence/formats/ftrace/processes.rs", "control groups of systemd's"),
    ("evidence/readers/android_words.rs", "what Android's init says"),
    ("evidence/readers/bootstat.rs", "events of Chrome OS"),
    ("evidence/formats/ftrace/services.rs", "programs and scripts of managers of services"),
    ("machine/awaited.rs", "what systemd logs, and its units"),
    ("machine/vmm/serial/port.rs", "paths of Linux' devices, and their drivers' names"),
    ("evidence/readers/guest_messages.rs", "the messages of guest-init"),
    ("evidence/formats/initcalls/drivers.rs", "the kernel's log"),
    ("evidence/formats/initcalls/parse.rs", "the kernel's log"),
    ("evidence/formats/journal/dated.rs", "names of senders in a journal"),
    ("evidence/formats/journal/short.rs", "what systemd logs"),
    ("evidence/formats/kernel_log.rs", "names of loggers"),
    ("evidence/formats/kernel_log/dmesg_json.rs", "names of values of dmesg --json"),
    ("evidence/formats/kernel_log/imported.rs", "the kernel's log"),
    ("evidence/formats/kernel_log/mail.rs", "the kernel's log"),
    ("evidence/formats/kernel_log/host_stamp.rs", "names of loggers"),
    ("evidence/readers/kernel_log/ends.rs", "the kernel's log and systemd's messages"),
    ("evidence/formats/other_kernels.rs", "first messages of other kernels"),
    ("evidence/readers/boottrace.rs", "events of FreeBSD's boottrace"),
    ("evidence/readers/kernel_log.rs", "the kernel's log"),
    ("evidence/readers/kernel_log/boundaries.rs", "the kernel's log and systemd's messages"),
    ("evidence/readers/kernel_log/speakers.rs", "lines of firmware and loaders"),
    ("evidence/boot/linux/deferrals.rs", "the kernel's log"),
    ("evidence/boot/linux.rs", "the kernel's levels and messages"),
    ("evidence/formats/linux_words.rs", "the kernel's messages"),
    ("evidence/formats/linux_words/user_space.rs", "the kernel's messages, and those of programs in its log"),
    ("evidence/formats/systemd_analyze/line.rs", "what systemd prints"),
    ("findings/detectors/console_replay.rs", "the kernel's messages"),
    ("findings/detectors/log_gaps.rs", "the kernel's messages"),
    ("findings/detectors/log_gaps/causes.rs", "the kernel's messages"),
    ("evidence/boot/linux/excerpt.rs", "the kernel's messages"),
    ("evidence/assemble/meminfo.rs", "/proc/meminfo and the kernel's log"),
    ("evidence/formats/perf_script.rs", "perf script"),
    ("evidence/readers/reader.rs", "files of a recording"),
    ("evidence/formats/silence.rs", "silence.txt"),
    ("evidence/formats/systemd_analyze/settle.rs", "names of systemd's targets"),
    ("evidence/formats/tslog/events.rs", "a function of FreeBSD's"),
    ("evidence/formats/trace_dat/formats.rs", "what a kernel says of its events"),
    ("evidence/formats/tslog/occupancy.rs", "a record's detail"),
    ("evidence/formats/tslog/labels.rs", "the name that it gives to all texts beyond its bound"),
    ("evidence/formats/tslog/rate.rs", "units of a rate"),
    ("evidence/readers/uftrace.rs", "names that uftrace gives to files"),
    ("evidence/formats/vmm.rs", "vmm.json"),
    ("evidence/formats/watched.rs", "watch.txt"),
    ("evidence/formats/systemd_words.rs", "what systemd logs"),
    ("findings/blacklist.rs", "a kernel's command line"),
    ("findings/seen.rs", "the kernel's log"),
    ("findings/detectors/acpi_slots.rs", "the kernel's log, QEMU's arguments and names of machines"),
    ("findings/detectors/allocator_share.rs", "parts of functions' names"),
    ("findings/detectors/async_probe.rs", "a kernel's command line"),
    ("findings/detectors/async_probe/needed.rs", "the kernel's log and command line, and names of devices and drivers"),
    ("findings/detectors/console_characters.rs", "the kernel's log and command line"),
    ("findings/detectors/cpu_bring_up.rs", "the kernel's log and command line"),
    ("findings/detectors/deferred_probes.rs", "the kernel's log"),
    ("findings/detectors/firmware.rs", "QEMU's arguments"),
    ("findings/detectors/initrd.rs", "what the manifest says an initrd is compressed with"),
    ("findings/detectors/keyboard_reset.rs", "a function of FreeBSD's"),
    ("findings/detectors/root_hold.rs", "FreeBSD's names of holds and threads"),
    ("findings/lab_switch.rs", "rows of the reference kernel's table"),
    ("findings/detectors/long_tail.rs", "the columns of its own table"),
    ("findings/detectors/root_wait.rs", "the kernel's log"),
    ("findings/detectors/timer_setup.rs", "QEMU's names of machines, and its arguments"),
    ("findings/detectors/unused_memory.rs", "a kernel's command line"),
    ("findings/detectors/user_programs.rs", "what a shell prints of its commands"),
    ("machine/debug_info.rs", "variables as the user names them"),
    ("machine/ending.rs", "the kernel's messages"),
    ("machine/functions/code.rs", "mangled names and addresses"),
    ("machine/gdb/mod.rs", "a gdbstub's answers"),
    ("machine/host.rs", "/proc of the host"),
    ("machine/kernel_image/kallsyms.rs", "symbols of Linux"),
    ("machine/kernel_file.rs", "sections of a unified kernel image"),
    ("machine/kernel_line.rs", "a kernel's command line"),
    ("machine/lab.rs", "the command line of the reference kernel"),
    ("machine/library.rs", "the name of the folder that the program is in"),
    ("machine/modules.rs", "names of modules' files"),
    ("machine/option_table.rs", "options as the user writes them"),
    ("machine/pin.rs", "/proc of the host"),
    ("machine/stops/names.rs", "functions of Linux"),
    ("machine/symbols.rs", "lists of functions"),
    ("machine/transfer.rs", "files of a recording"),
    ("machine/watch/facts.rs", "lines of a console"),
    ("machine/watch/firmware_images.rs", "QEMU's options"),
    ("machine/watch/service.rs", "answers by HTTP"),
    ("machine/memory/kernel_trace.rs", "symbols of Linux's"),
    ("report/bench/scaling.rs", "the units of a bench's document, and its total"),
    ("report/diff/tables.rs", "a row of sums that the file itself made a few lines before"),
    ("report/export/folded.rs", "the first word of a span of initcalls, from the timeline"),
    ("report/export/tslog.rs", "functions of FreeBSD's"),
    ("report/model_document.rs", "the schema of a document"),
    ("report/fit.rs", "the options and units of a document"),
    ("report/history.rs", "metrics as the user names them"),
    ("campaigns/machine_history/marks.rs", "files of a capture, and fields of a journal"),
    ("report/phase_colour.rs", "phases of any boot, to colour them: it decides nothing"),
    ("report/row_explanations.rs", "rows, to say what they are: it decides nothing"),
    ("report/lab/amount.rs", "functions of the reference kernel"),
    ("report/lake/mod.rs", "the schema of a document"),
    ("report/lake/page.rs", "the time base that a document has as text"),
    ("report/page/mod.rs", "the elements of a page, which it wrote itself"),
    ("report/trials_page.rs", "a kernel's command line"),
    ("campaigns/benches.rs", "the schemas of documents and the endings of files"),
    ("campaigns/check.rs", "a command line"),
    ("cli/document_tests.rs", "Markdown and shell, in tests alone"),
    ("cli/export.rs", "a command line"),
    ("cli/findings.rs", "a command line"),
    ("campaigns/import.rs", "a command line"),
    ("campaigns/opened_boot.rs", "a command line"),
    ("campaigns/lake/bucket.rs", "how a user names a place that is no folder"),
    ("cli/lake/page.rs", "an address"),
    ("campaigns/otlp.rs", "an address, and a collector's answer"),
    ("cli/output.rs", "its own errors, so that a next step is printed once"),
    ("cli/bench.rs", "an option of the command line"),
    ("cli/boot_options.rs", "a command line"),
    ("cli/boot_values.rs", "a command line"),
    ("campaigns/range/bisect.rs", "a command line and git"),
    ("campaigns/trial/apply_change.rs", "a kernel's command line"),
    ("cli/trial/page.rs", "the heading that its own page has above what users write"),
    ("cli/variants.rs", "a command line, and what its parser says"),
    ("campaigns/page_server.rs", "the path of a request"),
    ("cli/view/screen.rs", "the kind of the terminal"),
    ("campaigns/page_server/http.rs", "methods and headers of HTTP"),
];

/// All files here read text from their program.
const READ_ALL: [&str; 4] =
    ["machine/vmm/api.rs", "machine/vmm/cloud_hypervisor/", "machine/vmm/firecracker/", "machine/vmm/qemu/"];

/// Exceptions: a name of bootscope itself is compared here, for the given reason.
const EXCEPTIONS: [(&str, &str, &str); 3] = [
    ("report/row_explanations.rs", timeline::INDIRECT, "a row of a document has a name and nothing else"),
    ("cli/boot_options.rs", "kernel", "an option of a recording has a name and nothing else"),
    ("cli/boot_options.rs", "initrd", "an option of a recording has a name and nothing else"),
];

/// Code before a literal that a text is compared with.
const BEFORE: [&str; 11] = [
    "==",
    "!=",
    "starts_with(",
    "ends_with(",
    "contains(",
    "strip_prefix(",
    "strip_suffix(",
    ".find(",
    ".eq(",
    "split_once(",
    "start_of(",
];

/// Code after such a literal.
const AFTER: [&str; 8] = ["==", "!=", "=>", ") =>", "|", ") |", "].contains(", "].iter().any("];

/// Returns the words that bootscope made, in the form in which no decision may compare them.
fn own_words() -> BTreeSet<String> {
    let names = Names::default();
    let mut words: BTreeSet<String> = Phase::ALL.iter().map(|phase| phase.name(&names).into_owned()).collect();
    let families: Vec<String> =
        words.iter().filter_map(|name| Some(format!("{}: ", name.split_once(": ")?.0))).collect();
    words.extend(families);
    words.extend(["initcalls: ", "initcalls: early", "initcalls: all levels"].map(str::to_owned));
    words.extend([Os::Linux, Os::FreeBsd, Os::NetBsd, Os::Lab].iter().map(|os| os.name().to_owned()));
    words.extend(words_of(RATES_AND_ENDS));
    let others =
        ["reached", "boot path", "tcg", "kvm", "<...>", timeline::INDIRECT, timeline::DECOMPRESS, "kernel log", "QEMU"];
    words.extend(others.map(str::to_owned));
    words
}

/// The source of `report` that makes words from types, for the rate of a clock and the end of a boot.
const RATES_AND_ENDS: &str = "report/sources.rs";

/// Returns the words that a source of `report` makes from types, if they are plain text.
fn words_of(file: &str) -> Vec<String> {
    let (krate, file) = file.split_once('/').unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(krate).join("src").join(file);
    let code = code(&fs::read_to_string(path).unwrap());
    let words: Vec<String> = literals(&code).into_iter().map(|(.., text)| text.to_owned()).collect();
    assert!(words.iter().any(|word| word == "measured on the host"), "{file} has no words: {words:?}");
    words.into_iter().filter(|word| word.trim().contains(' ') && !word.contains('{')).collect()
}

fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        match entry.is_dir() {
            true => sources(&entry, files),
            false => files.push(entry),
        }
    }
}

/// Returns the sources of a crate without its tests, with their paths in it.
fn crate_sources(name: &str) -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    files.retain(|file| file.extension().is_some_and(|e| e == "rs") && !file.ends_with("tests.rs"));
    let path_in_crate = |file: &PathBuf| format!("{name}/{}", file.strip_prefix(&root).unwrap().display());
    files.iter().map(|file| (path_in_crate(file), code(&fs::read_to_string(file).unwrap()))).collect()
}

/// Returns the code without comments and without the tests, which are last in a file.
fn code(text: &str) -> String {
    let are_tests = |from: usize| text[from..].lines().skip(1).take(2).any(|line| line.ends_with("mod tests {"));
    let tests = text.match_indices("#[cfg(test)]").map(|(at, _)| at).find(|&at| are_tests(at));
    let code = &text[..tests.unwrap_or(text.len())];
    code.lines().filter(|line| !line.trim_start().starts_with("//")).map(|line| format!("{line}\n")).collect()
}

/// Returns the string literals in code, each with its start and end. Byte strings and characters are left out.
fn literals(code: &str) -> Vec<(usize, usize, &str)> {
    let bytes = code.as_bytes();
    let mut all = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'\'' if bytes.get(at + 1) == Some(&b'\\') => at += 3,
            b'\'' if bytes.get(at + 2) == Some(&b'\'') => at += 2,
            b'/' if bytes.get(at + 1) == Some(&b'/') => at += code[at..].find('\n').unwrap_or(code.len() - at),
            b'r' if code[at..].starts_with("r#\"") => at += 3 + code[at + 3..].find("\"#").unwrap_or(0) + 1,
            b'"' => {
                let mut end = at + 1;
                while end < bytes.len() && bytes[end] != b'"' {
                    end += if bytes[end] == b'\\' { 2 } else { 1 };
                }
                if at == 0 || bytes[at - 1] != b'b' {
                    all.push((at, end + 1, &code[at + 1..end.min(code.len())]));
                }
                at = end;
            }
            _ => {}
        }
        at += 1;
    }
    all
}

/// True if a text is compared with the literal or name at this place of the code.
fn is_compared(code: &str, from: usize, to: usize) -> bool {
    let before = code[..from].trim_end_matches(|c: char| c.is_whitespace() || c == '&');
    // Skip the other alternatives of a pattern, or the other texts of a list.
    let mut behind = code[to..].trim_start();
    while let Some(rest) = behind.strip_prefix(", \"").or_else(|| behind.strip_prefix(",\n")) {
        let Some(next) = rest.find('"').filter(|_| !rest.trim_start().starts_with(']')) else { break };
        behind = rest[next + 1..].trim_start();
    }
    let statement = before.rfind([';', '{', '}']).map_or(before, |at| &before[at..]);
    if behind.starts_with("if ") || statement.contains("matches!(") {
        return true;
    }
    let is_closure = behind.starts_with("||");
    BEFORE.iter().any(|word| before.ends_with(word))
        || (!is_closure && AFTER.iter().any(|word| behind.starts_with(word)))
}

/// Returns the text constants in the sources, by name. If several have one name, returns all their values.
fn constants(all: &[(String, String)]) -> BTreeMap<String, BTreeSet<String>> {
    let mut constants: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (_, code) in all {
        for (from, _, text) in literals(code) {
            let line = code[..from].rfind('\n').map_or(0, |at| at + 1);
            let statement = code[..from].rfind(';').map_or(line, |at| at.max(code[..from].rfind('}').unwrap_or(0)));
            if let Some((_, name)) = code[statement..from].split_once("const ") {
                if let Some((name, _)) = name.split_once(": &str =") {
                    constants.entry(name.to_owned()).or_default().insert(text.to_owned());
                }
            }
        }
    }
    constants
}

/// Returns the texts that a source compares with.
fn compared(code: &str, constants: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<String> {
    let literals = literals(code);
    let by_itself = literals.iter().filter(|(from, to, _)| is_compared(code, *from, *to));
    let mut texts_compared: BTreeSet<String> = by_itself.map(|(.., text)| (*text).to_owned()).collect();
    for (name, values) in constants {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        for (at, _) in code.match_indices(name.as_str()) {
            let whole = !code[..at].ends_with(is_name) && !code[at + name.len()..].starts_with(is_name);
            let path = code[..at].trim_end_matches(|c: char| is_name(c) || c == ':').len();
            let is_of_a_type = code[path..at].contains(|c: char| c.is_ascii_uppercase());
            if whole && !is_of_a_type && is_compared(code, path, at + name.len()) {
                texts_compared.extend(values.iter().cloned());
            }
        }
    }
    // An empty text or the end of a line is not a word.
    texts_compared.retain(|text| !text.replace("\\n", "").trim().is_empty());
    texts_compared
}

/// Returns the faults of a source, given the texts that it compares with.
fn faults(file: &str, compared: &BTreeSet<String>, own_words: &BTreeSet<String>) -> Vec<String> {
    let is_exception = |word: &str| {
        EXCEPTIONS.iter().any(|(known_file, word_allowed, _)| *known_file == file && *word_allowed == word)
    };
    let bad = compared.iter().filter(|word| own_words.contains(*word) && !is_exception(word));
    let mut faults: Vec<String> =
        bad.map(|word| format!("{file}: \"{word}\" is a name of bootscope's own: compare its type")).collect();
    let is_read =
        READ.iter().any(|(known_file, _)| *known_file == file) || READ_ALL.iter().any(|all| file.starts_with(all));
    if !is_read && !compared.is_empty() {
        faults.push(format!("{file}: whose words are {compared:?}? Compare types, or add the file to READ"));
    }
    faults
}

#[test]
fn no_decision_compares_what_a_person_reads() {
    let all: Vec<(String, String)> = DECIDING.iter().flat_map(|name| crate_sources(name)).collect();
    assert!(all.len() > 150, "the sources are not where they are looked for: {}", all.len());
    let may_import = |file: &str| -> Vec<(String, String)> {
        let is_in = |source: &str, name: &str| source.split('/').next() == Some(name);
        let place = DECIDING.iter().position(|name| is_in(file, name)).expect("a crate that was searched");
        let sources = all.iter().filter(|(source, _)| DECIDING[..=place].iter().any(|name| is_in(source, name)));
        sources.cloned().chain(crate_sources("timeline")).collect()
    };
    let constants: BTreeMap<&str, _> =
        DECIDING.iter().map(|name| (*name, constants(&may_import(&format!("{name}/"))))).collect();
    let own_words = own_words();
    let mut all_faults: Vec<String> = Vec::new();
    let mut comparing = BTreeSet::new();
    for (file, code) in &all {
        let compared = compared(code, &constants[file.split('/').next().unwrap()]);
        all_faults.extend(faults(file, &compared, &own_words));
        for (exception_file, word, _) in EXCEPTIONS {
            assert!(
                exception_file != file || compared.contains(word),
                "{exception_file} no longer compares \"{word}\""
            );
        }
        if !compared.is_empty() {
            comparing.insert(file.as_str());
        }
    }
    let stale = READ.iter().filter(|(file, _)| !comparing.contains(file));
    all_faults.extend(stale.map(|(file, _)| format!("{file} compares nothing and need not be in READ")));
    assert!(all_faults.is_empty(), "{}", all_faults.join("\n"));
}

/// Differences between architectures are in folders named `arch`, so that a new architecture is added only there.
#[test]
fn no_file_outside_of_arch_names_an_architecture() {
    const NAMES: [&str; 6] = ["\"x86_64\"", "\"i386\"", "\"aarch64\"", "\"arm\"", "\"riscv64\"", "target_arch"];
    // The architecture of a recording that does not name one: a recording from before the manifest had it.
    const KNOWN: &str = "recording/spec.rs";
    let names = DECIDING.iter().chain(&["arch", "recording", "timeline", "../qemu-plugin", "../kernel/guest-init"]);
    let all: Vec<(String, String)> = names.flat_map(|name| crate_sources(name)).collect();
    let named = |code: &str| NAMES.iter().any(|name| code.contains(name));
    let is_of_arch = |file: &str| file.starts_with("arch/") || file.contains("/arch/");
    assert!(all.iter().filter(|(file, code)| is_of_arch(file) && named(code)).count() > 8);
    let outside = all.iter().filter(|(file, code)| !is_of_arch(file) && named(code));
    let outside: Vec<&str> = outside.map(|(file, _)| file.as_str()).filter(|file| *file != KNOWN).collect();
    assert!(outside.is_empty(), "these name an architecture: {outside:?}");
}

/// Code that the search must or must not take for a comparison. Each line is one source.
#[test]
fn a_comparison_is_found_in_every_form() {
    let constants = BTreeMap::from([("EARLY".to_owned(), BTreeSet::from(["early kernel".to_owned()]))]);
    let is_found = |code: &str| compared(code, &constants).contains("early kernel");
    for code in [
        "if name == \"early kernel\" {",
        "if \"early kernel\" != name {",
        "if name == &\"early kernel\".to_owned() {",
        "boot.start_of(\"early kernel\")",
        "let early = names.find(\"early kernel\");",
        "name.starts_with(\"early kernel\")",
        "match name {\n    \"early kernel\" => 1,",
        "match name {\n    \"kernel\" | \"early kernel\" if late => 1,",
        "match name {\n    Some(\"early kernel\") => 1,",
        "if [\"early kernel\", \"process 1\"].contains(&name) {",
        "if [\"process 1\", \"early kernel\"].iter().any(|n| *n == name) {",
        "if name == EARLY {",
        "if name == phases::EARLY {",
        "matches!(name, \"early kernel\" | \"kernel\")",
        "matches!(name, \"kernel\" | \"early kernel\")",
    ] {
        assert!(is_found(code), "{code}");
    }
    for code in [
        "names.intern(\"early kernel\")",
        "Phase::EarlyKernel => \"early kernel\",",
        "line.starts_with(b\"early kernel\")",
        "if id == NameId::EARLY {",
        "if at == NEARLY {",
    ] {
        assert!(!is_found(code), "{code}");
    }
    let early = BTreeSet::from(["early kernel".to_owned()]);
    assert_eq!(
        faults("evidence/boot/linux.rs", &early, &own_words()).len(),
        1,
        "also in a file that reads somebody's words"
    );
    assert_eq!(faults("evidence/assemble/merge.rs", &early, &own_words()).len(), 2);
    assert_eq!(code("// \"x\"\nlet a = 1;\n#[cfg(test)]\nmod tests {\nlet c = 2;\n"), "let a = 1;\n");
}
