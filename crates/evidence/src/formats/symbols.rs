//! Names addresses from the text of `/proc/kallsyms`, and from lists of the same format that were given to a recording
//! (`symbols-*.gz`).
//!
//! Lines are `<address, hexadecimal> <type> <name>`, with `\t[module]` after the names of modules. Only code (types t,
//! T, w, W) is kept. Before a kernel runs at its virtual address, it runs where it was loaded ("identity mapped");
//! those addresses have the same names once the load address is known. A kernel that hides addresses prints zeros:
//! those lines are counted, not kept.
//!
//! If several names have one address, the rule in [`aliases`] chooses one.
//!
//! A list from a kernel's image has the addresses to which the kernel was linked. A kernel that randomises its address
//! runs a multiple of [`Image::step_bytes`] from there, the same for all its code. The distance that most calls
//! agree on is chosen.
//!
//! Names that a C++ or Rust compiler mangled are kept demangled.
//!
//! A list of another build would name everything wrongly. The targets of calls reveal it: with the right list, nearly
//! all are the first byte of a function. Each list is judged alone, before it is merged with others.

pub(crate) mod aliases;
mod demangle;
mod known;
mod lines;

pub(crate) use demangle::plain as plain_name;
pub(crate) use known::Known;

use crate::formats::firmware_images::FirmwareImages;
use ::arch::Image;
use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use lines::{Row, begins, rows};
use std::cmp::Reverse;
use std::hash::BuildHasher;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use timeline::{DiagnosticKind, Diagnostics};

/// Functions sorted by address, and the load address of a kernel that may run at other addresses.
#[derive(Clone, Debug, Default)]
pub struct Symbols {
    /// The functions, shared by the boots of one kernel.
    list: Arc<List>,
    /// The number to add to an address of the loaded image to get its virtual address; the image's first and last
    /// address.
    loaded: Option<(u64, u64, u64)>,
    /// The programs of UEFI firmware, whose functions have no names.
    programs: Arc<FirmwareImages>,
}

/// Functions sorted by address. If several names have one address, the best of the first list is kept.
#[derive(Clone, Debug, Default)]
pub struct List {
    addresses: Vec<u64>,
    /// Their names, shared with lists that differ in addresses alone.
    names: Arc<ListNames>,
    /// The address at which the kernel's image begins. It is kept here because only one of this address's names is
    /// kept.
    begins: Option<u64>,
    /// For each page from the first address on: the position of its first function. Built at the first use.
    by_page: OnceLock<Vec<u32>>,
}

/// The names of a list's functions, in their order.
#[derive(Clone, Debug, Default)]
struct ListNames {
    /// The end of each name in `text`; the next one begins there.
    ends: Vec<u32>,
    text: String,
    /// Positions by name. Built at the first use.
    by_name: OnceLock<ByName>,
}

/// Positions in a list by name, without a copy of the names.
#[derive(Clone, Debug, Default)]
struct ByName {
    hasher: DefaultHashBuilder,
    /// For each name: its first position, and true if it is the only one.
    positions: HashTable<(u32, bool)>,
}

/// A function, and the offset of an address in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    pub name: &'a str,
    /// Bytes from the function's start.
    pub offset: u64,
}

/// No function is longer. An address further behind a function's start belongs to no function.
const FUNCTION_BYTES_MAX: u64 = 1 << 20;

/// Functions are found by their page of 4 KiB; this number of pages covers the first 1 GiB.
const PAGE_BITS: u32 = 12;
const PAGES_MAX: usize = 1 << 18;

/// The least number of different called functions by which a list can be judged.
const CALLED_MIN: u64 = 20;

/// The greatest number of votes that are counted: more do not change the result.
const VOTES_MAX: usize = 4 << 20;

/// The list that bootscope makes from the booted kernel's image if the guest has none. It cannot be of another build.
const OF_THE_IMAGE: &str = "image-symbols.gz";

/// The agreement of a list with the called addresses.
#[derive(Clone, Copy, Default)]
struct Fit {
    /// Called addresses inside a function of the list.
    inside: u64,
    /// Those of them that are a function's start.
    at_start: u64,
}

