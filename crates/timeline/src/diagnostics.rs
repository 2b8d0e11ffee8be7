//! What did not add up in the evidence: counted by kind, with the place where each kind was first seen.

/// One kind of trouble.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// What was wrong, in words.
    pub kind: String,
    /// How often.
    pub count: u64,
    /// Where it was seen first, usually `file:line`; empty if there is no place.
    pub first: String,
}

/// All trouble, in order of first appearance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics(Vec<Diagnostic>);

impl Diagnostics {
    /// Counts one more of `kind`; `place` is only asked for the first time.
    pub fn note(&mut self, kind: &str, place: impl FnOnce() -> String) {
        self.note_many(kind, 1, place);
    }

    /// Counts `count` more of `kind`.
    pub fn note_many(&mut self, kind: &str, count: u64, place: impl FnOnce() -> String) {
        if count == 0 {
            return;
        }
        match self.0.iter_mut().find(|d| d.kind == kind) {
            Some(known) => known.count += count,
            None => self.0.push(Diagnostic { kind: kind.to_owned(), count, first: place() }),
        }
    }

    /// Takes over all of another list.
    pub fn extend(&mut self, other: Diagnostics) {
        for d in other.0 {
            self.note_many(&d.kind, d.count, || d.first);
        }
    }

    /// How often `kind` was seen.
    pub fn count(&self, kind: &str) -> u64 {
        self.0.iter().find(|d| d.kind == kind).map_or(0, |d| d.count)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.0.iter()
    }

    /// Whether everything added up.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
