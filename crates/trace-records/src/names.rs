//! Names of a kernel's functions at their run-time addresses.

/// Functions by address.
pub struct Names(Vec<(u64, String)>);

impl Names {
    /// Names of a kernel that runs at `moved_by` bytes from its link address.
    pub fn new(mut functions: Vec<(u64, String)>, moved_by: u64) -> Names {
        functions.iter_mut().for_each(|function| function.0 = function.0.wrapping_add(moved_by));
        functions.sort_unstable();
        Names(functions)
    }

    /// The function's name as the kernel prints it, without its length. Returns the bare address if the function is
    /// unknown, as in a module.
    pub fn function(&self, address: u64, with_offset: bool) -> String {
        /// An upper bound of a function's length. An address further from a function's start is in no known function.
        const MAX_BYTES: u64 = 1 << 20;
        let before = self.0.partition_point(|function| function.0 <= address).checked_sub(1).map(|at| &self.0[at]);
        match before.filter(|function| address - function.0 < MAX_BYTES) {
            Some((_, name)) if !with_offset => name.clone(),
            Some((from, name)) => format!("{name}+{:#x}", address - from),
            None => format!("{address:#x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_named_by_what_begins_before_it() {
        let names = Names::new(vec![(0x2000, "b".to_owned()), (0x1000, "a".to_owned())], 0x10);
        assert_eq!(names.function(0x1010, true), "a+0x0");
        assert_eq!(names.function(0x2018, true), "b+0x8");
        assert_eq!(names.function(0x2018, false), "b");
        assert_eq!(
            (names.function(0x100, true), names.function(1 << 40, true)),
            ("0x100".into(), "0x10000000000".into())
        );
    }
}
