//! Clocks: they turn raw ticks into time. Events seen on two clocks join the two.

use crate::{Ns, RateSource, Ticks};

/// One event seen on two clocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SyncPoint {
    /// The reading of the clock to be fitted.
    pub ticks: Ticks,
    /// The reading of the reference clock.
    pub at: Ns,
}

/// The direction in which the reference clock's stamps of sync points err.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delay {
    /// Never early, sometimes late, such as a message stamped on arrival. The fit then runs *under* the points, along
    /// the ones that were not delayed.
    Late,
    /// As often early as late.
    Even,
}

/// Maps ticks to time, piecewise linear.
#[derive(Clone, Debug, PartialEq)]
pub struct Clock {
    /// Such as `tsc` or `printk`.
    pub name: String,
    /// Ticks per second, over the clock's whole length.
    pub hz: f64,
    /// The median distance of the sync points from the fit.
    pub residual: Ns,
    /// The source of the rate.
    pub rate_from: RateSource,
    /// Sorted by ticks; there is at least one. Each maps the ticks from its own tick on. The first one also maps the
    /// ticks before it.
    segments: Vec<Segment>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Segment {
    ticks: Ticks,
    at: Ns,
    ns_per_tick: f64,
}

impl Segment {
    fn to_ns(self, ticks: Ticks) -> Ns {
        // The difference fits 53 bits for months of any counter, so the product is exact enough.
        #[expect(clippy::cast_possible_wrap, reason = "what is before is negative: that is the wrap")]
        let distance = ticks.0.wrapping_sub(self.ticks.0) as i64;
        self.at + Ns::rounded(distance as f64 * self.ns_per_tick)
    }
}

impl Clock {
    /// True if a counter can run at this rate. Those that log boots run at 32 kHz at least, at some GHz at most.
    pub fn can_run_at(hz: f64) -> bool {
        (1e3..=1e11).contains(&hz)
    }

    /// A clock that runs at `hz` and showed `ticks` at time `at`.
    pub fn linear(name: &str, hz: f64, ticks: Ticks, at: Ns, rate_from: RateSource) -> Clock {
        Clock {
            name: name.to_owned(),
            hz,
            residual: Ns::ZERO,
            rate_from,
            segments: vec![Segment { ticks, at, ns_per_tick: 1e9 / hz }],
        }
    }

    /// The same clock, under the name that other evidence uses.
    #[must_use]
    pub fn renamed(&self, name: &str) -> Clock {
        Clock { name: name.to_owned(), ..self.clone() }
    }

    /// The number of stretches with different rates.
    pub fn pieces(&self) -> usize {
        self.segments.len()
    }

    /// Time at `ticks`.
    #[inline]
    pub fn to_ns(&self, ticks: Ticks) -> Ns {
        if let [only] = self.segments[..] {
            return only.to_ns(ticks);
        }
        let after = self.segments.partition_point(|s| s.ticks <= ticks);
        self.segments[after.saturating_sub(1)].to_ns(ticks)
    }

    /// The largest error of the time at `ticks`, if the clock runs at `hz` but lost ticks somewhere in the stretch
    /// around it. Zero before the first point and after the last one: no loss is known there.
    pub fn lost_around(&self, ticks: Ticks, hz: f64) -> Ns {
        let after = self.segments.partition_point(|s| s.ticks <= ticks);
        let around = after.checked_sub(1).and_then(|from| Some((self.segments.get(from)?, self.segments.get(after)?)));
        around.map_or(Ns::ZERO, |(from, to)| {
            let counted = Ns::rounded((to.ticks.0 - from.ticks.0) as f64 * 1e9 / hz);
            (to.at - from.at - counted).abs()
        })
    }

    /// Fits the offset of a clock of known rate to sync points. Returns `None` without points.
    pub fn fit_offset(name: &str, hz: f64, points: &[SyncPoint], delay: Delay, rate_from: RateSource) -> Option<Clock> {
        let first = *points.first()?;
        let mut clock = Clock::linear(name, hz, first.ticks, first.at, rate_from);
        let residuals = points.iter().map(|p| (p.at - clock.to_ns(p.ticks)).0);
        let shift = match delay {
            Delay::Late => Ns(residuals.min()?),
            Delay::Even => Ns::rounded(residuals.map(|r| r as f64).sum::<f64>() / points.len() as f64),
        };
        clock.segments[0].at += shift;
        clock.residual = clock.median_residual(points);
        Some(clock)
    }

