//! illumos bug 12262 on the host, counted as in the report: `vk_lookup` of `heap_arena` while a card is stopped.
//! The tests run it at a sixteenth of its size, `cargo bench -p vmem` at full size. By hand at full size, some minutes:
//! `VMEM_RINGS=256 cargo test --release -p vmem --test illumos -- --nocapture`

mod load;

use load::{BUFFERS, Counted, PUBLISHED, Update, start_and_stop};

fn rings() -> u32 {
    std::env::var("VMEM_RINGS").map_or(16, |text| text.parse().expect("a number"))
}

/// The published numbers of steps, late and early, scaled to `rings` of 256 rings. Late steps grow with the square of the
/// number of rings, early steps in proportion to it.
fn expected(rings: u32) -> (f64, f64) {
    let part = f64::from(rings) / 256.0;
    (PUBLISHED.0 as f64 * part * part, PUBLISHED.1 as f64 * part)
}

#[test]
fn late_takes_as_many_steps_as_published() {
    let rings = rings();
    let late = start_and_stop(rings, Update::Late);
    let ratio = late.steps as f64 / expected(rings).0;
    println!("{rings} rings, late: {late:?}, {ratio:.4} of what was published");
    assert!((0.99..1.01).contains(&ratio) && late.buckets == 16, "{late:?} {ratio}");
    // A single early call finds an empty arena, and changes nothing.
    assert_eq!(start_and_stop(rings.min(16), Update::Once), start_and_stop(rings.min(16), Update::Late));
}

/// Runs with all rings, because the table's load and the point where it wraps around depend on the size.
#[test]
fn early_takes_as_many_steps_as_published_if_updates_run_so_often() {
    let early = start_and_stop(256, Update::Every(50_000));
    let ratio = early.steps as f64 / PUBLISHED.1 as f64;
    println!("256 rings, early: {early:?}, {ratio:.3} of what was published");
    assert!((0.5..2.0).contains(&ratio), "{early:?} {ratio}");
    assert_eq!((early.buckets, BUFFERS), (1 << 20, 917_504));
    // If the only update comes last, chains are in the order in which the buffers are freed, so there are fewer steps.
    let Counted { steps, .. } = start_and_stop(256, Update::Every(BUFFERS));
    assert!(steps < early.steps / 4, "{steps}");
}
