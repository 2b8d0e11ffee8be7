//! The types of an image, and the variables with an address, in its debug information.

use std::fmt;

use gimli::{Abbreviation, AttributeValue, DwAt, Dwarf, Operation, Unit, UnitOffset, UnitSectionOffset, constants};

use super::{Entry, MAX_ENTRIES, MAX_FIELDS, MAX_TYPES, Slice};

/// The entry of a type.
#[derive(Clone, Copy, Debug)]
pub(super) struct Type {
    pub(super) unit: usize,
    pub(super) at: UnitOffset,
}

/// All units, parsed.
pub(super) struct Types<'d, 'a> {
    dwarf: &'d Dwarf<Slice<'a>>,
    units: Vec<Unit<Slice<'a>>>,
}

pub(super) fn damaged(e: impl fmt::Display) -> String {
    format!("the debug information is damaged: {e}")
}

impl<'d, 'a> Types<'d, 'a> {
    pub(super) fn of(dwarf: &'d Dwarf<Slice<'a>>) -> Result<Types<'d, 'a>, String> {
        let mut headers = dwarf.units();
        let mut units = Vec::new();
        while let Some(header) = headers.next().map_err(damaged)? {
            units.push(dwarf.unit(header).map_err(damaged)?);
        }
        Ok(Types { dwarf, units })
    }

    /// The type of the variable that begins at an address.
    pub(super) fn variable(&self, address: u64) -> Result<Option<Type>, String> {
        let mut left = MAX_ENTRIES;
        for (number, unit) in self.units.iter().enumerate() {
            let mut entries = unit.entries_raw(None).map_err(damaged)?;
            while !entries.is_empty() {
                left = left.checked_sub(1).ok_or("the debug information has more entries than any kernel's")?;
                let at = entries.next_offset();
                match entries.read_abbreviation().map_err(damaged)? {
                    None => {}
                    Some(kind) if may_be_placed(kind) => {
                        let mut is_wanted = false;
                        for spec in kind.attributes() {
                            let attribute = entries.read_attribute(*spec).map_err(damaged)?;
                            is_wanted |= attribute.name() == constants::DW_AT_location
                                && self.address(unit, attribute.value()) == Some(address);
                        }
                        if is_wanted {
                            let entry = unit.entry(at).map_err(damaged)?;
                            if let Some(kind) = self.type_of(number, &entry)? {
                                return Ok(Some(kind));
                            }
                        }
                    }
                    Some(kind) => entries.skip_attributes(kind.attributes()).map_err(damaged)?,
                }
            }
        }
        Ok(None)
    }

    /// The address in an expression that consists of one address only.
    pub(super) fn address(&self, unit: &Unit<Slice<'a>>, value: AttributeValue<Slice<'a>>) -> Option<u64> {
        let AttributeValue::Exprloc(expression) = value else { return None };
        let mut operations = expression.operations(unit.encoding());
        let address = match operations.next().ok()?? {
            Operation::Address { address } => address,
            Operation::AddressIndex { index } => self.dwarf.address(unit, index).ok()?,
            _ => return None,
        };
        operations.next().ok()?.is_none().then_some(address)
    }

    /// The type of an entry, given by it or by its declaration.
    pub(super) fn type_of(&self, unit: usize, entry: &Entry<'_, 'a>) -> Result<Option<Type>, String> {
        if let Some(kind) = self.reference(unit, entry, constants::DW_AT_type)? {
            return Ok(Some(kind));
        }
        match self.reference(unit, entry, constants::DW_AT_specification)? {
            Some(declared) => {
                let entry = self.entry(declared)?;
                self.reference(declared.unit, &entry, constants::DW_AT_type)
            }
            None => Ok(None),
        }
    }

    pub(super) fn entry(&self, type_ref: Type) -> Result<Entry<'_, 'a>, String> {
        self.units[type_ref.unit].entry(type_ref.at).map_err(damaged)
    }

    pub(super) fn reference(&self, unit: usize, entry: &Entry<'_, 'a>, name: DwAt) -> Result<Option<Type>, String> {
        match entry.attr_value(name).map_err(damaged)? {
            None => Ok(None),
            Some(AttributeValue::UnitRef(at)) => Ok(Some(Type { unit, at })),
            Some(AttributeValue::DebugInfoRef(at)) => {
                let section_at = UnitSectionOffset::DebugInfoOffset(at);
                let found = self.units.iter().enumerate().find_map(|(unit, candidate)| {
                    let at = section_at.to_unit_offset(candidate)?;
                    Some(Type { unit, at })
                });
                found.map(Some).ok_or_else(|| damaged("a type lies outside of all units"))
            }
            Some(_) => Err("a type stands in a unit of its own, which is not read: build without \
                            -fdebug-types-section"
                .to_owned()),
        }
    }

    pub(super) fn number_of(entry: &Entry<'_, 'a>, name: DwAt) -> Result<Option<u64>, String> {
        Ok(entry.attr_value(name).map_err(damaged)?.and_then(|value| value.udata_value()))
    }

    pub(super) fn name_of(&self, unit: usize, entry: &Entry<'_, 'a>) -> Result<Option<String>, String> {
        let Some(value) = entry.attr_value(constants::DW_AT_name).map_err(damaged)? else { return Ok(None) };
        let name = self.dwarf.attr_string(&self.units[unit], value).map_err(damaged)?;
        Ok(Some(name.to_string_lossy().into_owned()))
    }