    /// Fits rate and offset to sync points. Returns `None` with fewer than two different ticks, or if time would not go
    /// forward.
    ///
    /// With [`Delay::Late`] the line is the edge of the points' lower convex hull that spans their mean tick. Among all
    /// lines with no point below them, this one has the least summed distance to the points (Moon, Skelly, Towsley:
    /// Estimation and removal of clock skew, INFOCOM 1999). With [`Delay::Even`] it is the least-squares line.
    /// `O(n log n)`.
    pub fn fit(name: &str, points: &[SyncPoint], delay: Delay) -> Option<Clock> {
        let mut points = points.to_vec();
        points.sort_by_key(|p| (p.ticks, p.at));
        let (first, last) = (*points.first()?, *points.last()?);
        if first.ticks == last.ticks {
            return None;
        }
        let ns_per_tick = match delay {
            Delay::Late => lower_edge_slope(&points),
            Delay::Even => least_squares_slope(&points),
        };
        (ns_per_tick > 0.0).then_some(())?;
        Clock::fit_offset(name, 1e9 / ns_per_tick, &points, delay, RateSource::SyncPoints)
    }

    /// Returns a clock that goes through every sync point. It suits two clocks that are often seen together and whose
    /// rates may change. Points that step back on either clock are left out. Returns `None` with fewer than two
    /// different ticks.
    ///
    /// `hz` is the rate of the longest stretch, which suffers least from jitter. It also holds outside the points. The
    /// residual is the median distance of a point from the line between its neighbours.
    pub fn through(name: &str, points: &[SyncPoint]) -> Option<Clock> {
        let mut points = points.to_vec();
        points.sort_by_key(|p| (p.ticks, p.at));
        points.dedup_by(|next, kept| next.ticks == kept.ticks || next.at <= kept.at);
        let (first, last) = (*points.first()?, *points.last()?);
        let segment = |a: SyncPoint, b: SyncPoint| Segment {
            ticks: a.ticks,
            at: a.at,
            ns_per_tick: (b.at - a.at).0 as f64 / (b.ticks.0 - a.ticks.0) as f64,
        };
        let between: Vec<Segment> = points.windows(2).map(|w| segment(w[0], w[1])).collect();
        let longest = points.windows(2).max_by_key(|w| w[1].ticks.0 - w[0].ticks.0)?;
        let outside = segment(longest[0], longest[1]).ns_per_tick;
        let mut residuals: Vec<Ns> =
            points.windows(3).map(|w| (segment(w[0], w[2]).to_ns(w[1].ticks) - w[1].at).abs()).collect();
        residuals.sort();

        let before = Segment { ticks: first.ticks, at: first.at, ns_per_tick: outside };
        let mut segments = vec![Segment { ticks: Ticks(0), at: before.to_ns(Ticks(0)), ns_per_tick: outside }];
        segments.extend(between);
        segments.push(Segment { ticks: last.ticks, at: last.at, ns_per_tick: outside });
        Some(Clock {
            name: name.to_owned(),
            hz: 1e9 / outside,
            residual: residuals.get(residuals.len() / 2).copied().unwrap_or_default(),
            rate_from: RateSource::CommonEvents,
            segments,
        })
    }

