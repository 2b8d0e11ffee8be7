//! Takes what was received: keeps it in the recording, and notes the facts in it.

use guest_init::messages::{Lacked, Message};
use recording::{End, EndMark};

use super::{Layout, Seen, Shutdown, Watch, panicked};
use crate::Error;
use crate::awaited::{Awaited, Meaning};
use crate::lines::shown;
use crate::vmm::{News, Source};

impl Watch<'_> {
    pub(super) fn take(&mut self, source: Source, bytes: &[u8], at_ns: i64) -> Result<(), Error> {
        if source == Source::Guest {
            return self.take_messages(bytes, at_ns);
        }
        self.streams.append(source, bytes, at_ns)?;
        let (facts, mut until) = (&mut self.facts, self.until.as_mut());
        match source {
            Source::Console => {
                self.silence.iter_mut().for_each(|silence| silence.heard(at_ns));
                facts.console_bytes += bytes.len() as u64;
                let has_guest_init = self.messages.is_some();
                self.console.feed(bytes, &mut |line| {
                    facts.take_console_line(&line, until.as_deref_mut(), at_ns);
                    if has_guest_init {
                        facts.note_no_channel(&line, at_ns);
                    }
                });
            }
            Source::Vmm => self.vmm.feed(bytes, &mut |line| facts.take_vmm_line(&line)),
            Source::Firmware | Source::Guest => {}
        }
        Ok(())
    }

    fn take_messages(&mut self, bytes: &[u8], at_ns: i64) -> Result<(), Error> {
        let Some(messages) = &mut self.messages else {
            return Ok(());
        };
        for (message, at_ns) in messages.take(bytes, at_ns, &mut self.streams)? {
            self.take_message(message, at_ns);
        }
        Ok(())
    }

    fn take_message(&mut self, message: Message, at_ns: i64) {
        match message {
            Message::Init { .. } => {
                self.facts.init_ns.get_or_insert(at_ns);
            }
            Message::Round { header_phys } => {
                let is_kept = self.messages.as_mut().is_none_or(|messages| messages.keep_round(header_phys));
                if !is_kept {
                    self.transfer.pass_over();
                }
            }
            Message::Lack { what: Lacked::Root, why } => drop(self.facts.no_root.get_or_insert(why)),
            Message::Lack { what: Lacked::Workload, why } => drop(self.facts.no_workload.get_or_insert(why)),
            Message::End { outcome } => {
                self.facts.guest_done.get_or_insert(Seen { at_ns, what: shown(outcome.as_bytes(), 200) });
            }
            _ => {}
        }
    }

    pub(super) fn take_news(&mut self, news: News, at_ns: i64) {
        let facts = &mut self.facts;
        match news {
            News::Running => {
                if facts.running_ns.is_none() {
                    facts.running_ns = Some(at_ns);
                    self.silence.iter_mut().for_each(|silence| silence.heard(at_ns));
                }
                // The transfer of evidence needs the answer, and a VMM that dies later cannot give it.
                self.ask_layout();
            }
            News::Stopped => self.take_stop(),
            News::Off(why) => drop(facts.shutdown.get_or_insert(Shutdown { at_ns, why })),
            News::Logged(line) => self.take_logged(&line, at_ns),
            News::Panicked => {
                let what = panicked(facts.vmm);
                facts.panic.get_or_insert(Seen { at_ns, what });
            }
        }
    }

    /// Takes a line that the guest caused the VMM to log. It may be the end mark.
    fn take_logged(&mut self, line: &str, at_ns: i64) {
        let is_awaited = |until: &mut Awaited| until.hear(line.as_bytes()) == Meaning::Reached;
        if self.facts.matched.is_none() && self.until.as_mut().is_some_and(is_awaited) {
            let (mark, what, error_ns) = (Some(EndMark::Line), line.to_owned(), Some(self.facts.arrival_error_ns));
            self.facts.matched = Some(End { mark, what, at_ns, error_ns, printk_ns: None });
        }
    }

    pub(super) fn take_round(&mut self, phys: u64) -> Result<(), Error> {
        if self.ram()?.is_none() {
            // The guest gets no answer, and after a while sends its evidence through the port.
            return Ok(());
        }
        if let Layout::Known(ram) = &self.layout {
            self.transfer.take_round(phys, ram, self.writer)?;
        }
        Ok(())
    }
}
