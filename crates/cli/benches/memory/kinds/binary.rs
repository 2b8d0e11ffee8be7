//! Inputs in binary and packed formats, each as dense as the format allows.

use super::text::lines;
use super::{Kind, imported, imported_as, own};
use std::fmt::Write as _;
use std::io::{Read, Write as _};

pub const KINDS: &[Kind] = &[
    own("first executions: blocks", "first-run.bin", |bytes| {
        // Each ends in a call, with a difference of 0 in time, address, bytes and instructions from the one before it.
        repeated(first_executions_header(), &[0x19, 0, 2, 1, 1, 2], bytes)
    }),
    own("first executions: threads", "first-run.bin", |bytes| {
        let file = repeated(first_executions_header(), &[], 0);
        numbered(file, bytes, |i, to| {
            to.push(2);
            leb128(i, to);
        })
    }),
    own("calls: paths", "calls.bin", |bytes| {
        calls(bytes, |i, to| {
            to.extend([0x11, 2]);
            leb128(i, to);
            to.push(2);
        })
    }),
    own("calls: paths of one", "calls.bin", |bytes| calls(bytes, |_, to| to.extend([0x11, 2, 1, 2]))),
    own("calls: spans", "calls.bin", |bytes| {
        calls(bytes, |i, to| {
            to.extend(if i == 0 { &[0x11, 2, 1, 2][..] } else { &[3, 0, 2, 1] });
        })
    }),
    own("calls: sums", "calls.bin", |bytes| {
        calls(bytes, |i, to| {
            to.extend(if i == 0 { &[0x11, 2, 1, 2][..] } else { &[2, 0, 1, 1] });
        })
    }),
    own("calls: intervals", "calls.bin", |bytes| calls(bytes, |_, to| to.extend([9, 1, 1]))),
    own("calls: switches", "calls.bin", |bytes| calls(bytes, |_, to| to.extend([5, 0, 1]))),
    own("calls: other stacks", "calls.bin", |bytes| calls(bytes, |_, to| to.extend([0x01, 2, 0, 2, 1]))),
    imported("perf.data: samples of nothing", |bytes| perf(bytes, 0, |_, to| record(9, &[], to))),
    imported("perf.data: addresses", |bytes| perf(bytes, 1, |i, to| record(9, &i.to_le_bytes(), to))),
    imported("perf.data: stacks", |bytes| {
        perf(bytes, 1 << 5, |i, to| {
            let body: Vec<u8> =
                std::iter::once(1000).chain((0..1000).map(|at| i * 1000 + at)).flat_map(u64::to_le_bytes).collect();
            record(9, &body, to);
        })
    }),
    imported("perf.data: threads", |bytes| {
        perf(bytes, 1 << 1, |i, to| {
            let ids = i << 32 | i & 0xffff_ffff;
            record(3, &[&ids.to_le_bytes()[..], b"a\0\0\0\0\0\0\0"].concat(), to);
            record(9, &ids.to_le_bytes(), to);
        })
    }),
    imported("perf.data: forks", |bytes| {
        perf(bytes, 1 << 1, |i, to| {
            let ids: [u32; 6] = [i as u32 + 1, i as u32, i as u32 + 1, i as u32, 0, 0];
            record(7, &ids.map(u32::to_le_bytes).concat(), to);
        })
    }),
    imported("perf.data: mapped files", |bytes| {
        perf(bytes, 1, |i, to| {
            let place = [i, i * 4096, 4096, 0].map(u64::to_le_bytes).concat();
            record(1, &[&place[..], format!("{i:07x}\0").as_bytes()].concat(), to);
        })
    }),
    imported("perf.data: nothing but attributes", |bytes| perf(bytes, 0, |_, to| record(64, &attribute(0), to))),
    imported("trace.dat: pages of a real trace", |bytes| {
        let pages = trace_dat_pages();
        trace_dat(&pages.repeat((bytes / pages.len()).max(1)))
    }),
    imported("trace.dat: smallest records", |bytes| trace_dat(&smallest_records().repeat((bytes / 4096).max(1)))),
    imported("Perfetto: switches in columns", |bytes| perfetto(bytes, |_| columns(SWITCHES))),
    imported("Perfetto: empty events", |bytes| perfetto(bytes, |_| message(1, &[0x12, 0].repeat(100_000)))),
    imported("Perfetto: markers", |bytes| perfetto(bytes, |_| message(1, &[0x12, 4, 0x1a, 2, 0x12, 0].repeat(50_000)))),
    imported("Perfetto: names", |bytes| {
        perfetto(bytes, |i| {
            let name = format!("{i:x}");
            let mut thread = vec![8];
            leb128(i, &mut thread);
            thread.extend(message(2, name.as_bytes()));
            message(2, &message(2, &thread))
        })
    }),
    imported("Perfetto: slices never ended", |bytes| perfetto_tracks(bytes, |_| vec![0x40, 1, 0x5a, 2, 0x48, 1])),
    imported("Perfetto: slices with names", |bytes| {
        perfetto_tracks(bytes, |i| {
            let mut name = Vec::new();
            leb128(i, &mut name);
            let text: Vec<u8> = name.iter().map(|byte| byte & 0x7f).collect();
            [&[0x40, 1][..], &message(11, &[&[0x48, 1][..], &message(23, &text)].concat())].concat()
        })
    }),
    imported("Perfetto: tracks", |bytes| {
        perfetto_tracks(bytes, |i| {
            let mut event = vec![0x48, 1, 0x58];
            leb128(i, &mut event);
            [&[0x40, 1][..], &message(11, &event)].concat()
        })
    }),
    imported("Perfetto: sequences", |bytes| {
        perfetto_tracks(bytes, |i| {
            let mut packet = vec![0x50];
            leb128(i, &mut packet);
            packet
        })
    }),
    imported("Perfetto: compressed", |bytes| {
        let mut packing = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::none());
        let packet = message(1, &columns(SWITCHES));
        packing.write_all(&packet).expect("packs in memory");
        let packed = packing.finish().expect("packs in memory");
        perfetto(bytes, |_| message(50, &packed))
    }),
    imported("TSLOG in memory", |bytes| {
        let image = include_bytes!("../../../../../fuzz/seeds/tslog_image/one-boot");
        image.repeat((bytes / image.len()).max(1))
    }),
    imported("bootstage: tree", |bytes| {
        let (mut nodes, strings) = (vec![], b"mark\0name\0");
        let token = |token: u32, to: &mut Vec<u8>| to.extend(token.to_be_bytes());
        for node in ["\0\0\0\0", "bootstage\0\0\0"] {
            token(1, &mut nodes);
            nodes.extend(node.as_bytes());
        }
        while nodes.len() < bytes {
            token(1, &mut nodes);
            nodes.extend(b"a\0\0\0");
            for number in [3, 4, 0, 1] {
                token(number, &mut nodes);
            }
            token(2, &mut nodes);
        }
        [2, 2, 9].into_iter().for_each(|end| token(end, &mut nodes));
        let (structs_at, strings_at) = (56, 56 + nodes.len() as u32);
        let total = strings_at + strings.len() as u32;
        let head =
            [0xd00d_feed, total, structs_at, strings_at, 40, 17, 16, 0, strings.len() as u32, nodes.len() as u32];
        let head: Vec<u8> = head.into_iter().flat_map(u32::to_be_bytes).collect();
        [&head, &[0; 16][..], &nodes, strings].concat()
    }),
    imported("uftrace: calls never left", |bytes| uftrace(bytes, |i| (i, 0, i))),
    imported("uftrace: calls", |bytes| uftrace(bytes, |i| (i, i & 1, 1))),
    imported("uftrace: functions", |bytes| {
        let symbols = lines("# symbols: 1\n", bytes, |i, to| write!(to, "{i:016x} T {i:x}"));
        tar(&[
            ("d/1.dat", &uftrace_record(1, 0, 1)),
            ("d/t.sym", &symbols),
            ("d/task.txt", b"SESS timestamp=1.5 pid=7 sid=a exename=\"/t\"\n"),
        ])
    }),
    imported("uftrace: tasks", |bytes| {
        let tasks = lines("SESS timestamp=1.5 pid=7 sid=a exename=\"/t\"\n", bytes, |i, to| {
            write!(to, "TASK timestamp=1.6 tid={i} pid={i}")
        });
        tar(&[("d/1.dat", &uftrace_record(1, 0, 1)), ("d/task.txt", &tasks)])
    }),
    imported("gzip: zeros", |bytes| gzip(&vec![0; bytes])),
    imported("gzip: kernel log", |bytes| {
        gzip(&lines("[    0.000001] Linux version 6\n", bytes, |_, to| write!(to, "[0.1]a")))
    }),
    imported("gzip of gzip", |bytes| gzip(&gzip(&vec![b'\n'; bytes]))),
    imported("gzip of tar: empty files", |bytes| gzip(&tar_of_empty(bytes))),
    imported("tar: empty files", tar_of_empty),
    imported("tar: a log of each", |bytes| {
        let log = lines("[    0.000001] Linux version 6\n", 512, |_, to| write!(to, "[0.1]a"));
        let files = vec![("a", &log[..]); bytes / 1024];
        tar(&files)
    }),
    imported("tar: long names", |bytes| {
        let mut archive = tar::Builder::new(Vec::new());
        let name = "a".repeat(bytes);
        let mut header = tar::Header::new_gnu();
        header.set_size(0);
        archive.append_data(&mut header, name, &[][..]).expect("an archive in memory");
        archive.into_inner().expect("an archive in memory")
    }),
    imported("tar of tar", |bytes| tar(&[("a.tar", &tar(&[("a", &vec![b'\n'; bytes])]))])),
    imported("zstd: not a recording", |bytes| zstd::bulk::compress(&vec![0; bytes], 3).expect("packs")),
    imported_as("pack: empty notes", "a.tar.zst", |bytes| {
        let notes = r#""","#.repeat(bytes / 3);
        let manifest = format!(r#"{{"schema":"bootscope.recording/1","notes":[{notes}""]}}"#);
        pack(&[("r/recording.json", manifest.as_bytes()), ("r/kmsg.log", b"6,1,1,-;a\n")])
    }),
    imported_as("pack: zeros", "a.tar.zst", |bytes| {
        pack(&[
            ("r/recording.json", super::MANIFEST),
            ("r/kmsg.log", b"6,1,1,-;a\n"),
            ("r/console.log", &vec![0; bytes]),
        ])
    }),
    imported_as("pack: empty files", "a.tar.zst", |bytes| {
        let names: Vec<String> = (0..bytes / 512).map(|i| format!("r/{i:x}")).collect();
        let mut files: Vec<(&str, &[u8])> = vec![("r/recording.json", super::MANIFEST), ("r/kmsg.log", b"6,1,1,-;a\n")];
        files.extend(names.iter().map(|name| (&**name, &b""[..])));
        pack(&files)
    }),
];