impl List {
    /// Reads the text of one list. Counts malformed lines.
    pub(crate) fn read(place: &str, text: &[u8], diagnostics: &mut Diagnostics) -> List {
        List::of_rows(&rows(place, text, diagnostics))
    }

    /// Builds a list from rows in order of address.
    fn of_rows(rows: &[Row]) -> List {
        let begins = begins(rows);
        let mut list = Rows::default();
        for same in rows.chunk_by(|a, b| a.address == b.address) {
            // Nearly every name has an address of its own. `min_by_key` returns the first of equals: the first in the
            // list of equally good names.
            let best =
                if let [only] = same { Some(only) } else { same.iter().min_by_key(|r| aliases::rank(r.kind, r.name)) };
            let Some(&Row { address, name, .. }) = best else { continue };
            let name = if aliases::is_end(name) { "" } else { aliases::plain(name) };
            list.push(address, &demangle::plain(name));
        }
        list.into_list(begins.map(|row| row.address))
    }

    /// Merges several lists. The first name of an address is kept, except that the end of code gives way to any other
    /// name.
    fn together(lists: &[Symbols]) -> List {
        let rows = |list| (0..List::len(list)).map(|i| (list.addresses[i], list.name(i)));
        let mut rows: Vec<(u64, &str)> = lists.iter().flat_map(|symbols| rows(&symbols.list)).collect();
        rows.sort_by_key(|row| (row.0, row.1.is_empty()));
        rows.dedup_by_key(|row| row.0);
        let mut merged = Rows::default();
        rows.iter().for_each(|(address, name)| merged.push(*address, name));
        merged.into_list(lists.iter().find_map(|list| list.begins))
    }

    pub fn len(&self) -> usize {
        self.addresses.len()
    }

    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty()
    }

    fn name(&self, i: usize) -> &str {
        self.names.get(i)
    }

    /// Returns the lowest address of a function of that name.
    pub(crate) fn address(&self, name: &str) -> Option<u64> {
        self.position(name).map(|(i, _)| self.addresses[i])
    }

    /// Returns the address of a function if no other has its name.
    pub(crate) fn only(&self, name: &str) -> Option<u64> {
        self.position(name).filter(|(_, is_only)| *is_only).map(|(i, _)| self.addresses[i])
    }

    /// Returns the first position of a name, and true if it is the only one.
    fn position(&self, name: &str) -> Option<(usize, bool)> {
        let ByName { hasher, positions } = self.names.by_name.get_or_init(|| self.names.by_name());
        let position = positions.find(hasher.hash_one(name), |&(i, _)| self.name(i as usize) == name);
        position.map(|&(i, is_only)| (i as usize, is_only))
    }

    /// Returns the number of functions that begin at or before an address.
    fn until(&self, address: u64) -> usize {
        let pages = self.by_page.get_or_init(|| self.by_page());
        let first = self.addresses.first().copied().unwrap_or_default();
        let page = address.checked_sub(first).and_then(|offset| usize::try_from(offset >> PAGE_BITS).ok());
        let within = page.and_then(|page| Some(*pages.get(page)? as usize..*pages.get(page + 1)? as usize));
        let within = within.unwrap_or(0..self.len());
        within.start + self.addresses[within].partition_point(|a| *a <= address)
    }

    fn by_page(&self) -> Vec<u32> {
        let Some(&first) = self.addresses.first() else { return Vec::new() };
        let mut pages = vec![0];
        for (i, address) in self.addresses.iter().enumerate() {
            let Ok(page) = usize::try_from((address - first) >> PAGE_BITS) else { break };
            if page >= PAGES_MAX {
                break;
            }
            pages.resize(pages.len().max(page + 1), timeline::number(i));
        }
        pages
    }
}

impl ListNames {
    fn get(&self, i: usize) -> &str {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.text[start as usize..self.ends[i] as usize]
    }

    fn by_name(&self) -> ByName {
        let hasher = DefaultHashBuilder::default();
        let mut positions: HashTable<(u32, bool)> = HashTable::with_capacity(self.ends.len());
        let hash = |i: u32| hasher.hash_one(self.get(i as usize));
        for i in 0..timeline::number(self.ends.len()) {
            let name = self.get(i as usize);
            let place =
                positions.entry(hash(i), |&(other, _)| self.get(other as usize) == name, |&(other, _)| hash(other));
            place.and_modify(|(_, is_only)| *is_only = false).or_insert((i, true));
        }
        ByName { hasher, positions }
    }
}

