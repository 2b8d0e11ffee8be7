//! Changes with their sign, as text.

use crate::Layout;
use crate::text::{places, two_digits};
use timeline::{Cost, Ns};

/// A relative change with its sign. Its digits depend on the noise; there are two if the noise is unknown.
pub(super) fn signed_percent(share: f64, noise: Option<f64>) -> String {
    const MAX_DECIMALS: f64 = 3.0;
    let sign = if share < 0.0 { "−" } else { "+" };
    let decimals = match noise {
        None => return format!("{sign}{}", two_digits(share.abs())),
        Some(noise) if noise > 0.0 => (-(noise * 100.0).log10().floor()).clamp(0.0, MAX_DECIMALS),
        Some(_) => MAX_DECIMALS,
    };
    format!("{sign}{:.*} %", places(decimals), share.abs() * 100.0)
}

/// A change of a length, with its sign.
pub(crate) fn signed(ns: i64, layout: Layout) -> String {
    match ns {
        0 => "0".to_owned(),
        1.. => format!("+{}", layout.time(ns)),
        _ => format!("−{}", layout.time(ns.saturating_neg())),
    }
}

/// A change of a length in its parts, each with its sign.
pub(super) fn signed_cost(change: Cost, layout: Layout) -> String {
    let busy = signed(change.instructions().0, layout);
    match signed_waits(change) {
        waits if waits.is_empty() => busy,
        waits => format!("{busy}, {waits} timed waits"),
    }
}

/// The change of timed waits, with its sign; empty if nothing changed.
pub(super) fn signed_waits(change: Cost) -> String {
    match change.waited {
        Ns::ZERO => String::new(),
        Ns(1..) => format!("+{}", change.waited),
        _ => format!("−{}", -change.waited),
    }
}
