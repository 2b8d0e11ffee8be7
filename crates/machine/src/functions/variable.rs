//! A variable that is read where functions are entered, and the file of its values.

use std::fmt::Write;

use recording::Watched;

use super::code::{Code, Found, Function};
use crate::debug_info::Place;
use crate::refusal::Text;

/// Upper bound for the stops at which the variable is read. Each stop takes the guest about a millisecond.
const MAX_STOPS: usize = 2000;

/// The variable's place, the functions where it is read, and its values.
#[derive(Clone, Debug)]
pub(crate) struct Variable {
    name: String,
    pub(crate) address: u64,
    /// Offsets behind the pointers on the way: the pointer that is read at each place plus this offset is the next place.
    pub(crate) behind: Vec<u64>,
    pub(crate) bytes: usize,
    is_signed: bool,
    pub(crate) functions: Vec<Function>,
    stops: Vec<Stop>,
}

/// The variable's value at one stop.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stop {
    at_ns: i64,
    stood_ns: i64,
    function: String,
    /// `None` if nothing is mapped there.
    value: Option<u64>,
}

impl Variable {
    /// Finds the variable.
    ///
    /// # Errors
    /// If the variable, its size or a function is not known. The message says what to write.
    pub(crate) fn of(watched: &Watched, code: &Code) -> Result<Variable, Text> {
        let name = &watched.variable;
        let is_whole = watched.offset == 0 && watched.bytes.is_none();
        let Found { address: start, size, place } = code.variable(name, is_whole)?;
        if let Some(place) = place {
            return Ok(Variable::placed(watched, code, start, place)?);
        }
        let whole = size.filter(|_| watched.offset == 0).and_then(|size| u8::try_from(size).ok());
        let bytes = watched.bytes.or(whole.filter(|bytes| [1, 2, 4, 8].contains(bytes)));
        let bytes = bytes.ok_or_else(|| match size {
            Some(size) => format!("{name} has {size} bytes: say which to read, {name}+0x0:8 for its first eight"),
            None => format!("nothing says how many bytes {name} has: write {name}:8, or as many as it has"),
        })?;
        if size.is_some_and(|size| watched.offset.saturating_add(bytes.into()) > size) {
            return Err(format!("{name} has {} bytes: +{:#x} is not in it", size.unwrap_or(0), watched.offset).into());
        }
        let address = start.wrapping_add(watched.offset);
        Ok(Variable::new(watched, address, bytes, entered(watched, code)?))
    }

    /// A variable whose place and size come from debug information.
    fn placed(watched: &Watched, code: &Code, start: u64, place: Place) -> Result<Variable, String> {
        let name = &watched.variable;
        if watched.offset > 0 {
            return Err(format!("{name} is a field: leave out +{:#x}, or write VAR+0xOFF:BYTES", watched.offset));
        }
        if let Some(bytes) = watched.bytes.filter(|bytes| *bytes > place.bytes) {
            return Err(format!("{name} has {} bytes, and not {bytes}: leave out :{bytes}", place.bytes));
        }
        let bytes = watched.bytes.unwrap_or(place.bytes);
        let is_signed = place.is_signed && bytes == place.bytes;
        let variable = Variable::new(watched, start.wrapping_add(place.offset), bytes, entered(watched, code)?);
        Ok(Variable { behind: place.behind, is_signed, ..variable })
    }

    fn new(watched: &Watched, address: u64, bytes: u8, functions: Vec<Function>) -> Variable {
        let name = watched.to_string().rsplit_once('@').map(|(name, _)| name.to_owned()).unwrap_or_default();
        let (behind, stops) = (Vec::new(), Vec::new());
        Variable { name, address, behind, bytes: bytes.into(), is_signed: false, functions, stops }
    }

    /// True if the variable is still read at the entry of this function.
    pub(crate) fn is_read_at(&self, address: u64) -> bool {
        self.stops.len() < MAX_STOPS && self.functions.iter().any(|function| function.address == address)
    }

    /// Takes the memory that was read where a function was entered.
    pub(crate) fn take(&mut self, function: &str, at_ns: i64, memory: &[u8]) {
        let mut value = [0; 8];
        let is_whole = memory.len() == self.bytes && memory.len() <= value.len();
        if is_whole {
            value[..memory.len()].copy_from_slice(memory);
        }
        let unused_bits = 64 - 8 * self.bytes.clamp(1, 8);
        let value = is_whole.then(|| match u64::from_le_bytes(value) {
            value if self.is_signed => {
                let extended = i64::from_le_bytes((value << unused_bits).to_le_bytes()) >> unused_bits;
                u64::from_le_bytes(extended.to_le_bytes())
            }
            value => value,
        });
        self.stops.push(Stop { at_ns, stood_ns: 0, function: function.to_owned(), value });
    }

