//! Finds a field of a variable by the debug information (DWARF) of an ELF image: `.field`, `->field` and `[n]` after a variable's name.
//!
//! The variable is found by its address, so this needs no rules for the names of C and Rust. From there one type leads to the next. The
//! image is not trusted: the bytes read, the entries visited and the chain of types are bounded.

mod types;

use gimli::{
    AttributeValue, DebuggingInformationEntry, DwarfSections, EndianSlice, LittleEndian, SectionId, constants,
};
use object::read::{Object, ObjectSection, ReadRef};

/// Upper bound for all sections together: those of Debian's kernels have 400 MB.
const MAX_BYTES: u64 = 1 << 30;
/// Upper bound for entries: a kernel has about twenty million.
const MAX_ENTRIES: u64 = 1 << 26;
/// Longest chain of types: a longer one is a cycle.
const MAX_TYPES: usize = 64;
/// Most steps of a path.
const MAX_STEPS: usize = 32;
/// Most fields of a structure, including those of its unnamed members.
const MAX_FIELDS: usize = 1 << 16;
/// The number of names that a message lists.
const MAX_LISTED: usize = 8;

use types::{Field, Type, Types, damaged, is_structure};

type Slice<'a> = EndianSlice<'a, LittleEndian>;
type Entry<'d, 'a> = DebuggingInformationEntry<'d, 'd, Slice<'a>>;

/// A step from a value to a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Field(String),
    Behind(String),
    Element(u64),
}

/// Place and kind of a number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Offset from the variable's start.
    pub offset: u64,
    /// Offsets behind the pointers on the way: the pointer that is read at each place plus this offset is the next place.
    pub behind: Vec<u64>,
    /// Size in bytes: 1, 2, 4 or 8.
    pub bytes: u8,
    /// True if it is signed.
    pub is_signed: bool,
}

/// The debug sections of an image that describe its variables.
#[derive(Debug)]
pub struct DebugInfo {
    sections: DwarfSections<Vec<u8>>,
}

impl DebugInfo {
    /// Reads the debug sections; `None` if the image has no debug sections.
    ///
    /// # Errors
    /// If they cannot be read. The message says why, and what to do.
    pub fn of<'d>(image: impl ReadRef<'d>) -> Result<Option<DebugInfo>, String> {
        let elf = object::File::parse(image).map_err(|e| format!("it is no ELF image: {e}"))?;
        if elf.section_by_name(".debug_info").is_none() || !elf.is_little_endian() {
            return Ok(None);
        }
        let mut left = MAX_BYTES;
        let sections = DwarfSections::load(|id| -> Result<Vec<u8>, String> {
            let wanted = [
                SectionId::DebugInfo,
                SectionId::DebugAbbrev,
                SectionId::DebugStr,
                SectionId::DebugLineStr,
                SectionId::DebugStrOffsets,
                SectionId::DebugAddr,
                // Read only because units refer to it.
                SectionId::DebugLine,
            ];
            let Some(section) = elf.section_by_name(id.name()).filter(|_| wanted.contains(&id)) else {
                return Ok(Vec::new());
            };
            let data = section.compressed_data().map_err(|e| format!("its {} is damaged: {e}", id.name()))?;
            if data.format != object::CompressionFormat::None {
                return Err(format!(
                    "its {} is compressed, which is not read: objcopy --decompress-debug-sections makes it plain",
                    id.name()
                ));
            }
            left = left.checked_sub(data.data.len() as u64).ok_or("its debug information has more than 1 GiB")?;
            Ok(data.data.to_vec())
        })?;
        Ok(Some(DebugInfo { sections }))
    }

    /// The place that a path leads to from the variable at this address. Messages call the variable `name`.
    ///
    /// # Errors
    /// If the variable or a step is not known, or if the path does not lead to a number. The message says why, and what to write.
    pub fn place(&self, name: &str, address: u64, path: &str) -> Result<Place, String> {
        let steps = steps(path)?;
        let dwarf = self.sections.borrow(|section| EndianSlice::new(section, LittleEndian));
        let types = Types::of(&dwarf)?;
        let kind = types.variable(address)?.ok_or_else(|| {
            format!("the debug information has no variable at {address:#x}, where {name} is: is it of another kernel?")
        })?;
        let mut walk =
            Walk { types: &types, at: kind, text: name.to_owned(), dimensions: None, place: Place::default() };
        for step in &steps {
            walk.step(step)?;
        }
        walk.number()
    }
}

