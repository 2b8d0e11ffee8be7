//! Stops the vCPUs where the guest enters a function, by hardware breakpoints of the gdbstub. There it changes the guest's code or reads a
//! variable.
//!
//! A [`Plan`] is made before the machine is started, and refuses everything that can be refused then. If the VMM has loaded the code
//! already, [`FunctionStops`] writes a [patch](patch) before the guest's first instruction. Otherwise it writes the patch when the function
//! is entered for the first time: then the code is mapped, and no vCPU is in it yet. It reads back the written bytes, and clears the
//! breakpoint. A [variable] is read at each entry, up to a bound. When nothing is left to do, the stub is handed over to the next user.

mod code;
mod patch;
mod variable;

use std::time::{Duration, Instant};

use recording::{GuestSpec, ObserveSpec};

use crate::Error;
use crate::arch::{Arch, Mode, Registers};
use crate::gdb::{Client, GdbError, Stopped, Thread};
use crate::refusal::{Text, text};
use code::{Code, Function};
use patch::{Change, Planned, spaced};
use recording::Field;
use variable::Variable;

/// Hardware breakpoints of a CPU.
const MAX_BREAKPOINTS: usize = 4;
/// Longest wait for the first answer of a VMM that just started, on a busy host.
const MAX_START_WAIT: Duration = Duration::from_secs(20);
/// Longest time for all work at one stop.
const MAX_STOP_TIME: Duration = Duration::from_secs(3);
/// Longest wait for a stop at a time, while work is left.
const STOP_WAIT: Duration = Duration::from_millis(1);

/// The work at functions, planned before the boot.
#[derive(Debug)]
pub(crate) struct Plan {
    code: Code,
    patches: Vec<Planned>,
    variable: Option<Variable>,
}

impl Plan {
    /// Finds the places; `None` if the options request nothing.
    ///
    /// # Errors
    /// If a request does not fit the guest.
    pub(crate) fn of(guest: &GuestSpec, observe: &ObserveSpec, arch: &Arch) -> Result<Option<Plan>, Error> {
        if guest.patches.is_empty() && observe.watch.is_none() {
            return Ok(None);
        }
        let code = Code::of(guest, &observe.symbols)?;
        let variable = observe.watch.as_ref().map(|watched| {
            Variable::of(watched, &code)
                .map_err(|why| Error::refused(Field::Watch, text![Field::Watch.is(watched), ": ", why], ""))
        });
        let variable = variable.transpose()?;
        let mut patches: Vec<Planned> = Vec::new();
        for patch in &guest.patches {
            let refused = |why: String| Error::refused(Field::Patches, text![Field::Patches.is(patch), ": ", why], "");
            patches.push(Planned::of(patch, &code, arch).map_err(refused)?);
        }
        refuse_overlap(&patches).map_err(|why| Error::refused(Field::Patches, text![Field::Patches.is(why)], ""))?;
        let plan = Plan { code, patches, variable };
        let stops: Vec<Function> = plan.functions().into_iter().filter(|function| plan.stops_at(function)).collect();
        refuse_too_many(&stops).map_err(|why| Error::refused(Field::Patches, why, ""))?;
        Ok(Some(plan))
    }

    /// A description of the patches that are not written yet, without which the boot is not the requested one.
    pub(crate) fn missed(&self) -> Option<Text> {
        missed(&self.patches, &[])
    }

    /// True if the vCPUs certainly have to stop there. If the VMM loads the code to its place, a patch may need no stop; that is known once
    /// the machine runs.
    fn stops_at(&self, function: &Function) -> bool {
        let watched = self.variable.as_ref().is_some_and(|variable| variable.is_read_at(function.address));
        watched || !self.code.may_be_in_place(function.address)
    }

    /// The functions without duplicates.
    fn functions(&self) -> Vec<Function> {
        let mut all: Vec<Function> = Vec::new();
        let watched = self.variable.iter().flat_map(|variable| &variable.functions);
        for function in self.patches.iter().map(|planned| &planned.function).chain(watched) {
            if !all.iter().any(|known| known.address == function.address) {
                all.push(function.clone());
            }
        }
        all
    }
}

