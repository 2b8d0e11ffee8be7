//! The variants that a bench compares: the points of a sweep's grid, and a distinct name for each variant.
//!
//! This module does not know the meaning of an option. A point is a list of settings, which the caller turns into options.

use crate::head::{Axis, Setting};
use crate::scaling::gibibytes;

/// Maximum number of points of a grid. Users do not wait for more boots than that.
const MAX_POINTS: usize = 1000;

/// A point of a grid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Point {
    /// Its settings as one text: `cpus=2 memory=1G`.
    pub name: String,
    /// One setting for each axis.
    pub settings: Vec<Setting>,
}

/// An error in the options `--sweep` and `--at`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SweepError {
    /// The sweep has no values.
    #[error("--sweep {0}: write KEY=VALUE,VALUE,…, as cpus=1,2,4")]
    NoValues(String),
    /// The sweep has only one value.
    #[error("--sweep {text}: a sweep needs two values or more, set apart by commas; for one, give --{key}")]
    OneValue {
        /// The argument of `--sweep`.
        text: String,
        /// The swept option.
        key: String,
    },
    /// The sweep has a value twice.
    #[error("--sweep {text}: {value} is there twice; to boot each value more often, give --runs")]
    Twice {
        /// The argument of `--sweep`.
        text: String,
        /// The repeated value.
        value: String,
    },
    /// The axes together make too many points.
    #[error("--sweep makes {0} variants: give fewer values, {MAX_POINTS} at most in all")]
    TooMany(usize),
    /// The argument of `--at` is not a size.
    #[error("--at {0}: give a number, such as 128, or a size, such as 64G")]
    NoSize(String),
    /// The argument of `--at` is a size of memory, but memory is not swept.
    #[error("--at {0} is a size of memory, and that is not swept: give a number")]
    NotSwept(String),
}

/// Parses an axis: `cpus=1,2,4`.
///
/// # Errors
/// If it has fewer than two values, or a value twice.
pub fn axis(text: &str) -> Result<Axis, SweepError> {
    let (key, values) = text.split_once('=').ok_or_else(|| SweepError::NoValues(text.to_owned()))?;
    let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
    if values.len() < 2 {
        return Err(SweepError::OneValue { text: text.to_owned(), key: key.to_owned() });
    }
    if let Some((_, repeated)) = values.iter().enumerate().find(|(i, value)| values[..*i].contains(value)) {
        return Err(SweepError::Twice { text: text.to_owned(), value: repeated.clone() });
    }
    Ok(Axis { key: key.trim_start_matches('-').to_owned(), values })
}

/// The points of a grid; the last axis changes fastest. A grid without axes has one point.
///
/// # Errors
/// If there are more than 1000 points.
pub fn grid(axes: &[Axis]) -> Result<Vec<Point>, SweepError> {
    let points = axes.iter().fold(1, |points: usize, axis| points.saturating_mul(axis.values.len()));
    if points > MAX_POINTS {
        return Err(SweepError::TooMany(points));
    }
    let mut all = vec![Point::default()];
    for axis in axes {
        let longer = |point: &Point, value: &String| {
            let setting = Setting { key: axis.key.clone(), value: value.clone() };
            let name = format!("{} {}={value}", point.name, axis.key).trim_start().to_owned();
            Point { name, settings: point.settings.iter().cloned().chain([setting]).collect() }
        };
        all = all.iter().flat_map(|point| axis.values.iter().map(move |value| longer(point, value))).collect();
    }
    Ok(all)
}

/// Parses the sizes that a sweep's scaling models predict: numbers, or sizes of memory, which become GiB.
///
/// # Errors
/// If a text is neither, or is a size of memory and memory is not swept.
pub fn sizes(at: &[String], sweep: &[Axis]) -> Result<Vec<f64>, SweepError> {
    let one = |text: &String| {
        let number = text.parse().ok().filter(|size: &f64| size.is_finite() && *size > 0.0);
        let size = number.or_else(|| gibibytes(text)).filter(|size| *size > 0.0);
        let size = size.ok_or_else(|| SweepError::NoSize(text.clone()))?;
        if number.is_none() && !sweep.iter().any(|axis| axis.key == "memory") {
            return Err(SweepError::NotSwept(text.clone()));
        }
        Ok(size)
    };
    at.iter().map(one).collect()
}

