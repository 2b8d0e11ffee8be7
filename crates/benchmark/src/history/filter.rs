//! A choice among the benches of a history, as conditions of a query.

/// A selection of entries: those that meet all conditions given.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Prefix of the kernel's hash or name.
    pub kernel: Option<String>,
    /// Number of the setup.
    pub setup: Option<i64>,
    /// Earliest time: the beginning of an RFC 3339 time, in UTC.
    pub since: Option<String>,
    /// Number of the bench.
    pub bench: Option<i64>,
    /// Maximum number of entries; the newest ones are chosen.
    pub newest: Option<usize>,
}

impl Filter {
    pub(super) fn conditions(&self) -> String {
        let mut all = vec!["1"];
        if self.kernel.is_some() {
            all.push(
                "(substr(kernel_sha256, 1, length(:kernel)) = :kernel OR substr(kernel, 1, length(:kernel)) = :kernel)",
            );
        }
        if self.bench.is_some() {
            all.push("bench = :bench");
        }
        if self.setup.is_some() {
            all.push("setup = :setup");
        }
        if self.since.is_some() {
            all.push("created >= :since");
        }
        all.join(" AND ")
    }

    /// Binds the parameters that the conditions name, and the other parameters given. Runs the query.
    pub(super) fn bind<'s>(
        &self,
        select: &'s mut rusqlite::Statement<'_>,
        others: &[(&str, &i64)],
    ) -> rusqlite::Result<rusqlite::Rows<'s>> {
        let mut values: Vec<(&str, &dyn rusqlite::ToSql)> = Vec::new();
        if let Some(kernel) = &self.kernel {
            values.push((":kernel", kernel));
        }
        if let Some(bench) = &self.bench {
            values.push((":bench", bench));
        }
        if let Some(setup) = &self.setup {
            values.push((":setup", setup));
        }
        if let Some(since) = &self.since {
            values.push((":since", since));
        }
        values.extend(others.iter().map(|&(name, value)| (name, value as &dyn rusqlite::ToSql)));
        select.query(values.as_slice())
    }
}