/// Reads the variable's bytes; empty if it, or a pointer on the way to it, is not mapped.
fn read_at(client: &mut Client, variable: &Variable) -> Result<Vec<u8>, GdbError> {
    let mut address = variable.address;
    for offset in &variable.behind {
        let Ok(pointer) = <[u8; 8]>::try_from(client.read(address, 8)?) else { return Ok(Vec::new()) };
        // Low memory may be mapped, so a null pointer could be read through.
        if pointer == [0; 8] {
            return Ok(Vec::new());
        }
        address = u64::from_le_bytes(pointer).wrapping_add(*offset);
    }
    client.read(address, variable.bytes)
}

/// Refuses more functions than a CPU has breakpoints.
fn refuse_too_many(stops: &[Function]) -> Result<(), Text> {
    if stops.len() <= MAX_BREAKPOINTS {
        return Ok(());
    }
    let names: Vec<&str> = stops.iter().map(|function| function.name.as_str()).collect();
    let (count, names) = (stops.len(), names.join(", "));
    Err(text![
        format!("the boot has to stop at {count} functions ({names}), and a CPU can stop at {MAX_BREAKPOINTS}: give "),
        Field::Patches,
        " and ",
        Field::Watch,
        format!(" at most {MAX_BREAKPOINTS} functions")
    ])
}

/// Refuses two patches of the same bytes: only the last one would take effect.
fn refuse_overlap(patches: &[Planned]) -> Result<(), String> {
    for (n, planned) in patches.iter().enumerate() {
        let range = planned.range();
        let overlaps = |other: &&Planned| other.range().start < range.end && range.start < other.range().end;
        if let Some(other) = patches[..n].iter().find(overlaps) {
            return Err(format!("{}: {} changes the same bytes: give one of the two", planned.text, other.text));
        }
    }
    Ok(())
}

/// A description of the patches that were not written, because the boot did not enter their functions before its end mark. `late` are
/// functions that it entered after the end mark.
fn missed(waiting: &[Planned], late: &[(Function, i64)]) -> Option<Text> {
    let entry = |planned: &Planned| late.iter().find(|late| late.0.address == planned.function.address);
    let (too_late, never): (Vec<&Planned>, Vec<&Planned>) =
        waiting.iter().partition(|planned| entry(planned).is_some());
    let texts =
        |planned: &[&Planned]| planned.iter().map(|planned| planned.text.as_str()).collect::<Vec<&str>>().join(", ");
    let of_never = never.first().map(|first| {
        let Function { name, address, .. } = &first.function;
        let never = texts(&never);
        text![
            format!(
                "not written: {never}: the boot never came to {name} at {address:#x}. Name a function that this boot "
            ),
            "calls; a kernel that was not started by ",
            Field::Kernel,
            " may also lie elsewhere than its symbols say"
        ]
    });
    let of_late = too_late.first().and_then(|first| entry(first)).map(|(function, at_ns)| {
        let (late, name, at_ms) = (texts(&too_late), &function.name, at_ns / 1_000_000);
        text![
            format!(
                "not written: {late}: the boot came to {name} only after its end mark, {at_ms} ms after the start. "
            ),
            "Name a function that runs earlier, or a later end mark with ",
            Field::Until
        ]
    });
    match (of_never, of_late) {
        (Some(never), Some(late)) => Some(text![never, "; ", late]),
        (never, late) => never.or(late),
    }
}

/// The reason why planned work was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Undone {
    /// A request does not fit the guest.
    Refused(Text),
    /// The stub failed: the vCPUs may stand still.
    Failed(String),
}

/// The work at functions in one boot.
#[derive(Debug)]
pub(crate) struct FunctionStops {
    client: Option<Client>,
    arch: &'static Arch,
    code: Code,
    waiting: Vec<Planned>,
    variable: Option<Variable>,
    /// Functions with a breakpoint.
    functions: Vec<Function>,
    /// Functions that were entered only after the boot was over, with the time.
    late: Vec<(Function, i64)>,
    /// Work that was done, in sentences.
    done: Vec<String>,
}

impl FunctionStops {
    /// Takes the stub of vCPUs that have not run yet.
    pub(crate) fn new(plan: Plan, client: Client, arch: &'static Arch) -> FunctionStops {
        let functions = plan.functions();
        let Plan { code, patches: waiting, variable } = plan;
        let (client, late, done) = (Some(client), Vec::new(), Vec::new());
        FunctionStops { client, arch, code, waiting, variable, functions, late, done }
    }

