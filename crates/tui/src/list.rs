//! The cursor of a list: the selected row, and the first that is drawn.

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct List {
    pub at: usize,
    first: usize,
    /// The rows that were drawn last.
    room: usize,
}

impl List {
    /// Moves by a number of rows, within a list of `len`.
    pub fn step(&mut self, by: isize, len: usize) {
        self.at = self.at.saturating_add_signed(by).min(len.saturating_sub(1));
    }

    /// Moves by as many rows as are seen.
    pub fn page(&mut self, is_forwards: bool, len: usize) {
        let rows = isize::try_from(self.room.max(2) - 1).unwrap_or(1);
        self.step(if is_forwards { rows } else { -rows }, len);
    }

    /// The rows to draw in `room` lines, so that the selected one is among them.
    pub fn seen(&mut self, room: usize, len: usize) -> std::ops::Range<usize> {
        self.at = self.at.min(len.saturating_sub(1));
        self.room = room;
        self.first =
            self.first.min(self.at).max((self.at + 1).saturating_sub(room)).min(len.saturating_sub(room.max(1)));
        self.first..(self.first + room).min(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_selected_row_is_always_drawn() {
        let mut list = List::default();
        for (by, at) in [(3, 3), (100, 9), (-1, 8), (-100, 0)] {
            list.step(by, 10);
            assert_eq!(list.at, at);
            for room in [1, 2, 4, 10, 20] {
                let seen = list.seen(room, 10);
                assert!(seen.contains(&at) && seen.len() == room.min(10), "{seen:?} of {room}");
            }
        }
        assert_eq!(list.seen(5, 0), 0..0);
        assert_eq!(list.seen(0, 5).len(), 0);
        list.seen(4, 10);
        list.page(true, 10);
        assert_eq!(list.at, 3);
    }
}
