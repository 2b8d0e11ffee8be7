//! Names for the guest's code from the user's files (`FILE[@BASE]`) and from a kernel's image, in one form for the recording.
//!
//! A file is an ELF or PE image with a symbol table, or a bzImage or ELF kernel with a [table of its symbols](kernel_image). It may also be
//! a list such as `System.map`, `/proc/kallsyms` and the output of `nm`, gzip-compressed or not. The recording always keeps a list of
//! functions, one `<address> t <name>` per line, with their addresses at run time: an image with debug information can be larger than any
//! recording.
//!
//! **Functions** are the symbols of code. In an image they are those in executable sections, whatever their type, because assembly's have
//! no type; in a list they are those of types t and w. **BASE** is the image's start in memory, if it differs from the linked one. It is
//! the first byte of the lowest loaded segment, of `.text` for an object file, and `_text` or the lowest function for a list.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read, Write as _};
use std::path::Path;

use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use object::read::{Object, ObjectSection, ObjectSegment, ObjectSymbol, ReadCache};
use object::{ObjectKind, SectionFlags, SectionIndex, SymbolSection, elf, pe};

use recording::{SymbolFile, open_regular};

use crate::refusal::{Text, text};
use crate::{Error, kernel_image};
use recording::Field;

/// Upper bound for a list: a kernel's is 10 MB.
const MAX_LIST_BYTES: u64 = 256 << 20;

/// Bytes at the start of a file that show its kind; a bzImage is recognised by its boot header.
const HEAD_BYTES: u64 = 1 << 10;

/// Address and name of a function.
type Function = (u64, String);

/// The functions that a file names, as the recording keeps them: a compressed list.
///
/// # Errors
/// If the file cannot be read, or names no functions.
pub(crate) fn list(file: &SymbolFile) -> Result<Vec<u8>, Error> {
    let functions = functions(file, false, &Field::Symbols.is(file).into())?;
    let mut text = String::with_capacity(functions.len() * 40);
    for (address, name) in functions {
        writeln!(text, "{address:016x} t {name}").expect("a String takes all");
    }
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    let written = packed.write_all(text.as_bytes()).and_then(|()| packed.finish());
    written.map_err(Error::host("compress symbols"))
}

/// The functions that a file names. If `hurried`, skips a bzImage, which takes a second to unpack. Errors call the file `what`.
///
/// # Errors
/// If the file cannot be read, or names no functions.
pub(crate) fn functions(file: &SymbolFile, hurried: bool, what: &Text) -> Result<Vec<Function>, Error> {
    let unreadable = || Error::unreadable(&file.path);
    let mut opened = open_regular(&file.path).map_err(unreadable())?;
    let mut head = Vec::new();
    (&mut opened).take(HEAD_BYTES).read_to_end(&mut head).map_err(unreadable())?;
    let refused = |why: Text| Error::refused(Field::Symbols, text![what.clone(), ": ", why], "");
    if hurried && kernel_image::is_packed(&head) {
        let why = "stopped by the user, so it was not unpacked for its names: end the boot with ";
        return Err(refused(text![why, Field::Timeout, " to have them"]));
    }
    let found = match &*head {
        _ if kernel_image::is_packed(&head) => from_kernel(reopened(&file.path)?, file.base),
        [0x7f, b'E', b'L', b'F', ..] => {
            let again = reopened(&file.path)?;
            from_image(&opened, file.base).or_else(|why| from_kernel(again, file.base).map_err(|_| why))
        }
        [b'M', b'Z', ..] => from_image(&opened, file.base),
        [0x1f, 0x8b, ..] => from_list(GzDecoder::new(reopened(&file.path)?), file.base),
        _ => from_list(reopened(&file.path)?, file.base),
    };
    found.map_err(|why| refused(why.into()))
}

fn reopened(path: &Path) -> Result<File, Error> {
    open_regular(path).map_err(Error::unreadable(path))
}

