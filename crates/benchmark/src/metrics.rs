//! The table of the metrics that are measured beside a boot's time: [`METRICS`].
//!
//! The journal, the results, the history, budgets and every view iterate over the table. So a new metric needs a row in it and
//! no other code. Never rename a metric: documents and databases contain the names.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

/// A metric: a row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Name in documents, budgets, the history and on the command line.
    pub name: &'static str,
    /// Unit of its values.
    pub unit: Unit,
    /// The direction of an improvement.
    pub better: Better,
    /// Source of a boot's value.
    pub from: Source,
    /// A few words for the user, printed at the beginning of a row or before an amount.
    pub text: &'static str,
}

/// Unit of a metric's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Nanoseconds,
    Bytes,
}

/// The direction in which a metric improves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Less is better. Such a metric can have a budget.
    Lower,
    /// More is better.
    Higher,
    /// The metric only describes the boot; variants are not compared by it.
    Neither,
}

/// Source of a boot's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The length of the boot.
    Length,
    /// This line of the guest's `/proc/meminfo`, at the end mark.
    Meminfo(&'static str),
    /// The same line after a workload. Documents of boots without a workload leave the metric out.
    MeminfoAfterWorkload(&'static str),
    /// The timed waits of a deterministic boot.
    TimedWaits,
    /// The VMM's maximum resident set size over its whole run.
    VmmMaxRss,
    /// The VMM's CPU time on the host over its whole run.
    VmmCpuTime,
    /// The first of these metrics minus the second. It is computed on demand and never stored.
    Less(&'static str, &'static str),
}

/// The boot's length. Only the history treats it as a metric; elsewhere it has separate fields, with phases and rows.
pub const TOTAL: Metric = metric("total", Unit::Nanoseconds, Better::Lower, Source::Length, "time to the end mark");

/// The name of the metric of a deterministic boot's timed waits.
pub(crate) const TIMED_WAITS: &str = "timed_waits";

/// All metrics except the length.
pub const METRICS: &[Metric] = &[
    metric(TIMED_WAITS, Unit::Nanoseconds, Better::Lower, Source::TimedWaits, "timed waits"),
    metric("vmm_max_rss", Unit::Bytes, Better::Lower, Source::VmmMaxRss, "VMM's peak memory"),
    metric("vmm_cpu", Unit::Nanoseconds, Better::Lower, Source::VmmCpuTime, "VMM's CPU time"),
    metric("guest_total", Unit::Bytes, Better::Neither, Source::Meminfo("MemTotal"), "guest memory"),
    metric("guest_available", Unit::Bytes, Better::Higher, Source::Meminfo("MemAvailable"), "available in the guest"),
    metric(
        "guest_used",
        Unit::Bytes,
        Better::Lower,
        Source::Less("guest_total", "guest_available"),
        "used in the guest",
    ),
    metric("guest_cached", Unit::Bytes, Better::Lower, Source::Meminfo("Cached"), "page cache in the guest"),
    metric("guest_slab", Unit::Bytes, Better::Lower, Source::Meminfo("Slab"), "slab caches of the guest's kernel"),
    metric(
        "guest_available_after",
        Unit::Bytes,
        Better::Higher,
        Source::MeminfoAfterWorkload("MemAvailable"),
        "available after the workload",
    ),
    metric(
        "guest_cached_after",
        Unit::Bytes,
        Better::Lower,
        Source::MeminfoAfterWorkload("Cached"),
        "page cache after the workload",
    ),
];

const fn metric(name: &'static str, unit: Unit, better: Better, from: Source, text: &'static str) -> Metric {
    Metric { name, unit, better, from, text }
}

impl Metric {
    /// Finds a metric by its name, [`TOTAL`] included.
    pub fn named(name: &str) -> Option<&'static Metric> {
        [&TOTAL].into_iter().chain(METRICS).find(|metric| metric.name == name)
    }

    /// The metrics that can have a budget.
    pub fn budgeted() -> impl Iterator<Item = &'static Metric> {
        METRICS.iter().filter(|metric| metric.better == Better::Lower)
    }

    /// Name with the unit appended: a boot's field in documents, and a column of CSV.
    pub fn field(&self) -> String {
        match self.unit {
            Unit::Nanoseconds => format!("{}_ns", self.name),
            Unit::Bytes => format!("{}_bytes", self.name),
        }
    }

    /// True if variants are compared by it. A computed metric is not: it adds nothing to the metrics that it is computed from.
    pub fn is_compared(&self) -> bool {
        self.better != Better::Neither && !self.is_computed()
    }

    /// True if documents leave it out when it is unknown. Other metrics are `null` then.
    pub fn is_mentioned_if_known(&self) -> bool {
        matches!(self.from, Source::MeminfoAfterWorkload(_) | Source::TimedWaits)
    }

    /// True if the host's kernel measures it. Such a metric varies from boot to boot even if deterministic boots repeat exactly.
    pub fn is_of_host(&self) -> bool {
        matches!(self.from, Source::VmmMaxRss | Source::VmmCpuTime)
    }

    /// True if it is computed from other metrics and stored nowhere.
    pub fn is_computed(&self) -> bool {
        matches!(self.from, Source::Less(..))
    }
}

