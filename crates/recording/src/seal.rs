//! Seals: proofs that this user's own bootscope made a recording or a bench on this machine.
//!
//! The options of a recorded boot can name programs, devices and commands of the machine where it was made. Another
//! command may repeat such a boot only if no other user wrote those options. So the recorder seals them: HMAC-SHA-256
//! over the options and this machine's ID, with a key in the user's configuration folder. Other users do not have the
//! key, and the seal of one recording fits no other options.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::{Error, Key, Manifest};

/// The prefix of the sealed data in this version. A later kind of seal gets another prefix.
const KIND: &[u8] = b"bootscope seal 1\0";
/// The file of the machine's ID on Linux: machine-id(5).
const MACHINE_ID: &str = "/etc/machine-id";

pub struct Sealer {
    key: Key,
    machine_id: Vec<u8>,
}

/// The part of a recording that a seal covers: everything that a repeated boot reads from it.
#[derive(Serialize)]
struct Covered<'a> {
    how: &'a serde_json::Value,
    inputs: Vec<(&'a str, &'a str, &'a str)>,
}

impl Sealer {
    /// The sealer of the current user on this machine.
    ///
    /// # Errors
    /// If the key can be neither read nor made, or no home folder is known.
    pub fn of_user() -> Result<Sealer, Error> {
        let path = key_path().ok_or(Error::NoConfigFolder)?;
        let machine_id = std::fs::read(MACHINE_ID).unwrap_or_default();
        Ok(Sealer::with(Key::private_at(&path)?, machine_id))
    }

    /// A sealer with this key for the machine with this ID.
    #[must_use]
    pub fn with(key: Key, machine_id: Vec<u8>) -> Sealer {
        Sealer { key, machine_id }
    }

    /// The seal of this value: 64 hexadecimal digits.
    ///
    /// It covers the value's JSON, so JSON must represent the value exactly: no fractions.
    #[must_use]
    pub fn seal(&self, covered: &impl Serialize) -> String {
        self.mac(covered).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// True if `seal` is the seal of this value, made here by this user.
    #[must_use]
    pub fn fits(&self, seal: &str, covered: &impl Serialize) -> bool {
        // Each comparison takes the same time, wherever the seals differ.
        let expected = self.seal(covered);
        expected.len() == seal.len()
            && expected.bytes().zip(seal.bytes()).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
    }

    fn mac(&self, covered: &impl Serialize) -> [u8; 32] {
        let text = serde_json::to_vec(covered).expect("plain data always serializes");
        let length = self.machine_id.len().to_le_bytes();
        self.key.mac(&[KIND, &length, &self.machine_id, &text])
    }
}

/// The file of the user's key for seals; `None` if no home folder is known.
#[must_use]
pub fn key_path() -> Option<PathBuf> {
    xdg::BaseDirectories::with_prefix("bootscope").get_config_file(Path::new("recordings.key"))
}

impl Manifest {
    /// Seals the boot's options as made by this user on this machine.
    pub fn seal_with(&mut self, sealer: &Sealer) {
        let seal = sealer.seal(&self.covered());
        self.seal = Some(seal);
    }

    /// True if this user's bootscope made the recording on this machine, and its options are unchanged.
    #[must_use]
    pub fn is_sealed_by(&self, sealer: &Sealer) -> bool {
        self.seal.as_ref().is_some_and(|seal| sealer.fits(seal, &self.covered()))
    }

    fn covered(&self) -> Covered<'_> {
        let inputs = self.inputs.iter().map(|input| (&*input.role, &*input.path, &*input.sha256));
        Covered { how: &self.how, inputs: inputs.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Input;
    use serde_json::json;

    fn sealer(key: u8, machine: &str) -> Sealer {
        Sealer::with(Key::from_bytes(vec![key; 32]), machine.into())
    }

    fn manifest() -> Manifest {
        let input =
            Input { role: "kernel".to_owned(), path: "/k".to_owned(), sha256: "ab".to_owned(), ..Input::default() };
        Manifest { how: json!({"extra": ["-s"], "cpus": 2}), inputs: vec![input], ..Manifest::default() }
    }

    #[test]
    fn a_seal_fits_the_options_of_one_user_on_one_machine() {
        let own_sealer = sealer(1, "here");
        let mut sealed = manifest();
        assert!(!sealed.is_sealed_by(&own_sealer), "older recordings have no seal");
        sealed.seal_with(&own_sealer);
        let read = Manifest::parse(&sealed.to_json()).unwrap();
        assert!(read.is_sealed_by(&own_sealer), "as it comes back from its file");
        assert!(!read.is_sealed_by(&sealer(2, "here")), "another user");
        assert!(!read.is_sealed_by(&sealer(1, "there")), "another machine");
        let changed: [fn(&mut Manifest); 6] = [
            |m| m.how["cpus"] = json!(3),
            |m| m.how["qemu"] = json!("/tmp/q"),
            |m| m.how["extra"] = json!(["-s", "-S"]),
            |m| m.inputs[0].path = "/etc/shadow".to_owned(),
            |m| m.inputs[0].sha256.clear(),
            |m| m.seal.as_mut().unwrap().truncate(8),
        ];
        for change in changed {
            let mut other = read.clone();
            change(&mut other);
            assert!(!other.is_sealed_by(&own_sealer), "{other:?}");
        }
        let annotated = Manifest { created: "later".to_owned(), notes: vec!["x".to_owned()], ..read };
        assert!(annotated.is_sealed_by(&own_sealer), "what a boot left is not sealed");
    }
}
