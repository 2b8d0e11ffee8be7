//! The guest's code before it runs: where functions and variables are, and which bytes its image has there.
//!
//! The user's symbol files and the kernel's image name functions. A name is refused if several functions have it, or if two lists give it
//! different places: a wrong place would be stopped at, read or written. All addresses hold for a kernel that is loaded where its image
//! says.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::path::Path;

use object::SymbolKind;
use object::read::{Object, ObjectSection, ObjectSegment, ObjectSymbol, ReadCache, ReadRef};

use recording::{GuestSpec, SymbolFile, open_regular};

use crate::debug_info::{self, DebugInfo, Place};
use crate::refusal::{Text, text};
use crate::{Error, kernel_image, symbols};
use recording::Field;

/// Upper bound for a kernel image, packed or not.
const MAX_IMAGE_BYTES: u64 = 256 << 20;
/// Upper bound for the length of a function.
const MAX_FUNCTION_BYTES: u64 = 1 << 20;
/// The number of addresses or names that a message lists.
const MAX_LISTED: usize = 5;

/// A function's name and place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Function {
    /// The name as the user wrote it.
    pub(crate) name: String,
    pub(crate) address: u64,
    /// Upper bound of the function's end: the start of the next one.
    pub(crate) end: u64,
}

/// The functions of one source, by address.
#[derive(Debug)]
struct List {
    what: String,
    functions: Vec<(u64, String)>,
}

/// Sources of names and bytes of a guest's code.
#[derive(Debug)]
pub(crate) struct Code {
    lists: Vec<List>,
    image: Image,
    /// True if the VMM loads the image.
    is_loaded: bool,
    /// ELF images that may have debug information about variables: the name in messages, and the image.
    detailed: Vec<(String, File)>,
    /// All variables, once they are needed.
    variables: OnceCell<Vec<NamedVariable>>,
}

/// A variable that the image or a symbol file names.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NamedVariable {
    address: u64,
    /// `None` if no symbol gives it.
    size: Option<u64>,
    name: String,
    /// True if each CPU has its own copy; the address is that of the first values.
    is_per_cpu: bool,
}

/// Place of a number in a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Address of the variable.
    pub(crate) address: u64,
    /// Size of the variable; `None` if no symbol gives it.
    pub(crate) size: Option<u64>,
    /// Place and kind of the number in it; `None` if no debug information gives them.
    pub(crate) place: Option<Place>,
}

/// Source of the code's bytes.
#[derive(Debug)]
enum Image {
    /// An ELF image, unpacked.
    Memory(Vec<u8>),
    /// An ELF image as a file, of which little is read.
    File(File),
    /// Only names are available.
    None,
}

impl Code {
    /// Collects the sources: the user's symbol files and the kernel's image.
    ///
    /// # Errors
    /// If a file cannot be read, or if nothing names functions.
    pub(crate) fn of(guest: &GuestSpec, files: &[SymbolFile]) -> Result<Code, Error> {
        let mut code = Code {
            lists: Vec::new(),
            image: Image::None,
            is_loaded: false,
            detailed: Vec::new(),
            variables: OnceCell::new(),
        };
        for file in files {
            let what = file.to_string();
            code.lists.push(List::new(symbols::functions(file, false, &Field::Symbols.is(file).into())?, what.clone()));
            if file.base.is_none() && is_elf(&file.path) {
                code.detailed.extend(open_regular(&file.path).ok().map(|image| (what, image)));
            }
        }
        let Some(kernel) = &guest.kernel else {
            let unmoved = files.iter().find(|file| file.base.is_none() && is_elf(&file.path));
            code.image = unmoved.and_then(|file| open_regular(&file.path).ok()).map_or(Image::None, Image::File);
            return Ok(code);
        };
        match code.take_kernel(kernel) {
            Err(why) if code.lists.is_empty() => Err(why),
            // The symbol files may name the functions of a kernel that cannot be unpacked.
            _ => Ok(code),
        }
    }

