//! Writes the file of silences, which `docs/json.md` describes. Each line is one fact, so that a user can read it too.

use std::fmt::Write;

use super::names::Names;
use super::stack::{Method, Stack};
use super::{Silence, Stop};
use crate::arch::Mode;

/// The file's name in the recording.
pub(crate) const FILE: &str = "silence.txt";

pub(super) fn write(after_ns: i64, silences: &[Silence], names: &Names, remarks: &[String]) -> String {
    let mut out = format!("# bootscope silence 1\n# silent-after-ns {after_ns}\n");
    for remark in &names.remarks {
        line(&mut out, format_args!("# names {}", remark.replace(['\n', '\r'], " ")));
    }
    for remark in remarks {
        line(&mut out, format_args!("# note {}", remark.replace(['\n', '\r'], " ")));
    }
    for silence in silences {
        line(&mut out, format_args!("silence {} {}", silence.from_ns, silence.until_ns));
        for Stop { at_ns, stood_ns, cpus } in &silence.stops {
            line(&mut out, format_args!("stop {at_ns} {stood_ns}"));
            for (number, stack) in cpus.iter().enumerate() {
                cpu(&mut out, number, stack, names);
            }
        }
    }
    out
}

fn cpu(out: &mut String, number: usize, stack: &Stack, names: &Names) {
    // Firmware and a kernel's decompressor also run in a kernel's mode, but in the lower half, where no kernel's list has a name.
    let in_kernel = stack.mode == Mode::Kernel && (stack.pc >> 63 == 1 || names.place(stack.pc).is_some());
    let mode = match stack.mode {
        Mode::Kernel if in_kernel => "in-kernel",
        Mode::User => "in-process",
        Mode::Boot | Mode::Kernel => "in-firmware",
    };
    let (method, returns) = if in_kernel { (stack.method, &stack.returns[..]) } else { (Method::Unknown, &[][..]) };
    let method_name = match method {
        Method::FramePointers => "frame-pointers",
        Method::Tables => "unwind-tables",
        Method::Words => "words",
        Method::Unknown => "none",
    };
    line(out, format_args!("cpu {number} {mode} {method_name}"));
    let mut entry = |sign: char, address: u64| {
        let place = names.place(address).filter(|_| in_kernel);
        match place {
            Some(place) => line(out, format_args!("{sign} {address:016x} {}+{:#x}", place.name, address - place.start)),
            None => line(out, format_args!("{sign} {address:016x}")),
        }
    };
    entry(' ', stack.pc);
    let callers = names.callers(stack);
    for word in returns {
        let sign = if callers.iter().any(|caller| std::ptr::eq(*caller, word)) { ' ' } else { '?' };
        entry(sign, word.address);
    }
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(out, "{text}").expect("a String takes all");
}

#[cfg(test)]
mod tests {
    use super::super::stack::Return;
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_kernel_runs_in_the_upper_half_or_where_a_list_that_fits_names_it() {
        let functions = (0..8).map(|n| (0x20_0000 + n * n * 48, format!("f{n}")));
        let called: BTreeSet<u64> = functions.clone().map(|function| function.0).collect();
        let mut names = Names::default();
        names.add("lab", functions.collect(), &called, 2 << 20);
        let written = |pc: u64, mode| {
            let returns = vec![Return { address: pc + 0x100, called: None }];
            let mut out = String::new();
            cpu(&mut out, 0, &Stack { pc, mode, method: Method::FramePointers, returns, top: None }, &names);
            out
        };
        let upper = written(0xffff_ffff_8100_0000, Mode::Kernel);
        assert!(upper.starts_with("cpu 0 in-kernel frame-pointers\n") && upper.lines().count() == 3, "{upper}");
        assert!(written(0x20_0004, Mode::Kernel).contains("in-kernel frame-pointers\n  0000000000200004 f0+0x4\n"));
        // OVMF, and a decompressor.
        for pc in [0x7e5a_0123, 0x10_0000] {
            assert_eq!(written(pc, Mode::Kernel), format!("cpu 0 in-firmware none\n  {pc:016x}\n"));
        }
        assert!(written(0xf1234, Mode::Boot).starts_with("cpu 0 in-firmware none\n"));
        assert!(written(0x40_0000, Mode::User).starts_with("cpu 0 in-process none\n"));
    }
}
