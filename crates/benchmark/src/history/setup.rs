//! The properties that benches must share to be comparable, as one row of the history.

use crate::document::Document;
use crate::head::Variant;
use recording::{GuestSpec, InputRole, ObserveSpec};
use rusqlite::{Connection, named_params, params};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The properties that benches must share to be comparable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Setup {
    /// Number of the setup in the database.
    pub setup: i64,
    /// Machine type.
    pub machine: String,
    /// `tcg` or `kvm`.
    pub accelerator: String,
    /// Virtual CPUs.
    pub cpus: u32,
    /// Guest memory in bytes.
    pub memory_bytes: u64,
    /// The kernel's command line, as the user gave it.
    pub append: String,
    /// Hash of the initial RAM file system, hexadecimal; empty if there was none.
    pub initrd_sha256: String,
    /// The virtual machine monitor with its version.
    pub vmm: String,
    /// CPU model, number of CPUs and kernel release of the host.
    pub host: String,
    /// The recorder's other options, in its own form.
    pub options: String,
}

impl Setup {
    /// The setup of one variant.
    pub fn of(document: &Document, variant: usize) -> Setup {
        let Some(variant) = document.head.variants.get(variant) else { return Setup::default() };
        let guest = GuestSpec::of(&variant.how).unwrap_or_default();
        let mut options = variant.how.as_object().cloned().unwrap_or_default();
        NOT_IN_OPTIONS.iter().for_each(|name| drop(options.remove(*name)));
        if let Some(milestone) = &document.head.up_to {
            options.insert("up_to".to_owned(), Value::String(milestone.clone()));
        }
        let host = &document.head.host;
        Setup {
            setup: 0,
            machine: guest.machine,
            accelerator: variant.booted.accelerator.clone(),
            cpus: guest.cpus,
            memory_bytes: guest.memory_bytes,
            append: guest.append,
            initrd_sha256: sha256(variant, InputRole::Initrd),
            vmm: variant.booted.vmm.clone(),
            host: format!("{}, {} CPUs, {}", host.cpu, host.cores, host.kernel),
            options: Value::Object(options).to_string(),
        }
    }

    /// True if its boots are deterministic.
    pub fn is_deterministic(&self) -> bool {
        serde_json::from_str::<Value>(&self.options).is_ok_and(|options| options["deterministic"] == true)
    }

    /// The guest's architecture.
    pub fn arch(&self) -> String {
        let options = serde_json::from_str::<Value>(&self.options).unwrap_or_default();
        GuestSpec::of(&options).map(|guest| guest.arch).unwrap_or_default()
    }

    /// Reads a setup by its number.
    pub(super) fn read(db: &Connection, setup: i64) -> rusqlite::Result<Setup> {
        let sql = "SELECT id, machine, accelerator, cpus, memory_bytes, append, initrd_sha256, vmm, host, options
                   FROM setup WHERE id = ?";
        db.query_row(sql, [setup], |row| {
            Ok(Setup {
                setup: row.get(0)?,
                machine: row.get(1)?,
                accelerator: row.get(2)?,
                cpus: row.get(3)?,
                memory_bytes: row.get::<_, i64>(4)?.try_into().unwrap_or(0),
                append: row.get(5)?,
                initrd_sha256: row.get(6)?,
                vmm: row.get(7)?,
                host: row.get(8)?,
                options: row.get(9)?,
            })
        })
    }

    /// The number of this setup, if the history has it.
    pub(super) fn find(&self, db: &Connection) -> rusqlite::Result<Option<i64>> {
        let sql =
            "SELECT id, options FROM setup WHERE machine = :machine AND accelerator = :accelerator AND cpus = :cpus
                   AND memory_bytes = :memory AND append = :append AND initrd_sha256 = :initrd AND vmm = :vmm
                   AND host = :host ORDER BY id";
        let mut select = db.prepare(sql)?;
        let memory = i64::try_from(self.memory_bytes).unwrap_or(i64::MAX);
        let mut rows = select.query(named_params! {
            ":machine": self.machine, ":accelerator": self.accelerator, ":cpus": self.cpus, ":memory": memory,
            ":append": self.append, ":initrd": self.initrd_sha256, ":vmm": self.vmm, ":host": self.host,
        })?;
        while let Some(row) = rows.next()? {
            if same_options(&row.get::<_, String>(1)?, &self.options) {
                return row.get(0).map(Some);
            }
        }
        Ok(None)
    }

    /// The number of this setup; adds it if the history does not have it.
    pub(super) fn find_or_add(&self, db: &Connection) -> rusqlite::Result<i64> {
        if let Some(setup) = self.find(db)? {
            return Ok(setup);
        }
        let memory = i64::try_from(self.memory_bytes).unwrap_or(i64::MAX);
        db.execute(
            "INSERT INTO setup (machine, accelerator, cpus, memory_bytes, append, initrd_sha256, vmm, host, options)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            params![
                self.machine,
                self.accelerator,
                self.cpus,
                memory,
                self.append,
                self.initrd_sha256,
                self.vmm,
                self.host,
                self.options
            ],
        )?;
        Ok(db.last_insert_rowid())
    }
}

/// Options of the recorder that the column `options` leaves out. Some have columns; the kernel may differ; and the boot
/// itself reports the initrd (by hash) and the chosen accelerator more exactly.
const NOT_IN_OPTIONS: [&str; 7] = ["kernel", "initrd", "accel", "machine", "cpus", "memory_bytes", "append"];

/// True if two texts of options mean the same, also if an older version that lacked some options wrote one of them.
fn same_options(one: &str, other: &str) -> bool {
    let specs = |text: &str| {
        let how = serde_json::from_str(text).ok()?;
        GuestSpec::of(&how).zip(ObserveSpec::of(&how))
    };
    one == other || specs(one).is_some_and(|one| Some(one) == specs(other))
}

/// Hash of an input file of a variant's boots. Empty if there was no such file.
pub(super) fn sha256(variant: &Variant, role: InputRole) -> String {
    let input = variant.booted.inputs.iter().find(|input| role.is(&input.role));
    input.map(|input| input.sha256.clone()).unwrap_or_default()
}
