//! The host's configuration of process 1: `key=value` lines in `/bootscope/config`.
//!
//! Process 1 must never fail because of a malformed line: it reports the line and goes on with the default.

use std::fmt;

/// The action after the evidence transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// Power the machine off.
    PowerOff,
    /// Become the user's own init.
    Exec,
}

/// The way in which files are transferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carry {
    /// Through memory, or by the port if the kernel or the host refuses that.
    Auto,
    /// By the port only.
    Port,
}

/// A root file system to mount before the hand-over is marked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// Its device below /dev.
    pub device: String,
    /// The kernel's name for its file system.
    pub file_system: String,
    /// True if its files are mapped in place, not through the page cache.
    pub dax: bool,
}

/// All settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// `then=poweroff|exec`
    pub then: Then,
    /// `init=<path>`: the init for `then=exec`; without it, the kernel's own candidates are tried, starting with
    /// `/init`.
    pub init: Option<String>,
    /// `carry=auto|port`
    pub carry: Carry,
    /// `buffer=<bytes>` of guest memory for one round; less is used if memory is scarce.
    pub buffer_bytes: usize,
    /// `wait_ms=<n>`: the longest time for the host to take one round, in guest time, before the port is used instead.
    pub wait_ms: u64,
    /// `spin_ms=<n>`: the part of that time that is spent spinning. If the guest's clock skips idle time
    /// (`-icount sleep=off`), sleeping would use up `wait_ms` at once. Give such a guest the same value for `spin_ms`.
    pub spin_ms: u64,
    /// `file_max=<bytes>`: the largest part of one file that is transferred; a cut is reported.
    pub file_bytes_max: u64,
    /// `payload=<bytes>` of test pattern that are transferred as well.
    pub payload_bytes: u64,
    /// `module=<file>`, any number of times: loaded in this order before the root is mounted.
    pub modules: Vec<String>,
    /// `root=<device> <file system> [dax]`
    pub root: Option<Root>,
    /// `serial=<address>` of a serial port's registers, decimal: the channel to the host on a board that has no usual
    /// one.
    pub serial: Option<u64>,
    /// `workload=<command>` for the root's `/bin/sh`, run after the evidence transfer; memory is measured again after it.
    pub workload: Option<String>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            then: Then::PowerOff,
            init: None,
            carry: Carry::Auto,
            buffer_bytes: 8 << 20,
            wait_ms: 10_000,
            spin_ms: 20,
            file_bytes_max: 256 << 20,
            payload_bytes: 0,
            modules: Vec::new(),
            root: None,
            serial: None,
            workload: None,
        }
    }
}

impl Config {
    /// Reads a configuration. The second value lists the malformed lines, each with the reason.
    pub fn parse(text: &str) -> (Config, Vec<String>) {
        let mut config = Config::default();
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let problems = lines.filter_map(|line| config.set(line).err().map(|why| format!("{line}: {why}"))).collect();
        (config, problems)
    }

    fn set(&mut self, line: &str) -> Result<(), &'static str> {
        let (key, value) = line.split_once('=').ok_or("not key=value")?;
        match (key, value) {
            ("then", "poweroff") => self.then = Then::PowerOff,
            ("then", "exec") => self.then = Then::Exec,
            ("init", path) if path.starts_with('/') => self.init = Some(path.to_string()),
            ("carry", "auto") => self.carry = Carry::Auto,
            ("carry", "port") => self.carry = Carry::Port,
            ("buffer", n) => self.buffer_bytes = number(n)? as usize,
            ("wait_ms", n) => self.wait_ms = number(n)?,
            ("spin_ms", n) => self.spin_ms = number(n)?,
            ("file_max", n) => self.file_bytes_max = number(n)?,
            ("payload", n) => self.payload_bytes = number(n)?,
            ("module", file) if is_file_name(file) => self.modules.push(file.to_string()),
            ("root", text) => self.root = Some(root(text)?),
            ("serial", n) => self.serial = Some(number(n)?),
            ("workload", command) => self.workload = Some(command.to_string()),
            ("then" | "init" | "carry" | "module", _) => return Err("not a value of this key"),
            _ => return Err("unknown key"),
        }
        Ok(())
    }
}

/// True if it is a file's name and not a path.
fn is_file_name(file: &str) -> bool {
    !file.is_empty() && !file.contains('/') && file != ".."
}

fn root(text: &str) -> Result<Root, &'static str> {
    let words: Vec<&str> = text.split(' ').collect();
    let (device, file_system, dax) = match words[..] {
        [device, file_system] => (device, file_system, false),
        [device, file_system, "dax"] => (device, file_system, true),
        _ => return Err("not a device, a file system and perhaps `dax`"),
    };
    if !is_file_name(device) || file_system.is_empty() {
        return Err("not a device and a file system");
    }
    Ok(Root { device: device.to_string(), file_system: file_system.to_string(), dax })
}

fn number(text: &str) -> Result<u64, &'static str> {
    text.parse().map_err(|_| "not a whole number")
}

impl fmt::Display for Config {
    /// Writes the text that [`Config::parse`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let then = if self.then == Then::Exec { "exec" } else { "poweroff" };
        let carry = if self.carry == Carry::Port { "port" } else { "auto" };
        writeln!(f, "then={then}\ncarry={carry}\nbuffer={}", self.buffer_bytes)?;
        writeln!(f, "wait_ms={}\nspin_ms={}", self.wait_ms, self.spin_ms)?;
        writeln!(f, "file_max={}\npayload={}", self.file_bytes_max, self.payload_bytes)?;
        self.init.iter().try_for_each(|path| writeln!(f, "init={path}"))?;
        self.modules.iter().try_for_each(|file| writeln!(f, "module={file}"))?;
        if let Some(root) = &self.root {
            writeln!(f, "root={} {}{}", root.device, root.file_system, if root.dax { " dax" } else { "" })?;
        }
        self.serial.iter().try_for_each(|address| writeln!(f, "serial={address}"))?;
        self.workload.iter().try_for_each(|command| writeln!(f, "workload={command}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_configurations_are_read_back() {
        let config = Config {
            then: Then::Exec,
            init: Some("/sbin/my init=1".into()),
            carry: Carry::Port,
            buffer_bytes: 1 << 20,
            wait_ms: 7,
            spin_ms: 3,
            file_bytes_max: 9,
            payload_bytes: 1 << 40,
            modules: vec!["virtio.ko".into(), "nd-pmem.ko".into()],
            root: Some(Root { device: "pmem0".into(), file_system: "ext4".into(), dax: true }),
            serial: Some(0x21e_c000),
            workload: Some("ls / && x='a=b'".into()),
        };
        assert_eq!(Config::parse(&config.to_string()), (config, vec![]));
        assert_eq!(Config::parse(&Config::default().to_string()), (Config::default(), vec![]));
    }

    #[test]
    fn a_malformed_line_is_named_and_the_rest_still_counts() {
        let text = "# note\n\nthen=maybe\nwait_ms=x\r\ncolour=red\nnonsense\npayload=5\nmodule=../x\nroot=vda\n";
        let (config, problems) = Config::parse(text);
        assert_eq!(config, Config { payload_bytes: 5, ..Config::default() });
        assert_eq!(
            problems,
            [
                "then=maybe: not a value of this key",
                "wait_ms=x: not a whole number",
                "colour=red: unknown key",
                "nonsense: not key=value",
                "module=../x: not a value of this key",
                "root=vda: not a device, a file system and perhaps `dax`"
            ]
        );
    }
}