/// The header of `first-run.bin` with the host's clock.
fn first_executions_header() -> Vec<u8> {
    let mut file = b"BSFIRST\n\x01\0\0\x01".to_vec();
    file.extend(1u32.to_le_bytes());
    [600u64, 1000].into_iter().for_each(|ns| file.extend(ns.to_le_bytes()));
    file.extend(b"x86_64\0\0");
    file
}

/// `calls.bin` with one chunk. Its first record is the bottom of a stack.
fn calls(bytes: usize, mut record: impl FnMut(u64, &mut Vec<u8>)) -> Vec<u8> {
    let mut file = b"BSCALLS\n\x01\0\0\x01".to_vec();
    file.extend(1u32.to_le_bytes());
    [600u64, 1000, 1_000_000_000, 1, 1, 1].into_iter().for_each(|number| file.extend(number.to_le_bytes()));
    file.extend(b"x86_64\0\0");
    file.extend([0; 8]);
    let mut records = vec![0x01, 2, 0, 2, 1];
    for i in 0.. {
        if records.len() >= bytes {
            break;
        }
        record(i, &mut records);
    }
    file.extend(b"CHNK");
    file.extend((records.len() as u32).to_le_bytes());
    file.extend([0; 4]);
    file.extend(records);
    file
}

/// A header, followed by these bytes repeatedly.
fn repeated(mut file: Vec<u8>, record: &[u8], bytes: usize) -> Vec<u8> {
    while file.len() < bytes {
        file.extend(record);
    }
    file
}

