//! The names of functions and threads.

use crate::input::text::{Lines, lossy, seconds, whole_number};
use hashbrown::HashMap;
use timeline::Ns;

/// More mapped files, functions or threads than a directory has.
const ENTRIES_MAX: usize = 1 << 20;

/// Functions, by the files and their mapped addresses.
#[derive(Default)]
pub(crate) struct Functions {
    /// The start and end of each mapping, and the file's name.
    maps: Vec<(u64, u64, String)>,
    /// By the file's path, or by its name where the list has no path: the start and name of each function.
    files: HashMap<String, Vec<(u64, String)>>,
    count: usize,
}

impl Functions {
    /// Adds lines such as `55dd3b55f000-55dd3b564000 r-xp 00000000 00:00 0    /tmp/t build-id:9033…`.
    pub(crate) fn add_map(&mut self, bytes: &[u8]) {
        for line in Lines::new(bytes).take(ENTRIES_MAX.saturating_sub(self.maps.len())) {
            let text = lossy(line.bytes);
            let mut words = text.split_ascii_whitespace();
            let range = words.next().and_then(|range| range.split_once('-'));
            let range = range.and_then(|(from, to)| Some((hex(from)?, hex(to)?)));
            let path = words.nth(4);
            self.maps.extend(range.zip(path).map(|((from, to), path)| (from, to, path.to_owned())));
        }
    }

    /// Adds lines such as `0000000000001229 t fib`, below `# path name: /tmp/t`. Lists of uftrace before 0.10 have no path:
    /// they are of the file of their own name, without `.sym`.
    pub(crate) fn add_symbols(&mut self, file: &str, bytes: &[u8]) {
        let path = Lines::new(bytes).find_map(|line| line.bytes.strip_prefix(b"# path name: ")).map(<[u8]>::trim_ascii);
        let path = path.map_or_else(|| file.into(), lossy);
        let mut all: Vec<(u64, String)> = Vec::new();
        for line in Lines::new(bytes) {
            let text = lossy(line.bytes);
            let mut words = text.splitn(3, ' ');
            let function = words.next().and_then(hex).zip(words.nth(1));
            if self.count < ENTRIES_MAX {
                self.count += usize::from(function.is_some());
                all.extend(function.map(|(address, name)| (address, name.to_owned())));
            }
        }
        all.sort_by_key(|function| function.0);
        self.files.insert(path.into_owned(), all);
    }

    /// Names the function at an address. Without functions of the mapped file: the file. Without a file: the address.
    pub(crate) fn name(&self, address: u64) -> String {
        let mapped = self.maps.iter().find(|(from, to, _)| (*from..*to).contains(&address));
        let Some((from, _, path)) = mapped else { return format!("{address:#x}") };
        let inside = address - from;
        let file = path.rsplit('/').next().unwrap_or(path);
        let Some(all) = self.files.get(path).or_else(|| self.files.get(file)) else { return format!("[{file}]") };
        let before = all.partition_point(|function| function.0 <= inside).checked_sub(1);
        before.map_or_else(|| format!("[{file}]"), |place| all[place].1.clone())
    }
}

fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

/// Threads and their programs.
#[derive(Default)]
pub(crate) struct Tasks {
    /// The program of each process.
    programs: HashMap<u64, String>,
    /// The process of each thread.
    processes: HashMap<u64, u64>,
    /// The time at which each process was forked, and the process that forked it.
    forks: HashMap<u64, (Ns, u64)>,
    /// The earliest time in the list.
    pub(crate) began: Option<Ns>,
}

impl Tasks {
    /// Adds the lines of `task.txt`.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        for line in Lines::new(bytes).take(ENTRIES_MAX) {
            let value = |key: &[u8]| {
                let at = memchr::memmem::find(line.bytes, key)? + key.len();
                let rest = &line.bytes[at..];
                Some(&rest[..memchr::memchr(b' ', rest).unwrap_or(rest.len())])
            };
            let number = |key: &[u8]| value(key).and_then(whole_number);
            let pid = number(b" pid=");
            if let (Some(pid), Some(program)) = (pid, value(b" exename=")) {
                let path = lossy(program);
                let name = path.trim_matches('"').rsplit('/').next().unwrap_or_default().to_owned();
                self.programs.entry(pid).or_insert(name);
            }
            if let (Some(pid), Some(tid)) = (pid, number(b" tid=")) {
                self.processes.insert(tid, pid);
            }
            let at = value(b" timestamp=").and_then(seconds).and_then(|(ns, ..)| i64::try_from(ns).ok());
            self.began = self.began.into_iter().chain(at.map(Ns)).min();
            if let (Some(pid), Some(by), Some(at)) = (pid, number(b" ppid="), at) {
                self.forks.insert(pid, (Ns(at), by));
            }
        }
    }

    /// Returns a thread's program, or the program of the nearest ancestor that has one.
    pub(crate) fn name(&self, tid: u64) -> &str {
        /// A longer chain of forks is damage.
        const DEPTH_MAX: u32 = 64;
        let mut pid = self.processes.get(&tid).copied().unwrap_or(tid);
        for _ in 0..DEPTH_MAX {
            if let Some(name) = self.programs.get(&pid) {
                return name;
            }
            let Some((_, by)) = self.forks.get(&pid) else { break };
            pid = *by;
        }
        "?"
    }

    /// Returns the time at which a process was forked, and the process that forked it.
    pub(crate) fn forked(&self, pid: u64) -> Option<(Ns, u64)> {
        self.forks.get(&pid).copied()
    }
}
