//! The table from which a Linux kernel prints `/proc/kallsyms`, found in its image by its form alone.
//!
//! `scripts/kallsyms.c` writes it at build time, in read-only data, each part at a multiple of 4 or 8:
//! ```text
//! num_syms      u32    the number of symbols
//! names                each symbol's length (a byte; from 0x80 on, since 6.1, seven bits of two), then as many tokens
//! markers       u32…   where every 256th symbol is in `names` (u64 before 4.20)
//! token_table          256 texts, each with a NUL behind it
//! token_index   u16…   where each of them begins
//! offsets       i32…   of each symbol, by address
//! relative_base u64    what they are relative to
//! ```
//! Until 6.3 `offsets` and `relative_base` stand before `num_syms`, from 6.4 on behind `token_index`. 6.2 put a part (`seqs_of_names`)
//! between markers and token table, 6.4 moved it to the end. A symbol's first character is its type. If any offset is negative, the other
//! offsets are addresses (of data per CPU), and the negative ones are `relative_base - 1 - offset` (`CONFIG_KALLSYMS_ABSOLUTE_PERCPU`).
//! Otherwise all are `relative_base + offset`.
//!
//! In a kernel that relocates itself, `relative_base` may be empty in the image; its relocation table then has the value.
//!
//! The search begins with the token index, which grows from 0 and fits the texts before it. Then it finds the markers, and the number of
//! symbols that makes the names end where the markers begin. Last come offsets that are in order. If a part has two possible places, the
//! consistent one is used. Only 64-bit, little-endian kernels are read.

use crate::arch;

const TOKENS: usize = 256;
/// Symbols from one marker to the next.
const MARKED: usize = 256;
/// Bounds for what is accepted from an image: a kernel's names have at most 512 characters.
const MAX_SYMBOLS: usize = 1 << 20;
const MAX_NAME_BYTES: usize = 2048;
/// Longest distance of the markers from the token table: three bytes per symbol lie between.
const MAX_MARKERS_DISTANCE: usize = 3 * MAX_SYMBOLS + 64;
/// The number of candidate places that are tried, each at the cost of reading what follows it.
const MAX_TRIES: usize = 256;
/// Start of the upper half of the address space, where symbols lie.
const UPPER_HALF: u64 = 0xffff_8000_0000_0000;

/// The functions in the table, by address; `None` if no table is found. Linear in the image, except for places that look like a part of the
/// table, of which a bounded number is tried.
pub(super) fn functions(image: &[u8]) -> Option<Vec<(u64, String)>> {
    symbols(image, is_function)
}

/// The variables in the table, if it has all symbols (`CONFIG_KALLSYMS_ALL`).
pub(super) fn variables(image: &[u8]) -> Option<Vec<(u64, String)>> {
    symbols(image, |kind| matches!(kind, b'd' | b'D' | b'b' | b'B' | b'r' | b'R'))
}

/// The per-CPU variables: the symbols from `__per_cpu_start` to `__per_cpu_end`. If these begin at 0, their type is that of an absolute
/// value.
pub(super) fn per_cpu(image: &[u8]) -> Option<Vec<(u64, String)>> {
    let mut all = symbols(image, |kind| matches!(kind, b'd' | b'D' | b'b' | b'B' | b'a' | b'A' | b'r' | b'R'))?;
    let bound = |name: &str| all.iter().find(|symbol| symbol.1 == name).map(|symbol| symbol.0);
    let range = bound("__per_cpu_start")?..bound("__per_cpu_end")?;
    all.retain(|symbol| range.contains(&symbol.0) && symbol.1 != "__per_cpu_start");
    Some(all)
}

fn is_function(kind: u8) -> bool {
    matches!(kind, b't' | b'T' | b'w' | b'W')
}

fn symbols(image: &[u8], is_wanted: fn(u8) -> bool) -> Option<Vec<(u64, String)>> {
    let image = Image(image);
    token_indexes(image).take(MAX_TRIES).find_map(|index| {
        let tokens = Tokens::before(image, index)?;
        let names = names(image, &tokens)?;
        symbols_of(image, &tokens, &names, is_wanted)
    })
}

#[derive(Clone, Copy)]
struct Image<'a>(&'a [u8]);

impl<'a> Image<'a> {
    fn bytes<const N: usize>(self, at: usize) -> Option<[u8; N]> {
        self.0.get(at..)?.first_chunk().copied()
    }

    fn u16(self, at: usize) -> Option<u16> {
        self.bytes(at).map(u16::from_le_bytes)
    }

    fn u32(self, at: usize) -> Option<u32> {
        self.bytes(at).map(u32::from_le_bytes)
    }

