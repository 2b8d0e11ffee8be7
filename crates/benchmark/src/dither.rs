//! Dithering: each boot of a variant gets another layout, so that an effect of one layout is not mistaken for an effect of
//! the change that is measured.

/// Number of different lengths. All are short compared with a command line.
const DITHER_LENGTHS: u32 = 61;

/// The command line with a dummy argument in front, whose length differs from round to round. The kernel takes a name with a
/// dot for a module's parameter and ignores it.
pub fn dithered(append: &str, round: u32) -> String {
    let length = 1 + (round * 7) % DITHER_LENGTHS;
    format!("bootscope.dither={} {append}", "x".repeat(length as usize)).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_has_another_length() {
        let mut lengths: Vec<usize> = (0..DITHER_LENGTHS).map(|round| dithered("quiet", round).len()).collect();
        lengths.sort_unstable();
        assert!(lengths.windows(2).all(|two| two[1] == two[0] + 1), "{lengths:?}");
        assert_eq!(dithered("", 0), "bootscope.dither=x");
    }
}
