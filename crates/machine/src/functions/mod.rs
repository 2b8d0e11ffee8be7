//! Stops the vCPUs where the guest enters a function, by hardware breakpoints of the gdbstub, to change its code.
//!
//! A [`Plan`] is made before the machine is started: everything that can be refused is refused then. [`FunctionStops`] writes
//! a [patch](patch) before the guest's first instruction where the VMM has loaded the code to its place already. Else it
//! writes it when the function is entered for the first time: the code is mapped then, and no vCPU is in it yet. It reads
//! back what it wrote, and clears the breakpoint. Once nothing is left to do, it gives the stub away.

mod code;
mod patch;

use std::time::{Duration, Instant};

use recording::{GuestSpec, SymbolFile};

use crate::Error;
use crate::arch::{Arch, Mode, Registers};
use crate::gdb::{Client, GdbError, Stopped, Thread};
use code::{Code, Function};
use patch::{Change, Planned, spaced};

/// A CPU has so many.
const BREAKPOINTS_MAX: usize = 4;
/// A busy host may take so long to have a VMM answer that it just started.
const START_MAX: Duration = Duration::from_secs(20);
/// All that is done at one stop may take so long.
const STOP_MAX: Duration = Duration::from_secs(3);
/// So long is waited for a stop at a time, while anything is still to be done.
const TURN: Duration = Duration::from_millis(1);

/// What is to be done at which function.
#[derive(Debug)]
pub(crate) struct Plan {
    code: Code,
    patches: Vec<Planned>,
}

impl Plan {
    /// Finds the places; none if nothing is asked for.
    ///
    /// # Errors
    /// If something does not fit the guest.
    pub(crate) fn of(guest: &GuestSpec, files: &[SymbolFile], arch: &Arch) -> Result<Option<Plan>, Error> {
        if guest.patches.is_empty() {
            return Ok(None);
        }
        let code = Code::of(guest, files)?;
        let mut patches: Vec<Planned> = Vec::new();
        for patch in &guest.patches {
            let refused = |why| Error::option(format!("--patch {patch}: {why}"));
            patches.push(Planned::of(patch, &code, arch).map_err(refused)?);
        }
        let plan = Plan { code, patches };
        let functions = plan.functions();
        if functions.len() > BREAKPOINTS_MAX {
            let functions: Vec<&str> = functions.iter().map(|function| function.name.as_str()).collect();
            return Err(Error::option(format!(
                "--patch is about {} functions ({}): a CPU can stop at {BREAKPOINTS_MAX}",
                functions.len(),
                functions.join(", ")
            )));
        }
        Ok(Some(plan))
    }

    /// The functions, each once.
    fn functions(&self) -> Vec<Function> {
        let mut all: Vec<Function> = Vec::new();
        for planned in &self.patches {
            if !all.iter().any(|known| known.address == planned.function.address) {
                all.push(planned.function.clone());
            }
        }
        all
    }
}

/// Why what was asked for was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Undone {
    /// It does not fit the guest.
    Refused(String),
    /// The stub failed: the vCPUs may stand still.
    Failed(String),
}

/// What is done at functions, in one boot.
#[derive(Debug)]
pub(crate) struct FunctionStops {
    client: Option<Client>,
    arch: &'static Arch,
    code: Code,
    waiting: Vec<Planned>,
    /// Functions with a breakpoint.
    functions: Vec<Function>,
    /// What was done, in sentences.
    done: Vec<String>,
}

impl FunctionStops {
    /// Stops the vCPUs by this client. They have not run yet.
    pub(crate) fn new(plan: Plan, client: Client, arch: &'static Arch) -> FunctionStops {
        let functions = plan.functions();
        FunctionStops {
            client: Some(client),
            arch,
            code: plan.code,
            waiting: plan.patches,
            functions,
            done: Vec::new(),
        }
    }

    /// Writes what can be written before the guest's first instruction, sets breakpoints for the rest, and lets the vCPUs
    /// run.
    pub(crate) fn begin(&mut self) -> Result<(), Undone> {
        if let Some(client) = &mut self.client {
            client.end_by(Instant::now() + START_MAX);
            client.be_patient(START_MAX);
        }
        let changes = self.changes(None)?;
        for (text, change) in &changes {
            self.write(text, change)?;
        }
        self.note(changes, "before the guest's first instruction");
        let is_wanted = |function: &Function| self.waiting.iter().any(|p| p.function.address == function.address);
        self.functions.retain(is_wanted);
        let Some(client) = &mut self.client else { return Ok(()) };
        let set = self.functions.iter().try_for_each(|function| client.set_breakpoint(function.address));
        let begun = set.and_then(|()| client.resume());
        client.be_patient(STOP_MAX);
        self.failed(begun)
    }

