//! The detector that docs/adding-a-detector.md shows. It is compiled and tested, but not in the table of detectors.

use crate::{Confidence, Detector, Draft, Figure, Left, Need, Part, Remedy, Seen, Value};
use timeline::{Ns, SpanKind, SpanRow};

pub const DETECTOR: Detector = Detector {
    id: "slow-mount",
    title: "mounting a file system takes long",
    rule: "A mount reads a superblock, which takes milliseconds. One that takes much longer repairs a journal or waits for \
           the disk.",
    source: "an example, from nobody's boot",
    threshold: "100 ms from call to return",
    price: "nine tenths of the mount go; at the worst half of it stays",
    needs: &[Need::BootPath, Need::Functions],
    look,
};

const SHORTEST: Ns = Ns::from_ms(100);
const LEFT: Left = Left::of(0.05, 0.1, 0.5);

fn look(seen: &Seen) -> Vec<Draft> {
    let is_slow = |row: &SpanRow| row.kind == SpanKind::Mount && row.length() >= SHORTEST;
    let draft = |row: SpanRow| Draft {
        about: (row.name, row.detail),
        figures: vec![Figure { of: "takes", value: Value::Time(row.length()) }],
        parts: vec![Part { stretch: seen.stretch(&row), left: LEFT }],
        confidence: Confidence::Medium,
        remedy: Remedy::code("unmount the file system cleanly before the reboot"),
    };
    seen.spans().map(|(_, row)| row).filter(is_slow).map(draft).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seen::testing::{Log, ms};

    fn boot(mount: Ns) -> Log {
        let mut log = Log::new();
        log.step(SpanKind::Mount, "VFS_MOUNT", "ufs", |log| log.call("g_read_data", mount));
        log.call("works", ms(1000));
        log
    }

    #[test]
    fn a_slow_mount_is_found() {
        let found = boot(ms(200)).found_by(&[DETECTOR]);
        let [only] = &found.findings[..] else { panic!("{found:?}") };
        assert_eq!((only.about.as_str(), only.price.likely), ("VFS_MOUNT ufs", ms(180)));
        assert_eq!((only.price.low, only.price.high), (ms(100), ms(190)));
    }

    #[test]
    fn a_fast_mount_is_not() {
        assert!(boot(ms(99)).found_by(&[DETECTOR]).findings.is_empty());
    }

    #[test]
    fn the_page_shows_this_file() {
        let page = include_str!("../../../../docs/adding-a-detector.md");
        let (head, tests) = include_str!("example.rs").split_once("#[cfg(test)]\n").unwrap();
        let detector = &head[head.find("use ").unwrap()..];
        assert!(page.contains(detector.trim_end()), "the detector");
        let test = &tests[tests.find("    fn boot").unwrap()..tests.find("    #[test]\n    fn the_page").unwrap()];
        assert!(page.contains(test.trim_end()), "its tests");
    }
}
