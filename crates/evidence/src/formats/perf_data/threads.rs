//! Keeps the names of threads and their mapped files at the time of the current record. Records come in order of time.

use crate::input::bytes::Bytes;
use crate::input::text::lossy;
use hashbrown::HashMap;
use std::collections::BTreeMap;

/// More threads, or mapped files, than a boot has.
const ENTRIES_MAX: usize = 1 << 18;
/// Addresses from here on belong to the kernel.
const KERNEL_MIN: u64 = 1 << 63;

/// The index of a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct NameNo(usize);

/// The index of a mapped file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileNo(usize);

/// Texts, each stored once.
#[derive(Default)]
struct Texts {
    all: Vec<String>,
    places: HashMap<String, usize>,
}

impl Texts {
    fn place(&mut self, text: &str) -> Option<usize> {
        if let Some(place) = self.places.get(text) {
            return Some(*place);
        }
        let place = self.all.len();
        if place == ENTRIES_MAX {
            return None;
        }
        self.all.push(text.to_owned());
        self.places.insert(text.to_owned(), place);
        Some(place)
    }
}

/// A file in an address space, and the end of its mapping.
#[derive(Clone, Copy)]
struct Mapped {
    end: u64,
    file: FileNo,
}

/// All threads, at one time.
#[derive(Default)]
pub(super) struct Threads {
    names: Texts,
    files: Texts,
    by_tid: HashMap<u64, NameNo>,
    /// Mapped files by process and address.
    maps: HashMap<u64, BTreeMap<u64, Mapped>>,
    entries: usize,
}

impl Threads {
    /// Reads `PERF_RECORD_COMM`: process, thread, name.
    pub(super) fn named(&mut self, body: &[u8]) -> Option<()> {
        let mut bytes = Bytes(body);
        let (_pid, tid) = (bytes.u32()?, bytes.u32()?);
        let name = NameNo(self.names.place(&lossy(bytes.text()?))?);
        self.give(tid.into(), name)
    }

    /// Reads `PERF_RECORD_FORK`: process, parent process, thread, parent thread.
    pub(super) fn forked(&mut self, body: &[u8]) -> Option<()> {
        let mut bytes = Bytes(body);
        let (pid, parent, tid, by) = (bytes.u32()?, bytes.u32()?, bytes.u32()?, bytes.u32()?);
        if let Some(name) = self.by_tid.get(&u64::from(by)).copied() {
            self.give(tid.into(), name)?;
        }
        if pid != parent {
            let maps = self.maps.get(&u64::from(parent)).cloned().unwrap_or_default();
            self.entries += maps.len();
            if self.entries > ENTRIES_MAX {
                self.entries -= maps.len();
                return None;
            }
            self.maps.insert(pid.into(), maps);
        }
        Some(())
    }

    fn give(&mut self, tid: u64, name: NameNo) -> Option<()> {
        if self.by_tid.len() == ENTRIES_MAX && !self.by_tid.contains_key(&tid) {
            return None;
        }
        self.by_tid.insert(tid, name);
        Some(())
    }

    /// Reads `PERF_RECORD_MMAP` or `MMAP2`: process, thread, address, length, offset, 32 bytes more in `MMAP2`, and the
    /// file.
    pub(super) fn mapped(&mut self, body: &[u8], second_form: bool) -> Option<()> {
        let mut bytes = Bytes(body);
        let (pid, _tid, from, length, _offset) = (bytes.u32()?, bytes.u32()?, bytes.u64()?, bytes.u64()?, bytes.u64()?);
        if second_form {
            bytes.take(32)?;
        }
        let path = lossy(bytes.text()?);
        if from >= KERNEL_MIN {
            return Some(());
        }
        self.entries += 1;
        if self.entries > ENTRIES_MAX {
            self.entries -= 1;
            return None;
        }
        let name = path.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or("?");
        let file = FileNo(self.files.place(name.trim_matches(['[', ']']))?);
        self.maps.entry(pid.into()).or_default().insert(from, Mapped { end: from.saturating_add(length), file });
        Some(())
    }

    /// Returns the file that a process has mapped at an address.
    pub(super) fn at(&self, pid: u64, address: u64) -> Option<FileNo> {
        let (_, mapped) = self.maps.get(&pid)?.range(..=address).next_back()?;
        (address < mapped.end).then_some(mapped.file)
    }

    pub(super) fn file(&self, file: FileNo) -> &str {
        self.files.all.get(file.0).map_or("?", String::as_str)
    }

    /// Returns a thread's current name. The idle thread of a CPU has no record of its name.
    pub(super) fn name_of(&self, pid: u64, tid: u64) -> NameNo {
        const NAMELESS: NameNo = NameNo(usize::MAX);
        self.by_tid.get(&tid).or_else(|| self.by_tid.get(&pid)).copied().unwrap_or(if tid == 0 {
            IDLE
        } else {
            NAMELESS
        })
    }

    pub(super) fn name(&self, name: NameNo) -> &str {
        if name == IDLE { "swapper" } else { self.names.all.get(name.0).map_or("?", String::as_str) }
    }

    /// Returns the latest names of all threads.
    pub(super) fn names(&self) -> std::collections::HashMap<u32, Vec<u8>> {
        let named =
            |(tid, name): (&u64, &NameNo)| Some((u32::try_from(*tid).ok()?, self.name(*name).as_bytes().to_vec()));
        self.by_tid.iter().filter_map(named).collect()
    }
}

/// The name of a CPU's idle thread.
const IDLE: NameNo = NameNo(usize::MAX - 1);
