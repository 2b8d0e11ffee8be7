//! A recording's files, each read once and given to the reader that it belongs to.
//!
//! A recording of our own names its files. In one that was imported, the content of a file decides its format; the files of an
//! archive are imported one by one. No format is known here: the readers say which files they take.

use crate::assemble::archive;
use crate::assemble::detect::{self, Readers};
use crate::assemble::reader_table::{Format, SHARES, YIELDS_TO};
use crate::formats::tslog;
use crate::input::index::Index;
use crate::input::recent::Recent;
use crate::input::text::{HOLE_BYTES_MIN, Lines};
use crate::input::{File, Input, is_imported, unpacked_bytes_max};
use crate::readers::reader::{Own, Reader, Taken};
use recording::Recording;
use std::io::Read;
use std::rc::Rc;
use std::sync::Arc;
use timeline::{DiagnosticKind, Diagnostics, Ns};

/// The files of our own that are compressed are lists of functions, the same for all boots of a kernel: what each became.
static UNPACKED: Recent<(String, Vec<u8>), Unpacked> = Recent::new();

/// The unpacked content of a compressed file, and what is wrong with it.
type Unpacked = (Arc<Vec<u8>>, Diagnostics);

/// A kernel's list has 1 MB. What has more is not kept.
const SHARED_BYTES_MAX: usize = 4 << 20;

/// A reader for each format, with all files of the recording that belong to it.
pub(crate) fn read(recording: &Recording, diagnostics: &mut Diagnostics) -> Result<Readers, recording::Error> {
    let mut readers = detect::readers();
    for (_, reader) in &mut readers {
        for (place, own) in reader.own().iter().enumerate() {
            for input in inputs(recording, *own, diagnostics)? {
                note_holes(&input.file, diagnostics);
                reader.add(Some(place), input, diagnostics);
            }
        }
    }
    for name in imported(recording) {
        let Some(mut file) = file(recording, &name, diagnostics)? else { continue };
        if is_gzip(&file.bytes) {
            file.bytes = gunzip(&file.name, &file.bytes, diagnostics).into();
        }
        for member in archive::members(file, diagnostics) {
            give(member, &mut readers, diagnostics);
        }
    }
    Ok(readers)
}

/// Gives an imported file to the readers that know it.
fn give(file: File, readers: &mut Readers, diagnostics: &mut Diagnostics) {
    note_holes(&file, diagnostics);
    let looked = look(&file.name, &file.bytes, readers, diagnostics);
    if looked.recognised.kinds.is_empty() {
        diagnostics.note(DiagnosticKind::FormatUnknown, || file.name.clone());
    }
    let file = Rc::new(file);
    for (_, reader) in readers.iter_mut().filter(|(format, _)| looked.takers.contains(format)) {
        reader.add(None, Input { file: file.clone(), index: Index::default() }, diagnostics);
    }
}

/// The kinds of evidence in a file, and their readers.
#[derive(Default)]
struct Looked {
    recognised: Recognised,
    /// The readers that get it. Others may have taken lines out of it already.
    takers: Vec<Format>,
}