/// Functions that are collected for a list.
#[derive(Default)]
struct Rows {
    addresses: Vec<u64>,
    names: ListNames,
}

impl Rows {
    /// Adds a function behind the last one, if it still fits.
    fn push(&mut self, address: u64, name: &str) {
        let ListNames { ends, text, .. } = &mut self.names;
        let Ok(end) = u32::try_from(text.len() + name.len()) else { return };
        text.push_str(name);
        self.addresses.push(address);
        ends.push(end);
    }

    fn into_list(self, begins: Option<u64>) -> List {
        List { addresses: self.addresses, names: Arc::new(self.names), begins, by_page: OnceLock::new() }
    }
}

impl Deref for Symbols {
    type Target = List;

    fn deref(&self) -> &List {
        &self.list
    }
}

impl Symbols {
    /// Reads the text of one list. Counts malformed lines.
    pub fn read(place: &str, text: &[u8], diagnostics: &mut Diagnostics) -> Symbols {
        List::read(place, text, diagnostics).into()
    }

    /// Merges several lists; if two name one address, the first list wins. Each list is first moved to where its
    /// functions were `called` (each address given once), and is left out if it does not fit the code that ran.
    /// `entered` is the physical address at which the kernel's `image` was entered. Without a known kind of image,
    /// nothing is moved.
    pub(crate) fn of(
        lists: Vec<(&str, Arc<List>)>,
        called: &[u64],
        image: Option<&Image>,
        entered: Option<u64>,
        diagnostics: &mut Diagnostics,
    ) -> Symbols {
        let mut kept: Vec<Symbols> = Vec::new();
        for (place, list) in lists {
            let mut list = Symbols { list, ..Symbols::default() };
            if let Some(image) = image {
                list.slide(image, called);
                list.loaded_at(image, entered);
            }
            if list.belongs_to(called, place, diagnostics) {
                kept.push(list);
            }
        }
        let mut symbols = if kept.len() == 1 { kept.swap_remove(0) } else { List::together(&kept).into() };
        if let Some(image) = image {
            symbols.loaded_at(image, entered);
        }
        symbols
    }

    /// Moves the list, if it does not fit the code that ran at its present address, to where most of the `called`
    /// addresses begin a function.
    fn slide(&mut self, image: &Image, called: &[u64]) {
        let called: Vec<u64> = called.iter().copied().filter(|address| *address >= image.lowest_address).collect();
        let Fit { inside, at_start } = self.fit(&called);
        if inside >= CALLED_MIN && at_start * 2 >= inside {
            return;
        }
        let Some(slide) = self.slide_of(image, &called) else { return };
        let list = Arc::make_mut(&mut self.list);
        list.by_page = OnceLock::new();
        list.addresses.iter_mut().for_each(|address| *address = address.wrapping_add(slide));
        list.begins = list.begins.map(|begins| begins.wrapping_add(slide));
        // If the list is moved down, low addresses wrap around and lie above all others.
        if !list.addresses.is_sorted() {
            *self = List::together(std::slice::from_ref(self)).into();
        }
    }

    /// Returns the distance from the list to the called addresses. Each called address votes for all distances that are
    /// possible for it.
    fn slide_of(&self, image: &Image, called: &[u64]) -> Option<u64> {
        let step = image.step_bytes;
        let functions = (0..self.len()).filter(|&i| !self.name(i).is_empty()).map(|i| self.addresses[i]);
        let mut starts: Vec<(u64, u64)> =
            functions.filter(|&a| a >= image.lowest_address).map(|a| (a % step, a)).collect();
        starts.sort_unstable();
        let mut votes: HashMap<u64, u64> = HashMap::new();
        let same_place = |address: u64| {
            let from = starts.partition_point(|start| start.0 < address % step);
            starts[from..].iter().take_while(move |start| start.0 == address % step)
        };
        let possible_slides =
            called.iter().flat_map(|&address| same_place(address).map(move |start| address.wrapping_sub(start.1)));
        possible_slides.take(VOTES_MAX).for_each(|slide| *votes.entry(slide).or_default() += 1);
        let (slide, agree) = votes.into_iter().max_by_key(|&(slide, votes)| (votes, Reverse(slide)))?;
        let (first, last) = (starts.iter().map(|s| s.1).min()?, starts.iter().map(|s| s.1).max()?);
        let inside =
            called.iter().filter(|address| (first..=last).contains(&address.wrapping_sub(slide))).count() as u64;
        (agree >= CALLED_MIN && agree * 2 >= inside).then_some(slide)
    }

