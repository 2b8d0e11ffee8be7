//! Stops of the vCPUs by a VMM's gdbstub: at functions, for patches and watched variables, and in silences of the console. If the
//! stub fails, the boot goes on without it.

use recording::Field;

use super::{Facts, MAX_RESUMES, Seen, Watch};
use crate::arch::Arch;
use crate::functions::{FunctionStops, Plan, Undone};
use crate::gdb::Client;
use crate::refusal::text;
use crate::stops::{Names, OnStacks};
use crate::vmm::Vmm;

impl Watch<'_> {
    /// Starts the held vCPUs, and executes the plan for stops at functions. The wait for the VMM ends at the boot's timeout, or when
    /// the user stops the recording.
    pub(crate) fn stop_at_functions(&mut self, plan: Plan, arch: &'static Arch) {
        self.facts.missed = plan.missed().map(|missed| self.spelled(missed));
        let (limit, words) = (self.limit(i64::MAX), self.words());
        let begun = match stub(&mut *self.vm) {
            Some(client) => {
                let functions = self.functions.insert(FunctionStops::new(plan, client, arch));
                let begun = functions.begin(&mut || limit.is_over(&*self.vm, &self.observer));
                if begun.is_ok() {
                    let missed = functions.missed();
                    self.facts.missed = missed.map(|missed| missed.in_words(words).to_string());
                }
                begun
            }
            None => Err(Undone::Failed("there is no gdbstub".to_owned())),
        };
        if matches!(begun, Err(Undone::Refused(_))) {
            // The vCPUs have not run yet. The outcome is a boot that ran without the patch, so they are started.
            self.vm.resume_vcpus();
        }
        self.take_undone(begun);
    }

    /// The values of the watched variable, as the content of a file, if a variable was watched.
    pub(crate) fn watched(&self) -> Option<String> {
        self.functions.as_ref().and_then(FunctionStops::watched)
    }

    fn take_undone(&mut self, result: Result<(), Undone>) {
        let what = match result {
            Ok(()) => return,
            Err(Undone::Refused(why)) => text![Field::Patches, " ", why],
            Err(Undone::Failed(why)) => {
                self.resume_count = Some(0);
                self.vm.resume_vcpus();
                if self.facts.missed.is_none() {
                    // All patches were written, so only evidence is missing.
                    let why = format!(" ended early: {why}. The boot went on, and what was read before is kept: ");
                    let note = self.spelled(text![Field::Watch, why, "record once more for the rest"]);
                    self.facts.watch_failure.get_or_insert(note);
                    return;
                }
                text![Field::Patches, format!(" was not written: {why}")]
            }
        };
        let (at_ns, what) = (self.vm.elapsed_ns(), self.spelled(what));
        self.facts.unpatched.get_or_insert(Seen { at_ns, what });
    }

    /// Handles vCPUs that have stopped at a function.
    pub(super) fn look_at_functions(&mut self, is_over: &dyn Fn(&Facts) -> bool) {
        let words = self.words();
        let Some(functions) = &mut self.functions else { return };
        let facts = &mut self.facts;
        if facts.gone || facts.unpatched.is_some() {
            return;
        }
        let is_over = is_over(facts);
        let looked = functions.look(&|| self.vm.elapsed_ns(), is_over);
        facts.missed = functions.missed().map(|missed| missed.in_words(words).to_string());
        let client = functions.give_away();
        if let (Some(client), Some(silence)) = (client, &mut self.silence) {
            silence.set_client(client);
        }
        self.take_undone(looked);
    }

    /// True if a function is still to be entered. Then each step waits for that, and not for output.
    pub(super) fn waits_for_function(&self) -> bool {
        let facts = &self.facts;
        let is_running = !facts.gone && facts.shutdown.is_none() && facts.unpatched.is_none();
        is_running && self.functions.as_ref().is_some_and(FunctionStops::is_waiting)
    }

    /// Stops the vCPUs and reads their stacks, if the console has been silent for the requested time.
    pub(super) fn look_into_silence(&mut self, now_ns: i64) {
        let limit = self.limit(i64::MAX);
        let Some(silence) = &mut self.silence else { return };
        // Output that is not received yet would end the silence.
        let is_due = self.heard_out && silence.next_ns().is_some_and(|due_ns| now_ns >= due_ns);
        let is_over = &mut || limit.is_over(&*self.vm, &self.observer);
        if is_due && !silence.stop(&|| self.vm.elapsed_ns(), is_over) {
            self.resume_count = Some(0);
            self.vm.resume_vcpus();
        }
    }

    /// Resumes vCPUs that have stopped after their stub failed. The stub acts on an earlier stop command then, and no other code resumes
    /// them.
    pub(super) fn take_stop(&mut self) {
        let facts = &self.facts;
        let is_at_end = facts.gone || facts.shutdown.is_some() || facts.panic.is_some();
        if let (Some(count), false) = (&mut self.resume_count, is_at_end) {
            if *count < MAX_RESUMES {
                *count += 1;
                self.vm.resume_vcpus();
            }
        }
    }

    /// Ends the last silence: at the first sign of the boot's end, or now if the boot `is_over`.
    pub(crate) fn end_silence(&mut self, is_over: bool) {
        let Some(silence) = &mut self.silence else { return };
        let facts = &self.facts;
        let matched_ns = facts.matched.as_ref().map(|end| end.at_ns);
        let off_ns = facts.shutdown.as_ref().map(|shutdown| shutdown.at_ns);
        let now_ns = (is_over || facts.gone).then(|| self.vm.elapsed_ns());
        let ends = [facts.init_ns, matched_ns, off_ns, now_ns];
        if let Some(end_ns) = ends.into_iter().flatten().min() {
            silence.end(end_ns);
        }
    }

    /// The stacks of the vCPUs in each silence, as the content of a file, if that was requested. `names` finds names for the addresses
    /// on the stacks.
    pub(crate) fn silences(&mut self, names: impl FnOnce(&OnStacks) -> Names) -> Option<String> {
        self.end_silence(true);
        self.silence.take().map(|silence| silence.finish(names))
    }
}

/// A client of the VMM's gdbstub, if it has one that is not taken yet.
pub(super) fn stub(vm: &mut dyn Vmm) -> Option<Client> {
    vm.gdbstub().and_then(|socket| Client::new(socket).ok())
}
