//! Reads a kernel's `events/SYSTEM/EVENT/format` and `events/header_page`.
//!
//! ```text
//! name: sched_process_exec
//! ID: 312
//! format:
//!         field:unsigned short common_type;       offset:0;       size:2; signed:0;
//!         field:__data_loc char[] filename;       offset:8;       size:4; signed:0;
//! ```

use crate::input::text::{Lines, lossy, whole_number};
use std::collections::HashMap;
use trace_records::{Field, Fields};

/// More events than any kernel has.
const EVENTS_MAX: usize = 1 << 16;
/// More fields than any event has.
const FIELDS_MAX: usize = 256;

/// The formats of all events.
#[derive(Default)]
pub(crate) struct Formats {
    /// The number that each event's records have.
    pub numbers: HashMap<String, u16>,
    fields: HashMap<String, Vec<(String, Field)>>,
}

impl Formats {
    /// True if it has the format of any event.
    pub(crate) fn has_any(&self) -> bool {
        !self.numbers.is_empty()
    }

    /// Adds the format of one event. Malformed formats are left out; their events are then unknown.
    pub(crate) fn add(&mut self, format: &[u8]) {
        let after =
            |key: &[u8]| Lines::new(format).find_map(|line| line.bytes.strip_prefix(key)).map(<[u8]>::trim_ascii);
        let Some(name) = after(b"name: ") else { return };
        let Some(number) = after(b"ID: ").and_then(whole_number).and_then(|number| u16::try_from(number).ok()) else {
            return;
        };
        if self.numbers.len() == EVENTS_MAX {
            return;
        }
        let name = lossy(name).into_owned();
        self.fields.insert(name.clone(), fields(format));
        self.numbers.insert(name, number);
    }
}

impl Fields for Formats {
    fn common(&self, field: &str) -> Option<Field> {
        let name = format!("common_{field}");
        // Every event has the common fields at the same place.
        self.fields.values().find_map(|fields| find(fields, &name))
    }

    fn own(&self, event: &str, _structure: &str, field: &str) -> Option<Field> {
        find(self.fields.get(event)?, field)
    }
}

/// Finds a field by its name.
pub(super) fn find(fields: &[(String, Field)], name: &str) -> Option<Field> {
    fields.iter().find(|field| field.0 == name).map(|field| field.1)
}

/// Parses all fields of a text.
pub(super) fn fields(format: &[u8]) -> Vec<(String, Field)> {
    Lines::new(format).filter_map(|line| field(line.bytes)).take(FIELDS_MAX).collect()
}

/// Parses `field:__data_loc char[] filename;  offset:8;  size:4;  signed:0;`.
fn field(line: &[u8]) -> Option<(String, Field)> {
    let text = std::str::from_utf8(line.trim_ascii()).ok()?.strip_prefix("field:")?;
    let mut parts = text.split(';').map(str::trim);
    let declared = parts.next()?;
    let number = |part: &str, key: &str| part.strip_prefix(key)?.parse::<u16>().ok().map(usize::from);
    let (offset, bytes) = (number(parts.next()?, "offset:")?, number(parts.next()?, "size:")?);
    let name = declared.strip_suffix(']').and_then(|text| text.rsplit_once('[')).map_or(declared, |(text, _)| text);
    let name = name.rsplit([' ', '*']).next()?;
    let elsewhere = if declared.starts_with("__data_loc ") { "__data_loc_" } else { "" };
    Some((format!("{elsewhere}{name}"), Field { offset, bytes }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_name_with_the_places_of_texts() {
        let mut formats = Formats::default();
        formats.add(
            b"name: sched_process_exec\nID: 312\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
              \n\tfield:__data_loc char[] filename;\toffset:8;\tsize:4;\tsigned:0;\n\tfield:pid_t pid;\toffset:12;\tsize:4;\tsigned:1;\n\
              \tfield:char comm[16];\toffset:16;\tsize:16;\tsigned:0;\n\tfield:void *function;\toffset:32;\tsize:8;\tsigned:0;\n",
        );
        formats.add(b"name: without a number\n");
        let at = |name: &str| formats.own("sched_process_exec", "", name).map(|field| (field.offset, field.bytes));
        let places = ["__data_loc_filename", "pid", "comm", "function", "filename"].map(at);
        assert_eq!(places, [Some((8, 4)), Some((12, 4)), Some((16, 16)), Some((32, 8)), None]);
        assert_eq!(formats.common("type"), Some(Field { offset: 0, bytes: 2 }));
        assert_eq!(formats.numbers, HashMap::from([("sched_process_exec".to_owned(), 312)]));
    }
}