    /// True if the list can name the `called` addresses. If less than half of those inside the list are a function's
    /// start, this is reported. If less than a quarter are, the list is of another build and is not used: by chance, a
    /// tenth are.
    fn belongs_to(&self, called: &[u64], place: &str, diagnostics: &mut Diagnostics) -> bool {
        if (called.len() as u64) < CALLED_MIN {
            return true;
        }
        let Fit { inside, at_start } = self.fit(called);
        let found = || format!("{place}: {at_start} of {inside} functions called begin at a symbol");
        match () {
            () if inside == 0 && place == OF_THE_IMAGE => {
                diagnostics.note(DiagnosticKind::KernelNotReached, || place.to_owned())
            }
            () if inside == 0 => diagnostics.note(DiagnosticKind::SymbolsUnused, || place.to_owned()),
            () if at_start * 4 < inside => diagnostics.note(DiagnosticKind::SymbolsOfAnotherBuild, found),
            () if at_start * 2 < inside && inside >= CALLED_MIN => {
                diagnostics.note(DiagnosticKind::SymbolsDoubtful, found)
            }
            () => {}
        }
        inside > 0 && at_start * 4 >= inside
    }

    /// Returns the list's agreement with the called addresses.
    fn fit(&self, called: &[u64]) -> Fit {
        let mut fit = Fit::default();
        for (_, offset) in called.iter().filter_map(|&address| self.nearest(address)) {
            fit.inside += 1;
            fit.at_start += u64::from(offset == 0);
        }
        fit
    }

    /// Gives addresses in the loaded image the same names. `entered` is the physical address at which the image was
    /// entered. If the entry's name is missing, that address counts as near the image's start. Up to 6.12 it is there;
    /// 7.2 has its entry in `.init.text`.
    fn loaded_at(&mut self, image: &Image, entered: Option<u64>) {
        let Some((text, entered)) = self.begins.zip(entered) else { return };
        let by_name = self.address(image.entry).map(|entry| entry.wrapping_sub(entered));
        let near_the_start = || text.wrapping_sub(entered - entered % image.step_bytes);
        let shift = by_name.filter(|shift| shift % image.step_bytes == 0).unwrap_or_else(near_the_start);
        let physical = text.wrapping_sub(shift);
        self.loaded = Some((shift, physical, physical.saturating_add(image.bytes_max)));
    }

    /// Returns the function that contains an address.
    pub fn find(&self, address: u64) -> Option<Place<'_>> {
        let (i, offset) = self.nearest(address)?;
        Some(Place { name: self.name(i), offset })
    }

    /// The same names, and those of firmware's programs.
    pub(crate) fn with_programs(self, programs: Arc<FirmwareImages>) -> Symbols {
        Symbols { programs, ..self }
    }

    /// Returns the program of UEFI firmware that has the address of code that ran before the kernel.
    pub(crate) fn program(&self, address: u64) -> Option<&str> {
        self.programs.find(address)
    }

    /// Returns the virtual address of the function that contains an address.
    pub(crate) fn function(&self, address: u64) -> Option<u64> {
        self.nearest(address).map(|(i, _)| self.addresses[i])
    }

    fn nearest(&self, address: u64) -> Option<(usize, u64)> {
        let address = match self.loaded {
            Some((shift, from, to)) if (from..to).contains(&address) => address.wrapping_add(shift),
            _ => address,
        };
        let i = self.until(address).checked_sub(1)?;
        let next = self.addresses.get(i + 1).filter(|next| **next - self.addresses[i] <= aliases::PADDING_BYTES_MAX);
        if next.is_some() && aliases::is_padding(self.name(i)) {
            return (!self.name(i + 1).is_empty()).then_some((i + 1, 0));
        }
        let offset = address - self.addresses[i];
        (offset < FUNCTION_BYTES_MAX && !self.name(i).is_empty()).then_some((i, offset))
    }
}