    /// Writes the patches that can be written before the guest's first instruction, sets breakpoints for the rest, and starts the vCPUs.
    /// The wait for the VMM's first answer ends early once `is_over` returns true.
    pub(crate) fn begin(&mut self, is_over: &mut dyn FnMut() -> bool) -> Result<(), Undone> {
        if let Some(client) = &mut self.client {
            client.end_by(Instant::now() + MAX_START_WAIT);
            client.be_patient(MAX_START_WAIT);
            let reached = client.reach(is_over);
            self.failed(reached)?;
        }
        let changes = self.changes(None)?;
        for (text, change) in &changes {
            self.write(text, change)?;
        }
        self.note(changes, "before the guest's first instruction");
        let functions = std::mem::take(&mut self.functions);
        self.functions = functions.into_iter().filter(|function| self.is_wanted(function.address)).collect();
        refuse_too_many(&self.functions).map_err(Undone::Refused)?;
        let Some(client) = &mut self.client else { return Ok(()) };
        let set = self.functions.iter().try_for_each(|function| client.set_breakpoint(function.address));
        let begun = set.and_then(|()| client.resume());
        client.be_patient(MAX_STOP_TIME);
        self.failed(begun)
    }

    /// True if work is left.
    pub(crate) fn is_waiting(&self) -> bool {
        self.client.is_some() && !self.functions.is_empty()
    }

    /// Waits briefly for a stop, and does the work that is due there. If the boot `is_over`, only clears the breakpoint.
    pub(crate) fn look(&mut self, now_ns: &dyn Fn() -> i64, is_over: bool) -> Result<(), Undone> {
        let Some(client) = self.client.as_mut().filter(|_| !self.functions.is_empty()) else { return Ok(()) };
        let stopped = match client.wait_for_stop(STOP_WAIT) {
            Ok(Some(stopped)) => stopped,
            Ok(None) => return Ok(()),
            Err(error) => return self.failed(Err(error)),
        };
        // The guest is at its end, or another client has stopped it.
        if !stopped.is_trap {
            return Ok(());
        }
        client.end_by(Instant::now() + MAX_STOP_TIME);
        let at_ns = now_ns();
        self.take(&stopped, at_ns, now_ns, is_over)
    }

    /// The stub, once nothing is left to do with it here.
    pub(crate) fn give_away(&mut self) -> Option<Client> {
        if self.is_waiting() { None } else { self.client.take() }
    }

    /// A description of the patches that were not written, because the boot did not enter their functions before its end mark.
    pub(crate) fn missed(&self) -> Option<Text> {
        missed(&self.waiting, &self.late)
    }

    /// Work that was done, in sentences.
    pub(crate) fn done(&self) -> &[String] {
        &self.done
    }

    /// The variable's values as a file; `None` if no variable was requested.
    pub(crate) fn watched(&self) -> Option<String> {
        self.variable.as_ref().map(Variable::text)
    }