/// Looks once at a file that has no name of our own. One capture can hold several kinds of evidence.
fn look(name: &str, bytes: &[u8], readers: &mut Readers, diagnostics: &mut Diagnostics) -> Looked {
    let of_a_boot = |kinds| Recognised { kinds, of_a_boot: true, ..Recognised::default() };
    let is_whole = |row: &(Format, Box<dyn Reader>)| Some((row.0, row.1.is_whole(bytes)?));
    if let Some(first) = readers.iter().find_map(is_whole) {
        let beside = readers.iter().filter(|row| SHARES.contains(&(first.0, row.0))).filter_map(is_whole);
        let (takers, kinds) = std::iter::once(first.clone()).chain(beside).unzip();
        return Looked { recognised: of_a_boot(kinds), takers };
    }
    let mut looked = Looked::default();
    let mut rest = Vec::from_iter(Some(0..bytes.len()));
    let mut beside = Vec::new();
    for (_, reader) in readers.iter_mut() {
        match reader.take(name, bytes, diagnostics) {
            Taken::Nothing => {}
            Taken::All(kind) => return Looked { recognised: of_a_boot(vec![kind]), takers: Vec::new() },
            Taken::Lines { kinds, of_a_boot, others } => {
                // Evidence that only helps to read another kind is listed if the file has nothing else.
                if of_a_boot {
                    looked.recognised.kinds.extend(kinds)
                } else {
                    beside.extend(kinds)
                }
                looked.recognised.of_a_boot |= of_a_boot;
                rest = others;
            }
        }
    }
    let is_wanted = |of: Format, lines: u64| {
        let mut all = readers.iter();
        all.any(|(format, reader)| *format == of && reader.wants_files() && lines >= reader.min_lines())
    };
    for found in detect::detect_in(bytes, &rest, readers) {
        if let Some(format) = found.content.format().filter(|format| is_wanted(*format, found.lines)) {
            looked.recognised.kinds.push(format!("{} ({} lines)", found.content, found.lines));
            looked.recognised.of_a_boot = true;
            looked.takers.push(format);
        }
    }
    if looked.recognised.kinds.is_empty() {
        looked.recognised.kinds = beside;
    }
    if looked.recognised.kinds.is_empty() {
        if let Some((format, kind)) =
            readers.iter().find_map(|(format, reader)| Some((*format, reader.may_be_whole(bytes)?)))
        {
            return Looked { recognised: of_a_boot(vec![kind]), takers: vec![format] };
        }
    }
    if !looked.recognised.of_a_boot {
        looked.recognised.instead = readers.iter().find_map(|(_, reader)| reader.without_times(bytes));
    }
    if let [only] = looked.takers[..] {
        let reader = readers.iter().find(|(format, _)| *format == only);
        looked.recognised.next_time = reader.and_then(|(_, reader)| reader.next_time(bytes));
    }
    let all = looked.takers.clone();
    looked.takers.retain(|taker| !YIELDS_TO.iter().any(|(not, beside)| not == taker && all.contains(beside)));
    looked
}

/// The files that a recording of our own has by one name, or by numbered ones.
fn inputs(recording: &Recording, own: Own, diagnostics: &mut Diagnostics) -> Result<Vec<Input>, recording::Error> {
    let plain = |file: Option<File>| file.map(|file| Input { file: Rc::new(file), index: Index::default() });
    Ok(match own {
        Own::Plain(name) => plain(file(recording, name, diagnostics)?).into_iter().collect(),
        Own::Packed(name) => plain(unpacked(recording, name, diagnostics)?).into_iter().collect(),
        Own::PackedNumbered(name) => {
            let names = (1..).map(|n| format!("{name}-{n}.gz"));
            let mut found = Vec::new();
            for name in names.take_while(|name| recording.names().any(|has| has == name)) {
                found.extend(plain(unpacked(recording, &name, diagnostics)?));
            }
            found
        }
        Own::Stream(name) => stream(recording, name, diagnostics)?.into_iter().collect(),
    })
}

/// The content of a file. One that is too large counts as missing, and not the recording as unreadable.
///
/// # Errors
/// If the file cannot be read for another reason.
pub(crate) fn content(
    recording: &Recording,
    name: &str,
    diagnostics: &mut Diagnostics,
) -> Result<Option<Vec<u8>>, recording::Error> {
    match recording.read(name) {
        Err(recording::Error::TooLarge { .. }) => {
            // One that was so before it was opened, `condition` warns of.
            if !recording.too_large().any(|(large, _)| large == name) {
                diagnostics.note_about(DiagnosticKind::FileTooLarge, name, String::new);
            }
            Ok(None)
        }
        read => read,
    }
}

fn file(recording: &Recording, name: &str, diagnostics: &mut Diagnostics) -> Result<Option<File>, recording::Error> {
    let bytes = content(recording, name, diagnostics)?;
    Ok(bytes.map(|bytes| File { name: name.to_owned(), bytes: bytes.into() }))
}