/// An optional value for each metric of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerMetric<T>([Option<T>; METRICS.len()]);

/// The metrics' values of one boot.
pub type Values = PerMetric<u64>;

impl<T> Default for PerMetric<T> {
    fn default() -> PerMetric<T> {
        PerMetric([const { None }; METRICS.len()])
    }
}

impl<T> PerMetric<T> {
    /// Calls `each` for each metric, in the order of the table.
    pub fn of(mut each: impl FnMut(&'static Metric) -> Option<T>) -> PerMetric<T> {
        let mut all = METRICS.iter();
        PerMetric(std::array::from_fn(|_| each(all.next()?)))
    }

    /// The value for the metric with this name.
    pub fn known(&self, name: &str) -> Option<&T> {
        self.0[place(name)?].as_ref()
    }

    /// Each metric with its value, in the order of the table.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Metric, Option<&T>)> {
        METRICS.iter().zip(self.0.iter().map(Option::as_ref))
    }
}

impl Values {
    /// Calls `source` for each metric that is not computed.
    pub fn gather(mut source: impl FnMut(Source) -> Option<u64>) -> Values {
        PerMetric::of(|metric| if metric.is_computed() { None } else { source(metric.from) })
    }

    /// Sets the value of the metric with this name.
    pub(crate) fn set(&mut self, name: &str, value: u64) {
        if let Some(place) = place(name) {
            self.0[place] = Some(value);
        }
    }

    /// The boot's value of a metric. `None` if unknown.
    pub fn get(&self, metric: &Metric) -> Option<u64> {
        match metric.from {
            Source::Less(all, part) => self.known(all)?.checked_sub(*self.known(part)?),
            _ => self.known(metric.name).copied(),
        }
    }
}

fn place(name: &str) -> Option<usize> {
    METRICS.iter().position(|metric| metric.name == name)
}

/// Writes each metric as a field: `name(metric)` and its value, `null` if unknown.
fn write<S: Serializer, V: Serialize>(
    to: S,
    fields: impl Iterator<Item = (&'static Metric, Option<V>)>,
    name: fn(&Metric) -> String,
) -> Result<S::Ok, S::Error> {
    let mut map = to.serialize_map(None)?;
    for (metric, value) in fields.filter(|(metric, value)| value.is_some() || !metric.is_mentioned_if_known()) {
        map.serialize_entry(&name(metric), &value)?;
    }
    map.end()
}

/// Reads the metrics' fields from an object and skips all others, such as metrics that a later version added.
fn read<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
    name: fn(&Metric) -> String,
) -> Result<PerMetric<T>, D::Error> {
    struct Fields<T>(fn(&Metric) -> String, PerMetric<T>);
    impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
        type Value = PerMetric<T>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object with metrics")
        }
        fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<PerMetric<T>, A::Error> {
            let names: Vec<String> = METRICS.iter().map(self.0).collect();
            while let Some(key) = map.next_key::<String>()? {
                match names.iter().position(|name| *name == key) {
                    Some(place) => self.1.0[place] = map.next_value()?,
                    None => {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
            }
            Ok(self.1)
        }
    }
    from.deserialize_map(Fields(name, PerMetric::default()))
}

/// Writes a boot's values under names such as `vmm_max_rss_bytes`.
impl Serialize for Values {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let kept = self.iter().filter(|(metric, _)| !metric.is_computed());
        write(to, kept, Metric::field)
    }
}

/// Writes only those of a boot's values that are in bytes. For `#[serde(serialize_with)]`.
///
/// # Errors
/// If the serializer fails.
pub fn only_bytes<S: Serializer>(values: &Values, to: S) -> Result<S::Ok, S::Error> {
    let kept = values.iter().filter(|(metric, _)| metric.unit == Unit::Bytes && !metric.is_computed());
    write(to, kept, Metric::field)
}

impl<'de> Deserialize<'de> for Values {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Values, D::Error> {
        read(from, Metric::field)
    }
}

