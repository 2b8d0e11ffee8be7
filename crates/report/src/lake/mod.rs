//! What a page shows of a lake: the document `bootscope.lake-page/1`, which the program bootscope-lake works out
//! (`bootscope-lake page-data LAKE`) and prints.
//!
//! Its texts are those of many machines and are not trusted. A field that this version does not know is ignored. What names a day or a
//! kernel that the document does not have is left out, and a remark says so.

mod page;

pub use page::lake_page;

use crate::text::thousands;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use thiserror::Error;

/// The name and version of the document.
const SCHEMA: &str = "bootscope.lake-page/1";

/// What a page shows of a lake. Times are in nanoseconds.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct LakePage {
    /// [`SCHEMA`].
    pub schema: String,
    /// Where the lake is, as its user named it.
    #[serde(default, deserialize_with = "text")]
    pub lake: String,
    /// From when on boots were looked at; empty for all.
    #[serde(default, deserialize_with = "text")]
    pub since: String,
    /// Boots that were looked at.
    pub boots: u64,
    /// Machines that they are of, as far as the lake knows.
    #[serde(default)]
    pub machines: u64,
    /// The days that have boots, in order, in UTC: `2026-01-02`.
    pub days: Vec<String>,
    /// The kernels that were booted.
    pub kernels: Vec<String>,
    /// The kinds of machine, each with its totals.
    pub kinds: Vec<LakeKind>,
    /// What became slower, with which kernel, on which kind of machine.
    #[serde(default)]
    pub regressions: Vec<LakeRegression>,
    /// The rows that the boots take most time for.
    #[serde(default)]
    pub slowest_rows: Vec<LakeRow>,
    /// Machines that are slower than others of their kind.
    #[serde(default)]
    pub outliers: Vec<LakeOutlier>,
    /// What each remedy saves over all boots.
    #[serde(default)]
    pub what_pays: Vec<LakeSaving>,
    /// Machines that have not reported for longer than is usual for them.
    #[serde(default)]
    pub missing: Vec<LakeMissing>,
    /// What to know of each of these lists, by its name; `totals` is of the kinds.
    #[serde(default)]
    pub remarks: BTreeMap<String, Vec<String>>,
}

/// A kind of machine.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct LakeKind {
    /// What sets it apart from others; empty if that is not known.
    #[serde(default, deserialize_with = "text")]
    pub hardware: String,
    /// What its times count: `host`, `guest-virtual` or `evidence`.
    #[serde(default, deserialize_with = "text")]
    pub time_base: String,
    /// Its boots.
    pub boots: u64,
    /// Its machines.
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
    /// Boots, also those that did not end.
    pub boots: u64,
    /// Of these, boots that did not reach their end mark: they have no total.
    #[serde(default)]
    pub not_ended: u64,
    /// Median of the totals; none where no boot ended.
    pub p50_ns: Option<f64>,
    /// Their 95th percentile.
    pub p95_ns: Option<f64>,
}

/// A row that became slower with a kernel on a kind of machine.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct LakeRegression {
    /// The row.
    #[serde(deserialize_with = "text")]
    pub name: String,
    /// The kind of machine.
    #[serde(default, deserialize_with = "text")]
    pub hardware: String,
    /// What its times count.
    #[serde(default, deserialize_with = "text")]
    pub time_base: String,
    /// The kernel with which it became slower.
    #[serde(default, deserialize_with = "text")]
    pub kernel: String,
    /// The first day, as in [`LakePage::days`].
    #[serde(default, deserialize_with = "text")]
    pub since: String,
    /// What the row took of a boot before.
    pub before_ns: f64,
    /// What it takes since then.
    pub after_ns: f64,
    /// How much longer that is.
    pub slower_ns: f64,
    /// The interval of that, of boots whose time is not far off: at least.
    pub slower_low_ns: f64,
    /// The interval of that: at most.
    pub slower_high_ns: f64,
    /// `after_ns` by `before_ns`; none where the row is new.
    pub ratio: Option<f64>,
    /// How likely chance alone shows so much somewhere in the lake.
    pub p: f64,
    /// Boots before that it rests on.
    pub boots_before: u64,
    /// Boots since then that it rests on.
    pub boots_after: u64,
    /// What it costs all boots of such machines in a day.
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
    /// When it was.
    #[serde(default, deserialize_with = "text")]
    pub day: String,
    /// The machine's token or name; empty if that is not known.
    #[serde(default, deserialize_with = "text")]
    pub machine: String,
    /// How long it took.
    pub total_ns: Option<f64>,
    /// What the row took of it.
    pub self_ns: Option<f64>,
}

