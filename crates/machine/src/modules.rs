//! Finds the kernel modules that a guest needs before it has a root, their order, and their files on this host.
//!
//! Each module lists the modules that it needs (`depends=` in its section `.modinfo`). So no depmod is needed: an unpacked package is
//! enough. `modules.builtin` lists the modules that are built in (Documentation/kbuild/kbuild.rst). bootscope searches for the folder of
//! the kernel's release beside the kernel and in /lib/modules. It unpacks compressed modules, because the guest cannot do so before it has
//! a user space.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use guest_init::cpio::Module;
use lzma_rust2::XzReader;
use object::{File as Object, Object as _, ObjectSection as _};
use recording::{BYTES_MAX, SMALL_BYTES_MAX, read_regular, read_regular_text};

use crate::arch::Arch;
use crate::refusal::text;
use crate::{Error, image};
use recording::Field;

/// Upper bound for a module.
const MAX_MODULE_BYTES: u64 = 64 << 20;
/// Upper bound for the unpacker's memory besides its output.
const MAX_UNPACKER_KIB: u32 = 64 << 10;
/// Upper bounds for the files and the depth of a folder of modules.
const MAX_FILES: usize = 20_000;
const MAX_DEPTH: usize = 12;

/// The modules of these names that are not built in, and all modules that they need, in an order in which they can be loaded. Names may
/// have `-` for `_`.
///
/// Lists all files of the folder, and reads the modules that are needed.
///
/// # Errors
/// If the kernel's release is unknown, its modules are not found, or a module is neither among them nor built in.
pub(crate) fn needed(arch: &Arch, kernel: &Path, names: &[&str]) -> Result<Vec<Module>, Error> {
    let release = image::linux_release(arch, kernel)?.ok_or_else(|| {
        let why = format!(" needs modules that fit the kernel, and {} does not tell its release", kernel.display());
        Error::refused(Field::Root, text![Field::Root, why], "give a bzImage")
    })?;
    let folder = folder(kernel, &release)?;
    let mut order = Order { tree: Tree::of(&folder)?, seen: BTreeSet::new(), modules: Vec::new() };
    names.iter().try_for_each(|name| order.add(name))?;
    Ok(order.modules)
}

/// The folder with the modules of this release.
fn folder(kernel: &Path, release: &str) -> Result<PathBuf, Error> {
    let real = kernel.canonicalize().map_err(Error::unreadable(kernel))?;
    let beside = real.parent().unwrap_or(Path::new("/"));
    // For a kernel in its own folder, for one in the /boot of an unpacked package, and for this host's.
    let places = [beside.join("lib/modules"), beside.join("../lib/modules"), PathBuf::from("/lib/modules")];
    let places = places.map(|place| place.join(release));
    places.iter().find(|place| place.is_dir()).cloned().ok_or_else(|| {
        let looked: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
        let none = format!(
            " needs the modules of kernel {release}, and none of these folders is there: {}; unpack its package (`dpkg -x \
             linux-image-….deb FOLDER`, then ",
            looked.join(", ")
        );
        let why = text![
            Field::Root,
            none,
            Field::Kernel.is("FOLDER/boot/vmlinuz-…"),
            "), or `make modules_install INSTALL_MOD_PATH=` the folder with the kernel"
        ];
        Error::refused(Field::Root, why, "")
    })
}

/// A folder of modules.
struct Tree {
    folder: PathBuf,
    files: BTreeMap<String, PathBuf>,
    built_in: BTreeSet<String>,
}

impl Tree {
    fn of(folder: &Path) -> Result<Tree, Error> {
        let mut files = BTreeMap::new();
        walk(&folder.join("kernel"), 0, &mut files)?;
        let list = folder.join("modules.builtin");
        let built_in = match read_regular_text(&list, SMALL_BYTES_MAX) {
            Ok(text) => text.lines().filter_map(|line| module_name(Path::new(line))).collect(),
            Err(why) if why.kind() == std::io::ErrorKind::NotFound => BTreeSet::new(),
            Err(why) => return Err(Error::Unreadable { path: list, why }),
        };
        Ok(Tree { folder: folder.to_path_buf(), files, built_in })
    }

    fn file(&self, name: &str) -> Result<&Path, Error> {
        self.files.get(name).map(PathBuf::as_path).ok_or_else(|| {
            let why = format!(
                " needs the kernel's module {name}: it is not in {}, and not in its modules.builtin; the kernel was built \
                 without it, or its package is not all there",
                self.folder.display()
            );
            Error::refused(Field::Root, text![Field::Root, why], "")
        })
    }
}

