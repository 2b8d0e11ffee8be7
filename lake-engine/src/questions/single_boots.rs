//! Makes the times of single boots in one row on one kind of machine comparable: subtracts the level of each machine, and limits
//! outliers. It neither reads the lake nor decides about regressions; [`super::regressions`] does both.
//!
//! An update reaches some machines first. If these are slower than the others, the days on which both kernels run look like a
//! regression. So a boot counts with its difference from the level of its machine (a fixed effect of the machine). A level is
//! known only for machines that were present most of the time and had several kernels. For others, it cannot be separated from
//! the changes while they were present.
//!
//! A disturbed boot can raise the mean of a day. So times far from the median of their week and kernel are clamped (winsorized:
//! Tukey, "The future of data analysis", Annals of Mathematical Statistics 33, 1962).

use statistics::outliers::OF_MAD;
use statistics::quantile::median;
use statistics::sorted;
use std::collections::HashMap;

/// Minimum number of boots from which the level of a machine is known.
const MIN_BOOTS: usize = 10;
/// Number of iterations that separate the levels of machines and kernels. The result is exact to a thousandth if an update takes
/// a few days to reach all machines.
const ITERATIONS: usize = 10;
/// Maximum distance of a value from the median of its week and kernel, in standard deviations.
const FAR: f64 = 4.0;
const WEEK_DAYS: u32 = 7;

/// A boot's time in the row.
#[derive(Clone, Copy)]
pub struct Boot {
    /// The boot's machine. `None` if unknown.
    pub machine: Option<u32>,
    /// Time in the row. 0 if the boot does not have the row.
    pub ns: f64,
}

/// Boots by day and kernel.
pub type Boots = HashMap<(u32, u32), Vec<Boot>>;

/// Subtracts the level of each machine. Estimates the levels of kernels and of machines alternately, each from the residuals of
/// the other. Linear in the number of boots. `days` has the position in time of each day.
pub fn take_off_machines(boots: &mut Boots, days: &[u32]) {
    let known = known_machines(boots, days);
    let own = |boot: &Boot| boot.machine.filter(|machine| known.contains_key(machine));
    let (mut kernels, mut machines) = (HashMap::new(), HashMap::<u32, f64>::new());
    for _ in 0..ITERATIONS {
        let each = || boots.iter().flat_map(|(&(_, kernel), of_cell)| of_cell.iter().map(move |boot| (kernel, boot)));
        let owned = || each().filter_map(|(kernel, boot)| own(boot).map(|machine| (kernel, machine, boot.ns)));
        let of_machine = |machine: u32| machines.get(&machine).copied().unwrap_or(0.0);
        kernels = means(owned().map(|(kernel, machine, ns)| (kernel, ns - of_machine(machine))));
        machines = means(owned().map(|(kernel, machine, ns)| (machine, ns - kernels[&kernel])));
    }
    for (&(_, kernel), of_cell) in boots.iter_mut() {
        for boot in of_cell {
            if let Some(machine) = own(boot) {
                // The level is estimated from the same boots, so they scatter less about it. Correct for that.
                let boots = known[&machine] as f64;
                let wider = (boots / (boots - 1.0)).sqrt();
                let level = kernels[&kernel];
                boot.ns = level + (boot.ns - level - machines[&machine]) * wider;
            }
        }
    }
}

/// The machines whose level can be estimated, with their numbers of boots.
fn known_machines(boots: &Boots, days: &[u32]) -> HashMap<u32, usize> {
    struct Seen {
        boots: usize,
        first: (u32, u32),
        last: u32,
        has_several: bool,
    }
    let mut seen: HashMap<u32, Seen> = HashMap::new();
    for (&(day, kernel), of_cell) in boots {
        let day = days[day as usize];
        for machine in of_cell.iter().filter_map(|boot| boot.machine) {
            let of =
                seen.entry(machine).or_insert(Seen { boots: 0, first: (day, kernel), last: day, has_several: false });
            of.boots += 1;
            of.has_several |= of.first.1 != kernel;
            of.first.0 = of.first.0.min(day);
            of.last = of.last.max(day);
        }
    }
    let all = boots.keys().map(|&(day, _)| days[day as usize]);
    let long = all.clone().max().unwrap_or(0) - all.min().unwrap_or(0);
    let is_known = |of: &Seen| of.boots >= MIN_BOOTS && of.has_several && 2 * (of.last - of.first.0) >= long;
    seen.into_iter().filter(|(_, of)| is_known(of)).map(|(machine, of)| (machine, of.boots)).collect()
}

/// Mean of the values of each key.
fn means(values: impl Iterator<Item = (u32, f64)>) -> HashMap<u32, f64> {
    let mut sums: HashMap<u32, (f64, f64)> = HashMap::new();
    for (key, value) in values {
        let sum = sums.entry(key).or_default();
        sum.0 += value;
        sum.1 += 1.0;
    }
    sums.into_iter().map(|(key, (sum, count))| (key, sum / count)).collect()
}

