//! The data of a lake's page: the document `bootscope.lake-page/1`, which the program bootscope-lake computes and
//! prints (`bootscope-lake page-data LAKE`).
//!
//! Its texts come from many machines and must not be trusted. Unknown fields are ignored. An entry is left out if it
//! names a day or a kernel that the document does not list, and a remark reports that.

mod page;

pub use page::lake_page;

use crate::text::thousands;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use thiserror::Error;

/// The name and version of the document.
const SCHEMA: &str = "bootscope.lake-page/1";

/// The data of a lake's page. Times are in nanoseconds.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct LakePage {
    /// `bootscope.lake-page/1`.
    pub schema: String,
    /// The lake's place, as its user named it.
    #[serde(default, deserialize_with = "text")]
    pub lake: String,
    /// The first day of the evaluated boots; empty for all boots.
    #[serde(default, deserialize_with = "text")]
    pub since: String,
    /// The number of evaluated boots.
    pub boots: u64,
    /// The number of their machines, if the lake knows it.
    #[serde(default)]
    pub machines: u64,
    /// The days that have boots, in order, in UTC: `2026-01-02`.
    pub days: Vec<String>,
    /// The kernels that were booted.
    pub kernels: Vec<String>,
    /// The kinds of machine, each with its totals.
    pub kinds: Vec<LakeKind>,
    /// Rows that became slower with a kernel on a kind of machine.
    #[serde(default)]
    pub regressions: Vec<LakeRegression>,
    /// The rows that boots spend most time in.
    #[serde(default)]
    pub slowest_rows: Vec<LakeRow>,
    /// Machines that are slower than others of their kind.
    #[serde(default)]
    pub outliers: Vec<LakeOutlier>,
    /// The saving of each remedy over all boots.
    #[serde(default)]
    pub what_pays: Vec<LakeSaving>,
    /// Machines that have been silent for longer than usual.
    #[serde(default)]
    pub missing: Vec<LakeMissing>,
    /// Remarks on each of these lists, by the list's name; `totals` is for the kinds.
    #[serde(default)]
    pub remarks: BTreeMap<String, Vec<String>>,
}

/// A kind of machine.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct LakeKind {
    /// The properties that set the kind apart; empty if unknown.
    #[serde(default, deserialize_with = "text")]
    pub hardware: String,
    /// The clock of its times: `host`, `guest-virtual` or `evidence`.
    #[serde(default, deserialize_with = "text")]
    pub time_base: String,
    pub boots: u64,
    #[serde(default)]
    pub machines: u64,
    /// Its totals by day and kernel.
    pub cells: Vec<LakeCell>,
}

/// The totals of one kind of machine on one day with one kernel.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct LakeCell {
    /// Place in [`LakePage::days`].
    pub day: usize,
    /// Place in [`LakePage::kernels`].
    pub kernel: usize,
    /// Boots, including those that did not end.
    pub boots: u64,
    /// Boots among them that did not reach their end mark. They have no total.
    #[serde(default)]
    pub not_ended: u64,
    /// The median of the totals; `None` if no boot ended.
    pub p50_ns: Option<f64>,
    /// Their 95th percentile.
    pub p95_ns: Option<f64>,
}

/// A row that became slower with a kernel on a kind of machine.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct LakeRegression {
    #[serde(deserialize_with = "text")]
    pub name: String,
    #[serde(default, deserialize_with = "text")]
    pub hardware: String,
    /// The clock of its times.
    #[serde(default, deserialize_with = "text")]
    pub time_base: String,
    /// The kernel with which it became slower.
    #[serde(default, deserialize_with = "text")]
    pub kernel: String,
    /// The first day, as in [`LakePage::days`].
    #[serde(default, deserialize_with = "text")]
    pub since: String,
    /// The row's time per boot before.
    pub before_ns: f64,
    /// The row's time per boot since then.
    pub after_ns: f64,
    /// The increase.
    pub slower_ns: f64,
    /// The lower end of the increase's interval, from boots whose time is not far off.
    pub slower_low_ns: f64,
    /// The upper end of that interval.
    pub slower_high_ns: f64,
    /// `after_ns` ÷ `before_ns`; `None` if the row is new.
    pub ratio: Option<f64>,
    /// The probability that chance alone shows such an increase anywhere in the lake.
    pub p: f64,
    /// Boots before the change in this comparison.
    pub boots_before: u64,
    /// Boots after the change in this comparison.
    pub boots_after: u64,
    /// The cost for all boots of such machines in a day.
    #[serde(default)]
    pub per_day_ns: f64,
    /// Some of the boots since then.
    #[serde(default)]
    pub boots: Vec<LakeBoot>,
}

