//! `bootscope report`: writes one page that opens from disk.

use crate::boot_view::BootViewArgs;
use crate::output::{Output, Written};
use crate::{Done, findings};
use anyhow::{Context, bail};
use campaigns::benches;
use campaigns::boot_view::BootView;
use campaigns::files::{self, write_file};
use campaigns::opened_boot::OpenedBoot;
use report::{Asks, Boot, ConsoleLine, PageBoot};
use std::path::{Path, PathBuf};

/// Write one HTML page that opens from disk, without a network
///
/// For a recording, it has the boot path, all threads in order of time, merged stacks, the tables, the console, and
/// the findings with their remedies. For several recordings, it also compares them. For a bench, it has the results and
/// their plots. With --svg, report writes a picture of the page's first screen, for a README or a mail.
#[derive(clap::Args)]
pub struct Args {
    /// A recording (folder or packed file), two to eight to compare, or a bench's folder
    #[arg(required = true, num_args = 1..=8)]
    recordings: Vec<PathBuf>,
    #[command(flatten)]
    view: BootViewArgs,
    /// The file to write [default: the first recording's name with .html or .svg]
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Write a picture (SVG, below 100 kB) of one recording: the boot path, its largest rows and findings
    #[arg(long)]
    svg: bool,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
}

/// The most console lines read for a page, which shows only the first and the last of them.
const MAX_CONSOLE_LINES: usize = 1 << 20;

fn console_lines(console: &evidence::Console) -> Vec<ConsoleLine<'_>> {
    let mut all = console.lines().map(|(at, text)| ConsoleLine { at, text });
    let mut lines: Vec<ConsoleLine> = all.by_ref().take(MAX_CONSOLE_LINES).collect();
    lines.extend(
        all.next().map(|next| ConsoleLine { text: b"(the recording has more lines, which are left out here)", ..next }),
    );
    lines
}

/// Runs the command.
pub fn run(args: &Args, output: &Output) -> anyhow::Result<Done> {
    let first = &args.recordings[0];
    let path = args.output.clone().unwrap_or_else(|| files::beside(first, if args.svg { ".svg" } else { ".html" }));
    let bytes = match args.recordings.iter().find(|path| benches::is_bench(path)) {
        _ if args.svg && args.recordings.len() > 1 => {
            bail!("a picture has one recording: name one, or leave out --svg for a page that compares them")
        }
        Some(bench) if args.svg => {
            bail!("{} is a bench, and a picture has one recording: leave out --svg for its page", bench.display())
        }
        Some(bench) if args.recordings.len() > 1 => {
            bail!("{} is a bench, and a page has one bench or up to eight recordings: name it alone", bench.display())
        }
        Some(bench) => {
            let view = args.view.boot_view();
            let document = view.of_bench(benches::read_noting_damage(bench, output)?)?;
            let medians = benches::median_recordings(bench, &document);
            with_boots(&medians, &open_all(&medians, &view)?, output, |boots| {
                write_file(&path, args.force, |out| report::bench_page(&document, boots, out))
            })?
        }
        None => of_boots(args, &path, output)?,
    };
    output.note(&format!("wrote {}: open it in a browser", path.display()));
    output.written(&Written::new("bootscope.report/1", &path, bytes))?;
    Ok(Done::Well)
}

/// Writes the page of recordings. Returns its size in bytes.
fn of_boots(args: &Args, path: &Path, output: &Output) -> anyhow::Result<u64> {
    let opened = open_all(&args.recordings, &args.view.boot_view())?;
    with_boots(&args.recordings, &opened, output, |boots| {
        write_file(path, args.force, |out| match args.svg {
            true => report::first_screen(boots[0].boot, out),
            false => report::page(boots, Asks::Itself, out),
        })
    })
}

/// Reads recordings, each up to the milestone.
pub fn open_all(recordings: &[PathBuf], view: &BootView) -> anyhow::Result<Vec<OpenedBoot>> {
    recordings.iter().map(|path| view.open(path)).collect()
}

/// Calls a function with the recordings in the form for a page.
pub fn with_boots<T>(
    recordings: &[PathBuf],
    opened: &[OpenedBoot],
    output: &Output,
    f: impl FnOnce(&[PageBoot]) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let boots = opened.iter().map(|opened| {
        let mut boot = Boot::new(&opened.timeline, &opened.facts);
        boot.findings = Some(findings::of_page(opened, output));
        boot
    });
    let boots: Vec<Boot> = boots.collect();
    let consoles = opened.iter().map(|opened| evidence::console(&opened.recording).context("cannot read the console"));
    let consoles = consoles.collect::<anyhow::Result<Vec<_>>>()?;
    let lines = consoles.iter().map(console_lines);
    let lines: Vec<Vec<ConsoleLine>> = lines.collect();
    let names = names(recordings);
    let on_page = boots.iter().zip(&lines).zip(&names);
    let on_page: Vec<PageBoot> = on_page.map(|((boot, console), name)| PageBoot { name, boot, console }).collect();
    f(&on_page)
}

/// The names of recordings on a page: their paths without the folders that are common to all.
fn names(recordings: &[PathBuf]) -> Vec<String> {
    let parts: Vec<Vec<_>> = recordings.iter().map(|path| path.components().collect()).collect();
    let last = parts.iter().map(|path| path.len().saturating_sub(1)).min().unwrap_or(0);
    let shared = (0..last).take_while(|&i| parts.iter().all(|path| path[i] == parts[0][i])).count();
    parts.iter().map(|path| path[shared..].iter().collect::<PathBuf>().display().to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_calls_recordings_by_what_differs() {
        let of = |paths: &[&str]| names(&paths.iter().map(PathBuf::from).collect::<Vec<_>>());
        assert_eq!(of(&["boots/a"]), ["a"]);
        assert_eq!(of(&["/tmp/boots/a", "/tmp/boots/b"]), ["a", "b"]);
        assert_eq!(of(&["monday/boot", "tuesday/boot"]), ["monday/boot", "tuesday/boot"]);
        assert_eq!(of(&["x/boots/a", "x/boots"]), ["boots/a", "boots"]);
        assert_eq!(of(&["x/a", "x/a"]), ["a", "a"]);
    }
}
