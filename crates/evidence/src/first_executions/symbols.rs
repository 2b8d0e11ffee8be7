//! Names of addresses, from the text of `/proc/kallsyms`, and from lists of the same form that were given to a recording
//! (`symbols-*.gz`).
//!
//! Lines are `<address, hexadecimal> <type> <name>`, with `\t[module]` after the names of modules. Only code (types
//! t, T, w, W) is kept. Before it runs at its virtual address, a kernel runs where it was loaded ("identity mapped");
//! those addresses have the same names once it is known where it was loaded. A kernel that hides addresses prints
//! zeros: those lines are counted, not kept.
//!
//! Where several names have one address, the rule in [`aliases`] says which one is kept.
//!
//! A list out of a kernel's image has the addresses that the kernel was linked to. One that randomises its address runs a
//! multiple of [`KernelImage::step_bytes`] from there, the same for all of it: the one that most calls agree on.
//!
//! Names that a C++ or Rust compiler mangled are kept as they were written.
//!
//! A list of another build names everything, and all of it wrongly. What gives it away is where calls lead: to the first
//! byte of functions, nearly always. Each list is judged by itself, before it is put together with others.

use super::aliases::{self, Kind};
use super::demangle;
use crate::arch::KernelImage;
use hashbrown::HashMap;
use std::cmp::Reverse;
use timeline::{DiagnosticKind, Diagnostics};

/// Functions sorted by address. Where several names have one address, the best of the first list is kept.
#[derive(Clone, Debug, Default)]
pub struct Symbols {
    addresses: Vec<u64>,
    /// Where each name ends in `text`, and so where the next begins.
    ends: Vec<u32>,
    text: String,
    /// Where the kernel's image begins. Several names have this address, of which one is kept.
    begins: Option<u64>,
    /// Added to an address of the loaded image to get its virtual address; the image's first and last address.
    loaded: Option<(u64, u64, u64)>,
}

/// A function and how far into it an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// The function's name.
    pub name: &'a str,
    /// Bytes from its start.
    pub offset: u64,
}

/// No function is longer: an address further from the one before it is in none.
const FUNCTION_BYTES_MAX: u64 = 1 << 20;

/// So many different functions are enough to judge a list by where they begin.
const CALLED_MIN: u64 = 20;

/// More coincidences than these tell no more.
const VOTES_MAX: usize = 4 << 20;

/// The list that is made of the kernel that was booted, where it could not tell its own: nobody gave a wrong one.
const OF_THE_IMAGE: &str = "image-symbols.gz";

/// How a list agrees with what was called.
#[derive(Clone, Copy, Default)]
struct Fit {
    /// Addresses that were called, in a function of the list.
    inside: u64,
    /// Of these, at a function's start.
    at_start: u64,
}

impl Symbols {
    /// Reads the text of one list; lines that are none are counted.
    pub fn read(place: &str, text: &[u8], diagnostics: &mut Diagnostics) -> Symbols {
        let mut rows: Vec<(u64, Kind, &str)> = Vec::new();
        lines(place, text, diagnostics, |address, kind, name| rows.push((address, kind, name)));
        let begins = begins(rows.iter().map(|row| (row.0, row.2)));
        // A stable sort, and `min_by_key` gives the first of equals: of names as good, the first in the list.
        rows.sort_by_key(|row| row.0);
        let mut symbols = Symbols { begins, ..Symbols::default() };
        for same in rows.chunk_by(|a, b| a.0 == b.0) {
            // Nearly every name has its address for itself.
            let best =
                if let [only] = same { Some(only) } else { same.iter().min_by_key(|(_, k, n)| aliases::rank(*k, n)) };
            let Some(&(address, _, name)) = best else { continue };
            let name = if aliases::is_end(name) { "" } else { aliases::plain(name) };
            symbols.push(address, &demangle::plain(name));
        }
        symbols
    }

    /// Reads several lists, of which the first goes first where two name one address. Each is first moved to where its
    /// functions were `called` (each address once), and left out if it does not belong to what ran; the kernel's `image` was
    /// `entered` at this physical address. Of an unknown kind of image nothing is moved.
    pub(crate) fn read_all(
        lists: &[(&str, &[u8])],
        called: &[u64],
        image: Option<&KernelImage>,
        entered: Option<u64>,
        diagnostics: &mut Diagnostics,
    ) -> Symbols {
        let mut kept: Vec<Symbols> = Vec::new();
        for (place, text) in lists {
            let mut list = Symbols::read(place, text, diagnostics);
            if let Some(image) = image {
                list.slide(image, called);
                list.loaded_at(image, entered);
            }
            if list.belongs_to(called, place, diagnostics) {
                kept.push(list);
            }
        }
        let mut all = if kept.len() == 1 { kept.swap_remove(0) } else { Symbols::together(&kept) };
        if let Some(image) = image {
            all.loaded_at(image, entered);
        }
        all
    }