/// A boot behind a regression.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct LakeBoot {
    /// Its identity in the lake.
    #[serde(deserialize_with = "text")]
    pub boot_id: String,
    #[serde(default, deserialize_with = "text")]
    pub day: String,
    /// The machine's token or name; empty if unknown.
    #[serde(default, deserialize_with = "text")]
    pub machine: String,
    /// The length of the boot.
    pub total_ns: Option<f64>,
    /// The row's time in it.
    pub self_ns: Option<f64>,
}

/// A row, over all boots.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct LakeRow {
    #[serde(deserialize_with = "text")]
    pub name: String,
    /// Evaluated boots.
    pub boots: u64,
    /// Boots that have the row.
    pub boots_with_it: u64,
    /// The row's mean time per boot, with 0 for boots without it.
    pub mean_ns: f64,
    /// The lower end of the mean's interval; `None` for a single boot.
    pub mean_low_ns: Option<f64>,
    /// The upper end of that interval.
    pub mean_high_ns: Option<f64>,
    /// The share of the time of all boots, 0 to 1.
    pub share: f64,
}

/// A machine that is slower in a row than others of its kind.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct LakeOutlier {
    /// The machine's token or name.
    #[serde(default, deserialize_with = "text")]
    pub machine: String,
    /// The kind of machine.
    #[serde(default, deserialize_with = "text")]
    pub hardware: String,
    /// The clock of its times.
    #[serde(default, deserialize_with = "text")]
    pub time_base: String,
    #[serde(default, deserialize_with = "text")]
    pub name: String,
    /// The machine's mean time for the row in a boot.
    pub mean_ns: f64,
    /// The mean time on the other machines.
    pub others_ns: f64,
    pub slower_ns: f64,
    /// `mean_ns` ÷ `others_ns`; `None` if the others do not have the row.
    pub ratio: Option<f64>,
    /// The probability that chance alone shows such a difference anywhere in the lake.
    pub p: f64,
    /// Boots of the machine.
    pub boots: u64,
    /// Machines of the kind.
    pub machines: u64,
}

/// The saving of a remedy.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct LakeSaving {
    /// The rule that found the cause.
    #[serde(deserialize_with = "text")]
    pub id: String,
    /// The problem.
    #[serde(default, deserialize_with = "text")]
    pub title: String,
    /// Boots that have the problem.
    pub boots: u64,
    /// The share of the boots that were searched for findings, 0 to 1.
    pub share: f64,
    /// Machines that have the problem.
    pub machines: u64,
    /// Kinds of machine that have the problem.
    pub kinds: u64,
    /// The saving per boot.
    pub mean_ns: f64,
    /// The saving of all boots in a day.
    pub per_day_ns: f64,
    /// The saving in a day at the worst.
    pub per_day_low_ns: f64,
    /// The saving in a day at the best.
    pub per_day_high_ns: f64,
}

/// A machine that has not reported for longer than is usual for it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct LakeMissing {
    /// The machine's token or name.
    #[serde(default, deserialize_with = "text")]
    pub machine: String,
    /// The kind of machine.
    #[serde(default, deserialize_with = "text")]
    pub hardware: String,
    /// The kernel of its last boot.
    #[serde(default, deserialize_with = "text")]
    pub kernel: String,
    /// The day of its last boot.
    #[serde(default, deserialize_with = "text")]
    pub last: String,
    pub boots: u64,
    /// The usual number of days between its boots.
    pub usual_days: f64,
    /// The number of days since its last boot.
    pub silent_days: f64,
    /// The probability of such a silence by chance.
    pub p: f64,
}

/// The reason why the input is not the document of a lake.
#[derive(Debug, Error)]
pub enum LakePageError {
    /// The input is not JSON, or has another structure.
    #[error("it is no document of a lake")]
    Malformed(#[from] serde_json::Error),
    /// The input is another document.
    #[error("it is {found:?}, and this bootscope reads {SCHEMA:?}: build both from the same sources")]
    OtherSchema {
        /// The schema that it names.
        found: String,
    },
}

impl LakePage {
    /// Reads the output of bootscope-lake.
    ///
    /// # Errors
    /// If the input is not such a document.
    pub fn read(json: &[u8]) -> Result<LakePage, LakePageError> {
        #[derive(Deserialize)]
        struct Head {
            #[serde(default, deserialize_with = "text")]
            schema: String,
        }
        let Head { schema } = serde_json::from_slice(json)?;
        if schema != SCHEMA {
            return Err(LakePageError::OtherSchema { found: schema.chars().take(60).collect() });
        }
        let mut document: LakePage = serde_json::from_slice(json)?;
        document.drop_unlisted_cells();
        Ok(document)
    }