    /// Whether anything is still to be done.
    pub(crate) fn is_waiting(&self) -> bool {
        self.client.is_some() && !self.functions.is_empty()
    }

    /// Waits for a stop, for a moment at most, and does there what is to be done; nothing any more where the boot
    /// `is_over`.
    pub(crate) fn look(&mut self, now_ns: &dyn Fn() -> i64, is_over: bool) -> Result<(), Undone> {
        let Some(client) = self.client.as_mut().filter(|_| !self.functions.is_empty()) else { return Ok(()) };
        let stopped = match client.wait_for_stop(TURN) {
            Ok(Some(stopped)) => stopped,
            Ok(None) => return Ok(()),
            Err(error) => return self.failed(Err(error)),
        };
        // The guest is at its end, or somebody else has stopped it.
        if !stopped.is_trap {
            return Ok(());
        }
        client.end_by(Instant::now() + STOP_MAX);
        let at_ns = now_ns();
        self.take(&stopped, at_ns, now_ns, is_over)
    }

    /// The stub, once nothing more is to be done with it here.
    pub(crate) fn give_away(&mut self) -> Option<Client> {
        if self.is_waiting() { None } else { self.client.take() }
    }

    /// What was not done, because the boot did not come to its function.
    pub(crate) fn missed(&self) -> Option<String> {
        let waiting: Vec<&str> = self.waiting.iter().map(|planned| planned.text.as_str()).collect();
        let first = &self.waiting.first()?.function;
        Some(format!(
            "not written: {}: the boot never came to {} at {:#x}. Name a function that this boot calls; a kernel that was \
             not started by --kernel may also lie elsewhere than its symbols say",
            waiting.join(", "),
            first.name,
            first.address
        ))
    }

    /// What was done, in sentences.
    pub(crate) fn done(&self) -> &[String] {
        &self.done
    }

    fn take(&mut self, stopped: &Stopped, at_ns: i64, now_ns: &dyn Fn() -> i64, is_over: bool) -> Result<(), Undone> {
        let at = self.registers(&stopped.thread);
        let Some(Registers { pc, mode, .. }) = self.known(at)? else { return Ok(()) };
        let Some(n) = self.functions.iter().position(|function| function.address == pc) else {
            // One vCPU stood at a breakpoint that another one had cleared.
            return self.resume();
        };
        if mode != Mode::Kernel {
            // Firmware or a process has other code at the same address.
            let stepped = self.step_over(&stopped.thread, pc);
            self.failed(stepped)?;
            return self.resume();
        }
        let function = self.functions.remove(n);
        let cleared = self.client.as_mut().map_or(Ok(()), |client| client.clear_breakpoint(function.address));
        self.failed(cleared)?;
        if is_over {
            return self.resume();
        }
        let changes = self.changes(Some(pc))?;
        for (text, change) in &changes {
            self.write(text, change)?;
        }
        self.clear_spent()?;
        self.resume()?;
        let stood_us = (now_ns() - at_ns) / 1000;
        let (name, at_ms) = (&function.name, at_ns / 1_000_000);
        let when = format!(
            "when {name} was entered for the first time, {at_ms} ms after the start; the CPUs stood still for {}.{:03} ms",
            stood_us / 1000,
            stood_us % 1000
        );
        self.note(changes, &when);
        Ok(())
    }

    fn note(&mut self, changes: Vec<(String, Change)>, when: &str) {
        for (text, Change { address, before, after }) in changes {
            let (before, after) = (spaced(&before), spaced(&after));
            self.done.push(format!("patch {text}: at {address:#x} {before} became {after}, {when}"));
        }
    }

