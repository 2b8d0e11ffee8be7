//! Small guests for VMMs that start ELF images under KVM. They print and do one more thing, so they run even if KVM interprets a kernel's
//! instructions.

use std::fs::{self, OpenOptions};
use std::path::PathBuf;

use machine::{
    Error, GuestSpec, Init, ObserveSpec, Observer, RecordOptions, Recorded, Silent, Target, Until, VmmKind, record,
};
use tempfile::TempDir;

/// Address of the guest's file in memory.
const BASE: u32 = 0x10_0000;

/// An ELF image with a PVH note, whose code prints `output` on the serial port, runs `then` and halts.
pub fn guest(output: &str, then: &[u8]) -> Vec<u8> {
    guest_with(output, then, |_| Vec::new())
}

/// The same image with `data` behind it, at a multiple of 64. `data` gets the address of the text.
pub fn guest_with(output: &str, then: &[u8], data: impl Fn(u64) -> Vec<u8>) -> Vec<u8> {
    const HEADERS: usize = 64 + 2 * 56;
    const NOTE: usize = 20;
    let code_at = BASE + (HEADERS + NOTE) as u32;
    // mov esi, TEXT; mov ecx, LENGTH; mov edx, 0x3f8; cld; top: lodsb; out dx, al; loop top
    let print = |text_at: u32| {
        let (at, length) = (text_at.to_le_bytes(), (output.len() as u32).to_le_bytes());
        [&[0xbe][..], &at, &[0xb9], &length, &[0xba, 0xf8, 0x03, 0, 0, 0xfc, 0xac, 0xee, 0xe2, 0xfc]].concat()
    };
    // hlt; jmp back
    let after = [then, &[0xf4, 0xeb, 0xfd]].concat();
    let text_at = code_at + (print(0).len() + after.len()) as u32;
    let code = [print(text_at), after].concat();
    let end = (text_at - BASE) as usize + output.len();
    let data = data(u64::from(text_at));
    let length = (end.next_multiple_of(64) + data.len()) as u64;
    let phdr = |kind: u32, flags: u32, offset: u64, bytes: u64, align: u64| {
        let at = u64::from(BASE) + offset;
        let words: Vec<u8> = [offset, at, at, bytes, bytes, align].iter().flat_map(|word| word.to_le_bytes()).collect();
        [&kind.to_le_bytes()[..], &flags.to_le_bytes(), &words].concat()
    };
    let mut elf = b"\x7fELF\x02\x01\x01".to_vec();
    elf.resize(16, 0);
    // ET_EXEC, EM_X86_64, version 1, entry, program headers behind this one, no sections.
    elf.extend([2, 0, 62, 0, 1, 0, 0, 0]);
    elf.extend(u64::from(code_at).to_le_bytes());
    elf.extend(64_u64.to_le_bytes());
    elf.extend([0; 12]);
    elf.extend([64, 0, 56, 0, 2, 0, 64, 0, 0, 0, 0, 0]);
    elf.extend(phdr(1, 7, 0, length, 0x1000));
    elf.extend(phdr(4, 4, HEADERS as u64, NOTE as u64, 4));
    // Name "Xen", type 18: the 32-bit entry.
    elf.extend([4, 0, 0, 0, 4, 0, 0, 0, 18, 0, 0, 0]);
    elf.extend(b"Xen\0");
    elf.extend(code_at.to_le_bytes());
    elf.extend(code);
    elf.extend(output.as_bytes());
    elf.resize(end.next_multiple_of(64), 0);
    elf.extend(data);
    elf
}

/// The VMM of this name, from this variable or `$PATH`. If it or KVM is missing, prints why and returns `None`.
pub fn program(name: &str, variable: &str) -> Option<PathBuf> {
    let named = std::env::var_os(variable).filter(|path| !path.is_empty()).map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = || std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.is_file());
    let Some(program) = named.or_else(found) else {
        println!("SKIPPED: there is no {name} in $PATH, and {variable} names none");
        return None;
    };
    if let Err(why) = OpenOptions::new().read(true).write(true).open("/dev/kvm") {
        println!("SKIPPED: /dev/kvm cannot be opened: {why}");
        return None;
    }
    Some(program)
}

/// A boot of one of these guests.
pub struct Boot {
    folder: TempDir,
    pub came: Result<Recorded, Error>,
}

impl Boot {
    /// Boots with 64 MiB, until a line of the console.
    pub fn of(vmm: VmmKind, program: PathBuf, guest: &[u8], until: &str) -> Boot {
        let until = Until::Regex(until.to_owned());
        Boot::watched(vmm, program, guest, &mut Silent, |options| options.guest.until = until)
    }

    /// Boots with changed options, and with this observer.
    pub fn watched(
        vmm: VmmKind,
        program: PathBuf,
        guest: &[u8],
        observer: &mut dyn Observer,
        change: impl FnOnce(&mut RecordOptions),
    ) -> Boot {
        let folder = TempDir::new().unwrap();
        let kernel = folder.path().join("kernel");
        fs::write(&kernel, guest).unwrap();
        let init = Init::Keep;
        let guest = GuestSpec {
            target: Target::Vmm { kind: vmm, program },
            kernel: Some(kernel),
            init,
            memory_bytes: 64 << 20,
            ..GuestSpec::default()
        };
        let observe = ObserveSpec { timeout_ms: Some(60_000), ..ObserveSpec::default() };
        let mut options = RecordOptions { observe, out: folder.path().join("boot"), ..RecordOptions::of(guest) };
        change(&mut options);
        Boot { came: record(&options, observer), folder }
    }

    pub fn recorded(&self) -> &Recorded {
        self.came.as_ref().unwrap_or_else(|error| panic!("{error}"))
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("boot")
    }

    pub fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }
}
