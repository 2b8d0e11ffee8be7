//! The guest's code before it runs: where a function is, and what its image holds there.
//!
//! Functions are named by the user's symbol files and by the kernel's image. A name that several functions have, and one that
//! two lists have in different places, is refused: a wrong place would be stopped at, read or written. All of it is about
//! a kernel that lies where its image says.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::path::Path;

use object::SymbolKind;
use object::read::{Object, ObjectSegment, ObjectSymbol, ReadCache, ReadRef};

use recording::{GuestSpec, SymbolFile};

use crate::{Error, kernel_image, symbols};

/// No kernel is longer, packed or not.
const IMAGE_BYTES_MAX: u64 = 256 << 20;
/// A function is no longer.
const FUNCTION_BYTES_MAX: u64 = 1 << 20;
/// So many addresses or names are listed in a message.
const LISTED_MAX: usize = 5;

/// Where a function is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Function {
    /// As the user calls it.
    pub(crate) name: String,
    pub(crate) address: u64,
    /// Where the next one begins, at most.
    pub(crate) end: u64,
}

/// Functions of one list, by address.
#[derive(Debug)]
struct List {
    what: String,
    functions: Vec<(u64, String)>,
}

/// All that is known of a guest's code.
#[derive(Debug)]
pub(crate) struct Code {
    lists: Vec<List>,
    image: Image,
    /// Whether the VMM loads the image.
    is_loaded: bool,
}

/// Who has the bytes of the code.
#[derive(Debug)]
enum Image {
    /// An ELF image, unpacked.
    Memory(Vec<u8>),
    /// One as a file, of which little is read.
    File(File),
    /// Only names are known.
    None,
}

impl Code {
    /// What the user's files and the kernel's image say.
    ///
    /// # Errors
    /// If one of the files cannot be read, or nothing names functions.
    pub(crate) fn of(guest: &GuestSpec, files: &[SymbolFile]) -> Result<Code, Error> {
        let mut code = Code { lists: Vec::new(), image: Image::None, is_loaded: false };
        for file in files {
            let what = format!("--symbols {file}");
            code.lists.push(List::new(symbols::functions(file, false, &what)?, what));
        }
        let Some(kernel) = &guest.kernel else {
            let unmoved = files.iter().find(|file| file.base.is_none() && is_elf(&file.path));
            code.image = unmoved.and_then(|file| File::open(&file.path).ok()).map_or(Image::None, Image::File);
            return Ok(code);
        };
        match code.take_kernel(kernel) {
            Err(why) if code.lists.is_empty() => Err(why),
            // Of one that cannot be unpacked there may be names all the same.
            _ => Ok(code),
        }
    }

    fn take_kernel(&mut self, kernel: &Path) -> Result<(), Error> {
        let file = SymbolFile { path: kernel.to_owned(), base: None };
        let what = kernel.display().to_string();
        if is_elf(kernel) {
            self.image = File::open(kernel).map_or(Image::None, Image::File);
            self.is_loaded = true;
            self.lists.push(List::new(symbols::functions(&file, false, &what)?, what));
            return Ok(());
        }
        let mut packed = Vec::new();
        let opened = File::open(kernel).map_err(Error::unreadable(kernel))?;
        opened.take(IMAGE_BYTES_MAX).read_to_end(&mut packed).map_err(Error::unreadable(kernel))?;
        let unnamed = |why| Error::option(format!("{what} does not name its functions: {why}: give --symbols"));
        let elf = kernel_image::unpacked_image(&packed).map_err(unnamed)?.into_owned();
        let functions = kernel_image::functions(&elf).map_err(unnamed);
        self.image = Image::Memory(elf);
        self.lists.push(List::new(functions?, what));
        Ok(())
    }

    /// The function of this name, or that begins at this address, written `0x…`.
    ///
    /// # Errors
    /// If there is none, or not just one: why, and what to write instead.
    pub(crate) fn find(&self, name: &str) -> Result<Function, String> {
        let address = name.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
        let mut found: Option<(u64, &List)> = None;
        for list in &self.lists {
            let places = address.map_or_else(|| list.called(name), |address| list.at(address));
            let one = match *places.iter().take(2).collect::<Vec<&u64>>() {
                [] => continue,
                [one] => *one,
                _ => return Err(several("functions", name, &places)),
            };
            match found {
                Some((other, of)) if other != one => {
                    return Err(format!(
                        "{name} is at {other:#x} by {}, and at {one:#x} by {}: one of them is of another kernel; give \
                         only what belongs to the kernel that is booted",
                        of.what, list.what
                    ));
                }
                _ => found = Some((one, list)),
            }
        }
        let (address, list) = found.ok_or_else(|| self.unknown(name))?;
        Ok(Function { name: name.to_owned(), address, end: list.end_of(address) })
    }