    /// What can be written now. What belongs to the function that was entered has to fit; the rest can also be mapped, or
    /// made what the image says, later. Before anything runs, only what the image has there is known to be the guest's.
    fn changes(&mut self, entered: Option<u64>) -> Result<Vec<(String, Change)>, Undone> {
        let (mut changes, mut later) = (Vec::new(), Vec::new());
        for planned in std::mem::take(&mut self.waiting) {
            let length = usize::try_from(planned.wanted_bytes()).unwrap_or(usize::MAX);
            let read =
                self.client.as_mut().map_or(Ok(Vec::new()), |client| client.read(planned.function.address, length));
            let memory = self.known(read)?.unwrap_or_default();
            match planned.check(&memory, &self.code, self.arch) {
                Ok(change) if entered.is_some() || planned.is_the_images(&memory) => {
                    changes.push((planned.text, change))
                }
                Ok(_) => later.push(planned),
                Err(_) if Some(planned.function.address) != entered => later.push(planned),
                Err(why) => return Err(Undone::Refused(format!("{}: {why}", planned.text))),
            }
        }
        self.waiting = later;
        Ok(changes)
    }

    /// Breakpoints go where nothing is left to do: under a translator they slow down all code of their pages.
    fn clear_spent(&mut self) -> Result<(), Undone> {
        let is_wanted = |function: &Function| self.waiting.iter().any(|p| p.function.address == function.address);
        let (wanted, spent): (Vec<Function>, Vec<Function>) = self.functions.drain(..).partition(is_wanted);
        self.functions = wanted;
        for function in spent {
            let cleared = self.client.as_mut().map_or(Ok(()), |client| client.clear_breakpoint(function.address));
            self.failed(cleared)?;
        }
        Ok(())
    }

    /// Writes, and refuses what cannot be read back.
    fn write(&mut self, text: &str, change: &Change) -> Result<(), Undone> {
        let Some(client) = &mut self.client else { return Ok(()) };
        let written = client.write(change.address, &change.after);
        let found = written.and_then(|()| client.read(change.address, change.after.len()));
        match self.known(found)? {
            Some(found) if found != change.after => {
                let (found, wanted) = (spaced(&found), spaced(&change.after));
                Err(Undone::Refused(format!("{text}: {wanted} was written, and the guest has {found} there")))
            }
            _ => Ok(()),
        }
    }
    fn registers(&mut self, thread: &Thread) -> Result<Registers, GdbError> {
        let Some(client) = &mut self.client else { return Err(GdbError::Gone) };
        let registers = client.registers(thread)?;
        (self.arch.registers)(&registers)
            .ok_or_else(|| GdbError::Odd(format!("{} bytes of registers", registers.len())))
    }

    /// Executes the instruction at a breakpoint, which stays.
    fn step_over(&mut self, thread: &Thread, address: u64) -> Result<(), GdbError> {
        let Some(client) = &mut self.client else { return Err(GdbError::Gone) };
        client.clear_breakpoint(address)?;
        client.step(thread)?;
        client.set_breakpoint(address)
    }

    fn resume(&mut self) -> Result<(), Undone> {
        let resumed = self.client.as_mut().map_or(Ok(()), Client::resume);
        self.failed(resumed)
    }

