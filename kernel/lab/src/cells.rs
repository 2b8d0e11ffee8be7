//! The cells of a text console: the characters on the screen, and the cells to draw when a character is printed.
//!
//! A newline on the last row moves every row up. Redrawing the whole screen always costs the same, although most cells are
//! blank and many others stay the same. With a copy of the screen's characters (the *shadow*), only the cells that change
//! are drawn.

use crate::switches::Console;

/// The cells of a screen, as they were last drawn.
#[derive(Debug)]
pub struct Cells<'a> {
    shadow: &'a mut [u8],
    columns: usize,
    /// Cell of the next character, counted from the first.
    cursor: usize,
    scroll: Console,
}

const BLANK: u8 = b' ';

impl<'a> Cells<'a> {
    /// A blank screen with as many rows as `shadow` has room for. Returns `None` if there is no room for a row.
    pub fn new(shadow: &'a mut [u8], columns: usize, scroll: Console) -> Option<Cells<'a>> {
        let rows = shadow.len().checked_div(columns)?;
        let shadow = shadow.get_mut(..rows * columns).filter(|shadow| !shadow.is_empty())?;
        shadow.fill(BLANK);
        Some(Cells { shadow, columns, cursor: 0, scroll })
    }

    /// Prints a character. Calls `draw` with row, column and character of each cell that must be drawn.
    pub fn put(&mut self, byte: u8, mut draw: impl FnMut(usize, usize, u8)) {
        match byte {
            b'\n' => self.cursor = (self.cursor / self.columns + 1) * self.columns,
            b'\r' => self.cursor = self.cursor / self.columns * self.columns,
            _ => {
                self.shadow[self.cursor] = byte;
                draw(self.cursor / self.columns, self.cursor % self.columns, byte);
                self.cursor += 1;
            }
        }
        if self.cursor == self.shadow.len() {
            self.scroll(&mut draw);
        }
    }

    fn scroll(&mut self, draw: &mut impl FnMut(usize, usize, u8)) {
        for cell in 0..self.shadow.len() {
            let new = self.shadow.get(cell + self.columns).copied().unwrap_or(BLANK);
            if self.scroll == Console::Redraw || self.shadow[cell] != new {
                draw(cell / self.columns, cell % self.columns, new);
            }
            self.shadow[cell] = new;
        }
        self.cursor -= self.columns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Prints a text. Returns the rows of the screen, and the number of cells drawn.
    fn screen(text: &str, rows: usize, columns: usize, scroll: Console) -> (Vec<String>, usize) {
        let mut shadow = vec![0; rows * columns];
        let mut drawn = vec![vec![b' '; columns]; rows];
        let mut count = 0;
        let mut cells = Cells::new(&mut shadow, columns, scroll).unwrap();
        for byte in text.bytes() {
            cells.put(byte, |row, column, byte| {
                drawn[row][column] = byte;
                count += 1;
            });
        }
        (drawn.iter().map(|row| String::from_utf8_lossy(row).into_owned()).collect(), count)
    }

    #[test]
    fn a_line_at_the_bottom_moves_the_others_up() {
        for scroll in [Console::Redraw, Console::Shadow] {
            assert_eq!(screen("ab\ncd\nef\ng", 3, 3, scroll).0, ["cd ", "ef ", "g  "]);
            assert_eq!(screen("abcdefgh", 2, 3, scroll).0, ["def", "gh "]);
            assert_eq!(screen("ab\rc", 1, 3, scroll).0, ["cb "]);
        }
    }

    #[test]
    fn only_what_changes_is_drawn() {
        let text = "x\n".repeat(300);
        assert_eq!(screen(&text, 100, 80, Console::Redraw).1, 300 + 201 * 8000);
        // For each newline at the bottom, all cells stay except the last x, which moves up and leaves a blank.
        assert_eq!(screen(&text, 100, 80, Console::Shadow).1, 300 + 201);
    }

    #[test]
    fn a_screen_without_cells_is_none() {
        assert!(Cells::new(&mut [0; 5], 0, Console::Shadow).is_none());
        assert!(Cells::new(&mut [0; 5], 6, Console::Shadow).is_none());
    }

    proptest::proptest! {
        #[test]
        fn both_ways_show_the_same(text in "[a-c\n\r]{0,200}", rows in 1usize..5, columns in 1usize..6) {
            let (redrawn, redrawn_cells) = screen(&text, rows, columns, Console::Redraw);
            let (shadowed, shadowed_cells) = screen(&text, rows, columns, Console::Shadow);
            proptest::prop_assert_eq!(redrawn, shadowed);
            proptest::prop_assert!(shadowed_cells <= redrawn_cells);
        }
    }
}
