//! The window of time that a screen shows, and its columns.

use timeline::Ns;

/// The shortest window: below that, columns would be shorter than the unit of time.
const MIN_LENGTH: i64 = 100;

/// A stretch of time, never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub from: Ns,
    pub to: Ns,
}

impl Window {
    /// The window from one instant to another; at least [`MIN_LENGTH`] long.
    pub fn new(from: Ns, to: Ns) -> Window {
        Window { from, to: Ns(to.0.max(from.0.saturating_add(MIN_LENGTH))) }
    }

    pub fn length(self) -> i64 {
        self.to.0.saturating_sub(self.from.0).max(1)
    }

    /// The instant at which a column begins. Columns lie between 0 and `columns`.
    pub fn at(self, column: u16, columns: u16) -> Ns {
        self.part(i128::from(column), i128::from(columns.max(1)))
    }

    /// The instant in the middle of a column.
    pub fn middle(self, column: u16, columns: u16) -> Ns {
        self.part(2 * i128::from(column) + 1, 2 * i128::from(columns.max(1)))
    }

    fn part(self, of: i128, parts: i128) -> Ns {
        let at = i128::from(self.from.0) + i128::from(self.length()) * of / parts;
        Ns(i64::try_from(at).unwrap_or(i64::MAX))
    }

    /// The column of an instant; `None` if the window does not contain it.
    pub fn column(self, at: Ns, columns: u16) -> Option<u16> {
        let inside = at >= self.from && at < self.to;
        let column = i128::from(at.0.saturating_sub(self.from.0)) * i128::from(columns) / i128::from(self.length());
        inside.then(|| u16::try_from(column).unwrap_or(u16::MAX))
    }

    /// The window with its length multiplied, around an instant.
    #[must_use]
    pub fn zoomed(self, factor: f64, around: Ns) -> Window {
        let part = |from: Ns, to: Ns| Ns::rounded((to.0 as f64 - from.0 as f64) * factor);
        Window::new(
            Ns(around.0.saturating_sub(part(self.from, around).0)),
            Ns(around.0.saturating_add(part(around, self.to).0)),
        )
    }

    /// The window moved by a share of its length.
    #[must_use]
    pub fn moved(self, share: f64) -> Window {
        let by = Ns::rounded(self.length() as f64 * share).0;
        Window { from: Ns(self.from.0.saturating_add(by)), to: Ns(self.to.0.saturating_add(by)) }
    }

    /// The window within a whole: shortened to its length if it is longer, and moved into it.
    #[must_use]
    pub fn within(self, whole: Window) -> Window {
        if self.length() >= whole.length() {
            return whole;
        }
        let from = self.from.max(whole.from).min(Ns(whole.to.0 - self.length()));
        Window { from, to: Ns(from.0 + self.length()) }
    }

    /// The window moved so that it shows a stretch; wider if the stretch does not fit.
    #[must_use]
    pub fn showing(self, from: Ns, to: Ns) -> Window {
        if from >= self.from && to <= self.to {
            return self;
        }
        let length = to.0.saturating_sub(from.0).saturating_mul(6) / 5;
        let length = length.max(self.length());
        let middle = from.0 + (to.0.saturating_sub(from.0)) / 2;
        Window::new(Ns(middle.saturating_sub(length / 2)), Ns(middle.saturating_add(length / 2)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_lies_in_the_column_that_begins_before_it() {
        let window = Window::new(Ns(1_000), Ns(2_000));
        assert_eq!([0, 40, 79].map(|c| window.at(c, 80).0), [1_000, 1_500, 1_987]);
        for at in 1_000..2_000 {
            let column = window.column(Ns(at), 80).unwrap();
            assert!(window.at(column, 80).0 <= at && at <= window.at(column + 1, 80).0, "{at}");
        }
        assert_eq!((window.column(Ns(999), 80), window.column(Ns(2_000), 80)), (None, None));
    }

    #[test]
    fn zooms_and_moves_stay_within_the_boot() {
        let whole = Window::new(Ns::ZERO, Ns::from_ms(1_000));
        let near = whole.zoomed(0.1, Ns::from_ms(500));
        assert_eq!(near, Window::new(Ns::from_ms(450), Ns::from_ms(550)));
        assert_eq!(near.moved(10.0).within(whole), Window::new(Ns::from_ms(900), Ns::from_ms(1_000)));
        assert_eq!(near.moved(-10.0).within(whole), Window::new(Ns::ZERO, Ns::from_ms(100)));
        assert_eq!(near.zoomed(100.0, Ns::from_ms(500)).within(whole), whole);
        let (mut closest, mut far) = (whole, Window::new(Ns(i64::MIN / 2), Ns(i64::MAX / 2)));
        for _ in 0..200 {
            closest = closest.zoomed(0.5, Ns::from_ms(1)).within(whole);
            far = far.zoomed(2.0, Ns::ZERO);
        }
        assert!(closest.length() >= MIN_LENGTH && far.length() > 0);
    }

    #[test]
    fn a_window_moves_to_what_it_shall_show() {
        let window = Window::new(Ns(0), Ns(1_000));
        assert_eq!(window.showing(Ns(100), Ns(200)), window);
        assert_eq!(window.showing(Ns(2_000), Ns(2_100)), Window::new(Ns(1_550), Ns(2_550)));
        assert_eq!(window.showing(Ns(0), Ns(10_000)), Window::new(Ns(-1_000), Ns(11_000)));
    }
}