/// Reads an ELF or PE image; of its content only the tables.
fn from_image(file: &File, base: Option<u64>) -> Result<Vec<Function>, String> {
    let cache = ReadCache::new(file);
    let image = object::File::parse(&cache).map_err(|e| format!("it is damaged, or for another machine: {e}"))?;
    let text = image.section_by_name(".text").map(|section| section.index());
    let relocatable = image.kind() == ObjectKind::Relocatable;
    if relocatable && base.is_none() {
        return Err("it is an object file, which has no address of its own: say where its .text is, FILE@0xBASE".into());
    }
    let code: Vec<SectionIndex> = image.sections().filter(|s| is_executable(s.flags())).map(|s| s.index()).collect();
    let is_code = |section: SymbolSection| match section.index() {
        Some(index) if relocatable => Some(index) == text,
        Some(index) => code.contains(&index),
        None => false,
    };
    let link_base = if relocatable { Some(0) } else { image.segments().map(|segment| segment.address()).min() };
    let shift = base.map_or(0, |base| base.wrapping_sub(link_base.unwrap_or(0)));
    let named = |symbol: &object::Symbol<'_, '_, _>| {
        let name = symbol.name().ok().and_then(plain)?;
        is_code(symbol.section()).then(|| (symbol.address().wrapping_add(shift), name.to_owned()))
    };
    let mut functions: Vec<Function> = image.symbols().filter_map(|symbol| named(&symbol)).collect();
    if functions.is_empty() {
        functions = image.dynamic_symbols().filter_map(|symbol| named(&symbol)).collect();
    }
    if functions.is_empty() {
        return Err(
            "it is stripped, no symbol of it is code: give the image before it was stripped, or its System.map".into(),
        );
    }
    Ok(functions)
}

/// True even if the section also has data, as that of a kernel's initialisation does.
fn is_executable(flags: SectionFlags) -> bool {
    match flags {
        SectionFlags::Elf { sh_flags, .. } => sh_flags.contains(elf::SHF_EXECINSTR),
        SectionFlags::Coff { characteristics, .. } => characteristics.contains(pe::IMAGE_SCN_MEM_EXECUTE),
        _ => false,
    }
}

/// A name that can stand in a list; `None` for the marks that assemblers leave in symbol tables.
fn plain(name: &str) -> Option<&str> {
    let name = name.split(char::is_whitespace).next()?;
    (!name.is_empty() && !name.starts_with([b'$', b'.'].map(char::from))).then_some(name)
}

/// Reads a whole Linux kernel.
fn from_kernel(file: File, base: Option<u64>) -> Result<Vec<Function>, String> {
    let mut image = Vec::new();
    file.take(MAX_LIST_BYTES + 1).read_to_end(&mut image).map_err(|e| format!("it cannot be read: {e}"))?;
    let functions = kernel_image::functions(&image).map_err(|why| why.to_string())?;
    Ok(moved(functions, base))
}

fn from_list(text: impl Read, base: Option<u64>) -> Result<Vec<Function>, String> {
    let mut bytes = Vec::new();
    text.take(MAX_LIST_BYTES + 1).read_to_end(&mut bytes).map_err(|e| format!("it cannot be unpacked: {e}"))?;
    if bytes.len() as u64 > MAX_LIST_BYTES {
        return Err(format!("a list of more than {MAX_LIST_BYTES} bytes is none of a kernel's"));
    }
    let functions: Vec<Function> = bytes.split(|b| *b == b'\n').filter_map(function).collect();
    if functions.is_empty() {
        return Err("it is neither an ELF or PE image, nor a list with lines such as `ffffffff81000000 T _text`".into());
    }
    Ok(moved(functions, base))
}

/// Moves functions to where they are if the kernel begins at a base.
fn moved(mut functions: Vec<Function>, base: Option<u64>) -> Vec<Function> {
    let begins = functions.iter().find(|f| f.1 == "_text").or_else(|| functions.iter().min());
    if let Some((base, from)) = base.zip(begins.map(|f| f.0)) {
        functions.iter_mut().for_each(|f| f.0 = f.0.wrapping_sub(from).wrapping_add(base));
    }
    functions
}