    fn drop_unlisted_cells(&mut self) {
        let (days, kernels) = (self.days.len(), self.kernels.len());
        let mut left_out = 0_u64;
        for kind in &mut self.kinds {
            let before = kind.cells.len();
            kind.cells.retain(|cell| cell.day < days && cell.kernel < kernels);
            left_out += (before - kind.cells.len()) as u64;
        }
        if left_out > 0 {
            let remark = format!(
                "{} of the totals are left out: they name a day or a kernel that bootscope-lake did not list",
                thousands(left_out)
            );
            self.remarks.entry("totals".to_owned()).or_default().push(remark);
        }
    }

    fn remarks(&self, list: &str) -> impl Iterator<Item = &str> {
        self.remarks.get(list).into_iter().flatten().map(String::as_str)
    }
}

/// Reads a text; `null` is the empty text.
fn text<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    pub(super) const EXAMPLE: &str = include_str!("../lake-page.example.json");

    fn changed(change: impl FnOnce(&mut Value)) -> Result<LakePage, LakePageError> {
        let mut value = serde_json::from_str(EXAMPLE).unwrap();
        change(&mut value);
        LakePage::read(value.to_string().as_bytes())
    }

    #[test]
    fn an_example_is_read_and_unknown_fields_are_ignored() {
        let read = changed(|v| {
            v["new"] = json!({"a": 1});
            v["kinds"][0]["cells"][0]["p99_ns"] = json!(1);
        });
        let page = read.unwrap();
        assert_eq!((page.boots, page.days.len(), page.kernels.len()), (1_000_000, 2, 2));
        assert_eq!(page.kinds[0].cells[0].p95_ns, Some(1.2e9));
        assert_eq!(page.regressions[0].boots[0].self_ns, Some(11e6));
        assert_eq!(page.remarks("totals").count(), 0);
    }

    #[test]
    fn cells_of_unlisted_days_or_kernels_are_left_out_and_reported() {
        let page = changed(|v| {
            let cell = v["kinds"][0]["cells"][0].clone();
            for (field, value) in [("day", 2), ("kernel", 99)] {
                let mut wrong = cell.clone();
                wrong[field] = json!(value);
                v["kinds"][0]["cells"].as_array_mut().unwrap().push(wrong);
            }
        });
        let page = page.unwrap();
        assert_eq!(page.kinds[0].cells.len(), 1);
        let remarks: Vec<&str> = page.remarks("totals").collect();
        assert_eq!(
            remarks,
            ["2 of the totals are left out: they name a day or a kernel that bootscope-lake did not list"]
        );
    }

    #[test]
    fn unknown_facts_of_a_boot_are_accepted() {
        let page = changed(|v| {
            v["kinds"][0]["hardware"] = Value::Null;
            v["kinds"][0]["cells"][0]["p50_ns"] = Value::Null;
            v["regressions"][0]["ratio"] = Value::Null;
            v["regressions"][0]["boots"][0]["machine"] = Value::Null;
        });
        let page = page.unwrap();
        assert_eq!((page.kinds[0].hardware.as_str(), page.kinds[0].cells[0].p50_ns), ("", None));
    }

    #[test]
    fn another_document_is_one_error() {
        let other = changed(|v| v["schema"] = json!("bootscope.lake-page/2")).unwrap_err().to_string();
        assert_eq!(
            other,
            "it is \"bootscope.lake-page/2\", and this bootscope reads \"bootscope.lake-page/1\": build both from the same sources"
        );
        assert!(matches!(LakePage::read(b"[]"), Err(LakePageError::OtherSchema { found }) if found.is_empty()));
        for wrong in ["", "{", "7", "{\"schema\": \"bootscope.lake-page/1\"}"] {
            assert!(matches!(LakePage::read(wrong.as_bytes()), Err(LakePageError::Malformed(_))), "{wrong}");
        }
        let negative = changed(|v| v["kinds"][0]["cells"][0]["day"] = json!(-1));
        assert!(matches!(negative, Err(LakePageError::Malformed(_))));
    }
}
