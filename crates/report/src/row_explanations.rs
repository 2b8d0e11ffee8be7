//! Explanations of well-known rows, one clause each, from the table `row_explanations.tsv`. No analysis may depend on it.

use timeline::INDIRECT;

/// The table: a name, a tab, a clause.
const TABLE: &str = include_str!("row_explanations.tsv");

/// Kinds that stand before a row's name.
const KINDS: [&str; 9] =
    ["initcall ", "SYSINIT ", "thread ", "THREAD ", "work ", "DEVICE_PROBE ", "DEVICE_ATTACH ", "probe ", "attach "];

/// The separator between a row's name and how it took its time.
const MECHANISM: &str = " · ";

/// An explanation of the row called `name`, and a note if it only had the CPU that the boot path needed.
pub fn clause(name: &str) -> Option<String> {
    let (name, mechanism) = name.rsplit_once(MECHANISM).map_or((name, ""), |(name, how)| (name, how));
    let bare = KINDS.iter().find_map(|kind| name.strip_prefix(kind)).unwrap_or(name);
    let bare = bare.strip_suffix(INDIRECT).map_or(bare, str::trim_end);
    let clause = entries().find(|(pattern, _)| matches(pattern, bare)).map(|(_, clause)| clause);
    match (clause, mechanism) {
        (Some(clause), "runqueue") => Some(format!("had the CPU: {clause}")),
        (None, "runqueue") => Some("had the CPU that the boot needed".to_owned()),
        (None, "DELAY" | "udelay" | "msleep" | "_sleep") => Some("lets time pass".to_owned()),
        (clause, _) => clause.map(str::to_owned),
    }
}

fn entries() -> impl Iterator<Item = (&'static str, &'static str)> {
    TABLE.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('\t'))
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => pattern == name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_row_of_any_kind_has_its_clause() {
        let acpi = clause("initcall acpi_init");
        assert!(acpi.as_deref().is_some_and(|clause| clause.contains("ACPI")), "{acpi:?}");
        assert_eq!(clause("acpi_init"), acpi);
        assert_eq!(clause("x86_late_time_init (indirect call)"), clause("x86_late_time_init"));
        assert_eq!(clause("decompress the kernel (LZ4)"), clause("decompress the kernel (XZ)"));
        assert_eq!(clause("THREAD usbus0"), clause("usbus3"));
        assert_eq!(clause("initcall of_my_driver"), None);
        assert_eq!(clause(""), None);
    }

    #[test]
    fn the_clause_says_how_a_row_took_its_time() {
        assert_eq!(clause("work f · runqueue").as_deref(), Some("had the CPU that the boot needed"));
        assert!(clause("thread kthreadd · runqueue").is_some_and(|c| c.starts_with("had the CPU: creates")));
        let of_unit = clause("unit ssh.service · sshd · runqueue");
        assert_eq!(of_unit.as_deref(), Some("had the CPU that the boot needed"));
        assert_eq!(clause("a_driver · DELAY").as_deref(), Some("lets time pass"));
    }

    #[test]
    fn the_table_is_well_formed() {
        let mut names = BTreeSet::new();
        for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
            let (name, clause) = line.split_once('\t').unwrap_or_else(|| panic!("no tab: {line}"));
            assert!(!clause.contains('\t') && (1..=70).contains(&clause.chars().count()), "{line}");
            assert!(names.insert(name), "twice: {name}");
        }
        assert!(names.len() > 50);
    }
}