    fn u64(self, at: usize) -> Option<u64> {
        self.bytes(at).map(u64::from_le_bytes)
    }
}

/// Candidates for the token index: places where numbers grow from 0.
fn token_indexes(image: Image<'_>) -> impl Iterator<Item = usize> {
    let last = image.0.len().saturating_sub(2 * TOKENS);
    (0..last).step_by(4).filter(move |&at| {
        let mut before = None;
        image.u16(at) == Some(0)
            && (0..TOKENS).all(|i| {
                let next = image.u16(at + 2 * i);
                next > std::mem::replace(&mut before, next)
            })
    })
}

/// The texts that the bytes of a name stand for.
struct Tokens<'a> {
    texts: Vec<&'a [u8]>,
    table: usize,
    /// End of the index.
    end: usize,
}

impl<'a> Tokens<'a> {
    /// The texts of an index: they lie before it, and each ends with a NUL where the next one begins.
    fn before(image: Image<'a>, index: usize) -> Option<Tokens<'a>> {
        let starts: Vec<usize> = (0..TOKENS).filter_map(|i| image.u16(index + 2 * i)).map(usize::from).collect();
        let last = *starts.last()?;
        // The last text's length is unknown; its NUL and up to seven more stand before the index.
        let nearest = index.checked_sub(last + 2)? / 4 * 4;
        let farthest = nearest.saturating_sub(MAX_NAME_BYTES);
        let table = (farthest..=nearest).rev().step_by(4).find(|&table| {
            let texts = &image.0[table..index];
            let ends = starts.iter().copied().skip(1).chain([texts.len()]);
            starts.iter().zip(ends).all(|(&from, to)| is_text(&texts[from..to], to == texts.len()))
        })?;
        let text = |&start: &usize| image.0[table + start..index].split(|&b| b == 0).next().unwrap_or_default();
        Some(Tokens { texts: starts.iter().map(text).collect(), table, end: index + 2 * TOKENS })
    }

    /// The type and name of a symbol.
    fn spell(&self, symbol: &[u8]) -> Option<(u8, String)> {
        let mut text = Vec::new();
        for &token in symbol {
            text.extend_from_slice(self.texts[usize::from(token)]);
            if text.len() > MAX_NAME_BYTES {
                return None;
            }
        }
        let (&kind, name) = text.split_first()?;
        Some((kind, std::str::from_utf8(name).ok()?.to_owned()))
    }
}

/// True for printable characters with a NUL after them; after the last text there may be several.
fn is_text(bytes: &[u8], is_last: bool) -> bool {
    let text = bytes.iter().take_while(|b| b.is_ascii_graphic()).count();
    let behind = &bytes[text..];
    behind.iter().all(|&b| b == 0) && (1..=if is_last { 8 } else { 1 }).contains(&behind.len())
}

/// Places of the symbols' tokens.
struct Names {
    /// Place of the number of symbols.
    number: usize,
    symbols: Vec<std::ops::Range<usize>>,
}

fn names(image: Image<'_>, tokens: &Tokens<'_>) -> Option<Names> {
    let farthest = tokens.table.saturating_sub(MAX_MARKERS_DISTANCE);
    let places = (farthest..tokens.table).rev().filter(|at| at % 4 == 0);
    let markers = places.filter_map(|at| Markers::at(image, at, tokens.table));
    markers.take(MAX_TRIES).find_map(|markers| names_before(image, &markers))
}

/// Places of every 256th name.
struct Markers {
    at: usize,
    offsets: Vec<usize>,
}

impl Markers {
    /// Takes numbers that grow from 0, each by a plausible length of 256 names.
    fn at(image: Image<'_>, at: usize, end: usize) -> Option<Markers> {
        let plausible = |from: usize, to: usize| {
            (2 * MARKED..=MARKED * MAX_NAME_BYTES).contains(&to.saturating_sub(from)) && to < at
        };
        let offsets = |next: &dyn Fn(usize) -> Option<usize>| -> Vec<usize> {
            let mut offsets = vec![0];
            while let Some(to) = next(offsets.len()).filter(|&to| plausible(offsets[offsets.len() - 1], to)) {
                offsets.push(to);
            }
            offsets
        };
        let u32_at = |i: usize| image.u32(at + 4 * i).map(|n| n as usize).filter(|_| at + 4 * i < end);
        let u64_at = |i: usize| usize::try_from(image.u64(at + 8 * i)?).ok().filter(|_| at + 8 * i < end);
        if image.u32(at)? != 0 {
            return None;
        }
        let mut offsets = if image.u32(at + 4)? == 0 { offsets(&u64_at) } else { offsets(&u32_at) };
        offsets.truncate(MAX_SYMBOLS / MARKED);
        (offsets.len() > 1).then_some(Markers { at, offsets })
    }
}

/// The names that end where these markers begin, and fit them.
fn names_before(image: Image<'_>, markers: &Markers) -> Option<Names> {
    // The data after the markers can look like a few more markers.
    (0..markers.offsets.len().min(4)).find_map(|surplus| {
        let offsets = &markers.offsets[..markers.offsets.len() - surplus];
        let symbols = offsets.len().saturating_sub(1) * MARKED + 1..=offsets.len() * MARKED;
        let nearest = markers.at.checked_sub(*offsets.last()? + 1)? / 4 * 4;
        let farthest = nearest.saturating_sub(MARKED * (MAX_NAME_BYTES + 2) + 8);
        let places = (farthest..nearest).rev().filter(|at| at % 4 == 0);
        let numbered = places.filter(|&at| image.u32(at).is_some_and(|n| symbols.contains(&(n as usize))));
        numbered.take(MAX_TRIES).find_map(|number| {
            let n = image.u32(number)? as usize;
            [8, 4].iter().find_map(|behind| walk(image, number, number + behind, n, markers.at, offsets))
        })
    })
}

fn walk(image: Image<'_>, number: usize, from: usize, n: usize, end: usize, markers: &[usize]) -> Option<Names> {
    let mut symbols = Vec::with_capacity(n);
    let mut at = from;
    for i in 0..n {
        if i % MARKED == 0 && markers.get(i / MARKED) != Some(&(at - from)) {
            return None;
        }
        let first = usize::from(*image.0.get(at)?);
        let (length, begin) = match first {
            0 => return None,
            1..0x80 => (first, at + 1),
            _ => (first & 0x7f | usize::from(*image.0.get(at + 1)?) << 7, at + 2),
        };
        at = begin + length;
        if at > end {
            return None;
        }
        symbols.push(begin..at);
    }
    (end - at < 8).then_some(Names { number, symbols })
}

/// The names with their addresses, in whichever place these stand.
fn symbols_of(
    image: Image<'_>,
    tokens: &Tokens<'_>,
    names: &Names,
    is_wanted: fn(u8) -> bool,
) -> Option<Vec<(u64, String)>> {
    let spelled: Option<Vec<(u8, String)>> =
        names.symbols.iter().map(|at| tokens.spell(image.0.get(at.clone())?)).collect();
    let spelled = spelled?;
    let n = spelled.len();
    let offsets_bytes = (4 * n).next_multiple_of(8);
    let before = names.number.checked_sub(8).and_then(|base| Some((base.checked_sub(offsets_bytes)?, base)));
    let behind = tokens.end.next_multiple_of(8);
    let places = before.into_iter().chain([(behind, behind + offsets_bytes)]);
    let relative = places.filter_map(|(offsets, base)| relative(image, offsets, base, n));
    let absolute = names.number.checked_sub(8 * n).and_then(|at| (0..n).map(|i| image.u64(at + 8 * i)).collect());
    let in_order = |addresses: &Vec<u64>| {
        let functions = addresses.iter().zip(&spelled).filter(|(_, (kind, _))| is_function(*kind));
        let functions: Vec<u64> = functions.map(|(address, _)| *address).collect();
        functions.is_sorted() && functions.first().is_some_and(|first| *first >= UPPER_HALF)
    };
    let addresses: Vec<u64> = relative.chain(absolute).find(in_order)?;
    let named = addresses.into_iter().zip(spelled).filter(|(_, (kind, _))| is_wanted(*kind));
    Some(named.map(|(address, (_, name))| (address, name)).collect())
}

/// The addresses that offsets give.
fn relative(image: Image<'_>, offsets: usize, base: usize, n: usize) -> Option<Vec<u64>> {
    let base = image.u64(base).filter(|base| *base >= UPPER_HALF).or_else(|| arch::relocated(image.0, base))?;
    let offsets: Vec<u32> = (0..n).map(|i| image.u32(offsets + 4 * i)).collect::<Option<_>>()?;
    #[expect(clippy::cast_possible_wrap, reason = "in a table with absolute addresses the sign says which they are")]
    let signed = |offset: u32| offset as i32;
    let some_absolute = offsets.iter().any(|&offset| signed(offset) < 0);
    let address = |offset: u32| match (some_absolute, signed(offset)) {
        (false, _) => base.wrapping_add(offset.into()),
        (true, 0..) => offset.into(),
        (true, negative) => base.wrapping_sub(1).wrapping_add(negative.unsigned_abs().into()),
    };
    Some(offsets.into_iter().map(address).collect())
}

#[cfg(test)]
mod tests;
