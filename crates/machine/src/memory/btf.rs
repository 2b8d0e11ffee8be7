//! Offsets of fields in a kernel's structures, from the types (BTF) in its image.
//!
//! The format is Linux's, Documentation/bpf/btf.rst: a header, types of varying length one after the other (the first is number 1), and
//! their names. Only structures are looked up, and only the requested ones. The bytes are the user's file: references outside of them are
//! refused, and types that refer to each other in a cycle end the search.

use trace_records::{Field, Fields};

const MAGIC: u16 = 0xeb9f;
/// Upper bound for the number of types: more than any kernel has.
const MAX_TYPES: usize = 1 << 21;
/// Upper bound for the fields visited in one lookup: in damaged types, each may lead to many others.
const MAX_FIELDS: usize = 1 << 16;
/// Longest chain of types: a longer one is a cycle.
const MAX_DEPTH: usize = 32;

/// Kinds of types that are distinguished here, by Linux's numbers.
mod kind {
    pub const INT: u32 = 1;
    pub const PTR: u32 = 2;
    pub const ARRAY: u32 = 3;
    pub const STRUCT: u32 = 4;
    pub const UNION: u32 = 5;
    pub const ENUM: u32 = 6;
    pub const TYPEDEF: u32 = 8;
    pub const VOLATILE: u32 = 9;
    pub const CONST: u32 = 10;
    pub const RESTRICT: u32 = 11;
    pub const FUNC_PROTO: u32 = 13;
    pub const VAR: u32 = 14;
    pub const DATASEC: u32 = 15;
    pub const DECL_TAG: u32 = 17;
    pub const TYPE_TAG: u32 = 18;
    pub const ENUM64: u32 = 19;
}

/// Parsed types of an image.
pub(super) struct Btf<'a> {
    types: &'a [u8],
    strings: &'a [u8],
    /// Offset of each type; the entry of number 0, which is `void`, is never used.
    starts: Vec<usize>,
}

impl Fields for Btf<'_> {
    fn common(&self, field: &str) -> Option<Field> {
        self.field("trace_entry", field)
    }

    fn own(&self, _event: &str, structure: &str, field: &str) -> Option<Field> {
        self.field(&format!("trace_event_raw_{structure}"), field)
    }
}

/// The first three words of a type.
#[derive(Clone, Copy)]
struct Type {
    name: u32,
    info: u32,
    /// Its size, or the type that it refers to.
    word: u32,
    /// Offset of the data that follows them.
    rest: usize,
}

impl Type {
    fn kind(self) -> u32 {
        self.info >> 24 & 0x1f
    }

    fn count(self) -> usize {
        (self.info & 0xffff) as usize
    }

    fn is_structure(self) -> bool {
        matches!(self.kind(), kind::STRUCT | kind::UNION)
    }

    /// Length of the data that follows the three words.
    fn rest_bytes(self) -> usize {
        match self.kind() {
            kind::INT | kind::VAR | kind::DECL_TAG => 4,
            kind::ARRAY => 12,
            kind::STRUCT | kind::UNION | kind::DATASEC | kind::ENUM64 => 12 * self.count(),
            kind::ENUM | kind::FUNC_PROTO => 8 * self.count(),
            _ => 0,
        }
    }
}

impl<'a> Btf<'a> {
    /// Splits the bytes into their parts; `None` if they are not BTF. Linear in the number of types.
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Btf<'a>> {
        if u16_at(bytes, 0)? != MAGIC {
            return None;
        }
        let word = |at: usize| u32_at(bytes, at).map(|word| word as usize);
        let body = bytes.get(word(4)?..)?;
        let part = |from: usize, length: usize| body.get(from..from.checked_add(length)?);
        let types = part(word(8)?, word(12)?)?;
        let strings = part(word(16)?, word(20)?)?;
        let mut btf = Btf { types, strings, starts: vec![usize::MAX] };
        let mut at = 0;
        while let Some(next) = btf.type_at(at).filter(|_| btf.starts.len() < MAX_TYPES) {
            btf.starts.push(at);
            at = next.rest + next.rest_bytes();
        }
        Some(btf)
    }

    /// A field of a structure, by their names. A field of an unnamed structure in it counts as its field.
    pub(super) fn field(&self, structure: &str, name: &str) -> Option<Field> {
        let found = (1..self.starts.len()).filter_map(|number| self.type_of(number));
        let named = found.filter(|t| t.is_structure() && self.text(t.name) == structure.as_bytes());
        let mut looked_at = 0;
        named.into_iter().find_map(|t| self.field_of(t, name, 0, &mut looked_at))
    }

    fn field_of(&self, structure: Type, name: &str, depth: usize, looked_at: &mut usize) -> Option<Field> {
        let members = (0..structure.count()).map_while(|i| {
            let at = structure.rest + 12 * i;
            Some((u32_at(self.types, at)?, u32_at(self.types, at + 4)?, u32_at(self.types, at + 8)?))
        });
        // If the topmost bit is set, the offset word also contains the size of a bit field.
        let mask = if structure.info >> 31 == 1 { 0x00ff_ffff } else { u32::MAX };
        for (member, type_number, bits) in members {
            *looked_at += 1;
            if *looked_at > MAX_FIELDS {
                return None;
            }
            let offset = ((bits & mask) / 8) as usize;
            let text = self.text(member);
            if text == name.as_bytes() {
                return Some(Field { offset, bytes: self.bytes_of(type_number as usize, 0)? });
            }
            let inner =
                self.type_of(type_number as usize).filter(|t| t.is_structure() && text.is_empty() && depth < MAX_DEPTH);
            if let Some(field) = inner.and_then(|inner| self.field_of(inner, name, depth + 1, looked_at)) {
                return Some(Field { offset: offset.checked_add(field.offset)?, ..field });
            }
        }
        None
    }

    fn bytes_of(&self, number: usize, depth: usize) -> Option<usize> {
        let t = self.type_of(number).filter(|_| depth < MAX_DEPTH)?;
        match t.kind() {
            kind::PTR => Some(8),
            kind::INT | kind::STRUCT | kind::UNION | kind::ENUM | kind::ENUM64 => Some(t.word as usize),
            kind::TYPEDEF | kind::VOLATILE | kind::CONST | kind::RESTRICT | kind::TYPE_TAG => {
                self.bytes_of(t.word as usize, depth + 1)
            }
            kind::ARRAY => {
                let element = self.bytes_of(u32_at(self.types, t.rest)? as usize, depth + 1)?;
                element.checked_mul(u32_at(self.types, t.rest + 8)? as usize)
            }
            _ => None,
        }
    }

    fn type_of(&self, number: usize) -> Option<Type> {
        self.type_at(*self.starts.get(number)?)
    }

    fn type_at(&self, at: usize) -> Option<Type> {
        let rest = at.checked_add(12).filter(|&rest| rest <= self.types.len())?;
        let word = |i: usize| u32_at(self.types, at + 4 * i);
        Some(Type { name: word(0)?, info: word(1)?, word: word(2)?, rest })
    }

    fn text(&self, at: u32) -> &'a [u8] {
        let text = self.strings.get(at as usize..).unwrap_or_default();
        &text[..memchr::memchr(0, text).unwrap_or(text.len())]
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().copied().map(u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().copied().map(u32::from_le_bytes)
}

