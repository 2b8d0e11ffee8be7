//! Embeds the page's application, which `make build` leaves in `page/dist`. It must not build anything or use the
//! network. If the application is missing, pages have tables but no charts, and say so.

use std::path::Path;
use std::{env, fs};

fn main() {
    // Read at run time: if the build folder was moved or copied, this script was compiled in another place.
    let package = env::var_os("CARGO_MANIFEST_DIR").expect("Cargo sets it");
    let built = Path::new(&package).join("../../page/dist");
    println!("cargo::rerun-if-changed={}", built.display());
    let (script, style) = (built.join("page.js"), built.join("page.css"));
    let application = match script.is_file() && style.is_file() {
        true => format!("Some((include_str!({script:?}), include_str!({style:?})))"),
        false => "None".to_owned(),
    };
    let program = built.join("what-if.wasm.zlib");
    let what_if = if program.is_file() { format!("Some(include_bytes!({program:?}))") } else { "None".to_owned() };
    let code = format!(
        "/// The page's application, as script and style; none where it was not built.\n\
         /// The page's application, as script and style; `None` if it was not built.\n\
         const APPLICATION: Option<(&str, &str)> = {application};\n\
         const WHAT_IF: Option<&[u8]> = {what_if};\n"
    );
    let out = env::var_os("OUT_DIR").expect("Cargo sets it");
    fs::write(Path::new(&out).join("application.rs"), code).expect("Cargo's folder can be written to");
}