fn walk(folder: &Path, depth: usize, files: &mut BTreeMap<String, PathBuf>) -> Result<(), Error> {
    let entries = match fs::read_dir(folder) {
        // A kernel without modules has no such folder.
        Err(why) if depth == 0 && why.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(Error::unreadable(folder))?,
    };
    for entry in entries {
        let entry = entry.map_err(Error::unreadable(folder))?;
        let path = entry.path();
        if entry.file_type().map_err(Error::unreadable(&path))?.is_dir() {
            if depth < MAX_DEPTH {
                walk(&path, depth + 1, files)?;
            }
        } else if let Some(name) = module_name(&path) {
            files.insert(name, path);
        }
        if files.len() > MAX_FILES {
            let folder = folder.display();
            return Err(Error::Unusable(format!(
                "{folder} is no folder of modules: more than {MAX_FILES} files are in it"
            )));
        }
    }
    Ok(())
}

/// The module's name: `nd_pmem` for `kernel/drivers/nvdimm/nd_pmem.ko.xz`.
fn module_name(path: &Path) -> Option<String> {
    let file = path.file_name()?.to_str()?;
    let (name, packed) = file.split_once(".ko")?;
    ["", ".xz", ".zst", ".gz"].contains(&packed).then(|| name.replace('-', "_"))
}

/// The modules to load, each after those that it needs.
struct Order {
    tree: Tree,
    seen: BTreeSet<String>,
    modules: Vec<Module>,
}

impl Order {
    fn add(&mut self, name: &str) -> Result<(), Error> {
        let name = name.replace('-', "_");
        if self.tree.built_in.contains(&name) || !self.seen.insert(name.clone()) {
            return Ok(());
        }
        let path = self.tree.file(&name)?.to_path_buf();
        let bytes = unpacked(&path)?;
        let info = info(&bytes).ok_or_else(|| no_module(&path, "it is no ELF image with a section .modinfo"))?;
        info.depends.iter().try_for_each(|name| self.add(name))?;
        // A softdep may name an algorithm: the module has that name, or that name with `_generic`. It may be missing.
        for name in info.softdeps.iter().flat_map(|name| [name.clone(), format!("{name}_generic")]) {
            if self.tree.files.contains_key(&name) {
                self.add(&name)?;
            }
        }
        self.modules.push(Module { file: format!("{name}.ko"), bytes });
        Ok(())
    }
}

fn no_module(path: &Path, why: &str) -> Error {
    Error::Unusable(format!("{} is not a kernel module that can be loaded: {why}", path.display()))
}

/// The module's ELF image, unpacked.
fn unpacked(path: &Path) -> Result<Vec<u8>, Error> {
    let file = read_regular(path, BYTES_MAX).map_err(Error::unreadable(path))?;
    let mut bytes = Vec::new();
    let read = match &file[..] {
        [0x1f, 0x8b, ..] => GzDecoder::new(&file[..]).take(MAX_MODULE_BYTES).read_to_end(&mut bytes),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => {
            XzReader::new_mem_limit(&file[..], false, MAX_UNPACKER_KIB).take(MAX_MODULE_BYTES).read_to_end(&mut bytes)
        }
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            zstd::Decoder::with_buffer(&file[..]).and_then(|zstd| zstd.take(MAX_MODULE_BYTES).read_to_end(&mut bytes))
        }
        _ => return Ok(file),
    };
    read.map_err(|e| no_module(path, &format!("it cannot be unpacked: {e}")))?;
    Ok(bytes)
}

/// Other modules that a module lists.
struct Info {
    /// Modules whose symbols it uses: `depends=a,b`.
    depends: Vec<String>,
    /// Modules that modprobe would load before it: `softdep=pre: a b`.
    softdeps: Vec<String>,
}

