//! Decoders of the guest's instructions, one for each architecture that is known: how a block ends, and what else of an
//! instruction changes how calls are followed. `crates/machine/src/arch/README.md` lists what a new one has to give.

pub mod x86_64;