/// Parses a line of a list, if it is a function that has an address.
fn function(line: &[u8]) -> Option<Function> {
    let mut words = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
    let (address, kind, name) = (words.next()?, words.next()?, words.next()?);
    let digits = address.strip_prefix("0x").unwrap_or(address); // Xen's maps have it
    let address = u64::from_str_radix(digits, 16).ok().filter(|&address| address != 0)?;
    matches!(kind, "t" | "T" | "w" | "W").then(|| (address, name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use std::process::Command;

    fn check(file: &Path, base: Option<u64>) -> Result<Vec<Function>, String> {
        let file = SymbolFile { path: file.to_owned(), base };
        functions(&file, false, &Field::Symbols.is(&file).into()).map_err(|e| e.to_string())
    }

    fn written(dir: &tempfile::TempDir, name: &str, bytes: &[u8]) -> PathBuf {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    #[test]
    fn a_file_may_have_a_base() {
        let parse = |text: &str| text.parse::<SymbolFile>().map(|f| (f.path.display().to_string(), f.base));
        assert_eq!(parse("xen-syms"), Ok(("xen-syms".to_owned(), None)));
        assert_eq!(parse("xen-syms@0xffff82d040200000"), Ok(("xen-syms".to_owned(), Some(0xffff_82d0_4020_0000))));
        assert_eq!(parse("me@home"), Ok(("me@home".to_owned(), None)));
        assert!(parse("xen@0xzz").unwrap_err().contains("no address"));
        assert_eq!(
            parse("a@0x10").unwrap().1.map(|base| SymbolFile { path: "a".into(), base: Some(base) }.to_string()),
            Some("a@0x10".to_owned())
        );
    }

    #[test]
    fn lists_are_read_moved_and_unpacked() {
        let dir = tempfile::tempdir().unwrap();
        let text = b"0000000000000000 A zero\n                 U other\nffffffff81000000 T _text\nffffffff81000000 T startup_64\n0xffffffff81000100 t helper\t[mod]\nffffffff82000000 D data\n";
        let map = written(&dir, "System.map", text);
        let expected =
            |base: u64| Ok(vec![(base, "_text".into()), (base, "startup_64".into()), (base + 0x100, "helper".into())]);
        assert_eq!(check(&map, None), expected(0xffff_ffff_8100_0000));
        assert_eq!(check(&map, Some(0x20_0000)), expected(0x20_0000));
        let kept = list(&SymbolFile { path: map, base: Some(0x1000) }).unwrap();
        let kept = written(&dir, "kept.gz", &kept);
        assert_eq!(check(&kept, None), expected(0x1000), "what is kept is such a list");
        for (name, bytes, why) in [
            ("a", &b"hello\n"[..], "neither"),
            ("b", b"", "neither"),
            ("c", b"\x7fELFxxxx", "damaged"),
            ("d", b"\x1f\x8bxx", "unpacked"),
        ] {
            let error = check(&written(&dir, name, bytes), None).unwrap_err();
            assert!(error.contains(why) && error.contains("symbols=/"), "{error}");
        }
    }

    #[test]
    fn only_a_file_that_the_user_named_is_called_one() {
        let dir = tempfile::tempdir().unwrap();
        let mut image = vec![0; 1024];
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x206..0x208].copy_from_slice(&[0x0c, 0x02]);
        let file = SymbolFile { path: written(&dir, "vmlinuz", &image), base: None };
        let error = functions(&file, true, &file.to_string().into()).unwrap_err().to_string();
        assert!(error.contains("vmlinuz: stopped by the user") && !error.contains("symbols="), "{error}");
    }

    #[test]
    fn an_images_functions_are_the_symbols_of_code_of_any_type() {
        let dir = tempfile::tempdir().unwrap();
        let source = written(&dir, "a.s", b".text\n.globl _start\n_start: nop\ninner: ret\n.type typed,@function\ntyped: ret\n.data\nvalue: .long 1\n.equ absolute, 5\n");
        let (object, image) = (dir.path().join("a.o"), dir.path().join("a"));
        let run = |arguments: &[&str]| assert!(Command::new("cc").args(arguments).status().unwrap().success());
        run(&["-c", "-o", object.to_str().unwrap(), source.to_str().unwrap()]);
        run(&["-static", "-nostdlib", "-Wl,-Ttext=0x400000", "-o", image.to_str().unwrap(), object.to_str().unwrap()]);
        let named = |functions: Vec<Function>| {
            let mut functions: Vec<Function> = functions
                .into_iter()
                .filter(|f| ["_start", "inner", "typed", "value", "absolute"].contains(&&*f.1))
                .collect();
            functions.sort();
            functions
        };
        let expected = |base: u64| {
            vec![(base, "_start".to_owned()), (base + 1, "inner".to_owned()), (base + 2, "typed".to_owned())]
        };
        assert_eq!(named(check(&image, None).unwrap()), expected(0x40_0000));
        assert!(check(&object, None).unwrap_err().contains("@0xBASE"));
        assert_eq!(named(check(&object, Some(0x7000)).unwrap()), expected(0x7000));
        assert!(Command::new("strip").arg(&image).status().unwrap().success());
        assert!(check(&image, None).unwrap_err().contains("stripped"));
    }
}
