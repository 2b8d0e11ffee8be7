//! `bootscope view`: the page of recordings, served on the loopback interface until Ctrl-C, or a screen of the terminal.

mod screen;

use crate::Done;
use crate::boot_view::BootViewArgs;
use crate::output::Output;
use crate::report::{open_all, with_boots};
use anyhow::bail;
use campaigns::benches;
use campaigns::page_server::PageServer;
use report::Asks;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Show recordings in a browser: the page that report writes, from memory; or on this terminal
///
/// view serves the page on 127.0.0.1 alone, prints its address, and opens a browser. Ctrl-C ends it. What-if asks this program,
/// which works as bootscope what-if does. With --tui, a screen of the terminal shows the boot path, rows, findings and console.
#[derive(clap::Args)]
pub struct Args {
    /// A recording (folder or packed file), or two to eight to compare
    #[arg(required = true, num_args = 1..=8)]
    recordings: Vec<PathBuf>,
    #[command(flatten)]
    view: BootViewArgs,
    /// Show the boot on this terminal, by keyboard (? lists the keys)
    #[arg(long, conflicts_with_all = ["no_browser", "port"])]
    tui: bool,
    /// Print the address and open no browser
    #[arg(long)]
    no_browser: bool,
    /// The port; 0: any that is free
    #[arg(long, default_value_t = 0)]
    port: u16,
}

/// Runs the command.
pub fn run(args: &Args, output: &Output) -> anyhow::Result<Done> {
    if let Some(bench) = args.recordings.iter().find(|path| benches::is_bench(path)) {
        bail!("{} is a bench: bootscope report writes its page", bench.display());
    }
    if args.tui {
        return screen::show(args, output);
    }
    let boots = open_all(&args.recordings, &args.view.boot_view())?;
    let page = with_boots(&args.recordings, &boots, output, |boots| {
        let mut page = Vec::new();
        report::page(boots, Asks::Server, &mut page)?;
        Ok(page)
    })?;
    let names = args.recordings.iter().map(|path| path.display().to_string()).collect();
    let server = PageServer::bind(args.port, page, boots, names)?;
    let address = server.address();
    output.text(&format!("{address}\n"))?;
    if !args.no_browser {
        open_browser(&address, output);
    }
    server.serve()
}

fn open_browser(address: &str, output: &Output) {
    let browser = std::env::var_os("BROWSER").filter(|b| !b.is_empty()).unwrap_or_else(|| "xdg-open".into());
    let null = Stdio::null;
    let mut command = Command::new(&browser);
    command.arg(address).stdin(null()).stdout(null()).stderr(null());
    // The Ctrl-C that ends this program must not reach the browser.
    let started = command.process_group(0).spawn();
    match started {
        // Wait for the browser, so that it does not stay a zombie.
        Ok(mut browser) => drop(std::thread::spawn(move || browser.wait())),
        Err(e) => output.note(&format!("cannot start {}: {e}; open the address by hand", browser.to_string_lossy())),
    }
}
