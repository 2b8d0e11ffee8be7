//! Values of boot options, as a user writes them.

use machine::{Until, VmmKind};
use std::path::{Path, PathBuf};

/// A kind of VMM, and its program if that is not the default for a guest's architecture.
#[derive(Clone)]
pub struct Vmm {
    pub kind: VmmKind,
    pub program: Option<PathBuf>,
}

/// Parses `qemu`, the name of another VMM, or the path of its program, whose name begins with that.
pub fn vmm(text: &str) -> Result<Vmm, String> {
    let path = Path::new(text);
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if text == VmmKind::Qemu.as_str() {
        return Ok(Vmm { kind: VmmKind::Qemu, program: None });
    }
    if name.starts_with("qemu") {
        return Err(format!("`{text}` is a QEMU: name it with --qemu {text}"));
    }
    let others = [VmmKind::Firecracker, VmmKind::CloudHypervisor];
    let Some(kind) = others.into_iter().find(|kind| name.starts_with(kind.as_str())) else {
        return Err(format!(
            "`{text}` is none that bootscope knows: give qemu, firecracker, cloud-hypervisor, or the path of a program whose name \
             begins with one of the last two"
        ));
    };
    let program = if text == kind.as_str() { path.to_owned() } else { absolute(path) };
    Ok(Vmm { kind, program: Some(program) })
}

/// Makes a path absolute: the recording stores it, and `--like` repeats it from any folder.
pub fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Parses an end mark. `word:rest` with an unknown word is a regular expression, unless the word resembles a known one.
pub fn until(text: &str) -> Result<Until, String> {
    Ok(match (text, text.split_once(':')) {
        ("init", _) => Until::Init,
        ("power-off" | "poweroff", _) => Until::PowerOff,
        (_, Some(("unit", unit))) => Until::Unit(unit.to_owned()),
        (_, Some(("process", name))) => Until::Process(name.to_owned()),
        (_, Some(("tcp", port))) => {
            let port = port.parse().ok().filter(|&port: &u16| port > 0);
            Until::Tcp(port.ok_or_else(|| format!("`{text}` names no port from 1 to 65535: write tcp:22"))?)
        }
        (_, Some(("http", _))) => Until::Http(text.parse()?),
        _ => match misspelled(text) {
            Some(why) => return Err(why),
            None => Until::Regex(text.to_owned()),
        },
    })
}

/// The reason why a text is more likely a misspelled mark than a line's pattern, if it is. Lines have a space after
/// `word:`.
fn misspelled(text: &str) -> Option<String> {
    const KINDS: [&str; 4] = ["unit", "process", "tcp", "http"];
    let (word, rest) = text.split_once(':')?;
    let is_word = !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphabetic());
    if !is_word || rest.is_empty() || rest.starts_with(char::is_whitespace) {
        return None;
    }
    let distance = |kind: &&str| strsim::osa_distance(&word.to_lowercase(), kind);
    // One letter differs, or two in a long word.
    let near = KINDS.into_iter().filter(|kind| distance(kind) <= if kind.len() > 4 { 2 } else { 1 });
    let meant = near.min_by_key(distance)?;
    let (first, others) = word.split_at(1);
    Some(format!(
        "`{word}:` is no kind of end mark: did you mean `{meant}:{rest}`? To wait for a line with `{word}:{rest}`, write \
         '[{first}]{others}:{rest}'"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_that_is_misspelled_is_no_pattern() {
        let refused = |text: &str| until(text).unwrap_err();
        for (text, meant) in [
            ("untit:ssh.service", "`unit:ssh.service`"),
            ("Unit:ssh.service", "`unit:ssh.service`"),
            ("proccess:nginx", "`process:nginx`"),
            ("tpc:80", "`tcp:80`"),
            ("https://guest/health", "`http://guest/health`"),
        ] {
            assert!(refused(text).contains(meant), "{}", refused(text));
        }
        assert!(refused("untit:x").ends_with("write '[u]ntit:x'"), "{}", refused("untit:x"));
    }

    #[test]
    fn a_line_is_a_pattern_whatever_it_begins_with() {
        let lines = [
            "login:",
            "foo: bar",
            "foo:bar",
            "untit:",
            "untit: x",
            "[u]ntit:x",
            "^untit:x",
            "login:|ready",
            ":80",
            "é:x",
        ];
        for line in lines {
            assert_eq!(until(line), Ok(Until::Regex(line.to_owned())));
        }
        assert_eq!(until("unit:a.service"), Ok(Until::Unit("a.service".to_owned())));
        assert_eq!(until("tcp:80"), Ok(Until::Tcp(80)));
    }
}
