//! `bootscope view --tui`: the boots on the terminal.

use super::Args;
use crate::Done;
use crate::output::Output;
use crate::report::{open_all, with_boots};
use anyhow::{Context, bail};
use campaigns::diff::between;
use std::io::{IsTerminal, stdin, stdout};
use tui::{App, Look};

/// Shows recordings until the user ends the screen.
pub fn show(args: &Args, output: &Output) -> anyhow::Result<Done> {
    if !stdin().is_terminal() || !stdout().is_terminal() {
        bail!("--tui needs a terminal on standard input and output: bootscope show prints the same figures");
    }
    if std::env::var_os("TERM").is_some_and(|term| term == "dumb") {
        bail!("--tui cannot place text on a terminal of the kind TERM=dumb: set TERM to its kind, such as vt100");
    }
    let boots = open_all(&args.recordings, &args.view.boot_view())?;
    with_boots(&args.recordings, &boots, output, |pages| {
        let compare = |before: usize, after: usize| {
            let boot = |i: usize| (pages[i].name, &boots[i]);
            between(boot(before), boot(after)).map_err(|error| format!("{error:#}"))
        };
        let mut app = App::new(pages, &compare, Look::of_terminal(output.has_colours()));
        tui::run(&mut app).context("cannot show the screen on this terminal")
    })?;
    Ok(Done::Well)
}