fn numbered(mut file: Vec<u8>, bytes: usize, mut record: impl FnMut(u64, &mut Vec<u8>)) -> Vec<u8> {
    for i in 0.. {
        if file.len() >= bytes {
            break;
        }
        record(i, &mut file);
    }
    file
}

fn leb128(mut number: u64, to: &mut Vec<u8>) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

/// The format of `perf record -o -`, with one event whose samples have these fields.
fn perf(bytes: usize, sample_type: u64, record_of: impl FnMut(u64, &mut Vec<u8>)) -> Vec<u8> {
    let mut file = b"PERFILE2".to_vec();
    file.extend(16u64.to_le_bytes());
    record(64, &attribute(sample_type), &mut file);
    numbered(file, bytes, record_of)
}

fn attribute(sample_type: u64) -> Vec<u8> {
    let mut attribute = [0u32.to_le_bytes(), 64u32.to_le_bytes()].concat();
    [0, 0, sample_type, 0, 0, 0, 0].into_iter().for_each(|number: u64| attribute.extend(number.to_le_bytes()));
    attribute
}

fn record(number: u32, body: &[u8], to: &mut Vec<u8>) {
    to.extend(number.to_le_bytes());
    to.extend([1, 0]);
    to.extend((body.len() as u16 + 8).to_le_bytes());
    to.extend(body);
}

/// Switches in a packet of columns.
const SWITCHES: usize = 50_000;

/// A Perfetto trace: a packet with events, and then packets with this content.
fn perfetto(bytes: usize, mut packet: impl FnMut(u64) -> Vec<u8>) -> Vec<u8> {
    numbered(message(1, &columns(1)), bytes, |i, to| to.extend(message(1, &packet(i))))
}

