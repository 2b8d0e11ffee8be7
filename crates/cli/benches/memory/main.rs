//! The most memory that each reader and view takes, compared with the limit of 8 times the bytes read plus 64 MB: `make
//! memory`.
//!
//! It generates inputs of 1, 8 and 64 MB for each kind, as dense as the format allows: shortest lines, empty names, all
//! names different, calls that never return. One child process imports an input, others show it and make a page of it.
//! The table has the peak of each child, as the kernel reports it after its end. A second table has the largest peak of
//! each format, for SECURITY.md. The exit status is 1 if a row exceeds the limit.
//!
//! `cargo bench -p bootscope --bench memory -- [--mb N]… [--views] [NAME]…`: only these sizes, also the other views,
//! only kinds whose name contains one of these words.

#![allow(unsafe_code, reason = "wait4 is a call of C")]

mod kinds;

use kinds::{Kind, LOG, MANIFEST};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// The program under test.
const BOOTSCOPE: &str = env!("CARGO_BIN_EXE_bootscope");
const MB: usize = 1 << 20;
const SIZES_MB: [usize; 3] = [1, 8, 64];
/// The time limit of a command. A slower one is ended and its row counts as a failure, because time must be bounded by
/// the input too.
const MAX_TIME: Duration = Duration::from_secs(100);

/// The resource use of a child.
struct ResourceUse {
    peak_mb: f64,
    seconds: f64,
    /// The bytes that it printed or wrote.
    output: u64,
    status: i32,
}

/// The views that `--views` adds.
const OTHER_VIEWS: [&[&str]; 5] =
    [&["show"], &["findings"], &["export", "folded"], &["export", "perfetto"], &["export", "firefox"]];

fn main() -> ExitCode {
    let all: Vec<String> = std::env::args().collect();
    if let [_, option, kind, bytes, work, ..] = &*all
        && option == GENERATE
    {
        generate(kind, bytes, Path::new(work));
        return ExitCode::SUCCESS;
    }
    let (sizes, names, views) = match arguments() {
        Ok(read) => read,
        Err(wrong) => {
            eprintln!("memory: {wrong}; usage: memory [--mb N]… [--views] [NAME]…");
            return ExitCode::from(2);
        }
    };
    let work = tempfile::Builder::new().prefix("memory").tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    println!("| input | MB | command | peak MB | of the rule | output MB | s |\n|---|---|---|---|---|---|---|");
    let (mut is_kept, mut peaks) = (true, Peaks::new());
    for kind in kinds::all().filter(|kind| names.is_empty() || names.iter().any(|name| kind.name.contains(&**name))) {
        for &mb in &sizes {
            is_kept &= measure(kind, mb, views, work.path(), &mut peaks);
        }
    }
    print_peaks(&sizes, &peaks);
    if is_kept { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

/// The largest peak of a format at each size, in MB, and true if it keeps the limit.
type Peaks = BTreeMap<&'static str, BTreeMap<usize, (f64, bool)>>;

fn print_peaks(sizes: &[usize], peaks: &Peaks) {
    let cells = |cell: &dyn Fn(usize) -> String| sizes.iter().map(|&mb| cell(mb)).collect::<Vec<String>>().join(" | ");
    println!("\n| largest peak in MB, input of | {} |", cells(&|mb| format!("{mb} MB")));
    println!("|---|{}", "---|".repeat(sizes.len()));
    for (format, of_sizes) in peaks {
        let cell = |mb| match of_sizes.get(&mb) {
            Some((peak, true)) => format!("{peak:.0}"),
            Some((peak, false)) => format!("**{peak:.0}**"),
            None => String::new(),
        };
        println!("| {format} | {} |", cells(&cell));
    }
}

/// The sizes in MB, the words for names, and true if all views are requested.
fn arguments() -> Result<(Vec<usize>, Vec<String>, bool), String> {
    let (mut sizes, mut names, mut views) = (Vec::new(), Vec::new(), false);
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--views" => views = true,
            "--mb" => {
                let size = arguments.next().and_then(|size| size.parse().ok());
                sizes.push(size.ok_or("--mb takes a number")?);
            }
            option if option.starts_with('-') => return Err(format!("there is no option {option}")),
            name => names.push(name.to_owned()),
        }
    }
    if sizes.is_empty() {
        sizes = SIZES_MB.to_vec();
    }
    Ok((sizes, names, views))
}

/// The first argument of the child process that generates an input: `--generate KIND BYTES FOLDER`.
const GENERATE: &str = "--generate";

/// Writes an input of a kind, and prints the number of bytes that bootscope reads of it.
fn generate(name: &str, bytes: &str, work: &Path) {
    let kind = kinds::all().find(|kind| kind.name == name).expect("a kind of input");
    let input = (kind.make)(bytes.parse().expect("a number of bytes"));
    let recording = work.join("recording");
    if kind.is_own {
        fs::create_dir(&recording).expect("a folder");
        let manifest: &[u8] = if kind.file == "recording.json" { &input } else { MANIFEST };
        fs::write(recording.join("recording.json"), manifest).expect("a manifest");
        fs::write(recording.join("kmsg.log"), LOG).expect("a log");
        fs::write(recording.join(kind.file), &input).expect("the input");
        if kind.file.starts_with("firmware") || kind.file.starts_with("console") {
            fs::write(recording.join(kind.file.replace(".log", ".idx")), "0 1000\n").expect("an index");
        }
    } else if kind.is_pack() {
        fs::write(&recording, &input).expect("the input");
    } else {
        fs::write(work.join(kind.file), &input).expect("the input");
    }
    println!("{}", kinds::binary::unpacked_bytes(&input).max(input.len()));
}

