//! Switches and wake-ups in columns: an event is one value of each column.

use super::Text;
use super::messages::{CompactSched, Switch, Wake};

/// An event: its time, and its place in the columns.
type Place = (u64, usize);

/// The times of events, of which a column has the differences.
fn times(steps: &[u64]) -> impl Iterator<Item = Place> {
    let mut at = 0_u64;
    steps.iter().enumerate().map(move |(place, step)| {
        at = at.wrapping_add(*step);
        (at, place)
    })
}

impl CompactSched {
    fn comm(&self, index: Option<&u32>) -> Option<String> {
        self.intern_table.get(usize::try_from(*index?).ok()?).cloned()
    }
}

impl Text {
    /// Adds the events of one CPU's columns in order of time: the thread that runs is the one that wakes another.
    pub(super) fn compact(&mut self, cpu: u32, columns: &CompactSched) {
        let mut wakes = times(&columns.waking_timestamp).peekable();
        for switch in times(&columns.switch_timestamp) {
            while let Some(wake) = wakes.next_if(|wake| wake.0 <= switch.0) {
                self.wake(cpu, columns, wake);
            }
            self.switch(cpu, columns, switch);
        }
        wakes.for_each(|wake| self.wake(cpu, columns, wake));
    }

    /// The thread that the CPU's first switch stops is unknown: this switch only shows the one that runs then.
    fn switch(&mut self, cpu: u32, columns: &CompactSched, (at, place): Place) {
        let next_comm = columns.comm(columns.switch_next_comm_index.get(place));
        let next = columns.switch_next_pid.get(place).copied().zip(next_comm);
        let before = next.clone().map(|next| self.running.insert(cpu, next));
        let (Some((next_pid, next_comm)), Some(Some((prev_pid, prev_comm)))) = (next, before) else {
            self.damaged += 1;
            return;
        };
        self.names.insert(next_pid, next_comm.clone());
        let prev_state = columns.switch_prev_state.get(place).copied().unwrap_or_default();
        let next_prio = columns.switch_next_prio.get(place).copied().unwrap_or_default();
        let switch = Switch { prev_comm, prev_pid, prev_prio: 0, prev_state, next_comm, next_pid, next_prio };
        self.event_line((cpu, prev_pid, at), "sched_switch", |out| switch.write(out));
    }

    fn wake(&mut self, cpu: u32, columns: &CompactSched, (at, place): Place) {
        let comm = columns.comm(columns.waking_comm_index.get(place));
        let waker = self.running.get(&cpu).map(|running| running.0);
        let (Some((pid, comm)), Some(waker)) = (columns.waking_pid.get(place).copied().zip(comm), waker) else {
            self.damaged += 1;
            return;
        };
        self.names.insert(pid, comm.clone());
        let prio = columns.waking_prio.get(place).copied().unwrap_or_default();
        let target_cpu = columns.waking_target_cpu.get(place).copied().unwrap_or_default();
        let wake = Wake { comm, pid, prio, target_cpu };
        self.event_line((cpu, waker, at), "sched_waking", |out| wake.write(out));
    }
}
