//! Which packages are installed, in which version: for people who compare two machines.

use crate::bounded::{self, Failed};
use crate::gather::{File, Given};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

const BYTES_MAX: usize = 32 << 20;
const DPKG: &str = "/var/lib/dpkg/status";
const APK: &str = "/lib/apk/db/installed";

pub(crate) fn ask(until: Instant) -> Given {
    let mut given = Given::default();
    if Path::new(DPKG).exists() {
        database(DPKG, ["Package: ", "Version: ", "Status: "], &mut given);
    }
    if Path::new(APK).exists() {
        database(APK, ["P:", "V:", "\0"], &mut given);
    }
    match bounded::program(
        Command::new("rpm").args(["-qa", "--qf", "%{NAME} %{VERSION}-%{RELEASE}\\n"]),
        BYTES_MAX,
        until,
    ) {
        Ok(content) => given.put(File::for_people("packages.txt", content.bytes, "rpm -qa"), content.cut),
        Err(Failed::Absent(_)) => {}
        Err(why) => given.missing("packages", why.to_string()),
    }
    given
}

fn database(path: &str, words: [&str; 3], given: &mut Given) {
    match bounded::read(path, BYTES_MAX) {
        Ok(content) => {
            let text = list(&String::from_utf8_lossy(&content.bytes), words);
            given.put(File::for_people("packages.txt", text.into_bytes(), path), content.cut);
        }
        Err(e) => given.missing("packages", format!("{path}: {e}")),
    }
}

/// `NAME VERSION` of each stanza; where it has a status, of those that are installed.
fn list(text: &str, [package, version, status]: [&str; 3]) -> String {
    let mut found = String::new();
    for stanza in text.split("\n\n") {
        let of = |word: &str| stanza.lines().find_map(|line| line.strip_prefix(word));
        let is_installed = of(status).is_none_or(|status| status.ends_with(" installed"));
        if let (Some(package), Some(version), true) = (of(package), of(version), is_installed) {
            let _ = writeln!(found, "{package} {version}");
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stanzas() {
        let dpkg = "Package: a\nStatus: install ok installed\nVersion: 1-2\n\nPackage: b\nStatus: deinstall ok config-files\nVersion: 3\n";
        assert_eq!(list(dpkg, ["Package: ", "Version: ", "Status: "]), "a 1-2\n");
        assert_eq!(list("P:musl\nV:1.2.5-r0\n\n", ["P:", "V:", "\0"]), "musl 1.2.5-r0\n");
    }
}
