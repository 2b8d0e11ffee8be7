//! p-values of many rows of the same boots, corrected jointly: the probability that by chance any row differs as much.
//!
//! The method is Westfall and Young's single-step maxT ("Resampling-Based Multiple Testing", Wiley 1993, 2.3). If the change had
//! no effect, the random order alone decided which boot of a pair belongs to which variant. So the two boots of each pair are
//! exchanged, with all their rows, in every possible combination (a *relabelling*). Each relabelling gives the largest
//! statistic over all rows. The corrected p of a row is the share of relabellings in which that is at least the row's actual
//! statistic. The chance of any false alarm stays at its rate. Correlated rows cost no power: ten pairs can show one row among
//! hundreds, which Holm's correction never could.
//!
//! The statistic of pairs is `|Σ d| / √(Σ d²)`. For independent boots it is the difference of the means over the root of all
//! squares about their common mean. Both are monotone in Student's t, and the denominator is the same for all relabellings.
//! With many boots, [`DRAWN`] relabellings are drawn at random. They are seeded, so the same runs give the same answer.

use super::{CONFIDENCE, sorted};
use std::collections::BTreeMap;

/// Number of relabellings that are drawn if there are more.
const DRAWN: usize = 4096;
/// Tolerance within which statistics count as equal, because of rounding.
const ROUNDING: f64 = 1e-9;

/// Corrected p-values of rows. Each row has a difference for each pair.
pub fn pairs(rows: &[Vec<f64>]) -> Vec<f64> {
    let n = rows.first().map_or(0, Vec::len);
    let rows: Vec<Vec<f64>> = rows.iter().map(|row| scaled(row, 0.0)).collect();
    // Changing all signs together does not change a statistic, so the first pair keeps its sign.
    let signs = u32::try_from(n.saturating_sub(1)).unwrap_or(u32::MAX);
    let all = 1_usize.checked_shl(signs).filter(|&all| all <= DRAWN);
    let relabellings: Vec<Vec<f64>> = match all {
        Some(all) => (0..all).map(|bits| (0..n).map(|i| sign((bits << 1 >> i) & 1 == 0)).collect()).collect(),
        None => drawn(vec![1.0; n], |random, signs| signs.fill_with(|| sign(random.bool()))),
    };
    shares(&rows, &relabellings)
}

/// Corrected p-values of rows. Each row has the values of all boots, of which the first `first` belong to the first variant.
pub fn groups(rows: &[Vec<f64>], first: usize) -> Vec<f64> {
    let n = rows.first().map_or(0, Vec::len);
    if first == 0 || first >= n {
        return vec![1.0; rows.len()];
    }
    let about_mean = |row: &Vec<f64>| scaled(row, row.iter().sum::<f64>() / n as f64);
    let rows: Vec<Vec<f64>> = rows.iter().map(about_mean).collect();
    let actual: Vec<f64> = (0..n).map(|i| sign(i < first)).collect();
    let relabellings = every_choice(n, first).unwrap_or_else(|| drawn(actual, |random, signs| random.shuffle(signs)));
    // A row's signed sum is the difference of its means, up to a factor that all relabellings share.
    shares(&rows, &relabellings)
}