/// The JSON schema of the output of [`write`].
fn schema<V: JsonSchema>(
    generator: &mut SchemaGenerator,
    fields: impl Iterator<Item = &'static Metric>,
    name: fn(&Metric) -> String,
) -> Schema {
    let (mut properties, mut required) = (serde_json::Map::new(), Vec::new());
    for metric in fields {
        properties.insert(name(metric), generator.subschema_for::<Option<V>>().into());
        if !metric.is_mentioned_if_known() {
            required.push(name(metric));
        }
    }
    json_schema!({"type": "object", "properties": properties, "required": required})
}

impl JsonSchema for Values {
    fn schema_name() -> Cow<'static, str> {
        "Values".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        schema::<u64>(generator, METRICS.iter().filter(|metric| !metric.is_computed()), Metric::field)
    }
}

/// The schema of [`only_bytes`], for `#[schemars(schema_with)]`.
pub fn only_bytes_schema(generator: &mut SchemaGenerator) -> Schema {
    let kept = METRICS.iter().filter(|metric| metric.unit == Unit::Bytes && !metric.is_computed());
    schema::<u64>(generator, kept, Metric::field)
}

/// The schema of [`by_name`], for `#[schemars(with)]`.
#[derive(Debug)]
pub struct ByName<T>(PhantomData<T>);

impl<T: JsonSchema> JsonSchema for ByName<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("MetricsOf{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        schema::<T>(generator, METRICS.iter(), |metric| metric.name.to_owned())
    }
}

/// Statistics of each metric over many boots, under names such as `vmm_max_rss`. For `#[serde(with)]`.
pub mod by_name {
    use super::{Deserialize, Deserializer, Metric, PerMetric, Serialize, Serializer};

    fn name(metric: &Metric) -> String {
        metric.name.to_owned()
    }

    /// # Errors
    /// If the serializer fails.
    pub fn serialize<S: Serializer, T: Serialize>(all: &PerMetric<T>, to: S) -> Result<S::Ok, S::Error> {
        super::write(to, all.iter(), name)
    }

    /// # Errors
    /// If a metric's value does not have the type `T`.
    pub fn deserialize<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<PerMetric<T>, D::Error> {
        super::read(from, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_holds_together() {
        for (i, metric) in METRICS.iter().enumerate() {
            assert_eq!(place(metric.name), Some(i), "{}: two lines have this name", metric.name);
            assert_eq!(Metric::named(metric.name), Some(metric));
            assert!(
                metric.name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'),
                "{}: a field's name",
                metric.name
            );
            if let Source::Less(all, part) = metric.from {
                let units = [all, part].map(|name| METRICS[place(name).expect(name)].unit);
                assert_eq!(units, [metric.unit; 2], "{}: computed from other units", metric.name);
            }
        }
        assert_eq!(place(TOTAL.name), None);
    }

    #[test]
    fn values_come_back_from_a_document() {
        let mut next = 0;
        let values = Values::gather(|_| {
            next += 1_000_000;
            (next < 6_000_000).then_some(next)
        });
        let json = serde_json::to_value(values).unwrap();
        assert_eq!(serde_json::from_value::<Values>(json.clone()).unwrap(), values);
        assert!(json.as_object().unwrap().keys().all(|key| key.ends_with("_bytes") || key.ends_with("_ns")), "{json}");
        let used = METRICS.iter().find(|metric| metric.name == "guest_used").unwrap();
        assert_eq!(values.get(used), None, "more available than there is: {json}");
        let later =
            serde_json::json!({"guest_total_bytes": 7, "guest_available_bytes": 3, "of_a_later_table_bytes": 9});
        let later: Values = serde_json::from_value(later).unwrap();
        assert_eq!((later.get(used), *later.known("guest_total").unwrap()), (Some(4), 7));
        assert!(serde_json::from_str::<Values>(r#"{"guest_total_bytes": "7"}"#).is_err(), "no number");
    }

    #[test]
    fn values_of_many_boots_are_written_by_the_names_of_the_metrics() {
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        struct Document {
            #[serde(with = "by_name")]
            medians: PerMetric<f64>,
        }
        let mut next = 0.5;
        let medians = PerMetric::of(|_| {
            next += 1.0;
            Some(next)
        });
        let document = Document { medians };
        let json = serde_json::to_value(&document).unwrap();
        let mut names: Vec<&str> = METRICS.iter().map(|metric| metric.name).collect();
        names.sort_unstable();
        let mut keys: Vec<&String> = json["medians"].as_object().unwrap().keys().collect();
        keys.sort_unstable();
        assert_eq!(keys, names);
        assert_eq!(json["medians"][METRICS[0].name], 1.5);
        assert_eq!(serde_json::from_value::<Document>(json).unwrap(), document);
    }
}