    /// Several lists as one. Of names of one address the first is kept, but one that only says where code ends.
    fn together(lists: &[Symbols]) -> Symbols {
        let rows = |list| (0..Symbols::len(list)).map(|i| (list.addresses[i], list.name(i)));
        let mut rows: Vec<(u64, &str)> = lists.iter().flat_map(rows).collect();
        rows.sort_by_key(|row| (row.0, row.1.is_empty()));
        rows.dedup_by_key(|row| row.0);
        let mut all = Symbols { begins: lists.iter().find_map(|list| list.begins), ..Symbols::default() };
        rows.iter().for_each(|(address, name)| all.push(*address, name));
        all
    }

    /// Adds a function behind the last one. What no longer fits is left out.
    fn push(&mut self, address: u64, name: &str) {
        let Ok(end) = u32::try_from(self.text.len() + name.len()) else { return };
        self.text.push_str(name);
        self.addresses.push(address);
        self.ends.push(end);
    }

    /// Moves the list, if it does not belong to what ran where it is, to where most of what was `called` in it begins a
    /// function.
    fn slide(&mut self, image: &KernelImage, called: &[u64]) {
        let called: Vec<u64> = called.iter().copied().filter(|address| *address >= image.lowest_address).collect();
        let Fit { inside, at_start } = self.fit(&called);
        if inside >= CALLED_MIN && at_start * 2 >= inside {
            return;
        }
        let Some(slide) = self.slide_of(image, &called) else { return };
        self.addresses.iter_mut().for_each(|address| *address = address.wrapping_add(slide));
        self.begins = self.begins.map(|begins| begins.wrapping_add(slide));
        // Moved down, low addresses come to lie above all others.
        if !self.addresses.is_sorted() {
            *self = Symbols::together(std::slice::from_ref(self));
        }
    }

    /// How far the list is from where its functions were called. Each call of a function votes for all that it can be.
    fn slide_of(&self, image: &KernelImage, called: &[u64]) -> Option<u64> {
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
        let all =
            called.iter().flat_map(|&address| same_place(address).map(move |start| address.wrapping_sub(start.1)));
        all.take(VOTES_MAX).for_each(|slide| *votes.entry(slide).or_default() += 1);
        let (slide, agree) = votes.into_iter().max_by_key(|&(slide, votes)| (votes, Reverse(slide)))?;
        let (first, last) = (starts.iter().map(|s| s.1).min()?, starts.iter().map(|s| s.1).max()?);
        let inside =
            called.iter().filter(|address| (first..=last).contains(&address.wrapping_sub(slide))).count() as u64;
        (agree >= CALLED_MIN && agree * 2 >= inside).then_some(slide)
    }

    /// Whether the list can name what was `called`. Of one in which few of these addresses begin a function that is said, and
    /// of one in which next to none do the names are wrong: chance makes a tenth.
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

    /// How the list agrees with what was called.
    fn fit(&self, called: &[u64]) -> Fit {
        let mut fit = Fit::default();
        for (_, offset) in called.iter().filter_map(|&address| self.nearest(address)) {
            fit.inside += 1;
            fit.at_start += u64::from(offset == 0);
        }
        fit
    }

    /// How many functions there are.
    pub fn len(&self) -> usize {
        self.addresses.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty()
    }

    /// The address of a function, by name.
    pub fn address(&self, name: &str) -> Option<u64> {
        (0..self.len()).find(|&i| self.name(i) == name).map(|i| self.addresses[i])
    }

    /// The addresses of the functions that share their name with none.
    pub fn unique(&self) -> HashMap<&str, u64> {
        let mut unique: HashMap<&str, Option<u64>> = HashMap::with_capacity(self.len());
        for i in 0..self.len() {
            unique.entry(self.name(i)).and_modify(|address| *address = None).or_insert(Some(self.addresses[i]));
        }
        unique.into_iter().filter_map(|(name, address)| Some((name, address?))).collect()
    }

    /// Addresses in the loaded image get its names too. `entered` is the physical address that the image was entered at.
    /// Without the name of its entry that counts as near the image's start, where it is up to 6.12: 7.2 has it in `.init.text`.
    fn loaded_at(&mut self, image: &KernelImage, entered: Option<u64>) {
        let Some((text, entered)) = self.begins.zip(entered) else { return };
        let by_name = self.address(image.entry).map(|entry| entry.wrapping_sub(entered));
        let near_the_start = || text.wrapping_sub(entered - entered % image.step_bytes);
        let shift = by_name.filter(|shift| shift % image.step_bytes == 0).unwrap_or_else(near_the_start);
        let physical = text.wrapping_sub(shift);
        self.loaded = Some((shift, physical, physical.saturating_add(image.bytes_max)));
    }