/// A row, over all boots.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct LakeRow {
    /// The row.
    #[serde(deserialize_with = "text")]
    pub name: String,
    /// Boots that were looked at.
    pub boots: u64,
    /// Those that have it.
    pub boots_with_it: u64,
    /// What a boot takes for it, also of boots without it.
    pub mean_ns: f64,
    /// The interval of that: at least; none of a single boot.
    pub mean_low_ns: Option<f64>,
    /// The interval of that: at most.
    pub mean_high_ns: Option<f64>,
    /// Of the time of all boots, 0 to 1.
    pub share: f64,
}

/// A machine that is slower in a row than others of its kind.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct LakeOutlier {
    /// Its token or name.
    #[serde(default, deserialize_with = "text")]
    pub machine: String,
    /// Its kind.
    #[serde(default, deserialize_with = "text")]
    pub hardware: String,
    /// What its times count.
    #[serde(default, deserialize_with = "text")]
    pub time_base: String,
    /// The row.
    #[serde(default, deserialize_with = "text")]
    pub name: String,
    /// What the machine takes for it in a boot.
    pub mean_ns: f64,
    /// What the others take.
    pub others_ns: f64,
    /// The difference.
    pub slower_ns: f64,
    /// `mean_ns` by `others_ns`; none where the others do not have it.
    pub ratio: Option<f64>,
    /// How likely chance alone shows so much somewhere in the lake.
    pub p: f64,
    /// Boots of the machine.
    pub boots: u64,
    /// Machines of the kind.
    pub machines: u64,
}

/// What a remedy saves.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct LakeSaving {
    /// The rule that found it.
    #[serde(deserialize_with = "text")]
    pub id: String,
    /// What is wrong.
    #[serde(default, deserialize_with = "text")]
    pub title: String,
    /// Boots that have it.
    pub boots: u64,
    /// Of the boots that were looked at for findings, 0 to 1.
    pub share: f64,
    /// Machines that have it.
    pub machines: u64,
    /// Kinds of machine that have it.
    pub kinds: u64,
    /// What it saves in a boot.
    pub mean_ns: f64,
    /// What it saves all boots in a day.
    pub per_day_ns: f64,
    /// At the worst.
    pub per_day_low_ns: f64,
    /// At the best.
    pub per_day_high_ns: f64,
}

/// A machine that has not reported for longer than is usual for it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct LakeMissing {
    /// Its token or name.
    #[serde(default, deserialize_with = "text")]
    pub machine: String,
    /// Its kind.
    #[serde(default, deserialize_with = "text")]
    pub hardware: String,
    /// The kernel of its last boot.
    #[serde(default, deserialize_with = "text")]
    pub kernel: String,
    /// The day of its last boot.
    #[serde(default, deserialize_with = "text")]
    pub last: String,
    /// Its boots.
    pub boots: u64,
    /// Days from boot to boot that are usual for it.
    pub usual_days: f64,
    /// Days since its last boot.
    pub silent_days: f64,
    /// How likely it is silent that long by chance.
    pub p: f64,
}

/// Why what was printed is no document of a lake.
#[derive(Debug, Error)]
pub enum LakePageError {
    /// It is no JSON, or not of this form.
    #[error("it is no document of a lake")]
    Malformed(#[from] serde_json::Error),
    /// It is another document.
    #[error("it is {found:?}, and this bootscope reads {SCHEMA:?}: build both from the same sources")]
    OtherSchema {
        /// What it says of itself.
        found: String,
    },
}

impl LakePage {
    /// Reads what bootscope-lake printed.
    ///
    /// # Errors
    /// If it is no such document.
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
        document.leave_out_what_leads_nowhere();
        Ok(document)
    }

    fn leave_out_what_leads_nowhere(&mut self) {
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

/// A text; `null` is none.
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
    fn an_example_is_read_and_what_is_not_known_is_ignored() {
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
    fn what_names_no_day_or_kernel_is_left_out_and_said() {
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
        let said: Vec<&str> = page.remarks("totals").collect();
        assert_eq!(
            said,
            ["2 of the totals are left out: they name a day or a kernel that bootscope-lake did not list"]
        );
    }

    #[test]
    fn what_is_not_known_of_a_boot_is_no_error() {
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
