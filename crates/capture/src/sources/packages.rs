//! The installed packages and their versions, for comparing two machines.

use crate::bounded::{self, Failed};
use crate::gather::{Collected, File};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

const MAX_BYTES: usize = 32 << 20;
const DPKG: &str = "/var/lib/dpkg/status";
const APK: &str = "/lib/apk/db/installed";

pub(crate) fn collect(until: Instant) -> Collected {
    let mut collected = Collected::default();
    if Path::new(DPKG).exists() {
        database(DPKG, ["Package: ", "Version: ", "Status: "], &mut collected);
    }
    if Path::new(APK).exists() {
        database(APK, ["P:", "V:", "\0"], &mut collected);
    }
    match bounded::program(
        Command::new("rpm").args(["-qa", "--qf", "%{NAME} %{VERSION}-%{RELEASE}\\n"]),
        MAX_BYTES,
        until,
    ) {
        Ok(content) => collected.put(File::for_people("packages.txt", content.bytes, "rpm -qa"), content.cut),
        Err(Failed::Absent(_)) => {}
        Err(why) => collected.missing("packages", why.to_string()),
    }
    collected
}

fn database(path: &str, words: [&str; 3], collected: &mut Collected) {
    match bounded::read(path, MAX_BYTES) {
        Ok(content) => {
            let text = list(&String::from_utf8_lossy(&content.bytes), words);
            collected.put(File::for_people("packages.txt", text.into_bytes(), path), content.cut);
        }
        Err(e) => collected.missing("packages", format!("{path}: {e}")),
    }
}

/// `NAME VERSION` of each stanza. If stanzas have a status, only installed packages are listed.
fn list(text: &str, [package, version, status]: [&str; 3]) -> String {
    let mut found = String::new();
    for stanza in text.split("\n\n") {
        let field = |word: &str| stanza.lines().find_map(|line| line.strip_prefix(word));
        let is_installed = field(status).is_none_or(|status| status.ends_with(" installed"));
        if let (Some(package), Some(version), true) = (field(package), field(version), is_installed) {
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