    /// The function that an address is in.
    pub fn find(&self, address: u64) -> Option<Place<'_>> {
        let (i, offset) = self.nearest(address)?;
        Some(Place { name: self.name(i), offset })
    }

    /// The virtual address of the function that an address is in.
    pub fn function(&self, address: u64) -> Option<u64> {
        self.nearest(address).map(|(i, _)| self.addresses[i])
    }

    fn nearest(&self, address: u64) -> Option<(usize, u64)> {
        let address = match self.loaded {
            Some((shift, from, to)) if (from..to).contains(&address) => address.wrapping_add(shift),
            _ => address,
        };
        let i = self.addresses.partition_point(|a| *a <= address).checked_sub(1)?;
        let next = self.addresses.get(i + 1).filter(|next| **next - self.addresses[i] <= aliases::PADDING_BYTES_MAX);
        if next.is_some() && aliases::is_padding(self.name(i)) {
            return (!self.name(i + 1).is_empty()).then_some((i + 1, 0));
        }
        let offset = address - self.addresses[i];
        (offset < FUNCTION_BYTES_MAX && !self.name(i).is_empty()).then_some((i, offset))
    }

    fn name(&self, i: usize) -> &str {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.text[start as usize..self.ends[i] as usize]
    }
}

/// Where a kernel's image begins.
fn begins<'a>(rows: impl Iterator<Item = (u64, &'a str)> + Clone) -> Option<u64> {
    let named = |wanted: &str| rows.clone().find(|row| row.1 == wanted).map(|row| row.0);
    named("_text").or_else(|| named("_stext"))
}

/// Tells each line's function; counts the lines that are none.
fn lines<'a>(place: &str, text: &'a [u8], diagnostics: &mut Diagnostics, mut function: impl FnMut(u64, Kind, &'a str)) {
    let ends = memchr::memchr_iter(b'\n', text).chain([text.len()]);
    let mut start = 0;
    for (i, end) in ends.enumerate() {
        let line = &text[start..end];
        start = (end + 1).min(text.len());
        match parse(line) {
            Some((0, ..)) if i > 8 => {
                diagnostics.note(DiagnosticKind::SymbolAddressHidden, || format!("{place}:{}", i + 1))
            }
            Some((address, b't' | b'T', name)) if address != 0 => function(address, Kind::Code, name),
            Some((address, b'w' | b'W', name)) if address != 0 => function(address, Kind::Weak, name),
            Some(_) => {}
            None if line.is_empty() => {}
            None => diagnostics.note(DiagnosticKind::SymbolLineUnreadable, || format!("{place}:{}", i + 1)),
        }
    }
}

fn parse(line: &[u8]) -> Option<(u64, u8, &str)> {
    let mut address = 0u64;
    let mut digits = 0;
    let kind_and_name = loop {
        match *line.get(digits)? {
            b' ' => break &line[digits..],
            byte => address = address << 4 | u64::from(HEX[usize::from(byte)]?),
        }
        digits += 1;
    };
    let [b' ', kind, b' ', name @ ..] = kind_and_name else { return None };
    let name = name.split(|b| b.is_ascii_whitespace()).next()?;
    let fits = (1..=16).contains(&digits) && !name.is_empty();
    fits.then_some((address, *kind, std::str::from_utf8(name).ok()?))
}