fn stream(recording: &Recording, name: &str, diagnostics: &mut Diagnostics) -> Result<Option<Input>, recording::Error> {
    let Some(file) = file(recording, &format!("{name}.log"), diagnostics)? else { return Ok(None) };
    let idx = format!("{name}.idx");
    let index = Index::read(&idx, &content(recording, &idx, diagnostics)?.unwrap_or_default(), diagnostics);
    Ok(Some(Input { file: Rc::new(file), index }))
}

fn unpacked(
    recording: &Recording,
    name: &str,
    diagnostics: &mut Diagnostics,
) -> Result<Option<File>, recording::Error> {
    let Some(packed) = content(recording, name, diagnostics)? else { return Ok(None) };
    if packed.len() > SHARED_BYTES_MAX {
        return Ok(Some(File { name: name.to_owned(), bytes: gunzip(name, &packed, diagnostics).into() }));
    }
    let known = UNPACKED.find(|known, unpacked| (known.0 == name && known.1 == packed).then(|| unpacked.clone()));
    let (bytes, of_unpacking) = known.unwrap_or_else(|| {
        let mut diagnostics = Diagnostics::default();
        let unpacked = (gunzip(name, &packed, &mut diagnostics).into(), diagnostics);
        UNPACKED.keep((name.to_owned(), packed), unpacked.clone());
        unpacked
    });
    diagnostics.extend(of_unpacking);
    Ok(Some(File { name: name.to_owned(), bytes }))
}

/// Counts the zeros of holes in a text. A file with zeros elsewhere is no text, and may well have many.
fn note_holes(file: &File, diagnostics: &mut Diagnostics) {
    let (mut zeros, mut from) = (0, 0);
    while let Some(at) = memchr::memchr(0, &file.bytes[from..]).map(|at| from + at) {
        let length = file.bytes[at..].iter().take_while(|byte| **byte == 0).count();
        if length < HOLE_BYTES_MIN {
            return;
        }
        (zeros, from) = (zeros + length as u64, at + length);
    }
    diagnostics.add(DiagnosticKind::FileHole, &file.name, zeros, None, || file.name.clone());
}

fn is_gzip(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1f, 0x8b])
}

/// No byte of DEFLATE becomes more.
const UNPACKED_BYTES_EACH_MOST: usize = 1032;

/// The content of a compressed file that is whole and one stream, as nearly all are: at once, and in less than half of the time. Its
/// checksum was right.
fn gunzip_whole(packed: &[u8]) -> Option<Vec<u8>> {
    // Its length, modulo 2^32 (RFC 1952, 2.3.1).
    let bytes = usize::try_from(u32::from_le_bytes(*packed.last_chunk()?)).ok()?;
    let can_be =
        bytes as u64 <= unpacked_bytes_max(packed) && bytes <= packed.len().saturating_mul(UNPACKED_BYTES_EACH_MOST);
    let mut whole = vec![0; Some(bytes).filter(|_| can_be && is_gzip(packed))?];
    // 15 bits of window, and 16 for gzip's header and end.
    let mut unpacking = zlib_rs::Inflate::new(true, 15 + 16);
    let status = unpacking.decompress(packed, &mut whole, zlib_rs::InflateFlush::Finish).ok()?;
    let is_all = (unpacking.total_in(), unpacking.total_out()) == (packed.len() as u64, bytes as u64);
    (status == zlib_rs::Status::StreamEnd && is_all).then_some(whole)
}

/// The content of a compressed file, as far as it can be read.
fn gunzip(name: &str, packed: &[u8], diagnostics: &mut Diagnostics) -> Vec<u8> {
    if let Some(whole) = gunzip_whole(packed) {
        return whole;
    }
    let mut bytes = Vec::new();
    let most = unpacked_bytes_max(packed);
    let mut unpacking = flate2::read::MultiGzDecoder::new(packed).take(most + 1);
    if let Err(e) = unpacking.read_to_end(&mut bytes) {
        diagnostics.note(DiagnosticKind::GzipDamaged, || format!("{name}: {e}"));
    }
    if bytes.len() as u64 > most {
        bytes.truncate(usize::try_from(most).unwrap_or(usize::MAX));
        diagnostics.note(DiagnosticKind::GzipTooLarge, || name.to_owned());
    }
    bytes
}

