//! The schemas in `docs/json.md`, read from the page itself, and checks of documents against them.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The tables of the page by name, and the table of each document.
pub struct Schemas {
    tables: BTreeMap<String, Vec<Field>>,
    documents: BTreeMap<String, String>,
    /// Fields that occurred with a value.
    seen: BTreeSet<String>,
}

struct Field {
    name: String,
    may_be_missing: bool,
    types: String,
}

/// The fields of a metric, each with the table that has it.
fn metric(row: &str) -> Vec<(&'static str, Field)> {
    let cells: Vec<&str> = row.split(" | ").collect();
    let (name, unit, from) = (cells[0].trim_end_matches('`'), cells[1], cells[3]);
    let may_be_missing = from.contains("after the workload") || from.contains("(deterministic boots)");
    let field = |name: String, of: &str| Field { name, may_be_missing, types: format!("{of} or null") };
    let suffix = if unit == "bytes" { "bytes" } else { "ns" };
    let mut fields =
        vec![("VariantRuns", field(name.to_owned(), "Description")), ("EntryMetrics", field(name.to_owned(), "Level"))];
    if !from.contains(" − ") {
        fields.push(("Boot", field(format!("{name}_{suffix}"), "integer")));
    }
    fields
}

impl Schemas {
    /// Reads the page.
    pub fn read() -> Schemas {
        let page = include_str!("../../../../../docs/json.md");
        let (mut tables, mut documents) = (BTreeMap::<String, Vec<Field>>::new(), BTreeMap::new());
        let mut name = String::new();
        for line in page.lines() {
            if let Some((schema, table)) = line.strip_prefix("## `").and_then(|title| title.split_once("`: ")) {
                name = table.to_owned();
                documents.insert(schema.to_owned(), name.clone());
            } else if line.starts_with("## ") {
                // Its tables follow under their own names. A table directly below it lists values, not fields.
                name.clear();
            } else if let Some(table) = line.strip_prefix("### ") {
                name = table.to_owned();
            } else if let Some(row) = line.strip_prefix("| `").filter(|_| name == "Metrics") {
                for (table, field) in metric(row) {
                    tables.entry(table.to_owned()).or_default().push(field);
                }
            } else if let Some(row) = line.strip_prefix("| `").filter(|_| !name.is_empty()) {
                let cells: Vec<&str> = row.split(" | ").collect();
                let (field, optional) = cells[0].split_once('`').unwrap();
                let field =
                    Field { name: field.to_owned(), may_be_missing: optional == "?", types: cells[1].to_owned() };
                tables.entry(name.clone()).or_default().push(field);
            }
        }
        Schemas { tables, documents, seen: BTreeSet::new() }
    }

    /// Checks a document against its schema on the page and the generated one.
    #[track_caller]
    pub fn check(&mut self, document: &Value) {
        let schema = document["schema"].as_str().expect("a document names its schema");
        let table = self.documents.get(schema).unwrap_or_else(|| panic!("{schema} is not on the page")).clone();
        if let Err(wrong) = self.table(document, &table, schema) {
            panic!("{wrong}");
        }
        if let Some((_, generated)) = report::schemas().iter().find(|(name, _)| *name == schema) {
            assert_eq!(super::json_schema::misfits(generated.as_value(), document), [""; 0], "{schema}");
        }
    }

    /// Checks a part of a document against a table.
    #[track_caller]
    pub fn check_part(&mut self, part: &Value, table: &str) {
        if let Err(wrong) = self.table(part, table, table) {
            panic!("{wrong}");
        }
    }

    /// Fields that had no value in any document.
    pub fn unseen(&self) -> Vec<String> {
        let all =
            self.tables.iter().flat_map(|(table, fields)| fields.iter().map(move |f| format!("{table}.{}", f.name)));
        all.filter(|field| !self.seen.contains(field)).collect()
    }

    /// Compares the tables of a document with its generated schema: they must have the same fields, and the same of
    /// them may be missing. Returns the number of tables, or 0 if the page does not have the document.
    #[track_caller]
    pub fn compare(&self, document: &str, schema: &Value) -> usize {
        let Some(table) = self.documents.get(document) else { return 0 };
        let mut compared = BTreeSet::new();
        self.compare_table(table, schema, schema, &mut compared);
        compared.len()
    }