    /// Sets the time for which the vCPUs stood still at the last stop.
    pub(crate) fn set_stood_ns(&mut self, stood_ns: i64) {
        self.stops.iter_mut().last().into_iter().for_each(|stop| stop.stood_ns = stood_ns);
    }

    /// The file: a header with the request, then one line for each stop. The reader of `watch.txt` documents the format.
    pub(crate) fn text(&self) -> String {
        let mut out = format!("# bootscope watch 1\n# variable {}\n", one_line(&self.name));
        if self.is_signed {
            out.push_str("# signed it has a sign: VALUE is its two's complement in 64 bits\n");
        }
        for function in &self.functions {
            writeln!(out, "# function {}", one_line(&function.name)).expect("a String takes all");
        }
        if self.stops.len() == MAX_STOPS {
            writeln!(out, "# note it was not read again after {MAX_STOPS} stops").expect("a String takes all");
        }
        out.push_str("# at-ns stood-ns value function\n");
        for Stop { at_ns, stood_ns, function, value } in &self.stops {
            let value = value.map_or("-".to_owned(), |value| value.to_string());
            writeln!(out, "{at_ns} {stood_ns} {value} {}", one_line(function)).expect("a String takes all");
        }
        out
    }
}

/// The functions at whose entries the variable is read.
fn entered(watched: &Watched, code: &Code) -> Result<Vec<Function>, String> {
    watched.functions.iter().map(|name| code.find(name)).collect()
}

/// Replaces control characters, which a user's name may have.
fn one_line(name: &str) -> String {
    name.replace(char::is_control, "?")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A variable of two bytes, read where these functions are entered.
    pub(crate) fn of_two_bytes(address: u64, functions: Vec<Function>) -> Variable {
        let watched: Watched = "n:2@f".parse().unwrap();
        Variable::new(&watched, address, 2, functions)
    }

    #[test]
    fn each_stop_is_a_line() {
        let function = |name: &str, address| Function { name: name.to_owned(), address, end: address + 8 };
        let functions = vec![function("f", 0x1000), function("g\n1 2 3 g", 0x2000)];
        let mut watched = Variable::new(&"n:4@f".parse().unwrap(), 0x9000, 4, functions);
        watched.take("f", 5_000_000, &[3, 0, 0, 0]);
        watched.set_stood_ns(1_500_000);
        watched.take("f", 9_000_000, &[0, 1, 0, 0]);
        watched.take("f", 9_500_000, &[]);
        let text = "\
# bootscope watch 1
# variable n:4
# function f
# function g?1 2 3 g
# at-ns stood-ns value function
5000000 1500000 3 f
9000000 0 256 f
9500000 0 - f
";
        assert_eq!(watched.text(), text);
        assert!(watched.is_read_at(0x2000) && !watched.is_read_at(0x2001));
        (0..MAX_STOPS).for_each(|_| watched.take("f", 0, &[0; 4]));
        assert!(!watched.is_read_at(0x2000));
    }

    #[test]
    fn a_number_with_a_sign_keeps_it() {
        let mut watched = Variable::new(&"n@f".parse().unwrap(), 0x9000, 4, Vec::new());
        watched.is_signed = true;
        watched.take("f", 5, &[0xfb, 0xff, 0xff, 0xff]);
        watched.take("f", 6, &[5, 0, 0, 0]);
        let text = watched.text();
        assert!(
            text.contains("\n# signed ") && text.contains(&format!("\n5 0 {} f\n6 0 5 f\n", u64::MAX - 4)),
            "{text}"
        );
    }

    #[test]
    fn a_note_says_that_the_last_stop_was_reached() {
        let mut watched = Variable::new(&"n@f".parse().unwrap(), 0x9000, 1, Vec::new());
        (1..MAX_STOPS).for_each(|_| watched.take("f", 0, &[0]));
        assert!(!watched.text().contains("# note"));
        watched.take("f", 0, &[0]);
        assert!(watched.text().contains("\n# note it was not read again after 2000 stops\n"));
    }
}