    fn take_kernel(&mut self, kernel: &Path) -> Result<(), Error> {
        let file = SymbolFile { path: kernel.to_owned(), base: None };
        let what = kernel.display().to_string();
        if is_elf(kernel) {
            self.image = open_regular(kernel).map_or(Image::None, Image::File);
            self.is_loaded = true;
            self.detailed.extend(open_regular(kernel).ok().map(|image| (what.clone(), image)));
            self.lists.push(List::new(symbols::functions(&file, false, &what.clone().into())?, what));
            return Ok(());
        }
        let mut packed = Vec::new();
        let opened = open_regular(kernel).map_err(Error::unreadable(kernel))?;
        opened.take(MAX_IMAGE_BYTES).read_to_end(&mut packed).map_err(Error::unreadable(kernel))?;
        let unnamed = |why| {
            let why = format!("{what} does not name its functions: {why}");
            Error::refused(Field::Symbols, why, text!["give ", Field::Symbols])
        };
        let elf = kernel_image::unpacked_image(&packed).map_err(unnamed)?.into_owned();
        let functions = kernel_image::functions(&elf).map_err(unnamed);
        self.image = Image::Memory(elf);
        self.lists.push(List::new(functions?, what));
        Ok(())
    }

    /// The function of this name, or the one that begins at this address, written `0x…`.
    ///
    /// # Errors
    /// If there is no such function, or several. The message says why, and what to write instead.
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
                Some((other, first)) if other != one => {
                    return Err(format!(
                        "{name} is at {other:#x} by {}, and at {one:#x} by {}: one of them is of another kernel; give \
                         only what belongs to the kernel that is booted",
                        first.what, list.what
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
        let near: Vec<&str> = near.iter().take(MAX_LISTED).map(|found| found.1.as_ref()).collect();
        let hint = if near.is_empty() {
            "a function that was inlined has no code of its own: name one that calls it".to_owned()
        } else {
            format!("there are {}", near.join(", "))
        };
        format!("no function is called {name} in {}; {hint}", lists.join(" or "))
    }

    /// The place of a variable or of a field of it, as a user wrote it: by name or by address `0x…`, then a path. If the text has no path,
    /// the kind of the variable is looked up only if `wants_kind`.
    ///
    /// # Errors
    /// If there is no such variable, or several. The message says why, and what to write instead.
    pub(crate) fn variable(&self, text: &str, wants_kind: bool) -> Result<Found, Text> {
        let whole = self.symbol(text);
        if let Ok((address, size)) = whole {
            let is_named = !text.starts_with("0x");
            // If no debug information gives the size, the symbol may.
            let place = if wants_kind && is_named { self.place(text, address, "").unwrap_or_default() } else { None };
            return Ok(Found { address, size, place });
        }
        for (name, path) in debug_info::splits(text) {
            match self.symbol(name) {
                Ok((address, size)) => {
                    let place = self.place(name, address, path)?;
                    let place = place.ok_or_else(|| {
                        text![
                            format!("no file has debug information, which names the fields of {name}: give "),
                            Field::Symbols.is("vmlinux"),
                            format!(" of this kernel, built with CONFIG_DEBUG_INFO, or write {name}+0xOFF:BYTES")
                        ]
                    })?;
                    return Ok(Found { address, size, place: Some(place) });
                }
                // The name exists, but it does not lead to one place.
                Err(why) if !matches!(why, Unknown::Nothing(_)) => return Err(why.into_text()),
                Err(_) => {}
            }
        }
        whole.map(|(address, size)| Found { address, size, place: None }).map_err(Unknown::into_text)
    }

    /// The place that a path leads to from a variable; `None` if no file has debug information.
    fn place(&self, name: &str, address: u64, path: &str) -> Result<Option<Place>, String> {
        for (what, file) in &self.detailed {
            let found = DebugInfo::of(&ReadCache::new(file)).map_err(|why| format!("{what}: {why}"))?;
            if let Some(info) = found {
                return info.place(name, address, path).map(Some).map_err(|why| format!("{why} (by {what})"));
            }
        }
        Ok(None)
    }

    /// The address of a variable's symbol, or an address written `0x…`, and its size if the image gives it.
    fn symbol(&self, name: &str) -> Result<(u64, Option<u64>), Unknown> {
        if let Some(address) = name.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok()) {
            return Ok((address, None));
        }
        if matches!(self.image, Image::None) && self.detailed.is_empty() {
            return Err(Unknown::Nothing(
                format!("no kernel image says where {name} is: write its address, 0x…").into(),
            ));
        }
        let all = self.variables.get_or_init(|| self.variables());
        let has_name = |known: &&NamedVariable| known.name == name || plain(&known.name) == name;
        if let Some(copy) = all.iter().find(|known| has_name(known) && known.is_per_cpu) {
            return Err(Unknown::Useless(of_each_cpu(name, copy.address)));
        }
        let found: BTreeMap<u64, Option<u64>> =
            all.iter().filter(has_name).map(|known| (known.address, known.size)).collect();
        match found.iter().take(2).collect::<Vec<_>>()[..] {
            [] => Err(Unknown::Nothing(unknown_variable(name, all))),
            [(address, size)] => Ok((*address, *size)),
            _ => Err(Unknown::Useless(several("variables", name, &found.into_keys().collect()).into())),
        }
    }

    /// The variables that the image names, and those that only the user's images name.
    fn variables(&self) -> Vec<NamedVariable> {
        let mut all = match &self.image {
            Image::Memory(elf) => {
                let named = |is_per_cpu| move |(address, name)| NamedVariable { address, size: None, name, is_per_cpu };
                let per_cpu = kernel_image::per_cpu(elf);
                let per_cpu_places: BTreeSet<u64> = per_cpu.iter().map(|place| place.0).collect();
                let is_shared = |place: &(u64, String)| !per_cpu_places.contains(&place.0);
                let shared: Vec<(u64, String)> = kernel_image::variables(elf).into_iter().filter(is_shared).collect();
                shared.into_iter().map(named(false)).chain(per_cpu.into_iter().map(named(true))).collect()
            }
            Image::File(file) => data(&ReadCache::new(file)),
            Image::None => Vec::new(),
        };
        // A kernel's own list may have only functions.
        let named: BTreeSet<String> = all.iter().map(|known| known.name.clone()).collect();
        let more = self.detailed.iter().flat_map(|(_, file)| data(&ReadCache::new(file)));
        all.extend(more.filter(|known| !named.contains(&known.name)));
        all
    }

    /// The name of the function that begins at this address, or a function's name and an offset into it; the address if there is neither.
    pub(crate) fn name(&self, address: u64) -> String {
        let place = self.lists.iter().filter_map(|list| list.place(address)).max_by_key(|place| place.0);
        match place {
            Some((start, name)) if start == address => plain(name).into_owned(),
            Some((start, name)) => format!("{}+{:#x}", plain(name), address - start),
            None => format!("{address:#x}"),
        }
    }

    /// True if code at this address may be present before the guest's first instruction: the VMM loads it from an ELF image, and the
    /// address is low enough to be used before there are page tables.
    pub(crate) fn may_be_in_place(&self, address: u64) -> bool {
        self.is_loaded && u32::try_from(address).is_ok()
    }

    /// The image's bytes from an address on, if it has all of them.
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
    open_regular(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok() && magic == *b"\x7fELF"
}

fn in_image<'d>(image: impl ReadRef<'d>, address: u64, length: u64) -> Option<Vec<u8>> {
    let elf = object::File::parse(image).ok()?;
    elf.segments().find_map(|segment| segment.data_range(address, length).ok()?.map(<[u8]>::to_vec))
}

/// The reason why a name leads to no variable.
enum Unknown {
    /// There is no variable of this name.
    Nothing(Text),
    /// The variable of this name cannot be read by its name.
    Useless(Text),
}

impl Unknown {
    fn into_text(self) -> Text {
        match self {
            Unknown::Nothing(why) | Unknown::Useless(why) => why,
        }
    }
}

/// The data symbols of an ELF image.
fn data<'d>(image: impl ReadRef<'d>) -> Vec<NamedVariable> {
    let Ok(elf) = object::File::parse(image) else { return Vec::new() };
    let per_cpu = elf.section_by_name(PER_CPU_SECTION).map(|section| section.index());
    let known = |symbol: object::Symbol<'d, '_, _>| {
        let is_per_cpu = per_cpu.is_some() && symbol.section_index() == per_cpu;
        let size = Some(symbol.size()).filter(|size| *size > 0);
        Some(NamedVariable { address: symbol.address(), size, name: symbol.name().ok()?.to_owned(), is_per_cpu })
    };
    elf.symbols().filter(|symbol| symbol.kind() == SymbolKind::Data).filter_map(known).collect()
}

