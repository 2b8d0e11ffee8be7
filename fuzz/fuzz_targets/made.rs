//! Makes inputs from the fuzzer's bytes by a format's grammar, and damages them. A mutation of the bytes changes a line or a value,
//! and most inputs are read to their end.

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use serde_json::Value;

const MAX_LINES: usize = 40;
const MAX_DAMAGES: usize = 8;
const MAX_CHANGES: usize = 12;
/// Names that several lines share, so that one line refers to another.
const NAMES: [&str; 12] = [
    "init",
    "web",
    "vold",
    "zygote",
    "early-init",
    "chrome-exec",
    "login-prompt-visible",
    "surfaceflinger",
    "a",
    "",
    "first_stage",
    "\u{1b}[0m",
];
const NUMBERS: [&str; 10] =
    ["0", "1", "7", "80", "4096", "-1", "9223372036854775807", "18446744073709551615", "1e300", "00"];

const HOLES: [&str; 4] = ["n", "t", "T", "w"];

/// Text of a format's lines, and a few of other kinds. In a line, `{n}` is a number, `{t}` and `{T}` are seconds with two and six
/// digits, and `{w}` is a name.
pub fn text(u: &mut Unstructured, lines: &[&str]) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    for _ in 0..u.int_in_range(0..=MAX_LINES)? {
        match u.int_in_range(0..=19)? {
            0 => {
                let length = u.len().min(5);
                text.extend_from_slice(u.bytes(length)?);
            }
            _ => {
                let template = u.choose(lines)?;
                line(u, template, &mut text)?;
            }
        }
        text.push(b'\n');
    }
    damage(u, &mut text)?;
    Ok(text)
}

fn line(u: &mut Unstructured, line: &str, text: &mut Vec<u8>) -> Result<()> {
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('{') {
        text.extend_from_slice(before.as_bytes());
        // Other braces belong to the format.
        match after.split_once('}').filter(|(hole, _)| HOLES.contains(hole)) {
            Some((hole, after)) => {
                text.extend_from_slice(value(u, hole)?.as_bytes());
                rest = after;
            }
            None => {
                text.push(b'{');
                rest = after;
            }
        }
    }
    text.extend_from_slice(rest.as_bytes());
    Ok(())
}

fn value(u: &mut Unstructured, hole: &str) -> Result<String> {
    Ok(match hole {
        "w" => u.choose(&NAMES)?.to_string(),
        "t" => format!("{}.{:02}", u.int_in_range(0..=200u8)?, u.int_in_range(0..=99u8)?),
        "T" => format!("{}.{:06}", u.int_in_range(0..=9u8)?, u.int_in_range(0..=999_999u32)?),
        _ if u.ratio(1, 4)? => u.choose(&NUMBERS)?.to_string(),
        _ => u.int_in_range(0..=300_000u32)?.to_string(),
    })
}

/// Replaces, removes and repeats some bytes.
pub fn damage(u: &mut Unstructured, bytes: &mut Vec<u8>) -> Result<()> {
    // Half of all inputs stay undamaged.
    if u.is_empty() || u.ratio(1, 2)? {
        return Ok(());
    }
    for _ in 0..u.int_in_range(0..=MAX_DAMAGES)? {
        let Some(last) = bytes.len().checked_sub(1) else { break };
        let at = u.int_in_range(0..=last)?;
        match u.int_in_range(0..=3)? {
            0 => bytes[at] = u.arbitrary()?,
            1 => drop(bytes.remove(at)),
            2 => bytes.truncate(at),
            _ => bytes.extend_from_within(at..(at + 64).min(bytes.len())),
        }
    }
    Ok(())
}

/// Puts other values into a document.
pub fn change(u: &mut Unstructured, document: &mut Value) -> Result<()> {
    for _ in 0..u.int_in_range(0..=MAX_CHANGES)? {
        let mut place = &mut *document;
        loop {
            let has_parts = match &*place {
                Value::Array(list) => !list.is_empty(),
                Value::Object(fields) => !fields.is_empty(),
                _ => false,
            };
            if !has_parts || u.ratio(1, 10)? {
                break other_value(u, place)?;
            }
            place = match place {
                Value::Array(list) => u.choose_iter(list)?,
                Value::Object(fields) => u.choose_iter(fields.values_mut())?,
                other => other,
            };
        }
    }
    Ok(())
}

fn other_value(u: &mut Unstructured, place: &mut Value) -> Result<()> {
    *place = match (u.int_in_range(0..=9)?, &*place) {
        (0, _) => Value::Null,
        (1, _) => u.arbitrary::<bool>()?.into(),
        (2, _) => u.arbitrary::<i64>()?.into(),
        (3, _) => u.arbitrary::<f64>()?.into(),
        (4, _) => (*u.choose(&NAMES)?).into(),
        (5, Value::Array(_) | Value::Object(_)) => Value::Array(Vec::new()),
        (5, _) => Value::Array(vec![place.clone(); u.int_in_range(0..=5)?]),
        (6, Value::Array(list)) if list.len() < MAX_LINES => list.iter().chain(list).cloned().collect(),
        (_, Value::Number(_)) => u.int_in_range(0..=1_000_000)?.into(),
        (_, Value::Bool(is_so)) => (!is_so).into(),
        (_, Value::String(text)) => format!("{text}{}", u.arbitrary::<char>()?).into(),
        _ => u.arbitrary::<u64>()?.into(),
    };
    Ok(())
}
