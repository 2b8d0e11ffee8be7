//! Generates dispatch functions from a description of an interface, with logging in them.
//!
//! FreeBSD's `makeobjops.awk` has this role. Drivers implement methods, all other code calls the generated functions. So
//! one line in the description logs every call. A description looks like this:
//!
//! ```text
//! # A comment. A comment right before a METHOD becomes its documentation.
//! INTERFACE device;
//!
//! # True if the hardware is there.
//! METHOD probe(device: &Device) -> Option<Fit>
//!     LOG "DEVICE_PROBE" Probe device.driver.name;
//! ```
//!
//! `LOG` has the logged name, the kind of place on the command line, and an expression for the detail. A method without
//! `LOG` is not logged. The result has a table of methods, `DeviceMethods`, and a function for each method, `device_probe`.

use std::fmt::{self, Write};

/// An error in a description.
#[derive(Debug, PartialEq)]
pub struct Malformed {
    line: usize,
    what: String,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

struct Method<'a> {
    comment: Vec<&'a str>,
    name: &'a str,
    /// Name and type of each argument: `device: &Device`.
    arguments: Vec<(&'a str, &'a str)>,
    result: &'a str,
    log: Option<[&'a str; 3]>,
}

/// Generates the Rust code for a description.
pub fn generate(description: &str) -> Result<String, Malformed> {
    let (interface, methods) = parse(description)?;
    let table = format!("{}{}Methods", interface[..1].to_uppercase(), &interface[1..]);
    let mut code = format!("/// What a driver implements of the interface `{interface}`.\npub struct {table} {{\n");
    for method in &methods {
        write_comment(&mut code, "    ", &method.comment);
        let types: Vec<&str> = method.arguments.iter().map(|(_, kind)| *kind).collect();
        let _ = writeln!(code, "    pub {}: fn({}) -> {},", method.name, types.join(", "), method.result);
    }
    code.push_str("}\n");
    methods.iter().for_each(|method| write_function(&mut code, interface, &table, method));
    Ok(code)
}

fn write_comment(code: &mut String, indent: &str, comment: &[&str]) {
    comment.iter().for_each(|line| _ = writeln!(code, "{indent}/// {line}"));
}

fn write_function(code: &mut String, interface: &str, table: &str, method: &Method) {
    let arguments: String = method.arguments.iter().map(|(name, kind)| format!(", {name}: {kind}")).collect();
    let names: Vec<&str> = method.arguments.iter().map(|(name, _)| *name).collect();
    code.push('\n');
    write_comment(code, "", &method.comment);
    let _ = writeln!(code, "#[inline(never)]");
    let _ = writeln!(code, "pub fn {interface}_{}(methods: &{table}{arguments}) -> {} {{", method.name, method.result);
    if let Some([name, place, detail]) = method.log {
        let _ = writeln!(code, "    let detail: &'static str = {detail};");
        let _ = writeln!(code, "    tslog::enter!({name}, detail);");
        let _ = writeln!(code, "    crate::script::at(lab::switches::Kind::{place}, detail);");
    }
    let _ = writeln!(code, "    let result = (methods.{})({});", method.name, names.join(", "));
    if let Some([name, ..]) = method.log {
        let _ = writeln!(code, "    tslog::exit!({name}, detail);");
    }
    code.push_str("    result\n}\n");
}

fn parse(description: &str) -> Result<(&str, Vec<Method<'_>>), Malformed> {
    let (mut interface, mut methods, mut comment) = (None, Vec::new(), Vec::new());
    let mut lines = description.lines().enumerate().map(|(i, text)| (i + 1, text.trim()));
    while let Some((line, text)) = lines.next() {
        let malformed = |what: &str| Malformed { line, what: format!("{what}: {text}") };
        if text.is_empty() {
            comment.clear();
        } else if let Some(words) = text.strip_prefix('#') {
            comment.push(words.trim());
        } else if let Some(rest) = text.strip_prefix("INTERFACE ") {
            interface = rest.strip_suffix(';').filter(|name| !name.is_empty());
        } else if let Some(rest) = text.strip_prefix("METHOD ") {
            let (signature, log) = match rest.strip_suffix(';') {
                Some(signature) => (signature, None),
                None => {
                    let (_, next) = lines.next().ok_or_else(|| malformed("a LOG line or a semicolon is missing"))?;
                    (rest, Some(log(next).ok_or_else(|| malformed("the line after this is no LOG line"))?))
                }
            };
            let comment = std::mem::take(&mut comment);
            methods.push(method(signature, comment, log).ok_or_else(|| malformed("not name(arguments) -> result"))?);
        } else {
            return Err(malformed("neither INTERFACE nor METHOD"));
        }
    }
    let interface = interface.ok_or_else(|| Malformed { line: 1, what: "INTERFACE name; is missing".to_owned() })?;
    Ok((interface, methods))
}

fn method<'a>(signature: &'a str, comment: Vec<&'a str>, log: Option<[&'a str; 3]>) -> Option<Method<'a>> {
    let (name, rest) = signature.split_once('(')?;
    let (arguments, result) = rest.rsplit_once(") -> ")?;
    let pairs = arguments.split(", ").map(|argument| argument.split_once(": "));
    Some(Method { comment, name, arguments: pairs.collect::<Option<_>>()?, result, log })
}

fn log(line: &str) -> Option<[&str; 3]> {
    let mut words = line.strip_prefix("LOG ")?.strip_suffix(';')?.splitn(3, ' ');
    Some([words.next()?, words.next()?, words.next()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logged_method_logs_around_the_call() {
        let code = generate(
            "INTERFACE bus;\n\n# Looks.\nMETHOD scan(bus: &Bus, at: u8) -> bool\n  LOG \"SCAN\" Probe bus.name;\n",
        );
        let code = code.unwrap();
        assert!(
            code.contains("pub struct BusMethods {\n    /// Looks.\n    pub scan: fn(&Bus, u8) -> bool,\n}"),
            "{code}"
        );
        assert!(code.contains("pub fn bus_scan(methods: &BusMethods, bus: &Bus, at: u8) -> bool {"), "{code}");
        let place = |text| code.find(text).unwrap_or_else(|| panic!("{text}: {code}"));
        let enter = place("enter!(\"SCAN\", detail)");
        let call = place("(methods.scan)(bus, at)");
        assert!(enter < call && call < place("exit!(\"SCAN\", detail)"));
    }

    #[test]
    fn a_method_without_log_is_only_called() {
        let code = generate("INTERFACE a;\nMETHOD b(c: u8) -> ();").unwrap();
        assert!(code.contains("let result = (methods.b)(c);") && !code.contains("tslog"), "{code}");
    }

    #[test]
    fn an_error_has_its_line() {
        let check = |text, line, what: &str| {
            let error = generate(text).unwrap_err();
            assert_eq!((error.line, error.what.contains(what)), (line, true), "{error}");
        };
        check("", 1, "INTERFACE");
        check("INTERFACE a;\nMETHOD b(c: u8)\n", 2, "LOG line or a semicolon");
        check("INTERFACE a;\nMETHOD b(c: u8) -> u8\nMETHOD", 2, "no LOG line");
        check("INTERFACE a;\n\nMETHOD b -> u8;", 3, "arguments");
        check("INTERFACE a;\nfoo", 2, "neither");
    }
}