/// A Perfetto trace: a packet with the event of a track, and then packets with this content.
fn perfetto_tracks(bytes: usize, mut packet: impl FnMut(u64) -> Vec<u8>) -> Vec<u8> {
    numbered(message(1, &message(11, &[0x48, 3])), bytes, |i, to| to.extend(message(1, &packet(i))))
}

/// A packet's content: switches of a CPU as columns of stamps, states, threads, priorities and indexes of names.
fn columns(switches: usize) -> Vec<u8> {
    let names = message(5, b"a");
    let columns = [1, 2, 3, 4].map(|column| message(column, &vec![1; switches])).concat();
    message(1, &message(4, &[names, columns, message(6, &vec![0; switches])].concat()))
}

/// A field of a protobuf message with a length.
fn message(field: u64, content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    leb128(field << 3 | 2, &mut bytes);
    leb128(content.len() as u64, &mut bytes);
    bytes.extend(content);
    bytes
}

/// A real file of version 6, and the position in it of the offset and length of the first CPU's pages.
fn trace_dat_file() -> (Vec<u8>, usize) {
    let packed: &[u8] = include_bytes!("../../../../evidence/tests/data/trace-dat/record-v6.dat.gz");
    let mut file = Vec::new();
    flate2::read::GzDecoder::new(packed).read_to_end(&mut file).expect("a file of the tests");
    let place = memchr::memmem::find(&file, b"flyrecord\0").expect("a file of the tests") + 10;
    (file, place)
}

fn trace_dat_pages() -> Vec<u8> {
    let (file, place) = trace_dat_file();
    let number = |at: usize| u64::from_le_bytes(*file[at..].first_chunk().expect("a number")) as usize;
    file[number(place)..][..number(place + 8)].to_vec()
}

/// The real file with other pages.
fn trace_dat(pages: &[u8]) -> Vec<u8> {
    let (mut file, place) = trace_dat_file();
    let at = file.len().next_multiple_of(4096);
    file.resize(at, 0);
    file[place..][..8].copy_from_slice(&(at as u64).to_le_bytes());
    file[place + 8..][..8].copy_from_slice(&(pages.len() as u64).to_le_bytes());
    file.extend(pages);
    file
}

/// A page of eight-byte records of the first event in the real file.
fn smallest_records() -> Vec<u8> {
    let id = trace_dat_pages()[20..22].to_vec();
    let mut page = vec![0; 8];
    page.extend(4080u64.to_le_bytes());
    while page.len() < 16 + 4080 {
        page.extend(2u32.to_le_bytes());
        page.extend(&id);
        page.extend([0; 6]);
    }
    page.resize(4096, 0);
    page
}

fn uftrace_record(stamp: u64, kind: u64, address: u64) -> Vec<u8> {
    [stamp.to_le_bytes(), (address << 16 | 5 << 3 | kind).to_le_bytes()].concat()
}

/// A directory with the calls of a thread: stamp, 0 or 1, address.
fn uftrace(bytes: usize, call: impl Fn(u64) -> (u64, u64, u64)) -> Vec<u8> {
    let calls: Vec<u8> = (1..=bytes as u64 / 16)
        .flat_map(|i| {
            let (stamp, kind, address) = call(i);
            uftrace_record(stamp, kind, address)
        })
        .collect();
    tar(&[("d/1.dat", &calls), ("d/task.txt", b"SESS timestamp=1.5 pid=7 sid=a exename=\"/t\"\n")])
}

/// The unpacked size that a file declares; 0 if it is not packed.
pub fn unpacked_bytes(bytes: &[u8]) -> usize {
    match bytes {
        [0x1f, 0x8b, .., a, b, c, d] => u32::from_le_bytes([*a, *b, *c, *d]) as usize,
        _ => zstd::zstd_safe::get_frame_content_size(bytes).ok().flatten().unwrap_or_default() as usize,
    }
}

/// Compresses bytes with gzip.
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packing = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
    packing.write_all(bytes).expect("packs in memory");
    packing.finish().expect("packs in memory")
}

fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (name, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, name, *content).expect("an archive in memory");
    }
    archive.into_inner().expect("an archive in memory")
}

fn tar_of_empty(bytes: usize) -> Vec<u8> {
    let log = b"[    0.000001] Linux version 6\n";
    let files: Vec<(&str, &[u8])> =
        std::iter::once(("a", &log[..])).chain(vec![("b", &b""[..]); bytes / 512]).collect();
    tar(&files)
}

fn pack(files: &[(&str, &[u8])]) -> Vec<u8> {
    zstd::bulk::compress(&tar(files), 3).expect("packs")
}
