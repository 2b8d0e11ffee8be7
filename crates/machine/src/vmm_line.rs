//! The command line of a VMM while it is built.

use std::path::Path;

use recording::Field;

use crate::Error;
use crate::refusal::text;

/// Arguments, without the program's name.
#[derive(Debug, Default)]
pub(crate) struct VmmLine(pub(crate) Vec<String>);

impl VmmLine {
    pub(crate) fn flag(&mut self, flag: &str) {
        self.0.push(flag.to_owned());
    }

    pub(crate) fn pair(&mut self, flag: &str, value: impl Into<String>) {
        self.flag(flag);
        self.0.push(value.into());
    }

    /// Adds a path of the user's.
    ///
    /// # Errors
    /// If it is not UTF-8.
    pub(crate) fn path(&mut self, flag: &str, field: Field, path: &Path) -> Result<(), Error> {
        let text = path.to_str().ok_or_else(|| {
            let why = text![field.is(path.display()), " is not UTF-8, which QEMU's options need"];
            Error::refused(field, why, "rename or link it")
        })?;
        self.pair(flag, text);
        Ok(())
    }
}