    fn unknown(&self, name: &str) -> String {
        let lists: Vec<&str> = self.lists.iter().map(|list| list.what.as_str()).collect();
        let mut near: Vec<(usize, Cow<'_, str>)> = Vec::new();
        for list in &self.lists {
            let plain = list.functions.iter().map(|function| plain(&function.1));
            near.extend(plain.filter_map(|known| Some((likeness(name, &known)?, known))));
        }
        near.sort();
        near.dedup();
        let near: Vec<&str> = near.iter().take(LISTED_MAX).map(|found| found.1.as_ref()).collect();
        let hint = if near.is_empty() {
            "a function that was inlined has no code of its own: name one that calls it".to_owned()
        } else {
            format!("there are {}", near.join(", "))
        };
        format!("no function is called {name} in {}; {hint}", lists.join(" or "))
    }

    /// Where a variable of this name is, or one written `0x…`, and its size where the image says it.
    ///
    /// # Errors
    /// If there is none, or not just one: why, and what to write instead.
    pub(crate) fn variable(&self, name: &str) -> Result<(u64, Option<u64>), String> {
        if let Some(address) = name.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok()) {
            return Ok((address, None));
        }
        let all = match &self.image {
            Image::Memory(elf) => {
                let places = kernel_image::variables(elf).into_iter();
                places.map(|(address, name)| (address, None, name)).collect()
            }
            Image::File(file) => data(&ReadCache::new(file)),
            Image::None => return Err(format!("no kernel image says where {name} is: write its address, 0x…")),
        };
        let is_it = |known: &str| known == name || plain(known) == name;
        let found: BTreeMap<u64, Option<u64>> = all.iter().filter(|v| is_it(&v.2)).map(|v| (v.0, v.1)).collect();
        match found.iter().take(2).collect::<Vec<_>>()[..] {
            [] => Err(unknown_variable(name, &all)),
            [(address, size)] => Ok((*address, *size)),
            _ => Err(several("variables", name, &found.into_keys().collect())),
        }
    }

    /// The function that begins at this address, or how far an address is into one; the address where nothing names it.
    pub(crate) fn name(&self, address: u64) -> String {
        let place = self.lists.iter().filter_map(|list| list.place(address)).max_by_key(|place| place.0);
        match place {
            Some((start, name)) if start == address => plain(name).into_owned(),
            Some((start, name)) => format!("{}+{:#x}", plain(name), address - start),
            None => format!("{address:#x}"),
        }
    }

    /// Whether code at this address may be there before the guest's first instruction: loaded by the VMM from an ELF image,
    /// and so low that it can be addressed before there are page tables.
    pub(crate) fn may_be_in_place(&self, address: u64) -> bool {
        self.is_loaded && u32::try_from(address).is_ok()
    }

    /// What the image holds from an address on, if all of it is known.
    pub(crate) fn bytes(&self, address: u64, length: u64) -> Option<Vec<u8>> {
        match &self.image {
            Image::Memory(bytes) => in_image(bytes.as_slice(), address, length),
            Image::File(file) => in_image(&ReadCache::new(file), address, length),
            Image::None => None,
        }
    }
}

fn is_elf(path: &Path) -> bool {
    let mut magic = [0; 4];
    File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok() && magic == *b"\x7fELF"
}

fn in_image<'d>(image: impl ReadRef<'d>, address: u64, length: u64) -> Option<Vec<u8>> {
    let elf = object::File::parse(image).ok()?;
    elf.segments().find_map(|segment| segment.data_range(address, length).ok()?.map(<[u8]>::to_vec))
}

/// The symbols of an ELF image that are no code: where, how large, and what they are called.
fn data<'d>(image: impl ReadRef<'d>) -> Vec<(u64, Option<u64>, String)> {
    let Ok(elf) = object::File::parse(image) else { return Vec::new() };
    let data = elf.symbols().filter(|symbol| symbol.kind() == SymbolKind::Data);
    let size = |size: u64| Some(size).filter(|size| *size > 0);
    data.filter_map(|symbol| Some((symbol.address(), size(symbol.size()), symbol.name().ok()?.to_owned()))).collect()
}

fn unknown_variable(name: &str, all: &[(u64, Option<u64>, String)]) -> String {
    let plain = all.iter().map(|v| plain(&v.2));
    let near: BTreeSet<(usize, Cow<'_, str>)> =
        plain.filter_map(|known| Some((likeness(name, &known)?, known))).collect();
    let near: Vec<&str> = near.iter().take(LISTED_MAX).map(|found| found.1.as_ref()).collect();
    let hint = if near.is_empty() {
        "fields of structures are not known by name: write VAR+0xOFF:BYTES".to_owned()
    } else {
        format!("there are {}", near.join(", "))
    };
    format!("no variable is called {name} in the kernel's image; {hint}")
}

fn several(what: &str, name: &str, places: &BTreeSet<u64>) -> String {
    let listed: Vec<String> = places.iter().take(LISTED_MAX).map(|address| format!("{address:#x}")).collect();
    let more = if places.len() > LISTED_MAX { " and elsewhere" } else { "" };
    format!("{} {what} are called {name}, at {}{more}: write the address in its place", places.len(), listed.join(", "))
}

/// How little a name that is known differs from one that is not; none if they have nothing in common.
fn likeness(wanted: &str, known: &str) -> Option<usize> {
    if known.contains(wanted) || known.rsplit("::").next().is_some_and(|last| wanted.ends_with(last) && last.len() > 3)
    {
        return Some(known.len().abs_diff(wanted.len()).min(100));
    }
    Some(strsim::damerau_levenshtein(wanted, known)).filter(|&distance| distance <= 2)
}

/// A name as people write it.
fn plain(name: &str) -> Cow<'_, str> {
    if !name.starts_with("_R") && !name.starts_with("_Z") {
        return Cow::Borrowed(name);
    }
    rustc_demangle::try_demangle(name).map_or(Cow::Borrowed(name), |rust| Cow::Owned(format!("{rust:#}")))
}