/// The section in which Linux links the variables that each CPU has a copy of.
const PER_CPU_SECTION: &str = ".data..percpu";

/// The reason why a per-CPU variable is not read, and what to do.
fn of_each_cpu(name: &str, address: u64) -> Text {
    text![
        format!(
            "each CPU has its own {name}, so its name is no place in memory. Read the one of a CPU by its address: "
        ),
        "record once with ",
        Field::Watch.is("'__per_cpu_offset:8@FUNC'"),
        format!(
            ", which is CPU 0's (+0x8 is CPU 1's), add {address:#x} to the value that show prints, and watch that, "
        ),
        "0xSUM:BYTES@FUNC"
    ]
}

fn unknown_variable(name: &str, all: &[NamedVariable]) -> Text {
    let plain = all.iter().map(|known| plain(&known.name));
    let near: BTreeSet<(usize, Cow<'_, str>)> =
        plain.filter_map(|known| Some((likeness(name, &known)?, known))).collect();
    let near: Vec<&str> = near.iter().take(MAX_LISTED).map(|found| found.1.as_ref()).collect();
    let hint = if near.is_empty() {
        let otherwise = " if the kernel does not list its variables, or write the address, 0xADDRESS:BYTES";
        text!["give ", Field::Symbols.is("vmlinux"), otherwise]
    } else {
        format!("there are {}", near.join(", ")).into()
    };
    text![format!("no variable is called {name} in the kernel's image; "), hint]
}

fn several(what: &str, name: &str, places: &BTreeSet<u64>) -> String {
    let listed: Vec<String> = places.iter().take(MAX_LISTED).map(|address| format!("{address:#x}")).collect();
    let more = if places.len() > MAX_LISTED { " and elsewhere" } else { "" };
    format!("{} {what} are called {name}, at {}{more}: write the address in its place", places.len(), listed.join(", "))
}

/// A measure of the difference between a known name and a wanted one; `None` if they have nothing in common.
fn likeness(wanted: &str, known: &str) -> Option<usize> {
    if known.contains(wanted) || known.rsplit("::").next().is_some_and(|last| wanted.ends_with(last) && last.len() > 3)
    {
        return Some(known.len().abs_diff(wanted.len()).min(100));
    }
    Some(strsim::damerau_levenshtein(wanted, known)).filter(|&distance| distance <= 2)
}

/// A name as users write it: Rust names demangled.
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
        let has_name = |known: &str| known == name || plain(known) == name;
        self.functions.iter().filter(|function| has_name(&function.1)).map(|function| function.0).collect()
    }

    fn at(&self, address: u64) -> BTreeSet<u64> {
        self.functions.iter().map(|function| function.0).filter(|known| *known == address).collect()
    }

    fn place(&self, address: u64) -> Option<(u64, &str)> {
        let after = self.functions.partition_point(|function| function.0 <= address);
        let (start, name) = self.functions.get(after.checked_sub(1)?)?;
        (address - start < MAX_FUNCTION_BYTES).then_some((*start, name.as_str()))
    }

    fn end_of(&self, address: u64) -> u64 {
        let after = self.functions.partition_point(|function| function.0 <= address);
        let most = address.saturating_add(MAX_FUNCTION_BYTES);
        self.functions.get(after).map_or(most, |next| next.0.min(most))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Code with these lists of functions, and no image.
    pub(crate) fn named(lists: &[(&str, &[(u64, &str)])]) -> Code {
        let list = |(what, functions): &(&str, &[(u64, &str)])| {
            List::new(functions.iter().map(|f| (f.0, f.1.to_owned())).collect(), (*what).to_owned())
        };
        Code {
            lists: lists.iter().map(list).collect(),
            image: Image::None,
            is_loaded: false,
            detailed: Vec::new(),
            variables: OnceCell::new(),
        }
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
        let check_error = |name: &str, words: &[&str]| {
            let why = code.find(name).unwrap_err();
            assert!(words.iter().all(|word| why.contains(word)), "{why}");
        };
        check_error("twin", &["2 functions", "0x2000, 0x3000", "the address"]);
        check_error("init", &["no function is called init in lab", "lab::vmem::init"]);
        check_error("kmian", &["kmain"]);
        check_error("vmem_update", &["inlined"]);
        check_error("0x2001", &["no function"]);
        assert_eq!(code.name(0x1040), "lab::vmem::init");
        assert_eq!(code.name(0x1044), "lab::vmem::init+0x4");
        assert_eq!(code.name(0xfff), "0xfff");
    }

    #[test]
    fn a_variable_that_no_image_names_is_written_as_its_address() {
        let code = named(&[("lab", &[(0x1000, "kmain")])]);
        let found = Found { address: 0xffff_ffff_8200_0010, size: None, place: None };
        assert_eq!(code.variable("0xffffffff82000010", true), Ok(found));
        let why = code.variable("jiffies", true).unwrap_err();
        assert!(why.contains("no kernel image says where jiffies is"), "{why}");
        let known = |name: &str| NamedVariable { address: 1, size: None, name: name.to_owned(), is_per_cpu: false };
        let all = [known("jiffies_64"), known("system_state")];
        assert!(
            unknown_variable("system_stat", &all)
                .contains("called system_stat in the kernel's image; there are system_state")
        );
        assert!(unknown_variable("task", &all).contains("symbols=vmlinux"));
        let twins = several("variables", "count", &BTreeSet::from([0x10, 0x20]));
        assert!(twins.contains("2 variables are called count, at 0x10, 0x20: write the address"), "{twins}");
    }

    /// An ELF image with variables as in a kernel's vmlinux: one that all CPUs share, one per CPU, and a structure.
    fn image(debug: &str) -> (tempfile::TempDir, Code) {
        let folder = tempfile::tempdir().unwrap();
        let (source, image) = (folder.path().join("a.c"), folder.path().join("vmlinux"));
        let text = "struct inner { char pad[8]; int lookup; }; struct { struct inner stat; struct inner *last; } vmem;\n\
                    long shared = 7; __attribute__((section(\".data..percpu\"))) int own = 1; int main(void) { return own; }\n";
        std::fs::write(&source, text).unwrap();
        let mut command = std::process::Command::new("cc");
        assert!(
            command
                .args([debug, "-no-pie", "-Wl,--unique=.data..percpu", "-o"])
                .arg(&image)
                .arg(&source)
                .status()
                .unwrap()
                .success()
        );
        let guest = GuestSpec { kernel: Some(image), ..GuestSpec::default() };
        (folder, Code::of(&guest, &[]).unwrap())
    }

    #[test]
    fn a_field_is_found_by_debug_information_and_without_it_the_error_says_what_to_give() {
        let (_folder, code) = image("-g");
        let (address, size) = code.symbol("vmem").ok().unwrap();
        let found = code.variable("vmem.stat.lookup", true).unwrap();
        let place = Place { offset: 8, behind: Vec::new(), bytes: 4, is_signed: true };
        assert_eq!(found, Found { address, size, place: Some(place) });
        let behind = code.variable("vmem.last->lookup", true).unwrap().place.unwrap();
        assert_eq!((behind.offset, behind.behind, behind.bytes), (16, vec![8], 4));
        assert_eq!(code.variable("shared", true).unwrap().place.map(|place| place.is_signed), Some(true));
        assert_eq!(code.variable("shared", false).unwrap().place, None);
        let why = code.variable("vmem.stat.lookups", true).unwrap_err();
        assert!(why.contains("vmem.stat has no field lookups") && why.contains("vmlinux"), "{why}");
        assert!(code.variable("vmen.stat", true).unwrap_err().contains("no variable is called vmen.stat"));
        let (_folder, code) = image("-g0");
        assert_eq!(code.variable("shared", true).unwrap().size, Some(8), "as its symbol says");
        let why = code.variable("vmem.stat.lookup", true).unwrap_err();
        assert!(why.contains("symbols=vmlinux") && why.contains("vmem+0xOFF:BYTES"), "{why}");
    }

    #[test]
    fn a_variable_of_each_cpu_is_refused() {
        let (_folder, code) = image("-g");
        for text in ["own", "own.x"] {
            let why = code.variable(text, true).unwrap_err();
            assert!(why.contains("each CPU has its own own") && why.contains("'__per_cpu_offset:8@FUNC'"), "{why}");
        }
        assert!(code.variable("shared", false).is_ok());
    }

    #[test]
    fn names_of_another_kernel_are_refused() {
        let code = named(&[("a", &[(0x1000, "main")]), ("vmlinuz", &[(0x1010, "main"), (0x1020, "f")])]);
        let why = code.find("main").unwrap_err();
        assert!(why.contains("0x1000 by a") && why.contains("another kernel"), "{why}");
        assert_eq!(code.find("f").unwrap().address, 0x1020);
    }
}
