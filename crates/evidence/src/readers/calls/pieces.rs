//! Turns switches of stacks into pieces of time in which one vCPU ran on one stack.

use crate::formats::calls::{Calls, Stretch};

/// A stretch, in ticks, in which a vCPU ran on one stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// Any node of the stack.
    pub node: u32,
    pub vcpu: u16,
    /// Its beginning, in ticks.
    pub from: u64,
    /// Its end, in ticks.
    pub to: u64,
}

/// All pieces, including sleeps, sorted by vCPU and then time. The last piece of each vCPU ends at `end`.
pub(super) fn pieces(calls: &Calls, end: u64) -> Vec<Piece> {
    let mut switches = calls.switches.clone();
    // If two switches have the same tick, the later one in the file is the one that remains.
    switches.sort_by_key(|switch| (switch.vcpu, switch.at));
    let mut pieces: Vec<Piece> = Vec::with_capacity(switches.len());
    for of_vcpu in switches.chunk_by(|a, b| a.vcpu == b.vcpu) {
        for (i, switch) in of_vcpu.iter().enumerate() {
            let to = of_vcpu.get(i + 1).map_or(end.max(switch.at), |next| next.at);
            if switch.at < to {
                pieces.push(Piece { node: switch.node, vcpu: switch.vcpu, from: switch.at, to });
            }
        }
    }
    pieces
}

/// The pieces without the stretches in which the vCPUs slept.
pub(super) fn awake(pieces: &[Piece], idle: &[Stretch]) -> Vec<Piece> {
    let mut idle: Vec<&Stretch> = idle.iter().filter(|sleep| sleep.from < sleep.to).collect();
    idle.sort_by_key(|sleep| (sleep.vcpu, sleep.from));
    let mut awake = Vec::with_capacity(pieces.len() + idle.len());
    let mut next = 0;
    for piece in pieces {
        let mut from = piece.from;
        while idle.get(next).is_some_and(|sleep| (sleep.vcpu, sleep.to) <= (piece.vcpu, piece.from)) {
            next += 1;
        }
        for sleep in idle[next..].iter().take_while(|s| s.vcpu == piece.vcpu && s.from < piece.to) {
            if from < sleep.from {
                awake.push(Piece { from, to: sleep.from, ..*piece });
            }
            from = from.max(sleep.to);
        }
        if from < piece.to {
            awake.push(Piece { from, ..*piece });
        }
    }
    awake
}

/// Adds up the overlap of pieces of one stack with stretches. Both must be in order of time.
pub(super) struct Overlap<'a> {
    pieces: &'a [Piece],
    next: usize,
}

impl<'a> Overlap<'a> {
    pub(super) fn new(pieces: &'a [Piece]) -> Overlap<'a> {
        Overlap { pieces, next: 0 }
    }

    /// Ticks of `from..to` that lie in pieces.
    pub(super) fn of(&mut self, from: u64, to: u64) -> u64 {
        while self.pieces.get(self.next).is_some_and(|piece| piece.to <= from) {
            self.next += 1;
        }
        let inside = self.pieces[self.next..].iter().take_while(|piece| piece.from < to);
        inside.map(|piece| piece.to.min(to).saturating_sub(piece.from.max(from))).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::calls::Switch;

    #[test]
    fn pieces_last_from_switch_to_switch_without_sleeps() {
        let switch = |node, vcpu, at| Switch { node, vcpu, at };
        let calls = Calls {
            switches: vec![switch(1, 0, 0), switch(5, 1, 10), switch(2, 0, 30), switch(3, 0, 30), switch(1, 0, 50)],
            idle: vec![
                Stretch { node: 3, vcpu: 0, from: 35, to: 40 },
                Stretch { node: 1, vcpu: 0, from: 45, to: 60 },
                Stretch { node: 5, vcpu: 1, from: 10, to: 20 },
            ],
            ..Calls::default()
        };
        let all = pieces(&calls, 100);
        let short = |pieces: &[Piece]| pieces.iter().map(|p| (p.vcpu, p.node, p.from, p.to)).collect::<Vec<_>>();
        assert_eq!(short(&all), [(0, 1, 0, 30), (0, 3, 30, 50), (0, 1, 50, 100), (1, 5, 10, 100)]);
        let awake = awake(&all, &calls.idle);
        assert_eq!(short(&awake), [(0, 1, 0, 30), (0, 3, 30, 35), (0, 3, 40, 45), (0, 1, 60, 100), (1, 5, 20, 100)]);
        let mut overlap = Overlap::new(&awake[..4]);
        assert_eq!((overlap.of(0, 10), overlap.of(20, 62), overlap.of(62, 63)), (10, 22, 1));
    }
}