impl From<List> for Symbols {
    fn from(list: List) -> Symbols {
        Symbols { list: Arc::new(list), ..Symbols::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::arch;

    fn image() -> &'static Image {
        &arch::of("x86_64").unwrap().facts.linux.image
    }

    fn read_all(
        texts: &[(&'static str, &[u8])],
        called: &[u64],
        image: Option<&Image>,
        entered: Option<u64>,
        diagnostics: &mut Diagnostics,
    ) -> Symbols {
        let read = |&(place, text): &(&'static str, &[u8])| {
            (place, Arc::new(List::read(place, text, &mut Diagnostics::default())))
        };
        Symbols::of(texts.iter().map(read).collect(), called, image, entered, diagnostics)
    }

    const TEXT: &[u8] = b"0000000000000000 A fixed_percpu_data\n\
        ffffffff81000000 T startup_64\n\
        ffffffff81000000 T _text\n\
        ffffffff81000100 t helper\n\
        ffffffff82000000 D some_data\n\
        ffffffffc0000000 t probe\t[virtio]\n";

    #[test]
    fn an_address_belongs_to_the_nearest_function_before_it() {
        let mut diagnostics = Diagnostics::default();
        let mut s = Symbols::read("kallsyms", TEXT, &mut diagnostics);
        assert!(diagnostics.is_empty());
        assert_eq!(s.len(), 3);
        let check = |s: &Symbols, address, expected: Option<(&str, u64)>| {
            assert_eq!(s.find(address).map(|p| (p.name, p.offset)), expected, "{address:x}");
        };
        check(&s, 0xffff_ffff_8100_0104, Some(("helper", 4)));
        check(&s, 0xffff_ffff_8100_00ff, Some(("startup_64", 0xff)));
        check(&s, 0xffff_ffff_c000_0010, Some(("probe", 0x10)));
        check(&s, 0xffff_ffff_9000_0000, None);
        check(&s, 0x100, None);
        check(&s, 0xfe0_0104, None);
        s.loaded_at(image(), Some(0xfe0_0000));
        check(&s, 0xfe0_0104, Some(("helper", 4)));
        check(&s, 0xfdf_ffff, None);
    }

    /// Addresses from a boot of Debian's Linux 7.2.13 (cloud), which was loaded at 0x19400000.
    #[test]
    fn a_kernel_entered_far_from_its_start() {
        let text = b"ffffffff85400000 T _text\nffffffff8550410b T srso_alias_return_thunk\n\
            ffffffff856e7830 t __pi_rdtsc_fixup\nffffffff87d94bd0 T __pi___startup_64\nffffffff87da5f80 T startup_64\n";
        let mut s = Symbols::read("kallsyms", text, &mut Diagnostics::default());
        s.loaded_at(image(), Some(0x1bda_5f80));
        let named = |s: &Symbols, at| s.find(at).map(|place| (place.name.to_owned(), place.offset));
        assert_eq!(named(&s, 0x1bda_5fc9), Some(("startup_64".to_owned(), 0x49)));
        assert_eq!(named(&s, 0x1bd9_4bd1), Some(("__startup_64".to_owned(), 1)));
        assert_eq!(named(&s, 0x196e_7830), Some(("rdtsc_fixup".to_owned(), 0)), "before the entry");
        // Not at `startup_64`: the multiple of 2 MiB below counts as the start.
        s.loaded_at(image(), Some(0x1940_0123));
        assert_eq!(named(&s, 0x196e_7830), Some(("rdtsc_fixup".to_owned(), 0)));
    }

    #[test]
    fn pages_find_the_same_as_a_full_search() {
        let starts = [0x1000u64, 0x1008, 0x1ff8, 0x2000, 0x9000, 0x9001, 0x4000_0fff, 0x4000_1000, 0x9000_0000_0000];
        let text: String = starts.iter().map(|at| format!("{at:x} T f{at:x}\n")).collect();
        let s = Symbols::read("k", text.as_bytes(), &mut Diagnostics::default());
        for at in starts.iter().flat_map(|at| [at - 1, *at, at + 1, at + 0xfff, at + 0x1000]).chain([0, u64::MAX]) {
            assert_eq!(s.until(at), starts.iter().filter(|start| **start <= at).count(), "{at:#x}");
        }
        assert_eq!(Symbols::default().until(5), 0);
    }

    /// A kernel at another address; then texts that differ in more.
    #[test]
    fn a_list_that_differs_only_in_addresses_is_not_parsed_again() {
        let text = |by: u64, last: &str| {
            let lines =
                [(0x1000, "T _text"), (0x1000, "T startup"), (0x3000, "t later"), (0x2000, "W weak"), (0x2800, last)];
            let moved = lines.iter().map(|(at, rest)| format!("{:016x} {rest}\n", at + by));
            Arc::new(format!("{:016x} A fixed\n{}", 0, moved.collect::<String>()).into_bytes())
        };
        let known = Known::read("k", text(0x100, "t probe"));
        for by in [0x100, 0x200, 0xffff_ffff_8000_0000] {
            let text = text(by, "t probe");
            let (list, diagnostics) = known.again(&text).unwrap();
            let mut expected = Diagnostics::default();
            let anew = List::read("k", &text, &mut expected);
            assert_eq!((&list.addresses, list.begins, diagnostics), (&anew.addresses, anew.begins, expected));
            assert!((0..anew.len()).all(|i| list.name(i) == anew.name(i)) && list.len() == 4);
        }
        let changed = |from: &str, to: &str| {
            let text = String::from_utf8(text(0x100, "t probe").to_vec()).unwrap();
            assert!(text.contains(from));
            Arc::new(text.replacen(from, to, 1).into_bytes())
        };
        for (from, to) in [
            ("probe", "prove"),
            ("t later", "T later"),
            // Another order, an equal address, no longer an equal address, address 0, not a number.
            ("0000000000002900", "0000000000003200"),
            ("0000000000002900", "0000000000002100"),
            ("0000000000001100 T startup", "0000000000001108 T startup"),
            ("0000000000002900", "0000000000000000"),
            ("0000000000002900", "00000000000029g0"),
            ("probe\n", "probe "),
        ] {
            assert!(known.again(&changed(from, to)).is_none(), "{from} {to}");
        }
        let short = Known::read("k", Arc::new(b"1000 T one\n".to_vec()));
        assert!(short.again(&Arc::new(b"2000 T one\n".to_vec())).is_none());
    }

    #[test]
    fn several_functions_of_one_name_have_no_unique_address() {
        let s = Symbols::read("k", b"1000 t init\n2000 t one\n3000 t init\n", &mut Diagnostics::default());
        let asked = ["init", "one", "none"];
        assert_eq!(asked.map(|name| s.address(name)), [Some(0x1000), Some(0x2000), None]);
        assert_eq!(asked.map(|name| s.only(name)), [None, Some(0x2000), None]);
    }

    #[test]
    fn there_is_no_function_behind_the_end_of_the_code() {
        let text = b"1000 T last\n1100 T _etext\n2000 T _einittext\n2000 t next\n";
        let s = Symbols::read("k", text, &mut Diagnostics::default());
        let names: Vec<_> = [0x10ff, 0x1100, 0x1800, 0x2001].map(|at| s.find(at).map(|place| place.name)).into();
        assert_eq!(names, [Some("last"), None, None, Some("next")]);
    }

    /// Excerpts of `/proc/kallsyms` of Debian's Linux 7.2.13 (cloud), with addresses as they were.
    #[test]
    fn the_function_s_own_name_is_kept_among_several() {
        let text = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/kallsyms/linux-7.2.13-cloud.txt"));
        let mut diagnostics = Diagnostics::default();
        let s = Symbols::read("kallsyms", text, &mut diagnostics);
        assert!(diagnostics.is_empty());
        for (address, name) in [
            (0xffff_ffff_8100_0000, "srso_alias_untrain_ret"),
            (0xffff_ffff_8225_3f00, "__x86_indirect_thunk_rax"),
            (0xffff_ffff_8225_3f20, "__x86_indirect_thunk_rcx"),
            (0xffff_ffff_8225_4100, "__x86_indirect_call_thunk_rax"),
            (0xffff_ffff_8225_4b30, "__x86_return_thunk"),
            (0xffff_ffff_8224_26e0, "memcpy"),
            (0xffff_ffff_8100_0230, "irq_entries_start"),
            (0xffff_ffff_8399_1a60, "start_kernel"),
            (0xffff_ffff_8399_1a70, "start_kernel"),
        ] {
            assert_eq!(s.find(address), Some(Place { name, offset: 0 }), "{address:x}");
        }
        assert_eq!(s.begins, Some(0xffff_ffff_8100_0000));
        assert_eq!(s.find(0xffff_ffff_8225_c940), None, "behind the code, whatever else ends there");
    }

    #[test]
    fn weak_names_and_underscores_come_second() {
        let text = b"1000 W arch_do\n1000 T do\n2000 t __memset\n2000 t memset\n3000 t later\n3000 t after\n";
        let s = Symbols::read("k", text, &mut Diagnostics::default());
        let names: Vec<_> = [0x1000, 0x2000, 0x3000].map(|at| s.find(at).map(|place| place.name)).into();
        assert_eq!(names, [Some("do"), Some("memset"), Some("later")]);
    }

    /// Room for the accounting of calls, and the check of a call's type: a call that enters there calls the function
    /// behind it.
    #[test]
    fn the_padding_before_a_function_is_the_function_s() {
        let text =
            b"1000 T last\n1030 t __pfx_probe\n1040 t probe\n1070 t __cfi_init\n1080 t init\n2000 t __cfi_alone\n";
        let s = Symbols::read("k", text, &mut Diagnostics::default());
        let at = |address| s.find(address).map(|place| (place.name, place.offset));
        assert_eq!(at(0x102f), Some(("last", 0x2f)));
        assert_eq!(at(0x1036), Some(("probe", 0)));
        assert_eq!(at(0x1041), Some(("probe", 1)));
        assert_eq!(at(0x1070), Some(("init", 0)));
        assert_eq!(at(0x2000), Some(("__cfi_alone", 0)));
        assert_eq!(s.function(0x1036), Some(0x1040));
        assert_eq!(s.address("probe"), Some(0x1040));
    }

    #[test]
    fn the_first_of_two_lists_wins() {
        let lists: [(&str, &[u8]); 2] =
            [("kallsyms", b"1000 T one\n3000 T three\n"), ("symbols-1.gz", b"1000 t uno\n2000 t two\n")];
        let s = read_all(&lists, &[], Some(image()), None, &mut Diagnostics::default());
        let names: Vec<_> = [0x1000, 0x2004, 0x3000].map(|at| s.find(at).map(|place| place.name)).into();
        assert_eq!(names, [Some("one"), Some("two"), Some("three")]);
    }

    #[test]
    fn the_targets_of_calls_reveal_a_list_of_another_build() {
        let list = |base: u64| -> Vec<u8> {
            (0..100).flat_map(|i| format!("{:x} T f{i}\n", base + i * 0x40).into_bytes()).collect()
        };
        let (good, off, far) = (list(0x10_0000), list(0x40_0008), list(0x5000_0000));
        let lists: [(&str, &[u8]); 4] = [("off", &off), ("good", &good), ("again", &good), ("far", &far)];
        let called: Vec<u64> = (0..50).flat_map(|i| [0x10_0000 + i * 0x40, 0x40_0040 + i * 0x40]).collect();
        let mut diagnostics = Diagnostics::default();
        let s = read_all(&lists, &called, Some(image()), None, &mut diagnostics);
        assert_eq!(
            [DiagnosticKind::SymbolsOfAnotherBuild, DiagnosticKind::SymbolsUnused, DiagnosticKind::SymbolsDoubtful]
                .map(|problem| diagnostics.count(problem)),
            [1, 1, 0]
        );
        assert!(s.find(0x10_0040).is_some() && s.find(0x40_0040).is_none(), "its names are not used");
        let mut few = Diagnostics::default();
        let s = read_all(&lists, &called[..10], Some(image()), None, &mut few);
        assert!(few.is_empty() && s.find(0x40_0040).is_some(), "a handful of calls proves nothing");
    }

    /// The first list is linked to where the kernel's own functions are, and is moved away from there.
    #[test]
    fn a_moved_list_names_nothing_at_its_old_addresses() {
        const KERNEL: u64 = 0xffff_ffff_8100_0000;
        let start = |i: u64| KERNEL + i * 0x50 + i % 7 * 0x10;
        let list = |name: &str, by: u64| -> Vec<u8> {
            (0..300).flat_map(|i| format!("{:x} T {name}{i}\n", start(i) + by).into_bytes()).collect()
        };
        let (linked, ran) = (list("linked", 0), list("ran", 0x20_0000));
        let called: Vec<u64> = (0..100).map(|i| start(i * 3) + 0x20_0000).collect();
        let lists: [(&str, &[u8]); 2] = [("linked", &linked), ("ran", &ran)];
        let mut diagnostics = Diagnostics::default();
        let s = read_all(&lists, &called, Some(image()), None, &mut diagnostics);
        assert_eq!(s.find(start(9) + 0x20_0000).map(|place| place.name), Some("linked9"), "{diagnostics:?}");
        assert!(s.find(start(9)).is_none());
    }

    #[test]
    fn a_list_is_moved_to_where_its_functions_were_called() {
        const KERNEL: u64 = 0xffff_ffff_8100_0000;
        let start = |i: u64| KERNEL + i * 0x50 + i % 7 * 0x10;
        let list: Vec<u8> = (0..300).flat_map(|i| format!("{:x} T f{i}\n", start(i)).into_bytes()).collect();
        let check = |called: &[u64], expected: Option<(u64, &str)>| {
            let mut s = Symbols::read("image", &list, &mut Diagnostics::default());
            s.slide(image(), called);
            let (at, name) = expected.unwrap_or((start(9), "f9"));
            assert_eq!(s.find(at).map(|place| (place.name, place.offset)), Some((name, 0)));
        };
        let slid = |by: u64| -> Vec<u64> { (0..100).map(|i| start(i * 3).wrapping_add(by)).collect() };
        check(&slid(0), None);
        check(&slid(0x3a0_0000), Some((start(9) + 0x3a0_0000, "f9")));
        check(&slid((0x40_0000u64).wrapping_neg()), Some((start(9) - 0x40_0000, "f9")));
        let low = [&b"0000000000001000 t low\n"[..], &list].concat();
        let mut s = Symbols::read("image", &low, &mut Diagnostics::default());
        s.slide(image(), &slid((0x40_0000u64).wrapping_neg()));
        assert_eq!(s.find(start(9) - 0x40_0000).map(|place| (place.name, place.offset)), Some(("f9", 0)));
        assert_eq!(s.find(0x1000u64.wrapping_sub(0x40_0000)).map(|place| place.name), Some("low"));
        // The list stays if the calls do not agree: calls between functions, another step, too few calls.
        check(&slid(0x3a0_0008), None);
        check(&slid(0x3a1_0000), None);
        check(&slid(0x3a0_0000)[..10], None);
    }

    #[test]
    fn malformed_lines_are_counted() {
        let mut diagnostics = Diagnostics::default();
        let s = Symbols::read(
            "k",
            b"ffffffff81000000 T ok\nzz T x\nffff\n1234567890abcdef01 T long\n1 T \xff\n",
            &mut diagnostics,
        );
        assert_eq!(s.len(), 1);
        assert_eq!(diagnostics.count(timeline::DiagnosticKind::SymbolLineUnreadable), 4);
        let mut hidden = Vec::new();
        (0..20).for_each(|_| hidden.extend_from_slice(b"0000000000000000 T x\n"));
        assert!(Symbols::read("k", &hidden, &mut diagnostics).is_empty());
        assert_eq!(diagnostics.count(timeline::DiagnosticKind::SymbolAddressHidden), 11);
    }
}
