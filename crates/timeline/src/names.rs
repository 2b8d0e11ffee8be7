//! Interned strings: each name is stored once and has a small number.

use hashbrown::HashTable;
use std::hash::BuildHasher;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameId(u32);

impl NameId {
    /// The empty name: "no detail".
    pub const EMPTY: NameId = NameId(0);

    /// The detail of a call through a function pointer whose callee is inferred: [`crate::INDIRECT`].
    pub const INDIRECT: NameId = NameId(1);

    /// The name shown for all names beyond a bound: [`crate::OTHERS`].
    pub const OTHERS: NameId = NameId(2);

    pub fn is_empty(self) -> bool {
        self == NameId::EMPTY
    }
}

/// All names of a timeline. One string holds all texts; the table holds only numbers.
#[derive(Clone, Debug)]
pub struct Names {
    text: String,
    /// Name `id` ends at `ends[id]` in `text`; it starts at the end of the one before it.
    ends: Vec<usize>,
    table: HashTable<u32>,
    hasher: hashbrown::DefaultHashBuilder,
}

impl Default for Names {
    fn default() -> Self {
        let mut names = Names {
            text: String::new(),
            ends: Vec::new(),
            table: HashTable::new(),
            hasher: hashbrown::DefaultHashBuilder::default(),
        };
        names.intern("");
        names.intern(crate::INDIRECT);
        names.intern(crate::OTHERS);
        names
    }
}

impl Names {
    /// Makes room for `more` names.
    pub fn reserve(&mut self, more: usize) {
        let (text, ends, hasher) = (&self.text, &self.ends, &self.hasher);
        self.table.reserve(more, |&id| hasher.hash_one(slice(text, ends, id)));
    }

    /// The number of `name`, which is added if it is new.
    ///
    /// # Panics
    /// After four thousand million different names.
    pub fn intern(&mut self, name: &str) -> NameId {
        let hash = self.hasher.hash_one(name);
        let (text, ends, hasher) = (&mut self.text, &mut self.ends, &self.hasher);
        if let Some(&id) = self.table.find(hash, |&id| slice(text, ends, id) == name) {
            return NameId(id);
        }
        let id = u32::try_from(ends.len()).expect("fewer than 2^32 names");
        text.push_str(name);
        ends.push(text.len());
        self.table.insert_unique(hash, id, |&id| hasher.hash_one(slice(text, ends, id)));
        NameId(id)
    }

    /// The number of `name`, if it was interned.
    pub fn find(&self, name: &str) -> Option<NameId> {
        let hash = self.hasher.hash_one(name);
        self.table.find(hash, |&id| slice(&self.text, &self.ends, id) == name).map(|&id| NameId(id))
    }

    pub fn get(&self, id: NameId) -> &str {
        slice(&self.text, &self.ends, id.0)
    }
}

fn slice<'a>(text: &'a str, ends: &[usize], id: u32) -> &'a str {
    let id = id as usize;
    let start = if id == 0 { 0 } else { ends[id - 1] };
    &text[start..ends[id]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_has_one_number() {
        let mut names = Names::default();
        let a = names.intern("acpi_init");
        let b = names.intern("pci_init");
        assert_ne!(a, b);
        assert_eq!(names.intern("acpi_init"), a);
        assert_eq!(names.get(b), "pci_init");
        assert_eq!(names.intern(""), NameId::EMPTY);
        assert_eq!(names.intern(crate::INDIRECT), NameId::INDIRECT);
        assert_eq!(names.intern(crate::OTHERS), NameId::OTHERS);
        assert_eq!(names.find("nobody"), None);
        assert_eq!(names.find("pci_init"), Some(b));
    }
}
