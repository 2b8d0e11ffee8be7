//! The flame chart in the page: inferno's SVG inline, its script taken out of it and handed back.
//!
//! In the SVG the script would start itself by an attribute, which the page's policy forbids, so the
//! page's own script starts it; that one also leaves the browser's own search key alone.

use super::esc;
use crate::Boot;
use crate::export::chart;
use std::io::{self, Write};

/// Writes the section; returns the script that the chart needs, if there is a chart.
pub fn section(boot: &Boot, out: &mut dyn Write) -> io::Result<Option<String>> {
    writeln!(out, "<section aria-labelledby=\"h-chart\"><h2 id=\"h-chart\">Boot path in order of time</h2>")?;
    let Some(chart) = chart(boot, false)? else {
        writeln!(out, "<p>There is none: no evidence says which thread reached the end mark.</p></section>")?;
        return Ok(None);
    };
    let svg = String::from_utf8_lossy(&chart.svg);
    let (picture, script) = take_script(&svg);
    writeln!(
        out,
        "<p>What the boot waited on at each instant; what a thread waited for hangs below it. A click zooms in. \
         {}</p>\n<div class=\"tools\"><label>mark <input id=\"find\" type=\"search\" size=\"28\" \
         placeholder=\"regular expression\"></label> <button id=\"whole\" type=\"button\">whole boot</button> \
         <output id=\"found\"></output></div>\n<div id=\"chart\">{picture}</div></section>",
        esc(&chart.left_out)
    )?;
    Ok(Some(script))
}

/// The SVG element without script, handler and XML prologue, and the script.
fn take_script(svg: &str) -> (String, String) {
    let from = svg.find("<svg").unwrap_or(0);
    // The script stands before all text of a machine's, so the first one is the one.
    let script = svg.find("<script").and_then(|begin| Some((begin, begin + svg[begin..].find("</script>")?)));
    let Some((begin, end)) = script else { return (svg[from..].to_owned(), String::new()) };
    let body = svg[begin..end].split_once('>').map_or("", |(_, body)| body);
    let body = body.replace("<![CDATA[", "").replace("]]>", "");
    let head = svg[from..begin].replacen(" onload=\"init(evt)\"", "", 1);
    (head + &svg[end + "</script>".len()..], body)
}
