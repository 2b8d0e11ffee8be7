//! Machine models: what an instruction and each kind of access cost on one machine, each with its range.

use timeline::ExitKind;

/// The price of one instruction or access, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Price {
    pub ns: f64,
    /// The ends of its range.
    pub low: f64,
    pub high: f64,
}

impl Price {
    pub const FREE: Price = Price { ns: 0.0, low: 0.0, high: 0.0 };

    /// The price at one end of the range, or its value.
    pub fn at(self, bound: Bound) -> f64 {
        match bound {
            Bound::Low => self.low,
            Bound::Value => self.ns,
            Bound::High => self.high,
        }
    }
}

/// The value of each price, or one end of all ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    Low,
    Value,
    High,
}

/// The prices of a machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MachineModel {
    pub name: String,
    /// The architecture, as QEMU names it.
    pub arch: String,
    pub instruction: Price,
    /// The prices of accesses. A kind without a price is free.
    pub accesses: Vec<(ExitKind, Price)>,
}

impl MachineModel {
    /// The price of an access of this kind. A read of a clock's register leaves no guest: it is an instruction.
    pub fn access(&self, kind: ExitKind) -> Price {
        self.accesses.iter().find(|(priced, _)| *priced == kind).map_or(Price::FREE, |(_, price)| *price)
    }
}