fn info(elf: &[u8]) -> Option<Info> {
    let object = Object::parse(elf).ok()?;
    let section = object.section_by_name(".modinfo")?.data().ok()?;
    let all = |key: &str, between: char| {
        let entries = section.split(|&byte| byte == 0).map(String::from_utf8_lossy);
        let names: Vec<String> = entries.filter_map(|entry| Some(entry.strip_prefix(key)?.to_owned())).collect();
        let names = names.iter().flat_map(|entry| entry.split(between));
        names.filter(|name| !name.is_empty()).map(|name| name.replace('-', "_")).collect()
    };
    Some(Info { depends: all("depends=", ','), softdeps: all("softdep=pre: ", ' ') })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::x86_64::ARCH;
    use std::io::Write;

    /// A module that depends on these, and has a softdep on `crc32c`: an ELF image with the sections .modinfo and .shstrtab.
    fn module(depends: &str) -> Vec<u8> {
        let info = format!("license=GPL\0depends={depends}\0softdep=pre: crc32c\0name=x\0");
        let names = b"\0.modinfo\0.shstrtab\0";
        let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x01\0\x3e\0\x01\0\0\0".to_vec();
        let sections_at = (64 + info.len() + names.len()) as u64;
        [0, 0, sections_at].iter().for_each(|word| elf.extend(word.to_le_bytes()));
        // No flags, the header's length, no segments, three sections of 64 bytes; the last one has their names.
        elf.extend([0, 0, 0, 0, 64, 0, 0, 0, 0, 0, 64, 0, 3, 0, 2, 0]);
        elf.extend(info.as_bytes());
        elf.extend(names);
        let progbits_strtab = [(0u32, 0u32, 0, 0), (1, 1, 64, info.len()), (10, 3, 64 + info.len(), names.len())];
        for (name, kind, at, bytes) in progbits_strtab {
            [name, kind].iter().for_each(|word| elf.extend(word.to_le_bytes()));
            [0, 0, at as u64, bytes as u64, 0, 1, 0].iter().for_each(|word: &u64| elf.extend(word.to_le_bytes()));
        }
        elf
    }

    /// A folder with a kernel of release 6.1-x, and these modules beside it.
    fn kernel(modules: &[(&str, Vec<u8>)], built_in: &str) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let mut bzimage = vec![0; 4096];
        bzimage[0x202..0x206].copy_from_slice(b"HdrS");
        bzimage[0x20e..0x210].copy_from_slice(&[0, 2]);
        bzimage[0x400..0x405].copy_from_slice(b"6.1-x");
        let path = dir.path().join("vmlinuz");
        fs::write(&path, bzimage).unwrap();
        let folder = dir.path().join("lib/modules/6.1-x");
        fs::create_dir_all(folder.join("kernel/drivers/deep")).unwrap();
        fs::write(folder.join("modules.builtin"), built_in).unwrap();
        for (name, bytes) in modules {
            fs::write(folder.join("kernel/drivers/deep").join(name), bytes).unwrap();
        }
        (dir, path)
    }

    fn order(kernel: &Path, names: &[&str]) -> Vec<String> {
        needed(&ARCH, kernel, names).unwrap().into_iter().map(|module| module.file).collect()
    }

    #[test]
    fn each_comes_once_and_after_what_it_needs() {
        let modules = [
            ("virtio.ko", module("")),
            ("virtio_ring.ko", module("virtio")),
            ("virtio-blk.ko", module("virtio_ring,virtio")),
            // No modules of a real kernel depend on each other; a damaged tree must not be walked for ever.
            ("a.ko", module("b")),
            ("b.ko", module("a")),
        ];
        let (_dir, path) = kernel(&modules, "kernel/fs/ext4/ext4.ko\n");
        assert_eq!(order(&path, &["virtio_blk", "ext4", "virtio"]), ["virtio.ko", "virtio_ring.ko", "virtio_blk.ko"]);
        assert_eq!(order(&path, &["a"]), ["b.ko", "a.ko"]);
        let (_dir, path) = kernel(&[("crc32c_generic.ko", module("")), ("ext4.ko", module(""))], "");
        assert_eq!(order(&path, &["ext4"]), ["crc32c_generic.ko", "ext4.ko"]);
    }

    #[test]
    fn compressed_modules_are_unpacked() {
        let plain = module("");
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&plain).unwrap();
        let zstd = zstd::encode_all(&plain[..], 1).unwrap();
        let modules = [("a.ko.gz", gzip.finish().unwrap()), ("b.ko.zst", zstd)];
        let (_dir, path) = kernel(&modules, "");
        let found = needed(&ARCH, &path, &["a", "b"]).unwrap();
        assert!(found.iter().all(|module| module.bytes == plain), "{:?}", found.len());
    }

    #[test]
    fn a_missing_module_is_named_with_the_folders_searched() {
        let (dir, path) = kernel(&[("a.ko", module("gone")), ("bad.ko", b"hello".to_vec())], "");
        for (name, words) in [
            ("a", ["gone", "lib/modules/6.1-x"]),
            ("nd_pmem", ["nd_pmem", "modules.builtin"]),
            ("bad", ["bad.ko", "ELF"]),
        ] {
            let error = needed(&ARCH, &path, &[name]).unwrap_err().to_string();
            assert!(words.iter().all(|word| error.contains(word)), "{error}");
        }
        fs::remove_dir_all(dir.path().join("lib")).unwrap();
        let error = needed(&ARCH, &path, &["a"]).unwrap_err().to_string();
        assert!(
            error.contains("6.1-x") && error.contains("/lib/modules/6.1-x") && error.contains("dpkg -x"),
            "{error}"
        );
    }
}