    fn compare_table(&self, table: &str, schema: &Value, root: &Value, compared: &mut BTreeSet<String>) {
        if !compared.insert(table.to_owned()) {
            return;
        }
        let required = |name: &str| schema["required"].as_array().is_some_and(|all| all.iter().any(|n| n == name));
        let Some(properties) = schema["properties"].as_object() else { return };
        let documented: BTreeMap<&str, bool> =
            self.tables[table].iter().map(|f| (&*f.name, !f.may_be_missing)).collect();
        let typed: BTreeMap<&str, bool> = properties.keys().map(|name| (&**name, required(name))).collect();
        assert_eq!(
            documented, typed,
            "the page's {table} (left) and its type: fields, and whether they are always there"
        );
        for field in &self.tables[table] {
            let one = field.types.split(" or ").next().unwrap();
            let one = one.trim_start_matches("list of ").trim_start_matches("map of ");
            if self.tables.contains_key(one) {
                self.compare_table(one, object_of(&properties[&field.name], root), root, compared);
            }
        }
    }

    fn table(&mut self, value: &Value, table: &str, at: &str) -> Result<(), String> {
        let object = value.as_object().ok_or_else(|| format!("{at} is no {table}: {value}"))?;
        let fields = self.tables.get(table).ok_or_else(|| format!("{at}: the page has no table {table}"))?;
        let known: Vec<(String, bool, String)> =
            fields.iter().map(|f| (f.name.clone(), f.may_be_missing, f.types.clone())).collect();
        if let Some(name) = object.keys().find(|key| !known.iter().any(|(name, ..)| name == *key)) {
            return Err(format!("{at}.{name} is not on the page"));
        }
        for (name, may_be_missing, types) in known {
            match object.get(&name) {
                None if may_be_missing => {}
                None => return Err(format!("{at}.{name} is missing")),
                Some(found) => {
                    self.any_of(found, &types, &format!("{at}.{name}"))?;
                    if !found.is_null() {
                        self.seen.insert(format!("{table}.{name}"));
                    }
                }
            }
        }
        Ok(())
    }

    fn any_of(&mut self, value: &Value, types: &str, at: &str) -> Result<(), String> {
        let mut wrong = String::new();
        for one in types.split(" or ") {
            match self.of(value, one, at) {
                Ok(()) => return Ok(()),
                Err(why) => wrong = why,
            }
        }
        // For "X or null" use the reason of X.
        let main = types.split(" or ").next().unwrap_or(types);
        Err(if types.ends_with(" or null") { self.of(value, main, at).err().unwrap_or(wrong) } else { wrong })
    }

    fn of(&mut self, value: &Value, one: &str, at: &str) -> Result<(), String> {
        if let Some(of) = one.strip_prefix("list of ") {
            let all = value.as_array().ok_or_else(|| format!("{at} is no list: {value}"))?;
            return all.iter().try_for_each(|item| self.of(item, of, &format!("{at}[]")));
        }
        if let Some(of) = one.strip_prefix("map of ") {
            let all = value.as_object().ok_or_else(|| format!("{at} is no map: {value}"))?;
            return all.iter().try_for_each(|(key, item)| self.of(item, of, &format!("{at}[{key}]")));
        }
        let right = match one {
            "text" => value.is_string(),
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            "truth" => value.is_boolean(),
            "null" => value.is_null(),
            "any" => true,
            table => return self.table(value, table, at),
        };
        if right { Ok(()) } else { Err(format!("{at} is no {one}: {value}")) }
    }
}

/// The schema of the objects in a field: the field itself, its items, or its type other than null.
fn object_of<'a>(schema: &'a Value, root: &'a Value) -> &'a Value {
    if let Some(name) = schema["$ref"].as_str() {
        return object_of(root.pointer(name.trim_start_matches('#')).unwrap(), root);
    }
    let inner = schema.get("items").or_else(|| schema.get("additionalProperties").filter(|one| one.is_object()));
    let inner = inner.or_else(|| schema["anyOf"].as_array().map(|all| &all[0]));
    inner.map_or(schema, |inner| object_of(inner, root))
}
