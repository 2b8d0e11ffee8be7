//! A process 1 of a few instructions, for architectures whose guest-init is not built.
//!
//! It prints one line on the console, and switches the machine off. It has no channel to the host, and gathers nothing. The instructions
//! are those that GNU as makes of the assembly beside them.

/// The line, which is that of a guest-init without a channel. Its length is in the instructions.
const LINE: &[u8] =
    b"bootscope: process 1 runs; this architecture has no channel to the host, so nothing is gathered\n";
/// The length of [`LINE`], as the instructions contain it.
const LINE_BYTES: u8 = 96;
const _: () = assert!(LINE.len() == LINE_BYTES as usize);
/// The program's address, which is free on every architecture.
const ADDRESS: u32 = 0x1000_0000;
/// A multiple of the page size of every architecture.
const PAGE_BYTES: u32 = 64 << 10;

/// An ELF program's architecture.
struct Elf {
    machine: u16,
    flags: u32,
    is_big: bool,
}

/// The program of a guest that runs on IBM Z.
pub(super) fn s390x() -> Vec<u8> {
    #[rustfmt::skip]
    let code = [
        0xa7, 0x29, 0, 1,                   // lghi %r2,1
        0xc0, 0x30, 0, 0, 0, 0x13,          // larl %r3,line
        0xa7, 0x49, 0, LINE_BYTES,          // lghi %r4,LINE_BYTES
        0x0a, 4,                            // svc write
        0xc0, 0x2f, 0xfe, 0xe1, 0xde, 0xad, // llilf %r2,LINUX_REBOOT_MAGIC1
        0xc0, 0x3f, 0x28, 0x12, 0x19, 0x69, // llilf %r3,LINUX_REBOOT_MAGIC2
        0xc0, 0x4f, 0x43, 0x21, 0xfe, 0xdc, // llilf %r4,LINUX_REBOOT_CMD_POWER_OFF
        0x0a, 88,                           // svc reboot
        0x0a, 29,                           // 1: svc pause
        0xa7, 0xf4, 0xff, 0xff,             // j 1b
    ];
    Elf { machine: 22, flags: 0, is_big: true }.program(&code)
}

/// For 64-bit POWER of this byte order.
pub(super) fn ppc64(is_big: bool) -> Vec<u8> {
    let code = [
        0x3800_0004,                         // li r0,write
        0x3860_0001,                         // li r3,1
        0x429f_0005,                         // bcl 20,31,1f
        0x7c88_02a6,                         // 1: mflr r4
        0x3884_003c,                         // addi r4,r4,line-1b
        0x38a0_0000 | u32::from(LINE_BYTES), // li r5,LINE_BYTES
        0x4400_0002,                         // sc
        0x3800_0058,                         // li r0,reboot
        0x3c60_fee1,                         // lis r3,LINUX_REBOOT_MAGIC1@h
        0x6063_dead,                         // ori r3,r3,LINUX_REBOOT_MAGIC1@l
        0x3c80_2812,                         // lis r4,LINUX_REBOOT_MAGIC2@h
        0x6084_1969,                         // ori r4,r4,LINUX_REBOOT_MAGIC2@l
        0x3ca0_4321,                         // lis r5,LINUX_REBOOT_CMD_POWER_OFF@h
        0x60a5_fedc,                         // ori r5,r5,LINUX_REBOOT_CMD_POWER_OFF@l
        0x4400_0002,                         // sc
        0x3800_001d,                         // 2: li r0,pause
        0x4400_0002,                         // sc
        0x4bff_fff8,                         // b 2b
    ];
    // The flags are of the second version of the ABI: the entry is an address, and not a descriptor.
    let elf = Elf { machine: 21, flags: 2, is_big };
    elf.program(&elf.words(&code))
}

impl Elf {
    fn words(&self, words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| if self.is_big { word.to_be_bytes() } else { word.to_le_bytes() }).collect()
    }

    fn half(&self, half: u16) -> [u8; 2] {
        if self.is_big { half.to_be_bytes() } else { half.to_le_bytes() }
    }

    fn longs(&self, longs: &[u32]) -> Vec<u8> {
        let long = |long: u32| if self.is_big { u64::from(long).to_be_bytes() } else { u64::from(long).to_le_bytes() };
        longs.iter().flat_map(|&number| long(number)).collect()
    }

    /// An ELF file with one segment: the headers, the code and the line after it.
    #[expect(clippy::cast_possible_truncation, reason = "it has a few hundred bytes")]
    fn program(&self, code: &[u8]) -> Vec<u8> {
        const LOAD: u32 = 1;
        const READ_EXECUTE: u32 = 5;
        const EXECUTABLE: u16 = 2;
        const VERSION: u32 = 1;
        let (header_bytes, segment_bytes) = (64, 56);
        let start = header_bytes + segment_bytes;
        let total = (usize::from(start) + code.len() + LINE.len()) as u32;
        let mut elf = b"\x7fELF".to_vec();
        elf.extend([2, if self.is_big { 2 } else { 1 }, 1]);
        elf.resize(16, 0);
        elf.extend([self.half(EXECUTABLE), self.half(self.machine)].concat());
        elf.extend(self.words(&[VERSION]));
        elf.extend(self.longs(&[ADDRESS + u32::from(start), header_bytes.into(), 0]));
        elf.extend(self.words(&[self.flags]));
        elf.extend([header_bytes, segment_bytes, 1, 0, 0, 0].iter().flat_map(|half| self.half(*half)));
        let sizes = [0, ADDRESS, ADDRESS, total, total];
        elf.extend(self.words(&[LOAD, READ_EXECUTE]));
        elf.extend(self.longs(&sizes));
        elf.extend(self.longs(&[PAGE_BYTES]));
        elf.extend_from_slice(code);
        elf.extend_from_slice(LINE);
        elf
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::read::{Object, ObjectSegment};
    use object::{Architecture, Endianness};

    #[test]
    fn each_program_is_an_elf_file_that_ends_with_its_line() {
        let programs = [
            (s390x(), Architecture::S390x, Endianness::Big),
            (ppc64(true), Architecture::PowerPc64, Endianness::Big),
            (ppc64(false), Architecture::PowerPc64, Endianness::Little),
        ];
        for (program, architecture, order) in programs {
            let file = object::File::parse(&*program).unwrap();
            assert_eq!((file.architecture(), file.endianness()), (architecture, order));
            let segment = file.segments().next().unwrap();
            assert_eq!((segment.size(), segment.address()), (program.len() as u64, ADDRESS.into()));
            assert!(segment.data().unwrap() == program && program.ends_with(LINE));
            let code = (file.entry() - u64::from(ADDRESS)) as usize;
            assert!(code + 40 < program.len() && code == 120, "{code}");
        }
        // The code reaches to the line: each finds it by its distance.
        assert_eq!([s390x(), ppc64(true)].map(|program| program.len() - 120 - LINE.len()), [42, 72]);
    }
}