/// Splits a text at each place where a path may begin, the longest name first, because symbols may have dots too.
pub(crate) fn splits(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut ends: Vec<usize> = text.match_indices(['.', '[']).map(|found| found.0).collect();
    ends.extend(text.match_indices("->").map(|found| found.0));
    ends.sort_unstable();
    ends.into_iter().rev().filter(|end| *end > 0).take(MAX_STEPS).map(|end| text.split_at(end))
}

fn steps(path: &str) -> Result<Vec<Step>, String> {
    let wrong = || format!("{path:?} is no path to a field: write .FIELD, ->FIELD or [NUMBER], one behind the other");
    let mut rest = path;
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if steps.len() == MAX_STEPS {
            return Err(format!("{path:?} has more than {MAX_STEPS} steps"));
        }
        if let Some(inside) = rest.strip_prefix('[') {
            let (digits, behind) = inside.split_once(']').ok_or_else(wrong)?;
            steps.push(Step::Element(digits.parse().map_err(|_| wrong())?));
            rest = behind;
            continue;
        }
        let (name, is_behind) = match (rest.strip_prefix("->"), rest.strip_prefix('.')) {
            (Some(name), _) => (name, true),
            (None, Some(name)) => (name, false),
            (None, None) => return Err(wrong()),
        };
        let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
        if end == 0 {
            return Err(wrong());
        }
        let field = name[..end].to_owned();
        steps.push(if is_behind { Step::Behind(field) } else { Step::Field(field) });
        rest = &name[end..];
    }
    Ok(steps)
}

/// State on the way from a variable to a number in it.
struct Walk<'t, 'd, 'a> {
    types: &'t Types<'d, 'a>,
    at: Type,
    /// The path so far, as the user wrote it.
    text: String,
    /// Lengths of the remaining brackets of an array, after its first ones were taken.
    dimensions: Option<Vec<Option<u64>>>,
    place: Place,
}