    /// The median distance of points from this clock.
    fn median_residual(&self, points: &[SyncPoint]) -> Ns {
        let mut residuals: Vec<Ns> = points.iter().map(|p| (p.at - self.to_ns(p.ticks)).abs()).collect();
        residuals.sort();
        residuals.get(residuals.len() / 2).copied().unwrap_or_default()
    }
}

/// Points relative to the first one, as floating point. `points` must not be empty.
fn relative(points: &[SyncPoint]) -> Vec<(f64, f64)> {
    let zero = points[0];
    points.iter().map(|p| ((p.ticks.0 - zero.ticks.0) as f64, (p.at - zero.at).0 as f64)).collect()
}

/// The slope of the lower convex hull over the mean abscissa. The points must be sorted by ticks, and two of them must
/// differ.
fn lower_edge_slope(points: &[SyncPoint]) -> f64 {
    let points = relative(points);
    let mean = points.iter().map(|p| p.0).sum::<f64>() / points.len() as f64;
    let mut hull: Vec<(f64, f64)> = Vec::new();
    for p in points {
        // If several points share an abscissa, only the lowest counts, and it comes first.
        if hull.last().is_some_and(|q| q.0 == p.0) {
            continue;
        }
        while let [.., a, b] = hull[..] {
            let turns_left = (b.0 - a.0) * (p.1 - a.1) - (b.1 - a.1) * (p.0 - a.0) > 0.0;
            if turns_left {
                break;
            }
            hull.pop();
        }
        hull.push(p);
    }
    let edge = hull.windows(2).find(|w| mean <= w[1].0).unwrap_or(&hull[hull.len() - 2..]);
    (edge[1].1 - edge[0].1) / (edge[1].0 - edge[0].0)
}

/// The slope of the least-squares line. There must be two different ticks.
fn least_squares_slope(points: &[SyncPoint]) -> f64 {
    let points = relative(points);
    let n = points.len() as f64;
    let (mean_x, mean_y) = points.iter().fold((0.0, 0.0), |m, p| (m.0 + p.0 / n, m.1 + p.1 / n));
    let (xy, xx) = points.iter().fold((0.0, 0.0), |s, p| {
        let dx = p.0 - mean_x;
        (s.0 + dx * (p.1 - mean_y), s.1 + dx * dx)
    });
    xy / xx
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(ticks: u64, at: i64) -> SyncPoint {
        SyncPoint { ticks: Ticks(ticks), at: Ns(at) }
    }

    #[test]
    fn late_arrivals_do_not_pull_the_fit() {
        // 2 GHz from tick 1000 at 5000 ns; most arrivals are late, by up to 40 µs.
        let late = [7_000, 0, 40_000, 12_000, 900, 0, 33_000, 5_000];
        let points: Vec<_> = late
            .iter()
            .zip(0_u32..)
            .map(|(l, i)| point(1_000 + u64::from(i) * 2_000_000, 5_000 + i64::from(i) * 1_000_000 + l))
            .collect();
        let clock = Clock::fit("tsc", &points, Delay::Late).unwrap();
        assert!((clock.hz - 2e9).abs() < 1.0, "{}", clock.hz);
        assert_eq!(clock.to_ns(Ticks(1_000)), Ns(5_000));
        assert!(clock.residual > Ns(900) && clock.residual <= Ns(7_000), "{:?}", clock.residual);
        let offset = Clock::fit_offset("tsc", 2e9, &points, Delay::Late, RateSource::User).unwrap();
        assert_eq!(offset.to_ns(Ticks(1_000)), Ns(5_000));
    }

    #[test]
    fn ticks_lost_anywhere_in_a_stretch() {
        let clock =
            Clock::through("printk", &[point(100, 100), point(200, 300), point(300, 400), point(400, 500)]).unwrap();
        let lost = [100, 150, 199, 200, 399, 400, 1_000].map(|ticks| clock.lost_around(Ticks(ticks), 1e9).0);
        assert_eq!(lost, [100, 100, 100, 0, 0, 0, 0]);
        assert_eq!(
            Clock::linear("tsc", 2e9, Ticks(0), Ns::ZERO, RateSource::User).lost_around(Ticks(5), 1e9),
            Ns::ZERO
        );
    }

    #[test]
    fn even_errors_are_averaged() {
        let points: Vec<_> = (0..100_u32)
            .map(|i| point(u64::from(i) * 1000, i64::from(i) * 1000 + if i % 2 == 0 { 50 } else { -50 }))
            .collect();
        let clock = Clock::fit("printk", &points, Delay::Even).unwrap();
        assert!((clock.hz - 1e9).abs() / 1e9 < 1e-3);
        assert!((clock.residual - Ns(50)).abs() <= Ns(2), "{}", clock.residual);
    }

    #[test]
    fn a_clock_through_its_points_bends() {
        let clock = Clock::through("printk", &[point(100, 1_000), point(200, 1_200), point(300, 1_800), point(300, 9)])
            .unwrap();
        assert_eq!(clock.to_ns(Ticks(150)), Ns(1_100));
        assert_eq!(clock.to_ns(Ticks(250)), Ns(1_500));
        assert_eq!(clock.to_ns(Ticks(400)), Ns(2_400));
        assert_eq!(clock.to_ns(Ticks(50)), Ns(700));
        assert_eq!(clock.residual, Ns(200));
    }

    #[test]
    fn what_cannot_be_fitted_is_refused() {
        assert_eq!(Clock::fit("x", &[], Delay::Late), None);
        assert_eq!(Clock::fit("x", &[point(5, 1), point(5, 2)], Delay::Even), None);
        assert_eq!(Clock::fit("x", &[point(5, 9), point(6, 2)], Delay::Even), None);
        assert_eq!(Clock::through("x", &[point(5, 9)]), None);
    }
}