/// Corrected p-values of rows that may grow with a size. `boots` has the size and the block of each of a row's values.
///
/// If the size had no effect, any order of the sizes among the boots of one block was equally likely. A block is a round, so
/// drift from round to round does not count as growth. The statistic is the correlation with the size. Returns `None` if there
/// are too few boots for even a single row to be significant.
pub fn growth(rows: &[Vec<f64>], boots: &[(f64, u32)]) -> Option<Vec<f64>> {
    if 1.0 / orders(boots) > 1.0 - CONFIDENCE {
        return None;
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let about_mean = |values: &[f64]| scaled(values, mean(values));
    let rows: Vec<Vec<f64>> = rows.iter().map(|row| about_mean(row)).collect();
    let sizes = about_mean(&boots.iter().map(|boot| boot.0).collect::<Vec<f64>>());
    let mut blocks: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    boots.iter().enumerate().for_each(|(i, boot)| blocks.entry(boot.1).or_default().push(i));
    let relabellings = drawn(sizes, |random, sizes| {
        for block in blocks.values() {
            let mut shuffled: Vec<f64> = block.iter().map(|&i| sizes[i]).collect();
            random.shuffle(&mut shuffled);
            block.iter().zip(shuffled).for_each(|(&i, size)| sizes[i] = size);
        }
    });
    Some(shares(&rows, &relabellings))
}

/// Number of distinguishable orders of the sizes within the blocks. With only two sizes, an order and its mirror image have the
/// same statistic and count as one.
fn orders(boots: &[(f64, u32)]) -> f64 {
    let mut left: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    boots.iter().for_each(|boot| left.entry(boot.1).or_default().push(boot.0));
    let mut orders = 1.0;
    for sizes in left.values() {
        // Multiply up the multinomial coefficient boot by boot: boots so far ÷ boots so far of this size.
        for (i, size) in sizes.iter().enumerate() {
            let alike = sizes[..=i].iter().filter(|&other| other == size).count();
            orders *= (i + 1) as f64 / alike as f64;
        }
    }
    let other = |boot: &&(f64, u32)| boot.0 != boots[0].0;
    let second = boots.iter().find(other).map(|boot| boot.0);
    let two = boots.iter().filter(other).all(|boot| Some(boot.0) == second);
    if two { orders / 2.0 } else { orders }
}

fn sign(positive: bool) -> f64 {
    if positive { 1.0 } else { -1.0 }
}

/// The values minus a centre, scaled to a sum of squares of 1. All are 0 if all values are equal.
fn scaled(values: &[f64], centre: f64) -> Vec<f64> {
    let root = values.iter().map(|v| (v - centre).powi(2)).sum::<f64>().sqrt();
    // The differences of equal values are rounding errors, which would look like a perfect statistic.
    let equal = root <= centre.abs() * ROUNDING;
    values.iter().map(|v| if equal { 0.0 } else { (v - centre) / root }).collect()
}

/// The actual labels, followed by relabellings drawn at random.
fn drawn(actual: Vec<f64>, mut draw: impl FnMut(&mut fastrand::Rng, &mut Vec<f64>)) -> Vec<Vec<f64>> {
    let mut random = fastrand::Rng::with_seed(0x6d61_7854);
    let mut relabellings = vec![actual];
    for _ in 1..DRAWN {
        let mut labels = relabellings[0].clone();
        draw(&mut random, &mut labels);
        relabellings.push(labels);
    }
    relabellings
}

/// Every choice of `first` of `n`, as signs; the choice of the first `first` comes first. `None` if there are more than [`DRAWN`].
fn every_choice(n: usize, first: usize) -> Option<Vec<Vec<f64>>> {
    let mut all: Vec<Vec<f64>> = vec![Vec::with_capacity(n)];
    for i in 0..n {
        let mut longer = Vec::with_capacity(2 * all.len());
        for choice in all {
            let taken = choice.iter().filter(|&&s| s > 0.0).count();
            for (positive, allowed) in [(true, taken < first), (false, i - taken < n - first)] {
                if allowed {
                    longer.push(choice.iter().copied().chain([sign(positive)]).collect());
                }
            }
        }
        if longer.len() > DRAWN {
            return None;
        }
        all = longer;
    }
    Some(all)
}

/// For each row, the share of relabellings in which any row's statistic is at least this row's statistic with the actual
/// labels (`relabellings[0]`).
fn shares(rows: &[Vec<f64>], relabellings: &[Vec<f64>]) -> Vec<f64> {
    let statistic = |row: &[f64], labels: &[f64]| row.iter().zip(labels).map(|(v, s)| v * s).sum::<f64>().abs();
    let largest = |labels: &Vec<f64>| rows.iter().map(|row| statistic(row, labels)).fold(0.0, f64::max);
    let largest = sorted(&relabellings.iter().map(largest).collect::<Vec<f64>>());
    let share = |row: &Vec<f64>| {
        let actual = statistic(row, &relabellings[0]);
        let as_large = largest.len() - largest.partition_point(|&l| l < actual - ROUNDING);
        as_large as f64 / largest.len() as f64
    };
    rows.iter().map(share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of noise that share a part, as with noise of a host.
    fn noise(random: &mut fastrand::Rng, rows: usize, n: usize) -> Vec<Vec<f64>> {
        let mut normal = || (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
        let common: Vec<f64> = (0..n).map(|_| normal()).collect();
        (0..rows).map(|_| common.iter().map(|c| 0.5 * c + normal()).collect()).collect()
    }

    #[test]
    fn a_single_row_needs_no_correction() {
        // Two of the 2^4 relabellings give as much: the actual one, and the one with all signs changed.
        assert_eq!(pairs(&[vec![1.0, 2.0, 3.0, 4.0]]), [2.0 / 16.0]);
        assert_eq!(pairs(&[vec![0.0; 4]]), [1.0]);
        // Two of the 20 choices of three of six are as far apart.
        assert_eq!(groups(&[vec![1.0, 2.0, 3.0, 7.0, 8.0, 9.0]], 3), [2.0 / 20.0]);
        assert_eq!(groups(&[vec![5.1; 6]], 3), [1.0]);
        assert!(pairs(&[]).is_empty() && groups(&[], 0).is_empty());
    }

    #[test]
    fn a_row_among_hundreds_is_found() {
        let mut random = fastrand::Rng::with_seed(31);
        let mut rows = noise(&mut random, 300, 10);
        rows[7] = (0..10).map(|i| 5.0 + 0.1 * f64::from(i)).collect();
        let p = pairs(&rows);
        assert!(p[7] < 0.01, "{}", p[7]);
        assert!(p.iter().enumerate().all(|(i, &p)| i == 7 || p > 0.05), "{p:?}");
        rows[7] = (0..10).map(|i| f64::from(u8::from(i >= 5)) + 0.001 * f64::from(i)).collect();
        assert!(groups(&rows, 5)[7] < 0.02);
    }

    /// Boots of a sweep: `rounds` rounds of these sizes.
    fn swept(sizes: &[f64], rounds: u32) -> Vec<(f64, u32)> {
        (0..rounds).flat_map(|round| sizes.iter().map(move |&size| (size, round))).collect()
    }

    #[test]
    fn growth_among_many_rows_is_as_rare_as_stated_and_found_where_it_is() {
        let mut random = fastrand::Rng::with_seed(33);
        let boots = swept(&[1.0, 2.0, 4.0, 8.0], 5);
        let (trials, mut alarms, mut found) = (100, 0, 0);
        for _ in 0..trials {
            let mut rows = noise(&mut random, 20, boots.len());
            alarms += usize::from(growth(&rows, &boots).unwrap().iter().any(|&p| p <= 0.05));
            rows[3].iter_mut().zip(&boots).for_each(|(v, boot)| *v += boot.0);
            let p = growth(&rows, &boots).unwrap();
            found += usize::from(p[3] <= 0.05);
        }
        let rate = alarms as f64 / f64::from(trials);
        // Three standard errors. Without the correction, there would be a false alarm in six of ten trials.
        assert!((rate - 0.05).abs() < 0.065, "{rate}");
        assert!(found > 95, "{found}");
    }

    #[test]
    fn drift_from_round_to_round_is_not_growth() {
        let mut random = fastrand::Rng::with_seed(34);
        // The second round has the larger sizes only.
        let boots =
            [swept(&[1.0, 2.0, 4.0], 1), vec![(4.0, 1), (8.0, 1), (8.0, 1)], swept(&[1.0, 2.0, 4.0], 1)].concat();
        let drift: Vec<f64> = boots.iter().map(|boot| 100.0 * f64::from(boot.1) + random.f64()).collect();
        assert!(growth(&[drift], &boots).unwrap()[0] > 0.05);
    }

    #[test]
    fn too_few_boots_of_a_sweep_have_no_result() {
        let row = |n: usize| vec![(0..n).map(|i| i as f64).collect::<Vec<f64>>()];
        for (sizes, rounds, enough) in [(2, 5, false), (2, 6, true), (3, 1, false), (3, 2, true), (4, 1, true)] {
            let sizes: Vec<f64> = (1..=sizes).map(f64::from).collect();
            let boots = swept(&sizes, rounds);
            assert_eq!(growth(&row(boots.len()), &boots).is_some(), enough, "{boots:?}");
        }
        // In one block, five boots of each of two sizes are enough.
        let boots: Vec<(f64, u32)> = swept(&[1.0, 2.0], 5).iter().map(|boot| (boot.0, 0)).collect();
        assert!(growth(&row(10), &boots).is_some());
    }

    #[test]
    fn any_false_alarm_is_as_rare_as_stated() {
        let mut random = fastrand::Rng::with_seed(32);
        for n in [8, 20] {
            let trials = 400;
            let rate = |alarm: &dyn Fn(&[Vec<f64>]) -> Vec<f64>, random: &mut fastrand::Rng| {
                let alarms = (0..trials).filter(|_| alarm(&noise(random, 20, n)).iter().any(|&p| p <= 0.05));
                alarms.count() as f64 / f64::from(trials)
            };
            let of_pairs = rate(&|rows| pairs(rows), &mut random);
            let of_groups = rate(&|rows| groups(rows, n / 2), &mut random);
            // Three standard errors.
            assert!((of_pairs - 0.05).abs() < 0.033, "{n}: {of_pairs}");
            assert!((of_groups - 0.05).abs() < 0.033, "{n}: {of_groups}");
        }
    }
}