impl Walk<'_, '_, '_> {
    fn step(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Field(name) => self.field(name, "."),
            Step::Behind(name) => {
                self.follow()?;
                self.field(name, "->")
            }
            Step::Element(number) => self.element(*number),
        }
    }

    fn forward(&mut self, by: u64) {
        let offset = self.place.behind.last_mut().unwrap_or(&mut self.place.offset);
        *offset = offset.wrapping_add(by);
    }

    /// Moves to the target of a pointer.
    fn follow(&mut self) -> Result<(), String> {
        let at = self.types.plain(self.at)?;
        let entry = self.types.entry(at)?;
        if entry.tag() != constants::DW_TAG_pointer_type || self.dimensions.is_some() {
            return Err(format!("{} is no pointer: write . and not ->", self.text));
        }
        let to = self.types.reference(at.unit, &entry, constants::DW_AT_type)?;
        self.at = to.ok_or_else(|| format!("{} points to void: nothing says what is there", self.text))?;
        self.place.behind.push(0);
        Ok(())
    }

    fn field(&mut self, name: &str, by: &str) -> Result<(), String> {
        let at = self.types.plain(self.at)?;
        let entry = self.types.entry(at)?;
        let text = self.text.clone();
        if entry.tag() == constants::DW_TAG_pointer_type && self.dimensions.is_none() {
            return Err(format!("{text} is a pointer: write {text}->{name}"));
        }
        if !is_structure(entry.tag()) || self.dimensions.is_some() {
            return Err(format!("{text} is no structure: it has no field {name}"));
        }
        if entry.attr_value(constants::DW_AT_declaration).map_err(damaged)?.is_some() {
            return Err(format!("what {text} is, is only declared where it is defined: its fields are not known"));
        }
        let fields = self.types.fields(at)?;
        let found = fields.iter().find(|field| field.name == name);
        let found = found.ok_or_else(|| format!("{text} has no field {name}; {}", listed(&fields)))?;
        if found.is_bits {
            return Err(format!("{text}{by}{name} is a field of bits, which is not read: read the bytes around it"));
        }
        self.forward(found.offset);
        self.at = found.kind;
        self.text = format!("{text}{by}{name}");
        Ok(())
    }

    fn element(&mut self, number: u64) -> Result<(), String> {
        let at = self.types.plain(self.at)?;
        let entry = self.types.entry(at)?;
        let text = self.text.clone();
        let far = || format!("{text}[{number}] is further away than memory reaches");
        self.text = format!("{text}[{number}]");
        if entry.tag() == constants::DW_TAG_pointer_type && self.dimensions.is_none() {
            self.text = text.clone();
            self.follow()?;
            self.text = format!("{text}[{number}]");
            let bytes = self.types.bytes(self.at)?.ok_or_else(|| format!("nothing says how large {text}[0] is"))?;
            self.forward(number.checked_mul(bytes).ok_or_else(far)?);
            return Ok(());
        }
        if entry.tag() != constants::DW_TAG_array_type {
            return Err(format!("{text} is no array: it has no [{number}]"));
        }
        let element = self.types.reference(at.unit, &entry, constants::DW_AT_type)?;
        let element = element.ok_or_else(|| damaged("an array has no type"))?;
        let mut lengths = match self.dimensions.take() {
            Some(lengths) => lengths,
            None => self.types.dimensions(at)?,
        };
        let length = if lengths.is_empty() { None } else { lengths.remove(0) };
        if let Some(length) = length.filter(|length| number >= *length) {
            return Err(format!("{text} has {length} elements, from [0] on: there is no [{number}]"));
        }
        let bytes = self.types.bytes(element)?.ok_or_else(|| format!("nothing says how large {text}[0] is"))?;
        let row = lengths.iter().try_fold(bytes, |bytes, length| bytes.checked_mul((*length)?));
        self.forward(row.and_then(|row| row.checked_mul(number)).ok_or_else(far)?);
        if lengths.is_empty() {
            self.at = element;
        } else {
            self.dimensions = Some(lengths);
        }
        Ok(())
    }

    /// The number at the end of the path.
    fn number(self) -> Result<Place, String> {
        let Walk { types, text, place, .. } = self;
        let at = types.plain(self.at)?;
        let entry = types.entry(at)?;
        let tag = entry.tag();
        if is_structure(tag) {
            return Err(format!("{text} is a structure: name a field of it; {}", listed(&types.fields(at)?)));
        }
        if tag == constants::DW_TAG_array_type {
            return Err(format!("{text} is an array: name an element of it, {text}[0]"));
        }
        let encoding = match entry.attr_value(constants::DW_AT_encoding).map_err(damaged)? {
            Some(AttributeValue::Encoding(encoding)) => Some(encoding),
            _ => None,
        };
        if encoding == Some(constants::DW_ATE_float) {
            return Err(format!("{text} is a floating-point number, which is not read"));
        }
        let bytes = types.bytes(at)?.and_then(|bytes| u8::try_from(bytes).ok());
        let bytes = bytes.filter(|bytes| [1, 2, 4, 8].contains(bytes));
        let bytes = bytes.ok_or_else(|| format!("{text} is no number of 1, 2, 4 or 8 bytes"))?;
        let is_signed = [Some(constants::DW_ATE_signed), Some(constants::DW_ATE_signed_char)].contains(&encoding);
        Ok(Place { bytes, is_signed, ..place })
    }
}

fn listed(fields: &[Field]) -> String {
    let names: Vec<&str> = fields.iter().take(MAX_LISTED).map(|field| field.name.as_str()).collect();
    let more = if fields.len() > MAX_LISTED { ", …" } else { "" };
    if names.is_empty() { "it has no fields".to_owned() } else { format!("it has {}{more}", names.join(", ")) }
}

#[cfg(test)]
mod tests;