    fn take(&mut self, stopped: &Stopped, at_ns: i64, now_ns: &dyn Fn() -> i64, is_over: bool) -> Result<(), Undone> {
        let at = self.registers(&stopped.thread);
        let Some(Registers { pc, mode, .. }) = self.known(at)? else { return Ok(()) };
        let Some(n) = self.functions.iter().position(|function| function.address == pc) else {
            // Another vCPU cleared the breakpoint at which this vCPU stands.
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
            self.late.push((function, at_ns));
            return self.resume();
        }
        let is_read = self.read_variable(&function, at_ns)?;
        let changes = self.changes(Some(pc))?;
        for (text, change) in &changes {
            self.write(text, change)?;
        }
        self.clear_spent()?;
        if self.is_wanted(pc) {
            let stepped = self.step_again(&stopped.thread, pc);
            self.failed(stepped)?;
            self.functions.push(function.clone());
        }
        self.resume()?;
        let stood_ns = now_ns() - at_ns;
        self.variable.iter_mut().filter(|_| is_read).for_each(|variable| variable.set_stood_ns(stood_ns));
        let stood_us = stood_ns / 1000;
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

    /// The patches that can be written now. Those of the entered function must fit. The others may still be unmapped, or may become what
    /// the image says, later. Before anything runs, only memory that equals the image is known to be the guest's.
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
                Err(why) => return Err(Undone::Refused(format!("{}: {why}", planned.text).into())),
            }
        }
        self.waiting = later;
        Ok(changes)
    }

    /// Clears breakpoints where nothing is left to do: under a translator they slow down all code of their pages.
    fn clear_spent(&mut self) -> Result<(), Undone> {
        let functions = std::mem::take(&mut self.functions).into_iter();
        let (wanted, spent): (Vec<Function>, Vec<Function>) = functions.partition(|f| self.is_wanted(f.address));
        self.functions = wanted;
        for function in spent {
            let cleared = self.client.as_mut().map_or(Ok(()), |client| client.clear_breakpoint(function.address));
            self.failed(cleared)?;
        }
        Ok(())
    }

    /// True if work is left at the entry of this function.
    fn is_wanted(&self, address: u64) -> bool {
        self.waiting.iter().any(|planned| planned.function.address == address)
            || self.variable.as_ref().is_some_and(|variable| variable.is_read_at(address))
    }

    /// Reads the variable if it is read at this function. Returns true if it was read.
    fn read_variable(&mut self, function: &Function, at_ns: i64) -> Result<bool, Undone> {
        let here = self.variable.as_mut().filter(|variable| variable.is_read_at(function.address));
        let (Some(variable), Some(client)) = (here, &mut self.client) else { return Ok(false) };
        match read_at(client, variable) {
            Ok(memory) => variable.take(&function.name, at_ns, &memory),
            Err(error) => return self.failed(Err(error)).map(|()| false),
        }
        Ok(true)
    }

    /// Writes a change, and refuses it if the guest does not keep it.
    fn write(&mut self, text: &str, change: &Change) -> Result<(), Undone> {
        let Some(client) = &mut self.client else { return Ok(()) };
        let written = client.write(change.address, &change.after);
        let found = written.and_then(|()| client.read(change.address, change.after.len()));
        match self.known(found)? {
            Some(found) if found != change.after => {
                let (found, wanted) = (spaced(&found), spaced(&change.after));
                Err(Undone::Refused(format!("{text}: {wanted} was written, and the guest has {found} there").into()))
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

    /// Executes the instruction at a breakpoint, and keeps the breakpoint.
    fn step_over(&mut self, thread: &Thread, address: u64) -> Result<(), GdbError> {
        let Some(client) = &mut self.client else { return Err(GdbError::Gone) };
        client.clear_breakpoint(address)?;
        self.step_again(thread, address)
    }

    /// Executes an instruction, and sets a breakpoint there again.
    fn step_again(&mut self, thread: &Thread, address: u64) -> Result<(), GdbError> {
        let Some(client) = &mut self.client else { return Err(GdbError::Gone) };
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

    /// Drops a stub that failed.
    fn failed(&mut self, result: Result<(), GdbError>) -> Result<(), Undone> {
        let Err(error) = result else { return Ok(()) };
        self.client = None;
        Err(Undone::Failed(error.to_string()))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::os::unix::net::UnixStream;

    use recording::SymbolFile;

    use super::code::tests::named;
    use super::*;
    use crate::arch::x86_64::ARCH;
    use crate::gdb::tests::{scripted, scripted_socket};

    fn packet(data: &str) -> &'static str {
        format!("+${data}#{:02x}", data.bytes().fold(0u8, u8::wrapping_add)).leak()
    }

    /// Registers of a vCPU in the kernel, at this place.
    fn at(pc: u64) -> &'static str {
        let mut bytes = vec![0u8; 600];
        bytes[128..136].copy_from_slice(&pc.to_le_bytes());
        bytes[229] = 0x0d; // long mode
        packet(&bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
    }

    /// A plan that removes the call in f.
    pub(crate) fn plan() -> Plan {
        let code = named(&[("k", &[(0x1000, "f"), (0x1008, "g")])]);
        let patches = vec![Planned::of(&"call@f+0x1=nop".parse().unwrap(), &code, &ARCH).unwrap()];
        Plan { code, patches, variable: None }
    }

    fn stops(script: &[(&'static str, &'static str)]) -> FunctionStops {
        FunctionStops::new(plan(), scripted(script), &ARCH)
    }

    /// The same plan, with f loaded before anything runs, and a stub that does not keep written bytes.
    pub(crate) fn not_kept() -> (Plan, UnixStream) {
        let Plan { code, patches, variable } = plan();
        let bytes = [0x55, 0xe8, 0xfa, 0x0f, 0, 0, 0x90, 0xc3];
        let patches = patches.into_iter().map(|planned| planned.with_image(&bytes)).collect();
        let script = [
            ("?", packet(TRAP)),
            ("m1000,8", packet(CODE)),
            ("M1001,5:9090909090", packet("OK")),
            ("m1001,5", packet("e8fa0f0000")),
        ];
        (Plan { code, patches, variable }, scripted_socket(&script))
    }

    /// The stub of a guest that enters f; `is_patched` if f is patched then.
    pub(crate) fn entered(is_patched: bool) -> UnixStream {
        let begin = [("?", packet(TRAP)), ("m1000,8", packet("E14")), ("Z1,1000,1", packet("OK")), ("c", packet(TRAP))];
        let stop = [("Hg01", packet("OK")), ("g", at(0x1000)), ("z1,1000,1", packet("OK"))];
        let written =
            [("m1000,8", packet(CODE)), ("M1001,5:9090909090", packet("OK")), ("m1001,5", packet("9090909090"))];
        let written = if is_patched { &written[..] } else { &[] };
        scripted_socket(&[&begin[..], &stop, written, &[("c", "+")]].concat())
    }

    /// A plan that reads a variable in f, and a stub that goes away after it.
    pub(crate) fn watched_once() -> (Plan, UnixStream) {
        let code = named(&[("k", &[(0x1000, "f"), (0x1008, "g")])]);
        let variable = Some(variable::tests::of_two_bytes(0x9000, vec![code.find("f").unwrap()]));
        let script = [
            ("?", packet(TRAP)),
            ("Z1,1000,1", packet("OK")),
            ("c", packet(TRAP)),
            ("Hg01", packet("OK")),
            ("g", at(0x1000)),
            ("z1,1000,1", packet("OK")),
            ("m9000,2", packet("0701")),
        ];
        (Plan { code, patches: Vec::new(), variable }, scripted_socket(&script))
    }

    /// push %rbp; call; nop; ret
    const CODE: &str = "55e8fa0f000090c3";
    const TRAP: &str = "T05thread:01;";

    #[test]
    fn a_patch_is_written_when_its_function_is_entered_and_read_back() {
        let mut stops = stops(&[
            ("?", packet(TRAP)),
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
        stops.begin(&mut || false).unwrap();
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

    #[test]
    fn a_variable_is_read_each_time_until_the_boot_is_over() {
        let hit = |memory| {
            [
                ("c", packet(TRAP)),
                ("Hg01", packet("OK")),
                ("g", at(0x1000)),
                ("z1,1000,1", packet("OK")),
                ("m9000,2", packet(memory)),
                ("vCont;s:01", packet(TRAP)),
                ("Z1,1000,1", packet("OK")),
            ]
        };
        let begin = [("?", packet(TRAP)), ("Z1,1000,1", packet("OK")), ("Z1,1008,1", packet("OK"))];
        let over =
            [("c", packet(TRAP)), ("Hg01", packet("OK")), ("g", at(0x1008)), ("z1,1008,1", packet("OK")), ("c", "+")];
        let script = [&begin[..], &hit("0701"), &hit("E14"), &over].concat();
        let code = named(&[("k", &[(0x1000, "f"), (0x1008, "g")])]);
        let functions = vec![code.find("f").unwrap(), code.find("g").unwrap()];
        let variable = Some(variable::tests::of_two_bytes(0x9000, functions));
        let mut stops = FunctionStops::new(Plan { code, patches: Vec::new(), variable }, scripted(&script), &ARCH);
        stops.begin(&mut || false).unwrap();
        let lines = |stops: &FunctionStops| stops.watched().unwrap().lines().skip(5).collect::<Vec<_>>().join("\n");
        for read in 1..=2 {
            while lines(&stops).lines().count() < read {
                stops.look(&|| 7_000_000, false).unwrap();
            }
        }
        assert_eq!(lines(&stops), "7000000 0 263 f\n7000000 0 - f");
        stops.look(&|| 8_000_000, true).unwrap();
        assert_eq!(lines(&stops).lines().count(), 2, "what comes after the end mark is not the boot's");
        assert_eq!(stops.missed(), None);
    }

    #[test]
    fn a_pointer_on_the_way_is_followed_at_each_stop() {
        let read = |script: &[(&'static str, &'static str)]| {
            let mut client = scripted(script);
            let mut variable = variable::tests::of_two_bytes(0x9000, Vec::new());
            variable.behind = vec![0x10, 8];
            read_at(&mut client, &variable).unwrap()
        };
        let first = ("m9000,8", packet("00a0000000000000"));
        let second = ("ma010,8", packet("00b0000000000000"));
        assert_eq!(read(&[first, second, ("mb008,2", packet("0701"))]), [7, 1]);
        assert_eq!(read(&[first, second, ("mb008,2", packet("E14"))]), [] as [u8; 0], "not mapped");
        assert_eq!(read(&[first, ("ma010,8", packet("E14"))]), [] as [u8; 0]);
        assert_eq!(read(&[first, ("ma010,8", packet("0000000000000000"))]), [] as [u8; 0], "null");
    }

    fn until_undone(stops: &mut FunctionStops) -> Undone {
        if let Err(undone) = stops.begin(&mut || false) {
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
        let begin = [("?", packet(TRAP)), ("m1000,8", packet("E14")), ("Z1,1000,1", packet("OK")), ("c", packet(TRAP))];
        let hit = [("Hg01", packet("OK")), ("g", at(0x1000)), ("z1,1000,1", packet("OK"))];
        let after = |more: &[(&'static str, &'static str)]| [&begin[..], &hit, more].concat();
        let other = after(&[("m1000,8", packet("5590909090909090"))]);
        let undone = until_undone(&mut stops(&other));
        assert!(matches!(&undone, Undone::Refused(why) if why.contains("no call")), "{undone:?}");
        let written = ("M1001,5:9090909090", packet("OK"));
        let lost = after(&[("m1000,8", packet(CODE)), written, ("m1001,5", packet("e8fa0f0000"))]);
        let undone = until_undone(&mut stops(&lost));
        assert!(matches!(&undone, Undone::Refused(why) if why.contains("the guest has e8")), "{undone:?}");
        for cut in 0..6 {
            let script: Vec<_> = after(&[]).into_iter().take(cut).collect();
            assert!(matches!(until_undone(&mut stops(&script)), Undone::Failed(_)), "{cut}");
        }
    }

    #[test]
    fn other_stops_and_other_code_at_the_same_address_change_nothing() {
        let begin = [("?", packet(TRAP)), ("m1000,8", packet("E14")), ("Z1,1000,1", packet("OK"))];
        // The guest is at its end: it is not resumed.
        let mut ended = stops(&[&begin[..], &[("c", packet("T03thread:01;"))]].concat());
        ended.begin(&mut || false).unwrap();
        ended.look(&|| 0, false).unwrap();
        assert!(ended.missed().is_some());
        let firmware = packet(
            &"00".repeat(16 * 8).chars().chain("0010".chars()).chain("00".repeat(470).chars()).collect::<String>(),
        );
        let over = [("z1,1000,1", packet("OK")), ("vCont;s:01", packet(TRAP)), ("Z1,1000,1", packet("OK")), ("c", "+")];
        let hit = [("c", packet(TRAP)), ("Hg01", packet("OK")), ("g", firmware)];
        let mut elsewhere = stops(&[&begin[..], &hit, &over].concat());
        elsewhere.begin(&mut || false).unwrap();
        elsewhere.look(&|| 0, false).unwrap();
        assert!(elsewhere.missed().is_some() && elsewhere.is_waiting());
        // After the end mark nothing is written.
        let clear =
            [("c", packet(TRAP)), ("Hg01", packet("OK")), ("g", at(0x1000)), ("z1,1000,1", packet("OK")), ("c", "+")];
        let mut late = stops(&[&begin[..], &clear].concat());
        late.begin(&mut || false).unwrap();
        late.look(&|| 0, true).unwrap();
        assert!(late.missed().is_some() && !late.is_waiting());
    }

    #[test]
    fn a_late_entry_of_a_function_is_distinguished_from_none() {
        let clear = [
            ("?", packet(TRAP)),
            ("m1000,8", packet("E14")),
            ("Z1,1000,1", packet("OK")),
            ("c", packet(TRAP)),
            ("Hg01", packet("OK")),
            ("g", at(0x1000)),
            ("z1,1000,1", packet("OK")),
            ("c", "+"),
        ];
        let mut late = stops(&clear);
        late.begin(&mut || false).unwrap();
        while late.is_waiting() {
            late.look(&|| 7_000_000, true).unwrap();
        }
        let missed = late.missed().unwrap();
        assert!(missed.contains("came to f only after its end mark, 7 ms after the start"), "{missed}");
        assert!(!missed.contains("never"), "{missed}");
    }

    /// A guest with functions f0 to f9 of 8 bytes, which a symbol file names.
    fn plan_of(patches: &[&str]) -> Result<Option<Plan>, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("symbols");
        let lines: String = (0..10).map(|n| format!("{:016x} T f{n}\n", 0x1000 + 8 * n)).collect();
        std::fs::write(&path, lines).unwrap();
        let patches = patches.iter().map(|patch| patch.parse().unwrap()).collect();
        let guest = GuestSpec { patches, ..GuestSpec::default() };
        let observe = ObserveSpec { symbols: vec![SymbolFile { path, base: None }], ..ObserveSpec::default() };
        Plan::of(&guest, &observe, &ARCH).map_err(|why| why.to_string())
    }

    #[test]
    fn patches_of_the_same_bytes_are_refused() {
        let refused = |patches: &[&str]| plan_of(patches).unwrap_err();
        let why = refused(&["bytes@f0+0x1=7401:9090", "bytes@f0+0x2=01c3:9090"]);
        assert!(why.contains("bytes@f0+0x2=01c3:9090: bytes@f0+0x1=7401:9090 changes the same bytes"), "{why}");
        assert!(refused(&["call@f0+0x1=nop", "call@f0+0x1=f2"]).contains("the same bytes"));
        assert!(refused(&["call@f0+0x1=nop", "bytes@0x1000+0x1=e8:90"]).contains("the same bytes"));
        assert!(plan_of(&["bytes@f0+0x1=7401:9090", "bytes@f0+0x3=c3:90", "call@f1+0x1=nop"]).unwrap().is_some());
    }

    #[test]
    fn more_functions_than_breakpoints_are_patched_before_anything_runs_or_refused() {
        let texts: Vec<String> = (0..5).map(|n| format!("call@f{n}+0x1=nop")).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let why = plan_of(&texts).unwrap_err();
        assert!(why.contains("5 functions (f0, f1, f2, f3, f4)") && why.contains("at most 4 functions"), "{why}");
        assert!(plan_of(&texts[..4]).unwrap().is_some());
        // The VMM has loaded all of them to their places.
        let all: Vec<(u64, &str)> =
            (0..).step_by(8).map(|at| 0x1000 + at).zip(["f0", "f1", "f2", "f3", "f4", "end"]).collect();
        let code = || named(&[("k", &all)]);
        let bytes = [0x55, 0xe8, 0xfa, 0x0f, 0, 0, 0x90, 0xc3];
        let planned = |text: &&str| Planned::of(&text.parse().unwrap(), &code(), &ARCH).unwrap().with_image(&bytes);
        let plan = || Plan { code: code(), patches: texts.iter().map(planned).collect(), variable: None };
        let reads = |found: &str| -> Vec<(&'static str, &'static str)> {
            let first_request = std::iter::once(("?", packet(TRAP)));
            first_request.chain((0..5).map(|n| (&*format!("m{:x},8", 0x1000 + 8 * n).leak(), packet(found)))).collect()
        };
        let mut script = reads(CODE);
        for n in 0..5 {
            script.push((format!("M{:x},5:9090909090", 0x1001 + 8 * n).leak(), packet("OK")));
            script.push((format!("m{:x},5", 0x1001 + 8 * n).leak(), packet("9090909090")));
        }
        script.push(("c", "+"));
        let mut stops = FunctionStops::new(plan(), scripted(&script), &ARCH);
        stops.begin(&mut || false).unwrap();
        assert_eq!((stops.done().len(), stops.is_waiting(), stops.missed()), (5, false, None));
        // Here they are not loaded yet.
        let undone = FunctionStops::new(plan(), scripted(&reads("E14")), &ARCH).begin(&mut || false).unwrap_err();
        assert!(matches!(&undone, Undone::Refused(why) if why.contains("at most 4 functions")), "{undone:?}");
    }

    #[test]
    fn a_vmm_that_does_not_answer_is_waited_for_until_the_user_stops() {
        let (ours, _silent) = UnixStream::pair().unwrap();
        let mut stops = FunctionStops::new(plan(), Client::new(ours).unwrap(), &ARCH);
        let mut calls = 0;
        let mut stop = || {
            calls += 1;
            calls == 2
        };
        let began = Instant::now();
        let undone = stops.begin(&mut stop).unwrap_err();
        assert_eq!(undone, Undone::Failed("it was cut short".to_owned()));
        assert!(began.elapsed() < MAX_START_WAIT / 2, "{:?}", began.elapsed());
    }
}
