//! Programs that a boot runs without need, or for too long.

use crate::detector::{Detector, Draft};
use crate::facts::Stretch;
use crate::{Need, Remedy, Seen};
use timeline::{Ns, Os, SpanKind, SpanRow};

pub const DETECTOR: Detector = Detector {
    id: "user-programs",
    title: "a program of the boot takes long, and most boots do not need it so",
    rule: "hwclock reads or sets a clock that the kernel has read already. ldconfig makes a cache anew that does not change. \
           `udevadm settle` waits for all devices, also for those that nobody needs. A trace shows the first two by their \
           file, a log of a shell that prints its commands (`set -x`) all three by the line, until the next line.",
    source: "libguestfs (Jones 2016): hwclock added 300 ms, ldconfig takes 100 ms, udev about 130 ms, most of it in udevadm settle",
    threshold: "10 ms or more in all runs of one of these programs",
    price: "the program's time goes; at the worst a tenth of it stays, and of udevadm settle all, because the devices may be needed",
    needs: &[Need::BootPath, Need::System],
    look,
};

const SHORTEST: Ns = Ns(10_000_000);

/// A program: its file, the words after it that matter, the share that may stay in the worst case, and the advice.
struct Program {
    file: &'static str,
    words: &'static str,
    stays: f64,
    what: &'static str,
}

const PROGRAMS: [Program; 3] = [
    Program {
        file: "hwclock",
        words: "",
        stays: 0.1,
        what: "leave hwclock out: the kernel reads the clock of the machine itself (CONFIG_RTC_HCTOSYS, or kvm-clock)",
    },
    Program {
        file: "ldconfig",
        words: "",
        stays: 0.1,
        what: "run ldconfig when the image is made, and keep ld.so.cache in it",
    },
    Program {
        file: "udevadm",
        words: "settle",
        stays: 1.0,
        what: "wait for the devices that are needed and no others: udevadm settle --exit-if-exists=FILE",
    },
];

fn look(seen: &Seen) -> Vec<Draft> {
    if seen.machine.os != Os::Linux {
        return Vec::new();
    }
    PROGRAMS.iter().filter_map(|program| draft(seen, program)).collect()
}

fn draft(seen: &Seen, program: &Program) -> Option<Draft> {
    let is_run = |row: &SpanRow| {
        let (name, detail) = seen.texts((row.name, row.detail));
        match row.kind {
            // A trace has no arguments.
            SpanKind::Process => program.words.is_empty() && detail.rsplit('/').next() == Some(program.file),
            SpanKind::Message => is_command(name, program),
            _ => false,
        }
    };
    let runs: Vec<Stretch> = seen.spans().map(|(_, row)| row).filter(is_run).map(|row| seen.stretch(&row)).collect();
    let whole: Ns = runs.iter().map(Stretch::length).sum();
    let draft = Draft::of(&runs, Remedy::code(program.what)).filter(|_| whole >= SHORTEST)?;
    Some(draft.leaving(program.stays).counting("runs").less_sure())
}

/// True if a shell printed this line for the program: `+ hwclock -s` or `+ /sbin/hwclock`, but not `+ hwclock.sh`.
fn is_command(line: &str, program: &Program) -> bool {
    let mut words = line.strip_prefix("+ ").unwrap_or_default().split(' ');
    words.next().is_some_and(|path| path.rsplit('/').next() == Some(program.file))
        && (program.words.is_empty() || words.next() == Some(program.words))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seen::testing::{Log, ms};

    fn boot(os: Os, run: impl FnOnce(&mut Log)) -> Vec<(String, Ns, Ns)> {
        let mut log = Log::linux();
        log.machine.os = os;
        run(&mut log);
        log.call("works", ms(1000));
        let found = log.found_by(&[DETECTOR]);
        found.findings.into_iter().map(|f| (f.about, f.price.low, f.price.likely)).collect()
    }

    #[test]
    fn programs_are_known_by_their_file_and_by_the_shell_s_line() {
        let process = |file: &'static str, length: Ns| {
            move |log: &mut Log| log.step(SpanKind::Process, "process", file, |log| log.call("exec", length))
        };
        let line = |line: &'static str, length: Ns| {
            move |log: &mut Log| log.step(SpanKind::Message, line, "", |log| log.call("waits", length))
        };
        assert_eq!(
            boot(Os::Linux, process("/usr/sbin/hwclock", ms(300))),
            [("process /usr/sbin/hwclock".to_owned(), ms(270), ms(300))]
        );
        let settles = [("+ udevadm settle --timeout=30".to_owned(), ms(0), ms(130))];
        assert_eq!(boot(Os::Linux, line("+ udevadm settle --timeout=30", ms(130))), settles);
        assert_eq!(boot(Os::Linux, line("+ ldconfig", ms(100))), [("+ ldconfig".to_owned(), ms(90), ms(100))]);
        let by_path = [("+ /sbin/ldconfig -X".to_owned(), ms(90), ms(100))];
        assert_eq!(boot(Os::Linux, line("+ /sbin/ldconfig -X", ms(100))), by_path);
        for (other, why) in [
            (boot(Os::Linux, line("+ udevadm trigger", ms(130))), "starts, and does not wait"),
            (boot(Os::Linux, line("udevadm says hello", ms(130))), "no command"),
            (boot(Os::Linux, line("+ hwclock.sh", ms(130))), "another program"),
            (boot(Os::Linux, process("/sbin/init", ms(300))), "is needed"),
            (boot(Os::Linux, process("/usr/bin/udevadm", ms(300))), "to do what, a trace does not say"),
            (boot(Os::Linux, process("/sbin/ldconfig", ms(9))), "short"),
            (boot(Os::FreeBsd, process("/sbin/ldconfig", ms(100))), "another system's"),
        ] {
            assert!(other.is_empty(), "{why}: {other:?}");
        }
    }
}