impl List {
    fn new(mut functions: Vec<(u64, String)>, what: String) -> List {
        functions.sort();
        functions.dedup();
        List { what, functions }
    }

    fn called(&self, name: &str) -> BTreeSet<u64> {
        let is_it = |known: &str| known == name || plain(known) == name;
        self.functions.iter().filter(|function| is_it(&function.1)).map(|function| function.0).collect()
    }

    fn at(&self, address: u64) -> BTreeSet<u64> {
        self.functions.iter().map(|function| function.0).filter(|known| *known == address).collect()
    }

    fn place(&self, address: u64) -> Option<(u64, &str)> {
        let after = self.functions.partition_point(|function| function.0 <= address);
        let (start, name) = self.functions.get(after.checked_sub(1)?)?;
        (address - start < FUNCTION_BYTES_MAX).then_some((*start, name.as_str()))
    }

    fn end_of(&self, address: u64) -> u64 {
        let after = self.functions.partition_point(|function| function.0 <= address);
        let most = address.saturating_add(FUNCTION_BYTES_MAX);
        self.functions.get(after).map_or(most, |next| next.0.min(most))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Lists of functions, and no image.
    pub(crate) fn named(lists: &[(&str, &[(u64, &str)])]) -> Code {
        let list = |(what, functions): &(&str, &[(u64, &str)])| {
            List::new(functions.iter().map(|f| (f.0, f.1.to_owned())).collect(), (*what).to_owned())
        };
        Code { lists: lists.iter().map(list).collect(), image: Image::None, is_loaded: false }
    }

    #[test]
    fn a_function_is_found_by_its_name_as_it_was_written_or_by_its_address() {
        let code = named(&[(
            "lab",
            &[(0x1000, "kmain"), (0x1040, "_ZN3lab4vmem4init17h3ada6a6b4528cea9E"), (0x2000, "twin"), (0x3000, "twin")],
        )]);
        let function = code.find("lab::vmem::init").unwrap();
        assert_eq!((function.address, function.end), (0x1040, 0x2000));
        assert_eq!(code.find("kmain").unwrap().end, 0x1040);
        assert_eq!(code.find("0x2000").unwrap().address, 0x2000);
        let says = |name: &str, words: &[&str]| {
            let why = code.find(name).unwrap_err();
            assert!(words.iter().all(|word| why.contains(word)), "{why}");
        };
        says("twin", &["2 functions", "0x2000, 0x3000", "the address"]);
        says("init", &["no function is called init in lab", "lab::vmem::init"]);
        says("kmian", &["kmain"]);
        says("vmem_update", &["inlined"]);
        says("0x2001", &["no function"]);
        assert_eq!(code.name(0x1040), "lab::vmem::init");
        assert_eq!(code.name(0x1044), "lab::vmem::init+0x4");
        assert_eq!(code.name(0xfff), "0xfff");
    }

    #[test]
    fn a_variable_that_no_image_names_is_written_as_its_address() {
        let code = named(&[("lab", &[(0x1000, "kmain")])]);
        assert_eq!(code.variable("0xffffffff82000010"), Ok((0xffff_ffff_8200_0010, None)));
        let why = code.variable("jiffies").unwrap_err();
        assert!(why.contains("no kernel image says where jiffies is"), "{why}");
        let all = [(1, None, "jiffies_64".to_owned()), (2, Some(8), "system_state".to_owned())];
        assert!(
            unknown_variable("system_stat", &all)
                .contains("called system_stat in the kernel's image; there are system_state")
        );
        assert!(unknown_variable("task.pid", &all).contains("fields of structures are not known by name"));
        let twins = several("variables", "count", &BTreeSet::from([0x10, 0x20]));
        assert!(twins.contains("2 variables are called count, at 0x10, 0x20: write the address"), "{twins}");
    }

    #[test]
    fn names_of_another_kernel_are_refused() {
        let code = named(&[("--symbols a", &[(0x1000, "main")]), ("vmlinuz", &[(0x1010, "main"), (0x1020, "f")])]);
        let why = code.find("main").unwrap_err();
        assert!(why.contains("0x1000 by --symbols a") && why.contains("another kernel"), "{why}");
        assert_eq!(code.find("f").unwrap().address, 0x1020);
    }
}