/// Hand-made types of a kernel.
#[cfg(test)]
pub(super) mod testing {
    use super::{MAGIC, kind};

    pub(super) struct Types {
        types: Vec<u32>,
        strings: Vec<u8>,
        count: u32,
    }

    impl Types {
        pub(super) fn new() -> Types {
            Types { types: Vec::new(), strings: vec![0], count: 0 }
        }

        fn name(&mut self, name: &str) -> u32 {
            if name.is_empty() {
                return 0;
            }
            let at = self.strings.len() as u32;
            self.strings.extend_from_slice(name.as_bytes());
            self.strings.push(0);
            at
        }

        fn add(&mut self, words: &[u32]) -> u32 {
            self.types.extend_from_slice(words);
            self.count += 1;
            self.count
        }

        /// Adds an integer of this size.
        pub(super) fn int(&mut self, bytes: u32) -> u32 {
            self.add(&[0, kind::INT << 24, bytes, 0])
        }

        /// Adds an array of `count` elements.
        pub(super) fn array(&mut self, type_number: u32, count: u32) -> u32 {
            self.add(&[0, kind::ARRAY << 24, 0, type_number, type_number, count])
        }

        /// Adds another name for a type.
        pub(super) fn typedef(&mut self, type_number: u32) -> u32 {
            self.add(&[0, kind::TYPEDEF << 24, type_number])
        }

        /// Adds a structure with fields: name, type, offset in bytes.
        pub(super) fn structure(&mut self, name: &str, fields: &[(&str, u32, u32)]) -> u32 {
            let name = self.name(name);
            let mut words = vec![name, kind::STRUCT << 24 | fields.len() as u32, 64];
            for &(field, type_number, offset) in fields {
                words.extend([self.name(field), type_number, offset * 8]);
            }
            self.add(&words)
        }

        /// The types as in an image.
        pub(super) fn bytes(&self) -> Vec<u8> {
            let types: Vec<u8> = self.types.iter().flat_map(|word| word.to_le_bytes()).collect();
            let mut out = [MAGIC.to_le_bytes(), [1, 0]].concat();
            let (types_bytes, strings_bytes) = (types.len() as u32, self.strings.len() as u32);
            for word in [24, 0, types_bytes, types_bytes, strings_bytes] {
                out.extend(word.to_le_bytes());
            }
            [out, types, self.strings.clone()].concat()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::Types;
    use super::*;

    #[test]
    fn fields_are_found_with_their_sizes_and_within_structures_without_a_name() {
        let mut types = Types::new();
        let word = types.int(4);
        let byte = types.int(1);
        let comm = types.array(byte, 16);
        let other = types.typedef(word);
        let inner = types.structure("", &[("within", other, 4)]);
        types.structure("raw", &[("pid", word, 8), ("comm", comm, 12), ("", inner, 32)]);
        let bytes = types.bytes();
        let btf = Btf::parse(&bytes).unwrap();
        assert_eq!(btf.field("raw", "comm"), Some(Field { offset: 12, bytes: 16 }));
        assert_eq!(btf.field("raw", "within"), Some(Field { offset: 36, bytes: 4 }));
        assert_eq!((btf.field("raw", "none"), btf.field("none", "pid")), (None, None));
    }

    #[test]
    fn truncated_or_cyclic_types_end_the_search() {
        let mut types = Types::new();
        let itself = types.typedef(1);
        types.structure("raw", &[("x", itself, 0)]);
        let bytes = types.bytes();
        assert_eq!(Btf::parse(&bytes).unwrap().field("raw", "x"), None);
        for cut in 0..bytes.len() {
            let _ = Btf::parse(&bytes[..cut]).map(|btf| btf.field("raw", "x"));
        }
        assert!(Btf::parse(b"\x7fELF").is_none());
    }
}
