//! illumos bug 12262 on the host, counted as it was counted there: `vk_lookup` of `heap_arena` while a card is stopped.
//! At a sixteenth of its size here; all of it in `cargo bench -p vmem`, and by hand, some minutes:
//! `VMEM_RINGS=256 cargo test --release -p vmem --test illumos -- --nocapture`

mod load;

use load::{BUFFERS, Counted, PUBLISHED, Update, start_and_stop};

fn rings() -> u32 {
    std::env::var("VMEM_RINGS").map_or(16, |text| text.parse().expect("a number"))
}

/// Of as many as were published, for so many rings of 256. Late by the square of their number, early in proportion.
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
    // One early call sees an empty arena, and changes nothing.
    assert_eq!(start_and_stop(rings.min(16), Update::Once), start_and_stop(rings.min(16), Update::Late));
}

/// Of all rings, because how full the table is and where it wraps around goes by size.
#[test]
fn early_takes_as_many_steps_as_published_if_updates_run_so_often() {
    let early = start_and_stop(256, Update::Every(50_000));
    let ratio = early.steps as f64 / PUBLISHED.1 as f64;
    println!("256 rings, early: {early:?}, {ratio:.3} of what was published");
    assert!((0.5..2.0).contains(&ratio), "{early:?} {ratio}");
    assert_eq!((early.buckets, BUFFERS), (1 << 20, 917_504));
    // Where the only update comes last, chains are in the order in which the buffers are freed, and there are fewer.
    let Counted { steps, .. } = start_and_stop(256, Update::Every(BUFFERS));
    assert!(steps < early.steps / 4, "{steps}");
}