    /// The type without typedefs and qualifiers.
    pub(super) fn plain(&self, mut type_ref: Type) -> Result<Type, String> {
        use constants::{
            DW_TAG_atomic_type, DW_TAG_const_type, DW_TAG_restrict_type, DW_TAG_typedef, DW_TAG_volatile_type,
        };
        for _ in 0..MAX_TYPES {
            let entry = self.entry(type_ref)?;
            let only_names =
                [DW_TAG_typedef, DW_TAG_const_type, DW_TAG_volatile_type, DW_TAG_restrict_type, DW_TAG_atomic_type];
            if !only_names.contains(&entry.tag()) {
                return Ok(type_ref);
            }
            type_ref =
                self.reference(type_ref.unit, &entry, constants::DW_AT_type)?.ok_or("it has no type: it is void")?;
        }
        Err(damaged("types lead in a circle"))
    }

    /// Size of a type in bytes; `None` if it is not given.
    pub(super) fn bytes(&self, type_ref: Type) -> Result<Option<u64>, String> {
        let mut type_ref = self.plain(type_ref)?;
        let mut times = 1_u64;
        for _ in 0..MAX_TYPES {
            let entry = self.entry(type_ref)?;
            if let Some(bytes) = Self::number_of(&entry, constants::DW_AT_byte_size)? {
                return Ok(bytes.checked_mul(times));
            }
            match entry.tag() {
                constants::DW_TAG_pointer_type => {
                    return Ok(u64::from(self.units[type_ref.unit].encoding().address_size).checked_mul(times));
                }
                constants::DW_TAG_array_type => {
                    for length in self.dimensions(type_ref)? {
                        let Some(all) = length.and_then(|length| times.checked_mul(length)) else { return Ok(None) };
                        times = all;
                    }
                }
                _ => return Ok(None),
            }
            let Some(element) = self.reference(type_ref.unit, &entry, constants::DW_AT_type)? else { return Ok(None) };
            type_ref = self.plain(element)?;
        }
        Err(damaged("types lead in a circle"))
    }

    /// The direct children of an entry.
    pub(super) fn children(&self, type_ref: Type) -> Result<Vec<Type>, String> {
        let mut tree = self.units[type_ref.unit].entries_tree(Some(type_ref.at)).map_err(damaged)?;
        let mut children = tree.root().map_err(damaged)?.children();
        let mut found = Vec::new();
        while let Some(child) = children.next().map_err(damaged)? {
            found.push(Type { unit: type_ref.unit, at: child.entry().offset() });
            if found.len() > MAX_FIELDS {
                return Err(damaged(format!("a type has more than {MAX_FIELDS} parts")));
            }
        }
        Ok(found)
    }

    /// Lengths of an array, one for each pair of brackets; `None` for a length that is not given.
    pub(super) fn dimensions(&self, type_ref: Type) -> Result<Vec<Option<u64>>, String> {
        let mut found = Vec::new();
        for child in self.children(type_ref)? {
            let entry = self.entry(child)?;
            if entry.tag() == constants::DW_TAG_subrange_type {
                let count = Self::number_of(&entry, constants::DW_AT_count)?;
                let last = Self::number_of(&entry, constants::DW_AT_upper_bound)?;
                found.push(count.or(last.and_then(|last| last.checked_add(1))));
            }
        }
        Ok(found)
    }

    /// The fields of a structure or union with their offsets, including those of its unnamed members.
    pub(super) fn fields(&self, type_ref: Type) -> Result<Vec<Field>, String> {
        let (mut found, mut waiting) = (Vec::new(), vec![(type_ref, 0_u64)]);
        let mut looked_at = 0;
        while let Some((type_ref, start)) = waiting.pop() {
            for child in self.children(type_ref)? {
                looked_at += 1;
                if looked_at > MAX_FIELDS {
                    return Err(damaged(format!("a type has more than {MAX_FIELDS} fields")));
                }
                let entry = self.entry(child)?;
                if entry.tag() != constants::DW_TAG_member {
                    continue;
                }
                let value = entry.attr_value(constants::DW_AT_data_member_location).map_err(damaged)?;
                let offset = match value.map(|value| value.udata_value()) {
                    // Absent in a union and for a bit field.
                    None => 0,
                    Some(Some(offset)) => offset,
                    Some(None) => continue,
                };
                let is_bits = entry.attr_value(constants::DW_AT_bit_size).map_err(damaged)?.is_some();
                let Some(kind) = self.reference(type_ref.unit, &entry, constants::DW_AT_type)? else { continue };
                let offset = start.wrapping_add(offset);
                match self.name_of(type_ref.unit, &entry)? {
                    Some(name) => found.push(Field { name, kind, offset, is_bits }),
                    None => {
                        let kind = self.plain(kind)?;
                        if is_structure(self.entry(kind)?.tag()) {
                            waiting.push((kind, offset));
                        }
                    }
                }
            }
        }
        Ok(found)
    }
}

/// True if an entry is a variable that may have an address.
fn may_be_placed(kind: &Abbreviation) -> bool {
    kind.tag() == constants::DW_TAG_variable
        && kind.attributes().iter().any(|spec| spec.name() == constants::DW_AT_location)
}

pub(super) fn is_structure(tag: gimli::DwTag) -> bool {
    [constants::DW_TAG_structure_type, constants::DW_TAG_union_type, constants::DW_TAG_class_type].contains(&tag)
}

pub(super) struct Field {
    pub(super) name: String,
    pub(super) kind: Type,
    pub(super) offset: u64,
    pub(super) is_bits: bool,
}