/// The beginning of a file: itself, or as much as can be unpacked of it, which is no more than `most` bytes.
pub(crate) fn beginning(head: Vec<u8>, most: u64) -> Vec<u8> {
    if !is_gzip(&head) {
        return head;
    }
    let mut bytes = Vec::new();
    // The rest of the file is missing, so the end of the stream is too: what came before it counts.
    let _ = flate2::read::MultiGzDecoder::new(&head[..]).take(most).read_to_end(&mut bytes);
    bytes
}

pub(crate) fn imported(recording: &Recording) -> Vec<String> {
    recording.names().filter(|name| is_imported(name)).map(str::to_owned).collect()
}

/// The part of a file's content that is evidence and used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recognised {
    /// In words, each kind; nothing if none of it is.
    pub kinds: Vec<String>,
    /// True if any of it is of a boot. What only says how fast a counter runs, or what the machine is, does not.
    pub of_a_boot: bool,
    /// True if it is compressed and would become more than [`UNPACKED_BYTES_MAX`]: the rest is not read.
    pub cut: bool,
    /// Advice on the next recording, where the file says less than its machine could.
    pub next_time: Option<&'static str>,
    /// The kind of a known file of which nothing is used, and what to give in its place.
    pub instead: Option<&'static str>,
}

/// Looks what of a file's content is evidence that is used. It is what [`crate::load`] asks of an imported file.
pub fn recognise(bytes: &[u8]) -> Recognised {
    let mut diagnostics = Diagnostics::default();
    let unpacked = is_gzip(bytes).then(|| gunzip("", bytes, &mut diagnostics));
    let cut = diagnostics.count(DiagnosticKind::GzipTooLarge) > 0;
    let bytes = unpacked.as_deref().unwrap_or(bytes);
    if !archive::is_archive(bytes) {
        let mut readers = detect::readers();
        let looked = look("", bytes, &mut readers, &mut diagnostics);
        let without_times = || {
            let [only] = looked.takers[..] else { return None };
            let reader = readers.iter().find(|(format, reader)| *format == only && !reader.has_times(bytes))?;
            reader.1.without_times(bytes)
        };
        if let Some(instead) = without_times() {
            return Recognised { cut, instead: Some(instead), ..Recognised::default() };
        }
        return Recognised { cut, ..looked.recognised };
    }
    let archive = File { name: String::new(), bytes: bytes.to_vec().into() };
    let mut all = Recognised { cut, ..Recognised::default() };
    for member in archive::members(archive, &mut diagnostics) {
        let found = look(&member.name, &member.bytes, &mut detect::readers(), &mut diagnostics).recognised;
        all.of_a_boot |= found.of_a_boot;
        all.instead = all.instead.or(found.instead);
        all.kinds.extend(found.kinds.into_iter().map(|kind| format!("{}: {kind}", member.name)));
    }
    all
}

/// The kernel's event log of a recording, as it was written; empty without a log.
///
/// # Errors
/// If a file cannot be read.
pub fn tslog_log(recording: &Recording) -> Result<tslog::Log, recording::Error> {
    let readers = read(recording, &mut Diagnostics::default())?;
    let mut log = readers.into_iter().find_map(|(_, reader)| reader.into_event_log()).unwrap_or_default();
    log.given_hz(recording.manifest().ticks_hz);
    Ok(log)
}

/// The console of a recording.
pub struct Console(Option<Input>);

impl Console {
    /// Each line without its end, and when its first byte arrived.
    pub fn lines(&self) -> impl Iterator<Item = (Option<Ns>, &[u8])> {
        self.0.iter().flat_map(|stream| {
            Lines::new(&stream.file.bytes).map(|line| (stream.index.arrival(line.offset as u64), line.bytes))
        })
    }
}

/// Reads the console; empty without a console.
///
/// # Errors
/// If the file cannot be read.
pub fn console(recording: &Recording) -> Result<Console, recording::Error> {
    stream(recording, "console", &mut Diagnostics::default()).map(Console)
}
