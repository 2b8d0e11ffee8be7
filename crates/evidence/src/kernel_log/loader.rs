//! What a board's firmware and boot loader print on the console before the kernel. None of it has a stamp: each line is placed
//! by its arrival, and from one line to the next is a span of the firmware's.
//!
//! U-Boot, barebox, coreboot and others say who they are when they begin; that line begins the phase `loader`.

use super::{KernelLog, Line};
use crate::boot::Boot;
use crate::firmware::{self, Said, shorten};
use crate::index::Index;
use crate::linux;
use timeline::{Ns, Phase};

/// How boot loaders begin that load a kernel; what runs before them is firmware (U-Boot's SPL is).
const LOADERS: [&str; 5] = ["U-Boot 2", "barebox 2", "GNU GRUB", "Welcome to GRUB", "=== systemd-boot"];
/// What a kernel's own first code prints before the kernel can.
const UNPACKS: [&str; 2] = ["Uncompressing Linux", "Decompressing Linux"];

/// The number of the kernel's first line; none where there is no kernel.
pub(super) fn kernel_line(log: &KernelLog) -> Option<u32> {
    let is_kernels = |line: &&Line| {
        let text = log.text(line);
        line.stamp.is_some() || linux::says(text) || UNPACKS.iter().any(|words| text.contains(words))
    };
    log.lines.iter().find(is_kernels).map(|line| line.number)
}

/// The kernel began before its first line came, where its clock does not say that it began earlier: a console that comes up late
/// says all lines late, and a kernel's first lines have the stamp 0.
pub(super) fn kernel_heard(log: &KernelLog, index: &Index, kernel: u32, boot: &mut Boot<'_>) {
    let Some(line) = log.lines.iter().find(|line| line.number >= kernel) else { return };
    let came = index.arrival(line.offset);
    let Some(at) = came.filter(|came| boot.start_of(Phase::EarlyKernel).is_none_or(|told| *came < told)) else {
        return;
    };
    let evidence = format!("console: “{}”", shorten(log.text(line)));
    let error = boot.arrival_error();
    boot.timeline.boundaries.retain(|boundary| boundary.phase != Phase::EarlyKernel);
    boot.timeline.boundary(Phase::EarlyKernel, at, error, &evidence);
}

/// Places what was printed before the kernel's first line, which has the number `kernel`.
pub(super) fn place(log: &KernelLog, index: &Index, kernel: u32, boot: &mut Boot<'_>) {
    let before = || log.lines.iter().filter(|line| line.number < kernel);
    let error = boot.arrival_error();
    // Noise of the supply may stand before it on its line.
    let begins = |text: &str| LOADERS.iter().any(|words| text.contains(words));
    // Of a loader that loads itself anew, the first time counts.
    let loader = before().find(|line| begins(log.text(line)));
    if let Some((line, at)) = loader.and_then(|line| Some((line, index.arrival(line.offset)?))) {
        let evidence = format!("console: “{}”", shorten(log.text(line)));
        boot.timeline.boundary(Phase::Loader, at, error, &evidence);
    }
    let said =
        before().map(|line| Said { text: shorten(log.text(line)), at: index.arrival(line.offset), line: line.number });
    let said: Vec<Said> = said.filter(|said| !said.text.is_empty()).collect();
    let until = boot.start_of(Phase::EarlyKernel);
    let first = log.lines.iter().find(|line| line.number >= kernel).and_then(|line| index.arrival(line.offset));
    firmware::build(&said, until.or(first).unwrap_or(Ns::MAX), &mut boot.timeline);
}
