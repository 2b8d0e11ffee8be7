//! The flame chart in the page, with what zooms and searches it. Its script is the page's to include.

use super::esc;
use crate::Boot;
use crate::chart::{self, Layout};
use std::io::{self, Write};

/// Writes the section. Whether there is a chart.
pub fn section(boot: &Boot, out: &mut dyn Write) -> io::Result<bool> {
    writeln!(out, "<section aria-labelledby=\"h-chart\"><h2 id=\"h-chart\">Boot path in order of time</h2>")?;
    let Some(layout) = Layout::of(boot) else {
        writeln!(out, "<p>There is none: no evidence says which thread reached the end mark.</p></section>")?;
        return Ok(false);
    };
    writeln!(
        out,
        "<p>What the boot waited on at each instant; what a thread waited for hangs below it. A click zooms in. \
         {}</p>\n<div class=\"tools\"><label>mark <input id=\"find\" type=\"search\" size=\"28\" \
         placeholder=\"regular expression\"></label> <button id=\"whole\" type=\"button\">whole boot</button> \
         <output id=\"found\"></output></div>\n<div id=\"chart\">",
        esc(&layout.left_out(boot))
    )?;
    chart::inline(boot, &layout, out)?;
    writeln!(out, "</div></section>")?;
    Ok(true)
}