/// Generates an input in a child process, and returns the number of bytes that bootscope reads of it. The peak that the
/// kernel reports for a child is at least the peak of the process that started it, so this process must stay small.
fn generate_in_child(kind: &Kind, mb: usize, work: &Path) -> usize {
    let program = std::env::current_exe().expect("this program");
    let bytes = (mb * MB).to_string();
    let child = Command::new(program).args([GENERATE, kind.name, &bytes]).arg(work).stderr(Stdio::inherit()).output();
    let printed = String::from_utf8(child.expect("a child").stdout).expect("a number");
    printed.trim().parse().expect("a number")
}

/// Generates an input, and prints the resource use of each command on it. Returns true if all keep the limit.
fn measure(kind: &Kind, mb: usize, views: bool, work: &Path, peaks: &mut Peaks) -> bool {
    let (recording, output) = (work.join("recording"), work.join("output"));
    let _ = fs::remove_dir_all(&recording).or_else(|_| fs::remove_file(&recording));
    let read = generate_in_child(kind, mb, work);
    let mut is_kept = true;
    let mut row = |command: &str, usage: &ResourceUse| {
        let rule = 8.0 * read as f64 / MB as f64 + 64.0;
        // Status 2 means that the program refuses the input with a message.
        let is_good = usage.peak_mb <= rule && matches!(usage.status, 0..=2);
        is_kept &= is_good;
        let format = kind.name.split_once(':').map_or(kind.name, |(format, _)| format);
        let peak = peaks.entry(format).or_default().entry(mb).or_insert((0.0, true));
        *peak = (peak.0.max(usage.peak_mb), peak.1 && is_good);
        println!(
            "| {} | {:.0} | {command} | {:.0} | {:.0} %{} | {:.1} | {:.1} |",
            kind.name,
            read as f64 / MB as f64,
            usage.peak_mb,
            100.0 * usage.peak_mb / rule,
            if is_good { String::new() } else { format!(" **NO**, status {}", usage.status) },
            usage.output as f64 / MB as f64,
            usage.seconds
        );
    };
    if !kind.is_own && !kind.is_pack() {
        let file = work.join(kind.file);
        let import =
            run(&[&["import"], &[&*file.to_string_lossy(), "-o", &recording.to_string_lossy()][..]].concat(), &output);
        row("import", &import);
        if import.status != 0 {
            return is_kept;
        }
    }
    let recording = recording.to_string_lossy().into_owned();
    row("show --json", &run(&["show", &recording, "--json"], &output));
    let page = work.join("page.html");
    let mut report = run(&["report", &recording, "--force", "-o", &page.to_string_lossy()], &output);
    report.output = fs::metadata(&page).map_or(0, |page| page.len());
    row("report", &report);
    if views {
        for view in OTHER_VIEWS {
            row(&view.join(" "), &run(&[view, &[&*recording]].concat(), &output));
        }
        row("diff", &run(&["diff", &recording, &recording, "--json"], &output));
    }
    is_kept
}

/// Runs the program in a child process.
#[allow(clippy::zombie_processes, reason = "wait4 waits for it, and says what it used")]
fn run(arguments: &[&str], output: &Path) -> ResourceUse {
    let (file, began) = (File::create(output).expect("a file"), Instant::now());
    let home = output.with_file_name("home");
    let mut command = Command::new(BOOTSCOPE);
    command.args(arguments).env("HOME", &home).env("XDG_DATA_HOME", &home).stdout(file).stderr(Stdio::null());
    let mut child = command.spawn().expect("the program");
    let (mut status, mut usage) = (0, std::mem::MaybeUninit::<libc::rusage>::zeroed());
    let pid = libc::pid_t::try_from(child.id()).expect("a process' number");
    loop {
        // SAFETY: both pointers are to live variables of the types that wait4 fills in. The child belongs to this
        // process, and no other code waits for it.
        let ended = unsafe { libc::wait4(pid, &raw mut status, libc::WNOHANG, usage.as_mut_ptr()) };
        match ended {
            0 => std::thread::sleep(Duration::from_millis(2)),
            ended if ended == pid => break,
            _ => panic!("wait4 of {arguments:?}: {}", std::io::Error::last_os_error()),
        }
        if began.elapsed() > MAX_TIME {
            child.kill().expect("a child that still runs");
        }
    }
    // SAFETY: it was zeroed, which is a valid value of the type, and wait4 filled it in.
    let usage = unsafe { usage.assume_init() };
    let status = if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { 128 + libc::WTERMSIG(status) };
    ResourceUse {
        peak_mb: usage.ru_maxrss as f64 / 1024.0,
        seconds: began.elapsed().as_secs_f64(),
        output: fs::metadata(output).map_or(0, |output| output.len()),
        status,
    }
}
