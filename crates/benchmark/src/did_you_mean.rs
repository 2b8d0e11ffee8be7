//! Suggests existing names for a name that does not exist.

const MAX_SUGGESTIONS: usize = 3;

/// The existing names that are most like this one, the most similar first. The name of a row or milestone begins with its kind
/// (`initcall`, `unit:`); the user may leave that out.
pub(crate) fn similar_names<'n>(name: &str, existing: impl IntoIterator<Item = &'n str>) -> Vec<String> {
    let name = name.to_lowercase();
    let similarity = |candidate: &str| {
        let candidate = candidate.to_lowercase();
        let without_kind = candidate.split_once([' ', ':']).map_or(candidate.as_str(), |(_, rest)| rest);
        strsim::jaro_winkler(&candidate, &name).max(strsim::jaro_winkler(without_kind, &name))
    };
    let mut all: Vec<(f64, &str)> = existing.into_iter().map(|candidate| (similarity(candidate), candidate)).collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    all.into_iter().take(MAX_SUGGESTIONS).map(|(_, name)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_word_may_be_left_out() {
        let existing = ["initcall acpi_init", "unit:ssh.service", "unit:cron.service", "process-1"];
        assert_eq!(similar_names("acpi_ini", existing)[0], "initcall acpi_init");
        assert_eq!(similar_names("sshd.service", existing)[0], "unit:ssh.service");
    }
}