/// A suffix for the name of each variant, so that names differ if `options` are equal. Users boot the same variant twice to
/// see the effect of chance.
pub fn name_apart<T: PartialEq>(options: &[T]) -> Vec<String> {
    let suffix = |place: usize| match options[..place].iter().filter(|other| **other == options[place]).count() {
        0 => String::new(),
        1 => " (again)".to_owned(),
        again => format!(" (again {again})"),
    };
    (0..options.len()).map(suffix).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn swept(texts: &[&str]) -> Result<Vec<Point>, SweepError> {
        grid(&texts.iter().map(|text| axis(text)).collect::<Result<Vec<Axis>, SweepError>>()?)
    }

    #[test]
    fn a_grid_has_every_point() {
        let points = swept(&["--cpus=1,2", "memory=256M, 1G"]).unwrap();
        let names: Vec<&str> = points.iter().map(|point| point.name.as_str()).collect();
        assert_eq!(names, ["cpus=1 memory=256M", "cpus=1 memory=1G", "cpus=2 memory=256M", "cpus=2 memory=1G"]);
        let setting = |key: &str, value: &str| Setting { key: key.to_owned(), value: value.to_owned() };
        assert_eq!(points[3].settings, [setting("cpus", "2"), setting("memory", "1G")]);
        assert_eq!(swept(&[]).unwrap(), [Point::default()]);
    }

    #[test]
    fn a_malformed_grid_is_refused_with_its_name() {
        for (wrong, says) in [
            (&["cpus"][..], "write KEY=VALUE"),
            (&["cpus=2"], "give --cpus"),
            (&["cpus=1,1"], "1 is there twice"),
            (&["cpus=1,2, 1"], "1 is there twice"),
        ] {
            let error = swept(wrong).unwrap_err().to_string();
            assert!(error.starts_with("--sweep cpus") && error.contains(says), "{error}");
        }
        let many = |count: u32| (0..count).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
        let grid = |a: u32, b: u32| swept(&[&format!("a={}", many(a)), &format!("b={}", many(b))]);
        assert_eq!(grid(25, 40).unwrap().len(), MAX_POINTS);
        assert_eq!(grid(7, 143), Err(SweepError::TooMany(1001)));
        let most = format!("a={}", many(4000));
        assert_eq!(swept(&[most.as_str(); 8]), Err(SweepError::TooMany(usize::MAX)), "no room is made for it");
    }

    #[test]
    fn the_same_variant_has_another_name() {
        assert_eq!(name_apart(&[1, 2, 1, 1, 3]), ["", "", " (again)", " (again 2)", ""]);
        assert!(name_apart::<u8>(&[]).is_empty());
    }

    #[test]
    fn sizes_are_numbers_or_memory() {
        let axis = |key: &str| Axis { key: key.to_owned(), values: Vec::new() };
        let at = |text: &str, key: &str| sizes(&[text.to_owned()], &[axis(key)]).map(|sizes| sizes[0]);
        for (text, key, size) in
            [("128", "cpus", 128.0), ("64G", "memory", 64.0), ("512M", "memory", 0.5), ("4", "memory", 4.0)]
        {
            assert_eq!(at(text, key).unwrap(), size);
        }
        for (text, key, says) in [
            ("64G", "cpus", "not swept"),
            ("many", "cpus", "such as"),
            ("-1", "cpus", "such as"),
            ("0", "memory", "such as"),
            ("inf", "cpus", "such as"),
        ] {
            assert!(at(text, key).unwrap_err().to_string().contains(says), "{text}");
        }
    }
}
