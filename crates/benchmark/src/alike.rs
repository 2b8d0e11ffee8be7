//! Which known names are most like one that is not known.

/// How many are named.
const NAMED: usize = 3;

/// The known names that are most like this one, the most alike first. What a row or a milestone is begins with a word
/// (`initcall`, `unit:`) that may be left out.
pub(crate) fn alike<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> Vec<String> {
    let name = name.to_lowercase();
    let likeness = |known: &str| {
        let known = known.to_lowercase();
        let last = known.split_once([' ', ':']).map_or(known.as_str(), |(_, last)| last);
        strsim::jaro_winkler(&known, &name).max(strsim::jaro_winkler(last, &name))
    };
    let mut all: Vec<(f64, &str)> = known.into_iter().map(|known| (likeness(known), known)).collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    all.into_iter().take(NAMED).map(|(_, name)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_word_may_be_left_out() {
        let known = ["initcall acpi_init", "unit:ssh.service", "unit:cron.service", "process-1"];
        assert_eq!(alike("acpi_ini", known)[0], "initcall acpi_init");
        assert_eq!(alike("sshd.service", known)[0], "unit:ssh.service");
    }
}
