//! Hand-made tables in each form that they had. `crates/cli/tests/black_box/calls/early_names.rs` compares the tables of real kernels with
//! what the kernels print.

use super::*;
use proptest::prelude::*;

/// Differences between kernels.
#[derive(Clone, Copy, Debug)]
struct Form {
    /// True if offsets and their base stand behind the tokens (6.4), false if in front of all.
    behind: bool,
    /// True if there is a part between markers and tokens (6.2 and 6.3).
    seqs: bool,
    marker_bytes: usize,
    /// True if data per CPU has absolute addresses.
    absolute: bool,
    /// True if addresses are stored in full (before 4.6).
    full: bool,
}

const PLAIN: Form = Form { behind: false, seqs: false, marker_bytes: 4, absolute: true, full: false };
const FORMS: [Form; 6] = [
    PLAIN,
    Form { seqs: true, ..PLAIN },
    Form { behind: true, ..PLAIN },
    Form { behind: true, absolute: false, ..PLAIN },
    Form { marker_bytes: 8, ..PLAIN },
    Form { full: true, absolute: false, ..PLAIN },
];
/// The number of other bytes in the image before the table.
const OTHER_BYTES: u32 = 40_000;
const BASE: u64 = 0xffff_ffff_8100_0000;

/// Symbols with their types, as in a kernel: data per CPU first, names of up to 200 letters.
fn symbols(n: usize) -> Vec<(u64, String)> {
    let code = (0..n as u64).map(|i| {
        let kind = ["t", "T", "d", "W"][i as usize % 4];
        (BASE + i * 0x30, format!("{kind}f{}_{i}", "x".repeat(if i % 100 == 7 { 200 } else { i as usize % 5 })))
    });
    (0..3).map(|i| (i * 8, format!("Aper_cpu_{i}"))).chain(code).collect()
}

fn aligned(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(8), 0);
}

/// An image with the table in it, and much other data.
fn image(symbols: &[(u64, String)], form: Form) -> Vec<u8> {
    let mut tokens: Vec<String> = (0u8..=255).map(|b| format!("_{b:02x}")).collect();
    (b'!'..=b'~').for_each(|c| tokens[usize::from(c)] = char::from(c).to_string());
    tokens[1] = "xxxxx".to_owned();
    let mut addresses = Vec::new();
    for (address, _) in symbols {
        match (form.full, form.absolute) {
            (true, _) => addresses.extend(address.to_le_bytes()),
            (_, false) => addresses.extend((address.wrapping_sub(BASE) as u32).to_le_bytes()),
            _ if *address < BASE => addresses.extend((*address as u32).to_le_bytes()),
            _ => addresses.extend((-1 - (address - BASE) as i32).to_le_bytes()),
        }
    }
    aligned(&mut addresses);
    if !form.full {
        addresses.extend(BASE.to_le_bytes());
    }
    let (mut names, mut markers) = (Vec::new(), Vec::<u8>::new());
    for (i, (_, name)) in symbols.iter().enumerate() {
        if i % MARKED == 0 {
            markers.extend(&(names.len() as u64).to_le_bytes()[..form.marker_bytes]);
        }
        let bytes = name.replace("xxxxx", "\u{1}").into_bytes();
        match bytes.len() {
            short @ 0..0x80 => names.push(short as u8),
            long => names.extend([long as u8 | 0x80, (long >> 7) as u8]),
        }
        names.extend(bytes);
    }
    let mut out: Vec<u8> = b"\x7fELF".iter().copied().chain((4..OTHER_BYTES).map(|i| ((i * i) >> 7) as u8)).collect();
    aligned(&mut out);
    if !form.behind {
        out.extend(&addresses);
    }
    out.extend((symbols.len() as u64).to_le_bytes());
    out.extend(names);
    aligned(&mut out);
    out.extend(markers);
    aligned(&mut out);
    if form.seqs {
        (0..symbols.len() as u32).for_each(|i| out.extend(&(i * 7919 % 90_001).to_be_bytes()[1..]));
        aligned(&mut out);
    }
    let (mut table, mut index) = (Vec::new(), Vec::new());
    for token in &tokens {
        index.extend((table.len() as u16).to_le_bytes());
        table.extend(token.bytes().chain([0]));
    }
    out.extend(table);
    aligned(&mut out);
    out.extend(index);
    if form.behind {
        out.extend(&addresses);
    }
    out.extend((0..5000u32).map(|i| (i * 31) as u8));
    out
}

fn expected(symbols: &[(u64, String)]) -> Vec<(u64, String)> {
    let functions = symbols.iter().filter(|(_, name)| name.starts_with(['t', 'T', 'W']));
    functions.map(|(address, name)| (*address, name[1..].to_owned())).collect()
}

#[test]
fn the_table_is_found_in_every_form_it_had() {
    for form in FORMS {
        for n in [300, 509, 2000, 20_000] {
            let symbols = symbols(n);
            // Without absolute addresses, data per CPU is among the rest.
            let symbols = if form.absolute { symbols } else { symbols[3..].to_vec() };
            assert_eq!(functions(&image(&symbols, form)), Some(expected(&symbols)), "{form:?}, {n} symbols");
        }
    }
}

#[test]
fn where_there_is_no_table_none_is_found() {
    let whole = image(&symbols(2000), PLAIN);
    assert_eq!(functions(&[]), None);
    assert_eq!(functions(&vec![0; 100_000]), None);
    for cut in (0..whole.len() - 6000).step_by(777) {
        assert_eq!(functions(&whole[..cut]), None, "cut at {cut}");
    }
}

/// Seeds for fuzzing of images: random data never contains a table.
#[test]
fn fuzzing_starts_from_tables() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/kernel_image");
    for (name, form) in [("table-6.1", FORMS[0]), ("table-6.4", FORMS[2])] {
        let symbols = symbols(300);
        let seed = [&b"\x7fELF\0\0\0\0"[..], &image(&symbols, form)[OTHER_BYTES as usize..]].concat();
        assert_eq!(functions(&seed), Some(expected(&symbols)));
        let file = folder.join(name);
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&file, &seed).unwrap();
        }
        assert!(std::fs::read(&file).is_ok_and(|kept| kept == seed), "{}: write it with BLESS=1", file.display());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Damage anywhere in a table changes the answer at most; it never causes a panic.
    #[test]
    fn damage_is_no_panic(places in prop::collection::vec((0.0..1.0f64, any::<u8>()), 1..8), form in 0..FORMS.len()) {
        let mut image = image(&symbols(700), FORMS[form]);
        for (place, value) in places {
            let at = (place * image.len() as f64) as usize;
            image[at] = value;
        }
        let _ = functions(&image);
    }
}
