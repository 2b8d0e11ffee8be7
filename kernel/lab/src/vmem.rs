//! The network driver's line about the address arena (`kernel/vmem`), for readers of the console.

/// The words that the kernel prints after the number of chain steps.
pub const CHAIN_STEPS: &str = " chain steps";

/// The number of chain steps that a boot printed for its first network card.
pub fn printed_steps(console: &str) -> Option<u64> {
    let number = console.lines().find_map(|line| line.trim_end().strip_suffix(CHAIN_STEPS))?;
    number.rsplit(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_steps_are_found() {
        let console = "em0: 525400123456, 25675776 chain steps\r\nem1: 525400123457, 7 chain steps\n";
        assert_eq!(printed_steps(console), Some(25_675_776));
        assert_eq!((printed_steps("em0: many chain steps"), printed_steps("")), (None, None));
    }
}