/// Clamps times that are far from the median of their week and kernel. Returns how many. `days` has the position in time of each
/// day.
pub fn draw_nearer(boots: &mut Boots, days: &[u32]) -> u64 {
    let week = |day: u32| days[day as usize] / WEEK_DAYS;
    let mut weeks: HashMap<(u32, u32), Vec<f64>> = HashMap::new();
    for (&(day, kernel), of_cell) in &*boots {
        weeks.entry((week(day), kernel)).or_default().extend(of_cell.iter().map(|boot| boot.ns));
    }
    let middles: HashMap<(u32, u32), f64> = weeks.into_iter().map(|(key, ns)| (key, median(&sorted(&ns)))).collect();
    let middle = |day: u32, kernel: u32| middles[&(week(day), kernel)];
    let off = boots.iter().flat_map(|(&(day, kernel), of_cell)| {
        let middle = middle(day, kernel);
        of_cell.iter().map(move |boot| (boot.ns - middle).abs())
    });
    let far = FAR * OF_MAD * median(&sorted(&off.collect::<Vec<f64>>()));
    if far <= 0.0 {
        // Most boots are equal to the nanosecond, so there is no scale for distances.
        return 0;
    }
    let mut count = 0;
    for (&(day, kernel), of_cell) in boots.iter_mut() {
        let middle = middle(day, kernel);
        for boot in of_cell.iter_mut().filter(|boot| (boot.ns - middle).abs() > far) {
            boot.ns = boot.ns.clamp(middle - far, middle + far);
            count += 1;
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAYS: [u32; 20] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19];

    /// Machine 1 takes twice as long as machine 0. It gets kernel 1 five days earlier, on day 5. With that kernel both take longer.
    fn one_is_first(slower: f64) -> Boots {
        let mut boots = Boots::new();
        for day in 0..20_u32 {
            for machine in 0..2_u32 {
                let kernel = u32::from(day >= if machine == 1 { 5 } else { 10 });
                let ns = f64::from(100 * (machine + 1)) + f64::from(day % 3) + if kernel == 1 { slower } else { 0.0 };
                boots.entry((day, kernel)).or_default().push(Boot { machine: Some(machine), ns });
            }
        }
        boots
    }

    fn mean_of(boots: &Boots, is_of: impl Fn(u32, u32) -> bool) -> f64 {
        let of = boots.iter().filter(|((day, kernel), _)| is_of(*day, *kernel)).flat_map(|(_, boots)| boots);
        means(of.map(|boot| (0, boot.ns)))[&0]
    }

    #[test]
    fn a_slow_machine_that_is_first_is_no_regression() {
        let mut boots = one_is_first(0.0);
        let apart = |boots: &Boots| {
            mean_of(boots, |day, kernel| day == 6 && kernel == 1)
                - mean_of(boots, |day, kernel| day == 6 && kernel == 0)
        };
        assert!(apart(&boots) > 99.0);
        take_off_machines(&mut boots, &DAYS);
        assert!(apart(&boots).abs() < 1.0, "{}", apart(&boots));
    }

    #[test]
    fn what_a_kernel_does_stays() {
        let mut boots = one_is_first(50.0);
        take_off_machines(&mut boots, &DAYS);
        let slower = mean_of(&boots, |_, kernel| kernel == 1) - mean_of(&boots, |_, kernel| kernel == 0);
        assert!((slower - 50.0).abs() < 1.0, "{slower}");
    }

    /// Each half has another machine, and there is a change in the middle that no kernel caused.
    #[test]
    fn what_changed_while_a_machine_was_there_is_not_its_own() {
        let mut boots = Boots::new();
        for day in 0..20_u32 {
            let (machine, ns) = if day < 10 { (0, 100.0) } else { (1, 110.0) };
            boots.insert((day, day % 2), vec![Boot { machine: Some(machine), ns }; 2]);
        }
        boots.insert((0, 1), vec![Boot { machine: Some(2), ns: 5.0 }; 12]);
        take_off_machines(&mut boots, &DAYS);
        assert!((boots[&(15, 1)][0].ns - boots[&(5, 1)][0].ns - 10.0).abs() < 1e-9);
        assert!((boots[&(0, 1)][0].ns - 5.0).abs() < 1e-9, "one kernel");
    }

    #[test]
    fn boots_of_nobody_and_of_machines_with_few_stay() {
        let mut boots = Boots::new();
        for day in 0..9 {
            let one = |machine, ns| Boot { machine, ns };
            boots.insert((day, 0), vec![one(None, f64::from(day)), one(Some(7), 5.0 + f64::from(day))]);
        }
        take_off_machines(&mut boots, &DAYS);
        assert!(
            (0..9)
                .all(|day| boots[&(day, 0)][0].ns == f64::from(day) && boots[&(day, 0)][1].ns == 5.0 + f64::from(day))
        );
    }

    #[test]
    fn a_disturbed_boot_is_drawn_nearer_and_counted() {
        let days: Vec<u32> = (0..14).collect();
        let boot = |ns| Boot { machine: None, ns };
        let mut boots: Boots =
            (0..14).map(|day| ((day, 0), (0..10).map(|i| boot(100.0 + f64::from(i))).collect())).collect();
        boots.get_mut(&(3, 0)).unwrap()[0].ns = 1000.0;
        assert_eq!(draw_nearer(&mut boots, &days), 1);
        let ns = boots[&(3, 0)][0].ns;
        assert!(ns > 109.0 && ns < 130.0, "{ns}");
        let mut same: Boots = (0..14).map(|day| ((day, 0), vec![boot(7.0); 3])).collect();
        same.get_mut(&(3, 0)).unwrap()[0].ns = 9.0;
        assert_eq!(draw_nearer(&mut same, &days), 0, "nothing says what is far");
    }
}
