//! Checks a value against a JSON schema. It supports the keywords of the generated schemas, and fails on any other.

use serde_json::{Map, Value};

/// The places where the value does not fit the schema; empty if it fits.
pub fn misfits(schema: &Value, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    Checker { root: schema }.check(schema, value, "", &mut found);
    found
}

/// Keywords for the user, or that are read only through a `$ref`.
const NOT_CHECKED: [&str; 7] = ["$schema", "$defs", "title", "description", "default", "format", "examples"];

struct Checker<'a> {
    root: &'a Value,
}

impl<'a> Checker<'a> {
    /// The schema itself, or the one that it refers to.
    pub fn resolved(&self, schema: &'a Value) -> &'a Value {
        match schema.get("$ref").and_then(Value::as_str) {
            Some(name) => self.root.pointer(name.trim_start_matches('#')).unwrap_or_else(|| panic!("no {name}")),
            None => schema,
        }
    }

    fn check(&self, schema: &'a Value, value: &Value, at: &str, found: &mut Vec<String>) {
        let keywords: &Map<String, Value> = match schema {
            Value::Bool(true) => return,
            Value::Bool(false) => return found.push(format!("{at} is in no schema")),
            Value::Object(keywords) => keywords,
            other => panic!("no schema: {other}"),
        };
        let wrong = |what: String| format!("{at}: {what}: {value}");
        for (keyword, rule) in keywords {
            match keyword.as_str() {
                known if NOT_CHECKED.contains(&known) => {}
                "$ref" => self.check(self.resolved(schema), value, at, found),
                "type" => {
                    let types = rule.as_array().map_or_else(|| vec![rule], |all| all.iter().collect());
                    if !types.iter().any(|name| is(name.as_str().unwrap(), value)) {
                        found.push(format!("{at}: no {rule}: {value}"));
                    }
                }
                "const" if rule != value => found.push(wrong(format!("not {rule}"))),
                "enum" if !rule.as_array().unwrap().contains(value) => found.push(wrong(format!("none of {rule}"))),
                "const" | "enum" => {}
                "minimum" if value.as_f64().is_some_and(|n| n < rule.as_f64().unwrap()) => {
                    found.push(wrong(format!("< {rule}")))
                }
                "maximum" if value.as_f64().is_some_and(|n| n > rule.as_f64().unwrap()) => {
                    found.push(wrong(format!("> {rule}")))
                }
                "minimum" | "maximum" => {}
                "anyOf" | "oneOf" => {
                    let each = rule.as_array().unwrap().iter().map(|one| {
                        let mut own = Vec::new();
                        self.check(one, value, at, &mut own);
                        own
                    });
                    let each: Vec<Vec<String>> = each.collect();
                    let fit = each.iter().filter(|own| own.is_empty()).count();
                    if fit == 0 || (keyword == "oneOf" && fit > 1) {
                        // Report the alternative with the most faults: it is never null, which is not the intended one.
                        found.extend(each.into_iter().max_by_key(Vec::len).unwrap_or_default());
                        found.push(format!("{at}: fits {fit} of {keyword}"));
                    }
                }
                "items" => {
                    for (i, item) in value.as_array().into_iter().flatten().enumerate() {
                        self.check(rule, item, &format!("{at}/{i}"), found);
                    }
                }
                "minItems" | "maxItems" => {
                    let (len, bound) = (value.as_array().map_or(0, Vec::len) as u64, rule.as_u64().unwrap());
                    if (keyword == "minItems" && len < bound) || (keyword == "maxItems" && len > bound) {
                        found.push(wrong(format!("{len} items")));
                    }
                }
                "prefixItems" => {
                    for (i, (one, item)) in rule.as_array().unwrap().iter().zip(value.as_array().unwrap()).enumerate() {
                        self.check(one, item, &format!("{at}/{i}"), found);
                    }
                }
                "required" => {
                    for name in rule.as_array().unwrap().iter().map(|name| name.as_str().unwrap()) {
                        if value.is_object() && value.get(name).is_none() {
                            found.push(format!("{at}/{name} is missing"));
                        }
                    }
                }
                "properties" | "additionalProperties" => {}
                unknown => panic!("{at}: the keyword {unknown} is not known here"),
            }
        }
        // A document must not have fields beyond the schema's properties, since no page would describe them.
        let properties = keywords.get("properties").and_then(Value::as_object);
        let others = keywords.get("additionalProperties");
        if properties.is_some() || others.is_some() {
            for (name, field) in value.as_object().into_iter().flatten() {
                match properties.and_then(|all| all.get(name)).or(others) {
                    Some(one) => self.check(one, field, &format!("{at}/{name}"), found),
                    None => found.push(format!("{at}/{name} is in no schema")),
                }
            }
        }
    }
}

fn is(name: &str, value: &Value) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        unknown => panic!("no type {unknown}"),
    }
}
