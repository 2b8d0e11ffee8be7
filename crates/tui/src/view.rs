//! The views of the screen.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    Path,
    Where,
    Findings,
    Console,
    Compare,
}

impl View {
    pub const ALL: [View; 5] = [View::Path, View::Where, View::Findings, View::Console, View::Compare];

    pub fn name(self) -> &'static str {
        match self {
            View::Path => "Path",
            View::Where => "Where",
            View::Findings => "Findings",
            View::Console => "Console",
            View::Compare => "Compare",
        }
    }
}