/// What a byte is worth as a hexadecimal digit.
const HEX: [Option<u8>; 256] = {
    let mut worth = [None; 256];
    let mut digit = 0;
    while digit < 16 {
        let character = b"0123456789abcdef"[digit as usize];
        worth[character as usize] = Some(digit);
        worth[character.to_ascii_uppercase() as usize] = Some(digit);
        digit += 1;
    }
    worth
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch;

    fn image() -> &'static KernelImage {
        &arch::of("x86_64").unwrap().kernel
    }

    const TEXT: &[u8] = b"0000000000000000 A fixed_percpu_data\n\
        ffffffff81000000 T startup_64\n\
        ffffffff81000000 T _text\n\
        ffffffff81000100 t helper\n\
        ffffffff82000000 D some_data\n\
        ffffffffc0000000 t probe\t[virtio]\n";

    #[test]
    fn nearest_function_before() {
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

    /// Addresses of a boot of Debian's Linux 7.2.13 (cloud), which was loaded at 0x19400000.
    #[test]
    fn a_kernel_that_is_entered_far_from_its_start() {
        let text = b"ffffffff85400000 T _text\nffffffff8550410b T srso_alias_return_thunk\n\
            ffffffff856e7830 t __pi_rdtsc_fixup\nffffffff87d94bd0 T __pi___startup_64\nffffffff87da5f80 T startup_64\n";
        let mut s = Symbols::read("kallsyms", text, &mut Diagnostics::default());
        s.loaded_at(image(), Some(0x1bda_5f80));
        let named = |s: &Symbols, at| s.find(at).map(|place| (place.name.to_owned(), place.offset));
        assert_eq!(named(&s, 0x1bda_5fc9), Some(("startup_64".to_owned(), 0x49)));
        assert_eq!(named(&s, 0x1bd9_4bd1), Some(("__startup_64".to_owned(), 1)));
        assert_eq!(named(&s, 0x196e_7830), Some(("rdtsc_fixup".to_owned(), 0)), "before the entry");
        // Not at `startup_64`: by the multiple of 2 MiB below.
        s.loaded_at(image(), Some(0x1940_0123));
        assert_eq!(named(&s, 0x196e_7830), Some(("rdtsc_fixup".to_owned(), 0)));
    }

    #[test]
    fn behind_the_end_of_the_code_is_no_function() {
        let text = b"1000 T last\n1100 T _etext\n2000 T _einittext\n2000 t next\n";
        let s = Symbols::read("k", text, &mut Diagnostics::default());
        let names: Vec<_> = [0x10ff, 0x1100, 0x1800, 0x2001].map(|at| s.find(at).map(|place| place.name)).into();
        assert_eq!(names, [Some("last"), None, None, Some("next")]);
    }

    /// Excerpts of `/proc/kallsyms` of Debian's Linux 7.2.13 (cloud), with addresses as they were.
    #[test]
    fn of_several_names_the_function_s_own_is_kept() {
        let text = include_bytes!("../../tests/data/kallsyms/linux-7.2.13-cloud.txt");
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

    /// Room for the accounting of calls, and the check of a call's type: who is called there is called.
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
    fn of_two_lists_the_first_goes_first() {
        let lists: [(&str, &[u8]); 2] =
            [("kallsyms", b"1000 T one\n3000 T three\n"), ("symbols-1.gz", b"1000 t uno\n2000 t two\n")];
        let s = Symbols::read_all(&lists, &[], Some(image()), None, &mut Diagnostics::default());
        let names: Vec<_> = [0x1000, 0x2004, 0x3000].map(|at| s.find(at).map(|place| place.name)).into();
        assert_eq!(names, [Some("one"), Some("two"), Some("three")]);
    }

    #[test]
    fn a_list_of_another_build_is_told_by_where_calls_lead() {
        let list = |base: u64| -> Vec<u8> {
            (0..100).flat_map(|i| format!("{:x} T f{i}\n", base + i * 0x40).into_bytes()).collect()
        };
        let (good, off, far) = (list(0x10_0000), list(0x40_0008), list(0x5000_0000));
        let lists: [(&str, &[u8]); 4] = [("off", &off), ("good", &good), ("again", &good), ("far", &far)];
        let called: Vec<u64> = (0..50).flat_map(|i| [0x10_0000 + i * 0x40, 0x40_0040 + i * 0x40]).collect();
        let mut diagnostics = Diagnostics::default();
        let s = Symbols::read_all(&lists, &called, Some(image()), None, &mut diagnostics);
        assert_eq!(
            [DiagnosticKind::SymbolsOfAnotherBuild, DiagnosticKind::SymbolsUnused, DiagnosticKind::SymbolsDoubtful]
                .map(|problem| diagnostics.count(problem)),
            [1, 1, 0]
        );
        assert!(s.find(0x10_0040).is_some() && s.find(0x40_0040).is_none(), "its names are not used");
        let mut few = Diagnostics::default();
        let s = Symbols::read_all(&lists, &called[..10], Some(image()), None, &mut few);
        assert!(few.is_empty() && s.find(0x40_0040).is_some(), "a handful of calls proves nothing");
    }

    /// Linked to where the kernel's own functions are, and moved away from there.
    #[test]
    fn what_another_list_says_of_addresses_that_it_leaves_is_not_lost() {
        const KERNEL: u64 = 0xffff_ffff_8100_0000;
        let start = |i: u64| KERNEL + i * 0x50 + i % 7 * 0x10;
        let list = |name: &str, by: u64| -> Vec<u8> {
            (0..300).flat_map(|i| format!("{:x} T {name}{i}\n", start(i) + by).into_bytes()).collect()
        };
        let (linked, ran) = (list("linked", 0), list("ran", 0x20_0000));
        let called: Vec<u64> = (0..100).map(|i| start(i * 3) + 0x20_0000).collect();
        let lists: [(&str, &[u8]); 2] = [("linked", &linked), ("ran", &ran)];
        let mut diagnostics = Diagnostics::default();
        let s = Symbols::read_all(&lists, &called, Some(image()), None, &mut diagnostics);
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
        // Nothing is moved for what does not agree: calls in between, another step, too few.
        check(&slid(0x3a0_0008), None);
        check(&slid(0x3a1_0000), None);
        check(&slid(0x3a0_0000)[..10], None);
    }

    #[test]
    fn lines_that_are_none_are_counted() {
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