    fn known<T>(&mut self, result: Result<T, GdbError>) -> Result<Option<T>, Undone> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error) => self.failed(Err(error)).map(|()| None),
        }
    }

    /// A stub that failed is of no more use.
    fn failed(&mut self, result: Result<(), GdbError>) -> Result<(), Undone> {
        let Err(error) = result else { return Ok(()) };
        self.client = None;
        Err(Undone::Failed(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::code::tests::named;
    use super::*;
    use crate::arch::x86_64::ARCH;
    use crate::gdb::tests::scripted;

    fn packet(data: &str) -> &'static str {
        format!("+${data}#{:02x}", data.bytes().fold(0u8, u8::wrapping_add)).leak()
    }

    /// Registers of a vCPU in a kernel, at this place.
    fn at(pc: u64) -> &'static str {
        let mut bytes = vec![0u8; 600];
        bytes[128..136].copy_from_slice(&pc.to_le_bytes());
        bytes[229] = 0x0d; // long mode
        packet(&bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
    }

    fn stops(script: &[(&'static str, &'static str)]) -> FunctionStops {
        let code = named(&[("k", &[(0x1000, "f"), (0x1008, "g")])]);
        let patches = vec![Planned::of(&"call@f+0x1=nop".parse().unwrap(), &code, &ARCH).unwrap()];
        FunctionStops::new(Plan { code, patches }, scripted(script), &ARCH)
    }

    /// push %rbp; call; nop; ret
    const CODE: &str = "55e8fa0f000090c3";
    const TRAP: &str = "T05thread:01;";

    #[test]
    fn a_patch_is_written_when_its_function_is_entered_and_read_back() {
        let mut stops = stops(&[
            ("m1000,8", packet("E14")),
            ("Z1,1000,1", packet("OK")),
            ("c", packet(TRAP)),
            ("Hg01", packet("OK")),
            ("g", at(0x1000)),
            ("z1,1000,1", packet("OK")),
            ("m1000,8", packet(CODE)),
            ("M1001,5:9090909090", packet("OK")),
            ("m1001,5", packet("9090909090")),
            ("c", "+"),
        ]);
        stops.begin().unwrap();
        assert!(stops.is_waiting() && stops.give_away().is_none());
        assert!(stops.missed().unwrap().contains("call@f+0x1=nop: the boot never came to f at 0x1000"));
        while stops.is_waiting() {
            stops.look(&|| 7_000_000, false).unwrap();
        }
        assert_eq!(stops.missed(), None);
        let done = "patch call@f+0x1=nop: at 0x1001 e8 fa 0f 00 00 became 90 90 90 90 90, when f was entered for the first \
                    time, 7 ms after the start; the CPUs stood still for 0.000 ms";
        assert_eq!(stops.done(), [done]);
        assert!(stops.give_away().is_some());
    }

    fn until_undone(stops: &mut FunctionStops) -> Undone {
        if let Err(undone) = stops.begin() {
            return undone;
        }
        loop {
            assert!(stops.is_waiting());
            if let Err(undone) = stops.look(&|| 0, false) {
                return undone;
            }
        }
    }

    #[test]
    fn what_does_not_fit_or_is_not_kept_is_refused_and_a_stub_that_goes_away_is_a_failure() {
        let begin = [("m1000,8", packet("E14")), ("Z1,1000,1", packet("OK")), ("c", packet(TRAP))];
        let hit = [("Hg01", packet("OK")), ("g", at(0x1000)), ("z1,1000,1", packet("OK"))];
        let after = |more: &[(&'static str, &'static str)]| [&begin[..], &hit, more].concat();
        let other = after(&[("m1000,8", packet("5590909090909090"))]);
        let undone = until_undone(&mut stops(&other));
        assert!(matches!(&undone, Undone::Refused(why) if why.contains("no call")), "{undone:?}");
        let written = ("M1001,5:9090909090", packet("OK"));
        let lost = after(&[("m1000,8", packet(CODE)), written, ("m1001,5", packet("e8fa0f0000"))]);
        let undone = until_undone(&mut stops(&lost));
        assert!(matches!(&undone, Undone::Refused(why) if why.contains("the guest has e8")), "{undone:?}");
        for cut in 0..5 {
            let script: Vec<_> = after(&[]).into_iter().take(cut).collect();
            assert!(matches!(until_undone(&mut stops(&script)), Undone::Failed(_)), "{cut}");
        }
    }

    #[test]
    fn other_stops_and_other_code_at_the_same_address_change_nothing() {
        let begin = [("m1000,8", packet("E14")), ("Z1,1000,1", packet("OK"))];
        // The guest is at its end: nobody lets it run.
        let mut ended = stops(&[&begin[..], &[("c", packet("T03thread:01;"))]].concat());
        ended.begin().unwrap();
        ended.look(&|| 0, false).unwrap();
        assert!(ended.missed().is_some());
        let firmware = packet(
            &"00".repeat(16 * 8).chars().chain("0010".chars()).chain("00".repeat(470).chars()).collect::<String>(),
        );
        let over = [("z1,1000,1", packet("OK")), ("vCont;s:01", packet(TRAP)), ("Z1,1000,1", packet("OK")), ("c", "+")];
        let hit = [("c", packet(TRAP)), ("Hg01", packet("OK")), ("g", firmware)];
        let mut elsewhere = stops(&[&begin[..], &hit, &over].concat());
        elsewhere.begin().unwrap();
        elsewhere.look(&|| 0, false).unwrap();
        assert!(elsewhere.missed().is_some() && elsewhere.is_waiting());
        // After the end mark nothing is written.
        let clear =
            [("c", packet(TRAP)), ("Hg01", packet("OK")), ("g", at(0x1000)), ("z1,1000,1", packet("OK")), ("c", "+")];
        let mut late = stops(&[&begin[..], &clear].concat());
        late.begin().unwrap();
        late.look(&|| 0, true).unwrap();
        assert!(late.missed().is_some() && !late.is_waiting());
    }
}
