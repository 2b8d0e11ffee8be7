//! The machine and the kernel of boots, as budgets name them.

use crate::document::Document;
use crate::history::Setup;

/// The machine and the kernel of boots. What is not known is empty or 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// Kernel release or file name.
    pub kernel: String,
    /// Architecture of a virtual machine.
    pub arch: String,
    /// Machine type, or the product's name.
    pub machine: String,
    /// `tcg`, `kvm`, or empty.
    pub accelerator: String,
    pub cpus: u32,
    pub memory_bytes: u64,
    /// CPU model of the host, for boots by the clock in a virtual machine.
    pub host_cpu: String,
    /// True if boots count instructions.
    pub deterministic: bool,
}

impl About {
    /// The machine and the kernel of a bench's variant.
    pub fn of_variant(document: &Document, variant: usize) -> About {
        let setup = Setup::of(document, variant);
        let head = &document.head;
        About {
            kernel: head.variants.get(variant).map(|variant| variant.booted.kernel.clone()).unwrap_or_default(),
            arch: setup.arch(),
            machine: setup.machine,
            accelerator: setup.accelerator,
            cpus: setup.cpus,
            memory_bytes: setup.memory_bytes,
            host_cpu: if head.deterministic { String::new() } else { head.host.cpu.clone() },
            deterministic: head.deterministic,
        }
    }

    /// The hardware in one line. Two boots with different lines are of different hardware.
    pub fn hardware(&self) -> String {
        let machine = [self.arch.as_str(), self.machine.as_str()].join(" ").trim().to_owned();
        let cpus = match self.cpus {
            0 => String::new(),
            1 => "1 CPU".to_owned(),
            n => format!("{n} CPUs"),
        };
        let accelerator = match (self.deterministic, self.accelerator.as_str()) {
            (true, _) => "instructions".to_owned(),
            (false, accelerator) => accelerator.to_owned(),
        };
        let parts = [machine, cpus, memory(self.memory_bytes), accelerator, self.host_cpu.clone()];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
    }

    /// True if the kernel is this one: its name begins with these words, and the last number in them is complete. `6.1`
    /// is 6.1.0-50-cloud-amd64, and not 6.12.
    pub fn is_of_kernel(&self, named: &str) -> bool {
        let rest = self.kernel.strip_prefix(named);
        rest.is_some_and(|rest| {
            !(named.ends_with(|c: char| c.is_ascii_digit()) && rest.starts_with(|c: char| c.is_ascii_digit()))
        })
    }
}

/// An amount of memory. A real machine's varies a little with its kernel.
fn memory(bytes: u64) -> String {
    const GIB: u64 = 1 << 30;
    match bytes {
        0 => String::new(),
        1..0x8000_0000 => format!("{} MiB", bytes >> 20),
        _ => format!("{} GiB", (bytes + GIB / 2) / GIB),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_is_named_by_its_first_words() {
        let about = |kernel: &str| About { kernel: kernel.to_owned(), ..About::default() };
        for (kernel, named, expected) in [
            ("6.1.0-50-cloud-amd64", "6.1", true),
            ("6.1.0-50-cloud-amd64", "6.1.0-50-cloud-amd64", true),
            ("6.12.1", "6.1", false),
            ("6.1", "6.1.0", false),
            ("", "6.1", false),
            ("bzImage", "bz", true),
        ] {
            assert_eq!(about(kernel).is_of_kernel(named), expected, "{kernel} {named}");
        }
    }

    #[test]
    fn hardware_is_one_line() {
        let about = About {
            kernel: "6.1".to_owned(),
            arch: "x86_64".to_owned(),
            machine: "q35".to_owned(),
            accelerator: "kvm".to_owned(),
            cpus: 2,
            memory_bytes: 512 << 20,
            host_cpu: "a CPU".to_owned(),
            deterministic: false,
        };
        assert_eq!(about.hardware(), "x86_64 q35, 2 CPUs, 512 MiB, kvm, a CPU");
        let laptop =
            About { machine: "ThinkPad".to_owned(), cpus: 1, memory_bytes: 16_600_000_000, ..About::default() };
        assert_eq!(laptop.hardware(), "ThinkPad, 1 CPU, 15 GiB");
        assert_eq!(About::default().hardware(), "");
    }
}
