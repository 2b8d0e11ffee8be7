//! Draws the progress of a boot on a terminal, and handles Ctrl-C.

use crate::boot_options::FLAGS;
use crate::output::{Output, remark};
use indicatif::{ProgressBar, ProgressStyle};
use machine::{Observer, Progress, Stage, Words};
use report::harmless;
use std::io::{IsTerminal, stderr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use timeline::Ns;

/// Draws a progress line while a machine boots, if standard error is a terminal. Stops the boot on Ctrl-C in any case.
pub struct Watcher {
    bar: Option<ProgressBar>,
    quiet: bool,
    prefix: String,
    stop: Arc<AtomicBool>,
}

impl Watcher {
    /// Installs the handler of Ctrl-C.
    pub fn new(output: &Output) -> anyhow::Result<Watcher> {
        let stop = machine::stop_on_signals()?;
        let draws = stderr().is_terminal() && !output.quiet;
        let bar = draws.then(|| {
            let style = ProgressStyle::with_template("{spinner} {wide_msg}")
                .unwrap_or_else(|_| ProgressStyle::default_spinner());
            ProgressBar::new_spinner().with_style(style)
        });
        Ok(Watcher { bar, quiet: output.quiet, prefix: String::new(), stop })
    }
}

impl campaigns::Watcher for Watcher {
    fn announce_boot(&mut self, what: &str) {
        self.prefix = format!("{}: ", harmless(what));
    }

    fn announce_work(&mut self, what: &str) {
        self.announce_boot(what);
        match &self.bar {
            Some(bar) => {
                bar.set_message(harmless(what).into_owned());
                bar.tick();
            }
            None if !self.quiet => remark(&format!("bootscope: {}", harmless(what))),
            None => {}
        }
    }

    fn stop_check(&self) -> Box<dyn FnMut() -> bool> {
        let stop = self.stop.clone();
        Box::new(move || stop.load(Ordering::Relaxed))
    }

    fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn observer(&mut self) -> &mut dyn Observer {
        self
    }
}

impl Observer for Watcher {
    fn words(&self) -> Words {
        FLAGS
    }

    fn progress(&mut self, progress: &Progress<'_>) {
        let Some(bar) = &self.bar else { return };
        let elapsed = Ns(progress.elapsed_ns);
        let prefix = &self.prefix;
        bar.set_message(match progress.stage {
            Stage::Booting => {
                format!("{prefix}{elapsed}  {} B  {}", progress.console_bytes, harmless(progress.last_line))
            }
            Stage::Gathering => format!("{prefix}{elapsed}  transferring evidence: {} B", progress.evidence_bytes),
        });
        bar.tick();
    }

    /// Prints a request to the user even with `--quiet`, because the boot waits for it.
    fn want(&mut self, what: &str) {
        let line = format!("bootscope: {}", harmless(what));
        match &self.bar {
            Some(bar) => bar.suspend(|| remark(&line)),
            None => remark(&line),
        }
    }

    fn stop(&mut self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}
